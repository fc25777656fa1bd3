"""Families of series in Prometheus' text format, with safe labels and no series twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf

from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

LABEL_MAX = 256
"""Characters of a label's value: for a longer one Prometheus rejects the whole scrape."""

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


@frozen
class Family:
    """A metric and its series, in the text format of Prometheus.

    Not prometheus_client's, whose import takes as long as a pass over twenty guests.
    """

    name: str
    kind: str
    documentation: str
    lines: Sequence[str]

    @property
    def text(self) -> str:
        head = f"# HELP {self.name} {self.documentation}\n# TYPE {self.name} {self.kind}\n"
        return head + "".join(self.lines)


def gauge(name: str, documentation: str, labels: Sequence[str], rows: Iterable[Row]) -> Family:
    """Of equal series the last one counts."""
    series = {tuple(map(label, values)): number(value) for values, value in rows}
    return Family(name, "gauge", documentation, _lines(name, labels, series))


def counter(name: str, documentation: str, labels: Sequence[str], rows: Iterable[Row]) -> Family:
    """Equal series are summed."""
    series: dict[tuple[str, ...], float] = {}
    for values, value in rows:
        key = tuple(map(label, values))
        series[key] = series.get(key, 0.0) + number(value)
    return Family(name, "counter", documentation, _lines(name, labels, series))


def histogram(
    name: str,
    documentation: str,
    labels: Sequence[str],
    rows: Iterable[tuple[tuple[str, ...], Mapping[str, float], float]],
) -> Family:
    """A row is the values of its labels, the cumulative counts by ``le`` with ``+Inf`` last, and the sum."""

    def lines() -> Iterator[str]:
        for values, buckets, total in rows:
            counts = {(*values, le): count for le, count in buckets.items()}
            yield from _lines(f"{name}_bucket", (*labels, "le"), counts)
            yield from _lines(f"{name}_count", labels, {values: buckets["+Inf"]})
            yield from _lines(f"{name}_sum", labels, {values: total})

    return Family(name, "histogram", documentation, [*lines()])


def _lines(name: str, labels: Sequence[str], series: Mapping[tuple[str, ...], float]) -> list[str]:
    return [f"{name}{_labels(labels, values)} {value!r}\n" for values, value in series.items()]


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = sorted(zip(names, values, strict=True))
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}" if pairs else ""


@lru_cache(4096)
def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
