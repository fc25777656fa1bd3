"""Text on its way to a person."""

from __future__ import annotations

import pytest

from plimsoll_agent.util.text import meant, nearest, plural, ranged, rounded


def test_one_thing_stands_in_the_singular_and_none_as_many() -> None:
    assert [plural(number, "disk") for number in (0, 1, 2)] == ["0 disks", "1 disk", "2 disks"]
    assert plural("no", "rule") == "no rules"
    assert plural(2, "refresh", "refreshes") == "2 refreshes"


def test_the_nearest_word_is_found_whatever_its_case() -> None:
    assert nearest("gold-ssd", ["GOLD-SSD", "silver"]) == "GOLD-SSD"
    assert nearest("PROJCT", ["pool", "project"]) == "project"
    assert nearest("volume", ["project"]) is None


def test_all_that_is_known_is_told_where_nothing_is_near() -> None:
    assert meant("limts", ["limits", "floor"]) == "did you mean limits?"
    assert meant("x", ["limits", "floor"]) == "known are limits, floor"


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ("20 s", "29 s", "20–29 s"),
        ("20 s", "20 s", "20 s"),
        ("800 ms", "1.6 s", "800 ms–1.6 s"),
        ("1 min 20 s", "2 min 29 s", "1 min 20 s–2 min 29 s"),
        ("3", "?", "3–?"),
    ],
)
def test_a_range_has_the_unit_that_both_ends_have_once(low: str, high: str, words: str) -> None:
    assert ranged(low, high) == words


def test_three_digits_have_no_exponent() -> None:
    assert [rounded(value) for value in (0.0, 0.01234, 38.44, 999.7, 1234.0, 7_654_321.0)] == [
        "0",
        "0.0123",
        "38.4",
        "1000",
        "1230",
        "7650000",
    ]
