"""Whether a change of limits raises, lowers or removes them, and by how much. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

from plimsoll_agent.model.limits import BASES, UNITS, Limits, Unit, limits_requests, of_unit

_LARGE = 2**20
"""Bytes of a large request: about the most that a guest's kernel sends in one."""
_SECTOR = 512
"""Bytes of the smallest request."""
LOWEST: Mapping[Unit, int] = {"iops": 10, "bytes": 2**20}
"""No limit that is meant is lower."""
SMALL_RAISE = 1.5
"""A raise to so many times as much, or less, is counted by no brake."""


class Direction(StrEnum):
    """What a change does, in the order of what it allows; if any parameter is raised, it is RAISE."""

    LOWER = "lower"
    RESTORE = "restore"
    """Back towards what the disk has without a reduction under congestion, and not above it."""
    RAISE = "raise"
    REMOVE = "remove"

    @property
    def allows_more(self) -> bool:
        """Whether a guest may get more than plimsoll let it have before: a restore only ends a reduction."""
        return self in (Direction.RAISE, Direction.REMOVE)

    @classmethod
    def _missing_(cls, value: object) -> Direction | None:
        """The names in the record of 0.1.0."""
        return {"tighten": cls.LOWER, "loosen": cls.RAISE, "lift": cls.REMOVE}.get(str(value))


def direction(before: Limits, after: Limits) -> Direction:
    """The direction of a change: RAISE if any parameter allows more than before."""
    if after.unlimited:
        return Direction.REMOVE
    more = any(_base_raised(before, after, base) for base in BASES)
    # The size from which a request counts as several; 0, none at all, allows most.
    more = more or _ceiling(after.size_iops_sec) > _ceiling(before.size_iops_sec)
    more = more or drains(before, after)  # another group ends the sharing of a limit, too
    return Direction.RAISE if more else Direction.LOWER


def drains(before: Limits, after: Limits) -> bool:
    """Whether the change makes QEMU drain the disk, so that all requests that wait for the limit pass at once.

    It does so where a disk leaves a throttle group, and each disk with limits is in one, if by itself
    (``blk_io_limits_disable`` in QEMU's block/block-backend.c).
    """
    return not before.unlimited and (after.unlimited or before.group_name != after.group_name)


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


def times_more(before: Limits, after: Limits) -> float:
    """How many times as much a disk may do of what is raised most: 1.0 is no raise, infinity is no limit any more.

    Compared as by ``share_left``, but for what is possible at once: a burst counts by what it adds within a minute. A
    limit of bytes bounds requests too, and the reverse, so one that is dropped beside another counts by that.
    """
    times = [
        new / old
        for reach in (_for_ever, _in_a_minute)
        for old, new in zip(_together(before, reach), _together(after, reach), strict=True)
        if old != float("inf")
    ]
    return max([1.0, *times])


def _together(limits: Limits, reach: Callable[[Limits, str], float]) -> Iterator[float]:
    """How many requests and bytes reads, writes and both may do, by the limits of both units."""
    # QEMU counts a request as its size over size_iops_sec if it is larger, else as one (throttle_compute_units).
    largest = min(limits.size_iops_sec or _LARGE, _LARGE)
    for requests, of_bytes in zip(_reaches(limits, "iops", reach), _reaches(limits, "bytes", reach), strict=True):
        yield min(requests, of_bytes / _SECTOR)
        yield min(of_bytes, requests * largest)


def added_limits(before: Limits, after: Limits) -> dict[Unit, float]:
    """The units of which reads, writes or both had no limit and get one, with the least that they may do then."""
    least: dict[Unit, float] = {}
    for unit in UNITS:
        pairs = zip(_reaches(before, unit, _for_ever), _reaches(after, unit, _for_ever), strict=True)
        new = [its for had, its in pairs if its < had == float("inf")]
        if new:
            least[unit] = min(new)
    return least


def dropped(before: Limits, after: Limits) -> tuple[str, ...]:
    """The limits of ``before`` without which reads, writes or both have none of their unit in ``after``."""
    units = added_limits(after, before)
    return tuple(name for unit in units for name in of_unit(before, unit).rates() if not getattr(after, name))


def too_low(before: Limits, after: Limits, lowest: Mapping[Unit, int]) -> tuple[Unit, ...]:
    """The units of which a limit is set, or lowered, to less than ``lowest``; from ``Limits()`` all that are less.

    Where ``size_iops_sec`` counts a large request as several, a limit of requests is one of bytes too.
    """
    return tuple(
        unit
        for unit in UNITS
        if any(
            new < min(old, lowest[unit])
            for old, new in zip(_lasting(before, unit), _lasting(after, unit), strict=True)
        )
    )


def _lasting(limits: Limits, unit: Unit) -> tuple[float, ...]:
    """How much reads, writes and both together may do, by any limit."""
    reaches = _reaches(limits, unit, _for_ever)
    if unit == "iops" or not limits.size_iops_sec:
        return reaches
    requests = _reaches(limits, "iops", _for_ever)
    return tuple(min(its, number * limits.size_iops_sec) for its, number in zip(reaches, requests, strict=True))


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
