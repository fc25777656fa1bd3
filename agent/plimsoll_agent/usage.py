"""What disks do against their limits, from two readings of QEMU's counters. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from plimsoll_agent.disk import Disk
from plimsoll_agent.hypervisor import BlockStats
from plimsoll_agent.limits import BASES, Limits, Unit
from plimsoll_agent.reason import Code, Reason, Unknown, because

WINDOW = 60.0
"""Seconds that are looked back on for the time at the wall."""

AT_WALL = 0.95
"""The share of a limit from which a disk counts as held back by it.

QEMU lets a busy disk have its limit to the request over some seconds, but a reading cuts through requests under
way, and its moment is known to a few milliseconds only. A disk that does less than this has room.
"""

BUSY = because(Code.NOT_SENT, detail="libvirt has no counters now; it does not wait for a busy guest")
"""Where libvirt has no counters. It is told not to wait, so most of the time another call has the guest."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of a disk at a moment, in seconds of any steady clock."""

    at: float
    stats: BlockStats


@dataclass(frozen=True, slots=True)
class Rates:
    """What a disk did between two readings, in requests and bytes per second."""

    read_iops: float
    write_iops: float
    read_bytes: float
    write_bytes: float
    seconds: float
    """How long these are averages of."""

    def of(self, base: str) -> float:
        """The rate that a limit is about, by the limit's name."""
        scope, unit, _ = base.split("_")
        sides = ("read", "write") if scope == "total" else (scope,)
        return float(sum(getattr(self, f"{side}_{unit}") for side in sides))

    def counted(self, unit: Unit, size: int) -> Rates:
        """The rates as a limit counts them: requests above ``size`` bytes (``size_iops_sec``) are several.

        QEMU counts size / size_iops_sec for such a request (util/throttle.c, throttle_account). The sizes of
        single requests are not known here, so these are the fewest that it can have counted.
        """
        if unit == "bytes" or not size:
            return self
        return replace(
            self,
            read_iops=max(self.read_iops, self.read_bytes / size),
            write_iops=max(self.write_iops, self.write_bytes / size),
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time between two readings, and the share of the limit that was used in it."""

    ended: float
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Wall:
    """How much of the last minute a disk was at its limit; ``seconds`` of it are known."""

    share: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Usage:
    """What a disk does now. Whatever is None, or has no share, is not known or has no limit: never zero."""

    disk: Disk
    reading: Reading | None = None
    rates: Rates | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    """The share of each limit that is set, by its name; above 1 in a burst."""
    stretches: tuple[Stretch, ...] = ()
    sharing: int = 1
    """How many disks of the guest have this limit together, by a ``group_name``; the shares are those of all."""
    reason: Reason | None = None
    """Why nothing is known of what it does; None also before the second reading."""

    @property
    def share(self) -> float | None:
        return max(self.shares.values(), default=None)

    def share_of(self, unit: Unit) -> float | None:
        """The largest share of a limit of requests, or of one of bytes."""
        return max((share for base, share in self.shares.items() if f"_{unit}_" in base), default=None)

    @property
    def wall(self) -> Wall | None:
        """None where there is no limit, or it is not known, in the whole last minute."""
        if self.reading is None:
            return None
        began = self.reading.at - WINDOW
        parts = [(max(0.0, min(part.seconds, part.ended - began)), part.share >= AT_WALL) for part in self.stretches]
        seconds = sum(length for length, _ in parts)
        return Wall(sum(length for length, held in parts if held) / seconds, seconds) if seconds else None

    @property
    def unlimited(self) -> bool:
        return isinstance(self.disk.in_force, Limits) and self.disk.in_force.unlimited


def follow(before: Iterable[Usage], disks: Sequence[Disk], read: Mapping[str, Reading]) -> tuple[Usage, ...]:
    """The disks of one guest after another reading, which is by target; ``before`` is what is known from the last.

    A disk that was attached anew starts afresh, and so does one whose counters went backwards: its guest was
    started again.
    """
    last = {usage.disk.attachment: usage for usage in before}
    seen = [_read_again(last.get(disk.attachment), disk, read.get(disk.target)) for disk in disks]
    return tuple(_against_limits(usage, _sharers(usage, seen)) for usage in seen)


def unanswered(before: Iterable[Usage], disks: Sequence[Disk], reason: Reason) -> tuple[Usage, ...]:
    """The disks of a guest that could not be asked. What they do, and what is in force, is not known."""
    last = {usage.disk.attachment: usage.stretches for usage in before}
    return tuple(
        Usage(replace(disk, in_force=Unknown(reason)), stretches=last.get(disk.attachment, ()), reason=reason)
        for disk in disks
    )


def _read_again(last: Usage | None, disk: Disk, reading: Reading | None) -> Usage:
    """Without its shares yet: they may be those of several disks."""
    stretches = last.stretches if last else ()
    if reading is None:
        return Usage(disk, stretches=stretches, reason=BUSY)
    if last is None or last.reading is None:
        return Usage(disk, reading, stretches=stretches)
    rates = _rates(last.reading, reading)
    return Usage(disk, reading) if rates is None else Usage(disk, reading, rates, stretches=stretches)


def _rates(before: Reading, after: Reading) -> Rates | None:
    """None when the counters cannot be those of one run."""
    seconds, did = after.at - before.at, after.stats.since(before.stats)
    if seconds <= 0 or did is None:
        return None
    each = (did.read_requests, did.write_requests, did.read_bytes, did.write_bytes)
    reads, writes, read, written = (count / seconds for count in each)
    return Rates(reads, writes, read, written, seconds)


def _sharers(usage: Usage, of_guest: Sequence[Usage]) -> Sequence[Usage]:
    """The disks that have one limit together. A group never reaches beyond a guest: it is one QEMU's own."""
    group = _group(usage)
    return [usage] if group is None else [other for other in of_guest if _group(other) == group]


def _group(usage: Usage) -> str | None:
    return usage.disk.in_force.group_name if isinstance(usage.disk.in_force, Limits) else None


def _against_limits(usage: Usage, sharers: Sequence[Usage]) -> Usage:
    limits, reading, rates = usage.disk.in_force, usage.reading, usage.rates
    usage = replace(usage, sharing=len(sharers))
    together = [sharer.rates for sharer in sharers if sharer.rates is not None]
    # Where it is not known what one of them did, it is not known either what they did together.
    if reading is None or rates is None or len(together) < len(sharers) or not isinstance(limits, Limits):
        return usage
    shares = {base: _did(together, base, limits) / limit for base in BASES if (limit := getattr(limits, base))}
    if not shares:
        return usage
    kept = (stretch for stretch in usage.stretches if stretch.ended > reading.at - WINDOW)
    now = Stretch(reading.at, rates.seconds, max(shares.values()))
    return replace(usage, shares=shares, stretches=(*kept, now))


def _did(rates: Sequence[Rates], base: str, limits: Limits) -> float:
    unit: Unit = "bytes" if "_bytes_" in base else "iops"
    return sum(one.counted(unit, limits.size_iops_sec).of(base) for one in rates)
