"""What a report shows of the runs: how guests stand, and which figures are made of which runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Circumstances, ProbeResult
from plimsoll_probes.output.report.gathered import FRACTIONS, Standing, Summary, allowed_iops, curve, gather
from plimsoll_probes.output.report.span import ReportPeriod
from tests.unit.results import LIMIT, MS, a_finding, a_flow, a_measurement, a_probe, a_subject
from tests.unit.values import NOON

DAY = ReportPeriod(NOON - timedelta(days=1), NOON)
HOUR = timedelta(hours=1)
KEPT = a_finding()
SHORT = a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, parameter="total_iops_sec", allowed=7500.0, done=2850)
SLOW = a_finding(Verdict.SLOW, Why.OBJECTIVE_MISSED, direction="read", quantile=0.99, objective=0.05, measured=1.4)
OVER = a_finding(Verdict.OVER_LIMIT, Why.TOO_MUCH, parameter="total_iops_sec", allowed=7525.0, done=9000)
FREE = a_finding(Verdict.NO_LIMIT, Why.UNLIMITED)
FAILED = a_finding(Verdict.FAILED, Why.NO_FIO)
INCONCLUSIVE = a_finding(Verdict.INCONCLUSIVE, Why.MOVED)
REDUCED = a_finding(Verdict.REDUCED, Why.REDUCED)


def run(
    hours_ago: float, finding: Finding = KEPT, guest: str = "a", latencies: Sequence[int] = (), **other: Any
) -> Any:
    """A few requests, so that many runs cost little."""
    measured = None if finding is FAILED else a_measurement(a_flow(latencies or [41 * MS] * 10))
    return a_probe(
        **{
            "iops": 1,
            "started": NOON - hours_ago * HOUR,
            "finding": finding,
            "measured": measured,
            "subject": a_subject(guest_uuid=guest, guest_name=f"instance-{guest}"),
        }
        | other
    )


def gathered(*runs: ProbeResult, every: timedelta = timedelta(days=1)) -> Summary:
    """``every`` is how often the guests are probed."""
    newest_first = sorted(runs, key=lambda each: each.started, reverse=True)
    intervals = {each.subject.guest_uuid: every for each in runs}
    return gather(newest_first, DAY, intervals, intervals)


def standing(*runs: ProbeResult) -> Standing:
    (guest,) = gathered(*runs).guests
    return guest.standing


@pytest.mark.parametrize(
    ("oldest_first", "stands"),
    [
        ([SHORT, KEPT], Standing.RECOVERED),
        ([KEPT, SHORT], Standing.BROKEN),
        ([KEPT, SLOW], Standing.BROKEN),
        ([KEPT, OVER], Standing.OVER),
        ([KEPT, KEPT], Standing.KEPT),
        ([KEPT, FREE], Standing.UNLIMITED),
        ([SHORT, FAILED], Standing.BROKEN),
        ([SHORT, INCONCLUSIVE], Standing.BROKEN),
        ([KEPT, FAILED], Standing.FAILING),
        ([KEPT, INCONCLUSIVE], Standing.KEPT),
        ([SHORT, REDUCED], Standing.BROKEN),
        ([KEPT, REDUCED], Standing.KEPT),
        ([REDUCED], Standing.UNKNOWN),
        ([FAILED, INCONCLUSIVE], Standing.UNKNOWN),
    ],
    ids=lambda each: each.name if isinstance(each, Standing) else "-".join(finding.verdict for finding in each),
)
def test_a_guest_stands_as_its_newest_run_says_that_proves_something(
    oldest_first: list[Finding], stands: Standing
) -> None:
    assert standing(*(run(10 - number, finding) for number, finding in enumerate(oldest_first))) is stands


def test_one_job_in_trouble_is_a_guest_in_trouble_and_the_others_are_named() -> None:
    told = gathered(
        run(3, SHORT, job=JobName.READ),
        run(2, KEPT, job=JobName.WRITE),
        run(2, SHORT, job=JobName.MIXED),
        run(1, SHORT, job=JobName.READ),
    )
    (guest,) = told.guests
    assert guest.standing is Standing.BROKEN
    assert guest.worst.result.job.name in (JobName.READ, JobName.MIXED)
    assert {guest.worst.result.job.name, *guest.others} == {JobName.READ, JobName.MIXED}
    assert (guest.broken, guest.judged) == (3, 4)


def test_the_run_that_is_shown_is_the_newest_that_broke_the_promise() -> None:
    (guest,) = gathered(run(5, SHORT), run(4, SHORT), run(3, KEPT)).guests
    assert guest.worst.result.started == NOON - 4 * HOUR
    assert guest.well_since == NOON - 3 * HOUR


def test_well_since_is_the_first_run_of_the_good_ones_in_a_row() -> None:
    (guest,) = gathered(run(9, KEPT), run(8, SLOW), run(7, KEPT), run(6, FAILED), run(5, KEPT)).guests
    assert guest.well_since == NOON - 7 * HOUR


def test_guests_of_one_name_are_told_apart_by_their_uuid() -> None:
    same = {"guest_name": "instance-00000001", "display_name": "web"}
    told = gathered(
        run(2, SHORT, subject=a_subject(guest_uuid="a", **same)), run(1, subject=a_subject(guest_uuid="b", **same))
    )
    assert [(guest.uuid, guest.standing) for guest in told.guests] == [("a", Standing.BROKEN), ("b", Standing.KEPT)]


def test_guests_come_in_the_order_of_who_needs_an_operator() -> None:
    told = gathered(
        run(2, FREE, "free"),
        run(2, KEPT, "kept"),
        run(2, INCONCLUSIVE, "unknown"),
        run(2, FAILED, "failed"),
        *(run(9, SHORT, "was"), run(1, KEPT, "was")),
        run(2, OVER, "over"),
        *(run(9, KEPT, "half"), run(1, SHORT, "half")),
        *(run(9, SHORT, "always"), run(1, SLOW, "always")),
    )
    assert [guest.uuid for guest in told.guests] == [
        "half",
        "always",
        "over",
        "failed",
        "was",
        "unknown",
        "kept",
        "free",
    ]


def test_the_worst_verdict_comes_first_and_not_the_most_frequent() -> None:
    def short_of(iops: int, guest: str) -> Any:
        return run(1, SHORT, guest, measured=a_measurement(a_flow([MS] * 30 * iops)))

    told = gathered(
        *(run(hour, SLOW, "slow for hours") for hour in range(1, 9)),
        *(run(hour, OVER, "over for hours") for hour in range(1, 9)),
        *(run(9, KEPT, "a little short"), short_of(200, "a little short")),
        *(run(9, KEPT, "almost nothing"), short_of(5, "almost nothing")),
    )
    assert [guest.uuid for guest in told.guests] == [
        "almost nothing",
        "a little short",
        "slow for hours",
        "over for hours",
    ]


def test_of_a_guest_the_job_with_the_worst_verdict_is_shown() -> None:
    slow = [run(hour, SLOW, job=JobName.READ) for hour in range(1, 9)]
    (guest,) = gathered(*slow, run(2, KEPT, job=JobName.WRITE), run(1, SHORT, job=JobName.WRITE)).guests
    assert guest.worst.result.job.name is JobName.WRITE


# --- now, and when it was last judged


@pytest.mark.parametrize(
    ("finding", "stands"),
    [
        (SHORT, Standing.LAST_BAD),
        (OVER, Standing.LAST_BAD),
        (KEPT, Standing.LAST_WELL),
        (FREE, Standing.LAST_WELL),
    ],
    ids=lambda each: each.name if isinstance(each, Standing) else each.verdict,
)
def test_a_run_says_nothing_of_now_when_two_more_were_due_since(finding: Finding, stands: Standing) -> None:
    """Also where runs since proved nothing."""
    every = timedelta(hours=4)
    (guest,) = gathered(run(8.1, finding), run(4, INCONCLUSIVE), run(1, INCONCLUSIVE), every=every).guests
    assert guest.standing is stands
    (guest,) = gathered(run(7.9, finding), run(4, INCONCLUSIVE), every=every).guests
    assert guest.standing not in (Standing.LAST_BAD, Standing.LAST_WELL)


def test_a_guest_whose_newest_probe_failed_is_no_guest_that_is_well() -> None:
    failed = [run(1, FAILED, job=job) for job in (JobName.READ, JobName.WRITE)]
    (guest,) = gathered(run(3, SHORT), run(2, KEPT), *failed).guests
    assert guest.standing is Standing.FAILING
    assert guest.worst.verdict is Verdict.FAILED
    assert {guest.worst.result.job.name, *guest.others} == {JobName.READ, JobName.WRITE}
    assert (guest.judged, guest.well_since) == (2, None)


@pytest.mark.parametrize(("worse", "stands"), [(SHORT, Standing.BROKEN), (OVER, Standing.OVER)])
def test_a_broken_promise_is_worse_than_a_failed_probe(worse: Finding, stands: Standing) -> None:
    assert standing(run(2, worse, job=JobName.WRITE), run(1, FAILED)) is stands


def test_a_probe_that_failed_long_ago_says_nothing_of_now() -> None:
    (guest,) = gathered(run(20, KEPT), run(18, FAILED), every=timedelta(hours=4)).guests
    assert guest.standing is Standing.LAST_WELL


def test_a_guest_that_no_rule_chooses_was_judged_lately_for_two_days() -> None:
    """Somebody may have probed it every minute."""
    often = {"a": timedelta(minutes=1)}
    (guest,) = gather([run(12, SHORT)], DAY, often, {}).guests
    assert guest.standing is Standing.BROKEN
    (guest,) = gather([run(12, SHORT)], DAY, often, often).guests
    assert guest.standing is Standing.LAST_BAD
    later = replace(DAY, until=NOON + timedelta(days=2))
    (guest,) = gather([run(1, SHORT)], later, often, {}).guests
    assert guest.standing is Standing.LAST_BAD


def test_a_job_that_is_no_longer_run_does_not_hide_what_is_known_of_now() -> None:
    told = gathered(run(20, KEPT, job=JobName.WRITE), run(1, SHORT), every=timedelta(hours=4))
    assert told.guests[0].standing is Standing.BROKEN
    told = gathered(run(20, KEPT, job=JobName.WRITE), run(1, KEPT), every=timedelta(hours=4))
    assert told.guests[0].standing is Standing.KEPT


# --- figures


def test_what_was_discarded_or_failed_has_no_part_in_any_figure() -> None:
    slow = [9_000 * MS] * 10
    told = gathered(run(3, latencies=[20 * MS] * 10), run(3, INCONCLUSIVE, latencies=slow), run(3, FAILED))
    ((name, over_time),) = told.types
    assert (name, over_time.runs) == ("gold", 1)
    (point,) = over_time.points
    assert point.slowest == 20 * MS
    assert point.latency == Histogram.of([20 * MS] * 10)
    (guest,) = told.guests
    assert guest.p99 == Histogram.of([20 * MS] * 10).quantile(0.99)
    assert (guest.judged, told.judged, told.runs) == (1, 1, 3)
    (column,) = told.columns
    assert (column.judged, column.broken) == (1, 0)
    assert curve([run(3, INCONCLUSIVE, latencies=slow)], DAY).points == ()


def test_percentiles_of_a_column_are_those_of_all_its_requests_not_a_mean_of_percentiles() -> None:
    quick, slow = [10 * MS] * 990, [2_000 * MS] * 30
    told = gathered(run(3.1, latencies=quick), run(3.05, guest="b", latencies=slow))
    ((_, over_time),) = told.types
    (point,) = over_time.points
    every = Histogram.of([*quick, *slow])
    assert point.quantiles == tuple(every.quantile(fraction, 2_000 * MS) for fraction in FRACTIONS)
    assert over_time.guests == 2


def test_reads_and_writes_of_a_run_both_count() -> None:
    both = a_measurement(a_flow([10 * MS] * 5), a_flow([30 * MS] * 5, slowest=31 * MS))
    ((_, over_time),) = gathered(run(3, measured=both)).types
    assert over_time.points[0].latency.count == 10
    assert over_time.points[0].slowest == 31 * MS


def test_runs_lie_in_the_column_that_they_began_in() -> None:
    ((_, over_time),) = gathered(run(20), run(3)).types
    columns = [point.column for point in over_time.points]
    assert columns == [DAY.column_of(NOON - 20 * HOUR), DAY.column_of(NOON - 3 * HOUR)]
    assert columns[0] < columns[1]


def test_types_come_with_the_most_probed_first_and_none_is_a_type_of_its_own() -> None:
    told = gathered(
        run(3, subject=a_subject(volume_type=None)),
        *(run(hours, subject=a_subject(volume_type="silver")) for hours in (4, 5)),
    )
    assert [(name, each.runs) for name, each in told.types] == [("silver", 2), (None, 1)]


def test_a_share_is_of_what_the_limits_let_pass() -> None:
    measured = a_measurement(a_flow([MS] * 3000))  # 100 a second
    ((_, over_time),) = gathered(run(3, measured=measured)).types
    assert over_time.points[0].shares == (0.4, 0.4, 0.4)


@pytest.mark.parametrize(
    ("promised", "actual", "allowed"),
    [
        (LIMIT, LIMIT, 250),
        (LIMIT, Limits(total_iops_sec=100), 100),
        (LIMIT, Limits(), 250),
        (LIMIT, Limits(total_bytes_sec=16384 * 60), 60),
        (Limits(), Limits(), None),
        (None, LIMIT, None),
        (LIMIT, None, None),
    ],
)
def test_the_limit_that_is_drawn_is_the_one_that_the_verdict_was_held_against(
    promised: Limits | None, actual: Limits | None, allowed: float | None
) -> None:
    assert (
        allowed_iops(run(1, circumstances=Circumstances(promised=promised, before=actual, after=actual))) == allowed
    )


def test_no_share_is_made_up_where_the_limits_are_unknown() -> None:
    ((_, over_time),) = gathered(run(3, circumstances=Circumstances())).types
    assert over_time.points[0].shares is None


# --- the timeline, and what is not judged


def test_a_column_shows_the_worst_that_is_proved_and_nothing_hides_a_broken_promise() -> None:
    def mark(*findings: Finding) -> Verdict:
        (guest,) = gathered(*(run(3 - number / 100, each) for number, each in enumerate(findings))).guests
        ((*_, verdict),) = guest.marks
        return verdict

    assert mark(KEPT, SHORT, FAILED) is Verdict.SHORT
    assert mark(FAILED, KEPT) is Verdict.KEPT
    assert mark(SLOW, KEPT, OVER) is Verdict.SLOW
    assert mark(INCONCLUSIVE, FAILED) is Verdict.INCONCLUSIVE
    assert mark(REDUCED, KEPT) is Verdict.KEPT
    assert mark(INCONCLUSIVE, REDUCED) is Verdict.REDUCED


def test_a_verdict_lasts_until_the_next_run_and_a_run_that_is_missing_leaves_a_gap() -> None:
    """Every 3 h in columns of 30 min; the run of 9 h ago is missing."""
    (guest,) = gathered(*(run(hour, KEPT) for hour in (18, 15, 12, 6, 3)), every=timedelta(hours=3)).guests
    extents = [(first, first + width) for first, width, _ in guest.marks]
    column = [DAY.column_of(NOON - hour * HOUR) for hour in (18, 15, 12, 6, 3)]
    assert extents == [
        (column[0], column[1]),
        (column[1], column[2]),
        (column[2], column[2] + 1),
        (column[3], column[4]),
        (column[4], DAY.columns),
    ]


def test_only_what_is_not_judged_now_is_told_as_such() -> None:
    told = gathered(run(4, FAILED), run(3, KEPT), run(2, FAILED, "b"), run(1, INCONCLUSIVE, "b", job=JobName.WRITE))
    found = [(each.result.subject.guest_uuid, each.result.job.name) for each in told.unproved]
    assert found == [("b", JobName.WRITE), ("b", JobName.READ)]


def test_no_measurement_is_kept_in_memory() -> None:
    told = gathered(run(4, SHORT), run(3, KEPT), run(2, INCONCLUSIVE))
    kept = [guest.worst for guest in told.guests] + list(told.unproved)
    assert [each.result.measured for each in kept] == [None] * len(kept)
    assert told.guests[0].worst.p99 is not None


def test_a_span_without_runs_is_gathered_too() -> None:
    told = gathered()
    assert (told.runs, told.judged, told.guests, told.types, told.nodes) == (0, 0, (), (), ())
