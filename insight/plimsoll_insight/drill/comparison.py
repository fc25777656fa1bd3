"""What was forecast of a failure, beside what a drill measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.decoding import UNREADABLE, complaint
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.drill.phases import DrillPhase
from plimsoll_insight.drill.results import Incident, Results
from plimsoll_insight.forecast.ranges import Range


class UnreadableForecast(PlimsollError):
    """Not what ``plimsoll forecast -f json`` prints."""


@frozen
class ForecastComparison:
    """``figure`` is a key of the forecast's JSON."""

    figure: str
    forecast: Range
    measured: float

    @property
    def error(self) -> float:
        """How far the measured figure is beyond the nearer end of the forecast, as a part of that; 0 within it."""
        nearest = min(max(self.measured, self.forecast.low), self.forecast.high)
        if nearest == self.measured:
            return 0.0
        return self.measured / nearest - 1 if nearest else float("inf")


def compare(forecast: Any, results: Results, incident: Incident) -> list[ForecastComparison]:
    """Of the first failure in ``forecast``, all figures that both have. Raises ``UnreadableForecast``."""
    try:
        row = forecast[0]
        both = [
            ForecastComparison(figure, Range(float(row[figure]["low"]), float(row[figure]["high"])), value)
            for figure, value in _measurements(results, incident)
            if row[figure] is not None
        ]
    except UNREADABLE as error:
        raise UnreadableForecast(f"not the output of plimsoll forecast -f json: {complaint(error)}") from error
    return both


def _measurements(results: Results, incident: Incident) -> Iterator[tuple[str, float]]:
    recovery = [
        figures for figures in results.figures
        if figures.span.phase is DrillPhase.RECOVERY and incident.begin <= figures.span.begin < incident.last
    ]  # fmt: skip
    length = sum(figures.span.end - figures.span.begin for figures in recovery)
    figures: Mapping[str, float | None] = {
        "detect": incident.detect,
        "degraded": incident.share,
        "service": recovery[0].mean if recovery else None,
        "iops_share": 1 + recovery[0].change if recovery and recovery[0].change is not None else None,
        "stale": incident.stale,
        "objects_sec": incident.stale / length if incident.stale and length else None,
        "clean": incident.recover,
    }
    yield from ((name, value) for name, value in figures.items() if value is not None)
