"""The Nagios state of a figure, as ``health.judge`` decides it."""

from __future__ import annotations

from collections.abc import Iterator

from nagiosplugin import Context, Critical, Metric, Ok, Performance, Result, Results, Unknown, Warn
from nagiosplugin.state import ServiceState

from plimsoll_agent.monitor.thresholds import Level, Thresholds
from plimsoll_monitoring.nagios.measure import Measuring
from plimsoll_monitoring.node.health import JudgedFigure, judge, words

STATE: dict[Level, ServiceState] = {
    Level.OK: Ok,
    Level.WARNING: Warn,
    Level.CRITICAL: Critical,
    Level.UNKNOWN: Unknown,
}
_LEVEL = {state: level for level, state in STATE.items()}


class FigureResult(Result):  # type: ignore[misc]  # nagiosplugin has no types
    """A result with its finding."""

    finding: JudgedFigure

    def __new__(cls, finding: JudgedFigure, metric: Metric) -> FigureResult:
        result: FigureResult = super().__new__(cls, STATE[finding.level], words(finding), metric)
        result.finding = finding
        return result


class Judging(Context):  # type: ignore[misc]  # nagiosplugin has no types
    """Judges the figure of the same name."""

    def __init__(self, name: str, thresholds: Thresholds) -> None:
        super().__init__(name)
        self._thresholds = thresholds

    def evaluate(self, metric: Metric, resource: Measuring) -> FigureResult:
        (finding,) = judge([resource.of[metric.name]], {metric.name: self._thresholds}).findings
        return FigureResult(finding, metric)

    def performance(self, metric: Metric, _resource: Measuring) -> Performance | None:
        """Unknown values are left out: Icinga refuses U as a value."""
        if metric.value is None:
            return None
        ranges = (self._thresholds.warning, self._thresholds.critical)
        return Performance(metric.name, decimal(metric.value), metric.uom, *ranges, metric.min)


class FindingContext(Context):  # type: ignore[misc]  # nagiosplugin has no types
    """A finding that has no figure to judge."""

    def __init__(self, finding: JudgedFigure) -> None:
        super().__init__(finding.measure.name)
        self._finding = finding

    def evaluate(self, metric: Metric, _resource: Measuring) -> FigureResult:
        return FigureResult(self._finding, metric)

    def performance(self, _metric: Metric, _resource: Measuring) -> None:
        """It has no value."""


class WorstFirst(Results):  # type: ignore[misc]  # nagiosplugin has no types
    """Results as ``Level`` ranks them: nagiosplugin itself ranks UNKNOWN above CRITICAL."""

    def __iter__(self) -> Iterator[FigureResult]:
        return iter(sorted(self.results, key=lambda result: -_LEVEL[result.state]))

    @property
    def most_significant_state(self) -> ServiceState:
        """Raises ``ValueError`` without results, as nagiosplugin expects."""
        return max(self.by_state, key=lambda state: _LEVEL[state])


def decimal(value: float) -> str:
    """Rounded to 0.001 and without an exponent, which readers of performance data do not understand."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
