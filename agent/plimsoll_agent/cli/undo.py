"""``plimsoll undo``: limits as they were before plimsoll's changes since a moment."""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from plimsoll_agent.cli.base import NodeCommand
from plimsoll_agent.cli.record import moment_of
from plimsoll_agent.cli.standing import PATIENCE, now_of, pause_in_force, standing, state_of
from plimsoll_agent.config import Settings
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.outcome import Kind
from plimsoll_agent.passes import Mode
from plimsoll_agent.record import Record
from plimsoll_agent.record_words import time_words
from plimsoll_agent.report import words
from plimsoll_agent.sources import SOURCES
from plimsoll_agent.undo import Undone, UndoReport, Wish, run_undo
from plimsoll_agent.undo_words import undo_data, undo_lines, undone_line

_BOOTED = "btime "
"""How the line of ``/proc/stat`` begins that has the time of the node's start (proc(5))."""


class Paused(PlimsollError):
    """The pause file keeps every limit of this node from being written, by a person's word too."""


class Undo(NodeCommand):
    """Put back the limits that were in force before what plimsoll changed since a moment.

    What was changed is told by plimsoll record, and so is a moment to give. A disk is put back only if it is here
    still: the same volume, not attached anew, in a guest that was not started anew; if its limits are those that
    plimsoll put in force last; and if neither a hold nor a rule that says manage: false is about it. The others are
    listed with the reason.

    Without --yes it shows what it would do and asks, on a terminal; that answer stands for the approval that the
    brake may want of a pass. As ever nothing is loosened while the cluster is not well. The mode does not matter:
    in mode enforce the next pass puts in force again what is wanted now. To keep what was put back, stop the timer,
    undo, say plimsoll pause or set mode = observe, and start the timer.

    Exit status: 0 all that is here is as before, or there is nothing to do; 3 some is not, or it is not remembered or
    recorded; 1 none is, or nothing was done; 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--since",
            metavar="MOMENT",
            required=True,
            help="undo changes from this moment on: a time (2026-11-20T14:00, in UTC), a date, today, yesterday, or a"
            " span back from now (2h)",
        )
        parser.add_argument(
            "--guest",
            metavar="GUEST",
            action="append",
            default=[],
            help="only this guest, by libvirt's name or uuid; may be given more than once",
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would be put back, and change nothing")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument(
            "--ignore-health", action="store_true", help="loosen limits also while the cluster is not well"
        )
        parser.add_argument("-f", "--format", choices=("text", "json"), default="text", help="default: text")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = self.settings(parsed_args)
        now = now_of(state_of(settings))
        since = moment_of("--since", parsed_args.since, now)
        if since > now:
            raise UsageError(f"--since {parsed_args.since} is still to come")
        asks = not parsed_args.yes and not parsed_args.dry_run
        if asks and (parsed_args.format == "json" or not self.app.stdin.isatty()):
            raise UsageError("there is nobody to ask; say --yes, or look first with --dry-run")
        answers = Record(state_of(settings).record).since()
        if answers is not None and since < answers:
            raise UsageError(
                f"--since {parsed_args.since}: entries from before {time_words(answers)} UTC were removed from the"
                " record; give a later moment"
            )
        wish = Wish(since, frozenset(parsed_args.guest))
        if parsed_args.dry_run:
            return self._told(self._run(parsed_args, settings, wish, look_only=True), parsed_args, settings)
        paused = pause_in_force(settings, now)
        if paused is not None and paused.facts.get("region"):
            raise Paused(f"{words(paused)}: no limit of this node is written until plimsoll region resume")
        if paused is not None:
            raise Paused(
                f"{words(paused)}: no limit of this node is written. Stop the timer of passes, then: plimsoll resume,"
                " plimsoll undo, plimsoll pause"
            )
        if asks:
            shown = self._run(parsed_args, settings, wish, look_only=True)
            self._close(shown, settings, planned=True)
            if not shown.count(Kind.PLANNED):
                return shown.exit_status
            if not self._agrees(shown):
                self.say("Nothing was changed.")
                return 1
            wish = replace(wish, agreed=shown.agreement)
        return self._told(self._run(parsed_args, settings, wish, look_only=False), parsed_args, settings)

    def _agrees(self, shown: UndoReport) -> bool:
        number = shown.count(Kind.PLANNED)
        self.app.stdout.write(f"Put back {number} {'disk' if number == 1 else 'disks'}? [y/N] ")
        self.app.stdout.flush()
        return self.app.stdin.readline().strip().lower() in ("y", "yes")

    def _run(self, parsed_args: argparse.Namespace, settings: Settings, wish: Wish, *, look_only: bool) -> UndoReport:
        """Raises ``Busy``, and as ``run_undo`` does."""
        state = state_of(settings)
        if not look_only:
            state.prepare()
        with nullcontext() if look_only else state.locked(patience=PATIENCE):
            stand = standing(settings, look_only=look_only)
            if stand.complaint:
                self.app.stderr.write(f"{stand.complaint}\n")
            gate = stand.caution.gate
            with self.libvirt(settings) as hypervisor:
                return run_undo(
                    wish,
                    stand.situation,
                    hypervisor=hypervisor,
                    sources=SOURCES,
                    record=Record(state.record),
                    ledger=stand.ledger,
                    bounds=settings.bounds,
                    gate=replace(gate, blocking=()) if parsed_args.ignore_health else gate,
                    paused=stand.caution.paused,
                    booted=_booted(),
                    look_only=look_only,
                    tell=self._tell if parsed_args.format == "text" else lambda _: None,
                )

    def _tell(self, undone: Undone) -> None:
        line = undone_line(undone)
        if line is not None:
            self.say(line)

    def _close(self, report: UndoReport, settings: Settings, *, planned: bool) -> None:
        for line in undo_lines(report, planned=planned, enforcing=Mode(settings.mode) is Mode.ENFORCE):
            self.say(line)

    def _told(self, report: UndoReport, parsed_args: argparse.Namespace, settings: Settings) -> int:
        """Say how it ended; returns the exit status."""
        if parsed_args.format == "json":
            self.say(json.dumps(undo_data(report, dry_run=parsed_args.dry_run, mode=settings.mode), indent=2))
        else:
            self._close(report, settings, planned=parsed_args.dry_run)
            if parsed_args.dry_run:
                self.say("This was a dry run: nothing was changed.")
        return 1 if self.unheard else report.exit_status


def _booted() -> datetime:
    """When the node was started; where the kernel does not say, every change may be from before."""
    try:
        for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
            if line.startswith(_BOOTED):
                return datetime.fromtimestamp(int(line.removeprefix(_BOOTED)), UTC)
    except (OSError, ValueError):
        pass
    return datetime.max.replace(tzinfo=UTC)
