"""What defers planned changes before any cluster is asked: the brake, a pause, unknown orders, external changes."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.policy.decide import Desired, Situation, Unmanaged
from plimsoll_agent.policy.memory import reverted_too_often
from plimsoll_agent.reconcile.caution import Caution
from plimsoll_agent.reconcile.consider import outcome_of
from plimsoll_agent.reconcile.groups import judged
from plimsoll_agent.reconcile.outcome import Braked, Kind, Outcome, Result
from plimsoll_agent.reconcile.savings import as_saved
from plimsoll_agent.util.frozen import replace


def some_deferred(
    outcomes: Sequence[Outcome],
    situation: Situation,
    caution: Caution,
    pause: Reason | None,
    stop: Braked | None,
) -> list[Outcome]:
    """The outcomes, with planned changes deferred by the brake, a pause, unknown orders or an external change."""
    if stop is not None:
        outcomes = [_as_before(o, situation, stop) if o.disk.key in stop.keys else o for o in outcomes]
        outcomes = as_saved(outcomes, situation)
    results = [deferred(o, _reason_to_defer(o, situation, caution, pause)) for o in outcomes]
    if situation.orders_unknown is not None:
        results = [_not_raised(o, situation.orders_unknown) for o in judged(results)]
    return results


def _not_raised(outcome: Outcome, reason: Reason) -> Outcome:
    change, is_planned = outcome.change, outcome.result.kind is Kind.PLANNED
    if change is None or not is_planned or change.direction is Direction.LOWER:
        return outcome
    return deferred(outcome, reason)


def _as_before(outcome: Outcome, situation: Situation, stop: Braked) -> Outcome:
    """A disk that the brake stops keeps the limits desired before, also after a reboot. A hold stays in force."""
    if outcome.decision.aside is not None or isinstance(outcome.decision.desired, Unknown):
        return outcome
    too_many = because(Code.BRAKED, revision=stop.revision, disks=len(stop.keys), of=stop.of)
    why = too_many if stop.many else stop.alone[outcome.disk.key]
    if isinstance(outcome.decision.desired, Unmanaged):
        # By a rule: the brake stops no other such disk. Nothing is written, but what was desired stays remembered.
        return deferred(outcome, why)
    deferral = outcome if outcome.change is None else deferred(outcome, why)
    entry = situation.memory.get(outcome.disk.key)
    if entry is None or entry.desired is None or not entry.enforced:
        return deferral
    withdrawal = situation.returning.get(outcome.disk.key)
    facts = {} if withdrawal is None else {"approval": withdrawal.digest, "by": withdrawal.by, "why": withdrawal.why}
    reason = because(Code.DESIRED_BEFORE, revision=stop.revision, **facts)
    as_before = outcome_of(outcome.disk, replace(outcome.decision, instead=Desired(entry.desired, reason)))
    if as_before.change is None:
        return deferral
    # Without a withdrawal it never raises or removes.
    return as_before if withdrawal is not None or as_before.change.direction is Direction.LOWER else deferral


def _reason_to_defer(outcome: Outcome, situation: Situation, caution: Caution, pause: Reason | None) -> Reason | None:
    change = outcome.change
    if change is None or outcome.result.kind is Kind.DEFERRED:
        return None
    if pause is not None:
        return pause
    rounds = caution.rounds
    if rounds is None or change.reason.code is Code.COMMAND_LINE:  # an operator asked for it now
        return None
    if change.cause is Code.BURST_SAVED:  # nothing else has changed it
        return None
    target = Desired(change.after, change.reason)
    if reverted_too_often(outcome.decision.ours, target, rounds, situation.now):
        return because(Code.REVERTED_TOO_OFTEN, rounds=rounds)
    return None


def deferred(outcome: Outcome, reason: Reason | None) -> Outcome:
    return outcome if reason is None else replace(outcome, result=Result(Kind.DEFERRED, reason))
