"""Stages of an approval: the share of a region's nodes on which it counts, which grows step by step. Pure.

A node knows its stage from its own name: its position is a hash of it, the same for every approval. So operators can
know the nodes that come first, and no node needs another one.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Annotated

from msgspec import Meta

from plimsoll_agent.util.decoding import Count, Moment
from plimsoll_agent.util.frozen import frozen, replace

ALL = 100.0
Percent = Annotated[float, Meta(ge=0, le=ALL)]
LAST = 99.999_999
"""The highest position of a node: only the last stage reaches it."""
_BYTES = 8
_HASHES: int = 256**_BYTES


class StageCheck(StrEnum):
    """What is judged before the next stage begins, on the nodes that have the present one."""

    APPROVED = "approved"
    """Cinder still has the QoS specs and types that were approved."""
    RUNNING = "running"
    """The region is not paused."""
    ARRIVED = "arrived"
    """All nodes of the stage that report have what is approved, and there is one."""
    AT_LIMIT = "at-limit"
    """Touched disks are not longer at their limits than before."""
    VERDICTS = "verdicts"
    """A probe ended, and none broke its promise."""
    REVERTS = "reverts"
    """No limit of a touched disk was changed by something else, and reverted."""
    WRITES = "writes"
    """No limit failed to be set."""
    HEALTH = "health"
    """Ceph reports none of the checks that block raises."""


ALWAYS = frozenset({StageCheck.APPROVED, StageCheck.RUNNING, StageCheck.ARRIVED})
"""These are judged whatever an operator says."""


@frozen(array_like=True)
class ConditionFinding:
    """What was found of a condition. ``holds`` is None where that is unknown, which stops the next stage too."""

    condition: StageCheck
    holds: bool | None
    detail: str


def position(name: str) -> float:
    """Where the node with this name is among all: from 0 to less than 100, evenly."""
    number = int.from_bytes(hashlib.sha256(f"plimsoll stage\0{name}".encode()).digest()[:_BYTES])
    return min(ALL * number / _HASHES, LAST)


@frozen(kw_only=True)
class Stages:
    """How an approval reaches a region, and how far it has."""

    percent: tuple[Percent, ...]
    """The share of nodes that each stage has, all of those before among them; the last is 100."""
    wait: timedelta
    """How long a stage lasts at least."""
    before: str = ""
    """Of specs and types: the digest of those that nodes have without the approval."""
    types: tuple[str, ...] = ()
    """The names of the volume types that it touches; empty: any."""
    at_limit: Percent = 5.0
    """How many points of per cent more of the time touched disks may be at their limits than before."""
    without: frozenset[StageCheck] = frozenset()
    """What an operator does not want judged."""
    reached: Count = 0
    """The number of the present stage, from 0."""
    entered: Moment | None = None
    """When it was first published; None until then."""
    began: Moment | None = None
    """When the same was first approved in stages, if it was approved again since."""

    def __post_init__(self) -> None:
        grows = all(one < other for one, other in pairwise((0.0, *self.percent)))
        if not grows or self.percent[-1:] != (ALL,) or not 0 <= self.reached < len(self.percent):
            raise ValueError(f"{self.percent} are no stages: they must grow, and the last must be 100 per cent")

    @property
    def is_last(self) -> bool:
        return self.reached == len(self.percent) - 1

    @property
    def share(self) -> float:
        """The share of nodes that have it now."""
        return self.percent[self.reached]

    def reach(self, position: float) -> bool:
        """Whether the node with this position has it now."""
        return position < self.share

    def of(self, position: float) -> int:
        """The number of the stage, from 0, in which the node with this position gets it."""
        return next(number for number, share in enumerate(self.percent) if position < share)

    def at(self, number: int, since: datetime) -> Stages:
        return replace(self, reached=number, entered=since)

    def after(self, earlier: Stages, *, renewed: bool, now: datetime) -> Stages:
        """These with the progress of those that were published; ``renewed``: they were approved again since.

        The present share is a stage of its own if they do not have it: no node loses or gets it before it is judged.
        """
        if earlier.entered is None:
            return self.at(0, now)
        every = replace(self, percent=tuple(sorted({*self.percent, earlier.share})))
        return every.at(every.percent.index(earlier.share), now if renewed else earlier.entered)

    def due(self) -> datetime | None:
        """The earliest time of the next stage; None before the first is published, and in the last."""
        return None if self.entered is None or self.is_last else self.entered + self.wait
