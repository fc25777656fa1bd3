"""The output of ``plimsoll undo``: lines for people, and the same as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from plimsoll_agent.messages.sentences import note_words, words
from plimsoll_agent.messages.sums import kind_of, parts_of
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.reconcile.undo import Undone, UndoReport
from plimsoll_agent.util.text import plural, second

FORMAT_VERSION = 1


def undo_lines(report: UndoReport, *, planned: bool, enforcing: bool, last: datetime | None = None) -> Iterator[str]:
    """The lines below the disks: notes, the sum, and what to do next. ``last`` is the time of the newest
    change that took effect.

    ``enforcing``: the mode is enforce, so the next pass applies the desired limits again.
    """
    if report.paused is not None:
        yield f"Nothing is written: {words(report.paused)}"
    yield from map(note_words, report.notes)
    if report.unrecorded:
        yield f"{plural(report.unrecorded, 'disk')} limited by plimsoll but missing in the record: cannot be undone"
    if not report.undone:
        if not report.unrecorded:
            if last is None:
                yield "No change that took effect is recorded: nothing to undo."
            else:
                yield f"No change took effect since {second(report.since)}; the newest that did is of {second(last)}."
                yield "plimsoll undo --last undoes the last pass that changed limits."
        return
    yield _sum(report, planned=planned)
    if not planned and report.count(Kind.DEFERRED, Kind.FAILED, Kind.UNKNOWN):
        yield "Deferred and failed disks are not retried automatically: run plimsoll undo again."
    if enforcing and report.paused is None and report.count(Kind.PLANNED, Kind.CHANGED):
        yield (
            "The mode is enforce: the next pass applies the desired limits again."
            " To keep these limits: plimsoll pause, or set mode = observe."
        )


def _sum(report: UndoReport, *, planned: bool) -> str:
    number = Counter(kind_of(one.change, one.result) for one in report.undone)
    parts = ", ".join(parts_of(number, planned=planned, in_sync="already restored"))
    since = f"(changes since {second(report.since)})"
    return f"Undo: {parts} {since}." if planned else f"Undone: {parts}, in {report.seconds:.1f} s."


def undo_data(report: UndoReport, *, dry_run: bool, mode: str) -> dict[str, object]:
    """One object; ``before`` of a disk are its actual limits when it was read, ``after`` the limits to restore."""
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
        "before": undone.actual.in_effect() if isinstance(undone.actual, Limits) else None,
        "after": None if undone.target is None else undone.target.in_effect(),
        "direction": None if change is None else change.direction.value,
        "result": undone.result.kind.value,
        "reason": undone.result.reason.as_record(),
        "seconds": round(undone.result.seconds, 6),
    }
