"""``plimsoll probe timetable``: due, upcoming and missed probes."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from plimsoll_agent.app.context import rules_actual
from plimsoll_agent.app.node import pause_actual, state_of
from plimsoll_agent.messages.record import time_words
from plimsoll_agent.messages.sentences import words as reason_words
from plimsoll_agent.terminal.base import NodeCommand, any_duration
from plimsoll_agent.terminal.columns import GUEST, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import ago, plural
from plimsoll_probes.app.history import history_of
from plimsoll_probes.app.pick import pick
from plimsoll_probes.cli.base import now
from plimsoll_probes.model.result import Postponed
from plimsoll_probes.output import messages, serialize
from plimsoll_probes.schedule import timetable
from plimsoll_probes.schedule.targets import PlannedTarget

COLUMNS = (
    Column("at", head="AT (UTC)"),
    Column("server", drop=5, most=20),
    GUEST,
    Column("directory", drop=4, most=24),
    Column("jobs", wraps=True),
    Column("every", drop=2),
    Column("rule", drop=1, most=24),
    Column("last", drop=3),
    Column("state"),
    Column("why", wraps=True, note=True),
)


_SHOWN = 7
"""Coming probes of a guest and directory in a table."""


class ScheduleState(StrEnum):
    """The state of one scheduled time of a target."""

    DUE = "due"
    """It may start now."""
    POSTPONED = "postponed"
    """Due, and could not start so far."""
    MISSED = "missed"
    """Too late to start."""
    COMING = "coming"


@frozen(kw_only=True)
class TimetableEntry:
    """One scheduled time; ``late`` is when it is too late to start, ``last`` when the target's last probe began."""

    target: PlannedTarget
    at: datetime
    late: datetime
    state: ScheduleState
    last: datetime | None
    postponed: Postponed | None = None
    """Why it did not start."""


class ProbeTimetable(NodeCommand, Listing):
    """List due and upcoming probes.

    It follows the current rules and running guests. Times are in UTC.

    A guest without a probe in that time is listed with its next one.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll probe timetable
        plimsoll probe timetable --until 12h
        plimsoll probe timetable -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--until", metavar="DURATION", default="24h", help="how far ahead; default: 24h")
        parser.add_argument(
            "--all", action="store_true", help=f"in a table, more than the next {_SHOWN} probes of a guest too"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        ahead, at, settings = any_duration("--until", parsed_args.until), now(), self.settings(parsed_args)
        rules, complaint = rules_actual(settings, state_of(settings), keep=False, without=True)
        if complaint:
            self.warn_of(complaint)
            self.status = 1
        pause = pause_actual(settings, at)
        if pause is not None:
            self.app.stderr.write(f"No probe starts: {reason_words(pause)}.\n")
        with self.libvirt(settings) as hypervisor:
            selection = pick(hypervisor, settings, rules, at)
        for line in selection.complaints:
            self.app.stderr.write(f"{line}\n")
        if selection.unreachable:
            self.status = 1
        with history_of(settings) as history:
            starts, postponements = history.last_begun(at), history.postponed()
        self._entries = entries(selection.chosen.targets, starts, postponements, at, at + ahead, settings.probe.late)
        self._guests = len({target.guest.uuid for target in selection.chosen.targets})
        self.closing = (self._sum(),)
        self.empty = self.closing[0]
        nearest = self._entries
        if parsed_args.formatter == "table" and not parsed_args.all:
            nearest = next_of_each(self._entries)
        if more := len(self._entries) - len(nearest):
            last = time_words(self._entries[-1].at)
            self.closing = (f"… and {more} more until {last} UTC (--all lists them)", *self.closing)
        return COLUMNS, [_cells(entry, at) for entry in nearest]

    def _sum(self) -> str:
        if not self._guests:
            return (
                "No rule with probe chooses a guest of this node; to probe one, add probe to a rule that matches it"
            )
        waiting = sum(entry.state in (ScheduleState.DUE, ScheduleState.POSTPONED) for entry in self._entries)
        return f"{plural(self._guests, 'guest')}, {waiting} due now"


def entries(
    targets: Sequence[PlannedTarget],
    starts: Mapping[tuple[str, str], datetime],
    postponements: Iterable[Postponed],
    at: datetime,
    until: datetime,
    late: float,
) -> list[TimetableEntry]:
    """Each target's last time, if no probe ran then, and its upcoming times; at least one entry for each target."""
    why = {(each.guest_uuid, each.directory): each for each in postponements}
    due = {item.target.key for item in timetable.due(targets, starts, at, late)}
    rows: list[TimetableEntry] = []
    for target in targets:
        last, reason, patience = starts.get(target.key), why.get(target.key), timedelta(seconds=late)
        time = timetable.previous(target, at)
        if reason is not None and not time <= reason.at <= at:
            reason = None  # it is about an earlier time
        if target.key in due:
            state = ScheduleState.DUE if reason is None else ScheduleState.POSTPONED
            rows.append(
                TimetableEntry(target=target, at=time, late=time + patience, state=state, last=last, postponed=reason)
            )
        elif (last is not None and last < time) or (reason is not None and (last is None or last < time)):
            rows.append(
                TimetableEntry(
                    target=target,
                    at=time,
                    late=time + patience,
                    state=ScheduleState.MISSED,
                    last=last,
                    postponed=reason,
                )
            )
        coming = [item.at for item in timetable.table([target], at, until)]
        following = timetable.following(target, at)
        if not coming and (target.until is None or following < target.until):
            coming = [following]
        rows += [
            TimetableEntry(target=target, at=item, late=item + patience, state=ScheduleState.COMING, last=last)
            for item in coming
        ]
    return sorted(rows, key=lambda entry: (entry.at, *entry.target.key))


def next_of_each(rows: Sequence[TimetableEntry]) -> list[TimetableEntry]:
    """Of each target what is due or was missed, and the first few that are coming; ``rows`` are in order."""
    number: Counter[tuple[str, str]] = Counter()
    nearest = []
    for row in rows:
        number[row.target.key] += row.state is ScheduleState.COMING
        if number[row.target.key] <= _SHOWN:
            nearest.append(row)
    return nearest


def _cells(entry: TimetableEntry, at: datetime) -> tuple[object, ...]:
    target = entry.target
    return (
        Shown(serialize.time_data(entry.at), time_words(entry.at)),
        target.guest.display_name,
        target.guest.name,
        target.directory,
        Shown([job.value for job in target.jobs], ", ".join(target.jobs)),
        Shown(target.probing.every.total_seconds(), durations.words(target.probing.every)),
        target.rule,
        Shown(entry.last and serialize.time_data(entry.last), "never" if entry.last is None else ago(entry.last, at)),
        Shown(entry.state.value, _state_words(entry, at)),
        _why(entry.postponed),
    )


def _state_words(entry: TimetableEntry, at: datetime) -> str:
    match entry.state:
        case ScheduleState.DUE | ScheduleState.POSTPONED:
            return f"{entry.state}: may start for {durations.words(entry.late - at)} more"
        case ScheduleState.MISSED:
            return "missed"
        case ScheduleState.COMING:
            return f"in {durations.words(entry.at - at)}"


def _why(postponement: Postponed | None) -> Shown:
    if postponement is None:
        return Shown(None, messages.UNKNOWN)
    return Shown(postponement.why.value, messages.why_words(postponement.why, postponement.facts))
