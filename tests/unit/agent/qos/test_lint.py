"""Faults of QoS specs are found where they are, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.catalogue.qosspec import Evaluation, QosSpec, evaluate
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.qos.lint import LintCode, lint
from tests.unit.values import NINETEEN, SIX, examples, possible_numbers

Keys = Mapping[str, str | None]


def a_spec(keys: Keys, consumer: str = "front-end") -> QosSpec:
    return QosSpec("8b6f3a52-0d39-4a57-9a3e-4c1f3f6a2b10", "gold", consumer, keys)


def found(keys: Keys, consumer: str = "front-end") -> set[tuple[str | None, LintCode]]:
    faults = [(fault.key, fault.code) for fault in lint(a_spec(keys, consumer), {"iops": 0, "bytes": 0})]
    assert len(faults) == len(set(faults)), "each is told once"
    return set(faults)


RATE: dict[str, str | None] = {"total_iops_sec": "500"}
BURST = RATE | {"total_iops_sec_max": "1000"}
PER_GB: dict[str, str | None] = {"total_iops_sec_per_gb": "30"}
PEAK, CAPACITY = "plimsoll:total_iops_sec_max", "plimsoll:capacity"
CREDITS = {PEAK: "3000", CAPACITY: "5400000"}

_ONE_FAULT: list[tuple[Keys, str, LintCode]] = [
    (RATE | {"group_name": "g"}, "group_name", LintCode.GROUP_NAME),
    (RATE | {PEAK: "3000"}, PEAK, LintCode.CREDITS),
    (RATE | {CAPACITY: "3000"}, CAPACITY, LintCode.CREDITS),
    (RATE | CREDITS | {CAPACITY: "many"}, PEAK, LintCode.CREDITS),
    (RATE | CREDITS | {CAPACITY: "2999"}, PEAK, LintCode.CREDITS),
    (BURST | CREDITS, PEAK, LintCode.CREDITS),
    (RATE | CREDITS | {"size_iops_sec": "4096"}, PEAK, LintCode.CREDITS),
    (RATE | {"plimsoll:capacty": "9"}, "plimsoll:capacty", LintCode.UNKNOWN_KEY),
    (RATE | {"read_bytes_sec": None}, "read_bytes_sec", LintCode.NO_VALUE),
    (RATE | {"read_bytes_sec": ""}, "read_bytes_sec", LintCode.NO_VALUE),
    ({"total_iops_sec_per_gb": None}, "total_iops_sec_per_gb", LintCode.NO_VALUE),
    (PER_GB | {"total_iops_sec_per_gb_min": ""}, "total_iops_sec_per_gb_min", LintCode.NO_VALUE),
    ({"total_iops_sec": "5.0"}, "total_iops_sec", LintCode.NOT_A_NUMBER),
    ({"total_iops_sec": "1_000"}, "total_iops_sec", LintCode.NOT_A_NUMBER),
    (RATE | {"total_iops_sec_max": "1k"}, "total_iops_sec_max", LintCode.NOT_A_NUMBER),
    (BURST | {"total_iops_sec_max_length": "1m"}, "total_iops_sec_max_length", LintCode.NOT_A_NUMBER),
    (RATE | {"size_iops_sec": "4k"}, "size_iops_sec", LintCode.NOT_A_NUMBER),
    ({"total_iops_sec": "5k", "total_iops_sec_max": "900"}, "total_iops_sec", LintCode.NOT_A_NUMBER),
    ({"total_iops_sec": "-5"}, "total_iops_sec", LintCode.NEGATIVE),
    ({"total_iops_sec_per_gb": "-5"}, "total_iops_sec_per_gb", LintCode.NEGATIVE),
    ({"total_iops_sec": str(10**15 + 1)}, "total_iops_sec", LintCode.TOO_LARGE),
    (BURST | {"total_iops_sec_max_length": str(10**13)}, "total_iops_sec_max_length", LintCode.TOO_LARGE),
    (BURST | {"total_iops_sec_max_length": str(10**16)}, "total_iops_sec_max_length", LintCode.TOO_LARGE),
    ({"total_iops_sec": "0"}, "total_iops_sec", LintCode.ZERO),
    (RATE | {"total_iops_sec_max": "0"}, "total_iops_sec_max", LintCode.ZERO),
    ({"total_iops_sec_per_gb": "0"}, "total_iops_sec_per_gb", LintCode.ZERO),
    (PER_GB | {"total_iops_sec_max": "0"}, "total_iops_sec_max", LintCode.ZERO_MAX),
    (PER_GB | {"total_iops_sec_max": "900"}, "total_iops_sec_max", LintCode.MAX_IS_CEILING),
    (PER_GB | {"total_iops_sec": "900"}, "total_iops_sec", LintCode.BASE_OVERWRITTEN),
    (RATE | {"total_iops_sec_per_gb_min": "9"}, "total_iops_sec_per_gb_min", LintCode.MIN_WITHOUT_PER_GB),
    ({"total_iops_sec_max": "900"}, "total_iops_sec_max", LintCode.MAX_WITHOUT_BASE),
    (RATE | {"total_iops_sec_max": "499"}, "total_iops_sec_max", LintCode.MAX_BELOW_BASE),
    (RATE | {"total_iops_sec_max_length": "9"}, "total_iops_sec_max_length", LintCode.LENGTH_WITHOUT_MAX),
    (PER_GB | {"total_iops_sec_max_length": "9"}, "total_iops_sec_max_length", LintCode.LENGTH_WITHOUT_MAX),
    (BURST | {"total_iops_sec_max_length": "9"}, "total_iops_sec_max_length", LintCode.LENGTH_ONLY_HERE),
    (RATE | {"read_iops_sec": "5"}, "total_iops_sec", LintCode.TOTAL_AND_PART),
    (PER_GB | {"write_iops_sec": "5"}, "total_iops_sec_per_gb", LintCode.TOTAL_AND_PART),
    (RATE | {"write_iops_sec_per_gb": "5"}, "total_iops_sec", LintCode.TOTAL_AND_PART),
    ({"read_iops_sec": "5"}, "read_iops_sec", LintCode.ONE_DIRECTION),
    (RATE | {"write_bytes_sec_per_gb": "5"}, "write_bytes_sec_per_gb", LintCode.ONE_DIRECTION),
    ({"read_iops_sec": "5", "write_iops_sec": "0"}, "write_iops_sec", LintCode.ZERO),
    ({"total_bytes_sec": "5", "size_iops_sec": "4096"}, "size_iops_sec", LintCode.SIZE_WITHOUT_IOPS),
    (RATE | {"size_iops_sec": "1000"}, "size_iops_sec", LintCode.SIZE_IS_NO_SIZE),
    (RATE | {"size_iops_sec": "104857600"}, "size_iops_sec", LintCode.SIZE_IS_NO_SIZE),
]


@pytest.mark.parametrize(("keys", "key", "code"), _ONE_FAULT, ids=lambda given: repr(given)[:60])
def test_a_spec_with_one_fault_is_told_just_that_one(keys: Keys, key: str, code: LintCode) -> None:
    assert found(keys) == {(key, code)}


def test_bursts_of_total_and_read_exclude_each_other_as_their_limits_do() -> None:
    keys = {"total_bytes_sec_max": "9", "read_bytes_sec_max": "9", "read_bytes_sec": "9"}
    assert ("total_bytes_sec_max", LintCode.TOTAL_AND_PART) in found(keys)
    ceiling = {"total_bytes_sec_per_gb": "9", "total_bytes_sec_max": "9", "read_bytes_sec_max": "9"}
    assert LintCode.TOTAL_AND_PART not in {code for _, code in found(ceiling)}, "there it is no burst"
    removed = PER_GB | {"total_iops_sec_max": "0", "read_iops_sec": "9"}
    assert found(removed) == {("total_iops_sec_max", LintCode.ZERO_MAX)}, "nothing is left that could exclude"


def test_what_is_zero_or_null_excludes_nothing() -> None:
    for nothing in ("0", None, ""):
        assert LintCode.TOTAL_AND_PART not in {code for _, code in found(RATE | {"read_iops_sec": nothing})}


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("total_iop_sec", "total_iops_sec"),
        ("total_iops", "total_iops_sec"),
        ("read_byte_sec", "read_bytes_sec"),
        ("Read_IOPS_sec", "read_iops_sec"),
        ("read-iops-sec-max", "read_iops_sec_max"),
        ("read_iops_sec ", "read_iops_sec"),
        ("write_iops_sec_pergb", "write_iops_sec_per_gb"),
        ("total_iops_sec_per_gb_minimum", "total_iops_sec_per_gb_min"),
        ("total_iops_sec_max_lenght", "total_iops_sec_max_length"),
        ("quota:disk_write_bytes_sec", "write_bytes_sec"),
        ("iops_rd_max", "read_iops_sec_max"),
        ("maxIOPS", None),
    ],
)
def test_a_misspelled_key_is_found_with_the_one_that_was_meant(key: str, nearest: str | None) -> None:
    (fault,) = lint(a_spec(RATE | {key: "5"}))
    assert (fault.spec, fault.key, fault.code, fault.severity) == ("gold", key, LintCode.UNKNOWN_KEY, "error")
    assert fault.facts["nearest"] == nearest


def test_a_consumer_for_which_nova_is_not_told_is_the_one_fault() -> None:
    mistakes = {"total_iop_sec": "5", "read_iops_sec": None}
    assert found(mistakes, "back-end") == {(None, LintCode.BACK_END)}
    assert found(mistakes, "frontend") == {(None, LintCode.UNKNOWN_CONSUMER)}


def test_both_throttles_twice_on_rbd_and_its_other_faults_are_found_too() -> None:
    assert found(RATE, "both") == {(None, LintCode.BOTH)}
    assert found({"read_iop_sec": "5"}, "both") == {(None, LintCode.BOTH), ("read_iop_sec", LintCode.UNKNOWN_KEY)}


@pytest.mark.parametrize("key", ["maxIOPS", "minIOPS", "latency", "IOType", "maxBWS", "hpe3par:vvs"])
def test_keys_of_an_array_s_driver_are_no_error(key: str) -> None:
    assert found({"total_iops_sec": "500", key: "500"}, "both") == {(key, LintCode.OF_STORAGE)}
    assert found({key: "500"}, "back-end") == {(None, LintCode.OTHER_BACK_END)}
    assert found({key: "500", "total_iops_sec": "5"}, "back-end") == {(None, LintCode.BACK_END)}
    for consumer in ("both", "back-end"):
        assert {fault.severity for fault in lint(QosSpec("1", "flash", consumer, {key: "500"}))} == {"warning"}


def test_a_spec_without_keys_is_a_fault() -> None:
    assert found({}) == {(None, LintCode.NO_KEYS)}


def test_a_null_that_makes_cinder_fail_is_told_from_one_that_does_nothing() -> None:
    (fatal,) = lint(a_spec(PER_GB | {"total_iops_sec_per_gb_min": None}))
    (harmless,) = lint(a_spec(RATE | {"read_bytes_sec": None}))
    assert (fatal.facts["refused"], harmless.facts["refused"]) == (True, False)


@pytest.mark.parametrize(
    "keys",
    [
        {"read_iops_sec": "500", "write_iops_sec": "400", "read_iops_sec_max": "1000", "total_bytes_sec": "20971520"},
        {"total_iops_sec_per_gb": "30", "total_iops_sec_per_gb_min": "100", "total_bytes_sec_per_gb": "1048576"},
        RATE | {"size_iops_sec": "16384"},
        PER_GB | {"size_iops_sec": "4096", "total_iops_sec_per_gb_min": "0"},
        BURST | {"total_iops_sec_max_length": "1"},
        RATE | {"total_iops_sec_max_length": "1"},
        RATE | CREDITS,
        PER_GB | CREDITS,
        {"total_iops_sec_per_gb": " 3_0\n", "read_bytes_sec": " +500", "write_bytes_sec": "9"},
    ],
    ids=repr,
)
def test_a_good_spec_has_no_fault(keys: Keys) -> None:
    assert found(keys) == set()


@pytest.mark.parametrize(
    ("keys", "key", "gib"),
    [
        ({"total_iops_sec": "9"}, "total_iops_sec", 0),
        ({"total_iops_sec": "10"}, None, 0),
        (RATE | {"total_bytes_sec": "1048575"}, "total_bytes_sec", 0),
        (RATE | {"total_bytes_sec": "1048576"}, None, 0),
        # 1000 GiB get 1,048,000 bytes, and 1,049,000
        ({"total_bytes_sec_per_gb": "1048"}, "total_bytes_sec_per_gb", 1000),
        ({"total_bytes_sec_per_gb": "1049"}, None, 0),
        ({"total_bytes_sec_per_gb": "1", "total_bytes_sec_per_gb_min": "1048576"}, None, 0),
        ({"total_bytes_sec_per_gb": "1048576", "total_bytes_sec_max": "100"}, "total_bytes_sec_max", 0),
        ({"total_bytes_sec_per_gb": "1", "total_bytes_sec_max": "1048576"}, "total_bytes_sec_per_gb", 1000),
    ],
)
def test_a_limit_that_is_lower_than_any_that_is_meant_is_a_warning(keys: Keys, key: str | None, gib: int) -> None:
    found = [fault for fault in lint(a_spec(keys)) if fault.code is LintCode.TOO_LOW]
    assert [(fault.key, fault.severity, fault.facts["gib"]) for fault in found] == (
        [] if key is None else [(key, "warning", gib)]
    )


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
