"""The page: what was gathered, in words and figures, as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined

from plimsoll_agent.report import minute, printable
from plimsoll_probes.finding import Verdict
from plimsoll_probes.late import Late
from plimsoll_probes.report import words
from plimsoll_probes.report.gathered import UNJUDGED, Curve, Gathered, Guest, Run, Standing, curve, run_of
from plimsoll_probes.report.plots import guest_svg, type_svg
from plimsoll_probes.result import Postponed, ProbeResult
from plimsoll_probes.words import (
    Streak,
    because_words,
    guest_cell,
    quantile_words,
    since_words,
    why_words,
)

MOST_WORST = 15
MOST_LINES = 20
MOST_TYPES = 6
MOST_CARDS = 6
_CALM_CARDS = 2
"""Guests that are looked at closely where none is in trouble."""
_MOST_ASIDE = 10
_SHAPES: dict[Verdict, tuple[int, int]] = {
    Verdict.KEPT: (14, 6),
    Verdict.NO_LIMIT: (17, 3),
    Verdict.SHORT: (0, 20),
    Verdict.SLOW: (7, 13),
    Verdict.OVER_LIMIT: (0, 9),
    Verdict.DISCARDED: (9, 2),
    Verdict.FAILED: (9, 2),
}
"""Of a mark on the timeline that is 20 high: where it begins, and how high it is. Colours are not all that tells."""
_TROUBLE = (Standing.BROKEN, Standing.OVER, Standing.RECOVERED)


@dataclass(frozen=True, slots=True)
class Made:
    """How the report came to be."""

    node: str
    version: str
    guest: str | None
    """What it was asked to keep to."""
    job: str | None


@dataclass(frozen=True, slots=True)
class Reader:
    """What is asked of the history when it is known of whom: a guest's runs, and since when it is in trouble."""

    runs: Callable[[str], Iterable[ProbeResult]]
    """By the guest's uuid, newest first."""
    streak: Callable[[ProbeResult], Streak | None]


@dataclass(frozen=True, slots=True)
class _Bar:
    """Of a timeline, in columns and parts of its height."""

    column: float
    width: float
    top: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Who was not probed though it was time."""

    postponed: Sequence[Postponed] = ()
    late: Sequence[Late] = ()
    """Those that nobody postponed."""


def page(gathered: Gathered, waiting: Waiting, read: Reader, made: Made) -> str:
    """The whole page as text."""
    environment = Environment(
        loader=PackageLoader("plimsoll_probes.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    unproved = _unproved(gathered.unproved)
    trouble = gathered.standing(*_TROUBLE)
    told = [guest for guest in gathered.guests if guest.standing is not Standing.UNKNOWN]
    cards = [guest for guest in told if guest.standing in _TROUBLE][:MOST_CARDS]
    if not cards:
        cards = sorted(told, key=lambda guest: -guest.p99.lower if guest.p99 else 0)[:_CALM_CARDS]
    return environment.get_template("page.html.j2").render(
        headline=words.headline(gathered),
        details=list(words.details(gathered, len(waiting.postponed), len(waiting.late))),
        mood=_mood(gathered),
        made=replace(made, node=printable(made.node)),
        nodes=[printable(node) for node in gathered.nodes] or [printable(made.node)],
        span=words.span_words(gathered.span),
        only=_only(made),
        runs=gathered.runs,
        judged=gathered.judged,
        guests=len(gathered.guests),
        nothing=words.nothing_words(made.guest, made.job, gathered.span),
        advice=words.ADVICE,
        verdicts=_verdicts(gathered.verdicts, judged=True),
        unjudged=_verdicts(gathered.verdicts, judged=False),
        worst=[_row(guest, read.streak) for guest in trouble[:MOST_WORST]],
        worst_left=len(trouble) - MOST_WORST,
        rest=words.rest_words(gathered),
        timeline=_timeline(gathered, told),
        types=[_type(name, each, gathered) for name, each in gathered.types[:MOST_TYPES]],
        types_left=len(gathered.types) - MOST_TYPES,
        cards=[_card(guest, read.runs, gathered) for guest in cards],
        cards_are_worst=bool(trouble),
        cards_left=max(0, len(trouble) - MOST_CARDS),
        waiting=_waiting(waiting)[:_MOST_ASIDE],
        waiting_left=len(_waiting(waiting)) - _MOST_ASIDE,
        unproved=unproved[:_MOST_ASIDE],
        unproved_left=len(unproved) - _MOST_ASIDE,
        column=words.column_words(gathered.span),
    )


def _mood(gathered: Gathered) -> str:
    """For the colour beside the headline; the words say it too."""
    if gathered.standing(Standing.BROKEN, Standing.OVER):
        return "bad"
    return "good" if gathered.standing(Standing.KEPT, Standing.RECOVERED) else "unknown"


def _only(made: Made) -> str | None:
    parts = [f"guest {printable(made.guest)}"] if made.guest else []
    parts += [f"job {made.job}"] if made.job else []
    return ", ".join(parts) or None


def _verdicts(counts: Counter[Verdict], *, judged: bool) -> list[dict[str, object]]:
    """In the order of what needs somebody; those that are judged with their part of them all."""
    chosen = [verdict for verdict in Verdict if (verdict in UNJUDGED) is not judged]
    whole = sum(counts[verdict] for verdict in chosen)
    return [
        {
            "name": verdict.value,
            "count": counts[verdict],
            "percent": 100 * counts[verdict] / whole if whole else 0,
            "meaning": words.MEANINGS[verdict],
            "bar": _mark(verdict),
        }
        for verdict in chosen
    ]


def _mark(verdict: Verdict) -> _Bar:
    top, height = _SHAPES[verdict]
    return _Bar(0, 1, top, height, verdict.value, verdict.value)


# --- guests


def _row(guest: Guest, streak_of: Callable[[ProbeResult], Streak | None]) -> dict[str, object]:
    run, result = guest.worst, guest.worst.result
    streak = streak_of(result) if guest.well_since is None else None
    return {
        **_names(result),
        "type": _type_name(result.subject.volume_type),
        "job": words.jobs_words(result.job.name, guest.others),
        "verdict": run.verdict.value,
        "why": because_words(result),
        "iops": words.iops_of_limit(run),
        "p99": quantile_words(run.p99),
        "often": words.often_words(guest),
        "when": minute(result.started),
        "since": since_words(streak) if streak else words.standing_words(guest),
    }


def _names(result: ProbeResult) -> dict[str, object]:
    subject = result.subject
    return {
        "guest": guest_cell(subject.guest_name, subject.display_name),
        "where": ", ".join(printable(part) for part in (subject.target, subject.directory) if part),
    }


def _type_name(name: str | None) -> str:
    return "no volume type" if name is None else printable(name)


def _card(guest: Guest, runs_of: Callable[[str], Iterable[ProbeResult]], gathered: Gathered) -> dict[str, object]:
    runs: list[Run] = []

    def judged() -> Iterable[ProbeResult]:
        for result in runs_of(guest.uuid):
            if result.finding.verdict not in UNJUDGED:
                runs.append(run_of(result))
                yield result

    over_time = curve(judged(), gathered.span)
    name = guest_cell(guest.worst.result.subject.guest_name, guest.worst.result.subject.display_name)
    return {
        "name": name,
        "type": _type_name(guest.worst.result.subject.volume_type),
        "standing": guest.standing.value,
        "often": words.often_words(guest),
        "image": _image(guest_svg(runs, over_time, gathered.span)),
        "alt": f"IOPS of each run of {name} with the limit, and percentiles of its latency over time",
    }


def _type(name: str | None, each: Curve, gathered: Gathered) -> dict[str, object]:
    shown = _type_name(name)
    return {
        "name": shown,
        "runs": words.count_words(each.runs, "run"),
        "guests": words.count_words(each.guests, "guest"),
        "image": _image(type_svg(each, gathered.span)),
        "alt": f"{shown}: IOPS beside the limit, percentiles of latency and a heat map of it over time",
    }


def _image(svg: bytes) -> str:
    """As an image: no identifier, style or script of it can touch the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"


# --- the timeline


def _timeline(gathered: Gathered, guests: Sequence[Guest]) -> dict[str, object]:
    shown = sorted(guests, key=lambda guest: guest.standing not in _TROUBLE)[:MOST_LINES]
    span = gathered.span
    return {
        "columns": span.columns,
        "scale": words.scale(span),
        "all": [
            bar
            for column in gathered.columns
            for bar in _parts(column.number, column.broken / column.judged, column.broken, column.judged)
        ],
        "lines": [
            {
                "guest": guest_cell(guest.worst.result.subject.guest_name, guest.worst.result.subject.display_name),
                "often": words.often_words(guest),
                "bars": _bars(guest),
            }
            for guest in shown
        ],
        "left": len(guests) - len(shown),
    }


def _parts(column: int, part: float, broken: int, judged: int) -> list[_Bar]:
    title = f"{broken} of {judged} runs not kept"
    return [
        _Bar(column, 1, 20 * part, 20 * (1 - part), Verdict.KEPT.value, title),
        *([_Bar(column, 1, 0, 20 * part, Verdict.SHORT.value, title)] if broken else []),
    ]


def _bars(guest: Guest) -> list[_Bar]:
    """Neighbours that are alike are one."""
    bars: list[_Bar] = []
    for verdict, group in groupby(guest.marks, key=lambda mark: mark[1]):
        for column, _ in group:
            last = bars[-1] if bars else None
            if last is not None and last.kind == verdict.value and last.column + last.width == column:
                bars[-1] = _Bar(last.column, last.width + 1, last.top, last.height, last.kind, last.title)
            else:
                bars.append(_Bar(column, 1, *_SHAPES[verdict], verdict.value, verdict.value))
    return bars


# --- what has no figures


def _waiting(waiting: Waiting) -> list[dict[str, str]]:
    late = [
        {
            "guest": guest_cell(each.target.guest_name),
            "where": printable(each.target.directory),
            "state": "late",
            "why": words.late_words(each),
        }
        for each in waiting.late
    ]
    return late + [
        {
            "guest": guest_cell(each.guest_name),
            "where": printable(each.directory),
            "state": "postponed",
            "why": f"{why_words(each.why, each.facts)}; tried last {minute(each.at)}",
        }
        for each in waiting.postponed
    ]


def _unproved(runs: Iterable[Run]) -> list[dict[str, object]]:
    """A line for all jobs of a guest that stand alike."""
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
            "when": minute(newest.result.started),
            "why": because_words(newest.result),
        }
        for several in alike.values()
        for newest in several[:1]
    ]
