"""Whether a change of limits raises, lowers or removes them, and by how much. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from plimsoll_agent.model.limits import BASES, UNITS, Limits, Unit, limits_requests

_LARGE = 2**20
"""Bytes of a large request: about the most that a guest's kernel sends in one."""


class Direction(StrEnum):
    """What a change does; if any parameter is raised, it is RAISE."""

    LOWER = "lower"
    RAISE = "raise"
    REMOVE = "remove"

    @classmethod
    def _missing_(cls, value: object) -> Direction | None:
        """The names in the record of 0.1.0."""
        return {"tighten": cls.LOWER, "loosen": cls.RAISE, "lift": cls.REMOVE}.get(str(value))


def direction(before: Limits, after: Limits) -> Direction:
    """The direction of a change: RAISE if any parameter allows more than before."""
    if after.unlimited:
        return Direction.REMOVE
    raised = any(_base_raised(before, after, base) for base in BASES)
    # The size from which a request counts as several; 0, none at all, allows most.
    raised = raised or _ceiling(after.size_iops_sec) > _ceiling(before.size_iops_sec)
    # Another group ends the sharing of a limit. Like a removal, it makes QEMU drain the disk.
    raised = raised or (before.group_name != after.group_name and not before.unlimited)
    return Direction.RAISE if raised else Direction.LOWER


def most_permissive(directions: Iterable[Direction]) -> Direction:
    """The one that allows a guest most; ``directions`` must not be empty."""
    return max(directions, key=list(Direction).index)


def share_left(before: Limits, after: Limits) -> float:
    """The share that is left of the limit that is cut most: 0.01 is a cut to 1 %, 1.0 is no cut.

    Reads, writes and both together are compared by what they may do, whichever parameter limits them: a total of 30
    in place of reads and writes of 300 each is a cut. A first limit on something unlimited is not a cut. A change of
    ``size_iops_sec`` counts by how many requests a large one becomes.
    """
    shares = [
        new / old
        for unit in UNITS
        for reach in (_for_ever, _at_once, _in_a_minute)
        for old, new in zip(_reaches(before, unit, reach), _reaches(after, unit, reach), strict=True)
        if old != float("inf")
    ]
    if limits_requests(before) and limits_requests(after):
        shares.append(_counts_as(before.size_iops_sec) / _counts_as(after.size_iops_sec))
    return min([1.0, *shares])


def _counts_as(size_iops_sec: int) -> float:
    """As how many requests a large one counts."""
    return max(1.0, _LARGE / size_iops_sec) if size_iops_sec else 1.0


def _reaches(limits: Limits, unit: Unit, reach: Callable[[Limits, str], float]) -> tuple[float, float, float]:
    """How much reads, writes and both together may do."""
    total, read, write = (reach(limits, f"{scope}_{unit}_sec") for scope in ("total", "read", "write"))
    return min(total, read), min(total, write), min(total, read + write)


def _for_ever(limits: Limits, base: str) -> float:
    return _ceiling(getattr(limits, base))


def _at_once(limits: Limits, base: str) -> float:
    return _ceiling(getattr(limits, f"{base}_max") or getattr(limits, base))


def _in_a_minute(limits: Limits, base: str) -> float:
    rate, peak, length = (int(getattr(limits, base + ending)) for ending in ("", "_max", "_max_length"))
    burst = min(length, 60)  # 0 without a peak
    return _ceiling(rate) * (60 - burst) + peak * burst


def _base_raised(before: Limits, after: Limits, base: str) -> bool:
    return any(new > old for new, old in zip(_bounds(after, base), _bounds(before, base), strict=True))


def _bounds(limits: Limits, base: str) -> tuple[float, float, float]:
    """The rate, the peak rate, and the size of a burst; without a burst, QEMU allows a tenth of a second at once."""
    rate, peak, length = (getattr(limits, base + ending) for ending in ("", "_max", "_max_length"))
    return (_ceiling(rate), _ceiling(peak or rate), peak * length if peak else _ceiling(rate) / 10)


def _ceiling(value: int) -> float:
    return value or float("inf")
