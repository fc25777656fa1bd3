"""Guests that the rules choose and that nobody probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from plimsoll_probes.chosen import ChosenTarget


@dataclass(frozen=True, slots=True)
class Late:
    """A target that was due twice, and was not begun. ``last`` is when it last was; None is not known."""

    target: ChosenTarget
    last: datetime | None

    @property
    def since(self) -> datetime:
        """When it began last, or was chosen if that is later: a target is given its time."""
        return self.target.since if self.last is None else max(self.last, self.target.since)


def late(
    targets: Iterable[ChosenTarget], begun: Mapping[tuple[str, str], datetime], now: datetime
) -> tuple[Late, ...]:
    """The longest waiting come first. ``begun`` is by the guest's uuid and the directory."""
    waiting = [Late(target, begun.get(target.key)) for target in targets]
    found = [each for each in waiting if now - each.since > 2 * each.target.every]
    return tuple(sorted(found, key=lambda each: (each.since, each.target.key)))
