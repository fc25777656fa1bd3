"""``plimsoll probe list`` and ``history``: the newest result of every guest, and those before it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from plimsoll_agent.errors import UsageError
from plimsoll_agent.messages.record import time_words
from plimsoll_agent.messages.serialize import limits_data
from plimsoll_agent.messages.tones import TONES
from plimsoll_agent.terminal.columns import Column, guest_column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import add_window, ends
from plimsoll_agent.util import durations
from plimsoll_agent.util.text import plural
from plimsoll_probes.cli.base import HistoryCommand, add_choice, guest_of, job_of, now
from plimsoll_probes.model.finding import GOOD, WORST_FIRST, Verdict
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Measured, Postponed, ProbeResult
from plimsoll_probes.output import messages, serialize
from plimsoll_probes.output.messages import Streak

_LISTED = 50
POSTPONED = "postponed"
_Key = tuple[str, str]
"""Of a guest and a directory."""
COLUMNS = (
    Column("id", right=True),
    Column("server", most=17),
    guest_column(drop=1),
    Column("disk"),
    Column("directory", drop=4, most=24),
    Column("job"),
    Column("iops", right=True),
    Column("p50", right=True, drop=2),
    Column("p99", right=True, drop=6),
    Column("max", right=True, drop=3),
    Column("limit", wraps=True, drop=5),
    Column("when", head="WHEN (UTC)"),
    Column("verdict"),
    Column("why", wraps=True, note=True),
)
_OF_LIST = {"when": Column("when", head="AGE", right=True), "p99": Column("p99", right=True)}
LIST_COLUMNS = tuple(_OF_LIST.get(column, column) for column in COLUMNS)
"""An age is shorter than a time, so there is room for one more figure."""
_WORST: list[str] = [verdict for verdict in WORST_FIRST if verdict not in GOOD]
_WORST.insert(_WORST.index(Verdict.FAILED) + 1, POSTPONED)
"""The order of the list: a guest has the place of its worst job."""


class ProbeList(HistoryCommand, Listing):
    """List the newest result of each guest and job.

    The worst comes first, with what was postponed since. A job of a guest may have several directories.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll probe list
        plimsoll probe list --sort-column guest
        plimsoll probe list -f json
    """

    empty = ""  # what to do first stands on stderr

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        at = now()
        with self.history(parsed_args) as history:
            results = sorted(history.latest(), key=_order)
            streaks = _alike([(result, history.streak(result)) for result in results])
            postponements = still_postponed(history.postponed(), history.last_begun(at))
        rows: list[tuple[_Key, str, str, tuple[object, ...]]] = [
            (_key(each), each.subject.guest_name, each.finding.verdict, _cells(each, _age(each.started, at), streak))
            for each, streak in streaks
        ]
        rows += [
            ((each.guest_uuid, each.directory), each.guest_name, POSTPONED, _postponed_cells(each, at))
            for each in postponements
        ]
        worst: dict[_Key, int] = {}
        for key, _, verdict, _ in rows:
            worst[key] = min(_rank(verdict), worst.get(key, len(_WORST)))
        rows.sort(key=lambda one: (worst[one[0]], one[1], one[0]))
        self.closing = (_sum(results, postponements),)
        return LIST_COLUMNS, [cells for *_, cells in rows]


class ProbeHistory(HistoryCommand, Listing):
    """List the results of this node, oldest first.

    The last 50 unless --last says otherwise. Times are in UTC.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll probe history
        plimsoll probe history --guest instance-00000412 --since 7d
        plimsoll probe history --job mixed -f csv
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_choice(parser, "only")
        add_window(parser, "only results")
        parser.add_argument("--last", metavar="N", type=int, help="the last N results, 0 for all; default: 50")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        most = _LISTED if parsed_args.last is None else parsed_args.last
        if most < 0:
            raise UsageError("--last must be 0 or more")
        since, until = ends(parsed_args, now())
        with self.history(parsed_args) as history:
            results = history.runs(
                guest=guest_of(history, parsed_args),
                job=job_of(parsed_args),
                since=since,
                until=until,
                most=most + 1 if most else None,
            )
        if most and len(results) > most:
            results = results[:most]
            if parsed_args.last is None:
                self.app.stderr.write(f"only the newest {_LISTED} results are listed; --last 0 lists all\n")
        self.empty = (
            "No such results; plimsoll probe list has the newest of each guest." if history.is_there() else ""
        )
        rows = [
            _cells(result, Shown(serialize.time_data(result.started), time_words(result.started)))
            for result in reversed(results)
        ]
        return COLUMNS, rows


def still_postponed(
    postponements: Iterable[Postponed], starts: Mapping[tuple[str, str], datetime]
) -> list[Postponed]:
    """Those not probed since. ``starts`` has the start of the last probe of each guest (uuid) and directory."""
    return [
        each
        for each in postponements
        if (last := starts.get((each.guest_uuid, each.directory))) is None or last < each.at
    ]


def _key(result: ProbeResult) -> _Key:
    return result.subject.guest_uuid, result.subject.directory


def _rank(verdict: str) -> int:
    return _WORST.index(verdict) if verdict in _WORST else len(_WORST)


def _alike(pairs: Sequence[tuple[ProbeResult, Streak | None]]) -> list[tuple[ProbeResult, Streak | None]]:
    """The jobs of a guest that have been in the same trouble have the beginning of the first, so that it is one
    reason.
    """
    streaks: dict[object, list[Streak]] = {}
    for result, streak in pairs:
        if streak is not None:
            streaks.setdefault((_key(result), result.finding.verdict), []).append(streak)
    earliest: dict[object, Streak] = {}
    for key, several in streaks.items():
        end_times = [until for _, until in several if until is not None]
        earliest[key] = (
            min(first for first, _ in several),
            min(end_times) if len(end_times) == len(several) else None,
        )
    return [(result, earliest.get((_key(result), result.finding.verdict))) for result, _ in pairs]


def _order(result: ProbeResult) -> tuple[str, str, str, int]:
    subject = result.subject
    return subject.guest_name, subject.guest_uuid, subject.directory, list(JobName).index(result.job.name)


def _cells(result: ProbeResult, when: Shown, streak: Streak | None = None) -> tuple[object, ...]:
    subject, measurement, limits = result.subject, result.measured, result.circumstances.before
    return (
        result.id,
        Shown(subject.display_name, subject.display_name or subject.guest_name),
        subject.guest_name,
        subject.target or None,
        subject.directory,
        result.job.name.value,
        Shown(None, messages.UNKNOWN)
        if measurement is None
        else Shown(measurement.iops, messages.iops_words(measurement.iops)),
        _quantile(measurement, 0.5),
        _quantile(measurement, 0.99),
        _slowest(measurement),
        Shown(limits_data(limits), messages.limits_words(limits)),
        when,
        Shown(result.finding.verdict.value, result.finding.verdict.value, TONES.get(result.finding.verdict)),
        _why(result, streak),
    )


def _quantile(measurement: Measured | None, fraction: float) -> Shown:
    quantile = None if measurement is None else measurement.latency.quantile(fraction, measurement.latency_max)
    return Shown(serialize.quantile_data(quantile), messages.quantile_words(quantile))


def _slowest(measurement: Measured | None) -> Shown:
    if measurement is None or not measurement.operations:
        return Shown(None, messages.UNKNOWN)
    return Shown(measurement.latency_max / 10**9, messages.latency_words(measurement.latency_max))


def _age(time: datetime, at: datetime) -> Shown:
    """In its largest unit: ``13 h``."""
    return Shown(serialize.time_data(time), " ".join(durations.words(at - time).split()[:2]))


def _why(result: ProbeResult, streak: Streak | None = None) -> Shown:
    """Nothing for a promise that was kept: the limit has a column."""
    as_promised = result.finding.verdict is Verdict.KEPT
    return Shown(result.finding.why.value, "" if as_promised else messages.because_words(result, streak))


def _postponed_cells(postponement: Postponed, at: datetime) -> tuple[object, ...]:
    nothing = Shown(None, messages.UNKNOWN)
    return (
        nothing,
        nothing,
        postponement.guest_name,
        nothing,
        postponement.directory,
        *(nothing,) * 6,
        _age(postponement.at, at),
        POSTPONED,
        Shown(postponement.why.value, messages.why_words(postponement.why, postponement.facts)),
    )


def _sum(results: Sequence[ProbeResult], postponements: Sequence[Postponed]) -> str:
    guests = len({each.subject.guest_uuid for each in results} | {each.guest_uuid for each in postponements})
    counts = Counter(result.finding.verdict for result in results)
    parts = [f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]]
    parts += [f"{len(postponements)} {POSTPONED}"] if postponements else []
    return f"{plural(len(results), 'job')} on {plural(guests, 'guest')}" + (f": {', '.join(parts)}" if parts else "")
