"""``plimsoll top`` in a real terminal, on libvirt's test driver. That has no block stats: no disk is known."""

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

from tests.command import Forked, Installed
from tests.functional.conftest import Ran

SECONDS = 20
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


@pytest.fixture(params=[Forked])
def top(request: pytest.FixtureRequest, plimsoll: object, test_node: str, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(request.param, "--config-file", str(tmp_path / "plimsoll.conf"), "top", "--uri", test_node)
    yield terminal
    terminal.close()


@pytest.mark.parametrize("top", [Forked, Installed], indirect=True)
def test_it_comes_up_on_the_other_screen_and_leaves_the_terminal_as_it_was(top: Terminal) -> None:
    top.see("not known: ")
    top.see("q quit")
    assert ENTERED in top.sent
    assert top.mode & ECHO_AND_LINES == 0
    top.type("q")
    assert top.end() == 0
    assert LEFT in top.sent
    assert termios.tcgetattr(top._slave) == top.before


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=lambda it: str(it)
)
def test_a_signal_leaves_the_terminal_as_it_was_too(top: Terminal, number: signal.Signals, status: int) -> None:
    top.see("not known: ")
    top.process.send_signal(number)
    assert top.end() == status
    assert LEFT in top.sent
    assert termios.tcgetattr(top._slave) == top.before
    assert "Traceback" not in top.text


def test_keys_change_what_is_shown(top: Terminal) -> None:
    top.see("not known: ")
    top.type("h")
    top.see("any key leaves it")
    top.type("x/no-such-guest")
    top.see("nothing matches")
    top.type("\x1b")
    top.type("n")
    top.see("sort: name")
    top.type("p")
    top.see("PAUSED")


def test_it_follows_the_size_of_the_terminal(top: Terminal) -> None:
    top.see("not known: ")
    fcntl.ioctl(top._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    top.see("READ + WRITE")


def test_once_prints_plain_data_and_says_by_its_status_that_something_is_not_known(
    plimsoll: Callable[..., Ran], test_node: str
) -> None:
    ran = plimsoll("top", "--uri", test_node, "--once", "-f", "json", "--interval", "0.5")
    data = json.loads(ran.out)
    assert ran.status == 1
    assert data["disks"]
    for disk in data["disks"]:
        assert disk["guest_uuid"]
        assert disk["rates"] is None
        assert disk["share"] is None
        assert disk["reason"]["code"] == "not-sent"
    assert {silent["guest"] for silent in data["overlooked"]} == {disk["guest"] for disk in data["disks"]}


def test_once_prints_a_table_for_a_pipe(plimsoll: Callable[..., Ran], test_node: str) -> None:
    ran = plimsoll("top", "--uri", test_node, "--once", "--interval", "0.5", "--filter", "instance-00000001")
    guests = {line.split()[0] for line in ran.out.splitlines() if "not known: " in line}
    assert guests == {"instance-00000001"}
    assert "\x1b" not in ran.out


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        ([], "plimsoll top --once"),
        (["-f", "json"], "--once"),
        (["--once", "--interval", "0"], "--interval"),
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
    ran = plimsoll("top", "--uri", test_node, "--once", "--guest", "nobody")
    assert (ran.status, ran.out) == (64, "")
    assert "nobody" in ran.err
