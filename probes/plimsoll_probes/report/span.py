"""The time that a report covers, in columns of equal length."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MOST_COLUMNS = 60
_MOST_TICKS = 8
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_LENGTHS = (
    *(number * _MINUTE for number in (1, 5, 10, 15, 30)),
    *(number * _HOUR for number in (1, 2, 4, 6, 12)),
    *(number * _DAY for number in (1, 2, 7, 14, 30, 90, 365, 1000, 4000)),
)


@dataclass(frozen=True, slots=True)
class Span:
    """From ``since`` on and before ``until``. Columns begin at whole multiples of their length in UTC, so the first
    and the last may reach beyond the span."""

    since: datetime
    until: datetime

    def __post_init__(self) -> None:
        if self.since >= self.until:
            raise ValueError(f"nothing lies between {self.since} and {self.until}")

    @property
    def column(self) -> timedelta:
        """The shortest length that makes no more than ``MOST_COLUMNS`` of it."""
        return self._parted(MOST_COLUMNS)

    @property
    def tick(self) -> timedelta:
        """What lies between two times that are written on a scale."""
        return max(self.column, self._parted(_MOST_TICKS))

    def _parted(self, most: int) -> timedelta:
        # One more where neither end is a whole multiple.
        seconds = (self.until - self.since).total_seconds()
        enough = (length for length in _LENGTHS if math.ceil(seconds / length) < most)
        return timedelta(seconds=next(enough, _LENGTHS[-1]))

    @property
    def columns(self) -> int:
        return self.column_of(self.until - timedelta(microseconds=1)) + 1

    def column_of(self, time: datetime) -> int:
        return math.floor(self.place_of(time))

    def place_of(self, time: datetime) -> float:
        """How many columns after the begin of the first one."""
        length = self.column.total_seconds()
        # The whole ones apart: a column's own begin must not come out a little below it.
        whole, rest = divmod(time.timestamp(), length)
        return whole - self.since.timestamp() // length + rest / length

    def begin_of(self, column: int) -> datetime:
        length = self.column.total_seconds()
        return datetime.fromtimestamp((math.floor(self.since.timestamp() / length) + column) * length, UTC)

    def ticks(self) -> Iterator[tuple[float, datetime]]:
        """The times of a scale within the span, and where they are, counted in columns."""
        step = self.tick.total_seconds()
        number = math.ceil(self.since.timestamp() / step)
        while (time := datetime.fromtimestamp(number * step, UTC)) < self.until:
            yield self.place_of(time), time
            number += 1
