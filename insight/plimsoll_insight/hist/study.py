"""Logs studied together: the clock that fits them, then interval by interval, for each group and for all."""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from statistics import median

from plimsoll_agent.errors import UsageError
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.hist.flows import FlowWindows, LogExtent
from plimsoll_insight.hist.percentiles import ALL as TOGETHER
from plimsoll_insight.hist.percentiles import WAITED, PercentileInterval, bucket_from, intervals
from plimsoll_insight.hist.records import DIRECTIONS, LATEST_MS
from plimsoll_insight.hist.scale import Scale, common
from plimsoll_insight.hist.timeline import Clock, Timeline

ALL = None
"""Whose rows those of all parts together are: no name, as a guest may have any."""
MOST_INTERVALS = 100_000
MOST_ROWS = 500_000
_FEW, _MOST = 0.05, 0.5
"""Of what is usual in a study: completions of an interval that is nearly stalled, and requests that wait in it."""
_NAMES = (*DIRECTIONS, TOGETHER)
_USUAL_INTERVALS = 60
_NICE_MS = tuple(
    each * 1000 for each in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
)


@frozen(kw_only=True)
class StudyPart:
    """One log, or one run of a probe: whose it is, and how its requests are read."""

    name: str
    guest: str
    group: str
    extent: LogExtent
    offset_ms: int
    flows: Callable[[float, float, float], Iterator[FlowWindows]]
    """As ``Log.flows``."""

    @property
    def begin_ms(self) -> int:
        return self.offset_ms + self.extent.begin_ms

    @property
    def end_ms(self) -> int:
        return self.offset_ms + self.extent.last_ms


@frozen
class IntervalRow:
    """One line of the result: ``whose`` is a guest, group or log, or ``ALL``."""

    whose: str | None
    interval: PercentileInterval


class Rows:
    """Rows by whose they are, those of all last. Each is kept as numbers: so it takes a tenth of the memory."""

    def __init__(self, clock: Clock, scale: Scale, percentiles: int) -> None:
        self._width, self._edges = clock.width_ms, scale.edges()
        self._size = 6 + percentiles
        self._numbers: dict[str | None, array[float]] = {ALL: array("d")}

    def add(self, whose: str | None, more: Iterable[PercentileInterval]) -> None:
        mine = self._numbers.setdefault(whose, array("d"))
        for each in more:
            latencies = (each.slowest, *each.percentiles)
            mine.extend((each.begin_ms, _NAMES.index(each.direction), each.completed, each.saturated, each.waiting))
            mine.extend(-1.0 if latency is None else latency.lower for latency in latencies)

    def __iter__(self) -> Iterator[IntervalRow]:
        for whose in (*(each for each in self._numbers if each is not ALL), ALL):
            numbers = self._numbers[whose]
            for place in range(0, len(numbers), self._size):
                begin, direction, completions, overflow, waiting, *lowers = numbers[place : place + self._size]
                slowest, *percentiles = (bucket_from(lower, self._edges) for lower in lowers)
                name, end = _NAMES[int(direction)], begin + self._width
                yield IntervalRow(
                    whose,
                    PercentileInterval(
                        begin_ms=begin,
                        end_ms=end,
                        direction=name,
                        completed=completions,
                        percentiles=tuple(percentiles),
                        slowest=slowest,
                        saturated=overflow,
                        waiting=waiting,
                    ),
                )


@dataclass(frozen=True)
class Study:
    """What is asked of these parts."""

    parts: Sequence[StudyPart]
    clock: Clock
    scale: Scale
    fractions: Sequence[Fraction]
    progress: Callable[[int, int], None]
    """Told how many logs of how many are read."""

    @property
    def is_of_epoch(self) -> bool:
        return self.parts[0].extent.is_of_epoch

    def spans(self, key: Callable[[StudyPart], str] | None) -> dict[str | None, tuple[float, float]]:
        """When the logs of each that ``key`` names, and of all, begin and end, in ms."""
        spans: dict[str | None, tuple[float, float]] = {}
        for part in self.parts:
            for whose in (ALL, *([key(part)] if key else [])):
                begin, end = spans.get(whose, (part.begin_ms, part.end_ms))
                spans[whose] = min(begin, part.begin_ms), max(end, part.end_ms)
        return spans

    def rows(
        self, key: Callable[[StudyPart], str] | None, watch: Callable[[Timeline, int], None] | None = None
    ) -> Rows:
        """Of each that ``key`` names and of all, in the order of time; without a key only of all. Each has the
        directions of its parts and, where the study has several, these together.

        ``watch`` is given the completions of all, part after part of the time, and how many intervals of each count.
        Raises ``UsageError`` where there would be too many.
        """
        parts = sorted(self.parts, key=key) if key else list(self.parts)
        self._refuse_many(1 + (len(set(map(key, parts))) if key else 0))
        rows = Rows(self.clock, self.scale, len(self.fractions))
        clocks = list(self.clock.parts(self.scale, len(_directions(self.parts))))
        for number, (clock, count) in enumerate(clocks):
            whole = Timeline(clock, self.scale)
            time = clock.begin_ms, clock.part(0, count).end_ms, clock.end_ms
            read = number * len(parts)
            for whose, members in groupby(parts, key=key or (lambda _: "")):
                mine = []
                timeline = Timeline(clock, self.scale) if key else whole
                for part in members:
                    mine.append(part)
                    if part.begin_ms < clock.end_ms and clock.begin_ms < part.end_ms:
                        for flow in part.flows(*time):
                            timeline.add(flow)
                    read += 1
                    self.progress(read, len(clocks) * len(parts))
                if key:
                    rows.add(whose, self._intervals(timeline, count, mine))
                    whole.merge(timeline)
            rows.add(ALL, self._intervals(whole, count, self.parts))
            if watch is not None:
                watch(whole, count)
        return rows

    def _intervals(self, timeline: Timeline, count: int, parts: Iterable[StudyPart]) -> Iterator[PercentileInterval]:
        together = len(_directions(self.parts)) > 1
        return intervals(timeline, count, self.fractions, _directions(parts), together=together)

    def _refuse_many(self, whose: int) -> None:
        directions = len(_directions(self.parts))
        if self.clock.is_too_fine(self.scale, directions):
            raise UsageError(
                f"--interval: {self.clock.width_ms:g} ms takes too much memory with logs this fine; give a longer one"
            )
        number = self.clock.number * whose * (directions + (directions > 1))
        if number > MOST_ROWS:
            raise UsageError(
                f"--interval: {number} rows are too many, at most {MOST_ROWS}; give a longer one"
                + (", or read fewer logs at once" if whose > 1 else "")
            )


class Whole:
    """All requests of a study, whenever they completed: its ``add`` is a ``watch`` of ``Study.rows``."""

    def __init__(self, of: Study) -> None:
        self._study = of
        self._line = Timeline(Clock(of.clock.begin_ms, of.clock.number * of.clock.width_ms, 1), of.scale)

    def add(self, part: Timeline, count: int) -> None:
        self._line.done[:, 0] += part.done[:, :count].sum(axis=1)

    def intervals(self) -> list[PercentileInterval]:
        """One for each direction, and where there are several, one for all; how many waited is not in it."""
        present = _directions(self._study.parts)
        return list(intervals(self._line, 1, self._study.fractions, present, together=len(present) > 1))


def _directions(parts: Iterable[StudyPart]) -> list[int]:
    return sorted({direction for part in parts for direction in part.extent.directions})


def study(
    parts: Sequence[StudyPart],
    width_ms: int | None,
    fractions: Sequence[Fraction],
    progress: Callable[[int, int], None],
) -> Study:
    """Intervals that begin with the first log. Raises ``UsageError`` where the logs do not go together."""
    of_epoch = {part.extent.is_of_epoch for part in parts}
    if len(of_epoch) > 1:
        one, other = (next(part.name for part in parts if part.extent.is_of_epoch is each) for each in (True, False))
        raise UsageError(
            f"{one} has times of the Unix epoch, and {other} has times since its start: they have no clock in common;"
            " give them one after the other"
        )
    if any(part.end_ms > LATEST_MS for part in parts):
        raise UsageError("--offset: it moves times beyond the year 5000")
    begin, end = min(part.begin_ms for part in parts), max(part.end_ms for part in parts)
    width = width_ms or _usual(end - begin, max(part.extent.interval_ms for part in parts))
    of_machine = {part.extent.is_of_machine: part.name for part in parts}
    if len(of_machine) > 1:
        one, other = of_machine[True], of_machine[False]
        raise UsageError(
            f"{one} has times since its machine's start, and {other} has times since its own: they have no clock in"
            " common; give them one after the other"
        )
    if of_epoch == {True}:
        begin -= begin % width
    number = max(-(-(end - begin) // width), 1)
    if number > MOST_INTERVALS:
        raise UsageError(f"--interval: {number} intervals are too many, at most {MOST_INTERVALS}; give a longer one")
    scales: set[Scale] = {scale for part in parts for scale in part.extent.scales}
    return Study(parts, Clock(begin, width, number), common(scales), fractions, progress)


def _usual(span_ms: int, log_interval_ms: int) -> int:
    least = max(span_ms / _USUAL_INTERVALS, 0.9 * log_interval_ms)
    return next((each for each in _NICE_MS if each >= least), _NICE_MS[-1])


def seconds_of(interval: PercentileInterval, span: tuple[float, float]) -> float:
    """How much of it lies between the begin and the end of the logs: the first and the last may be shorter."""
    inside = min(interval.end_ms, span[1]) - max(interval.begin_ms, span[0])
    return (inside if inside > 0 else interval.end_ms - interval.begin_ms) / 1000


@frozen
class Usual:
    """What an interval of a direction has in a study: the median of completions, where there were any, and the most
    requests that waited."""

    completed: float
    waiting: float

    def is_nearly_stalled(self, interval: PercentileInterval) -> bool:
        """Most of what ever waited did, and next to nothing completed: a stall that ends within the interval."""
        few, most = _FEW * self.completed, _MOST * self.waiting
        return 0 < interval.completed <= few and interval.waiting >= max(most, WAITED)


def usual_of(rows: Iterable[IntervalRow]) -> Mapping[tuple[str | None, str], Usual]:
    """By whose the rows are, and their direction."""
    completions: dict[tuple[str | None, str], list[float]] = defaultdict(list)
    waiting: dict[tuple[str | None, str], float] = defaultdict(float)
    for row in rows:
        key = row.whose, row.interval.direction
        waiting[key] = max(waiting[key], row.interval.waiting)
        if row.interval.completed:
            completions[key].append(row.interval.completed)
    return {key: Usual(median(each), waiting[key]) for key, each in completions.items()}


def stalls(rows: Iterable[IntervalRow]) -> list[list[PercentileInterval]]:
    """Of all requests together: consecutive intervals that are stalled, or nearly so. The rows are read twice."""
    usual = usual_of(rows)

    def belongs(interval: PercentileInterval) -> bool:
        its = usual.get((ALL, interval.direction))
        return interval.is_stalled or (its is not None and its.is_nearly_stalled(interval))

    groups = groupby((row.interval for row in rows if row.whose == ALL), key=lambda each: each.begin_ms)
    together = (deque(directions, maxlen=1)[0] for _, directions in groups)
    return [list(run) for is_stall, run in groupby(together, key=belongs) if is_stall]
