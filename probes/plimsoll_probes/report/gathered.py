"""What a report shows, out of the runs of a span: how each guest stands, and latencies by volume type over time.

Runs that were discarded or failed prove nothing: they are counted apart, and no figure has a part of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import lru_cache
from statistics import median

from plimsoll_agent.limits import Limits
from plimsoll_probes.allowance import reach
from plimsoll_probes.finding import Verdict
from plimsoll_probes.histogram import Histogram, Quantile
from plimsoll_probes.job import Job, JobName
from plimsoll_probes.report.span import Span
from plimsoll_probes.result import ProbeResult

FRACTIONS = (0.5, 0.99, 0.999)
BROKEN = (Verdict.SHORT, Verdict.SLOW, Verdict.OVER_LIMIT)
"""The promise was not kept, this way or that."""
UNJUDGED = (Verdict.DISCARDED, Verdict.FAILED)
"""Nothing is proved."""


class Standing(Enum):
    """How a guest stands at the end of the span: by the newest run that proves something, of each directory and job.

    In the order of the page: who needs somebody first.
    """

    BROKEN = "it does not get what it is promised"
    OVER = "it gets more than it is promised"
    RECOVERED = "it did not get what it was promised, and does now"
    UNKNOWN = "no run of it proves anything"
    KEPT = "it gets what it is promised"
    UNLIMITED = "nothing limits it, so nothing is promised"


@dataclass(frozen=True, slots=True)
class Run:
    """One run in figures; ``result`` is without what was measured, of which there is too much to keep."""

    result: ProbeResult
    iops: float | None
    allowed: float | None
    """What its limits let pass in any case, in IOPS of that job; None where there are none or they are not known."""
    p99: Quantile | None

    @property
    def verdict(self) -> Verdict:
        return self.result.finding.verdict

    @property
    def share(self) -> float | None:
        """Of what its limits let pass."""
        return None if self.iops is None or not self.allowed else self.iops / self.allowed


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one column, taken together: histograms are merged exactly."""

    column: int
    latency: Histogram
    quantiles: tuple[Quantile | None, ...]
    """Of ``FRACTIONS``."""
    slowest: int
    """In nanoseconds, exact."""
    shares: tuple[float, float, float] | None
    """The least, the median and the greatest of the runs' shares; None where no limit holds them back."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What some runs came to over time; columns without a run are left out."""

    runs: int
    guests: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Guest:
    """A guest over the span. ``worst`` is the run to tell of: the newest of its kind."""

    uuid: str
    standing: Standing
    worst: Run
    others: tuple[JobName, ...]
    """More jobs that stand as badly."""
    judged: int
    broken: int
    unjudged: int
    p99: Quantile | None
    """Of all its requests in the span."""
    well_since: datetime | None
    """Of one that has recovered: when the first run began that was well again."""
    marks: tuple[tuple[int, Verdict], ...]
    """The worst verdict of each column that has a run, in rising order."""


@dataclass(frozen=True, slots=True)
class Column:
    """How many runs of a column were judged, and how many of them broke the promise."""

    number: int
    judged: int
    broken: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that the page shows of the runs. Guests come in the order of who needs somebody first."""

    span: Span
    nodes: tuple[str, ...]
    verdicts: Counter[Verdict]
    types: tuple[tuple[str | None, Curve], ...]
    """By volume type, those with the most runs first; None stands for a disk without one."""
    guests: tuple[Guest, ...]
    columns: tuple[Column, ...]
    unproved: tuple[Run, ...]
    """The newest run of each guest, directory and job, where it was discarded or failed; the newest first."""

    @property
    def runs(self) -> int:
        return sum(self.verdicts.values())

    @property
    def judged(self) -> int:
        return sum(number for verdict, number in self.verdicts.items() if verdict not in UNJUDGED)

    def standing(self, *standings: Standing) -> tuple[Guest, ...]:
        return tuple(guest for guest in self.guests if guest.standing in standings)


def gather(results: Iterable[ProbeResult], span: Span) -> Gathered:
    """``results`` come newest first and are let go of one by one: there may be more than fit in memory."""
    nodes: dict[str, None] = {}
    verdicts: Counter[Verdict] = Counter()
    types: dict[str | None, _Curve] = {}
    guests: dict[str, _Guest] = {}
    columns: dict[int, list[int]] = {}
    unproved: list[Run] = []
    for result in results:
        verdict, column = result.finding.verdict, span.column_of(result.started)
        nodes[result.node] = None
        verdicts[verdict] += 1
        uuid = result.subject.guest_uuid
        guest = guests.get(uuid) or guests.setdefault(uuid, _Guest(result))
        if guest.add(result, column) and verdict in UNJUDGED:
            unproved.append(run_of(result))
        if verdict in UNJUDGED:
            continue
        counted = columns.setdefault(column, [0, 0])
        counted[0] += 1
        counted[1] += verdict in BROKEN
        types.setdefault(result.subject.volume_type, _Curve()).add(result, column)
    return Gathered(
        span=span,
        nodes=tuple(sorted(nodes)),
        verdicts=verdicts,
        types=tuple(
            (name, curve.closed())
            for name, curve in sorted(types.items(), key=lambda each: (-each[1].runs, each[0] or ""))
        ),
        guests=tuple(sorted((guest.closed() for guest in guests.values()), key=_order)),
        columns=tuple(Column(number, *columns[number]) for number in sorted(columns)),
        unproved=tuple(unproved),
    )


def curve(results: Iterable[ProbeResult], span: Span) -> Curve:
    """Of those results that prove something."""
    taken = _Curve()
    for result in results:
        if result.finding.verdict not in UNJUDGED:
            taken.add(result, span.column_of(result.started))
    return taken.closed()


def run_of(result: ProbeResult) -> Run:
    measured = result.measured
    return Run(
        replace(result, measured=None, counted=None),
        None if measured is None else measured.iops,
        allowed_iops(result),
        None if measured is None else measured.latency.quantile(0.99),
    )


def allowed_iops(result: ProbeResult) -> float | None:
    """As the verdict has it: held against what is in force, and against what is promised where that is less."""
    promised, in_force = result.circumstances.promised, result.circumstances.before
    if promised is None or in_force is None:
        return None
    paces = (_pace(promised, result.job), _pace(in_force, result.job))
    return min((pace for pace in paces if pace is not None), default=None)


@lru_cache(maxsize=1024)
def _pace(limits: Limits, job: Job) -> float | None:
    """What they let pass in a second, whatever of a burst is left."""
    reached = reach(limits, job, 1)
    return None if reached is None else reached.low


# --- what is added up meanwhile


@dataclass(slots=True)
class _Cell:
    """Of one column."""

    counts: dict[int, int] = field(default_factory=dict)
    slowest: int = 0
    shares: list[float] = field(default_factory=list)


class _Curve:
    def __init__(self) -> None:
        self.runs = 0
        self._guests: set[str] = set()
        self._cells: dict[int, _Cell] = {}

    def add(self, result: ProbeResult, column: int) -> None:
        self.runs += 1
        self._guests.add(result.subject.guest_uuid)
        if result.measured is None:
            return
        cell = self._cells.setdefault(column, _Cell())
        _count(result, cell.counts)
        cell.slowest = max(cell.slowest, result.measured.latency_max)
        if allowed := allowed_iops(result):
            cell.shares.append(result.measured.iops / allowed)

    def closed(self) -> Curve:
        return Curve(self.runs, len(self._guests), tuple(self._points()))

    def _points(self) -> Iterator[Point]:
        for column, cell in sorted(self._cells.items()):
            latency, shares = _histogram(cell.counts), cell.shares
            yield Point(
                column,
                latency,
                tuple(latency.quantile(fraction) for fraction in FRACTIONS),
                cell.slowest,
                (min(shares), median(shares), max(shares)) if shares else None,
            )


@dataclass(slots=True)
class _Series:
    """One guest, directory and job, from its newest run back."""

    newest: Run
    """The newest that was judged."""
    broken: Run | None = None
    """The newest that broke the promise."""
    judged: int = 0
    bad: int = 0
    well_since: datetime | None = None
    """When the oldest run began after which none broke the promise."""

    @property
    def standing(self) -> Standing:
        verdict = self.newest.verdict
        if verdict in BROKEN:
            return Standing.OVER if verdict is Verdict.OVER_LIMIT else Standing.BROKEN
        if self.broken is not None:
            return Standing.RECOVERED
        return Standing.UNLIMITED if verdict is Verdict.NO_LIMIT else Standing.KEPT

    def add(self, result: ProbeResult) -> None:
        self.judged += 1
        if result.finding.verdict in BROKEN:
            self.bad += 1
            self.broken = self.broken or run_of(result)
        elif self.broken is None:
            self.well_since = result.started

    @property
    def order(self) -> tuple[int, float, float]:
        """Who stands worst first: then those whose runs broke it most often, then those that got least."""
        told = self.broken or self.newest
        return _ORDER[self.standing], -self.bad / self.judged, 1.0 if told.share is None else told.share


_ORDER = {standing: number for number, standing in enumerate(Standing)}
_SEVERITY = {
    verdict: number
    for number, verdict in enumerate(
        (
            Verdict.FAILED,
            Verdict.DISCARDED,
            Verdict.NO_LIMIT,
            Verdict.KEPT,
            Verdict.OVER_LIMIT,
            Verdict.SLOW,
            Verdict.SHORT,
        )
    )
}
"""A column shows the worst that is proved; what proves nothing hides nothing."""


class _Guest:
    def __init__(self, newest: ProbeResult) -> None:
        self._newest = run_of(newest)
        self._seen: set[tuple[str, JobName]] = set()
        self._series: dict[tuple[str, JobName], _Series] = {}
        self._unjudged = 0
        self._counts: dict[int, int] = {}
        self._marks: dict[int, Verdict] = {}

    def add(self, result: ProbeResult, column: int) -> bool:
        """Whether it is the newest of its directory and job."""
        verdict, key = result.finding.verdict, (result.subject.directory, result.job.name)
        newest = key not in self._seen
        self._seen.add(key)
        self._marks[column] = max(self._marks.get(column, verdict), verdict, key=_SEVERITY.__getitem__)
        if verdict in UNJUDGED:
            self._unjudged += 1
            return newest
        if key not in self._series:
            self._series[key] = _Series(run_of(result))
        self._series[key].add(result)
        _count(result, self._counts)
        return newest

    def closed(self) -> Guest:
        ordered = sorted(self._series.values(), key=lambda series: series.order)
        marks = tuple(sorted(self._marks.items()))
        if not ordered:
            return Guest(
                self._newest.result.subject.guest_uuid,
                Standing.UNKNOWN,
                self._newest,
                (),
                0,
                0,
                self._unjudged,
                None,
                None,
                marks,
            )
        worst = ordered[0]
        others = [each for each in ordered[1:] if each.standing is worst.standing and each.broken is not None]
        recovered = [each.well_since for each in ordered if each.broken and each.well_since is not None]
        return Guest(
            uuid=self._newest.result.subject.guest_uuid,
            standing=worst.standing,
            worst=worst.broken or worst.newest,
            others=tuple(dict.fromkeys(each.newest.result.job.name for each in others)),
            judged=sum(each.judged for each in ordered),
            broken=sum(each.bad for each in ordered),
            unjudged=self._unjudged,
            p99=_histogram(self._counts).quantile(0.99),
            well_since=max(recovered) if worst.standing is Standing.RECOVERED else None,
            marks=marks,
        )


def _order(guest: Guest) -> tuple[int, float, int, str, str]:
    """Who stands worst, then whose promise was broken most often, then the slowest."""
    name = guest.worst.result.subject.guest_name
    part = guest.broken / guest.judged if guest.judged else 0.0
    return _ORDER[guest.standing], -part, -guest.p99.lower if guest.p99 else 0, name, guest.uuid


def _count(result: ProbeResult, counts: dict[int, int]) -> None:
    """Its latencies, of both directions."""
    if result.measured is None:
        return
    for _, flow in result.measured.flows:
        for index, count in flow.latency.buckets:
            counts[index] = counts.get(index, 0) + count


def _histogram(counts: dict[int, int]) -> Histogram:
    return Histogram(tuple(sorted(counts.items())))
