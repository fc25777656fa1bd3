"""Logs in the order of time, in one pass each."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll_insight.slow import blocks
from plimsoll_insight.slow.blocks import first_time
from plimsoll_insight.slow.log_file import pieces_of
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.owner import LogEvent

if TYPE_CHECKING:
    from plimsoll_insight.slow.columns import RequestColumns

_BLOCK = 1 << 20
_MOST_OPEN = 200
_AT_ONCE = 1 << 14
_MOST_PARTS = 1000
"""Into which lines of other files cut them: each has a kilobyte of its own."""


class _Counting:
    """Counts what files say, in its order; but for usual requests, which count many at once as far as no line between
    them changes how they do.
    """

    def __init__(self, reading: LogReading) -> None:
        self._reading = reading
        self._waiting: list[RequestColumns] = []
        self._number = 0

    def add(self, piece: LogEvent | RequestColumns) -> None:
        if isinstance(piece, LogEvent):
            if not piece.is_own:
                self.finish()
            self._reading.counts(is_own=piece.is_own).add(piece.event, is_repeated=piece.is_repeated)
            return
        self._waiting.append(piece)
        self._number += len(piece.times)
        if self._number >= _AT_ONCE or len(self._waiting) >= _MOST_PARTS:
            self.finish()

    def finish(self) -> None:
        if self._waiting:
            self._reading.cluster.add_all(self._waiting[0].together(self._waiting))
        self._waiting, self._number = [], 0


def read(paths: Sequence[Path], progress: Callable[[int], None], reading: LogReading) -> LogReading:
    """All files in the order of time, as counts need it: a line that two files have comes twice at once, and counts
    once. Raises ``UnreadableLog``.
    """
    begins = {path: first_time(path, reading.clock) for path in paths}
    waiting = sorted(paths, key=lambda path: begins[path] or 0.0, reverse=True)
    heap: list[tuple[float, int, LogEvent | RequestColumns, Iterator[LogEvent | RequestColumns]]] = []
    number = 0
    is_small = len(paths) > 1 or not reading.is_all_asked
    size = blocks.SMALL_BLOCK if is_small else _BLOCK

    def push(pieces: Iterator[LogEvent | RequestColumns], at: float, number: int) -> None:
        for each in pieces:
            time = each.event.time if isinstance(each, LogEvent) else float(each.times[0])
            heapq.heappush(heap, (time or at, number, each, pieces))
            return

    counting = _Counting(reading)
    while waiting or heap:
        while waiting and (not heap or ((begins[waiting[-1]] or 0.0) <= heap[0][0] and len(heap) < _MOST_OPEN)):
            path = waiting.pop()
            number += 1
            push(pieces_of(path, begins[path], reading, progress, size), 0.0, number)
        if not heap:
            continue
        at, which, piece, rest = heapq.heappop(heap)
        if isinstance(piece, LogEvent):
            counting.add(piece)
            push(rest, at, which)
            continue
        # Only those before whatever another file says.
        next_ = min(heap[0][0] if heap else inf, begins[waiting[-1]] or 0.0 if waiting else inf)
        now, later = piece.split(next_)
        counting.add(now)
        if later is None:
            push(rest, float(now.times[-1]), which)
        else:
            heapq.heappush(heap, (float(later.times[0]), which, later, rest))
    counting.finish()
    return reading
