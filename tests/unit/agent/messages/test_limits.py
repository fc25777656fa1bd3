"""Limits for people: units, changes in few words, and nothing that two different limits have in common."""

from __future__ import annotations

import pytest
from hypothesis import given

from plimsoll_agent.messages.limits import exact_change, exact_limits, short_change, short_limits
from plimsoll_agent.model.limits import Limits
from tests.unit.values import examples, pairs_of_limits

MIB = 2**20


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"total_iops_sec": 500}, {"total_iops_sec": 3000}, "500 → 3000 IOPS"),
        ({"total_bytes_sec": 100 * MIB}, {"total_bytes_sec": 50 * MIB}, "100 MiB/s → 50 MiB/s"),
        ({"total_bytes_sec": 100 * MIB}, {"total_bytes_sec": 100 * MIB + 1}, "104857600 → 104857601 B/s"),
        ({}, {"total_iops_sec": 250, "total_bytes_sec": 100 * MIB}, "unlimited → 250 IOPS 100 MiB/s"),
        ({"total_iops_sec": 250}, {}, "250 IOPS → unlimited"),
        (
            {"total_iops_sec": 500, "total_bytes_sec": MIB},
            {"total_iops_sec": 250},
            "500 → 250 IOPS, 1 MiB/s → unlimited",
        ),
        (
            {"total_iops_sec": 250},
            {"read_iops_sec": 200, "write_iops_sec": 100},
            "250 IOPS → read 200 IOPS write 100 IOPS",
        ),
        (
            {"read_iops_sec": 300, "write_iops_sec": 100},
            {"read_iops_sec": 200, "write_iops_sec": 100},
            "read 300 → 200 IOPS",
        ),
        (
            {"total_iops_sec": 100, "total_iops_sec_max": 200},
            {"total_iops_sec": 250},
            "100 → 250 IOPS, burst 200 IOPS → none",
        ),
        (
            {"total_iops_sec": 250, "total_iops_sec_max": 500},
            {"total_iops_sec": 250, "total_iops_sec_max": 800},
            "burst 500 → 800 IOPS",
        ),
        (
            {"read_iops_sec": 250, "read_iops_sec_max": 500, "read_iops_sec_max_length": 30},
            {"read_iops_sec": 250, "read_iops_sec_max": 800, "read_iops_sec_max_length": 30},
            "read burst 500 → 800 IOPS for 30 s",
        ),
        (
            {"total_bytes_sec": MIB, "total_bytes_sec_max": 2 * MIB, "total_bytes_sec_max_length": 30},
            {"total_bytes_sec": MIB, "total_bytes_sec_max": 2 * MIB},
            "burst 2 MiB/s for 30 s → 2 MiB/s",
        ),
        ({"total_iops_sec": 9, "size_iops_sec": 4096}, {"total_iops_sec": 9}, "counted per 4 KiB → request"),
        ({"total_iops_sec": 9}, {"total_iops_sec": 9, "group_name": "g"}, "shared as none → g"),
    ],
)
def test_a_change_is_told_in_units_that_people_know(
    before: dict[str, int], after: dict[str, int], words: str
) -> None:
    assert short_change(Limits.from_mapping(before), Limits.from_mapping(after)) == words


@given(pairs_of_limits())
@examples
def test_whatever_differs_is_told(pair: tuple[Limits, Limits]) -> None:
    old, new = pair
    for words in (short_change, exact_change):
        before, _, after = words(old, new).partition(" → ")
        assert (before != after) == (old != new)


def test_the_exact_form_has_the_names_and_numbers_of_libvirt() -> None:
    limits = Limits(total_iops_sec=250, total_bytes_sec=100 * MIB)
    assert exact_limits(limits) == "total_bytes_sec 104857600, total_iops_sec 250"
    assert exact_limits(Limits()) == "unlimited"
    both = "total_bytes_sec 104857600 → unlimited, total_iops_sec 250 → 100"
    assert exact_change(limits, Limits(total_iops_sec=100)) == both
    assert exact_change(limits, Limits()).endswith("total_iops_sec 250 → unlimited")


def test_a_name_that_an_operator_gave_to_a_group_is_shown_as_it_is() -> None:
    assert short_limits(Limits(total_iops_sec=250, group_name="vm total")) == "250 IOPS shared as vm total"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(read_iops_sec=300, write_iops_sec=100, total_bytes_sec=100 * MIB), "300/100 IOPS 100 MiB/s"),
        (Limits(read_iops_sec=300, read_iops_sec_max=900, write_iops_sec=100), "300+/100 IOPS"),
        (Limits(read_bytes_sec=1024 * MIB, write_bytes_sec=MIB), "read 1 GiB/s write 1 MiB/s"),
        (Limits(write_iops_sec=100), "write 100 IOPS"),
    ],
)
def test_where_there_is_no_room_reads_and_writes_share_their_unit(limits: Limits, words: str) -> None:
    assert short_limits(limits, brief=True) == words
