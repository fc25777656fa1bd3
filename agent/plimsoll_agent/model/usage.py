"""How much of their limits disks use, from two readings of QEMU's counters. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import BASES, Limits, Unit
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.util.decoding import Amount
from plimsoll_agent.util.frozen import frozen, replace

WINDOW = 60.0
"""Seconds over which the time at limit is counted."""

AT_LIMIT_RATIO = 0.95
"""The share of a limit from which a disk counts as at limit.

Over some seconds QEMU gives a busy disk exactly its limit, but a reading cuts through requests in flight, and its
time is known only to a few milliseconds.
"""

BUSY = because(Code.NOT_SENT, detail="libvirt has no counters now; it does not wait for a busy guest")
"""Why libvirt returned no counters: mostly since another call has the guest."""

ONE_READING = because(Code.NOT_SENT, detail="only one reading")


@frozen
class Reading:
    """The counters of a disk at a moment, in seconds of any steady clock."""

    at: Amount
    stats: BlockStats


@frozen
class Used:
    """The most that a disk used, by the averages of passes, in requests and bytes per second."""

    iops: float
    bytes: float

    def of(self, unit: Unit) -> float:
        return self.iops if unit == "iops" else self.bytes

    def or_more(self, other: Used) -> Used:
        """What either used."""
        return Used(max(self.iops, other.iops), max(self.bytes, other.bytes))


@frozen(array_like=True, kw_only=True)
class Rates:
    """A disk's rates between two readings, in requests and bytes per second."""

    read_iops: Amount
    write_iops: Amount
    read_bytes: Amount
    write_bytes: Amount
    seconds: Amount
    """The time between the readings."""
    latency: Amount | None = None
    """Seconds that a read, write or flush took on average; None without any, or where QEMU's times are unknown."""

    def of(self, base: str) -> float:
        """The rate that a limit, given by its name, is for."""
        return float(sum(getattr(self, name) for name in _rates_of(base)))

    def counted_by(self, base: str, limits: Limits) -> float:
        """``of`` this base, as ``limits`` count requests."""
        return self.counted("bytes" if "_bytes_" in base else "iops", limits.size_iops_sec).of(base)

    def counted(self, unit: Unit, size: int) -> Rates:
        """The rates as a limit counts them: a request above ``size`` bytes (``size_iops_sec``) counts as several.

        QEMU counts size / size_iops_sec for such a request (util/throttle.c, throttle_account). The sizes of single
        requests are unknown here, so this is the least that QEMU can have counted.
        """
        if unit == "bytes" or not size:
            return self
        return replace(
            self,
            read_iops=max(self.read_iops, self.read_bytes / size),
            write_iops=max(self.write_iops, self.write_bytes / size),
        )


@cache
def _rates_of(base: str) -> tuple[str, ...]:
    """The fields of ``Rates`` that a limit of this name is for."""
    scope, unit, _ = base.split("_")
    return tuple(f"{side}_{unit}" for side in (("read", "write") if scope == "total" else (scope,)))


@frozen
class Stretch:
    """The time between two readings, and the share of the limit that was used in it."""

    ended: float
    seconds: float
    share: float


@frozen
class TimeAtLimit:
    """The share of the last minute that a disk was at limit; ``seconds`` of that minute are known."""

    share: float
    seconds: float


@frozen(kw_only=True)
class Usage:
    """A disk's present use of its limits. None, or no share, means unknown or unlimited, never zero."""

    disk: Disk
    reading: Reading | None = None
    rates: Rates | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    """The used share of each limit that is set, by its name; above 1 in a burst."""
    stretches: tuple[Stretch, ...] = ()
    sharing: int = 1
    """How many disks of the guest share the limit by a ``group_name``; the shares are those of all of them."""
    reason: Reason | None = None
    """Why its use is unknown; None also before the second reading."""

    @property
    def share(self) -> float | None:
        return max(self.shares.values(), default=None)

    def share_of(self, unit: Unit) -> float | None:
        """The largest share among limits of this unit."""
        return max((share for base, share in self.shares.items() if f"_{unit}_" in base), default=None)

    @property
    def at_limit(self) -> TimeAtLimit | None:
        """None if there was no known limit in the last minute."""
        if self.reading is None:
            return None
        began = self.reading.at - WINDOW
        parts = [
            (max(0.0, min(part.seconds, part.ended - began)), part.share >= AT_LIMIT_RATIO) for part in self.stretches
        ]
        seconds = sum(length for length, _ in parts)
        return TimeAtLimit(sum(length for length, at in parts if at) / seconds, seconds) if seconds else None

    @property
    def unlimited(self) -> bool:
        return isinstance(self.disk.actual, Limits) and self.disk.actual.unlimited


def follow(before: Iterable[Usage], disks: Sequence[Disk], read: Mapping[str, Reading]) -> tuple[Usage, ...]:
    """The disks of one guest after a new reading, given by target; ``before`` is the result of the one before.

    A disk that was reattached starts again, as does one whose counters went backwards: its guest was restarted.
    """
    last = {usage.disk.attachment: usage for usage in before}
    usages = [_read_again(last.get(disk.attachment), disk, read.get(disk.target)) for disk in disks]
    return tuple(_against_limits(usage, _sharers(usage, usages)) for usage in usages)


def unreachable(before: Iterable[Usage], disks: Sequence[Disk], reason: Reason) -> tuple[Usage, ...]:
    """The disks of an unreachable guest: their use and their actual limits are unknown."""
    last = {usage.disk.attachment: usage.stretches for usage in before}
    return tuple(
        Usage(disk=replace(disk, actual=Unknown(reason)), stretches=last.get(disk.attachment, ()), reason=reason)
        for disk in disks
    )


def _read_again(last: Usage | None, disk: Disk, reading: Reading | None) -> Usage:
    """Without the shares, which may be those of several disks."""
    stretches = last.stretches if last else ()
    if reading is None:
        return Usage(disk=disk, stretches=stretches, reason=BUSY)
    if last is None or last.reading is None:
        return Usage(disk=disk, reading=reading, stretches=stretches)
    rates = rates_between(last.reading, reading)
    return (
        Usage(disk=disk, reading=reading)
        if rates is None
        else Usage(disk=disk, reading=reading, rates=rates, stretches=stretches)
    )


def rates_between(before: Reading, after: Reading) -> Rates | None:
    """None if the counters are not of one run of the guest."""
    seconds, did = after.at - before.at, after.stats.since(before.stats)
    if seconds <= 0 or did is None:
        return None
    each = (did.read_requests, did.write_requests, did.read_bytes, did.write_bytes)
    reads, writes, read, write = (count / seconds for count in each)
    requests = did.read_requests + did.write_requests + (did.flushes or 0)
    has_times = did.nanoseconds is not None and did.flushes is not None and requests
    latency = (did.nanoseconds or 0) / requests / 1e9 if has_times else None
    return Rates(
        read_iops=reads, write_iops=writes, read_bytes=read, write_bytes=write, seconds=seconds, latency=latency
    )


def _sharers(usage: Usage, of_guest: Sequence[Usage]) -> Sequence[Usage]:
    """The disks that share one limit. A group is within one guest: it belongs to one QEMU."""
    group = _group(usage)
    return [usage] if group is None else [other for other in of_guest if _group(other) == group]


def _group(usage: Usage) -> str | None:
    limits = usage.disk.in_force
    return limits.group_name if isinstance(limits, Limits) else None


def _against_limits(usage: Usage, sharers: Sequence[Usage]) -> Usage:
    limits, reading, rates = usage.disk.in_force, usage.reading, usage.rates
    usage = replace(usage, sharing=len(sharers))
    together = [sharer.rates for sharer in sharers if sharer.rates is not None]
    # If the rates of one are unknown, so is their sum.
    if reading is None or rates is None or len(together) < len(sharers) or not isinstance(limits, Limits):
        return usage
    shares = {base: _did(together, base, limits) / limit for base in BASES if (limit := getattr(limits, base))}
    if not shares:
        return usage
    recent = (stretch for stretch in usage.stretches if stretch.ended > reading.at - WINDOW)
    now = Stretch(reading.at, rates.seconds, max(shares.values()))
    return replace(usage, shares=shares, stretches=(*recent, now))


def _did(rates: Sequence[Rates], base: str, limits: Limits) -> float:
    return sum(one.counted_by(base, limits) for one in rates)
