"""Outcomes of disks, and passes with them."""

from __future__ import annotations

from typing import Any

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, Unknown
from plimsoll_agent.policy.decide import Decision, Desired, Unmanaged
from plimsoll_agent.policy.diff import change_between
from plimsoll_agent.reconcile.outcome import Kind, Mode, Outcome, PassReport, Result, Scope
from tests.unit.values import a_situation


def planned(
    disk: Disk,
    after: Limits,
    reason: Reason,
    cause: Code = Code.DESIRED_CHANGED,
    *,
    decision: Decision | None = None,
    result: Result | None = None,
) -> Outcome:
    """Of a disk whose actual limits are to be changed to those."""
    assert isinstance(disk.actual, Limits)
    return Outcome(
        disk=disk,
        decision=decision or Decision(desired=Desired(after, reason), trail=()),
        change=change_between(disk, disk.actual, after, reason, cause),
        result=result or Result(Kind.PLANNED, reason),
    )


def staying(disk: Disk, decision: Decision | Desired | Unknown | Unmanaged, kind: Kind, reason: Reason) -> Outcome:
    if not isinstance(decision, Decision):
        decision = Decision(desired=decision, trail=())
    return Outcome(disk=disk, decision=decision, change=None, result=Result(kind, reason))


def a_pass(*outcomes: Outcome, **other: Any) -> PassReport:
    return PassReport(
        **{
            "mode": Mode.PLAN,
            "scope": Scope(),
            "situation": a_situation(),
            "seconds": 0.0,
            "outcomes": outcomes,
            "unreachable": (),
        }
        | other
    )
