"""Percentiles of generated logs beside exact arithmetic on the requests that they tell of."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest

from plimsoll_insight.hist.flows import Log, survey
from plimsoll_insight.hist.percentiles import PercentileInterval, bound_of, name_of
from plimsoll_insight.hist.scale import COARSENESS, Scale
from plimsoll_insight.hist.sources import FileChoice, sources
from plimsoll_insight.hist.study import StudyPart, study
from tests import depth
from tests.unit.insight.hist.fiolog import Request, fio_log

FRACTIONS = [Fraction(each) for each in ("0.5", "0.9", "0.95", "0.99", "0.999")]
SEEDS = depth.count(quick=1, landing=2, soak=20)
DISTRIBUTIONS: dict[str, Callable[[random.Random], float]] = {
    "exponential": lambda chance: chance.expovariate(1 / 2e6),
    "log-normal": lambda chance: chance.lognormvariate(15, 1.5),
    "two humps": lambda chance: chance.gauss(4e5, 4e4) if chance.random() < 0.98 else chance.gauss(8e8, 5e7),
    "one value": lambda chance: 1_234_567,
    "below fio's first groups": lambda chance: chance.uniform(0, 200),
}


def generated(name: str, number: int, seed: int, direction: int = 0, span_ms: int = 10_000) -> list[Request]:
    chance = random.Random(f"{name} {seed}")
    draw = DISTRIBUTIONS[name]
    return [
        Request(int(span_ms * 1e6 * each / number), max(int(draw(chance)), 0), direction) for each in range(number)
    ]


def parts_of(directory: Path) -> list[StudyPart]:
    found = sources([directory], FileChoice({}, {}))
    return [
        StudyPart(
            name=str(each.path),
            guest=each.guest,
            group=each.group,
            extent=extent,
            offset_ms=0,
            flows=Log(each, extent).flows,
        )
        for each in found
        for extent in [survey(each)]
    ]


def looked(directory: Path, width_ms: int | None = None, direction: str = "read") -> list[PercentileInterval]:
    rows = study(parts_of(directory), width_ms, FRACTIONS, lambda *_: None).rows(None)
    return [row.interval for row in rows if row.interval.direction == direction]


def exact(latencies: Sequence[int], fraction: Fraction) -> int:
    return sorted(latencies)[ceil(fraction * len(latencies)) - 1]


def logged(requests: Sequence[Request], every_ms: int) -> list[Request]:
    """Those before the last row of their direction, as the interval after it is lost."""
    found, open_, last = [], [], None
    for request in sorted(requests, key=lambda each: each.begin_ns + each.latency_ns):
        last = request.end_ms if last is None else last
        open_.append(request)
        if request.end_ms - last >= every_ms:
            found, open_, last = found + open_, [], last + every_ms
    return found


def assert_exact(interval: PercentileInterval, latencies: Sequence[int], coarseness: int, unit: int = 1) -> None:
    assert interval.completed == pytest.approx(len(latencies))
    for fraction, told in zip(FRACTIONS, interval.percentiles, strict=True):
        truth = exact(latencies, fraction)
        assert told is not None
        assert told.upper is not None
        assert told.lower <= truth < told.upper, fraction
        width = max(2 * (1 << coarseness) / 64 / 2 * truth, unit * 2 * (1 << coarseness))
        assert abs(told.middle - truth) <= width / 2 + unit, fraction


@pytest.mark.parametrize("coarseness", COARSENESS)
@pytest.mark.parametrize("unit", [1, 1000], ids=["nanoseconds", "microseconds"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_whole_run_is_exact_within_half_a_bucket(tmp_path: Path, name: str, unit: int, coarseness: int) -> None:
    for seed in range(SEEDS):
        requests = generated(name, 4000, seed)
        (tmp_path / "a_clat_hist.1.log").write_text(fio_log(requests, 1000, coarseness, unit))
        [interval] = looked(tmp_path, 100_000)
        assert_exact(interval, [each.latency_ns for each in logged(requests, 1000)], coarseness, unit)


def test_many_logs_are_merged_as_if_they_were_one(tmp_path: Path) -> None:
    everything = []
    for number, name in enumerate(DISTRIBUTIONS):
        requests = generated(name, 2000 + 300 * number, 1)
        everything += logged(requests, 500)
        (tmp_path / f"g{number}_clat_hist.1.log").write_text(fio_log(requests, 500))
    [interval] = looked(tmp_path, 100_000)
    assert_exact(interval, [each.latency_ns for each in everything], 0)


def test_logs_of_different_coarseness_are_merged_as_the_coarsest(tmp_path: Path) -> None:
    everything = []
    for coarseness in (0, 2, 4):
        requests = generated("log-normal", 3000, coarseness)
        everything += logged(requests, 500)
        (tmp_path / f"g{coarseness}_clat_hist.1.log").write_text(fio_log(requests, 500, coarseness))
    [interval] = looked(tmp_path, 100_000)
    assert_exact(interval, [each.latency_ns for each in everything], 4)


def test_old_and_new_logs_together_differ_by_a_bucket_at_most(tmp_path: Path) -> None:
    old, new = generated("log-normal", 3000, 1), generated("log-normal", 3000, 2)
    (tmp_path / "old_clat_hist.1.log").write_text(fio_log(old, 500, 0, 1000))
    (tmp_path / "new_clat_hist.1.log").write_text(fio_log(new, 500))
    [interval] = looked(tmp_path, 100_000)
    latencies = [each.latency_ns for each in logged(old, 500) + logged(new, 500)]
    for fraction, told in zip(FRACTIONS, interval.percentiles, strict=True):
        truth = exact(latencies, fraction)
        assert told is not None
        assert abs(told.middle - truth) <= truth / 64


def test_reads_and_writes_of_one_log_are_told_apart_and_together(tmp_path: Path) -> None:
    reads, writes = generated("exponential", 3000, 1), generated("two humps", 2500, 2, direction=1)
    (tmp_path / "a_clat_hist.1.log").write_text(fio_log(reads + writes, 1000))
    for direction, requests in (("read", reads), ("write", writes), ("all", reads + writes)):
        kept = [each for some in (reads, writes) for each in logged(some, 1000) if each in requests]
        [interval] = looked(tmp_path, 100_000, direction)
        assert_exact(interval, [each.latency_ns for each in kept], 0)


def test_intervals_of_the_log_have_the_requests_of_each(tmp_path: Path) -> None:
    """The distribution changes each second, and so do the percentiles; no request is counted twice."""
    requests = []
    for number in range(8):
        for each in range(500):
            end = number * 10**9 + (each + 1) * 2 * 10**6
            requests.append(Request(end - (number + 1) * 10**5, (number + 1) * 10**5))
    # The first request ends at 2 ms, so rows end at 1,002 ms, 2,002 ms, …
    (tmp_path / "a_clat_hist.1.log").write_text(fio_log(requests, 1000))
    found = looked(tmp_path, 1000)
    for number, interval in enumerate(found[:7]):
        median = interval.percentiles[0]
        assert median is not None
        assert median.lower <= (number + 1) * 10**5 < (median.upper or 0)
        assert interval.completed == pytest.approx(500, abs=1)
    assert sum(each.completed for each in found) == pytest.approx(len(logged(requests, 1000)))


def test_what_percentiles_may_differ_by() -> None:
    new, coarse, old = Scale(29, 0), Scale(29, 6), Scale(19, 0)
    assert [bound_of({each}, each) for each in (new, coarse, old)] == [(1 / 128, 0.5), (0.5, 32), (1 / 128, 500)]
    assert bound_of({new, old}, new) == (1 / 64, 500)


@pytest.mark.parametrize("coarseness", COARSENESS)
@pytest.mark.parametrize("unit", [1, 1000], ids=["nanoseconds", "microseconds"])
def test_also_the_shortest_latencies_are_within_the_bound(tmp_path: Path, unit: int, coarseness: int) -> None:
    scale = Scale(29 if unit == 1 else 19, coarseness)
    share, least = bound_of({scale}, scale)
    for latency in (unit, 10 * unit, 63 * unit, 127 * unit, 128 * unit, 10_001 * unit):
        requests = [Request(each * 10**7, latency) for each in range(300)]
        (tmp_path / "a_clat_hist.1.log").write_text(fio_log(requests, 1000, coarseness, unit))
        [interval] = looked(tmp_path, 100_000)
        told = interval.percentiles[0]
        assert told is not None
        assert abs(told.middle - latency) <= max(share * latency, least)


def test_a_percentile_has_the_name_that_was_given() -> None:
    assert [name_of(Fraction(each) / 100) for each in ("50", "99.9", "99.99999", "100", "0.5")] == [
        "p50", "p99.9", "p99.99999", "p100", "p0.5",
    ]  # fmt: skip
