"""``plimsoll probe list`` and ``history``: the newest result of every guest, and those before it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from cliff import lister

from plimsoll_agent.cli.formats import Shown
from plimsoll_agent.errors import UsageError
from plimsoll_agent.record_words import time_words
from plimsoll_agent.report import ago, printable
from plimsoll_agent.views import limits_data
from plimsoll_probes import views, words
from plimsoll_probes.cli.base import HistoryCommand, add_choice, job_of, now, since
from plimsoll_probes.finding import Verdict
from plimsoll_probes.job import JobName
from plimsoll_probes.result import Measured, Postponed, ProbeResult
from plimsoll_probes.words import Streak

_LISTED = 50
POSTPONED = "postponed"
COLUMNS = ("id", "guest", "disk", "directory", "job", "iops", "p50", "p99", "max", "limit", "verdict")


class ProbeList(HistoryCommand, lister.Lister):
    """List the newest result of each guest, directory and job, and what was postponed since.

    Exit status: 0, 1 trouble, 64 usage.
    """

    @property
    def formatter_namespace(self) -> str:
        return "plimsoll.formatter.list"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        at = now()
        with self.history(parsed_args) as history:
            self._results = sorted(history.latest(), key=_order)
            told = [(result, history.streak(result)) for result in self._results]
            self._postponed = still_postponed(history.postponed(), history.last_begun(at))
        rows = [(*_cells(result), _age(result.started, at), _why(result, streak)) for result, streak in told]
        rows += [_postponed_cells(each, at) for each in self._postponed]
        return (*COLUMNS, "when", "why"), rows

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        super().produce_output(parsed_args, column_names, data)
        if parsed_args.formatter == "table":
            self.app.stdout.write(f"{_sum(self._results, self._postponed)}\n")
        return 0


class ProbeHistory(HistoryCommand, lister.Lister):
    """List the results of this node, oldest first; the last 50 unless --most says otherwise. Times are in UTC.

    A moment is a time (2026-11-20T14:00, in UTC unless it has a zone of its own), a date (its midnight), today,
    yesterday, or a span back from now (90m, 2h, 7d).

    Exit status: 0, 1 trouble, 64 usage.
    """

    @property
    def formatter_namespace(self) -> str:
        return "plimsoll.formatter.list"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_choice(parser, "only")
        parser.add_argument("--since", metavar="MOMENT", help="only what began from this moment on")
        parser.add_argument("--most", metavar="N", type=int, help="the last N results, 0 for all; default: 50")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        most = _LISTED if parsed_args.most is None else parsed_args.most
        if most < 0:
            raise UsageError("--most must be 0 or more")
        with self.history(parsed_args) as history:
            found = history.runs(
                guest=parsed_args.guest,
                job=job_of(parsed_args),
                since=since(parsed_args, now()),
                most=most + 1 if most else None,
            )
        if most and len(found) > most:
            found = found[:most]
            if parsed_args.most is None:
                self.app.stderr.write(f"older results are left out after {_LISTED}; --most 0 lists all\n")
        rows = [
            (*_cells(result), Shown(views.time_data(result.started), time_words(result.started)), _why(result))
            for result in reversed(found)
        ]
        return (*COLUMNS, "when", "why"), rows


def still_postponed(postponed: Iterable[Postponed], begun: Mapping[tuple[str, str], datetime]) -> list[Postponed]:
    """What was not probed since. ``begun`` is when the last probe of each guest (uuid) and directory began."""
    return [
        each for each in postponed if (last := begun.get((each.guest_uuid, each.directory))) is None or last < each.at
    ]


def _order(result: ProbeResult) -> tuple[str, str, str, int]:
    subject = result.subject
    return subject.guest_name, subject.guest_uuid, subject.directory, list(JobName).index(result.job.name)


def _cells(result: ProbeResult) -> tuple[object, ...]:
    subject, measured, limits = result.subject, result.measured, result.circumstances.before
    return (
        result.id,
        Shown(subject.guest_name, words.guest_cell(subject.guest_name, subject.display_name)),
        Shown(subject.target, printable(subject.target or words.UNKNOWN)),
        Shown(subject.directory, printable(subject.directory)),
        result.job.name.value,
        Shown(None, words.UNKNOWN) if measured is None else Shown(measured.iops, words.iops_words(measured.iops)),
        _quantile(measured, 0.5),
        _quantile(measured, 0.99),
        _slowest(measured),
        Shown(limits_data(limits), words.limits_words(limits)),
        result.finding.verdict.value,
    )


def _quantile(measured: Measured | None, fraction: float) -> Shown:
    quantile = None if measured is None else measured.latency.quantile(fraction)
    return Shown(views.quantile_data(quantile), words.quantile_words(quantile))


def _slowest(measured: Measured | None) -> Shown:
    if measured is None or not measured.operations:
        return Shown(None, words.UNKNOWN)
    return Shown(measured.latency_max / 10**9, words.latency_words(measured.latency_max))


def _age(time: datetime, at: datetime) -> Shown:
    return Shown(views.time_data(time), ago(time, at))


def _why(result: ProbeResult, streak: Streak | None = None) -> Shown:
    return Shown(result.finding.why.value, words.because_words(result, streak))


def _postponed_cells(postponed: Postponed, at: datetime) -> tuple[object, ...]:
    nothing = Shown(None, words.UNKNOWN)
    return (
        nothing,
        Shown(postponed.guest_name, words.guest_cell(postponed.guest_name)),
        nothing,
        Shown(postponed.directory, printable(postponed.directory)),
        *(nothing,) * 6,
        POSTPONED,
        _age(postponed.at, at),
        Shown(postponed.why.value, words.why_words(postponed.why, postponed.facts)),
    )


def _sum(results: Sequence[ProbeResult], postponed: Sequence[Postponed]) -> str:
    guests = len({each.subject.guest_uuid for each in results} | {each.guest_uuid for each in postponed})
    counted = Counter(result.finding.verdict for result in results)
    parts = [f"{counted[verdict]} {verdict}" for verdict in Verdict if counted[verdict]]
    parts += [f"{len(postponed)} {POSTPONED}"] if postponed else []
    return f"{counted_words(len(results), 'job')} on {counted_words(guests, 'guest')}" + (
        f": {', '.join(parts)}" if parts else ""
    )


def counted_words(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
