"""What a process takes is counted, not guessed, and whether it may have another thread is tried."""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.daemon.vitals import Vitals, may_have_another_thread, vitals
from tests.fakes import raising


def test_threads_and_descriptors_are_counted_one_by_one(tmp_path: Path) -> None:
    before = vitals()
    goes_on = threading.Event()
    threads = [threading.Thread(target=goes_on.wait, daemon=True) for _ in range(3)]
    files = [(tmp_path / str(number)).open("w") for number in range(5)]
    for thread in threads:
        thread.start()
    try:
        after = vitals()
    finally:
        goes_on.set()
        for file in files:
            file.close()
        for thread in threads:
            thread.join()
    assert (after.threads - before.threads, after.descriptors - before.descriptors) == (3, 5)
    assert vitals().descriptors == before.descriptors


def test_descriptors_are_those_of_this_process_without_the_one_that_lists_them() -> None:
    """Those that fcntl(2) knows, by trying each."""

    def is_open(descriptor: int) -> bool:
        try:
            os.fstat(descriptor)
        except OSError:
            return False
        return True

    assert vitals().descriptors == sum(map(is_open, range(4096)))


def test_memory_is_resident_bytes() -> None:
    """As the kernel has it in another file, in KiB; and it grows by pages that are written."""
    status = Path("/proc/self/status").read_text()
    resident = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
    before = vitals().memory
    assert abs(before - resident) < 4 * 2**20
    size = 64 * 2**20
    with mmap.mmap(-1, size) as block:
        for at in range(0, size, mmap.PAGESIZE):
            block[at] = 1
        assert abs(vitals().memory - before - size) < 8 * 2**20


@pytest.mark.parametrize("content", [None, b"", b"12", b"a b c"])
def test_what_cannot_be_read_is_zero_and_threads_are_counted_all_the_same(
    monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    def read(_: Path, *__: Any, **___: Any) -> bytes:
        if content is None:
            raise OSError("no /proc")
        return content

    monkeypatch.setattr(Path, "read_bytes", read)
    assert vitals() == Vitals(threading.active_count(), 0, 0)


def test_a_process_may_have_another_thread_until_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert may_have_another_thread()
    monkeypatch.setattr(threading.Thread, "start", raising(RuntimeError("can't start new thread")))
    assert not may_have_another_thread()


def test_the_thread_that_was_tried_has_ended_and_would_not_keep_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of its own, so that py-spy shows what it was."""
    tried: list[threading.Thread] = []
    start = threading.Thread.start

    def noting(thread: threading.Thread) -> None:
        tried.append(thread)
        start(thread)

    before = threading.active_count()
    monkeypatch.setattr(threading.Thread, "start", noting)
    assert may_have_another_thread()
    (thread,) = tried
    assert (thread.is_alive(), thread.daemon, thread.name) == (False, True, "may-start")
    assert threading.active_count() == before
