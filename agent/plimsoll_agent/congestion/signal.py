"""What light disks tell of a cluster: how long their requests took. Pure.

QEMU's times contain the wait at a disk's own limit, and grow with the size of requests and with what a disk itself
has in flight. So only disks count that are far below their limits and send small requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Usage
from plimsoll_agent.util.frozen import frozen

LIGHT_SHARE = 0.5
"""A light disk uses less than this share of each of its limits."""
LIGHT_SIZE = 2**16
"""Bytes of a light disk's requests, at most, on average."""
PoolKey = tuple[str, str]
"""Cluster (its fsid) and pool."""


@frozen
class Wait:
    """How long requests took together, in seconds, and how many there were."""

    seconds: float = 0.0
    requests: float = 0.0

    def __add__(self, other: Wait) -> Wait:
        return Wait(self.seconds + other.seconds, self.requests + other.requests)


def wait_of(usage: Usage) -> Wait | None:
    """What a light disk waited between two readings; None of a disk that is not light, or may not be."""
    rates = usage.rates
    if rates is None or rates.latency is None or usage.disk.cluster is None or not _is_below_limits(usage):
        return None
    each_second = rates.read_iops + rates.write_iops
    if not each_second or rates.read_bytes + rates.write_bytes > LIGHT_SIZE * each_second:
        return None
    requests = each_second * rates.seconds
    return Wait(rates.latency * requests, requests)


def _is_below_limits(usage: Usage) -> bool:
    """A disk without a limit may be the one that makes the load."""
    limits = usage.disk.in_force
    if not isinstance(limits, Limits) or usage.shares.keys() != set(limits.rates()) or not usage.shares:
        return False
    return max(usage.shares.values()) < LIGHT_SHARE


def of_pools(before: Mapping[PoolKey, Wait], usages: Iterable[Usage]) -> dict[PoolKey, Wait]:
    """The sums since they began, of the pools of these disks; a pool whose disks have no readings yet has none."""
    sums: dict[PoolKey, Wait] = {}
    for usage in usages:
        if usage.disk.cluster is not None and usage.rates is not None:
            pool = usage.disk.cluster, usage.disk.pool
            sums[pool] = sums.get(pool, before.get(pool, Wait())) + (wait_of(usage) or Wait())
    return sums
