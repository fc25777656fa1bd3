"""What was measured of a disk and around it, in intervals of equal length. None is unknown, and never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.util.frozen import frozen


class SharedPlace(StrEnum):
    """Where two guests share something."""

    NODE = "node"
    POOL = "pool"


@frozen(kw_only=True)
class Neighbour:
    """The busiest other guest at a place."""

    uuid: str
    place: SharedPlace
    unit: str
    """``operations`` or ``bytes``, per second."""
    rate: float
    share: float
    """Of all that the node's guests, or the pool's, did."""


def idle(place: SharedPlace, unit: str) -> Neighbour:
    """No other guest did anything there, which is known."""
    return Neighbour(uuid="", place=place, unit=unit, rate=0.0, share=0.0)


@frozen(kw_only=True)
class PassInterval:
    """The averages of the last pass before a time (seconds since 1970)."""

    at: float
    node: str | None = None
    operations: float | None = None
    bytes: float | None = None
    share: float | None = None
    """Of the limit that was used most."""
    limit: str | None = None
    """That limit, under libvirt's name."""
    allowed: float | None = None
    """Its value."""
    desired: float | None = None
    """The desired value, where the limit is reduced, under congestion or by a ceiling."""
    burst: bool = False
    """Whether it lets more pass for a time."""
    latency: float | None = None
    """Seconds that a request took on average; None also without requests."""
    of_type: float | None = None
    """The median of that among the disks of its volume type in the region, and how many these are."""
    of_type_disks: int | None = None
    of_node: float | None = None
    """The median among the disks of other guests on its node, and how many these are."""
    of_node_disks: int | None = None
    neighbours: tuple[Neighbour, ...] = ()
    raised: tuple[str, ...] | None = None
    """Checks of its cluster that tell of stopped or slow requests."""
    observed: float | None = None
    """When that pass read the disks' counters: intervals may be of the same one."""
    unanswered: bool = False
    """Whether its guest was asked in this interval and did not answer."""
    paused: bool = False
    """Whether a person had paused its guest when it was read: then none of its requests waits."""

    @property
    def read(self) -> bool:
        return self.operations is not None or self.latency is not None or self.share is not None


@frozen(kw_only=True)
class LimitChange:
    """Its actual limits from this time on; ``reason`` is the code of its state then."""

    at: float
    before: Mapping[str, int] = field(hash=False)
    after: Mapping[str, int] = field(hash=False)
    reason: str | None = None


@frozen(kw_only=True)
class Evidence:
    """One disk over the whole time."""

    seconds: float
    """The length of an interval."""
    intervals: tuple[PassInterval, ...]
    """From its first to its last sign of life, without gaps: what is missing is an interval of nothing known."""
    usual: float | None = None
    """What a request of a disk of its volume type usually takes, in seconds."""
    since: float | None = None
    """When it was first measured, where that is later than asked for."""


def since_late(first: float, begin: float, seconds: float) -> float | None:
    """The time of the first of these intervals, if it is two or more later than the beginning that was asked for."""
    return first if first - begin >= 2 * seconds else None
