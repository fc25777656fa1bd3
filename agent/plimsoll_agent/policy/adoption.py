"""Marks of a guest from another node become memory and holds, and memory and holds become marks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

from plimsoll_agent.model.direction import Direction, direction
from plimsoll_agent.model.disk import Disk, guest_of
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Mark, MarkedHold, Marks
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.util.durations import LONGEST_EXCEPTION
from plimsoll_agent.util.frozen import frozen, replace

LEFT_FOR_GOOD = timedelta(minutes=10)
"""How long libvirt must not have had a guest: Nova's hard reboot and rebuild undefine and define it."""


@frozen(kw_only=True)
class Adopted:
    """Memory and holds with those of the guests' marks."""

    memory: Mapping[str, Remembered]
    """Only what is new, by ``Disk.key``."""
    holds: Mapping[str, Hold]
    """All, by ``Disk.key``."""
    came: tuple[Hold, ...] = ()
    """Those that came with their guests."""
    went: tuple[Hold, ...] = ()
    """Those of an earlier stay of a guest that came back without them."""
    notes: tuple[Reason, ...] = ()


def adopted(
    disks: Iterable[Disk], memory: Mapping[str, Remembered], holds: Mapping[str, Hold], now: datetime
) -> Adopted:
    """Adopt the marks of disks that this node does not remember, or only from an earlier stay.

    Limits in a mark count as set by plimsoll only if they are the actual ones.
    """
    new: dict[str, Remembered] = {}
    all_holds = dict(holds)
    came: list[Hold] = []
    went: list[Hold] = []
    notes: list[Reason] = []
    for disk in disks:
        mark, entry, present = disk.mark, memory.get(disk.key), holds.get(disk.key)
        if mark is None or not isinstance(disk.actual, Limits) or not _is_newer(mark, entry, disk):
            continue
        new[disk.key] = _remembered(mark, entry, disk, now)
        if entry is not None and entry.attachment == disk.attachment:
            continue  # in the same stay the node's holds are newer: an operator may have ended one since
        if present is not None and (entry is None or present.since >= entry.seen):
            continue  # an operator added it here, and there was no pass since
        hold, refusal = _hold(mark, disk, now)
        if hold is not None and present is not None and as_marked(hold) == as_marked(present):
            continue
        if present is not None:
            went.append(all_holds.pop(disk.key))
        if hold is not None:
            all_holds[disk.key] = hold
            came.append(hold)
        if refusal is not None:
            notes.append(refusal)
    return Adopted(memory=new, holds=all_holds, came=tuple(came), went=tuple(went), notes=tuple(notes))


def _is_newer(mark: Mark, entry: Remembered | None, disk: Disk) -> bool:
    """Whether the mark may be newer than the memory: it was written elsewhere, or the memory was lost.

    A guest that was suspended here returns with the mark of this node. In the same stay, a mark that differs from the
    memory was written by a pass that could not save its memory (a full disk).
    """
    if entry is None or mark.digest == entry.mark:
        return entry is None
    if entry.attachment != disk.attachment:
        return True
    return mark.applied is not None and mark.applied == disk.actual and mark.applied != entry.applied


def awaits_adoption(disk: Disk, entry: Remembered | None) -> bool:
    """Whether a later pass must adopt its mark: the guest is still migrating, or unreachable.

    Of reduced limits only the mark tells what they are of, until a pass has seen both: in a new stay it counts even
    where it is the mark of before.
    """
    if disk.mark is None or isinstance(disk.actual, Limits):
        return False
    is_new_stay = entry is not None and entry.attachment != disk.attachment
    return (disk.mark.reduced and is_new_stay) or _is_newer(disk.mark, entry, disk)


def _remembered(mark: Mark, entry: Remembered | None, disk: Disk, now: datetime) -> Remembered:
    # When a guest migrates, Nova sets a volume's limits from its spec again; the desired limits stay known.
    ours = mark.applied is not None and mark.applied == disk.actual
    ours_before = entry is not None and entry.applied is not None and entry.applied == disk.actual
    return Remembered(
        desired=mark.desired,
        since=min(mark.since, now),
        seen=now,
        applied=disk.actual if isinstance(disk.actual, Limits) and (ours or ours_before) else None,
        attachment=disk.attachment,
        restore_to=mark.restore_to if ours else None,
        foreign=ours and mark.foreign,
        enforced=mark.enforced,
        by_type=mark.by_type,
        by_rules=mark.by_rules,
        revision=mark.revision,
        later=mark.later,
        mark=mark.digest,
        released=mark.released,
        reduced=disk.reduced,
        unreduced=disk.actual if disk.reduced is not None and isinstance(disk.actual, Limits) else None,
    )


def _hold(mark: Mark, disk: Disk, now: datetime) -> tuple[Hold | None, Reason | None]:
    """The hold in the mark, or why it is not adopted."""
    claim = mark.hold
    if claim is None or now >= claim.until:
        return None, None
    hold = Hold(
        disk=disk.named,
        limits=claim.limits,
        since=min(claim.since, now),
        until=claim.until,
        by=claim.by,
        why=claim.why,
    )
    if claim.until - now <= LONGEST_EXCEPTION and _borne_out(mark, claim, disk.actual):
        return hold, None
    until = hold.until.isoformat(timespec="minutes")
    detail = f"{disk.guest.name} {disk.target}, until {until} by {hold.by}: {hold.why}"
    return None, because(Code.HOLD_NOT_ADOPTED, detail=detail)


def _borne_out(mark: Mark, hold: MarkedHold, actual: Limits | Unknown | None) -> bool:
    """Whether the disk has the limits in the mark, or the hold only lowers those it has.

    The desired limits count too: after a live migration a volume has them again.
    """
    if actual in (mark.applied, mark.desired):
        return True
    return (
        hold.limits is not None
        and isinstance(actual, Limits)
        and (hold.limits == actual or direction(actual, hold.limits) is Direction.LOWER)
    )


def mark_for(entry: Remembered | None, hold: Hold | None) -> Mark | None:
    """The mark that follows a disk; None if there is nothing to mark."""
    claim = None if hold is None else as_marked(hold)
    if entry is None:
        return None if claim is None else Mark(desired=None, since=claim.since, applied=None, hold=claim)
    if claim is None and entry.desired is entry.applied is entry.restore_to is entry.reduced is None:
        return None
    return Mark(
        desired=entry.desired,
        since=entry.since,
        applied=entry.applied,
        enforced=entry.enforced,
        by_type=entry.by_type,
        by_rules=entry.by_rules,
        revision=entry.revision,
        later=entry.later,
        restore_to=entry.restore_to,
        foreign=entry.foreign,
        hold=claim,
        released=entry.released,
        reduced=entry.reduced is not None,
    )


def as_marked(hold: Hold) -> MarkedHold:
    """The hold as it follows the guest, without ``ignore_health``, which was meant for this node and moment."""
    return MarkedHold(limits=hold.limits, since=hold.since, until=hold.until, by=hold.by, why=hold.why)


def marks_to_write(
    disks: Iterable[Disk], memory: Mapping[str, Remembered], holds: Mapping[str, Hold]
) -> dict[str, Marks]:
    """By the guest's uuid, the marks that differ from the present ones; guests with unknown limits are left out."""
    of_guest: dict[str, list[Disk]] = {}
    for disk in disks:
        of_guest.setdefault(disk.guest.uuid, []).append(disk)
    desired: dict[str, Marks] = {}
    for uuid, its in of_guest.items():
        if not all(isinstance(disk.actual, Limits) for disk in its):
            continue  # it is unreachable, or migrating
        by_name = {disk.within_guest: mark_for(memory.get(disk.key), holds.get(disk.key)) for disk in its}
        marks = Marks({name: mark for name, mark in by_name.items() if mark is not None})
        there = its[0].guest.marks
        if marks == there:  # quicker than to compare XML
            continue
        if marks.xml != (there.xml if isinstance(there, Marks) else Marks().xml) or isinstance(there, Unknown):
            desired[uuid] = marks
    return desired


def marks_of_changed(
    disks: Iterable[Disk], keys: Collection[str], memory: Mapping[str, Remembered], holds: Mapping[str, Hold]
) -> dict[str, Marks]:
    """The marks of guests whose disks were changed (their ``Disk.key``), if the memory cannot be saved.

    They get no new hold: its end could not be recorded.
    """
    guests = {guest_of(key) for key in keys}
    disks = [disk for disk in disks if disk.guest.uuid in guests]
    marked_holds = {disk.key: None if disk.mark is None else disk.mark.hold for disk in disks}
    return marks_to_write(
        disks, memory, {key: hold for key, hold in holds.items() if as_marked(hold) == marked_holds.get(key)}
    )


def with_marks(
    disks: Iterable[Disk], memory: Mapping[str, Remembered], marks: Mapping[str, Marks]
) -> dict[str, Remembered]:
    """The memory with the marks of the disks after these, by the guest's uuid, are written."""
    after = dict(memory)
    for disk in disks:
        if disk.key in after and not awaits_adoption(disk, after[disk.key]):
            its = marks.get(disk.guest.uuid)
            mark = disk.mark if its is None else its.by_disk.get(disk.within_guest)
            after[disk.key] = replace(after[disk.key], mark=None if mark is None else mark.digest)
    return after


@frozen
class Left:
    """The holds of a node, without those whose guests have left it."""

    holds: Mapping[str, Hold]
    went: tuple[Hold, ...]


def without_guests(holds: Mapping[str, Hold], knows: Callable[[str], bool], now: datetime) -> Left:
    """A hold ends if libvirt has not had its guest for ``LEFT_FOR_GOOD``; a guest that is off keeps its holds.

    ``knows`` is called once for each guest; it raises what the hypervisor raises.
    """
    here = {uuid: knows(uuid) for uuid in sorted({hold.disk.guest_uuid for hold in holds.values()})}
    staying: dict[str, Hold] = {}
    went: list[Hold] = []
    for key, hold in holds.items():
        if here[hold.disk.guest_uuid]:
            staying[key] = replace(hold, missing=None)
            continue
        missing = now if hold.missing is None else min(hold.missing, now)
        if now - missing < LEFT_FOR_GOOD:
            staying[key] = replace(hold, missing=missing)
        else:
            went.append(hold)
    return Left(staying, tuple(went))
