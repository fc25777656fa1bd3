"""Completions in time: which requests completed in which window, by a log, fio's JSON or a probe.

A row of a histogram log holds the requests that completed since the row before it, and its time is the end of that.
fio writes a row with the first request that completes after ``log_hist_msec``, and counts the next interval from
where this one should have ended (iolog.c, ``add_clat_sample``). So of a row that comes late, after a stall, only the
request that ended it completed at its time; the others had completed before the row was due. No row says when: they
are taken to have completed before the request began that ended the row, and that one to be the slowest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from plimsoll_agent.errors import PlimsollError
from plimsoll_insight.files.packed import UnreadableLog, opened
from plimsoll_insight.hist.records import DIRECTIONS, Ints, Reader, Records, Unread
from plimsoll_insight.hist.scale import SCALES, Floats, Scale
from plimsoll_insight.hist.sources import Source
from plimsoll_probes.model.histogram import Histogram

_LATE = 1.5
"""A row is late when it ends so many intervals after the one before it."""
_EPOCH_MS = 10**11
"""Times from here on are of the Unix epoch (fio's log_unix_epoch): 1973; no run takes three years."""
_JSON_MOST = 64 << 20


@dataclass(frozen=True, eq=False)
class Flow:
    """Requests of one direction, as arrays: windows after ``begin_ms`` until ``end_ms``, and counts in them."""

    scale: Scale
    direction: int
    begin_ms: Floats
    end_ms: Floats
    window: Ints
    column: Ints
    count: Ints


@dataclass(frozen=True)
class Extent:
    """What a first look at a file tells."""

    first_ms: int
    last_ms: int
    interval_ms: int
    scales: frozenset[Scale]
    rows: int
    unread: Unread

    @property
    def is_of_epoch(self) -> bool:
        return self.first_ms >= _EPOCH_MS


def survey(source: Source) -> Extent:
    """Raises ``UnreadableLog`` where the file has no row."""
    if _is_json(source):
        _, runtime = _json(source)
        return Extent(0, runtime, runtime, frozenset({_whole()}), 1, Unread())
    first = last = None
    scales: set[Scale] = set()
    steps: list[int] = []
    rows = 0
    with opened(source.path) as stream:
        reader = Reader(stream)
        for records in reader:
            scales.add(records.scale)
            rows += len(records.time_ms)
            first = int(records.time_ms.min()) if first is None else min(first, int(records.time_ms.min()))
            last = max(last or 0, int(records.time_ms.max()))
            if len(steps) < 2:
                steps += _steps(records)
    if first is None or last is None:
        raise UnreadableLog(f"{source.path}: no row of a histogram log in it; fio writes them with write_hist_log")
    return Extent(first, last, _interval(steps, first), frozenset(scales), rows, reader.unread)


def flows(source: Source, extent: Extent) -> Iterator[Flow]:
    """All requests of the file, in parts. Raises ``UnreadableLog``."""
    if _is_json(source):
        yield from _json(source)[0]
        return
    start = extent.first_ms - extent.interval_ms if extent.is_of_epoch else 0
    last = dict.fromkeys(range(len(DIRECTIONS)), start)
    with opened(source.path) as stream:
        for records in Reader(stream):
            for direction in range(len(DIRECTIONS)):
                rows = np.flatnonzero(records.direction == direction)
                if len(rows):
                    yield from _windows(records, direction, rows, last[direction], extent.interval_ms, source)
                    last[direction] = int(records.time_ms[rows[-1]])


def of_histogram(direction: int, begin_ms: float, end_ms: float, latency: Histogram) -> Flow:
    """Requests that completed some time in a window."""
    columns, counts = (np.array(each, np.int64) for each in zip(*latency.buckets, strict=True))
    zeros = np.zeros(len(columns), np.int64)
    return Flow(_whole(), direction, np.array([begin_ms]), np.array([end_ms]), zeros, columns, counts)


def _windows(
    records: Records, direction: int, rows: Ints, previous: int, interval: int, source: Source
) -> Iterator[Flow]:
    end = records.time_ms[rows].astype(np.float64)
    begin = np.minimum(np.concatenate(([previous], end[:-1])), end)
    late = end - begin > _LATE * interval
    mine = np.isin(records.row, rows) if len(rows) < len(records.time_ms) else np.ones(len(records.row), bool)
    window = np.searchsorted(rows, records.row[mine])
    column, count = records.column[mine], records.count[mine].copy()
    offset = source.offset_ms
    until = np.where(late, begin + interval, end)
    if late.any():
        # The slowest request is the last count of its row.
        slowest = np.searchsorted(window, np.flatnonzero(late), side="right") - 1
        slowest = slowest[late[window[slowest]]]
        count[slowest] -= 1
        row = window[slowest]
        at, ones = end[row] + offset, np.ones(len(slowest), np.int64)
        yield Flow(records.scale, direction, at, at, np.arange(len(slowest)), column[slowest], ones)
        began = end[row] - records.scale.midpoints()[column[slowest]] / 1e6
        until[row] = np.where((begin[row] < began) & (began < until[row]), began, until[row])
    yield Flow(records.scale, direction, begin + offset, until + offset, window, column, count)


def _steps(records: Records) -> list[int]:
    return [
        int(step)
        for direction in range(len(DIRECTIONS))
        for step in np.diff(records.time_ms[records.direction == direction])
        if step > 0
    ]


def _interval(steps: list[int], first: int) -> int:
    """fio's log_hist_msec, which no log names: the middle of the times between rows, without those after a stall."""
    if not steps:
        return first if 0 < first < _EPOCH_MS else 1000
    # After a stall each request has a row; more than half of the time such rows cover little of it.
    ordered = np.sort(np.array(steps))
    covered = np.cumsum(np.minimum(ordered, first if 0 < first < _EPOCH_MS else ordered[-1]))
    return int(ordered[np.searchsorted(covered, covered[-1] / 2)])


# --- fio's JSON+


def _is_json(source: Source) -> bool:
    with opened(source.path) as stream:
        return stream.read(4096).lstrip().startswith(b"{") or ".json" in source.path.suffixes


def _json(source: Source) -> tuple[list[Flow], int]:
    """The requests of all jobs, and how long they ran in ms. Raises ``UnreadableLog``."""
    with opened(source.path) as stream:
        text = stream.read(_JSON_MOST + 1)
    if len(text) > _JSON_MOST:
        raise UnreadableLog(f"{source.path}: more than {_JSON_MOST >> 20} MiB of JSON")
    try:
        # fio may print lines of errors first (its issue 1685).
        told = json.loads(text[text.index(b"{") :])
        return _flows_of(told)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PlimsollError) as error:
        raise UnreadableLog(
            f"{source.path}: no latencies of fio in it; they are there with --output-format=json+"
        ) from error


def _flows_of(told: Mapping[str, Any]) -> tuple[list[Flow], int]:
    found, longest = [], 0
    for job in told["jobs"]:
        for number, direction in enumerate(DIRECTIONS):
            part = job.get(direction) or {}
            bins = part.get("clat_ns", {}).get("bins")
            if bins:
                runtime = int(part["runtime"])
                latency = Histogram.from_midpoints({int(middle): count for middle, count in bins.items()})
                if latency.buckets and 0 < runtime < _EPOCH_MS:
                    found.append(of_histogram(number, 0, runtime, latency))
                    longest = max(longest, runtime)
    if not found:
        raise ValueError("no bins")
    return found, longest


def _whole() -> Scale:
    return SCALES[29 << 6]
