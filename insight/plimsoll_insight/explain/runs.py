"""Intervals that follow one another: with requests, without any, without a reading, paused by a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import groupby

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.explain.evidence import PassInterval
from plimsoll_insight.explain.slowness import by_latency, time_of

HARDLY = 0.1


class RunKind(Enum):
    """What intervals that follow one another have in common."""

    REQUESTS = auto()
    STOPPED = auto()
    """No requests, or hardly any after many and these not slow: slow ones have waited."""
    UNREAD = auto()
    PAUSED = auto()
    """As ``STOPPED``, by a person."""


def _kinds(intervals: Sequence[PassInterval], usual: float | None, late: float) -> Iterator[RunKind]:
    """Of each interval, of which run it is."""
    before: list[PassInterval] = []
    for each in intervals:
        many = most_operations([one for one in before if each.at - one.at <= late]) or 0.0
        hardly = each.operations is not None and each.operations < HARDLY * many and not by_latency(each, usual)
        if each.operations == 0 or hardly:
            yield RunKind.PAUSED if each.paused else RunKind.STOPPED
        elif each.read:
            before = [*(one for one in before if each.at - one.at <= late), each]
            yield RunKind.REQUESTS
        else:
            yield RunKind.UNREAD


def _with_gaps(intervals: Sequence[PassInterval], kinds: list[RunKind]) -> list[RunKind]:
    """Where the first reading after a gap shows that no requests ended, none ended in the gap."""
    for number in reversed(range(len(kinds) - 1)):
        gap = kinds[number] is RunKind.UNREAD and not intervals[number].unanswered
        if gap and kinds[number + 1] is RunKind.STOPPED:
            kinds[number] = RunKind.STOPPED
    return kinds


def most_operations(intervals: Sequence[PassInterval]) -> float | None:
    """The most operations: a stall that begins within an interval leaves that one fewer."""
    return max((each.operations for each in intervals if each.operations is not None), default=None)


def before_run(runs: Sequence[tuple[RunKind, Sequence[PassInterval]]], late: float) -> PassInterval | None:
    """The last interval of these, with the most operations of those just before it; those before a pause, of one."""
    if not runs:
        return None
    last = runs[-1][1][-1]
    kind, run = runs[-1]
    if kind is RunKind.PAUSED:
        run = runs[-2][1] if len(runs) > 1 else ()
    return replace(last, operations=most_operations([each for each in run if run[-1].at - each.at <= late]))


def began(before: PassInterval, run: Sequence[PassInterval]) -> float:
    """Since when surely no requests have ended: a few of the first intervals may be of before the stall."""
    none = next((number for number, each in enumerate(run) if each.read and not each.operations), 0)
    return time_of(run[none - 1] if none and run[none - 1].read else before)


def runs_of(
    intervals: Sequence[PassInterval], usual: float | None, late: float
) -> list[tuple[RunKind, list[PassInterval]]]:
    kinds = iter(_with_gaps(intervals, [*_kinds(intervals, usual, late)]))
    return [(kind, list(run)) for kind, run in groupby(intervals, key=lambda _: next(kinds))]
