"""The limits before plimsoll's changes since a moment, from the record. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby

from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.entries import TAKEN, RecordedChange
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.policy.memory import is_foreign, sets_others
from plimsoll_agent.util.frozen import frozen


@frozen(kw_only=True)
class Past:
    """A disk that was changed since a moment, from the record."""

    disk: DiskName
    """Its last names."""
    before: Limits | None
    """The limits before the first change that took effect, and before a hold that was in force then.

    None if no change is known to have taken effect.
    """
    after: Limits | None
    """The limits that plimsoll set last."""
    attachment: str | None
    """The attachment on which all changes were made; None if there were several."""
    foreign: bool
    """Whether plimsoll had not set the limits in ``before``."""


def pasts(
    rows: Iterable[RecordedChange], since: datetime, boot: datetime, holds_over: Mapping[str, datetime]
) -> list[Past]:
    """The disks that were changed since then; ``rows`` are all of theirs, in the order of their ids.

    libvirt numbers attachments from the start at the node's ``boot``: a change before it was on another one.
    ``holds_over`` is, by ``Disk.key``, the end of the last hold that ended before ``since``.
    """
    by_disk = sorted(rows, key=lambda row: row.disk.key)  # stable: keeps the order of a disk's rows
    histories = (
        _past(list(of_disk), since, boot, holds_over.get(key))
        for key, of_disk in groupby(by_disk, key=lambda row: row.disk.key)
    )
    results = [past for past in histories if past is not None]
    return sorted(results, key=lambda past: (past.disk.guest_name, past.disk.target))


def _past(rows: Sequence[RecordedChange], since: datetime, boot: datetime, hold_over: datetime | None) -> Past | None:
    """None for a disk without a change since then."""
    effective = [row for row in rows if row.result in TAKEN]
    ours = [row for row in effective if row.at >= since]
    if all(row.cause is Code.BURST_SAVED for row in ours):
        return (
            Past(disk=rows[-1].disk, before=None, after=None, attachment=None, foreign=False)
            if any(r.open and r.at >= since for r in rows)
            else None
        )
    last = ours[-1]
    earlier, before = _until(effective, effective.index(ours[0]), hold_over)
    attachments = {row.attachment if row.at >= boot else None for row in ours}
    return Past(
        disk=last.disk,
        before=before,
        after=last.after,
        attachment=attachments.pop() if len(attachments) == 1 else None,
        foreign=_put(earlier) != before,
    )


def _until(
    changes: Sequence[RecordedChange], first: int, hold_over: datetime | None
) -> tuple[Sequence[RecordedChange], Limits]:
    """The changes up to this one, without those of a hold in force then, and the limits after them.

    Undo must not restore a hold's limits without its end. Limits of a hold that was over and that stayed were desired
    by the sources too.
    """
    change = changes[first]
    if change.reason.code is Code.HOLD_ENDED:
        return changes[: first + 1], change.after
    adjacent = first > 0 and changes[first - 1].after == change.before
    while adjacent and first and sets_others((hold := changes[first - 1]).reason):
        another = hold.attachment != changes[first].attachment and hold.after != changes[first].before
        if another or (hold_over is not None and hold_over >= hold.at):
            break
        first -= 1
    return changes[:first], changes[first].before


def _put(changes: Iterable[RecordedChange]) -> Limits | None:
    """The limits that plimsoll had set on a disk after these changes; None if the limits were not set by plimsoll."""
    limits: Limits | None = None
    in_hold, foreign = False, False
    for row in changes:
        of_hold = sets_others(row.reason)
        if of_hold and not in_hold:
            in_hold, foreign = True, limits is None
        elif not of_hold:
            foreign = foreign if row.reason.code is Code.HOLD_ENDED else is_foreign(row.reason)
            in_hold = False
        limits = None if foreign and not in_hold else row.after
    return limits
