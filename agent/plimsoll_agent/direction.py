"""What one set of limits in the place of another does to a guest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from plimsoll_agent.limits import BASES, UNITS, Limits, Unit


class Direction(StrEnum):
    """What a change does to the guest; one parameter loosened makes it LOOSEN."""

    TIGHTEN = "tighten"
    LOOSEN = "loosen"
    LIFT = "lift"


def direction(before: Limits, after: Limits) -> Direction:
    """Judge a change by what a guest may do after it that it could not before, parameter by parameter."""
    if after.unlimited:
        return Direction.LIFT
    looser = any(_base_looser(before, after, base) for base in BASES)
    # The request size from which one counts as several: none at all (0) is loosest.
    looser = looser or _ceiling(after.size_iops_sec) > _ceiling(before.size_iops_sec)
    # Another group ends the sharing of a limit, and like a lift it drains the disk in QEMU.
    looser = looser or (before.group_name != after.group_name and not before.unlimited)
    return Direction.LOOSEN if looser else Direction.TIGHTEN


def loosest(directions: Iterable[Direction]) -> Direction:
    """The one of them that gives a guest most; there must be one."""
    return max(directions, key=list(Direction).index)


def share_left(before: Limits, after: Limits) -> float:
    """The least share of something that a guest may still do after the change: 0.01 is a cut to a hundredth.

    1.0 where nothing is cut. Reads, writes and both together are each held against what they could do before,
    whatever parameter said so: a total of 30 in the place of reads and writes of 300 each is a cut. What was
    unlimited is not cut by its first limit.
    """
    shares = [
        new / old
        for unit in UNITS
        for reach in (_for_ever, _at_once)
        for old, new in zip(_reaches(before, unit, reach), _reaches(after, unit, reach), strict=True)
        if old != float("inf")
    ]
    if before.size_iops_sec:  # a smaller size from which requests count as several is a cut of the large ones
        shares.append(_ceiling(after.size_iops_sec) / before.size_iops_sec)
    return min([1.0, *shares])


def _reaches(limits: Limits, unit: Unit, reach: Callable[[Limits, str], float]) -> tuple[float, float, float]:
    """What reads, writes and both together may do."""
    total, read, write = (reach(limits, f"{scope}_{unit}_sec") for scope in ("total", "read", "write"))
    return min(total, read), min(total, write), min(total, read + write)


def _for_ever(limits: Limits, base: str) -> float:
    return _ceiling(getattr(limits, base))


def _at_once(limits: Limits, base: str) -> float:
    return _ceiling(getattr(limits, f"{base}_max") or getattr(limits, base))


def _base_looser(before: Limits, after: Limits, base: str) -> bool:
    return any(new > old for new, old in zip(_bounds(after, base), _bounds(before, base), strict=True))


def _bounds(limits: Limits, base: str) -> tuple[float, float, float]:
    """What a guest may do for ever, at once, and in one go; QEMU lets pass a tenth of a second without a burst."""
    rate, peak, length = (getattr(limits, base + ending) for ending in ("", "_max", "_max_length"))
    return (_ceiling(rate), _ceiling(peak or rate), peak * length if peak else _ceiling(rate) / 10)


def _ceiling(value: int) -> float:
    return value or float("inf")
