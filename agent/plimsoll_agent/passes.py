"""One pass over the node: observe, decide, act, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from plimsoll_agent.apply import Applier
from plimsoll_agent.brake import Brake, Grave, braked, graves, revision, still_recent
from plimsoll_agent.catalogue import VolumeType
from plimsoll_agent.changes import Change, change_for
from plimsoll_agent.decide import Situation, Source, Unmanaged, Wants, decide
from plimsoll_agent.direction import Direction
from plimsoll_agent.disk import Disk, Guest, guest_of
from plimsoll_agent.following import with_what_came, without_what_left
from plimsoll_agent.gate import Gate
from plimsoll_agent.groups import judged, withheld
from plimsoll_agent.hypervisor import GuestRef, Hypervisor
from plimsoll_agent.ledger import Ledger, Sight, remembering, yields
from plimsoll_agent.observe import MOVING, Observation, guests_of, observe
from plimsoll_agent.outcome import Braked, Kind, Outcome, PassReport, Result, Scope
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.sightings import Sightings
from plimsoll_agent.sources.cinder import per_gib, volume_type
from plimsoll_agent.state import Memory, StateError
from plimsoll_agent.write import Bounds


class Mode(StrEnum):
    """How far a pass goes."""

    PLAN = "plan"
    """Nothing is written anywhere."""
    OBSERVE = "observe"
    """What is wanted is remembered; no limit is written."""
    ENFORCE = "enforce"


@dataclass(frozen=True, slots=True)
class Caution:
    """What may keep a pass from a change that is wanted."""

    brake: Brake
    gate: Gate
    paused: Callable[[], Reason | None]
    rounds: int | None
    """So often in a row somebody else's hand is met with a write; then it is left alone."""
    sure: bool = False
    """A person at a terminal said yes: the brake keeps nothing back, unless the pass only observes."""


def run_pass(
    scope: Scope,
    situation: Situation,
    mode: Mode,
    *,
    hypervisor: Hypervisor,
    sources: tuple[Source, ...],
    ledger: Ledger,
    bounds: Bounds,
    caution: Caution,
    sizes: bool = False,
    clock: Callable[[], float] | None = None,
    tell: Callable[[Outcome], None],
) -> PassReport:
    """One pass; each outcome is told as soon as it stands.

    ``sizes`` asks for the size of every disk, not only where limits hang on it; with a ``clock`` (seconds) the
    disks' counters are read, at its times.
    Raises ``Unreachable`` when the guests cannot be listed; everything after that is an outcome.
    """
    stopwatch = _Stopwatch()
    look_at = _to_look_at(scope, situation, hypervisor)
    seen = observe(
        hypervisor,
        look_at,
        clusters=caution.gate.clusters,
        sized=lambda disk: sizes or per_gib(disk, situation.catalogue),
        clock=clock,
        at_once=bounds.at_once,
    )
    stopwatch.ended("observe")
    notes: list[Reason] = []
    with noting(notes, Code.NOT_SETTLED):
        everything = look_at.everything and not seen.overlooked
        ours = ledger.settle(seen.disks, situation, everything=everything, look_only=mode is Mode.PLAN)
        situation = replace(situation, memory={**situation.memory, **ours})
    situation, of_marks = with_what_came(situation, seen.disks, ledger, look_only=mode is Mode.PLAN)
    notes += of_marks
    if scope.everything and mode is not Mode.PLAN:
        situation = without_what_left(situation, hypervisor, ledger)
    told = situation.sightings
    situation = replace(situation, sightings=ledger.sight(seen.disks, situation, _unseen(seen, look_at, situation)))
    seen = replace(seen, disks=tuple(typed(disk, situation) for disk in seen.disks))
    outcomes = [consider(disk, situation, sources) for disk in seen.disks]
    observing = mode is Mode.OBSERVE
    paused = caution.paused()
    # Who says yes says it to what is written now, not to what a later pass goes by.
    found = () if caution.sure and not observing else graves(outcomes, situation, caution.brake)
    stop = braked(found, situation, caution.brake, disks=len(outcomes), whole=look_at.everything)
    seen, outcomes = _in_scope(scope, seen, outcomes)
    outcomes = _held_back(outcomes, situation, caution, paused, stop)
    stopwatch.ended("decide")
    if not observing:  # nothing is written then: no cluster has to be asked whether it may be
        outcomes = withheld(_through(caution.gate, outcomes))
    stopwatch.ended("gate")
    sight = _Sight(situation, seen, scope, stop, told, found)
    if mode is Mode.ENFORCE:
        applier = Applier(hypervisor, ledger, bounds, situation, hung=seen.hung, stopped=caution.paused)
        try:
            outcomes = applier.apply(outcomes, tell)
            stopwatch.ended("apply")
        finally:  # also of a pass that was interrupted: what was put in force is ours
            notes += sight.keep(ledger, outcomes, applier)
        if scope.everything and not caution.sure:
            # Used up, or given for another state of rules and catalogue than there is now.
            with noting(notes, Code.NOT_REMEMBERED):
                ledger.use_up_approvals()
    else:
        for outcome in outcomes:
            tell(outcome)
        if mode is Mode.OBSERVE:
            notes += sight.keep(ledger, outcomes)
    stopwatch.ended("keep")
    return PassReport(
        scope,
        situation,
        stopwatch.seconds,
        tuple(outcomes),
        seen.overlooked,
        (*ledger.notes, *notes),
        stop,
        paused,
        seen.guests,
        stopwatch.parts,
        seen.readings,
    )


class _Stopwatch:
    """Which part of a pass takes how long, in seconds."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._began = self._last = time.monotonic()

    def ended(self, part: str) -> None:
        now = time.monotonic()
        self.parts[part], self._last = now - self._last, now

    @property
    def seconds(self) -> float:
        return self._last - self._began


def tell_sightings(
    situation: Situation, hypervisor: Hypervisor, ledger: Ledger, caution: Caution, at_once: int
) -> None:
    """Look at every guest, and tell the refresher of the catalogue what is attached; nothing else is done.

    Raises ``Unreachable``, ``StateError``.
    """
    scope = Scope()
    seen = observe(hypervisor, scope, clusters=caution.gate.clusters, at_once=at_once)
    ours = ledger.settle(seen.disks, situation, everything=False, look_only=True)
    situation = replace(situation, memory={**situation.memory, **ours})
    met = ledger.sight(seen.disks, situation, _unseen(seen, scope, situation))
    ledger.tell_sightings(met, situation.sightings)


def _unseen(seen: Observation, scope: Scope, situation: Situation) -> frozenset[str]:
    """Guests that were not looked at: out of scope, or they did not let themselves be. The others are away."""
    if scope.everything:
        return frozenset(missed.guest.uuid for missed in seen.overlooked)
    known = {*map(guest_of, [*situation.memory, *situation.sightings.volumes]), *situation.sightings.guests}
    return frozenset(known - {disk.guest.uuid for disk in seen.disks})


def typed(disk: Disk, situation: Situation) -> Disk:
    """The disk with the name of its volume type, where that is known."""
    known = volume_type(disk, situation)
    return replace(disk, volume_type=known.name) if isinstance(known, VolumeType) else disk


def consider(disk: Disk, situation: Situation, sources: tuple[Source, ...]) -> Outcome:
    """What is to become of a disk, before anything is done."""
    decision = decide(disk, situation, sources)
    change = change_for(disk, decision, situation)
    if change is not None:
        result = Result(Kind.PLANNED, change.reason)
    elif isinstance(decision.wanted, Unmanaged):
        result = Result(Kind.LEFT_ALONE, decision.wanted.reason)
    elif isinstance(disk.in_force, Unknown):
        moving = disk.in_force.reason.code in MOVING.values()
        result = Result(Kind.LEFT_ALONE if moving else Kind.NOT_KNOWN, disk.in_force.reason)
    elif isinstance(decision.wanted, Unknown):
        result = Result(Kind.LEFT_ALONE, decision.wanted.reason)
    else:
        result = Result(Kind.RIGHT, decision.wanted.reason)
    return Outcome(disk, decision, change, result)


def _to_look_at(scope: Scope, situation: Situation, hypervisor: Hypervisor) -> Scope:
    """Whom to look at for a pass over ``scope``: all guests while no pass over the node has judged the revision.

    A slip is told from a change of a few disks by how many it would change on the node. Limits on the command line
    are for the guests that were named.

    Raises ``Unreachable``, ``NoSuchGuest``.
    """
    if scope.everything or situation.rules.command_line is not None or situation.judged == revision(situation):
        return scope
    guests_of(hypervisor, scope)
    return Scope()


def _in_scope(scope: Scope, seen: Observation, outcomes: Sequence[Outcome]) -> tuple[Observation, list[Outcome]]:
    """What of it the pass is about."""

    def meant(guest: Guest | GuestRef) -> bool:
        return GuestRef(guest.uuid, guest.name) in scope

    overlooked = tuple(each for each in seen.overlooked if meant(each.guest))
    disks = tuple(disk for disk in seen.disks if meant(disk.guest))
    return replace(seen, disks=disks, overlooked=overlooked), [each for each in outcomes if meant(each.disk.guest)]


def _held_back(
    considered: Sequence[Outcome], situation: Situation, caution: Caution, paused: Reason | None, stop: Braked | None
) -> list[Outcome]:
    """The outcomes, where the brake, a pause or an external change defers planned changes, and what shares a
    group.
    """
    if stop is not None:
        considered = [_as_before(o, situation, stop) if o.disk.key in stop.keys else o for o in considered]
    waiting = [_waiting(o, _reason_to_wait(o, situation, caution, paused)) for o in considered]
    return withheld(judged(waiting))


def _as_before(outcome: Outcome, situation: Situation, stop: Braked) -> Outcome:
    """What the brake stops is guarded meanwhile at what was wanted before: a reboot must not set it free."""
    if outcome.change is None:
        return outcome
    too_many = because(Code.BRAKED, edition=stop.edition, disks=len(stop.keys), of=stop.of)
    waits = _waiting(outcome, too_many if stop.many else stop.alone[outcome.disk.key])
    remembered = situation.memory.get(outcome.disk.key)
    if remembered is None or remembered.wanted is None or not remembered.kept:
        return waits
    before = Wants(remembered.wanted, because(Code.WANTED_BEFORE, edition=stop.edition))
    change = change_for(outcome.disk, replace(outcome.decision, wanted=before), situation)
    if change is None or change.direction is not Direction.TIGHTEN:  # a guard sets nothing free
        return waits
    return replace(outcome, change=change, result=Result(Kind.PLANNED, change.reason))


def _through(gate: Gate, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes, where the health of a cluster lets planned changes wait."""
    planned = [o.change for o in outcomes if o.change is not None and o.result.kind is Kind.PLANNED]
    shut = gate.keeps(planned)
    return [_waiting(o, shut.get(o.disk.key)) for o in outcomes]


def _reason_to_wait(outcome: Outcome, situation: Situation, caution: Caution, paused: Reason | None) -> Reason | None:
    change = outcome.change
    if change is None or outcome.result.kind is Kind.WAITS:
        return None
    if paused is not None:
        return paused
    return _somebody_elses_hand(change, situation, caution.rounds)


def _somebody_elses_hand(change: Change, situation: Situation, rounds: int | None) -> Reason | None:
    remembered = situation.ours(change.disk)
    if rounds is None or change.reason.code is Code.COMMAND_LINE:  # a person is at it now
        return None
    if yields(remembered, change.after, rounds, situation.now):
        return because(Code.ANOTHERS_HAND, rounds=rounds)
    return None


def _waiting(outcome: Outcome, reason: Reason | None) -> Outcome:
    return outcome if reason is None else replace(outcome, result=Result(Kind.WAITS, reason))


@dataclass(frozen=True, slots=True)
class _Sight:
    """What a pass saw, to be remembered when it is over."""

    situation: Situation
    seen: Observation
    scope: Scope
    stop: Braked | None
    told: Sightings
    """What an earlier pass told the refresher."""
    found: tuple[Grave, ...]
    """What the brake counted."""

    def keep(self, ledger: Ledger, outcomes: Sequence[Outcome], applier: Applier | None = None) -> list[Reason]:
        """Remember, then tell the record how the changes ended; returns what of it could not be done.

        In this order: what a killed pass did not come to remember is still open in the record, and so not lost.
        """
        notes: list[Reason] = []
        if self.situation.catalogue is not None:
            with noting(notes, Code.NOT_SIGHTED):
                ledger.tell_sightings(self.situation.sightings, self.told)
        with noting(notes, Code.NOT_REMEMBERED):
            self._remember(ledger, outcomes, applier)
            if applier is not None:
                applier.conclude()
            else:
                ledger.conclude([], self.situation.now)
        return notes + (applier.notes if applier is not None else [])

    def _remember(self, ledger: Ledger, outcomes: Sequence[Outcome], applier: Applier | None) -> None:
        situation = self.situation
        unseen = _unseen(self.seen, self.scope, situation)
        # As they were seen: after our write, an attachment made anew looks like one that brought our limits along.
        decided = [(disk, outcome.decision) for disk, outcome in zip(self.seen.disks, outcomes, strict=True)]
        braked_keys = self.stop.keys if self.stop is not None else frozenset[str]()
        put = applier.put if applier else {}
        sight = Sight(decided, put, unseen, braked_keys, enforcing=applier is not None, revision=revision(situation))
        memory = remembering(situation, sight)
        if applier is not None:
            memory |= applier.strays
            memory = applier.mark([outcome.disk for outcome in outcomes], memory)
        recent = still_recent(situation.recent, situation.now)
        recent |= {grave.key: situation.now for grave in self.found if grave.key in put.keys() - braked_keys}
        judged_one = self.scope.everything and self.stop is None and situation.rules.command_line is None
        ledger.remember(
            Memory(
                memory,
                situation.holds,
                revision(situation) if judged_one else situation.judged,
                recent,
            ),
            situation.now,
        )


@contextmanager
def noting(notes: list[Reason], code: Code) -> Iterator[None]:
    """State that cannot be read or written is noted in the report; it does not stop the pass."""
    try:
        yield
    except StateError as error:
        notes.append(because(code, detail=str(error)))
