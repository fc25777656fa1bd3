"""What is added up of a run, and what is not; and that sums of sums are the sums of all."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.rules.model import Objective
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import ProbeResult
from plimsoll_probes.store.tally import Promise, Sums, Tally
from tests.unit.results import MS, a_flow, a_measurement, a_probe, a_subject
from tests.unit.values import GUEST, NOON, examples

P99 = Objective(((0.99, 0.05),))


def test_a_run_counts_by_its_verdict_direction_and_volume_type() -> None:
    measured = a_measurement(a_flow([3 * MS] * 5), a_flow([8 * MS] * 2))
    tally = Tally.of(a_probe(job=JobName.MIXED, measured=measured))
    assert (tally.guest_uuid, tally.guest_name, tally.volume_type) == (GUEST, "instance-00000001", "gold")
    assert (tally.job, tally.last) == (JobName.MIXED, NOON + timedelta(seconds=30))
    assert tally.sums.runs == {Verdict.KEPT: 1}
    assert tally.sums.latency == {"read": Histogram.of([3 * MS] * 5), "write": Histogram.of([8 * MS] * 2)}


def test_a_volume_without_a_type_counts_as_of_none() -> None:
    assert Tally.of(a_probe(subject=a_subject(volume_type=None))).volume_type == ""


@pytest.mark.parametrize("why", [Why.FROZEN, Why.MOVED, Why.LIMITS_CHANGED, Why.GUEST_BUSY])
def test_latencies_that_something_else_bent_count_for_nothing(why: Why) -> None:
    sums = Sums.of(a_probe(finding=Finding(Verdict.INCONCLUSIVE, why), objective=P99))
    assert sums == Sums({Verdict.INCONCLUSIVE: 1})


@pytest.mark.parametrize("why", [Why.TOO_SHALLOW, Why.LIMITS_UNKNOWN])
def test_a_run_that_only_says_nothing_of_its_limits_counts_for_its_objective(why: Why) -> None:
    """Those that miss it are ``slow``; without those that meet it the budget would seem to burn."""
    sums = Sums.of(a_probe(finding=Finding(Verdict.INCONCLUSIVE, why), objective=P99, iops=100))
    assert sums.promised == {0.99: Promise(3000, 0)}
    assert sums.latency["read"].count == 3000


def test_of_a_failed_run_nothing_is_believed_but_that_it_failed() -> None:
    sums = Sums.of(a_probe(finding=Finding(Verdict.FAILED, Why.CONTRADICTED), objective=P99))
    assert sums == Sums({Verdict.FAILED: 1})


@pytest.mark.parametrize(
    ("number", "promised"),
    # The guest has 8 in flight for the probe; what else it says it has is not the probe's, or is a lie.
    [(5, {0.99: Promise(5, 5)}), (208, {0.99: Promise(8, 8)}), (10**17, {0.99: Promise(8, 8)}), (0, {}), (None, {})],
)
def test_requests_that_never_ended_are_missed_where_they_were_counted(
    number: int | None, promised: dict[float, Promise]
) -> None:
    """What ended has no latency that is known."""
    finding = Finding(Verdict.FAILED, Why.UNFINISHED, {"seconds": 90, "done": 412, "unfinished": number})
    assert Sums.of(a_probe(finding=finding, objective=P99, measured=None)) == Sums(
        {Verdict.FAILED: 1}, promised=promised
    )
    assert Sums.of(a_probe(finding=finding, measured=None)) == Sums({Verdict.FAILED: 1})


# --- objectives


@pytest.mark.parametrize(
    ("latencies", "missed"),
    [
        ([49 * MS] * 99 + [51 * MS], 1),
        ([49 * MS] * 10, 0),
        # fio's bucket of 50 ms is [49.807360, 50.331648): nobody knows which side of 50 ms they were.
        ([50 * MS] * 10, 10),
        ([49_807_359] * 10, 0),
        ([20 * 10**9] * 3, 3),
    ],
)
def test_what_may_have_taken_longer_than_promised_is_counted_as_that(latencies: list[int], missed: int) -> None:
    measured = a_measurement(a_flow(latencies))
    sums = Sums.of(a_probe(measured=measured, objective=P99))
    assert sums.promised == {0.99: Promise(len(latencies), missed)}


def test_a_time_that_is_a_buckets_last_nanosecond_leaves_no_doubt() -> None:
    sums = Sums.of(a_probe(measured=a_measurement(a_flow([50 * MS])), objective=Objective(((0.99, 0.050331647),))))
    assert sums.promised == {0.99: Promise(1, 0)}


def test_each_quantile_has_its_own_time_and_both_directions_count() -> None:
    measured = a_measurement(a_flow([10 * MS] * 60), a_flow([30 * MS] * 40))
    objective = Objective(((0.5, 0.02), (0.999, 0.2)), slowest=0.001)
    sums = Sums.of(a_probe(job=JobName.MIXED, measured=measured, objective=objective))
    assert sums.promised == {0.5: Promise(100, 40), 0.999: Promise(100, 0)}


def test_without_an_objective_nothing_was_promised() -> None:
    assert Sums.of(a_probe()).promised == {}


@pytest.mark.parametrize(("seconds", "missed"), [(30.0, 8), (0.04, 0)])
def test_requests_of_a_disk_that_hung_from_the_first_one_on_took_as_long_as_the_run(
    seconds: float, missed: int
) -> None:
    """Else the worst outage of all would burn nothing."""
    measured = a_measurement(seconds=seconds, unfinished=8)
    sums = Sums.of(a_probe(measured=measured, objective=P99, finding=Finding(Verdict.SLOW, Why.OBJECTIVE_MISSED)))
    assert sums.promised == {0.99: Promise(8, missed)}


def test_requests_that_were_under_way_at_the_end_of_a_good_run_are_neither_good_nor_bad() -> None:
    measured = a_measurement(a_flow([MS] * 10), unfinished=8)
    assert Sums.of(a_probe(measured=measured, objective=P99)).promised == {0.99: Promise(10, 0)}


# --- sums

_runs = st.builds(
    lambda verdict, latencies, objective, job: a_probe(
        job=job,
        finding=Finding(verdict, Why.WITHIN),
        objective=objective,
        measured=a_measurement(a_flow(latencies), a_flow(latencies[1:]) if job is not JobName.READ else None),
    ),
    st.sampled_from(Verdict),
    st.lists(st.integers(0, 20 * 10**9), min_size=1, max_size=6),
    st.none() | st.just(P99) | st.just(Objective(((0.5, 0.01),))),
    st.sampled_from(JobName),
)


@examples
@given(st.lists(_runs, max_size=6), st.randoms())
def test_sums_are_the_same_in_whatever_order_they_were_added_up(runs: list[ProbeResult], random: object) -> None:
    each = [Sums.of(run) for run in runs]
    shuffled = [*each]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    total = Sums.together(each)
    assert total == reduce(lambda left, right: right.plus(left), shuffled, Sums())
    assert sum(total.runs.values()) == len(runs)
    reads = Histogram.merged(one.latency["read"] for one in each if "read" in one.latency)
    assert total.latency.get("read", Histogram()) == reads


def test_a_tally_uses_the_guests_newest_name_and_the_latest_of_its_runs() -> None:
    first, second = a_probe(), a_probe(subject=a_subject(guest_name="instance-0000beef"), started=NOON)
    later = a_probe(started=NOON + timedelta(days=1))
    tally = Tally.of(second).after(Tally.of(later)).after(Tally.of(first))
    assert (tally.guest_name, tally.last) == ("instance-0000beef", later.ended)
    assert tally.sums.runs == {Verdict.KEPT: 3}
