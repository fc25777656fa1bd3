"""What a guest brings along from another node and what it leaves behind: marks into memory, and back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from plimsoll_agent.decide import Remembered
from plimsoll_agent.direction import Direction, direction
from plimsoll_agent.disk import Disk
from plimsoll_agent.holds import LONGEST, Hold
from plimsoll_agent.limits import Limits
from plimsoll_agent.marks import Mark, MarkedHold, Marks
from plimsoll_agent.reason import Code, Reason, Unknown, because

LEFT_FOR_GOOD = timedelta(minutes=10)
"""Nova's hard reboot and rebuild take a guest's definition away and bring it back."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """Memory and holds with what the guests brought along."""

    memory: Mapping[str, Remembered]
    """Only what is new, by ``Disk.key``."""
    holds: Mapping[str, Hold]
    """All, by ``Disk.key``."""
    came: tuple[Hold, ...] = ()
    """Those that came with their guests."""
    went: tuple[Hold, ...] = ()
    """Those of an earlier stay, which the guest came back without."""
    notes: tuple[Reason, ...] = ()


def adopted(
    disks: Iterable[Disk], memory: Mapping[str, Remembered], holds: Mapping[str, Hold], now: datetime
) -> Adopted:
    """Take over the marks of disks that this node knows nothing of, or only from an earlier stay.

    A mark says nothing that QEMU does not bear out: limits count as put by plimsoll only where they are in force.
    """
    new: dict[str, Remembered] = {}
    all_holds = dict(holds)
    came: list[Hold] = []
    went: list[Hold] = []
    notes: list[Reason] = []
    for disk in disks:
        mark, known, held = disk.mark, memory.get(disk.key), holds.get(disk.key)
        if mark is None or not isinstance(disk.in_force, Limits) or not _is_news(mark, known, disk):
            continue
        new[disk.key] = _remembered(mark, known, disk, now)
        if held is not None and (known is None or held.since >= known.seen):
            continue  # an operator added it here just now, and no pass has met the disk since
        hold, refused = _hold(mark, disk, now)
        if hold is not None and held is not None and told(hold) == told(held):
            continue
        if held is not None:
            went.append(all_holds.pop(disk.key))
        if hold is not None:
            all_holds[disk.key] = hold
            came.append(hold)
        if refused is not None:
            notes.append(refused)
    return Adopted(new, all_holds, tuple(came), tuple(went), tuple(notes))


def _is_news(mark: Mark, known: Remembered | None, disk: Disk) -> bool:
    """Whether the mark may know more than the memory: it was written elsewhere, or the memory was lost.

    A guest that was suspended here comes back with the mark that this node gave it.
    """
    return known is None or (known.attachment != disk.attachment and known.mark != mark.digest)


def awaits_adoption(disk: Disk, known: Remembered | None) -> bool:
    """Whether its mark is for a later pass: the guest is still on the move, or does not answer."""
    return disk.mark is not None and not isinstance(disk.in_force, Limits) and _is_news(disk.mark, known, disk)


def _remembered(mark: Mark, known: Remembered | None, disk: Disk, now: datetime) -> Remembered:
    # Nova gives a volume the limits of its spec again when it migrates; what the sources wanted is known even so.
    ours = mark.put is not None and mark.put == disk.in_force
    ours_before = known is not None and known.put is not None and known.put == disk.in_force
    return Remembered(
        wanted=mark.wanted,
        since=min(mark.since, now),
        seen=now,
        put=disk.in_force if isinstance(disk.in_force, Limits) and (ours or ours_before) else None,
        attachment=disk.attachment,
        returns=mark.returns if ours else None,
        theirs=ours and mark.theirs,
        kept=mark.kept,
        by_type=mark.by_type,
        by_rules=mark.by_rules,
        revision=mark.revision,
        mark=mark.digest,
        released=mark.released,
    )


def _hold(mark: Mark, disk: Disk, now: datetime) -> tuple[Hold | None, Reason | None]:
    """The hold that the disk brings along, or why it is not taken over."""
    held = mark.hold
    if held is None or now >= held.until:
        return None, None
    hold = Hold(disk.named, held.limits, min(held.since, now), held.until, held.by, held.why)
    if held.until - now <= LONGEST and _borne_out(mark, held, disk.in_force):
        return hold, None
    until = hold.until.isoformat(timespec="minutes")
    detail = f"{disk.guest.name} {disk.target}, until {until} by {hold.by}: {hold.why}"
    return None, because(Code.HOLD_NOT_ADOPTED, detail=detail)


def _borne_out(mark: Mark, held: MarkedHold, in_force: Limits | Unknown | None) -> bool:
    """Whether the disk has what the mark says of it, or the hold only lowers what it has.

    What the sources wanted counts too: a live migration gives a volume that back.
    """
    if in_force in (mark.put, mark.wanted):
        return True
    return (
        held.limits is not None
        and isinstance(in_force, Limits)
        and (held.limits == in_force or direction(in_force, held.limits) is Direction.TIGHTEN)
    )


def mark_for(remembered: Remembered | None, hold: Hold | None) -> Mark | None:
    """What is to follow a disk; None where there is nothing to tell."""
    held = None if hold is None else told(hold)
    if remembered is None:
        return None if held is None else Mark(None, held.since, None, hold=held)
    if held is None and remembered.wanted is remembered.put is remembered.returns is None:
        return None
    return Mark(
        remembered.wanted,
        remembered.since,
        remembered.put,
        kept=remembered.kept,
        by_type=remembered.by_type,
        by_rules=remembered.by_rules,
        revision=remembered.revision,
        returns=remembered.returns,
        theirs=remembered.theirs,
        hold=held,
        released=remembered.released,
    )


def told(hold: Hold) -> MarkedHold:
    """What of a hold follows the guest. Not that it ignores the health gate: that was said for one moment."""
    return MarkedHold(hold.limits, hold.since, hold.until, hold.by, hold.why)


def marks_to_write(
    disks: Iterable[Disk], memory: Mapping[str, Remembered], holds: Mapping[str, Hold]
) -> dict[str, Marks]:
    """By the guest's uuid, the marks of guests that have others; a guest that is not known well is left out."""
    of_guest: dict[str, list[Disk]] = {}
    for disk in disks:
        of_guest.setdefault(disk.guest.uuid, []).append(disk)
    wanted: dict[str, Marks] = {}
    for uuid, its in of_guest.items():
        if not all(isinstance(disk.in_force, Limits) for disk in its):
            continue  # it hangs, or is on the move
        found = {disk.within_guest: mark_for(memory.get(disk.key), holds.get(disk.key)) for disk in its}
        marks = Marks({name: mark for name, mark in found.items() if mark is not None})
        there = its[0].guest.marks
        if marks.xml != (there.xml if isinstance(there, Marks) else Marks().xml) or isinstance(there, Unknown):
            wanted[uuid] = marks
    return wanted


@dataclass(frozen=True, slots=True)
class Left:
    """The holds of a node, without those whose guests have left it."""

    holds: Mapping[str, Hold]
    went: tuple[Hold, ...]


def without_guests(holds: Mapping[str, Hold], knows: Callable[[str], bool], now: datetime) -> Left:
    """A hold is void once libvirt has not known its guest for a while; a guest that is only off keeps its own.

    ``knows`` is asked once for each guest; it raises what the hypervisor raises.
    """
    known = {uuid: knows(uuid) for uuid in sorted({hold.disk.guest_uuid for hold in holds.values()})}
    standing: dict[str, Hold] = {}
    went: list[Hold] = []
    for key, hold in holds.items():
        if known[hold.disk.guest_uuid]:
            standing[key] = replace(hold, missing=None)
            continue
        missing = now if hold.missing is None else min(hold.missing, now)
        if now - missing < LEFT_FOR_GOOD:
            standing[key] = replace(hold, missing=missing)
        else:
            went.append(hold)
    return Left(standing, tuple(went))
