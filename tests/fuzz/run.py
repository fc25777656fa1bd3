"""Runs a target on its corpus, or on damage to it: ``python -m tests.fuzz`` by coverage, unit tests by chance.

A target is a module in ``tests/fuzz/targets``; its ``target(data)`` fails where plimsoll has a defect. Its corpus is
``tests/fuzz/corpus/NAME``: samples, and every input that once found a defect.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from tests.fuzz.mutate import mutated

HERE = Path(__file__).parent
TARGETS = tuple(sorted(path.stem for path in (HERE / "targets").glob("[!_]*.py")))
SECONDS, SECONDS_A_MEBIBYTE = 3.0, 20.0
"""Processor time that an input may take, beside other work: what is linear takes a tenth of it."""

SHARES = {"database": 0.1, "state_files": 4}
"""How many times as many executions as others a target has: the one is slow, the other is for a dozen files."""

Target = Callable[[bytes], None]


def target_named(name: str) -> Target:
    target: Target = import_module(f"tests.fuzz.targets.{name}").target
    return bounded(target)


def bounded(target: Target) -> Target:
    """Fails where the target takes too long, too."""

    def run(data: bytes) -> None:
        begun = time.thread_time()
        target(data)
        took, most = time.thread_time() - begun, SECONDS + SECONDS_A_MEBIBYTE * len(data) / 2**20
        assert took < most, f"{len(data)} bytes took {took:.1f} s, and may take {most:.1f} s"

    return run


def corpus(name: str) -> dict[str, bytes]:
    """By the name of the file."""
    return {path.name: path.read_bytes() for path in sorted((HERE / "corpus" / name).iterdir())}


def texts(samples: Sequence[bytes]) -> list[str]:
    return [sample.decode("utf-8", "replace") for sample in samples]


def by_chance(name: str, number: int) -> None:
    """So many damaged inputs, drawn by a seed of their own. Raises ``Found`` with the input that fails."""
    target, samples = target_named(name), list(corpus(name).values())
    others = texts(samples)
    with silence():
        for seed in range(math.ceil(number * SHARES.get(name, 1))):
            chance = random.Random(f"{name} {seed}")
            data = mutated(chance.choice(samples), chance, others)
            try:
                target(data)
            except Exception as error:
                raise Found(name, data) from error


@contextmanager
def silence() -> Iterator[None]:
    """Without warnings of what is left out of a damaged file."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class Found(Exception):
    """An input that fails."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(f"target {name} fails with {data[:2000]!r}{'…' if len(data) > 2000 else ''}")
        self.data = data
