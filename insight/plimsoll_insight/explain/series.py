"""Lines of Prometheus over a time, by node and disk, and their values at a step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from plimsoll_monitoring.region.answers import NodeKey, TimeSeries, key_of, label

Over = Callable[[str], Sequence[TimeSeries]]
"""Asks for the values of the whole time, at the steps. Raises ``PlimsollError``."""
DISK = ("target_device", "uuid")
PLACE = ("cluster", "pool")


def within(metric: str, step: int) -> str:
    """The most in the interval that ends at each step: what is true for less than one is seen too."""
    return f"max_over_time({metric}[{max(step - 1, 1)}s]) or {metric}"


def by_disk(lines: Iterable[TimeSeries]) -> dict[tuple[NodeKey, str], Mapping[float, float]]:
    return {(key_of(line), label(line, "target_device")): line.values for line in lines}


def lines_by_disk(lines: Iterable[TimeSeries]) -> dict[tuple[NodeKey, str], list[TimeSeries]]:
    by_disk: dict[tuple[NodeKey, str], list[TimeSeries]] = defaultdict(list)
    for line in lines:
        by_disk[key_of(line), label(line, "target_device")].append(line)
    return by_disk


def by_node(lines: Iterable[TimeSeries]) -> dict[NodeKey, Mapping[float, float]]:
    return {key_of(line): line.values for line in lines}


def only(lines: Sequence[TimeSeries]) -> Mapping[float, float]:
    return lines[0].values if lines else {}


def value_of(
    series: Mapping[tuple[NodeKey, str], Mapping[float, float]], key: tuple[NodeKey, str], at: float
) -> float | None:
    return finite(series.get(key, {}).get(at))


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def whole_number(value: float | None) -> int | None:
    return None if finite(value) is None else round(value or 0)
