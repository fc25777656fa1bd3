"""``plimsoll probe timetable``: which guests are probed when, and which should have been."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from cliff import lister

from plimsoll_agent import spans
from plimsoll_agent.cli.base import NodeCommand
from plimsoll_agent.cli.formats import Shown
from plimsoll_agent.cli.standing import pause_in_force, rules_in_force, state_of
from plimsoll_agent.errors import UsageError
from plimsoll_agent.record_words import time_words
from plimsoll_agent.report import ago, printable
from plimsoll_agent.report import words as reason_words
from plimsoll_probes import timetable, views, words
from plimsoll_probes.chosen import Planned
from plimsoll_probes.cli.base import history_of, now
from plimsoll_probes.cli.looking import counted_words
from plimsoll_probes.cli.picked import picked
from plimsoll_probes.result import Postponed

COLUMNS = ("at", "guest", "directory", "jobs", "every", "rule", "last", "state", "why")


class State(StrEnum):
    """What is to be said of one time of a target."""

    DUE = "due"
    """Its time has come, and it may still begin."""
    POSTPONED = "postponed"
    """The same, and it could not begin so far."""
    MISSED = "missed"
    """It is too late for it."""
    COMING = "coming"


@dataclass(frozen=True, slots=True)
class Entry:
    """One time of a target; ``late`` is when it is too late to begin, ``last`` when the last probe began."""

    target: Planned
    at: datetime
    late: datetime
    state: State
    last: datetime | None
    postponed: Postponed | None = None
    """Why it did not begin."""


class ProbeTimetable(NodeCommand, lister.Lister):
    """List what is due now and what comes, by the rules in force and the guests that run now. Times are in UTC.

    Of a guest that has no time until then its next one is listed.

    Exit status: 0, 1 trouble, 64 usage.
    """

    @property
    def formatter_namespace(self) -> str:
        return "plimsoll.formatter.list"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--until", metavar="SPAN", default="24h", help="how far from now; default: 24h")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        span, at, settings = _span(parsed_args.until), now(), self.settings(parsed_args)
        rules, complaint = rules_in_force(settings, state_of(settings), keep=False)
        if complaint:
            self.app.stderr.write(f"{complaint}\n")
            self.status = 1
        paused = pause_in_force(settings, at)
        if paused is not None:
            self.app.stderr.write(f"Nothing of it is begun: {reason_words(paused)}.\n")
        with self.libvirt(settings) as hypervisor:
            found = picked(hypervisor, settings, rules, at)
        for line in found.complaints:
            self.app.stderr.write(f"{line}\n")
        if found.overlooked:
            self.status = 1
        with history_of(settings) as history:
            begun, postponed = history.last_begun(at), history.postponed()
        self._entries = entries(found.chosen.targets, begun, postponed, at, at + span, settings.probe.late)
        self._guests = len({target.guest.uuid for target in found.chosen.targets})
        return COLUMNS, [_cells(entry, at) for entry in self._entries]

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        super().produce_output(parsed_args, column_names, data)
        if parsed_args.formatter == "table":
            waiting = sum(entry.state in (State.DUE, State.POSTPONED) for entry in self._entries)
            sentence = f"{counted_words(self._guests, 'guest')} to be probed, {waiting} due now"
            self.app.stdout.write(f"{sentence if self._guests else 'no rule with probe chooses a guest'}\n")
        return 0


def _span(text: str) -> timedelta:
    try:
        return spans.parse(text)
    except ValueError as error:
        raise UsageError(f"--until: {error}") from error


def entries(
    targets: Sequence[Planned],
    begun: Mapping[tuple[str, str], datetime],
    postponed: Iterable[Postponed],
    at: datetime,
    until: datetime,
    late: float,
) -> list[Entry]:
    """What was due last and was not done, and all times that come; at least one of each target."""
    why = {(each.guest_uuid, each.directory): each for each in postponed}
    due = {item.target.key for item in timetable.due(targets, begun, at, late)}
    listed: list[Entry] = []
    for target in targets:
        last, reason, patience = begun.get(target.key), why.get(target.key), timedelta(seconds=late)
        time = timetable.previous(target, at)
        if reason is not None and not time <= reason.at <= at:
            reason = None  # of another time
        if target.key in due:
            state = State.DUE if reason is None else State.POSTPONED
            listed.append(Entry(target, time, time + patience, state, last, reason))
        elif (last is not None and last < time) or (reason is not None and (last is None or last < time)):
            listed.append(Entry(target, time, time + patience, State.MISSED, last, reason))
        coming = [item.at for item in timetable.table([target], at, until)]
        following = timetable.following(target, at)
        if not coming and (target.until is None or following < target.until):
            coming = [following]
        listed += [Entry(target, item, item + patience, State.COMING, last) for item in coming]
    return sorted(listed, key=lambda entry: (entry.at, *entry.target.key))


def _cells(entry: Entry, at: datetime) -> tuple[object, ...]:
    target = entry.target
    return (
        Shown(views.time_data(entry.at), time_words(entry.at)),
        Shown(target.guest.name, words.guest_cell(target.guest.name, target.guest.display_name)),
        Shown(target.directory, printable(target.directory)),
        Shown([job.value for job in target.jobs], ", ".join(target.jobs)),
        Shown(target.probing.every.total_seconds(), spans.words(target.probing.every)),
        Shown(target.rule, printable(target.rule or words.UNKNOWN)),
        Shown(entry.last and views.time_data(entry.last), "never" if entry.last is None else ago(entry.last, at)),
        Shown(entry.state.value, _state_words(entry, at)),
        _why(entry.postponed),
    )


def _state_words(entry: Entry, at: datetime) -> str:
    match entry.state:
        case State.DUE | State.POSTPONED:
            return f"{entry.state}: may begin for {spans.words(entry.late - at)} more"
        case State.MISSED:
            return "missed, and not made up for"
        case State.COMING:
            return f"in {spans.words(entry.at - at)}"


def _why(postponed: Postponed | None) -> Shown:
    if postponed is None:
        return Shown(None, words.UNKNOWN)
    return Shown(postponed.why.value, words.why_words(postponed.why, postponed.facts))
