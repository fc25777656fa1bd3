"""Is the promise kept? Every verdict, its boundaries, and what may not be blamed on the cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.evaluate.verdict import judge
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.histogram import Histogram, bucket_of
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import Circumstances, Counted, Flow, Measured
from tests.unit.values import examples

MS = 10**6
BLOCK = 16384
SECONDS = 30.0
TOLERANCE = 0.05
READ, WRITE, MIXED = (Job(name) for name in JobName)
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
    return Flow(operations, operations * BLOCK, histogram, max(latency, slowest))


def measured(reads: Flow | None = None, writes: Flow | None = None, **other: Any) -> Measured:
    return replace(Measured(SECONDS, reads, writes, 0, "fio-3.33", "libaio", 0.12), **other)


def counted(reads: int = 0, writes: int = 0, *, seconds: float = SECONDS + 2, **other: Any) -> Counted:
    return replace(Counted(seconds, reads, writes, reads * BLOCK, writes * BLOCK), **other)


def actual(limits: Limits, **other: Any) -> Circumstances:
    """Promised, and in force from beginning to end."""
    return replace(Circumstances(promised=limits, before=limits, after=limits), **other)


def judged(
    run: Measured,
    circumstances: Circumstances | Limits = LIMIT,
    *,
    job: Job = READ,
    seen: Counted | None = None,
    objective: Objective | None = None,
) -> Finding:
    around = actual(circumstances) if isinstance(circumstances, Limits) else circumstances
    finding = judge(job, run, seen, around, objective, TOLERANCE)
    json.dumps(dict(finding.facts), allow_nan=False)  # the history keeps it so
    return finding


def said(finding: Finding) -> tuple[Verdict, Why]:
    return finding.verdict, finding.why


# --- discarded

FAR_TOO_MUCH = measured(flow(90_000))


@pytest.mark.parametrize(
    ("around", "why"),
    [
        (actual(LIMIT, frozen=True), Why.FROZEN),
        (actual(LIMIT, moved=True), Why.MOVED),
        (actual(LIMIT, after=Limits(total_iops_sec=500)), Why.LIMITS_CHANGED),
        (actual(LIMIT, after=Limits()), Why.LIMITS_CHANGED),
        # Where more than one is so: the one that explains the other.
        (actual(LIMIT, frozen=True, moved=True), Why.FROZEN),
        (actual(LIMIT, moved=True, after=None), Why.MOVED),
        (actual(LIMIT, promised=None, after=Limits()), Why.LIMITS_CHANGED),
    ],
)
def test_what_bent_a_run_discards_it_whatever_it_shows(around: Circumstances, why: Why) -> None:
    slow = replace(P99, slowest=0.001)
    assert said(judged(FAR_TOO_MUCH, around, objective=slow)) == (Verdict.INCONCLUSIVE, why)


def test_changed_limits_are_told_under_libvirts_names() -> None:
    facts = judged(measured(flow(7500)), actual(LIMIT, after=Limits())).facts
    assert facts == {"before": {"total_iops_sec": 250}, "after": {}}


@pytest.mark.parametrize("missing", ["promised", "before", "after"])
def test_unknown_limits_prove_nothing_of_the_pace(missing: str) -> None:
    for run in (FAR_TOO_MUCH, measured(flow(10))):
        finding = judged(run, actual(LIMIT, **{missing: None}), objective=P99)
        assert said(finding) == (Verdict.INCONCLUSIVE, Why.LIMITS_UNKNOWN)
        assert finding.facts == {"detail": missing}


def test_all_limits_that_are_unknown_are_told() -> None:
    assert judged(FAR_TOO_MUCH, Circumstances()).facts == {"detail": "promised, before, after"}


def test_a_missed_objective_is_told_also_where_limits_are_unknown() -> None:
    assert said(judged(measured(flow(90, 60 * MS)), Circumstances(), objective=P99)) == (
        Verdict.SLOW,
        Why.OBJECTIVE_MISSED,
    )


@pytest.mark.parametrize(("busy", "verdict"), [(0.9, SHORT), (0.91, Verdict.INCONCLUSIVE), (None, SHORT)])
def test_a_guest_without_processor_time_does_not_measure_the_cluster(busy: float | None, verdict: Verdict) -> None:
    assert judged(measured(flow(3000), cpu_busy=busy)).verdict is verdict


def test_a_busy_guest_is_not_slow_and_its_kept_promise_is_kept() -> None:
    busy = measured(flow(7500, 60 * MS), cpu_busy=0.97)
    finding = judged(busy, objective=P99)
    assert said(finding) == (Verdict.INCONCLUSIVE, Why.GUEST_BUSY)
    assert finding.facts == {"busy": 0.97}
    assert judged(busy).verdict is KEPT
    assert judged(busy, Limits()).verdict is Verdict.NO_LIMIT
    assert judged(replace(FAR_TOO_MUCH, cpu_busy=0.97)).verdict is OVER


@pytest.mark.parametrize(
    ("rate", "engine", "verdict"),
    [
        (8000, "libaio", SHORT),  # eight in flight, a millisecond each
        (8001, "libaio", Verdict.INCONCLUSIVE),
        (4000, "psync", SHORT),  # one in flight of each process, whatever the depth
        (4001, "psync", Verdict.INCONCLUSIVE),
    ],
)
def test_a_limit_out_of_a_jobs_reach_is_not_held_against_the_cluster(
    rate: int, engine: str, verdict: Verdict
) -> None:
    run = measured(flow(30_000), engine=engine)
    finding = judged(run, Limits(total_iops_sec=rate))
    assert finding.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert finding.why is Why.TOO_SHALLOW
        assert finding.facts["in_flight"] == (8 if engine == "libaio" else 4)
        assert finding.facts["needed"] == pytest.approx(0.001, rel=0.001)


def test_a_job_that_cannot_reach_its_limit_may_still_be_slow() -> None:
    run = measured(flow(3000, 60 * MS))
    assert judged(run, Limits(total_iops_sec=50_000), objective=P99).verdict is Verdict.SLOW


def test_a_limit_shared_with_other_disks_does_not_blame_the_cluster() -> None:
    shared = Limits(total_iops_sec=250, group_name="pair")
    around = actual(LIMIT, promised=shared)  # QEMU's own word has no groups
    finding = judged(measured(flow(3000)), around)
    assert said(finding) == (Verdict.INCONCLUSIVE, Why.LIMITS_UNKNOWN)
    assert finding.facts == {"detail": "group_name pair"}
    assert judged(measured(flow(7500)), around).verdict is KEPT
    assert judged(FAR_TOO_MUCH, around).verdict is OVER


# --- over the limit, within it, short of it


@pytest.mark.parametrize(
    ("done", "verdict", "allowed"),
    [
        (0, SHORT, 7500),
        (7124, SHORT, 7500),  # 95 % of base × time is 7125
        (7125, KEPT, 7525),
        (7500, KEPT, 7525),
        (7901, KEPT, 7525),  # 105 % of 7525 is 7901.25
        (7902, OVER, 7525),
    ],
)
def test_the_verdict_turns_where_the_tolerance_ends(done: int, verdict: Verdict, allowed: float) -> None:
    finding = judged(measured(flow(done)))
    why = {SHORT: Why.CLUSTER_SHORT, KEPT: Why.WITHIN, OVER: Why.TOO_MUCH}[verdict]
    assert said(finding) == (verdict, why)
    assert finding.facts == {"parameter": "total_iops_sec", "allowed": allowed, "done": done}


@pytest.mark.parametrize(("done", "verdict"), [(6321, KEPT), (6322, OVER)])
@pytest.mark.parametrize("name", ["total_iops_sec", "total_bytes_sec"])
@pytest.mark.parametrize("job", [READ, WRITE], ids=["read", "write"])
def test_what_is_over_by_just_the_tolerance_is_kept(job: Job, name: str, done: int, verdict: Verdict) -> None:
    one_way = flow(done)  # 105 % of 6020 is 6321
    run = measured(one_way) if job is READ else measured(None, one_way)
    assert judged(run, limit_of(name, 200), job=job).verdict is verdict


def limit_of(name: str, rate: int = 100) -> Limits:
    """So many requests a second of 16 KiB, under this name."""
    return Limits(**{name: rate * BLOCK if "bytes" in name else rate})


@pytest.mark.parametrize(
    ("name", "reads", "writes", "verdict"),
    [
        # 3000 are allowed.
        ("read_iops_sec", 3400, 10, OVER),
        ("write_iops_sec", 10, 3400, OVER),
        ("total_iops_sec", 1700, 1700, OVER),
        ("read_bytes_sec", 3400, 10, OVER),
        ("write_bytes_sec", 10, 3400, OVER),
        ("total_bytes_sec", 1700, 1700, OVER),
        ("read_iops_sec", 3000, 9000, KEPT),
        ("write_bytes_sec", 9000, 3000, KEPT),
        ("total_iops_sec", 1500, 1500, KEPT),
        ("read_iops_sec", 2000, 2000, SHORT),
        ("write_bytes_sec", 9000, 2000, SHORT),
        ("total_bytes_sec", 1300, 1300, SHORT),
    ],
)
def test_each_limit_is_held_against_its_own_direction_and_unit(
    name: str, reads: int, writes: int, verdict: Verdict
) -> None:
    finding = judged(measured(flow(reads), flow(writes)), limit_of(name), job=MIXED)
    assert finding.verdict is verdict
    assert finding.facts["parameter"] == name


@pytest.mark.parametrize(("done", "verdict"), [(1800, OVER), (1500, KEPT), (1300, SHORT)])
def test_a_mixed_job_at_the_pace_of_its_slower_half_is_not_short(done: int, verdict: Verdict) -> None:
    limits = Limits(read_iops_sec=150, write_iops_sec=50)  # so 50 reads a second are all that come of it
    finding = judged(measured(flow(done), flow(done)), limits, job=MIXED)
    assert finding.verdict is verdict
    assert finding.facts["parameter"] == "write_iops_sec"


def test_the_limit_that_binds_is_the_one_told() -> None:
    both = Limits(total_iops_sec=500, total_bytes_sec=100 * BLOCK)
    assert judged(measured(flow(3000)), both).facts["parameter"] == "total_bytes_sec"
    assert judged(measured(flow(2000)), both).facts["parameter"] == "total_bytes_sec"


def test_two_limits_that_are_used_alike_are_judged_as_one() -> None:
    both = Limits(total_iops_sec=250, total_bytes_sec=250 * BLOCK)
    assert said(judged(measured(flow(7500)), both)) == (KEPT, Why.WITHIN)
    assert said(judged(measured(flow(8500)), both)) == (OVER, Why.TOO_MUCH)


@pytest.mark.parametrize(("done", "verdict"), [(3200, OVER), (3000, KEPT), (2800, SHORT)])
def test_a_request_above_size_iops_sec_counts_as_several(done: int, verdict: Verdict) -> None:
    limits = Limits(total_iops_sec=400, size_iops_sec=4096)
    finding = judged(measured(flow(done)), limits)
    assert finding.verdict is verdict
    assert finding.facts["done"] == 4 * done


def test_bytes_that_the_host_counts_beyond_the_limit_are_over_it_too() -> None:
    run, limits = measured(flow(5000)), Limits(total_bytes_sec=250 * BLOCK)
    # 250 × 32 s + 25 is 8025, and 5 % more 8426.
    assert judged(run, limits, seen=counted(8400)).verdict is KEPT
    assert said(judged(run, limits, seen=counted(8430))) == (OVER, Why.TOO_MUCH)
    assert judged(run, limits, seen=counted(5000, 3430)).verdict is OVER


def test_requests_that_the_host_counts_may_be_neighbours_that_went_through_the_throttle_as_one() -> None:
    """A tenant who copies a large file beside the probe is not said to have broken the limit."""
    assert judged(measured(flow(7500)), seen=counted(30000)).verdict is KEPT
    assert judged(measured(None, flow(7500)), job=WRITE, seen=counted(0, 30000)).verdict is KEPT


@pytest.mark.parametrize("done", [7500, 4000])
def test_what_the_guest_did_beside_the_job_is_over_its_own_limit(done: int) -> None:
    limits = Limits(read_bytes_sec=250 * BLOCK, write_bytes_sec=10 * BLOCK)
    finding = judged(measured(flow(done)), limits, seen=counted(done, 900))
    assert said(finding) == (OVER, Why.TOO_MUCH)
    assert finding.facts["parameter"] == "write_bytes_sec"


@pytest.mark.parametrize(
    ("qemus", "why"),
    [
        (Limits(), Why.NOT_SET),
        (Limits(total_iops_sec=500), Why.NOT_SET),
        (Limits(total_iops_sec=250, total_iops_sec_max=2500), Why.NOT_SET),
        (Limits(read_iops_sec=9000), Why.NOT_SET),
        (Limits(total_bytes_sec=2**40), Why.NOT_SET),
        (LIMIT, Why.TOO_MUCH),
        (Limits(total_iops_sec=100), Why.TOO_MUCH),
    ],
)
def test_over_the_limit_is_told_apart_by_what_qemu_has_actual(qemus: Limits, why: Why) -> None:
    finding = judged(measured(flow(8500)), actual(qemus, promised=LIMIT))
    assert said(finding) == (OVER, why)
    known = {"parameter": "total_iops_sec", "allowed": 7525.0, "done": 8500.0}
    assert finding.facts == (known | {"actual": qemus.in_effect()} if why is Why.NOT_SET else known)


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (counted(4000, 3500), KEPT),  # something else in the guest used the limit up
        (counted(4000, 3000), SHORT),
        (counted(4000), SHORT),
        (None, SHORT),
    ],
)
def test_a_limit_that_the_guest_used_up_elsewhere_is_not_short(seen: Counted | None, verdict: Verdict) -> None:
    assert judged(measured(flow(4000)), seen=seen).verdict is verdict


@pytest.mark.parametrize(
    ("done", "seen", "own"),
    [(4000, 7500, 4000.0), (7400, 7500, None), (7500, 9000, None)],
    ids=["the guest took the rest", "fio had all", "beside a limit that fio used up"],
)
def test_a_promise_that_only_the_guest_as_a_whole_saw_kept_says_what_fio_had(
    done: int, seen: int, own: float | None
) -> None:
    finding = judged(measured(flow(done)), seen=counted(seen))
    assert (finding.verdict, finding.facts.get("own")) == (KEPT, own)


def test_use_of_the_other_direction_does_not_excuse_the_cluster() -> None:
    limits = Limits(read_iops_sec=250, write_iops_sec=250)
    assert judged(measured(flow(4000)), limits, seen=counted(4000, 7500)).verdict is SHORT


@pytest.mark.parametrize(
    ("qemus", "done", "verdict"),
    [
        (Limits(total_iops_sec=100), 3000, KEPT),  # stricter than promised: no fault of the cluster
        (Limits(total_iops_sec=100), 2000, SHORT),
        (Limits(total_iops_sec=900), 7500, KEPT),  # looser: the promise is what counts
        (Limits(total_iops_sec=900), 6000, SHORT),
        (Limits(total_iops_sec=90_000), 6000, SHORT),  # out of the job's reach, and the promise is not
        (Limits(), 6000, SHORT),
    ],
)
def test_the_cluster_owes_the_lesser_of_promise_and_limit_actual(qemus: Limits, done: int, verdict: Verdict) -> None:
    assert judged(measured(flow(done)), actual(qemus, promised=LIMIT)).verdict is verdict


# --- bursts

LONG = Limits(total_iops_sec=100, total_iops_sec_max=400, total_iops_sec_max_length=10)  # 3000 to 7000


@pytest.mark.parametrize(
    ("done", "last", "verdict"),
    [
        (7000, None, KEPT),
        (7000, 400.0, KEPT),
        (7000, 100.0, KEPT),
        (7400, None, OVER),
        (2800, None, SHORT),
        (2800, 100.0, SHORT),
        (2849, None, SHORT),
        (2850, None, KEPT),  # 95 % of the base
        (3000, 100.0, KEPT),  # it was used up before
        (3150, 105.0, KEPT),  # in the end at the base, within the tolerance
        (3200, 104.0, KEPT),
        (3780, 120.0, SHORT),  # as fast in the end as before, within the tolerance
        (4500, 100.0, KEPT),  # some of it was left
        (4500, 105.0, KEPT),
        (4500, 150.0, SHORT),  # above the base to the end, so there was some left, and it did not come
        (4500, None, KEPT),  # nobody knows
        (6000, 120.0, KEPT),  # the burst ended within the last part
        (6000, 200.0, SHORT),
        (6649, 300.0, SHORT),
        (6650, 300.0, KEPT),  # 95 % of base and burst
    ],
)
def test_a_burst_that_was_left_and_did_not_come_is_short(done: int, last: float | None, verdict: Verdict) -> None:
    seen = counted(done, seconds=SECONDS, last_rate=last)
    finding = judged(measured(flow(done)), LONG, seen=seen)
    assert finding.verdict is verdict
    if verdict is SHORT:
        short_of_burst = done >= 3000
        assert finding.facts["parameter"] == ("total_iops_sec_max" if short_of_burst else "total_iops_sec")
        assert finding.facts["allowed"] == (7000 if short_of_burst else 3000)


def test_a_limit_without_a_burst_that_is_reached_ends_the_question_of_the_burst() -> None:
    limits = replace(LONG, total_bytes_sec=150 * BLOCK)
    seen = counted(4500, seconds=SECONDS, last_rate=150.0)
    assert judged(measured(flow(4500)), limits, seen=seen).verdict is KEPT
    # and one that is not is what the run is short of.
    seen = counted(4000, seconds=SECONDS, last_rate=133.0)
    finding = judged(measured(flow(4000)), limits, seen=seen)
    assert (finding.verdict, finding.facts["parameter"]) == (SHORT, "total_bytes_sec")


def test_a_limit_without_a_burst_is_not_held_against_the_last_pace() -> None:
    # The host's reading may be late by a moment, and the guest's other requests smaller.
    assert judged(measured(flow(7130)), seen=counted(7130, last_rate=280.0)).verdict is KEPT


def test_a_burst_out_of_the_jobs_reach_is_not_held_against_the_cluster() -> None:
    limits = Limits(total_iops_sec=1000, total_iops_sec_max=20_000, total_iops_sec_max_length=60)
    seen = counted(60_000, seconds=SECONDS, last_rate=2000.0)
    assert said(judged(measured(flow(60_000)), limits, seen=seen)) == (Verdict.INCONCLUSIVE, Why.TOO_SHALLOW)


# --- slow


@pytest.mark.parametrize(
    ("slow", "slowest", "verdict"),
    [
        (75, 60 * MS, KEPT),  # 1 % of 7500
        (76, 60 * MS, Verdict.SLOW),
        (76, 50 * MS, KEPT),
        # The bucket that 50 ms lies in ends at 50.33 ms: whatever lies in it may have taken less.
        (76, 50_330_000, KEPT),
        (76, 50_340_000, Verdict.SLOW),
    ],
)
def test_an_objective_is_missed_beyond_its_part_and_beyond_the_width_of_a_bucket(
    slow: int, slowest: int, verdict: Verdict
) -> None:
    finding = judged(measured(flow(7500, slow=slow, slowest=slowest)), objective=P99)
    assert finding.verdict is verdict


def test_the_objective_told_is_the_first_that_was_missed_and_the_direction_that_missed_it() -> None:
    objective = Objective(quantiles=((0.5, 0.01), (0.9, 0.03), (0.99, 0.05)), slowest=0.2)
    run = measured(flow(3750), flow(3750, slow=400, slowest=300 * MS))
    finding = judged(run, job=MIXED, objective=objective)
    assert said(finding) == (Verdict.SLOW, Why.OBJECTIVE_MISSED)
    facts = dict(finding.facts)
    assert facts.pop("measured") == pytest.approx(0.3, rel=1 / 128)
    # Eight are in flight, and 250 a second may go: each waits 32 ms for its turn, whatever the cluster does.
    assert facts == {"direction": "write", "quantile": 0.9, "objective": 0.03, "wait": 0.032}


def test_an_objective_that_is_just_the_wait_that_the_limit_makes_cannot_be_met() -> None:
    finding = judged(measured(flow(7500, 50 * MS)), objective=Objective(quantiles=((0.9, 0.032),)))
    assert finding.facts["wait"] == 0.032


def test_an_objective_above_the_wait_that_the_limit_makes_is_the_clusters_to_meet() -> None:
    objective = Objective(quantiles=((0.9, 0.04),))
    finding = judged(measured(flow(7500, 50 * MS)), objective=objective)
    assert said(finding) == (Verdict.SLOW, Why.OBJECTIVE_MISSED)
    assert "wait" not in finding.facts


@pytest.mark.parametrize(("slowest", "verdict"), [(200 * MS, KEPT), (200 * MS + 1, Verdict.SLOW)])
def test_the_slowest_request_is_held_against_its_objective_to_the_nanosecond(slowest: int, verdict: Verdict) -> None:
    finding = judged(measured(flow(7500, slow=1, slowest=slowest)), objective=Objective(slowest=0.2))
    assert finding.verdict is verdict
    if verdict is Verdict.SLOW:
        assert finding.facts == {"direction": "read", "quantile": 1.0, "objective": 0.2, "measured": slowest / 10**9}


def test_a_run_that_is_short_is_not_called_slow_and_an_unlimited_one_may_be() -> None:
    slow = measured(flow(3000, 60 * MS))
    assert judged(slow, objective=P99).verdict is SHORT
    assert judged(slow, Limits(), objective=P99).verdict is Verdict.SLOW


def test_a_direction_of_which_nothing_ended_missed_every_objective() -> None:
    hung = measured(flow(4000), None, unfinished=8)
    finding = judged(hung, Limits(), job=MIXED, objective=P99)
    assert said(finding) == (Verdict.SLOW, Why.OBJECTIVE_MISSED)
    assert (finding.facts["direction"], finding.facts["measured"]) == ("write", SECONDS)
    # and one of which nothing was begun, none
    assert judged(measured(flow(4000)), Limits(), job=MIXED, objective=P99).verdict is Verdict.NO_LIMIT


@pytest.mark.parametrize(
    ("around", "verdict"),
    [
        (actual(LIMIT), KEPT),
        (actual(Limits()), Verdict.NO_LIMIT),
        (actual(Limits(total_iops_sec=100)), OVER),
        (actual(Limits(total_iops_sec=600)), SHORT),
        (actual(LIMIT, frozen=True), Verdict.INCONCLUSIVE),
        (Circumstances(), Verdict.INCONCLUSIVE),
    ],
)
def test_what_hung_is_never_hidden(around: Circumstances, verdict: Verdict) -> None:
    stalled = measured(flow(7500, slow=7, slowest=23 * 10**9), unfinished=3)
    finding = judged(stalled, around)
    assert finding.verdict is verdict
    assert (finding.facts["saturated"], finding.facts["unfinished"]) == (7, 3)


def test_requests_of_which_no_latency_is_known_miss_no_objective() -> None:
    run = measured(Flow(4000, 4000 * BLOCK, Histogram(()), 0))
    assert judged(run, Limits(), objective=replace(P99, slowest=0.2)).verdict is Verdict.NO_LIMIT


def test_a_quantile_beyond_fios_last_bucket_misses_any_objective_below_it() -> None:
    stalled = measured(flow(7500, slow=100, slowest=23 * 10**9))
    assert judged(stalled, objective=Objective(quantiles=((0.99, 17.0),))).verdict is Verdict.SLOW


# --- no limit


@pytest.mark.parametrize(
    ("limits", "job"),
    [(Limits(), READ), (Limits(write_iops_sec=10), READ), (Limits(read_bytes_sec=4096), WRITE)],
    ids=["none", "of writes", "of reads"],
)
def test_a_job_that_nothing_limits_is_not_judged_by_its_pace(limits: Limits, job: Job) -> None:
    run = measured(flow(90_000)) if job is READ else measured(None, flow(90_000))
    assert said(judged(run, limits, job=job)) == (Verdict.NO_LIMIT, Why.UNLIMITED)
    assert said(judged(replace(run, cpu_busy=1.0), limits, job=job)) == (Verdict.NO_LIMIT, Why.UNLIMITED)


# --- all together

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


def test_a_guest_that_gets_its_reduced_limits_is_not_kept_and_one_that_gets_less_is_short() -> None:
    promise = Limits(total_iops_sec=2 * LIMIT.total_iops_sec)
    around = replace(actual(LIMIT), promised=promise, reduced=True)
    pace = LIMIT.total_iops_sec
    run = measured(flow(pace * 30))
    assert judged(run, actual(LIMIT)).verdict is Verdict.KEPT
    assert said(judged(run, around)) == (Verdict.INCONCLUSIVE, Why.REDUCED)
    assert judged(measured(flow(pace * 15)), around).verdict is not Verdict.INCONCLUSIVE
