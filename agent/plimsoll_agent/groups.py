"""Throttle groups: one set of limits for several disks of a guest, so that a write to one is a write to all. Pure.

QEMU keeps the limits of a group once, within one guest: who writes to a member, or lets a disk join, changes what all
members may do. So such a change is judged by what it does to any of them, and is made only when each of them is to
have just these limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from plimsoll_agent.changes import Change
from plimsoll_agent.direction import direction, loosest
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, Outcome, Result
from plimsoll_agent.reason import Code, Reason, because

_OfGuest = Callable[[list[Outcome]], list[Outcome]]


def judged(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes in their order; each change of a group has the loosest direction that it has for any member.

    A change carries along who the members were when it was judged.
    """
    return _each_guest(outcomes, _judged)


def withheld(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes in their order, where planned changes of a group are deferred because of another member.

    A member that is deferred, held, unmanaged or unknown, or for which other limits are desired, keeps its group as
    it is. One that leaves the group by a planned change does not.
    """

    def until_none_is_left(guest: list[Outcome]) -> list[Outcome]:
        # A change that is deferred leaves its disk in the group that it was to leave: that one is looked at once
        # more.
        while True:
            after = [_withheld(outcome, guest) for outcome in guest]
            if after == guest:
                return after
            guest = after

    return _each_guest(outcomes, until_none_is_left)


def may_be_in(group: str, disk: Disk) -> bool:
    """Whether a disk is a member, or may be one: by QEMU's word, and by libvirt's where QEMU has none."""
    return any(
        not isinstance(limits, Limits) or limits.group_name == group for limits in (disk.in_force, disk.defined)
    )


def _each_guest(outcomes: Sequence[Outcome], does: _OfGuest) -> list[Outcome]:
    numbered = sorted(enumerate(outcomes), key=lambda pair: pair[1].disk.guest.uuid)
    done: dict[int, Outcome] = {}
    for _, pairs in groupby(numbered, key=lambda pair: pair[1].disk.guest.uuid):
        numbers, of_guest = zip(*pairs, strict=True)
        grouped = any(outcome.change is not None and outcome.change.after.group_name for outcome in of_guest)
        done |= zip(numbers, does(list(of_guest)) if grouped else of_guest, strict=True)
    return [done[number] for number in range(len(outcomes))]


def _judged(guest: list[Outcome]) -> list[Outcome]:
    def with_members(outcome: Outcome) -> Outcome:
        change = outcome.change
        if change is None or change.after.group_name is None:
            return outcome
        members = [each.disk for each in guest if may_be_in(change.after.group_name, each.disk)]
        others = (
            direction(disk.in_force, change.after)
            for disk in members
            if isinstance(disk.in_force, Limits) and disk.in_force != change.after
        )
        how = loosest([change.direction, *others])
        return replace(
            outcome,
            change=replace(change, direction=how, members=tuple((disk.key, disk.defined) for disk in members)),
        )

    return [with_members(outcome) for outcome in guest]


def _withheld(outcome: Outcome, guest: Sequence[Outcome]) -> Outcome:
    change = outcome.change
    if change is None or outcome.result.kind is not Kind.PLANNED or change.after.group_name is None:
        return outcome
    reason = next(_obstacles(outcome, change.after, guest), None)
    return outcome if reason is None else replace(outcome, result=Result(Kind.WAITS, reason))


def _obstacles(outcome: Outcome, after: Limits, guest: Sequence[Outcome]) -> Iterator[Reason]:
    group = str(after.group_name)
    for member in guest:
        change = member.change
        if member is outcome:
            continue
        if change is not None and member.result.kind is Kind.PLANNED:
            if change.after == after or change.after.group_name != group:
                continue
            yield because(Code.GROUP_DISAGREES, group=group, target=member.disk.target)
        elif may_be_in(group, member.disk):
            right = member.result.kind is Kind.RIGHT and member.result.reason.code is not Code.HOLD
            if not right:
                yield _kept_by(member, group)
            elif member.disk.in_force != after:
                yield because(Code.GROUP_DISAGREES, group=group, target=member.disk.target)


def _kept_by(member: Outcome, group: str) -> Reason:
    return because(
        Code.GROUP_WITHHELD, group=group, target=member.disk.target, because=member.result.reason.as_record()
    )


def leaves(change: Change) -> bool:
    """Whether a disk leaves its group by it: such changes are made before others of the guest."""
    return change.before.group_name not in (None, change.after.group_name)


def moved(change: Change, there: Iterable[Disk]) -> bool:
    """Whether the group's members are others than those it was judged by, or have other limits defined."""
    group = change.after.group_name
    if group is None:
        return False
    known = dict(change.members)
    defined = {
        disk.key: disk.defined
        for disk in there
        if disk.key in known or not isinstance(disk.defined, Limits) or disk.defined.group_name == group
    }
    return defined != known
