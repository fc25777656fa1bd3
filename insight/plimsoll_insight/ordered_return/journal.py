"""The record of all returns: a JSON object a line, synchronised before what it tells is done.

Each line has ``at``, ``run`` (when it began), ``by``, and one of these as ``what``: ``begin`` (with ``fsid``,
``osds`` and how hosts are reached), ``change`` (``kind``, ``name``, ``before``, ``after``), ``restored`` (``kind``,
``name``, ``how``), ``start`` and ``restart`` (``osds``), ``say`` (``text``), ``end`` (``text``, ``ending``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.decoding import UNREADABLE, data_of, text, time, value_of
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.json_lines import JsonLines

VERSION = 1
NAME = "return.jsonl"
_LARGEST = 64 * 2**20


class ReturnJournalError(PlimsollError):
    """The record of returns cannot be read or written."""


class TargetKind(StrEnum):
    """What is changed for the time of a return."""

    RESTARTS = "restarts"
    FLAG = "flag"
    SETTING = "setting"


@frozen
class ChangeTarget:
    kind: TargetKind
    name: str
    """A flag, a setting of all OSDs, or a host whose OSDs are not restarted by systemd."""


@frozen
class ClusterChange:
    """None is: not there."""

    target: ChangeTarget
    before: str | None
    after: str | None


@frozen(kw_only=True)
class ReturnEntry:
    at: datetime
    run: str
    by: str
    what: str
    facts: Mapping[str, Any]


class ReturnJournal:
    """Appends."""

    def __init__(self, path: Path, run: str, by: str, now: Callable[[], datetime]) -> None:
        self._lines, self._run, self._by, self._now = _lines(path), run, by, now

    def write(self, what: str, **facts: object) -> None:
        """Raises ``ReturnJournalError``."""
        line = {"at": self._now().isoformat(timespec="milliseconds"), "run": self._run, "by": self._by, "what": what}
        self._lines.append(line | facts, 0o600)

    def intend(self, change: ClusterChange) -> None:
        self.write("change", **data_of(change.target), before=change.before, after=change.after)

    def restored(self, target: ChangeTarget, how: str) -> None:
        self.write("restored", **data_of(target), how=how)


def _lines(path: Path) -> JsonLines:
    return JsonLines(path, _LARGEST, ReturnJournalError, "while no return is under way", parts=True)


def read(path: Path) -> list[ReturnEntry]:
    """None of it is left out but a torn line, of what was not done yet. Raises ``ReturnJournalError``."""
    lines, entries = _lines(path), []
    for number, line in lines.read():
        try:
            entries.append(_entry(line))
        except UNREADABLE as error:
            raise lines.corrupt(number, error) from error
    return entries


def _entry(line: dict[str, Any]) -> ReturnEntry:
    if line.get("version", VERSION) != VERSION:
        raise ValueError(f"has format {line['version']}, this plimsoll knows {VERSION}")
    at, run, by, what = time(line.pop("at")), *(text(line.pop(key)) for key in ("run", "by", "what"))
    entry = ReturnEntry(at=at, run=run, by=by, what=what, facts=line)
    if entry.what == "change":
        change_of(entry)
    elif entry.what == "restored":
        target_of(entry)
    return entry


def target_of(entry: ReturnEntry) -> ChangeTarget:
    return value_of(ChangeTarget, entry.facts)


def change_of(entry: ReturnEntry) -> ClusterChange:
    return value_of(ClusterChange, {**entry.facts, "target": entry.facts})


def open_changes(entries: Iterable[ReturnEntry]) -> dict[ChangeTarget, ClusterChange]:
    """What was changed and not restored, in the order in which that was done."""
    changes: dict[ChangeTarget, ClusterChange] = {}
    for entry in entries:
        if entry.what == "change":
            change = change_of(entry)
            changes[change.target] = change
        elif entry.what == "restored":
            changes.pop(target_of(entry), None)
    return changes
