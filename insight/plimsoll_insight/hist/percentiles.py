"""The figures of an interval: requests, percentiles, the slowest, and who waited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.hist.records import DIRECTIONS
from plimsoll_insight.hist.scale import Floats, Scale
from plimsoll_insight.hist.timeline import Timeline

_ROUNDING = 1e-9
"""Shares of counts add up to whole ones but for this part of them."""
_NEGLIGIBLE = 1e-6
"""Of a request: less is no share of one, but rounding."""
WAITED = 0.1
"""Mean number of requests from which an interval without completions is a stall."""


@frozen
class Latency:
    """A latency in nanoseconds: at least ``lower`` and below ``upper``, which fio's last bucket does not have."""

    lower: float
    upper: float | None

    @property
    def middle(self) -> float:
        """Off by at most half the bucket; of the last bucket its lower edge, as nothing more is known."""
        return self.lower if self.upper is None else (self.lower + self.upper) / 2


@frozen(kw_only=True)
class PercentileInterval:
    """From ``begin_ms`` until ``end_ms``; ``direction`` is read, write, trim, or all of them."""

    begin_ms: float
    end_ms: float
    direction: str
    completed: float
    percentiles: tuple[Latency | None, ...]
    slowest: Latency | None
    saturated: float
    """How many are in fio's last bucket: they took 17 s or any time more."""
    waiting: float
    """The mean number of requests that were waiting."""

    @property
    def is_stalled(self) -> bool:
        """Requests waited and none completed."""
        return self.completed == 0 and self.waiting >= WAITED

    @property
    def is_saturated(self) -> bool:
        """A request, or the share of one that this interval has of its row, is in fio's last bucket."""
        return self.saturated > _NEGLIGIBLE


ALL = "all"


def intervals(
    timeline: Timeline, count: int, fractions: Sequence[Fraction], present: Sequence[int], *, together: bool
) -> Iterator[PercentileInterval]:
    """The first ``count`` intervals of each direction that is ``present``, and of all ``together``."""
    tables = [(DIRECTIONS[each], timeline.done[each], timeline.waiting(each)) for each in present]
    if together:
        tables.append(
            (
                ALL,
                timeline.done[list(present)].sum(axis=0),
                sum((each for _, _, each in tables), np.zeros(timeline.clock.number)),
            )
        )
    clock, edges = timeline.clock, timeline.scale.edges()
    for number in range(count):
        for direction, counts, waiting in tables:
            yield _interval(direction, clock.begin_ms + number * clock.width_ms, clock.width_ms, counts[number],
                            float(waiting[number]), edges, fractions)  # fmt: skip


def _interval(
    direction: str,
    begin: float,
    width: float,
    counts: Floats,
    waiting: float,
    edges: Floats,
    fractions: Sequence[Fraction],
) -> PercentileInterval:
    rising = np.cumsum(counts)
    whole = float(rising[-1])
    if whole < _NEGLIGIBLE:
        queue = waiting if waiting > _NEGLIGIBLE else 0.0
        return PercentileInterval(
            begin_ms=begin,
            end_ms=begin + width,
            direction=direction,
            completed=0.0,
            percentiles=(None,) * len(fractions),
            slowest=None,
            saturated=0.0,
            waiting=queue,
        )
    percentiles = tuple(_at(rank(whole, fraction), rising, edges) for fraction in fractions)
    slowest = _bucket(int(np.flatnonzero(counts > _NEGLIGIBLE)[-1]), edges)
    return PercentileInterval(
        begin_ms=begin,
        end_ms=begin + width,
        direction=direction,
        completed=whole,
        percentiles=percentiles,
        slowest=slowest,
        saturated=float(counts[-1]),
        waiting=waiting,
    )


def rank(whole: float, fraction: Fraction) -> float:
    """Of so many requests, which one the percentile is: as fio, the first that this share does not exceed."""
    exact = fraction * Fraction(round(whole))
    return (
        float(-(-exact.numerator // exact.denominator))
        if abs(whole - round(whole)) < _NEGLIGIBLE
        else float(fraction) * whole
    )


def _at(rank: float, rising: Floats, edges: Floats) -> Latency:
    return _bucket(min(int(np.searchsorted(rising, rank * (1 - _ROUNDING))), len(rising) - 1), edges)


def _bucket(column: int, edges: Floats) -> Latency:
    return Latency(float(edges[column]), None if column == len(edges) - 2 else float(edges[column + 1]))


def bucket_from(lower: float, edges: Floats) -> Latency | None:
    """The bucket with this lower edge; None for what is below all."""
    return None if lower < 0 else _bucket(int(np.searchsorted(edges, lower)), edges)


def bound_of(scales: Iterable[Scale], target: Scale) -> tuple[float, float]:
    """The most that a percentile differs from the exact one: as a share of it, or nanoseconds where that is more.

    Half a column: below fio's 128th bucket all are as wide, above a share of their time. Logs of another unit are
    off by half a column of theirs, and by half of the column that its middle is in.
    """
    share = _half(target)
    least = target.unit * (1 << target.coarseness) / 2
    for scale in scales:
        if scale.unit != target.unit:
            share = max(share, _half(scale) + _half(target))
            least = max(least, scale.unit * (1 << scale.coarseness) / 2)
    return share, least


def _half(scale: Scale) -> float:
    return (1 << scale.coarseness) / 64 / 2


def name_of(fraction: Fraction) -> str:
    """``p99.9``: with all its digits, as another one may differ in the last."""
    percent = 100 * fraction
    return f"p{Decimal(percent.numerator) / Decimal(percent.denominator):f}"
