"""The report in words: how it stands in one sentence, what each verdict means, and what there is no figure for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from plimsoll_agent import spans
from plimsoll_agent.report import minute, printable
from plimsoll_probes.finding import Verdict
from plimsoll_probes.job import JobName
from plimsoll_probes.late import Late
from plimsoll_probes.report.gathered import Gathered, Guest, Run, Standing
from plimsoll_probes.report.span import Span
from plimsoll_probes.words import UNKNOWN, iops_words, share_words

MEANINGS: Mapping[Verdict, str] = {
    Verdict.KEPT: "as much as the limits allow, and in time",
    Verdict.SHORT: "less than the limits allow, and no limit is to blame",
    Verdict.SLOW: "requests took longer than the objective allows",
    Verdict.OVER_LIMIT: "more than was promised: a limit does not hold",
    Verdict.NO_LIMIT: "no limit is in force, so nothing is promised",
    Verdict.DISCARDED: "something bent the run: it proves nothing",
    Verdict.FAILED: "there is no result",
}


def count_words(number: int, what: str) -> str:
    """``1 guest``, ``12 guests``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def headline(gathered: Gathered) -> str:
    """How it stands, for who reads nothing else."""
    of = {standing: len(gathered.standing(standing)) for standing in Standing}
    promised = sum(of[each] for each in (Standing.BROKEN, Standing.OVER, Standing.RECOVERED, Standing.KEPT))
    if not gathered.runs:
        return "Nothing was probed in this time"
    if of[Standing.BROKEN]:
        do = "does" if of[Standing.BROKEN] == 1 else "do"
        return f"{of[Standing.BROKEN]} of {count_words(promised, 'guest')} {do} not get what was promised"
    if of[Standing.OVER]:
        get = "gets" if of[Standing.OVER] == 1 else "get"
        return f"{of[Standing.OVER]} of {count_words(promised, 'guest')} {get} more than was promised"
    if of[Standing.UNKNOWN] == len(gathered.guests):
        return "Nobody knows how it stands: no run proves anything"
    if not promised:
        return "Nothing was promised: no guest that was probed has a limit"
    return "The guest gets what was promised" if promised == 1 else f"All {promised} guests get what was promised"


def details(gathered: Gathered, postponed: int, late: int) -> Iterator[str]:
    """What the headline leaves out, a sentence each."""
    broken = gathered.standing(Standing.BROKEN)
    short = sum(guest.worst.verdict is Verdict.SHORT for guest in broken)
    slow = len(broken) - short
    if short:
        yield f"{short} {_get(short)} less than the limits allow (short)."
    if slow:
        yield f"{slow} {_get(slow)} answers later than the objective allows (slow)."
    if broken and (over := len(gathered.standing(Standing.OVER))):
        yield f"{over} more {_get(over)} more than was promised (over-limit)."
    if recovered := len(gathered.standing(Standing.RECOVERED)):
        yield f"{recovered} did not get it for a time, and {'does' if recovered == 1 else 'do'} now."
    if free := len(gathered.standing(Standing.UNLIMITED)):
        yield f"{free} {'has' if free == 1 else 'have'} no limit, so nothing is promised."
    if unknown := len(gathered.standing(Standing.UNKNOWN)):
        yield f"{unknown} could not be judged: no run of {'it' if unknown == 1 else 'them'} proves anything."
    if postponed:
        yield f"{count_words(postponed, 'probe')} {'is' if postponed == 1 else 'are'} postponed."
    if late:
        yield f"{count_words(late, 'probe')} {'is' if late == 1 else 'are'} late."


def _get(number: int) -> str:
    return "gets" if number == 1 else "get"


def nothing_words(guest: str | None, job: str | None, span: Span) -> str:
    """What to do where there is nothing to show."""
    whom = f"No guest {printable(guest)}" if guest else "No guest"
    what = f" with the job {job}" if job else ""
    return f"{whom} was probed{what} between {minute(span.since)} and {minute(span.until)}."


ADVICE = (
    ("plimsoll probe list", "says what was probed last on this node, and what is postponed"),
    ("plimsoll probe timetable", "says which guests a rule with probe chooses, and when they are due"),
    ("plimsoll probe run", "probes them now"),
    ("plimsoll probe report --since 30d -o report.html", "looks back further"),
)


def rest_words(gathered: Gathered) -> str:
    """What became of the guests that are not among the worst."""
    kept = len(gathered.standing(Standing.KEPT))
    free, unknown = len(gathered.standing(Standing.UNLIMITED)), len(gathered.standing(Standing.UNKNOWN))
    parts = [f"{kept} always got what was promised"] if kept else []
    parts += [f"{free} {'has' if free == 1 else 'have'} no limit"] if free else []
    parts += [f"{unknown} could not be judged"] if unknown else []
    return f"Of the others {', '.join(parts)}." if parts else "There are no others."


def standing_words(guest: Guest) -> str:
    """``is so now``, or since when it is well again."""
    if guest.well_since is None:
        return "still so"
    return f"well again since {minute(guest.well_since)}"


def jobs_words(job: JobName, others: tuple[JobName, ...]) -> str:
    """``write, and mixed``: the job that is told of, and those that stand as badly."""
    more = [other.value for other in others if other is not job]
    return f"{job.value}, also {' and '.join(more)}" if more else job.value


def iops_of_limit(run: Run) -> str:
    """``96 of 250 (38 %)``."""
    if run.iops is None:
        return UNKNOWN
    if run.allowed is None:
        return f"{iops_words(run.iops)}, no limit known"
    return f"{iops_words(run.iops)} of {iops_words(run.allowed)} ({share_words(run.share)})"


def late_words(late: Late) -> str:
    """``not begun since 2026-11-20 09:13 UTC, and due every 4 h: see plimsoll probe timetable``."""
    target = late.target
    since = (
        f"not begun since {minute(late.last)}" if late.last else f"never begun, chosen since {minute(target.since)}"
    )
    return f"{since}, and due every {spans.words(target.every)}: see plimsoll probe timetable"


def often_words(guest: Guest) -> str:
    """``29 of 123``: how many of its runs broke the promise."""
    return f"{guest.broken} of {guest.judged}"


def span_words(span: Span) -> str:
    """``2026-11-13 09:00 to 2026-11-20 09:00 UTC (7 d)``."""
    since = minute(span.since).removesuffix(" UTC")
    return f"{since} to {minute(span.until)} ({spans.words(span.until - span.since)})"


def column_words(span: Span) -> str:
    """``4 h``: how much time a column of the page is."""
    return spans.words(span.column)


def scale(span: Span) -> list[tuple[float, str]]:
    """Where on the timeline, in columns, which times are written."""
    form = "%d %b" if span.tick >= timedelta(days=1) else "%H:%M"
    return [(column, f"{time:{form}}") for column, time in span.ticks()]
