"""The first writes under other versions of libvirt or QEMU: one disk, before all others of the pass. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.reason import Code
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.outcome import Kind, Result

MOST_GUESTS = 3
"""Guests that are tried in turn: one may be odd, and keep all others from their limits at each pass."""
_SAYS_NOTHING = (
    Code.TIMED_OUT,
    Code.NOT_SENT,
    Code.NOT_FOUND,
    Code.REJECTED,
    Code.ANOTHER_DISK,
    Code.MIGRATING,
    Code.INCOMING,
)
"""Results that are about one guest, and not about the versions: its disk was detached in between, for example."""


def candidates(guests: Iterable[Sequence[Change]]) -> Iterator[Sequence[Change]]:
    """What to write alone, the best first: one disk, or all of a guest whose disks share limits.

    A cut before a raise, which may leave a disk without a limit; then the guest that was started last: of all that
    run here it has the newest QEMU.
    """
    single: list[Sequence[Change]] = []
    groups: list[Sequence[Change]] = []
    for changes in guests:
        if any(limits.group_name for each in changes for limits in (each.before, each.after)):
            groups.append(changes)
        else:
            single += [[each] for each in changes]
    yield from sorted(single, key=_preference)
    yield from sorted(groups, key=_preference)


def _preference(changes: Sequence[Change]) -> tuple[bool, int]:
    run = changes[0].disk.guest.run or ""
    return any(each.direction is not Direction.LOWER for each in changes), -int(run) if run.isdecimal() else 0


def failed(result: Result) -> bool:
    """Whether the limits were written, and not read back as written."""
    return result.kind is Kind.UNKNOWN and result.reason.code not in _SAYS_NOTHING
