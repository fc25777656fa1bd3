"""Whether one interval was slow by its latency and its limit, and what is usual."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_insight.explain.evidence import PassInterval

LEAST_KNOWN = 3
FACTOR = 3.0
FLOOR = 0.010
"""Seconds."""
USUAL_OF_FEW = 0.1
"""Seconds; what fewer disks take all the time may be trouble all the time."""
LEAST_OF_TYPE = 5
LEAST_OF_NODE = 3
LEAST_RATE = 10 / 300
"""Requests per second."""


def usual_of(latency: float | None, disks: Sequence[float], least: int) -> float | None:
    """What is usual by the median of this many disks at each time; None is unknown."""
    few = not disks or median(disks) < least
    return None if latency is None or (few and latency >= USUAL_OF_FEW) else latency


def time_of(interval: PassInterval) -> float:
    return interval.at if interval.observed is None else interval.observed


def passes(intervals: Sequence[PassInterval]) -> int:
    return len({time_of(each) for each in intervals})


def by_latency(interval: PassInterval, usual: float | None) -> bool | None:
    """Whether it was slow; None is unknown."""
    if is_at_limit(interval, usual):
        return True
    if is_few(interval) or interval.latency is None or usual is None:
        return None
    return takes_long(interval.latency, usual)


def is_at_limit(interval: PassInterval, usual: float | None) -> bool:
    """With a burst an average of the whole limit may be one that nothing waited for."""
    if interval.share is None or interval.share < AT_LIMIT_RATIO:
        return False
    is_quick = interval.latency is not None and usual is not None and not takes_long(interval.latency, usual)
    return not (interval.burst and is_quick)


def is_few(interval: PassInterval) -> bool:
    return interval.operations is not None and interval.operations < LEAST_RATE


def takes_long(latency: float | None, usual: float | None, floor: float = FLOOR, factor: float = FACTOR) -> bool:
    return latency is not None and usual is not None and latency >= max(factor * usual, floor)
