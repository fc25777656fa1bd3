"""What was changed of file systems, and by whom: a JSON object a line, the intent before the change.

``begin`` has a step, ``done`` and ``undone`` have its number. A step that was begun and not undone is open: that of a
process that was killed, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util import files
from plimsoll_agent.util.decoding import UNREADABLE, complaint, count, maybe, text, time
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.mds.settings import Name, Setting, Step

VERSION = 1
_MOST = 8 << 20


class JournalError(PlimsollError):
    """The record of changes to file systems cannot be read or written."""


@frozen
class OpenStep:
    """``number`` is that of its line."""

    number: int
    at: datetime
    by: str
    step: Step


class Journal:
    """Of one file system, in a file with those of others. A change is made under ``State.file_systems_locked``."""

    def __init__(self, path: Path, fsid: str, file_system: str) -> None:
        self._path, self._of = path, {"fsid": fsid, "file_system": file_system}

    def open_steps(self) -> list[OpenStep]:
        """In the order in which they were made. Raises ``JournalError``."""
        steps: dict[int, OpenStep] = {}
        for number, entry in enumerate(self._entries()):
            if any(entry.get(key) != value for key, value in self._of.items()):
                continue
            try:
                _take(steps, number, entry)
            except UNREADABLE as error:
                raise self._corrupt(number, error) from None
        return list(steps.values())

    def begin(self, step: Step, at: datetime, by: str) -> int:
        """Its number. It is on the disk when this returns. Raises ``JournalError``."""
        number = sum(1 for _ in self._entries())
        self._write({"begin": _data(step)}, at, by)
        return number

    def done(self, number: int, at: datetime, by: str) -> None:
        """Raises ``JournalError``."""
        self._write({"done": number}, at, by)

    def undone(self, number: int, at: datetime, by: str) -> None:
        """Raises ``JournalError``."""
        self._write({"undone": number}, at, by)

    def _entries(self) -> Iterator[Mapping[str, Any]]:
        """Raises ``JournalError``, also for a line that plimsoll did not write: what is open must be certain."""
        try:
            lines = self._content().splitlines(keepends=True)
        except OSError as error:
            raise JournalError(f"{self._path}: cannot be read: {files.reason(error)}") from error
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                if entry["version"] != VERSION or not line.endswith(b"\n"):
                    raise ValueError("of another version, or cut off")
                yield entry
            except UNREADABLE as error:
                if number == len(lines) and not line.endswith(b"\n"):
                    return  # a process was killed while it wrote, and so before it changed anything
                raise self._corrupt(number - 1, error) from None

    def _corrupt(self, number: int, error: Exception) -> JournalError:
        return JournalError(f"{self._path}:{number + 1}: is corrupt: {complaint(error)}")

    def _write(self, entry: Mapping[str, Any], at: datetime, by: str) -> None:
        line = json.dumps({"version": VERSION, "at": at.isoformat(), "by": by, **self._of, **entry}).encode() + b"\n"
        try:
            self._cut()
            files.append(self._path, line, durable=True)
        except OSError as error:
            raise JournalError(f"{self._path}: cannot be written: {files.reason(error)}") from error

    def _content(self) -> bytes:
        """Empty where there is no file. Raises ``OSError``, ``JournalError``."""
        try:
            content = files.read_whole(self._path, _MOST + 1)
        except FileNotFoundError:
            return b""
        if len(content) > _MOST:  # its end may have what is open
            raise JournalError(
                f"{self._path}: is larger than {_MOST} bytes: move it away when nothing in it is to be taken back"
            )
        return content

    def _cut(self) -> None:
        """Remove a part of a line that a killed process left. Raises ``OSError``."""
        content = self._content()
        if content and not content.endswith(b"\n"):
            with os.fdopen(files.open_regular(self._path, os.O_WRONLY), "wb") as file:
                file.truncate(content.rfind(b"\n") + 1)


def _take(steps: dict[int, OpenStep], number: int, entry: Mapping[str, Any]) -> None:
    match entry:
        case {"begin": step}:
            steps[number] = OpenStep(number, time(entry["at"]), text(entry["by"]), _step(step))
        case {"undone": of}:
            steps.pop(count(of), None)
        case {"done": of}:
            count(of)
        case _:
            raise ValueError("none of begin, done and undone")


def _data(step: Step) -> dict[str, object]:
    setting = step.setting
    return {"name": str(setting.name), "of": setting.of, "before": step.before, "after": step.after}


def _step(data: Mapping[str, Any]) -> Step:
    setting = Setting(Name(text(data["name"])), text(data["of"]))
    return Step(setting, maybe(text, data["before"]), maybe(text, data["after"]))
