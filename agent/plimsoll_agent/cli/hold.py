"""``plimsoll disk hold``: an operator's exception for one disk, with an end."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TextIO

from cliff import lister

from plimsoll_agent import report, spans, views
from plimsoll_agent.audit import to_journal
from plimsoll_agent.cli.base import LocalCommand, given_reason, limits_from
from plimsoll_agent.cli.disk import OneDisk
from plimsoll_agent.cli.formats import Shown
from plimsoll_agent.cli.standing import PATIENCE, now_of, pause_in_force, run, standing, state_of, who
from plimsoll_agent.config import Settings
from plimsoll_agent.decide import Unmanaged
from plimsoll_agent.disk import Disk
from plimsoll_agent.entries import Event, Happening
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.holds import LONGEST, Hold, standing_holds
from plimsoll_agent.ledger import Ledger, hold_event
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, PassReport, Scope
from plimsoll_agent.passes import Mode
from plimsoll_agent.reason import Code
from plimsoll_agent.record import Record
from plimsoll_agent.state import Memory, State

_IGNORES = " (ignores the health gate)"


class HoldAdd(OneDisk):
    """Hold one disk: as it is, or at other limits, until an end; it comes before all rules and sources.

    A rule that says manage: false stands even so. In mode enforce a pass over the guest follows at once; as ever
    no limit is raised or removed while the cluster is not well, unless --ignore-health is given. When the hold ends,
    the disk goes back to what rules and sources want, and where they want nothing, to what it had before. A second
    hold on a disk replaces the first.

    A hold is kept across restarts of the guest and of the node, and goes along in a live migration. With a cold
    migration, a resize or an evacuation it does not follow: add it again on the new node.

    Exit status: 0 the hold stands and its limits are in force, or the mode is observe; 3 it stands, and its limits
    wait, failed or are not known; 1 there is no hold; 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--for", dest="span", metavar="SPAN", required=True, help="how long: 2h, 90m, 1d12h")
        parser.add_argument(
            "--limits",
            metavar="NAME=VALUE[,NAME=VALUE...]",
            help="the full set (total_iops_sec=500): what is not named is unlimited; or the word unlimited;"
            " without it the disk is left as it is",
        )
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; shown wherever the disk is")
        parser.add_argument(
            "--ignore-health",
            action="store_true",
            help="raise or remove limits for this hold also while the cluster is not well; the call may hang then",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        span, limits, why = _span(parsed_args.span), limits_from(parsed_args.limits), given_reason(parsed_args.reason)
        settings = self.settings(parsed_args)
        state = state_of(settings)
        state.prepare()
        with state.locked(patience=PATIENCE):
            disk, now = self._meant(parsed_args), now_of(state)
            self.status = 0  # from here on it is the hold's
            ledger = Ledger(state, who())
            memory = ledger.recall(now, look_only=False)
            _tell_notes(ledger, self.app.stderr)
            hold = Hold(disk.named, limits, now, now + span, who(), why, ignore_health=parsed_args.ignore_health)
            events = [hold_event(hold, Happening.HOLD_ADDED, now, who())]
            if disk.key in memory.holds:
                events.insert(0, hold_event(memory.holds[disk.key], Happening.HOLD_ENDED, now, who()))
            _keep(state, replace(memory, holds={**memory.holds, disk.key: hold}), events)
            self.app.stdout.write(f"{_name(hold)}  held until {report.minute(hold.until)}: {_held_at(limits)}\n")
            return self._apply(settings, disk, hold)

    def _meant(self, parsed_args: argparse.Namespace) -> Disk:
        outcome = self.find(parsed_args)
        wanted = outcome.decision.wanted
        if isinstance(wanted, Unmanaged) and wanted.reason.code is Code.RULE_UNMANAGES:
            raise UsageError(
                f"{report.disk_name(outcome.disk)}: {report.words(wanted.reason)}; no hold can change that"
            )
        return outcome.disk

    def _apply(self, settings: Settings, disk: Disk, hold: Hold) -> int:
        if Mode(settings.mode) is Mode.OBSERVE:
            self.app.stdout.write("Mode is observe: no limit was written; the hold shows as desired limits.\n")
            return 0
        try:
            passed = self._pass(settings, disk)
        except PlimsollError as error:
            self.app.stderr.write(f"{error}\nThe hold stands; the next pass tries again.\n")
            return 3
        outcome = next((outcome for outcome in passed.outcomes if outcome.disk.key == disk.key), None)
        if outcome is None:
            if not passed.overlooked:
                self.app.stdout.write(f"{report.disk_name(disk)}  is gone by now\n")
            return 3
        done = outcome.result.kind in (Kind.RIGHT, Kind.CHANGED) and outcome.disk.in_force == hold.limits
        return 0 if done or hold.limits is None else 3

    def _pass(self, settings: Settings, disk: Disk) -> PassReport:
        """A pass over the guest, and what it has to say."""
        stand = standing(settings, look_only=False)
        if stand.complaint and self._sound:  # else it was said when the disk was looked for
            self.app.stderr.write(f"{stand.complaint}\n")
        with self.libvirt(settings) as hypervisor:
            passed = run(settings, hypervisor, stand, scope=Scope(frozenset({disk.guest.uuid})), mode=Mode.ENFORCE)
        *below, _sum = report.closing_lines(passed, planned=False)
        for line in (*map(report.outcome_line, passed.outcomes), *below):
            if line is not None:
                self.app.stdout.write(f"{line}\n")
        return passed


class HoldEnd(LocalCommand):
    """End a hold before its time; the next pass in mode enforce applies what is desired then.

    Exit status: 0 ended, 1 not ended, 64 when there is no such hold.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("guest", help="libvirt's name or uuid of the guest, or the id of a volume")
        parser.add_argument(
            "disk", nargs="?", help="the disk by its target (vda) or volume id; may be left out where one is held"
        )
        parser.add_argument("--reason", metavar="TEXT", help="why, for the record")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = self.settings(parsed_args)
        state = state_of(settings)
        state.prepare()
        with state.locked(patience=PATIENCE):
            now, ledger = now_of(state), Ledger(state, who())
            memory = ledger.recall(now, look_only=False)
            _tell_notes(ledger, self.app.stderr)
            holds = standing_holds(memory.holds, now)
            meant = [key for key, hold in holds.items() if hold.disk.means(parsed_args.guest, parsed_args.disk)]
            asked = " ".join(filter(None, (parsed_args.guest, parsed_args.disk)))
            if not meant:
                raise UsageError(f"no hold stands on {asked!r}; see: plimsoll disk hold list")
            if len(meant) > 1:
                names = ", ".join(_name(holds[key]) for key in meant)
                raise UsageError(f"{asked!r} can mean {names}; name the guest and the disk")
            ended = holds[meant[0]]
            event = hold_event(ended, Happening.HOLD_ENDED, now, who())
            if parsed_args.reason:
                early = report.printable(parsed_args.reason)
                event = replace(event, reason=replace(ended.reason, facts={**ended.reason.facts, "ended": early}))
            others = {key: hold for key, hold in memory.holds.items() if key != meant[0]}
            _keep(state, replace(memory, holds=others), [event])
            self.app.stdout.write(f"{_name(ended)}  no longer held; {_next(settings)}\n")
        return 0


class HoldList(LocalCommand, lister.Lister):
    """List the holds that stand on this node.

    Exit status: 0, 1 when they are not known: the memory is damaged or cannot be read.
    """

    formatter_namespace = "plimsoll.formatter.list"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        state = state_of(self.settings(parsed_args))
        now, ledger = now_of(state), Ledger(state, who())
        memory = ledger.recall(now, look_only=True)
        _tell_notes(ledger, self.app.stderr)
        self.status = int(bool(ledger.notes))
        holds = sorted(standing_holds(memory.holds, now).values(), key=lambda hold: hold.until)
        return ("guest", "disk", "volume", "limits", "since", "until", "left", "by", "reason"), [
            (
                Shown(hold.disk.guest_name, report.printable(hold.disk.guest_name)),
                Shown(hold.disk.target, report.printable(hold.disk.target)),
                Shown(hold.disk.volume_id, hold.disk.volume_id or "(own disk)"),
                Shown(views.limits_data(hold.limits), _held_at(hold.limits)),
                Shown(hold.since.isoformat(timespec="seconds"), report.minute(hold.since)),
                Shown(hold.until.isoformat(timespec="seconds"), report.minute(hold.until)),
                Shown(int((hold.until - now).total_seconds()), spans.words(hold.until - now)),
                Shown(hold.by, report.printable(hold.by)),
                Shown(hold.why, report.printable(hold.why) + (_IGNORES if hold.ignore_health else "")),
            )
            for hold in holds
        ]

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        data = list(data)
        if not data and parsed_args.formatter == "table":
            if not self.status:
                self.app.stdout.write("No disk of this node is held.\n")
            return 0
        return super().produce_output(parsed_args, column_names, data)


def _keep(state: State, memory: Memory, events: Sequence[Event]) -> None:
    """The record first: what is not there did not happen. Raises ``StateError``."""
    Record(state.record, to_journal).note(events)
    state.save_memory(memory)


def _tell_notes(ledger: Ledger, stderr: TextIO) -> None:
    for note in ledger.notes:
        stderr.write(f"{report.note_words(note)}\n")


def _name(hold: Hold) -> str:
    return f"{report.printable(hold.disk.guest_name)} {report.printable(hold.disk.target)}"


def _next(settings: Settings) -> str:
    """What becomes of the limits of a hold that was ended."""
    paused = pause_in_force(settings, now_of(state_of(settings)))
    if paused is not None:
        command = "plimsoll region resume" if paused.facts.get("region") else "plimsoll resume"
        return f"the node is paused: nothing will be written until {command}"
    if Mode(settings.mode) is Mode.OBSERVE:
        return "mode is observe: nothing will be written"
    return "the next pass applies what is desired"


def _held_at(limits: Limits | None) -> str:
    return "as it is" if limits is None else report.short_limits(limits)


def _span(text: str) -> timedelta:
    try:
        span = spans.parse(text)
    except ValueError as error:
        raise UsageError(f"--for: {error}") from error
    if span > LONGEST:
        raise UsageError(f"--for: {text} is more than a year; what is to last belongs into a rule")
    return span
