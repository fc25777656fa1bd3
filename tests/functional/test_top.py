"""``plimsoll top`` in a real terminal, on libvirt's test driver, whose counters are random."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.command import Forked, Installed
from tests.functional.conftest import Ran

SECONDS = 60
ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"
ECHO_AND_LINES = termios.ECHO | termios.ICANON


class Terminal:
    """The command in a pseudo terminal of its own."""

    def __init__(self, start: type[Forked | Installed], *words: str, columns: int = 80, lines: int = 24) -> None:
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(self._slave)
        self.sent = b""
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = start(
            *words,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env=environment | {"TERM": "xterm-256color"},
            start_new_session=True,
        )

    @property
    def text(self) -> str:
        """What came so far, without what is not text."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.sent.decode(errors="replace"))

    @property
    def mode(self) -> int:
        return int(termios.tcgetattr(self._slave)[3])

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not there():
            assert time.monotonic() < deadline, self.text
            if select.select([self._master], [], [], 0.1)[0]:
                self.sent += os.read(self._master, 65536)

    def see(self, text: str) -> None:
        self.wait_for(lambda: text in self.text)

    def end(self) -> int:
        self.wait_for(lambda: self.process.poll() is not None)
        self.wait_for(lambda: not select.select([self._master], [], [], 0.1)[0])
        return self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self._slave)


UNLIMITED = "unlimited, desired 250 IOPS"


@pytest.fixture(params=[Forked])
def top(request: pytest.FixtureRequest, plimsoll: object, test_node: str, tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "rules.yaml").write_text("default: {limits: {total_iops_sec: 250}}")
    terminal = Terminal(request.param, "--config-file", str(tmp_path / "plimsoll.conf"), "top", "--uri", test_node)
    yield terminal
    terminal.close()


@pytest.mark.parametrize("top", [Forked, Installed], indirect=True)
def test_it_comes_up_on_the_other_screen_and_leaves_the_terminal_as_it_was(top: Terminal) -> None:
    top.see(UNLIMITED)
    top.see("q quit")
    assert ENTERED in top.sent
    assert top.mode & ECHO_AND_LINES == 0
    top.type("q")
    assert top.end() == 0
    assert top.sent.endswith(LEFT)
    assert termios.tcgetattr(top._slave) == top.before


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)],
    ids=lambda it: str(it),
)
def test_a_signal_leaves_the_terminal_as_it_was_too(top: Terminal, number: signal.Signals, status: int) -> None:
    top.see(UNLIMITED)
    top.process.send_signal(number)
    assert top.end() == status
    assert top.sent.endswith(LEFT)
    assert termios.tcgetattr(top._slave) == top.before
    assert "Traceback" not in top.text


def test_suspended_it_gives_the_terminal_back_and_resumed_it_takes_it_again(top: Terminal) -> None:
    # Nothing here can resume a session's leader, so the kernel does not stop it: it goes on at once.
    top.see(UNLIMITED)
    top.process.send_signal(signal.SIGTSTP)
    top.wait_for(lambda: top.sent.count(ENTERED) == 2)
    _, left, second = top.sent.partition(LEFT)
    assert left
    assert ENTERED in second
    top.see("q quit")
    assert top.mode & ECHO_AND_LINES == 0
    top.type("q")
    assert top.end() == 0
    assert termios.tcgetattr(top._slave) == top.before


def test_keys_change_what_is_shown(top: Terminal) -> None:
    top.see(UNLIMITED)
    top.type("?")
    top.see("any key closes it")
    top.type("x/no-such-guest")
    top.see("no disk matches the filter")
    top.type("\x1b")
    top.type("n")
    top.see("sort: name")
    top.type("r")
    top.see("sort: name reversed")
    top.type("p")
    top.see("PAUSED")
    top.type("t")
    top.see("sentence for the tenant")
    top.see("unknown: passes do not show whether it was slow")
    top.type("\x1b")
    top.type("<")
    top.see("passes measure disks only where [metrics] textfile_dir is set")


def test_a_prometheus_that_cannot_be_reached_is_told_at_the_first_step_back(
    plimsoll: object, test_node: str, tmp_path: Path
) -> None:
    words = ("--config-file", str(tmp_path / "plimsoll.conf"), "top", "--uri", test_node)
    top = Terminal(Forked, *words, "--prometheus", "http://127.0.0.1:9", columns=120)
    try:
        top.see("q quit")
        top.type("<")
        top.see("http://127.0.0.1:9: ")
        top.type("q")
        assert top.end() == 0
    finally:
        top.close()


def test_enter_explains_a_disk_as_disk_explain_does(
    top: Terminal, plimsoll: Callable[..., Ran], test_node: str
) -> None:
    top.see(UNLIMITED)
    top.type("n\r")
    top.see("Esc close")
    top.see("250 IOPS, default")
    (title,) = set(re.findall(r"plimsoll disk explain (\S+ \S+)", top.text))
    _head, _titles, *rows = plimsoll("disk", "explain", *title.split(), "--uri", test_node).out.splitlines()
    told = " ".join(top.text.split())
    for row in rows:
        assert " ".join(row.split()) in told
    top.type("\x1b")
    top.see("Enter explain")


def test_it_follows_the_size_of_the_terminal(top: Terminal) -> None:
    top.see(UNLIMITED)
    fcntl.ioctl(top._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    top.see("READ + WRITE")


def test_a_frame_of_500_disks_writes_only_what_changed(plimsoll: object, test_node: str, tmp_path: Path) -> None:
    node = Path(test_node.removeprefix("test://"))
    sample = node.with_name("0.xml").read_text()
    of_each = len(re.findall("protocol='rbd'", sample))
    for number in range(500 // of_each):
        text = re.sub(r"<name>instance-\w+</name>", f"<name>instance-{number:08x}</name>", sample)
        text = re.sub(r"<uuid>........-", f"<uuid>{number:08x}-", text, count=1)
        node.with_name(f"{number}.xml").write_text(text)
    files = [f'<domain file="{number}.xml"/>' for number in range(500 // of_each)]
    node.write_text(f"<node>{''.join(files)}</node>")
    top = Terminal(Forked, "--config-file", str(tmp_path / "plimsoll.conf"), "top", "--uri", test_node)
    try:
        top.see("of 500")
        top.type("p")
        top.see("PAUSED")
        first = len(top.sent)
        top.type("j")
        top.type("/")
        top.see("filter: _")
        later = top.sent[first:].decode()
        assert b"\x1b[2J" in top.sent[:first]
        assert "\x1b[2J" not in later
        assert 2 <= len(re.findall(r"\x1b\[\d+;1H", later)) <= 4, "two rows and the foot"
        assert len(later) < 80 * 24 / 3
    finally:
        top.close()


def test_once_prints_plain_data_and_says_by_its_status_that_a_guest_is_unreachable(
    plimsoll: Callable[..., Ran], unreadable_node: str
) -> None:
    ran = plimsoll("top", "--uri", unreadable_node, "--once", "-f", "json", "--interval", "0.5")
    disks = json.loads(ran.out)
    assert ran.status == 1
    assert {disk["guest"] for disk in disks} == {f"instance-0000000{number}" for number in (2, 3, 4)}
    for disk in disks:
        assert disk["guest_uuid"]
        assert disk["rates"]["total_iops_sec"] > 0
        assert disk["state"] in ("in-sync", "left-alone")
    assert "instance-00000001" in ran.err


def test_without_a_terminal_it_is_a_list(plimsoll: Callable[..., Ran], test_node: str) -> None:
    words = ("top", "--uri", test_node, "--interval", "0.5", "--filter", "instance-00000001")
    ran = plimsoll(*words)
    assert ran.status == 0
    guests = {line.split()[1] for line in ran.out.splitlines() if " vd" in line or " sd" in line}
    assert guests == {"instance-00000001"}
    assert "\x1b" not in ran.out
    ran = plimsoll(*words, "-f", "value", "-c", "guest", "-c", "disk", "--sort-column", "disk")
    assert ran.out.splitlines() == sorted(ran.out.splitlines())
    assert ran.out.startswith("instance-00000001 ")


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        (["-f", "text"], "text"),
        (["-c", "luck"], "luck"),
        (["--once", "--interval", "0"], "--interval"),
        (["--once", "--prometheus"], "--prometheus: a list has no past"),
        (["--once", "--interval", "nan"], "--interval"),
        (["--once", "--sort", "luck"], "luck"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_said_in_a_line(
    plimsoll: Callable[..., Ran], test_node: str, words: list[str], clue: str
) -> None:
    ran = plimsoll("top", "--uri", test_node, *words)
    assert ran.status == 64
    assert clue in ran.err
    assert ran.out == ""


def test_a_guest_that_does_not_run_is_no_empty_list(plimsoll: Callable[..., Ran], test_node: str) -> None:
    ran = plimsoll("top", "--uri", test_node, "--once", "--guest", "no-guest")
    assert (ran.status, ran.out) == (64, "")
    assert "no-guest" in ran.err
