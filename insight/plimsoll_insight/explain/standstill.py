"""Whether requests end no more: of a disk, or of the whole node, which may be cut off."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from plimsoll_insight.explain.evidence import PassInterval, SharedPlace, idle
from plimsoll_insight.explain.runs import HARDLY
from plimsoll_insight.explain.slowness import LEAST_OF_NODE, by_latency, time_of


def stands_still(verdicts: Sequence[tuple[PassInterval, bool | None]], usual: float | None) -> bool:
    return bool(verdicts and verdicts[-1][1] and not by_latency(verdicts[-1][0], usual))


def node_still(intervals: Sequence[PassInterval]) -> range:
    """The intervals in which no guest on the node has requests, for the first time."""
    none = next((number for number, each in enumerate(intervals) if none_on_node(each)), len(intervals))
    unread = sum(1 for _ in takewhile(lambda one: not one.read, reversed(intervals[:none])))
    first = none - unread
    before = _before_the_edge(intervals[:first])
    was_busy = before and before.operations and (before.of_node_disks or 0) >= LEAST_OF_NODE
    still = sum(1 for _ in takewhile(lambda one: not one.read or none_on_node(one), intervals[first:]))
    return range(first, first + still) if was_busy and none < len(intervals) else range(0)


def _before_the_edge(intervals: Sequence[PassInterval]) -> PassInterval | None:
    """The last of these; but where a pass came just after the node fell silent, and had hardly any requests of this
    disk and of the others, one of the pass before.
    """
    if not intervals:
        return None
    last = intervals[-1]
    earlier = next((each for each in reversed(intervals) if time_of(each) != time_of(last)), None)
    if earlier is None or last.operations is None or last.operations >= HARDLY * (earlier.operations or 0.0):
        return last
    others, others_earlier = _of_others(last), _of_others(earlier)
    is_silent = others is not None and others_earlier is not None and others < HARDLY * others_earlier
    return earlier if is_silent else last


def _of_others(interval: PassInterval) -> float | None:
    """The requests of the busiest other guest on the node."""
    places = (one for one in interval.neighbours if one.place is SharedPlace.NODE and one.unit == "operations")
    return next((one.rate for one in places), None)


def none_on_node(interval: PassInterval) -> bool:
    return (
        interval.operations == 0
        and not interval.paused
        and idle(SharedPlace.NODE, "operations") in interval.neighbours
    )
