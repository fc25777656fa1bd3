"""Faults of QoS specs are found where they are, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.catalogue.qosspec import Evaluation, QosSpec, evaluate
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.qos.lint import lint
from tests import golden
from tests.unit.values import NINETEEN, SIX, examples, possible_numbers

Keys = Mapping[str, str | None]


def a_spec(keys: Keys, consumer: str = "front-end") -> QosSpec:
    return QosSpec(id="8b6f3a52-0d39-4a57-9a3e-4c1f3f6a2b10", name="gold", consumer=consumer, keys=keys)


def faults(kind: str, text: str) -> str:
    low = kind == "low"
    spec = a_spec(json.loads(text), "front-end" if low else kind)
    found = lint(spec) if low else lint(spec, {"iops": 0, "bytes": 0})
    assert len({(fault.key, fault.code) for fault in found}) == len(found), "each is told once"
    assert {fault.spec for fault in found} <= {"gold"}
    return "\n".join(
        f"{fault.key or 'the spec'}: {fault.severity} {fault.code}: {dict(fault.facts)}" for fault in found
    )


def test_each_spec_has_the_faults_of_the_golden_file() -> None:
    golden.transcript("qos_lint.txt", faults)


_ENDINGS = ("", "_max", "_max_length", "_per_gb", "_per_gb_min")
_TEXTS: list[str | None] = [None, "", "0", "1", "9", "500", "+500", "501", "5 ", "1_0", "5.0", "-5", "x", "1" * 16]
_any_keys = st.dictionaries(
    st.sampled_from([*(f"{base}{end}" for base in SIX for end in _ENDINGS), "size_iops_sec"]),
    st.sampled_from(_TEXTS),
    max_size=6,
)


@given(_any_keys, st.integers(1, 16384))
@examples
def test_a_spec_that_no_volume_can_be_attached_with_has_an_error(keys: dict[str, str | None], gib: int) -> None:
    severities = {fault.severity for fault in lint(a_spec(keys))}
    if isinstance(evaluate(a_spec(keys), gib), Unknown):
        assert "error" in severities


@given(_any_keys, st.integers(1, 16384))
@examples
def test_a_spec_without_error_does_what_each_of_its_keys_says(keys: dict[str, str | None], gib: int) -> None:
    if any(fault.severity == "error" for fault in lint(a_spec(keys))):
        return
    evaluated = evaluate(a_spec(keys), gib)
    assert isinstance(evaluated, Evaluation)
    scaled = {row.parameter for row in evaluated.arithmetic}
    for key, text in keys.items():
        if key in NINETEEN and key.removesuffix("_max") not in scaled and int(text or 0) > 1:
            assert getattr(evaluated.limits, key) == int(text or 0)


@given(possible_numbers)
@examples
def test_limits_that_qemu_takes_are_no_error_when_a_spec_says_them(numbers: dict[str, int]) -> None:
    said = {name: str(number) for name, number in Limits.from_mapping(numbers).full_set().items() if number}
    assert not said or "error" not in {fault.severity for fault in lint(a_spec(said))}
