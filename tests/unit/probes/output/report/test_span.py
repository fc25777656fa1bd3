"""The time that a report covers: columns and scale."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_probes.output.report.span import MOST_COLUMNS, ReportPeriod, usual
from tests.unit.values import NOON, examples

MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
A_SECOND = timedelta(seconds=1)


@examples
@given(MOMENTS, MOMENTS, st.floats(0, 1, exclude_max=True))
def test_every_moment_of_a_span_lies_in_a_column_of_the_page(one: datetime, other: datetime, part: float) -> None:
    span = ReportPeriod(min(one, other), max(one, other) + A_SECOND)
    moment = min(span.since + (span.until - span.since) * part, span.until - timedelta(microseconds=1))
    column = span.column_of(moment)
    assert 0 <= column < span.columns <= MOST_COLUMNS
    assert column <= span.place_of(moment) < column + 1


@examples
@given(MOMENTS, st.integers(1, 10**9))
def test_the_scale_has_few_times_and_all_of_them_within(since: datetime, seconds: int) -> None:
    span = ReportPeriod(since, since + timedelta(seconds=seconds))
    ticks = list(span.ticks())
    assert len(ticks) <= 8
    for place, time in ticks:
        assert span.since <= time < span.until
        assert 0 <= place <= span.columns


def test_a_week_is_parted_where_the_clock_shows_whole_hours() -> None:
    span = ReportPeriod(NOON - timedelta(days=7, minutes=20), NOON - timedelta(minutes=20))
    assert span.column == timedelta(hours=3)
    assert [f"{time:%H:%M}" for _, time in span.ticks()] == ["00:00"] * 7


@pytest.mark.parametrize(
    ("days", "apart", "column"),
    [(7, 8, 8), (7, 7.9, 8), (7, 8.1, 8), (30, 8, 24), (7, 24, 24), (7, 1, 3), (1, 0.25, 0.5)],
)
def test_columns_are_as_wide_as_runs_are_apart(days: float, apart: float, column: float) -> None:
    """Runs every 8 h in columns of 4 h would be in every other one."""
    span = ReportPeriod(NOON - timedelta(days=days), NOON, timedelta(hours=apart))
    assert span.column == timedelta(hours=column)
    begun = [NOON - number * timedelta(hours=apart) for number in range(1, int(days * 24 / apart))]
    assert len({span.column_of(each) for each in begun}) >= len(begun) * min(1, apart / column) - 2


def test_the_usual_interval_is_that_of_nearly_all_guests() -> None:
    eight, day = timedelta(hours=8), timedelta(days=1)
    assert usual([eight] * 9 + [timedelta(days=90)]) == eight
    assert usual([eight] * 8 + [day] * 2) == day
    assert usual([]) == timedelta()


def test_a_span_in_which_nothing_can_lie_is_refused() -> None:
    with pytest.raises(ValueError, match="an empty span"):
        ReportPeriod(NOON, NOON)
