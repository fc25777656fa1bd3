"""QEMU's throttle on rates: leaky buckets of many disks at once, an interval after the other. NumPy.

Within an interval requests are taken to come evenly, all of the interval's mean size. What the throttle does with
single requests is in ``plimsoll_insight.simulate.throttle``; here is what that comes to over an interval:
what its buckets leak in that time, and what still fits in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll_agent.model.limits import BASES, Limits, Unit
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_insight.replay.values import bucket, scope_of, unit_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_LEAST = 1e-6
"""Requests: less than this is rounding."""


@dataclass
class ReplayInterval:
    """What an interval came to, a value a disk."""

    served: Floats
    """Requests that the throttle let through."""
    overflow: Floats
    """Those that it has not let through at its end."""
    waited: Floats
    """Requests that came in it and waited."""
    drain: Floats
    """Seconds until those at its end, or at its begin, are let through: the longest wait."""
    at_limit: Flags


class _Bucket:
    """One base of all disks; infinite where a disk does not have it."""

    def __init__(self, limits: Sequence[Limits], base: str, sides: Sequence[str]) -> None:
        parts = [bucket(one, base) if getattr(one, base) else (np.inf, np.inf, np.inf) for one in limits]
        self.rate, self.size, self.peak = (np.array(column) for column in zip(*parts, strict=True))
        self.unit: Unit = unit_of(base)
        scope = scope_of(base)
        self.sides = [number for number, side in enumerate(sides) if scope in ("total", side)]
        self.limited = np.isfinite(self.rate)
        self.level = np.zeros(len(limits))

    @property
    def room(self) -> Floats:
        return np.where(self.limited, self.size - self.level, np.inf)

    def most(self, seconds: float) -> Floats:
        return np.minimum(self.rate * seconds + self.room, self.peak * (seconds + 0.1))

    def fill(self, amount: Floats, seconds: float) -> None:
        level = self.level + amount - np.where(self.limited, self.rate, 0.0) * seconds
        self.level = np.where(self.limited, np.clip(level, 0.0, self.size), 0.0)


class Buckets:
    """The throttle of many disks, or groups of them, each with its limits."""

    def __init__(self, limits: Sequence[Limits], sides: Sequence[str], *, most: bool, queues: bool) -> None:
        """``sides``: ``read`` and ``write``, or ``total`` where no limit is of one of them.

        ``most``: with ``size_iops_sec`` count as much as QEMU may have counted, else as little. ``queues``: what does
        not fit comes later; else it never comes.
        """
        order = sorted((base for base in BASES if any(getattr(one, base) for one in limits)), key=_parts_first)
        self._buckets = [_Bucket(limits, base, sides) for base in order]
        self._per = np.array([float(one.size_iops_sec) or np.inf for one in limits])
        self._most, self._queues = most, queues
        shape = (len(sides), len(limits))
        self._queue, self._queue_bytes = np.zeros(shape), np.zeros(shape)

    def advance(self, requests: Floats, size: Floats, seconds: float) -> ReplayInterval:
        """An interval in which so many requests and bytes came, by side and disk; neither is NaN."""
        queue = self._queue.sum(0)
        first_drain = self.drain(self._queue, self._queue_bytes)
        want, want_bytes = requests + self._queue, size + self._queue_bytes
        counts = {"iops": self._counted(want, want_bytes), "bytes": want_bytes}
        share = np.ones_like(want)
        for one in self._buckets:
            amount = (share * counts[one.unit])[one.sides].sum(0)
            most = one.most(seconds)
            part = np.divide(most, amount, out=np.ones_like(amount), where=amount > most)
            share[one.sides] *= part
        at_limit = np.zeros(want.shape[1], bool)
        for one in self._buckets:
            amount = (share * counts[one.unit])[one.sides].sum(0)
            one.fill(amount, seconds)
            at_limit |= one.limited & (amount >= AT_LIMIT_RATIO * one.rate * seconds)
        rest, rest_bytes = (1 - share) * want, (1 - share) * want_bytes
        remainder = rest.sum(0)
        last_drain = self.drain(rest, rest_bytes)
        if self._queues:
            self._queue, self._queue_bytes = rest, rest_bytes
        waits = _waits(queue, remainder, first_drain, last_drain, requests.sum(0) / seconds, seconds)
        return ReplayInterval((share * want).sum(0), remainder, waits, np.maximum(first_drain, last_drain), at_limit)

    def drain(self, requests: Floats, size: Floats) -> Floats:
        """Seconds that the throttle takes for these, with full buckets."""
        counts = {"iops": self._counted(requests, size), "bytes": size}
        times = [counts[one.unit][one.sides].sum(0) / one.rate for one in self._buckets]
        return _longest(times, requests.shape[1])

    def burst(self, requests: Floats, size: Floats) -> Floats:
        """Seconds that the last one waits if all of these come at once, with empty buckets."""
        counts = {"iops": self._counted(requests, size), "bytes": size}
        times = []
        for one in self._buckets:
            amount = counts[one.unit][one.sides].sum(0)
            over = np.maximum(amount - np.where(one.limited, one.size, 0.0), 0.0) / one.rate
            times.append(np.maximum(over, np.maximum(amount - one.peak / 10, 0.0) / one.peak))
        return _longest(times, requests.shape[1])

    def _counted(self, requests: Floats, size: Floats) -> Floats:
        """As limits of requests count them: one of more than ``size_iops_sec`` bytes counts as several."""
        parts = size / self._per
        return np.asarray(requests + parts if self._most else np.maximum(requests, parts))


def _longest(times: Sequence[Floats], number: int) -> Floats:
    longest = np.zeros(number)
    for each in times:
        longest = np.maximum(longest, each)
    return longest


def _parts_first(base: str) -> bool:
    return base.startswith("total")


def _waits(queue: Floats, rest: Floats, first: Floats, last: Floats, rate: Floats, seconds: float) -> Floats:
    """Requests that came in an interval and waited.

    Queues grow and shrink evenly: one that begins in the interval began when the buckets were full, one that ends
    ended when it was served.
    """
    had, has = queue > _LEAST, rest > _LEAST
    with np.errstate(divide="ignore", invalid="ignore"):
        growing = rest / (rate - rest / last)
        shrinking = queue / (queue / first - rate)
    length = np.where(had & has, seconds, np.where(has, growing, np.where(had, shrinking, 0.0)))
    number: Floats = rate * np.where((length >= 0) & (length < seconds), length, seconds)
    return number
