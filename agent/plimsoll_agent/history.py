"""The record read at length: lists that are filtered, followed and verified.

It goes in pages, and the file is let go in between: a list that stands still in a pager keeps no pass from writing.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from plimsoll_agent.database import NONSENSE, stamp, version_of
from plimsoll_agent.entries import Entry, Happening, RecordedChange, change_of, event_of
from plimsoll_agent.record import WITH_REPEATS, CorruptRecord, Record
from plimsoll_agent.retention import WITH_RETENTION, kept

UNDER_WAY = "under-way"
"""What a selection calls a change without a verdict."""
_LAST_ID = 2**63 - 1


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
    since: datetime | None = None
    """From which moment on all entries are there; older ones were removed after their time. None for all."""


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
    entry_of: Callable[[sqlite3.Row], Entry]


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
    AND (:since IS NULL OR {last} >= :since) AND (:until IS NULL OR intended_at < :until)
    AND (:result IS NULL OR :result = coalesce(result, 'under-way'))
    AND (:reason IS NULL OR CASE WHEN json_valid(reason)
         THEN :reason IN (cause, json_extract(reason, '$.code'), json_extract(reason, '$.rule')) ELSE 1 END)
    ORDER BY id
    """,
    change_of,
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
    event_of,
)


def end(record: Record) -> Position:
    """Where the record ends now."""
    with record.look() as database:
        if database is None:
            return START
        (change,) = database.execute("SELECT max(id) FROM change").fetchone()
        event = None
        if version_of(database) >= _EVENT.version:
            (event,) = database.execute("SELECT max(id) FROM event").fetchone()
        return Position(change or 0, event or 0)


def entries(record: Record, selection: Selection, after: Position = START, upto: Position = END) -> Iterator[Entry]:
    """What was recorded, oldest first, read as it is asked for.

    Changes come in the order of their ids, and so do events; the two are put together by their times.
    """
    changes = _entries(record, _CHANGE, selection, after.change + 1, upto.change)
    events = _entries(record, _EVENT, selection, after.event + 1, upto.event)
    return heapq.merge(events, changes, key=lambda entry: entry.at)


def newest(record: Record, selection: Selection, number: int, upto: Position = END) -> list[Entry]:
    """The last ``number`` entries, oldest first."""
    ends: list[list[Entry]] = []
    for table, last in ((_EVENT, upto.event), (_CHANGE, upto.change)):
        found: list[Entry] = []  # newest first
        for page in _pages(record, table, selection, 1, last, downward=True):
            found += [_parsed(record, table, row) for row in reversed(page)][: number - len(found)]
            if len(found) >= number:
                break
        ends.append(found[::-1])
    return list(heapq.merge(*ends, key=lambda entry: entry.at))[-number:]


def changes(record: Record, ids: Collection[int], selection: Selection) -> list[RecordedChange]:
    """Those of these changes that are selected, as they stand now, in the order of their ids."""
    chosen = _parameters(selection)
    with record.look() as database:
        if database is None:
            return []
        edges = ({**chosen, "low": id_, "high": id_} for id_ in sorted(ids))
        page = _page_of(_CHANGE, database)
        rows = [row for edge in edges for row in database.execute(page, edge)]
        return [change_of(row) for row in rows]


def _entries(record: Record, table: _Table, selection: Selection, low: int, high: int) -> Iterator[Entry]:
    for page in _pages(record, table, selection, low, high):
        for row in page:
            yield _parsed(record, table, row)


def _pages(
    record: Record, table: _Table, selection: Selection, low: int, high: int, *, downward: bool = False
) -> Iterator[list[sqlite3.Row]]:
    """The rows that are selected, a page at a time; each page is in the order of ids."""
    chosen = _parameters(selection)
    while low <= high:
        with record.look() as database:
            if database is None or version_of(database) < table.version:
                return
            edges = {"low": low, "high": high}
            (edge,) = database.execute(table.downward if downward else table.upward, edges).fetchone()
            if edge is None:
                return
            edges["low" if downward else "high"] = edge
            page = database.execute(_page_of(table, database), {**chosen, **edges}).fetchall()
        yield page
        if downward:
            high = edge - 1
        else:
            low = edge + 1


def _page_of(table: _Table, database: sqlite3.Connection) -> str:
    """A change that was counted belongs to the time of its last attempt too."""
    counts = version_of(database) >= WITH_REPEATS
    return table.page.replace("{last}", "coalesce(retried_at, last_at, intended_at)" if counts else "intended_at")


def _parsed(record: Record, table: _Table, row: sqlite3.Row) -> Entry:
    try:
        return table.entry_of(row)
    except NONSENSE as error:
        raise CorruptRecord(f"{record.path}: {table.name} {row['id']}: {error}") from error


def verify(record: Record) -> Verified:
    """Look for damage, for rows that were taken out, and for rows that no plimsoll wrote.

    Who may write the file can change a row for another sensible one, or take rows from the end and set
    SQLite's own counter back: that cannot be found.
    """
    walk = _Walk()
    try:
        with record.look() as database:
            if database is not None:
                words = [row[0] for row in database.execute("PRAGMA integrity_check")]
                walk.faults += [Fault(Flaw.BROKEN, detail=str(word)) for word in words if word != "ok"]
        walk.since = record.since()
        for table in (_CHANGE, _EVENT):
            _walk(record, table, walk)
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
        walk.since,
    )


def _walk(record: Record, table: _Table, walk: _Walk) -> None:
    with record.look() as database:
        if database is None or version_of(database) < table.version:
            return
        # One statement sees one state of the file; what is added later is not looked at.
        row = database.execute(table.ends).fetchone()
        removed = getattr(kept(database), table.name) if version_of(database) >= WITH_RETENTION else 0
    given, last = (value if isinstance(value, int) else 0 for value in row)
    expected = 1
    for page in _pages(record, table, Selection(), -_LAST_ID, last):
        for row in page:
            if row["id"] < 1:
                walk.unreadable(table.name, row["id"], "an id that is none")
                continue
            gap = max(expected, removed + 1)
            if row["id"] > gap:
                walk.faults.append(Fault(Flaw.MISSING, table.name, gap, row["id"] - 1))
            expected = row["id"] + 1
            walk.take(table, row)
    expected = max(expected, removed + 1)
    if given >= expected:
        walk.faults.append(Fault(Flaw.MISSING, table.name, expected, given))
    elif given < last:
        walk.faults.append(Fault(Flaw.COUNTER, table.name, given, last))


class _Walk:
    """What ``verify`` gathers on its way through the rows."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.counted = {_CHANGE.name: 0, _EVENT.name: 0}
        self.open = 0
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.instead_of: str | None = None
        self.since: datetime | None = None

    def take(self, table: _Table, row: sqlite3.Row) -> None:
        self.counted[table.name] += 1
        try:
            entry = table.entry_of(row)
        except NONSENSE as error:
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


def _parameters(selection: Selection) -> Mapping[str, str | None]:
    return {
        "disk": selection.disk,
        "guest": selection.guest,
        "project": None if selection.project is None else selection.project.replace("-", ""),
        "since": None if selection.since is None else stamp(selection.since),
        "until": None if selection.until is None else stamp(selection.until),
        "reason": selection.reason,
        "result": selection.result,
    }
