"""Guests that the rules choose and that nobody probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from plimsoll_probes.chosen import ChosenTarget

_GRACE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Late:
    """A target that was due twice, and was not begun. ``last`` is when it last was; None is not known."""

    target: ChosenTarget
    last: datetime | None


def late(
    targets: Iterable[ChosenTarget], begun: Mapping[tuple[str, str], datetime], now: datetime
) -> tuple[Late, ...]:
    """As the alert PlimsollProbesLate has it: twice its time and an hour since it began, or was chosen. The longest
    waiting come first. ``begun`` is by the guest's uuid and the directory.
    """
    waiting = [
        Late(target, begun.get(target.key))
        for target in targets
        if now - max(begun.get(target.key, target.since), target.since) > 2 * target.every + _GRACE
    ]
    return tuple(sorted(waiting, key=lambda each: (each.last or each.target.since, each.target.key)))
