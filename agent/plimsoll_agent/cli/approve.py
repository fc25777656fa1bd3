"""``plimsoll approve``, ``pause`` and ``resume``: an operator's decisions about a whole node."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from functools import partial

from plimsoll_agent.app.audit import to_journal
from plimsoll_agent.app.context import PATIENCE, PassContext, pass_context, run, who
from plimsoll_agent.app.guest_pass import guests_locked
from plimsoll_agent.app.node import now_of, state_of
from plimsoll_agent.app.restoring import restore
from plimsoll_agent.cli.hold import next_words
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.messages.sentences import disk_name, note_words, unreachable_words, words
from plimsoll_agent.model.approvals import LEAST_DIGITS, Approval, digest_of_change
from plimsoll_agent.model.entries import Event, Happening
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.policy.memory import releasing
from plimsoll_agent.reconcile.outcome import Kind, Mode, Outcome, PassReport, Scope
from plimsoll_agent.reconcile.pause import Pause, end_after
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import Given, State, StateError
from plimsoll_agent.terminal.base import LocalCommand, NodeCommand, given_approval, given_duration, given_reason
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import minute, plural, printable

LOG = logging.getLogger(__name__)

_RELEASE = "the removal of these limits"


class _NodeDecision(LocalCommand):
    """A decision about this node, kept in the record."""

    def note(self, state: State, events: Sequence[Event]) -> int:
        """Returns 3 when the decision is in effect but could not be recorded."""
        try:
            state.prepare()
            Record(state.record, to_journal).note(events)
        except StateError as error:
            self.warn_of(f"Done, but not recorded: {error}")
            return 3
        return 0


class Approve(_NodeDecision, NodeCommand):
    """Approve changes that the brake deferred.

    Look at plimsoll plan first: it prints the digest, of a whole revision or of one disk's change. The next pass
    makes the approved changes; the first pass over the whole node uses the approval up. After another edit another
    approval is needed. The same rules file with the same QoS specs and types has the same revision on every node.

    Limits are orphaned when the QoS spec, rule or default that they came from is gone. They stay until --remove names
    them, by their digest or by volume type. Then passes remove them, also after a reboot that restores old limits,
    until the volume's type changes or a source sets a limit again.

    Exit status:
        0   approved, now or before
        3   approved but not recorded
        1   not approved
        64  unknown digest, or usage

    Examples:
        plimsoll approve 0123456789abcdef --reason "rules edited, CHG-412"
        plimsoll approve 0123456789abcdef --remove --reason "CHG-412"
        plimsoll approve --type gold --remove --reason "gold has no limits now"
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "digest",
            metavar="DIGEST",
            nargs="?",
            help=f"at least {LEAST_DIGITS} digits of the digest that plimsoll plan prints",
        )
        parser.add_argument(
            "--type",
            metavar="TYPE",
            help="with --remove, instead of DIGEST: remove the orphaned limits of all volumes of this type on this"
            " node",
        )
        parser.add_argument(
            "--remove", action="store_true", help="also allow limits to be removed; without it removals stay deferred"
        )
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; kept in the record")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        self._why = given_reason(parsed_args.reason)
        if (parsed_args.digest is None) == (parsed_args.type is None):
            raise UsageError("give either a DIGEST or --type TYPE")
        settings = self.settings(parsed_args)
        if parsed_args.type is not None:
            if not parsed_args.remove:
                raise UsageError("--type removes orphaned limits; to confirm, add --remove")
            return self._release(parsed_args, settings, lambda o: o.disk.volume_type == parsed_args.type)
        approval = given_approval("DIGEST", parsed_args.digest, parsed_args.remove)
        context = self._context(settings)
        present = context.situation.revision
        if present.startswith(approval.digest):
            return self._approve(settings, replace(approval, digest=present), "this revision")
        plan, by_digest = self._plan(settings, context), partial(_stands_for, approval.digest)
        reasons = [each for each in _of_disks(plan) if str(each.facts["digest"]).startswith(approval.digest)]
        if not reasons:
            if approval.remove and _released(plan, by_digest):
                return self._already(_RELEASE)
            raise UsageError(
                f"{approval.digest} is not the present revision ({present:.16}), a deferred change or orphaned"
                " limits; see: plimsoll plan"
            )
        digest, is_orphan = str(reasons[0].facts["digest"]), reasons[0].code is Code.ORPHANED
        if not approval.remove and (is_orphan or reasons[0].facts["percent"] is None):
            raise UsageError(f"{approval.digest} removes limits; to confirm, add --remove")
        if is_orphan:
            return self._release(parsed_args, settings, by_digest)
        return self._approve(settings, replace(approval, digest=digest), "this change")

    def _context(self, settings: Settings) -> PassContext:
        context = pass_context(settings, read_only=True)
        if context.complaint:
            self.warn_of(context.complaint)
        return context

    def _plan(self, settings: Settings, context: PassContext) -> PassReport:
        """What the brake defers, as if nothing were approved, and which limits are orphaned."""
        caution = replace(context.caution, brake=replace(context.caution.brake, approvals=()))
        with self.libvirt(settings) as hypervisor:
            return run(settings, hypervisor, replace(context, caution=caution), scope=Scope(), mode=Mode.PLAN)

    def _approve(self, settings: Settings, approval: Approval, what: str) -> int:
        state, by = state_of(settings), who()
        now = now_of(state)
        state.prepare()
        earlier = state.add_approval(Given(approval, by, now))
        if earlier is not None:
            return self._already(f"{what}, {approval.digest:.16}, by {printable(earlier.by)} at {minute(earlier.at)}")
        self.app.stdout.write(f"Approved: {what}, {approval.digest:.16}; {next_words(settings, 'applies it')}.\n")
        reason = because(Code.APPROVED, revision=approval.digest, remove=approval.remove, why=self._why)
        return self.note(state, [Event(at=now, by=by, what=Happening.APPROVED, reason=reason)])

    def _already(self, what: str) -> int:
        self.app.stdout.write(f"Already approved: {what}. Nothing changed.\n")
        return 0

    def _release(
        self, parsed_args: argparse.Namespace, settings: Settings, condition: Callable[[Outcome], bool]
    ) -> int:
        """Approve the removal of orphaned limits, in the memory. Raises ``UsageError``."""
        state = state_of(settings)
        state.prepare()
        plan = self._plan(settings, self._context(settings))
        orphans = [o for o in plan.outcomes if o.result.reason.code is Code.ORPHANED and condition(o)]
        if not orphans:
            if _released(plan, condition):
                return self._already(_RELEASE)
            raise UsageError(
                f"no volume of type {parsed_args.type} on this node has orphaned limits; see: plimsoll plan"
                if parsed_args.type is not None
                else f"the limits of {parsed_args.digest} are no longer orphaned; see: plimsoll plan"
            )
        now, by = now_of(state), who()
        guests = {o.disk.guest.uuid for o in orphans}
        with guests_locked(state, guests, patience=PATIENCE), NodeStore(state, by).changing(now) as memory:
            memories = {**plan.situation.memory, **memory.disks}
            disks = {**memory.disks, **releasing([o.disk for o in orphans], memories)}
            state.save_memory(replace(memory, disks=disks))
        then = next_words(settings, "removes them")
        for outcome in orphans:
            self.app.stdout.write(f"Approved: removal of the limits of {disk_name(outcome.disk)}; {then}.\n")
        return self.note(
            state,
            [
                Event(
                    at=now,
                    by=by,
                    what=Happening.APPROVED,
                    reason=because(
                        Code.APPROVED,
                        revision=outcome.result.reason.facts["digest"],
                        remove=True,
                        why=self._why,
                    ),
                    disk=outcome.disk.named,
                )
                for outcome in orphans
            ],
        )


def _stands_for(digest: str, outcome: Outcome) -> bool:
    """Whether this is the digest for removing the disk's limits."""
    return digest_of_change(outcome.disk.key, Limits()).startswith(digest)


def _released(plan: PassReport, condition: Callable[[Outcome], bool]) -> bool:
    """Whether the removal of these orphaned limits was approved before."""
    return any(o.decision.desired.reason.code is Code.RELEASED and condition(o) for o in plan.outcomes)


def _of_disks(plan: PassReport) -> list[Reason]:
    """The reasons of disks with a digest to approve: deferred changes and orphaned limits."""
    refusals = [] if plan.braked is None else [*plan.braked.alone.values()]
    orphans = [o.result.reason for o in plan.outcomes if o.result.reason.code is Code.ORPHANED]
    return [*refusals, *orphans]


class PauseNode(_NodeDecision, NodeCommand):
    """Stop writing limits on this node.

    It lasts for a time, or until plimsoll resume.

    Passes still read and report; a running pass stops writing too. Actual limits stay as they are. With --restore
    those that are reduced, under congestion or by a ceiling, are restored.

    Exit status:
        0   paused
        3   paused but not recorded, or not all limits restored
        1   not paused
        64  already paused, or usage

    Examples:
        plimsoll pause --for 2h --reason "Ceph is being upgraded"
        plimsoll pause --reason CHG-412 --restore
        plimsoll pause --for 30m --reason test
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--for", dest="span", metavar="DURATION", help="how long; default: until plimsoll resume")
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; shown by every pass")
        parser.add_argument(
            "--restore",
            action="store_true",
            help="restore limits that are reduced, and write nothing else",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        why, settings = given_reason(parsed_args.reason), self.settings(parsed_args)
        state, by, pause = state_of(settings), who(), Pause(settings.pause_file)
        now = now_of(state)
        until = None if parsed_args.span is None else end_after(given_duration("--for", parsed_args.span), now)
        already = pause.reason(now)
        if already is not None:
            aim, more = ("restore limits", " --restore") if parsed_args.restore else ("change the reason", "")
            raise UsageError(f"already {words(already)}; to {aim}: plimsoll resume, then plimsoll pause{more}")
        pause.begin(why, by, now, until)
        ends = f"while {settings.pause_file} exists" if until is None else f"until {minute(until)} or plimsoll resume"
        self.app.stdout.write(f"Paused: no limit is written on this node {ends}.\n")
        end = {} if until is None else {"until": until.isoformat()}
        event = Event(at=now, by=by, what=Happening.PAUSED, reason=because(Code.OPERATOR, why=why, **end))
        status = self.note(state, [event])
        return self._restored(settings) or status if parsed_args.restore else status

    def _restored(self, settings: Settings) -> int:
        """Only now: before the pause, the daemon would reduce them again."""
        try:
            with self.libvirt(settings) as hypervisor:
                report = restore(settings, hypervisor)
        except PlimsollError as error:
            LOG.error("limits that are reduced are not restored: %s", error)
            return 3
        rest = [outcome for outcome in report.outcomes if outcome.after.reduced is not None]
        self.app.stdout.write(f"{plural(report.count(Kind.CHANGED), 'disk')} restored.\n")
        for outcome in rest:
            self.app.stdout.write(f"{disk_name(outcome.disk)} stays reduced: {words(outcome.result.reason)}\n")
        for guest in report.unreachable_guests:
            self.app.stdout.write(f"{unreachable_words(guest)}\n")
        for note in report.notes:
            self.warn_of(note_words(note))
        # Then only the guests' marks say what is reduced.
        is_unknown = {Code.MEMORY_SET_ASIDE, Code.RECORD_SET_ASIDE} <= {note.code for note in report.notes}
        return 3 if rest or report.unreachable_guests or is_unknown else 0


class ResumeNode(_NodeDecision):
    """Write limits on this node again.

    It ends plimsoll pause.

    Exit status:
        0   resumed
        3   resumed but not recorded
        1   still paused
        64  not paused, or usage

    Examples:
        plimsoll resume --reason "Ceph is upgraded"
        plimsoll resume --reason CHG-412
        plimsoll resume --reason test
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; kept in the record")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        why, settings = given_reason(parsed_args.reason), self.settings(parsed_args)
        if not Pause(settings.pause_file).end():
            raise UsageError(f"this node is not paused: {settings.pause_file} does not exist")
        self.app.stdout.write(f"Resumed; {next_words(settings, 'writes limits again')}.\n")
        state, reason = state_of(settings), because(Code.OPERATOR, why=why)
        return self.note(state, [Event(at=now_of(state), by=who(), what=Happening.RESUMED, reason=reason)])
