"""How long the record keeps entries, by age and by size. They are removed in steps that do not delay a pass.

Kept at any age: open changes, the newest change of each disk, and the newest one that took effect. If that one is a
hold's, the changes before it are kept too, back to the limits that the hold's end restores. So the memory can be
rebuilt from the record, and changes since ``Kept.since`` can be undone.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from itertools import takewhile

from plimsoll_agent.model.entries import TAKEN, Ending, Happening
from plimsoll_agent.model.origin import origin_of
from plimsoll_agent.store.database import stamp, time_of
from plimsoll_agent.util.frozen import frozen, replace

WITH_RETENTION = 3
"""The first version of the record from which entries are removed."""
_STEP = 5000
"""The most entries in one call: more than a node adds between two passes."""
_CHUNK = 500
_AHEAD = timedelta(hours=1)
"""Entries later than this are of a wrong clock: others may have been written since the pass began."""
_LAST_END_OF_HOLD = """
SELECT max(id) FROM event AS ended WHERE disk = ? AND what = 'hold-ended' AND id <= ? AND NOT EXISTS
(SELECT * FROM event WHERE what = 'hold-added' AND disk = ended.disk AND at = ended.at)
"""


@frozen
class Retention:
    """How much the record keeps; the oldest entries are removed first."""

    keep_days: int = 365
    keep_mib: int = 256


@frozen
class Kept:
    """What was removed: entries up to these ids, except those that are kept at any age. Since ``since``, in UTC as in
    the rows, the record is complete; empty if nothing was removed."""

    change: int = 0
    event: int = 0
    since: str = ""


def kept(database: sqlite3.Connection) -> Kept:
    """From a file of version ``WITH_RETENTION`` or later."""
    row = database.execute("SELECT change, event, since FROM retention").fetchone()
    if row is None:
        return Kept()
    change, event, since = row
    if type(change) is not int or type(event) is not int:
        raise ValueError("table retention: an id is not a number")
    return Kept(change, event, since and stamp(time_of(since)))


def used(database: sqlite3.Connection) -> int:
    """Bytes of the file in use."""
    pages, free, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int(pages - free) * int(size)


def is_due(database: sqlite3.Connection, retention: Retention, now: datetime) -> bool:
    """Whether there is something to remove. Quick, since each pass calls it."""
    work = _Work(database, retention, now)
    return bool(work.old_changes(1) or work.old_events(1))


def prune(database: sqlite3.Connection, retention: Retention, now: datetime) -> None:
    """Remove entries older than ``keep_days``, then the oldest until the rest fits, at most ``_STEP`` in a call.

    Entries more than ``_AHEAD`` in the future are from a wrong clock: they are removed with their neighbours.
    """
    work, budget = _Work(database, retention, now), _STEP
    while budget > 0:
        if changes := work.old_changes(_CHUNK):
            work.remove_changes(changes)
        if events := work.old_events(_CHUNK):
            work.remove_events(events)
        if not (changes or events):
            break
        budget -= len(changes) + len(events)
    database.execute("DELETE FROM retention")
    database.execute("INSERT INTO retention VALUES (?, ?, ?)", (work.kept.change, work.kept.event, work.kept.since))


class _Work:
    """One step, in the caller's transaction."""

    def __init__(self, database: sqlite3.Connection, retention: Retention, now: datetime) -> None:
        self._database = database
        self._most = retention.keep_mib * 2**20
        self._now = stamp(now)
        self._latest = stamp(now + _AHEAD)
        self._before = stamp(now - timedelta(days=retention.keep_days))
        self.kept = kept(database)

    def old_changes(self, number: int) -> list[sqlite3.Row]:
        """The next ones that are too old, or too many for ``keep_mib``."""
        return self._old(self._changes(number), self._before, self._events, number)

    def old_events(self, number: int) -> list[sqlite3.Row]:
        return self._old(self._events(number), max(self._before, self.kept.since), self._changes, number)

    def _changes(self, number: int) -> list[sqlite3.Row]:
        query = "SELECT id, intended_at AS at, disk FROM change WHERE id > ? ORDER BY id LIMIT ?"
        return self._database.execute(query, (self.kept.change, number)).fetchall()

    def _events(self, number: int) -> list[sqlite3.Row]:
        """Without the start of the record, which is kept."""
        query = "SELECT id, at, disk FROM event WHERE id > ? AND what != ? ORDER BY id LIMIT ?"
        return self._database.execute(query, (self.kept.event, Happening.RECORD_STARTED, number)).fetchall()

    def _old(
        self, rows: list[sqlite3.Row], before: str, others: Callable[[int], list[sqlite3.Row]], number: int
    ) -> list[sqlite3.Row]:
        """Those before that time; while the file is too large, those that are not newer than the next ones of the
        other table, too.
        """
        if rows and used(self._database) > self._most:
            end = min(max(str(row["at"]) for row in each) for each in (rows, others(number)) if each)
            if over := list(takewhile(lambda row: str(row["at"]) <= end, rows)):
                return over
        return list(takewhile(self._is_before(before), rows))

    def _is_before(self, moment: str) -> Callable[[sqlite3.Row], bool]:
        return lambda row: not moment <= str(row["at"]) <= self._latest

    def remove_changes(self, rows: Collection[sqlite3.Row]) -> None:
        """Remove these, and older ones of the same disks, except those that are kept at any age."""
        last = max(row["id"] for row in rows)
        for disk in {row["disk"] for row in rows}:
            query = "SELECT id, result, retried_at, reason FROM change WHERE disk = ? AND id <= ? ORDER BY id DESC"
            of_disk = self._database.execute(query, (disk, last)).fetchall()
            (newest,) = self._database.execute("SELECT max(id) FROM change WHERE disk = ?", (disk,)).fetchone()
            self._delete("change", [row["id"] for row in of_disk], _staying(of_disk) | {newest})
        self._moved(rows, change=last)

    def remove_events(self, rows: Collection[sqlite3.Row]) -> None:
        """Except for the end of the last hold of each disk."""
        last = max(row["id"] for row in rows)
        plain = [row["id"] for row in rows if row["disk"] is None]
        self._delete("event", plain, ())
        for disk in {row["disk"] for row in rows} - {None}:
            (end,) = self._database.execute(_LAST_END_OF_HOLD, (disk, last)).fetchone()
            if end is not None:
                self._database.execute("DELETE FROM event WHERE disk = ? AND id < ?", (disk, end))
        self._moved(rows, event=last)

    def _delete(self, table: str, ids: Collection[int], but: Collection[int]) -> None:
        rows = [(id_,) for id_ in ids if id_ not in but]
        self._database.executemany(f"DELETE FROM {table} WHERE id = ?", rows)  # noqa: S608  # one of two names

    def _moved(self, rows: Collection[sqlite3.Row], **ids: int) -> None:
        past = [str(row["at"]) for row in rows if str(row["at"]) <= self._now]
        self.kept = replace(self.kept, since=max([self.kept.since, *past]), **ids)


def _staying(newest_first: Collection[sqlite3.Row]) -> set[int]:
    """Of one disk's changes: open ones, and the newest that took effect, back to the first that is not a hold's."""
    staying: set[int] = set()
    complete = False
    for row in newest_first:
        if row["result"] in (None, Ending.TIMED_OUT) or row["retried_at"] is not None:
            staying.add(row["id"])
        elif row["result"] in TAKEN and not complete:
            staying.add(row["id"])
            complete = not _of_a_hold(row["reason"])
    return staying


def _of_a_hold(reason: str) -> bool:
    try:
        return origin_of(json.loads(reason)["code"]).of_hold
    except (ValueError, KeyError, TypeError):  # plimsoll did not write it
        return False
