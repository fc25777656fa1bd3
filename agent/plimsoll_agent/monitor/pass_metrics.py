"""The last pass as families of series for Prometheus.

Budget: at most ``PER_NODE`` series of the node, ``PER_TYPE`` of each volume type, those of ``pool_metrics`` of each
pair of pool and volume type, and ``PER_CLUSTER`` of each cluster; with ``disk`` also ``PER_GUEST`` of each guest,
``PER_DISK`` of each disk, ``PER_PARAMETER`` more of each parameter that is set, ``PER_LIMIT`` more of each of them
that is a rate, and one more of a disk that is held, and of a guest that is paused.
That makes 21 of a disk with one limit of requests and one of bytes, 29 where both have a burst and its length,
and 47 of one for which everything is set that can be set together. The machine that makes the region's file has
three of its own.

Unknown values have no series, never a zero. After a failed pass, limits and states are from the last observation,
and there are no averages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from plimsoll_agent.model.limits import BASES, PARAMETERS, Limits, Parameter
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor.pass_summary import LastCatalogue, LastDisk, LastPass
from plimsoll_agent.monitor.pool_metrics import of_pools
from plimsoll_agent.monitor.prometheus_text import Family, Row, counter, gauge, label
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind

PER_NODE = 33
PER_TYPE = 17
PER_CLUSTER = 1
PER_GUEST = 1
PER_DISK = 13
PER_PARAMETER = 2
PER_LIMIT = 2

# As the libvirt exporters name them, so that the series join.
_DISK = ("domain", "target_device", "uuid")
_DIRECTIONS = ("read", "write")


def families(last: LastPass, *, detail: str) -> Iterator[Family]:
    """The families with series; ``detail`` is ``disk``, or ``aggregate`` for no series of single disks."""
    every = [*_of_passes(last), *_of_sources(last), *_of_clusters(last), *_of_types(last)]
    every += of_pools(last.disks)
    if detail == "disk":
        every += _of_disks(last.disks, last.paused_guests)
    yield from (family for family in every if family.samples)


def of_region(read: datetime, *, deferred: bool, volumes: int | None) -> Iterator[Family]:
    """For the machine that makes the region's file; ``volumes`` is how many the deferred change affects, None without
    one, or if unknown.
    """
    yield _one(
        "plimsoll_region_read_timestamp_seconds",
        "When QoS specs, types and volumes were last read for the region file",
        read,
    )
    yield _one(
        "plimsoll_region_braked",
        "1 while the brake defers a change of the region file until plimsoll region approve, else 0",
        int(deferred),
    )
    if volumes is not None:
        yield _one(
            "plimsoll_region_braked_volumes",
            "Attached volumes whose limits the deferred change affects",
            volumes,
        )


def _one(name: str, documentation: str, value: float | datetime | None) -> Family:
    """A gauge of the node; a time is in seconds since 1970."""
    known = value.timestamp() if isinstance(value, datetime) else value
    return gauge(name, documentation, (), [] if known is None else [((), known)])


def _of_passes(last: LastPass) -> Iterator[Family]:
    # Before the first observation these values are unknown.
    looked = last.looked is not None
    passes = last.totals.passes
    yield gauge("plimsoll_build_info", "plimsoll on this node: always 1", ("version",), [((last.version,), 1)])
    yield _one(
        "plimsoll_pass_last_timestamp_seconds",
        "When the last pass ended, good or not",
        last.ended,
    )
    yield _one(
        "plimsoll_pass_last_good_timestamp_seconds",
        "When the last pass ended that left nothing undone",
        last.last_good,
    )
    yield _one(
        "plimsoll_pass_observed_timestamp_seconds",
        "When the disks were last observed; metrics of guests, disks and limits are from then",
        last.looked,
    )
    yield gauge(
        "plimsoll_pass_duration_seconds",
        "Duration of each phase of the last pass",
        ("phase",),
        [((phase,), seconds) for phase, seconds in last.phases.items()],
    )
    yield _one(
        "plimsoll_pass_interval_seconds",
        "Time between the last two readings of the disks' counters; averages are over this time",
        last.interval,
    )
    yield counter(
        "plimsoll_passes_total",
        "Passes by result",
        ("result",),
        [((grade.value,), passes.get(grade, 0)) for grade in Grade],
    )
    yield counter(
        "plimsoll_pass_lock_busy_total",
        "Passes skipped because another one was running",
        (),
        [((), last.busy)],
    )
    yield _one("plimsoll_pass_enforcing", "1 if the last pass was in mode enforce, else 0", int(last.enforcing))
    yield _one(
        "plimsoll_pass_paused",
        "1 while a pause file stops all writes, else 0",
        int(last.paused is not None) if looked else None,
    )
    yield gauge(
        "plimsoll_pass_braked_disks",
        "Disks whose change is deferred until plimsoll approve, by the revision that needs it",
        ("revision",),
        [((_digest(last.braked or ""),), last.braked_disks)] if looked else [],
    )
    yield gauge(
        "plimsoll_rules_info",
        "Revision of the rules of the last pass: always 1",
        ("revision",),
        [((_digest(last.revision),), 1)] if last.revision else [],
    )
    yield _one("plimsoll_holds", "Exceptions made by operators (plimsoll disk hold)", last.holds if looked else None)
    yield gauge(
        "plimsoll_guests",
        "Running guests, reachable and unreachable",
        ("state",),
        [(("reachable",), last.guests), (("unreachable",), len(last.running_unreachable))] if looked else [],
    )


def _digest(revision: str) -> str:
    """As much of it as ``plimsoll approve`` is given."""
    return label(revision[:16])


def _of_sources(last: LastPass) -> Iterator[Family]:
    yield gauge(
        "plimsoll_source_up",
        "1 if the source was up in the last pass, else 0",
        ("source",),
        [((source,), int(up)) for source, up in last.sources.items()],
    )
    if last.catalogue is not None:
        yield from _of_catalogue(last.catalogue, last)


def _of_catalogue(catalogue: LastCatalogue, last: LastPass) -> Iterator[Family]:
    yield _one(
        "plimsoll_catalogue_issued_timestamp_seconds",
        "When the catalogue that the last pass used came from Cinder and Nova",
        catalogue.issued,
    )
    yield _one(
        "plimsoll_catalogue_stale_after_seconds", "Age from which the catalogue is stale", catalogue.stale_after
    )
    yield counter(
        "plimsoll_catalogue_calls_total",
        "API calls of catalogue refreshes, by service",
        ("service",),
        [((service,), number) for service, number in last.calls.of_service.items()],
    )
    yield counter(
        "plimsoll_catalogue_refreshes_total",
        "Refreshes of the catalogue, by result",
        ("result",),
        [(("good",), last.calls.good), (("failed",), last.calls.failed)],
    )


def _of_clusters(last: LastPass) -> Iterator[Family]:
    clusters = sorted({label(disk.cluster) for disk in last.disks if disk.cluster})
    shut = {label(disk.cluster) for disk in last.disks if disk.gated}
    yield gauge(
        "plimsoll_health_gate_shut",
        "1 while changes are deferred since the cluster is unhealthy or unreachable, else 0",
        ("cluster",),
        [((cluster,), int(cluster in shut)) for cluster in clusters],
    )


# --- volume types


def _of_types(last: LastPass) -> Iterator[Family]:
    """All series of each type, zeros too, so that the first event raises a counter instead of adding a series."""
    types: dict[str, list[LastDisk]] = {name: [] for name in sorted({label(disk.volume_type) for disk in last.disks})}
    for disk in last.disks:
        types[label(disk.volume_type)].append(disk)
    rated = {name: rates for name, disks in types.items() if (rates := [disk.rates for disk in disks if disk.rates])}
    corrected = {**dict.fromkeys(types, 0), **last.totals.corrected}
    yield gauge(
        "plimsoll_disks",
        "RBD disks by their state in the last pass",
        ("volume_type", "state"),
        [
            ((name, kind.value), sum(disk.kind is kind for disk in disks))
            for name, disks in types.items()
            for kind in Kind
        ],
    )
    yield gauge(
        "plimsoll_disks_unlimited",
        "Disks without a limit although one is desired",
        ("volume_type",),
        [((name,), sum(disk.astray for disk in disks)) for name, disks in types.items()],
    )
    yield gauge(
        "plimsoll_disks_orphaned",
        "Disks with limits whose source is gone",
        ("volume_type",),
        [((name,), sum(disk.orphaned for disk in disks)) for name, disks in types.items()],
    )
    yield gauge(
        "plimsoll_disks_unknown",
        "Disks whose actual or desired limits are unknown and should be known",
        ("volume_type",),
        [((name,), sum(disk.unknown for disk in disks)) for name, disks in types.items()],
    )
    yield gauge(
        "plimsoll_disks_unknown_acknowledged",
        "Disks whose limits are unknown, as an operator knows (plimsoll disk acknowledge)",
        ("volume_type",),
        [((name,), sum(disk.acknowledged is not None for disk in disks)) for name, disks in types.items()],
    )
    yield gauge(
        "plimsoll_disks_at_limit",
        "Disks that used 95 % of a limit or more, on average between the last two readings",
        ("volume_type",),
        [((name,), sum(disk.at_limit for disk in types[name])) for name in rated],
    )
    yield counter(
        "plimsoll_external_changes_reverted_total",
        "External changes to limits that plimsoll reverted",
        ("volume_type",),
        [((name,), number) for name, number in corrected.items()],
    )
    yield gauge(
        "plimsoll_average_operations_per_second",
        "Requests per second between the last two readings, of all disks together",
        ("volume_type", "direction"),
        _summed(rated, _operations),
    )
    yield gauge(
        "plimsoll_average_bytes_per_second",
        "Bytes per second between the last two readings, of all disks together",
        ("volume_type", "direction"),
        _summed(rated, _bytes),
    )


def _operations(rates: Rates) -> tuple[float, float]:
    """Of reads and of writes."""
    return rates.read_iops, rates.write_iops


def _bytes(rates: Rates) -> tuple[float, float]:
    """Of reads and of writes."""
    return rates.read_bytes, rates.write_bytes


def _summed(rated: Mapping[str, Sequence[Rates]], of: Callable[[Rates], tuple[float, float]]) -> Iterator[Row]:
    for name, rates in rated.items():
        for direction, values in zip(_DIRECTIONS, zip(*map(of, rates), strict=True), strict=True):
            yield (name, direction), sum(values)


# --- single disks

_Named = tuple[tuple[str, str, str], LastDisk]


def _of_disks(disks: Sequence[LastDisk], paused_guests: frozenset[str]) -> Iterator[Family]:
    named: list[_Named] = [
        ((disk.named.guest_name, disk.named.target, disk.named.guest_uuid), disk) for disk in disks
    ]
    yield gauge(
        "plimsoll_disk_info",
        "Labels of the disk: always 1",
        (*_DISK, "volume", "project", "flavor", "volume_type", "pool", "cluster"),
        [((*name, *_described(disk)), 1) for name, disk in named],
    )
    yield gauge(
        "plimsoll_disk_state",
        "State of the disk in the last pass, and the reason: always 1",
        (*_DISK, "state", "reason"),
        [((*name, disk.kind.value, disk.reason.code.value), 1) for name, disk in named],
    )
    yield gauge(
        "plimsoll_guest_info",
        "Names of the guest and its project: always 1",
        ("domain", "uuid", "server", "project", "project_name", "flavor"),
        [
            ((domain, uuid, disk.server, disk.named.project, disk.project_name, disk.flavor), 1)
            for (domain, _, uuid), disk in {(name[0], name[2]): (name, disk) for name, disk in named}.values()
        ],
    )
    yield gauge(
        "plimsoll_guest_paused",
        "1 while the guest is paused by a person",
        ("domain", "uuid"),
        [(guest, 1) for guest in {(name[0], name[2]): None for name, _ in named} if guest[1] in paused_guests],
    )
    yield gauge(
        "plimsoll_disk_hold_end_timestamp_seconds",
        "When an operator's hold on the disk ends (plimsoll disk hold)",
        _DISK,
        [(name, disk.held_until.timestamp()) for name, disk in named if disk.held_until is not None],
    )
    yield gauge(
        "plimsoll_disk_unlimited",
        "1 if the disk has no limit, else 0",
        _DISK,
        [(name, int(disk.unlimited)) for name, disk in named if disk.unlimited is not None],
    )
    for unit, words in _UNITS.items():
        yield gauge(
            f"plimsoll_disk_limit_actual_{unit}",
            f"Actual limits in QEMU, in {words}; only those that are set",
            (*_DISK, "parameter"),
            _parameters(named, unit, lambda disk: disk.actual),
        )
    for unit, words in _UNITS.items():
        yield gauge(
            f"plimsoll_disk_limit_desired_{unit}",
            f"Desired limits, in {words}; only those that are set",
            (*_DISK, "parameter"),
            _parameters(named, unit, lambda disk: disk.desired),
        )
    yield counter(
        "plimsoll_disk_external_changes_reverted_total",
        "External changes to the disk's limits that plimsoll reverted",
        _DISK,
        [(name, disk.corrected) for name, disk in named],
    )
    yield from _of_counters(named)
    yield from _of_averages([each for each in named if each[1].rates is not None])


def _described(disk: LastDisk) -> Sequence[str | None]:
    named = disk.named
    return named.volume_id, named.project, disk.flavor, disk.volume_type, named.pool, disk.cluster


def _unit(parameter: Parameter) -> str:
    """A family has one unit, by its name."""
    if parameter.role in ("length", "size"):
        return "seconds" if parameter.role == "length" else "bytes"
    return "bytes_per_second" if parameter.unit == "bytes" else "operations_per_second"


_UNITS = {
    "operations_per_second": "requests per second",
    "bytes_per_second": "bytes per second",
    "seconds": "seconds of a burst",
    "bytes": "bytes of a request that counts as one",
}


def _parameters(named: Sequence[_Named], unit: str, limits_of: Callable[[LastDisk], Limits | None]) -> Iterator[Row]:
    numbers = [parameter.name for parameter in PARAMETERS if _unit(parameter) == unit]
    for name, disk in named:
        limits = limits_of(disk)
        set_ones = {} if limits is None else limits.in_effect()
        yield from (
            ((*name, parameter), float(set_ones[parameter])) for parameter in numbers if parameter in set_ones
        )


def _of_counters(named: Sequence[_Named]) -> Iterator[Family]:
    counted = [(name, disk.reading.stats) for name, disk in named if disk.reading is not None]
    yield counter(
        "plimsoll_disk_operations_total",
        "Requests since the guest was started, as QEMU counts them",
        (*_DISK, "direction"),
        [
            ((*name, direction), number)
            for name, stats in counted
            for direction, number in zip(_DIRECTIONS, (stats.read_requests, stats.write_requests), strict=True)
        ],
    )
    yield counter(
        "plimsoll_disk_bytes_total",
        "Bytes since the guest was started, as QEMU counts them",
        (*_DISK, "direction"),
        [
            ((*name, direction), number)
            for name, stats in counted
            for direction, number in zip(_DIRECTIONS, (stats.read_bytes, stats.write_bytes), strict=True)
        ],
    )


def _of_averages(rated: Sequence[_Named]) -> Iterator[Family]:
    yield gauge(
        "plimsoll_disk_average_operations_per_second",
        "Requests per second between the last two readings",
        (*_DISK, "direction"),
        _directions(rated, _operations),
    )
    yield gauge(
        "plimsoll_disk_average_bytes_per_second",
        "Bytes per second between the last two readings",
        (*_DISK, "direction"),
        _directions(rated, _bytes),
    )
    yield gauge(
        "plimsoll_disk_average_latency_seconds",
        "Seconds that a request took between the last two readings, with what it waited at a limit",
        _DISK,
        [(name, disk.rates.latency) for name, disk in rated if disk.rates and disk.rates.latency is not None],
    )
    for unit in ("operations", "bytes"):
        yield gauge(
            f"plimsoll_disk_average_allowed_{unit}_per_second",
            f"What this limit allows, burst included, in {_UNITS[f'{unit}_per_second']}",
            (*_DISK, "parameter"),
            _limits(
                rated, lambda disk: disk.allowed, [base for base in BASES if ("bytes" in base) is (unit == "bytes")]
            ),
        )
    yield gauge(
        "plimsoll_disk_average_limit_ratio",
        "Used share of this limit, without its burst; of all disks that share it",
        (*_DISK, "parameter"),
        _limits(rated, lambda disk: disk.shares),
    )


def _directions(rated: Sequence[_Named], of: Callable[[Rates], tuple[float, float]]) -> Iterator[Row]:
    for name, disk in rated:
        if disk.rates is not None:
            yield from (((*name, way), value) for way, value in zip(_DIRECTIONS, of(disk.rates), strict=True))


def _limits(
    rated: Sequence[_Named], of: Callable[[LastDisk], Mapping[str, float]], bases: Sequence[str] = BASES
) -> Iterator[Row]:
    for name, disk in rated:
        values = of(disk)
        yield from (((*name, base), values[base]) for base in bases if base in values)
