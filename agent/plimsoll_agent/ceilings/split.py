"""A ceiling split among those who share it: max-min fair over what each needs. Pure, and in whole numbers.

First each gets what it needs, the smallest needs first, and those who need more than their part have equal parts. If
something is left then, it is shared equally too, so that a disk may use more at once. None gets more than its limit
(``most``), and each at least the ``floor``, so that an idle disk can begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plimsoll_agent.util.frozen import frozen

_ROOM = 1.2
"""A disk needs so many times what it did lately."""
_FLOOR = 10
"""The floor is an equal part, divided by this."""


@frozen
class Need:
    """Of one who shares a ceiling, in requests or bytes per second."""

    most: int
    """Its limit without the ceiling."""
    rate: float | None
    """What it did lately; None is without bound: unknown, or as much as it was allowed."""


def floor(ceiling: int, sharing: int) -> int:
    """The least of each; never 0, which is unlimited."""
    return max(1, ceiling // (_FLOOR * max(1, sharing)))


def split(ceiling: int, needs: Sequence[Need], *, others_have: int = 0, others: int = 0) -> list[int]:
    """What each gets, in their order: together not more than the ceiling without ``others_have``.

    ``others`` share it too, but their limits stay. Beside them each gets at least the floor.
    """
    least = floor(ceiling, len(needs) + others)
    available = max(ceiling - others_have, least * len(needs))
    wants = [
        min(need.most, need.most if need.rate is None else max(least, round(need.rate * _ROOM))) for need in needs
    ]
    parts = _filled(available, wants, [0] * len(needs))
    rest = available - sum(parts)
    if parts != wants or not rest:  # what is left is less than one for each
        return parts
    more = _filled(rest, [need.most for need in needs], parts)
    return [part + extra for part, extra in zip(parts, more, strict=True)]


def _filled(available: int, wants: Sequence[int], have: Sequence[int]) -> list[int]:
    """Equal parts of what is available, for each up to what it wants beyond what it has."""

    def parts(level: int) -> list[int]:
        return [min(want - had, level) for want, had in zip(wants, have, strict=True)]

    return parts(_highest(lambda level: sum(parts(level)) <= available, available))


def _highest(fits: Callable[[int], bool], most: int) -> int:
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        low, most = (middle, most) if fits(middle) else (low, middle - 1)
    return low
