"""One pass over the node: observe, decide, act, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import StrEnum

from plimsoll_agent.apply import Applier, Bounds
from plimsoll_agent.changes import change_for
from plimsoll_agent.decide import Remembered, Situation, Source, Unmanaged, decide
from plimsoll_agent.disk import Disk
from plimsoll_agent.hypervisor import Hypervisor
from plimsoll_agent.ledger import Ledger, remembering
from plimsoll_agent.observe import MOVING, Observation, observe
from plimsoll_agent.outcome import Kind, Outcome, PassReport, Result, Scope
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.state import StateError


class Mode(StrEnum):
    """How far a pass goes."""

    PLAN = "plan"
    """Nothing is written anywhere."""
    OBSERVE = "observe"
    """What is wanted is remembered; no limit is written."""
    ENFORCE = "enforce"


def run_pass(
    scope: Scope,
    situation: Situation,
    mode: Mode,
    *,
    hypervisor: Hypervisor,
    sources: tuple[Source, ...],
    ledger: Ledger,
    bounds: Bounds,
    sizes: bool = False,
    tell: Callable[[Outcome], None],
) -> PassReport:
    """One pass; each outcome is told as soon as it stands.

    Raises ``Unreachable`` when the guests cannot be listed; everything after that is an outcome.
    """
    clock = time.monotonic()
    seen = observe(hypervisor, scope, sizes=sizes, at_once=bounds.at_once)
    considered = [consider(disk, situation, sources) for disk in seen.disks]
    if mode is Mode.PLAN:
        outcomes, notes = considered, _NO_NOTES
    else:
        ledger.settle(seen.disks, situation.now, everything=scope.everything and not seen.overlooked)
        memory = _Memory(situation, considered, seen, scope, ledger)
        if mode is Mode.OBSERVE:
            outcomes, notes = considered, memory.keep(())
        else:
            # Before anything is done, so that a pass that is killed leaves no limit unclaimed.
            notes = memory.keep(considered)
            applier = Applier(hypervisor, ledger, bounds, situation.now, hung=seen.hung, may_loosen=not notes)
            outcomes = applier.apply(considered, tell)
            memory.keep(outcomes)
    if mode is not Mode.ENFORCE:
        for outcome in outcomes:
            tell(outcome)
    return PassReport(scope, situation.now, time.monotonic() - clock, tuple(outcomes), seen.overlooked, notes)


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


_NO_NOTES: tuple[Reason, ...] = ()
_OURS = (Kind.PLANNED, Kind.CHANGED, Kind.NOT_KNOWN)


class _Memory:
    """What is remembered of a pass, kept once before its changes and again when they turned out otherwise."""

    def __init__(
        self,
        situation: Situation,
        considered: Sequence[Outcome],
        seen: Observation,
        scope: Scope,
        ledger: Ledger,
    ) -> None:
        self._situation = situation
        self._decided = [(outcome.disk, outcome.decision) for outcome in considered]
        self._ledger = ledger
        self._kept: dict[str, Remembered] | None = None
        if scope.everything:
            self._unseen = {missed.guest.uuid for missed in seen.overlooked}
        else:
            looked_at = {disk.guest.uuid for disk in seen.disks}
            self._unseen = {key.partition("/")[0] for key in situation.memory} - looked_at

    def keep(self, outcomes: Sequence[Outcome]) -> tuple[Reason, ...]:
        """Claim the limits that plimsoll sets, or may have set; a note when nothing can be kept."""
        claimed = {o.disk.key for o in outcomes if o.change is not None and o.result.kind in _OURS}
        memory = remembering(self._situation, self._decided, claimed=claimed, unseen=self._unseen)
        if memory == self._kept:
            return ()
        try:
            self._ledger.remember(memory)
        except StateError as error:
            return (because(Code.NO_RECORD, detail=str(error)),)
        self._kept = memory
        return ()
