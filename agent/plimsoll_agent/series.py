"""Families of series for Prometheus: whatever anybody wrote into their labels, and never a series twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from plimsoll_agent.report import printable

LABEL_MAX = 256
"""Characters of a label's value: one that is too long for a Prometheus costs it the whole node."""

Row = tuple[Sequence[str | None], float]
"""The values of a series' labels, None for what is not known, and its own."""


def label(value: str | None) -> str:
    """What somebody else chose, as the value of a label: without control characters, and not longer than it may be.

    Prometheus takes an empty one for none.
    """
    return printable((value or "")[:LABEL_MAX])


def number(value: float) -> float:
    """Of any size: what a damaged file says must not cost the others."""
    try:
        return float(value)
    except OverflowError:
        return inf


def gauge(name: str, documentation: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    """Of two series that are the same, the last."""
    family = GaugeMetricFamily(name, documentation, labels=labels)
    series = {tuple(map(label, values)): number(value) for values, value in rows}
    for values, value in series.items():
        family.add_metric(values, value)
    return family


def counter(name: str, documentation: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    """Of two series that are the same, the sum."""
    family = CounterMetricFamily(name, documentation, labels=labels)
    series: dict[tuple[str, ...], float] = {}
    for values, value in rows:
        key = tuple(map(label, values))
        series[key] = series.get(key, 0.0) + number(value)
    for values, value in series.items():
        family.add_metric(values, value)
    return family
