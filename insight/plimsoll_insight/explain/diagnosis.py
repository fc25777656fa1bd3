"""What a diagnosis of a disk says: the cause, or why it is unknown, with its figures."""

from __future__ import annotations

from enum import StrEnum

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.explain.evidence import Neighbour, PassInterval


class Cause(StrEnum):
    """Why a disk is slow."""

    LIMIT = "limit"
    CLUSTER = "cluster"
    NEIGHBOUR = "neighbour"
    NOT_SLOW = "not-slow"
    UNKNOWN = "unknown"


class Unexplained(StrEnum):
    """Why the cause is unknown."""

    NOT_READ = "not-read"
    """The guest had no reading while requests may have waited."""
    TOO_LITTLE = "too-little-data"
    FEW_PASSES = "few-passes"
    """Most of the time is known, by fewer than three passes."""
    STANDS_STILL = "stands-still"
    """Requests may wait since the last pass, which is one."""
    NODE_STANDS_STILL = "node-stands-still"
    """No guest on its node has requests any more: the node may be cut off from the cluster."""
    NO_USUAL = "usual-latency-unknown"
    NODE = "node"
    """Slow or without requests, as others on its node are, and the rest of the region is not."""
    BURSTS = "bursts"
    """Slow, nothing around it is, and it used much of its limit."""
    ALONE = "alone"
    """Slow, and nothing around it is."""


@frozen(kw_only=True)
class Diagnosis:
    """The cause, with the figures that it follows from."""

    cause: Cause
    unexplained: Unexplained | None
    slow: tuple[PassInterval, ...]
    """The intervals that have this cause."""
    all_slow: int
    known: int
    total: int
    neighbour: Neighbour | None = None
    """The one that is named most often; for the operator."""
    raised: tuple[str, ...] = ()
    unread: tuple[PassInterval, ...] = ()
    """Without a reading, while requests may have waited."""
    verdicts: tuple[bool | None, ...] = ()
    """Of each interval, whether it was slow; None is unknown."""
