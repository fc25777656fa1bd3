"""What was changed of file systems, and by whom: a JSON object a line, the intent before the change.

``begin`` has a step, ``done`` and ``undone`` have its number. A step that was begun and not undone is open: that of a
process that was killed, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.decoding import UNREADABLE, count, data_of, text, time, value_of
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.json_lines import JsonLines
from plimsoll_insight.mds.settings import SettingStep

VERSION = 1
_MOST = 8 << 20


class FileSystemJournalError(PlimsollError):
    """The record of changes to file systems cannot be read or written."""


@frozen(kw_only=True)
class OpenStep:
    """``number`` is that of its entry, from 0."""

    number: int
    at: datetime
    by: str
    step: SettingStep


class FileSystemJournal:
    """Of one file system, in a file with those of others. A change is made under ``State.file_systems_locked``."""

    def __init__(self, path: Path, fsid: str, file_system: str) -> None:
        self._of = {"fsid": fsid, "file_system": file_system}
        self._lines = JsonLines(path, _MOST, FileSystemJournalError, "when nothing in it is to be taken back")

    def open_steps(self) -> list[OpenStep]:
        """In the order in which they were made. Raises ``FileSystemJournalError``."""
        steps: dict[int, OpenStep] = {}
        for index, (number, entry) in enumerate(self._entries()):
            if any(entry.get(key) != value for key, value in self._of.items()):
                continue
            try:
                _take(steps, index, entry)
            except UNREADABLE as error:
                raise self._lines.corrupt(number, error) from None
        return list(steps.values())

    def begin(self, step: SettingStep, at: datetime, by: str) -> int:
        """Its number. It is on the disk when this returns. Raises ``FileSystemJournalError``."""
        number = sum(1 for _ in self._entries())
        self._write({"begin": _data(step)}, at, by)
        return number

    def done(self, number: int, at: datetime, by: str) -> None:
        """Raises ``FileSystemJournalError``."""
        self._write({"done": number}, at, by)

    def undone(self, number: int, at: datetime, by: str) -> None:
        """Raises ``FileSystemJournalError``."""
        self._write({"undone": number}, at, by)

    def _entries(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """With the number of its line. Raises ``FileSystemJournalError``."""
        for number, entry in self._lines.read():
            if entry.get("version") != VERSION:
                raise self._lines.corrupt(number, ValueError("is of another version"))
            yield number, entry

    def _write(self, entry: Mapping[str, Any], at: datetime, by: str) -> None:
        self._lines.append({"version": VERSION, "at": at.isoformat(), "by": by, **self._of, **entry})


def _take(steps: dict[int, OpenStep], number: int, entry: Mapping[str, Any]) -> None:
    match entry:
        case {"begin": step}:
            steps[number] = OpenStep(
                number=number,
                at=time(entry["at"]),
                by=text(entry["by"]),
                step=value_of(SettingStep, {**step, "setting": step}),
            )
        case {"undone": of}:
            steps.pop(count(of), None)
        case {"done": of}:
            count(of)
        case _:
            raise ValueError("none of begin, done and undone")


def _data(step: SettingStep) -> dict[str, object]:
    return {**data_of(step.setting), "before": step.before, "after": step.after}
