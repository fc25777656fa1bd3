"""The last pass as families of series for Prometheus.

Budget: at most ``PER_NODE`` series of the node, ``PER_TYPE`` of each volume type, those of ``pool_metrics`` of each
pool, and of each pair of pool and volume type, and ``PER_CLUSTER`` of each cluster; with ``disk`` also ``PER_GUEST``
of each guest, ``PER_DISK`` of each disk, ``PER_PARAMETER`` more of each parameter that is set, ``PER_LIMIT`` more of
each of them that is a rate, ``PER_BURST`` of each of those that has a burst, and one more of a disk that is held, and
of a guest that is paused.
That makes 21 of a disk with one limit of requests and one of bytes, 31 where both have a burst and its length,
and 51 of one for which everything is set that can be set together. The machine that makes the region's file has
three of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from plimsoll_agent.catalogue.orders import RegionApproval
from plimsoll_agent.catalogue.stages import ConditionFinding
from plimsoll_agent.ceilings.buckets import Whose
from plimsoll_agent.model.limits import BASES, PARAMETERS, Limits, Parameter
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.pass_summary import LastCatalogue, LastDisk, LastPass
from plimsoll_agent.monitor.pool_metrics import of_ceilings, of_light, of_pools, of_reduced
from plimsoll_agent.monitor.prometheus_text import Family, Row, counter, gauge, label, single
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind

PER_NODE = 36
PER_TYPE = 18
PER_CLUSTER = 1
PER_GUEST = 1
PER_DISK = 13
PER_PARAMETER = 2
PER_LIMIT = 2
PER_BURST = 1

_DIRECTIONS = ("read", "write")


def families(last: LastPass, *, detail: str) -> Iterator[Family]:
    """The families with series; ``detail`` is ``disk``, or ``aggregate`` for no series of single disks."""
    every = [*_of_passes(last), *_of_sources(last), *_of_clusters(last), *_of_types(last)]
    every += [*of_pools(last.disks), *of_light(last.totals.light), *of_reduced(last.disks)]
    every += of_ceilings([each for each in last.ceilings if detail == "disk" or each.whose == Whose.PROJECT])
    if detail == "disk":
        every += _of_disks(last)
    yield from (family for family in every if family.samples)


def of_region(read: datetime, *, deferred: bool, volumes: int | None) -> Iterator[Family]:
    """For the machine that makes the region's file; ``volumes`` is how many the deferred change affects, None without
    one, or if unknown.
    """
    yield single(metrics.REGION_READ_TIMESTAMP_SECONDS, read)
    yield single(metrics.REGION_BRAKED, int(deferred))
    if volumes is not None:
        yield single(metrics.REGION_BRAKED_VOLUMES, volumes)


def of_stages(approvals: Iterable[RegionApproval], stops: Iterable[ConditionFinding]) -> Iterator[Family]:
    """For the same machine: the stages of its approvals, and what stops the next one."""
    pairs = [(_digest(one.digest), one.stages) for one in approvals if one.stages is not None]
    if not pairs:
        return
    yield gauge(metrics.REGION_STAGE, [((digest,), stages.reached + 1) for digest, stages in pairs])
    yield gauge(metrics.REGION_STAGES, [((digest,), len(stages.percent)) for digest, stages in pairs])
    yield gauge(
        metrics.REGION_STAGE_ENTERED_TIMESTAMP_SECONDS,
        [((digest,), stages.entered.timestamp()) for digest, stages in pairs if stages.entered is not None],
    )
    going = [digest for digest, stages in pairs if not stages.is_last] if stops else []
    if not going:
        return
    yield gauge(
        metrics.REGION_STAGE_STOPPED,
        [((digest, one.condition.value, str(one.holds is not None).lower()), 1) for one in stops for digest in going],
    )


def _of_passes(last: LastPass) -> Iterator[Family]:
    # Before the first observation these values are unknown.
    has_looked = last.looked is not None
    passes = last.totals.passes
    yield gauge(metrics.BUILD_INFO, [((last.version,), 1)])
    yield single(metrics.PASS_LAST_TIMESTAMP_SECONDS, last.ended)
    yield single(metrics.PASS_LAST_GOOD_TIMESTAMP_SECONDS, last.last_good)
    yield single(metrics.PASS_OBSERVED_TIMESTAMP_SECONDS, last.looked)
    yield gauge(metrics.PASS_DURATION_SECONDS, [((phase,), seconds) for phase, seconds in last.phases.items()])
    yield single(metrics.PASS_INTERVAL_SECONDS, last.interval)
    yield counter(metrics.PASSES_TOTAL, [((grade.value,), passes.get(grade, 0)) for grade in Grade])
    yield counter(metrics.PASS_LOCK_BUSY_TOTAL, [((), last.busy)])
    yield single(metrics.PASS_ENFORCING, int(last.enforcing))
    yield single(metrics.PASS_PAUSED, int(last.paused is not None) if has_looked else None)
    yield gauge(metrics.PASS_BRAKED_DISKS, [((_digest(last.braked or ""),), last.braked_disks)] if has_looked else [])
    yield single(metrics.PASS_GUESTS_TO_PROBE, last.guests_to_probe if has_looked else None)
    yield gauge(metrics.RULES_INFO, [((_digest(last.revision),), 1)] if last.revision else [])
    yield single(metrics.HOLDS, last.holds if has_looked else None)
    yield single(metrics.STAGE_POSITION, last.position)
    yield gauge(metrics.STAGE_IN_EFFECT, [((_digest(last.stage),), 1)] if last.stage else [])
    yield gauge(
        metrics.GUESTS,
        [(("reachable",), last.guests), (("unreachable",), len(last.running_unreachable))] if has_looked else [],
    )


def _digest(revision: str) -> str:
    """As much of it as ``plimsoll approve`` is given."""
    return label(revision[:16])


def _of_sources(last: LastPass) -> Iterator[Family]:
    yield gauge(metrics.SOURCE_UP, [((source,), int(up)) for source, up in last.sources.items()])
    if last.catalogue is not None:
        yield from _of_catalogue(last.catalogue, last)


def _of_catalogue(catalogue: LastCatalogue, last: LastPass) -> Iterator[Family]:
    yield single(metrics.CATALOGUE_ISSUED_TIMESTAMP_SECONDS, catalogue.issued)
    yield single(metrics.CATALOGUE_STALE_AFTER_SECONDS, catalogue.stale_after)
    yield counter(
        metrics.CATALOGUE_CALLS_TOTAL, [((service,), number) for service, number in last.calls.of_service.items()]
    )
    yield counter(metrics.CATALOGUE_REFRESHES_TOTAL, [(("good",), last.calls.good), (("failed",), last.calls.failed)])


def _of_clusters(last: LastPass) -> Iterator[Family]:
    clusters = sorted({label(disk.cluster) for disk in last.disks if disk.cluster})
    shut_gates = {label(disk.cluster) for disk in last.disks if disk.gated}
    yield gauge(metrics.HEALTH_GATE_SHUT, [((cluster,), int(cluster in shut_gates)) for cluster in clusters])


# --- volume types


def _of_types(last: LastPass) -> Iterator[Family]:
    """All series of each type, zeros too, so that the first event raises a counter instead of adding a series."""
    types: dict[str, list[LastDisk]] = {name: [] for name in sorted({label(disk.volume_type) for disk in last.disks})}
    for disk in last.disks:
        types[label(disk.volume_type)].append(disk)
    by_type = {name: rates for name, disks in types.items() if (rates := [one.rates for one in disks if one.rates])}
    reverts = {**dict.fromkeys(types, 0), **last.totals.corrected}

    def counted(matches: Callable[[LastDisk], bool]) -> list[Row]:
        return [((name,), sum(map(matches, disks))) for name, disks in types.items()]

    yield gauge(
        metrics.DISKS,
        [
            ((name, kind.value), sum(disk.kind is kind for disk in disks))
            for name, disks in types.items()
            for kind in Kind
        ],
    )
    yield gauge(metrics.DISKS_UNLIMITED, counted(lambda disk: disk.astray))
    yield gauge(metrics.DISKS_ORPHANED, counted(lambda disk: disk.orphaned))
    yield gauge(metrics.DISKS_UNKNOWN, counted(lambda disk: disk.unknown))
    yield gauge(metrics.DISKS_UNKNOWN_ACKNOWLEDGED, counted(lambda disk: disk.acknowledged is not None))
    walls = {name: [disk for disk in types[name] if disk.at_limit] for name in by_type}
    yield gauge(metrics.DISKS_AT_LIMIT, [((name,), len(disks)) for name, disks in walls.items()])
    yield gauge(
        metrics.DISKS_LEFT_ALONE_AT_LIMIT,
        [((name,), sum(disk.kind is Kind.LEFT_ALONE for disk in disks)) for name, disks in walls.items()],
    )
    yield counter(metrics.EXTERNAL_CHANGES_REVERTED_TOTAL, [((name,), number) for name, number in reverts.items()])
    yield gauge(metrics.AVERAGE["operations"], _sums(by_type, _operations))
    yield gauge(metrics.AVERAGE["bytes"], _sums(by_type, _bytes))


def _operations(rates: Rates) -> tuple[float, float]:
    """Of reads and of writes."""
    return rates.read_iops, rates.write_iops


def _bytes(rates: Rates) -> tuple[float, float]:
    """Of reads and of writes."""
    return rates.read_bytes, rates.write_bytes


def _sums(by_type: Mapping[str, Sequence[Rates]], of: Callable[[Rates], tuple[float, float]]) -> Iterator[Row]:
    for name, rates in by_type.items():
        for direction, values in zip(_DIRECTIONS, zip(*map(of, rates), strict=True), strict=True):
            yield (name, direction), sum(values)


# --- single disks

_Named = tuple[tuple[str, str, str], LastDisk]


def _of_disks(last: LastPass) -> Iterator[Family]:
    pairs: list[_Named] = [
        ((disk.named.guest_name, disk.named.target, disk.named.guest_uuid), disk) for disk in last.disks
    ]
    yield gauge(metrics.DISK_INFO, [((*name, *_labels(disk)), 1) for name, disk in pairs])
    yield gauge(metrics.DISK_STATE, [((*name, disk.kind.value, disk.reason.code.value), 1) for name, disk in pairs])
    yield gauge(
        metrics.GUEST_INFO,
        [
            ((domain, uuid, disk.server, disk.named.project, disk.project_name, disk.flavor), 1)
            for (domain, _, uuid), disk in {(name[0], name[2]): (name, disk) for name, disk in pairs}.values()
        ],
    )
    guests = dict.fromkeys((name[0], name[2]) for name, _ in pairs)
    for metric, uuids in ((metrics.GUEST_PAUSED, last.paused_guests), (metrics.GUEST_HUNG, last.hung_guests)):
        yield gauge(metric, [(guest, 1) for guest in guests if guest[1] in uuids])
    yield gauge(
        metrics.DISK_HOLD_END_TIMESTAMP_SECONDS,
        [(name, disk.held_until.timestamp()) for name, disk in pairs if disk.held_until is not None],
    )
    yield gauge(
        metrics.DISK_UNLIMITED, [(name, int(disk.unlimited)) for name, disk in pairs if disk.unlimited is not None]
    )
    for unit in metrics.DISK_LIMIT_ACTUAL:
        yield gauge(metrics.DISK_LIMIT_ACTUAL[unit], _parameters(pairs, unit, lambda disk: disk.actual))
    for unit in metrics.DISK_LIMIT_ACTUAL:
        yield gauge(metrics.DISK_LIMIT_DESIRED[unit], _parameters(pairs, unit, lambda disk: disk.desired))
    yield counter(metrics.DISK_EXTERNAL_CHANGES_REVERTED_TOTAL, [(name, disk.corrected) for name, disk in pairs])
    yield from _of_counters(pairs)
    yield from _of_averages([each for each in pairs if each[1].rates is not None])


def _labels(disk: LastDisk) -> Sequence[str | None]:
    name = disk.named
    return name.volume_id, name.project, disk.flavor, disk.volume_type, name.pool, disk.cluster


def _unit(parameter: Parameter) -> str:
    """A family has one unit, by its name."""
    if parameter.role in ("length", "size"):
        return "seconds" if parameter.role == "length" else "bytes"
    return "bytes_per_second" if parameter.unit == "bytes" else "operations_per_second"


def _parameters(pairs: Sequence[_Named], unit: str, limits_of: Callable[[LastDisk], Limits | None]) -> Iterator[Row]:
    numbers = [parameter.name for parameter in PARAMETERS if _unit(parameter) == unit]
    for name, disk in pairs:
        limits = limits_of(disk)
        set_ones = {} if limits is None else limits.in_effect()
        yield from (
            ((*name, parameter), float(set_ones[parameter])) for parameter in numbers if parameter in set_ones
        )


def _of_counters(pairs: Sequence[_Named]) -> Iterator[Family]:
    stats_of = [(name, disk.reading.stats) for name, disk in pairs if disk.reading is not None]
    yield counter(
        metrics.DISK_OPERATIONS_TOTAL,
        [
            ((*name, direction), number)
            for name, stats in stats_of
            for direction, number in zip(_DIRECTIONS, (stats.read_requests, stats.write_requests), strict=True)
        ],
    )
    yield counter(
        metrics.DISK_BYTES_TOTAL,
        [
            ((*name, direction), number)
            for name, stats in stats_of
            for direction, number in zip(_DIRECTIONS, (stats.read_bytes, stats.write_bytes), strict=True)
        ],
    )


def _of_averages(pairs: Sequence[_Named]) -> Iterator[Family]:
    yield gauge(metrics.DISK_AVERAGE["operations"], _directions(pairs, _operations))
    yield gauge(metrics.DISK_AVERAGE["bytes"], _directions(pairs, _bytes))
    yield gauge(
        metrics.DISK_AVERAGE_LATENCY_SECONDS,
        [(name, disk.rates.latency) for name, disk in pairs if disk.rates and disk.rates.latency is not None],
    )
    for unit in ("operations", "bytes"):
        yield gauge(
            metrics.DISK_AVERAGE_ALLOWED[unit],
            _limits(
                pairs, lambda disk: disk.allowed, [base for base in BASES if ("bytes" in base) is (unit == "bytes")]
            ),
        )
    yield gauge(metrics.DISK_BURST_SAVED_RATIO, _limits(pairs, lambda disk: disk.saved))
    yield gauge(metrics.DISK_AVERAGE_LIMIT_RATIO, _limits(pairs, lambda disk: disk.shares))


def _directions(pairs: Sequence[_Named], of: Callable[[Rates], tuple[float, float]]) -> Iterator[Row]:
    for name, disk in pairs:
        if disk.rates is not None:
            yield from (((*name, way), value) for way, value in zip(_DIRECTIONS, of(disk.rates), strict=True))


def _limits(
    pairs: Sequence[_Named], of: Callable[[LastDisk], Mapping[str, float]], bases: Sequence[str] = BASES
) -> Iterator[Row]:
    for name, disk in pairs:
        values = of(disk)
        yield from (((*name, base), values[base]) for base in bases if base in values)
