"""``plimsoll drill report``: the phases of a drill, and what they cost."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.page import Page
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.distribution import needs
from plimsoll_agent.util.text import first_few, plural, printable, second
from plimsoll_insight.cli.plotting import NoNumbers, plotting
from plimsoll_insight.drill.phases import DrillPhase
from plimsoll_insight.drill.recording import merge, read
from plimsoll_probes.output.messages import iops_words, latency_words

if TYPE_CHECKING:
    from plimsoll_insight.drill.comparison import ForecastComparison
    from plimsoll_insight.drill.results import DrillStall, Incident, PhaseFigures, Results

_MOST_FORECAST = 1 << 20
_STALLS_TOLD = 5
_STALLED_NAMED = 3
_EVENTS_SHOWN = 200

COLUMNS = (
    Column("phase"),
    Column("begin", head="BEGIN (UTC)", right=True),
    Column("seconds", head="LASTS", right=True),
    Column("iops", right=True),
    Column("change", head="AGAINST NORMAL", right=True),
    Column("p50", right=True),
    Column("p95", right=True, drop=2),
    Column("p99", right=True),
    Column("slowest", right=True, drop=1),
    Column("probed", head="PROBES P99", right=True, drop=5),
    Column("peering", head="PEERING PG·s", right=True, drop=3),
    Column("degraded", head="DEGRADED OBJECT·s", right=True, drop=4),
)
_COMPARED = {
    "detect": "detected in",
    "degraded": "objects degraded",
    "service": "a write takes",
    "iops_share": "IOPS left",
    "stale": "stale copies",
    "objects_sec": "objects a second",
    "clean": "clean in",
}


class DrillReport(LocalCommand, Page):
    """Report the phases of a drill and what guests got.

    It also has how soon the failure was seen and over, and who stalled.

    FILE is a recording, also one that is under way or was killed. Several are of one drill: of several nodes, whose
    clocks must agree, or one after the other. Latencies are the means of each disk and reading, weighted by their
    requests. --forecast compares the first incident with the output of plimsoll forecast -f json.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll drill report drill.jsonl
        plimsoll drill report drill.jsonl --plot drill.html
        plimsoll drill report node1.jsonl node2.jsonl --forecast forecast.json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("files", metavar="FILE", nargs="+", type=Path,
                            help="recordings of one drill, as of several nodes")  # fmt: skip
        parser.add_argument(
            "--plot", metavar="FILE", type=Path, help="draw it too: NAME.png, .svg or .html, a page with all of this"
        )
        parser.add_argument("--forecast", metavar="FILE", type=Path, help="what was forecast, as JSON")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[object]]:
        results = found_of(*parsed_args.files)
        comparisons = _comparisons(parsed_args.forecast, results)
        facts, sentences = _facts(results), [*_sentences(results), *comparison_lines(comparisons)]
        if parsed_args.plot is not None:
            with plotting(parsed_args.plot):
                from plimsoll_insight.drill import plots
                from plimsoll_insight.figures.page import FigureTable
            heads = [column.head for column in COLUMNS]
            rows = [[cell.human_readable() for cell in _cells(each, results)] for each in results.figures]
            tables = [
                FigureTable("Phases", heads, rows),
                FigureTable("Figures", ("FIGURE", "VALUE"), list(facts.items())),
                FigureTable("What happened", ("UTC", "EVENT"), _events(results)),
            ]
            title = f"Drill on {printable(results.recording.node)}, {_day(results)}"
            words = [_answer(results), *sentences]
            image = plots.render(parsed_args.plot.suffix, results, title, words, tables)
            files.save(parsed_args.plot, image, PlimsollError)
            sentences.append(f"Drawn: {parsed_args.plot}")
        self.table = COLUMNS, [_cells(each, results) for each in results.figures]
        self.closing = sentences
        return self.page(parsed_args, facts, data(results, comparisons))


def found_of(*paths: Path) -> Results:
    """Of recordings of one drill. Raises ``RecordingError``, ``NoNumbers``."""
    try:
        from plimsoll_insight.drill.results import results
    except ImportError as error:
        raise NoNumbers(f"drill report needs numpy: {needs('insight')}") from error
    return results(merge([read(path) for path in paths]))


def _comparisons(path: Path | None, results: Results) -> list[ForecastComparison]:
    if path is None:
        return []
    from plimsoll_insight.drill.comparison import UnreadableForecast, compare

    if not results.incidents:
        raise PlimsollError(
            "--forecast: nothing failed in this recording"
            if results.sees_incidents
            else "--forecast: unknown whether anything failed in this recording"
        )
    forecast = decoding.load(path, _MOST_FORECAST, lambda document: document, UnreadableForecast, follow=True)
    if forecast is None:
        raise UnreadableForecast(f"{path}: no such file")
    try:
        return compare(forecast, results, results.incidents[0])
    except UnreadableForecast as error:
        raise UnreadableForecast(f"{path}: {error}") from error


# --- for people


def _facts(results: Results) -> dict[str, str]:
    recording = results.recording
    facts = {
        "recorded": f"on {printable(recording.node)} from {_moment(results, 0)} for {results.seconds.number} s"
        + ("" if recording.ended else ", without an end"),
        "normal": "unknown" if results.phases.normal is None else f"{iops_words(results.phases.normal)} IOPS",
    }
    if recording.stores:
        first, most = (f"{size / 2**20:.0f} MiB" for size in (recording.stores[0], max(recording.stores)))
        facts["monitor's store"] = f"{first} at first, {most} at most"
    if not results.incidents:
        facts["incidents"] = "none" if results.sees_incidents else "unknown"
    for number, incident in enumerate(results.incidents, 1):
        of = "" if len(results.incidents) == 1 else f" {number}"
        facts[f"incident{of}"] = f"{_moment(results, incident.begin)}, " + (
            "not over" if incident.end is None else f"over after {incident.end - incident.begin} s"
        )
        facts[f"detected{of}"] = _after(incident.detect)
        facts[f"served again{of}"] = _after(incident.serve)
        facts[f"recovered{of}"] = _after(incident.recover, "after the return")
        facts[f"impact score{of}"] = _impact(incident)
        facts[f"degraded{of}"] = ("unknown" if incident.degraded is None else f"{incident.degraded:.0f} object·s") + (
            "" if incident.share is None else f", {_percent(incident.share)} of objects at most"
        )
    return facts


def _impact(incident: Incident) -> str:
    if incident.peering is None or incident.peering_range is None:
        return "unknown"
    low, high = incident.peering_range
    return f"{incident.peering:.1f} PG·s peering ({low:.0f}–{high:.0f}), {incident.inactive:.1f} PG·s inactive" + (
        f" ({incident.unknown:.0f} s unknown)" if incident.unknown >= 1 else ""
    )


def _answer(results: Results) -> str:
    """``Guests stood still for up to 12 s; Ceph noticed after 11 s; 60 % of normal for 45 s after the return``."""
    if results.stalls:
        stall = results.stalls[0]
        parts = [f"Guests stood still for up to {stall.seconds} s" + (" and longer" if stall.end is None else "")]
    else:
        parts = ["No busy guest stood still" if results.busy else "Unknown whether guests stood still"]
    if not results.incidents:
        return f"{parts[0]}; nothing failed" if results.recording.statuses else f"{parts[0]}; Ceph was not recorded"
    incident = results.incidents[0]
    if results.recording.statuses:
        after = incident.detect
        not_seen = "Ceph did not answer" if incident.peering is None else "Ceph took no OSD for down"
        parts.append(not_seen if after is None else f"Ceph noticed after {after:.0f} s")
    after_return = [
        (each.span.end - each.span.begin, each.change)
        for each in results.figures
        if each.span.phase in (DrillPhase.RETURN, DrillPhase.RECOVERY)
        and incident.begin <= each.span.begin < incident.last
    ]
    changes = [(seconds, change) for seconds, change in after_return if change is not None]
    if changes and len(changes) == len(after_return):
        seconds = sum(length for length, _ in changes)
        share = 1 + sum(length * change for length, change in changes) / seconds
        parts.append(f"{_percent(share)} of normal for {seconds} s after the return")
    return "; ".join(parts)


def _sentences(results: Results) -> Iterator[str]:
    if results.stalls:
        guests = {stall.disk.uuid for stall in results.stalls}
        longest = results.stalls[0].seconds
        yield (
            f"{plural(len(results.stalls), 'stall')} of {plural(len(guests), 'guest')}, of"
            f" {plural(results.busy, 'busy disk')}: {sum(stall.seconds for stall in results.stalls)} s in all,"
            f" the longest {longest} s."
        )
        groups: dict[tuple[int, int, bool], list[DrillStall]] = {}
        for stall in results.stalls:
            groups.setdefault((stall.begin, stall.seconds, stall.end is None), []).append(stall)
        alike = list(groups.values())
        yield from (_stalls(stalls, results) for stalls in alike[:_STALLS_TOLD])
        if rest := [stall for stalls in alike[_STALLS_TOLD:] for stall in stalls]:
            yield f"{plural(len(rest), 'more stall')}, the longest {rest[0].seconds} s."
    elif results.busy:
        yield f"None of {plural(results.busy, 'busy disk')} stalled."
    if results.unknown >= 1 and results.recording.statuses:
        yield f"Unknown: Ceph did not answer for {results.unknown:.0f} s of {results.seconds.number} s."
    if results.recording.damaged:
        yield f"{plural(results.recording.damaged, 'line')} of the recording not understood, and left out."


def _stalls(stalls: Sequence[DrillStall], results: Results) -> str:
    """``Stalled: web-1 vda, web-2 vda and 10 more at 17:07:29 UTC for 8 s.``"""
    first = stalls[0]
    length = f"{first.seconds} s" if first.end is not None else f"{first.seconds} s and longer"
    names = first_few([printable(stall.disk.words) for stall in stalls], _STALLED_NAMED)
    return f"Stalled: {names} at {_clock(results, first.begin)} UTC for {length}."


def comparison_lines(comparisons: Sequence[ForecastComparison]) -> Iterator[str]:
    for one in comparisons:
        words = _words_of(one.figure)
        low, high = words(one.forecast.low), words(one.forecast.high)
        range_words = low if low == high else f"{low} to {high}"
        yield f"Forecast: {_COMPARED[one.figure]} {range_words}; measured {words(one.measured)}, {_off(one.error)}."


def _off(error: float) -> str:
    if not error:
        return "within it"
    how_much = f"{abs(error):.0%} ".replace("%", " %") if isfinite(error) else ""
    return f"{how_much}{'above' if error > 0 else 'below'} it"


def _words_of(figure: str) -> Callable[[float], str]:
    if figure == "service":
        return lambda value: latency_words(value * 1e9)
    if figure in ("degraded", "iops_share"):
        return _percent
    return (lambda value: f"{value:.1f} s") if figure in ("detect", "clean") else lambda value: f"{value:.1f}"


def _cells(figures: PhaseFigures, results: Results) -> tuple[Shown, ...]:
    span = figures.span
    return (
        Shown(span.phase.value, span.phase.value),
        Shown(_iso(results, span.begin), _clock(results, span.begin)),
        Shown(span.end - span.begin, f"{span.end - span.begin} s"),
        _cell(figures.iops, iops_words),
        _cell(figures.change, _percent_words),
        *(_cell(each, lambda value: latency_words(value * 1e9)) for each in figures.latency),
        _cell(figures.slowest, lambda value: latency_words(value * 1e9)),
        _cell(figures.probed, lambda value: latency_words(value * 1e9)),
        _cell(figures.peering, lambda value: f"{value:.1f}"),
        _cell(figures.degraded, lambda value: f"{value:.0f}"),
    )


def _cell(value: float | None, words: Callable[[float], str]) -> Shown:
    return Shown(None if value is None else float(f"{value:.6g}"), NOTHING if value is None else words(value))


def _events(results: Results) -> list[tuple[str, str]]:
    recording = results.recording
    events = [
        *((note.time, f"{number}. {note.text} ({note.by})") for number, note in enumerate(recording.marks, 1)),
        *((note.time, f"plimsoll: {note.text}") for note in recording.changes),
        *((line.time, f"{line.who}: {line.text}") for line in recording.events),
        *(
            (gap.since, f"{gap.source} unknown for {gap.until - gap.since:.0f} s: {gap.why}")
            for gap in recording.gaps
        ),
    ]
    rows = [(f"{datetime.fromtimestamp(time, UTC):%H:%M:%S}", printable(words)) for time, words in sorted(events)]
    more = len(rows) - _EVENTS_SHOWN
    return [*rows[:_EVENTS_SHOWN], *([("", f"{more} more; the recording has all")] if more > 0 else [])]


def _day(results: Results) -> str:
    return f"{datetime.fromtimestamp(results.recording.began, UTC):%Y-%m-%d}"


def _moment(results: Results, at: float) -> str:
    return second(datetime.fromtimestamp(results.recording.began + at, UTC))


def _clock(results: Results, at: float) -> str:
    return f"{datetime.fromtimestamp(results.recording.began + at, UTC):%H:%M:%S}"


def _iso(results: Results, at: float) -> str:
    return datetime.fromtimestamp(results.recording.began + at, UTC).isoformat(timespec="milliseconds")


def _after(seconds: float | None, words: str = "") -> str:
    return NOTHING if seconds is None else f"after {seconds:.0f} s" if not words else f"{seconds:.0f} s {words}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 or not share else f"{100 * share:.2g} %"


def _percent_words(change: float) -> str:
    return f"{100 * change:+.0f} %" if abs(change) >= 0.005 else "0 %"


# --- for programs


def data(results: Results, comparisons: Sequence[ForecastComparison] = ()) -> dict[str, object]:
    """As ``docs/html/schemas/drill-report.json`` has it."""
    recording = results.recording
    return {
        "node": recording.node,
        "begin": _iso(results, 0),
        "seconds": results.seconds.number,
        "ended": recording.ended,
        "normal_iops": _round(results.phases.normal),
        "unknown_seconds": _round(results.unknown),
        "phases": [
            {
                str(column): cell.machine_readable()
                for column, cell in zip(COLUMNS, _cells(each, results), strict=True)
            }
            for each in results.figures
        ],
        "incidents": (
            [_incident_data(incident, results) for incident in results.incidents] if results.sees_incidents else None
        ),
        "mon_store_bytes": (
            {"first": recording.stores[0], "most": max(recording.stores)} if recording.stores else None
        ),
        "busy_disks": results.busy,
        "stalls": [
            {
                "guest": stall.disk.guest, "guest_uuid": stall.disk.uuid, "disk": stall.disk.target,
                "begin": _iso(results, stall.begin), "seconds": stall.seconds, "ended": stall.end is not None,
            }
            for stall in results.stalls
        ],
        "marks": [{"time": _iso_of(note.time), "text": note.text, "by": note.by} for note in recording.marks],
        "forecast": [
            {"figure": one.figure, "low": one.forecast.low, "high": one.forecast.high,
             "measured": _round(one.measured), "error": _round(one.error)}
            for one in comparisons
        ],
    }  # fmt: skip


def _incident_data(incident: Incident, results: Results) -> dict[str, Any]:
    span = incident.peering_range
    return {
        "begin": _iso(results, incident.begin),
        "end": None if incident.end is None else _iso(results, incident.end),
        "detect_seconds": _round(incident.detect),
        "serve_seconds": _round(incident.serve),
        "recover_seconds": _round(incident.recover),
        "peering_pg_seconds": _round(incident.peering),
        "peering_pg_seconds_range": span and dict(zip(("low", "high"), map(_round, span), strict=True)),
        "inactive_pg_seconds": _round(incident.inactive),
        "degraded_object_seconds": _round(incident.degraded),
        "degraded_share": _round(incident.share),
        "stale_copies": incident.stale,
        "unknown_seconds": _round(incident.unknown),
    }


def _iso_of(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
