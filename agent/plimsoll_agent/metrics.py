"""What the last pass came to, as families of series for Prometheus; whichever way they leave.

Budget: ``PER_NODE`` series of the node at the most, and ``PER_TYPE`` of each volume type; with ``disk`` also
``PER_DISK`` of each disk, ``PER_PARAMETER`` more of each parameter that is set, and ``PER_LIMIT`` more of each of
them that is a rate. That makes 20 of a disk with one limit of requests and one of bytes, 28 where both have a burst
and its length, and 46 of one for which everything is set that can be set together.

What is not known has no series: never a zero. After a pass that failed, limits and states are those of the last
look, and there are no averages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from prometheus_client.core import Metric

from plimsoll_agent.lastpass import Grade, LastCatalogue, LastDisk, LastPass
from plimsoll_agent.limits import BASES, PARAMETERS, Limits
from plimsoll_agent.outcome import Kind
from plimsoll_agent.series import Row, counter, gauge, label
from plimsoll_agent.usage import Rates

PER_NODE = 37
PER_TYPE = 15
PER_DISK = 12
PER_PARAMETER = 2
PER_LIMIT = 2

# As the libvirt exporters name them, so that the series join.
_DISK = ("domain", "target_device", "uuid")
_DIRECTIONS = ("read", "write")


def families(last: LastPass, *, detail: str) -> Iterator[Metric]:
    """Those that have a series; ``detail`` is ``disk``, or ``aggregate``: without a series of any single disk."""
    every = [*_of_passes(last), *_of_sources(last), *_of_types(last)]
    if detail == "disk":
        every += _of_disks(last.disks)
    yield from (family for family in every if family.samples)


def _one(name: str, documentation: str, value: float | datetime | None) -> Metric:
    """A gauge of the node; a time is in seconds since 1970."""
    known = value.timestamp() if isinstance(value, datetime) else value
    return gauge(name, documentation, (), [] if known is None else [((), known)])


def _of_passes(last: LastPass) -> Iterator[Metric]:
    # Before the first look nothing is known that only a look can tell.
    looked = last.looked is not None
    passes, outcomes = last.totals.passes, last.totals.outcomes
    yield gauge("plimsoll_build_info", "plimsoll on this node: always 1", ("version",), [((last.version,), 1)])
    yield _one(
        "plimsoll_pass_last_timestamp_seconds",
        "When the last pass over the whole node ended, good or not",
        last.ended,
    )
    yield _one(
        "plimsoll_pass_last_good_timestamp_seconds",
        "When the last pass ended that left nothing undone",
        last.last_good,
    )
    yield _one(
        "plimsoll_pass_looked_timestamp_seconds",
        "When the disks were last looked at: what is told of guests, disks and limits is from then",
        last.looked,
    )
    yield gauge(
        "plimsoll_pass_duration_seconds",
        "How long each part of the last pass took",
        ("phase",),
        [((phase,), seconds) for phase, seconds in last.phases.items()],
    )
    yield _one(
        "plimsoll_pass_interval_seconds",
        "Time between the last two readings of the disks' counters: what the averages are averages over",
        last.interval,
    )
    yield counter(
        "plimsoll_passes_total",
        "Passes over the whole node, by how they ended",
        ("result",),
        [((grade.value,), passes.get(grade, 0)) for grade in Grade],
    )
    yield counter(
        "plimsoll_pass_lock_busy_total",
        "Passes that found the node held by another one",
        (),
        [((), last.busy)],
    )
    yield _one("plimsoll_pass_enforcing", "Whether the last pass was to write limits", int(last.enforcing))
    yield _one(
        "plimsoll_pass_paused",
        "Whether a pause file stopped all writes",
        int(last.paused is not None) if looked else None,
    )
    yield _one(
        "plimsoll_pass_braked_disks",
        "Disks whose change waits for plimsoll approve",
        last.braked_disks if looked else None,
    )
    yield _one("plimsoll_holds", "Exceptions that operators made and that stand", last.holds if looked else None)
    yield gauge(
        "plimsoll_guests",
        "Guests that run, by whether they let themselves be looked at",
        ("state",),
        [(("answered",), last.guests), (("silent",), len(last.silent))] if looked else [],
    )
    yield counter(
        "plimsoll_outcomes_total",
        "Disks by how they came out of a pass, over all passes",
        ("state",),
        [((kind.value,), outcomes.get(kind, 0)) for kind in Kind],
    )


def _of_sources(last: LastPass) -> Iterator[Metric]:
    yield gauge(
        "plimsoll_source_up",
        "Whether it answered the last pass",
        ("source",),
        [((source,), int(up)) for source, up in last.sources.items()],
    )
    if last.catalogue is not None:
        yield from _of_catalogue(last.catalogue, last)


def _of_catalogue(catalogue: LastCatalogue, last: LastPass) -> Iterator[Metric]:
    yield _one(
        "plimsoll_catalogue_issued_timestamp_seconds",
        "When Cinder and Nova said what the last pass went by",
        catalogue.issued,
    )
    yield _one("plimsoll_catalogue_old_after_seconds", "From which age on it is called old", catalogue.old_after)
    yield counter(
        "plimsoll_catalogue_calls_total",
        "Calls of the refresher to the API of each service",
        ("service",),
        [((service,), number) for service, number in last.calls.of_service.items()],
    )
    yield counter(
        "plimsoll_catalogue_refreshes_total",
        "Refreshes of the catalogue, by how they ended",
        ("result",),
        [(("good",), last.calls.good), (("failed",), last.calls.failed)],
    )


# --- volume types


def _of_types(last: LastPass) -> Iterator[Metric]:
    """A type that is there has all of its series, so that the first of its kind is a rise and not a new one."""
    types: dict[str, list[LastDisk]] = {name: [] for name in sorted({label(disk.volume_type) for disk in last.disks})}
    for disk in last.disks:
        types[label(disk.volume_type)].append(disk)
    rated = {name: rates for name, disks in types.items() if (rates := [disk.rates for disk in disks if disk.rates])}
    corrected = {**dict.fromkeys(types, 0), **last.totals.corrected}
    yield gauge(
        "plimsoll_disks",
        "RBD disks, by how they came out of the last pass",
        ("volume_type", "state"),
        [
            ((name, kind.value), sum(disk.kind is kind for disk in disks))
            for name, disks in types.items()
            for kind in Kind
        ],
    )
    yield gauge(
        "plimsoll_disks_unlimited",
        "Disks without any limit though one is wanted",
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
        "plimsoll_disks_at_wall",
        "Disks that used 95 % of a limit or more, on average between the last two readings",
        ("volume_type",),
        [((name,), sum(disk.at_wall for disk in types[name])) for name in rated],
    )
    yield counter(
        "plimsoll_drift_corrected_total",
        "Limits put back that somebody else had changed",
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


def _of_disks(disks: Sequence[LastDisk]) -> Iterator[Metric]:
    named: list[_Named] = [
        ((disk.named.guest_name, disk.named.target, disk.named.guest_uuid), disk) for disk in disks
    ]
    yield gauge(
        "plimsoll_disk_info",
        "What the disk is: always 1",
        (*_DISK, "volume", "project", "flavor", "volume_type", "pool", "cluster"),
        [((*name, *_described(disk)), 1) for name, disk in named],
    )
    yield gauge(
        "plimsoll_disk_state",
        "How it came out of the last pass: always 1",
        (*_DISK, "state"),
        [((*name, disk.kind.value), 1) for name, disk in named],
    )
    yield gauge(
        "plimsoll_disk_unlimited",
        "Whether no limit at all is in force on it",
        _DISK,
        [(name, int(disk.unlimited)) for name, disk in named if disk.unlimited is not None],
    )
    yield gauge(
        "plimsoll_disk_limit_in_force",
        "The parameters that QEMU has in force, in bytes, requests and seconds; only those that are set",
        (*_DISK, "parameter"),
        _parameters(named, lambda disk: disk.in_force),
    )
    yield gauge(
        "plimsoll_disk_limit_wanted",
        "The parameters that plimsoll wants there; only those that are set",
        (*_DISK, "parameter"),
        _parameters(named, lambda disk: disk.wanted),
    )
    yield counter(
        "plimsoll_disk_drift_corrected_total",
        "How often its limits were put back that somebody else had changed",
        _DISK,
        [(name, disk.corrected) for name, disk in named],
    )
    yield from _of_counters(named)
    yield from _of_averages([each for each in named if each[1].rates is not None])


def _described(disk: LastDisk) -> Sequence[str | None]:
    named = disk.named
    return named.volume_id, named.project, disk.flavor, disk.volume_type, named.pool, disk.cluster


def _parameters(named: Sequence[_Named], limits_of: Callable[[LastDisk], Limits | None]) -> Iterator[Row]:
    numbers = [parameter.name for parameter in PARAMETERS]
    for name, disk in named:
        limits = limits_of(disk)
        said = {} if limits is None else limits.in_effect()
        yield from (((*name, parameter), float(said[parameter])) for parameter in numbers if parameter in said)


def _of_counters(named: Sequence[_Named]) -> Iterator[Metric]:
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


def _of_averages(rated: Sequence[_Named]) -> Iterator[Metric]:
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
        "plimsoll_disk_average_allowed_per_second",
        "What this limit would have let pass meanwhile, its burst included, in bytes or requests per second",
        (*_DISK, "parameter"),
        _limits(rated, lambda disk: disk.allowed),
    )
    yield gauge(
        "plimsoll_disk_average_limit_ratio",
        "The share of this limit, without its burst, that was used meanwhile; of all disks that have it together",
        (*_DISK, "parameter"),
        _limits(rated, lambda disk: disk.shares),
    )


def _directions(rated: Sequence[_Named], of: Callable[[Rates], tuple[float, float]]) -> Iterator[Row]:
    for name, disk in rated:
        if disk.rates is not None:
            yield from (((*name, way), value) for way, value in zip(_DIRECTIONS, of(disk.rates), strict=True))


def _limits(rated: Sequence[_Named], of: Callable[[LastDisk], Mapping[str, float]]) -> Iterator[Row]:
    for name, disk in rated:
        values = of(disk)
        yield from (((*name, base), values[base]) for base in BASES if base in values)
