"""Whether requests end no more: of a disk, or of the whole node, which may be cut off."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from plimsoll_insight.explain.evidence import PassInterval, SharedPlace, idle
from plimsoll_insight.explain.runs import HARDLY
from plimsoll_insight.explain.slowness import LEAST_OF_NODE, by_latency


def stands_still(verdicts: Sequence[tuple[PassInterval, bool | None]], usual: float | None) -> bool:
    return bool(verdicts and verdicts[-1][1] and not by_latency(verdicts[-1][0], usual))


def node_still(intervals: Sequence[PassInterval]) -> range:
    """The intervals in which guests on the node have no requests, or hardly any after many, for the first time.

    A pass may come just after the node fell silent, and requests that were on their way may end while it is.
    """
    before: PassInterval | None = None
    none = len(intervals)
    for number, each in enumerate(intervals):
        if _is_silent(each, before):
            none = number
            break
        before = each if each.read else before
    unread = sum(1 for _ in takewhile(lambda one: not one.read, reversed(intervals[:none])))
    first = none - unread
    was_busy = before and before.operations and (before.of_node_disks or 0) >= LEAST_OF_NODE
    still = sum(1 for _ in takewhile(lambda one: not one.read or _is_silent(one, before), intervals[first:]))
    return range(first, first + still) if was_busy and none < len(intervals) else range(0)


def _is_silent(interval: PassInterval, before: PassInterval | None) -> bool:
    """Whether neither this disk nor another guest on the node has a tenth of the requests that it had before."""
    if interval.paused or interval.operations is None:
        return False
    is_idle = idle(SharedPlace.NODE, "operations") in interval.neighbours
    if interval.operations == 0 and is_idle:
        return True
    if before is None or interval.operations >= HARDLY * (before.operations or 0.0):
        return False
    others, others_before = _of_others(interval), _of_others(before)
    return is_idle or (others is not None and others_before is not None and others < HARDLY * others_before)


def _of_others(interval: PassInterval) -> float | None:
    """The requests of the busiest other guest on the node."""
    places = (one for one in interval.neighbours if one.place is SharedPlace.NODE and one.unit == "operations")
    return next((one.rate for one in places), None)
