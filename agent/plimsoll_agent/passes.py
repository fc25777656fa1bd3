"""One pass over the node: observe, decide, act, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum

from plimsoll_agent.apply import Applier, Bounds
from plimsoll_agent.changes import change_for
from plimsoll_agent.decide import Situation, Source, Unmanaged, decide
from plimsoll_agent.disk import Disk
from plimsoll_agent.hypervisor import Hypervisor
from plimsoll_agent.ledger import Ledger, Sight, remembering
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
    notes: list[Reason] = []
    if mode is not Mode.PLAN:
        everything = scope.everything and not seen.overlooked
        with _noting(notes, Code.NOT_SETTLED):
            ours = ledger.settle(seen.disks, situation.now, everything=everything)
            situation = replace(situation, memory={**situation.memory, **ours})
    outcomes = [consider(disk, situation, sources) for disk in seen.disks]
    if mode is Mode.ENFORCE:
        applier = Applier(hypervisor, ledger, bounds, situation.now, hung=seen.hung)
        try:
            outcomes = applier.apply(outcomes, tell)
        finally:  # also of a pass that was interrupted: what was put in force is ours
            _remember(ledger, situation, outcomes, applier, seen, scope, notes)
        notes += applier.notes
    else:
        for outcome in outcomes:
            tell(outcome)
        if mode is Mode.OBSERVE:
            _remember(ledger, situation, outcomes, None, seen, scope, notes)
    seconds = time.monotonic() - clock
    return PassReport(scope, situation.now, seconds, tuple(outcomes), seen.overlooked, tuple(notes))


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
    ledger: Ledger,
    situation: Situation,
    outcomes: Sequence[Outcome],
    applier: Applier | None,
    seen: Observation,
    scope: Scope,
    notes: list[Reason],
) -> None:
    if scope.everything:
        unseen = {missed.guest.uuid for missed in seen.overlooked}
    else:
        unseen = {key.partition("/")[0] for key in situation.memory} - {disk.guest.uuid for disk in seen.disks}
    decided = [(outcome.disk, outcome.decision) for outcome in outcomes]
    memory = remembering(situation, Sight(decided, applier.put if applier else {}, unseen))
    with _noting(notes, Code.NOT_REMEMBERED):
        ledger.remember(memory | (applier.strays if applier else {}))


@contextmanager
def _noting(notes: list[Reason], code: Code) -> Iterator[None]:
    """State that cannot be read or written is noted in the report; it does not stop the pass."""
    try:
        yield
    except StateError as error:
        notes.append(because(code, detail=str(error)))
