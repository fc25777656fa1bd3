"""The health gate: nothing is loosened or lifted while the disk's own cluster is in trouble, or cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from plimsoll_agent.changes import Change
from plimsoll_agent.clusters import Cluster, Clusters
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.direction import Direction
from plimsoll_agent.errors import PlimsollError, Rejected
from plimsoll_agent.reason import Code, Reason, because

# Never the overall word: large clusters are never HEALTH_OK. Nor "*_FULL": that is POOL_NEAR_FULL and
# OSD_OUT_OF_ORDER_FULL too, which may be raised for weeks and stop no request.
BLOCKING_CHECKS = ("PG_AVAILABILITY", "SLOW_OPS", "OSD_DOWN", "MON_DOWN", "OSD_FULL", "POOL_FULL", "PG_*_FULL")


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """What a cluster said of itself: its fsid, and the names of the health checks that are raised."""

    fsid: str
    raised: tuple[str, ...]
    words: tuple[str, ...] = ()
    """Its own on those checks: ``1 osds down``."""


Ask = Callable[[Cluster], ClusterHealth]
"""Raises ``PlimsollError`` when the cluster does not say."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Which checks keep it shut, and whom to ask. Without blocking checks it stands open, and nobody is asked."""

    clusters: Clusters
    ask: Ask
    blocking: Sequence[str] = BLOCKING_CHECKS

    def keeps(self, changes: Sequence[Change]) -> Mapping[str, Reason]:
        """Why changes have to wait, by ``Disk.key``; each cluster is asked once, and only for what loosens."""
        if not self.blocking:
            return {}
        waiting = {
            change.disk.key: self.clusters.of(change.disk)
            for change in changes
            if change.direction is not Direction.TIGHTEN
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

    def blocks(self, raised: Sequence[str]) -> tuple[str, ...]:
        """Those of the checks that keep it shut."""
        return tuple(check for check in raised if any(fnmatchcase(check, one) for one in self.blocking))

    def _shut(self, cluster: Cluster) -> Reason | None:
        try:
            health = self.health(cluster)
        except PlimsollError as error:
            return because(Code.CLUSTER_SILENT, cluster=cluster.fsid or str(cluster.conf), detail=str(error))
        raised = self.blocks(health.raised)
        return because(Code.CLUSTER_UNWELL, cluster=health.fsid, checks=", ".join(raised)) if raised else None


def _nobody_to_ask(change: Change) -> Reason:
    return because(Code.CLUSTER_NOT_KNOWN, monitors=", ".join(change.disk.monitors))
