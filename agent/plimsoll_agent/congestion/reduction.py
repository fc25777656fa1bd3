"""The limits that are written while a cluster is congested: ``clamp(x × share, floor, desired)`` of each limit.

The same x for all disks of a cluster and device class makes it weighted max-min fairness: who has more than its part
gives it up first, in proportion to the shares. A share is a number of times the desired limits, 1 or more: with 2 a
disk keeps all of its desired limits until x is 0.5.

Without a floor a disk is never reduced. A floor counts for a limit of the same unit: a limit of reads or writes takes
that of its own direction, else the one for both; a limit for both takes that for both, else the sum of the other two.
"""

from __future__ import annotations

from math import ceil, isfinite

from plimsoll_agent.model.limits import BASES, Limits


def written(desired: Limits, x: float, floor: Limits | None, share: float = 1.0) -> Limits:
    """What is written; with x = 1 it is ``desired`` itself.

    Rates are rounded up, so never to 0, which is unlimited. While x is below 1, a limit that has a floor has no
    burst: it is room that a congested cluster does not have, and every write would grant it again.
    """
    if not 0 < x <= 1:
        raise ValueError(f"x must be above 0 and at most 1, not {x}")
    if not (isfinite(share) and share >= 1):
        raise ValueError(f"a share must be 1 or more, not {share}")
    if x >= 1 or floor is None:
        return desired
    values = desired.full_set()
    for base in BASES:
        least = _floor(floor, base)
        if least and getattr(desired, base):
            rate = getattr(desired, base)
            values |= {base: _part(x * share, rate, least), f"{base}_max": 0, f"{base}_max_length": 0}
    return Limits.from_mapping(values)


def is_reduction(limits: Limits, desired: Limits) -> bool:
    """Whether these may be what is written in place of ``desired``, whatever x, floor and share are."""
    alike = all(getattr(limits, name) == getattr(desired, name) for name in ("size_iops_sec", "group_name"))
    return alike and limits != desired and all(_is_reduced(limits, desired, base) for base in BASES)


def _is_reduced(limits: Limits, desired: Limits, base: str) -> bool:
    rate, whole = getattr(limits, base), getattr(desired, base)
    return (rate == whole or 0 < rate < whole) and limits.has_part(desired, base)


def _part(factor: float, rate: int, least: int) -> int:
    """Digits that are errors of multiplication do not count: 0.1 × 3 × 10 is 3."""
    return min(max(ceil(round(min(factor, 1.0) * rate, 6)), least), rate)


def _floor(floor: Limits, base: str) -> int:
    """0 where there is none."""
    scope, rest = base.split("_", 1)
    own: int = getattr(floor, base)
    if own:
        return own
    if scope != "total":
        return int(getattr(floor, f"total_{rest}"))
    read, write = (int(getattr(floor, f"{part}_{rest}")) for part in ("read", "write"))
    return read + write if read and write else 0
