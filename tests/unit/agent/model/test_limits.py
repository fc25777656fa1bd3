"""A set of limits exists exactly when libvirt and QEMU would take it, and equal limits compare equal."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll_agent.model.limits import BASES, PARAMETERS, Limits, LimitsError, group_alone, shared_group, together
from tests import golden
from tests.unit.values import MOST, NINETEEN, SIX, any_numbers, examples, possible_limits, possible_numbers

QMP = {
    "total_bytes_sec": "bps",
    "read_bytes_sec": "bps_rd",
    "write_bytes_sec": "bps_wr",
    "total_iops_sec": "iops",
    "read_iops_sec": "iops_rd",
    "write_iops_sec": "iops_wr",
    "size_iops_sec": "iops_size",
}
QMP |= {f"{base}{ending}": f"{QMP[base]}{ending}" for base in SIX for ending in ("_max", "_max_length")}


# --- what libvirt and QEMU would say


def libvirt_takes(numbers: Mapping[str, int]) -> bool:
    """qemuDomainSetBlockIoTune: a number is unsigned and at most QEMU_BLOCK_IOTUNE_MAX."""
    return all(0 <= number <= MOST for number in numbers.values())


def qemu_takes(numbers: Mapping[str, int]) -> bool:
    """util/throttle.c, throttle_is_valid, on the arguments of block_set_io_throttle that libvirt would send."""
    arguments = {QMP[name]: number for name, number in numbers.items()}
    buckets = {
        bucket: {
            "avg": arguments.get(bucket, 0),
            "max": arguments.get(f"{bucket}_max", 0),
            # libvirt leaves a length of 0 out; QEMU's own is 1 then (throttle_config_init).
            "burst_length": arguments.get(f"{bucket}_max_length", 0) or 1,
        }
        for bucket in ("bps", "bps_rd", "bps_wr", "iops", "iops_rd", "iops_wr")
    }
    for unit, what in product(("bps", "iops"), ("avg", "max")):
        if buckets[unit][what] and (buckets[f"{unit}_rd"][what] or buckets[f"{unit}_wr"][what]):
            return False
    if arguments.get("iops_size", 0) and not any(buckets[b]["avg"] for b in ("iops", "iops_rd", "iops_wr")):
        return False
    for bucket in buckets.values():
        if bucket["avg"] > MOST or bucket["max"] > MOST:
            return False
        if bucket["burst_length"] > 1 and not bucket["max"]:
            return False
        if bucket["max"] and bucket["burst_length"] > MOST // bucket["max"]:
            return False
        if bucket["max"] and (not bucket["avg"] or bucket["max"] < bucket["avg"]):
            return False
    return True


def query_block(limits: Limits) -> dict[str, object]:
    """block/qapi.c, bdrv_block_device_info: how QEMU tells limits back, the group always among them."""
    told: dict[str, object] = {"group": "/machine/peripheral/virtio-disk0/virtio-backend", "ro": False, "drv": "raw"}
    for base in SIX:
        told[QMP[base]] = getattr(limits, base)
        if peak := getattr(limits, f"{base}_max"):
            told[QMP[f"{base}_max"]] = peak
            told[QMP[f"{base}_max_length"]] = max(getattr(limits, f"{base}_max_length"), 1)
    if limits.size_iops_sec:
        told["iops_size"] = limits.size_iops_sec
    return told


@example({"total_iops_sec": 10**15, "total_iops_sec_max": 10**15, "total_iops_sec_max_length": 2})
@example({"read_iops_sec": 1, "read_iops_sec_max": 10**15 // 3, "read_iops_sec_max_length": 3})
@example({"total_iops_sec": 5, "read_bytes_sec": 5})
@example({"total_iops_sec": 5, "read_iops_sec": 5})
@example({"size_iops_sec": 4096, "total_bytes_sec": 1})
@given(any_numbers)
@examples
def test_a_set_can_be_built_exactly_when_libvirt_and_qemu_take_it(numbers: dict[str, int]) -> None:
    try:
        Limits.from_mapping(numbers)
        said = "takes it"
    except LimitsError as refused:
        said = str(refused)
    takes = libvirt_takes(numbers) and qemu_takes(numbers)
    assert (said == "takes it") == takes, said


@pytest.mark.parametrize("name", NINETEEN)
def test_every_number_is_bounded_on_both_sides(name: str) -> None:
    for number in (-1, MOST + 1):
        with pytest.raises(LimitsError) as refused:
            Limits.from_mapping({name: number})
        assert [problem.names for problem in refused.value.problems] == [(name,)]


# --- what a person is told


def answer(kind: str, text: str) -> str:
    if kind == "together":
        sets = [Limits(**yaml.safe_load(each)) for each in text.split(" | ")]
        left = together(sets)
        assert together(sets[::-1]) == left
        return "unknown" if left is None else str(left.in_effect())
    try:
        return str(Limits.from_mapping(yaml.safe_load(text)).in_effect())
    except LimitsError as refused:
        assert str(refused) == "; ".join(problem.text for problem in refused.problems)  # noqa: PT017
        return "\n".join(f"{', '.join(problem.names)}: {problem.text}" for problem in refused.problems)


def test_each_set_of_limits_is_what_the_golden_file_has() -> None:
    golden.transcript("limits.txt", answer)


# --- one spelling for one thing


@given(possible_limits())
@examples
def test_what_is_in_effect_says_all(limits: Limits) -> None:
    assert Limits.from_mapping(limits.in_effect()) == limits


@given(possible_limits())
@examples
def test_the_full_set_says_all_and_leaves_nothing_to_libvirts_defaults(limits: Limits) -> None:
    numbers = limits.full_set()
    assert Limits.from_mapping(numbers) == limits
    assert set(numbers) - {"group_name"} == set(NINETEEN), "what is not sent, libvirt keeps or zeroes as it likes"
    assert ("group_name" in numbers) == (limits.group_name is not None)
    assert None not in numbers.values(), "libvirt's bindings take no None"


@given(possible_limits())
@examples
def test_what_qemu_tells_back_equals_what_was_set_but_for_the_group(limits: Limits) -> None:
    assert Limits.from_qmp(query_block(limits)) == Limits.from_mapping(limits.full_set() | {"group_name": None})


@given(possible_limits(), st.sampled_from([0, 1]))
@examples
def test_what_libvirt_returns_equals_what_was_set(limits: Limits, plain: int) -> None:
    # libvirt versions differ in whether the length of a plain burst, or of none, is 0 or 1.
    told = limits.full_set()
    told |= {name: plain for name, value in told.items() if name.endswith("_length") and value in (0, 1)}
    assert Limits.from_mapping(told) == limits


@given(possible_numbers)
@examples
def test_equal_limits_hash_equal(numbers: dict[str, int]) -> None:
    spelled_out = dict.fromkeys(NINETEEN, 0) | numbers
    assert Limits(**numbers) == Limits(**spelled_out)
    assert hash(Limits(**numbers)) == hash(Limits(**spelled_out))


def test_a_burst_lasts_a_second_unless_it_is_longer() -> None:
    plain = Limits(total_iops_sec=250, total_iops_sec_max=500)
    assert plain == Limits(total_iops_sec=250, total_iops_sec_max=500, total_iops_sec_max_length=1)
    assert plain != Limits(total_iops_sec=250, total_iops_sec_max=500, total_iops_sec_max_length=2)
    assert plain.full_set()["total_iops_sec_max_length"] == 1, "a 0 would be left out, and an old length would stay"
    assert Limits(total_iops_sec=250, total_iops_sec_max_length=1) == Limits(total_iops_sec=250)


def test_zeros_are_unlimited() -> None:
    assert Limits(**dict.fromkeys(NINETEEN, 0)).unlimited
    assert not Limits(write_bytes_sec=1).unlimited


# --- the table


def test_the_table_has_libvirts_19_names_with_those_of_qemu() -> None:
    assert {parameter.name: parameter.qmp for parameter in PARAMETERS} == QMP
    assert set(BASES) == set(SIX)


def test_nova_passes_on_thirteen_keys_and_no_length() -> None:
    passed_on = {parameter.name for parameter in PARAMETERS if parameter.nova}
    assert passed_on == {name for name in NINETEEN if not name.endswith("_length")}
    assert len(passed_on) == 13


def test_each_parameter_knows_what_it_measures() -> None:
    rows = {parameter.name: (parameter.role, parameter.scope, parameter.unit) for parameter in PARAMETERS}
    assert rows["read_bytes_sec"] == ("base", "read", "bytes")
    assert rows["write_iops_sec_max"] == ("max", "write", "iops")
    assert rows["total_bytes_sec_max_length"] == ("length", "total", "bytes")
    assert rows["size_iops_sec"] == ("size", None, "iops")


# --- groups


def test_a_group_without_a_name_is_no_group() -> None:
    for name in (None, "", "/machine/peripheral/virtio-disk0/virtio-backend", "drive-virtio-disk0"):
        assert shared_group(name) is None
    assert shared_group("vm-total", alias="scsi0-0-0-0") == "vm-total"
    # QEMU names the group of a SCSI disk after its id, and of no other disk's.
    assert shared_group("scsi0-0-0-0", alias="scsi0-0-0-0") is None
    assert shared_group("scsi0-0-0-0", alias="scsi0-0-0-1") == "scsi0-0-0-0"


def test_a_disk_taken_out_of_a_group_shares_with_none() -> None:
    alone = group_alone("1ebc1454-0d31-4367-8c90-06e18daa66f9", "vda")
    assert shared_group(alone) is None
    assert alone != group_alone("1ebc1454-0d31-4367-8c90-06e18daa66f9", "vdb")
    assert alone != group_alone("6ae0acc4-f470-46e7-a341-a0b935479429", "vda")
    with pytest.raises(LimitsError, match="choose another"):
        Limits(total_iops_sec=250, group_name=alone)
