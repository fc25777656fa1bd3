"""The record: every change of a limit, its intent before the call and its result after, and what operators did.

Rows are never deleted. Whoever reads holds the file for a moment only, however long the list: a pass that cannot
write its intents loosens nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import astuple
from datetime import datetime
from pathlib import Path

from plimsoll_agent.changes import Change
from plimsoll_agent.database import Database, Fill, stamp
from plimsoll_agent.entries import Conclusion, Event, Happening, RecordedChange, change_of
from plimsoll_agent.reason import Code, because
from plimsoll_agent.state import CorruptState, StateError

_SCHEMA = """
CREATE TABLE change (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    intended_at TEXT NOT NULL,
    by TEXT NOT NULL,
    disk TEXT NOT NULL,
    attachment TEXT NOT NULL,
    guest_uuid TEXT NOT NULL,
    guest_name TEXT NOT NULL,
    project TEXT,
    target TEXT NOT NULL,
    pool TEXT NOT NULL,
    image TEXT NOT NULL,
    volume_id TEXT,
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    direction TEXT NOT NULL,
    reason TEXT NOT NULL,
    cause TEXT NOT NULL,
    result TEXT,
    result_at TEXT,
    detail TEXT
);
CREATE INDEX change_open ON change (id) WHERE result IS NULL OR result = 'unanswered';
CREATE INDEX change_disk ON change (disk);
"""
_EVENTS = """
ALTER TABLE change ADD COLUMN edition TEXT;
CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    by TEXT NOT NULL,
    what TEXT NOT NULL,
    disk TEXT,
    guest_uuid TEXT,
    guest_name TEXT,
    project TEXT,
    target TEXT,
    pool TEXT,
    image TEXT,
    volume_id TEXT,
    reason TEXT
);
"""
_STEPS = (_SCHEMA, _EVENTS)
SCHEMA_VERSION = len(_STEPS)

_INSERT_EVENT = (
    "INSERT INTO event (disk, guest_uuid, guest_name, project, target, pool, image, volume_id, at, by, what, reason)"
    " VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
)


class CorruptRecord(CorruptState):
    """What is in the file is no record, or not a whole one: ``Record.set_aside`` makes room for a new one."""


class Record:
    """The SQLite file of all changes and events. Raises ``StateError`` where it cannot be read or written, and
    ``CorruptRecord`` where what it holds is no record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database(path, _STEPS, what="record", writer="pass", corrupt=CorruptRecord)
        self._write = self._database.write
        # Whoever follows the record, or reads it at length, asks these.
        self.look, self.exists, self.identity = self._database.look, self._database.exists, self._database.identity

    # --- writing

    def intend(self, changes: Sequence[Change], now: datetime, by: str, edition: str = "") -> list[int]:
        """Write the intents, durably, before any of the calls is made; returns an id for each.

        ``edition`` stands for the rules that they were decided by.
        """
        rows = [
            (
                *astuple(change.disk.named),
                change.disk.attachment,
                stamp(now),
                by,
                json.dumps(change.before.in_effect()),
                json.dumps(change.after.in_effect()),
                change.direction.value,
                json.dumps(change.reason.as_record()),
                change.cause.value,
                edition or None,
            )
            for change in changes
        ]
        insert = (
            "INSERT INTO change (disk, guest_uuid, guest_name, project, target, pool, image, volume_id, attachment,"
            " intended_at, by, before, after, direction, reason, cause, edition)"
            " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
        )
        self._database.begin(_started(now, by))
        with self._write() as database:
            return [int(database.execute(insert, row).lastrowid or 0) for row in rows]

    def conclude(self, conclusions: Sequence[Conclusion], now: datetime) -> None:
        """Write how the changes ended, all or none: a record that does not know one of them is another one."""
        with self._write() as database:
            for ended in conclusions:
                result = (ended.verdict.value, stamp(now), ended.detail, ended.id)
                update = "UPDATE change SET result = ?, result_at = ?, detail = ? WHERE id = ?"
                if database.execute(update, result).rowcount != 1:
                    raise StateError(f"{self.path}: has no change {ended.id}")

    def note(self, events: Sequence[Event]) -> None:
        """Write what happened, durably."""
        if not events:
            return
        rows = [_event_row(event) for event in events]
        self._database.begin(_started(events[0].at, events[0].by))
        with self._write() as database:
            database.executemany(_INSERT_EVENT, rows)

    def set_aside(self, now: datetime, by: str) -> Path:
        """Begin a new record in the place of a corrupt one, which is kept; returns what it is called now.

        Whoever calls holds the node's lock. Ids of the old record mean nothing in the new one.
        """
        return self._database.set_aside(_started(now, by))

    # --- reading

    def unsettled(self) -> list[RecordedChange]:
        """The changes whose outcome is not known, oldest first."""
        return self._changes("SELECT * FROM change WHERE result IS NULL OR result = 'unanswered' ORDER BY id")

    def last_in_force(self, disk: str) -> RecordedChange | None:
        """The last change of a disk (``Disk.key``) that is known to have taken."""
        query = "SELECT * FROM change WHERE disk = ? AND result IN ('done', 'took') ORDER BY id DESC LIMIT 1"
        return next(iter(self._changes(query, disk)), None)

    def taken(self) -> list[RecordedChange]:
        """The last change of each disk that is known to have taken."""
        return self._changes(
            "SELECT * FROM change WHERE id IN"
            " (SELECT max(id) FROM change WHERE result IN ('done', 'took') GROUP BY disk) ORDER BY id"
        )

    def _changes(self, query: str, *parameters: str) -> list[RecordedChange]:
        with self.look() as database:
            return [change_of(row) for row in database.execute(query, parameters)] if database else []


# --- values into rows

_Column = str | None


def _started(now: datetime, by: str) -> Fill:
    """The first row of every record."""

    def fill(database: sqlite3.Connection, instead_of: Path | None) -> None:
        reason = None if instead_of is None else because(Code.RECORD_SET_ASIDE, instead_of=instead_of.name)
        database.execute(_INSERT_EVENT, _event_row(Event(now, by, Happening.RECORD_STARTED, reason)))

    return fill


def _event_row(event: Event) -> tuple[_Column, ...]:
    reason = None if event.reason is None else json.dumps(event.reason.as_record())
    named = (None,) * 8 if event.disk is None else astuple(event.disk)
    return (*named, stamp(event.at), event.by, event.what.value, reason)
