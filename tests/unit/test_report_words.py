"""The report's sentences: the headline must not flatter, nor cry wolf."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll_probes.chosen import ChosenTarget
from plimsoll_probes.finding import Finding, Verdict
from plimsoll_probes.job import JobName
from plimsoll_probes.late import Late
from plimsoll_probes.report import words
from plimsoll_probes.report.gathered import Gathered, Run
from tests.unit.probes import a_probe
from tests.unit.test_report_gathered import DAY, FAILED, FREE, KEPT, OVER, SHORT, SLOW, gathered, run
from tests.unit.values import GUEST, NOON


def of_guests(*histories: tuple[Finding, ...]) -> Gathered:
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
        (of_guests((SHORT,), (OVER,), (FAILED,), (FREE,)), "1 of 2 guests does not get what was promised"),
        (of_guests((OVER,), (KEPT,)), "1 of 2 guests gets more than was promised"),
        (of_guests((FREE,), (FREE,)), "Nothing was promised: no guest that was probed has a limit"),
        (of_guests((FREE,), (FAILED,)), "Nothing was promised: no guest that was probed has a limit"),
        (of_guests((FAILED,), (FAILED,)), "Nobody knows how it stands: no run proves anything"),
        (of_guests(), "Nothing was probed in this time"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_headline_says_how_it_stands_of_those_to_whom_something_is_promised(told: Gathered, says: str) -> None:
    assert words.headline(told) == says


def test_the_details_leave_no_guest_out_that_the_headline_does_not_count() -> None:
    told = of_guests((SHORT,), (SLOW,), (OVER,), (SLOW, KEPT), (FREE,), (FREE,), (FAILED,), (KEPT,))
    assert list(words.details(told, 2, 1)) == [
        "1 gets less than the limits allow (short).",
        "1 gets answers later than the objective allows (slow).",
        "1 more gets more than was promised (over-limit).",
        "1 did not get it for a time, and does now.",
        "2 have no limit, so nothing is promised.",
        "1 could not be judged: no run of it proves anything.",
        "2 probes are postponed.",
        "1 probe is late.",
    ]


def test_where_all_is_well_there_are_no_details() -> None:
    assert list(words.details(of_guests((KEPT,), (KEPT,)), 0, 0)) == []


def test_the_others_are_counted_by_what_became_of_them() -> None:
    told = of_guests((SHORT,), (KEPT,), (FREE,), (FAILED,), (FAILED,))
    said = "Of the others 1 always got what was promised, 1 has no limit, 2 could not be judged."
    assert words.rest_words(told) == said
    assert words.rest_words(of_guests((SHORT,))) == "There are no others."


def test_every_verdict_has_a_meaning() -> None:
    assert set(words.MEANINGS) == set(Verdict)


@pytest.mark.parametrize(
    ("iops", "allowed", "says"),
    [(96.4, 250.0, "96 of 250 (39 %)"), (96.4, None, "96, no limit known"), (None, 250.0, "-")],
)
def test_unknown_is_never_zero_in_the_iops_of_a_limit(iops: float | None, allowed: float | None, says: str) -> None:
    assert words.iops_of_limit(Run(a_probe(), iops, allowed, None)) == says


def test_no_job_is_named_twice() -> None:
    assert (
        words.jobs_words(JobName.WRITE, (JobName.WRITE, JobName.MIXED, JobName.READ)) == "write, also mixed and read"
    )
    assert words.jobs_words(JobName.WRITE, (JobName.WRITE,)) == "write"


def test_who_is_late_reads_since_when_and_where_to_look() -> None:
    target = ChosenTarget(
        GUEST, "x", "/var/tmp", None, (JobName.READ,), timedelta(hours=4), NOON - timedelta(days=2), NOON
    )
    never = "never begun, chosen since 2026-11-18 12:00 UTC, and due every 4 h: see plimsoll probe timetable"
    assert words.late_words(Late(target, None)) == never
    assert words.late_words(Late(target, NOON)).startswith("not begun since 2026-11-20 12:00 UTC, and due every 4 h")


def test_an_empty_page_names_the_guest_that_was_asked_for_and_is_safe_to_show() -> None:
    said = words.nothing_words("a\x1b[2Jb", "read", DAY)
    assert said == (
        "No guest a?[2Jb was probed with the job read between 2026-11-19 12:00 UTC and 2026-11-20 12:00 UTC."
    )
