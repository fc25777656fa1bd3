"""Throttle groups: one set of limits for several disks of a guest, so a write to one changes all. Pure.

A write to a member, or a disk that joins, changes the limits of all members. So the direction of such a change is the
most permissive among its members, and it is made only where the same limits are desired for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from plimsoll_agent.model.direction import Direction, direction, most_permissive
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.outcome import Kind, Outcome, Result
from plimsoll_agent.util.frozen import replace

_OfGuest = Callable[[list[Outcome]], list[Outcome]]


def judged(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes in their order; a change of a group has the most permissive direction among its members.

    A change keeps the members by which it was judged.
    """
    return _each_guest(outcomes, _judged)


def withheld(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes in their order; planned changes of a group are deferred where another member prevents them.

    A member prevents them that is deferred, held, unmanaged or unknown, or has other desired limits, unless a planned
    change takes it out of the group.
    """

    def until_none_is_left(guest: list[Outcome]) -> list[Outcome]:
        # A disk whose change is deferred stays in the group that it should leave, so that group is checked again.
        while True:
            _, deadlock = in_order([each.change for each in guest if each.change is not None])
            after = [_withheld(outcome, guest, deadlock) for outcome in guest]
            if after == guest:
                return after
            guest = after

    return _each_guest(outcomes, until_none_is_left)


def in_order(changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """The changes of a guest in the order in which they are made, then those without a possible order.

    A disk joins a group after others leave it: else they would get its limits. So disks that swap have no order.
    """
    sequence: list[Change] = []
    rest = list(changes)
    while True:
        left_behind = {change.before.group_name for change in rest if _leaves(change)}
        ready = [change for change in rest if change.after.group_name not in left_behind]
        if not ready:
            return sequence, rest
        sequence += ready
        rest = [change for change in rest if change not in ready]


def may_be_in(group: str, disk: Disk) -> bool:
    """Whether a disk is, or may be, a member, by QEMU's limits or by libvirt's."""
    if disk.filters:  # it is in their groups only, which no other disk may join
        return False
    return any(not isinstance(limits, Limits) or limits.group_name == group for limits in (disk.actual, disk.defined))


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
        members = [each.disk.found for each in guest if may_be_in(change.after.group_name, each.disk.found)]
        others = (
            _restored(change, direction(disk.actual, change.after))
            for disk in members
            if isinstance(disk.actual, Limits) and disk.actual != change.after
        )
        how = most_permissive([change.direction, *others])
        return replace(
            outcome,
            change=replace(change, direction=how, members=tuple((disk.key, disk.defined) for disk in members)),
        )

    return [with_members(outcome) for outcome in guest]


def _restored(change: Change, how: Direction) -> Direction:
    """Where only the reduction of a group changes, it does for each member."""
    return Direction.RESTORE if change.own is None and how is Direction.RAISE else how


def _is_planned(outcome: Outcome) -> bool:
    return outcome.result.kind is Kind.PLANNED


def _withheld(outcome: Outcome, guest: Sequence[Outcome], deadlock: Sequence[Change]) -> Outcome:
    change = outcome.change
    if change is None or not _is_planned(outcome) or change.after.group_name is None:
        return outcome
    reason = next(_obstacles(change, guest, deadlock), None)
    return outcome if reason is None else replace(outcome, result=Result(Kind.DEFERRED, reason))


def _obstacles(desired: Change, guest: Sequence[Outcome], deadlock: Sequence[Change]) -> Iterator[Reason]:
    after, group = desired.after, str(desired.after.group_name)
    if group in desired.disk.guest.other_groups:
        yield because(Code.GROUP_OF_OTHERS, group=group)
    if group in desired.disk.guest.filter_groups:
        yield because(Code.GROUP_OF_FILTERS, group=group)
    for member in guest:
        change, target = member.change, member.disk.target
        if change is not None and _is_planned(member):
            leaves_too_late = desired in deadlock and change.before.group_name == group
            if change.after != after and (change.after.group_name == group or leaves_too_late):
                yield because(Code.GROUP_DISAGREES, group=group, target=target)
        elif may_be_in(group, member.disk.found):
            if desired.own is None and member.disk.reduced is not None and member.disk.actual == after:
                continue  # it gets back what it has
            in_sync = member.result.kind is Kind.IN_SYNC and member.result.reason.code is not Code.HOLD
            if not in_sync:
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
    """Whether the group's members, or their defined limits, differ from those by which the change was judged."""
    group = change.after.group_name
    if group is None:
        return False
    members, disks = dict(change.members), list(there)
    if any(group in disk.guest.other_groups | disk.guest.filter_groups for disk in disks):
        return True
    definitions = {
        disk.key: disk.defined
        for disk in disks
        if disk.key in members
        or (not disk.filters and (not isinstance(disk.defined, Limits) or disk.defined.group_name == group))
    }
    return definitions != members
