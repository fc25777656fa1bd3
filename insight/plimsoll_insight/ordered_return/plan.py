"""In which order OSDs return: those first that bring placement groups back to service. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.forecast.ranges import Range, add, times
from plimsoll_insight.ordered_return.cluster import ReturnGroup

BOOT = Range(5.0, 60.0)
"""Seconds from the start of an OSD until the monitors take it for up: an assumption, it reads its metadata first."""


@frozen(kw_only=True)
class Returning:
    """An OSD that is to return. None is unknown."""

    number: int
    host: str
    away: float | None
    """Seconds."""
    condition: str | None = None
    """Of its unit, such as ``failed (oom-kill)``."""
    groups: int = 0
    memory: Range | None = None
    """From what it holds in peace to its peak, in bytes."""


@frozen
class Wave:
    osds: tuple[int, ...]
    served: int
    """Inactive placement groups that become active by it."""


@frozen(kw_only=True)
class WavePlan:
    returning: Mapping[int, Returning]
    waves: tuple[Wave, ...]
    inactive: int
    """Placement groups that serve no request now."""
    seconds: Range | None
    """Of all waves, until the last has peered and its memory has peaked."""
    up: frozenset[int]
    """OSDs that were up when it was made."""

    def host_of(self, osd: int) -> str:
        return self.returning[osd].host


def plan(
    returning: Collection[Returning],
    groups: Mapping[str, ReturnGroup],
    whole: Mapping[str, tuple[int, ...]],
    least: Mapping[str, int],
    up: Collection[int],
    *,
    per_host: int,
    at_once: int,
    wave_seconds: Range | None,
) -> WavePlan:
    """``whole`` has the OSDs of each group while all are up, ``least`` the ``min_size`` of each pool."""
    osds = {one.number: one for one in returning}
    needs = {
        id: max(least[id.partition(".")[0]] - sum(osd in up for osd in whole[id]), 1)
        for id, group in groups.items() if group.is_inactive and id in whole
    }  # fmt: skip
    order = _Order(osds, whole, needs)
    waves = tuple(order.waves(per_host, at_once))
    seconds = None if wave_seconds is None else times(wave_seconds, Range(len(waves), len(waves)))
    return WavePlan(
        returning=osds,
        waves=waves,
        inactive=sum(group.is_inactive for group in groups.values()),
        seconds=seconds,
        up=frozenset(up),
    )


class _Order:
    """Picks the OSDs one after the other."""

    def __init__(
        self, osds: Mapping[int, Returning], whole: Mapping[str, tuple[int, ...]], needs: dict[str, int]
    ) -> None:
        self._osds, self._needs = osds, needs
        self._groups: dict[int, list[str]] = {number: [] for number in osds}
        for id, members in whole.items():
            for osd in members:
                if osd in osds:
                    self._groups[osd].append(id)

    def waves(self, per_host: int, at_once: int) -> list[Wave]:
        waves = []
        rest = set(self._osds)
        while rest:
            wave: list[int] = []
            service = 0
            room = {one.host: per_host for one in self._osds.values()}
            while len(wave) < at_once and (choices := [osd for osd in rest if room[self._osds[osd].host]]):
                best = max(choices, key=self._rank)
                service += self._take(best)
                room[self._osds[best].host] -= 1
                wave.append(best)
                rest.remove(best)
            waves.append(Wave(tuple(wave), service))
        return waves

    def _rank(self, osd: int) -> tuple[float, ...]:
        """Groups that it brings to service, groups that need it and others, all its groups; then who was away for the
        shortest time, and so has the least to catch up.
        """
        needs = [self._needs[id] for id in self._groups[osd] if id in self._needs]
        away = self._osds[osd].away
        away = math.inf if away is None else away
        return sum(need == 1 for need in needs), len(needs), -away, len(self._groups[osd]), -osd

    def _take(self, osd: int) -> int:
        service = 0
        for id in self._groups[osd]:
            if id in self._needs:
                self._needs[id] -= 1
                if not self._needs[id]:
                    del self._needs[id]
                    service += 1
        return service


def wave_seconds(peering: Range | None, steady: float) -> Range | None:
    """Of one wave: its start, its peering, and the time in which its memory must not grow."""
    return None if peering is None else add(add(BOOT, peering), Range(steady, steady))


def fits(
    plan: WavePlan, wave: Sequence[int], available: Mapping[str, float | None], use: Mapping[str, float]
) -> dict[int, bool | None]:
    """By the forecast, of each OSD of a wave, where ``available`` bytes are free for OSDs on each host, and those of
    earlier waves have ``use`` of it since. None is unknown.
    """
    answer: dict[int, bool | None] = {}
    peaks = dict(use)
    for osd in wave:
        one = plan.returning[osd]
        free = available.get(one.host)
        if free is None or one.memory is None:
            answer[osd] = None
            continue
        peaks[one.host] = peaks.get(one.host, 0.0) + one.memory.high
        answer[osd] = peaks[one.host] <= free
    return answer
