"""Latencies in fio's buckets, so that histograms of any number of runs add up exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil

from plimsoll_agent.util.frozen import frozen

# fio, stat.h: FIO_IO_U_PLAT_GROUP_NR groups of 2^FIO_IO_U_PLAT_BITS buckets, in nanoseconds since fio 2.99.
BITS = 6
BUCKETS = 29 << BITS
LAST = BUCKETS - 1
# Counts up to this are exact also where JSON's numbers are read as floats; no run reaches it.
COUNT_MAX = 2**53


def bucket_of(nanoseconds: int) -> int:
    """The bucket of a latency: fio's ``plat_val_to_idx``. Raises ``ValueError`` for a negative one."""
    if nanoseconds < 0:
        raise ValueError(f"a latency cannot be {nanoseconds} ns")
    shift = max(nanoseconds.bit_length() - 1 - BITS, 0)
    if not shift:
        return nanoseconds
    return min(((shift + 1) << BITS) + ((nanoseconds >> shift) & ((1 << BITS) - 1)), LAST)


def edges(index: int) -> tuple[int, int | None]:
    """The lowest latency of the bucket and of the next one, in nanoseconds; the last bucket has no upper edge.

    A bucket is 1 ns wide below 128 ns, and at most 1/64 of its lower edge above: either edge differs from any latency
    in it by less than 1.6 %.
    """
    lower, width = _span(index)
    return lower, None if index == LAST else lower + width


def midpoint(index: int) -> int:
    """The bucket's middle in nanoseconds, as fio prints it (``plat_idx_to_val``), even for the last."""
    lower, width = _span(index)
    return lower + width // 2


def _span(index: int) -> tuple[int, int]:
    if not 0 <= index < BUCKETS:
        raise ValueError(f"fio has no bucket {index}")
    shift = max((index >> BITS) - 1, 0)
    return (index - (shift << BITS)) << shift, 1 << shift


_OF_MIDPOINT = {midpoint(index): index for index in range(BUCKETS)}


@frozen
class Quantile:
    """A quantile in nanoseconds: at least ``lower`` and below ``upper``.

    ``value`` is what fio prints, the middle of the bucket, or the exact maximum where that is less: off by at most
    half a bucket, which is 0.8 %. A saturated
    quantile is in the last bucket, which has no ``upper``, and may be far above ``value``.
    """

    lower: int
    upper: int | None
    value: int

    @property
    def saturated(self) -> bool:
        return self.upper is None


@frozen
class Histogram:
    """How many latencies are in each bucket: ``(index, count)`` of those that are not empty, in rising order.

    Raises ``ValueError`` for buckets that fio does not have, that are out of order, or have no count.
    """

    buckets: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        previous = -1
        for index, count in self.buckets:
            if not previous < index < BUCKETS:
                raise ValueError(f"bucket {index} after {previous}: they must rise and stay below {BUCKETS}")
            if count < 1:
                raise ValueError(f"bucket {index} cannot hold {count}")
            previous = index

    @classmethod
    def of(cls, samples: Iterable[int]) -> Histogram:
        """From latencies in nanoseconds."""
        return cls._sorted(Counter(map(bucket_of, samples)))

    @classmethod
    def from_midpoints(cls, bins: Mapping[int, int]) -> Histogram:
        """From fio's JSON+ ``bins``, whose keys are the middles of buckets in nanoseconds.

        Raises ``ValueError`` for a key that is not the middle of a bucket, and for a count that no run can reach.
        """
        counts: dict[int, int] = {}
        for middle, count in bins.items():
            if middle not in _OF_MIDPOINT:
                raise ValueError(f"none of fio's buckets has its middle at {middle!r} ns")
            if type(count) is not int or not 0 <= count <= COUNT_MAX:
                raise ValueError(f"the bucket at {middle} ns cannot hold {count!r}")
            if count:
                counts[_OF_MIDPOINT[middle]] = count
        return cls._sorted(counts)

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """The exact histogram of all their latencies together."""
        counts = [0] * BUCKETS
        for histogram in histograms:
            for index, count in histogram.buckets:
                counts[index] += count
        return cls(tuple((index, count) for index, count in enumerate(counts) if count))

    @classmethod
    def _sorted(cls, counts: Mapping[int, int]) -> Histogram:
        return cls(tuple(sorted(counts.items())))

    @property
    def count(self) -> int:
        return sum(count for _, count in self.buckets)

    @property
    def saturated(self) -> int:
        """How many are in the last bucket: 17.046 s or any time above."""
        return self.buckets[-1][1] if self.buckets and self.buckets[-1][0] == LAST else 0

    def quantile(self, fraction: float, most: int | None = None) -> Quantile | None:
        """The least latency that this share of the samples does not exceed (0.99: the 99th percentile).

        As fio computes it, without interpolation, so the exact quantile is in the same bucket. ``most`` is the exact
        maximum, where it is known. None without samples.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"a quantile is between 0 and 1, not {fraction}")
        # As a decimal fraction: 0.07 × 100 is 7.000000000000001 in floats, whose ceiling is 8.
        rank = ceil(Fraction(str(fraction)) * self.count)
        total = 0
        for index, count in self.buckets:
            total += count
            if total >= rank:
                lower, upper = edges(index)
                middle = midpoint(index)
                return Quantile(lower, upper, middle if most is None else max(lower, min(middle, most)))
        return None

    def surely_within(self, nanoseconds: int) -> int:
        """How many certainly took at most so long: those in buckets that end there or before."""
        ends = ((edges(index)[1], count) for index, count in self.buckets)
        return sum(count for upper, count in ends if upper is not None and upper <= nanoseconds + 1)
