"""The text of a report: a headline, what each verdict means, and what to do where there are no runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from plimsoll_agent.util import durations
from plimsoll_agent.util.text import ago, minute, plural, printable
from plimsoll_probes.model.finding import Verdict
from plimsoll_probes.model.job import JobName
from plimsoll_probes.output.messages import UNKNOWN, iops_words, share_words
from plimsoll_probes.output.report.gathered import ReportGuest, Run, Standing, Summary
from plimsoll_probes.output.report.span import ReportPeriod
from plimsoll_probes.schedule.late import Late

MEANINGS: Mapping[Verdict, str] = {
    Verdict.KEPT: "as much as the limits allow, within the latency objective",
    Verdict.SHORT: "less than the limits allow",
    Verdict.SLOW: "requests took longer than the objective allows",
    Verdict.OVER_LIMIT: "more than was promised: a limit is not effective",
    Verdict.NO_LIMIT: "no limit, so nothing is promised",
    Verdict.REDUCED: "as much as limits allow that are reduced for now",
    Verdict.INCONCLUSIVE: "the run was disturbed, so it has no verdict",
    Verdict.FAILED: "no result",
}


def headline(summary: Summary) -> str:
    """The summary in one sentence. What was judged long ago is apart from what is known of now."""
    of = {standing: len(summary.standing(standing)) for standing in Standing}
    if not summary.runs:
        return "No probes in this time"
    now, failing = _now(of, len(summary.guests)), of[Standing.FAILING]
    if failing and failing < len(summary.guests):
        now += f"; {failing} not measured: {'its probe' if failing == 1 else 'their probes'} failed"
    if not of[Standing.LAST_BAD]:
        return now
    last = max(guest.worst.result.started for guest in summary.standing(Standing.LAST_BAD))
    age, unit, *_ = durations.words(summary.span.until - last).split(" ")
    longer = " or longer" if of[Standing.LAST_BAD] > 1 else ""
    return f"{now}; {of[Standing.LAST_BAD]} last known bad, {age} {unit} ago{longer}"


def _now(of: Mapping[Standing, int], guests: int) -> str:
    bad, over, well = of[Standing.BROKEN], of[Standing.OVER], of[Standing.RECOVERED] + of[Standing.KEPT]
    every = plural(guests, "guest")
    if bad:
        more = f", {over} {_get(over)} more" if over else ""
        return f"{bad} of {every} {'does' if bad == 1 else 'do'} not get what was promised{more}"
    if over:
        return f"{over} of {every} {_get(over)} more than was promised"
    if well == guests:
        return "The guest gets what was promised" if guests == 1 else f"All {guests} guests get what was promised"
    if well:
        return f"{well} of {every} {_get(well)} what was promised"
    if of[Standing.FAILING] == guests:
        return "Not measured: " + ("the guest's newest probe failed" if guests == 1 else "the newest probes failed")
    if of[Standing.UNLIMITED]:
        return "Nothing was promised: no probed guest has a limit"
    return (
        "Unknown: no run was conclusive" if of[Standing.UNKNOWN] == guests else "Unknown: no guest was judged lately"
    )


def details(summary: Summary, postponements: int, late: int) -> Iterator[str]:
    """Sentences with the details of the headline."""
    bad = summary.standing(Standing.BROKEN)
    short = sum(guest.worst.verdict is Verdict.SHORT for guest in bad)
    slow = len(bad) - short
    if short:
        yield f"{short} {_get(short)} less than the limits allow (short)."
    if slow:
        yield f"{slow} {_get(slow)} answers more slowly than the objective allows (slow)."
    if bad and (over := len(summary.standing(Standing.OVER))):
        yield f"{over} more {_get(over)} more than was promised (over-limit)."
    if better := len(summary.standing(Standing.RECOVERED)):
        yield f"{better} recovered."
    if free := len(summary.standing(Standing.UNLIMITED)):
        yield f"{free} {'has' if free == 1 else 'have'} no limit, so nothing is promised."
    if unknown := len(summary.standing(Standing.UNKNOWN)):
        yield f"{unknown} could not be judged: no conclusive run."
    if well := len(summary.standing(Standing.LAST_WELL)):
        yield f"{well} {'was' if well == 1 else 'were'} well, but not judged lately."
    if postponements:
        yield f"{plural(postponements, 'probe')} {'is' if postponements == 1 else 'are'} postponed."
    if late:
        yield f"{plural(late, 'probe')} {'is' if late == 1 else 'are'} overdue."


def _get(number: int) -> str:
    return "gets" if number == 1 else "get"


def nothing_words(guest: str | None, job: str | None, span: ReportPeriod) -> str:
    """What to do where there is nothing to show."""
    whom = f"No guest {printable(guest)}" if guest else "No guest"
    what = f" with the job {job}" if job else ""
    return f"{whom} was probed{what} between {minute(span.since)} and {minute(span.until)}."


ADVICE = (
    ("plimsoll probe list", "lists the newest results of this node, and what is postponed"),
    ("plimsoll probe timetable", "lists which guests the rules choose, and when they are due"),
    ("plimsoll probe run", "probes them now"),
    ("plimsoll probe report --since 30d -o report.html", "looks back further"),
)


def rest_words(summary: Summary) -> str:
    """The state of the guests that never were in trouble."""
    says = {
        Standing.KEPT: "always got what was promised",
        Standing.UNLIMITED: "without a limit",
        Standing.UNKNOWN: "could not be judged",
        Standing.LAST_WELL: "not judged lately",
    }
    parts = [f"{number} {words}" for each, words in says.items() if (number := len(summary.standing(each)))]
    return f"Of the others: {', '.join(parts)}." if parts else "There are no others."


def left_words(rest: int, standing: Standing) -> str:
    """Guests that a table leaves out, by their state."""
    if standing is Standing.RECOVERED:
        return f"{rest} more {'was' if rest == 1 else 'were'} in trouble and {_are(rest)} well again."
    if standing is Standing.LAST_BAD:
        return f"{rest} more {'was' if rest == 1 else 'were'} in trouble when last judged."
    return f"{rest} more {_are(rest)} in trouble now."


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def standing_words(guest: ReportGuest, until: datetime) -> str:
    """``in trouble now``, when it recovered, or how long ago it was judged."""
    if guest.standing is Standing.LAST_BAD:
        return f"last judged {ago(guest.worst.result.started, until)}"
    return "in trouble now" if guest.well_since is None else f"well since {minute(guest.well_since)}"


def jobs_words(job: JobName, others: tuple[JobName, ...]) -> str:
    """``write, also mixed``: the job that is shown, and others in the same state."""
    more = [other.value for other in others if other is not job]
    return f"{job.value}, also {' and '.join(more)}" if more else job.value


def iops_of_limit(run: Run) -> str:
    """``96 of 250 (38 %)``."""
    if run.iops is None:
        return UNKNOWN
    if run.allowed is None:
        return f"{iops_words(run.iops)}, limit unknown"
    return f"{iops_words(run.iops)} of {iops_words(run.allowed)} ({share_words(run.share)})"


def late_words(late: Late) -> str:
    """``last begun 2026-11-20 09:13 UTC, due every 4 h: see plimsoll probe timetable``."""
    target = late.target
    since = f"last begun {minute(late.last)}" if late.last else f"never begun, chosen since {minute(target.since)}"
    return f"{since}, due every {durations.words(target.every)}: see plimsoll probe timetable"


def often_words(guest: ReportGuest) -> str:
    """``29 of 123``: how many of its runs did not keep the promise."""
    return f"{guest.broken} of {guest.judged}"


def span_words(span: ReportPeriod) -> str:
    """``2026-11-13 09:00 to 2026-11-20 09:00 UTC (7 d)``."""
    since = minute(span.since).removesuffix(" UTC")
    return f"{since} to {minute(span.until)} ({durations.words(span.until - span.since)})"


def column_words(span: ReportPeriod) -> str:
    """``4 h``: the time of one column of the page."""
    return durations.words(span.column)


def scale(span: ReportPeriod) -> list[tuple[float, str]]:
    """The times on the timeline's scale, with their places in columns."""
    form = "%d %b" if span.tick >= timedelta(days=1) else "%H:%M"
    return [(column, f"{time:{form}}") for column, time in span.ticks()]
