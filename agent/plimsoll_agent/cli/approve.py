"""``plimsoll approve``, ``pause`` and ``resume``: what a person says about a whole node."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import UTC, datetime

from plimsoll_agent.approvals import LEAST_DIGITS, Approval
from plimsoll_agent.audit import to_journal
from plimsoll_agent.brake import revision
from plimsoll_agent.cli.base import LocalCommand, NodeCommand, given_approval, given_reason
from plimsoll_agent.cli.standing import Standing, run, standing, state_of, who
from plimsoll_agent.config import Settings
from plimsoll_agent.entries import Event, Happening
from plimsoll_agent.errors import UsageError
from plimsoll_agent.outcome import Scope
from plimsoll_agent.passes import Mode
from plimsoll_agent.pause import Pause
from plimsoll_agent.reason import Code, Reason, because
from plimsoll_agent.record import Record
from plimsoll_agent.report import words
from plimsoll_agent.state import CorruptState, Given, State, StateError


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


class Approve(_NodeWord, NodeCommand):
    """Let through what the brake deferred: all that a revision changes, or the change of one disk.

    Where an edit of rules, QoS specs or types would cut too many disks to less than half, raise or release them, or
    cut a single one to a tenth, a pass defers these changes, and names the digest to approve. The next pass makes
    them; the first pass over the whole node uses the approval up. Look at plimsoll plan first. Another edit needs
    another approval; the same rules file and the same specs and types are the same revision on every node.

    Exit status: 0 approved, 3 approved but not recorded, 1 not approved, 64 when the digest stands for nothing.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "digest", metavar="DIGEST", help=f"at least {LEAST_DIGITS} of its digits, as plimsoll plan prints it"
        )
        parser.add_argument(
            "--remove", action="store_true", help="limits may be removed; without it removals stay deferred"
        )
        parser.add_argument("--reason", metavar="TEXT", default="", help="why, for the record")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        typed = given_approval("DIGEST", parsed_args.digest, parsed_args.remove)
        settings = self.settings(parsed_args)
        state, now, by = state_of(settings), datetime.now(UTC), who()
        stand = standing(settings, look_only=True)
        if stand.complaint:
            self.app.stderr.write(f"{stand.complaint}\n")
        present = revision(stand.situation)
        if present.startswith(typed.digest):
            approval, what = replace(typed, digest=present), "this revision"
        else:
            refusal = self._of_one_disk(typed, settings, stand)
            approval, what = replace(typed, digest=str(refusal.facts["digest"])), "this change"
            if refusal.facts["percent"] is None and not typed.remove:
                raise UsageError(f"{typed.digest} is a removal of limits; if it is meant: add --remove")
        state.prepare()
        given = [each for each in _kept(state) if each.approval.digest != approval.digest]
        state.save_approvals([*given, Given(approval, by, now)])
        self.app.stdout.write(f"Approved: {what}, {approval.digest:.16}. The next pass goes through with it.\n")
        reason = because(Code.APPROVED, edition=approval.digest, remove=approval.remove, why=parsed_args.reason)
        return self.note(state, Event(now, by, Happening.APPROVED, reason))

    def _of_one_disk(self, typed: Approval, settings: Settings, stand: Standing) -> Reason:
        """Why the change of a disk is deferred that has this digest. Raises ``UsageError``."""
        with self.libvirt(settings) as hypervisor:
            planned = run(settings, hypervisor, stand, scope=Scope(), mode=Mode.PLAN)
        refusals = () if planned.braked is None else planned.braked.alone.values()
        for refusal in refusals:
            if str(refusal.facts["digest"]).startswith(typed.digest):
                return refusal
        raise UsageError(
            f"{typed.digest} stands neither for the revision of now, {revision(stand.situation):.16}, nor for a"
            " deferred change; see: plimsoll plan"
        )


def _kept(state: State) -> tuple[Given, ...]:
    """What was approved before; nothing where that is damaged, as a pass takes it."""
    try:
        return state.load_approvals()
    except CorruptState:
        return ()


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
