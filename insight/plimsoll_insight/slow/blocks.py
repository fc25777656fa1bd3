"""Blocks of whole lines of a log, and where in it a moment is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from plimsoll_insight.files.packed import COMPRESSED, opened
from plimsoll_insight.slow.events import LogClock, speaks_of_slow
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.wrapped import form_of, plain, uncoloured, unwrap

SMALL_BLOCK = 256 << 10
"""Of several files at once."""
LONGEST = 64 << 10
BEGIN = 64 << 10
_SAMPLES = 64
MARGIN = 60.0
"""Seconds: lines are almost in the order of time."""
LARGEST = 64 << 20
"""Of a file that is read as a whole."""


def first_time(path: Path, clock: LogClock) -> float | None:
    """None where no line has one, or the first one is not the first in time."""
    with opened(path) as stream:
        begin = stream.read(BEGIN)
    until = path.stat().st_mtime
    form = form_of(begin)
    if is_newest_first(path, begin, form, clock, until):
        return None
    for line in _lines(begin, form):
        time = time_of(line[:600], clock, until)
        if time is not None:
            return time
    return None


def is_newest_first(path: Path, begin: bytes, form: str, clock: LogClock, until: float) -> bool:
    """Of a file that begins so: as Grafana, Kibana, Loki, ``journalctl -r`` and ``tac`` write it. OSDs' lines come
    late to the cluster's log, so of some seconds of it the times rise and fall.
    """
    each = [*_lines(begin, form)]
    some = each[:: max(len(each) // _SAMPLES, 1)]
    times = [time for line in some if (time := time_of(line[:600], clock, until)) is not None]
    falls = sum(later < time for time, later in pairwise(times))
    rises = sum(later > time for time, later in pairwise(times))
    if 4 * rises <= falls:
        return falls > 0
    half = len(times) // 2
    if form != "lines" or sum(times[:half]) <= sum(times[-half:]):
        return False
    return ends_before(path, times[0] - MARGIN, clock, until)


def ends_before(path: Path, begin: float, clock: LogClock, until: float) -> bool:
    """Whether the last line of a file is of before ``begin``: rotated logs were joined, the newest first. False of
    one that is compressed.
    """
    with path.open("rb") as file:
        if file.read(4).startswith(COMPRESSED):
            return False
        file.seek(max(file.seek(0, 2) - BEGIN, 0))
        last = last_time(file.read(), clock, until)
    return last is not None and last < begin


def _lines(begin: bytes, form: str) -> Iterable[bytes]:
    each = begin.split(b"\n")
    return plain(each, form) if form != "lines" else each


def time_of(line: bytes, clock: LogClock, until: float) -> float | None:
    """Of a line of a file that was written ``until`` then; None where it has none."""
    entry = unwrap(uncoloured(line))
    before = clock.is_used, clock.is_guessed, clock.until
    clock.is_guessed, clock.until = False, until
    try:
        if entry.is_dated:
            return clock.time(entry.text)
        time = clock.around(entry.head or line)
        return None if clock.is_guessed else time
    except ValueError:
        return None
    finally:
        clock.is_used, clock.is_guessed, clock.until = before


def last_time(block: bytes, clock: LogClock, until: float) -> float | None:
    """Of the last lines that have one."""
    for line in reversed(block[-LONGEST:].rstrip().split(b"\n")[-20:]):
        time = time_of(line[:600], clock, until)
        if time is not None:
            return time
    return None


def blocks_of(
    stream: BinaryIO, reading: LogReading, progress: Callable[[int], None], size: int, form: str
) -> Iterator[bytes]:
    """Whole lines; of other forms, its entries as lines."""
    each = _whole(stream, reading, progress, size) if form != "array" else _document(stream, reading, progress)
    whole = (uncoloured(block.replace(b"\r\n", b"\n") if b"\r" in block else block) for block in each)
    if form != "lines":
        parts: list[bytes] = []
        for line in plain((line for block in whole for line in block.splitlines(keepends=True)), form):
            parts.append(line if line.endswith(b"\n") else line + b"\n")
            if len(parts) >= 1000:
                yield b"".join(parts)
                parts = []
        yield b"".join(parts)
        return
    yield from whole


def _document(stream: BinaryIO, reading: LogReading, progress: Callable[[int], None]) -> Iterator[bytes]:
    """A file that is one document, perhaps in one line."""
    text = stream.read(LARGEST)
    reading.bytes += len(text)
    progress(reading.bytes)
    if stream.read(1):
        reading.miss(f"JSON longer than {LARGEST >> 20} MiB")
    yield text


def _whole(stream: BinaryIO, reading: LogReading, progress: Callable[[int], None], size: int) -> Iterator[bytes]:
    rest, is_cut = b"", False
    while block := stream.read(size):
        reading.bytes += len(block)
        end = block.rfind(b"\n") + 1
        if end:
            begin = block.find(b"\n") + 1 if is_cut else 0
            if begin:
                _miss(block[:begin], reading)
            # In one step: a block is copied once.
            yield b"".join((rest, memoryview(block)[begin:end]))
            rest, is_cut = block[end:], False
        elif not is_cut:
            rest += block
        else:
            _miss(block, reading)
        if len(rest) > LONGEST:
            _miss(rest, reading)
            rest, is_cut = b"", True
        progress(reading.bytes)
    if rest and not is_cut:
        yield rest + b"\n"


def _miss(part: bytes, reading: LogReading) -> None:
    """A part of a line that is too long."""
    if speaks_of_slow(part):
        reading.miss(f"longer than {LONGEST >> 10} KiB: {part[:100].decode('utf-8', 'replace')}")


def place_of(path: Path, since: float, clock: LogClock, until: float) -> int:
    """Where in a file in the order of time that moment is; 0 of one that is compressed. By bisection."""
    with path.open("rb") as file:
        if file.read(4).startswith(COMPRESSED):
            return 0
        low, high = 0, file.seek(0, 2)
        while high - low > SMALL_BLOCK:
            middle = (low + high) // 2
            file.seek(middle)
            begin = file.read(BEGIN)
            times = (time_of(line[:600], clock, until) for line in begin.split(b"\n")[1:-1])
            time = next((each for each in times if each is not None), None)
            if time is None or time >= since:
                high = middle
            else:
                low = middle
        file.seek(low)
        return low + len(file.readline()) if low else 0
