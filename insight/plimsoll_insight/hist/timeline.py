"""Completions by interval and bucket, and how many requests were waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from plimsoll_insight.hist.flows import FlowWindows
from plimsoll_insight.hist.records import DIRECTIONS, Ints
from plimsoll_insight.hist.scale import Floats, Scale, places

CELLS = 4_000_000
"""Of the table of one part: 32 MB. Tables of directions without requests are never touched, and take no memory."""
_LONGEST_MS = 17_180
"""A latency that fio's last bucket stands for."""
_BACKS = 64
"""Intervals that one product of matrices looks back."""


@dataclass(frozen=True)
class Clock:
    """The intervals: ``number`` of them, each of ``width_ms``, from ``begin_ms`` on."""

    begin_ms: float
    width_ms: float
    number: int

    def part(self, first: int, number: int) -> Clock:
        return Clock(self.begin_ms + first * self.width_ms, self.width_ms, number)

    @property
    def end_ms(self) -> float:
        return self.begin_ms + self.number * self.width_ms

    def parts(self, scale: Scale, directions: int) -> Iterator[tuple[Clock, int]]:
        """Clocks whose tables fit into memory, and how many intervals of each are there besides its tail.

        The tail is there since a request that completes later may have been waiting already.
        """
        tail = self._tail()
        most = max(CELLS // (scale.columns * max(directions, 1)) - tail, tail)
        for first in range(0, self.number, most):
            count = min(most, self.number - first)
            yield self.part(first, min(count + tail, self.number - first)), count

    def _tail(self) -> int:
        return int(_LONGEST_MS // self.width_ms) + 2

    def is_too_fine(self, scale: Scale, directions: int) -> bool:
        """Whether a part, which is at least as long as its tail, would take more than 128 MB."""
        return min(2 * self._tail(), self.number) * scale.columns * directions > 4 * CELLS


class Timeline:
    """``done[direction, interval, column]``: requests that completed. A window is divided among intervals by time."""

    def __init__(self, clock: Clock, scale: Scale) -> None:
        self.clock, self.scale = clock, scale
        self.done = np.zeros((len(DIRECTIONS), clock.number, scale.columns))
        self._held = np.zeros((len(DIRECTIONS), clock.number))
        """What requests waited besides the time that their buckets stand for."""
        self._added: set[int] = set()

    def add(self, flow: FlowWindows) -> None:
        self._added.add(flow.direction)
        column = places(flow.scale, self.scale)[flow.column]
        begin, end = ((each - self.clock.begin_ms) / self.clock.width_ms for each in (flow.begin_ms, flow.end_ms))
        # A time on the border of two intervals belongs to the first: rows tell of what was before.
        last = (np.ceil(end) - 1).astype(np.int64)
        first = np.minimum(np.floor(begin).astype(np.int64), last)
        length = end - begin
        flat = self.done[flow.direction].reshape(-1)
        for step in range(int((last - first).max(initial=-1)) + 1):
            interval = first + step
            inside = np.minimum(end, interval + 1) - np.maximum(begin, interval)
            share = np.where(length > 0, inside / np.where(length > 0, length, 1), interval == last)
            share[(interval > last) | (interval < 0) | (interval >= self.clock.number)] = 0
            weight = share[flow.window]
            has_weight = weight > 0
            if has_weight.any():
                place = interval[flow.window[has_weight]] * self.scale.columns + column[has_weight]
                np.add.at(flat, place, flow.count[has_weight] * weight[has_weight])
        if flow.since_ms is not None:
            since = (flow.since_ms - self.clock.begin_ms) / self.clock.width_ms
            self._hold(flow.direction, since[flow.window], end[flow.window], last[flow.window], column, flow.count)

    def _hold(self, direction: int, since: Floats, until: Floats, interval: Ints, column: Ints, count: Ints) -> None:
        """These waited from ``since`` to ``until``, not as long as their columns say."""
        number = self.clock.number
        changes = np.zeros(number + 2)
        for moment, weight in ((since, count), (until, -count)):
            inside = np.clip(moment, 0, number)
            place = np.floor(inside).astype(np.int64)
            np.add.at(changes, place, weight * (place + 1 - inside))
            np.add.at(changes, place + 1, weight * (inside - place))
        self._held[direction] += np.cumsum(changes)[:number]
        here = (interval >= 0) & (interval < number)
        latency = self._latency()[column[here]]
        for back in range(int(latency.max(initial=-1)) + 2):
            share = count[here] * (_before(1.0 - back, latency) - _before(-float(back), latency))
            place = interval[here] - back
            np.add.at(self._held[direction], place[place >= 0], -share[place >= 0])

    def merge(self, other: Timeline) -> None:
        """Adds the requests of another, of the same clock and scale."""
        for direction in other._added:
            self.done[direction] += other.done[direction]
        self._held += other._held

    def _latency(self) -> Floats:
        """Of each column, in intervals."""
        return self.scale.midpoints() / 1e6 / self.clock.width_ms

    def waiting(self, direction: int) -> Floats:
        """The mean number of requests that were waiting in each interval.

        A request with latency L that completes at c waited over [c - L, c]; c is anywhere in its interval, and L the
        middle of its bucket. In units of the interval, the time that it waited before x after the beginning of the
        interval of c is, on average, Q(x + L) - Q(x + L - 1) - Q(x) + Q(x - 1), where Q(u) = max(u, 0)² / 2.
        """
        number = self.clock.number
        latency = self._latency()
        reach = min(int(latency[-1]) + 2, number)
        requests = np.zeros(number)
        for first in range(0, reach, _BACKS):
            backs = np.arange(first, min(first + _BACKS, reach))
            before = _before(1.0 - np.append(backs, backs[-1] + 1)[:, None], latency)
            shares = self.done[direction] @ (before[:-1] - before[1:]).T
            for back in backs:
                requests[: number - back] += shares[back:, back - first]
        requests += self._held[direction]
        return requests.clip(0)


def _before(moment: float | Floats, latency: Floats) -> Floats:
    def half_square(value: Floats) -> Floats:
        return np.maximum(value, 0) ** 2 / 2

    constant = half_square(np.array(moment - 1)) - half_square(np.array(moment))
    return half_square(moment + latency) - half_square(moment + latency - 1) + constant
