"""The figures of one failure, out of what is known. What is unknown stays so, with the options that would tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.forecast import arithmetic
from plimsoll_insight.forecast.failures import Failure
from plimsoll_insight.forecast.ranges import Range, add, exactly, least, ratio, rising, times
from plimsoll_insight.forecast.recovery import RecoveryPace, per_second


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
    max_backfills: Range | None = None
    stale: Range | None = None
    """Objects written while it is away, instead of what follows from ``write_iops`` and ``away``."""
    peering: Range | None = None
    """From the return until the recovery of objects begins."""
    status_delay: Range | None = None
    """From the last recovered object until the status tells it."""
    detect: Range | None = None
    write_iops: Range | None = None
    away: Range | None = None
    osd_memory: Range | None = None
    copies: Range | None = None
    pgs_per_osd: Range | None = None
    log_entries: Range | None = None


@frozen(kw_only=True)
class Forecast:
    failure: Failure
    detect: Range | None
    """Until the monitors take it for down, of what vanishes without closing its connections."""
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
    """From the return until all copies are in sync, peering included."""
    rebuild: Range | None
    """The time to make all lost copies again elsewhere, if what failed does not return; None also where that is not
    possible."""
    memory: Range | None
    """Peak of the OSDs of one host that return at once."""
    beyond_log: float | None = None
    """The entries of a log, where a placement group may be written to more often: it is compared object by object."""
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By figure, the options that would tell it."""


class _Lacking(Exception):
    """Of these options."""

    def __init__(self, options: tuple[str, ...]) -> None:
        super().__init__()
        self.options = options


def _all(**inputs: Range | None) -> list[Range]:
    """In their order. Raises ``_Lacking``, with all that is unknown."""
    if lacking := tuple(f"--{name.replace('_', '-')}" for name, value in inputs.items() if value is None):
        raise _Lacking(lacking)
    return [value for value in inputs.values() if value is not None]


def forecast(failure: Failure, inputs: Inputs) -> Forecast:
    unknown: dict[str, tuple[str, ...]] = {}

    def of(name: str, figure: Callable[[], Range | None]) -> Range | None:
        try:
            return figure()
        except _Lacking as lacking:
            unknown[name] = tuple(dict.fromkeys(lacking.options))
            return None

    bounds = _bounds(failure, inputs)
    elsewhere = _elsewhere(failure, inputs)
    return Forecast(
        failure=failure,
        detect=inputs.detect,
        service=of("service", lambda: _service(failure, inputs)),
        iops_share=of("iops_share", lambda: _iops_share(failure, inputs)),
        iops=of("iops", lambda: _iops(failure, inputs)),
        stale=of("stale", lambda: _stale(failure, inputs)),
        objects_sec=of("objects_sec", lambda: _slowest(failure, inputs, bounds)),
        bound=min(bounds, key=lambda name: (bounds[name].high, bounds[name].low), default=None),
        clean=of("clean", lambda: _clean(failure, inputs, bounds)),
        rebuild=of("rebuild", lambda: _rebuild(failure, inputs, elsewhere)),
        memory=of("memory", lambda: _memory(failure, inputs)),
        beyond_log=_beyond_log(failure, inputs),
        unknown=unknown,
    )


def _service(failure: Failure, inputs: Inputs) -> Range:
    write, whole = _all(write_latency=inputs.write_latency, object_latency=inputs.object_latency)
    return rising(arithmetic.mean_service, failure.share, write, whole)


def _iops_share(failure: Failure, inputs: Inputs) -> Range:
    write, whole = _all(write_latency=inputs.write_latency, object_latency=inputs.object_latency)

    def share(part: float, write: float, whole: float) -> float:
        return arithmetic.served_share(write, arithmetic.mean_service(part, write, whole))

    # It rises with the time of a write, and falls with that of an object and with the share.
    return Range(share(failure.share.high, write.low, whole.high), share(failure.share.low, write.high, whole.low))


def _iops(failure: Failure, inputs: Inputs) -> Range:
    write, whole, usual = _all(
        write_latency=inputs.write_latency, object_latency=inputs.object_latency, write_iops=inputs.write_iops
    )
    del write, whole
    return times(usual, _iops_share(failure, inputs))


def _stale(failure: Failure, inputs: Inputs) -> Range:
    """At most one object a write, wherever it goes; at least what a stream of writes fills, one after another."""
    if inputs.stale is not None:
        return inputs.stale
    objects, iops, away, size = _all(
        objects=failure.objects, write_iops=inputs.write_iops, away=inputs.away, object_size=inputs.object_size
    )
    # Of an object and its writes: those whose placement group has a lost copy.
    writes = times(times(iops, away), failure.share)
    follow = writes.low * min(inputs.write_size / size.high, 1.0)
    return Range(min(follow, objects.low), arithmetic.written_objects(writes.high, objects.high))


def _bounds(failure: Failure, inputs: Inputs) -> dict[str, Range]:
    """Objects a second that can return to sync, by what bounds them, of those bounds that are known."""
    bounds = _hardware(inputs, failure.hosts, failure.osds)
    if inputs.recovery_active is not None and inputs.object_latency is not None and failure.recovering:
        bounds["settings"] = _by_settings(failure, inputs, inputs.recovery_active, inputs.object_latency)
    return bounds


def _elsewhere(failure: Failure, inputs: Inputs) -> dict[str, Range]:
    """The same where all copies are made on the OSDs that stay."""
    bounds = _hardware(inputs, failure.hosts_left, failure.left)
    if inputs.recovery_active is not None and inputs.object_latency is not None and failure.left and inputs.copies:
        sleep, places = inputs.recovery_sleep or exactly(0.0), inputs.max_backfills or exactly(1.0)
        # Each group takes a place of its primary, and one of each of its other OSDs. Where each takes what is free,
        # half of the most are under way at least.
        fast = RecoveryPace(
            each=2 * inputs.object_latency.low,
            sleep=sleep.low,
            active=inputs.recovery_active.high,
            places=places.high,
        )
        slow = RecoveryPace(
            each=2 * inputs.object_latency.high,
            sleep=sleep.high,
            active=inputs.recovery_active.low,
            places=places.low,
        )
        bounds["settings"] = times(
            exactly(failure.left), Range(_of_each(slow, inputs.copies.high) / 2, _of_each(fast, inputs.copies.low))
        )
    return bounds


def _of_each(pace: RecoveryPace, copies: float) -> float:
    """Objects a second of each OSD, at most, where all recover."""
    return min(pace.places / max(copies - 1, 1) * pace.rate(1), pace.rate(int(pace.places)))


def _hardware(inputs: Inputs, hosts: int | None, osds: int | None) -> dict[str, Range]:
    bounds: dict[str, Range] = {}
    if inputs.object_size is not None:
        if inputs.network is not None and hosts:
            bounds["network"] = times(ratio(inputs.network, inputs.object_size), exactly(hosts))
        if inputs.disk is not None and osds:
            bounds["disk"] = times(ratio(inputs.disk, inputs.object_size), exactly(osds))
    return bounds


def _by_settings(failure: Failure, inputs: Inputs, active: Range, whole: Range) -> Range:
    try:
        missing = _stale(failure, inputs)
    except _Lacking:
        missing = failure.objects or exactly(1.0)
    sleep, places = inputs.recovery_sleep or exactly(0.0), inputs.max_backfills or exactly(1.0)
    fast = RecoveryPace(each=2 * whole.low, sleep=sleep.low, active=active.high, places=places.high)
    slow = RecoveryPace(each=2 * whole.high, sleep=sleep.high, active=active.low, places=places.low)
    # More missing objects may leave the OSDs that returned out of their groups, which is slower or faster.
    rates = [
        per_second(failure.recovering, max(objects, 1.0), pace)
        for pace in {fast, slow} for objects in {missing.low, missing.high}
    ]  # fmt: skip
    return Range(min(rates), max(rates))


def _beyond_log(failure: Failure, inputs: Inputs) -> float | None:
    try:
        most = _stale(failure, inputs).high * max((group.part for group in failure.recovering), default=0.0)
    except _Lacking:
        return None
    groups = failure.groups or inputs.pgs_per_osd
    entries = inputs.log_entries if groups is None else _log_entries(groups, inputs)
    return entries.low if entries is not None and most > entries.low else None


def _log_entries(groups: Range, inputs: Inputs) -> Range:
    """By Ceph's defaults for so many groups of an OSD, where no others are known."""
    return inputs.log_entries or Range(arithmetic.log_entries(groups.high), arithmetic.log_entries(groups.low))


def _clean(failure: Failure, inputs: Inputs, bounds: Mapping[str, Range]) -> Range:
    took = ratio(_stale(failure, inputs), _slowest(failure, inputs, bounds))
    for more in (inputs.peering, inputs.status_delay):
        took = add(took, more or exactly(0.0))
    return took


def _rebuild(failure: Failure, inputs: Inputs, bounds: Mapping[str, Range]) -> Range | None:
    took = ratio(_all(objects=failure.objects)[0], _slowest(failure, inputs, bounds))
    return took if failure.is_rebuilt else None


def _slowest(failure: Failure, inputs: Inputs, bounds: Mapping[str, Range]) -> Range:
    if bounds:
        return least(list(bounds.values()))
    if failure.osds is None and (inputs.disk or inputs.recovery_active):
        raise _Lacking(("--osds-per-domain",))
    raise _Lacking(("--network", "--disk", "--recovery-active"))


def _memory(failure: Failure, inputs: Inputs) -> Range:
    osds = None if failure.osds is None else exactly(failure.osds)
    memory, osds_, groups, objects, copies = _all(
        osd_memory=inputs.osd_memory,
        osds_per_domain=osds,
        pgs_per_osd=failure.groups or inputs.pgs_per_osd,
        objects=failure.objects,
        copies=inputs.copies,
    )
    entries = _log_entries(groups, inputs)
    try:
        stale = _stale(failure, inputs).high
    except _Lacking:
        stale = objects.high
    missing = stale / osds_.high * copies.high
    places, size = inputs.max_backfills or exactly(1.0), inputs.object_size or exactly(0.0)
    copy_bytes = arithmetic.copies_held(missing, places.high) * size.high
    # What was written to more often than its log has entries is compared object by object, and not kept as missing.
    missing = min(missing, groups.high * entries.high * copies.high)
    most = arithmetic.memory_peak(memory.high, groups.high, entries.high, missing, copy_bytes)
    # The cache of an OSD with a memory target gives way to the rest, so it may take no more than usual.
    return times(Range(memory.low, most), exactly(osds_.high / (failure.hosts or 1)))
