"""What a run says at its end of its time, and of tests that passed at their second try only."""

from __future__ import annotations

import pytest
import times


def test_a_part_shows_its_ten_slowest_tests_and_is_told_where_it_is_a_third_over_its_budget() -> None:
    part = times.Part("unit", 134.0, {f"test_{number}": float(number) for number in range(12)})
    shown = list(times.lines([part], {"unit": 100.0}))
    assert shown[0] == "unit: 134 s, budget 100 s"
    assert [line.split()[-1] for line in shown[1:11]] == [f"test_{number}" for number in range(11, 1, -1)]
    assert shown[11:] == ["warning: unit took 134 s, 34 % over its budget (tests/budget.txt)", "flaked: 0"]


def test_up_to_a_third_over_its_budget_is_no_warning() -> None:
    shown = list(times.lines([times.Part("unit", 133.0, {})], {"unit": 100.0}))
    assert shown == ["unit: 133 s, budget 100 s", "flaked: 0"]


def test_each_flaked_test_is_named_once() -> None:
    parts = [times.Part("lab", 1.0, {}, ("b", "a")), times.Part("unit", 1.0, {}, ("a",))]
    assert list(times.lines(parts, {}))[2:] == ["  a", "  b", "flaked: 2"]


def test_the_budget_has_every_part_of_a_run() -> None:
    """Else a part may grow without a word."""
    from tests.lab.run import LANES

    names = {*(lane.name for lane in LANES), "lint", "unit", "functional", "docs", "coverage"}
    assert names <= times.budget(times.BUDGET.read_text()).keys()


@pytest.mark.parametrize("text", ["", "# a comment\n\n"])
def test_a_budget_without_rows_allows_all(text: str) -> None:
    assert times.budget(text) == {}
