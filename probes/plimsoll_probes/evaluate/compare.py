"""Compares a run with earlier ones of the same guest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Literal

from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.model.finding import Verdict
from plimsoll_probes.model.histogram import Histogram, Quantile
from plimsoll_probes.model.result import Measured, ProbeResult

QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)
ENOUGH = 3
"""With fewer earlier runs than this the comparison is not reliable."""
SPAN = timedelta(days=7)

Flows = Literal["read", "write", "both"]


@frozen(kw_only=True)
class Then:
    """Earlier runs together: their histograms are merged exactly, rates are means weighted by time."""

    runs: int
    seconds: float
    latency: Mapping[Flows, Histogram]
    """By direction; ``both`` only where both occur."""
    latency_max: Mapping[Flows, int]
    """In nanoseconds, exact."""
    iops: float
    bytes_per_second: float

    @classmethod
    def of(cls, runs: Sequence[Measured]) -> Then | None:
        """None for no run at all."""
        seconds = sum(run.seconds for run in runs)
        if not seconds:
            return None
        flows: dict[Flows, list[tuple[Histogram, int]]] = {}
        for run in runs:
            for direction, flow in run.flows:
                flows.setdefault(direction, []).append((flow.latency, flow.latency_max))
        if len(flows) == 2:
            flows["both"] = [each for several in list(flows.values()) for each in several]
        return cls(
            runs=len(runs),
            seconds=seconds,
            latency={name: Histogram.merged(latency for latency, _ in several) for name, several in flows.items()},
            latency_max={name: max(slowest for _, slowest in several) for name, several in flows.items()},
            iops=sum(run.operations for run in runs) / seconds,
            bytes_per_second=sum(run.bytes for run in runs) / seconds,
        )


@frozen(kw_only=True)
class QuantileChange:
    """One quantile of one direction, then and now."""

    direction: Flows
    fraction: float
    then: Quantile | None
    now: Quantile | None

    @property
    def ratio(self) -> float | None:
        """How many times as long; None where one is unknown or beyond fio's last bucket."""
        if self.then is None or self.now is None or self.then.saturated or self.now.saturated:
            return None
        return self.now.value / self.then.value if self.then.value else None


@frozen(kw_only=True)
class Comparison:
    """A run, and the earlier ones that it is compared with."""

    run: ProbeResult
    span: timedelta
    now: Then | None
    then: Then | None
    verdicts: Mapping[Verdict, int]
    """Of all earlier runs, including those without a result."""
    other_jobs: int
    """Earlier runs with other parameters, which are left out."""
    other_limits: int
    """How many of the earlier runs that are compared ran under other limits."""

    @property
    def rows(self) -> tuple[QuantileChange, ...]:
        if self.now is None or self.then is None:
            return ()
        order: tuple[Flows, ...] = ("read", "write", "both")
        return tuple(
            QuantileChange(
                direction=name,
                fraction=fraction,
                then=_quantile(self.then, name, fraction),
                now=_quantile(self.now, name, fraction),
            )
            for name in order
            if name in self.now.latency
            for fraction in QUANTILES
        )


def compare(run: ProbeResult, others: Iterable[ProbeResult], span: timedelta = SPAN) -> Comparison:
    """Compare a run with those of the same guest, directory and job that began in the ``span`` before it.

    Inconclusive runs, and those under reduced limits, count in the verdicts only.
    """
    earlier = [each for each in others if _precedes(each, run, span)]
    left_out = Verdict.INCONCLUSIVE, Verdict.REDUCED
    sound = [each for each in earlier if each.measured is not None and each.finding.verdict not in left_out]
    alike = [each for each in sound if each.job == run.job]
    limits = run.circumstances.before
    return Comparison(
        run=run,
        span=span,
        now=None if run.measured is None else Then.of([run.measured]),
        then=Then.of([each.measured for each in alike if each.measured is not None]),
        verdicts=dict(Counter(each.finding.verdict for each in earlier)),
        other_jobs=len(sound) - len(alike),
        other_limits=sum(each.circumstances.before != limits for each in alike),
    )


def ratio(now: float, then: float) -> float | None:
    return now / then if then else None


def _quantile(runs: Then, name: Flows, fraction: float) -> Quantile | None:
    return runs.latency.get(name, Histogram()).quantile(fraction, runs.latency_max.get(name))


def _precedes(other: ProbeResult, run: ProbeResult, span: timedelta) -> bool:
    return (
        other.subject.guest_uuid == run.subject.guest_uuid
        and other.subject.directory == run.subject.directory
        and other.job.name is run.job.name
        and run.started - span <= other.started < run.started
    )
