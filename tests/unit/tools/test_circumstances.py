"""The dates and orders in which a soak runs the tests."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.circumstances import of_today

AFTERNOON, LATE = datetime(2026, 11, 28, 14, tzinfo=UTC), datetime(2028, 2, 29, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize("today", [AFTERNOON, LATE])
def test_dates_are_those_that_they_are_called(today: datetime) -> None:
    known = of_today(today, 7)
    midnight, leap_day = known["midnight"].at, known["leap-day"].at
    assert midnight is not None
    assert leap_day is not None
    assert midnight > today
    assert f"{midnight:%H:%M:%S}" == "23:59:30"
    assert leap_day > today
    assert f"{leap_day:%m-%d}" == "02-29"


def test_an_order_that_failed_can_be_had_again() -> None:
    words = of_today(AFTERNOON, 7)["order"].words
    assert "--random-order-seed=7" in words
