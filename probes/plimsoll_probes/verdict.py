"""Is the promise kept? What a run did, against the limits while it ran and the objective."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from plimsoll_agent.limits import Limits
from plimsoll_agent.rules import Objective
from plimsoll_probes.allowance import Bound, Load, bounds, reach
from plimsoll_probes.finding import Finding, Verdict, Why
from plimsoll_probes.job import Job
from plimsoll_probes.result import Circumstances, Counted, Measured

# Beyond this part of its processors' time a guest measures itself.
BUSY = 0.9
# No replicated write, and few reads that no cache answers, are sooner done: limits that need more of a job at this
# depth say nothing of the cluster.
SHALLOW = 0.001

_SECOND = 10**9

Edge = Literal["low", "high"]
"""Of what a limit lets pass: without its burst, or with all of it."""


def judge(
    job: Job,
    measured: Measured,
    counted: Counted | None,
    circumstances: Circumstances,
    objective: Objective | None,
    tolerance: float,
) -> Finding:
    """The verdict on a run that has a result. ``tolerance`` is a part of what the limits allow: 0.05.

    In this order: what was bent proves nothing (``discarded``), then ``over-limit``, ``short``, ``slow``,
    ``no-limit`` and ``kept``. A run that proves nothing against its limits, since they are not known or this
    job cannot reach them, may still have missed its objective: that is told.

    The facts ``allowed`` and ``done`` are in the parameter's own unit: bytes, or requests as QEMU counts them.
    Latencies beyond fio's buckets and requests that never ended are among the facts of every verdict:
    ``saturated`` and ``unfinished``, where there are any.
    """
    finding = _bent(circumstances) or _judged(job, measured, counted, circumstances, objective, tolerance)
    return replace(finding, facts={**finding.facts, **_never_hidden(measured)})


def _bent(circumstances: Circumstances) -> Finding | None:
    if circumstances.frozen:
        return Finding(Verdict.DISCARDED, Why.FROZEN)
    if circumstances.moved:
        return Finding(Verdict.DISCARDED, Why.MOVED)
    before, after = circumstances.before, circumstances.after
    if before is not None and after is not None and before != after:
        facts = {"before": before.in_effect(), "after": after.in_effect()}
        return Finding(Verdict.DISCARDED, Why.LIMITS_CHANGED, facts)
    return None


def _judged(
    job: Job,
    measured: Measured,
    counted: Counted | None,
    circumstances: Circumstances,
    objective: Objective | None,
    tolerance: float,
) -> Finding:
    missed = _missed(job, measured, objective)
    promised, in_force = circumstances.promised, circumstances.before
    if promised is None or in_force is None or circumstances.after is None:
        return missed or Finding(Verdict.DISCARDED, Why.LIMITS_NOT_KNOWN, {"detail": _not_known(circumstances)})
    run = _Run(job, measured, counted, promised, in_force, tolerance)
    return run.over_limit() or run.short(missed) or run.beside_its_wait(missed) or run.kept()


def _never_hidden(measured: Measured) -> dict[str, object]:
    facts = {"saturated": measured.latency.saturated, "unfinished": measured.unfinished}
    return {name: number for name, number in facts.items() if number}


def _not_known(circumstances: Circumstances) -> str:
    """Under the names of the values themselves."""
    return ", ".join(name for name in ("promised", "before", "after") if getattr(circumstances, name) is None)


# --- the pace


@dataclass(frozen=True, slots=True)
class _Run:
    """What was done, as fio and as QEMU tell it, beside the limits: those that are promised and those in force."""

    job: Job
    measured: Measured
    counted: Counted | None
    promised: Limits
    in_force: Limits
    tolerance: float

    def over_limit(self) -> Finding | None:
        """More than promised, in any direction or unit, by fio's word; of bytes by QEMU's count too.

        Not of requests: QEMU counts each, and makes one of several neighbours before the throttle sees them
        (hw/block/virtio-blk.c, submit_requests). What else the guest does may be such, the job's own are random.
        """
        for seconds, load in self._witnesses(over=True):
            share, bound = _fullest(self.promised, seconds, load)
            if bound is None or share <= 1 + self.tolerance:
                continue
            facts = _facts(bound.parameter.name, bound.high, bound.taken(load))
            # What QEMU has in force lets more of this very load pass than what was promised.
            if _fullest(self.in_force, seconds, load)[0] < share:
                in_force = {"in_force": self.in_force.in_effect()}
                return Finding(Verdict.OVER_LIMIT, Why.NOT_IN_FORCE, facts | in_force)
            return Finding(Verdict.OVER_LIMIT, Why.TOO_MUCH, facts)
        return None

    def short(self, missed: Finding | None) -> Finding | None:
        """Less than the limits allow, and nobody but the cluster to blame.

        Held against what is in force, and against what is promised where that is less: neither a limit that is
        stricter than it should be, nor one that is missing, is the cluster's doing. Every request of the guest takes
        from the disk's limit, so it is used up too if something else in the guest did that: QEMU's count tells.
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
        if (needed := self._in_flight() / self._pace(edge)) < SHALLOW:
            facts = {"in_flight": self._in_flight(), "needed": needed}
            return missed or Finding(Verdict.DISCARDED, Why.TOO_SHALLOW, facts)
        if shared := self.promised.group_name or self.in_force.group_name:
            return missed or Finding(Verdict.DISCARDED, Why.LIMITS_NOT_KNOWN, {"detail": f"group_name {shared}"})
        parameter = bound.parameter.name + ("_max" if edge == "high" and bound.bursts else "")
        return Finding(Verdict.SHORT, Why.CLUSTER_SHORT, _facts(parameter, getattr(bound, edge), self._taken(bound)))

    def beside_its_wait(self, missed: Finding | None) -> Finding | None:
        """The objective that was missed, and where no cluster could meet it, since the limit alone takes as long."""
        if missed is None or missed.why is not Why.OBJECTIVE_MISSED or not self._bounds():
            return missed
        # Little's law: so many are in flight, and so many a second may go.
        wait, objective = self._in_flight() / self._pace("low"), missed.facts["objective"]
        if not isinstance(objective, float) or wait < objective:
            return missed
        return replace(missed, facts={**missed.facts, "wait": wait})

    def kept(self) -> Finding:
        bound = self._most_used("low")
        if bound is None:
            return Finding(Verdict.NO_LIMIT, Why.UNLIMITED)
        return Finding(Verdict.KEPT, Why.WITHIN, _facts(bound.parameter.name, bound.high, self._taken(bound)))

    def _witnesses(self, *, over: bool = False) -> Iterator[tuple[float, Load]]:
        read, write, seen = self.measured.read, self.measured.write, self.counted
        yield (
            self.measured.seconds,
            Load(
                read_operations=read.operations if read else 0,
                write_operations=write.operations if write else 0,
                read_bytes=read.bytes if read else 0,
                write_bytes=write.bytes if write else 0,
            ),
        )
        if seen is not None:
            yield (
                seen.seconds,
                Load(
                    read_operations=0 if over else seen.read_operations,
                    write_operations=0 if over else seen.write_operations,
                    read_bytes=seen.read_bytes,
                    write_bytes=seen.write_bytes,
                ),
            )

    def _bounds(self) -> list[Bound]:
        """Of all limits that the job takes from. QEMU's count is held against fio's time too: before and after it
        the guest may have been idle."""
        request, seconds = Load.of(self.job), self.measured.seconds
        return [bound for limits in (self.in_force, self.promised) for bound in bounds(limits, seconds, request)]

    def _in_flight(self) -> int:
        return self.job.in_flight if self.measured.engine != "psync" else self.job.processes

    def _taken(self, bound: Bound) -> float:
        return max(bound.taken(load) for _, load in self._witnesses())

    def _share(self, bound: Bound, edge: Edge) -> float:
        of: float = getattr(bound, edge)
        return self._taken(bound) / of

    def _most_used(self, edge: Edge) -> Bound | None:
        """The limit that holds the run back, or would first; None where nothing limits this job."""
        return max(self._bounds(), key=lambda bound: self._share(bound, edge), default=None)

    def _pace(self, edge: Edge) -> float:
        """Requests of the job in a second that its limits allow."""
        reaches = (reach(limits, self.job, self.measured.seconds) for limits in (self.in_force, self.promised))
        total: float = min(getattr(each, edge) for each in reaches if each is not None)
        return total / self.measured.seconds

    def _burst_withheld(self) -> bool:
        """Whether the run could not use the burst that was left: it was above the base to the end, and never faster.

        At the base's pace in the end, the bucket is full: the burst was had, or somebody had it before. A pace that
        fell meanwhile may be that of a burst that just ended, as may one that nobody counted.
        """
        if self.counted is None or self.counted.last_rate is None:
            return False
        last, mean = self.counted.last_rate, self.counted.operations / self.counted.seconds
        more = 1 + self.tolerance
        return last > self._pace("low") * more and mean <= last * more


def _fullest(limits: Limits, seconds: float, load: Load) -> tuple[float, Bound | None]:
    """The limit of which the load takes the largest part of what it lets pass at the most, and that part."""
    every = ((bound.taken(load) / bound.high, bound) for bound in bounds(limits, seconds, load))
    return max(every, key=lambda each: each[0], default=(0.0, None))


def _facts(parameter: str, allowed: float, done: float) -> dict[str, object]:
    return {"parameter": parameter, "allowed": allowed, "done": done}


# --- latencies


def _missed(job: Job, measured: Measured, objective: Objective | None) -> Finding | None:
    """The first objective that was missed, and so the one that concerns the most requests."""
    miss = None if objective is None else next(_misses(job, measured, objective), None)
    if miss is None:
        return None
    return _guest_busy(measured) if _busy(measured) else Finding(Verdict.SLOW, Why.OBJECTIVE_MISSED, miss)


def _misses(job: Job, measured: Measured, objective: Objective) -> Iterator[dict[str, object]]:
    """Each in rising order, and of both directions: fair to the cluster by the width of fio's bucket, and exact for
    the slowest. Where nothing of a direction ever ended, all of it took as long as the run."""
    flows = dict(measured.flows)
    slowest: tuple[tuple[float | None, float], ...] = (
        () if objective.slowest is None else ((None, objective.slowest),)
    )
    for part, seconds in objective.quantiles + slowest:
        for direction in job.shares:
            flow = flows.get(direction)
            if flow is None:
                least = took = measured.seconds * _SECOND if measured.unfinished else 0
            elif part is None:
                least = took = flow.latency_max
            else:
                quantile = flow.latency.quantile(part)
                least, took = (quantile.lower, quantile.value) if quantile else (0, 0)
            if least > seconds * _SECOND:
                yield {
                    "direction": direction,
                    "quantile": 1.0 if part is None else part,
                    "objective": seconds,
                    "measured": took / _SECOND,
                }


def _busy(measured: Measured) -> bool:
    return measured.cpu_busy is not None and measured.cpu_busy > BUSY


def _guest_busy(measured: Measured) -> Finding:
    return Finding(Verdict.DISCARDED, Why.GUEST_BUSY, {"busy": measured.cpu_busy})
