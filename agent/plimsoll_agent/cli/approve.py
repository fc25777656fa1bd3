"""``plimsoll approve``, ``pause`` and ``resume``: what a person says about a whole node."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from plimsoll_agent.approvals import LEAST_DIGITS, Approval
from plimsoll_agent.audit import to_journal
from plimsoll_agent.brake import revision
from plimsoll_agent.cli.base import LocalCommand, NodeCommand, given_approval, given_reason
from plimsoll_agent.cli.standing import PATIENCE, Standing, now_of, run, standing, state_of, who
from plimsoll_agent.config import Settings
from plimsoll_agent.entries import Event, Happening
from plimsoll_agent.errors import UsageError
from plimsoll_agent.ledger import Ledger, releasing
from plimsoll_agent.outcome import Outcome, PassReport, Scope
from plimsoll_agent.passes import Mode
from plimsoll_agent.pause import Pause
from plimsoll_agent.reason import Code, Reason, because
from plimsoll_agent.record import Record
from plimsoll_agent.report import disk_name, words
from plimsoll_agent.state import CorruptState, Given, State, StateError


class _NodeWord(LocalCommand):
    """A word about this node, which the record keeps."""

    def note(self, state: State, events: Sequence[Event]) -> int:
        """Exit status 3 when what was done stands, but not in the record."""
        try:
            state.prepare()
            Record(state.record, to_journal).note(events)
        except StateError as error:
            self.app.stderr.write(f"It is not in the record: {error}\n")
            return 3
        return 0


class Approve(_NodeWord, NodeCommand):
    """Let through what the brake deferred, or release orphaned limits.

    What the brake deferred is all that a revision changes, or the change of one disk.

    Where an edit of rules, QoS specs or types would cut too many disks to less than half, raise or release them, or
    cut a single one to a tenth, a pass defers these changes, and names the digest to approve. The next pass makes
    them; the first pass over the whole node uses the approval up. Look at plimsoll plan first. Another edit needs
    another approval; the same rules file and the same specs and types are the same revision on every node.

    Limits are orphaned when the QoS spec, rule or default is gone that they came from. They stay until --remove names
    them, by their digest or by volume type: then passes remove them, also after a reboot that restores old limits,
    until the volume's type changes or a source gives a limit again.

    Exit status: 0 approved, 3 approved but not recorded, 1 not approved, 64 when the digest stands for nothing.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "digest",
            metavar="DIGEST",
            nargs="?",
            help=f"at least {LEAST_DIGITS} of its digits, as plimsoll plan prints it",
        )
        parser.add_argument(
            "--type",
            metavar="TYPE",
            help="instead of DIGEST, with --remove: release the orphaned limits of all volumes of this type on this"
            " node",
        )
        parser.add_argument(
            "--remove", action="store_true", help="limits may be removed; without it removals stay deferred"
        )
        parser.add_argument("--reason", metavar="TEXT", default="", help="why, for the record")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if (parsed_args.digest is None) == (parsed_args.type is None):
            raise UsageError("give either a DIGEST or --type TYPE")
        settings = self.settings(parsed_args)
        if parsed_args.type is not None:
            if not parsed_args.remove:
                raise UsageError("--type releases orphaned limits; if that is meant: add --remove")
            return self._release(parsed_args, settings, lambda o: o.disk.volume_type == parsed_args.type)
        typed = given_approval("DIGEST", parsed_args.digest, parsed_args.remove)
        stand = self._stand(settings)
        present = revision(stand.situation)
        if present.startswith(typed.digest):
            return self._approve(parsed_args, settings, replace(typed, digest=present), "this revision")
        planned = self._plan(settings, stand)
        found = [each for each in _of_disks(planned) if str(each.facts["digest"]).startswith(typed.digest)]
        if not found:
            raise UsageError(
                f"{typed.digest} stands neither for the revision of now, {present:.16}, nor for a deferred change or"
                " orphaned limits; see: plimsoll plan"
            )
        digest, orphaned = str(found[0].facts["digest"]), found[0].code is Code.ORPHANED
        if not typed.remove and (orphaned or found[0].facts["percent"] is None):
            raise UsageError(f"{typed.digest} is a removal of limits; if it is meant: add --remove")
        if orphaned:
            return self._release(parsed_args, settings, lambda o: o.result.reason.facts["digest"] == digest)
        return self._approve(parsed_args, settings, replace(typed, digest=digest), "this change")

    def _stand(self, settings: Settings) -> Standing:
        stand = standing(settings, look_only=True)
        if stand.complaint:
            self.app.stderr.write(f"{stand.complaint}\n")
        return stand

    def _plan(self, settings: Settings, stand: Standing) -> PassReport:
        with self.libvirt(settings) as hypervisor:
            return run(settings, hypervisor, stand, scope=Scope(), mode=Mode.PLAN)

    def _approve(self, parsed_args: argparse.Namespace, settings: Settings, approval: Approval, what: str) -> int:
        state, now, by = state_of(settings), datetime.now(UTC), who()
        state.prepare()
        given = [each for each in _kept(state) if each.approval.digest != approval.digest]
        state.save_approvals([*given, Given(approval, by, now)])
        self.app.stdout.write(f"Approved: {what}, {approval.digest:.16}. The next pass goes through with it.\n")
        reason = because(Code.APPROVED, edition=approval.digest, remove=approval.remove, why=parsed_args.reason)
        return self.note(state, [Event(now, by, Happening.APPROVED, reason)])

    def _release(self, parsed_args: argparse.Namespace, settings: Settings, meant: Callable[[Outcome], bool]) -> int:
        """Release orphaned limits: in the memory, where the release stands. Raises ``UsageError``."""
        state = state_of(settings)
        state.prepare()
        with state.locked(patience=PATIENCE):
            planned = self._plan(settings, self._stand(settings))
            orphans = [o for o in planned.outcomes if o.result.reason.code is Code.ORPHANED and meant(o)]
            if not orphans:
                raise UsageError(
                    f"no volume of type {parsed_args.type} has orphaned limits here; see: plimsoll plan"
                    if parsed_args.type is not None
                    else f"the limits of {parsed_args.digest} are not orphaned any more; see: plimsoll plan"
                )
            now, by = now_of(state), who()
            memory = Ledger(state, by).recall(now, look_only=False)
            disks = {**memory.disks, **releasing([o.disk for o in orphans], planned.situation.memory)}
            state.save_memory(replace(memory, disks=disks))
        for outcome in orphans:
            self.app.stdout.write(f"Released: {disk_name(outcome.disk)}. The next pass removes its limits.\n")
        return self.note(
            state,
            [
                Event(
                    now,
                    by,
                    Happening.APPROVED,
                    because(
                        Code.APPROVED,
                        edition=outcome.result.reason.facts["digest"],
                        remove=True,
                        why=parsed_args.reason,
                    ),
                    outcome.disk.named,
                )
                for outcome in orphans
            ],
        )


def _of_disks(planned: PassReport) -> list[Reason]:
    """Reasons of single disks that name a digest to approve: deferred changes, and orphaned limits."""
    refusals = [] if planned.braked is None else [*planned.braked.alone.values()]
    orphans = [o.result.reason for o in planned.outcomes if o.result.reason.code is Code.ORPHANED]
    return [*refusals, *orphans]


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
        return self.note(state_of(settings), [Event(now, by, Happening.PAUSED, because(Code.OPERATOR, why=why))])


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
        return self.note(state_of(settings), [Event(datetime.now(UTC), who(), Happening.RESUMED, reason)])
