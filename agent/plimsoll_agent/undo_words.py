"""What ``plimsoll undo`` says: lines for people, and the same as data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind
from plimsoll_agent.reason import Code
from plimsoll_agent.report import change_words, note_words, printable, waiting_words, words
from plimsoll_agent.undo import Undone, UndoReport
from plimsoll_agent.views import FORMAT_VERSION

_NOT_RESTORED = (Kind.WAITS, Kind.FAILED, Kind.NOT_KNOWN)


def undone_line(undone: Undone) -> str | None:
    """The line of a disk; None for one that is as before already."""
    name, result, change = f"{printable(undone.disk.guest_name)} {printable(undone.disk.target)}", undone.result, None
    if undone.change is not None:
        change = change_words(undone.change)
    match result.kind:
        case Kind.RIGHT:
            return None
        case Kind.LEFT_ALONE:
            return f"{name}  left alone: {words(result.reason)}"
        case Kind.CHANGED:
            return f"{name}  {change}   {words(result.reason)}; done in {result.seconds * 1000:.0f} ms"
        case Kind.WAITS:
            # Why the node is paused stands below the disks, once.
            paused = result.reason.code is Code.PAUSED
            return f"{name}  {change}   {'waits: paused' if paused else waiting_words(result.reason)}"
        case _:
            return f"{name}  {change}   {words(result.reason)}" if change else f"{name}  {words(result.reason)}"


def undo_lines(report: UndoReport, *, planned: bool, enforcing: bool) -> Iterator[str]:
    """What stands below the disks: what was wrong, the sum, and what comes after it.

    ``enforcing`` says that the next pass puts in force what is wanted now.
    """
    if report.paused is not None:
        yield f"Nothing is written: {words(report.paused)}"
    yield from map(note_words, report.notes)
    if report.unrecorded:
        disks = f"{report.unrecorded} {'disk' if report.unrecorded == 1 else 'disks'}"
        yield f"{disks} with limits of plimsoll of which the record has nothing: what is not recorded is not undone"
    if not report.undone:
        if not report.unrecorded:
            yield f"Nothing was changed since {_second(report.since)}."
        return
    yield _planned_sum(report) if planned else _sum(report)
    if not planned and report.count(*_NOT_RESTORED):
        yield "What waits, failed or is not known is not tried again by itself: run plimsoll undo once more."
    if enforcing and report.paused is None and report.count(Kind.PLANNED, Kind.CHANGED):
        yield (
            "The mode is enforce: the next pass puts in force again what is wanted now. To keep these limits, say"
            " plimsoll pause, or set mode = observe."
        )


def _sum(report: UndoReport) -> str:
    failed = report.count(Kind.FAILED, Kind.NOT_KNOWN)
    return f"{report.count(Kind.CHANGED)} put back, {_rest(report)}, {failed} failed, in {report.seconds:.1f} s"


def _planned_sum(report: UndoReport) -> str:
    number, unknown = report.count(Kind.PLANNED), report.count(Kind.NOT_KNOWN)
    not_known = f", {unknown} not known" if unknown else ""
    return f"Undo: {number} {'disk' if number == 1 else 'disks'} to put back, {_rest(report)}{not_known}."


def _rest(report: UndoReport) -> str:
    waiting = f", {report.count(Kind.WAITS)} waiting" if report.count(Kind.WAITS) else ""
    return f"{report.count(Kind.RIGHT)} already as before, {report.count(Kind.LEFT_ALONE)} left alone{waiting}"


def _second(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def undo_data(report: UndoReport, *, dry_run: bool, mode: str) -> dict[str, object]:
    """One object; ``before`` of a disk is what was in force when it was looked at, ``after`` what is to be."""
    return {
        "version": FORMAT_VERSION,
        "since": report.since.isoformat(),
        "dry_run": dry_run,
        "mode": mode,
        "seconds": round(report.seconds, 6),
        "counts": {kind.value: report.count(kind) for kind in Kind},
        "disks": [_disk_data(undone) for undone in report.undone],
        "unrecorded": report.unrecorded,
        "notes": [note.as_record() for note in report.notes],
        "paused": None if report.paused is None else report.paused.as_record(),
    }


def _disk_data(undone: Undone) -> dict[str, object]:
    disk, change = undone.disk, undone.change
    return {
        "key": disk.key,
        "guest": disk.guest_name,
        "guest_uuid": disk.guest_uuid,
        "project": disk.project,
        "disk": disk.target,
        "volume": disk.volume_id,
        "pool": disk.pool,
        "image": disk.image,
        "before": undone.in_force.in_effect() if isinstance(undone.in_force, Limits) else None,
        "after": None if undone.target is None else undone.target.in_effect(),
        "direction": None if change is None else change.direction.value,
        "result": undone.result.kind.value,
        "reason": undone.result.reason.as_record(),
        "seconds": round(undone.result.seconds, 6),
    }
