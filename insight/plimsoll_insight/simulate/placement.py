"""How copies lie on OSDs: placement groups, and what is up with each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from plimsoll_insight.simulate.scenario import SimulatedCluster

T = TypeVar("T")


class SimulatedGroup(Generic[T]):
    """A placement group; ``acting`` are the OSDs that answer, the first of them reads."""

    __slots__ = (
        "absent",
        "acting",
        "are_blocked",
        "clean",
        "members",
        "objects",
        "stale",
        "targets",
        "waiting",
        "written",
    )

    def __init__(self, members: tuple[int, ...], objects: float) -> None:
        self.members = self.acting = members
        self.objects = objects
        self.clean = True
        """Nothing is to be looked at."""
        self.are_blocked = False
        self.absent: set[int] = set()
        self.stale = 0.0
        self.targets: tuple[int, ...] = ()
        self.written = 0
        self.waiting: list[T] = []


def place(cluster: SimulatedCluster, chance: Callable[[], float]) -> list[SimulatedGroup[Any]]:
    """Placement groups: as many different domains as copies, an OSD in each by weight; with ``imbalance`` weights
    differ by as much, up and down.
    """
    weights = [1 + cluster.imbalance * (2 * chance() - 1) for _ in range(cluster.osds)]
    domains: dict[int, list[int]] = {}
    for osd in range(cluster.osds):
        domains.setdefault(cluster.domain_of(osd, cluster.domain), []).append(osd)
    inside = [(osds, _steps([weights[osd] for osd in osds])) for osds in domains.values()]
    steps = _steps([each[-1] for _, each in inside])
    groups: list[SimulatedGroup[Any]] = []
    for _ in range(cluster.groups):
        choice: dict[int, int] = {}
        while len(choice) < cluster.copies:
            number = _choose(steps, chance())
            if number not in choice:
                osds, within = inside[number]
                choice[number] = osds[_choose(within, chance())]
        groups.append(SimulatedGroup(tuple(choice.values()), cluster.objects / cluster.groups))
    return groups


def _steps(weights: Sequence[float]) -> list[float]:
    steps = [0.0]
    for weight in weights:
        steps.append(steps[-1] + weight)
    return steps


def _choose(steps: Sequence[float], point: float) -> int:
    return min(bisect_right(steps, point * steps[-1]), len(steps) - 1) - 1
