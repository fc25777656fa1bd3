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
from plimsoll_insight.slow.events import HEAD, Clock, event, lines

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

    @classmethod
    def nothing(cls, clock: Clock | None = None, width: float = MINUTE) -> Read:
        """``width``: of an interval, in seconds."""
        return cls(Counts(width), Counts(width), Counts(width), clock or Clock())


def read(paths: Sequence[Path], progress: Callable[[int], None], found: Read) -> Read:
    """All files, the oldest first, as counts need the order of time. Raises ``UnreadableLog``."""
    for path in sorted(paths, key=lambda path: _first_time(path, found.clock)):
        _file(path, found, progress)
    return found


def _first_time(path: Path, clock: Clock) -> float:
    with opened(path) as stream:
        begin = stream.read(65536)
    plain = (HEAD.sub(b"", line[:400], count=1) for line in begin.split(b"\n"))
    for line in plain:
        with suppress(ValueError):
            return clock.time(line)
    return 0.0


def _file(path: Path, found: Read, progress: Callable[[int], None]) -> None:
    named = OF_OSD.search(path.name)
    osd = int(named[1]) if named else None
    rest, is_cut = b"", False
    with opened(path) as stream:
        while block := stream.read(_BLOCK):
            found.bytes += len(block)
            whole, newline, rest = (rest + block).rpartition(b"\n")
            if is_cut and newline:
                _, _, whole = whole.partition(b"\n")
                is_cut = False
            if len(rest) > _LONGEST:
                rest, is_cut = b"", True
            _lines(whole + newline, osd, found)
            progress(found.bytes)
    if rest and not is_cut:
        _lines(rest + b"\n", osd, found)


def _lines(block: bytes, osd: int | None, found: Read) -> None:
    for line in lines(block):
        said = event(line[:_LONGEST], osd, found.clock)
        if said is None:
            found.missed += 1
            if len(found.examples) < _SHOWN:
                found.examples.append(printable(line[:200].decode("utf-8", "replace")))
        else:
            is_own = b"log_channel(" in line or b" get_health_metrics " in line
            (found.own if is_own else found.cluster).add(said)
