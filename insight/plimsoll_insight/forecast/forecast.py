"""The figures of one failure, out of what is known. What is unknown stays so, with the options that would tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.forecast import arithmetic
from plimsoll_insight.forecast.failures import Failure
from plimsoll_insight.forecast.ranges import Range, exactly, least, ratio, rising, times


@frozen(kw_only=True)
class Inputs:
    """None is unknown. Seconds, bytes, and rates in a second."""

    write_latency: Range | None = None
    object_latency: Range | None = None
    """To read, or to write, a whole object."""
    object_size: Range | None = None
    write_size: float = 4096
    network: Range | None = None
    """Bytes a second of a host for replication."""
    disk: Range | None = None
    """Bytes a second of an OSD."""
    recovery_active: Range | None = None
    recovery_sleep: Range | None = None
    write_iops: Range | None = None
    away: Range | None = None
    osd_memory: Range | None = None
    copies: Range | None = None
    pgs_per_osd: Range | None = None
    log_entries: Range | None = None


@frozen(kw_only=True)
class Forecast:
    failure: Failure
    service: Range | None
    """Of a write, at worst: as long as all objects that guests write to are degraded."""
    iops_share: Range | None
    iops: Range | None
    stale: Range | None
    """Objects that were written while the copy was away."""
    objects_sec: Range | None
    bound: str | None
    """What bounds the rate: network, disk, settings."""
    clean: Range | None
    """From the return until all copies are in sync."""
    rebuild: Range | None
    """The time to make all lost copies again elsewhere, if what failed does not return."""
    memory: Range | None
    """Peak of the OSDs of one host that return at once."""
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By figure, the options that would tell it."""


class _Lacking(Exception):
    """Of these options."""

    def __init__(self, options: tuple[str, ...]) -> None:
        super().__init__()
        self.options = options


def _all(**needed: Range | None) -> list[Range]:
    """In their order. Raises ``_Lacking``, with all that is unknown."""
    if lacking := tuple(f"--{name.replace('_', '-')}" for name, value in needed.items() if value is None):
        raise _Lacking(lacking)
    return [value for value in needed.values() if value is not None]


def forecast(failure: Failure, known: Inputs) -> Forecast:
    unknown: dict[str, tuple[str, ...]] = {}

    def of(name: str, figure: Callable[[], Range]) -> Range | None:
        try:
            return figure()
        except _Lacking as lacking:
            unknown[name] = tuple(dict.fromkeys(lacking.options))
            return None

    bounds = _bounds(failure, known)
    return Forecast(
        failure=failure,
        service=of("service", lambda: _service(failure, known)),
        iops_share=of("iops_share", lambda: _iops_share(failure, known)),
        iops=of("iops", lambda: _iops(failure, known)),
        stale=of("stale", lambda: _stale(failure, known)),
        objects_sec=of("objects_sec", lambda: _slowest(failure, known, bounds)),
        bound=min(bounds, key=lambda name: (bounds[name].high, bounds[name].low), default=None),
        clean=of("clean", lambda: ratio(_stale(failure, known), _slowest(failure, known, bounds))),
        rebuild=of("rebuild", lambda: ratio(_all(objects=failure.objects)[0], _slowest(failure, known, bounds))),
        memory=of("memory", lambda: _memory(failure, known)),
        unknown=unknown,
    )


def _service(failure: Failure, known: Inputs) -> Range:
    write, whole = _all(write_latency=known.write_latency, object_latency=known.object_latency)
    return rising(arithmetic.mean_service, failure.share, write, whole)


def _iops_share(failure: Failure, known: Inputs) -> Range:
    write, whole = _all(write_latency=known.write_latency, object_latency=known.object_latency)

    def share(degraded: float, write: float, whole: float) -> float:
        return arithmetic.served_share(write, arithmetic.mean_service(degraded, write, whole))

    # It rises with the time of a write, and falls with that of an object and with the share.
    return Range(share(failure.share.high, write.low, whole.high), share(failure.share.low, write.high, whole.low))


def _iops(failure: Failure, known: Inputs) -> Range:
    write, whole, usual = _all(
        write_latency=known.write_latency, object_latency=known.object_latency, write_iops=known.write_iops
    )
    del write, whole
    return times(usual, _iops_share(failure, known))


def _stale(failure: Failure, known: Inputs) -> Range:
    """At most one object a write, wherever it goes; at least what a stream of writes fills, one after another."""
    objects, iops, away, size = _all(
        objects=failure.objects, write_iops=known.write_iops, away=known.away, object_size=known.object_size
    )
    # Of an object and its writes: those whose placement group has a lost copy.
    writes = times(times(iops, away), failure.share)
    follow = writes.low * min(known.write_size / size.high, 1.0)
    return Range(min(follow, objects.low), arithmetic.written_objects(writes.high, objects.high))


def _bounds(failure: Failure, known: Inputs) -> dict[str, Range]:
    """Objects a second that can return to sync, by what bounds them, of those bounds that are known."""
    bounds: dict[str, Range] = {}
    if known.object_size is not None:
        if known.network is not None and failure.hosts is not None:
            bounds["network"] = times(ratio(known.network, known.object_size), exactly(failure.hosts))
        if known.disk is not None and failure.osds is not None:
            bounds["disk"] = times(ratio(known.disk, known.object_size), exactly(failure.osds))
    if known.recovery_active is not None and known.object_latency is not None and failure.osds is not None:
        sleep = known.recovery_sleep or exactly(0.0)
        each = Range(
            arithmetic.started_per_second(known.recovery_active.low, known.object_latency.high, sleep.high),
            arithmetic.started_per_second(known.recovery_active.high, known.object_latency.low, sleep.low),
        )
        # The primary of each placement group begins: one that returned, or any other.
        bounds["settings"] = times(each, Range(failure.osds, failure.osds + (failure.left or 0)))
    return bounds


def _slowest(failure: Failure, known: Inputs, bounds: Mapping[str, Range]) -> Range:
    if bounds:
        return least(list(bounds.values()))
    if failure.osds is None and (known.disk or known.recovery_active):
        raise _Lacking(("--osds-per-domain",))
    raise _Lacking(("--network", "--disk", "--recovery-active"))


def _memory(failure: Failure, known: Inputs) -> Range:
    osds = None if failure.osds is None else exactly(failure.osds)
    memory, osds_, groups, objects, copies = _all(
        osd_memory=known.osd_memory,
        osds_per_domain=osds,
        pgs_per_osd=failure.groups or known.pgs_per_osd,
        objects=failure.objects,
        copies=known.copies,
    )
    entries = known.log_entries or Range(arithmetic.log_entries(groups.high), arithmetic.log_entries(groups.low))
    try:
        stale = _stale(failure, known).high
    except _Lacking:
        stale = objects.high
    missing = stale / osds_.high * copies.high
    most = arithmetic.memory_peak(memory.high, groups.high, entries.high, missing)
    # The cache of an OSD with a memory target gives way to the rest, so it may take no more than usual.
    return times(Range(memory.low, most), exactly(osds_.high / (failure.hosts or 1)))
