"""Limits within a rule's ceiling and floor.

A limit has a base rate, a burst rate, and the burst's length. A bound applies to each of them. The base of a bound
without a burst bounds bursts too, and leaves their length unbounded: at that rate the guest may run for ever.

Limits in a group are returned unchanged: a group has one set of limits, and a bound would make two. Bytes and
requests are bounded separately. ``size_iops_sec`` is unchanged: a bound counts requests as the limits do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from plimsoll_agent.model.limits import SCOPES, UNITS, VALUE_MAX, Limits, Scope, Unit
from plimsoll_agent.util.frozen import frozen


@frozen
class _Bucket:
    """One limit: its rate, and its rate in a burst of so many seconds; a burst of 0 is none."""

    base: int
    burst: int = 0
    length: int = 0

    @property
    def at_once(self) -> int:
        return self.burst or self.base


_Buckets = Mapping[Scope, _Bucket]
_Bounded = Callable[[_Buckets, _Buckets], _Buckets]
# In place of a missing limit: nothing can exceed it.
_UNLIMITED = _Bucket(VALUE_MAX)


def at_most(limits: Limits, ceiling: Limits) -> Limits:
    """The limits, lowered to the ceiling.

    - Unlimited under a ceiling: the ceiling, with its burst.
    - Both are totals, or both for reads, or both for writes: the lower base. A burst is cut to the ceiling's, and
      dropped if it is then not above the base. A ceiling adds no burst.
    - Reads and writes under a total ceiling: both are kept if the sum of their bases fits, and only their bursts are
      cut in proportion; else there is one total, since QEMU has no total beside reads and writes. **With that total a
      ceiling may raise**: reads alone, or writes alone, may get more than before, but not both together. If only
      reads, or only writes, are limited, and below the ceiling, the other gets the rest.
    - A total under a ceiling for reads or writes: a total within each of them.
    """
    return _each_unit(limits, ceiling, _lowered)


def at_least(limits: Limits, floor: Limits) -> Limits:
    """The limits, raised to the floor; unlimited stays unlimited.

    - Both are totals, or both for reads, or both for writes: the higher base, the higher and longer burst. A burst
      below the new base is raised to it and not dropped: with a burst, QEMU allows a second's worth at once, without
      one a tenth of that.
    - Reads and writes above a total floor: both are kept if their sum reaches it, and only their bursts are raised in
      proportion; else there is one total. If one of them is unlimited, so is their sum.
    - A total above a floor for reads or writes: a total that reaches each of them, not their sum.

    A length is cut if burst × length would exceed 10^15, the most that QEMU can count.
    """
    return _each_unit(limits, floor, _raised)


def _each_unit(limits: Limits, bound: Limits, bucketwise: _Bounded) -> Limits:
    if limits.group_name is not None:
        return limits
    numbers: dict[str, object] = {"size_iops_sec": limits.size_iops_sec}
    for unit in UNITS:
        for scope, bucket in bucketwise(_buckets(limits, unit), _buckets(bound, unit)).items():
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
        if part.base < top.base:  # the other gets the rest: with one total, this part could take all of it
            own = {**own, "write" if scope == "read" else "read": _Bucket(top.base - part.base)}
    parts = [own.get("read", _UNLIMITED), own.get("write", _UNLIMITED)]
    bases = sum(part.base for part in parts)
    if bases > top.base:
        return {"total": _cut_to(_together(parts, min), top)}
    # The bases stay. What the ceiling leaves above them is shared in proportion to the bursts: with one total, reads
    # or writes could take all of it.
    demand, room = sum(part.at_once for part in parts) - bases, top.at_once - bases

    def share(part: _Bucket) -> _Bucket:
        above = part.at_once - part.base
        at_once = part.base + (above if demand <= room else above * room // demand)
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
    """One limit for both parts: their sums, with the shorter or the longer length of their bursts."""
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
    # A floor's burst within the base needs no burst.
    missing = [bottom for bottom in bottoms if bottom.burst > base]
    if not missing and not own.burst:
        return _Bucket(base)
    burst = min(max(own.burst, base, *(bottom.burst for bottom in missing)), VALUE_MAX)
    length = max([own.length, *(bottom.length for bottom in missing)])
    return _Bucket(base, burst, min(length, VALUE_MAX // burst))
