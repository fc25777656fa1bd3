"""What ``plan``, ``enforce`` and ``undo`` print."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll_agent.messages import plan
from plimsoll_agent.reconcile.outcome import PassReport
from plimsoll_agent.reconcile.undo import Undone
from plimsoll_agent.terminal.changes import laid_out
from plimsoll_agent.terminal.output import Terminal


def planned(report: PassReport, *, exact: bool = False, region: bool = False) -> list[str]:
    """By ``plan`` into a pipe."""
    return printed(plan.plan_lines(report, plan.Manner(exact, every=True, region=region)), every=True)


def enforced(report: PassReport) -> list[str]:
    """By ``enforce`` into a pipe or the journal."""
    ended = (plan.outcome_line(outcome, plan.Manner()) for outcome in filter(plan.told_at_once, report.outcomes))
    return printed([*filter(None, ended), *plan.closing_lines(report, plan.Manner())])


def undone(disks: Iterable[Undone]) -> list[str]:
    """By ``undo`` as the disks are restored."""
    lines = (plan.undone_line(one.disk, one.server, one.change, one.result, plan.Manner()) for one in disks)
    return printed(filter(None, lines))


def printed(lines: Iterable[plan.Line], *, every: bool = False, width: int | None = None) -> list[str]:
    return list(laid_out(lines, Terminal(width, colour=False), every=every, remedy=plan.REMEDY))
