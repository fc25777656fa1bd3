"""What a pass leaves behind on the node: the record of its changes and the memory of what it wanted."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from plimsoll_agent.adoption import awaits_adoption
from plimsoll_agent.approvals import Approval
from plimsoll_agent.changes import BY_OTHERS, Change
from plimsoll_agent.decide import Decision, Remembered, Situation, Wants, released_for
from plimsoll_agent.direction import Direction
from plimsoll_agent.disk import Disk, guest_of
from plimsoll_agent.entries import Conclusion, Event, Happening, RecordedChange, Verdict
from plimsoll_agent.holds import Hold, standing_holds
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import BY_A_PERSON, Code, Reason, Unknown, because
from plimsoll_agent.record import CorruptRecord, Record, Tell
from plimsoll_agent.retention import Retention
from plimsoll_agent.sightings import Sightings, sight
from plimsoll_agent.state import CorruptState, Memory, State, StateError, set_aside

LOG = logging.getLogger(__name__)

# A guest that is off keeps its place in the memory: it brings our limits along when it is started again.
KEPT_FOR = timedelta(days=30)
# Somebody who changes a limit once a day is not fighting for it.
ROUNDS_WITHIN = timedelta(days=1)
_HOLDS = (Code.HOLD, Code.HOLD_ENDED)


class Ledger:
    """Record and memory of one node. All of it raises ``StateError``; ``notes`` is what was wrong with the files."""

    def __init__(self, state: State, by: str, retention: Retention | None = None, tell: Tell | None = None) -> None:
        """Without ``retention`` nothing is removed from the record; ``tell`` is given what goes into it."""
        self._state = state
        self._record = Record(state.record, tell)
        self._tell = tell
        self._by = by
        self._retention = retention
        self._settled: list[Conclusion] = []
        self.notes: list[Reason] = []

    def recall(self, now: datetime, *, look_only: bool) -> Memory:
        """What is remembered. A memory that is lost is made anew from the record: limits that we put are ours."""
        try:
            memory = self._state.load_memory()
        except CorruptState as error:
            memory = None
            if not look_only:
                _make_room(self._state.memory)
            self.notes.append(because(Code.MEMORY_SET_ASIDE, detail=str(error)))
        if memory is not None:
            return memory
        try:
            return Memory(disks=_from_record(self._record, now))
        except StateError:  # it is said when the pass goes to settle
            return Memory()

    def approved(self, *, look_only: bool) -> tuple[Approval, ...]:
        """What a person approved of."""
        try:
            return tuple(given.approval for given in self._state.load_approvals())
        except CorruptState as error:
            if not look_only:
                _make_room(self._state.approval)
            self.notes.append(because(Code.APPROVAL_SET_ASIDE, detail=str(error)))
            return ()

    def settle(
        self, disks: Sequence[Disk], situation: Situation, *, everything: bool, look_only: bool = False
    ) -> dict[str, Remembered]:
        """Find out by what is in force how the changes ended whose outcome was not known.

        Returns what is to be remembered of those that took: limits of a pass that was killed are ours. The
        record is told by ``conclude``, once that is remembered: what is open there cannot be lost.
        """
        try:
            unsettled = self._record.unsettled()
        except CorruptRecord as error:
            if not look_only:
                self._record.set_aside(situation.now, self._by)
            self.notes.append(because(Code.RECORD_SET_ASIDE, detail=str(error)))
            return {}
        self._settled, ours = settled(unsettled, disks, situation, everything=everything)
        return ours

    def sight(self, disks: Sequence[Disk], situation: Situation, unseen: Collection[str]) -> Sightings:
        """The attachments by their marks, those of guests that were not looked at as they were.

        Nobody needs them while nobody is to be asked.
        """
        if situation.catalogue is None:
            return Sightings()
        put = {disk.key: ours.put for disk in disks if (ours := situation.ours(disk)) and ours.put is not None}
        boot = self._state.boot
        return sight(disks, situation.sightings, put, situation.now, boot=boot, unseen=unseen)

    def tell_sightings(self, met: Sightings, before: Sightings) -> None:
        """Tell the refresher of the catalogue what is other than ``before``. Raises ``StateError``."""
        if met != before:
            self._state.save_sightings(met)

    def note_moves(self, moves: Sequence[tuple[Hold, Move]], now: datetime) -> None:
        """Holds that came or went with their guests, for the record."""
        if moves:
            self._record.note([_move_event(hold, move, now, self._by) for hold, move in moves])

    def remember(self, memory: Memory, now: datetime) -> None:
        """Holds that have ended go once the record says so."""
        standing = standing_holds(memory.holds, now)
        ended = [hold for key, hold in memory.holds.items() if key not in standing]
        try:
            self._record.note([hold_event(hold, Happening.HOLD_ENDED, now, self._by) for hold in ended])
        except StateError as error:
            standing = dict(memory.holds)
            self.notes.append(because(Code.NO_RECORD, detail=str(error)))
        self._state.save_memory(replace(memory, holds=standing))

    def intend(self, changes: Sequence[Change], now: datetime, edition: str) -> list[int]:
        """Raises ``StateError``; what is tightened all the same is told then, before it is done."""
        try:
            return self._record.intend(changes, now, self._by, edition)
        except StateError:
            tightened = [each for each in changes if each.direction is Direction.TIGHTEN]
            if self._tell is not None and tightened:
                self._tell([_unrecorded(change, now, self._by, edition) for change in tightened])
            raise

    def conclude(self, conclusions: Sequence[Conclusion], now: datetime) -> None:
        """Tell the record how changes ended, those of earlier passes too.

        Only after ``remember``: left undone, the intents stand, and the next pass settles them.
        """
        ended, self._settled = [*self._settled, *conclusions], []
        if ended:
            self._record.conclude(ended, now)
        if self._retention is not None:
            try:
                self._record.retain(self._retention, now)
            except StateError as error:  # what is too old can go another time
                LOG.warning("%s; older entries of the record were not removed", error)

    def use_up_approvals(self) -> None:
        """A pass over the whole node went through with what was approved: another one is another decision."""
        self._state.forget_approvals()


def _unrecorded(change: Change, now: datetime, by: str, edition: str) -> RecordedChange:
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
        edition=edition or None,
        result=None,
        result_at=None,
        detail=None,
    )


def _make_room(corrupt: Path) -> None:
    with suppress(StateError):  # where nothing can be written the save says so
        set_aside(corrupt)


def hold_event(hold: Hold, what: Happening, now: datetime, by: str) -> Event:
    return Event(now, by, what, hold.reason, hold.disk)


class Move(StrEnum):
    """How a hold began or ended on a node because its guest migrated."""

    CAME = "came"
    LEFT = "left"
    REPLACED = "replaced"
    """The guest came back, and brought another one or none along."""


def _move_event(hold: Hold, move: Move, now: datetime, by: str) -> Event:
    what = Happening.HOLD_ADDED if move is Move.CAME else Happening.HOLD_ENDED
    event = hold_event(hold, what, now, by)
    return replace(event, reason=replace(hold.reason, facts={**hold.reason.facts, "moved": move.value}))


def _from_record(record: Record, now: datetime) -> dict[str, Remembered]:
    """Ours is what we put last, if the definition still says so.

    What a hold put is not what the sources wanted, and what was put back after one may be somebody else's. Limits
    by hand, and those of before that a person had put back, are nothing that the sources wanted.
    """
    ours: dict[str, Remembered] = {}
    for taken in record.taken():
        if taken.reason.code not in _HOLDS and not is_theirs(taken.reason):
            wanted = None if taken.reason.code in BY_A_PERSON else taken.after
            ours[taken.disk.key] = Remembered(
                wanted,
                taken.at,
                now,
                taken.after,
                attachment=None,
                kept=wanted is not None,
                by_type=taken.reason.of_type,
                by_rules=() if wanted is None else taken.reason.rules,
                revision=None if wanted is None else taken.edition,
                source=None if wanted is None else taken.reason.code,
                released=str(taken.reason.facts.get("type", "")) if taken.reason.code is Code.RELEASED else None,
            )
    return ours


def settled(
    open_changes: Sequence[RecordedChange], disks: Sequence[Disk], situation: Situation, *, everything: bool
) -> tuple[list[Conclusion], dict[str, Remembered]]:
    """How each open change ended, and what to remember; left out are those that still cannot be told.

    ``everything`` says that ``disks`` are all there are, so that one which is not among them is gone.
    """
    present = {disk.key: disk for disk in disks}
    of_disk: dict[str, list[RecordedChange]] = {}
    for change in open_changes:
        of_disk.setdefault(change.disk.key, []).append(change)
    conclusions: list[Conclusion] = []
    ours: dict[str, Remembered] = {}
    memory = dict(situation.memory)
    so_far = replace(situation, memory=memory)  # what was learned of one change counts for the next
    for key, changes in of_disk.items():
        disk = present.get(key)
        for number, change in enumerate(changes, start=1):
            if disk is None:
                if everything:
                    conclusions.append(Conclusion(change.id, Verdict.GONE))
            elif disk.attachment != change.attachment:
                conclusions.append(Conclusion(change.id, Verdict.GONE))
            elif (took := _took(change, changes[number:], disk)) is not None:
                conclusions.append(Conclusion(change.id, Verdict.TOOK if took else Verdict.DID_NOT_TAKE))
                if took or disk.defined == change.after:  # somebody may have come after us, behind libvirt's back
                    memory[key] = ours[key] = _taken(change, disk, so_far)
    return sorted(conclusions, key=lambda conclusion: conclusion.id), ours


def _took(change: RecordedChange, later: Sequence[RecordedChange], disk: Disk) -> bool | None:
    """Whether a change is in force, or was until a later one; None while nobody can say.

    What a later pass met before its own change tells of this one. A call that was not answered may take late.
    """
    if later and later[0].before == change.after:
        return True
    if not isinstance(disk.in_force, Limits):
        return None
    return disk.in_force == change.after and all(change.after != another.after for another in later)


def _taken(change: RecordedChange, disk: Disk, situation: Situation) -> Remembered:
    """The memory of a disk on which a change took that nobody had seen to its end."""
    now, remembered = situation.now, _known(disk, situation)
    last = situation.memory.get(disk.key)
    if change.result is None and last is not None and last.seen >= change.at and last.put == change.after:
        return remembered  # that pass came to remember it, and was killed before it told the record
    if change.reason.code not in BY_A_PERSON:
        since = remembered.since if remembered.wanted == change.after else now
        by_type = remembered.by_type if change.reason.code is Code.WANTED_BEFORE else change.reason.of_type
        by_rules = remembered.by_rules if change.reason.code is Code.WANTED_BEFORE else change.reason.rules
        source = remembered.source if change.reason.code is Code.WANTED_BEFORE else change.reason.code
        remembered = replace(
            remembered,
            wanted=change.after,
            since=since,
            kept=True,
            by_type=by_type,
            by_rules=by_rules,
            revision=change.edition,
            source=source,
        )
    return remembered_after(change, remembered, now)


@dataclass(frozen=True, slots=True)
class Sight:
    """What a pass saw of the node, for the memory: decisions for its disks, and guests that it did not see.

    ``put`` are the changes that plimsoll made in this pass, by ``Disk.key``; ``unseen`` are the uuids of guests
    that could not be looked at or were out of scope. Whoever is in neither is away.
    """

    decided: Sequence[tuple[Disk, Decision]]
    put: Mapping[str, Change]
    unseen: Collection[str]
    braked: Collection[str] = field(default_factory=frozenset)
    """Keys of disks for which what is wanted now must not count until a person has approved of it."""
    enforcing: bool = True
    revision: str | None = None
    """The revision of rules and catalogue that was decided by."""


def remembering(situation: Situation, sight: Sight) -> dict[str, Remembered]:
    """The memory after a pass."""
    now = situation.now
    looked_at = {disk.guest.uuid for disk, _ in sight.decided}
    kept: dict[str, Remembered] = {}
    for key, old in situation.memory.items():
        uuid = guest_of(key)
        if uuid in sight.unseen:
            kept[key] = old
        elif uuid not in looked_at and now - old.seen < KEPT_FOR:
            kept[key] = replace(old, attachment=None)
    for disk, decision in sight.decided:
        if awaits_adoption(disk, situation.memory.get(disk.key)):
            if (old_stay := situation.memory.get(disk.key)) is not None:
                kept[disk.key] = old_stay
            continue
        # Of a disk just met that nobody can tell of yet, nothing was wanted: not even that it have no limit.
        if disk.key in situation.memory or not isinstance(decision.wanted, Unknown):
            kept[disk.key] = _remembered(disk, decision, situation, sight)
    return kept


def _remembered(disk: Disk, decision: Decision, situation: Situation, sight: Sight) -> Remembered:
    """What is to be remembered of a disk that was decided about."""
    now, after, wanted = situation.now, _known(disk, situation), decision.wanted
    says = decision.of_sources
    # What the sources want anew during a hold counts when the hold ends: the brake has not seen it yet. Nor could it
    # weigh anything where no limits were desired before, and those in force are not known.
    weighed = after.wanted is not None or isinstance(disk.in_force, Limits)
    counts = weighed and decision.aside is None and disk.key not in sight.braked
    if says is not None and counts:
        since = after.since if says == after.wanted else now
        after = replace(after, wanted=says, since=since, revision=sight.revision)
        if decision.source is not Code.RELEASED:  # of limits that are released their origin stays known
            after = replace(after, by_type=decision.by_type, by_rules=decision.by_rules, source=decision.source)
    elif wanted.reason.code is Code.RULE_UNMANAGES:
        after = replace(after, by_type=None)
    after = replace(after, released=_released(disk, decision, after))
    put = sight.put.get(disk.key)
    in_force = disk.in_force if put is None else put.after
    right = isinstance(wanted, Wants) and in_force == wanted.limits
    # A hold that waits, or is only observed, guards nothing: others may change what there is to go back to.
    if sight.enforcing and right and wanted.reason.code is Code.HOLD and after.returns is None:
        after = _held(disk, after)
    if put is not None:
        after = remembered_after(put, after, now)
    if sight.enforcing and after.wanted is not None and in_force == after.wanted:
        after = replace(after, kept=True)
    if right and wanted.reason.code is not Code.HOLD:
        if wanted.reason.code is Code.HOLD_ENDED:
            after = replace(after, put=None if after.theirs else after.returns)
        after = replace(after, returns=None, theirs=False)
    return after


def _released(disk: Disk, decision: Decision, remembered: Remembered) -> str | None:
    """The release that stands on: until the type changes, or a source has an opinion."""
    said = decision.aside or decision.wanted
    if said.reason.code is Code.RELEASED:
        return released_for(disk)
    return remembered.released if isinstance(said, Unknown) or said.reason.code is Code.COMMAND_LINE else None


def releasing(orphans: Iterable[Disk], memory: Mapping[str, Remembered]) -> dict[str, Remembered]:
    """What is to be remembered of these disks when their limits are released; each of them is in ``memory``."""
    return {disk.key: replace(memory[disk.key], released=released_for(disk)) for disk in orphans}


def _known(disk: Disk, situation: Situation) -> Remembered:
    """What is remembered of a disk that is there now."""
    now, known, ours = situation.now, situation.memory.get(disk.key), situation.ours(disk)
    if ours is not None:
        return replace(ours, seen=now, attachment=disk.attachment)
    fresh = Remembered(None, now, now, None, disk.attachment)
    # Made anew: what was put there is gone, what was wanted is not.
    if known is None:
        return fresh
    return replace(
        fresh,
        wanted=known.wanted,
        since=known.since,
        kept=known.kept,
        by_type=known.by_type,
        by_rules=known.by_rules,
        revision=known.revision,
        source=known.source,
        released=known.released,
    )


def _held(disk: Disk, remembered: Remembered) -> Remembered:
    """The memory of a disk when a hold begins: what stands in QEMU alone is nobody's promise to go back to."""
    had = disk.defined if disk.drifted else disk.in_force
    return replace(remembered, returns=had, theirs=remembered.put is None) if isinstance(had, Limits) else remembered


def is_theirs(reason: Reason) -> bool:
    """Whether a change for this reason put back what plimsoll had not put there."""
    return reason.code is Code.UNDONE and bool(reason.facts.get("theirs"))


def remembered_after(change: Change | RecordedChange, remembered: Remembered, now: datetime) -> Remembered:
    """The memory of a disk that was changed; what was undone may have made it somebody else's again."""
    code = change.reason.code
    if code is Code.HOLD and remembered.returns is None:
        remembered = replace(remembered, returns=change.before, theirs=remembered.put is None)
    elif code not in _HOLDS:
        remembered = replace(remembered, returns=None, theirs=False)
    fought = change.cause in BY_OTHERS and remembered.put == change.after
    return replace(
        remembered,
        put=None if is_theirs(change.reason) else change.after,
        kept=remembered.wanted == change.after if code is Code.UNDONE else remembered.kept,
        released=None if code is Code.UNDONE else remembered.released,
        fought=(remembered.fought if _within_a_day(remembered.fought_at, now) else 0) + 1 if fought else 0,
        fought_at=now if fought else None,
    )


def yields(remembered: Remembered | None, wanted: Limits, rounds: int, now: datetime) -> bool:
    """Whether somebody else has changed a limit back so often that it is to be left to them."""
    if remembered is None or remembered.put != wanted:
        return False
    return remembered.fought >= rounds and _within_a_day(remembered.fought_at, now)


def _within_a_day(fought_at: datetime | None, now: datetime) -> bool:
    """A round in the future is one of a clock that was wrong."""
    return fought_at is not None and timedelta(0) <= now - fought_at < ROUNDS_WITHIN
