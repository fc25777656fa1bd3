"""A recording, second by second: what guests got, and how the cluster was. What is unknown is NaN or None."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from plimsoll_insight.drill.recording import Recording
from plimsoll_insight.drill.status import ClusterCounts

Floats = NDArray[np.float64]
_MICROSECONDS = 1e6
_ROUNDING = 0.002
_ENOUGH = 0.9
"""The share of disks that must be known, else what all did is unknown."""
_LATE = 3.0
"""Readings that lie more intervals apart, or seconds where that is more, leave what was between them unknown."""


@dataclass(frozen=True)
class Seconds:
    """``iops`` by second; of each disk in ``done``, a row. ``samples``: the time, mean latency and number of requests
    of each disk in each reading, in seconds since the start and microseconds.
    """

    iops: Floats
    done: Floats
    known: NDArray[np.bool_]
    """Whether the disk is known in this second, by disk."""
    at: Floats
    latency: Floats
    weight: Floats
    waited: Floats
    """How long the requests that ended in this second took, all added, in seconds."""
    states: list[ClusterCounts | None]
    watches: bool
    """Whether there are guests in the recording."""

    @property
    def number(self) -> int:
        return len(self.iops)


def by_second(recording: Recording) -> Seconds:
    number = max(ceil(recording.last - recording.began - _ROUNDING), 1)
    late = max(_LATE, _LATE * recording.interval)
    disks = max(recording.disks, default=-1) + 1
    counts = np.zeros((disks, number))
    coverage = np.zeros((disks, number))
    at: list[Floats] = []
    latency: list[Floats] = []
    weight: list[Floats] = []
    before: dict[int, float] = {}
    masks = [np.isin(np.arange(disks), part) for part in recording.parts] or [np.ones(disks, dtype=bool)]
    for one in recording.done:
        end = one.time - recording.began
        if one.part in before and 0 < end - before[one.part] <= late:
            _cover(coverage, masks[one.part], before[one.part], end, one.unknown)
        before[one.part] = end
        if not one.numbers:
            continue
        rows, seconds = np.array(one.numbers), np.array(one.seconds)
        requests, ends = np.array(one.requests, dtype=float), end + np.array(one.ends)
        near = seconds <= late
        _spread(counts, rows[near], ends[near], seconds[near], requests[near])
        has_latency = np.array([each is not None for each in one.latency])
        at.append(ends[has_latency])
        latency.append(np.array([each for each in one.latency if each is not None], dtype=float))
        weight.append(requests[has_latency])
    is_known = coverage > 0.5
    iops = np.where(is_known, counts, 0.0).sum(axis=0)
    if disks:
        iops[is_known.mean(axis=0) < _ENOUGH] = np.nan
    else:
        iops[:] = np.nan
    states: list[ClusterCounts | None] = [None] * number
    for time, status in recording.statuses:
        first = int(time - recording.began)
        for second in range(max(first, 0), min(int(first + late) + 1, number)):
            states[second] = status
    times, took, requests = _join(at), _join(latency), _join(weight)
    waits = np.zeros(number)
    np.add.at(waits, np.clip(times, 0, number - 1).astype(int), took * requests / _MICROSECONDS)
    return Seconds(iops, counts, is_known, times, took, requests, waits, states, bool(disks))


def _join(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.zeros(0)


def _cover(coverage: Floats, mask: NDArray[np.bool_], begin: float, end: float, unknown: list[int]) -> None:
    rows = mask
    if unknown:
        rows = mask.copy()
        rows[unknown] = False
    for second in range(max(int(begin), 0), min(int(end), coverage.shape[1] - 1) + 1):
        coverage[rows, second] += max(min(end, second + 1) - max(begin, second), 0)


def _spread(counts: Floats, rows: NDArray[np.int_], ends: Floats, seconds: Floats, requests: Floats) -> None:
    """Evenly over the time of each."""
    if not len(rows):
        return
    begins = ends - seconds
    first = np.floor(begins).astype(int)
    for step in range(int((np.floor(ends).astype(int) - first).max()) + 1):
        second = first + step
        part = np.clip(np.minimum(ends, second + 1) - np.maximum(begins, second), 0, None) / seconds
        inside = (second >= 0) & (second < counts.shape[1]) & (part > 0)
        np.add.at(counts, (rows[inside], second[inside]), (requests * part)[inside])
