"""Gathers what a report shows from the runs of a span: the state of each guest, latencies by volume type over time.

Inconclusive and failed runs, and those under reduced limits, are counted separately and are in no figure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from statistics import median

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_probes.evaluate.allowance import reach
from plimsoll_probes.model.finding import BROKEN, WORST_FIRST, Verdict
from plimsoll_probes.model.histogram import Histogram, Quantile
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import ProbeResult
from plimsoll_probes.output.report.span import ReportPeriod

FRACTIONS = (0.5, 0.99, 0.999)
UNJUDGED = (Verdict.REDUCED, Verdict.INCONCLUSIVE, Verdict.FAILED)
"""The run does not tell whether the promise is kept."""
_UNPLANNED = timedelta(days=1)
"""The interval of a guest that no rule chooses, at least: it may be probed twice in an hour by hand."""


class Standing(Enum):
    """The state of a guest at the end of the span, by the newest conclusive run of each directory and job, or by a
    newest one that failed, as ``status`` has it.

    A run tells nothing of now when two more were due since. In the order of the page: the most urgent first.
    """

    BROKEN = "it does not get what it is promised"
    OVER = "it gets more than it is promised"
    FAILING = "its newest probe failed"
    LAST_BAD = "it was in trouble when it was last judged"
    RECOVERED = "it did not get what it was promised, and does now"
    UNKNOWN = "none of its runs is conclusive"
    LAST_WELL = "it was well when it was last judged"
    KEPT = "it gets what it is promised"
    UNLIMITED = "it has no limit, so nothing is promised"


@frozen(kw_only=True)
class Run:
    """The figures of one run; ``result`` is without ``measured``, which takes too much memory."""

    result: ProbeResult
    iops: float | None
    allowed: float | None
    """What its limits allow without a burst, in IOPS of that job; None where there are none or they are unknown."""
    p99: Quantile | None

    @property
    def verdict(self) -> Verdict:
        return self.result.finding.verdict

    @property
    def share(self) -> float | None:
        """IOPS as a share of ``allowed``."""
        return None if self.iops is None or not self.allowed else self.iops / self.allowed

    @property
    def severity(self) -> tuple[int, float]:
        """The least is the worst: short before slow before over-limit, and of one verdict what is farthest off."""
        share = 1.0 if self.share is None else self.share
        off = {Verdict.SHORT: share, Verdict.OVER_LIMIT: -share, Verdict.SLOW: -self.p99.lower if self.p99 else 0.0}
        return -SEVERITY[self.verdict], off.get(self.verdict, 0.0)


@frozen(kw_only=True)
class Point:
    """The runs of one column together; their histograms are merged exactly."""

    column: int
    latency: Histogram
    quantiles: tuple[Quantile | None, ...]
    """For each of ``FRACTIONS``."""
    slowest: int
    """In nanoseconds, exact."""
    shares: tuple[float, float, float] | None
    """The least, the median and the greatest of the runs' shares; None where no limit applies."""


@frozen(kw_only=True)
class Curve:
    """Runs over time; columns without a run are left out."""

    runs: int
    guests: int
    points: tuple[Point, ...]
    objective: Objective | None = None
    """Of the newest run that had one."""


@frozen(kw_only=True)
class ReportGuest:
    """A guest over the span. ``worst`` is the run to show: the newest of its kind."""

    uuid: str
    standing: Standing
    worst: Run
    others: tuple[JobName, ...]
    """Other jobs in the same state."""
    judged: int
    broken: int
    p99: Quantile | None
    """Of all its requests in the span."""
    well_since: datetime | None
    """When the first good run after the trouble began; None unless the guest has recovered."""
    marks: tuple[tuple[int, int, Verdict], ...]
    """Columns, each with how many it extends over and the worst verdict of its runs: a verdict lasts until the next
    run, unless that is late."""


@frozen
class ColumnCounts:
    """How many runs of a column were conclusive, and how many of them did not keep the promise."""

    number: int
    judged: int
    broken: int


@frozen(kw_only=True)
class Summary:
    """All that the page shows of the runs. The most urgent guests come first."""

    span: ReportPeriod
    nodes: tuple[str, ...]
    verdicts: Counter[Verdict]
    types: tuple[tuple[str | None, Curve], ...]
    """By volume type (None for disks without one), those with the most runs first."""
    guests: tuple[ReportGuest, ...]
    columns: tuple[ColumnCounts, ...]
    unproved: tuple[Run, ...]
    """Each guest, directory and job's newest run, where it was not judged; newest first."""

    @property
    def runs(self) -> int:
        return sum(self.verdicts.values())

    @property
    def judged(self) -> int:
        return sum(number for verdict, number in self.verdicts.items() if verdict not in UNJUDGED)

    def standing(self, *standings: Standing) -> tuple[ReportGuest, ...]:
        return tuple(guest for guest in self.guests if guest.standing in standings)


def gather(
    results: Iterable[ProbeResult],
    span: ReportPeriod,
    intervals: Mapping[str, timedelta],
    plans: Mapping[str, timedelta],
) -> Summary:
    """``results`` come newest first; none is kept, since not all may fit into memory.

    ``intervals`` is how far apart the runs of a guest (uuid) are, ``plans`` how far the rules want them.
    """
    nodes: dict[str, None] = {}
    verdicts: Counter[Verdict] = Counter()
    types: dict[str | None, _Curve] = {}
    guests: dict[str, _Guest] = {}
    columns: dict[int, list[int]] = {}
    without_verdict: list[Run] = []
    for result in results:
        verdict, column = result.finding.verdict, span.column_of(result.started)
        nodes[result.node] = None
        verdicts[verdict] += 1
        uuid = result.subject.guest_uuid
        if uuid not in guests:
            guests[uuid] = _Guest(result, span, intervals.get(uuid), plans.get(uuid))
        if guests[uuid].add(result, column) and verdict in UNJUDGED:
            without_verdict.append(run_of(result))
        if verdict in UNJUDGED:
            continue
        counts = columns.setdefault(column, [0, 0])
        counts[0] += 1
        counts[1] += verdict in BROKEN
        types.setdefault(result.subject.volume_type, _Curve()).add(result, column)
    return Summary(
        span=span,
        nodes=tuple(sorted(nodes)),
        verdicts=verdicts,
        types=tuple(
            (name, curve.closed())
            for name, curve in sorted(types.items(), key=lambda each: (-each[1].runs, each[0] or ""))
        ),
        guests=tuple(sorted((guest.closed() for guest in guests.values()), key=_order)),
        columns=tuple(ColumnCounts(number, *columns[number]) for number in sorted(columns)),
        unproved=tuple(without_verdict),
    )


def curve(results: Iterable[ProbeResult], span: ReportPeriod) -> Curve:
    """The curve of the conclusive results."""
    builder = _Curve()
    for result in results:
        if result.finding.verdict not in UNJUDGED:
            builder.add(result, span.column_of(result.started))
    return builder.closed()


def run_of(result: ProbeResult) -> Run:
    measurement = result.measured
    return Run(
        result=replace(result, measured=None, counted=None),
        iops=None if measurement is None else measurement.iops,
        allowed=allowed_iops(result),
        p99=None if measurement is None else measurement.latency.quantile(0.99, measurement.latency_max),
    )


def allowed_iops(result: ProbeResult) -> float | None:
    """As for the verdict: by the actual limits, or by the promised ones where those are lower."""
    promise, actual = result.circumstances.promised, result.circumstances.before
    if promise is None or actual is None:
        return None
    paces = (_pace(promise, result.job), _pace(actual, result.job))
    return min((pace for pace in paces if pace is not None), default=None)


@lru_cache(maxsize=1024)
def _pace(limits: Limits, job: Job) -> float | None:
    """Requests a second that the limits allow without a burst."""
    bounds = reach(limits, job, 1)
    return None if bounds is None else bounds.low


# --- sums


@dataclass(slots=True)
class _Cell:
    """The sums of one column."""

    counts: dict[int, int] = field(default_factory=dict)
    slowest: int = 0
    shares: list[float] = field(default_factory=list)


class _Curve:
    def __init__(self) -> None:
        self.runs = 0
        self._objective: Objective | None = None
        self._guests: set[str] = set()
        self._cells: dict[int, _Cell] = {}

    def add(self, result: ProbeResult, column: int) -> None:
        self.runs += 1
        self._guests.add(result.subject.guest_uuid)
        self._objective = self._objective or result.objective
        if result.measured is None:
            return
        cell = self._cells.setdefault(column, _Cell())
        _count(result, cell.counts)
        cell.slowest = max(cell.slowest, result.measured.latency_max)
        if limit := allowed_iops(result):
            cell.shares.append(result.measured.iops / limit)

    def closed(self) -> Curve:
        return Curve(
            runs=self.runs, guests=len(self._guests), points=tuple(self._points()), objective=self._objective
        )

    def _points(self) -> Iterator[Point]:
        for column, cell in sorted(self._cells.items()):
            latency, shares = _histogram(cell.counts), cell.shares
            yield Point(
                column=column,
                latency=latency,
                quantiles=tuple(latency.quantile(fraction, cell.slowest) for fraction in FRACTIONS),
                slowest=cell.slowest,
                shares=(min(shares), median(shares), max(shares)) if shares else None,
            )


@dataclass(slots=True)
class _Series:
    """One guest, directory and job; runs are added newest first."""

    newest: Run
    """The newest conclusive run."""
    broken: Run | None = None
    """The newest run that did not keep the promise."""
    judged: int = 0
    bad: int = 0
    well_since: datetime | None = None
    """When the first of the runs began since which all kept the promise."""

    def standing(self, old: datetime) -> Standing:
        """``old``: a run that began before tells nothing of now."""
        verdict = self.newest.verdict
        if verdict in BROKEN and self.newest.result.started < old:
            return Standing.LAST_BAD
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
    def told(self) -> Run:
        return self.broken or self.newest


_WELL = (Standing.RECOVERED, Standing.KEPT, Standing.UNLIMITED)
_ORDER = {standing: number for number, standing in enumerate(Standing)}
_JUDGED = (verdict for verdict in WORST_FIRST if verdict not in UNJUDGED)
SEVERITY = {verdict: -place for place, verdict in enumerate((*_JUDGED, *UNJUDGED))}
"""A column shows its worst conclusive verdict; other verdicts only where it has none."""


@dataclass(slots=True)
class _Mark:
    """The runs of one guest in one column: the worst verdict, and when the first and the last began."""

    worst: Verdict
    first: datetime
    last: datetime


class _Guest:
    def __init__(
        self, newest: ProbeResult, span: ReportPeriod, interval: timedelta | None, plan: timedelta | None
    ) -> None:
        self._newest = run_of(newest)
        self._span = span
        self._interval = interval or plan or span.apart or _UNPLANNED
        self._old = span.until - 2 * max(self._interval, plan or _UNPLANNED)
        self._seen: set[tuple[str, JobName]] = set()
        self._series: dict[tuple[str, JobName], _Series] = {}
        self._failed: list[Run] = []
        self._counts: dict[int, int] = {}
        self._marks: dict[int, _Mark] = {}

    def add(self, result: ProbeResult, column: int) -> bool:
        """Add a result; returns whether it is the newest of its directory and job."""
        verdict, key = result.finding.verdict, (result.subject.directory, result.job.name)
        newest = key not in self._seen
        self._seen.add(key)
        began = result.started
        mark = self._marks.get(column) or self._marks.setdefault(column, _Mark(verdict, began, began))
        mark.worst, mark.first = max(mark.worst, verdict, key=SEVERITY.__getitem__), began
        if verdict in UNJUDGED:
            if newest and verdict is Verdict.FAILED and began >= self._old:
                self._failed.append(run_of(result))
            return newest
        if key not in self._series:
            self._series[key] = _Series(run_of(result))
        self._series[key].add(result)
        _count(result, self._counts)
        return newest

    def closed(self) -> ReportGuest:
        old = self._old
        series = sorted(
            self._series.values(),
            key=lambda each: (_ORDER[each.standing(old)], each.told.severity, -each.bad / each.judged),
        )
        worst = series[0] if series else _Series(self._newest)
        standing = worst.standing(old) if series else Standing.UNKNOWN
        alike = [each.newest for each in series[1:] if each.standing(old) is standing and each.broken is not None]
        well = [each.well_since for each in series if each.broken and each.well_since is not None]
        since = max(well) if standing is Standing.RECOVERED else None
        if standing in _WELL and all(each.newest.result.started < old for each in series):
            standing = Standing.LAST_WELL
        worst_run = worst.told
        if self._failed and standing not in (Standing.BROKEN, Standing.OVER, Standing.LAST_BAD):
            standing, since, (worst_run, *alike) = Standing.FAILING, None, self._failed
        return ReportGuest(
            uuid=self._newest.result.subject.guest_uuid,
            standing=standing,
            worst=worst_run,
            others=tuple(dict.fromkeys(each.result.job.name for each in alike)),
            judged=sum(each.judged for each in series),
            broken=sum(each.bad for each in series),
            p99=_histogram(self._counts).quantile(0.99),
            well_since=since,
            marks=tuple(self._lasting()),
        )

    def _lasting(self) -> Iterator[tuple[int, int, Verdict]]:
        marks = sorted(self._marks.items())
        ends = [(column, mark.first) for column, mark in marks[1:]] + [(self._span.columns, self._span.until)]
        for (column, mark), (end, until) in zip(marks, ends, strict=True):
            yield column, end - column if until - mark.last <= 1.5 * self._interval else 1, mark.worst


def _order(guest: ReportGuest) -> tuple[int, tuple[int, float], float, str, str]:
    """The worst state first, then the worst run, then the largest share of runs not kept."""
    part = guest.broken / guest.judged if guest.judged else 0.0
    return _ORDER[guest.standing], guest.worst.severity, -part, guest.worst.result.subject.guest_name, guest.uuid


def _count(result: ProbeResult, counts: dict[int, int]) -> None:
    """Add the result's latencies of both directions."""
    if result.measured is None:
        return
    for _, flow in result.measured.flows:
        for index, count in flow.latency.buckets:
            counts[index] = counts.get(index, 0) + count


def _histogram(counts: dict[int, int]) -> Histogram:
    return Histogram(tuple(sorted(counts.items())))
