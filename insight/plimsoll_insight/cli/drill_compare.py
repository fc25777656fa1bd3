"""``plimsoll drill compare``: drills beside each other."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.util.text import second
from plimsoll_insight.cli.drill_report import found_of
from plimsoll_probes.output.messages import iops_words, latency_words

if TYPE_CHECKING:
    from plimsoll_insight.drill.results import Incident, Results

PHASES = ("normal", "outage", "degraded", "return", "recovery")
COLUMNS = (
    Column("recording", most=32),
    Column("begin", long=True),
    Column("detect", head="DETECTED", right=True),
    Column("serve", head="SERVED AGAIN", right=True),
    Column("recover", head="RECOVERED", right=True),
    Column("peering", head="PEERING PG·s", right=True),
    Column("degraded", head="DEGRADED OBJECT·s", right=True, drop=1),
    Column("unknown", head="CEPH UNKNOWN", right=True, drop=2),
    Column("stalls", right=True),
    Column("stalled", head="STALLED FOR", right=True, drop=4),
    *(Column(f"{phase}_seconds", head=phase.upper(), right=True, drop=2) for phase in PHASES[1:]),
    *(Column(f"{phase}_iops", head=f"{phase.upper()} IOPS", right=True, drop=3) for phase in PHASES),
    *(Column(f"{phase}_p99", right=True, long=True) for phase in PHASES),
)


class DrillCompare(LocalCommand, Listing):
    """Compare the incidents of several drills.

    It lists a row for each incident of each recording, with what drill report has of it.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll drill compare spring.jsonl autumn.jsonl
        plimsoll drill compare spring.jsonl autumn.jsonl -f json
        plimsoll drill compare spring.jsonl --sort-column stalled
    """

    empty = "Nothing failed in these recordings."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="recordings")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        rows: list[Sequence[Any]] = []
        for path in parsed_args.files:
            results = found_of(path)
            if not results.sees_incidents:
                self.warn_of(f"{path}: unknown whether anything failed: Ceph and normal IOPS are not in it")
                self.empty = "Nothing is known to have failed in these recordings."
            rows += _rows(path, results)
        return COLUMNS, rows


def _rows(path: Path, results: Results) -> Iterator[tuple[object, ...]]:
    for incident in results.incidents:
        stalls = [one for one in results.stalls if incident.begin <= one.begin < incident.last]
        begin = datetime.fromtimestamp(results.recording.began + incident.begin, UTC)
        lengths = {phase: _length(phase, results, incident) for phase in PHASES}
        yield (
            str(path),
            Shown(begin.isoformat(timespec="milliseconds"), second(begin)),
            _seconds(incident.detect),
            _seconds(incident.serve),
            _seconds(incident.recover),
            _cell(incident.peering, lambda value: f"{value:.1f}"),
            _cell(incident.degraded, lambda value: f"{value:.0f}"),
            _seconds(incident.unknown),
            Shown(len(stalls), str(len(stalls))) if results.busy else Shown(None, NOTHING),
            _seconds(float(sum(one.seconds for one in stalls)) if results.busy else None),
            *(_seconds(lengths[phase]) for phase in PHASES[1:]),
            *(_cell(_iops(phase, results, incident), iops_words) for phase in PHASES),
            *(_cell(_p99(phase, results, incident), lambda value: latency_words(value * 1e9)) for phase in PHASES),
        )


def _of(phase: str, results: Results, incident: Incident) -> list[Any]:
    """Of the normal ones, that before it."""
    if phase == "normal":
        return [each for each in results.figures if each.span.phase == phase and each.span.end <= incident.begin][-1:]
    return [
        each for each in results.figures
        if each.span.phase == phase and incident.begin <= each.span.begin < incident.last
    ]  # fmt: skip


def _length(phase: str, results: Results, incident: Incident) -> float | None:
    return float(sum(each.span.end - each.span.begin for each in _of(phase, results, incident))) or None


def _iops(phase: str, results: Results, incident: Incident) -> float | None:
    parts = [(each.iops, each.span.end - each.span.begin) for each in _of(phase, results, incident)
             if each.iops is not None]  # fmt: skip
    length = sum(seconds for _, seconds in parts)
    return sum(iops * seconds for iops, seconds in parts) / length if length else None


def _p99(phase: str, results: Results, incident: Incident) -> float | None:
    """Of several parts of a phase, the worst."""
    return max(
        (each.latency[-1] for each in _of(phase, results, incident) if each.latency[-1] is not None), default=None
    )


def _seconds(value: float | None) -> Shown:
    return _cell(value, lambda seconds: f"{seconds:.0f} s")


def _cell(value: float | None, words: Callable[[float], str]) -> Shown:
    return Shown(None if value is None else float(f"{value:.6g}"), NOTHING if value is None else words(value))
