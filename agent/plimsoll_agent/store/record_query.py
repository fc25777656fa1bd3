"""Lists of the record: filtered, followed and verified.

They are read in pages, and the file is unlocked in between: a list that waits in a pager does not block a pass.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import islice, takewhile

from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.entries import TAKEN, Entry, RecordedChange, RecordedEvent
from plimsoll_agent.store import reductions
from plimsoll_agent.store.database import stamp, version_of
from plimsoll_agent.store.entries import change_of, event_of
from plimsoll_agent.store.record import WITH_REPEATS, CorruptRecord, Record
from plimsoll_agent.store.reductions import Intended
from plimsoll_agent.util.decoding import UNREADABLE, complaint
from plimsoll_agent.util.frozen import frozen

UNDER_WAY = "under-way"
"""In a selection, the result of a change that has none yet."""
_LAST_ID = 2**63 - 1


@frozen(kw_only=True)
class Selection:
    """Which entries to read; None is all. ``since`` is included, ``until`` is not."""

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
    """A result, or ``UNDER_WAY``."""


@frozen
class Position:
    """A place between entries: the last id of either kind before it."""

    change: int = 0
    event: int = 0


START = Position()
END = Position(_LAST_ID, _LAST_ID)


@frozen(kw_only=True)
class Verified:
    changes: int
    events: int
    faults: tuple[str, ...]
    since: datetime | None = None
    """Since when the record is complete: older entries were removed. None if none was."""


@frozen(kw_only=True)
class _Table:
    """The queries of a kind of entry; the selection is passed in parameters only."""

    name: str
    upward: str
    """The last id of a page that begins at ``low``."""
    downward: str
    page: str
    entry_of: Callable[[sqlite3.Row], Entry]


_CHANGE = _Table(
    name="change",
    upward="SELECT max(id) FROM (SELECT id FROM change WHERE id BETWEEN :low AND :high ORDER BY id LIMIT 2000)",
    downward="SELECT min(id)"
    " FROM (SELECT id FROM change WHERE id BETWEEN :low AND :high ORDER BY id DESC LIMIT 2000)",
    page="""
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
    entry_of=change_of,
)
_EVENT = _Table(
    name="event",
    upward="SELECT max(id) FROM (SELECT id FROM event WHERE id BETWEEN :low AND :high ORDER BY id LIMIT 2000)",
    downward="SELECT min(id) FROM (SELECT id FROM event WHERE id BETWEEN :low AND :high ORDER BY id DESC LIMIT 2000)",
    page="""
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
    entry_of=event_of,
)


def end(record: Record) -> Position:
    """The present end of the record: the last ids that were given, also if retention has removed their entries."""
    with record.look() as database:
        if database is None:
            return START
        ids = dict(database.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
        (change,) = database.execute("SELECT max(id) FROM change").fetchone()
        (event,) = database.execute("SELECT max(id) FROM event").fetchone()
        return Position(max(change or 0, ids.get("change", 0)), max(event or 0, ids.get("event", 0)))


def entries(record: Record, selection: Selection, after: Position = START, upto: Position = END) -> Iterator[Entry]:
    """The entries, oldest first, read when they are needed.

    Changes are in the order of their ids, as are events; the two are merged by their times.
    """
    changes = _entries(record, _CHANGE, selection, after.change + 1, upto.change)
    events = _entries(record, _EVENT, selection, after.event + 1, upto.event)
    return heapq.merge(events, changes, key=lambda entry: entry.at)


def newest(record: Record, selection: Selection, number: int, upto: Position = END) -> list[Entry]:
    """The last ``number`` entries, oldest first."""
    ends: list[list[Entry]] = []
    for table, last in ((_EVENT, upto.event), (_CHANGE, upto.change)):
        latest: list[Entry] = []  # newest first
        for page in _pages(record, table, selection, 1, last, downward=True):
            latest += [_parsed(record, table, row) for row in reversed(page)][: number - len(latest)]
            if len(latest) >= number:
                break
        ends.append(latest[::-1])
    return list(heapq.merge(*ends, key=lambda entry: entry.at))[-number:]


def newest_effect(record: Record, condition: Callable[[DiskName], bool]) -> datetime | None:
    """When the newest change of such a disk began that took effect; None without any."""
    pages = _pages(record, _CHANGE, Selection(), 1, END.change, downward=True)
    newest_first = (change_of(row) for page in pages for row in reversed(page))
    return next((each.at for each in newest_first if each.result in TAKEN and condition(each.disk)), None)


def changes(record: Record, ids: Collection[int], selection: Selection) -> list[RecordedChange]:
    """The present state of those of these changes that are selected, in the order of their ids."""
    parameters = _parameters(selection)
    with record.look() as database:
        if database is None:
            return []
        edges = ({**parameters, "low": id_, "high": id_} for id_ in sorted(ids))
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
    """The selected rows in pages; each page is in the order of ids."""
    parameters = _parameters(selection)
    while low <= high:
        with record.look() as database:
            if database is None:
                return
            edges = {"low": low, "high": high}
            (edge,) = database.execute(table.downward if downward else table.upward, edges).fetchone()
            if edge is None:
                return
            edges["low" if downward else "high"] = edge
            page = database.execute(_page_of(table, database), {**parameters, **edges}).fetchall()
        yield page
        if downward:
            high = edge - 1
        else:
            low = edge + 1


def _page_of(table: _Table, database: sqlite3.Connection) -> str:
    """A change with several attempts is selected by the time of the last one too."""
    counts = version_of(database) >= WITH_REPEATS
    return table.page.replace("{last}", "coalesce(retried_at, last_at, intended_at)" if counts else "intended_at")


def _parsed(record: Record, table: _Table, row: sqlite3.Row) -> Entry:
    try:
        return table.entry_of(row)
    except UNREADABLE as error:
        raise CorruptRecord(f"{record.path}: {table.name} {row['id']}: {complaint(error)}") from error


_OF_DISKS = "SELECT * FROM change WHERE disk IN (SELECT disk FROM change WHERE {last} >= ?) ORDER BY id"
_LAST_TAKEN = """
SELECT * FROM change WHERE result IN ('done', 'took') AND json_valid(reason)
AND json_extract(reason, '$.code') != 'undone' ORDER BY intended_at DESC, id DESC LIMIT 1
"""
_LAST_OF_EACH = "SELECT * FROM change WHERE id IN (SELECT max(id) FROM change GROUP BY disk)"
_BEGUN = "SELECT * FROM event WHERE what = 'record-started' ORDER BY id LIMIT 1"
# A hold that is replaced by another ends when the other begins: the disk stays held.
_HOLDS_OVER = """
SELECT * FROM event AS ended WHERE what = 'hold-ended' AND at < ? AND NOT EXISTS
(SELECT * FROM event WHERE what = 'hold-added' AND disk = ended.disk AND at = ended.at) ORDER BY id
"""

_REDUCTIONS = "SELECT * FROM event WHERE what IN ('congestion', 'ceiling') ORDER BY id DESC"
"""Read row by row: who has enough stops."""
_NEWEST = 2000
"""Of these entries a pass looks through the newest ones only: four days of a class whose limits move as often as they
may."""


def changes_of_disks(record: Record, since: datetime) -> list[RecordedChange]:
    """Every change of each disk that has one since then, in the order of their ids."""
    with record.look() as database:
        if database is None:
            return []
        last = "coalesce(retried_at, intended_at)" if version_of(database) >= WITH_REPEATS else "intended_at"
        rows = database.execute(_OF_DISKS.replace("{last}", last), (stamp(since),)).fetchall()
        return [attempt for row in rows for attempt in change_of(row).attempts]


def last_pass(record: Record) -> datetime | None:
    """When the last pass began that changed limits, undo apart; None if the record has none."""
    with record.look() as database:
        row = None if database is None else database.execute(_LAST_TAKEN).fetchone()
        return None if row is None else change_of(row).at


def last_of_each(record: Record) -> dict[str, RecordedChange]:
    """The last change of each disk, whatever its result, by ``Disk.key``."""
    with record.look() as database:
        changes = [] if database is None else [change_of(row) for row in database.execute(_LAST_OF_EACH)]
    return {change.disk.key: change for change in changes}


def changed_disks(record: Record) -> set[str]:
    """The ``Disk.key`` of each disk that has a change."""
    with record.look() as database:
        rows = [] if database is None else database.execute("SELECT DISTINCT disk FROM change")
        return {row["disk"] for row in rows}


def guest_names(record: Record) -> set[str]:
    """libvirt's name and the uuid of each guest that has an entry."""
    names = "SELECT guest_name, guest_uuid FROM change UNION SELECT guest_name, guest_uuid FROM event"
    with record.look() as database:
        rows = [] if database is None else database.execute(names)
        return {word for row in rows for word in row if word is not None}


def begun(record: Record) -> RecordedEvent | None:
    """The event with which this record began."""
    return next(iter(_events(record, _BEGUN)), None)


def reduced_at(record: Record, moment: datetime, word: str = "") -> dict[str, Intended]:
    """What was written last under congestion of each disk, by ``Disk.key``; ``word`` is in each of the entries."""
    last: dict[str, Intended] = {}
    with _reductions(record, word) as newest_first:
        for each in newest_first:
            if each.at <= moment:
                last.setdefault(each.disk.key, each)
    return last


def last_reduction(record: Record, disk: DiskName) -> Intended | None:
    """What was written last of a disk under congestion, as far as the newest entries go."""
    with _reductions(record, disk.guest_uuid, _NEWEST) as newest_first:
        return next((each for each in newest_first if each.disk.key == disk.key), None)


def reductions_since(record: Record, since: datetime) -> dict[str, Intended]:
    """What was written since then under congestion of each disk, the last by ``Disk.key``."""
    last: dict[str, Intended] = {}
    with _reductions(record, "") as newest_first:
        for each in takewhile(lambda each: each.at > since, newest_first):
            last.setdefault(each.disk.key, each)
    return last


@contextmanager
def _reductions(record: Record, word: str, most: int | None = None) -> Iterator[Iterator[Intended]]:
    with record.look() as database:
        rows = islice(() if database is None else database.execute(_REDUCTIONS), most)
        matches = (row for row in rows if word.lower() in str(row["reason"]).lower())
        yield reductions.standing(map(event_of, matches))


def holds_over(record: Record, before: datetime) -> dict[str, datetime]:
    """The end of the last hold that ended before then, by ``Disk.key``."""
    ends = _events(record, _HOLDS_OVER, stamp(before))
    return {event.disk.key: event.at for event in ends if event.disk is not None}


def _events(record: Record, query: str, *parameters: str) -> list[RecordedEvent]:
    with record.look() as database:
        return [event_of(row) for row in database.execute(query, parameters)] if database else []


def verify(record: Record) -> Verified:
    """Check the file with SQLite, and read each entry."""
    counts: Counter[type[Entry]] = Counter()
    faults: list[str] = []
    since = None
    try:
        with record.look() as database:
            words = [] if database is None else [row[0] for row in database.execute("PRAGMA integrity_check")]
        faults += [str(word) for word in words if word != "ok"]
        since = record.since()
        counts.update(map(type, entries(record, Selection())))
    except CorruptRecord as error:
        faults.append(str(error))
    return Verified(changes=counts[RecordedChange], events=counts[RecordedEvent], faults=tuple(faults), since=since)


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
