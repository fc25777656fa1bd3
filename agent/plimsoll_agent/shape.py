"""Limits within bounds: what a rule's ceiling and floor make of the limits that somebody else gave.

A guest may do three things with one number: its base for ever, its burst at once, and that for the burst's length.
A bound holds each of them. In a bound without a burst its base is the bound on bursts too: it holds at any moment.
How long such a burst lasts is then nobody's business, since the guest may do the base for ever.

Limits that are in a group are returned as they are: a group has one set of limits, and a bound would make two.
Bytes and requests are bounded each by itself. ``size_iops_sec`` stays as it was: requests are counted, under a
ceiling as above a floor, the way that the limits count them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from plimsoll_agent.limits import SCOPES, UNITS, VALUE_MAX, Limits, Scope, Unit


@dataclass(frozen=True, slots=True)
class _Bucket:
    """One limit: units per second for ever, and in a burst of so many seconds; a burst of 0 is none."""

    base: int
    burst: int = 0
    length: int = 0

    @property
    def at_once(self) -> int:
        return self.burst or self.base


_Buckets = Mapping[Scope, _Bucket]
_Bounded = Callable[[_Buckets, _Buckets], _Buckets]
# Stands in for a limit that is not there: nothing can exceed it.
_UNLIMITED = _Bucket(VALUE_MAX)


def at_most(limits: Limits, ceiling: Limits) -> Limits:
    """The limits, lowered where the ceiling is lower.

    - Nothing is said for a number that the ceiling bounds: the ceiling's, with its burst.
    - Both speak of the same (both of the total, or both of reads): the lower base; a burst is cut to the ceiling's,
      and dropped if that leaves nothing above the base. A ceiling gives no burst to limits that have none.
    - A total ceiling over reads and writes: kept while the sum of their bases fits, only their bursts are cut, each
      by its share; else one total, since QEMU has no total beside reads and writes. **That total is the one way in
      which a ceiling may loosen**: reads alone, or writes alone, may get more than before, both together may not.
      Where only reads, or only writes, are limited, and by less than the ceiling, the other gets what it leaves.
    - A ceiling for reads or writes over a total: a total that is within each of them.
    """
    return _each_unit(limits, ceiling, _lowered)


def at_least(limits: Limits, floor: Limits) -> Limits:
    """The limits, raised where the floor is higher; what is unlimited stays so.

    - Both speak of the same: the higher base, the higher and longer burst. A burst that the base overtakes is raised
      with it and not dropped: QEMU lets a burst of one second pass all at once, of a mere base a tenth of it.
    - A total floor over reads and writes: kept where their sum is as high, only their bursts are raised, each by its
      share; else one total. Where one of them is unlimited, so is their sum.
    - A floor for reads or writes under a total: a total that reaches each of them, not their sum.

    A length gives way where burst × length would exceed the 10^15 that QEMU can count.
    """
    return _each_unit(limits, floor, _raised)


def _each_unit(limits: Limits, bound: Limits, bounded: _Bounded) -> Limits:
    if limits.group_name is not None:
        return limits
    numbers: dict[str, object] = {"size_iops_sec": limits.size_iops_sec}
    for unit in UNITS:
        for scope, bucket in bounded(_buckets(limits, unit), _buckets(bound, unit)).items():
            name = f"{scope}_{unit}_sec"
            numbers |= {name: bucket.base, f"{name}_max": bucket.burst, f"{name}_max_length": bucket.length}
    return Limits.from_mapping(numbers)


def _buckets(limits: Limits, unit: Unit) -> _Buckets:
    endings = ("", "_max", "_max_length")
    buckets = {
        scope: _Bucket(*(getattr(limits, f"{scope}_{unit}_sec{ending}") for ending in endings)) for scope in SCOPES
    }
    return {scope: bucket for scope, bucket in buckets.items() if bucket.base}


def _lowered(own: _Buckets, ceiling: _Buckets) -> _Buckets:
    if not own or not ceiling:
        return own or ceiling
    if "total" in own:
        return {"total": _cut_to(own["total"], *ceiling.values())}
    if "total" in ceiling:
        return _parts_under(own, ceiling["total"])
    return {**own, **ceiling, **{scope: _cut_to(own[scope], ceiling[scope]) for scope in own if scope in ceiling}}


def _raised(own: _Buckets, floor: _Buckets) -> _Buckets:
    if not own or not floor:
        return own
    if "total" in own:
        return {"total": _raised_to(own["total"], *floor.values())}
    if "total" in floor:
        return _parts_above(own, floor["total"])
    return {**own, **{scope: _raised_to(own[scope], floor[scope]) for scope in own if scope in floor}}


def _parts_under(own: _Buckets, top: _Bucket) -> _Buckets:
    """Reads and writes under a ceiling for both together."""
    if len(own) == 1:
        ((scope, part),) = own.items()
        if part.base < top.base:  # the other gets what is left: one total would let this one have all of it
            own = {**own, "write" if scope == "read" else "read": _Bucket(top.base - part.base)}
    parts = [own.get("read", _UNLIMITED), own.get("write", _UNLIMITED)]
    bases = sum(part.base for part in parts)
    if bases > top.base:
        return {"total": _cut_to(_together(parts, min), top)}
    # The bases are promised and stay. What the ceiling leaves above them is shared out by what the bursts ask for:
    # one total would let reads, or writes, have all of it.
    asked, room = sum(part.at_once for part in parts) - bases, top.at_once - bases

    def share(part: _Bucket) -> _Bucket:
        above = part.at_once - part.base
        at_once = part.base + (above if asked <= room else above * room // asked)
        return _Bucket(part.base, at_once, top.length if top.burst else part.length)

    return {scope: _cut_to(part, share(part)) for scope, part in own.items()}


def _parts_above(own: _Buckets, bottom: _Bucket) -> _Buckets:
    """Reads and writes above a floor for both together."""
    if len(own) == 1:
        return own
    parts = list(own.values())
    if (bases := sum(part.base for part in parts)) < bottom.base:
        return {"total": _raised_to(_together(parts, max), bottom)}
    if bases >= bottom.burst:
        return own
    at_once = sum(part.at_once for part in parts)

    def share(part: _Bucket) -> _Bucket:
        # Rounded up, so that the shares add up to the floor's burst.
        return _Bucket(part.base, -(-part.at_once * bottom.burst // at_once), bottom.length)

    return {scope: _raised_to(part, share(part)) for scope, part in own.items()}


def _together(parts: Sequence[_Bucket], length: Callable[[list[int]], int]) -> _Bucket:
    """One limit for what both parts may do: the sums, with the shorter or the longer of their bursts."""
    base = sum(part.base for part in parts)
    lengths = [part.length for part in parts if part.burst]
    return _Bucket(base, sum(part.at_once for part in parts), length(lengths)) if lengths else _Bucket(base)


def _cut_to(own: _Bucket, *tops: _Bucket) -> _Bucket:
    """Within each of the ceilings."""
    base = min(own.base, *(top.base for top in tops))
    burst = min(own.burst, *(top.at_once for top in tops))
    length = min([own.length, *(top.length for top in tops if top.burst)])
    cut = _Bucket(base, burst, length)
    return cut if burst > base or cut == own else _Bucket(base)


def _raised_to(own: _Bucket, *bottoms: _Bucket) -> _Bucket:
    """Above each of the floors."""
    base = max(own.base, *(bottom.base for bottom in bottoms))
    # What the base reaches for ever needs no burst.
    missing = [bottom for bottom in bottoms if bottom.burst > base]
    if not missing and not own.burst:
        return _Bucket(base)
    burst = min(max(own.burst, base, *(bottom.burst for bottom in missing)), VALUE_MAX)
    length = max([own.length, *(bottom.length for bottom in missing)])
    return _Bucket(base, burst, min(length, VALUE_MAX // burst))
