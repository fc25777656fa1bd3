"""How long the record keeps what: by age and by size, in steps that no pass has to wait for.

What stays whatever its age: changes that are open, the newest change of each disk, and the newest one that took, with
those before it while they are a hold's, since a disk goes back to what it had before the hold. So the memory can be
made from the record, and changes since ``Kept.since`` can be undone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile

from plimsoll_agent.database import stamp, time_of
from plimsoll_agent.entries import Happening, Verdict
from plimsoll_agent.reason import Code

WITH_RETENTION = 3
"""The first version of the record that things are removed from."""
_STEP = 5000
"""Entries that one call looks at: no node adds more from one pass to the next for long."""
_CHUNK = 500
_TAKEN = (Verdict.DONE, Verdict.TOOK)
_OF_HOLDS = (Code.HOLD, Code.HOLD_ENDED)
_LAST_END_OF_HOLD = """
SELECT max(id) FROM event AS ended WHERE disk = ? AND what = 'hold-ended' AND id <= ? AND NOT EXISTS
(SELECT * FROM event WHERE what = 'hold-added' AND disk = ended.disk AND at = ended.at)
"""


@dataclass(frozen=True, slots=True)
class Retention:
    """What the record keeps: so many days, and so many MiB; the oldest entries go first."""

    keep_days: int = 365
    keep_mib: int = 256


@dataclass(frozen=True, slots=True)
class Kept:
    """What was removed: of the entries up to these ids, all but those that stay. ``since`` is the first moment from
    which on all of them are there, in UTC as in the rows; empty where nothing was removed."""

    change: int = 0
    event: int = 0
    since: str = ""


def kept(database: sqlite3.Connection) -> Kept:
    """Of a file of the version ``WITH_RETENTION``."""
    row = database.execute("SELECT change, event, since FROM retention").fetchone()
    if row is None:
        return Kept()
    change, event, since = row
    if type(change) is not int or type(event) is not int:
        raise ValueError("what was removed is not told by ids")
    return Kept(change, event, since and stamp(time_of(since)))


def used(database: sqlite3.Connection) -> int:
    """Bytes of the file that hold something."""
    pages, free, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int(pages - free) * int(size)


def is_due(database: sqlite3.Connection, retention: Retention, now: datetime) -> bool:
    """Whether something is to be removed. Quick: each pass asks."""
    work = _Work(database, retention, now)
    return bool(work.old_changes(1) or work.old_events(1))


def prune(database: sqlite3.Connection, retention: Retention, now: datetime) -> None:
    """Remove what is older than ``keep_days``, then the oldest until the rest fits, no more than a step of it.

    Entries of a time that is still to come are of a clock that was wrong: they go with those around them.
    """
    work, left = _Work(database, retention, now), _STEP
    while left > 0 and (changes := work.old_changes(_CHUNK)):
        work.remove_changes(changes)
        left -= len(changes)
    while left > 0 and (events := work.old_events(_CHUNK)):
        work.remove_events(events)
        left -= len(events)
    database.execute("DELETE FROM retention")
    database.execute("INSERT INTO retention VALUES (?, ?, ?)", (work.kept.change, work.kept.event, work.kept.since))


class _Work:
    """One step, in the caller's transaction."""

    def __init__(self, database: sqlite3.Connection, retention: Retention, now: datetime) -> None:
        self._database = database
        self._most = retention.keep_mib * 2**20
        self._now = stamp(now)
        self._before = stamp(now - timedelta(days=retention.keep_days))
        self.kept = kept(database)

    def old_changes(self, number: int) -> list[sqlite3.Row]:
        """The next ones that have had their time, or no room."""
        query = "SELECT id, intended_at AS at, disk FROM change WHERE id > ? ORDER BY id LIMIT ?"
        rows = self._database.execute(query, (self.kept.change, number)).fetchall()
        if used(self._database) > self._most:
            return rows
        return list(takewhile(self._is_before(self._before), rows))

    def old_events(self, number: int) -> list[sqlite3.Row]:
        query = "SELECT id, at, disk, what FROM event WHERE id > ? ORDER BY id LIMIT ?"
        rows = self._database.execute(query, (self.kept.event, number)).fetchall()
        return list(takewhile(self._is_before(max(self._before, self.kept.since)), rows))

    def _is_before(self, moment: str) -> Callable[[sqlite3.Row], bool]:
        return lambda row: not moment <= str(row["at"]) <= self._now

    def remove_changes(self, rows: Collection[sqlite3.Row]) -> None:
        """Of these, and of those of the same disks that stayed when earlier ones were removed."""
        last = max(row["id"] for row in rows)
        for disk in {row["disk"] for row in rows}:
            query = "SELECT id, result, retried_at, reason FROM change WHERE disk = ? AND id <= ? ORDER BY id DESC"
            of_disk = self._database.execute(query, (disk, last)).fetchall()
            (newest,) = self._database.execute("SELECT max(id) FROM change WHERE disk = ?", (disk,)).fetchone()
            self._delete("change", [row["id"] for row in of_disk], _staying(of_disk) | {newest})
        self._moved(rows, change=last)

    def remove_events(self, rows: Collection[sqlite3.Row]) -> None:
        """But for how the record began, and what is known of the last hold of each disk."""
        last = max(row["id"] for row in rows)
        plain = [row["id"] for row in rows if row["disk"] is None]
        self._delete("event", plain, {row["id"] for row in rows if row["what"] == Happening.RECORD_STARTED})
        for disk in {row["disk"] for row in rows} - {None}:
            (end,) = self._database.execute(_LAST_END_OF_HOLD, (disk, last)).fetchone()
            if end is not None:
                self._database.execute("DELETE FROM event WHERE disk = ? AND id < ?", (disk, end))
        self._moved(rows, event=last)

    def _delete(self, table: str, ids: Collection[int], but: Collection[int]) -> None:
        gone = [(id_,) for id_ in ids if id_ not in but]
        self._database.executemany(f"DELETE FROM {table} WHERE id = ?", gone)  # noqa: S608  # one of two names

    def _moved(self, rows: Collection[sqlite3.Row], **ids: int) -> None:
        past = [str(row["at"]) for row in rows if str(row["at"]) <= self._now]
        self.kept = replace(self.kept, since=max([self.kept.since, *past]), **ids)


def _staying(newest_first: Collection[sqlite3.Row]) -> set[int]:
    """Of one disk's changes: the open ones, and the newest that took, back to the first that is no hold's."""
    staying: set[int] = set()
    found = False
    for row in newest_first:
        if row["result"] in (None, Verdict.UNANSWERED) or row["retried_at"] is not None:
            staying.add(row["id"])
        elif row["result"] in _TAKEN and not found:
            staying.add(row["id"])
            found = not _of_a_hold(row["reason"])
    return staying


def _of_a_hold(reason: str) -> bool:
    try:
        return json.loads(reason)["code"] in _OF_HOLDS
    except (ValueError, KeyError, TypeError):  # no plimsoll wrote it
        return False
