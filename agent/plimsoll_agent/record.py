"""The record: every change of a limit, its intent before the call and its result after, and what operators did.

Rows are never deleted. Whoever reads holds the file for a moment only, however long the list: a pass that cannot
write its intents loosens nothing.
"""

from __future__ import annotations

import heapq
import json
import os
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from plimsoll_agent.changes import Change, Direction
from plimsoll_agent.disk import DiskName
from plimsoll_agent.limits import Limits
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

_PATIENCE = 10.0
"""Seconds that we wait for whoever has the file."""
_LAST_ID = 2**63 - 1
# The queries are ours and right: where SQLite finds an error in one (no such column), the tables are wrong.
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


class CorruptRecord(CorruptState):
    """What is in the file is no record, or not a whole one: ``Record.set_aside`` makes room for a new one."""


class Verdict(StrEnum):
    """How a change ended. An intent without one was under way when plimsoll was killed."""

    DONE = "done"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    NOT_SENT = "not-sent"
    TOOK = "took"
    DID_NOT_TAKE = "did-not-take"
    GONE = "gone"


UNDER_WAY = "under-way"
"""What a selection calls a change without a verdict."""


class Happening(StrEnum):
    """What bears on limits and is no change of one."""

    HOLD_ADDED = "hold-added"
    HOLD_ENDED = "hold-ended"
    APPROVED = "approved"
    PAUSED = "paused"
    RESUMED = "resumed"
    RECORD_STARTED = "record-started"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that an operator did; about the node where ``disk`` is None."""

    at: datetime
    by: str
    what: Happening
    reason: Reason | None
    disk: DiskName | None = None


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
    """What plimsoll put in force on a disk (``Disk.key``) last: when, run by whom, and why."""

    disk: str
    at: datetime
    by: str
    after: Limits
    reason: Reason


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A row of changes; ``result`` is None while it is under way, ``edition`` where no rules are known."""

    id: int
    at: datetime
    by: str
    disk: DiskName
    attachment: str
    before: Limits
    after: Limits
    direction: Direction
    reason: Reason
    cause: Code
    edition: str | None
    result: Verdict | None
    result_at: datetime | None
    detail: str | None

    @property
    def open(self) -> bool:
        return self.result in (None, Verdict.UNANSWERED)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """A row of events."""

    id: int
    at: datetime
    by: str
    what: Happening
    disk: DiskName | None
    reason: Reason | None


Entry = RecordedChange | RecordedEvent


@dataclass(frozen=True, slots=True)
class Selection:
    """Which entries are meant; None is all. ``since`` is the first moment, ``until`` the first one after."""

    disk: str | None = None
    """Target, volume id, or ``Disk.key``."""
    guest: str | None = None
    """Name or uuid."""
    project: str | None = None
    """Id, with or without dashes."""
    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None
    """A code (of the reason, the cause or the event), or the name of a rule."""
    result: str | None = None
    """A verdict, or ``UNDER_WAY``."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place between entries: the last id of either kind before it."""

    change: int = 0
    event: int = 0


START = Position()
END = Position(_LAST_ID, _LAST_ID)


class Flaw(StrEnum):
    """What can be wrong with a record."""

    BROKEN = "broken"
    """SQLite finds the file damaged; ``detail`` has its words."""
    MISSING = "missing"
    """Rows were taken out: ``first`` to ``last``."""
    UNREADABLE = "unreadable"
    """Rows say what no plimsoll writes: ``first`` to ``last``, ``detail`` of the first."""
    COUNTER = "counter"
    """The ids go on after the last one that was given (``first``), to ``last``."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the file, or of rows of a ``table`` (change, event)."""

    flaw: Flaw
    table: str = ""
    first: int = 0
    last: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found in a record. ``first`` and ``last`` are the earliest and the latest time in it."""

    changes: int
    events: int
    open: int
    """Changes whose outcome is not known yet: no fault, the next pass settles them."""
    first: datetime | None
    last: datetime | None
    instead_of: str | None
    """The file whose place this one took, damaged and set aside."""
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    """The queries of a kind of entry. What is selected comes in as parameters only."""

    name: str
    version: int
    upward: str
    """The end of a page that begins at ``low``: a list is read page by page, and the file let go in between."""
    downward: str
    ends: str
    """The last id that was given, and the last one that is there."""
    page: str


_CHANGE = _Table(
    "change",
    1,
    "SELECT max(id) FROM (SELECT id FROM change WHERE id BETWEEN :low AND :high ORDER BY id LIMIT 2000)",
    "SELECT min(id) FROM (SELECT id FROM change WHERE id BETWEEN :low AND :high ORDER BY id DESC LIMIT 2000)",
    "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'change'), (SELECT max(id) FROM change)",
    """
    SELECT * FROM change WHERE id BETWEEN :low AND :high
    AND (:disk IS NULL OR :disk IN (target, volume_id, disk))
    AND (:guest IS NULL OR :guest = guest_name OR lower(:guest) = guest_uuid)
    AND (:project IS NULL OR :project = replace(project, '-', ''))
    AND (:since IS NULL OR intended_at >= :since) AND (:until IS NULL OR intended_at < :until)
    AND (:result IS NULL OR :result = coalesce(result, 'under-way'))
    AND (:reason IS NULL OR CASE WHEN json_valid(reason)
         THEN :reason IN (cause, json_extract(reason, '$.code'), json_extract(reason, '$.rule')) ELSE 1 END)
    ORDER BY id
    """,
)
_EVENT = _Table(
    "event",
    2,
    "SELECT max(id) FROM (SELECT id FROM event WHERE id BETWEEN :low AND :high ORDER BY id LIMIT 2000)",
    "SELECT min(id) FROM (SELECT id FROM event WHERE id BETWEEN :low AND :high ORDER BY id DESC LIMIT 2000)",
    "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'event'), (SELECT max(id) FROM event)",
    """
    SELECT * FROM event WHERE id BETWEEN :low AND :high
    AND (:disk IS NULL OR :disk IN (target, volume_id, disk))
    AND (:guest IS NULL OR :guest = guest_name OR lower(:guest) = guest_uuid)
    AND (:project IS NULL OR :project = replace(project, '-', ''))
    AND (:since IS NULL OR at >= :since) AND (:until IS NULL OR at < :until)
    AND :result IS NULL
    AND (:reason IS NULL OR :reason = what OR CASE WHEN reason IS NULL THEN 0 WHEN json_valid(reason)
         THEN :reason IN (json_extract(reason, '$.code'), json_extract(reason, '$.rule')) ELSE 1 END)
    ORDER BY id
    """,
)
_INSERT_EVENT = (
    "INSERT INTO event (disk, guest_uuid, guest_name, project, target, pool, image, volume_id, at, by, what, reason)"
    " VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
)


class Record:
    """The SQLite file of all changes and events. Raises ``StateError`` where it cannot be read or written, and
    ``CorruptRecord`` where what it holds is no record.

    SQLite's rollback journal, not WAL: another user's read-only open fails in WAL mode.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    # --- writing

    def intend(self, changes: Sequence[Change], now: datetime, by: str, edition: str = "") -> list[int]:
        """Write the intents, durably, before any of the calls is made; returns an id for each.

        ``edition`` stands for the rules that they were decided by.
        """
        rows = [
            (
                *astuple(change.disk.named),
                change.disk.attachment,
                _stamp(now),
                _text(by),
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
                result = (ended.verdict.value, _stamp(now), ended.detail, ended.id)
                update = "UPDATE change SET result = ?, result_at = ?, detail = ? WHERE id = ?"
                if database.execute(update, result).rowcount != 1:
                    raise StateError(f"{self._path}: has no change {ended.id}")

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
            kept = self._free_name()
            with self._fresh(now, by, because(Code.RECORD_SET_ASIDE, instead_of=kept.name)) as fresh:
                os.link(self._path, kept)  # fails, and does not replace, where there is one
                # SQLite would roll the old file's journal back into the new one.
                with suppress(FileNotFoundError):
                    _journal(self._path).rename(_journal(kept))
                fresh.replace(self._path)
            self._sync_directory()
        return kept

    def _free_name(self) -> Path:
        number = 1
        while True:
            name = self._path.with_name(f"{self._path.name}.corrupt{f'.{number}' if number > 1 else ''}")
            if not name.exists() and not _journal(name).exists():
                return name
            number += 1

    def _begin(self, now: datetime, by: str) -> None:
        """Make the file where there is none: whole, so that an empty one is one that somebody emptied."""
        with self._plainly():
            if self._path.exists():
                return
            with self._fresh(now, by, None) as fresh, suppress(FileExistsError):
                os.link(fresh, self._path)  # another process may have been faster
            self._sync_directory()

    @contextmanager
    def _fresh(self, now: datetime, by: str, reason: Reason | None) -> Iterator[Path]:
        """A new record under a name of its own, which is gone afterwards."""
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            os.fchmod(descriptor, 0o640)
            os.close(descriptor)
            with closing(sqlite3.connect(name, isolation_level=None)) as database:
                database.executescript(f"BEGIN; {_SCHEMA} {_EVENTS} PRAGMA user_version = {SCHEMA_VERSION};")
                database.execute(_INSERT_EVENT, _event_row(Event(now, by, Happening.RECORD_STARTED, reason)))
                database.execute("COMMIT")
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    def _sync_directory(self) -> None:
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed when the block ends, rolled back when it fails or is killed."""
        with self._plainly(), closing(self._connect("rw")) as database:
            # 3 = EXTRA: with FULL alone the journal may come back after a power cut, and the intent be gone.
            database.execute("PRAGMA synchronous = 3")
            database.execute("BEGIN IMMEDIATE")
            if _version(database) == 1:
                for statement in _FROM_VERSION_1.split(";"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            yield database
            database.execute("COMMIT")

    # --- reading

    def exists(self) -> bool:
        with self._plainly():
            return self._path.exists()

    def identity(self) -> tuple[int, int] | None:
        """What tells this file from one that takes its place; None where there is none."""
        with self._plainly(), suppress(FileNotFoundError):
            status = self._path.stat()
            return status.st_dev, status.st_ino
        return None

    def unsettled(self) -> list[OpenChange]:
        """The changes whose outcome is not known, oldest first."""
        query = (
            "SELECT id, disk, attachment, after FROM change WHERE result IS NULL OR result = 'unanswered' ORDER BY id"
        )
        with self._look() as database:
            rows = database.execute(query).fetchall() if database else []
            return [OpenChange(row[0], _known(row[1]), _known(row[2]), _limits(row[3])) for row in rows]

    def last_in_force(self, disk: str) -> LastChange | None:
        """The last change of a disk (``Disk.key``) that is known to have taken."""
        query = (
            "SELECT disk, intended_at, by, after, reason FROM change"
            " WHERE disk = ? AND result IN ('done', 'took') ORDER BY id DESC LIMIT 1"
        )
        with self._look() as database:
            row = database.execute(query, (disk,)).fetchone() if database else None
            return None if row is None else _last(row)

    def taken(self) -> list[LastChange]:
        """The last change of each disk that is known to have taken."""
        query = (
            "SELECT disk, intended_at, by, after, reason FROM change WHERE id IN"
            " (SELECT max(id) FROM change WHERE result IN ('done', 'took') GROUP BY disk) ORDER BY id"
        )
        with self._look() as database:
            return [_last(row) for row in database.execute(query)] if database else []

    def end(self) -> Position:
        """Where the record ends now."""
        with self._look() as database:
            if database is None:
                return START
            (change,) = database.execute("SELECT max(id) FROM change").fetchone()
            event = None
            if _version(database) >= _EVENT.version:
                (event,) = database.execute("SELECT max(id) FROM event").fetchone()
            return Position(change or 0, event or 0)

    def entries(self, selection: Selection, after: Position = START, upto: Position = END) -> Iterator[Entry]:
        """What was recorded, oldest first, read as it is asked for.

        Changes come in the order of their ids, and so do events; the two are put together by their times.
        """
        changes = self._entries(_CHANGE, selection, after.change + 1, upto.change)
        events = self._entries(_EVENT, selection, after.event + 1, upto.event)
        return heapq.merge(events, changes, key=lambda entry: entry.at)

    def newest(self, selection: Selection, number: int, upto: Position = END) -> list[Entry]:
        """The last ``number`` entries, oldest first."""
        ends: list[list[Entry]] = []
        for table, last in ((_EVENT, upto.event), (_CHANGE, upto.change)):
            found: list[Entry] = []  # newest first
            for page in self._pages(table, selection, 1, last, downward=True):
                found += [self._parsed(table, row) for row in reversed(page)][: number - len(found)]
                if len(found) >= number:
                    break
            ends.append(found[::-1])
        return list(heapq.merge(*ends, key=lambda entry: entry.at))[-number:]

    def changes(self, ids: Collection[int], selection: Selection) -> list[RecordedChange]:
        """Those of these changes that are selected, as they stand now, in the order of their ids."""
        chosen = _parameters(selection)
        with self._look() as database:
            if database is None:
                return []
            edges = ({**chosen, "low": id_, "high": id_} for id_ in sorted(ids))
            rows = [row for edge in edges for row in database.execute(_CHANGE.page, edge)]
            return [_change(row) for row in rows]

    def _entries(self, table: _Table, selection: Selection, low: int, high: int) -> Iterator[Entry]:
        for page in self._pages(table, selection, low, high):
            for row in page:
                yield self._parsed(table, row)

    def _pages(
        self, table: _Table, selection: Selection, low: int, high: int, *, downward: bool = False
    ) -> Iterator[list[sqlite3.Row]]:
        """The rows that are selected, a page at a time; each page is in the order of ids."""
        chosen = _parameters(selection)
        while low <= high:
            with self._look() as database:
                if database is None or _version(database) < table.version:
                    return
                edges = {"low": low, "high": high}
                (edge,) = database.execute(table.downward if downward else table.upward, edges).fetchone()
                if edge is None:
                    return
                edges["low" if downward else "high"] = edge
                page = database.execute(table.page, {**chosen, **edges}).fetchall()
            yield page
            if downward:
                high = edge - 1
            else:
                low = edge + 1

    def _parsed(self, table: _Table, row: sqlite3.Row) -> Entry:
        try:
            return _change(row) if table is _CHANGE else _event(row)
        except _NONSENSE as error:
            raise CorruptRecord(f"{self._path}: {table.name} {row['id']}: {error}") from error

    def verify(self) -> Verified:
        """Look for damage, for rows that were taken out, and for rows that no plimsoll wrote.

        Who may write the file can change a row for another sensible one, or take rows from the end and set
        SQLite's own counter back: that cannot be found.
        """
        walk = _Walk()
        try:
            with self._look() as database:
                if database is not None:
                    words = [row[0] for row in database.execute("PRAGMA integrity_check")]
                    walk.faults += [Fault(Flaw.BROKEN, detail=str(word)) for word in words if word != "ok"]
            for table in (_CHANGE, _EVENT):
                self._walk(table, walk)
        except CorruptRecord as error:
            walk.faults.append(Fault(Flaw.BROKEN, detail=str(error)))
        return Verified(
            walk.counted[_CHANGE.name],
            walk.counted[_EVENT.name],
            walk.open,
            walk.first,
            walk.last,
            walk.instead_of,
            tuple(walk.faults),
        )

    def _walk(self, table: _Table, walk: _Walk) -> None:
        with self._look() as database:
            if database is None or _version(database) < table.version:
                return
            # One statement sees one state of the file; what is added later is not looked at.
            row = database.execute(table.ends).fetchone()
        given, last = (value if isinstance(value, int) else 0 for value in row)
        expected = 1
        for page in self._pages(table, Selection(), -_LAST_ID, last):
            for row in page:
                if row["id"] < 1:
                    walk.unreadable(table.name, row["id"], "an id that is none")
                    continue
                if row["id"] > expected:
                    walk.faults.append(Fault(Flaw.MISSING, table.name, expected, row["id"] - 1))
                expected = row["id"] + 1
                walk.take(table, row)
        if given >= expected:
            walk.faults.append(Fault(Flaw.MISSING, table.name, expected, given))
        elif given < last:
            walk.faults.append(Fault(Flaw.COUNTER, table.name, given, last))

    @contextmanager
    def _look(self) -> Iterator[sqlite3.Connection | None]:
        """Looks only and makes no file; None where there is none."""
        with self._plainly():
            if not self._path.exists():
                yield None
                return
            with closing(self._connect("ro")) as database:
                try:
                    yield database
                except _NONSENSE as error:
                    raise CorruptRecord(f"{self._path}: {error}") from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self._path.absolute().as_uri()}?mode={mode}"
        database = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
        try:
            database.row_factory = sqlite3.Row
            database.text_factory = _decoded
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
        version = _version(database)
        if version > SCHEMA_VERSION:
            raise StateError(
                f"{self._path}: written by a newer plimsoll (version {version}, known up to {SCHEMA_VERSION});"
                " install that one again, or move the file away"
            )
        if version < 1:
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            raise CorruptRecord(f"{self._path}: is {'no record of plimsoll' if tables else 'empty'}")

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """What SQLite and the system say, as a sentence that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is not None and code & 0xFF in _BROKEN:
                raise CorruptRecord(f"{self._path}: {error}") from error
            if code == sqlite3.SQLITE_READONLY_ROLLBACK:
                raise StateError(
                    f"{self._path}: a pass was killed while it wrote; root can read it, and the next pass mends it"
                ) from error
            raise StateError(f"{self._path}: {error}") from error
        except OSError as error:
            raise StateError(f"{self._path}: {error.strerror or error}") from error
        except ValueError as error:  # text that cannot be stored
            raise StateError(f"{self._path}: {error}") from error


class _Walk:
    """What ``verify`` gathers on its way through the rows."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.counted = {_CHANGE.name: 0, _EVENT.name: 0}
        self.open = 0
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.instead_of: str | None = None

    def take(self, table: _Table, row: sqlite3.Row) -> None:
        self.counted[table.name] += 1
        try:
            entry = _change(row) if table is _CHANGE else _event(row)
        except _NONSENSE as error:
            self.unreadable(table.name, row["id"], str(error))
            return
        self.first = min(self.first or entry.at, entry.at)
        self.last = max(self.last or entry.at, entry.at)
        if isinstance(entry, RecordedChange):
            self.open += entry.open
        elif entry.what is Happening.RECORD_STARTED and entry.reason is not None:
            self.instead_of = str(entry.reason.facts.get("instead_of"))

    def unreadable(self, table: str, id_: int, detail: str) -> None:
        before = self.faults[-1] if self.faults else None
        if before and (before.flaw, before.table, before.last) == (Flaw.UNREADABLE, table, id_ - 1):
            self.faults[-1] = Fault(Flaw.UNREADABLE, table, before.first, id_, before.detail)
        else:
            self.faults.append(Fault(Flaw.UNREADABLE, table, id_, id_, detail))


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


# --- values into rows

_Column = str | None


def _event_row(event: Event) -> tuple[_Column, ...]:
    reason = None if event.reason is None else json.dumps(event.reason.as_record())
    named = (None,) * 8 if event.disk is None else astuple(event.disk)
    return (*named, _stamp(event.at), _text(event.by), event.what.value, reason)


def _stamp(time: datetime) -> str:
    """In UTC always, so that times compare as text."""
    return time.astimezone(UTC).isoformat()


def _text(name: str) -> str:
    """A name out of the environment may be no text, and must not keep a change out of the record."""
    return name.encode("utf-8", "backslashreplace").decode()


def _parameters(selection: Selection) -> Mapping[str, _Column]:
    return {
        "disk": selection.disk,
        "guest": selection.guest,
        "project": None if selection.project is None else selection.project.replace("-", ""),
        "since": None if selection.since is None else _stamp(selection.since),
        "until": None if selection.until is None else _stamp(selection.until),
        "reason": selection.reason,
        "result": selection.result,
    }


# --- rows into values

_NONSENSE = (ValueError, TypeError, IndexError, RecursionError)
"""What rows raise that plimsoll did not write."""


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _change(row: sqlite3.Row) -> RecordedChange:
    result = _maybe(row["result"])
    result_at = None if row["result_at"] is None else _time(row["result_at"])
    if (result is None) != (result_at is None):
        raise ValueError("has a result without its time, or a time without its result")
    disk = _disk(row)
    if disk is None:
        raise ValueError("names no disk")
    return RecordedChange(
        id=row["id"],
        at=_time(row["intended_at"]),
        by=_known(row["by"]),
        disk=disk,
        attachment=_known(row["attachment"]),
        before=_limits(row["before"]),
        after=_limits(row["after"]),
        direction=Direction(row["direction"]),
        reason=_reason(row["reason"]),
        cause=Code(row["cause"]),
        edition=_maybe(row["edition"]) if "edition" in row.keys() else None,  # noqa: SIM118 - no mapping
        result=None if result is None else Verdict(result),
        result_at=result_at,
        detail=_maybe(row["detail"]),
    )


def _event(row: sqlite3.Row) -> RecordedEvent:
    return RecordedEvent(
        id=row["id"],
        at=_time(row["at"]),
        by=_known(row["by"]),
        what=Happening(row["what"]),
        disk=_disk(row),
        reason=None if row["reason"] is None else _reason(row["reason"]),
    )


def _last(row: sqlite3.Row) -> LastChange:
    return LastChange(
        _known(row["disk"]),
        _time(row["intended_at"]),
        _known(row["by"]),
        _limits(row["after"]),
        _reason(row["reason"]),
    )


def _disk(row: sqlite3.Row) -> DiskName | None:
    if row["disk"] is None:
        return None
    key, uuid = _known(row["disk"]), _known(row["guest_uuid"])
    if not key.startswith(f"{uuid}/"):
        raise ValueError(f"{key!r} is no disk of guest {uuid}")
    return DiskName(
        key,
        uuid,
        _known(row["guest_name"]),
        _maybe(row["project"]),
        _known(row["target"]),
        _known(row["pool"]),
        _known(row["image"]),
        _maybe(row["volume_id"]),
    )


def _decoded(text: bytes) -> str | bytes:
    """One name that is no text must not hide the other rows of its page."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _known(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _maybe(value: object) -> str | None:
    return None if value is None else _known(value)


def _limits(value: Any) -> Limits:
    limits = json.loads(value)
    if not isinstance(limits, dict):
        raise ValueError(f"{value!r} are no limits")
    return Limits.from_mapping(limits)


def _reason(value: Any) -> Reason:
    return Reason.from_record(json.loads(value))


def _time(value: object) -> datetime:
    time = datetime.fromisoformat(_known(value))
    if time.utcoffset() != timedelta(0):
        raise ValueError(f"{value!r} is no time in UTC")
    return time
