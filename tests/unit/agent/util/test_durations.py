"""Spans of time as people write and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from plimsoll_agent.util import durations


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("2h", timedelta(hours=2)),
        ("90m", timedelta(minutes=90)),
        ("1d12h", timedelta(days=1, hours=12)),
        ("45s", timedelta(seconds=45)),
        ("0d30m", timedelta(minutes=30)),
        ("1h1h", timedelta(hours=2)),
        ("36525d", timedelta(days=36525)),
    ],
)
def test_a_span_is_the_sum_of_its_parts(text: str, span: timedelta) -> None:
    assert durations.parse(text) == span


@pytest.mark.parametrize(
    "text", ["", "2", "h", "2 h", " 2h", "2h\n", "-2w", "+2h", "1.5h", "2H", "2w", "2h30", "٢h", "2h,", "1e3s"]
)
def test_what_is_no_span_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write it like 2h"):
        durations.parse(text)


def test_a_span_back_in_time_is_refused_for_its_sign() -> None:
    with pytest.raises(ValueError, match=r"^must be positive, like 1d12h$"):
        durations.parse("-1d12h")


@pytest.mark.parametrize("text", ["0s", "0d0h0m0s", "000000m"])
def test_no_time_at_all_is_no_span(text: str) -> None:
    with pytest.raises(ValueError, match="must be more than 0"):
        durations.parse(text)


@pytest.mark.parametrize("text", ["36525d1s", "999999d", "999999d" * 2000])
def test_a_span_that_would_lead_out_of_the_calendar_is_refused(text: str) -> None:
    """Added to the present time it would be an ``OverflowError``."""
    with pytest.raises(ValueError, match="more than a century"):
        durations.parse(text)


def test_the_longest_span_leads_to_a_date_both_ways() -> None:
    now, longest = datetime(2026, 11, 20, tzinfo=UTC), durations.parse("36525d")
    assert (now - longest).year == 1926
    assert (now + longest).year == 2126


def test_a_number_of_more_digits_than_make_sense_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        durations.parse("1" * 100_000 + "s")


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(hours=1, minutes=20, seconds=59), "1 h 20 min"),
        (timedelta(days=3, hours=4, minutes=5), "3 d 4 h"),
        (timedelta(days=1, minutes=5), "1 d 5 min"),
        (timedelta(hours=2), "2 h"),
        (timedelta(seconds=59, microseconds=999999), "59 s"),
        (timedelta(0), "0 s"),
        (timedelta(microseconds=1), "0 s"),
        (timedelta(seconds=-1), "0 s"),
        (timedelta(days=-1, hours=1), "0 s"),
    ],
)
def test_people_read_the_two_largest_units(span: timedelta, words: str) -> None:
    assert durations.words(span) == words
