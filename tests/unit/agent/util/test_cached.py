"""What was read from a file is read again if, and only if, the file is another one."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plimsoll_agent.util import files
from plimsoll_agent.util.cached import Cached


class Reader:
    """Reads a file through the cache, and counts how often it was really read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cached: Cached[str] = Cached()
        self.read = 0

    def get(self, *also: object) -> str:
        def read() -> str:
            self.read += 1
            return self.path.read_text(encoding="utf-8")

        return self.cached.get(self.path, read, *also)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    path = tmp_path / "x"
    files.write_whole(path, "old")
    os.utime(path, (1, 1))
    return Reader(path)


def test_a_file_that_is_the_same_is_read_once(reader: Reader) -> None:
    assert [reader.get(), reader.get(), reader.read] == ["old", "old", 1]
    assert [reader.get("another boot"), reader.read] == ["old", 2]


def test_a_file_that_was_replaced_by_one_of_the_same_length_is_read_again(reader: Reader) -> None:
    for number in range(50):
        files.write_whole(reader.path, f"{number:03}", durable=False)
        assert reader.get() == f"{number:03}"


def test_no_two_writes_have_the_same_stamp(reader: Reader) -> None:
    stamps = [files.write_whole(reader.path, f"{number:03}", durable=False) for number in range(50)]
    assert len({stamp.changed for stamp in stamps}) == 50
    assert files.stamp_of(reader.path) == stamps[-1]


def test_a_file_that_another_program_changed_just_now_is_not_trusted(reader: Reader) -> None:
    """Its next write may have the same time, length and inode."""
    reader.path.write_text("new", encoding="utf-8")
    assert [reader.get(), reader.get(), reader.read] == ["new", "new", 2]


def test_what_was_written_by_this_process_is_known(reader: Reader) -> None:
    reader.cached.put(reader.path, files.write_whole(reader.path, "new"), "new")
    assert [reader.get(), reader.read] == ["new", 0]


def test_a_file_that_is_gone_is_not_remembered(reader: Reader) -> None:
    reader.get()
    reader.path.unlink()
    with pytest.raises(FileNotFoundError):
        reader.get()


def test_it_keeps_a_few_values_only(tmp_path: Path) -> None:
    cached: Cached[int] = Cached()
    for number in range(100):
        cached.put(tmp_path / str(number), files.Stamp(1, 1, number), number)
    assert len(cached._known) <= 16


def test_threads_that_ask_at_once_share_one_value(reader: Reader) -> None:
    together = threading.Barrier(4)

    def get() -> str:
        together.wait()
        return reader.get()

    with ThreadPoolExecutor(4) as threads:
        values = [each.result() for each in [threads.submit(get) for _ in range(4)]]
    assert len({id(value) for value in values}) == 1
    assert reader.read == 1
