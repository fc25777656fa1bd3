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
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from plimsoll_agent.ceilings.buckets import Split
from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.hypervisor import GuestRef, Hypervisor
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.policy.decide import Situation, Source
from plimsoll_agent.policy.sources.cinder import per_gib, typed
from plimsoll_agent.reconcile.apply import Applier, without_record
from plimsoll_agent.reconcile.brake import LargeChange, braked, large_changes
from plimsoll_agent.reconcile.caution import Caution, leaves_judgement
from plimsoll_agent.reconcile.consider import consider
from plimsoll_agent.reconcile.defer import deferred, some_deferred
from plimsoll_agent.reconcile.follow import with_what_came, without_what_left
from plimsoll_agent.reconcile.groups import judged, withheld
from plimsoll_agent.reconcile.health_gate import Gate
from plimsoll_agent.reconcile.keep import Sight, unseen
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.reconcile.observe import Observation, guests_of, observe
from plimsoll_agent.reconcile.outcome import Braked, Kind, Mode, Outcome, PassReport, Scope
from plimsoll_agent.reconcile.reducing import recognised, with_reductions
from plimsoll_agent.reconcile.savings import as_saved, forwarded, may_burst, with_arrivals
from plimsoll_agent.reconcile.sharing import is_counted, split_now, with_newcomers
from plimsoll_agent.reconcile.withdrawal import with_limits_of_before
from plimsoll_agent.store.clock import uptime
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.notes import Notes
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.frozen import frozen, replace

LOG = logging.getLogger(__name__)

_PATIENCE = 1.0
"""Seconds to wait for other passes over the guests to be changed."""

_FORGOTTEN = frozenset({Code.NO_RECORD, Code.NOT_REMEMBERED})
"""With one of them a pass has not done what it was approved to, or the next one does not know it."""


@frozen
class Decider:
    """Decides on the disks of a pass, before anything is deferred."""

    outcomes: Callable[[Observation, Situation], list[Outcome]]
    """Of each observed disk, in their order."""
    lasting: bool = True
    """Its decisions last: the brake checks them, and they are remembered. Else they are only written."""
    restores: bool = True
    """Disks whose own limits it does not change follow congestion, or are restored, too."""


def by_sources(sources: tuple[Source, ...]) -> Decider:
    return Decider(lambda observation, situation: [consider(disk, situation, sources) for disk in observation.disks])


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
    (seconds since the node booted) all disks' counters are read, not only those of disks that may have a burst. What
    it changes, it locks; ``node_store`` may hold guests already, which nothing else has changed since the situation
    was read.
    Raises ``Unreachable`` when the guests cannot be listed; every later error is an outcome.
    """
    stopwatch = _Stopwatch()
    situation = replace(situation, accounts=node_store.accounts())
    with node_store.locks.for_now():
        if mode is not Mode.PLAN:
            node_store.lock_unsettled(lambda disk: GuestRef(disk.guest_uuid, disk.guest_name) in scope)
        looks_at_all = decider.lasting and not caution.on_event
        look_at = _to_look_at(scope, situation, hypervisor) if looks_at_all else scope
        observation = _observed(
            look_at, scope if sizes else None, situation, hypervisor, caution.gate, clock, bounds.at_once
        )
        stopwatch.ended("observe")
        observation, situation = _recalled(observation, look_at, situation, mode, node_store, notes)
        if mode is not Mode.PLAN:
            situation = _tidy(observation, situation, scope, hypervisor, node_store, notes)
        attachments = situation.attachments
        plan = _considered(observation, look_at, scope, situation, mode, decider, node_store, caution)
        situation, observation, outcomes, stop = plan.situation, plan.seen, plan.outcomes, plan.stop
        stopwatch.ended("decide")
        healthy = frozenset[str]()
        if mode is not Mode.OBSERVE:  # in mode observe nothing is written, so no cluster is asked
            outcomes = gated(caution.gate, plan, others=decider.restores)
            healthy = _healthy(caution.gate, outcomes)
            if mode is Mode.ENFORCE:
                outcomes = _locked(outcomes, node_store, notes)
        stopwatch.ended("gate")
        sight = Sight(
            situation=situation,
            seen=observation,
            scope=scope,
            stop=stop,
            told=attachments,
            found=plan.found,
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
                hung=observation.hung,
                pause=caution.paused,
                retries_trial=not caution.on_event,
            )
            if scope.everything and plan.reduces and decider.restores:
                applier.follow(situation)
            outcomes = _enforced(applier, sight, outcomes, node_store, stopwatch, tell)
            situation = replace(situation, ceilings=applier.ceilings)
            is_kept = _FORGOTTEN.isdisjoint(note.code for note in notes)
            if plan.weighed and scope.everything and is_kept and not isinstance(situation.catalogue, Unknown):
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
            unreachable=observation.unreachable,
            notes=tuple(notes),
            braked=stop,
            paused=plan.paused,
            guests=observation.guests,
            phases=stopwatch.parts,
            readings=observation.readings,
            other_disks=observation.other_disks,
            kernel_mapped=observation.kernel_mapped,
            large=len(plan.found),
            considered=plan.of,
            paused_guests=observation.paused_guests,
            hung_guests=observation.hung,
            healthy=healthy,
        )


def _observed(
    look_at: Scope,
    sizes: Scope | None,
    situation: Situation,
    hypervisor: Hypervisor,
    gate: Gate,
    clock: Callable[[], float] | None,
    at_once: int,
) -> Observation:
    """What is on the node; as ``run_pass`` says, with the sizes of disks that limits depend on or ``sizes`` has."""
    return observe(
        hypervisor,
        look_at,
        clusters=gate.clusters,
        needs_size=lambda disk: (
            (sizes is not None and GuestRef(disk.guest.uuid, disk.guest.name) in sizes)
            or per_gib(disk, situation.catalogue)
        ),
        needs_counters=lambda disk: clock is not None or may_burst(disk, situation) or is_counted(disk, situation),
        clock=clock or uptime,
        at_once=at_once,
    )


def _tidy(
    observation: Observation,
    situation: Situation,
    scope: Scope,
    hypervisor: Hypervisor,
    node_store: NodeStore,
    notes: Notes,
) -> Situation:
    """The situation without disks that left the node; a killed pass's reductions are taken back in the record."""
    if scope.everything:
        situation = without_what_left(situation, hypervisor, node_store)
    if situation.following.pools or situation.ceilings.shared:
        with notes.taking(Code.NO_RESULTS):
            node_store.take_back_reductions(observation.disks, situation)
    return situation


def _enforced(
    applier: Applier,
    sight: Sight,
    outcomes: list[Outcome],
    node_store: NodeStore,
    stopwatch: _Stopwatch,
    tell: Callable[[Outcome], None],
) -> list[Outcome]:
    try:
        outcomes = applier.apply(outcomes, tell)
        stopwatch.ended("apply")
    finally:  # also after an interrupt: the limits that were written are ours
        sight.keep(node_store, outcomes, applier)
    return outcomes


@frozen(kw_only=True)
class Considered:
    """What is decided on the disks of a scope, before Ceph's health is asked."""

    situation: Situation
    seen: Observation
    outcomes: list[Outcome]
    own: list[Outcome]
    """The same before limits are reduced, or restored."""
    found: tuple[LargeChange, ...]
    """The changes that the brake counted."""
    of: int
    """The disks that it looked at, also those out of scope."""
    stop: Braked | None
    paused: Reason | None
    weighed: bool
    """The brake looked at it."""
    reduces: bool
    """Limits are reduced under congestion, and restored."""


def planned(
    observation: Observation,
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
    situation = replace(situation, accounts=node_store.accounts())
    observation, situation = _recalled(observation, looked_at, situation, Mode.PLAN, node_store, notes)
    return _considered(observation, looked_at, scope, situation, Mode.PLAN, decider, node_store, caution)


def _recalled(
    observation: Observation, looked_at: Scope, situation: Situation, mode: Mode, node_store: NodeStore, notes: Notes
) -> tuple[Observation, Situation]:
    """The disks as they are without a reduction under congestion, and the situation with what the record and the
    guests' marks have of them.
    """
    read_only = mode is Mode.PLAN
    observation = replace(observation, disks=_recognised(observation, situation, node_store))
    with notes.taking(Code.NOT_SETTLED):
        everything = looked_at.everything and not observation.unreachable
        ours = node_store.settle(observation.disks, situation, everything=everything, read_only=read_only)
        situation = replace(situation, memory={**situation.memory, **ours})
        situation = with_limits_of_before(situation, node_store)
    now = with_what_came(situation, observation.disks, node_store, notes, read_only=read_only)
    return observation, replace(now, accounts=with_arrivals(situation, now, observation.disks))


def _recognised(observation: Observation, situation: Situation, node_store: NodeStore) -> tuple[Disk, ...]:
    return recognised(observation.disks, situation, node_store.intended, node_store.unsettled)


def _considered(
    observation: Observation,
    looked_at: Scope,
    scope: Scope,
    situation: Situation,
    mode: Mode,
    decider: Decider,
    node_store: NodeStore,
    caution: Caution,
) -> Considered:
    situation = replace(
        situation,
        attachments=node_store.attachments(observation.disks, situation, unseen(observation, looked_at, situation)),
    )
    observation = replace(observation, disks=tuple(typed(disk, situation) for disk in observation.disks))
    outcomes = decider.outcomes(observation, situation)
    situation = replace(situation, accounts=forwarded(outcomes, observation.readings, situation.accounts))
    outcomes = as_saved(outcomes, situation)
    pause = caution.paused()
    # A confirmation covers what is written now, not what a later pass uses.
    weighs = decider.lasting and (mode is Mode.OBSERVE or not caution.sure)
    whole = looked_at.everything and not observation.unreachable
    is_judged = not leaves_judgement(caution, situation)
    changes = large_changes(outcomes, situation, caution.brake) if weighs else ()
    stop = braked(changes, situation, caution.brake, disks=len(outcomes), whole=whole, judged=is_judged)
    if stop is not None:
        stop = replace(stop, named={o.disk.key: o.disk.named for o in outcomes if o.disk.key in stop.keys})
    of = len(outcomes)
    observation, outcomes = _in_scope(scope, observation, outcomes)
    reduces = mode is not Mode.OBSERVE and pause is None
    outcomes = own = some_deferred(outcomes, situation, caution, pause, stop)
    if reduces:
        ceilings = situation.ceilings
        if scope.everything and decider.lasting and ceilings.how is not Split.STAY:
            unreachable = {each.guest.uuid for each in observation.unreachable}
            ceilings = split_now(outcomes, situation, observation.readings, unreachable)
        elif situation.rules.share_ceilings and not ceilings.is_split:
            join = partial(with_newcomers, outcomes=outcomes, situation=situation)
            splits = node_store.join_ceilings(join) if mode is Mode.ENFORCE else join(ceilings.shared)
            ceilings = replace(ceilings, shared=splits)
        situation = replace(situation, ceilings=ceilings)
        outcomes = with_reductions(outcomes, situation, others=decider.restores)
    outcomes = withheld(judged(outcomes))
    return Considered(
        situation=situation,
        seen=observation,
        outcomes=outcomes,
        own=own,
        found=changes,
        of=of,
        stop=stop,
        paused=pause,
        weighed=weighs,
        reduces=reduces,
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
    observation = observe(hypervisor, scope, clusters=caution.gate.clusters, at_once=at_once)
    observation = replace(observation, disks=_recognised(observation, situation, node_store))
    ours = node_store.settle(observation.disks, situation, everything=False, read_only=True)
    situation = replace(situation, memory={**situation.memory, **ours})
    attachments = node_store.attachments(observation.disks, situation, unseen(observation, scope, situation))
    node_store.save_attachments(attachments, situation.attachments)


def _to_look_at(scope: Scope, situation: Situation, hypervisor: Hypervisor) -> Scope:
    """Which guests a pass over ``scope`` observes: all, until a pass over the node has judged the revision.

    The brake has to know how many disks of the node a revision changes. Limits on the command line are only for the
    named guests.

    Raises ``Unreachable``, ``NoSuchGuest``.
    """
    if scope.everything or situation.rules.command_line is not None or situation.is_judged:
        return scope
    guests_of(hypervisor, scope)
    return Scope()


def _in_scope(
    scope: Scope, observation: Observation, outcomes: Sequence[Outcome]
) -> tuple[Observation, list[Outcome]]:
    """The part of the observation that is in scope."""

    def meant(guest: Guest | GuestRef) -> bool:
        return GuestRef(guest.uuid, guest.name) in scope

    unreachable = tuple(each for each in observation.unreachable if meant(each.guest))
    disks = tuple(disk for disk in observation.disks if meant(disk.guest))
    uuids = {disk.guest.uuid for disk in disks} | {each.guest.uuid for each in unreachable}
    observation = replace(observation, disks=disks, unreachable=unreachable, hung=observation.hung & uuids)
    return observation, [each for each in outcomes if meant(each.disk.guest)]


def gated(gate: Gate, plan: Considered, *, others: bool = True) -> list[Outcome]:
    """The outcomes, with planned changes deferred by the health gate, which asks their clusters.

    These disks' limits of before are reduced under congestion in place of the new ones, if ``others`` than those that
    change follow it. That may be another reduction for the rest of their groups.
    """
    changes = [o.change for o in plan.outcomes if o.change is not None and o.result.kind is Kind.PLANNED]
    reasons = gate.keeps(changes)
    results = [deferred(o, reasons.get(o.disk.key)) for o in plan.outcomes]
    if reasons:
        pairs = zip(plan.own, results, strict=True)
        again = [o if o.result.kind is Kind.DEFERRED else own for own, o in pairs]
        results = judged(with_reductions(again, plan.situation, others=others))
    return withheld(results)


def _healthy(gate: Gate, outcomes: Iterable[Outcome]) -> frozenset[str]:
    """The clusters, by fsid, that were asked and let changes through."""
    changes = (o.change for o in outcomes if o.change is not None and o.result.kind is Kind.PLANNED)
    return frozenset(each.disk.cluster for each in changes if each.disk.cluster is not None and gate.asks_for(each))


def _locked(outcomes: Sequence[Outcome], node_store: NodeStore, notes: Notes) -> list[Outcome]:
    """The outcomes, with planned changes deferred that something else makes or has made since.

    From now on only this pass changes the guests of the others, until its results are recorded.
    """
    disks = [each.disk for each in outcomes if each.change is not None and each.result.kind is Kind.PLANNED]
    try:
        conflicts = node_store.lock((disk.guest.uuid for disk in disks), _PATIENCE)
    except StateError as error:
        notes.add(Code.NO_RECORD, error)
        return without_record(outcomes)
    reasons = {disk.key: because(conflicts[disk.guest.uuid]) for disk in disks if disk.guest.uuid in conflicts}
    return withheld([deferred(each, reasons.get(each.disk.key)) for each in outcomes])
