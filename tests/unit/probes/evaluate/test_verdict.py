"""Is the promise kept? Every verdict, its boundaries, and what may not be blamed on the cluster."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.evaluate.verdict import judge
from plimsoll_probes.model.finding import Finding, Verdict
from plimsoll_probes.model.histogram import Histogram, bucket_of
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import Circumstances, Flow, Measured, QemuCounts
from tests import golden
from tests.unit.values import examples

MS = 10**6
BLOCK = 16384
SECONDS = 30.0
TOLERANCE = 0.05
READ, WRITE, MIXED = (Job(name=name) for name in JobName)
LIMIT = Limits(total_iops_sec=250)  # 7500 in 30 s, 7525 from an empty bucket
KEPT, OVER, SHORT = Verdict.KEPT, Verdict.OVER_LIMIT, Verdict.SHORT
QUICK = 2 * MS
P99 = Objective(quantiles=((0.99, 0.05),))


def flow(operations: int, latency: int = QUICK, *, slow: int = 0, slowest: int = 0) -> Flow | None:
    """Requests of 16 KiB that took ``latency`` each, so many of them ``slowest`` instead."""
    if not operations:
        return None
    counts = {bucket_of(latency): operations - slow} | ({bucket_of(slowest): slow} if slow else {})
    histogram = Histogram(tuple(sorted(counts.items())))
    return Flow(operations=operations, bytes=operations * BLOCK, latency=histogram, latency_max=max(latency, slowest))


def measured(reads: Flow | None = None, writes: Flow | None = None, **other: Any) -> Measured:
    return replace(
        Measured(
            seconds=SECONDS, read=reads, write=writes, unfinished=0, fio="fio-3.33", engine="libaio", cpu_busy=0.12
        ),
        **other,
    )


def counted(reads: int = 0, writes: int = 0, *, seconds: float = SECONDS + 2, **other: Any) -> QemuCounts:
    return replace(
        QemuCounts(
            seconds=seconds,
            read_operations=reads,
            write_operations=writes,
            read_bytes=reads * BLOCK,
            write_bytes=writes * BLOCK,
        ),
        **other,
    )


def actual(limits: Limits, **other: Any) -> Circumstances:
    """Promised, and in force from beginning to end."""
    return replace(Circumstances(promised=limits, before=limits, after=limits), **other)


def judged(
    run: Measured,
    circumstances: Circumstances | Limits = LIMIT,
    *,
    job: Job = READ,
    seen: QemuCounts | None = None,
    objective: Objective | None = None,
) -> Finding:
    around = actual(circumstances) if isinstance(circumstances, Limits) else circumstances
    finding = judge(job, run, seen, around, objective, TOLERANCE)
    json.dumps(dict(finding.facts), allow_nan=False)  # the history keeps it so
    return finding


def some(done: Any) -> Flow | None:
    """So many requests; or so many, the milliseconds of each, how many were slow, and the milliseconds of these."""
    if not isinstance(done, list):
        return flow(done)
    operations, latency, slow, slowest = [*done, 0, 0][:4]
    return flow(operations, round(latency * MS), slow=slow, slowest=round(slowest * MS))


def limits_of(case: dict[str, Any]) -> dict[str, Limits | None]:
    in_force = case.get("in_force")
    each = {"promised": case.get("promised"), "before": in_force, "after": in_force}
    if "limits" in case:
        limits = case["limits"]
        each = limits if "before" in limits else dict.fromkeys(each, limits)
    return {name: None if limits is None else Limits(**limits) for name, limits in each.items()}


def verdict_of(job: str, text: str) -> str:
    case = yaml.safe_load(f"{{{text}}}")
    disturbed = {name: True for name in ("frozen", "moved", "reduced") if name in case}
    run = measured(
        some(case.get("reads", 0)),
        some(case.get("writes", 0)),
        cpu_busy=case.get("busy", 0.12),
        engine=case.get("engine", "libaio"),
        unfinished=case.get("unfinished", 0),
    )
    goals = case.get("objective", {})
    objective = Objective(
        tuple((quantile, goal) for quantile, goal in goals.items() if quantile != "slowest"), goals.get("slowest")
    )
    finding = judged(
        run,
        Circumstances(**limits_of(case), **disturbed),
        job=Job(name=JobName(job)),
        seen=counted(**case["seen"]) if "seen" in case else None,
        objective=objective if goals else None,
    )
    return f"{finding.verdict}: {finding.why}: {dict(finding.facts)}"


def test_each_run_has_the_verdict_of_the_golden_file() -> None:
    golden.transcript("verdicts.txt", verdict_of)


def test_requests_of_which_no_latency_is_known_miss_no_objective() -> None:
    run = measured(Flow(operations=4000, bytes=4000 * BLOCK, latency=Histogram(()), latency_max=0))
    assert judged(run, Limits(), objective=replace(P99, slowest=0.2)).verdict is Verdict.NO_LIMIT


ORDER = {SHORT: 0, Verdict.INCONCLUSIVE: 0, KEPT: 1, OVER: 2}
rates = st.integers(10, 2000)
some_limits = st.one_of(
    st.builds(lambda rate: Limits(total_iops_sec=rate), rates),
    st.builds(lambda one, other: Limits(read_iops_sec=one, write_bytes_sec=other * BLOCK), rates, rates),
    st.builds(
        lambda rate, times, length: Limits(
            total_iops_sec=rate, total_iops_sec_max=rate * times, total_iops_sec_max_length=length
        ),
        rates,
        st.integers(1, 9),
        st.integers(1, 60),
    ),
)


@examples
@given(
    some_limits, some_limits, st.sampled_from([READ, WRITE, MIXED]), st.integers(0, 40_000), st.integers(0, 40_000)
)
def test_more_done_never_makes_a_run_look_shorter(
    promised: Limits, qemus: Limits, job: Job, some: int, more: int
) -> None:
    def verdict(done: int) -> Verdict:
        share = job.shares.get("read", 0)
        reads = round(done * share)
        run = measured(flow(reads), flow(done - reads))
        return judged(run, actual(qemus, promised=promised), job=job).verdict

    assert ORDER[verdict(some)] <= ORDER[verdict(some + more)]


@examples
@given(some_limits, st.sampled_from([READ, WRITE, MIXED]), st.integers(0, 40_000), st.integers(0, 40_000))
def test_the_hosts_count_can_only_excuse_the_cluster_or_convict_the_limit(
    limits: Limits, job: Job, done: int, beside: int
) -> None:
    reads = round(done * job.shares.get("read", 0))
    run = measured(flow(reads), flow(done - reads))
    alone = judged(run, limits, job=job).verdict
    seen = counted(reads + beside, done - reads + beside, seconds=SECONDS)
    assert ORDER[alone] <= ORDER[judged(run, limits, job=job, seen=seen).verdict]
