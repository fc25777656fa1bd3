"""Which change a decision asks for, and whether a guest may do more after it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plimsoll_agent.model.direction import (
    LOWEST,
    Direction,
    added_limits,
    direction,
    most_permissive,
    share_left,
    times_more,
    too_low,
)
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Answer, Decision, Desired, Unmanaged
from plimsoll_agent.policy.diff import Change, change_for
from plimsoll_agent.util.frozen import replace
from tests.unit.values import NOON, SIX, a_disk, a_situation, examples, pairs_of_limits, possible_limits

LOWER, RAISE, REMOVE = Direction.LOWER, Direction.RAISE, Direction.REMOVE
DESIRED = Limits(total_iops_sec=250, total_bytes_sec=2**20)
OLD = Limits(total_iops_sec=500)
INFINITE = float("inf")


# --- direction: what a guest may do


def may_do(limits: Limits) -> dict[str, float]:
    """Each bound on a guest, as docs/throttle.txt of QEMU has it: sustained, in a burst, and for how much in all."""
    bounds: dict[str, float] = {}
    for base in SIX:
        rate = getattr(limits, base) or INFINITE
        peak, seconds = getattr(limits, f"{base}_max"), getattr(limits, f"{base}_max_length")
        bounds[f"{base} sustained"] = rate
        bounds[f"{base} at once"] = peak or rate
        # The bucket: a tenth of a second's worth where no burst is allowed.
        bounds[f"{base} in one go"] = peak * seconds if peak else rate / 10
    bounds["bytes that count as one request"] = limits.size_iops_sec or INFINITE
    return bounds


@given(pairs_of_limits())
@examples
def test_a_change_after_which_a_guest_may_do_more_is_never_called_tighten(pair: tuple[Limits, Limits]) -> None:
    could, can = map(may_do, pair)
    if direction(*pair) is LOWER:
        assert {bound for bound in can if can[bound] > could[bound]} == set()


@given(possible_limits(), st.data())
@examples
def test_a_change_that_raises_or_removes_a_base_is_never_called_tighten(before: Limits, data: st.DataObject) -> None:
    set_bases = [base for base in SIX if getattr(before, base)]
    assume(set_bases)
    base = data.draw(st.sampled_from(set_bases))
    more = data.draw(st.sampled_from([0, getattr(before, base) + 1]))
    assume(more <= 10**15)
    # Its burst goes up with it, or away with it, as QEMU demands; everything else is cut where it can be.
    changed: dict[str, Any] = {base: more, f"{base}_max": 0, f"{base}_max_length": 0}
    if not any(getattr(before, other) for other in SIX if "iops" in other and other != base) and not more:
        changed["size_iops_sec"] = 0
    if len(set_bases) == 1 and not more:
        changed["group_name"] = None
    after = Limits.from_mapping(before.full_set() | changed)
    assert direction(before, after) is not LOWER


@given(possible_limits(), st.data())
@examples
def test_cutting_any_number_that_is_set_is_called_tighten(before: Limits, data: st.DataObject) -> None:
    numbers = before.full_set()
    for base in SIX:
        rate, peak, seconds = (getattr(before, base + ending) for ending in ("", "_max", "_max_length"))
        if rate:
            rate = numbers[base] = data.draw(st.integers(1, rate))
        if peak:
            numbers[f"{base}_max"] = data.draw(st.integers(rate, peak))
            numbers[f"{base}_max_length"] = data.draw(st.integers(1, seconds))
    if before.size_iops_sec:
        numbers["size_iops_sec"] = data.draw(st.integers(1, before.size_iops_sec))
    assume(not before.unlimited)
    assert direction(before, Limits.from_mapping(numbers)) is LOWER


@given(pairs_of_limits())
@examples
def test_the_way_back_from_a_tightening_is_none(pair: tuple[Limits, Limits]) -> None:
    before, after = pair
    if before != after:
        assert {direction(before, after), direction(after, before)} != {LOWER}


@given(possible_limits())
@examples
def test_a_first_limit_tightens_and_no_limit_removes(limits: Limits) -> None:
    assume(not limits.unlimited)
    assert direction(Limits(), limits) is LOWER
    assert direction(limits, Limits()) is REMOVE


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # one parameter raised makes it raise, whatever the others do
        (
            {"total_iops_sec": 500, "total_bytes_sec": 10**8},
            {"total_iops_sec": 501, "total_bytes_sec": 10**6},
            RAISE,
        ),
        ({"total_iops_sec": 500, "total_bytes_sec": 10**8}, {"total_iops_sec": 100}, RAISE),
        ({"total_iops_sec": 500}, {"total_iops_sec": 500, "total_bytes_sec": 10**8}, LOWER),
        # a total of 500 read as 300 and 300 lets 600 through
        ({"total_iops_sec": 500}, {"read_iops_sec": 300, "write_iops_sec": 300}, RAISE),
        # bursts
        ({"total_iops_sec": 500}, {"total_iops_sec": 500, "total_iops_sec_max": 500}, RAISE),
        ({"total_iops_sec": 500, "total_iops_sec_max": 900}, {"total_iops_sec": 500}, LOWER),
        (
            {"total_iops_sec": 500, "total_iops_sec_max": 900},
            {"total_iops_sec": 500, "total_iops_sec_max": 900, "total_iops_sec_max_length": 2},
            RAISE,
        ),
        (
            {"total_iops_sec": 500, "total_iops_sec_max": 900},
            {"total_iops_sec": 400, "total_iops_sec_max": 901},
            RAISE,
        ),
        # more at once, and all in all less in one go
        (
            {"total_iops_sec": 500, "total_iops_sec_max": 900, "total_iops_sec_max_length": 10},
            {"total_iops_sec": 500, "total_iops_sec_max": 901},
            RAISE,
        ),
        # 900 at once was allowed before as well, but for moments only
        ({"total_iops_sec": 500, "total_iops_sec_max": 900}, {"total_iops_sec": 900}, RAISE),
        # without a burst QEMU lets a tenth of a second's worth pass in one go
        ({"total_iops_sec": 1000}, {"total_iops_sec": 10, "total_iops_sec_max": 100}, LOWER),
        ({"total_iops_sec": 1000}, {"total_iops_sec": 10, "total_iops_sec_max": 101}, RAISE),
        # the request size from which one counts as several
        ({"total_iops_sec": 500, "size_iops_sec": 4096}, {"total_iops_sec": 500, "size_iops_sec": 8192}, RAISE),
        ({"total_iops_sec": 500, "size_iops_sec": 4096}, {"total_iops_sec": 500}, RAISE),
        ({"total_iops_sec": 500}, {"total_iops_sec": 500, "size_iops_sec": 4096}, LOWER),
        # to join a group or to leave one drains the disk, as a removal does
        ({"total_iops_sec": 500}, {"total_iops_sec": 400, "group_name": "g"}, RAISE),
        ({}, {"total_iops_sec": 400, "group_name": "g"}, LOWER),
        ({"total_iops_sec": 500, "group_name": "g"}, {"total_iops_sec": 400}, RAISE),
        ({"total_iops_sec": 500, "group_name": "g"}, {"total_iops_sec": 400, "group_name": "h"}, RAISE),
        ({"total_iops_sec": 500, "group_name": "g"}, {"total_iops_sec": 400, "group_name": "g"}, LOWER),
    ],
)
def test_directions_that_are_easy_to_get_wrong(before: dict, after: dict, expected: Direction) -> None:
    assert direction(Limits(**before), Limits(**after)) is expected


@pytest.mark.parametrize(
    ("directions", "expected"),
    [
        ([LOWER], LOWER),
        ([LOWER, RAISE], RAISE),
        ([RAISE, LOWER], RAISE),
        ([RAISE, Direction.REMOVE, LOWER], Direction.REMOVE),
        ([Direction.REMOVE, RAISE], Direction.REMOVE),
    ],
)
def test_the_loosest_of_several_directions_gives_a_guest_most(
    directions: list[Direction], expected: Direction
) -> None:
    assert most_permissive(directions) is expected


# --- a cut by more than half


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ({"total_iops_sec": 500}, {"total_iops_sec": 250}, 0.5),
        ({"total_iops_sec": 70}, {"total_iops_sec": 7}, 0.1),
        ({"total_iops_sec": 500, "total_bytes_sec": 500}, {"total_iops_sec": 500, "total_bytes_sec": 100}, 0.2),
        ({"write_bytes_sec": 500}, {"write_bytes_sec": 100}, 0.2),
        # at once: a burst of 1000 is taken away, or a tenth of it left
        ({"total_iops_sec": 500, "total_iops_sec_max": 1000}, {"total_iops_sec": 500}, 0.5),
        (
            {"total_iops_sec": 500, "total_iops_sec_max": 5000},
            {"total_iops_sec": 400, "total_iops_sec_max": 500},
            0.1,
        ),
        # for ever, under the same burst
        (
            {"total_iops_sec": 500, "total_iops_sec_max": 5000},
            {"total_iops_sec": 100, "total_iops_sec_max": 5000},
            0.2,
        ),
        # a first limit is no cut of anything
        ({}, {"total_iops_sec": 1}, 1),
        ({"total_iops_sec": 500}, {"total_iops_sec": 500, "total_bytes_sec": 1}, 1),
        ({"read_iops_sec": 500}, {"read_iops_sec": 500, "write_iops_sec": 1}, 1),
        # one total for what was limited apart, and the other way round
        ({"read_iops_sec": 300, "write_iops_sec": 100}, {"total_iops_sec": 40}, 0.1),
        ({"read_iops_sec": 300, "write_iops_sec": 100}, {"total_iops_sec": 400}, 1),
        ({"total_iops_sec": 400}, {"read_iops_sec": 300, "write_iops_sec": 100}, 0.25),
        ({"total_iops_sec": 400}, {"read_iops_sec": 40, "write_iops_sec": 4000}, 0.1),
        # more, or the same, is no cut
        ({}, {}, 1),
        ({"total_iops_sec": 500}, {}, 1),
        ({"total_iops_sec": 500}, {"total_iops_sec": 5000}, 1),
        # a large request, of 1 MiB, that counts as several is as good as fewer of them
        ({"total_iops_sec": 500}, {"total_iops_sec": 500, "size_iops_sec": 2**17}, 0.125),
        ({"total_iops_sec": 500, "size_iops_sec": 65536}, {"total_iops_sec": 500, "size_iops_sec": 8192}, 0.125),
        ({"write_iops_sec": 500}, {"write_iops_sec": 500, "size_iops_sec": 2**21}, 1),
        ({"total_iops_sec": 500, "size_iops_sec": 4096}, {"total_iops_sec": 500}, 1),
        # without a limit of IOPS that size limits nothing
        ({"total_bytes_sec": 500}, {"total_bytes_sec": 500, "total_iops_sec": 500, "size_iops_sec": 4096}, 1),
        # a burst that may go on for a second instead of a minute: 500 + 59 × 100 instead of 60 × 500
        (
            {"total_iops_sec": 100, "total_iops_sec_max": 500, "total_iops_sec_max_length": 60},
            {"total_iops_sec": 100, "total_iops_sec_max": 500},
            6400 / 30000,
        ),
        # after the minute that is weighed it may be shorter
        (
            {"total_iops_sec": 100, "total_iops_sec_max": 500, "total_iops_sec_max_length": 61},
            {"total_iops_sec": 100, "total_iops_sec_max": 500, "total_iops_sec_max_length": 60},
            1,
        ),
    ],
)
def test_what_is_left_is_the_least_share_of_anything(before: dict, after: dict, left: float) -> None:
    assert share_left(Limits(**before), Limits(**after)) == left


@given(pairs_of_limits())
@examples
def test_what_is_left_is_never_more_than_a_guest_may_do_after_it(pair: tuple[Limits, Limits]) -> None:
    """By what reads, writes and both may do, worked out apart from how the code does it."""
    before, after = (
        {
            (unit, scope, ending): min(
                sum(may(limits, each, unit, ending) for each in parts), may(limits, "total", unit, ending)
            )
            for unit in ("bytes", "iops")
            for ending in ("", "_max", "in a minute")
            for scope, parts in (("read", ["read"]), ("write", ["write"]), ("total", ["read", "write"]))
        }
        for limits in pair
    )
    shares = [after[bound] / before[bound] for bound in before if before[bound] != math.inf]
    if all(any(getattr(limits, f"{scope}_iops_sec") for scope in ("total", "read", "write")) for limits in pair):
        old, new = (max(1, 2**20 / limits.size_iops_sec) if limits.size_iops_sec else 1 for limits in pair)
        shares.append(old / new)
    assert share_left(*pair) == pytest.approx(min([1, *shares]))


def may(limits: Limits, scope: str, unit: str, ending: str) -> float:
    base = f"{scope}_{unit}_sec"
    rate = getattr(limits, base) or math.inf
    if ending == "in a minute":
        each_second = [
            may(limits, scope, unit, "_max" if n < getattr(limits, f"{base}_max_length") else "") for n in range(60)
        ]
        return sum(each_second)
    return getattr(limits, f"{base}{ending}") or rate


@pytest.mark.parametrize(
    ("before", "after", "times"),
    [
        ({"total_iops_sec": 500}, {"total_iops_sec": 500}, 1),
        ({"total_iops_sec": 500}, {"total_iops_sec": 50}, 1),
        ({"total_iops_sec": 500}, {"total_iops_sec": 750}, 1.5),
        ({}, {"total_iops_sec": 750}, 1),
        ({"total_iops_sec": 500}, {}, math.inf),
        # what is left of a limit that is dropped: requests of 1 MiB each, and of 512 bytes each
        ({"total_iops_sec": 500, "total_bytes_sec": 100 * 2**20}, {"total_iops_sec": 500}, 5),
        ({"total_iops_sec": 500, "total_bytes_sec": 512000}, {"total_bytes_sec": 512000}, 2),
        ({"total_iops_sec": 500}, {"read_iops_sec": 500}, math.inf),
        ({"total_iops_sec": 500}, {"total_iops_sec": 50, "total_bytes_sec": 1000}, 1),
        # reads may do what both did
        ({"read_iops_sec": 100, "write_iops_sec": 100}, {"total_iops_sec": 300}, 3),
        ({"total_iops_sec": 300}, {"read_iops_sec": 300, "write_iops_sec": 300}, 2),
        # a burst of a second, and one of half a minute
        ({"total_iops_sec": 500}, {"total_iops_sec": 500, "total_iops_sec_max": 3500}, 33000 / 30000),
        (
            {"total_iops_sec": 500},
            {"total_iops_sec": 500, "total_iops_sec_max": 1000, "total_iops_sec_max_length": 30},
            1.5,
        ),
        # all of a minute is a burst
        (
            {"total_iops_sec": 100, "total_iops_sec_max": 1000, "total_iops_sec_max_length": 60},
            {"total_iops_sec": 1000, "total_iops_sec_max": 1000, "total_iops_sec_max_length": 60},
            10,
        ),
        # from which size a request counts as several
        (
            {"total_iops_sec": 500, "size_iops_sec": 4096},
            {"total_iops_sec": 500, "size_iops_sec": 65536},
            16,
        ),
        ({"total_iops_sec": 500, "size_iops_sec": 4096}, {"total_iops_sec": 500}, 256),
        (
            {"total_iops_sec": 500, "total_bytes_sec": 7},
            {"total_iops_sec": 500, "total_bytes_sec": 7, "size_iops_sec": 9},
            1,
        ),
    ],
)
def test_how_many_times_as_much_is_the_most_of_anything(before: dict, after: dict, times: float) -> None:
    assert times_more(Limits(**before), Limits(**after)) == times


@pytest.mark.parametrize(
    ("before", "after", "added"),
    [
        ({}, {"total_iops_sec": 500, "total_bytes_sec": 70}, {"iops": 500, "bytes": 70}),
        ({"total_iops_sec": 5}, {"total_iops_sec": 500, "total_bytes_sec": 70}, {"bytes": 70}),
        ({"total_iops_sec": 5}, {"read_iops_sec": 5, "write_iops_sec": 5}, {}),
        ({"read_iops_sec": 5}, {"total_iops_sec": 70}, {"iops": 70}),
        ({}, {"read_iops_sec": 5, "write_iops_sec": 9}, {"iops": 5}),
        ({"total_iops_sec": 500}, {"total_iops_sec": 5}, {}),
        ({"total_iops_sec": 5}, {}, {}),
        ({}, {}, {}),
    ],
)
def test_an_added_limit_is_one_where_there_was_none(before: dict, after: dict, added: dict) -> None:
    assert added_limits(Limits(**before), Limits(**after)) == added


MIB = 2**20


@pytest.mark.parametrize(
    ("before", "after", "low"),
    [
        ({}, {"total_iops_sec": 10, "total_bytes_sec": MIB}, ()),
        ({}, {"total_iops_sec": 9, "total_bytes_sec": MIB}, ("iops",)),
        ({}, {"total_iops_sec": 10, "total_bytes_sec": MIB - 1}, ("bytes",)),
        ({}, {"write_iops_sec": 9}, ("iops",)),
        ({}, {"read_iops_sec": 9, "write_iops_sec": 9, "read_bytes_sec": 1}, ("bytes", "iops")),
        # what was so low already
        ({"total_iops_sec": 9}, {"total_iops_sec": 9, "total_bytes_sec": MIB}, ()),
        ({"total_iops_sec": 7}, {"total_iops_sec": 9}, ()),
        ({"total_iops_sec": 9}, {"total_iops_sec": 8}, ("iops",)),
        ({"total_iops_sec": 9}, {}, ()),
        # 255 requests of 4 KiB each are less than 1 MiB
        ({}, {"total_iops_sec": 255, "size_iops_sec": 4096}, ("bytes",)),
        ({}, {"total_iops_sec": 256, "size_iops_sec": 4096}, ()),
        ({"total_iops_sec": 500}, {"total_iops_sec": 500, "size_iops_sec": 4}, ("bytes",)),
        ({}, {"total_iops_sec": 255}, ()),
    ],
)
def test_a_limit_is_too_low_where_it_is_set_or_lowered_below_the_lowest(
    before: dict, after: dict, low: tuple
) -> None:
    assert too_low(Limits(**before), Limits(**after), LOWEST) == low


# --- the change


def decided(answer: Answer) -> Decision:
    return Decision(desired=answer, trail=())


def wants(limits: Limits = DESIRED) -> Decision:
    return decided(Desired(limits, because(Code.NODE_DEFAULT)))


def change(disk: Disk, remembered: Remembered | None = None, decision: Decision | None = None) -> Change | None:
    memory = {} if remembered is None else {disk.key: remembered}
    return change_for(disk, replace(decision or wants(), ours=a_situation(memory=memory).ours(disk)))


def remembered(disk: Disk, limits: Limits = DESIRED, **other: Any) -> Remembered:
    return replace(
        Remembered(desired=limits, since=NOON, seen=NOON, applied=limits, attachment=disk.attachment), **other
    )


def test_a_change_goes_from_what_qemu_has_to_what_is_desired() -> None:
    # The definition is older than what QEMU has: what is in force is what the guest feels.
    disk = a_disk(actual=OLD, defined=Limits(total_iops_sec=1))
    made = change(disk)
    assert made is not None
    assert (made.disk, made.before, made.after) == (disk, OLD, DESIRED)
    assert made.direction is direction(OLD, DESIRED)
    assert made.reason.code is Code.NODE_DEFAULT


def test_what_is_written_for_now_goes_before_what_is_desired_and_its_reason_is_told() -> None:
    reduced = replace(wants(), instead=Desired(Limits(total_iops_sec=100), because(Code.OPERATOR, why="for now")))
    made = change(a_disk(actual=OLD), decision=reduced)
    assert made is not None
    assert (made.after, made.reason.code) == (Limits(total_iops_sec=100), Code.OPERATOR)
    assert change(a_disk(actual=Limits(total_iops_sec=100)), decision=reduced) is None
    left = replace(wants(), instead=Unmanaged(because(Code.OPERATOR, why="for now")))
    assert change(a_disk(actual=OLD), decision=left) is None


@pytest.mark.parametrize(
    "decision",
    [
        wants(OLD),
        decided(Unmanaged(because(Code.NO_LIMIT))),
        decided(Unknown(because(Code.IMPOSSIBLE, detail="?"))),
    ],
    ids=["already right", "unmanaged", "unknown"],
)
def test_nothing_is_changed_without_need_or_knowledge(decision: Decision) -> None:
    assert change(a_disk(actual=OLD), decision=decision) is None


@pytest.mark.parametrize("actual", [None, Unknown(because(Code.TIMED_OUT, detail="?"))], ids=["not asked", "unknown"])
def test_what_is_actual_must_be_known_before_it_is_changed(actual: Unknown | None) -> None:
    assert change(a_disk(actual=actual)) is None


def test_unlimited_is_desired_only_when_a_source_says_so() -> None:
    made = change(a_disk(actual=OLD, defined=OLD), decision=wants(Limits()))
    assert made is not None
    assert made.direction is REMOVE


def cause(disk: Disk, memory: Remembered | None = None) -> Code:
    made = change(disk, memory)
    assert made is not None
    return made.cause


def test_a_change_knows_how_the_limit_came_to_differ() -> None:
    same, drifted = a_disk(actual=OLD, defined=OLD), a_disk(actual=OLD, defined=DESIRED)
    assert cause(same) is Code.NEVER_LIMITED
    assert cause(same, remembered(same, applied=None)) is Code.NEVER_LIMITED
    assert cause(same, remembered(same, attachment="an earlier run of the guest")) is Code.NEVER_LIMITED
    assert cause(same, remembered(same)) is Code.EXTERNAL_CHANGE
    assert cause(same, remembered(same, limits=OLD)) is Code.DESIRED_CHANGED
    assert cause(drifted, remembered(drifted)) is Code.CHANGED_OVER_QMP


def test_a_disk_leaves_a_group_only_when_it_is_in_one_and_none_is_desired() -> None:
    shared, other = replace(DESIRED, group_name="g"), replace(OLD, group_name="g")

    def leaves(disk: Disk, desired: Limits) -> bool:
        made = change(disk, decision=wants(desired))
        assert made is not None
        return made.leaves_group

    assert not leaves(a_disk(actual=OLD), DESIRED)
    assert leaves(a_disk(actual=other), DESIRED)
    assert leaves(a_disk(actual=other), Limits())
    assert not leaves(a_disk(actual=other), shared)
    # libvirt adds the group of its definition to a write that names none, whatever QEMU has
    assert leaves(a_disk(actual=OLD, defined=other), DESIRED)
    # and one that cannot be read may have a group
    assert leaves(a_disk(actual=OLD, defined=Unknown(because(Code.IMPOSSIBLE, detail="?"))), DESIRED)
