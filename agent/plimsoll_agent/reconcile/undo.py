"""Undo: a pass that restores the limits before plimsoll's changes. The record decides instead of the sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from plimsoll_agent.errors import NoSuchGuest
from plimsoll_agent.model.disk import Disk, DiskName, guest_of
from plimsoll_agent.model.entries import RecordedChange
from plimsoll_agent.model.hypervisor import GuestRef, Hypervisor
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.policy.decide import (
    Decision,
    Desired,
    NoOpinion,
    Situation,
    Source,
    Unmanaged,
    decide,
    no_opinion_of,
)
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.caution import Caution
from plimsoll_agent.reconcile.consider import outcome_of
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.reconcile.observe import Observation
from plimsoll_agent.reconcile.outcome import Kind, Mode, Outcome, PassReport, Result, Scope
from plimsoll_agent.reconcile.run import Decider, run_pass
from plimsoll_agent.store import record_query
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.notes import Notes
from plimsoll_agent.store.past import Past, pasts
from plimsoll_agent.store.record import Record
from plimsoll_agent.util.frozen import frozen, replace

Agreed = Mapping[str, tuple[Limits, Limits]]
"""What an operator was shown and agreed to, by ``Disk.key``: the actual limits, and those to restore.

Of a disk that is reduced under congestion, the actual limits are those without that.
"""


@frozen
class Wish:
    """What to undo; ``agreed`` is None where no operator has to agree."""

    since: datetime
    guests: frozenset[str] = field(default_factory=frozenset)
    """By name or uuid; none for all."""
    agreed: Agreed | None = None


@frozen(kw_only=True)
class Undone:
    """A disk that was changed since: its actual limits, those to restore, and the result."""

    disk: DiskName
    actual: Limits | Unknown | None
    """None where the disk is not on this node."""
    target: Limits | None
    change: Change | None
    result: Result
    server: str | None = None
    """The server's name; None where the disk is not on this node, or Nova did not create its guest."""


@frozen(kw_only=True)
class UndoReport:
    """The results of all disks that were changed since; messages and JSON are views of it."""

    since: datetime
    seconds: float
    undone: tuple[Undone, ...]
    notes: tuple[Reason, ...] = ()
    paused: Reason | None = None
    of: int = 0
    """How many disks were observed."""
    unrecorded: int = 0
    """Disks with limits that plimsoll set, but without an entry: the record is missing, or was begun since."""

    def count(self, *kinds: Kind) -> int:
        return sum(undone.result.kind in kinds for undone in self.undone)

    @property
    def exit_status(self) -> int:
        """0 all disks on this node are restored, 3 some, or changes may be missing in the record, 1 none."""
        here = sum(undone.result.reason.code is not Code.NOT_HERE for undone in self.undone)
        good = self.count(Kind.CHANGED, Kind.IN_SYNC, Kind.PLANNED)
        if good == here:
            return 3 if self.notes or self.unrecorded else 0
        return 3 if good else 1

    @property
    def agreement(self) -> Agreed:
        """What an operator agrees to who was shown this report."""
        return {
            undone.disk.key: (undone.actual, undone.target)
            for undone in self.undone
            if isinstance(undone.actual, Limits) and undone.target is not None and undone.result.kind is Kind.PLANNED
        }


def run_undo(
    wish: Wish,
    situation: Situation,
    *,
    hypervisor: Hypervisor,
    sources: tuple[Source, ...],
    record: Record,
    node_store: NodeStore,
    notes: Notes,
    bounds: Bounds,
    caution: Caution,
    boot: datetime,
    read_only: bool,
    tell: Callable[[Undone], None],
) -> UndoReport:
    """Restore the limits before the changes since a given time; ``tell`` gets each disk when its result is final.

    Raises ``Unreachable`` when the guests cannot be listed, ``NoSuchGuest`` for a guest that neither runs here nor
    was changed, ``StateError`` where the record cannot be read; every later error is an outcome.
    """
    record.unsettled()  # fails for a damaged record: the pass would begin another, without anything to undo
    rows, start = record_query.changes_of_disks(record, wish.since), record_query.begun(record)
    since_then = start is not None and start.at >= wish.since
    if start is not None and since_then and start.reason is not None:  # it replaced a damaged one
        detail = f"at {start.at.isoformat(timespec='seconds')}; earlier changes are not undone"
        notes.append(replace(start.reason, facts={**start.reason.facts, "detail": detail}))
    scope, over = _scope(wish, rows, hypervisor), record_query.holds_over(record, wish.since)
    undo = _Undo(wish, scope, sources, rows, over, boot, node_store, (lambda _: None) if read_only else tell)
    if scope is None:
        undo.outcomes(Observation(disks=(), unreachable=()), situation)
        report = PassReport(
            mode=Mode.PLAN,
            scope=Scope(),
            situation=situation,
            seconds=0.0,
            outcomes=(),
            unreachable=(),
            notes=tuple(notes),
        )
    else:
        report = run_pass(
            scope,
            situation,
            Mode.PLAN if read_only else Mode.ENFORCE,
            hypervisor=hypervisor,
            decider=Decider(undo.outcomes, lasting=False, restores=False),
            node_store=node_store,
            notes=notes,
            bounds=bounds,
            # An operator asked for it, so ``rounds`` does not apply; a plan shows what undo does without a pause.
            caution=replace(caution, rounds=None, paused=(lambda: None) if read_only else caution.paused),
            tell=undo.ended,
        )
    results = tuple(undo.undone.values())
    if read_only:
        for one in results:
            tell(one)
    gaps = _unrecorded(record, report) if since_then or not record.is_there() else 0
    of = len(report.outcomes)
    return UndoReport(
        since=wish.since,
        seconds=report.seconds,
        undone=results,
        notes=report.notes,
        paused=caution.paused(),
        of=of,
        unrecorded=gaps,
    )


@dataclass(slots=True)
class _Undo:
    """What to restore by the record, and the results."""

    wish: Wish
    scope: Scope | None
    """The guests of the request that run here; None where none does."""
    sources: tuple[Source, ...]
    rows: Sequence[RecordedChange]
    holds_over: Mapping[str, datetime]
    booted: datetime
    node_store: NodeStore
    tell: Callable[[Undone], None]
    undone: dict[str, Undone] = field(default_factory=dict)
    """By ``Disk.key``."""

    def outcomes(self, observation: Observation, situation: Situation) -> list[Outcome]:
        """The decider of the pass, which has settled what was open in the record."""
        results = self.node_store.settled_results
        rows = [replace(row, result=results.get(row.id, row.result)) if row.open else row for row in self.rows]
        histories = {
            past.disk.key: past
            for past in pasts(rows, self.wish.since, self.booted, self.holds_over)
            if self._is_meant(past.disk)
        }
        here = {disk.key for disk in observation.disks}
        troubles = {each.guest.uuid: each.reason for each in observation.unreachable}
        for key, past in histories.items():
            self.undone[key] = _absent(past, troubles.get(past.disk.guest_uuid))
            if key not in here:
                self.tell(self.undone[key])
        return [self._outcome(disk, histories.get(disk.key), situation) for disk in observation.disks]

    def ended(self, outcome: Outcome) -> None:
        """Keeps and tells the result of a disk that was changed since."""
        past = self.undone.get(outcome.disk.key)
        if past is not None:
            one = replace(
                past,
                actual=outcome.disk.actual,
                change=outcome.change,
                result=outcome.result,
                server=outcome.disk.guest.display_name,
            )
            self.undone[outcome.disk.key] = one
            self.tell(one)

    def _is_meant(self, disk: DiskName) -> bool:
        """Whether its guest is in the request, by its name then or now."""
        guest = GuestRef(disk.guest_uuid, disk.guest_name)
        return guest in Scope(self.wish.guests) or (self.scope is not None and guest in self.scope)

    def _outcome(self, disk: Disk, past: Past | None, situation: Situation) -> Outcome:
        entry = situation.memory.get(disk.key)
        if past is None:
            return _left(disk, because(Code.NOT_UNDONE))
        foreign = {"foreign": True} if past.foreign else {}
        why = because(Code.UNDONE, since=self.wish.since.isoformat(timespec="seconds"), **foreign)
        if not isinstance(disk.actual, Limits):
            return outcome_of(disk, Decision(desired=Unknown(why), trail=()))
        if past.before is None or past.after is None:
            return _left(disk, because(Code.NOT_SETTLED), Kind.UNKNOWN)
        back = Desired(past.before, why)
        if disk.actual == past.before:
            return outcome_of(disk, Decision(desired=back, trail=()))
        if entry is None or not disk.attachment == entry.attachment == past.attachment:
            return _left(disk, because(Code.REATTACHED))
        if disk.actual != past.after and not _has_bursts_of_now(disk.actual, past.after, entry):
            return _left(disk, because(Code.EXTERNAL_CHANGE))
        decision = decide(disk, situation, self.sources)
        desired = decision.desired
        if isinstance(desired, Unknown) and _may_be_unmanaged(disk, situation):
            return _left(disk, desired.reason, Kind.UNKNOWN)
        if desired.reason.code in (Code.RULE_UNMANAGES, Code.HOLD):  # an operator decided on this disk
            return _left(disk, desired.reason)
        outcome = outcome_of(disk, replace(decision, instead=back))
        if self.wish.agreed is not None and self.wish.agreed.get(disk.key) != (disk.actual, past.before):
            return replace(outcome, result=Result(Kind.DEFERRED, because(Code.NOT_APPROVED)))
        return outcome


def _has_bursts_of_now(actual: Limits, after: Limits, entry: Remembered) -> bool:
    """Whether plimsoll set these, and only bursts differ from its last change: the end of a reduction is none."""
    wholes = (actual, after, entry.desired or after)
    return entry.applied == actual and any(actual.shortens(whole) and after.shortens(whole) for whole in wholes)


def _left(disk: Disk, reason: Reason, kind: Kind = Kind.LEFT_ALONE) -> Outcome:
    return Outcome(
        disk=disk, decision=Decision(desired=Unmanaged(reason), trail=()), change=None, result=Result(kind, reason)
    )


def _absent(past: Past, trouble: Reason | None) -> Undone:
    """For a disk that was not observed; ``trouble`` is why its guest is unreachable."""
    result = Result(Kind.LEFT_ALONE, because(Code.NOT_HERE))
    if trouble is not None and trouble.code is not Code.NOT_FOUND:
        result = Result(Kind.UNKNOWN, trouble)
    return Undone(disk=past.disk, actual=None, target=past.before, change=None, result=result)


def _may_be_unmanaged(disk: Disk, situation: Situation) -> bool:
    rules = (rule for rule in situation.rules.rules if not rule.manage)
    return not all(isinstance(no_opinion_of(rule, disk, situation.now), NoOpinion) for rule in rules)


def _scope(wish: Wish, rows: Sequence[RecordedChange], hypervisor: Hypervisor) -> Scope | None:
    """The guests of the request that run here; None where none does."""
    if not wish.guests:
        return Scope()
    names = {word for row in rows for word in (row.disk.guest_name, row.disk.guest_uuid)}
    uuids = {row.disk.guest_uuid for row in rows if wish.guests & {row.disk.guest_name, row.disk.guest_uuid}}
    running = hypervisor.guests()
    absent = wish.guests - names - {word for guest in running for word in (guest.name, guest.uuid)}
    if absent:
        raise NoSuchGuest(
            f"no guest with the name or uuid {', '.join(sorted(absent))} runs here or was changed since"
        )
    here = frozenset(guest.uuid for guest in running if guest in Scope(wish.guests) or guest.uuid in uuids)
    return Scope(here) if here else None


def _unrecorded(record: Record, report: PassReport) -> int:
    """How many disks of the request have limits that plimsoll set, but no entry in the record."""
    keys = record_query.changed_disks(record)
    here = {outcome.disk.guest.uuid for outcome in report.outcomes}
    here |= {each.guest.uuid for each in report.unreachable}
    return sum(
        ours.applied is not None and key not in keys and guest_of(key) in here
        for key, ours in report.situation.memory.items()
    )
