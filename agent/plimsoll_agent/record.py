"""The record: every change of a limit, its intent before the call and its result after, and what operators did.

Rows are never deleted. Whoever reads holds the file for a moment only, however long the list: a pass that cannot
write its intents loosens nothing.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple
from datetime import datetime
from pathlib import Path

from plimsoll_agent import files
from plimsoll_agent.changes import Change
from plimsoll_agent.entries import NONSENSE, Conclusion, Event, Happening, RecordedChange, change_of, decoded, stamp
from plimsoll_agent.reason import Code, Reason, because
from plimsoll_agent.state import CorruptState, StateError

SCHEMA_VERSION = 2
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
    detail TEXT,
    edition TEXT
);
CREATE INDEX change_open ON change (id) WHERE result IS NULL OR result = 'unanswered';
CREATE INDEX change_disk ON change (disk);
"""
_EVENTS = """
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
_FROM_VERSION_1 = f"ALTER TABLE change ADD COLUMN edition TEXT; {_EVENTS}"

_INSERT_EVENT = (
    "INSERT INTO event (disk, guest_uuid, guest_name, project, target, pool, image, volume_id, at, by, what, reason)"
    " VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
)
_PATIENCE = 10.0
"""Seconds that we wait for whoever has the file."""
# The queries are ours and right: where SQLite finds an error in one (no such column), the tables are wrong.
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


class CorruptRecord(CorruptState):
    """What is in the file is no record, or not a whole one: ``Record.set_aside`` makes room for a new one."""


class Record:
    """The SQLite file of all changes and events. Raises ``StateError`` where it cannot be read or written, and
    ``CorruptRecord`` where what it holds is no record.

    SQLite's rollback journal, not WAL: another user's read-only open fails in WAL mode.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

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
        self._begin(now, by)
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
        self._begin(events[0].at, events[0].by)
        with self._write() as database:
            database.executemany(_INSERT_EVENT, rows)

    def set_aside(self, now: datetime, by: str) -> Path:
        """Begin a new record in the place of a corrupt one, which is kept; returns what it is called now.

        Whoever calls holds the node's lock. Ids of the old record mean nothing in the new one.
        """
        with self._plainly():
            kept = files.name_aside(self.path)
            with self._fresh(now, by, because(Code.RECORD_SET_ASIDE, instead_of=kept.name)) as fresh:
                os.link(self.path, kept)  # fails, and does not replace, where there is one
                # SQLite would roll the old file's journal back into the new one.
                with suppress(FileNotFoundError):
                    _journal(self.path).rename(_journal(kept))
                fresh.replace(self.path)
            files.sync_directory(self.path.parent)
        return kept

    def _begin(self, now: datetime, by: str) -> None:
        """Make the file where there is none: whole, so that an empty one is one that somebody emptied."""
        with self._plainly():
            if self.path.exists():
                return
            with self._fresh(now, by, None) as fresh, suppress(FileExistsError):
                os.link(fresh, self.path)  # another process may have been faster
            files.sync_directory(self.path.parent)

    @contextmanager
    def _fresh(self, now: datetime, by: str, reason: Reason | None) -> Iterator[Path]:
        """A new record under a name of its own, which is gone afterwards."""
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            os.fchmod(descriptor, 0o640)
            files.give_to_owner(descriptor, self.path.parent)
            os.close(descriptor)
            with closing(sqlite3.connect(name, isolation_level=None)) as database:
                database.executescript(f"BEGIN; {_SCHEMA} {_EVENTS} PRAGMA user_version = {SCHEMA_VERSION};")
                database.execute(_INSERT_EVENT, _event_row(Event(now, by, Happening.RECORD_STARTED, reason)))
                database.execute("COMMIT")
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed when the block ends, rolled back when it fails or is killed."""
        with self._plainly(), closing(self._connect("rw")) as database:
            # 3 = EXTRA: with FULL alone the journal may come back after a power cut, and the intent be gone.
            database.execute("PRAGMA synchronous = 3")
            database.execute("BEGIN IMMEDIATE")
            if version_of(database) == 1:
                for statement in _FROM_VERSION_1.split(";"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            yield database
            database.execute("COMMIT")

    # --- reading

    def exists(self) -> bool:
        with self._plainly():
            return self.path.exists()

    def identity(self) -> tuple[int, int] | None:
        """What tells this file from one that takes its place; None where there is none."""
        with self._plainly(), suppress(FileNotFoundError):
            status = self.path.stat()
            return status.st_dev, status.st_ino
        return None

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

    @contextmanager
    def look(self) -> Iterator[sqlite3.Connection | None]:
        """Looks only and makes no file; None where there is none."""
        with self._plainly():
            if not self.path.exists():
                yield None
                return
            with closing(self._connect("ro")) as database:
                try:
                    yield database
                except NONSENSE as error:
                    raise CorruptRecord(f"{self.path}: {error}") from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        database = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
        try:
            database.row_factory = sqlite3.Row
            database.text_factory = decoded
            self._check(database)
        except sqlite3.OperationalError as error:
            database.close()
            if mode == "ro" and error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
                # A pass was killed while it wrote: who may write takes that back, as any use of the file would.
                return self._connect("rw")
            raise
        except BaseException:
            database.close()
            raise
        return database

    def _check(self, database: sqlite3.Connection) -> None:
        version = version_of(database)
        if version > SCHEMA_VERSION:
            raise StateError(
                f"{self.path}: written by a newer plimsoll (version {version}, known up to {SCHEMA_VERSION});"
                " install that one again, or move the file away"
            )
        if version < 1:
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            raise CorruptRecord(f"{self.path}: is {'no record of plimsoll' if tables else 'empty'}")

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """What SQLite and the system say, as a sentence that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is not None and code & 0xFF in _BROKEN:
                raise CorruptRecord(f"{self.path}: {error}") from error
            if code == sqlite3.SQLITE_READONLY_ROLLBACK:
                raise StateError(
                    f"{self.path}: a pass was killed while it wrote; root can read it, and the next pass mends it"
                ) from error
            raise StateError(f"{self.path}: {error}") from error
        except OSError as error:
            raise StateError(f"{self.path}: {error.strerror or error}") from error
        except ValueError as error:  # text that cannot be stored
            raise StateError(f"{self.path}: {error}") from error


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


# --- values into rows

_Column = str | None


def _event_row(event: Event) -> tuple[_Column, ...]:
    reason = None if event.reason is None else json.dumps(event.reason.as_record())
    named = (None,) * 8 if event.disk is None else astuple(event.disk)
    return (*named, stamp(event.at), event.by, event.what.value, reason)


def version_of(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])
