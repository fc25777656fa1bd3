"""The pause file: what counts as one, and what does not."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.reason import Code
from plimsoll_agent.reconcile.pause import Pause, end_after
from tests.unit.nobody import as_nobody
from tests.unit.values import NOON


@pytest.fixture
def pause(tmp_path: Path) -> Pause:
    return Pause(tmp_path / "paused")


def why(pause: Pause) -> object:
    reason = pause.reason(NOON)
    assert reason is not None, "paused"
    assert (reason.code, reason.facts["file"]) == (Code.PAUSED, str(pause.file))
    return reason.facts["why"]


def test_without_the_file_the_node_is_not_paused(pause: Pause) -> None:
    assert pause.reason(NOON) is None


def test_without_its_directory_the_node_is_not_paused(tmp_path: Path) -> None:
    assert Pause(tmp_path / "absent" / "paused").reason(NOON) is None


def test_a_path_through_a_file_is_no_pause(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    pause = Pause(tmp_path / "file" / "paused")
    assert pause.reason(NOON) is None
    assert pause.end() is False, "nor is there one to end"


def test_the_reason_is_what_stands_in_the_file_in_one_line(pause: Pause) -> None:
    pause.file.write_text("  osd.7 is slow\n\n(by\tann)\n")
    assert why(pause) == "osd.7 is slow (by ann)"


def test_a_file_of_anything_pauses_and_is_not_read_in_full(pause: Pause) -> None:
    pause.file.write_bytes(b"\xff\xfe\x00" * 10_000_000)
    assert len(str(why(pause))) <= 1000


def empty(path: Path) -> None:
    path.touch()


def directory(path: Path) -> None:
    path.mkdir()


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def loop(path: Path) -> None:
    path.symlink_to(path)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def door(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path may not be long
        try:
            door.bind(path.name)
        finally:
            os.chdir(here)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [empty, directory, dangling, loop, pipe, door], ids=lambda make: make.__name__)
def test_whatever_is_there_pauses_at_once(pause: Pause, make: Callable[[Path], None]) -> None:
    make(pause.file)
    assert why(pause) == ""


def test_a_file_that_may_not_be_read_pauses() -> None:
    with TemporaryDirectory() as name:
        pause = Pause(Path(name) / "paused")
        pause.file.write_text("a secret")
        pause.file.chmod(0)
        pause.file.parent.chmod(0o755)
        with as_nobody():
            assert why(pause) == ""


def test_where_the_pause_file_cannot_be_read_the_node_is_paused() -> None:
    with TemporaryDirectory() as name:
        pause = Pause(Path(name) / "paused")
        pause.file.parent.chmod(0o600)
        with as_nobody():
            assert "Permission denied" in str(why(pause))
        pause.file.parent.chmod(0o700)


def test_a_pause_says_why_and_by_whom_and_since_when(pause: Pause) -> None:
    pause.begin("osd.7 is slow", "root (ann)", NOON)
    assert why(pause) == "osd.7 is slow (by root (ann), 2026-11-20 12:00 UTC)"
    assert stat.S_IMODE(pause.file.stat().st_mode) == 0o644, "whoever looks sees why"


def test_a_pause_ends_by_itself_at_the_end_that_it_states(pause: Pause) -> None:
    until = end_after(timedelta(hours=2), NOON + timedelta(seconds=1))
    assert until == NOON + timedelta(hours=2, minutes=1), "no earlier than asked for"
    pause.begin("ceph is upgraded", "ann", NOON, until)
    assert why(pause) == "until 2026-11-20 14:01 UTC: ceph is upgraded (by ann, 2026-11-20 12:00 UTC)"
    assert pause.reason(until - timedelta(seconds=1)) is not None
    assert pause.reason(until) is None
    pause.begin("again", "ann", until)
    assert pause.reason(until) is not None, "an ended pause does not end the next one"


@pytest.mark.parametrize(
    "text",
    [
        "ceph is upgraded\nuntil 2026-11-20 11:00 UTC:\n",
        "until 2026-11-20 11:00 UTC\n",
        "until 2026-11-20 11:00:\n",
        "until 2026-02-31 11:00 UTC:\n",
        "until 2026-11-20 11:00 UTC: ceph is upgraded\n",
        "until eleven:\n",
    ],
)
def test_what_is_not_exactly_an_end_ends_no_pause(pause: Pause, text: str) -> None:
    pause.file.write_text(text)
    assert pause.reason(NOON) is not None


def test_a_pause_that_cannot_be_begun_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="paused: cannot be written: No such file or directory"):
        Pause(tmp_path / "absent" / "paused").begin("x", "root", NOON)


def test_a_pause_ends_once(pause: Pause) -> None:
    pause.begin("x", "root", NOON)
    assert pause.end() is True
    assert pause.reason(NOON) is None
    assert pause.end() is False


def test_a_link_is_removed_and_what_it_leads_to_stays(pause: Pause, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    pause.file.symlink_to(tmp_path / "notes")
    assert pause.end() is True
    assert pause.reason(NOON) is None
    assert (tmp_path / "notes").read_text() == "mine"


def test_a_pause_that_cannot_be_ended_is_an_error_and_stands(pause: Pause) -> None:
    pause.file.mkdir()
    with pytest.raises(ConfigError, match="paused: cannot be removed"):
        pause.end()
    assert pause.reason(NOON) is not None
