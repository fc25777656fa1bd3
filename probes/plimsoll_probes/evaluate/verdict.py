"""The verdict on a run: what it did, compared with the limits while it ran and with the objective."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_probes.evaluate.allowance import Bound, RequestLoad, bounds, reach
from plimsoll_probes.guest.fio import ONE_IN_FLIGHT
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.job import Job
from plimsoll_probes.model.result import Circumstances, Measured, QemuCounts

# Above this share of busy CPU time the guest measures its own CPUs and not the disk.
BUSY = 0.9
# Seconds. No replicated write is faster, and few uncached reads are. Where the limits can only be reached with faster
# requests than this, the job's depth is too low to say anything about the cluster.
SHALLOW = 0.001

_SECOND = 10**9

Edge = Literal["low", "high"]
"""What a limit allows without its burst, or with all of it."""


def judge(
    job: Job,
    measurement: Measured,
    counts: QemuCounts | None,
    circumstances: Circumstances,
    objective: Objective | None,
    tolerance: float,
) -> Finding:
    """The verdict on a run that has a result. ``tolerance`` is a share of what the limits allow: 0.05.

    The first that holds: ``inconclusive`` where the run was disturbed, ``over-limit``, ``short``, ``slow``,
    ``reduced``, ``no-limit``, ``kept``. Where the limits are unknown or the job cannot reach them, a missed objective
    still gives ``slow``.

    The facts ``allowed`` and ``done`` are in the parameter's unit: bytes, or requests as QEMU counts them. Every
    verdict has the facts ``saturated`` (latencies beyond fio's buckets) and ``unfinished`` (requests that never
    ended) where there are any.
    """
    finding = _disturbance(circumstances) or _judge(job, measurement, counts, circumstances, objective, tolerance)
    return replace(finding, facts={**finding.facts, **_never_hidden(measurement)})


def _disturbance(circumstances: Circumstances) -> Finding | None:
    if circumstances.frozen:
        return Finding(Verdict.INCONCLUSIVE, Why.FROZEN)
    if circumstances.moved:
        return Finding(Verdict.INCONCLUSIVE, Why.MOVED)
    before, after = circumstances.before, circumstances.after
    if before is not None and after is not None and before != after:
        facts = {"before": before.in_effect(), "after": after.in_effect()}
        return Finding(Verdict.INCONCLUSIVE, Why.LIMITS_CHANGED, facts)
    return None


def _judge(
    job: Job,
    measurement: Measured,
    counts: QemuCounts | None,
    circumstances: Circumstances,
    objective: Objective | None,
    tolerance: float,
) -> Finding:
    miss = _miss(job, measurement, objective)
    promise, actual = circumstances.promised, circumstances.before
    if promise is None or actual is None or circumstances.after is None:
        return miss or Finding(Verdict.INCONCLUSIVE, Why.LIMITS_UNKNOWN, {"detail": _unknown(circumstances)})
    run = _Run(job=job, measured=measurement, counted=counts, promised=promise, actual=actual, tolerance=tolerance)
    reduction = _reduction(promise, actual) if circumstances.reduced else None
    return run.over_limit() or run.short(miss) or run.beside_its_wait(miss) or reduction or run.kept()


def _reduction(promise: Limits, actual: Limits) -> Finding:
    """The guest gets what it may have now, which is less than promised: that is never kept."""
    return Finding(Verdict.REDUCED, Why.REDUCED, {"promised": promise.in_effect(), "actual": actual.in_effect()})


def _never_hidden(measurement: Measured) -> dict[str, object]:
    facts = {"saturated": measurement.latency.saturated, "unfinished": measurement.unfinished}
    return {name: number for name, number in facts.items() if number}


def _unknown(circumstances: Circumstances) -> str:
    return ", ".join(name for name in ("promised", "before", "after") if getattr(circumstances, name) is None)


# --- the pace


@frozen(kw_only=True)
class _Run:
    """What fio and QEMU counted, with the promised and the actual limits."""

    job: Job
    measured: Measured
    counted: QemuCounts | None
    promised: Limits
    actual: Limits
    tolerance: float

    def over_limit(self) -> Finding | None:
        """More than promised, in any direction or unit, as fio counted; bytes also as QEMU counted.

        Requests only as fio counted: QEMU counts adjacent ones singly but merges them before the throttle
        (hw/block/virtio-blk.c, submit_requests). The job's are random, but the guest's others may be adjacent.
        """
        for seconds, load in self._witnesses(over=True):
            share, bound = _fullest(self.promised, seconds, load)
            if bound is None or share <= 1 + self.tolerance:
                continue
            facts = _facts(bound.parameter.name, bound.high, bound.taken(load))
            # The actual limits allow more of this load than the promised ones.
            if _fullest(self.actual, seconds, load)[0] < share:
                actual = {"actual": self.actual.in_effect()}
                return Finding(Verdict.OVER_LIMIT, Why.NOT_SET, facts | actual)
            return Finding(Verdict.OVER_LIMIT, Why.TOO_MUCH, facts)
        return None

    def short(self, miss: Finding | None) -> Finding | None:
        """Less than the limits allow, with no cause but the cluster.

        It counts the actual limits, and the promised ones where those are lower: the cluster causes neither a limit
        that is too low nor one that is missing. Other requests of the guest use the same limit, so a limit also
        counts as used up where QEMU counted more than fio did.
        """
        bound = self._most_used("low")
        enough = 1 - self.tolerance
        if bound is None or any(
            self._share(each, "high" if each.bursts else "low") >= enough for each in self._bounds()
        ):
            return None
        edge: Edge = "low"
        if self._share(bound, "low") >= enough:
            if not self._burst_withheld():
                return None
            edge, bound = "high", self._most_used("high") or bound
        if _busy(self.measured):
            return _guest_busy(self.measured)
        if (depth := self._in_flight() / self._pace(edge)) < SHALLOW:
            facts = {"in_flight": self._in_flight(), "needed": depth}
            return miss or Finding(Verdict.INCONCLUSIVE, Why.TOO_SHALLOW, facts)
        if group := self.promised.group_name or self.actual.group_name:
            return miss or Finding(Verdict.INCONCLUSIVE, Why.LIMITS_UNKNOWN, {"detail": f"group_name {group}"})
        parameter = bound.parameter.name + ("_max" if edge == "high" and bound.bursts else "")
        return Finding(Verdict.SHORT, Why.CLUSTER_SHORT, _facts(parameter, getattr(bound, edge), self._usage(bound)))

    def beside_its_wait(self, miss: Finding | None) -> Finding | None:
        """The missed objective; with the fact ``wait`` where waiting for the limit alone takes longer than that."""
        if miss is None or miss.why is not Why.OBJECTIVE_MISSED or not self._bounds():
            return miss
        # Little's law: requests in flight ÷ requests a second.
        wait, objective = self._in_flight() / self._pace("low"), miss.facts["objective"]
        if not isinstance(objective, float) or wait < objective:
            return miss
        return replace(miss, facts={**miss.facts, "wait": wait})

    def kept(self) -> Finding:
        bound = self._most_used("low")
        if bound is None:
            return Finding(Verdict.NO_LIMIT, Why.UNLIMITED)
        facts = _facts(bound.parameter.name, bound.high, self._usage(bound))
        own, enough = bound.taken(next(self._witnesses())[1]), bound.low * (1 - self.tolerance)
        if own < enough <= self._usage(bound):
            facts["own"] = own
        return Finding(Verdict.KEPT, Why.WITHIN, facts)

    def _witnesses(self, *, over: bool = False) -> Iterator[tuple[float, RequestLoad]]:
        read, write, counts = self.measured.read, self.measured.write, self.counted
        yield (
            self.measured.seconds,
            RequestLoad(
                read_operations=read.operations if read else 0,
                write_operations=write.operations if write else 0,
                read_bytes=read.bytes if read else 0,
                write_bytes=write.bytes if write else 0,
            ),
        )
        if counts is not None:
            yield (
                counts.seconds,
                RequestLoad(
                    read_operations=0 if over else counts.read_operations,
                    write_operations=0 if over else counts.write_operations,
                    read_bytes=counts.read_bytes,
                    write_bytes=counts.write_bytes,
                ),
            )

    def _bounds(self) -> list[Bound]:
        """Of all limits that the job uses, over fio's time. QEMU's count is compared with that time too: before and
        after it the guest may have been idle."""
        request, seconds = RequestLoad.of(self.job), self.measured.seconds
        return [bound for limits in (self.actual, self.promised) for bound in bounds(limits, seconds, request)]

    def _in_flight(self) -> int:
        return self.job.processes if self.measured.engine in ONE_IN_FLIGHT else self.job.in_flight

    def _usage(self, bound: Bound) -> float:
        return max(bound.taken(load) for _, load in self._witnesses())

    def _share(self, bound: Bound, edge: Edge) -> float:
        of: float = getattr(bound, edge)
        return self._usage(bound) / of

    def _most_used(self, edge: Edge) -> Bound | None:
        """The limit that the run used most; None where nothing limits this job."""
        return max(self._bounds(), key=lambda bound: self._share(bound, edge), default=None)

    def _pace(self, edge: Edge) -> float:
        """Requests a second of the job that its limits allow."""
        reaches = (reach(limits, self.job, self.measured.seconds) for limits in (self.actual, self.promised))
        total: float = min(getattr(each, edge) for each in reaches if each is not None)
        return total / self.measured.seconds

    def _burst_withheld(self) -> bool:
        """Whether burst was left that the run could not use: it ended above the base rate, and was not faster before.

        A run that ends at the base rate has used up the burst, or the guest had done so before. A rate that fell
        during the run, or an unknown one, may be that of a burst that has just ended.
        """
        if self.counted is None or self.counted.last_rate is None:
            return False
        last, mean = self.counted.last_rate, self.counted.operations / self.counted.seconds
        more = 1 + self.tolerance
        return last > self._pace("low") * more and mean <= last * more


def _fullest(limits: Limits, seconds: float, load: RequestLoad) -> tuple[float, Bound | None]:
    """The largest share of a limit (with its full burst) that the load uses, and that limit."""
    every = ((bound.taken(load) / bound.high, bound) for bound in bounds(limits, seconds, load))
    return max(every, key=lambda each: each[0], default=(0.0, None))


def _facts(parameter: str, limit: float, rate: float) -> dict[str, object]:
    return {"parameter": parameter, "allowed": limit, "done": rate}


# --- latencies


def _miss(job: Job, measurement: Measured, objective: Objective | None) -> Finding | None:
    """The missed objective with the lowest quantile: it concerns the most requests."""
    miss = None if objective is None else next(_misses(job, measurement, objective), None)
    if miss is None:
        return None
    return _guest_busy(measurement) if _busy(measurement) else Finding(Verdict.SLOW, Why.OBJECTIVE_MISSED, miss)


def _misses(job: Job, measurement: Measured, objective: Objective) -> Iterator[dict[str, object]]:
    """All missed objectives, by quantile. A latency counts as the lower bound of fio's bucket; the slowest is exact.
    Where no request of a direction ended, all of them took as long as the run."""
    flows = dict(measurement.flows)
    slowest: tuple[tuple[float | None, float], ...] = (
        () if objective.slowest is None else ((None, objective.slowest),)
    )
    for part, seconds in objective.quantiles + slowest:
        for direction in job.shares:
            flow = flows.get(direction)
            if flow is None:
                least = took = measurement.seconds * _SECOND if measurement.unfinished else 0
            elif part is None:
                least = took = flow.latency_max
            else:
                quantile = flow.latency.quantile(part, flow.latency_max)
                least, took = (quantile.lower, quantile.value) if quantile else (0, 0)
            if least > seconds * _SECOND:
                yield {
                    "direction": direction,
                    "quantile": 1.0 if part is None else part,
                    "objective": seconds,
                    "measured": took / _SECOND,
                }


def _busy(measurement: Measured) -> bool:
    return measurement.cpu_busy is not None and measurement.cpu_busy > BUSY


def _guest_busy(measurement: Measured) -> Finding:
    return Finding(Verdict.INCONCLUSIVE, Why.GUEST_BUSY, {"busy": measurement.cpu_busy})
