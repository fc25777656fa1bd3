"""What is there while requests of a disk are not slow, and the cause of a slow interval by what is there then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_insight.explain.diagnosis import Cause, Unexplained
from plimsoll_insight.explain.evidence import Neighbour, PassInterval
from plimsoll_insight.explain.slowness import (
    FACTOR,
    FLOOR,
    LEAST_KNOWN,
    LEAST_OF_NODE,
    LEAST_OF_TYPE,
    is_at_limit,
    is_few,
    passes,
    takes_long,
)

DOMINANT = 0.5
MORE = 2.0
IN_BURSTS = 0.75
PERHAPS_IN_BURSTS = 0.5


class Surroundings:
    """What is there while requests are not slow, to compare with."""

    def __init__(self, calm: Sequence[PassInterval], usual: float | None) -> None:
        self._usual = usual
        checks = Counter(check for each in calm for check in each.raised or ())
        self._always = {
            check for check, number in checks.items() if number * 2 > len(calm) and passes(calm) >= LEAST_KNOWN
        }
        rates: dict[tuple[str, str], list[float]] = {}
        for each in calm:
            most: dict[tuple[str, str], float] = {}
            for one in each.neighbours:
                key = (one.place.value, one.unit)
                most[key] = max(one.rate, most.get(key, 0.0))
            for key, rate in most.items():
                rates.setdefault(key, []).append(rate)
        self._rates = {key: median(values) for key, values in rates.items() if len(values) >= LEAST_KNOWN}
        self.node_still = frozenset[float]()
        """When its node may be cut off."""

    def cause(self, slow: PassInterval) -> Cause | Unexplained:
        if is_at_limit(slow, self._usual):
            return Cause.LIMIT
        if self.new(slow):
            return Cause.CLUSTER
        if self.dominant(slow):
            return Cause.NEIGHBOUR
        if (slow.of_type_disks or 0) >= LEAST_OF_TYPE and takes_long(slow.of_type, self._usual):
            return Cause.CLUSTER
        if slow.at in self.node_still or (
            (slow.of_node_disks or 0) >= LEAST_OF_NODE and takes_long(slow.of_node, self._usual)
        ):
            return Unexplained.NODE
        usage = 0.0 if slow.share is None or slow.burst else slow.share
        if usage >= IN_BURSTS:
            return Cause.LIMIT
        return Unexplained.BURSTS if usage >= PERHAPS_IN_BURSTS else Unexplained.ALONE

    def new(self, slow: PassInterval) -> set[str]:
        """The checks that are not raised always."""
        return set(slow.raised or ()) - self._always

    def dominant(self, slow: PassInterval) -> Neighbour | None:
        own = {"operations": slow.operations, "bytes": slow.bytes}
        candidates = [
            one
            for one in slow.neighbours
            if one.share >= DOMINANT
            and one.rate > (own[one.unit] or 0.0)
            and one.rate >= MORE * self._rates.get((one.place.value, one.unit), 0.0)
        ]
        return max(candidates, key=lambda one: one.share, default=None)

    def slow_by_others(self, one: PassInterval | None, floor: float = FLOOR, factor: float = FACTOR) -> bool:
        """Its requests took long, and not by its limit."""
        if one is None or is_few(one) or (one.share is not None and one.share >= AT_LIMIT_RATIO):
            return False
        return takes_long(one.latency, self._usual, floor, factor)
