"""Limits as they were before plimsoll's own changes: what the record tells of them, against what is there now."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby

from plimsoll_agent.apply import Applier
from plimsoll_agent.changes import Change
from plimsoll_agent.database import stamp, version_of
from plimsoll_agent.decide import Decision, Silent, Situation, Source, Unmanaged, Wants, decide, silence_of
from plimsoll_agent.direction import direction
from plimsoll_agent.disk import Disk, DiskName, guest_of
from plimsoll_agent.entries import Conclusion, RecordedChange, RecordedEvent, Verdict, change_of, event_of
from plimsoll_agent.errors import NoSuchGuest
from plimsoll_agent.gate import Gate
from plimsoll_agent.groups import judged, withheld
from plimsoll_agent.hypervisor import Hypervisor
from plimsoll_agent.ledger import Ledger, is_theirs, remembered_after, settled
from plimsoll_agent.limits import Limits
from plimsoll_agent.observe import MOVING, Observation, observe
from plimsoll_agent.outcome import Kind, Outcome, Result, Scope
from plimsoll_agent.passes import noting, typed
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.record import WITH_REPEATS, Record
from plimsoll_agent.state import Memory
from plimsoll_agent.write import Bounds

_TAKEN = (Verdict.DONE, Verdict.TOOK)
_OF_DISKS = "SELECT * FROM change WHERE disk IN (SELECT disk FROM change WHERE intended_at >= ?) ORDER BY id"
_OF_DISKS_TRIED = _OF_DISKS.replace("intended_at >=", "coalesce(retried_at, intended_at) >=")
_DISKS = "SELECT DISTINCT disk FROM change"
_BEGUN = "SELECT * FROM event WHERE what = 'record-started' ORDER BY id LIMIT 1"
# A hold that another one took the place of ends in the same instant: the disk stays held.
_HOLDS_OVER = """
SELECT * FROM event AS ended WHERE what = 'hold-ended' AND at < ? AND NOT EXISTS
(SELECT * FROM event WHERE what = 'hold-added' AND disk = ended.disk AND at = ended.at) ORDER BY id
"""
_WITH_EVENTS = 2
"""The first version of the record that has events."""

Agreed = Mapping[str, tuple[Limits, Limits]]
"""What a person was shown and agreed to, by ``Disk.key``: what is in force, and what is to be."""


# --- what the record tells


@dataclass(frozen=True, slots=True)
class Past:
    """A disk that was changed since a moment, as the record has it."""

    disk: DiskName
    """As it was called last."""
    before: Limits | None
    """What was in force before the first of the changes that took, and before a hold that was in force then.

    None where no change is known to have taken.
    """
    after: Limits | None
    """What plimsoll put in force last."""
    attachment: str | None
    """The one attachment that all of the changes were made on; None where there were several."""
    theirs: bool
    """What was in force before was somebody else's, or nobody's: plimsoll had not put it there."""


def pasts(
    rows: Iterable[RecordedChange], since: datetime, booted: datetime, holds_over: Mapping[str, datetime]
) -> list[Past]:
    """The disks that were changed since then; ``rows`` are all of theirs, in the order of their ids.

    Before the node ``booted`` attachments were counted otherwise: a change from then was on another one.
    ``holds_over`` says by ``Disk.key`` when the last hold was over that ended before that moment.
    """
    by_disk = sorted(rows, key=lambda row: row.disk.key)  # a stable sort: the order of a disk's rows stays
    found = (
        _past(list(of_disk), since, booted, holds_over.get(key))
        for key, of_disk in groupby(by_disk, key=lambda row: row.disk.key)
    )
    changed = [past for past in found if past is not None]
    return sorted(changed, key=lambda past: (past.disk.guest_name, past.disk.target))


def _past(
    rows: Sequence[RecordedChange], since: datetime, booted: datetime, hold_over: datetime | None
) -> Past | None:
    """None for a disk that nothing was changed of since then."""
    taken = [row for row in rows if row.result in _TAKEN]
    ours = [row for row in taken if row.at >= since]
    if not ours:
        return Past(rows[-1].disk, None, None, None, False) if any(r.open and r.at >= since for r in rows) else None
    last = ours[-1]
    earlier, before = _until(taken, taken.index(ours[0]), hold_over)
    attachments = {row.attachment if row.at >= booted else None for row in ours}
    return Past(
        last.disk,
        before,
        last.after,
        attachments.pop() if len(attachments) == 1 else None,
        _put(earlier) != before,
    )


def _until(
    taken: Sequence[RecordedChange], first: int, hold_over: datetime | None
) -> tuple[Sequence[RecordedChange], Limits]:
    """The changes up to this one, and what was in force after them, without those of a hold that stood then.

    An exception is not to come back without its end. Limits of a hold that was over, and which stayed, are what the
    sources wanted too.
    """
    change = taken[first]
    if change.reason.code is Code.HOLD_ENDED:
        return taken[: first + 1], change.after
    held = first > 0 and taken[first - 1].after == change.before
    while held and first and (hold := taken[first - 1]).reason.code is Code.HOLD:
        another = hold.attachment != taken[first].attachment and hold.after != taken[first].before
        if another or (hold_over is not None and hold_over >= hold.at):
            break
        first -= 1
    return taken[:first], taken[first].before


def _put(taken: Iterable[RecordedChange]) -> Limits | None:
    """What plimsoll had in force on a disk after these changes; None while what was in force was another's."""
    put: Limits | None = None
    held, theirs = False, False
    for row in taken:
        code = row.reason.code
        if code is Code.HOLD and not held:
            held, theirs = True, put is None
        elif code is not Code.HOLD:
            theirs = theirs if code is Code.HOLD_ENDED else is_theirs(row.reason)
            held = False
        put = None if theirs and not held else row.after
    return put


def _rows_since(record: Record, since: datetime) -> list[RecordedChange]:
    """Every change of each disk that has one since then. Raises ``StateError``."""
    with record.look() as database:
        if database is None:
            return []
        query = _OF_DISKS_TRIED if version_of(database) >= WITH_REPEATS else _OF_DISKS
        rows = database.execute(query, (stamp(since),)).fetchall()
        return [attempt for row in rows for attempt in change_of(row).attempts]


def _events(record: Record, query: str, *parameters: str) -> list[RecordedEvent]:
    """None of a record from before there were any."""
    with record.look() as database:
        if database is None or version_of(database) < _WITH_EVENTS:
            return []
        return [event_of(row) for row in database.execute(query, parameters)]


def _holds_over(record: Record, since: datetime) -> dict[str, datetime]:
    """When a disk was last not held any more before then, by ``Disk.key``."""
    ended = _events(record, _HOLDS_OVER, stamp(since))
    return {event.disk.key: event.at for event in ended if event.disk is not None}


def _loss(begun: RecordedEvent) -> Reason | None:
    """That changes from before it was begun may be missing, where it took the place of a damaged one."""
    if begun.reason is None:
        return None
    detail = f"at {begun.at.isoformat(timespec='seconds')}; what was changed before that is not undone"
    return replace(begun.reason, facts={**begun.reason.facts, "detail": detail})


def _unrecorded(record: Record, seen: Observation, situation: Situation) -> int:
    """How many limits of the guests that were meant plimsoll put, of which the record has nothing."""
    with record.look() as database:
        known = set() if database is None else {row["disk"] for row in database.execute(_DISKS)}
    here = {disk.guest.uuid for disk in seen.disks} | {each.guest.uuid for each in seen.overlooked}
    return sum(
        ours.put is not None and key not in known and guest_of(key) in here for key, ours in situation.memory.items()
    )


# --- what is to become of a disk


@dataclass(frozen=True, slots=True)
class Undone:
    """A disk that was changed since: what is in force, what was before the changes, and what becomes of it."""

    disk: DiskName
    in_force: Limits | Unknown | None
    """As it was looked at; None where the disk is not here."""
    target: Limits | None
    change: Change | None
    result: Result


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What became of every disk that was changed since; words and JSON are views of it."""

    since: datetime
    seconds: float
    undone: tuple[Undone, ...]
    notes: tuple[Reason, ...] = ()
    paused: Reason | None = None
    unrecorded: int = 0
    """Disks with limits that plimsoll put, and no row in a record that is missing, or was begun since then."""

    def count(self, *kinds: Kind) -> int:
        return sum(undone.result.kind in kinds for undone in self.undone)

    @property
    def exit_status(self) -> int:
        """0 all of the disks that are here are as before, 3 some, or without a trace of it, 1 none."""
        here = sum(undone.result.reason.code is not Code.NOT_HERE for undone in self.undone)
        good = self.count(Kind.CHANGED, Kind.RIGHT, Kind.PLANNED)
        if good == here:
            return 3 if self.notes or self.unrecorded else 0
        return 3 if good else 1

    @property
    def agreement(self) -> Agreed:
        """What a person agrees to who was shown this."""
        return {
            undone.disk.key: (undone.change.before, undone.change.after)
            for undone in self.undone
            if undone.change is not None
        }


def consider(
    past: Past,
    disk: Disk | None,
    trouble: Reason | None,
    situation: Situation,
    why: Reason,
    sources: tuple[Source, ...],
) -> Undone:
    """What is to become of a disk; ``trouble`` is what its guest could not be looked at for, ``why`` its undoing."""

    def is_left(kind: Kind, reason: Reason) -> Undone:
        return Undone(past.disk, None if disk is None else disk.in_force, past.before, None, Result(kind, reason))

    if disk is None:
        if trouble is None or trouble.code is Code.VANISHED:
            return is_left(Kind.LEFT_ALONE, because(Code.NOT_HERE))
        return is_left(Kind.NOT_KNOWN, trouble)
    if not isinstance(disk.in_force, Limits):
        reason = disk.in_force.reason if disk.in_force is not None else because(Code.NOT_LOOKED_AT, detail="")
        return is_left(Kind.LEFT_ALONE if reason.code in MOVING.values() else Kind.NOT_KNOWN, reason)
    if past.before is None or past.after is None:
        return is_left(Kind.NOT_KNOWN, because(Code.NOT_SETTLED))
    if disk.in_force == past.before:
        return is_left(Kind.RIGHT, why)
    remembered = situation.memory.get(disk.key)
    if remembered is None or not disk.attachment == remembered.attachment == past.attachment:
        return is_left(Kind.LEFT_ALONE, because(Code.ATTACHED_ANEW))
    if disk.in_force != past.after:
        return is_left(Kind.LEFT_ALONE, because(Code.CHANGED_BY_ANOTHER))
    wanted = decide(disk, situation, sources).wanted
    if isinstance(wanted, Unknown) and _may_be_unmanaged(disk, situation):
        return is_left(Kind.NOT_KNOWN, wanted.reason)
    if wanted.reason.code in (Code.RULE_UNMANAGES, Code.HOLD):  # a person's word for this very disk
        return is_left(Kind.LEFT_ALONE, wanted.reason)
    how = direction(disk.in_force, past.before)
    reason = replace(why, facts={**why.facts, "theirs": True}) if past.theirs else why
    change = Change(disk, disk.in_force, past.before, how, reason, Code.WANTED_CHANGED)
    return Undone(past.disk, disk.in_force, past.before, change, Result(Kind.PLANNED, why))


def _may_be_unmanaged(disk: Disk, situation: Situation) -> bool:
    rules = (rule for rule in situation.rules.rules if not rule.manage)
    return not all(isinstance(silence_of(rule, disk, situation), Silent) for rule in rules)


def _waiting(undone: Undone, shut: Mapping[str, Reason], agreed: Agreed | None) -> Undone:
    """The same, where Ceph or what a person agreed to lets it wait."""
    change, key = undone.change, undone.disk.key
    if change is None:
        return undone
    reason = shut.get(key)
    if reason is None and agreed is not None and agreed.get(key) != (change.before, change.after):
        reason = because(Code.NOT_AGREED)
    return undone if reason is None else replace(undone, result=Result(Kind.WAITS, reason))


def _with_groups(undone: Sequence[Undone], disks: Iterable[Disk]) -> list[Undone]:
    """The same, where a group that a disk shares with others defers its change; others are members, and stay."""
    outcomes = {one.change.disk.key: _outcome(one.change, one.result) for one in undone if one.change is not None}
    stays = Result(Kind.LEFT_ALONE, because(Code.NOT_UNDONE))
    others = [
        Outcome(disk, Decision(Unmanaged(stays.reason), ()), None, stays)
        for disk in disks
        if disk.key not in outcomes
    ]
    after = {outcome.disk.key: outcome for outcome in withheld(judged([*outcomes.values(), *others]))}
    return [
        one
        if one.change is None
        else replace(one, change=after[one.disk.key].change, result=after[one.disk.key].result)
        for one in undone
    ]


def _outcome(change: Change, result: Result) -> Outcome:
    return Outcome(change.disk, Decision(Wants(change.after, change.reason), ()), change, result)


# --- doing it


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person wants undone; ``agreed`` is None where they need not be asked."""

    since: datetime
    guests: frozenset[str] = field(default_factory=frozenset)
    """By name or uuid; none for all."""
    agreed: Agreed | None = None


def run_undo(
    wish: Wish,
    situation: Situation,
    *,
    hypervisor: Hypervisor,
    sources: tuple[Source, ...],
    record: Record,
    ledger: Ledger,
    bounds: Bounds,
    gate: Gate,
    paused: Callable[[], Reason | None],
    booted: datetime,
    look_only: bool,
    tell: Callable[[Undone], None],
) -> UndoReport:
    """Put back what was in force before the changes since a moment; each disk is told as soon as it stands.

    Raises ``Unreachable`` when the guests cannot be listed, ``NoSuchGuest`` for a guest that neither runs here nor
    was changed, ``StateError`` where the record cannot be read; everything after that is an outcome.
    """
    clock = time.monotonic()
    rows, begun = _rows_since(record, wish.since), next(iter(_events(record, _BEGUN)), None)
    anew = None if begun is None or begun.at < wish.since else begun
    loss = None if anew is None else _loss(anew)
    seen = _observed(wish, rows, hypervisor, gate, bounds)
    conclusions, ours = settled(
        record.unsettled(), seen.disks, situation, everything=not wish.guests and not seen.overlooked
    )
    situation = replace(situation, memory={**situation.memory, **ours})
    unrecorded = _unrecorded(record, seen, situation) if anew or not record.exists() else 0
    situation = replace(situation, sightings=ledger.sight(seen.disks, situation, unseen=()))
    past = pasts(_concluded(rows, conclusions), wish.since, booted, _holds_over(record, wish.since))
    why = because(Code.UNDONE, since=wish.since.isoformat(timespec="seconds"))
    disks = {disk.key: typed(disk, situation) for disk in seen.disks}
    troubles = {each.guest.uuid: each.reason for each in seen.overlooked}
    undone = [
        consider(one, disks.get(one.disk.key), troubles.get(one.disk.guest_uuid), situation, why, sources)
        for one in past
        if not wish.guests or _is_meant(one, seen, wish)
    ]
    undone = _with_groups(undone, disks.values())
    shut = gate.keeps([one.change for one in undone if one.change is not None])
    undone = _with_groups([_waiting(one, shut, wish.agreed) for one in undone], disks.values())
    notes = [] if loss is None else [loss]
    if look_only:
        for one in undone:
            tell(one)
    else:
        applier = Applier(hypervisor, ledger, bounds, situation, hung=seen.hung, stopped=paused)
        doing = _Doing(applier, ledger, situation)
        try:
            undone = doing.apply(undone, tell)
        finally:  # also of one that was interrupted: what was put in force is to be known for what it is
            notes += doing.keep(conclusions)
    seconds = time.monotonic() - clock
    return UndoReport(wish.since, seconds, tuple(undone), (*ledger.notes, *notes), paused(), unrecorded)


def _observed(
    wish: Wish, rows: Sequence[RecordedChange], hypervisor: Hypervisor, gate: Gate, bounds: Bounds
) -> Observation:
    """The guests that are meant and run here."""
    if not wish.guests:
        return observe(hypervisor, Scope(), clusters=gate.clusters, at_once=bounds.at_once)
    recorded = {word for row in rows for word in (row.disk.guest_name, row.disk.guest_uuid)}
    uuids = {row.disk.guest_uuid for row in rows if wish.guests & {row.disk.guest_name, row.disk.guest_uuid}}
    running = hypervisor.guests()
    absent = wish.guests - recorded - {word for guest in running for word in (guest.name, guest.uuid)}
    if absent:
        raise NoSuchGuest(
            f"no guest runs here by the name or uuid of {', '.join(sorted(absent))}, and none was changed since"
        )
    here = frozenset(guest.uuid for guest in running if guest in Scope(wish.guests) or guest.uuid in uuids)
    if not here:
        return Observation((), ())
    return observe(hypervisor, Scope(here), clusters=gate.clusters, at_once=bounds.at_once)


def _is_meant(past: Past, seen: Observation, wish: Wish) -> bool:
    """By the name that it had, or the one that it has."""
    uuid = past.disk.guest_uuid
    looked_at = {disk.guest.uuid for disk in seen.disks} | {each.guest.uuid for each in seen.overlooked}
    return uuid in looked_at or bool(wish.guests & {past.disk.guest_name, uuid})


def _concluded(rows: Iterable[RecordedChange], conclusions: Collection[Conclusion]) -> Iterator[RecordedChange]:
    """The rows with what was found out of those that were open."""
    verdicts = {conclusion.id: conclusion.verdict for conclusion in conclusions}
    for row in rows:
        yield replace(row, result=verdicts.get(row.id, row.result)) if row.open else row


class _Doing:
    """The writes of one undo, and what is kept of them."""

    def __init__(self, applier: Applier, ledger: Ledger, situation: Situation) -> None:
        self._applier = applier
        self._ledger = ledger
        self._situation = situation

    def apply(self, undone: Sequence[Undone], tell: Callable[[Undone], None]) -> list[Undone]:
        """Every disk in its order, with what became of it."""
        planned = {
            one.disk.key: (one, _outcome(one.change, one.result))
            for one in undone
            if one.change is not None and one.result.kind is Kind.PLANNED
        }
        for one in undone:
            if one.disk.key not in planned:
                tell(one)

        def became(outcome: Outcome) -> Undone:
            return replace(planned[outcome.disk.key][0], result=outcome.result)

        outcomes = self._applier.apply([outcome for _, outcome in planned.values()], lambda each: tell(became(each)))
        done = {outcome.disk.key: became(outcome) for outcome in outcomes}
        return [done.get(one.disk.key, one) for one in undone]

    def keep(self, conclusions: Sequence[Conclusion]) -> list[Reason]:
        """Remember, then tell the record how all ended; returns what of it could not be done.

        In this order, as in a pass: what was not remembered is still open in the record, and so not lost.
        """
        notes: list[Reason] = []
        situation, applier = self._situation, self._applier
        memory = dict(situation.memory)
        for key, change in applier.put.items():
            memory[key] = remembered_after(change, memory[key], situation.now)
        with noting(notes, Code.NOT_REMEMBERED):
            known = Memory(memory | applier.strays, situation.holds, situation.judged, situation.recent)
            self._ledger.remember(known, situation.now)
            applier.conclude()
            with noting(notes, Code.NO_RESULTS):
                self._ledger.conclude(conclusions, situation.now)
        return notes + applier.notes
