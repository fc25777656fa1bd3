"""A run against those before it: which of them count, and that nothing is lost in the sum."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.evaluate.compare import Then, compare
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import Circumstances
from tests.unit.results import MS, a_finding, a_flow, a_measurement, a_probe, a_subject
from tests.unit.values import NOON

DAY = timedelta(days=1)
RUN = a_probe(id=9)


def before(days: float = 1, **other: Any) -> Any:
    return a_probe(started=NOON - days * DAY, **other)


def test_runs_are_taken_together_as_if_they_had_been_one() -> None:
    first = a_measurement(a_flow([1 * MS, 9 * MS]), a_flow([5 * MS]), seconds=1)
    second = a_measurement(a_flow([2 * MS] * 5), None, seconds=3)
    then = Then.of([first, second])
    assert then is not None
    assert then.latency["read"] == Histogram.of([1 * MS, 9 * MS, *[2 * MS] * 5])
    assert then.latency["both"] == Histogram.of([1 * MS, 9 * MS, *[2 * MS] * 5, 5 * MS])
    assert then.latency_max == {"read": 9 * MS, "write": 5 * MS, "both": 9 * MS}
    assert then.iops == 8 / 4, "a longer run counts for more: not the mean of the means"
    assert then.bytes_per_second == 8 * 16384 / 4


def test_a_slower_run_is_told_by_how_much() -> None:
    comparison = compare(a_probe(latency=80 * MS, iops=100), [before(latency=40 * MS, iops=200)])
    assert comparison.then is not None
    assert (comparison.then.runs, comparison.then.iops) == (1, 200)
    (row,) = (row for row in comparison.rows if row.fraction == 0.99)
    assert row.direction == "read"
    assert row.ratio == pytest.approx(2, rel=0.016)


@pytest.mark.parametrize(
    "other",
    [
        before(subject=a_subject(guest_uuid="another")),
        before(subject=a_subject(directory="/srv")),
        before(job=JobName.WRITE),
        before(days=7.001),
        before(days=0),
        before(days=-1),
    ],
    ids=["guest", "directory", "job", "older", "itself", "later"],
)
def test_only_the_same_guest_directory_and_job_in_the_time_before_count(other: Any) -> None:
    comparison = compare(RUN, [other])
    assert comparison.then is None
    assert comparison.verdicts == {}


def test_the_first_moment_of_the_time_before_counts() -> None:
    assert compare(RUN, [before(days=7)]).then is not None


@pytest.mark.parametrize(("verdict", "why"), [(Verdict.INCONCLUSIVE, Why.FROZEN), (Verdict.REDUCED, Why.REDUCED)])
def test_a_run_that_is_not_judged_is_no_measure_of_what_is_usual_but_is_reported(verdict: Verdict, why: Why) -> None:
    unjudged = before(finding=a_finding(verdict, why))
    failed = replace(before(finding=a_finding(Verdict.FAILED, Why.NO_FIO)), measured=None)
    comparison = compare(RUN, [unjudged, failed, before(days=2)])
    assert comparison.then is not None
    assert comparison.then.runs == 1
    assert comparison.verdicts == {verdict: 1, Verdict.FAILED: 1, Verdict.KEPT: 1}


def test_other_parameters_measure_something_else_and_other_limits_are_reported() -> None:
    deeper = before(job=Job(name=JobName.READ, io_depth=32))
    looser = before(circumstances=Circumstances(before=Limits(total_iops_sec=500)))
    comparison = compare(RUN, [deeper, looser, before(days=3)])
    assert comparison.then is not None
    assert comparison.then.runs == 2
    assert (comparison.other_jobs, comparison.other_limits) == (1, 1)


def test_a_run_without_a_result_has_nothing_to_compare() -> None:
    failed = replace(RUN, measured=None)
    comparison = compare(failed, [before()])
    assert (comparison.now, comparison.rows) == (None, ())
    assert comparison.then is not None


def test_beyond_the_last_bucket_there_is_no_ratio() -> None:
    """The middle of a bucket that ends nowhere is no latency: twice of it may have been ten times."""
    stalled = a_probe(measured=a_measurement(a_flow([60_000 * MS])))
    (row, *_) = compare(stalled, [before()]).rows
    assert row.now is not None
    assert row.now.saturated
    assert row.ratio is None
    (row, *_) = compare(RUN, [replace(before(), measured=stalled.measured)]).rows
    assert row.ratio is None


def test_a_direction_that_was_not_there_then_is_unknown_and_not_0() -> None:
    mixed = a_probe(job=JobName.MIXED)
    reads_only = replace(before(job=JobName.MIXED), measured=a_measurement(a_flow([MS])))
    rows = [row for row in compare(mixed, [reads_only]).rows if row.direction == "write"]
    assert rows
    assert all((row.then, row.ratio) == (None, None) for row in rows)
