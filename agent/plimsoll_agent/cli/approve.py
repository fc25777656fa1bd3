"""``plimsoll approve``, ``pause`` and ``resume``: what a person says about a whole node."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from plimsoll_agent.audit import to_journal
from plimsoll_agent.brake import edition
from plimsoll_agent.catalogue import Catalogue
from plimsoll_agent.cli.base import LocalCommand, given_reason
from plimsoll_agent.cli.standing import catalogue_in_force, rules_in_force, state_of, who
from plimsoll_agent.decide import Situation
from plimsoll_agent.entries import Event, Happening
from plimsoll_agent.errors import UsageError
from plimsoll_agent.pause import Pause
from plimsoll_agent.reason import Code, because
from plimsoll_agent.record import Record
from plimsoll_agent.report import words
from plimsoll_agent.state import Approval, State, StateError


class _NodeWord(LocalCommand):
    """A word about this node, which the record keeps."""

    def note(self, state: State, event: Event) -> int:
        """Exit status 3 when what was done stands, but not in the record."""
        try:
            state.prepare()
            Record(state.record, to_journal).note([event])
        except StateError as error:
            self.app.stderr.write(f"It is not in the record: {error}\n")
            return 3
        return 0


class Approve(_NodeWord):
    """Let through what the brake stopped, under just the rules, QoS specs and types that EDITION stands for.

    Where a change of them would release many disks, loosen them, or cut them by more than half, a pass
    changes none of them, and names the edition. After the approval the next pass changes them; the first pass over
    the whole node uses the approval up. Look at plimsoll plan first. Other rules or specs need another approval; the
    same rules file and the same specs and types have the same edition on every node.

    Exit status: 0 approved, 3 approved but not recorded, 1 not approved, 64 when they are others by now.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("edition", metavar="EDITION", help="the six characters that the pass named")
        parser.add_argument("--reason", metavar="TEXT", default="", help="why, for the record")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = self.settings(parsed_args)
        state, now, by = state_of(settings), datetime.now(UTC), who()
        in_force, complaint = rules_in_force(settings, state, keep=False)
        if complaint:
            self.app.stderr.write(f"{complaint}\n")
        known, _ = catalogue_in_force(settings.catalogue, now)
        present = edition(Situation(now, in_force, catalogue=known))
        if parsed_args.edition != present:
            what = "the rules and the catalogue" if isinstance(known, Catalogue) else "the rules"
            raise UsageError(
                f"{parsed_args.edition} does not stand for {what} as they are now, {present} does; see: plimsoll plan"
            )
        state.prepare()
        state.save_approval(Approval(present, by, now))
        self.app.stdout.write(f"Approved: {present}. The next pass goes through with it.\n")
        reason = because(Code.APPROVED, edition=present, why=parsed_args.reason)
        return self.note(state, Event(now, by, Happening.APPROVED, reason))


class PauseNode(_NodeWord):
    """Write no limit on this node from now on, until plimsoll resume.

    Passes go on to look and to report. A pass that is under way stops writing too. Limits that are in force stay.

    Exit status: 0 paused, 3 paused but not recorded, 1 not paused, 64 when it was paused already.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; every pass shows it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        why, settings = given_reason(parsed_args.reason), self.settings(parsed_args)
        now, by, pause = datetime.now(UTC), who(), Pause(settings.pause_file)
        already = pause.reason()
        if already is not None:
            raise UsageError(f"{words(already)}; to say something else: plimsoll resume, then plimsoll pause")
        pause.begin(why, by, now)
        self.app.stdout.write(f"Paused: no limit is written on this node while {settings.pause_file} is there.\n")
        return self.note(state_of(settings), Event(now, by, Happening.PAUSED, because(Code.OPERATOR, why=why)))


class ResumeNode(_NodeWord):
    """Let passes write limits on this node again.

    Exit status: 0 resumed, 3 resumed but not recorded, 64 when the node was not paused, 1 still paused.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why, for the record")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        why, settings = given_reason(parsed_args.reason), self.settings(parsed_args)
        if not Pause(settings.pause_file).end():
            raise UsageError(f"this node is not paused: there is no {settings.pause_file}")
        self.app.stdout.write("Resumed: the next pass writes limits again.\n")
        reason = because(Code.OPERATOR, why=why)
        return self.note(state_of(settings), Event(datetime.now(UTC), who(), Happening.RESUMED, reason))
