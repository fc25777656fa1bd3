"""The history of probes with many hands on it: processes that write at once, are killed, or may only read."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.store.state import StateError
from plimsoll_probes.model.finding import Verdict
from plimsoll_probes.model.job import JobName
from plimsoll_probes.store.history import History
from tests import depth
from tests.functional.test_record import in_child
from tests.unit.probes.store.test_history import postponed
from tests.unit.results import a_probe
from tests.unit.values import NOON

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "probes.sqlite"


def sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def at_once(works: list[Callable[[], None]]) -> list[int]:
    """Exit statuses of processes that begin at the same moment."""
    start = time.monotonic() + 0.1

    def wait_and(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            while time.monotonic() < start:
                pass
            work()

        return run

    children = [in_child(wait_and(work)) for work in works]
    return [os.waitpid(child, 0)[1] for child in children]


def killed_writer(path: Path, results: int, after: float) -> list[int]:
    """The numbers that a writer knew of when it was killed: some time after so many results, whatever it did then."""
    reader, writer = os.pipe()

    def work() -> None:
        history = History(path)
        while True:
            for days in (0, 9):
                for _ in range(5):
                    id_ = history.add(a_probe(started=NOON - timedelta(days=days)))
                    os.write(writer, b"" if days else b"%d\n" % id_)
                    history.postpone(postponed())
            history.prune(NOON, 7, 256)

    child = in_child(work)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        lines = [told.readline() for _ in range(results)]
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        return [int(line) for line in (*lines, *told)]


def test_of_eight_processes_that_write_at_once_none_loses_a_result(path: Path) -> None:
    each = 20  # in all fewer than a slow disk writes within the wait for the lock, whoever is served last

    def write(process: int) -> Callable[[], None]:
        def work() -> None:
            for number in range(each):
                History(path).add(a_probe(session=f"{process}", started=NOON + timedelta(seconds=number)))

        return work

    def prune() -> None:
        for _ in range(20):
            History(path).prune(NOON, 90, 256)
            History(path).runs(most=1)

    assert at_once([*(write(process) for process in range(8)), prune]) == [0] * 9
    runs = History(path).runs()
    assert sorted((run.session, run.started) for run in runs) == sorted(
        (f"{process}", NOON + timedelta(seconds=number)) for process in range(8) for number in range(each)
    )
    assert sorted(run.id or 0 for run in runs) == list(range(1, 8 * each + 1))
    (tally,) = History(path).tallies()
    assert tally.sums.runs == {Verdict.KEPT: 8 * each}, "and each counts once"
    assert tally.sums.latency["read"].count == 8 * each * 7530
    assert [file.name for file in path.parent.iterdir()] == ["probes.sqlite"]


def test_a_killed_writer_leaves_a_sound_file_with_every_result_that_was_promised(path: Path) -> None:
    promised: set[int] = set()
    chance, counted = random.Random(20261122), 0
    kills = depth.count(quick=5, landing=25, soak=200)
    for _ in range(kills):
        promised.update(killed_writer(path, chance.randint(0, 6), chance.uniform(0, 0.02)))
        history = History(path)
        kept = {run.id for run in history.runs()}
        assert promised <= kept
        runs = sum(sum(tally.sums.runs.values()) for tally in history.tallies())
        assert counted <= runs >= len(kept), "what is counted is never taken back, nor a result left out"
        counted = runs
        assert not path.exists() or sound(path)
    assert len(promised) > kills
    assert not list(path.parent.glob("*.corrupt*")), "nothing was taken for damaged"


def test_processes_that_meet_a_damaged_file_at_once_set_it_aside_once_and_lose_nothing(path: Path) -> None:
    for _ in range(depth.count(quick=3, landing=10, soak=100)):
        for file in path.parent.iterdir():
            file.unlink()
        path.write_bytes(b"no database\n" * 1000)
        assert at_once([lambda: History(path).add(a_probe()) and None] * 6) == [0] * 6
        assert len(History(path).runs()) == 6
        assert sorted(file.name for file in path.parent.iterdir()) == ["probes.sqlite", "probes.sqlite.corrupt"]


def test_what_a_killed_probe_left_half_written_is_taken_back_by_who_may_write() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "probes.sqlite"
        History(path).add(a_probe())
        path.parent.chmod(0o755)
        path.chmod(0o644)

        def half_write() -> None:
            database = sqlite3.connect(path, isolation_level=None)
            database.execute("PRAGMA cache_size = 1")
            database.execute("BEGIN IMMEDIATE")
            columns = ", ".join(row[1] for row in database.execute("PRAGMA table_info(run)") if row[1] != "id")
            for _ in range(12):  # more than the cache holds: it is in the file, and not committed
                database.execute(f"INSERT INTO run ({columns}) SELECT {columns} FROM run")
            os.kill(os.getpid(), signal.SIGKILL)

        os.waitpid(in_child(half_write), 0)
        assert path.with_name("probes.sqlite-journal").stat().st_size, "else this tests nothing"

        def look() -> None:
            os.setuid(NOBODY)
            with pytest.raises(StateError, match="a probe was killed while it wrote; root can read the file"):
                History(path).runs()

        if os.geteuid() == 0:
            assert os.waitpid(in_child(look), 0)[1] == 0
        assert len(History(path).runs()) == 1
        assert History(path).add(a_probe()) == 2


@pytest.mark.slow  # tests/unit/probes/store/test_history.py asks SQLite for the plan of each of these questions
def test_three_months_of_fifty_guests_are_searched_in_moments_and_pruned_in_short_parts(path: Path) -> None:
    history = History(path)
    for job in JobName:
        history.add(a_probe(job=job, started=NOON - timedelta(days=400)))
    with closing(sqlite3.connect(path)) as database, database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(run)")][1:]
        made = {
            "guest_uuid": "printf('%08d', guest.value)",
            "guest_name": "printf('instance-%08d', guest.value)",
            "started": "strftime('%Y-%m-%dT%H:%M:%S+00:00', '2026-11-20 12:00', printf('-%d hours', 6 * slot.value))",
            "detail": "detail || printf('%.*c', 3000, ' ')",
        }
        chosen = ", ".join(made.get(column, column) for column in columns)
        database.execute(
            "CREATE TEMP TABLE number AS WITH RECURSIVE n(value) AS"
            " (SELECT 0 UNION ALL SELECT value + 1 FROM n LIMIT 360) SELECT value FROM n"
        )
        database.execute(
            f"INSERT INTO run ({', '.join(columns)}) SELECT {chosen} FROM number AS slot"
            " JOIN (SELECT value FROM number WHERE value < 50) AS guest JOIN (SELECT * FROM run) AS template"
        )  # fmt: skip
    # Each of these goes through 150 MB where an index does not serve it: seconds, where milliseconds will do.
    for ask, number in (
        (history.latest, 153),
        (lambda: history.runs(guest="instance-00000007", since=NOON - timedelta(days=7)), 29 * 3),
        (lambda: history.runs(guest="nobody"), 0),
        (lambda: history.last_begun(NOON), 51),
        (lambda: history.streak(history.runs(most=1)[0]) or (), 0),
    ):
        begun = time.monotonic()
        assert len(ask()) == number
        assert time.monotonic() - begun < 1.5
    size = path.stat().st_size

    def prune() -> None:
        history.prune(NOON, 80, 256)

    pruner, longest = in_child(prune), 0.0
    while os.waitpid(pruner, os.WNOHANG) == (0, 0):
        begun = time.monotonic()
        history.postpone(postponed())
        longest = max(longest, time.monotonic() - begun)
    assert 0 < longest < 2.0, "others write meanwhile"
    assert path.stat().st_size < size * 0.93
    assert len(history.last_begun(NOON)) == 50
