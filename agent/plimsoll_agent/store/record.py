"""The record: every change of a limit, its intent before the call and its result after, and events by operators.

A change that fails again in the same way is counted in its row. ``retention`` removes old rows. Readers lock the file
for a moment only, however long the list: a pass that cannot write its intents may raise no limit.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from plimsoll_agent.model.entries import Conclusion, Ending, Entry, Event, Happening, RecordedChange, RecordedEvent
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.store.database import Database, Fill, stamp, time_of, version_of
from plimsoll_agent.store.entries import change_of
from plimsoll_agent.store.retention import WITH_RETENTION, Retention, is_due, kept, prune
from plimsoll_agent.store.state import CorruptState, StateError
from plimsoll_agent.util.frozen import astuple

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
_REPEATS = """
ALTER TABLE change ADD COLUMN times INTEGER NOT NULL DEFAULT 1;
ALTER TABLE change ADD COLUMN last_at TEXT;
ALTER TABLE change ADD COLUMN retried_at TEXT;
ALTER TABLE change ADD COLUMN retried_result TEXT;
DROP INDEX change_open;
CREATE INDEX change_open ON change (id) WHERE result IS NULL OR result = 'unanswered' OR retried_at IS NOT NULL;
CREATE TABLE retention (
    change INTEGER NOT NULL,
    event INTEGER NOT NULL,
    since TEXT NOT NULL
);
"""
_WORDS = """
ALTER TABLE change RENAME COLUMN edition TO revision;
DROP INDEX change_open;
UPDATE change SET result = 'timed-out' WHERE result = 'unanswered';
UPDATE change SET retried_result = 'timed-out' WHERE retried_result = 'unanswered';
UPDATE change SET direction = 'lower' WHERE direction = 'tighten';
UPDATE change SET direction = 'raise' WHERE direction = 'loosen';
UPDATE change SET direction = 'remove' WHERE direction = 'lift';
CREATE INDEX change_open ON change (id) WHERE result IS NULL OR result = 'timed-out' OR retried_at IS NOT NULL;
"""
_EXTERNAL = ""
"""``CHANGED_EXTERNALLY``, an event that earlier versions cannot read."""
_RULES = """
ALTER TABLE change ADD COLUMN rules TEXT;
"""
_CONGESTION = ""
"""``CONGESTION``, another event that earlier versions cannot read."""
_STEPS = (_SCHEMA, _EVENTS, _REPEATS, _WORDS, _EXTERNAL, _RULES, _CONGESTION)
SCHEMA_VERSION = len(_STEPS)
WITH_REPEATS = 3
"""The first version that counts repeated changes."""

# Two changes that are equal in these are the same change, made at different times.
_CONTENT = (
    "disk, guest_uuid, guest_name, project, target, pool, image, volume_id, attachment, by, before, after, direction,"
    " reason, cause, revision, rules"
)
_INSERT = f"INSERT INTO change (intended_at, {_CONTENT}) VALUES (?{17 * ',?'})"  # noqa: S608  # names only
_LAST_OF_DISK = f"SELECT id, result, retried_at, {_CONTENT} FROM change WHERE disk = ? ORDER BY id DESC LIMIT 3"  # noqa: S608
_ANOTHER_END = f"""
INSERT INTO change (intended_at, {_CONTENT}, result, result_at, detail)
SELECT retried_at, {_CONTENT}, ?, ?, ? FROM change WHERE id = ?
"""  # noqa: S608  # names only
_COUNTED = (Ending.REFUSED, Ending.NOT_SENT, Ending.DID_NOT_TAKE)
"""Results of changes without effect, which are counted if they repeat."""

_INSERT_EVENT = (
    "INSERT INTO event (disk, guest_uuid, guest_name, project, target, pool, image, volume_id, at, by, what, reason)"
    " VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
)


_Column = str | None


Tell = Callable[[Sequence[Entry]], None]

_PAGES = 2048
"""Free pages that a pass gives back to the file system: 8 MiB."""


class CorruptRecord(CorruptState):
    """The file is not a complete record: ``Record.set_aside`` replaces it by a new one."""


class Record:
    """The SQLite file of all changes and events. Raises ``StateError`` if it cannot be read or written, and
    ``CorruptRecord`` if its content is invalid.
    """

    def __init__(self, path: Path, tell: Tell | None = None) -> None:
        """``tell`` gets what was written: changes with their results, and events."""
        self.path = path
        self._tell = tell
        self._database = Database(path, _STEPS, what="record", writer="pass", corrupt=CorruptRecord, shrinks=True)
        self._write = self._database.write
        # For those who follow the record, or read all of it.
        database = self._database
        self.look, self.is_there, self.identity = database.look, database.is_there, database.identity

    # --- writing

    def intend(
        self, changes: Sequence[Change], now: datetime, by: str, revision: str = "", rules: str = ""
    ) -> list[int]:
        """Write the intents durably, before any of the calls; returns an id for each.

        A change that failed at its last attempt keeps its id: its row records the new attempt. ``revision`` is that
        of the rules and the catalogue by which they were decided, ``rules`` the digest of these rules alone.
        """
        rows = [
            (
                *astuple(change.disk.named),
                change.disk.attachment,
                by,
                json.dumps(change.before.in_effect()),
                json.dumps(change.after.in_effect()),
                change.direction.value,
                json.dumps(change.reason.as_record()),
                change.cause.value,
                revision or None,
                rules or None,
            )
            for change in changes
        ]
        self._begin(now, by)
        with self._write() as database:
            return [_retried(database, row, now) or _inserted(database, row, now) for row in rows]

    def _begin(self, now: datetime, by: str) -> None:
        self._database.begin(_started(now, by))
        self._database.close_to_others()

    def conclude(self, conclusions: Sequence[Conclusion], now: datetime) -> None:
        """Write how the changes ended, all or none: a record without one of them is a different file.

        ``tell`` does not get repeated failures, which are only counted.
        """
        ids: list[int] = []
        with self._write() as database:
            for end in conclusions:
                query = "SELECT result, detail, retried_at FROM change WHERE id = ?"
                row = database.execute(query, (end.id,)).fetchone()
                if row is None:
                    raise StateError(f"{self.path}: has no change {end.id}")
                if row["retried_at"] is None:
                    result = (end.result.value, stamp(now), end.detail, end.id)
                    database.execute("UPDATE change SET result = ?, result_at = ?, detail = ? WHERE id = ?", result)
                    ids.append(end.id)
                elif (id_ := _conclude_retried(database, row, end, now)) is not None:
                    ids.append(id_)
            query = "SELECT * FROM change WHERE id = ?"
            changes = [change_of(database.execute(query, (id_,)).fetchone()) for id_ in ids] if self._tell else []
        if self._tell is not None and changes:
            self._tell(changes)

    def note(self, events: Sequence[Event]) -> None:
        """Write the events durably."""
        if not events:
            return
        rows = [_event_row(event) for event in events]
        self._begin(events[0].at, events[0].by)
        with self._write() as database:
            ids = [int(database.execute(_INSERT_EVENT, row).lastrowid or 0) for row in rows]
        if self._tell is not None:
            self._tell(
                [
                    RecordedEvent(
                        id=id_, at=event.at, by=event.by, what=event.what, disk=event.disk, reason=event.reason
                    )
                    for id_, event in zip(ids, events, strict=True)
                ]
            )

    def retain(self, retention: Retention, now: datetime) -> None:
        """Remove old entries, and give some space back: one short step."""
        with self.look() as database:
            if database is None or version_of(database) < WITH_RETENTION:
                return
            due = is_due(database, retention, now)
        if due:
            with self._write() as database:
                prune(database, retention, now)
        self._database.give_back(_PAGES)

    def since(self) -> datetime | None:
        """The time since which the record is complete; None if nothing was ever removed."""
        with self.look() as database:
            if database is None or version_of(database) < WITH_RETENTION:
                return None
            moment = kept(database).since
            return time_of(moment) if moment else None

    def set_aside(self, now: datetime, by: str) -> Path:
        """Replace a corrupt record by a new one; returns the new name of the corrupt one.

        The caller must hold the node's lock. Ids of the old record are invalid in the new one.
        """
        return self._database.set_aside(_started(now, by))

    # --- reading

    def unsettled(self) -> list[RecordedChange]:
        """The changes whose result is unknown, oldest first."""
        open_ones = "result IS NULL OR result IN ('timed-out', 'unanswered')"
        with self.look() as database:
            if database is None:
                return []
            if version_of(database) >= WITH_REPEATS:
                open_ones += " OR retried_at IS NOT NULL"
            rows = database.execute(f"SELECT * FROM change WHERE {open_ones} ORDER BY id")  # noqa: S608
            return [change_of(row).attempts[-1] for row in rows]

    def last_actual(self, disk: str) -> RecordedChange | None:
        """The last change of a disk (``Disk.key``) that is known to have taken effect."""
        query = "SELECT * FROM change WHERE disk = ? AND result IN ('done', 'took') ORDER BY id DESC LIMIT 1"
        return next(iter(self._changes(query, disk)), None)

    def last_change(self, disk: str) -> RecordedChange | None:
        """The last change of a disk (``Disk.key``), whatever its result."""
        changes = self._changes("SELECT * FROM change WHERE disk = ? ORDER BY id DESC LIMIT 1", disk)
        return changes[0] if changes else None

    def taken(self) -> list[RecordedChange]:
        """The last change of each disk that is known to have taken effect."""
        return self._changes(
            "SELECT * FROM change WHERE id IN"
            " (SELECT max(id) FROM change WHERE result IN ('done', 'took') GROUP BY disk) ORDER BY id"
        )

    def _changes(self, query: str, *parameters: str) -> list[RecordedChange]:
        with self.look() as database:
            return [change_of(row) for row in database.execute(query, parameters)] if database else []


# --- the same change again


def _inserted(database: sqlite3.Connection, row: tuple[_Column, ...], now: datetime) -> int:
    return int(database.execute(_INSERT, (stamp(now), *row)).lastrowid or 0)


def _retried(database: sqlite3.Connection, row: tuple[_Column, ...], now: datetime) -> int | None:
    """The id of an earlier attempt at the same change, if it failed and the disk was not changed since.

    An attempt without a known result is skipped: the one before it counts.
    """
    for before in database.execute(_LAST_OF_DISK, (row[0],)).fetchall():
        if tuple(before)[3:] != row:
            return None
        if before["retried_at"] is None and before["result"] in _COUNTED:
            query = "UPDATE change SET retried_at = ?, retried_result = NULL WHERE id = ?"
            database.execute(query, (stamp(now), before["id"]))
            return int(before["id"])
    return None


def _conclude_retried(database: sqlite3.Connection, row: sqlite3.Row, end: Conclusion, now: datetime) -> int | None:
    """Count the attempt if it ended like those before; else it gets its own row, whose id is returned."""
    if end.result is Ending.TIMED_OUT:
        database.execute("UPDATE change SET retried_result = ? WHERE id = ?", (end.result.value, end.id))
        return None
    own: int | None = None
    if (end.result, end.detail) == (row["result"], row["detail"]):
        query = "UPDATE change SET times = times + 1, last_at = retried_at, result_at = ? WHERE id = ?"
        database.execute(query, (stamp(now), end.id))
    else:
        own = database.execute(_ANOTHER_END, (end.result.value, stamp(now), end.detail, end.id)).lastrowid
    database.execute("UPDATE change SET retried_at = NULL, retried_result = NULL WHERE id = ?", (end.id,))
    return own


# --- values into rows


def _started(now: datetime, by: str) -> Fill:
    """The first row of every record."""

    def fill(database: sqlite3.Connection, instead_of: Path | None) -> None:
        reason = None if instead_of is None else because(Code.RECORD_SET_ASIDE, instead_of=instead_of.name)
        database.execute(
            _INSERT_EVENT, _event_row(Event(at=now, by=by, what=Happening.RECORD_STARTED, reason=reason))
        )

    return fill


def _event_row(event: Event) -> tuple[_Column, ...]:
    reason = None if event.reason is None else json.dumps(event.reason.as_record())
    disk = (None,) * 8 if event.disk is None else astuple(event.disk)
    return (*disk, stamp(event.at), event.by, event.what.value, reason)
