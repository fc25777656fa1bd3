"""Makes the page: one HTML file that needs no other file."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import minute, plural, printable
from plimsoll_probes.model.finding import Verdict
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output.messages import (
    Streak,
    because_words,
    guest_cell,
    guest_words,
    quantile_words,
    since_words,
    why_words,
)
from plimsoll_probes.output.report import messages, palette
from plimsoll_probes.output.report.gathered import (
    SEVERITY,
    UNJUDGED,
    Curve,
    ReportGuest,
    Run,
    Standing,
    Summary,
    curve,
)
from plimsoll_probes.output.report.plots import Ranges, guest_svg, type_svg
from plimsoll_probes.output.report.span import ReportPeriod
from plimsoll_probes.schedule.late import Late

MOST_WORST = 15
MOST_LINES = 20
MOST_TYPES = 6
MOST_CARDS = 6
_CALM_CARDS = 2
"""Guests with a card of their own where none is in trouble."""
_MOST_ASIDE = 10
_ONE = re.compile(r"(\d{4}-\d\d-\d\d|(?<!\S)--[a-z]+|[\d.]+ (?:%|[nµm]?s|min|h|d|IOPS|[KMGT]i?B(?:/s)?)(?!\w))")
"""A date, an option, a number with its unit."""
_SHAPES: dict[Verdict, tuple[int, int]] = {
    Verdict.KEPT: (14, 6),
    Verdict.NO_LIMIT: (17, 3),
    Verdict.SHORT: (0, 20),
    Verdict.SLOW: (7, 13),
    Verdict.OVER_LIMIT: (0, 9),
    Verdict.REDUCED: (9, 2),
    Verdict.INCONCLUSIVE: (9, 2),
    Verdict.FAILED: (9, 2),
}
"""Where a mark begins on the timeline, which is 20 high, and its height: not only the colour shows the verdict."""
_BAD = (Standing.BROKEN, Standing.OVER)
_NOW = (*_BAD, Standing.FAILING)
_TABLES = (
    ("now", "In trouble now", _NOW),
    ("last", "In trouble when last judged", (Standing.LAST_BAD,)),
    ("well", "Recovered", (Standing.RECOVERED,)),
)
_TROUBLE = (*_NOW, Standing.LAST_BAD, Standing.RECOVERED)


@frozen(kw_only=True)
class ReportOrigin:
    """How the report was made."""

    node: str
    version: str
    guest: str | None
    """The options that restrict it."""
    job: str | None


@frozen
class Reader:
    """Reads a single guest from the history: its runs, and since when it is in trouble."""

    runs: Callable[[str], Iterable[ProbeResult]]
    """By the guest's uuid, newest first."""
    streak: Callable[[ProbeResult], Streak | None]


@frozen(kw_only=True)
class _Bar:
    """A bar of a timeline, in columns and shares of its height."""

    column: float
    width: float
    top: float
    height: float
    kind: str
    title: str


@frozen
class WaitingTargets:
    """Targets that were due and not probed."""

    postponed: Sequence[Postponed] = ()
    late: Sequence[Late] = ()
    """Overdue targets that were not postponed."""


def page(summary: Summary, waiting: WaitingTargets, read: Reader, origin: ReportOrigin) -> str:
    """The whole page as text."""
    environment = Environment(
        loader=PackageLoader("plimsoll_probes.output.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = _unbroken
    failing = {guest.uuid for guest in summary.standing(Standing.FAILING)}
    without_verdict = _without_verdict(
        run
        for run in summary.unproved
        if run.verdict is not Verdict.FAILED or run.result.subject.guest_uuid not in failing
    )
    guests = [guest for guest in summary.guests if guest.standing is not Standing.UNKNOWN]
    trouble = summary.standing(*_TROUBLE)
    slowest = sorted(guests, key=lambda guest: -guest.p99.lower if guest.p99 else 0)
    cards = [guest for guest in trouble if guest.judged][:MOST_CARDS] or slowest[:_CALM_CARDS]
    curves = [_curve(guest, read, summary.span) for guest in cards]
    types = summary.types[:MOST_TYPES]
    ranges = Ranges.of([*(each for _, each in types), *curves])
    return environment.get_template("page.html.j2").render(
        headline=messages.headline(summary),
        details=list(messages.details(summary, len(waiting.postponed), len(waiting.late))),
        mood=_mood(summary),
        colours=palette.css(),
        made=replace(origin, node=printable(origin.node)),
        nodes=[printable(node) for node in summary.nodes] or [printable(origin.node)],
        span=messages.span_words(summary.span),
        only=_only(origin),
        runs=summary.runs,
        judged=summary.judged,
        guests=len(summary.guests),
        nothing=messages.nothing_words(origin.guest, origin.job, summary.span),
        advice=messages.ADVICE,
        verdicts=_verdicts(summary.verdicts, judged=True),
        unjudged=_verdicts(summary.verdicts, judged=False),
        tables=[each for each in (_table(summary, read.streak, *each) for each in _TABLES) if each["rows"]],
        rest=messages.rest_words(summary),
        timeline=_timeline(summary, guests),
        types=[_type(name, each, summary, ranges) for name, each in types],
        types_left=len(summary.types) - MOST_TYPES,
        cards=[_card(guest, each, summary.span, ranges) for guest, each in zip(cards, curves, strict=True)],
        cards_are_worst=bool(trouble),
        cards_left=max(0, len(trouble) - MOST_CARDS),
        waiting=_waiting(waiting)[:_MOST_ASIDE],
        waiting_left=len(_waiting(waiting)) - _MOST_ASIDE,
        unproved=without_verdict[:_MOST_ASIDE],
        unproved_left=len(without_verdict) - _MOST_ASIDE,
        column=messages.column_words(summary.span),
    )


def _unbroken(text: str) -> Markup:
    """No line breaks within a date, an option, or between a number and its unit."""
    one = Markup('<span class="one">{}</span>')
    return Markup("").join(one.format(part) if at % 2 else part for at, part in enumerate(_ONE.split(text)))


def _mood(summary: Summary) -> str:
    """The colour beside the headline."""
    if summary.standing(*_BAD):
        return "bad"
    if summary.standing(Standing.FAILING, Standing.LAST_BAD):
        return "unknown"
    return "good" if summary.standing(Standing.KEPT, Standing.RECOVERED) else "unknown"


def _only(origin: ReportOrigin) -> str | None:
    parts = [f"guest {printable(origin.guest)}"] if origin.guest else []
    parts += [f"job {origin.job}"] if origin.job else []
    return ", ".join(parts) or None


def _verdicts(counts: Counter[Verdict], *, judged: bool) -> list[dict[str, object]]:
    """The most urgent first; judged ones with their share of all judged runs."""
    urgent_first = sorted(Verdict, key=SEVERITY.__getitem__, reverse=True)
    group = [verdict for verdict in urgent_first if (verdict in UNJUDGED) is not judged]
    whole = sum(counts[verdict] for verdict in group)
    return [
        {
            "name": verdict.value,
            "count": counts[verdict],
            "percent": 100 * counts[verdict] / whole if whole else 0,
            "meaning": messages.MEANINGS[verdict],
            "bar": _bar(verdict),
        }
        for verdict in group
    ]


def _bar(verdict: Verdict, column: float = 0, width: float = 1) -> _Bar:
    top, height = _SHAPES[verdict]
    return _Bar(column=column, width=width, top=top, height=height, kind=verdict.value, title=verdict.value)


# --- guests


def _table(
    summary: Summary,
    streak_of: Callable[[ProbeResult], Streak | None],
    name: str,
    title: str,
    standings: tuple[Standing, ...],
) -> dict[str, object]:
    """Guests in one state, the worst first."""
    guests = summary.standing(*standings)
    rest = len(guests) - MOST_WORST
    return {
        "name": name,
        "title": title,
        "number": len(guests),
        "rows": [_row(guest, streak_of, summary.span) for guest in guests[:MOST_WORST]],
        "left": messages.left_words(rest, standings[0]) if rest > 0 else "",
    }


def _row(
    guest: ReportGuest, streak_of: Callable[[ProbeResult], Streak | None], span: ReportPeriod
) -> dict[str, object]:
    run, result = guest.worst, guest.worst.result
    streak = streak_of(result) if guest.standing in _NOW else None
    return {
        **_names(result),
        "type": _type_name(result.subject.volume_type),
        "job": messages.jobs_words(result.job.name, guest.others),
        "verdict": run.verdict.value,
        "bar": _bar(run.verdict),
        "why": because_words(result),
        "iops": messages.iops_of_limit(run),
        "p99": quantile_words(run.p99),
        "often": messages.often_words(guest),
        "when": since_words(streak) if streak else messages.standing_words(guest, span.until),
    }


def _names(result: ProbeResult) -> dict[str, object]:
    """The server's name, where there is one, and below it what finds the guest on its node."""
    subject = result.subject
    own = subject.guest_name if subject.display_name else None
    return {
        "guest": guest_words(subject.guest_name, subject.display_name),
        "own": printable(own) if own else "",
        "where": ", ".join(printable(part) for part in (own, subject.target, subject.directory) if part),
    }


def _type_name(name: str | None) -> str:
    return "no volume type" if name is None else printable(name)


def _curve(guest: ReportGuest, read: Reader, span: ReportPeriod) -> Curve:
    return curve(read.runs(guest.uuid), span)


def _card(guest: ReportGuest, each: Curve, span: ReportPeriod, ranges: Ranges) -> dict[str, object]:
    subject = guest.worst.result.subject
    name = guest_cell(subject.guest_name, subject.display_name)
    return {
        **_names(guest.worst.result),
        "type": _type_name(subject.volume_type),
        "standing": guest.standing.value,
        "often": messages.often_words(guest),
        "image": _image(guest_svg(each, span, ranges)),
        "alt": f"IOPS of {name} beside the limit, and percentiles of its latency over time",
    }


def _type(name: str | None, each: Curve, summary: Summary, ranges: Ranges) -> dict[str, object]:
    title = _type_name(name)
    guests = [guest for guest in summary.standing(*_NOW) if guest.worst.result.subject.volume_type == name]
    return {
        "name": title,
        "runs": plural(each.runs, "run"),
        "guests": plural(each.guests, "guest"),
        "trouble": len(guests),
        "image": _image(type_svg(each, summary.span, ranges)),
        "alt": f"{title}: IOPS beside the limit, percentiles of latency and a heat map of it over time",
    }


def _image(svg: bytes) -> str:
    """As an image, so that its identifiers, styles and scripts cannot affect the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"


# --- the timeline


def _timeline(summary: Summary, guests: Sequence[ReportGuest]) -> dict[str, object]:
    span = summary.span
    first = guests[:MOST_LINES]
    urgent = (*_NOW, Standing.LAST_BAD)
    return {
        "begin": span.begin,
        "columns": span.end - span.begin,
        "scale": messages.scale(span),
        "all": [
            bar
            for column in summary.columns
            for bar in _parts(column.number, column.broken / column.judged, column.broken, column.judged)
        ],
        "lines": [_line(guest) for guest in first if guest.standing in urgent],
        "calm": [_line(guest) for guest in first if guest.standing not in urgent],
        "left": len(guests) - len(first),
    }


def _line(guest: ReportGuest) -> dict[str, object]:
    return {
        **_names(guest.worst.result),
        "often": messages.often_words(guest),
        "bars": _bars(guest),
    }


def _parts(column: int, part: float, bad: int, runs: int) -> list[_Bar]:
    title = f"{bad} of {runs} runs not kept"
    return [
        _Bar(column=column, width=1, top=20 * part, height=20 * (1 - part), kind=Verdict.KEPT.value, title=title),
        *(
            [_Bar(column=column, width=1, top=0, height=20 * part, kind=Verdict.SHORT.value, title=title)]
            if bad
            else []
        ),
    ]


def _bars(guest: ReportGuest) -> list[_Bar]:
    """Adjacent equal bars become one."""
    bars: list[_Bar] = []
    for column, width, verdict in guest.marks:
        last = bars[-1] if bars else None
        if last is not None and last.kind == verdict.value and last.column + last.width == column:
            bars[-1] = replace(last, width=last.width + width)
        else:
            bars.append(_bar(verdict, column, width))
    return bars


# --- what has no figures


def _waiting(waiting: WaitingTargets) -> list[dict[str, str]]:
    late = [
        {
            "guest": guest_words(each.target.guest_name, None),
            "where": printable(each.target.directory),
            "state": "overdue",
            "why": messages.late_words(each),
        }
        for each in waiting.late
    ]
    return late + [
        {
            "guest": guest_words(each.guest_name, None),
            "where": printable(each.directory),
            "state": "postponed",
            "why": f"{why_words(each.why, each.facts)}; last tried {minute(each.at)}",
        }
        for each in waiting.postponed
    ]


def _without_verdict(runs: Iterable[Run]) -> list[dict[str, object]]:
    """A line for all jobs of a guest with the same verdict and reason."""
    alike: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        subject, finding = run.result.subject, run.result.finding
        key = (subject.guest_uuid, subject.directory, finding.verdict, because_words(run.result))
        alike.setdefault(key, []).append(run)
    return [
        {
            **_names(newest.result),
            "job": ", ".join(run.result.job.name.value for run in several),
            "verdict": newest.verdict.value,
            "bar": _bar(newest.verdict),
            "when": minute(newest.result.started),
            "why": because_words(newest.result),
        }
        for several in alike.values()
        for newest in several[:1]
    ]
