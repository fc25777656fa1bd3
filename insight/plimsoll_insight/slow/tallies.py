"""Numbers by OSD and interval, or by OSD and name, that stay few however long the log is."""

from __future__ import annotations

from collections import Counter
from typing import Generic, TypeVar, cast

MOST_BY_OSD = 50_000
_LONGEST = 60 << 20
_Name = TypeVar("_Name", bound=str | int)


class OsdIntervals:
    """Counts by interval and OSD: at most ``most``, of intervals that get twice as long when there are more."""

    def __init__(self, width: float, most: int) -> None:
        """``width``: in seconds."""
        self.width, self._most = width, most
        self.counts: Counter[tuple[int, int]] = Counter()

    def add(self, time: float, osd: int, number: int) -> None:
        key = int(time // self.width), osd
        now = self.counts.get(key, 0) + number
        if now:
            self.counts[key] = now
        else:
            self.counts.pop(key, None)
        while len(self.counts) > self._most and self.width < _LONGEST:
            self.widen()

    def as_wide_as(self, width: float) -> Counter[tuple[int, int]]:
        """The counts of intervals that are longer by a power of two."""
        wider: Counter[tuple[int, int]] = Counter()
        for (interval, osd), count in self.counts.items():
            wider[int(interval * self.width // width), osd] += count
        return wider

    def widen(self) -> None:
        self.counts = self.as_wide_as(2 * self.width)
        self.width *= 2


class CountsByOsd(Generic[_Name]):
    """Counts by OSD and name; what is beyond ``MOST_BY_OSD`` of them is ``other``."""

    def __init__(self) -> None:
        self.of: dict[int, Counter[_Name]] = {}
        self._known = 0

    def add(self, osd: int, name: _Name, number: int = 1) -> None:
        if number <= 0:
            return
        counts = self.of.get(osd)
        if counts is None:
            counts = self.of[osd] = Counter()
        if name not in counts:
            name = name if self._known < MOST_BY_OSD else cast(_Name, "other")
            self._known += 1
        counts[name] += number

    def number(self, osd: int) -> int:
        return self.of[osd].total() if osd in self.of else 0

    @property
    def of_all(self) -> Counter[_Name]:
        whole: Counter[_Name] = Counter()
        for counts in self.of.values():
            whole.update(counts)
        return whole
