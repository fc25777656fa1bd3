"""A replay's figures in words."""

from __future__ import annotations

import pytest

from plimsoll_insight.replay.messages import count_words, rate_words, wait_words
from plimsoll_insight.replay.values import FigureRange


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.25, 0.25, "0.2"),
        (9.94, 9.96, "9.9–10"),
        (300, None, "300–?"),
        (9999, 12_345, "9999–12.3 k"),
        (999_700, 1_234_000, "1000 k–1.23 M"),
        (999.6e9, 1e12, "1000 G"),
    ],
)
def test_numbers_of_requests_have_three_digits(low: float, high: float | None, words: str) -> None:
    assert rate_words(FigureRange(low, high)) == words
    if low > 10:
        assert count_words(FigureRange(low, high)) == words


def test_a_wait_is_in_the_largest_unit_of_which_there_are_two() -> None:
    assert [wait_words(FigureRange(seconds, seconds)) for seconds in (0, 0.0123, 1.5, 119, 120, 7200, 172_800)] == [
        "0",
        "12 ms",
        "1.5 s",
        "119 s",
        "2.0 min",
        "2.0 h",
        "2.0 d",
    ]
