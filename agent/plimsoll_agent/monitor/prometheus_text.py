"""Families of series as prometheus_client has them, with safe labels and no series twice, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from math import inf

from prometheus_client import CollectorRegistry, core, generate_latest
from prometheus_client.registry import Collector

from plimsoll_agent.monitor.metrics import Metric
from plimsoll_agent.util.text import printable

LABEL_MAX = 256
"""Characters of a label's value: for a longer one Prometheus rejects the whole scrape."""

Family = core.Metric
Row = tuple[Sequence[str | None], float]
"""The values of a series' labels (None: unknown), and its value."""


@lru_cache(4096)  # a disk has a dozen families
def label(value: str | None) -> str:
    """A foreign text as the value of a label: without control characters, and shortened; empty where unknown."""
    return printable((value or "")[:LABEL_MAX])


def number(value: float) -> float:
    """A float from a number of any size, which a damaged file may hold."""
    try:
        return float(value)
    except OverflowError:
        return inf


def gauge(metric: Metric, rows: Iterable[Row]) -> Family:
    """Of equal series the last one counts."""
    family = core.GaugeMetricFamily(metric, metric.documentation, labels=metric.labels)
    for values, value in {tuple(map(label, values)): number(value) for values, value in rows}.items():
        family.add_metric(values, value)
    return family


def single(metric: Metric, value: float | datetime | None) -> Family:
    """A gauge of the node; a time is in seconds since 1970, and what is unknown has no series."""
    amount = value.timestamp() if isinstance(value, datetime) else value
    return gauge(metric, [] if amount is None else [((), amount)])


def counter(metric: Metric, rows: Iterable[Row]) -> Family:
    """Equal series are summed. The name ends with ``_total``."""
    series: dict[tuple[str, ...], float] = {}
    for values, value in rows:
        key = tuple(map(label, values))
        series[key] = series.get(key, 0.0) + number(value)
    family = core.CounterMetricFamily(metric, metric.documentation, labels=metric.labels)
    for key, value in series.items():
        family.add_metric(key, value)
    return family


def histogram(metric: Metric, rows: Iterable[tuple[tuple[str, ...], Mapping[str, float], float]]) -> Family:
    """A row is the values of its labels, the cumulative counts by ``le`` with ``+Inf`` last, and the sum."""
    family = core.HistogramMetricFamily(metric, metric.documentation, labels=metric.labels)
    for values, buckets, total in rows:
        family.add_metric(values, [*buckets.items()], total)
    return family


class _Given(Collector):
    """The families of one file."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def text(families: Iterable[Family]) -> str:
    """In Prometheus' text format, without timestamps."""
    registry = CollectorRegistry()
    registry.register(_Given(families))
    return generate_latest(registry).decode()
