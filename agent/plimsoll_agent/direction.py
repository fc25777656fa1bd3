"""What one set of limits in the place of another does to a guest. Pure."""

from __future__ import annotations

from enum import StrEnum

from plimsoll_agent.limits import BASES, Limits


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


def cut_by_more_than_half(before: Limits, after: Limits) -> bool:
    """Whether a guest may do less than half of something after the change, for ever or at once.

    A smaller size from which requests count as several is a cut of the large ones.
    """
    return _ceiling(after.size_iops_sec) < _ceiling(before.size_iops_sec) / 2 or any(
        new < old / 2
        for base in BASES
        for new, old in zip(_bounds(after, base)[:2], _bounds(before, base)[:2], strict=True)
    )


def _base_looser(before: Limits, after: Limits, base: str) -> bool:
    return any(new > old for new, old in zip(_bounds(after, base), _bounds(before, base), strict=True))


def _bounds(limits: Limits, base: str) -> tuple[float, float, float]:
    """What a guest may do for ever, at once, and in one go; QEMU lets pass a tenth of a second without a burst."""
    rate, peak, length = (getattr(limits, base + ending) for ending in ("", "_max", "_max_length"))
    return (_ceiling(rate), _ceiling(peak or rate), peak * length if peak else _ceiling(rate) / 10)


def _ceiling(value: int) -> float:
    return value or float("inf")
