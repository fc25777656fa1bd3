"""Finds targets that the rules choose and that are not probed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.schedule.targets import ChosenTarget


@frozen
class Late:
    """A target that was due twice and did not begin. ``last`` is when it last began; None where unknown.

    ``boot`` is the start of the node: what was missed while it was off is not made up for.
    """

    target: ChosenTarget
    last: datetime | None
    boot: datetime | None = None

    @property
    def since(self) -> datetime:
        """When it last began, it was chosen, or the node was started, whichever is latest."""
        return max(moment for moment in (self.last, self.target.since, self.boot) if moment is not None)


def late(
    targets: Iterable[ChosenTarget],
    starts: Mapping[tuple[str, str], datetime],
    now: datetime,
    boot: datetime | None = None,
) -> tuple[Late, ...]:
    """The longest overdue first. ``starts`` is by the guest's uuid and the directory."""
    waiting = [Late(target, starts.get(target.key), boot) for target in targets]
    overdue = [each for each in waiting if now - each.since > 2 * each.target.every]
    return tuple(sorted(overdue, key=lambda each: (each.since, each.target.key)))
