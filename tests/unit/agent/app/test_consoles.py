"""Consoles are read after a pass: counted, bounded, stored, and never the pass's trouble."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.adapters import console_log
from plimsoll_agent.adapters.console_log import NewText
from plimsoll_agent.app import consoles as app
from plimsoll_agent.app import publish
from plimsoll_agent.app.consoles import read_consoles
from plimsoll_agent.config.settings import MetricsSettings
from plimsoll_agent.consoles import file
from plimsoll_agent.consoles.model import Consoles, ConsoleState, GuestConsole
from plimsoll_agent.consoles.patterns import StallKind
from plimsoll_agent.consoles.position import ConsolePosition
from plimsoll_agent.errors import Unreachable
from plimsoll_agent.reconcile.outcome import PassReport
from tests import depth
from tests.fakes import hangs, raising
from tests.unit.enforcing import Shell
from tests.unit.node import Node, a_volume, guest, uuid_of

HUNG = b"[  242.6] INFO: task jbd2/vda1-8:231 blocked for more than 120 seconds.\n"
ERROR = b"[  242.6] blk_update_request: I/O error, dev vda, sector 8\n"
AT = datetime(2099, 1, 1, tzinfo=UTC)
"""Later than the mtime of what a test writes."""
READINGS = depth.count(quick=20, landing=100, soak=7 * 24 * 12)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A node with one guest, whose console is read."""
    shell = Shell(tmp_path)
    textfiles = tmp_path / "textfiles"
    textfiles.mkdir()
    shell.metrics = MetricsSettings(textfiles, "disk")
    shell.reads_consoles = True
    log = tmp_path / "console.log"
    log.write_bytes(HUNG)
    shell.guest.consoles = (str(log),)
    shell.enforce()
    return shell


def log_of(shell: Shell) -> Path:
    return Path(shell.guest.consoles[0])


def append(log: Path, text: bytes) -> None:
    with log.open("ab") as file:
        file.write(text)


def consoles(shell: Shell) -> Consoles:
    found = file.load(shell.state)
    assert found is not None
    return found


def the_guest(shell: Shell) -> GuestConsole:
    return consoles(shell).guests[shell.guest.uuid]


def exposed(shell: Shell) -> str:
    assert shell.metrics.textfile_dir is not None
    return (shell.metrics.textfile_dir / "plimsoll-console.prom").read_text()


def test_lines_are_counted_by_guest_and_kind_from_the_first_pass_on(shell: Shell) -> None:
    assert the_guest(shell).stalls == {}, "nobody knows when those were written that the first pass found"
    before = datetime.now(UTC) - timedelta(seconds=1)
    append(log_of(shell), HUNG * 2 + ERROR + b"hello\n")
    shell.enforce()
    shell.enforce()
    stalls = the_guest(shell).stalls
    assert {kind: each.lines for kind, each in stalls.items()} == {StallKind.HUNG_TASK: 2, StallKind.IO_ERROR: 1}
    assert before <= stalls[StallKind.HUNG_TASK].last <= datetime.now(UTC)
    own = f'domain="{shell.guest.name}",kind="hung-task",uuid="{shell.guest.uuid}"'
    assert f"plimsoll_guest_stall_lines_total{{{own}}} 2.0\n" in exposed(shell)


def test_nothing_that_a_guest_wrote_is_stored_or_shown(shell: Shell) -> None:
    append(log_of(shell), HUNG.replace(b"jbd2", b"secret\x1b[2J") + b"secret\n")
    shell.enforce()
    assert the_guest(shell).stalls[StallKind.HUNG_TASK].lines == 1
    for text in (shell.state.consoles.read_text(), exposed(shell), shell.out, shell.err):
        assert "secret" not in text


def test_off_is_the_default_and_leaves_nothing_behind(shell: Shell) -> None:
    shell.reads_consoles = False
    shell.enforce()
    assert not shell.state.consoles.exists()
    assert [path.name for path in (shell.metrics.textfile_dir or Path()).iterdir()] == ["plimsoll-pass.prom"]


def test_a_console_that_cannot_be_read_is_unknown_and_not_zero(shell: Shell) -> None:
    log_of(shell).unlink()
    log_of(shell).symlink_to("/etc/passwd")
    status = shell.enforce()
    assert (the_guest(shell).state, the_guest(shell).trouble) == (ConsoleState.UNREADABLE, "is a link")
    assert "plimsoll_guest_stall_lines_total" not in exposed(shell)
    assert 'plimsoll_consoles{state="unreadable"} 1.0' in exposed(shell)
    shell.reads_consoles = False
    assert shell.enforce() == status, "the pass is not worse for it"


def test_where_it_was_read_to_is_kept_while_it_cannot_be_read(shell: Shell) -> None:
    append(log_of(shell), HUNG)
    aside = log_of(shell).rename(log_of(shell).with_name("aside"))
    shell.enforce()
    aside.rename(log_of(shell))
    shell.enforce()
    assert the_guest(shell).stalls[StallKind.HUNG_TASK].lines == 1


def test_a_guest_without_a_log_is_none(shell: Shell) -> None:
    shell.guest.consoles = ()
    shell.enforce()
    assert the_guest(shell).state is ConsoleState.NONE


def test_a_guest_whose_qemu_hangs_is_read_all_the_same(shell: Shell) -> None:
    append(log_of(shell), HUNG)
    shell.guest.trouble = hangs()
    shell.enforce()
    assert the_guest(shell).stalls[StallKind.HUNG_TASK].lines == 1


def test_a_guest_that_is_gone_is_forgotten(shell: Shell) -> None:
    shell.hypervisor.by_uuid.clear()
    shell.enforce()
    assert consoles(shell).guests == {}


def test_bytes_that_were_skipped_stay_counted_when_their_guest_is_gone(shell: Shell) -> None:
    os.truncate(log_of(shell), 2**30)
    shell.enforce()
    skipped = consoles(shell).skipped
    assert skipped == 2**30 - len(HUNG) - 2**20
    shell.hypervisor.by_uuid.clear()
    shell.enforce()
    assert consoles(shell).skipped == skipped, "a counter does not fall"


def test_a_corrupt_state_begins_again(shell: Shell) -> None:
    shell.state.consoles.write_text("{")
    shell.enforce()
    assert the_guest(shell).state is ConsoleState.READ


@pytest.mark.parametrize("broken", [ValueError("a bug"), MemoryError(), Unreachable("x")])
def test_no_error_of_the_reading_is_one_of_the_pass(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, broken: Exception
) -> None:
    status = shell.enforce()
    monkeypatch.setattr(publish, "read_consoles", raising(broken))
    assert shell.enforce() == status


# --- bounds


@pytest.fixture
def report(tmp_path: Path) -> PassReport:
    """Of a pass over three guests with a log each."""
    guests = [guest(number, a_volume(number)) for number in (1, 2, 3)]
    for each in guests:
        log = tmp_path / each.uuid
        log.write_bytes(b"")
        each.consoles = (str(log),)
    return Node(tmp_path / "state", *guests).run()


@pytest.fixture
def node(tmp_path: Path, report: PassReport) -> Node:
    """Which has read them once."""
    node = Node(tmp_path / "state")
    node.state.prepare()
    read_consoles(node.state, report, AT)
    return node


def test_what_is_too_much_for_one_pass_has_its_turn_in_the_next(
    node: Node, report: PassReport, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        append(tmp_path / uuid_of(number), HUNG)
    counted = []
    for later in (1, 2, 3):
        found = read_consoles(node.state, report, AT + timedelta(minutes=later), most=len(HUNG))
        counted.append(sum(bool(each.stalls) for each in found.guests.values()))
    assert counted == [1, 2, 3]


class Mount:
    """The file system of some guests' logs: reading them hangs until it is released."""

    def __init__(self, *numbers: int) -> None:
        self.stuck = {uuid_of(number) for number in numbers}
        self.released = threading.Event()
        self.asked: list[str] = []

    def read(self, path: str, known: ConsolePosition | None, most: int) -> NewText:
        self.asked.append(Path(path).name)
        if Path(path).name in self.stuck:
            self.released.wait(20)
        return console_log.read(path, known, most)


@pytest.fixture
def mounts() -> Iterator[list[Mount]]:
    """They are released at the end: calls that hang count for the whole process."""
    made: list[Mount] = []
    yield made
    for mount in made:
        mount.released.set()
    until(lambda: app._CALLS.hung == 0)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_log_on_a_file_system_that_hangs_delays_by_the_deadline_and_no_other_guest_for_ever(
    node: Node, report: PassReport, tmp_path: Path, mounts: list[Mount]
) -> None:
    mounts.append(mount := Mount(1))
    append(tmp_path / uuid_of(3), HUNG)
    first = read_consoles(node.state, report, AT + timedelta(minutes=1), read=mount.read, seconds=0.1)
    assert first.guests[uuid_of(1)].trouble == "timed out"
    second = read_consoles(node.state, report, AT + timedelta(minutes=2), read=mount.read, seconds=5)
    assert second.guests[uuid_of(3)].stalls[StallKind.HUNG_TASK].lines == 1
    assert second.guests[uuid_of(1)].state is ConsoleState.UNREADABLE
    assert mount.asked.count(uuid_of(1)) == 1, "it would hang again"


def test_of_logs_that_hang_a_few_are_asked_and_none_again(tmp_path: Path, mounts: list[Mount]) -> None:
    numbers = range(1, app.MOST_HANGING + 3)
    mounts.append(mount := Mount(*numbers))
    guests = [guest(number, a_volume(number)) for number in numbers]
    for each in guests:
        log = tmp_path / each.uuid
        log.write_bytes(b"")
        each.consoles = (str(log),)
    node = Node(tmp_path / "state", *guests)
    node.state.prepare()
    report = node.run()
    for minutes in range(2 * len(guests)):
        read_consoles(node.state, report, AT + timedelta(minutes=minutes), read=mount.read, seconds=0.01)
    assert sorted(mount.asked) == sorted({*mount.asked}), "each hangs in a thread of its own"
    assert len(mount.asked) == app.MOST_HANGING
    mount.released.set()
    until(lambda: app._CALLS.hung == 0)
    found = read_consoles(node.state, report, AT + timedelta(days=1), read=mount.read)
    assert {each.state for each in found.guests.values()} == {ConsoleState.READ}


def test_a_week_of_readings_leaves_no_thread_and_no_descriptor(
    node: Node, report: PassReport, tmp_path: Path
) -> None:
    """One each five minutes, each with a new line."""

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before, opened = threading.active_count(), descriptors()
    for number in range(READINGS):
        append(tmp_path / uuid_of(1), HUNG)
        found = read_consoles(node.state, report, AT + timedelta(minutes=5 * number))
    assert found.guests[uuid_of(1)].stalls[StallKind.HUNG_TASK].lines == READINGS
    until(lambda: threading.active_count() <= before)
    assert descriptors() == opened


def test_the_time_of_a_line_is_the_logs_unless_its_clock_is_wrong(
    node: Node, report: PassReport, tmp_path: Path
) -> None:
    log, later = tmp_path / uuid_of(1), AT + timedelta(minutes=10)
    times = []
    for written in (AT + timedelta(minutes=5), AT - timedelta(days=9), AT + timedelta(days=9)):
        append(log, HUNG)
        os.utime(log, (written.timestamp(), written.timestamp()))
        found = read_consoles(node.state, report, later)
        times.append(found.guests[uuid_of(1)].stalls[StallKind.HUNG_TASK].last)
    assert times == [AT + timedelta(minutes=5), later, later]


def test_the_bounds_are_those_that_the_guide_names() -> None:
    assert (app.SECONDS, app.MOST_OF_ALL, app.MOST_BYTES) == (5.0, 16 * 2**20, 2**20)
