"""A user who may read plimsoll's directories, and holds every lock there that he can get, for as long as it lasts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.cli.record import RecordList
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.refresh_state import RefreshDir, RefreshNotes
from plimsoll_monitoring.nagios.measure import Only, measure
from plimsoll_probes.store.history import History
from tests.unit.enforcing import Shell
from tests.unit.results import a_probe

NOBODY = 65534
LIMIT, TIGHTER, LOOSER = (Limits(total_iops_sec=iops) for iops in (250, 240, 260))

# Again and again, for files that are made meanwhile. sqlite3 first: closing a descriptor of a file ends the locks
# that fcntl gave this process there.
HOSTILE = """
import fcntl, os, select, sqlite3, sys
held, known = [], set()
def hold(path):
    try:
        status = os.stat(path)
        if (status.st_dev, status.st_ino) in known:
            return
        if path.endswith(".sqlite"):
            database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=0)
            database.execute("BEGIN")
            database.execute("SELECT * FROM sqlite_master").fetchall()
            held.append(database)
        descriptor = os.open(path, os.O_RDONLY)
        held.append(descriptor)
        known.add((status.st_dev, status.st_ino))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        print(path, flush=True)
    except (OSError, sqlite3.Error):
        pass
told = False
while True:
    for top in sys.argv[1:]:
        for directory, _, names in os.walk(top):
            for name in [".", *names]:
                hold(os.path.join(directory, name))
    if not told:
        print("all", flush=True)
        told = True
    if select.select([sys.stdin], [], [], 0.02)[0]:
        break
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Others may enter it, as /var/lib."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def shell(home: Path) -> Shell:
    """At a node that has limited its guest's disk, and probed. The group of its state directory is nobody's."""
    shell = Shell(home)
    shell.source, shell.asks_ceph = "none", False
    write_rules(shell, LIMIT)
    shell.state.directory.mkdir(exist_ok=True)
    shutil.chown(shell.state.directory, group=NOBODY)
    shell.state.directory.chmod(0o2750)
    assert shell.enforce() == 0
    history = History(shell.state.probes)
    history.add(a_probe())
    history.show(datetime.now(UTC))
    return shell


def write_rules(shell: Shell, limits: Limits) -> None:
    shell.rules.write_text(f"default: {{limits: {{total_iops_sec: {limits.total_iops_sec}}}}}\n")


def actual(shell: Shell) -> Limits:
    (disk,) = shell.guest.disks.values()
    return disk.actual


@contextmanager
def hostile(*directories: Path) -> Iterator[list[str]]:
    """Yields the names of what he could lock at first."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOSTILE, *map(str, directories)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
    )
    try:
        assert process.stdout is not None
        locked = [line.rstrip() for line in iter(process.stdout.readline, "all\n")]
        assert process.poll() is None
        yield [os.path.normpath(path) for path in locked]
        assert process.poll() is None, "he was there all the time"
    finally:
        process.kill()
        process.communicate()


@contextmanager
def as_a_check() -> Iterator[None]:
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_a_reader_who_locks_what_he_can_holds_up_no_pass_and_leaves_no_change_unrecorded(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    with hostile(shell.state.directory) as locked:
        assert str(shell.state.directory) in locked
        assert str(shell.state.last_pass) in locked, "he reads what checks read"
        for limits in (LOOSER, TIGHTER):
            write_rules(shell, limits)
            assert shell.enforce("--yes") == 0, shell.out + shell.err
            assert actual(shell) == limits
        assert f"{shell.state.directory}: is locked by another program or by an older plimsoll" in caplog.text
    record = Record(shell.state.record)
    assert record.unsettled() == []
    (last,) = record.taken()
    assert last.after == TIGHTER
    assert shell.run(RecordList, "--verify") == 0


def test_a_reader_who_locks_what_he_can_keeps_no_result_of_a_probe_out_of_the_history_and_checks_go_on(
    shell: Shell,
) -> None:
    with hostile(shell.state.directory):
        history = History(shell.state.probes)
        number = history.add(a_probe())
        history.show(datetime.now(UTC))
        assert history.get(number) is not None
        with as_a_check():
            for subject in ("limits", "agent", "probe"):
                assert measure(subject, shell.state.directory, Only(), datetime.now(UTC)).figures
            shown = History(shell.state.probes_shown)
            assert [each.id for each in shown.latest()] == [number]


def test_a_reader_who_locks_what_he_can_stops_no_refresh(home: Path) -> None:
    directory = RefreshDir(home / "catalogue")
    directory.prepare()
    shutil.chown(directory.directory, group=NOBODY)
    directory.directory.chmod(0o2755)
    with directory.locked():
        directory.save_notes(RefreshNotes())
    with hostile(directory.directory) as locked:
        assert str(directory.directory) in locked
        with directory.locked():
            catalogue.save(directory.directory, catalogue.Catalogue(1, datetime.now(UTC), "lab"))
    assert catalogue.load(directory.directory) is not None


def test_files_of_a_release_before_are_closed_to_readers(shell: Shell) -> None:
    """He may read them until the first write."""
    old = [shell.state.record, shell.state.probes, shell.state.directory / "pass.lock"]
    for path in old:
        path.chmod(0o640)
    write_rules(shell, LOOSER)
    assert shell.enforce("--yes") == 0
    History(shell.state.probes).show(datetime.now(UTC))
    assert {path.stat().st_mode & 0o777 for path in old} == {0o600}
