"""What is read of a log that grows, is rotated, truncated, replaced, or was never a log."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.adapters.console_log import NewText, read
from plimsoll_agent.consoles.position import ConsolePosition
from tests.unit.nobody import as_nobody
from tests.unit.values import examples

MOST = 1000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "console.log"
    path.write_bytes(b"old\n")
    return path


def new(log: Path, known: ConsolePosition | None, most: int = MOST) -> NewText:
    return read(str(log), known, most)


def seen(log: Path) -> ConsolePosition:
    return new(log, None).position


def append(log: Path, text: bytes) -> None:
    with log.open("ab") as file:
        file.write(text)


def test_a_log_that_is_new_here_is_only_remembered(log: Path) -> None:
    first = new(log, None)
    assert (first.text, first.position.offset, first.skipped) == (b"", 4, 0)


def test_what_was_added_is_read_once(log: Path) -> None:
    known = seen(log)
    append(log, b"a\nb\n")
    added = new(log, known)
    assert added.text == b"a\nb\n"
    assert new(log, added.position).text == b""


def test_an_incomplete_line_is_read_when_it_is_whole(log: Path) -> None:
    known = seen(log)
    append(log, b"a\nINFO: ta")
    added = new(log, known)
    assert added.text == b"a\n"
    append(log, b"sk\n")
    assert new(log, added.position).text == b"INFO: task\n"


def test_a_line_that_never_ends_is_not_read_again_and_again(log: Path) -> None:
    known = seen(log)
    append(log, b"x" * 5000)
    added = new(log, known, 4000)
    assert (len(added.text), added.skipped, added.position.offset) == (4000, 1000, 5004)


def test_of_more_than_a_pass_reads_the_newest_is_read_and_the_rest_is_told(log: Path) -> None:
    known = seen(log)
    append(log, b"".join(b"%08d\n" % number for number in range(1000)))
    added = new(log, known)
    assert (len(added.text), added.skipped) == (MOST, 9 * 1000 - MOST)
    assert added.text.endswith(b"00000999\n")


def test_a_hole_of_a_terabyte_costs_no_more(log: Path) -> None:
    known = seen(log)
    os.truncate(log, 2**40)
    added = new(log, known)
    assert len(added.text) <= MOST
    assert added.skipped == 2**40 - 4 - MOST


def test_a_truncated_log_is_read_from_its_begin(log: Path) -> None:
    append(log, b"more\n")
    known = seen(log)
    log.write_bytes(b"a\n")
    assert new(log, known).text == b"a\n"


def test_a_log_that_was_truncated_and_has_grown_since_is_known_by_what_was_there(log: Path) -> None:
    known = seen(log)
    log.write_bytes(b"a\nb\nc\n")
    assert new(log, known).text == b"a\nb\nc\n"


def test_a_replaced_log_is_read_from_its_begin(log: Path) -> None:
    known = seen(log)
    other = log.with_name("other")
    other.write_bytes(b"old\nx\n")
    other.replace(log)
    assert new(log, known).text == b"old\nx\n"


def test_what_a_rotated_log_got_last_is_read_before_the_new_one(log: Path) -> None:
    known = seen(log)
    append(log, b"last\n")
    log.rename(f"{log}.0")
    log.write_bytes(b"first\n")
    added = new(log, known)
    assert added.text.split() == [b"last", b"first"]
    assert new(log, added.position).text == b""


def test_an_older_log_that_is_not_the_known_one_is_not_read(log: Path) -> None:
    known = seen(log)
    Path(f"{log}.0").write_bytes(b"never seen\n")
    log.rename(f"{log}.1")
    log.write_bytes(b"first\n")
    assert new(log, known).text == b"first\n"


def test_both_together_are_no_more_than_one(log: Path) -> None:
    known = seen(log)
    append(log, b"a" * 700 + b"\n")
    log.rename(f"{log}.0")
    log.write_bytes(b"b" * 699 + b"\n")
    added = new(log, known)
    assert len(added.text) <= MOST + 1
    assert added.skipped > 0


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "directory", "socket", "device"])
def test_what_is_no_log_is_refused_and_not_opened(log: Path, kind: str) -> None:
    known = seen(log)
    log.unlink()
    if kind == "link":
        log.symlink_to("/etc/passwd")
    elif kind == "dangling":
        log.symlink_to("/nowhere")
    elif kind == "fifo":
        os.mkfifo(log)
    elif kind == "directory":
        log.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(log))
    else:
        log = Path("/dev/zero")
    with pytest.raises(OSError, match=r"link|regular|directory"):
        new(log, known)


def test_a_log_of_another_user_is_an_error_that_says_so(log: Path) -> None:
    known = seen(log)
    log.chmod(0)
    with as_nobody(), pytest.raises(PermissionError, match="Permission denied"):
        new(log, known)


def test_what_cannot_be_read_is_an_error(log: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(f"{log}x", None, MOST)


EVENTS = st.lists(
    st.sampled_from(["line", "line", "part", "pass", "pass", "rotate", "truncate", "replace"]), max_size=30
)


@examples
@given(EVENTS)
def test_whatever_happens_to_a_log_no_line_is_read_twice_and_none_is_lost_but_by_a_truncation(
    tmp_path_factory: pytest.TempPathFactory, events: list[str]
) -> None:
    log = tmp_path_factory.mktemp("log") / "console.log"
    log.write_bytes(b"")
    known, lines, found, lost = seen(log), 0, list[bytes](), False
    rotated_since = False
    for event in [*events, "line", "pass"]:
        if event == "line":
            append(log, b" line %d\n" % lines)
            lines += 1
        elif event == "part":
            append(log, b"...")
        elif event == "pass":
            added = new(log, known, 10_000)
            found += [line.rpartition(b"...")[2] for line in added.text.splitlines() if line.strip(b".")]
            known, rotated_since = added.position, False
        elif event == "rotate":
            lost |= rotated_since  # only the last log before this one is looked for
            log.rename(f"{log}.0")
            log.write_bytes(b"")
            rotated_since = True
        else:
            if event == "replace":
                log.unlink()
            log.write_bytes(b"")
            lost = True
    every = [b" line %d" % number for number in range(lines)]
    assert len(set(found)) == len(found), "twice"
    assert set(found) <= set(every)
    assert lost or found == every
