"""The record of all returns: a JSON object a line, synchronised before what it tells is done.

Each line has ``at``, ``run`` (when it began), ``by``, and one of these as ``what``: ``begin`` (with ``fsid``,
``osds`` and how hosts are reached), ``change`` (``kind``, ``name``, ``before``, ``after``), ``restored`` (``kind``,
``name``, ``how``), ``start`` and ``restart`` (``osds``), ``say`` (``text``), ``end`` (``text``, ``ending``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util import files
from plimsoll_agent.util.decoding import UNREADABLE, complaint
from plimsoll_agent.util.frozen import frozen

VERSION = 1
NAME = "return.jsonl"
_LARGEST = 64 * 2**20


class JournalError(PlimsollError):
    """The record of returns cannot be read or written."""


class Kind(StrEnum):
    """What is changed for the time of a return."""

    RESTARTS = "restarts"
    FLAG = "flag"
    SETTING = "setting"


@frozen
class Target:
    kind: Kind
    name: str
    """A flag, a setting of all OSDs, or a host whose OSDs are not restarted by systemd."""


@frozen
class Change:
    """None is: not there."""

    target: Target
    before: str | None
    after: str | None


@frozen
class Entry:
    at: datetime
    run: str
    by: str
    what: str
    facts: Mapping[str, Any]


class Journal:
    """Appends; one that a kill left without an end of line gets one first."""

    def __init__(self, path: Path, run: str, by: str, now: Callable[[], datetime]) -> None:
        self._path, self._run, self._by, self._now = path, run, by, now

    def write(self, what: str, **facts: object) -> None:
        """Raises ``JournalError``."""
        line = {"at": self._now().isoformat(timespec="milliseconds"), "run": self._run, "by": self._by, "what": what}
        try:
            torn = _is_torn(self._path)
            content = json.dumps(line | facts, ensure_ascii=False, separators=(",", ":")).encode()
            files.append(self._path, (b"\n" if torn else b"") + content + b"\n", 0o600, durable=True)
        except OSError as error:
            raise JournalError(f"{self._path}: cannot be written: {files.reason(error)}") from error

    def intend(self, change: Change) -> None:
        self.write("change", **_named(change.target), before=change.before, after=change.after)

    def restored(self, target: Target, how: str) -> None:
        self.write("restored", **_named(target), how=how)


def _named(target: Target) -> dict[str, object]:
    return {"kind": target.kind.value, "name": target.name}


def _is_torn(path: Path) -> bool:
    try:
        with os.fdopen(files.open_regular(path, os.O_RDONLY), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            return file.read(1) not in (b"", b"\n")
    except FileNotFoundError:
        return False


def read(path: Path) -> list[Entry]:
    """None of it is left out but a torn line, of what was not done yet. Raises ``JournalError``."""
    try:
        content = files.read_whole(path, _LARGEST + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {files.reason(error)}") from error
    if len(content) > _LARGEST:
        raise JournalError(f"{path}: is larger than {_LARGEST} bytes: move it away while no return is under way")
    return list(_entries(path, content.split(b"\n")))


def _entries(path: Path, lines: list[bytes]) -> Iterator[Entry]:
    for number, words in enumerate(lines, 1):
        line = words.strip(b"\0")  # which a failure of power may leave
        if not line:
            continue
        try:
            yield _entry(json.loads(line))
        except (json.JSONDecodeError, UnicodeDecodeError):
            if not line.startswith(b"{") or line.endswith(b"}"):
                raise JournalError(f"{path}:{number}: is no line of a return; move the file away") from None
        except UNREADABLE as error:
            raise JournalError(f"{path}:{number}: cannot be read: {complaint(error)}") from error


def _entry(line: dict[str, Any]) -> Entry:
    if line.get("version", VERSION) != VERSION:
        raise ValueError(f"has format {line['version']}, this plimsoll knows {VERSION}")
    at = datetime.fromisoformat(line.pop("at")).astimezone(UTC)
    entry = Entry(at, str(line.pop("run")), str(line.pop("by")), str(line.pop("what")), line)
    if entry.what in ("change", "restored"):
        target_of(entry)
    return entry


def target_of(entry: Entry) -> Target:
    return Target(Kind(entry.facts["kind"]), str(entry.facts["name"]))


def open_changes(entries: Iterable[Entry]) -> dict[Target, Change]:
    """What was changed and not restored, in the order in which that was done."""
    changes: dict[Target, Change] = {}
    for entry in entries:
        if entry.what == "change":
            target = target_of(entry)
            changes[target] = Change(target, entry.facts["before"], entry.facts["after"])
        elif entry.what == "restored":
            changes.pop(target_of(entry), None)
    return changes
