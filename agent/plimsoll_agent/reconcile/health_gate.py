"""The health gate: defers a raise or a removal while the disk's Ceph cluster is unhealthy, or its health unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from plimsoll_agent.errors import PlimsollError, Rejected
from plimsoll_agent.model.clusters import Cluster, Clusters
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import frozen

if TYPE_CHECKING:
    from fractions import Fraction

_ENTRY = re.compile(r"([A-Z][A-Z0-9_*?]+)(?: ?> ?([0-9]{1,9})(?:(\.[0-9]{1,3})? ?(%))?)?", re.ASCII)
FLAGS = "OSDMAP_FLAGS"
"""The check of any flag: ``noout`` stops no request, and no other check tells of a pause."""
_NO_MANAGER = "MGR_DOWN"
_SLOW = "SLOW_OPS"
_OF_MANAGER = ("PG_AVAILABILITY", _SLOW, "PG_BACKFILL_FULL", "PG_RECOVERY_FULL")
"""Checks that the active manager makes: without one the monitors keep its last report (MgrStatMonitor)."""
_OF_OSDS = "OSD_DOWN"
"""The check that may have a percentage. It counts OSDs that are in and down (OSDMap::check_health in Ceph)."""


@frozen(kw_only=True)
class ClusterHealth:
    """A cluster's fsid, and the names of its raised health checks."""

    fsid: str
    raised: tuple[str, ...]
    words: tuple[str, ...] = ()
    """Ceph's text for those checks: ``1 osds down``."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """By check the number of OSDs, requests or placement groups, where Ceph has one."""
    osds: int | None = None
    """The number of OSDs, up or down; None is unknown."""
    paused: tuple[str, ...] = ()
    """``pauserd``, ``pausewr``: the flags with which clients send no reads or writes, as after ``ceph osd pause``."""
    monitors_are_slow: bool = False
    """``SLOW_OPS`` is about requests to monitors alone."""


@frozen
class BlockingCheck:
    """A pattern for names of health checks, and the number above which they block."""

    pattern: str
    above: int | Fraction = 0
    percent: bool = False
    """``above`` is in percent of all OSDs of the cluster."""

    @staticmethod
    def read(text: str) -> BlockingCheck:
        """``SLOW_OPS``, ``PG_*_FULL``, ``SLOW_OPS > 20``, ``OSD_DOWN > 0.5%``. Raises ``ValueError``."""
        match = _ENTRY.fullmatch(" ".join(text.split()))
        if match is None:
            raise ValueError(
                f"{text!r} is not a health check (write SLOW_OPS, PG_*_FULL, SLOW_OPS > 20, or {_OF_OSDS} > 1%)"
            )
        name, number, decimals, percent = match.groups(default="")
        if percent and name != _OF_OSDS:
            raise ValueError(f"{text!r}: only {_OF_OSDS} can have a percentage (write a number: {name} > {number})")
        above = _exactly(number or "0", decimals)
        if percent and above >= 100:
            raise ValueError(f"{text!r}: never blocks (write a percentage below 100)")
        return BlockingCheck(name, above, bool(percent))

    def __str__(self) -> str:
        if not self.above:
            return self.pattern
        return f"{self.pattern} > {float(self.above):.12g}{'%' if self.percent else ''}"

    @property
    def is_of_manager(self) -> bool:
        return any(fnmatchcase(check, self.pattern) for check in _OF_MANAGER)

    def blocks(self, check: str, health: ClusterHealth) -> str | None:
        """Why a raised check blocks, None where it does not. An unknown number blocks."""
        if not any(fnmatchcase(name, self.pattern) for name in (check, _NOW_CALLED.get(check, check))):
            return None
        if not self.above:
            return check
        count = health.counts.get(check)
        if count is None:
            return f"{check} (number unknown)"
        if not self.percent:
            return f"{check} ({count})" if count > self.above else None
        if not health.osds:
            return f"{check} ({count} OSDs, total unknown)"
        return f"{check} ({count} of {health.osds} OSDs)" if 100 * count > self.above * health.osds else None


_NOW_CALLED = {"REQUEST_SLOW": "SLOW_OPS", "REQUEST_STUCK": "SLOW_OPS"}
"""Of Luminous and Mimic; ``SLOW_OPS`` is both since Nautilus."""


def _exactly(number: str, decimals: str) -> int | Fraction:
    if not decimals:
        return int(number)
    from fractions import Fraction  # rarely needed, and slow to import

    return Fraction(number + decimals)


# Not the overall status: large clusters are never HEALTH_OK. Not "*_FULL": it matches POOL_NEAR_FULL and
# OSD_OUT_OF_ORDER_FULL, which can be raised for weeks and stop no request. Not MON_DOWN, and OSD_DOWN only above a
# share: an upgrade stops one daemon after another for days.
BLOCKING_CHECKS = tuple(
    map(
        BlockingCheck.read,
        ("PG_AVAILABILITY", "SLOW_OPS", "OSD_FULL", "POOL_FULL", "PG_*_FULL", "OSD_DOWN > 1%"),
    )
)


Ask = Callable[[Cluster], ClusterHealth]
"""Raises ``PlimsollError`` where the health is unknown."""


@frozen
class Gate:
    """Which checks block, and how to ask a cluster. Without blocking checks no cluster is asked."""

    clusters: Clusters
    ask: Ask
    blocking: Sequence[BlockingCheck] = BLOCKING_CHECKS

    def keeps(self, changes: Sequence[Change]) -> Mapping[str, Reason]:
        """Why changes are deferred, by ``Disk.key``. Each cluster is asked once, and only for raises and removals."""
        raising = {change.disk.key: self.clusters.of(change.disk) for change in changes if self.asks_for(change)}
        clusters = list({cluster for cluster in raising.values() if cluster is not None})
        obstacles = dict(side_by_side(self._blocked, clusters, at_once=4))
        reasons: dict[str, Reason] = {}
        for change in changes:
            key = change.disk.key
            if key in raising:
                cluster = raising[key]
                reason = _no_cluster(change) if cluster is None else obstacles[cluster]
                if reason is not None:
                    reasons[key] = reason
        return reasons

    def asks_for(self, change: Change) -> bool:
        """Whether a cluster is asked before the change is made."""
        return bool(self.blocking) and change.direction.allows_more and not _ignores_health(change)

    def health(self, cluster: Cluster) -> ClusterHealth:
        """Raises ``PlimsollError`` where the health is unknown, or another cluster answers."""
        health = self.ask(cluster)
        if cluster.fsid is not None and health.fsid != cluster.fsid:
            raise Rejected(f"{cluster.conf} leads to cluster {health.fsid}, not to {cluster.fsid}")
        return health

    def blocks(self, health: ClusterHealth) -> tuple[str, ...]:
        """The raised checks that block, with their number where it decides; a pause of requests always does, and no
        active manager where checks that it makes would.
        """
        always = [f"{FLAGS} ({', '.join(health.paused)})"] if health.paused else []
        unknown = [str(one) for one in self.blocking if one.is_of_manager] if _NO_MANAGER in health.raised else []
        always += [f"{_NO_MANAGER} ({', '.join(unknown)} unknown)"] if unknown else []
        # No disk waits for a monitor, and one that is slow may be so for weeks.
        apart = {FLAGS: bool(health.paused), _NO_MANAGER: bool(unknown), _SLOW: health.monitors_are_slow}
        others = [check for check in health.raised if not apart.get(check)]
        reasons = ((one.blocks(check, health) for one in self.blocking) for check in others)
        return (*always, *(why for whys in reasons if (why := next(filter(None, whys), None)) is not None))

    def _blocked(self, cluster: Cluster) -> Reason | None:
        try:
            health = self.health(cluster)
        except PlimsollError as error:
            return because(Code.CLUSTER_UNREACHABLE, cluster=cluster.fsid or str(cluster.conf), detail=str(error))
        checks = self.blocks(health)
        return because(Code.CLUSTER_UNHEALTHY, cluster=health.fsid, checks=", ".join(checks)) if checks else None


def _ignores_health(change: Change) -> bool:
    """Whether the change comes from a hold that ignores health. Changes after the hold's end do not."""
    return change.reason.code is Code.HOLD and change.reason.facts.get("ignore_health") is True


def _no_cluster(change: Change) -> Reason:
    return because(Code.CLUSTER_UNKNOWN, monitors=", ".join(change.disk.monitors))
