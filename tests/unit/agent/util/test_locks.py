"""Locks of many names in one file: between threads, between processes, and after a kill."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path

import pytest

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.locks import ByteLocks

A, B = "00000001-0000-4000-8000-000000000000", "00000002-0000-4000-8000-000000000000"


class Trouble(PlimsollError):
    """Of these tests."""


def locks(directory: Path) -> ByteLocks:
    return ByteLocks(directory / "guests.lock", Trouble)


def test_two_exclude_each_other_at_one_name_and_no_other(tmp_path: Path) -> None:
    with locks(tmp_path) as one, locks(tmp_path) as other:
        assert one.take([A]) == {A}
        assert other.take([A, B]) == {B}
        assert one.take([A, B]) == {A}, "what it holds already, it has"
        assert (one.held, other.held) == ({A}, {B})


def test_what_is_taken_for_now_is_free_afterwards_and_the_rest_is_held(tmp_path: Path) -> None:
    with locks(tmp_path) as one, locks(tmp_path) as other:
        one.take([A])
        with one.for_now():
            one.take([B])
            assert other.take([A, B]) == set()
        assert (one.held, other.take([A, B])) == ({A}, {B})


def test_whoever_has_patience_gets_it_as_soon_as_it_is_free(tmp_path: Path) -> None:
    one, waits = locks(tmp_path), locks(tmp_path)
    one.take([A])
    threading.Timer(0.05, one.close).start()
    with waits:
        assert waits.take([A], patience=60) == {A}


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        held = locks(tmp_path)
        held.take([A])
        os.write(tell, b".")
        signal.pause()
    assert os.read(told, 1) == b"."
    with locks(tmp_path) as ours:
        assert ours.take([A, B]) == {B}
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert ours.take([A]) == {A}


def test_a_file_that_was_replaced_is_an_error_and_nothing_is_held(tmp_path: Path) -> None:
    with locks(tmp_path) as one:
        one.take([A])
        (tmp_path / "guests.lock").unlink()
        with pytest.raises(Trouble, match="was removed or replaced"):
            one.take([B])


def test_what_is_no_lock_file_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "guests.lock")
    with (
        pytest.raises(Trouble, match=r"guests\.lock: cannot be locked: is not a regular file"),
        locks(tmp_path) as one,
    ):
        one.take([A])


def test_on_a_read_only_file_system_one_at_a_time_has_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pretended: the system refuses to open any file for writing. tests/lab/test_state_faults.py has a real one."""
    assert locks(tmp_path).take(["a"]) == {"a"}, "the file is there"
    opened = os.open

    def read_only(path: Path, flags: int, *more: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *more)

    monkeypatch.setattr(os, "open", read_only)
    with locks(tmp_path) as one, locks(tmp_path) as other:
        assert one.take(["a"]) == {"a"}
        assert other.take(["b"]) == frozenset()
        with one.for_now():
            assert one.take(["a", "b"]) == {"a", "b"}
        assert other.take(["b"]) == frozenset(), "a is still held"
        one.close()
        assert other.take(["b"]) == {"b"}


def test_without_a_name_no_file_is_made(tmp_path: Path) -> None:
    with locks(tmp_path) as one:
        assert one.take([]) == set()
    assert list(tmp_path.iterdir()) == []
