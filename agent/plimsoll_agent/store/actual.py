"""What limits a disk had at a past time, from the record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.entries import TAKEN, Ending, RecordedChange
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.store import record_query
from plimsoll_agent.store.entries import change_of
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.reductions import Intended
from plimsoll_agent.util.frozen import frozen, replace

_WITHOUT_EFFECT = (Ending.REFUSED, Ending.NOT_SENT, Ending.DID_NOT_TAKE)
_NAMED = """
SELECT * FROM change WHERE disk IN
(SELECT disk FROM change WHERE ? IN (volume_id, guest_name, guest_uuid) OR lower(?) = guest_uuid) ORDER BY id
"""


@frozen(kw_only=True)
class LimitsAt:
    """A disk's limits at a moment. Before the first change in the record they are unknown: ``limits`` is None, and
    ``found_next`` has the limits that this change found.
    """

    disk: DiskName
    """Its names then, or the next ones in the record."""
    limits: Limits | None
    seen: datetime | None
    """When plimsoll last read or set them before the moment."""
    change: RecordedChange | None
    """The change that set them; None if plimsoll did not set them, or it is unknown."""
    unsure: RecordedChange | None = None
    """A change that may already have replaced them at the moment."""
    unsure_until: datetime | None = None
    """When that became known; None if it is still unknown."""
    found_next: RecordedChange | None = None
    """The next change, if it found other limits: there was an external change before it."""
    reduction: Intended | None = None
    """What set them under congestion, or restored them: ``limits`` are those of it."""


def actual(record: Record, moment: datetime, guest: str, disk: str | None) -> list[LimitsAt]:
    """The limits of the named disks (a guest and a target or volume, or a volume's id), in the order of their names.

    Raises ``StateError``. ``moment`` must not be before ``record.since()``: older entries are gone.
    """
    with record.look() as database:
        rows = [] if database is None else database.execute(_NAMED, (guest, guest)).fetchall()
        changes = [attempt for row in rows for attempt in change_of(row).attempts]
    reductions = {
        key: each
        for key, each in record_query.reduced_at(record, moment, guest).items()
        if _is_meant(each.disk, guest, disk)
    }
    changes = [change for change in changes if _is_meant(change.disk, guest, disk)]
    by_disk = sorted(changes, key=lambda change: change.disk.key)  # stable: keeps the order of a disk's changes
    states = [_at(list(of_disk), moment) for _, of_disk in groupby(by_disk, key=lambda change: change.disk.key)]
    states = [_reduced(state, reductions.pop(state.disk.key, None)) for state in states]
    states += [
        LimitsAt(disk=each.disk, limits=each.limits, seen=each.at, change=None, reduction=each)
        for each in reductions.values()
    ]
    return sorted(states, key=lambda one: (one.disk.guest_name, one.disk.target))


def _reduced(state: LimitsAt, last: Intended | None) -> LimitsAt:
    """The newest counts: a change of limits that are reduced has such an entry beside it, of the same time."""
    since = None if state.change is None else state.change.at
    if last is None or (since is not None and since > last.at) or state.unsure is not None:
        return state
    return replace(state, limits=last.limits, seen=last.at, reduction=last)


def _is_meant(name: DiskName, guest: str, disk: str | None) -> bool:
    return name.means(guest, disk) or name.means(guest.lower(), disk)


def _at(changes: Sequence[RecordedChange], moment: datetime) -> LimitsAt:
    change: RecordedChange | None
    past = [each for each in changes if each.at <= moment]
    later = next((each for each in changes if each.at > moment), None)
    if not past:
        return LimitsAt(disk=changes[0].disk, limits=None, seen=None, change=None, found_next=later)
    last = past[-1]
    if last.result in TAKEN and last.result_at is not None and last.result_at <= moment:
        limits, change, at = last.after, last, last.result_at
    else:
        limits, change, at = last.before, _origin(past[:-1], last.before), last.at
    unsure = limits is not last.after and last.result not in _WITHOUT_EFFECT
    after = limits if not unsure else None
    return LimitsAt(
        disk=last.disk,
        limits=limits,
        seen=at,
        change=change,
        unsure=last if unsure else None,
        unsure_until=_known_again(last, later) if unsure else None,
        found_next=later if later is not None and _found_others(later, last, after) else None,
    )


def _origin(earlier: Sequence[RecordedChange], limits: Limits) -> RecordedChange | None:
    """The change that set the limits that a later one found; None if something else did."""
    for change in reversed(earlier):
        if change.result in TAKEN:
            return change if change.after == limits else None
        if change.open and change.after == limits:  # so it took effect
            return change
        if change.before != limits:
            return None
    return None


def _known_again(unsure: RecordedChange, later: RecordedChange | None) -> datetime | None:
    if unsure.result_at is not None and unsure.result is not Ending.TIMED_OUT:
        return unsure.result_at
    return None if later is None else later.at


def _found_others(later: RecordedChange, last: RecordedChange, limits: Limits | None) -> bool:
    possibilities = (last.before, last.after) if limits is None else (limits,)
    return later.before not in possibilities
