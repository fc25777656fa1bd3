"""Which change a decision asks for, and whether a guest may do more after it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
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
from plimsoll_agent.model.memory import Pending, Remembered
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Answer, Decision, Desired, Unmanaged
from plimsoll_agent.policy.diff import Change, change_for
from plimsoll_agent.util.frozen import replace
from tests import golden
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
def test_a_change_after_which_a_guest_may_do_more_is_never_called_lower(pair: tuple[Limits, Limits]) -> None:
    could, can = map(may_do, pair)
    if direction(*pair) is LOWER:
        assert {bound for bound in can if can[bound] > could[bound]} == set()


@given(possible_limits(), st.data())
@examples
def test_a_change_that_raises_or_removes_a_base_is_never_called_lower(before: Limits, data: st.DataObject) -> None:
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
def test_cutting_any_number_that_is_set_is_called_lower(before: Limits, data: st.DataObject) -> None:
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
def test_the_way_back_from_a_cut_is_none(pair: tuple[Limits, Limits]) -> None:
    before, after = pair
    if before != after:
        assert {direction(before, after), direction(after, before)} != {LOWER}


@given(possible_limits())
@examples
def test_a_first_limit_lowers_and_no_limit_removes(limits: Limits) -> None:
    assume(not limits.unlimited)
    assert direction(Limits(), limits) is LOWER
    assert direction(limits, Limits()) is REMOVE


def weighed(before: str, after: str) -> str:
    pair = (Limits(**yaml.safe_load(before)), Limits(**yaml.safe_load(after)))
    parts = [direction(*pair).value, f"left {share_left(*pair):.6g}", f"times {times_more(*pair):.6g}"]
    parts += [f"adds {unit} {number}" for unit, number in added_limits(*pair).items()]
    return "; ".join([*parts, *(f"too low: {unit}" for unit in too_low(*pair, LOWEST))])


def test_each_change_is_weighed_as_in_the_golden_file() -> None:
    golden.transcript("directions.txt", weighed)


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
    were_right = replace(remembered(same, applied=None), enforced=True)
    assert cause(same, were_right) is Code.EXTERNAL_CHANGE, "as attached they were the desired ones"
    assert cause(same, replace(were_right, desired=OLD)) is Code.NEVER_LIMITED
    waiting = Pending(before=OLD, at=NOON, revision=None, rules="")
    assert cause(same, replace(were_right, pending=waiting)) is Code.NEVER_LIMITED
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
