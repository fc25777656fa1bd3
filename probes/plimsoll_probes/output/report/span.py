"""The time that a report covers, in columns of equal length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from plimsoll_agent.util.frozen import frozen

MOST_COLUMNS = 60
_MOST_TICKS = 8
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_ON_TIME = 0.95
"""A run that is due begins a little sooner or later."""
_LENGTHS = (
    *(number * _MINUTE for number in (1, 5, 10, 15, 30)),
    *(number * _HOUR for number in (1, 2, 3, 4, 6, 8, 12)),
    *(number * _DAY for number in (1, 2, 7, 14, 30, 90, 365, 1000, 4000)),
)


def usual(intervals: Iterable[timedelta]) -> timedelta:
    """The interval at which nine of ten guests are probed, or more often; 0 where there is none."""
    order = sorted(intervals)
    return order[math.ceil(0.9 * len(order)) - 1] if order else timedelta()


@frozen
class ReportPeriod:
    """From ``since`` to before ``until``. Columns begin at whole multiples of their length in UTC, so the first and
    the last may extend beyond the span; a page shows them from ``begin`` to ``end``."""

    since: datetime
    until: datetime
    apart: timedelta = timedelta()
    """How far apart the runs of a guest usually are: no column is shorter, or every other one would be empty."""

    def __post_init__(self) -> None:
        if self.since >= self.until:
            raise ValueError(f"an empty span: {self.since} to {self.until}")

    @property
    def column(self) -> timedelta:
        """The shortest length with at most ``MOST_COLUMNS`` columns, and a run of each guest in each."""
        return self._part(MOST_COLUMNS, _ON_TIME * self.apart.total_seconds())

    @property
    def tick(self) -> timedelta:
        """The time between two labels of the scale."""
        return max(self.column, self._part(_MOST_TICKS))

    def _part(self, most: int, least: float = 0) -> timedelta:
        # There is one more where neither end is a whole multiple.
        seconds = (self.until - self.since).total_seconds()
        enough = (length for length in _LENGTHS if length >= least and math.ceil(seconds / length) < most)
        return timedelta(seconds=next(enough, _LENGTHS[-1]))

    @property
    def columns(self) -> int:
        return self.column_of(self.until - timedelta(microseconds=1)) + 1

    @property
    def begin(self) -> float:
        return self.place_of(self.since)

    @property
    def end(self) -> float:
        return self.place_of(self.until)

    def middle(self, column: int) -> float:
        """Of what is shown of a column."""
        return (max(column, self.begin) + min(column + 1, self.end)) / 2

    def column_of(self, time: datetime) -> int:
        return math.floor(self.place_of(time))

    def place_of(self, time: datetime) -> float:
        """How many columns after the start of the first one."""
        length = self.column.total_seconds()
        # Whole columns are counted as integers, so that rounding cannot put a column's start into the one before.
        whole, rest = divmod(time.timestamp(), length)
        return whole - self.since.timestamp() // length + rest / length

    def ticks(self) -> Iterator[tuple[float, datetime]]:
        """The labels of the scale within the span, with their places in columns."""
        step = self.tick.total_seconds()
        number = math.ceil(self.since.timestamp() / step)
        while (time := datetime.fromtimestamp(number * step, UTC)) < self.until:
            yield self.place_of(time), time
            number += 1
