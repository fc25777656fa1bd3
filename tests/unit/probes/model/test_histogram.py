"""fio's buckets: their edges, sums and quantiles. The file has what fio 3.33 printed while an OSD was stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from itertools import chain, pairwise
from math import ceil
from pathlib import Path
from random import Random
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_probes.model.histogram import BUCKETS, LAST, Histogram, bucket_of, edges, midpoint
from tests import depth
from tests.unit.values import examples

SECOND = 10**9
BEGINS_LAST = 17_045_651_456  # facts of fio: the last bucket is [17.0457, 17.1799) s and everything above
PERCENTILES = (50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99)

latencies = st.integers(0, 40 * SECOND) | st.integers(0, 10**6)
samples = st.lists(latencies, max_size=60)


def told_by_fio(direction: str) -> Mapping[str, object]:
    text = (Path(__file__).parents[2] / "data" / "fio-osd-stopped.json").read_text(encoding="utf-8")
    told: Mapping[str, object] = json.loads(text)["jobs"][0][direction]["clat_ns"]
    return told


def histogram_of_fio(direction: str) -> Histogram:
    bins = told_by_fio(direction)["bins"]
    assert isinstance(bins, dict)
    return Histogram.from_midpoints({int(middle): count for middle, count in bins.items()})


def exact(values: list[int], fraction: float) -> int:
    """The least sample that this part of all do not exceed."""
    return sorted(values)[max(ceil(Fraction(str(fraction)) * len(values)), 1) - 1]


# --- buckets


def test_every_bucket_holds_its_edges_and_its_middle_and_nothing_beside() -> None:
    for index in range(BUCKETS):
        lower, upper = edges(index)
        assert bucket_of(lower) == bucket_of(midpoint(index)) == index
        if upper is not None:
            assert bucket_of(upper - 1) == index
            assert bucket_of(upper) == index + 1


def test_buckets_leave_no_gap_and_only_the_last_has_no_end() -> None:
    spans = [edges(index) for index in range(BUCKETS)]
    assert spans[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    assert spans[LAST] == (BEGINS_LAST, None)
    assert bucket_of(23 * SECOND) == LAST


def test_no_bucket_is_wider_than_a_64th_of_its_latencies() -> None:
    for index in range(BUCKETS - 1):
        lower, upper = edges(index)
        assert upper is not None
        assert upper - lower <= max(lower / 64, 1)
        assert abs(midpoint(index) - lower) <= lower / 128


@pytest.mark.parametrize("index", [-1, BUCKETS])
def test_a_bucket_that_fio_has_not_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match=str(index)):
        edges(index)


def test_a_negative_latency_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 ns"):
        Histogram.of([5, -1])


# --- histograms


@examples
@given(st.lists(samples, max_size=8))
def test_merging_equals_the_histogram_of_all_samples(runs: list[list[int]]) -> None:
    assert Histogram.merged(map(Histogram.of, runs)) == Histogram.of(chain.from_iterable(runs))


def test_merging_a_thousand_is_exact_and_takes_less_than_a_second() -> None:
    random = Random(1)  # a region's worth of nodes, each with another kind of disk
    nodes = depth.count(quick=100, landing=1000, soak=1000)
    runs = [[int(random.lognormvariate(random.uniform(11, 17), 2)) for _ in range(300)] for _ in range(nodes)]
    histograms = [Histogram.of(run) for run in runs]
    begun = process_time()
    merged = Histogram.merged(histograms)
    assert process_time() - begun < 1
    assert merged == Histogram.of(chain.from_iterable(runs))
    assert merged.count == 300 * nodes


@examples
@given(samples)
def test_what_fio_prints_is_read_back_as_it_was(values: list[int]) -> None:
    histogram = Histogram.of(values)
    assert Histogram.from_midpoints({midpoint(index): count for index, count in histogram.buckets}) == histogram
    assert histogram.count == len(values)


def test_buckets_in_any_order_and_empty_ones_make_the_same_histogram() -> None:
    assert Histogram.from_midpoints({22912: 1, 5: 2, 7: 0}) == Histogram(((5, 2), (bucket_of(22912), 1)))


@pytest.mark.parametrize(
    "bins",
    [{22913: 1}, {-1: 1}, {10**30: 1}, {22912: -1}, {22912: 2**53 + 1}, {22912: 1.5}, {22912: True}, {22912: "1"}],
    ids=str,
)
def test_bins_that_fio_cannot_have_printed_are_refused(bins: dict[int, int]) -> None:
    with pytest.raises(ValueError, match=r"22912|22913|-1|10{30}"):
        Histogram.from_midpoints(bins)


@pytest.mark.parametrize(
    "buckets", [((5, 1), (5, 1)), ((6, 1), (5, 1)), ((BUCKETS, 1),), ((-1, 1),), ((5, 0),)], ids=str
)
def test_a_histogram_that_cannot_be_is_not_built(buckets: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="bucket"):
        Histogram(buckets)


# --- quantiles


@examples
@given(samples.filter(bool), st.sampled_from([0.0, 0.07, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0]))
def test_a_quantile_lies_in_the_bucket_of_the_exact_one(values: list[int], fraction: float) -> None:
    quantile = Histogram.of(values).quantile(fraction)
    assert quantile is not None
    exactly = exact(values, fraction)
    assert quantile.lower <= exactly
    assert quantile.upper is None or exactly < quantile.upper
    assert quantile.value == midpoint(bucket_of(exactly))


@examples
@given(samples.filter(bool), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_no_quantile_is_above_the_exact_maximum(values: list[int], fraction: float) -> None:
    quantile = Histogram.of(values).quantile(fraction, max(values))
    assert quantile is not None
    assert quantile.lower <= quantile.value
    assert quantile.saturated or quantile.value <= max(values)


def test_a_fraction_means_what_is_written_and_not_the_float_nearby() -> None:
    # 0.07 × 100 is 7.000000000000001 in floats.
    quantile = Histogram.of(range(1, 101)).quantile(0.07)
    assert quantile is not None
    assert quantile.value == 7


@pytest.mark.parametrize("direction", ["read", "write"])
def test_quantiles_are_those_that_fio_prints_itself(direction: str) -> None:
    histogram, percentiles = histogram_of_fio(direction), told_by_fio(direction)["percentile"]
    assert isinstance(percentiles, dict)
    ours = {percentile: histogram.quantile(percentile / 100) for percentile in PERCENTILES}
    assert {f"{p:.6f}": quantile.value for p, quantile in ours.items() if quantile} == {
        f"{p:.6f}": percentiles[f"{p:.6f}"] for p in PERCENTILES
    }


def test_a_histogram_without_samples_has_no_quantile_and_none_within_a_time() -> None:
    assert Histogram().quantile(0.5) is None
    assert Histogram().surely_within(1) == 0
    assert Histogram.merged([]) == Histogram()


@pytest.mark.parametrize("fraction", [-0.1, 1.1, 99, float("nan")])
def test_a_percentile_is_not_taken_for_a_fraction(fraction: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Histogram.of([1]).quantile(fraction)


def test_a_quantile_beyond_the_last_bucket_says_that_it_is_unknown_how_far() -> None:
    histogram = Histogram.of([SECOND] * 98 + [23 * SECOND, BEGINS_LAST])
    assert histogram.saturated == 2
    quantile, lower = histogram.quantile(0.99), histogram.quantile(0.98)
    assert quantile is not None
    assert lower is not None
    assert (quantile.lower, quantile.upper, quantile.saturated) == (BEGINS_LAST, None, True)
    assert not lower.saturated


def test_a_latency_just_below_the_last_bucket_is_not_saturated() -> None:
    assert Histogram.of([BEGINS_LAST - 1]).saturated == 0
    assert Histogram().saturated == 0


@pytest.mark.parametrize(("direction", "beyond"), [("read", 5), ("write", 2)])
def test_requests_that_hung_while_the_osd_was_stopped_are_seen_as_saturated(direction: str, beyond: int) -> None:
    histogram, told = histogram_of_fio(direction), told_by_fio(direction)
    assert isinstance(told["max"], int)
    assert told["max"] > BEGINS_LAST
    assert histogram.count == told["N"]
    assert histogram.saturated == beyond


@examples
@given(samples.filter(bool), latencies)
def test_who_surely_took_no_longer_are_all_but_the_bucket_that_the_time_lies_in(
    values: list[int], nanoseconds: int
) -> None:
    surely = Histogram.of(values).surely_within(nanoseconds)
    within = [value for value in values if value <= nanoseconds]
    in_doubt = sum(bucket_of(value) == bucket_of(nanoseconds) for value in within)
    assert len(within) - in_doubt <= surely <= len(within)


def test_there_is_no_doubt_where_a_bucket_ends() -> None:
    histogram = Histogram.of([1000, 1_000_000])
    _, upper = edges(bucket_of(1000))
    assert upper is not None
    assert histogram.surely_within(upper - 1) == 1
    assert histogram.surely_within(1000) == 0
    assert Histogram.of([23 * SECOND]).surely_within(100 * SECOND) == 0  # the last bucket ends nowhere
