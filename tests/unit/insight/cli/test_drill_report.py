"""What ``plimsoll drill report`` prints of a forecast."""

from __future__ import annotations

import pytest

from plimsoll_insight.cli.drill_report import comparison_lines
from plimsoll_insight.drill.comparison import ForecastComparison
from plimsoll_insight.forecast.ranges import Range


@pytest.mark.parametrize(
    ("low", "high", "measured", "words"),
    [
        (5.0, 10.0, 0.3, "5.0 s to 10.0 s; measured 0.3 s, 94 % below it."),
        (5.0, 10.0, 15.0, "5.0 s to 10.0 s; measured 15.0 s, 50 % above it."),
        (5.0, 10.0, 7.0, "5.0 s to 10.0 s; measured 7.0 s, within it."),
        (0.0, 0.0, 7.0, "0.0 s; measured 7.0 s, above it."),
    ],
)
def test_what_was_measured_is_told_as_below_above_or_within_the_forecast(
    low: float, high: float, measured: float, words: str
) -> None:
    (line,) = comparison_lines([ForecastComparison("clean", Range(low, high), measured)])
    assert line.endswith(words)
