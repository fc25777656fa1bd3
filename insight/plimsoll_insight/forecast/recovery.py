"""How OSDs that returned get the objects that they missed: which placement groups recover at once, and how fast.

Pure.

As in Ceph since Nautilus. A placement group recovers while its primary has one of its ``osd_max_backfills`` places
for it, and each of its other OSDs has one of as many places for those of other primaries (``PeeringState``,
``WaitLocalRecoveryReserved`` and ``WaitRemoteRecoveryReserved``). A group has one object under way
(``osd_recovery_max_single_start``), all groups of a primary together ``osd_recovery_max_active``
(``OSDService::_maybe_queue_recovery``); before each object its primary sleeps, no matter for which group
(``OSD::do_recovery``).
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from itertools import count, cycle

from plimsoll_agent.util.frozen import frozen

ASYNC_COST = 100
"""Missing log entries of a group from which the OSD that returned is left out of it until it has all
(``osd_async_recovery_min_cost``), if the others are ``min_size``: another OSD is the primary until then."""


@frozen(kw_only=True)
class PlacementGroup:
    """A placement group with a copy that is out of date."""

    osds: tuple[int, ...]
    """The primary first."""
    lost: frozenset[int]
    part: float
    """Of the objects of all these groups."""
    can_wait: bool = True
    """It has ``min_size`` copies without the lost ones."""

    def recovering(self, missing: float) -> tuple[int, tuple[int, ...]]:
        """Its primary while it recovers, and its other OSDs."""
        stay = [osd for osd in self.osds if osd not in self.lost]
        if self.can_wait and stay and missing > ASYNC_COST:
            return stay[0], tuple(osd for osd in self.osds if osd != stay[0])
        return self.osds[0], self.osds[1:]


@frozen(kw_only=True)
class RecoveryPace:
    """Of every OSD; seconds."""

    each: float
    """To read an object, to send it and to write it."""
    sleep: float
    active: float
    places: float
    """``osd_max_backfills``."""

    def rate(self, groups: int) -> float:
        """Objects a second of a primary with so many groups that recover."""
        under_way = min(groups, self.active) / (self.sleep + self.each)
        return min(under_way, 1 / self.sleep) if self.sleep else under_way


def seconds(groups: Sequence[PlacementGroup], objects: float, pace: RecoveryPace) -> float:
    """Until all ``objects``, spread over the groups by their parts, are recovered."""
    places = max(int(pace.places), 1)
    queues: dict[int, deque[int]] = {}
    of = [group.recovering(group.part * objects) for group in groups]
    for number, (primary, _) in enumerate(of):
        queues.setdefault(primary, deque()).append(number)
    remainder = [group.part * objects for group in groups]
    own: Counter[int] = Counter()
    others: Counter[int] = Counter()
    asking: list[int] = []
    running: list[int] = []
    time = 0.0
    free = set(queues)
    while True:
        for primary in sorted(free):
            while queues[primary] and own[primary] < places:
                own[primary] += 1
                asking.append(queues[primary].popleft())
        free.clear()
        for number in tuple(asking):
            if all(others[osd] < places for osd in of[number][1]):
                others.update(of[number][1])
                asking.remove(number)
                running.append(number)
        if not running:
            return time
        at_once = Counter(of[number][0] for number in running)
        speed = {primary: pace.rate(groups) / groups for primary, groups in at_once.items()}
        step = min(remainder[number] / speed[of[number][0]] for number in running)
        time += step
        for number in tuple(running):
            primary, rest = of[number]
            remainder[number] -= step * speed[primary]
            if remainder[number] <= 1e-9 * objects:
                running.remove(number)
                own[primary] -= 1
                others.subtract(rest)
                free.add(primary)


def evenly(losses: int, stay: int | None, copies: int, groups: int) -> list[PlacementGroup]:
    """Of a cluster of which only the numbers are known: each of the ``losses`` OSDs has so many groups, is the
    primary of one in ``copies`` of them, and shares each with the next of those that ``stay``, or with one without
    others.
    """
    partners = cycle(range(losses, losses + stay)) if stay else count(losses)
    layout = []
    for number in range(groups):
        for osd in range(losses):
            with_it = [next(partners) for _ in range(copies - 1)]
            with_it.insert(number % copies, osd)
            layout.append(PlacementGroup(osds=tuple(with_it), lost=frozenset((osd,)), part=1 / (losses * groups)))
    return layout


def per_second(groups: Sequence[PlacementGroup], objects: float, pace: RecoveryPace) -> float:
    """Objects a second, on average over the whole recovery."""
    took = seconds(groups, objects, pace)
    return objects / took if took else math.inf
