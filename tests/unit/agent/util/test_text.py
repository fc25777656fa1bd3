"""Text on its way to a person."""

from __future__ import annotations

from plimsoll_agent.util.text import meant, nearest, plural


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
