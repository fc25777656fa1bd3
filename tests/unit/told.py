"""What ``plan``, ``enforce`` and ``undo`` print."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll_agent.messages.disk_lines import Manner, outcome_line, undone_line
from plimsoll_agent.messages.lines import REMEDY, Line
from plimsoll_agent.messages.plan import closing_lines, plan_lines, told_at_once
from plimsoll_agent.reconcile.outcome import PassReport
from plimsoll_agent.reconcile.undo import Undone
from plimsoll_agent.terminal.changes import laid_out
from plimsoll_agent.terminal.output import Terminal


def planned(report: PassReport, *, exact: bool = False, region: bool = False) -> list[str]:
    """By ``plan`` into a pipe."""
    return printed(plan_lines(report, Manner(exact=exact, every=True, region=region)), every=True)


def enforced(report: PassReport) -> list[str]:
    """By ``enforce`` into a pipe or the journal."""
    ended = (outcome_line(outcome, Manner()) for outcome in filter(told_at_once, report.outcomes))
    return printed([*filter(None, ended), *closing_lines(report, Manner())])


def undone(disks: Iterable[Undone]) -> list[str]:
    """By ``undo`` as the disks are restored."""
    lines = (undone_line(one.disk, one.server, one.change, one.result, Manner()) for one in disks)
    return printed(filter(None, lines))


def printed(lines: Iterable[Line], *, every: bool = False, width: int | None = None) -> list[str]:
    return list(laid_out(lines, Terminal(width, colour=False), every=every, remedy=REMEDY))
