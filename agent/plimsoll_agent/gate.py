"""The health gate: nothing is loosened or lifted while the disk's own cluster is in trouble, or cannot tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from fractions import Fraction

from plimsoll_agent.changes import Change
from plimsoll_agent.clusters import Cluster, Clusters
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.direction import Direction
from plimsoll_agent.errors import PlimsollError, Rejected
from plimsoll_agent.reason import Code, Reason, because

_ENTRY = re.compile(r"([A-Z][A-Z0-9_*?]+)(?: ?> ?([0-9]{1,9})(?:(\.[0-9]{1,3})? ?(%))?)?", re.ASCII)
_OF_OSDS = "OSD_DOWN"
"""The check that may have a percentage. Its count is of OSDs that are in and down (OSDMap::check_health in Ceph)."""


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """What a cluster said of itself: its fsid, and the names of the health checks that are raised."""

    fsid: str
    raised: tuple[str, ...]
    words: tuple[str, ...] = ()
    """Its own on those checks: ``1 osds down``."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Of what each check counts (OSDs, requests, placement groups), where Ceph gives a number."""
    osds: int | None = None
    """How many OSDs there are, up or down; None is unknown."""


@dataclass(frozen=True, slots=True)
class BlockingCheck:
    """A health check by a pattern of its name, and above which number it blocks."""

    pattern: str
    above: Fraction = Fraction(0)
    percent: bool = False
    """``above`` is in percent of all OSDs of the cluster."""

    @staticmethod
    def read(text: str) -> BlockingCheck:
        """``SLOW_OPS``, ``PG_*_FULL``, ``SLOW_OPS > 20``, ``OSD_DOWN > 0.5%``. Raises ``ValueError``."""
        found = _ENTRY.fullmatch(" ".join(text.split()))
        if found is None:
            raise ValueError(
                f"{text!r} is no health check (write SLOW_OPS, PG_*_FULL, SLOW_OPS > 20, or {_OF_OSDS} > 1%)"
            )
        name, number, decimals, percent = found.groups(default="")
        if percent and name != _OF_OSDS:
            raise ValueError(f"{text!r}: only {_OF_OSDS} can have a percentage (write a number: {name} > {number})")
        above = Fraction(f"{number or 0}{decimals}")
        if percent and above >= 100:
            raise ValueError(f"{text!r}: never blocks (write a percentage below 100)")
        return BlockingCheck(name, above, bool(percent))

    def __str__(self) -> str:
        if not self.above:
            return self.pattern
        return f"{self.pattern} > {float(self.above):.12g}{'%' if self.percent else ''}"

    def blocks(self, check: str, health: ClusterHealth) -> str | None:
        """Why a check that is raised blocks, None where it does not. An unknown number blocks."""
        if not fnmatchcase(check, self.pattern):
            return None
        if not self.above:
            return check
        count = health.counts.get(check)
        if count is None:
            return f"{check} (number unknown)"
        if not self.percent:
            return f"{check} ({count})" if count > self.above else None
        if not health.osds:
            return f"{check} ({count} of an unknown number of OSDs)"
        return f"{check} ({count} of {health.osds} OSDs)" if 100 * count > self.above * health.osds else None


# Never the overall word: large clusters are never HEALTH_OK. Nor "*_FULL": that is POOL_NEAR_FULL and
# OSD_OUT_OF_ORDER_FULL too, which may be raised for weeks and stop no request. Nor MON_DOWN, and OSD_DOWN only above
# a share: an upgrade takes one daemon after the other down, for days.
BLOCKING_CHECKS = tuple(
    map(
        BlockingCheck.read,
        ("PG_AVAILABILITY", "SLOW_OPS", "OSD_FULL", "POOL_FULL", "PG_*_FULL", "OSD_DOWN > 1%"),
    )
)


Ask = Callable[[Cluster], ClusterHealth]
"""Raises ``PlimsollError`` when the cluster does not say."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Which checks keep it shut, and whom to ask. Without blocking checks it stands open, and nobody is asked."""

    clusters: Clusters
    ask: Ask
    blocking: Sequence[BlockingCheck] = BLOCKING_CHECKS

    def keeps(self, changes: Sequence[Change]) -> Mapping[str, Reason]:
        """Why changes have to wait, by ``Disk.key``; each cluster is asked once, and only for what loosens."""
        if not self.blocking:
            return {}
        waiting = {
            change.disk.key: self.clusters.of(change.disk)
            for change in changes
            if change.direction is not Direction.TIGHTEN and not _ignores_health(change)
        }
        meant = list({cluster for cluster in waiting.values() if cluster is not None})
        shut = dict(side_by_side(self._shut, meant, at_once=4))
        reasons: dict[str, Reason] = {}
        for change in changes:
            key = change.disk.key
            if key in waiting:
                cluster = waiting[key]
                reason = _nobody_to_ask(change) if cluster is None else shut[cluster]
                if reason is not None:
                    reasons[key] = reason
        return reasons

    def health(self, cluster: Cluster) -> ClusterHealth:
        """Raises ``PlimsollError`` when the cluster does not say, or it is another one that does."""
        health = self.ask(cluster)
        if cluster.fsid is not None and health.fsid != cluster.fsid:
            raise Rejected(f"cluster {health.fsid} answered by {cluster.conf}")
        return health

    def blocks(self, health: ClusterHealth) -> tuple[str, ...]:
        """The raised checks that keep it shut, with their number where it is that which decides."""
        found = ((one.blocks(check, health) for one in self.blocking) for check in health.raised)
        return tuple(why for whys in found if (why := next(filter(None, whys), None)) is not None)

    def _shut(self, cluster: Cluster) -> Reason | None:
        try:
            health = self.health(cluster)
        except PlimsollError as error:
            return because(Code.CLUSTER_SILENT, cluster=cluster.fsid or str(cluster.conf), detail=str(error))
        raised = self.blocks(health)
        return because(Code.CLUSTER_UNWELL, cluster=health.fsid, checks=", ".join(raised)) if raised else None


def _ignores_health(change: Change) -> bool:
    """The operator who made the hold knows how the cluster is. What comes after the hold is asked about as ever."""
    return change.reason.code is Code.HOLD and change.reason.facts.get("ignore_health") is True


def _nobody_to_ask(change: Change) -> Reason:
    return because(Code.CLUSTER_NOT_KNOWN, monitors=", ".join(change.disk.monitors))
