"""Throttle groups: one set of limits for several disks of a guest, so that a write to one is a write to all. Pure.

QEMU keeps the limits of a group once, within one guest: who writes to a member, or lets a disk join, changes what all
members may do. So such a change is judged by what it does to any of them, and is made only when each of them is to
have just these limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

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
            _, stuck = in_order([each.change for each in guest if each.change is not None])
            after = [_withheld(outcome, guest, stuck) for outcome in guest]
            if after == guest:
                return after
            guest = after

    return _each_guest(outcomes, until_none_is_left)


def in_order(changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """The changes of a guest in the order in which they are made, then those that have none.

    A disk joins a group after those that leave it: else these would get its limits. So disks that swap their groups
    have no order.
    """
    done: list[Change] = []
    left = list(changes)
    while True:
        left_behind = {change.before.group_name for change in left if _leaves(change)}
        ready = [change for change in left if change.after.group_name not in left_behind]
        if not ready:
            return done, left
        done += ready
        left = [change for change in left if change not in ready]


def may_be_in(group: str, disk: Disk) -> bool:
    """Whether a disk is a member, or may be one: by QEMU's word, and by libvirt's where QEMU has none."""
    return any(
        not isinstance(limits, Limits) or limits.group_name == group for limits in (disk.in_force, disk.defined)
    )


def _each_guest(outcomes: Sequence[Outcome], does: _OfGuest) -> list[Outcome]:
    by_guest: dict[str, list[int]] = {}
    for number, outcome in enumerate(outcomes):
        by_guest.setdefault(outcome.disk.guest.uuid, []).append(number)
    after = list(outcomes)
    for numbers in by_guest.values():
        for number, outcome in zip(numbers, does([outcomes[number] for number in numbers]), strict=True):
            after[number] = outcome
    return after


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


def _is_planned(outcome: Outcome) -> bool:
    return outcome.result.kind is Kind.PLANNED


def _withheld(outcome: Outcome, guest: Sequence[Outcome], stuck: Sequence[Change]) -> Outcome:
    change = outcome.change
    if change is None or not _is_planned(outcome) or change.after.group_name is None:
        return outcome
    reason = next(_obstacles(change, guest, stuck), None)
    return outcome if reason is None else replace(outcome, result=Result(Kind.WAITS, reason))


def _obstacles(wanted: Change, guest: Sequence[Outcome], stuck: Sequence[Change]) -> Iterator[Reason]:
    after, group = wanted.after, str(wanted.after.group_name)
    if group in wanted.disk.guest.other_groups:
        yield because(Code.GROUP_OF_OTHERS, group=group)
    for member in guest:
        change, target = member.change, member.disk.target
        if change is not None and _is_planned(member):
            leaves_too_late = wanted in stuck and change.before.group_name == group
            if change.after != after and (change.after.group_name == group or leaves_too_late):
                yield because(Code.GROUP_DISAGREES, group=group, target=target)
        elif may_be_in(group, member.disk):
            right = member.result.kind is Kind.RIGHT and member.result.reason.code is not Code.HOLD
            if not right:
                yield _kept_by(member, group)
            elif member.disk.in_force != after:
                yield because(Code.GROUP_DISAGREES, group=group, target=target)


def _kept_by(member: Outcome, group: str) -> Reason:
    return because(
        Code.GROUP_WITHHELD, group=group, target=member.disk.target, because=member.result.reason.as_record()
    )


def _leaves(change: Change) -> bool:
    return change.before.group_name not in (None, change.after.group_name)


def moved(change: Change, there: Iterable[Disk]) -> bool:
    """Whether the group's members are others than those it was judged by, or have other limits defined."""
    group = change.after.group_name
    if group is None:
        return False
    known, disks = dict(change.members), list(there)
    if any(group in disk.guest.other_groups for disk in disks):
        return True
    defined = {
        disk.key: disk.defined
        for disk in disks
        if disk.key in known or not isinstance(disk.defined, Limits) or disk.defined.group_name == group
    }
    return defined != known
