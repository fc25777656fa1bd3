"""What a pass keeps at its end: the memory, marks in guests, how changes ended, and what is attached."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set

from plimsoll_agent.catalogue.attachments import Attachments
from plimsoll_agent.model.acknowledged import Acknowledgement
from plimsoll_agent.model.disk import Disk, guest_of
from plimsoll_agent.model.marks import Marks
from plimsoll_agent.model.memory import BrakeMemory, Remembered
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.policy.adoption import with_marks
from plimsoll_agent.policy.decide import Decision, Situation
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.policy.memory import Findings, remembering, with_changes
from plimsoll_agent.reconcile.apply import Applier
from plimsoll_agent.reconcile.brake import LargeChange, still_recent
from plimsoll_agent.reconcile.caution import Caution, leaves_judgement
from plimsoll_agent.reconcile.observe import Observation
from plimsoll_agent.reconcile.outcome import Braked, Outcome, Scope
from plimsoll_agent.reconcile.savings import after_writes
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.notes import Notes
from plimsoll_agent.store.state import Memory, StateError
from plimsoll_agent.util.frozen import frozen, replace

LOG = logging.getLogger(__name__)


def unseen(observation: Observation, scope: Scope, situation: Situation) -> frozenset[str]:
    """Guests that were not observed, out of scope or unreachable. All others that are missing are gone."""
    if scope.everything:
        return frozenset(each.guest.uuid for each in observation.unreachable)
    uuids = {*map(guest_of, [*situation.memory, *situation.attachments.volumes]), *situation.attachments.guests}
    return frozenset(uuids - {disk.guest.uuid for disk in observation.disks})


def _still_unknown(situation: Situation, outcomes: Sequence[Outcome]) -> dict[str, Acknowledgement]:
    """The acknowledgements; those of disks whose limits are known end now."""
    keys = {
        each.disk.key
        for each in outcomes
        if not isinstance(each.decision.desired, Unknown) and not isinstance(each.after.actual, Unknown)
    }
    return {
        key: replace(acknowledgement, until=situation.now) if key in keys else acknowledgement
        for key, acknowledgement in situation.acknowledged.items()
    }


def _lockable(marks: Mapping[str, Marks], node_store: NodeStore) -> dict[str, Marks]:
    """The marks of guests that nothing else is changing or has changed since."""
    try:
        conflicts = node_store.lock(marks)
    except StateError as error:
        LOG.info("%s; guests keep their old marks", error)
        return {}
    return {uuid: its for uuid, its in marks.items() if uuid not in conflicts}


@frozen(kw_only=True)
class Sight:
    """What a pass remembers at its end."""

    situation: Situation
    seen: Observation
    scope: Scope
    stop: Braked | None
    told: Attachments
    """What an earlier pass wrote for the refresher."""
    found: tuple[LargeChange, ...]
    """The changes that the brake counted."""
    caution: Caution
    lasting: bool
    """That of the ``Decider``."""
    notes: Notes

    def keep(self, node_store: NodeStore, outcomes: Sequence[Outcome], applier: Applier | None = None) -> None:
        """Save the memory, then record how the changes ended; failures become notes.

        In this order: what a killed pass did not remember is still open in the record, so the next pass settles it.
        """
        if self.situation.catalogue is not None:
            with self.notes.taking(Code.ATTACHMENTS_NOT_WRITTEN):
                node_store.save_attachments(self.situation.attachments, self.told)
        with self.notes.taking(Code.NO_RESULTS):
            node_store.note_external_changes(self._not_reverted(outcomes), self.situation.now)
        with self.notes.taking(Code.NOT_REMEMBERED):
            self._remember(node_store, outcomes, applier)
            if applier is not None:
                applier.conclude()
            else:
                node_store.conclude([], self.situation.now)
        with self.notes.taking(Code.SAVINGS_NOT_KEPT):
            self._keep_accounts(node_store, {} if applier is None else applier.applied)

    def _keep_accounts(self, node_store: NodeStore, changes: Mapping[str, Change]) -> None:
        accounts = self.situation.accounts
        if accounts:
            guests = {*map(guest_of, [*self.situation.memory, *(disk.key for disk in self.seen.disks)])}
            node_store.save_accounts(after_writes(accounts, changes.values()), guests)

    def _not_reverted(self, outcomes: Sequence[Outcome]) -> list[Disk]:
        """Disks that something else has changed since the pass before, and whose desired limits are unknown."""
        now, before = self.situation.attachments.volumes, self.told.volumes
        return [
            each.disk
            for each in outcomes
            if isinstance(each.decision.desired, Unknown)
            and (entry := now.get(each.disk.key)) is not None
            and (former := before.get(each.disk.key)) is not None
            and entry.external_changes > former.external_changes
        ]

    def _remember(self, node_store: NodeStore, outcomes: Sequence[Outcome], applier: Applier | None) -> None:
        situation = self.situation
        absentees = unseen(self.seen, self.scope, situation)
        # As observed: after our write, a new attachment would look like one with our limits as attach-time limits.
        decisions = [(outcome.disk, outcome.decision) for outcome in outcomes]
        braked_keys = self.stop.keys if self.stop is not None else frozenset[str]()
        changes = applier.applied if applier else {}
        if self.lasting:
            revision, enforcing = situation.revision, applier is not None
            findings = Findings(
                decided=decisions,
                applied=changes,
                unseen=absentees,
                braked=braked_keys,
                enforcing=enforcing,
                revision=revision,
            )
            memory = remembering(situation, findings)
        else:
            memory = with_changes(situation, changes)
        if applier is not None:
            memory |= applier.strays(memory)
        brake = self._brake_memory(braked_keys, decisions, memory) if self.lasting else situation.brake

        acknowledgements = _still_unknown(situation, outcomes) if self.lasting else situation.acknowledged

        def save(memory: Mapping[str, Remembered]) -> None:
            node_store.remember(
                Memory(disks=memory, holds=situation.holds, brake=brake, acknowledged=acknowledgements), situation.now
            )

        if applier is None:
            save(memory)
            return
        disks = [outcome.after for outcome in outcomes]
        # The memory first: else, after a kill, a mark would bring back a hold that an operator ended.
        marks = _lockable(applier.marks(disks, memory), node_store)
        try:
            save(with_marks(disks, memory, marks))
        except StateError:
            applier.mark(_lockable(applier.marks(disks, memory, saved=False), node_store))
            raise
        took = applier.mark(marks)
        if took.keys() != marks.keys():
            save(with_marks(disks, memory, took))

    def _brake_memory(
        self, stop_keys: Set[str], decisions: Sequence[tuple[Disk, Decision]], memory: Mapping[str, Remembered]
    ) -> BrakeMemory:
        situation, brake = self.situation, self.situation.brake
        # Also what the gate or a pause defers: it is now remembered as desired, so no later pass counts it.
        keys = {large.key for large in self.found} & {disk.key for disk, _ in decisions} - stop_keys
        recent = still_recent(brake.recent, situation.now) | dict.fromkeys(keys, situation.now)
        brake = replace(brake, recent=recent)
        if isinstance(situation.catalogue, Unknown) or situation.rules.command_line is not None:
            return brake  # without a catalogue, or for the command line alone, there is no lasting revision
        this_revision = situation.revision
        if self.stop is not None:
            any_edit = any(large.edited for large in self.found)
            many = self.stop.many and not leaves_judgement(self.caution, situation)
            return replace(brake, stopped=this_revision if many and any_edit else brake.stopped)
        if not self._judges(decisions, memory):
            return brake
        approvals = [each for each in self.caution.brake.approvals if each.covers(this_revision, removal=False)]
        let_through = (*(brake.let_through if brake.judged == this_revision else ()), *approvals)
        rules = situation.rules.revision
        return replace(
            brake,
            judged=this_revision,
            let_through=tuple(dict.fromkeys(let_through)),
            approved_rules=rules if approvals or brake.approved_rules == rules else None,
            stopped=None,
        )

    def _judges(self, decisions: Sequence[tuple[Disk, Decision]], memory: Mapping[str, Remembered]) -> bool:
        """Whether this pass saw all but a few disks of the node, so that disks found later are new."""
        if not self.scope.everything:
            return False
        uuids = {guest_of(key) for key in self.situation.memory}
        not_looked_at = sum(each.guest.uuid not in uuids for each in self.seen.unreachable)
        unknown = sum(disk.key not in memory for disk, _ in decisions)
        return not self.caution.brake.stops(not_looked_at + unknown, not_looked_at + len(decisions))
