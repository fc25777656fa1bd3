"""The example of the guide: a stall as ``hist`` tells it, and as fio's own fiologparser_hist.py does."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np

from plimsoll_insight.hist.study import study
from plimsoll_probes.output.messages import latency_words
from tests.unit.insight.hist.fiolog import FIO_COLUMNS, bucket
from tests.unit.insight.hist.test_exact import parts_of

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "latency-over-time.rst"
COLUMNS = FIO_COLUMNS[1]
MS = 10**6
ROWS = ((1000, MS, 100), (2000, MS, 100), (10_000, 8000 * MS, 1), (11_000, MS, 100), (12_000, MS, 100))
"""When fio wrote each, in ms, with the latency and the number of requests in it."""
WIDTH = 2000


def counts(latency: int, number: int) -> list[int]:
    return [number if each == bucket(latency, COLUMNS) else 0 for each in range(COLUMNS)]


def in_the_guide() -> tuple[list[list[str]], list[list[str]]]:
    """The cells of both tables, row by row."""
    lines = GUIDE.read_text().split("fiologparser_hist.py --interval", 1)[1].split("``hist`` is right", 1)[0]
    rows = [line for line in lines.splitlines() if line.strip()][2:]
    split = next(line for line in lines.splitlines() if "end-time" in line).index("end-time")
    return [row[:split].split() for row in rows], [row[split:].split() for row in rows]


def test_hist_tells_what_completed_and_what_did_not(tmp_path: Path) -> None:
    text = (", ".join(map(str, [end, 0, 4096, *counts(latency, number)])) for end, latency, number in ROWS)
    (tmp_path / "a_clat_hist.1.log").write_text("".join(f"{line}\n" for line in text))
    rows = study(parts_of(tmp_path), WIDTH, [Fraction("0.5")], lambda *_: None).rows(None)
    found = [row.interval for row in rows if row.interval.direction == "read"]
    # By hand: those of two seconds, none of those in the wait, the one that waited, those of two seconds.
    assert [each.completed for each in found] == [200, 0, 0, 0, 1, 200]
    assert [each.is_stalled for each in found] == [False, True, True, True, False, False]
    told = []
    for each in found:
        (median,) = each.percentiles
        words = "-" if median is None else latency_words(median.middle)
        told.append([f"{each.begin_ms // 1000:.0f}", "s", f"{each.completed:.0f}", *words.split(),
                     "stalled" if each.is_stalled else "ok"])  # fmt: skip
    assert told == in_the_guide()[0]


def upper_edge(number: int) -> float:
    """Of a bucket, in ms; the tool takes it for the middle."""
    group = max((number >> 6) - 1, 0)
    return ((64 << group) + (number % 64 + 1 << group)) / MS if number >= 128 else (number + 0.5) / MS


def test_the_other_tool_counts_a_request_in_each_interval_that_it_waited_in() -> None:
    """Its own rule: a request takes the time from its row's end, less half an interval and its latency, to that end;
    each interval gets its share, and percentiles are interpolated between buckets.
    """
    values = np.array([upper_edge(each) for each in range(COLUMNS)])
    found = []
    for begin, end in pairwise(range(0, 12_001, WIDTH)):
        weights, samples = np.zeros(COLUMNS), 0
        for row_end, latency, number in ROWS:
            starts = row_end - WIDTH / 2 - values
            if row_end > begin:
                overlap = (np.minimum(row_end, end) - np.maximum(starts, begin)) / (row_end - starts)
                mine = np.where(starts < end, counts(latency, number), 0)
                weights += mine * overlap
                samples += int(mine.sum())
        median = np.interp(50, 100 * (weights.cumsum() - weights / 2) / weights.sum(), values)
        words = f"{median / 1000:.2f} s" if median > 1000 else f"{median:.1f} ms"
        found.append([str(end), str(samples), *words.split()])
    assert found == in_the_guide()[1]
    assert sum(int(samples) for _, samples, *_ in found) == 505
