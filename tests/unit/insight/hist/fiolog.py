"""Histogram logs as fio writes them, out of requests that a test made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

FIO_COLUMNS = {1: 29 * 64, 1000: 19 * 64}


@dataclass(frozen=True)
class Request:
    begin_ns: int
    latency_ns: int
    direction: int = 0

    @property
    def end_ms(self) -> int:
        return (self.begin_ns + self.latency_ns) // 10**6


def bucket(value: int, columns: int) -> int:
    """plat_val_to_idx of fio's stat.c, on its own words: the group is that of the highest bit."""
    if value < 64:
        return value
    error_bits = value.bit_length() - 7
    base = (error_bits + 1) * 64 if error_bits > 0 else 0
    offset = (value >> error_bits) % 64 if error_bits > 0 else value
    return min(base + offset, columns - 1)


def fio_log(requests: Iterable[Request], every_ms: int, coarseness: int = 0, unit: int = 1, epoch_ms: int = 0) -> str:
    """What fio's add_clat_sample writes with log_hist_msec: its last interval is never written.

    ``unit``: nanoseconds of what it counts in, 1000 before fio 2.99.
    """
    columns = FIO_COLUMNS[unit]
    last: dict[int, int] = {}
    kept: dict[int, Counter[int]] = {}
    rows = []
    for request in sorted(requests, key=lambda each: each.begin_ns + each.latency_ns):
        counts = kept.setdefault(request.direction, Counter())
        counts[bucket(request.latency_ns // unit, columns) >> coarseness] += 1
        begin = last.setdefault(request.direction, request.end_ms)
        if request.end_ms - begin >= every_ms:
            numbers = [counts[each] for each in range(columns >> coarseness)]
            rows.append(", ".join(map(str, [epoch_ms + request.end_ms, request.direction, 4096, *numbers])))
            counts.clear()
            last[request.direction] = begin + every_ms
    return "".join(f"{row}\n" for row in rows)
