"""The record: every change of a limit, its intent before the call and its result after. Rows are never deleted."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from plimsoll_agent.changes import Change
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Reason
from plimsoll_agent.state import StateError

SCHEMA_VERSION = 1
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


class Verdict(StrEnum):
    """How a change ended. An intent without one was under way when plimsoll was killed."""

    DONE = "done"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    NOT_SENT = "not-sent"
    TOOK = "took"
    DID_NOT_TAKE = "did-not-take"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How the change of an id ended; ``detail`` is what libvirt or QEMU said, where it said something."""

    id: int
    verdict: Verdict
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class OpenChange:
    """A change whose outcome is not known: settled by reading back what is in force."""

    id: int
    disk: str
    attachment: str
    after: Limits


@dataclass(frozen=True, slots=True)
class LastChange:
    """What plimsoll put in force on a disk last: when, run by whom, and why."""

    at: datetime
    by: str
    after: Limits
    reason: Reason


class Record:
    """The SQLite file of all changes. Raises ``StateError`` where it cannot be read or written.

    SQLite's rollback journal, not WAL: another user's read-only open fails in WAL mode.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def intend(self, changes: Sequence[Change], now: datetime, by: str) -> list[int]:
        """Write the intents, durably, before any of the calls is made; returns an id for each."""
        rows = [
            (
                now.isoformat(),
                by,
                change.disk.key,
                change.disk.attachment,
                change.disk.guest.uuid,
                change.disk.guest.name,
                change.disk.guest.project,
                change.disk.target,
                change.disk.pool,
                change.disk.image,
                change.disk.volume_id,
                json.dumps(change.before.in_effect()),
                json.dumps(change.after.in_effect()),
                change.direction.value,
                json.dumps(change.reason.as_record()),
                change.cause.value,
            )
            for change in changes
        ]
        insert = (
            "INSERT INTO change (intended_at, by, disk, attachment, guest_uuid, guest_name, project, target, pool,"
            " image, volume_id, before, after, direction, reason, cause) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
        )
        with self._open() as database:
            return [int(database.execute(insert, row).lastrowid or 0) for row in rows]

    def conclude(self, conclusions: Sequence[Conclusion], now: datetime) -> None:
        """Write how the changes ended."""
        with self._open() as database:
            database.executemany(
                "UPDATE change SET result = ?, result_at = ?, detail = ? WHERE id = ?",
                [(ended.verdict.value, now.isoformat(), ended.detail, ended.id) for ended in conclusions],
            )

    def unsettled(self) -> list[OpenChange]:
        """The changes whose outcome is not known, oldest first."""
        query = (
            "SELECT id, disk, attachment, after FROM change WHERE result IS NULL OR result = 'unanswered' ORDER BY id"
        )
        with self._open() as database:
            rows = database.execute(query).fetchall()
            return [OpenChange(row[0], row[1], row[2], Limits.from_mapping(json.loads(row[3]))) for row in rows]

    def last_in_force(self, disk: str) -> LastChange | None:
        """The last change of a disk (``Disk.key``) that is known to have taken; looks only, makes no file."""
        query = (
            "SELECT intended_at, by, after, reason FROM change"
            " WHERE disk = ? AND result IN ('done', 'took') ORDER BY id DESC LIMIT 1"
        )
        try:
            if not self._path.exists():
                return None
            with closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)) as database:
                row = database.execute(query, (disk,)).fetchone()
            if row is None:
                return None
            after, reason = Limits.from_mapping(json.loads(row[2])), Reason.from_record(json.loads(row[3]))
            return LastChange(datetime.fromisoformat(row[0]), row[1], after, reason)
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise StateError(f"{self._path}: {error}") from error

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            # One transaction: committed when the block ends, rolled back when it fails.
            with closing(sqlite3.connect(self._path, timeout=5)) as database, database:
                version = database.execute("PRAGMA user_version").fetchone()[0]
                if version > SCHEMA_VERSION:
                    raise StateError(f"{self._path}: written by a newer plimsoll (version {version})")
                if version == 0:
                    database.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
                    self._path.chmod(0o640)
                # 2 = FULL: the intent is on the disk before the call is made.
                database.execute("PRAGMA synchronous = 2")
                yield database
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise StateError(f"{self._path}: {error}") from error
