"""What is decided on one disk, before anything is deferred or written."""

from __future__ import annotations

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.policy.decide import Decision, Situation, Source, Unmanaged, decide
from plimsoll_agent.policy.diff import change_for
from plimsoll_agent.reconcile.observe import MOVING
from plimsoll_agent.reconcile.outcome import Kind, Outcome, Result
from plimsoll_agent.util.frozen import replace


def consider(disk: Disk, situation: Situation, sources: tuple[Source, ...]) -> Outcome:
    """The outcome for a disk before anything is deferred or written."""
    acknowledgement = situation.acknowledgement(disk)
    outcome = outcome_of(disk, decide(disk, situation, sources))
    return outcome if acknowledgement is None else replace(outcome, acknowledgement=acknowledgement.reason)


def outcome_of(disk: Disk, decision: Decision) -> Outcome:
    """The outcome of a decision before anything is deferred or written."""
    change, target = change_for(disk, decision), decision.written
    filters = disk.behind_filters
    if filters is not None:  # also for decisions that are not of the sources, such as an undo's
        result = Result(Kind.LEFT_ALONE, filters)
    elif change is not None:
        result = Result(Kind.PLANNED, change.reason)
    elif isinstance(target, Unmanaged):
        result = Result(Kind.LEFT_ALONE, target.reason)
    elif isinstance(disk.actual, Unknown):
        moving = disk.actual.reason.code in MOVING.values()
        result = Result(Kind.LEFT_ALONE if moving else Kind.UNKNOWN, disk.actual.reason)
    elif isinstance(target, Unknown):
        result = Result(Kind.UNKNOWN, target.reason)
    else:
        result = Result(Kind.IN_SYNC, target.reason)
    return Outcome(disk=disk, decision=decision, change=change, result=result)
