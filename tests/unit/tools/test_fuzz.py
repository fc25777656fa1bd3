"""A share of the fuzzing: every sample and every input that once found a defect, and some damage to each."""

from __future__ import annotations

import random

import pytest

from tests import depth
from tests.fuzz import run
from tests.fuzz.mutate import LONGEST, mutated

TARGETS = pytest.mark.parametrize("name", run.TARGETS)
NUMBER = depth.count(quick=40, landing=300, soak=3000)


@TARGETS
def test_every_sample_and_every_past_finding_is_read_right_or_refused(name: str) -> None:
    target = run.target_named(name)
    for data in run.corpus(name).values():
        target(data)


@TARGETS
def test_what_is_damaged_is_read_right_or_refused(name: str) -> None:
    run.by_chance(name, NUMBER)


def test_an_input_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SECONDS", -1.0)
    with pytest.raises(AssertionError, match="0 bytes took"):
        run.bounded(lambda data: None)(b"")


def test_damage_is_the_same_for_the_same_seed_and_never_too_long() -> None:
    samples = [data for name in run.TARGETS for data in run.corpus(name).values()]
    for seed, data in enumerate(samples):
        first, second = (mutated(data, random.Random(seed), run.texts(samples)) for _ in range(2))
        assert first == second
        assert len(first) <= LONGEST
