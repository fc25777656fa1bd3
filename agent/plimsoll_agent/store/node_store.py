"""What a pass stores on the node: the record of its changes, and the memory of desired limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from plimsoll_agent.catalogue.attachments import Attachments, sight
from plimsoll_agent.model.acknowledged import Acknowledgement
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import Disk, DiskName, guest_of
from plimsoll_agent.model.holds import Hold, active_holds
from plimsoll_agent.model.hypervisor import Versions
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.origin import origin_of
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.policy.adoption import awaits_adoption
from plimsoll_agent.policy.decide import Decision, Desired, Remembered, Situation, released_for
from plimsoll_agent.policy.diff import EXTERNAL, Change
from plimsoll_agent.store.entries import Conclusion, Ending, Event, Happening, RecordedChange
from plimsoll_agent.store.merge import merged, merged_attachments
from plimsoll_agent.store.notes import Notes
from plimsoll_agent.store.record import CorruptRecord, Record, Tell
from plimsoll_agent.store.retention import Retention
from plimsoll_agent.store.state import CorruptState, Given, Memory, State, StateError
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.locks import ByteLocks

Value = TypeVar("Value")
LOG = logging.getLogger(__name__)

# A guest that is off stays in the memory: when it is started again, its definition has the limits that plimsoll set.
KEPT_FOR = timedelta(days=30)
# External changes once a day are not repeated ones.
ROUNDS_WITHIN = timedelta(days=1)
# The daemon reverts at once: a script that sets a limit again until it stays would use up all rounds in a second.
ROUND = timedelta(minutes=1)
_TRIAL = "trial"
"""The name of its lock, among those of guests."""
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
            told = str(error)
        if not read_only:
            with suppress(StateError), self._state.changing():  # saving the new file reports the error
                try:
                    return load()
                except CorruptState:
                    files.set_aside(path, StateError)
        self.notes.add(corrupt, told)
        return None

    def approved(self, *, read_only: bool) -> tuple[Approval, ...]:
        load, corrupt = self._state.load_approvals, Code.APPROVAL_SET_ASIDE
        self._approvals = self._read(self._state.approval, load, corrupt, read_only=read_only) or ()
        return tuple(given.approval for given in self._approvals)

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
        asked = set(uuids)
        taken = self.locks.take(asked, patience)
        changed = (taken - self._locked) & self._changed()
        self._locked |= taken - changed
        return dict.fromkeys(asked - taken, Code.GUEST_BUSY) | dict.fromkeys(changed, Code.CHANGED_SINCE)

    def _changed(self) -> set[str]:
        """The guests of which the stored memory has something else than this pass began with."""
        try:
            stored = self._state.load_memory()
        except StateError:  # nothing else can save it either
            return set()
        if stored is None or stored is self._base:
            return set()
        base = self._base
        pairs: tuple[tuple[Mapping[str, object], Mapping[str, object]], ...] = (
            (base.disks, stored.disks),
            (base.holds, stored.holds),
        )
        return {
            guest_of(key) for old, new in pairs for key in old.keys() | new.keys() if old.get(key) != new.get(key)
        }

    def lock_unsettled(self, meant: Callable[[DiskName], bool]) -> None:
        """Lock the guests with open changes, if ``meant``, before they are observed; the others are not settled.

        A change of a guest that something else has locked is in flight, and a later one than was observed may be.
        """
        try:
            uuids = {change.disk.guest_uuid for change in self._record.unsettled() if meant(change.disk)}
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
            unsettled = self._record.unsettled()
        except CorruptRecord as error:
            if not read_only:
                self._set_record_aside(situation.now)
            self.notes.add(Code.RECORD_SET_ASIDE, error)
            return {}
        if self._settles is not None and not read_only:
            unsettled = [change for change in unsettled if change.disk.guest_uuid in self._settles]
        self._settled, ours = settled(unsettled, disks, situation, everything=everything)
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
        applied = {
            disk.key: ours.applied for disk in disks if (ours := situation.ours(disk)) and ours.applied is not None
        }
        boot = self._state.boot
        return sight(disks, situation.attachments, applied, situation.now, boot=boot, unseen=unseen)

    def save_attachments(self, met: Attachments, before: Attachments) -> None:
        """Write the attachments for the refresh of the catalogue, if they changed."""
        if met != before:
            with self._state.changing():
                stored = self._state.load_attachments()
                self._state.save_attachments(merged_attachments(before, met, stored, self._locked))

    def note_external_changes(self, found: Sequence[Disk], now: datetime) -> None:
        """Record what these disks have now, since something else changed them and nothing is reverted."""
        if found:
            self._record.note([_external_event(disk, now, self._by) for disk in found])

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
                stored = self._state.load_memory()
            except CorruptState:
                stored = None
                with suppress(StateError):  # saving the new file reports the error
                    files.set_aside(self._state.memory, StateError)
            after = memory if stored is None else merged(self._base, memory, stored, self._locked)
            self._state.save_memory(self._without_ended(after, now))
        self._base = memory

    def _without_ended(self, memory: Memory, now: datetime) -> Memory:
        active = active_holds(memory.holds, now)
        acknowledged = {key: each for key, each in memory.acknowledged.items() if not each.ended(now)}
        over = [each for key, each in memory.acknowledged.items() if key not in acknowledged]
        ended = [hold for key, hold in memory.holds.items() if key not in active]
        try:
            events = [hold_event(hold, Happening.HOLD_ENDED, now, self._by) for hold in ended]
            events += [acknowledgement_event(each, Happening.ACKNOWLEDGEMENT_ENDED, now, self._by) for each in over]
            self._record.note(events)
        except StateError as error:
            active = dict(memory.holds)
            self.notes.add(Code.NO_RECORD, error)
        return replace(memory, holds=active, acknowledged=acknowledged)

    def intend(self, changes: Sequence[Change], now: datetime, revision: str) -> list[int]:
        """Record the intents. If that fails, ``tell`` still gets those that lower limits, which are made anyway."""
        try:
            return self._record.intend(changes, now, self._by, revision)
        except StateError:
            lowered = [each for each in changes if each.direction is Direction.LOWER]
            if self._tell is not None and lowered:
                self._tell([_unrecorded(change, now, self._by, revision) for change in lowered])
            raise

    def conclude(self, conclusions: Sequence[Conclusion], now: datetime) -> None:
        """Record how changes ended, those of earlier passes too.

        Only after ``remember``: without a result the intents stay open, and the next pass settles them.
        """
        ended, self._settled = [*self._settled, *conclusions], []
        if ended:
            self._record.conclude(ended, now)
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
    return Event(now, by, what, hold.reason, hold.disk)


def acknowledgement_event(given: Acknowledgement, what: Happening, now: datetime, by: str) -> Event:
    return Event(now, by, what, given.reason, given.disk)


class Move(StrEnum):
    """How a hold began or ended on a node because its guest migrated."""

    CAME = "came"
    LEFT = "left"
    REPLACED = "replaced"
    """The guest came back with a different hold, or with none."""


def _external_event(disk: Disk, now: datetime, by: str) -> Event:
    actual = disk.actual.in_effect() if isinstance(disk.actual, Limits) else {}
    return Event(now, by, Happening.CHANGED_EXTERNALLY, because(Code.EXTERNAL_CHANGE, actual=actual), disk.named)


def _move_event(hold: Hold, move: Move, now: datetime, by: str) -> Event:
    what = Happening.HOLD_ADDED if move is Move.CAME else Happening.HOLD_ENDED
    event = hold_event(hold, what, now, by)
    return replace(event, reason=replace(hold.reason, facts={**hold.reason.facts, "moved": move.value}))


def _from_record(record: Record, now: datetime) -> dict[str, Remembered]:
    """The disks for which plimsoll set limits last.

    Limits of a hold were not desired by a source, and those restored after a hold may be external, so both are left
    out. Limits by command line or undo are remembered as applied, but not as desired.
    """
    ours: dict[str, Remembered] = {}
    for taken in record.taken():
        origin = origin_of(taken.reason.code)
        if not origin.of_hold and not is_foreign(taken.reason):
            desired = None if origin.aside else taken.after
            ours[taken.disk.key] = Remembered(
                desired,
                taken.at,
                now,
                taken.after,
                attachment=None,
                enforced=desired is not None,
                by_type=taken.reason.of_type,
                by_rules=() if desired is None else taken.reason.rules,
                revision=None if desired is None else taken.revision,
                later=None,
                source=None if desired is None else taken.reason.code,
                released=str(taken.reason.facts.get("type", "")) if taken.reason.code is Code.RELEASED else None,
            )
    return ours


def settled(
    open_changes: Sequence[RecordedChange], disks: Sequence[Disk], situation: Situation, *, everything: bool
) -> tuple[list[Conclusion], dict[str, Remembered]]:
    """How each open change ended, if that is known, and what to remember.

    With ``everything``, ``disks`` are all disks of the node: one that is not among them is gone.
    """
    present = {disk.key: disk for disk in disks}
    of_disk: dict[str, list[RecordedChange]] = {}
    for change in open_changes:
        of_disk.setdefault(change.disk.key, []).append(change)
    conclusions: list[Conclusion] = []
    ours: dict[str, Remembered] = {}
    memory = dict(situation.memory)
    so_far = replace(situation, memory=memory)  # grows: the result of one change counts for the next
    for key, changes in of_disk.items():
        disk = present.get(key)
        for number, change in enumerate(changes, start=1):
            if disk is None:
                if everything:
                    conclusions.append(Conclusion(change.id, Ending.GONE))
            elif disk.attachment != change.attachment:
                conclusions.append(Conclusion(change.id, Ending.GONE))
            elif (took := _took(change, changes[number:], disk)) is not None:
                conclusions.append(Conclusion(change.id, Ending.TOOK if took else Ending.DID_NOT_TAKE))
                if took or disk.defined == change.after:  # there may have been an external change over QMP since
                    memory[key] = ours[key] = _taken(change, disk, so_far)
    return sorted(conclusions, key=lambda conclusion: conclusion.id), ours


def _took(change: RecordedChange, later: Sequence[RecordedChange], disk: Disk) -> bool | None:
    """Whether a change took effect; None if unknown.

    The limits that a later change found show whether this one took effect. A call that timed out may do so late.
    """
    if later and later[0].before == change.after:
        return True
    if not isinstance(disk.actual, Limits):
        return None
    return disk.actual == change.after and all(change.after != another.after for another in later)


def _taken(change: RecordedChange, disk: Disk, situation: Situation) -> Remembered:
    """The memory of a disk on which a change took effect, but had no recorded result."""
    now, remembered = situation.now, _known(disk, situation)
    last = situation.memory.get(disk.key)
    if change.result is None and last is not None and last.seen >= change.at and last.applied == change.after:
        return remembered  # that pass was killed after it stored the memory, before it recorded the result
    reason = change.reason
    if not origin_of(reason.code).aside:
        since = remembered.since if remembered.desired == change.after else now
        if reason.code is not Code.DESIRED_BEFORE:
            remembered = replace(remembered, by_type=reason.of_type, by_rules=reason.rules, source=reason.code)
        remembered = replace(
            remembered, desired=change.after, since=since, enforced=True, revision=change.revision, later=None
        )
    return remembered_after(change, remembered, now)


@frozen
class Findings:
    """What a pass found on the node: decisions for its disks, and guests that it did not read.

    ``applied`` are the changes that plimsoll made in this pass, by ``Disk.key``; ``unseen`` are the uuids of guests
    that were unreachable or out of scope. All other guests are off or gone.
    """

    decided: Sequence[tuple[Disk, Decision]]
    applied: Mapping[str, Change]
    unseen: Collection[str]
    braked: Collection[str] = field(default_factory=frozenset)
    """Keys of disks whose desired limits are not remembered until an operator approves them."""
    enforcing: bool = True
    revision: str | None = None
    """The revision of rules and catalogue of this pass."""


def remembering(situation: Situation, findings: Findings) -> dict[str, Remembered]:
    """The memory after a pass."""
    now = situation.now
    read = {disk.guest.uuid for disk, _ in findings.decided}
    kept: dict[str, Remembered] = {}
    for key, old in situation.memory.items():
        uuid = guest_of(key)
        if uuid in findings.unseen:
            kept[key] = old
        elif uuid not in read and now - old.seen < KEPT_FOR:
            kept[key] = replace(old, attachment=None)
    for disk, decision in findings.decided:
        if awaits_adoption(disk, situation.memory.get(disk.key)):
            if (old_stay := situation.memory.get(disk.key)) is not None:
                kept[disk.key] = old_stay
            continue
        # A new disk whose desired limits are unknown is not remembered: nothing was desired, not even no limit.
        if disk.key in situation.memory or not isinstance(decision.desired, Unknown):
            kept[disk.key] = _remembered(disk, decision, situation, findings)
    return kept


def _remembered(disk: Disk, decision: Decision, situation: Situation, findings: Findings) -> Remembered:
    """What to remember of a disk after its decision."""
    now, after, desired = situation.now, _known(disk, situation), decision.desired
    says = decision.of_sources
    # With neither desired limits before nor actual limits, the brake could not weigh a change.
    weighed = after.desired is not None or isinstance(disk.actual, Limits)
    counts = disk.key not in findings.braked
    left_alone = after.source is Code.RULE_UNMANAGES and isinstance(disk.actual, Limits) and disk.actual.unlimited
    if says is not None and weighed and counts:
        since = after.since if says == after.desired else now
        after = replace(after, desired=says, since=since, revision=findings.revision, later=decision.later)
        if left_alone:
            after = replace(after, taken_over=now)
        if decision.source is not Code.RELEASED:  # the origin of released limits stays remembered
            after = replace(after, by_type=decision.by_type, by_rules=decision.by_rules, source=decision.source)
    elif desired.reason.code in (Code.RULE_UNMANAGES, Code.TAKEN_BACK) and counts:
        # The brake will weigh the next change against the limits that the disk has then.
        after = replace(
            after,
            desired=None,
            enforced=False,
            by_type=None,
            by_rules=(),
            source=Code.RULE_UNMANAGES,
            taken_over=after.taken_over if desired.reason.code is Code.TAKEN_BACK else None,
            revision=None,
            later=decision.later,
        )
    after = replace(after, released=_released(disk, decision, after))
    applied = findings.applied.get(disk.key)
    actual = disk.actual if applied is None else applied.after
    right = isinstance(desired, Desired) and actual == desired.limits
    # Only a hold in force protects the limits before it: without one, they may still be changed externally.
    if findings.enforcing and right and desired.reason.code is Code.HOLD and after.restore_to is None:
        after = _held(disk, after)
    if applied is not None:
        after = remembered_after(applied, after, now)
    if findings.enforcing and after.desired is not None and actual == after.desired:
        after = replace(after, enforced=True)
    if right and desired.reason.code is not Code.HOLD:
        if desired.reason.code is Code.HOLD_ENDED:
            after = replace(after, applied=None if after.foreign else after.restore_to)
        after = replace(after, restore_to=None, foreign=False)
    return after


def _released(disk: Disk, decision: Decision, remembered: Remembered) -> str | None:
    """The release, which lasts until the volume type changes or a source has an opinion."""
    of_sources = decision.aside or decision.desired
    if of_sources.reason.code is Code.RELEASED:
        return released_for(disk)
    keeps = isinstance(of_sources, Unknown) or origin_of(of_sources.reason.code).aside
    return remembered.released if keeps else None


def releasing(orphans: Iterable[Disk], memory: Mapping[str, Remembered]) -> dict[str, Remembered]:
    """What to remember of these disks when their limits are released; each of them is in ``memory``."""
    return {disk.key: replace(memory[disk.key], released=released_for(disk)) for disk in orphans}


def _known(disk: Disk, situation: Situation) -> Remembered:
    """What is remembered of a disk that is attached now."""
    now, known, ours = situation.now, situation.memory.get(disk.key), situation.ours(disk)
    if ours is not None:
        return replace(ours, seen=now, attachment=disk.attachment)
    if known is None:
        return Remembered(None, now, now, None, disk.attachment)
    # It was reattached: the limits that plimsoll set are gone, those desired are the same.
    gone = replace(known, applied=None, restore_to=None, foreign=False, reverts=0, reverted_at=None, taken_over=None)
    return replace(gone, seen=now, attachment=disk.attachment)


def _held(disk: Disk, remembered: Remembered) -> Remembered:
    """The memory of a disk when a hold begins. Limits that were changed over QMP are not restored after it."""
    had = disk.defined if disk.drifted else disk.actual
    return (
        replace(remembered, restore_to=had, foreign=remembered.applied is None)
        if isinstance(had, Limits)
        else remembered
    )


def is_foreign(reason: Reason) -> bool:
    """Whether a change for this reason restored limits that plimsoll had not set."""
    return reason.code is Code.UNDONE and bool(reason.facts.get("foreign"))


def remembered_after(change: Change | RecordedChange, remembered: Remembered, now: datetime) -> Remembered:
    """The memory of a disk that was changed; after an undo its limits may be external."""
    code = change.reason.code
    if code is Code.HOLD and remembered.restore_to is None:
        remembered = replace(remembered, restore_to=change.before, foreign=remembered.applied is None)
    elif not origin_of(code).of_hold:
        remembered = replace(remembered, restore_to=None, foreign=False)
    reverted = change.cause in EXTERNAL and remembered.applied == change.after
    reverts, reverted_at = _reverts(remembered, now) if reverted else (0, None)
    return replace(
        remembered,
        applied=None if is_foreign(change.reason) else change.after,
        enforced=remembered.desired == change.after if code is Code.UNDONE else remembered.enforced,
        released=None if code is Code.UNDONE else remembered.released,
        reverts=reverts,
        reverted_at=reverted_at,
    )


def _reverts(remembered: Remembered, now: datetime) -> tuple[int, datetime]:
    """The number of rounds, and when the last began; one more revert in a round counts no further."""
    last = remembered.reverted_at
    if last is None or not _within_a_day(last, now):
        return 1, now
    return (remembered.reverts, last) if now - last < ROUND else (remembered.reverts + 1, now)


def with_changes(situation: Situation, applied: Mapping[str, Change]) -> dict[str, Remembered]:
    """The memory after changes (by ``Disk.key``) of remembered disks, with the same desired limits."""
    changed = {key: remembered_after(each, situation.memory[key], situation.now) for key, each in applied.items()}
    return {**situation.memory, **changed}


def reverted_too_often(remembered: Remembered | None, desired: Limits, rounds: int, now: datetime) -> bool:
    """Whether plimsoll reverted external changes so often that it now leaves the limit unchanged."""
    if remembered is None or remembered.applied != desired:
        return False
    return remembered.reverts >= rounds and _within_a_day(remembered.reverted_at, now)


def _within_a_day(reverted_at: datetime | None, now: datetime) -> bool:
    """False for a time in the future, which is from a wrong clock."""
    return reverted_at is not None and timedelta(0) <= now - reverted_at < ROUNDS_WITHIN
