"""One pass over the node: observe, decide, act, report."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum

from plimsoll_agent.apply import Applier, Bounds
from plimsoll_agent.changes import change_for
from plimsoll_agent.decide import Situation, Source, Unmanaged, decide
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
    notes: tuple[Reason, ...] = ()
    if mode is not Mode.PLAN:
        ledger.settle(seen.disks, situation.now, everything=scope.everything and not seen.overlooked)
        notes = _remember(considered, seen, scope, situation, mode, ledger)
    if mode is Mode.ENFORCE:
        applier = Applier(hypervisor, ledger, bounds, situation.now, hung=seen.hung, may_loosen=not notes)
        outcomes = tuple(applier.apply(considered, tell))
    else:
        outcomes = tuple(considered)
        for outcome in outcomes:
            tell(outcome)
    return PassReport(scope, situation.now, time.monotonic() - clock, outcomes, seen.overlooked, notes)


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


def _remember(
    considered: list[Outcome],
    seen: Observation,
    scope: Scope,
    situation: Situation,
    mode: Mode,
    ledger: Ledger,
) -> tuple[Reason, ...]:
    """Remember what is wanted before anything is done, so that a pass that is killed leaves no limit unclaimed."""
    if scope.everything:
        unseen = {guest.guest.uuid for guest in seen.overlooked}
    else:
        unseen = {key.partition("/")[0] for key in situation.memory} - {disk.guest.uuid for disk in seen.disks}
    decided = [(outcome.disk, outcome.decision) for outcome in considered]
    try:
        ledger.remember(remembering(situation, decided, enforcing=mode is Mode.ENFORCE, unseen=unseen))
    except StateError as error:
        return (because(Code.NO_RECORD, detail=str(error)),)
    return ()
