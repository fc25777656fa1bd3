"""What disks are promised, and what they take, by pool and volume type: ``PER_POOL`` series of each pair on a node,
and ``PER_LIGHT`` of each pool with readings: what its light disks waited.

The promise of a disk is its actual limit on requests, or on bytes, of reads and writes together, without its burst
and without a reduction under congestion. A disk without one has no promise: it is counted as unlimited, and adds
nothing to the sum.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from plimsoll_agent.congestion.signal import PoolKey, Wait
from plimsoll_agent.model.limits import Limits, Unit
from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.pass_summary import LastCeiling, LastDisk
from plimsoll_agent.monitor.prometheus_text import Family, counter, gauge, label

PER_POOL, PER_LIGHT = 8, 2
_NAMES: Mapping[Unit, str] = {"iops": "operations", "bytes": "bytes"}
_Key = tuple[str, str, str]


def promise(limits: Limits, unit: Unit) -> int | None:
    """The limit on reads and writes together; None where reads, or writes, have none."""
    total, read, write = (getattr(limits, f"{scope}_{unit}_sec") for scope in ("total", "read", "write"))
    return total or (read + write if read and write else None)


def of_pools(disks: Sequence[LastDisk]) -> Iterator[Family]:
    pools: dict[_Key, list[LastDisk]] = defaultdict(list)
    for disk in disks:
        pools[label(disk.cluster), label(disk.named.pool), label(disk.volume_type)].append(disk)
    items = sorted(pools.items())
    yield gauge(metrics.POOL_DISKS, [(key, len(of)) for key, of in items])
    yield gauge(metrics.POOL_DISKS_UNKNOWN, [(key, sum(disk.actual is None for disk in of)) for key, of in items])
    yield gauge(
        metrics.POOL_DISKS_UNLIMITED,
        [((*key, name), _unlimited(of, unit)) for key, of in items for unit, name in _NAMES.items()],
    )
    for unit, name in _NAMES.items():
        yield gauge(metrics.POOL_PROMISED[name], [(key, _promised(of, unit)) for key, of in items])
    for unit, name in _NAMES.items():
        yield gauge(
            metrics.POOL_AVERAGE[name],
            [(key, _taken(of, unit)) for key, of in items if any(disk.rates for disk in of)],
        )


def of_light(sums: Mapping[PoolKey, Wait]) -> Iterator[Family]:
    yield counter(metrics.LIGHT_LATENCY_SECONDS_TOTAL, [(pool, wait.seconds) for pool, wait in sums.items()])
    yield counter(metrics.LIGHT_REQUESTS_TOTAL, [(pool, wait.requests) for pool, wait in sums.items()])


def of_ceilings(ceilings: Sequence[LastCeiling]) -> Iterator[Family]:
    """Three series of each rate of a ceiling: the ceiling, what limits allow of it, and its use if that is known."""
    names = [(label(one.whose), label(one.owner), label(one.rule)) for one in ceilings]
    words = {"ceiling": metrics.CEILING, "allowed": metrics.CEILING_ALLOWED, "used": metrics.CEILING_USED}
    for word, metric in words.items():
        rows = [(name, getattr(one, word)) for name, one in zip(names, ceilings, strict=True)]
        yield gauge(
            metric, [((*name, rate), value) for name, of in rows for rate, value in of.items() if value is not None]
        )


def of_reduced(disks: Sequence[LastDisk]) -> Iterator[Family]:
    """A series of each class with such a disk."""
    counts = Counter((disk.cluster or "", disk.device_class) for disk in disks if disk.device_class is not None)
    yield gauge(metrics.DISKS_REDUCED, sorted(counts.items()))


def _unlimited(disks: Sequence[LastDisk], unit: Unit) -> int:
    return sum(disk.actual is not None and promise(disk.actual, unit) is None for disk in disks)


def _promised(disks: Sequence[LastDisk], unit: Unit) -> int:
    """Disks of a guest that share a limit have one promise."""
    promises: dict[object, int] = {}
    for disk in disks:
        if disk.actual is not None:
            limits = disk.unreduced or disk.actual
            group = limits.group_name
            scope = disk.named.key if group is None else (disk.named.guest_uuid, group)
            promises[scope] = promise(limits, unit) or 0
    return sum(promises.values())


def _taken(disks: Sequence[LastDisk], unit: Unit) -> float:
    return sum(disk.rates.of(f"total_{unit}_sec") for disk in disks if disk.rates is not None)
