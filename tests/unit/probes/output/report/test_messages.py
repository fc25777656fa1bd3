"""The report's sentences: the headline must not flatter, nor cry wolf."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll_probes.model.finding import Finding, Verdict
from plimsoll_probes.model.job import JobName
from plimsoll_probes.output.report import messages
from plimsoll_probes.output.report.gathered import Run, Standing, Summary
from plimsoll_probes.schedule.late import Late
from plimsoll_probes.schedule.targets import ChosenTarget
from tests.unit.probes.output.report.test_gathered import (
    DAY,
    FAILED,
    FREE,
    INCONCLUSIVE,
    KEPT,
    OVER,
    SHORT,
    SLOW,
    gathered,
    run,
)
from tests.unit.results import a_probe
from tests.unit.values import GUEST, NOON


def of_guests(*histories: tuple[Finding, ...]) -> Summary:
    """One guest for each, with its findings from the oldest on."""
    return gathered(
        *(
            run(10 - hour, finding, f"guest{number}")
            for number, findings in enumerate(histories)
            for hour, finding in enumerate(findings)
        )
    )


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (of_guests((KEPT,), (KEPT,)), "All 2 guests get what was promised"),
        (of_guests((KEPT,)), "The guest gets what was promised"),
        (of_guests((SHORT, KEPT), (KEPT,)), "All 2 guests get what was promised"),
        (of_guests((SHORT,), (KEPT,), (KEPT,)), "1 of 3 guests does not get what was promised"),
        (of_guests((SHORT,), (SLOW,), (KEPT,)), "2 of 3 guests do not get what was promised"),
        (
            of_guests((SHORT,), (OVER,), (FAILED,), (FREE,)),
            "1 of 4 guests does not get what was promised, 1 gets more; 1 not measured: its probe failed",
        ),
        (
            of_guests((KEPT,), (KEPT, FAILED)),
            "1 of 2 guests gets what was promised; 1 not measured: its probe failed",
        ),
        (of_guests((OVER,), (KEPT,)), "1 of 2 guests gets more than was promised"),
        (of_guests((FREE,), (FREE,)), "Nothing was promised: no probed guest has a limit"),
        (of_guests((FREE,), (INCONCLUSIVE,)), "Nothing was promised: no probed guest has a limit"),
        (of_guests((INCONCLUSIVE,), (INCONCLUSIVE,)), "Unknown: no run was conclusive"),
        (of_guests((FAILED,), (KEPT, FAILED)), "Not measured: the newest probes failed"),
        (of_guests(), "No probes in this time"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_headline_says_how_it_stands_of_all_guests(told: Summary, says: str) -> None:
    assert messages.headline(told) == says


def test_what_was_judged_long_ago_is_not_told_as_of_now() -> None:
    every = timedelta(hours=2)
    old = [run(10.2, SHORT, "old"), run(1, KEPT, "b"), run(1, KEPT, "c")]
    assert messages.headline(gathered(*old, every=every)) == (
        "2 of 3 guests get what was promised; 1 last known bad, 10 h ago"
    )
    broken = [*old, run(1, SHORT, "d"), run(20, SLOW, "older")]
    assert messages.headline(gathered(*broken, every=every)) == (
        "1 of 5 guests does not get what was promised; 2 last known bad, 10 h ago or longer"
    )
    assert messages.headline(gathered(run(9, KEPT), every=every)) == "Unknown: no guest was judged lately"
    assert "1 was well, but not judged lately." in messages.details(gathered(run(9, KEPT), every=every), 0, 0)


@pytest.mark.parametrize(
    ("left", "standing", "says"),
    [
        (27, Standing.RECOVERED, "27 more were in trouble and are well again."),
        (1, Standing.RECOVERED, "1 more was in trouble and is well again."),
        (2, Standing.BROKEN, "2 more are in trouble now."),
        (2, Standing.LAST_BAD, "2 more were in trouble when last judged."),
    ],
)
def test_who_is_left_out_of_a_table_is_counted_by_its_state(left: int, standing: Standing, says: str) -> None:
    assert messages.left_words(left, standing) == says


def test_the_details_leave_no_guest_out_that_the_headline_does_not_count() -> None:
    told = of_guests((SHORT,), (SLOW,), (OVER,), (SLOW, KEPT), (FREE,), (FREE,), (INCONCLUSIVE,), (KEPT,))
    assert list(messages.details(told, 2, 1)) == [
        "1 gets less than the limits allow (short).",
        "1 gets answers more slowly than the objective allows (slow).",
        "1 more gets more than was promised (over-limit).",
        "1 recovered.",
        "2 have no limit, so nothing is promised.",
        "1 could not be judged: no conclusive run.",
        "2 probes are postponed.",
        "1 probe is overdue.",
    ]


def test_where_all_is_well_there_are_no_details() -> None:
    assert list(messages.details(of_guests((KEPT,), (KEPT,)), 0, 0)) == []


def test_the_others_are_counted_by_their_results() -> None:
    told = of_guests((SHORT,), (KEPT,), (FREE,), (INCONCLUSIVE,), (INCONCLUSIVE,))
    said = "Of the others: 1 always got what was promised, 1 without a limit, 2 could not be judged."
    assert messages.rest_words(told) == said
    assert messages.rest_words(of_guests((SHORT,))) == "There are no others."


def test_every_verdict_has_a_meaning() -> None:
    assert set(messages.MEANINGS) == set(Verdict)


@pytest.mark.parametrize(
    ("iops", "allowed", "says"),
    [(96.4, 250.0, "96 of 250 (39 %)"), (96.4, None, "96, limit unknown"), (None, 250.0, "-")],
)
def test_unknown_is_never_zero_in_the_iops_of_a_limit(iops: float | None, allowed: float | None, says: str) -> None:
    assert messages.iops_of_limit(Run(result=a_probe(), iops=iops, allowed=allowed, p99=None)) == says


def test_no_job_is_named_twice() -> None:
    assert (
        messages.jobs_words(JobName.WRITE, (JobName.WRITE, JobName.MIXED, JobName.READ))
        == "write, also mixed and read"
    )
    assert messages.jobs_words(JobName.WRITE, (JobName.WRITE,)) == "write"


def test_who_is_late_reads_since_when_and_where_to_look() -> None:
    target = ChosenTarget(
        guest_uuid=GUEST,
        guest_name="x",
        directory="/var/tmp",
        rule=None,
        jobs=(JobName.READ,),
        every=timedelta(hours=4),
        since=NOON - timedelta(days=2),
        seen=NOON,
    )
    never = "never begun, chosen since 2026-11-18 12:00 UTC, due every 4 h: see plimsoll probe timetable"
    assert messages.late_words(Late(target, None)) == never
    assert messages.late_words(Late(target, NOON)).startswith("last begun 2026-11-20 12:00 UTC, due every 4 h")


def test_an_empty_page_names_the_guest_that_was_asked_for_and_is_safe_to_show() -> None:
    said = messages.nothing_words("a\x1b[2Jb", "read", DAY)
    assert said == (
        "No guest a?[2Jb was probed with the job read between 2026-11-19 12:00 UTC and 2026-11-20 12:00 UTC."
    )
