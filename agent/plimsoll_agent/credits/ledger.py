"""What disks have saved of their bursts, so that a write of limits does not fill their buckets again. Pure.

QEMU's bucket of a limit with a burst has room for max × length requests or bytes above the base rate, which it earns
back at that rate (util/throttle.c, throttle_compute_wait); each write of limits empties it, so that the whole burst
is there again (throttle_config). An account follows the bucket from pass to pass by the disk's counters, over writes,
restarts of the guest and reboots of the node. What is written then is the burst as long as what is saved: QEMU stops
it by itself. While QEMU has no room for all that is saved, the account goes on saving, and the limits are written
again once it has a quarter more than QEMU.

Disks in a group share an account, as they share a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from operator import attrgetter

from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import BASES, Limits
from plimsoll_agent.model.reason import Reason, Unknown
from plimsoll_agent.model.usage import Rates, Reading
from plimsoll_agent.util.frozen import frozen, replace

MOST_DEBT = 60
"""Seconds of the base rate. QEMU counts requests that it merges as one, its counters as several: such a disk would
owe more and more, though QEMU let nothing through."""
_WORTH = 1.25
"""How many times what QEMU holds must be saved for a write."""

FULL = "full"
"""The fact of a reason with the parameters of a burst that is shorter now."""


@frozen
class Burst:
    """One limit with a burst."""

    rate: int
    peak: int
    length: int

    @property
    def capacity(self) -> int:
        """The most that is saved, and the room of QEMU's bucket."""
        return self.peak * self.length


@frozen
class Bucket:
    """What is spent of a burst, what QEMU's bucket holds at most, and the room that this has."""

    spent: float
    held: float
    room: float


@frozen(kw_only=True)
class Account:
    """The savings of a disk, or of a group of disks, at the time of a reading."""

    at: float | None
    """Seconds since the node booted; None after it has booted again."""
    counters: Mapping[str, tuple[str, BlockStats]] = field(default_factory=dict, hash=False)
    """By ``Disk.key`` its attachment, and its counters then."""
    buckets: Mapping[str, Bucket] = field(default_factory=dict, hash=False)
    """By the name of the limit: ``total_iops_sec``."""

    @property
    def is_unread(self) -> bool:
        """Whether it came with a disk from another node, and no counters were read here yet."""
        return self.at is None and not self.counters

    def balance(self, limits: Limits, base: str) -> float:
        """What is saved of this burst; below 0 it is owed."""
        capacity = burst_of(limits, base).capacity
        bucket = self.buckets.get(base)
        return capacity if bucket is None else capacity - bucket.spent


@frozen(kw_only=True)
class Member:
    """A disk of an account."""

    key: str
    attachment: str
    actual: Limits | Unknown | None
    applied: Limits | None
    """What plimsoll set last."""
    desired: Limits | None
    """What was desired last."""
    reading: Reading | None

    def is_shortened(self, limits: Limits) -> bool:
        """Whether plimsoll has written these limits with less of their bursts; else they are desired only now."""
        actual = self.actual
        if not isinstance(actual, Limits) or self.desired != limits:
            return False
        return actual == self.applied and actual.shortens(limits)


def account_key(key: str, limits: Limits) -> str:
    """The account of the disk with this ``Disk.key``; one for all members of a group."""
    guest = key.partition("/")[0]
    return key if limits.group_name is None else f"{guest}//{limits.group_name}"


def is_of_group(key: str) -> bool:
    """Whether an ``account_key`` is of a group."""
    return key.partition("/")[2].startswith("/")


_PARTS = {base: attrgetter(base, f"{base}_max", f"{base}_max_length") for base in BASES}


def burst_of(limits: Limits, base: str) -> Burst:
    return Burst(*_PARTS[base](limits))


def bursts(limits: Limits) -> dict[str, Burst]:
    """The limits that have a burst, by their names; a second of the rate, the least that QEMU takes, is none."""
    of_base = {}
    for base, parts in _PARTS.items():
        rate, peak, length = parts(limits)
        if peak * length > rate:
            of_base[base] = Burst(rate, peak, length)
    return of_base


def whole(limits: Limits, reason: Reason) -> Limits:
    """The limits as desired, of which these have as long a burst as is saved."""
    full = reason.facts.get(FULL)
    if isinstance(full, Mapping):
        with suppress(ValueError):  # of a record that was edited
            return Limits.from_mapping({**limits.in_effect(), **full})
    return limits


def missing(full: Limits, limits: Limits) -> dict[str, int]:
    """The parameters of ``full`` bursts that ``limits`` have shorter, or not at all."""
    names = (f"{base}{ending}" for base in bursts(full) for ending in ("_max", "_max_length"))
    return {name: getattr(full, name) for name in names if getattr(full, name) != getattr(limits, name)}


def brought_forward(account: Account | None, limits: Limits, members: Sequence[Member]) -> Account | None:
    """The account after the members' readings; unchanged if one was not read: a later reading has all.

    A burst without an account is whole; if plimsoll has written it shorter, it is as long as it is now.
    """
    readings = {member.key: member.reading for member in members if member.reading is not None}
    if len(readings) < len(members):
        return account
    at = max(reading.at for reading in readings.values())
    if account is not None and account.at is not None and at < account.at:
        return account
    buckets = {base: _bucket(account, limits, base, at, members) for base in bursts(limits)}
    counters = {member.key: (member.attachment, readings[member.key].stats) for member in members}
    return Account(at=at, counters=counters, buckets=buckets)


def _bucket(account: Account | None, limits: Limits, base: str, at: float, members: Sequence[Member]) -> Bucket:
    burst, before = burst_of(limits, base), None if account is None else account.buckets.get(base)
    actual = members[0].actual
    room = float(burst_of(actual, base).capacity) if isinstance(actual, Limits) else 0.0
    if account is None or before is None:
        is_shortened = members[0].is_shortened(limits)
        return Bucket(max(0.0, burst.capacity - room) if is_shortened else 0.0, room, room)
    # After a reboot the guest, too, runs no longer than the node.
    seconds = at if account.at is None else at - account.at
    uses = [_used(account, member, base, limits) for member in members]
    use, is_fresh = sum(each for each, _ in uses), any(is_new for _, is_new in uses)
    change = use - burst.rate * seconds
    if isinstance(actual, Limits):
        change = min(change, _excess(use, seconds, getattr(actual, base)))
    if is_fresh:
        # What it used before it stopped is unknown, and so is how long it was off, where it would earn nothing.
        change = max(0.0, change)
    debit = min(max(0.0, before.spent + change), burst.capacity + burst.rate * MOST_DEBT)
    if is_fresh or room != before.room:
        return Bucket(debit, room, room)
    return Bucket(debit, min(room, max(0.0, before.held - change)), room)


def _excess(use: float, seconds: float, rate: int) -> float:
    """What was used above the rate in force: a higher one than desired, as of a hold, costs nothing of the burst."""
    return max(0.0, use - rate * seconds) if rate else 0.0


def _used(account: Account, member: Member, base: str, limits: Limits) -> tuple[float, bool]:
    """What a member has used since, and whether its counters began again."""
    if member.reading is None:
        return 0.0, False
    if member.key not in account.counters and not account.is_unread:
        return 0.0, True  # it joins the group: what it did before was not of this burst
    stats = member.reading.stats
    attachment, before = account.counters.get(member.key, ("", stats))
    # libvirt numbers guests again from 1 after a reboot: the same attachment is another one then.
    since = stats.since(before) if attachment == member.attachment and account.at is not None else None
    did = since or stats
    rates = Rates(
        read_iops=did.read_requests,
        write_iops=did.write_requests,
        read_bytes=did.read_bytes,
        write_bytes=did.write_bytes,
        seconds=1.0,
    )
    return rates.counted_by(base, limits), since is None


def affordable(limits: Limits, account: Account | None) -> Limits:
    """The limits, with each burst as long as what is saved of it."""
    changes: dict[str, int] = {}
    for base, burst in bursts(limits).items():
        balance = burst.capacity if account is None else account.balance(limits, base)
        if balance < burst.capacity:
            changes |= dict(_shortened(base, burst, balance))
    if not changes:
        return limits
    return Limits.from_mapping({name: value for name, value in {**limits.in_effect(), **changes}.items() if value})


def _shortened(base: str, burst: Burst, balance: float) -> Iterator[tuple[str, int]]:
    # A burst of 1 s is no rate to QEMU, only the room of its bucket.
    peak = burst.peak if burst.length > 1 else int(balance)
    length = int(balance // burst.peak) if burst.length > 1 else 1
    is_burst = length > 0 and peak > burst.rate
    yield f"{base}_max", peak if is_burst else 0
    yield f"{base}_max_length", length if is_burst else 0


def to_write(limits: Limits, account: Account | None, members: Sequence[Member]) -> Limits:
    """What the disks should have now: the limits with what is saved of their bursts, or what they have already."""
    actual = members[0].actual
    if not isinstance(actual, Limits) or any(member.actual != actual for member in members):
        return affordable(limits, account)
    if actual == limits:  # also with a bucket that something else has filled: a write would gain nothing
        return limits
    savings = affordable(limits, account)
    if account is None:  # not read yet: what plimsoll has shortened stays so
        return actual if all(member.is_shortened(limits) for member in members) else savings
    is_ours = actual.shortens(limits) and all(member.applied == actual for member in members)
    return savings if not is_ours or _is_worth_a_write(savings, limits, account) else actual


def _is_worth_a_write(savings: Limits, limits: Limits, account: Account) -> bool:
    if savings == limits:
        return True
    return any(
        burst.capacity > _WORTH * account.buckets[base].held
        for base, burst in bursts(savings).items()
        if base in account.buckets
    )


def arrived(before: Account | None, key: str, attachment: str, desired: Limits, last: Limits) -> Account | None:
    """The account of a disk from another node, where plimsoll wrote the limits ``last``; ``before`` is this node's.

    One of an earlier stay tells nothing, and neither does what is in force now: Nova sets its own limits on the way.
    """
    is_of_this_stay = before is not None and before.counters.get(key, ("",))[0] == attachment
    if is_of_this_stay or not last.shortens(desired):
        return before
    debits = {base: burst.capacity - burst_of(last, base).capacity for base, burst in bursts(desired).items()}
    return Account(at=None, buckets={base: Bucket(max(0.0, debit), 0.0, 0.0) for base, debit in debits.items()})


def newest(one: Account | None, other: Account) -> Account:
    """Of two passes side by side, the account of the later reading."""
    if one is None or one.at is None or other.at is None:
        return other
    return one if one.at > other.at else other


def written(account: Account, limits: Limits) -> Account:
    """The account after a write of these limits, which fills QEMU's buckets."""
    rooms = {base: float(burst_of(limits, base).capacity) for base in account.buckets}
    return replace(
        account,
        buckets={base: replace(each, held=rooms[base], room=rooms[base]) for base, each in account.buckets.items()},
    )
