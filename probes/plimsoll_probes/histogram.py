"""Latencies counted in fio's own buckets, so that histograms of any number of runs add up exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

# fio, stat.h: FIO_IO_U_PLAT_GROUP_NR groups of 2^FIO_IO_U_PLAT_BITS buckets, in nanoseconds since fio 2.99.
BITS = 6
BUCKETS = 29 << BITS
LAST = BUCKETS - 1
# A sum of so many is still exact wherever JSON's numbers are read as floats; no run comes near it.
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
    """The bucket's lowest latency and the next one's, in nanoseconds; the last bucket has no upper edge.

    A bucket is 1 ns wide below 128 ns, and from there on at most 1/64 of its lower edge: wherever in it a
    latency lies, it is told from either edge with an error below 1.6 %.
    """
    lower, width = _span(index)
    return lower, None if index == LAST else lower + width


def midpoint(index: int) -> int:
    """What fio prints for the bucket, in nanoseconds: its middle (``plat_idx_to_val``), even of the last."""
    lower, width = _span(index)
    return lower + width // 2


def _span(index: int) -> tuple[int, int]:
    if not 0 <= index < BUCKETS:
        raise ValueError(f"fio has no bucket {index}")
    shift = max((index >> BITS) - 1, 0)
    return (index - (shift << BITS)) << shift, 1 << shift


_OF_MIDPOINT = {midpoint(index): index for index in range(BUCKETS)}


@dataclass(frozen=True, slots=True)
class Quantile:
    """Where a quantile lies, in nanoseconds: at least ``lower`` and below ``upper``.

    ``value`` is what fio prints for it, the middle of the bucket: off by at most half a bucket, which is 0.8 %.
    A saturated one lies in the last bucket, which ends nowhere: it has no ``upper``, and may be far above ``value``.
    """

    lower: int
    upper: int | None
    value: int

    @property
    def saturated(self) -> bool:
        return self.upper is None


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many latencies fell into each bucket: ``(index, count)`` of those that are not empty, in rising order.

    Raises ``ValueError`` for buckets that fio has not, out of order, or without a count.
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
        """Of latencies in nanoseconds."""
        return cls._sorted(Counter(map(bucket_of, samples)))

    @classmethod
    def from_midpoints(cls, bins: Mapping[int, int]) -> Histogram:
        """Of fio's JSON+ ``bins``, which name a bucket by its middle in nanoseconds; nothing is lost.

        Raises ``ValueError`` for a key that is no bucket's middle, and for a count that no run could reach.
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
        """The histogram that all their latencies together would have given: the same, not nearly."""
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
        """How many lie in the last bucket: 17.046 s or anything above, fio does not tell."""
        return self.buckets[-1][1] if self.buckets and self.buckets[-1][0] == LAST else 0

    def quantile(self, fraction: float) -> Quantile | None:
        """The least latency that this part of the samples does not exceed (0.99: the 99th percentile).

        As fio reckons: the first bucket by whose end so many were counted, nothing interpolated. So the exact
        quantile of the samples lies in that very bucket. None without samples.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"a quantile is between 0 and 1, not {fraction}")
        # The fraction as it is written: 0.07 × 100 is 7.000000000000001 in floats, and would ask for an eighth.
        rank = ceil(Fraction(str(fraction)) * self.count)
        counted = 0
        for index, count in self.buckets:
            counted += count
            if counted >= rank:
                lower, upper = edges(index)
                return Quantile(lower, upper, midpoint(index))
        return None

    def surely_within(self, nanoseconds: int) -> int:
        """How many took at most so long for certain: those in buckets that end by then. The last one ends nowhere."""
        ends = ((edges(index)[1], count) for index, count in self.buckets)
        return sum(count for upper, count in ends if upper is not None and upper <= nanoseconds + 1)
