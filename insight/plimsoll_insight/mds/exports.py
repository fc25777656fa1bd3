"""Exports of directories in an MDS's log, from Jewel to Tentacle.

Up to Nautilus each is a line of level 0: ``mds.0.migrator nicely exporting to mds.1 [dir 1000 /home/ [2,head] …``.
Since Octopus that one is of level 7 and of ``mds.0.mig``, and ``export_dir Starting export to mds.1`` of level 4:
a log of the usual levels has neither. Both are by ``debug_mds``; ``debug_mds_migrator`` has no effect on them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import BinaryIO

from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_insight.mds.answers import Directory, directory
from plimsoll_insight.mds.moves import DirectoryMove
from plimsoll_insight.slow.events import LogClock
from plimsoll_insight.slow.wrapped import unwrap

_EXPORT = re.compile(
    rb"mds\.(\d{1,5})\.mig\S* (?:\S{1,40} )?(?:nicely exporting|Starting export) to mds\.(\d{1,5}) "
    rb"\[dir (?:0x)?([0-9a-f]{1,16}(?:\.[01]{1,32}\*?)?) (/.*?) \[\S{1,40},head\] "
)
_OF_MIGRATOR = re.compile(rb"mds\.\d{1,5}\.mig")
_OF_RANK = re.compile(rb"(?<=[\d:]) mds\.(\d{1,5})\.(?:mig|cache|bal|log|server|locker|\d+ )")
_OF_MDS = re.compile(rb"\bmds\.")
_BEFORE_OCTOPUS = re.compile(rb"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [0-9a-f]+ +-?\d+ ")
_BLOCK, _LONGEST = 1 << 22, 1 << 16
_SAME = 1.0
"""Seconds within which two lines are of one export: it has one of each kind, and a crash repeats both."""
_APART = 60.0
"""Seconds without a line in which a daemon that has little to do is still the same rank."""


@frozen
class RankSpan:
    """From when to when a daemon wrote lines as this rank, in seconds since the epoch."""

    rank: int
    begin: float
    end: float


@frozen(kw_only=True)
class LogExports:
    """What a log has. ``tells``: that it would have others too, since it has lines of the migrator or is of a release
    that always writes them. ``last`` is of the rank that its daemon was last, without those that it was before.
    """

    moves: tuple[DirectoryMove, ...]
    is_of_mds: bool
    tells: bool
    last: RankSpan | None = None


def side_by_side(spans: Collection[RankSpan]) -> frozenset[int]:
    """The ranks that have a log of a time of which another one has one, too."""
    return frozenset(
        one.rank
        for one in spans
        for other in spans
        if one.rank != other.rank and max(one.begin, other.begin) - min(one.end, other.end) <= _APART
    )


def read(stream: BinaryIO, clock: LogClock) -> LogExports:
    moves: list[DirectoryMove] = []
    last: dict[tuple[int, int, Directory], float] = {}
    span: RankSpan | None = None
    is_of_mds = tells = False
    for block in _whole_lines(stream):
        is_of_mds = is_of_mds or _OF_MDS.search(block) is not None
        tells = tells or bool(_OF_MIGRATOR.search(block) or _BEFORE_OCTOPUS.search(block))
        span = _last_span(block, span, clock)
        for move in _exports(block, clock):
            key = move.source, move.target, move.directory
            if move.time - last.get(key, float("-inf")) > _SAME:
                moves.append(move)
                last[key] = move.time
    return LogExports(moves=tuple(moves), is_of_mds=is_of_mds, tells=tells, last=span)


def _last_span(block: bytes, span: RankSpan | None, clock: LogClock) -> RankSpan | None:
    """``span`` is of the blocks before."""
    places = [(int(match[1]), match.start()) for match in _OF_RANK.finditer(block)]
    if not places:
        return span
    rank, place = places[-1]
    earlier = next((number for number in range(len(places) - 1, -1, -1) if places[number][0] != rank), None)
    end = _time(block, place, clock)
    if earlier is None and span is not None and span.rank == rank:
        return replace(span, end=span.end if end is None else end)
    begin = _time(block, places[0 if earlier is None else earlier + 1][1], clock)
    return None if begin is None or end is None else RankSpan(rank, begin, end)


def _time(block: bytes, place: int, clock: LogClock) -> float | None:
    """Of the line at this place."""
    entry = unwrap(block[block.rfind(b"\n", 0, place) + 1 :][:_LONGEST].partition(b"\n")[0])
    try:
        return clock.time(entry.text) if entry.is_dated else clock.around(entry.head)
    except ValueError:
        return None


def _exports(block: bytes, clock: LogClock) -> Iterator[DirectoryMove]:
    for match in _EXPORT.finditer(block):
        time = _time(block, match.start(), clock)
        if time is None:
            continue
        source, target, dirfrag, path = match.groups()
        at = directory(path.decode("utf-8", "replace"), f"0x{dirfrag.decode()}")
        yield DirectoryMove(time=time, directory=at, source=int(source), target=int(target))


def _whole_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Blocks that end with a line; what is longer than any line of Ceph's is cut."""
    rest = b""
    while block := stream.read(_BLOCK):
        end = block.rfind(b"\n") + 1
        yield rest + block[:end]
        rest = (block[end:] if end else rest + block)[-_LONGEST:]
    yield rest
