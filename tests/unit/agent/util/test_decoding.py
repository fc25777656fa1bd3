"""JSON that plimsoll wrote, and what somebody made of it."""

from __future__ import annotations

import json
import threading
import weakref
from datetime import UTC, datetime
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.decoding import count, flag, load, mapping, maybe, number, several, text, time


class Broken(PlimsollError):
    """A file cannot be read."""


class Corrupt(Broken):
    """It is something else."""


class TooLarge(Broken):
    """It has too many bytes."""


def loaded(path: Path, most: int = 100) -> int | None:
    return load(path, most, lambda value: count(value["a"]), Broken, corrupt=Corrupt, too_large=TooLarge)


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (text, ["", "a"], [None, 1, ["a"]]),
        (flag, [True, False], [None, 0, 1, "true"]),
        (count, [0, 2**63], [None, True, -1, 1.0, "1"]),
        (lambda value: count(value, below=10), [0, 9], [-1, 10, 10**9]),
        (number, [0, 1.5], [None, True, -0.5, nan, inf, "1"]),
        (lambda value: list(several(count, value)), [[], [1, 2]], [None, {}, "12", [1, "a"]]),
        (lambda value: mapping(count, value), [{}, {"a": 1}], [None, [], "a", {"a": None}]),
        (lambda value: maybe(count, value), [None, 1], ["a", False]),
    ],
)
def test_a_getter_takes_what_it_names_and_nothing_else(read: Any, good: list[Any], bad: list[Any]) -> None:
    assert [read(value) for value in good] == good
    for value in bad:
        with pytest.raises(ValueError, match="is n"):
            read(value)


def test_a_time_is_in_utc_and_says_its_zone() -> None:
    moment = datetime(2026, 11, 20, 11, tzinfo=UTC)
    assert time("2026-11-20T12:00:00+01:00") == moment
    assert time("2026-11-20T12:00:00+01:00").tzinfo is UTC
    for wrong in ("2026-11-20T12:00:00", "yesterday", 0):
        with pytest.raises(ValueError, match=r"2026|yesterday|not text"):
            time(wrong)


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert loaded(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b'{"a": "b"}', Corrupt, r"is corrupt: ValueError: 'b' is not a whole number from 0 on"),
        (b'{"b": 1}', Corrupt, r"is corrupt: KeyError: 'a'"),
        (b"", Corrupt, r"is corrupt: JSONDecodeError"),
        (b'{"a": 7}{"a": 7}', Corrupt, r"is corrupt: JSONDecodeError"),
        (b"[1]", Corrupt, r"is corrupt: TypeError"),
        (b"\xff", Corrupt, r"is corrupt: UnicodeDecodeError"),
        (b'{"a": "' + b"b" * 1000 + b'"}', Corrupt, r"is corrupt: ValueError"),
        (b"[" * 100_000, Corrupt, r"is corrupt: RecursionError"),
        (b" " * 200_001, TooLarge, r"is larger than 200000 bytes"),
    ],
)
def test_what_plimsoll_did_not_write_is_told_in_one_line(
    tmp_path: Path, content: bytes, error: type[Broken], words: str
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(error, match=words) as raised:
        loaded(path, 200_000)
    assert str(raised.value).startswith(f"{path}: ")
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < len(str(path)) + 250


def test_what_is_no_file_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Broken, match="cannot be read: Is a directory") as raised:
        loaded(tmp_path)
    assert type(raised.value) is Broken


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"a": 7}))
    assert loaded(tmp_path / "a.json") == 7


class Decoded(dict[str, object]):
    """A weak reference to a plain dictionary is not possible."""


def test_an_error_keeps_nothing_of_what_was_decoded(tmp_path: Path) -> None:
    path, seen = tmp_path / "x", list[weakref.ref[Decoded]]()
    path.write_text("{}")

    def read(value: dict[str, object]) -> None:
        decoded = Decoded(value)
        seen.append(weakref.ref(decoded))
        raise ValueError("no")

    with pytest.raises(Corrupt, match=r"x: is corrupt: ValueError: no$") as raised:
        load(path, 100, read, Broken, corrupt=Corrupt)
    assert [each() for each in seen] == [None]
    assert raised.value.__cause__ is None


def test_one_thread_decodes_at_a_time(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "x", list[int](), list[int]()
    path.write_text("{}")
    together = threading.Barrier(4)

    def read(_: object) -> None:
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.02)  # the others could come in
        inside.pop()

    def reads() -> None:
        together.wait()
        load(path, 100, read, Broken)

    threads = [threading.Thread(target=reads) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4
