"""One pass over the node: observe, decide, apply, report. Why its parts are as they are:

- Guests with a change whose end is unknown are locked before they are observed: the late write of another pass would
  look like an external change. All others are locked only when a change is planned, so that passes run side by side.
- Even for one guest it observes the whole node until a pass over the node has judged the revision of rules and
  catalogue: the brake counts the disks of a node, not of a scope.
- What defers a change comes after the decision, never into it: each disk tells what is desired, and why it waits.
- Ceph is asked last, and only of the clusters of changes that are left: a pass without changes depends on no cluster.
- The memory is saved before the results are recorded (``keep``): what a killed pass did not remember is still open in
  the record, and the next pass finds out how it ended.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from plimsoll_agent.catalogue.model import VolumeType
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.hypervisor import GuestRef, Hypervisor
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.policy.decide import Decision, Desired, Situation, Source, Unmanaged, decide
from plimsoll_agent.policy.diff import change_for
from plimsoll_agent.policy.memory import reverted_too_often
from plimsoll_agent.policy.sources.cinder import per_gib, volume_type
from plimsoll_agent.reconcile.apply import Applier, without_record
from plimsoll_agent.reconcile.brake import LargeChange, braked, large_changes
from plimsoll_agent.reconcile.caution import Caution, is_judged, leaves_judgement
from plimsoll_agent.reconcile.follow import with_what_came, without_what_left
from plimsoll_agent.reconcile.groups import judged, withheld
from plimsoll_agent.reconcile.health_gate import Gate
from plimsoll_agent.reconcile.keep import Sight, unseen
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.reconcile.observe import MOVING, Observation, guests_of, observe
from plimsoll_agent.reconcile.outcome import Braked, Kind, Mode, Outcome, PassReport, Result, Scope
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.notes import Notes
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.frozen import frozen, replace

LOG = logging.getLogger(__name__)

_PATIENCE = 1.0
"""Seconds to wait for other passes over the guests to be changed."""


@frozen
class Decider:
    """Decides on the disks of a pass, before anything is deferred."""

    outcomes: Callable[[Observation, Situation], list[Outcome]]
    """Of each observed disk, in their order."""
    lasting: bool = True
    """Its decisions last: the brake checks them, and they are remembered. Else they are only written."""


def by_sources(sources: tuple[Source, ...]) -> Decider:
    return Decider(lambda seen, situation: [consider(disk, situation, sources) for disk in seen.disks])


def run_pass(
    scope: Scope,
    situation: Situation,
    mode: Mode,
    *,
    hypervisor: Hypervisor,
    decider: Decider,
    node_store: NodeStore,
    notes: Notes,
    bounds: Bounds,
    caution: Caution,
    sizes: bool = False,
    clock: Callable[[], float] | None = None,
    tell: Callable[[Outcome], None],
) -> PassReport:
    """One pass; ``tell`` gets each outcome when it is final. ``notes`` are shared with the node_store.

    ``sizes`` reads the size of every disk of the scope, not only where limits depend on it; with a ``clock``
    (seconds) the disks' counters are read, at its times. What it changes, it locks; ``node_store`` may hold guests
    already, which nothing else has changed since the situation was read.
    Raises ``Unreachable`` when the guests cannot be listed; every later error is an outcome.
    """
    stopwatch = _Stopwatch()
    with node_store.locks.for_now():
        if mode is not Mode.PLAN:
            node_store.lock_unsettled(lambda disk: GuestRef(disk.guest_uuid, disk.guest_name) in scope)
        looks_at_all = decider.lasting and not caution.on_event
        look_at = _to_look_at(scope, situation, hypervisor) if looks_at_all else scope
        seen = observe(
            hypervisor,
            look_at,
            clusters=caution.gate.clusters,
            sized=lambda disk: (
                (sizes and GuestRef(disk.guest.uuid, disk.guest.name) in scope) or per_gib(disk, situation.catalogue)
            ),
            clock=clock,
            at_once=bounds.at_once,
        )
        stopwatch.ended("observe")
        situation = _recalled(seen, look_at, situation, mode, node_store, notes)
        if scope.everything and mode is not Mode.PLAN:
            situation = without_what_left(situation, hypervisor, node_store)
        told = situation.attachments
        considered = _considered(seen, look_at, scope, situation, mode, decider, node_store, caution)
        situation, seen, outcomes, stop = considered.situation, considered.seen, considered.outcomes, considered.stop
        stopwatch.ended("decide")
        if mode is not Mode.OBSERVE:  # in mode observe nothing is written, so no cluster is asked
            outcomes = gated(caution.gate, outcomes)
            if mode is Mode.ENFORCE:
                outcomes = _locked(outcomes, node_store, notes)
        stopwatch.ended("gate")
        sight = Sight(
            situation=situation,
            seen=seen,
            scope=scope,
            stop=stop,
            told=told,
            found=considered.found,
            caution=caution,
            lasting=decider.lasting,
            notes=notes,
        )
        if mode is Mode.ENFORCE:
            applier = Applier(
                hypervisor,
                node_store,
                notes,
                bounds,
                situation,
                hung=seen.hung,
                stopped=caution.paused,
                retries_trial=not caution.on_event,
            )
            try:
                outcomes = applier.apply(outcomes, tell)
                stopwatch.ended("apply")
            finally:  # also after an interrupt: the limits that were written are ours
                sight.keep(node_store, outcomes, applier)
            if considered.weighed and scope.everything and not isinstance(situation.catalogue, Unknown):
                # They are used up, or for another revision.
                with notes.taking(Code.NOT_REMEMBERED):
                    node_store.use_up_approvals()
        else:
            for outcome in outcomes:
                tell(outcome)
            if mode is Mode.OBSERVE:
                sight.keep(node_store, outcomes)
        stopwatch.ended("keep")
        return PassReport(
            mode=mode,
            scope=scope,
            situation=situation,
            seconds=stopwatch.seconds,
            outcomes=tuple(outcomes),
            unreachable=seen.unreachable,
            notes=tuple(notes),
            braked=stop,
            paused=considered.paused,
            guests=seen.guests,
            phases=stopwatch.parts,
            readings=seen.readings,
            other_disks=seen.other_disks,
            large=len(considered.found),
            considered=considered.of,
            paused_guests=seen.paused_guests,
            hung_guests=seen.hung,
        )


@frozen(kw_only=True)
class Considered:
    """What is decided on the disks of a scope, before Ceph's health is asked."""

    situation: Situation
    seen: Observation
    outcomes: list[Outcome]
    found: tuple[LargeChange, ...]
    """The changes that the brake counted."""
    of: int
    """The disks that it looked at, also those out of scope."""
    stop: Braked | None
    paused: Reason | None
    weighed: bool
    """The brake looked at it."""


def planned(
    seen: Observation,
    looked_at: Scope,
    scope: Scope,
    situation: Situation,
    *,
    decider: Decider,
    node_store: NodeStore,
    notes: Notes,
    caution: Caution,
) -> Considered:
    """What a pass in mode plan decides on the disks of ``scope``, of those that were observed in ``looked_at``.

    It asks no guest and no cluster, and writes nothing.
    """
    situation = _recalled(seen, looked_at, situation, Mode.PLAN, node_store, notes)
    return _considered(seen, looked_at, scope, situation, Mode.PLAN, decider, node_store, caution)


def _recalled(
    seen: Observation, looked_at: Scope, situation: Situation, mode: Mode, node_store: NodeStore, notes: Notes
) -> Situation:
    """The situation with what the record and the guests' marks have of these disks."""
    read_only = mode is Mode.PLAN
    with notes.taking(Code.NOT_SETTLED):
        everything = looked_at.everything and not seen.unreachable
        ours = node_store.settle(seen.disks, situation, everything=everything, read_only=read_only)
        situation = replace(situation, memory={**situation.memory, **ours})
    return with_what_came(situation, seen.disks, node_store, notes, read_only=read_only)


def _considered(
    seen: Observation,
    looked_at: Scope,
    scope: Scope,
    situation: Situation,
    mode: Mode,
    decider: Decider,
    node_store: NodeStore,
    caution: Caution,
) -> Considered:
    situation = replace(
        situation, attachments=node_store.attachments(seen.disks, situation, unseen(seen, looked_at, situation))
    )
    seen = replace(seen, disks=tuple(typed(disk, situation) for disk in seen.disks))
    outcomes = decider.outcomes(seen, situation)
    paused = caution.paused()
    # A confirmation covers what is written now, not what a later pass uses.
    weighs = decider.lasting and (mode is Mode.OBSERVE or not caution.sure)
    found = large_changes(outcomes, situation, caution.brake) if weighs else ()
    whole = looked_at.everything and not seen.unreachable
    judged = not leaves_judgement(caution, situation)
    stop = braked(found, situation, caution.brake, disks=len(outcomes), whole=whole, judged=judged)
    if stop is not None:
        stop = replace(stop, named={o.disk.key: o.disk.named for o in outcomes if o.disk.key in stop.keys})
    of = len(outcomes)
    seen, outcomes = _in_scope(scope, seen, outcomes)
    outcomes = _some_deferred(outcomes, situation, caution, paused, stop)
    return Considered(
        situation=situation,
        seen=seen,
        outcomes=outcomes,
        found=found,
        of=of,
        stop=stop,
        paused=paused,
        weighed=weighs,
    )


class _Stopwatch:
    """The seconds of each part of a pass."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._began = self._last = time.monotonic()

    def ended(self, part: str) -> None:
        now = time.monotonic()
        self.parts[part], self._last = now - self._last, now

    @property
    def seconds(self) -> float:
        return self._last - self._began


def save_attachments(
    situation: Situation, hypervisor: Hypervisor, node_store: NodeStore, caution: Caution, at_once: int
) -> None:
    """Observe every guest, and write for the refresher of the catalogue what is attached.

    Raises ``Unreachable``, ``StateError``.
    """
    scope = Scope()
    seen = observe(hypervisor, scope, clusters=caution.gate.clusters, at_once=at_once)
    ours = node_store.settle(seen.disks, situation, everything=False, read_only=True)
    situation = replace(situation, memory={**situation.memory, **ours})
    met = node_store.attachments(seen.disks, situation, unseen(seen, scope, situation))
    node_store.save_attachments(met, situation.attachments)


def typed(disk: Disk, situation: Situation) -> Disk:
    """The disk with the name of its volume type, where known."""
    known = volume_type(disk, situation)
    return replace(disk, volume_type=known.name) if isinstance(known, VolumeType) else disk


def consider(disk: Disk, situation: Situation, sources: tuple[Source, ...]) -> Outcome:
    """The outcome for a disk before anything is deferred or written."""
    given = situation.acknowledgement(disk)
    outcome = outcome_of(disk, decide(disk, situation, sources))
    return outcome if given is None else replace(outcome, acknowledgement=given.reason)


def outcome_of(disk: Disk, decision: Decision) -> Outcome:
    """The outcome of a decision before anything is deferred or written."""
    change, written = change_for(disk, decision), decision.written
    filters = disk.behind_filters
    if filters is not None:  # also for decisions that are not of the sources, such as an undo's
        result = Result(Kind.LEFT_ALONE, filters)
    elif change is not None:
        result = Result(Kind.PLANNED, change.reason)
    elif isinstance(written, Unmanaged):
        result = Result(Kind.LEFT_ALONE, written.reason)
    elif isinstance(disk.actual, Unknown):
        moving = disk.actual.reason.code in MOVING.values()
        result = Result(Kind.LEFT_ALONE if moving else Kind.UNKNOWN, disk.actual.reason)
    elif isinstance(written, Unknown):
        result = Result(Kind.UNKNOWN, written.reason)
    else:
        result = Result(Kind.IN_SYNC, written.reason)
    return Outcome(disk=disk, decision=decision, change=change, result=result)


def _to_look_at(scope: Scope, situation: Situation, hypervisor: Hypervisor) -> Scope:
    """Which guests a pass over ``scope`` observes: all, until a pass over the node has judged the revision.

    The brake has to know how many disks of the node a revision changes. Limits on the command line are only for the
    named guests.

    Raises ``Unreachable``, ``NoSuchGuest``.
    """
    if scope.everything or situation.rules.command_line is not None or is_judged(situation):
        return scope
    guests_of(hypervisor, scope)
    return Scope()


def _in_scope(scope: Scope, seen: Observation, outcomes: Sequence[Outcome]) -> tuple[Observation, list[Outcome]]:
    """The part of the observation that is in scope."""

    def meant(guest: Guest | GuestRef) -> bool:
        return GuestRef(guest.uuid, guest.name) in scope

    unreachable = tuple(each for each in seen.unreachable if meant(each.guest))
    disks = tuple(disk for disk in seen.disks if meant(disk.guest))
    asked = {disk.guest.uuid for disk in disks} | {each.guest.uuid for each in unreachable}
    seen = replace(seen, disks=disks, unreachable=unreachable, hung=seen.hung & asked)
    return seen, [each for each in outcomes if meant(each.disk.guest)]


def _some_deferred(
    considered: Sequence[Outcome], situation: Situation, caution: Caution, paused: Reason | None, stop: Braked | None
) -> list[Outcome]:
    """The outcomes, with planned changes deferred by the brake, a pause, unknown orders, an external change, or in
    the same group.
    """
    if stop is not None:
        considered = [_as_before(o, situation, stop) if o.disk.key in stop.keys else o for o in considered]
    deferred = judged([_deferred(o, _reason_to_defer(o, situation, caution, paused)) for o in considered])
    if situation.orders_unknown is not None:
        deferred = [_not_raised(o, situation.orders_unknown) for o in deferred]
    return withheld(deferred)


def _not_raised(outcome: Outcome, reason: Reason) -> Outcome:
    change, planned = outcome.change, outcome.result.kind is Kind.PLANNED
    if change is None or not planned or change.direction is Direction.LOWER:
        return outcome
    return _deferred(outcome, reason)


def _as_before(outcome: Outcome, situation: Situation, stop: Braked) -> Outcome:
    """A disk that the brake stops keeps the limits desired before, also after a reboot. A hold stays in force."""
    if outcome.decision.aside is not None or isinstance(outcome.decision.desired, Unknown):
        return outcome
    too_many = because(Code.BRAKED, revision=stop.revision, disks=len(stop.keys), of=stop.of)
    why = too_many if stop.many else stop.alone[outcome.disk.key]
    if isinstance(outcome.decision.desired, Unmanaged):
        # By a rule: the brake stops no other such disk. Nothing is written, but what was desired stays remembered.
        return _deferred(outcome, why)
    deferred = outcome if outcome.change is None else _deferred(outcome, why)
    remembered = situation.memory.get(outcome.disk.key)
    if remembered is None or remembered.desired is None or not remembered.enforced:
        return deferred
    before = Desired(remembered.desired, because(Code.DESIRED_BEFORE, revision=stop.revision))
    as_before = outcome_of(outcome.disk, replace(outcome.decision, instead=before))
    if as_before.change is None or as_before.change.direction is not Direction.LOWER:  # never raises or removes
        return deferred
    return as_before


def gated(gate: Gate, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes, with planned changes deferred by the health gate, which asks their clusters."""
    planned = [o.change for o in outcomes if o.change is not None and o.result.kind is Kind.PLANNED]
    reasons = gate.keeps(planned)
    return withheld([_deferred(o, reasons.get(o.disk.key)) for o in outcomes])


def _locked(outcomes: Sequence[Outcome], node_store: NodeStore, notes: Notes) -> list[Outcome]:
    """The outcomes, with planned changes deferred that something else makes or has made since.

    From now on only this pass changes the guests of the others, until its results are recorded.
    """
    planned = [each.disk for each in outcomes if each.change is not None and each.result.kind is Kind.PLANNED]
    try:
        kept = node_store.lock((disk.guest.uuid for disk in planned), _PATIENCE)
    except StateError as error:
        notes.add(Code.NO_RECORD, error)
        return without_record(outcomes)
    reasons = {disk.key: because(kept[disk.guest.uuid]) for disk in planned if disk.guest.uuid in kept}
    return withheld([_deferred(each, reasons.get(each.disk.key)) for each in outcomes])


def _reason_to_defer(
    outcome: Outcome, situation: Situation, caution: Caution, paused: Reason | None
) -> Reason | None:
    change = outcome.change
    if change is None or outcome.result.kind is Kind.DEFERRED:
        return None
    if paused is not None:
        return paused
    rounds = caution.rounds
    if rounds is None or change.reason.code is Code.COMMAND_LINE:  # an operator asked for it now
        return None
    if reverted_too_often(outcome.decision.ours, change.after, rounds, situation.now):
        return because(Code.REVERTED_TOO_OFTEN, rounds=rounds)
    return None


def _deferred(outcome: Outcome, reason: Reason | None) -> Outcome:
    return outcome if reason is None else replace(outcome, result=Result(Kind.DEFERRED, reason))
