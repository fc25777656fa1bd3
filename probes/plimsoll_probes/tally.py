"""What the runs of a job have come to, added up: it outlives the runs themselves, so that counters never fall."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from plimsoll_agent.rules import Objective
from plimsoll_probes.finding import Verdict, Why
from plimsoll_probes.histogram import Histogram
from plimsoll_probes.job import Direction, JobName
from plimsoll_probes.result import Measured, ProbeResult

# What was timed is not the disk, or was not under one limit. A run that was discarded because its limits say nothing
# of the cluster timed the disk like any other, and leaving it out would leave out the good ones alone: what missed
# its objective is ``slow`` and no longer discarded.
_BENT = (Why.FROZEN, Why.MOVED, Why.LIMITS_CHANGED, Why.GUEST_BUSY)
_SECOND = 10**9


@dataclass(frozen=True, slots=True)
class Promised:
    """Requests that an objective was set for, and those of them that may have taken longer."""

    requests: int = 0
    missed: int = 0

    def plus(self, other: Promised) -> Promised:
        return Promised(self.requests + other.requests, self.missed + other.missed)


@dataclass(frozen=True, slots=True)
class Sums:
    """Runs by verdict, latencies by direction, and requests by the quantile (0.99) of their objective.

    Latencies and requests are those of runs that failed in nothing, and whose latencies nothing bent.
    """

    runs: Mapping[Verdict, int] = field(default_factory=dict, hash=False)
    latency: Mapping[Direction, Histogram] = field(default_factory=dict, hash=False)
    promised: Mapping[float, Promised] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, result: ProbeResult) -> Sums:
        runs, measured = {result.finding.verdict: 1}, result.measured
        if measured is None or result.finding.verdict is Verdict.FAILED or result.finding.why in _BENT:
            return cls(runs)
        latency = {direction: flow.latency for direction, flow in measured.flows if flow.latency.buckets}
        stuck = 0 if set(result.job.shares) <= set(latency) else measured.unfinished
        return cls(runs, latency, _promised(result.objective, measured, stuck))

    def plus(self, other: Sums) -> Sums:
        return Sums(
            {
                verdict: self.runs.get(verdict, 0) + other.runs.get(verdict, 0)
                for verdict in (*self.runs, *other.runs)
            },
            {
                direction: Histogram.merged(
                    each.latency[direction] for each in (self, other) if direction in each.latency
                )
                for direction in (*self.latency, *other.latency)
            },
            {
                quantile: self.promised.get(quantile, Promised()).plus(other.promised.get(quantile, Promised()))
                for quantile in (*self.promised, *other.promised)
            },
        )

    @classmethod
    def together(cls, several: Iterable[Sums]) -> Sums:
        total = cls()
        for each in several:
            total = total.plus(each)
        return total


def _promised(objective: Objective | None, measured: Measured, stuck: int) -> dict[float, Promised]:
    """``stuck`` requests never ended, in a direction in which none did: they took as long as the run."""
    latency, promised = measured.latency, {}
    for quantile, seconds in () if objective is None else objective.quantiles:
        waited = stuck if measured.seconds > seconds else 0
        missed = latency.count - latency.surely_within(round(seconds * _SECOND))
        promised[quantile] = Promised(latency.count + stuck, missed + waited)
    return promised


@dataclass(frozen=True, slots=True)
class Tally:
    """The sums of one job in one guest on one volume type, since the first run that was counted.

    Of guests that are long gone a nameless one is left for each type and job: uuid and name are empty.
    """

    guest_uuid: str
    guest_name: str
    volume_type: str
    """Empty for none."""
    job: JobName
    last: datetime
    """When the newest run ended."""
    sums: Sums

    @classmethod
    def of(cls, result: ProbeResult) -> Tally:
        subject = result.subject
        return cls(
            subject.guest_uuid,
            subject.guest_name,
            subject.volume_type or "",
            result.job.name,
            result.ended,
            Sums.of(result),
        )

    def after(self, earlier: Tally) -> Tally:
        """Both, under this one's name."""
        return Tally(
            self.guest_uuid,
            self.guest_name,
            self.volume_type,
            self.job,
            max(self.last, earlier.last),
            earlier.sums.plus(self.sums),
        )
