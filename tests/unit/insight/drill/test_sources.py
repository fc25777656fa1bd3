"""Sources beside each other: what hangs, and what fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from plimsoll_agent.errors import DeadlineExceeded
from plimsoll_insight.drill.recording import Recording, RecordingError, RecordingWriter, read, status_line
from plimsoll_insight.drill.sources import Line, Source, Sources
from tests.unit.insight.drill.recorded import status

PATIENCE = 10.0


def run(path: Path, until: Callable[[], bool], **each: Source) -> tuple[Sources, Recording]:
    writer = RecordingWriter.begin(path, time.time(), "node-1", 0.01)
    sources = Sources(writer, each, 0.01, time.time)
    sources.start()
    end = time.monotonic() + PATIENCE
    while not until() and time.monotonic() < end:
        time.sleep(0.01)
    sources.stop()
    return sources, read(path)


def counting(seen: list[int]) -> Source:
    def ask() -> Iterator[Line]:
        seen.append(1)
        yield time.time(), status_line(status())

    return ask


def test_one_that_hangs_stops_no_other_and_is_no_answer(tmp_path: Path) -> None:
    over, seen = Event(), list[int]()

    def hangs() -> Iterator[Line]:
        over.wait(PATIENCE)
        yield time.time(), {"mark": "late", "by": "it"}

    sources, recording = run(tmp_path / "drill", lambda: len(seen) > 5, hangs=hangs, works=counting(seen))
    assert len(recording.statuses) > 3
    assert sources.silent == {"hangs": "has not answered yet"}
    assert sources.answered == {"works"}
    over.set()
    assert recording.marks == []


@pytest.mark.parametrize("error", [DeadlineExceeded("no answer from Ceph within 5 s"), KeyError("surprise")])
def test_one_that_fails_is_a_gap_and_is_asked_again(tmp_path: Path, error: Exception) -> None:
    asked = list[int]()

    def fails_twice() -> Iterator[Line]:
        asked.append(1)
        if len(asked) <= 2:
            raise error
        yield time.time(), status_line(status())

    sources, recording = run(tmp_path / "drill", lambda: len(asked) > 4, ceph=fails_twice)
    assert [gap.source for gap in recording.gaps] == ["ceph", "ceph"]
    assert all(gap.since <= gap.until and str(error) in gap.why for gap in recording.gaps)
    assert recording.statuses
    assert sources.silent == {}


def test_a_file_that_cannot_be_written_ends_it(tmp_path: Path) -> None:
    class Full(RecordingWriter):
        def write(self, time: float, line: object) -> None:
            raise RecordingError("No space left on device")

    seen = list[int]()
    sources = Sources(Full(-1, tmp_path / "drill"), {"works": counting(seen)}, 0.01, time.time)
    sources.start()
    end = time.monotonic() + PATIENCE
    while sources.failure is None and time.monotonic() < end:
        time.sleep(0.01)
    assert str(sources.failure) == "No space left on device"
