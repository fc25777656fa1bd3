"""What a pass stores on the node: the record of its changes, and the memory of desired limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from plimsoll_agent.catalogue.attachments import Attachments, sight
from plimsoll_agent.catalogue.orders import RegionApproval
from plimsoll_agent.catalogue.stages import Stages
from plimsoll_agent.ceilings.buckets import CeilingKey, Ceilings, LastCounters, Shared, with_joined
from plimsoll_agent.congestion.following import Pools
from plimsoll_agent.credits.ledger import Account, newest, whole
from plimsoll_agent.model.acknowledged import Acknowledgement
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import Disk, DiskName, guest_of
from plimsoll_agent.model.entries import Conclusion, Ending, Event, Happening, RecordedChange
from plimsoll_agent.model.holds import Hold, active_holds
from plimsoll_agent.model.hypervisor import Versions
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.origin import origin_of
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.policy.memory import is_foreign, sets_others, settled
from plimsoll_agent.store import record_query, reductions
from plimsoll_agent.store.merge import merged, merged_attachments
from plimsoll_agent.store.notes import Notes
from plimsoll_agent.store.record import CorruptRecord, Record, Tell
from plimsoll_agent.store.reductions import Intended
from plimsoll_agent.store.retention import Retention
from plimsoll_agent.store.state import CorruptState, Given, Memory, State, StateError
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.locks import ByteLocks

Value = TypeVar("Value")
LOG = logging.getLogger(__name__)

_TRIAL = "trial"
"""The name of its lock, among those of guests."""
_AS_WHOLE = "what was spent of bursts is unknown, they count as whole"
_LONGEST_TRIAL = 60.0
"""Seconds; each of its few calls has a deadline."""


class NodeStore:
    """Record and memory of one node. Every method may raise ``StateError``."""

    def __init__(
        self,
        state: State,
        by: str,
        retention: Retention | None = None,
        tell: Tell | None = None,
        notes: Notes | None = None,
        locks: ByteLocks | None = None,
    ) -> None:
        """Without ``retention`` nothing is removed from the record; ``tell`` gets each entry written to it.

        ``notes`` are those of the pass, if there is one: faults of the files are added to them. ``locks`` are those
        of the guests that the pass holds already.
        """
        self._state = state
        self.locks = state.guest_locks() if locks is None else locks
        self._record = Record(state.record, tell)
        self._tell = tell
        self._by = by
        self._retention = retention
        self._settled: list[Conclusion] = []
        self._settles: frozenset[str] | None = None
        """The uuids of the guests that nothing else changes while this pass settles; None for all."""
        self._base = Memory()
        """What the pass began with, or saved last."""
        self._locked: frozenset[str] = frozenset()
        """The guests that nothing else changes from when this pass read ``_base`` until it ends."""
        self._approvals: tuple[Given, ...] = ()
        self._accounts: Mapping[str, Account] | None = {}
        """Those that this pass began with; None if the file could not be read."""
        self.notes = Notes() if notes is None else notes

    def recall(self, now: datetime, *, read_only: bool) -> Memory:
        """The memory. If it is lost, it is rebuilt from the limits that plimsoll set by the record."""
        self._locked = self.locks.held
        memory = self._read(self._state.memory, self._state.load_memory, Code.MEMORY_SET_ASIDE, read_only=read_only)
        self._base = self._rebuilt(now) if memory is None else memory
        return self._base

    def _rebuilt(self, now: datetime) -> Memory:
        try:
            return Memory(disks=_from_record(self._record, now))
        except StateError:  # ``settle`` reports it
            return Memory()

    def _read(self, path: Path, load: Callable[[], Value], corrupt: Code, *, read_only: bool) -> Value | None:
        """What is in the file; a corrupt one is noted and set aside, unless another pass has replaced it."""
        try:
            return load()
        except CorruptState as error:
            fault = str(error)
        if not read_only:
            with suppress(StateError), self._state.changing():  # saving the new file reports the error
                try:
                    return load()
                except CorruptState:
                    files.set_aside(path, StateError)
        self.notes.add(corrupt, fault)
        return None

    def changes_since(self, since: datetime) -> list[RecordedChange]:
        """Every change of each disk that plimsoll changed since then. Raises ``StateError``."""
        return record_query.changes_of_disks(self._record, since)

    def approved(self, *, read_only: bool) -> tuple[Approval, ...]:
        load, corrupt = self._state.load_approvals, Code.APPROVAL_SET_ASIDE
        self._approvals = self._read(self._state.approval, load, corrupt, read_only=read_only) or ()
        return tuple(entry.approval for entry in self._approvals)

    @contextmanager
    def changing(self, now: datetime) -> Iterator[Memory]:
        """The memory, to be changed and saved by an operator's command: no pass saves it until then."""
        self.recall(now, read_only=False)  # sets a corrupt one aside
        with self._state.changing():
            memory = self._state.load_memory()
            yield self._rebuilt(now) if memory is None else memory

    def lock(self, uuids: Iterable[str], patience: float = 0) -> dict[str, Code]:
        """Lock these guests; returns those that must not be changed now: something else is changing them
        (``GUEST_BUSY``), or has changed what is known of them since this pass read it (``CHANGED_SINCE``).
        """
        request = set(uuids)
        ours = self.locks.take(request, patience)
        conflicts = (ours - self._locked) & self._changed()
        self._locked |= ours - conflicts
        return dict.fromkeys(request - ours, Code.GUEST_BUSY) | dict.fromkeys(conflicts, Code.CHANGED_SINCE)

    def _changed(self) -> set[str]:
        """The guests of which the stored memory has something else than this pass began with."""
        try:
            current = self._state.load_memory()
        except StateError:  # nothing else can save it either
            return set()
        if current is None or current is self._base:
            return set()
        base = self._base
        pairs: tuple[tuple[Mapping[str, object], Mapping[str, object]], ...] = (
            (base.disks, current.disks),
            (base.holds, current.holds),
        )
        return {
            guest_of(key) for old, new in pairs for key in old.keys() | new.keys() if old.get(key) != new.get(key)
        }

    def lock_unsettled(self, selects: Callable[[DiskName], bool]) -> None:
        """Lock the guests with open changes that ``selects`` picks, before they are observed; others are not settled.

        A change of a guest that something else has locked is in flight, and a later one than was observed may be.
        """
        try:
            uuids = {change.disk.guest_uuid for change in self._record.unsettled() if selects(change.disk)}
            self._settles = frozenset(uuids - self.lock(uuids).keys())
        except StateError:  # the pass reports it where it matters
            self._settles = self._locked

    def settle(
        self, disks: Sequence[Disk], situation: Situation, *, everything: bool, read_only: bool = False
    ) -> dict[str, Remembered]:
        """Find out, from the actual limits, how the changes ended whose result is unknown.

        Returns what to remember of those that took effect. ``conclude`` writes their results after that is stored:
        until then they stay open in the record.
        """
        try:
            changes = self._record.unsettled()
        except CorruptRecord as error:
            if not read_only:
                self._set_record_aside(situation.now)
            self.notes.add(Code.RECORD_SET_ASIDE, error)
            return {}
        if self._settles is not None and not read_only:
            changes = [change for change in changes if change.disk.guest_uuid in self._settles]
        self._settled, ours = settled(changes, disks, situation, everything=everything)
        return ours

    def _set_record_aside(self, now: datetime) -> None:
        with self._state.changing():
            try:
                self._record.unsettled()  # another pass may have been faster
            except CorruptRecord:
                self._record.set_aside(now, self._by)

    @property
    def settled_results(self) -> Mapping[int, Ending]:
        """The results that ``settle`` found, by the ids of the changes."""
        return {conclusion.id: conclusion.result for conclusion in self._settled}

    def attachments(self, disks: Sequence[Disk], situation: Situation, unseen: Collection[str]) -> Attachments:
        """The attachments by their marks, unchanged for guests in ``unseen``; none without a catalogue."""
        if situation.catalogue is None:
            return Attachments()
        limits = {
            disk.key: ours.applied for disk in disks if (ours := situation.ours(disk)) and ours.applied is not None
        }
        boot = self._state.boot
        return sight(disks, situation.attachments, limits, situation.now, boot=boot, unseen=unseen)

    def save_attachments(self, attachments: Attachments, before: Attachments) -> None:
        """Write the attachments for the refresh of the catalogue, if they changed."""
        if attachments != before:
            with self._state.changing():
                current = self._state.load_attachments()
                self._state.save_attachments(merged_attachments(before, attachments, current, self._locked))

    def accounts(self) -> Mapping[str, Account]:
        """What disks have saved of their bursts; a file that cannot be read has none, so all of them are whole."""
        try:
            accounts = self._intact_accounts()
        except StateError as error:
            LOG.warning("%s; %s", error, _AS_WHOLE)
            self._accounts = None
            return {}
        self._accounts = accounts
        return accounts

    def _intact_accounts(self) -> Mapping[str, Account]:
        """Raises ``StateError`` for a file that cannot be read now, or is a newer plimsoll's: it must stay."""
        try:
            return self._state.load_accounts() or {}
        except CorruptState as error:
            LOG.warning("%s; %s", error, _AS_WHOLE)
            return {}

    def save_accounts(self, accounts: Mapping[str, Account], guests: Collection[str]) -> None:
        """Write these beside those that another pass has brought forward.

        Forgotten are those of other ``guests``, but not what another pass has added since this one began. Where this
        one could not read the file, what is in it counts.
        """
        with self._state.changing():
            current = self._intact_accounts()
            if self._accounts is None:
                after = {**accounts, **current}
            else:
                ours = {key: newest(current.get(key), account) for key, account in accounts.items()}
                absent = {key for key in self._accounts if guest_of(key) not in guests}
                after = {key: account for key, account in {**current, **ours}.items() if key not in absent}
            if after != current:
                self._state.save_accounts(after)

    def note_external_changes(self, disks: Sequence[Disk], now: datetime) -> None:
        """Record what these disks have now, since something else changed them and nothing is reverted."""
        if disks:
            self._record.note([_external_event(disk, now, self._by) for disk in disks])

    def note_stages(self, approvals: Sequence[RegionApproval], position: float, now: datetime) -> None:
        """Record the approvals with stages that have reached this node."""
        self._record.note(
            [_stage_event(one, one.stages, position, now) for one in approvals if one.stages is not None]
        )

    def note_moves(self, moves: Sequence[tuple[Hold, Move]], now: datetime) -> None:
        """Record holds that came or went with their guests."""
        if moves:
            self._record.note([_move_event(hold, move, now, self._by) for hold, move in moves])

    def remember(self, memory: Memory, now: datetime) -> None:
        """Store what this pass changed of the memory, without holds and acknowledgements that have ended.

        Each end is recorded once. A hold whose end cannot be recorded stays.
        """
        with self._state.changing():
            try:
                current = self._state.load_memory()
            except CorruptState:
                current = None
                with suppress(StateError):  # saving the new file reports the error
                    files.set_aside(self._state.memory, StateError)
            after = memory if current is None else merged(self._base, memory, current, self._locked)
            self._state.save_memory(self._without_ended(after, now))
        self._base = memory

    def _without_ended(self, memory: Memory, now: datetime) -> Memory:
        active = active_holds(memory.holds, now)
        acknowledgements = {key: each for key, each in memory.acknowledged.items() if not each.ended(now)}
        over = [each for key, each in memory.acknowledged.items() if key not in acknowledgements]
        past_holds = [hold for key, hold in memory.holds.items() if key not in active]
        try:
            events = [hold_event(hold, Happening.HOLD_ENDED, now, self._by) for hold in past_holds]
            events += [acknowledgement_event(each, Happening.ACKNOWLEDGEMENT_ENDED, now, self._by) for each in over]
            self._record.note(events)
        except StateError as error:
            active = dict(memory.holds)
            self.notes.add(Code.NO_RECORD, error)
        return replace(memory, holds=active, acknowledged=acknowledgements)

    def intend(self, changes: Sequence[Change], now: datetime, revision: str, rules: str = "") -> list[int]:
        """Record the intents. If that fails, ``tell`` still gets those that lower limits, which are made anyway."""
        try:
            return self._record.intend(changes, now, self._by, revision, rules)
        except StateError:
            cuts = [each for each in changes if each.direction is Direction.LOWER]
            if self._tell is not None and cuts:
                self._tell([_unrecorded(change, now, self._by, revision) for change in cuts])
            raise

    def intend_reductions(self, changes: Sequence[Change], now: datetime, *, failed: bool = False) -> None:
        """Record what these changes do under congestion, or what stays where they ``failed``."""
        self._record.note(reductions.events(changes, now, self._by, failed=failed))

    def take_back_reductions(self, disks: Iterable[Disk], situation: Situation) -> None:
        """Record which of the reductions that a killed pass had intended had no effect.

        What that pass intended is newer than what is remembered. Guests that something else changes now are left out.
        """
        sights = [(disk, entry.seen) for disk in disks if (entry := situation.memory.get(disk.key)) is not None]
        if not sights:
            return
        last = record_query.reductions_since(self._record, min(at for _, at in sights))
        pairs = [
            (disk, its)
            for disk, at in sights
            if (its := last.get(disk.key)) is not None
            and its.at > at
            and its.attachment == disk.attachment
            and isinstance(disk.in_force, Limits)
            and its.limits != disk.in_force
        ]
        if pairs:
            conflicts = self.lock({disk.guest.uuid for disk, _ in pairs})
            ours = [(disk, its) for disk, its in pairs if disk.guest.uuid not in conflicts]
            self._record.note(reductions.without_effect(ours, situation.now, self._by))

    def intended(self, disk: Disk) -> Intended | None:
        """What the record has last of a disk that was reduced; None without one."""
        try:
            return record_query.last_reduction(self._record, disk.named)
        except StateError:  # the pass reports it where it matters
            return None

    def unsettled(self) -> frozenset[str]:
        """The disks, by ``Disk.key``, with a change whose result is unknown; none without a record."""
        try:
            return frozenset(change.disk.key for change in self._record.unsettled())
        except StateError:  # the pass reports it where it matters
            return frozenset()

    def save_factors(self, pools: Pools) -> None:
        with suppress(CorruptState):
            if self._state.load_factors() == pools:
                return
        with self._state.changing():
            self._state.save_factors(pools)

    def save_ceilings(self, ceilings: Ceilings) -> None:
        """With what passes over guests have joined since they were read."""
        with suppress(CorruptState):
            if self._state.load_ceilings() == (ceilings.shared, ceilings.looks):
                return
        with self._state.changing():
            now: Mapping[CeilingKey, Shared] = {}
            with suppress(CorruptState):
                now, _ = self._state.load_ceilings()
            self._state.save_ceilings(with_joined(ceilings, now), ceilings.looks)

    def join_ceilings(
        self, join: Callable[[Mapping[CeilingKey, Shared]], Mapping[CeilingKey, Shared]]
    ) -> Mapping[CeilingKey, Shared]:
        """How ceilings are split, with what ``join`` adds, saved: another pass does not give away the same again."""
        splits: Mapping[CeilingKey, Shared] = {}
        looks: Mapping[str, LastCounters] = {}
        try:
            with self._state.changing():
                with suppress(CorruptState):
                    splits, looks = self._state.load_ceilings()
                after = join(splits)
                if after != splits:
                    self._state.save_ceilings(after, looks)
                return after
        except StateError as error:
            LOG.warning("%s; several guests that start may together get more than is left of a ceiling", error)
            return join(splits)

    def conclude(self, conclusions: Sequence[Conclusion], now: datetime) -> None:
        """Record how changes ended, those of earlier passes too.

        Only after ``remember``: without a result the intents stay open, and the next pass settles them.
        """
        ends, self._settled = [*self._settled, *conclusions], []
        if ends:
            self._record.conclude(ends, now)
        if self._retention is not None:
            try:
                self._record.retain(self._retention, now)
            except StateError as error:
                LOG.warning("%s; old entries of the record were not removed; the next pass tries again", error)

    def proven(self) -> Versions | None:
        """The versions under which a limit was last written and read back; None if they are unknown."""
        try:
            return self._state.load_versions()
        except StateError as error:
            LOG.warning("%s", error)
            return None

    def prove(self, versions: Versions) -> None:
        try:
            self._state.save_versions(versions)
        except StateError as error:
            LOG.warning("%s; the next pass that changes limits changes one disk first again", error)

    def failed_trial(self) -> Versions | None:
        """The versions of the last trial, if it failed."""
        with suppress(StateError):  # ``proven`` reports it
            return self._state.load_failed_trial()
        return None

    def trial_failed(self, versions: Versions) -> None:
        try:
            self._state.save_versions(self.proven(), versions)
        except StateError as error:
            LOG.warning("%s; each pass tries the versions again", error)

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Wait for a trial of another pass, and let others wait for this one."""
        with self.locks.for_now():
            try:
                if not self.locks.take([_TRIAL], _LONGEST_TRIAL):
                    LOG.warning("the trial of another pass does not end; this pass tries by itself")
            except StateError as error:
                LOG.warning("%s; this pass waits for no trial of another one", error)
            yield

    def use_up_approvals(self) -> None:
        """Remove the approvals that a pass over the whole node has used; those given since it began stay."""
        if self._approvals:
            self._state.forget_approvals(self._approvals)


def _unrecorded(change: Change, now: datetime, by: str, revision: str) -> RecordedChange:
    return RecordedChange(
        id=0,
        at=now,
        by=by,
        disk=change.disk.named,
        attachment=change.disk.attachment,
        before=change.before,
        after=change.after,
        direction=change.direction,
        reason=change.reason,
        cause=change.cause,
        revision=revision or None,
        result=None,
        result_at=None,
        detail=None,
    )


def hold_event(hold: Hold, what: Happening, now: datetime, by: str) -> Event:
    return Event(at=now, by=by, what=what, reason=hold.reason, disk=hold.disk)


def acknowledgement_event(acknowledgement: Acknowledgement, what: Happening, now: datetime, by: str) -> Event:
    return Event(at=now, by=by, what=what, reason=acknowledgement.reason, disk=acknowledgement.disk)


class Move(StrEnum):
    """How a hold began or ended on a node because its guest migrated."""

    CAME = "came"
    LEFT = "left"
    REPLACED = "replaced"
    """The guest came back with a different hold, or with none."""


def _external_event(disk: Disk, now: datetime, by: str) -> Event:
    actual = disk.actual.in_effect() if isinstance(disk.actual, Limits) else {}
    return Event(
        at=now,
        by=by,
        what=Happening.CHANGED_EXTERNALLY,
        reason=because(Code.EXTERNAL_CHANGE, actual=actual),
        disk=disk.named,
    )


def _stage_event(one: RegionApproval, stages: Stages, position: float, now: datetime) -> Event:
    numbers = {"stage": stages.of(position) + 1, "stages": len(stages.percent)}
    reason = because(Code.APPROVED, revision=one.digest, why=one.why, **numbers)
    return Event(at=now, by=one.by, what=Happening.APPROVED, reason=reason)


def _move_event(hold: Hold, move: Move, now: datetime, by: str) -> Event:
    what = Happening.HOLD_ADDED if move is Move.CAME else Happening.HOLD_ENDED
    event = hold_event(hold, what, now, by)
    return replace(event, reason=replace(hold.reason, facts={**hold.reason.facts, "moved": move.value}))


def _from_record(record: Record, now: datetime) -> dict[str, Remembered]:
    """The disks for which plimsoll set limits last.

    Limits of a hold were not desired by a source, and those restored after a hold may be external, so both are left
    out. Limits by command line or undo, and those that a disk got back while held as it is, are remembered as applied
    and not as desired.
    """
    ours: dict[str, Remembered] = {}
    for change in record.taken():
        origin = origin_of(change.reason.code)
        set_back = change.reason.code is Code.HOLD and not sets_others(change.reason)
        if set_back or not (origin.of_hold or is_foreign(change.reason)):
            desired = None if origin.aside else whole(change.after, change.reason)
            ours[change.disk.key] = Remembered(
                desired=desired,
                since=change.at,
                seen=now,
                applied=change.after,
                attachment=None,
                enforced=desired is not None,
                by_type=change.reason.of_type,
                by_rules=() if desired is None else change.reason.rules,
                revision=None if desired is None else change.revision,
                later=None,
                source=None if desired is None else change.reason.code,
                released=str(change.reason.facts.get("type", "")) if change.reason.code is Code.RELEASED else None,
            )
    return ours
