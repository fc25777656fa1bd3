"""What limits a disk had at a moment of the past, as the record tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from plimsoll_agent.disk import DiskName
from plimsoll_agent.entries import RecordedChange, Verdict, change_of
from plimsoll_agent.limits import Limits
from plimsoll_agent.record import Record

_TAKEN = (Verdict.DONE, Verdict.TOOK)
_WITHOUT_EFFECT = (Verdict.REFUSED, Verdict.NOT_SENT, Verdict.DID_NOT_TAKE)
_NAMED = """
SELECT * FROM change WHERE disk IN
(SELECT disk FROM change WHERE ? IN (volume_id, guest_name, guest_uuid) OR lower(?) = guest_uuid) ORDER BY id
"""


@dataclass(frozen=True, slots=True)
class InForce:
    """What is known of a disk at a moment. Limits of before the first change in the record are not known to have been
    there at the moment: ``limits`` is None then, and ``found_next`` has what that change found.
    """

    disk: DiskName
    """As it was called then, or first after that."""
    limits: Limits | None
    """In force at the moment, as far as is known."""
    seen: datetime | None
    """The last time before the moment at which plimsoll saw or made them so."""
    change: RecordedChange | None
    """Which put them in force; None where it was something else than plimsoll, or is not known."""
    unsure: RecordedChange | None = None
    """A change that may have been in force at the moment already, instead of them."""
    unsure_until: datetime | None = None
    """When that was known again; None where it is not known yet."""
    found_next: RecordedChange | None = None
    """The next change, where it found other limits: something else had changed them by then."""


def in_force(record: Record, moment: datetime, guest: str, disk: str | None) -> list[InForce]:
    """Of each disk that is meant (a guest and a target or volume, or a volume's id), by their names.

    Raises ``StateError``. The moment is none before ``record.since()``: that of which entries are gone.
    """
    with record.look() as database:
        rows = [] if database is None else database.execute(_NAMED, (guest, guest)).fetchall()
        changes = [attempt for row in rows for attempt in change_of(row).attempts]
    changes = [change for change in changes if _is_meant(change.disk, guest, disk)]
    by_disk = sorted(changes, key=lambda change: change.disk.key)  # stable: the order of a disk's changes stays
    found = [_at(list(of_disk), moment) for _, of_disk in groupby(by_disk, key=lambda change: change.disk.key)]
    return sorted(found, key=lambda one: (one.disk.guest_name, one.disk.target))


def _is_meant(named: DiskName, guest: str, disk: str | None) -> bool:
    return named.means(guest, disk) or named.means(guest.lower(), disk)


def _at(changes: Sequence[RecordedChange], moment: datetime) -> InForce:
    change: RecordedChange | None
    past = [each for each in changes if each.at <= moment]
    later = next((each for each in changes if each.at > moment), None)
    if not past:
        return InForce(changes[0].disk, None, None, None, found_next=later)
    last = past[-1]
    if last.result in _TAKEN and last.result_at is not None and last.result_at <= moment:
        limits, change, seen = last.after, last, last.result_at
    else:
        limits, change, seen = last.before, _origin(past[:-1], last.before), last.at
    unsure = limits is not last.after and last.result not in _WITHOUT_EFFECT
    after = limits if not unsure else None
    return InForce(
        last.disk,
        limits,
        seen,
        change,
        last if unsure else None,
        _known_again(last, later) if unsure else None,
        later if later is not None and _is_news(later, last, after) else None,
    )


def _origin(earlier: Sequence[RecordedChange], found: Limits) -> RecordedChange | None:
    """The change that put in force what a later one found; None where something else did."""
    for change in reversed(earlier):
        if change.result in _TAKEN:
            return change if change.after == found else None
        if change.open and change.after == found:  # so it took
            return change
        if change.before != found:
            return None
    return None


def _known_again(unsure: RecordedChange, later: RecordedChange | None) -> datetime | None:
    if unsure.result_at is not None and unsure.result is not Verdict.UNANSWERED:
        return unsure.result_at
    return None if later is None else later.at


def _is_news(later: RecordedChange, last: RecordedChange, limits: Limits | None) -> bool:
    expected = (last.before, last.after) if limits is None else (limits,)
    return later.before not in expected
