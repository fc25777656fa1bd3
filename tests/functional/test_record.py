"""The record under ``kill -9``, and ``plimsoll record`` as a person types it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from lab.command import PLIMSOLL, Forked
from plimsoll_agent.model.entries import Conclusion, Ending, Event, Happening
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import SCHEMA_VERSION, Record
from tests import depth
from tests.functional.conftest import Ran
from tests.unit.agent.store.test_record import a_change
from tests.unit.values import NOON, OF_0_1_0

Plimsoll = Callable[..., Ran]
# Columns that are called in JSON what the other lists call them.
AS_JSON = {"disk": "key", "guest_name": "guest", "target": "disk", "volume_id": "volume"}
ROOT = Path(__file__).parents[2]


def in_child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def write_for_ever(path: Path, told: int) -> None:
    """A pass after another, each id told once it is known: that is when the call to libvirt would be made."""
    record = Record(path)
    os.write(told, b"ready\n")
    while True:
        ids = record.intend([a_change()] * 40, NOON, "tests", "04d2ab")
        os.write(told, " ".join(map(str, ids)).encode() + b"\n")
        record.conclude([Conclusion(id_, Ending.DONE) for id_ in ids[1:]], NOON + timedelta(seconds=1))


def killed_writer(path: Path, passes: int, after: float) -> list[int]:
    """The ids that a writer knew of when it was killed, so many seconds after it told those of so many passes."""
    read, told = os.pipe()
    writer = in_child(lambda: write_for_ever(path, told))
    os.close(told)
    with os.fdopen(read, "rb") as output:
        assert output.readline() == b"ready\n"
        first = [output.readline() for _ in range(passes)]
        time.sleep(after)
        os.kill(writer, signal.SIGKILL)
        *whole, _ = b"".join([*first, output.read()]).split(b"\n")
    _, status = os.waitpid(writer, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, "it ended before"
    return [int(id_) for line in whole for id_ in line.split()]


def test_a_killed_writer_leaves_no_gap_and_no_intent_that_was_promised_is_lost(tmp_path: Path) -> None:
    path, promised, chance = tmp_path / "record.sqlite", 0, random.Random(20261120)
    kills = depth.count(quick=5, landing=25, soak=200)
    for number in range(kills):
        ids = killed_writer(path, number % 3, chance.uniform(0, 0.15))
        record = Record(path)
        if not path.exists():
            assert not ids, "an intent was promised before there was a file"
            continue
        verified = record_query.verify(record)
        assert verified.faults == ()
        promised = max([promised, *ids])
        assert verified.changes >= promised
        if promised:
            assert record.intend([a_change()], NOON, "tests") == [verified.changes + 1]
    assert promised > kills


def test_a_migration_that_is_killed_leaves_a_whole_file(tmp_path: Path) -> None:
    path, chance = tmp_path / "record.sqlite", random.Random(20261121)
    versions = set()
    for number in range(depth.count(quick=3, landing=10, soak=100)):
        shutil.copyfile(OF_0_1_0 / "record.sqlite", path)
        ids = killed_writer(path, number % 2, chance.uniform(0, 0.12))
        assert record_query.verify(Record(path)).faults == ()
        with closing(sqlite3.connect(path)) as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            columns = {row[1] for row in database.execute("PRAGMA table_info(change)")}
        assert (version, "retried_at" in columns, "revision" in columns) in (
            (2, False, False), (SCHEMA_VERSION, True, True)
        )  # fmt: skip
        assert version == SCHEMA_VERSION or not ids
        versions.add(version)
    assert SCHEMA_VERSION in versions


def test_a_reader_takes_back_what_a_killed_pass_left_half_written(tmp_path: Path) -> None:
    record = Record(tmp_path / "record.sqlite")
    record.intend([a_change()], NOON, "tests")

    def half_write() -> None:
        database = sqlite3.connect(tmp_path / "record.sqlite", isolation_level=None)
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN IMMEDIATE")
        columns = ", ".join(row[1] for row in database.execute("PRAGMA table_info(change)") if row[1] != "id")
        for _ in range(12):  # more than the cache holds: it is in the file, and not committed
            database.execute(f"INSERT INTO change ({columns}) SELECT {columns} FROM change")
        os.kill(os.getpid(), signal.SIGKILL)

    child = in_child(half_write)
    os.waitpid(child, 0)
    assert (tmp_path / "record.sqlite-journal").stat().st_size, "else this tests nothing"
    assert [change.id for change in record.unsettled()] == [1]
    assert record_query.verify(record).faults == ()


def test_writers_that_begin_the_record_at_once_write_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "record.sqlite"
    for _ in range(10):
        path.unlink(missing_ok=True)
        start = time.monotonic() + 0.05

        def begin(start: float = start) -> None:
            while time.monotonic() < start:
                pass
            Record(path).intend([a_change()], NOON, "tests")

        children = [in_child(begin) for _ in range(4)]
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
        verified = record_query.verify(Record(path))
        assert (verified.changes, verified.events, verified.faults) == (4, 1, ())
        assert [file.name for file in tmp_path.iterdir()] == ["record.sqlite"]


# --- the command


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Of two changes, of which one is done, and of a pause."""
    (tmp_path / "state").mkdir()
    record = Record(tmp_path / "state" / "record.sqlite")
    record.intend([a_change(), a_change(after=Limits(total_iops_sec=3000))], NOON, "root")
    record.conclude([Conclusion(2, Ending.DONE)], NOON)
    record.note([Event(at=NOON, by="ann", what=Happening.PAUSED, reason=None)])
    return record


def test_nothing_recorded_yet_is_no_failure_and_makes_no_file(plimsoll: Plimsoll, tmp_path: Path) -> None:
    for words in ([], ["--verify"], ["--last", "0"]):
        ran = plimsoll("record", *words)
        assert (ran.status, ran.out, ran.err) == (
            0,
            "No limit was changed yet: enforce, daemon and decisions of operators are recorded here.\n",
            "",
        )
    assert json.loads(plimsoll("record", "-f", "json").out) == []
    assert not (tmp_path / "state").exists()


def test_the_list_and_its_data_have_the_same_entries(plimsoll: Plimsoll, record: Record) -> None:
    lines = plimsoll("record").out.splitlines()
    assert len(lines) == 1 + 4
    assert lines[0].split() == ["AT", "(UTC)", "SERVER", "GUEST", "DISK", "CHANGE", "REASON", "RESULT", "BY"]
    assert re.search(r'vdb +unlimited → 3000 IOPS +rule "bronze" +done +root$', lines[-1])
    for limit in ("0", "4"):
        entries = json.loads(plimsoll("record", "-f", "json", "--last", limit).out)
        assert [entry["kind"] for entry in entries] == ["event", "event", "change", "change"]
    with closing(sqlite3.connect(record.path)) as database:
        for entry in (entries[0], entries[-1]):
            columns = {row[1] for row in database.execute(f"PRAGMA table_info({entry['kind']})")}
            assert set(entry) == {AS_JSON.get(column, column) for column in columns} | {"kind", "server"}
    done = plimsoll("record", "--result", "done", "--guest", "instance-00000001").out.splitlines()
    assert [line.split() for line in done] == [lines[0].split(), lines[-1].split()]
    past = plimsoll("record", "--guest", "instance-00000001", "--until", "2020-01-01").out
    assert past == "No such entries; plimsoll record lists the last ones.\n"


def test_entries_that_the_default_leaves_out_are_told(plimsoll: Plimsoll, record: Record) -> None:
    record.intend([a_change()] * 60, NOON, "root")
    ran = plimsoll("record", "--since", "2026-11-20")
    assert len(ran.out.splitlines()) == 1 + 50
    assert "--last 0" in ran.err
    assert plimsoll("record", "--last", "50").err == ""
    assert len(plimsoll("record", "--last", "0").out.splitlines()) == 1 + 64


@pytest.mark.parametrize(
    "words",
    [["--since", "soon"], ["--last", "-1"], ["--result", "fine"], ["--follow", "--verify"], ["--last", "x"]],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_64(plimsoll: Plimsoll, words: list[str]) -> None:
    assert plimsoll("record", *words).status == 64


def test_verify_says_what_there_is_or_each_fault(plimsoll: Plimsoll, record: Record, tmp_path: Path) -> None:
    good = plimsoll("record", "--verify")
    assert good.status == 0
    assert good.out == "2 changes and 2 events, no damage found\n"
    with closing(sqlite3.connect(record.path)) as database, database:
        database.execute("UPDATE change SET cause = 'chance' WHERE id = 1")
    bad = plimsoll("record", "--verify")
    assert bad.status == 1
    assert bad.out.startswith(f"the file is damaged: {record.path}: change 1: ")
    assert len(json.loads(plimsoll("record", "--verify", "-f", "json").out)["faults"]) == 1
    record.path.write_bytes(b"")
    emptied = plimsoll("record", "--verify")
    assert emptied.status == 1
    assert "is empty" in emptied.out
    listed = plimsoll("record")
    assert listed.status == 1
    assert listed.err.count("\n") == 1


@contextmanager
def follow(tmp_path: Path, *words: str) -> Iterator[Forked]:
    command, pipe = ["--config-file", tmp_path / "plimsoll.conf", "record", "--follow"], subprocess.PIPE
    with Forked(*command, *words, stdout=pipe, stderr=pipe) as follower:
        try:
            yield follower
        finally:
            follower.kill()


def test_follow_tells_what_comes_and_ends_well_with_ctrl_c(
    plimsoll: Plimsoll, record: Record, tmp_path: Path
) -> None:
    with follow(tmp_path, "--last", "1", "-f", "json") as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert json.loads(follower.stdout.readline())["id"] == 2
        record.conclude([Conclusion(1, Ending.TOOK)], NOON)
        concluded = json.loads(follower.stdout.readline())
        assert (concluded["id"], concluded["result"]) == (1, "took")
        record.path.write_bytes(b"no record any more")
        assert "not a database" in follower.stderr.readline()
        record.set_aside(NOON, "root")
        started = json.loads(follower.stdout.readline())
        assert started["reason"]["instead_of"] == "record.sqlite.corrupt"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(10) == 0
        assert follower.stderr.read() == ""


def test_follow_ends_when_its_reader_goes_even_if_nothing_comes(
    plimsoll: Plimsoll, record: Record, tmp_path: Path
) -> None:
    with follow(tmp_path, "--last", "1") as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        follower.stdout.readline()
        follower.stdout.close()
        assert follower.wait(10) == 0
        assert follower.stderr.read() == ""


def test_a_reader_of_the_list_may_stop_early(plimsoll: Plimsoll, record: Record, tmp_path: Path) -> None:
    record.intend([a_change()] * 2000, NOON, "root")
    command = f"{PLIMSOLL} --config-file {tmp_path}/plimsoll.conf record --last 0"
    piped = ["bash", "-o", "pipefail", "-c", f"{command} | head -1"]
    ran = subprocess.run(piped, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr, ran.stdout.count("\n")) == (0, "", 1)


def test_a_pass_under_way_is_waited_for(plimsoll: Plimsoll, record: Record) -> None:
    with closing(sqlite3.connect(record.path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        reader = subprocess.Popen(
            [sys.executable, "-c", READER, str(record.path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        time.sleep(1.5)
        assert reader.poll() is None
        writer.execute("COMMIT")
    with reader:
        assert reader.communicate(timeout=20)[0] == "2\n"


READER = """
import sys
from pathlib import Path
from plimsoll_agent.store import record_query as history
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.record import Record
print(len(history.newest(Record(Path(sys.argv[1])), Selection(reason="rule"), 5)))
"""
