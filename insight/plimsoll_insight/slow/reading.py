"""Logs in the order of time, in one pass each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from plimsoll_agent.util.text import printable
from plimsoll_insight.files.packed import opened
from plimsoll_insight.slow.counts import MINUTE, Counts
from plimsoll_insight.slow.events import HEAD, REPEATED, Clock, event, lines

_BLOCK = 4 << 20
_LONGEST = 64 << 10
OF_OSD = re.compile(r"osd[.-]?(\d{1,5})(?!\d)")
_SHOWN = 5


@dataclass
class Read:
    """What was read: of the cluster's logs, of OSDs' own, and of what OSDs remember."""

    cluster: Counts
    own: Counts
    dumped: Counts
    clock: Clock
    bytes: int = 0
    missed: int = 0
    """Lines about slow requests that are not understood,"""
    examples: list[str] = field(default_factory=list)
    """and the first few of them."""
    foreign: list[str] = field(default_factory=list)
    """Files in which nothing looks like a line of Ceph's logs,"""
    empty: list[str] = field(default_factory=list)
    """and those without a byte."""

    @classmethod
    def nothing(cls, clock: Clock | None = None, width: float = MINUTE) -> Read:
        """``width``: of an interval, in seconds."""
        return cls(Counts(width), Counts(width), Counts(width), clock or Clock())


def read(paths: Sequence[Path], progress: Callable[[int], None], found: Read) -> Read:
    """All files, the oldest first, as counts need the order of time. Raises ``UnreadableLog``."""
    begins = {path: _first_time(path, found.clock) for path in paths}
    for path in sorted(paths, key=lambda path: begins[path] or 0.0):
        before = found.bytes
        if not _file(path, found, progress) and begins[path] is None:
            (found.empty if found.bytes == before else found.foreign).append(printable(str(path)))
    return found


def _first_time(path: Path, clock: Clock) -> float | None:
    with opened(path) as stream:
        begin = stream.read(65536)
    for line in begin.split(b"\n"):
        plain = REPEATED.sub(b"", HEAD.sub(b"", line[:400], count=1), count=1)
        with suppress(ValueError):
            return clock.time(plain)
    return None


def _file(path: Path, found: Read, progress: Callable[[int], None]) -> int:
    """How many lines of it were of interest."""
    named = OF_OSD.search(path.name)
    osd = int(named[1]) if named else None
    rest, is_cut, of_interest = b"", False, 0
    with opened(path) as stream:
        while block := stream.read(_BLOCK):
            found.bytes += len(block)
            whole, newline, rest = (rest + block).rpartition(b"\n")
            if is_cut and newline:
                _, _, whole = whole.partition(b"\n")
                is_cut = False
            if len(rest) > _LONGEST:
                rest, is_cut = b"", True
            of_interest += _lines(whole + newline, osd, found)
            progress(found.bytes)
    if rest and not is_cut:
        of_interest += _lines(rest + b"\n", osd, found)
    return of_interest


def _lines(block: bytes, osd: int | None, found: Read) -> int:
    number = 0
    for number, line in enumerate(lines(block), 1):  # noqa: B007  # the last one is their number
        said = event(line[:_LONGEST], osd, found.clock)
        if said is None:
            found.missed += 1
            if len(found.examples) < _SHOWN:
                found.examples.append(printable(line[:200].decode("utf-8", "replace")))
        else:
            is_own = b"log_channel(" in line or b" get_health_metrics " in line
            (found.own if is_own else found.cluster).add(said)
    return number
