"""The history of probes: all results, and why due probes were postponed. Several processes may write it at once.

The next write sets a damaged file aside and begins a new one. A damaged row is left out.
"""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from typing import TypeVar

from plimsoll_agent.store.database import Database, Identity, stamp, time_of
from plimsoll_agent.store.state import PROBES_LOCK, PROBES_SHOWN, CorruptState, State, StateError
from plimsoll_agent.util import decoding, locks
from plimsoll_agent.util.decoding import text
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.model.finding import BROKEN, GOOD, Verdict
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.schedule.targets import ChosenTarget, PlannedTarget
from plimsoll_probes.store.rows import (
    as_json,
    chosen_of,
    postponed_of,
    result_of,
    row_of,
    row_of_chosen,
    row_of_tally,
    tally_of,
)
from plimsoll_probes.store.tally import Tally

LOG = logging.getLogger(__name__)

LOCK = PROBES_LOCK.name
"""The lock file beside the history that a process holds while it probes."""

_RUNS = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    node TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT NOT NULL,
    guest_uuid TEXT NOT NULL,
    guest_name TEXT NOT NULL,
    directory TEXT NOT NULL,
    display_name TEXT,
    project TEXT,
    disk TEXT,
    target TEXT,
    pool TEXT,
    image TEXT,
    volume_id TEXT,
    volume_type TEXT,
    cluster TEXT,
    rule TEXT,
    job TEXT NOT NULL,
    verdict TEXT NOT NULL,
    why TEXT NOT NULL,
    facts TEXT NOT NULL,
    iops REAL,
    bytes_sec REAL,
    detail TEXT NOT NULL
);
"""
# The first index serves queries for lists, the second those for the newest run of each guest, directory and job.
_POSTPONED = """
CREATE TABLE postponed (
    guest_uuid TEXT NOT NULL,
    directory TEXT NOT NULL,
    guest_name TEXT NOT NULL,
    at TEXT NOT NULL,
    node TEXT NOT NULL,
    why TEXT NOT NULL,
    facts TEXT NOT NULL,
    PRIMARY KEY (guest_uuid, directory)
) WITHOUT ROWID;
CREATE INDEX run_started ON run (started, guest_uuid, guest_name, display_name, job);
CREATE INDEX run_newest ON run (guest_uuid, directory, job, started, verdict);
"""
# In an older file tallies begin at 0: Prometheus never had a sum of its runs.
_TALLY = """
CREATE TABLE tally (
    guest_uuid TEXT NOT NULL,
    volume_type TEXT NOT NULL,
    job TEXT NOT NULL,
    guest_name TEXT NOT NULL,
    last TEXT NOT NULL,
    runs TEXT NOT NULL,
    read TEXT NOT NULL,
    write TEXT NOT NULL,
    promised TEXT NOT NULL,
    PRIMARY KEY (guest_uuid, volume_type, job)
);
CREATE TABLE chosen (
    guest_uuid TEXT NOT NULL,
    directory TEXT NOT NULL,
    guest_name TEXT NOT NULL,
    rule TEXT,
    jobs TEXT NOT NULL,
    every REAL NOT NULL,
    since TEXT NOT NULL,
    seen TEXT NOT NULL,
    PRIMARY KEY (guest_uuid, directory)
) WITHOUT ROWID;
"""
_WORDS = """
UPDATE run SET verdict = 'inconclusive' WHERE verdict = 'discarded';
"""
# Their tallies stay: a counter must not fall.
_REDUCED = """
UPDATE run SET verdict = 'reduced' WHERE verdict = 'inconclusive' AND why = 'reduced';
"""
_STEPS = (_RUNS, _POSTPONED, _TALLY, _WORDS, _REDUCED)
SCHEMA_VERSION = len(_STEPS)

_OWN_NAME = "(guest_uuid = lower(:guest) OR guest_name = :guest)"
# Tenants choose display names, so one may be another guest's own name.
_OF_SERVER = f"(display_name = :guest AND NOT EXISTS (SELECT 1 FROM run WHERE {_OWN_NAME}))"  # noqa: S608
_OF_GUEST = f"(:guest IS NULL OR {_OWN_NAME} OR {_OF_SERVER})"
_BEFORE_ALL, _AFTER_ALL = "", "~"
"""Texts that sort before, and after, all times in ISO 8601."""
_MOST = 2**63 - 1
"""SQLite's greatest number."""
_BATCH = 500
"""Rows that are removed in one transaction, during which other processes wait."""
_PAGES = 1000
"""Pages that are freed in one transaction."""

_PATIENCE = 10.0
"""Seconds to wait for a process that is setting a corrupt file aside."""
_PAUSE = 0.15
"""Seconds between transactions: a process that waits for a SQLite file tries every tenth of a second."""

# What ``latest``, ``last_begun``, ``last_good`` and ``streak`` need of each guest, directory and job: the newest run,
# the newest that began before now, the last good one, and the first run of each verdict after that one.
_GOOD_ONES = ", ".join(f"'{verdict}'" for verdict in GOOD)
_SHOWN = f"""
WITH last_good AS (
    SELECT guest_uuid, directory, job, max(started) AS started FROM run WHERE verdict IN ({_GOOD_ONES})
    GROUP BY guest_uuid, directory, job
), ranked AS (
    SELECT run.id, run.guest_uuid, run.directory, run.job, run.started, run.verdict, last_good.started AS good,
        row_number() OVER (PARTITION BY run.guest_uuid, run.directory, run.job
            ORDER BY run.started DESC, run.id DESC) AS newest,
        row_number() OVER (PARTITION BY run.guest_uuid, run.directory, run.job, run.started <= :now
            ORDER BY run.started DESC, run.id DESC) AS newest_begun,
        row_number() OVER (PARTITION BY run.guest_uuid, run.directory, run.job, run.verdict,
            run.started > coalesce(last_good.started, '') ORDER BY run.started, run.id) AS first
    FROM run LEFT JOIN last_good USING (guest_uuid, directory, job)
)
SELECT * FROM run WHERE id IN (
    SELECT id FROM ranked WHERE newest = 1 OR (newest_begun = 1 AND started <= :now) OR started = good
        OR (first = 1 AND started > coalesce(good, ''))
)
"""  # noqa: S608  # no foreign text

_T = TypeVar("_T")


class CorruptHistory(CorruptState):
    """The file is not a history, or damaged; the next write begins a new one."""


def readable(state: State) -> History:
    """The history, or the copy for checks where this user may not read it."""
    own, copy = History(state.probes), History(state.probes_shown)
    is_closed = own.is_there() and not os.access(own.path, os.R_OK, effective_ids=True)
    return copy if is_closed and copy.is_there() else own


class History:
    """The SQLite file of all results; without a file nothing has been probed yet.

    Raises ``StateError`` where it cannot be read or written, ``CorruptHistory`` where it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database(
            path,
            _STEPS,
            what="history",
            writer="probe",
            corrupt=CorruptHistory,
            shrinks=True,
            # Probes may run as another user, who must be able to write a file that root created.
            beside=path.with_name(LOCK),
        )
        self._shown = Database(
            path.with_name(PROBES_SHOWN.name),
            _STEPS,
            what="history",
            writer="probe",
            corrupt=CorruptHistory,
            beside=path.with_name(LOCK),
            shown=True,
        )

    def is_there(self) -> bool:
        """Whether anything has been probed yet. Raises ``StateError``."""
        return self._database.is_there()

    # --- writing

    def add(self, result: ProbeResult) -> int:
        """Write and count a result durably; returns its number. ``result.id`` is ignored.

        Facts are kept as JSON: limits become mappings, tuples lists, and values that JSON lacks their text.
        """
        row, tally = row_of(result), Tally.of(result)

        def work(database: sqlite3.Connection) -> int:
            id_ = int(database.execute(_insert("run", row), row).lastrowid or 0)
            self._count(database, tally)
            return id_

        return self._write(work)

    def _count(self, database: sqlite3.Connection, tally: Tally) -> None:
        """Add the tally to the row of its kind; a row that cannot be read starts again at 0."""
        row = row_of_tally(tally)
        there = "SELECT * FROM tally WHERE guest_uuid = :guest_uuid AND volume_type = :volume_type AND job = :job"
        for earlier in self._sound(database.execute(there, row).fetchall(), tally_of):
            row = row_of_tally(tally.after(earlier))
        database.execute(_insert("tally", row), row)

    def postpone(self, postponement: Postponed) -> None:
        """Keep it, unless a later one of the same guest and directory is there. It stays when a probe begins."""
        row = {
            "guest_uuid": postponement.guest_uuid,
            "directory": postponement.directory,
            "guest_name": postponement.guest_name,
            "at": stamp(postponement.at),
            "node": postponement.node,
            "why": postponement.why.value,
            "facts": as_json(postponement.facts),
        }
        upsert = (
            "INSERT INTO postponed VALUES (:guest_uuid, :directory, :guest_name, :at, :node, :why, :facts)"
            " ON CONFLICT DO UPDATE SET guest_name = excluded.guest_name, at = excluded.at, node = excluded.node,"
            " why = excluded.why, facts = excluded.facts WHERE excluded.at >= at"
        )
        self._write(lambda database: database.execute(upsert, row))

    def chosen(self, targets: Iterable[PlannedTarget], now: datetime, unsure: Iterable[str] = ()) -> None:
        """Replace the targets of this node that the rules choose. Those that were chosen before keep their ``since``.

        Guests (uuids) in ``unsure``, for which the choice is unknown, stay unchanged.
        """
        targets = tuple(targets)
        if not targets and not self._database.is_there():
            return

        def work(database: sqlite3.Connection) -> None:
            before = self._sound(database.execute("SELECT * FROM chosen").fetchall(), chosen_of)
            since = {each.key: each.since for each in before}
            delete = "DELETE FROM chosen WHERE guest_uuid NOT IN (SELECT value FROM json_each(?))"
            database.execute(delete, (as_json([*unsure]),))
            for target in targets:
                row = row_of_chosen(ChosenTarget.of(target, since.get(target.key, now), now))
                database.execute(_insert("chosen", row), row)

        self._write(work)

    def prune(self, now: datetime, keep_days: int, keep_mib: int) -> int:
        """Remove runs older than so many days, then the oldest until the rest takes at most so many MiB.

        Returns how many; the file becomes smaller. Tallies of guests without a run for so long are added to those
        without a name. It works in short transactions, between which other processes can write.
        """
        if not self._database.is_there():
            return 0
        oldest = {"before": stamp(now - timedelta(days=keep_days))}
        total = 0
        for part in (
            lambda database: self._fold(database, oldest),
            lambda database: _remove_old(database, oldest),
            lambda database: _remove_surplus(database, keep_mib * 2**20),
        ):
            while (deletions := self._write(part)) > 0:
                total += deletions
                time.sleep(_PAUSE)
        free = self._database.shrink(_PAGES)
        while free:
            time.sleep(_PAUSE)
            if (rest := self._database.shrink(_PAGES)) >= free:
                break
            free = rest
        return total

    def _fold(self, database: sqlite3.Connection, oldest: Mapping[str, str]) -> int:
        """Add tallies of gone guests to those without a name. Returns 0: it removes no run."""
        old = database.execute("SELECT * FROM tally WHERE guest_uuid != '' AND last < :before", oldest).fetchall()
        for tally in self._sound(old, tally_of):
            self._count(database, replace(tally, guest_uuid="", guest_name=""))
        database.execute("DELETE FROM tally WHERE guest_uuid != '' AND last < :before", oldest)
        return 0

    def show(self, now: datetime) -> None:
        """Copy what checks need into a file of their own, which is replaced as a whole."""
        if not self._database.is_there():
            return
        tables = {
            "run": self._rows(_SHOWN, {"now": stamp(now)}),
            "postponed": self._rows("SELECT * FROM postponed", {}),
            "tally": self._rows("SELECT * FROM tally", {}),
            "chosen": self._rows("SELECT * FROM chosen", {}),
        }

        def copy(database: sqlite3.Connection, _: Path | None) -> None:
            for table, rows in tables.items():
                for row in rows:
                    database.execute(_insert(table, dict(row)), dict(row))

        self._shown.replace(copy)
        self._database.close_to_others()

    def _write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do the work in one transaction; a corrupt file is first set aside and replaced by a new one."""

        def write() -> _T:
            with self._database.write() as database:
                return work(database)

        self._database.begin()
        return self.mended(write)

    def mended(self, look: Callable[[], _T]) -> _T:
        """Read, after a corrupt file was set aside. For commands that write later; others leave a corrupt file."""
        identity = self._database.identity()
        try:
            return look()
        except CorruptHistory as error:
            self._set_aside(identity, error)
            return look()

    def _set_aside(self, identity: Identity | None, error: CorruptHistory) -> None:
        """Set the file aside, unless another process has just done so."""
        with self._database.plainly(), suppress(FileNotFoundError), self.path.open("rb") as corrupt:
            try:
                locks.lock_open(corrupt.fileno(), _PATIENCE)
            except BlockingIOError as busy:
                message = f"{self.path}: is corrupt, and locked by another program; see fuser -v for which"
                raise StateError(message) from busy
            status = os.fstat(corrupt.fileno())
            if identity == (status.st_dev, status.st_ino) == self._database.identity():
                copy = self._database.set_aside()
                LOG.warning("%s: it is kept as %s, and a new history begun", error, copy.name)

    # --- reading

    def get(self, id_: int) -> ProbeResult | None:
        """The result with this number; None where there is none."""
        if abs(id_) > _MOST:
            return None
        return next(iter(self._results("SELECT * FROM run WHERE id = :id", {"id": id_})), None)

    def runs(
        self,
        *,
        guest: str | None = None,
        job: JobName | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        most: int | None = None,
    ) -> list[ProbeResult]:
        """At most ``most`` runs, newest first. ``guest`` is a uuid, libvirt's name or the display name; ``since`` and
        ``until`` (exclusive) are about when they began.
        """
        return self._results(
            "SELECT * FROM run WHERE started >= :since AND started < :until AND (:job IS NULL OR job = :job) AND "  # noqa: S608
            f"{_OF_GUEST} ORDER BY started DESC, id DESC LIMIT :most",
            {
                "since": _BEFORE_ALL if since is None else stamp(since),
                "until": _AFTER_ALL if until is None else stamp(until),
                "job": job,
                "guest": guest,
                "most": -1 if most is None else min(most, _MOST),
            },
        )

    def servers(self, name: str) -> dict[str, str]:
        """The guests (uuid: libvirt's name) whose server has this name; none where it is a guest's name or uuid."""
        query = f"SELECT DISTINCT guest_uuid, guest_name FROM run WHERE {_OF_SERVER}"  # noqa: S608
        return {row["guest_uuid"]: row["guest_name"] for row in self._rows(query, {"guest": name})}

    def intervals(self, guest: str | None, since: datetime, until: datetime) -> dict[str, timedelta]:
        """How far apart the runs of each guest (uuid), directory and job are: the median. None for a single run."""
        rows = self._rows(
            "SELECT guest_uuid, directory || '/' || job, started FROM run"  # noqa: S608
            f" WHERE started >= :since AND started < :until AND {_OF_GUEST}"
            " ORDER BY guest_uuid, directory, job, started",
            {"guest": guest, "since": stamp(since), "until": stamp(until)},
        )
        starts = self._sound(rows, lambda row: (text(row[0]), text(row[1]), time_of(row[2])))
        gaps: dict[str, list[timedelta]] = {}
        for (guest, job, earlier), (other, another, later) in pairwise(starts):
            if (guest, job) == (other, another):
                gaps.setdefault(guest, []).append(later - earlier)
        return {guest: median_low(those) for guest, those in gaps.items()}

    def latest(self) -> list[ProbeResult]:
        """The newest result of each guest, directory and job, including guests that are gone."""
        return self._results(
            "SELECT * FROM run WHERE id IN (SELECT (SELECT id FROM run AS newest"
            " WHERE newest.guest_uuid = each.guest_uuid AND newest.directory = each.directory"
            " AND newest.job = each.job ORDER BY started DESC, id DESC LIMIT 1)"
            " FROM (SELECT DISTINCT guest_uuid, directory, job FROM run) AS each)"
            " ORDER BY guest_name, guest_uuid, directory, job",
            {},
        )

    def last_begun(self, now: datetime) -> dict[tuple[str, str], datetime]:
        """When the newest run of each guest (uuid) and directory began, up to ``now``.

        Runs after ``now``, which a clock leaves that was set back, do not count.
        """
        rows = self._rows(
            "SELECT guest_uuid, directory, max(started) AS started FROM run WHERE started <= :now"
            " GROUP BY guest_uuid, directory",
            {"now": stamp(now)},
        )
        return dict(self._sound(rows, lambda row: ((text(row[0]), text(row[1])), time_of(row[2]))))

    def postponed(self) -> list[Postponed]:
        """The newest postponed probe of each guest and directory; a probe may have begun since."""
        rows = self._rows("SELECT * FROM postponed ORDER BY guest_name, guest_uuid, directory", {})
        return list(self._sound(rows, postponed_of))

    def last_good(self) -> dict[tuple[str, str, JobName], datetime]:
        """When the newest good run of each guest (uuid), directory and job ended."""
        good = ", ".join(f"'{verdict}'" for verdict in GOOD)
        rows = self._rows(
            "SELECT guest_uuid, directory, job, ended FROM run WHERE id IN (SELECT (SELECT id FROM run AS newest"  # noqa: S608
            " WHERE newest.guest_uuid = each.guest_uuid AND newest.directory = each.directory"
            f" AND newest.job = each.job AND newest.verdict IN ({good}) ORDER BY started DESC, id DESC LIMIT 1)"
            " FROM (SELECT DISTINCT guest_uuid, directory, job FROM run) AS each)",
            {},
        )
        return dict(
            self._sound(rows, lambda row: ((text(row[0]), text(row[1]), JobName(text(row[2]))), time_of(row[3])))
        )

    def chosen_targets(self) -> tuple[ChosenTarget, ...]:
        """The targets that this node probes, as the last ``probe run`` chose them."""
        rows = self._rows("SELECT * FROM chosen ORDER BY guest_name, guest_uuid, directory", {})
        return tuple(self._sound(rows, chosen_of))

    def tallies(self) -> tuple[Tally, ...]:
        """The sums of all runs, including those that were removed since."""
        rows = self._rows("SELECT * FROM tally ORDER BY guest_name, guest_uuid, volume_type, job", {})
        return tuple(self._sound(rows, tally_of))

    def streak(self, result: ProbeResult) -> tuple[datetime, datetime | None] | None:
        """Since when this guest, directory and job has been in trouble without interruption, up to that result.

        That is when the first run of the streak began, and when the last good one before it began (None if there is
        none). None where there is no trouble. An inconclusive run, or one under reduced limits, neither begins nor
        ends a streak. A failed one does not end a streak of ``short``, ``over-limit`` or ``slow``, nor begin one;
        failures alone are a streak.
        """
        if result.finding.verdict in GOOD:
            return None
        rows = self._rows(
            "SELECT verdict, started FROM run WHERE guest_uuid = :guest AND directory = :directory AND job = :job"
            " AND started <= :until ORDER BY started DESC",
            {
                "guest": result.subject.guest_uuid,
                "directory": result.subject.directory,
                "job": result.job.name.value,
                "until": stamp(result.started),
            },
        )
        starts = {result.finding.verdict: result.started}  # the result may not be in the history yet
        last_good = None
        for verdict, start in self._sound(rows, lambda row: (Verdict(row[0]), time_of(row[1]))):
            if verdict in GOOD:
                last_good = start
                break
            starts[verdict] = start
        first = min((starts[verdict] for verdict in BROKEN if verdict in starts), default=starts.get(Verdict.FAILED))
        return None if first is None else (first, last_good)

    def _results(self, query: str, parameters: Mapping[str, object]) -> list[ProbeResult]:
        return list(self._sound(self._rows(query, parameters), result_of))

    def _rows(self, query: str, parameters: Mapping[str, object]) -> list[sqlite3.Row]:
        """All rows at once, to be parsed later, so that a reader locks the file only briefly."""
        with self._database.look() as database:
            return database.execute(query, parameters).fetchall() if database else []

    def _sound(self, rows: Iterable[sqlite3.Row], value_of: Callable[[sqlite3.Row], _T]) -> Iterator[_T]:
        """The values of the rows; invalid rows are left out."""
        for row in rows:
            try:
                yield value_of(row)
            except decoding.UNREADABLE as error:
                what = f"run {row['id']}" if "id" in row.keys() else "a row"  # noqa: SIM118 - no mapping
                why = decoding.complaint(error)
                LOG.warning("%s: %s cannot be read (%s) and is left out", self.path, what, why)


def _insert(table: str, row: Mapping[str, object]) -> str:
    """A row with the same primary key is replaced."""
    return f"INSERT OR REPLACE INTO {table} ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})"  # noqa: S608


def _remove_old(database: sqlite3.Connection, oldest: Mapping[str, str]) -> int:
    database.execute("DELETE FROM postponed WHERE at < :before", oldest)
    old = "DELETE FROM run WHERE id IN (SELECT id FROM run WHERE started < :before ORDER BY started LIMIT :most)"
    return database.execute(old, {**oldest, "most": _BATCH}).rowcount


def _remove_surplus(database: sqlite3.Connection, keep: int) -> int:
    """Remove the oldest runs that exceed ``keep`` bytes, or a part of them."""
    pages, free, size = (
        int(database.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    usage = (pages - free) * size
    if usage <= keep:
        return 0
    (runs,) = database.execute("SELECT count(*) FROM run").fetchone()
    most = min(math.ceil(runs * (usage - keep) / usage), _BATCH)
    surplus = "DELETE FROM run WHERE id IN (SELECT id FROM run ORDER BY started, id LIMIT ?)"
    return database.execute(surplus, (most,)).rowcount
