"""Whole files: what is read and what is refused, what is swept up after a killed writer, what is kept aside."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from plimsoll_agent.util import files
from tests.unit.nobody import as_nobody

TEMPORARY = ".memory.json.x1y2z3"


@contextmanager
def at_once() -> Iterator[None]:
    """Whoever waits for another process is told so, instead of waiting for ever."""

    def late(*_: object) -> None:
        raise AssertionError("it waited")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def aged(path: Path, seconds: float) -> Path:
    path.touch()
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


# --- reading


def test_a_file_is_read_whole_or_as_far_as_was_asked(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\0b\n")
    assert files.read_whole(tmp_path / "f") == b"a\0b\n"
    assert files.read_whole(tmp_path / "f", 2) == b"a\0"


def test_a_link_is_followed_only_where_the_path_is_the_operators_word(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    with pytest.raises(OSError, match="is a link"):
        files.read_whole(tmp_path / "link")
    assert files.read_whole(tmp_path / "link", follow=True) == b"secret"


def test_a_file_that_may_not_be_read_is_named_as_it_was_asked_for() -> None:
    with tempfile.TemporaryDirectory() as name:  # tmp_path is closed to others
        path = Path(name) / "f"
        path.touch(0)
        path.parent.chmod(0o755)
        with as_nobody(), pytest.raises(PermissionError) as refused:
            files.read_whole(path)
    assert refused.value.filename == str(path)


@pytest.mark.parametrize("ask", [files.exists, files.is_directory, files.is_regular])
def test_what_may_not_be_looked_at_is_not_said_to_be_missing(ask: Callable[[Path], bool]) -> None:
    """``Path.exists`` says so from Python 3.14 on."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "f"
        path.touch()
        assert not ask(path / "below")
        assert not ask(path.with_name("other"))
        path.parent.chmod(0)
        with as_nobody(), pytest.raises(PermissionError) as refused:
            ask(path)
        path.parent.chmod(0o700)
    assert files.reason(refused.value) == "Permission denied; add this user to its group, or run this as root"


def test_a_directory_is_no_regular_file_and_a_pipe_is_neither(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    os.mkfifo(tmp_path / "pipe")
    told = {
        name: (files.exists(path), files.is_directory(path), files.is_regular(path))
        for name, path in (("f", tmp_path / "f"), ("itself", tmp_path), ("pipe", tmp_path / "pipe"))
    }
    assert told == {"f": (True, False, True), "itself": (True, True, False), "pipe": (True, False, False)}


@pytest.mark.parametrize("lead", [False, True], ids=["itself", "a link to it"])
@pytest.mark.parametrize(
    ("make", "words"),
    [(os.mkfifo, "is not a regular file"), (os.mkdir, "Is a directory"), (None, "is not a regular file")],
    ids=["a pipe", "a directory", "a device"],
)
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None] | None, words: str, lead: bool
) -> None:
    path = tmp_path / "f" if make else Path("/dev/zero")  # which would be read until the memory is full
    if make is not None:
        make(path)
    if lead:
        (tmp_path / "link").symlink_to(path)
    with at_once(), pytest.raises(OSError, match=words) as refused:
        files.read_whole(tmp_path / "link" if lead else path, 1000, follow=True)
    assert refused.value.strerror == words, "a message is made of it"


@contextmanager
def opened(path: Path) -> Iterator[Callable[[], bool]]:
    """Whether it was opened since, by this process or another one (inotify(7))."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert watch >= 0
    assert libc.inotify_add_watch(watch, os.fsencode(path), 0x20) >= 0  # IN_OPEN

    def seen() -> bool:
        try:
            return bool(os.read(watch, 4096))
        except BlockingIOError:
            return False

    try:
        yield seen
    finally:
        os.close(watch)


@pytest.mark.parametrize("lead", [False, True], ids=["itself", "a link to it"])
@pytest.mark.parametrize("use", [partial(files.read_whole, follow=True), partial(files.append, more=b".")])
def test_what_is_no_file_is_not_even_opened(tmp_path: Path, use: Callable[[Path], object], lead: bool) -> None:
    """Some devices act on that: a watchdog starts, a tape is wound back."""
    os.mkfifo(tmp_path / "f")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    with opened(tmp_path / "f") as was_opened:
        with at_once(), pytest.raises(OSError, match=r"is not a regular file|is a link"):
            use(tmp_path / "link" if lead else tmp_path / "f")
        assert not was_opened()
        os.close(os.open(tmp_path / "f", os.O_RDONLY | os.O_NONBLOCK))
        assert was_opened(), "or this would see nothing at all"


def test_the_holder_of_a_lease_holds_up_no_reader(tmp_path: Path) -> None:
    """The owner of a file may take one; each open would wait for 45 seconds, the daemon's too."""
    path = tmp_path / "catalogue.json"
    path.write_text("{}")
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    holder = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        with pytest.raises(BlockingIOError):
            files.open_regular(path, os.O_RDONLY)
    finally:
        os.close(holder)
        signal.signal(signal.SIGIO, before)
    os.close(files.open_regular(path, os.O_RDONLY))


def test_what_is_refused_leaves_no_descriptor_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")
    descriptors = Path("/proc/self/fd")
    before = len([*descriptors.iterdir()])
    for path in (tmp_path / "f", tmp_path):
        with at_once(), pytest.raises(OSError, match=r"regular file|Is a directory"):
            files.read_whole(path)
    assert len([*descriptors.iterdir()]) == before


# --- what killed writers leave


def test_what_a_killed_writer_left_is_swept_after_an_hour(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", kill)
        patched.setattr(Path, "unlink", kill)  # kill -9 runs no finally
        with pytest.raises(Killed):
            files.write_whole(tmp_path / "memory.json", "{}")
    (left,) = tmp_path.iterdir()
    files.sweep(tmp_path, ("memory.json",))
    assert list(tmp_path.iterdir()) == [left], "its writer may live"
    aged(left, 3601)
    files.sweep(tmp_path, ("memory.json",))
    assert list(tmp_path.iterdir()) == []


def test_nothing_else_is_swept_however_old(tmp_path: Path) -> None:
    others = {
        "memory.json",
        "memory.json.corrupt",
        ".memory.json",
        ".other.json.x1",
        "x.memory.json.y",
        ".memory.jsonx",
    }
    for name in others:
        aged(tmp_path / name, 10**7)
    aged(tmp_path / TEMPORARY, 10**7)
    files.sweep(tmp_path, ("memory.json", "approval.json"))
    assert names(tmp_path) == others


def test_a_link_is_swept_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch()
    link = tmp_path / TEMPORARY
    link.symlink_to(target)
    os.utime(link, (0, 0), follow_symlinks=False)
    files.sweep(tmp_path, ("memory.json",))
    assert names(tmp_path) == {"target"}


def test_what_cannot_be_swept_stops_no_pass(tmp_path: Path) -> None:
    (tmp_path / TEMPORARY).mkdir()
    os.utime(tmp_path / TEMPORARY, (0, 0))
    aged(tmp_path / ".memory.json.zz", 10**7)
    files.sweep(tmp_path, ("memory.json",))
    assert names(tmp_path) == {TEMPORARY}, "the next is swept all the same"
    files.sweep(tmp_path / "absent", ("memory.json",))


# --- set aside


def test_a_name_aside_is_that_of_no_earlier_file_nor_of_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "record.sqlite"
    assert files.name_aside(path).name == "record.sqlite.corrupt"
    (tmp_path / "record.sqlite.corrupt").symlink_to(tmp_path / "nowhere")
    assert files.name_aside(path).name == "record.sqlite.corrupt.2"
    (tmp_path / "record.sqlite.corrupt.2-journal").touch()
    assert files.name_aside(path).name == "record.sqlite.corrupt.3"


def test_a_pipe_in_the_place_of_a_file_is_refused_and_no_caller_waits_for_its_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "busy.count")
    with pytest.raises(OSError):  # noqa: PT011 - the kernel's word, or ours
        files.append(tmp_path / "busy.count", b".")


@pytest.mark.parametrize("there", [True, False])
def test_nothing_is_added_through_a_link(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "foreign").write_bytes(b"foreign")
    (tmp_path / "busy.count").symlink_to(tmp_path / "foreign")
    with pytest.raises(OSError, match="is a link"):
        files.append(tmp_path / "busy.count", b".")
    assert names(tmp_path) == ({"busy.count", "foreign"} if there else {"busy.count"})
    assert not there or (tmp_path / "foreign").read_bytes() == b"foreign"


def test_what_is_added_stands_behind_what_was_there(tmp_path: Path) -> None:
    for more in (b"a", b"bc"):
        files.append(tmp_path / "file", more)
    assert (tmp_path / "file").read_bytes() == b"abc"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) & 0o137 == 0


def test_what_a_full_disk_takes_a_part_of_is_not_written(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))  # the kernel writes up to there, as on a full disk
    try:
        with pytest.raises(OSError, match="File too large"):
            files.append(tmp_path / "file", b"more than ten bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, ""),
        ({"f_bavail": 0}, "No space left on device"),
        ({"f_favail": 0}, "No space left on device"),
        ({"f_favail": 0, "f_files": 0}, ""),  # btrfs counts none
        ({"f_flag": os.ST_RDONLY}, "Read-only file system"),
    ],
)
def test_where_nothing_can_be_saved_is_found_out_without_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: dict[str, int], said: str
) -> None:
    usual = {"f_bavail": 5, "f_files": 9, "f_favail": 5, "f_flag": 0}
    monkeypatch.setattr("os.statvfs", lambda path: SimpleNamespace(**usual | found))
    assert files.no_room(tmp_path) == said


def test_of_a_directory_that_does_not_exist_nothing_is_said(tmp_path: Path) -> None:
    assert files.no_room(tmp_path / "none") == ""
