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


NONE = [
    "",
    "2",
    "h",
    "2 h",
    " 2h",
    "2h\n",
    "-2w",
    "+2h",
    "1.5h",
    "2H",
    "2w",
    "2h30",
    "٢h",
    "2h,",
    "1e3s",
    "1" * 100_000 + "s",
]
OUT_OF_THE_CALENDAR = ["36525d1s", "999999d", "999999d" * 2000]  # the present time and this is an OverflowError


@pytest.mark.parametrize(
    ("words", "text"),
    [
        *(("is not a duration; write it like 2h", text) for text in NONE),
        ("^must be positive, like 1d12h$", "-1d12h"),
        *(("must be more than 0", text) for text in ("0s", "0d0h0m0s", "000000m")),
        *(("more than a century", text) for text in OUT_OF_THE_CALENDAR),
    ],
)
def test_what_is_no_span_is_refused_with_the_reason(words: str, text: str) -> None:
    with pytest.raises(ValueError, match=words):
        durations.parse(text)


def test_the_longest_span_leads_to_a_date_both_ways() -> None:
    now, longest = datetime(2026, 11, 20, tzinfo=UTC), durations.parse("36525d")
    assert (now - longest).year == 1926
    assert (now + longest).year == 2126


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
