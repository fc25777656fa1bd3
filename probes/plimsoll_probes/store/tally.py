"""Sums over the runs of a job, kept after the runs are removed, so that counters never fall."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime

from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import Direction, JobName
from plimsoll_probes.model.result import Measured, ProbeResult

# Runs that measured something else than the disk, or under changing limits. Reduced and other inconclusive runs
# count: they would be ``slow`` if they had missed the objective, so leaving them out would leave out good ones only.
_DISTURBED = (Why.FROZEN, Why.MOVED, Why.LIMITS_CHANGED, Why.GUEST_BUSY)
_SECOND = 10**9


@frozen
class Promise:
    """Requests under an objective, and those of them that may have taken longer."""

    requests: int = 0
    missed: int = 0

    def plus(self, other: Promise) -> Promise:
        return Promise(self.requests + other.requests, self.missed + other.missed)


@frozen
class Sums:
    """Runs by verdict, latencies by direction, and requests by the quantile (0.99) of their objective.

    Latencies and requests are without failed and disturbed runs, but for the requests that did not end in a run that
    failed for that.
    """

    runs: Mapping[Verdict, int] = field(default_factory=dict, hash=False)
    latency: Mapping[Direction, Histogram] = field(default_factory=dict, hash=False)
    promised: Mapping[float, Promise] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, result: ProbeResult) -> Sums:
        runs, measurement = {result.finding.verdict: 1}, result.measured
        if result.finding.why is Why.UNFINISHED:
            return cls(runs, promised=_never_ended(result))
        if measurement is None or result.finding.verdict is Verdict.FAILED or result.finding.why in _DISTURBED:
            return cls(runs)
        latency = {direction: flow.latency for direction, flow in measurement.flows if flow.latency.buckets}
        pending = 0 if set(result.job.shares) <= set(latency) else measurement.unfinished
        return cls(runs, latency, _promises(result.objective, measurement, pending))

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
                quantile: self.promised.get(quantile, Promise()).plus(other.promised.get(quantile, Promise()))
                for quantile in (*self.promised, *other.promised)
            },
        )

    @classmethod
    def together(cls, several: Iterable[Sums]) -> Sums:
        total = cls()
        for each in several:
            total = total.plus(each)
        return total


def _promises(objective: Objective | None, measurement: Measured, pending: int) -> dict[float, Promise]:
    """``pending`` requests are of a direction in which none ended: they took as long as the run."""
    latency, promises = measurement.latency, {}
    for quantile, seconds in () if objective is None else objective.quantiles:
        late = pending if measurement.seconds > seconds else 0
        misses = latency.count - latency.surely_within(round(seconds * _SECOND))
        promises[quantile] = Promise(latency.count + pending, misses + late)
    return promises


def _never_ended(result: ProbeResult) -> dict[float, Promise]:
    """Of what ended in such a run no latency is known. The guest's count, None where it could not, is of all that its
    disk has in flight, and may be any number: the job's own requests are the most.
    """
    objective, count = result.objective, result.finding.facts.get("unfinished")
    if objective is None or not isinstance(count, int) or count <= 0:
        return {}
    number = min(count, result.job.in_flight)
    return {quantile: Promise(number, number) for quantile, _ in objective.quantiles}


@frozen(kw_only=True)
class Tally:
    """The sums of one job in one guest on one volume type, since the first run that was counted.

    Guests that are long gone share one for each type and job, with an empty uuid and name.
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
            guest_uuid=subject.guest_uuid,
            guest_name=subject.guest_name,
            volume_type=subject.volume_type or "",
            job=result.job.name,
            last=result.ended,
            sums=Sums.of(result),
        )

    def after(self, earlier: Tally) -> Tally:
        """The sums of both, under this tally's name."""
        return Tally(
            guest_uuid=self.guest_uuid,
            guest_name=self.guest_name,
            volume_type=self.volume_type,
            job=self.job,
            last=max(self.last, earlier.last),
            sums=earlier.sums.plus(self.sums),
        )
