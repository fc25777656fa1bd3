"""What limits allow, against a simulation of QEMU's leaky buckets that knows nothing of the formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.model.limits import UNITS, Limits
from plimsoll_probes.evaluate.allowance import Bound, Reach, RequestLoad, bounds, reach
from plimsoll_probes.model.job import Direction, Job, JobName
from tests.unit.values import examples, examples_of

NANOSECONDS = 10**9
BLOCK = 16384
BOTH: tuple[Direction, ...] = ("read", "write")
MIXED = Job(name=JobName.MIXED)
OF_ALL = RequestLoad(read_operations=1, write_operations=1, read_bytes=1, write_bytes=1)
"""Takes from every limit."""


@dataclass
class Bucket:
    """QEMU's LeakyBucket, function by function: util/throttle.c, include/qemu/throttle.h."""

    avg: int
    max: int
    burst_length: int
    level: float = 0
    burst_level: float = 0

    def leak(self, nanoseconds: int) -> None:
        """``throttle_leak_bucket``"""
        self.level = max(self.level - self.avg * nanoseconds / NANOSECONDS, 0)
        if self.burst_length > 1:
            self.burst_level = max(self.burst_level - self.max * nanoseconds / NANOSECONDS, 0)

    def wait(self) -> int:
        """``throttle_compute_wait``, in nanoseconds"""
        if not self.avg:
            return 0
        if self.max:
            size, burst_size = self.max * self.burst_length, self.max / 10
        else:
            size, burst_size = self.avg / 10, 0.0
        if self.level > size:
            return int((self.level - size) * NANOSECONDS / self.avg)
        if self.burst_length > 1 and self.burst_level > burst_size:
            return int((self.burst_level - burst_size) * NANOSECONDS / self.max)
        return 0

    def account(self, units: float) -> None:
        """``throttle_account``"""
        self.level += units
        if self.burst_length > 1:
            self.burst_level += units


def simulated(limits: Limits, seconds: float, requests: Sequence[Direction], *, full: bool = False) -> int:
    """Requests of ``BLOCK`` bytes that pass in the first ``seconds``, in this order over and over.

    ``full``: the buckets are full when it begins.
    """
    buckets = {
        (scope, unit): Bucket(
            getattr(limits, f"{scope}_{unit}_sec"),
            getattr(limits, f"{scope}_{unit}_sec_max"),
            # QEMU's burst_length is 1 unless said otherwise.
            getattr(limits, f"{scope}_{unit}_sec_max_length") or 1,
        )
        for scope in ("total", "read", "write")
        for unit in UNITS
    }
    for bucket in buckets.values():
        if full:
            bucket.level = bucket.max * bucket.burst_length if bucket.max else bucket.avg / 10
    size = limits.size_iops_sec
    cost = {"bytes": BLOCK, "iops": BLOCK / size if 0 < size < BLOCK else 1}
    passed = now = 0
    while True:
        direction = requests[passed % len(requests)]
        mine = {key: bucket for key, bucket in buckets.items() if key[0] in ("total", direction)}
        wait = max(bucket.wait() for bucket in mine.values())
        while wait:  # a bucket that leaks slowly may be late by a nanosecond
            now += wait
            for bucket in buckets.values():
                bucket.leak(wait)
            wait = max(bucket.wait() for bucket in mine.values())
        if now > seconds * NANOSECONDS:
            return passed
        for (_, unit), bucket in mine.items():
            bucket.account(cost[unit])
        passed += 1


def close(simulated: int, requests: Sequence[Direction]) -> object:
    """But for some requests in each direction: the bucket that is reached lets one more pass."""
    return pytest.approx(simulated, rel=0.03, abs=4 * len(requests))


@st.composite
def numbers(draw: st.DrawFn, base: str, scale: int = 1) -> dict[str, int]:
    """A rate of ``scale`` times 20 to 200, perhaps with a burst."""
    rate = draw(st.integers(20, 200))
    peak = draw(st.just(0) | st.integers(rate, 8 * rate))
    length = draw(st.sampled_from([0, 1, 2, 5, 20])) if peak else 0
    return {base: rate * scale, f"{base}_max": peak * scale, f"{base}_max_length": length}


iops = numbers("total_iops_sec") | st.tuples(numbers("read_iops_sec"), numbers("write_iops_sec")).map(
    lambda both: both[0] | both[1]
)
sizes = numbers("total_bytes_sec", BLOCK) | numbers("write_bytes_sec", BLOCK)
limits_ = st.builds(lambda one, other: Limits(**(one | other)), iops, st.just({}) | sizes)
times = st.floats(0.5, 30)
fewer = examples_of(100)
REQUESTS: dict[Job, Sequence[Direction]] = {
    Job(name=JobName.READ): ("read",),
    Job(name=JobName.WRITE): ("write",),
    MIXED: BOTH,
    Job(name=JobName.MIXED, read_percent=75): ("read", "read", "read", "write"),
}
jobs = st.sampled_from(list(REQUESTS))


def only_bound(limits: Limits, seconds: float = 10) -> Bound:
    (bound,) = bounds(limits, seconds, OF_ALL)
    return bound


@fewer
@given(limits_, jobs, times)
def test_a_job_reaches_what_qemu_lets_pass_at_the_pace_of_its_slower_half(
    limits: Limits, job: Job, seconds: float
) -> None:
    """With empty buckets the most, with full ones what it has in any case."""
    within = reach(limits, job, seconds)
    assert within is not None
    assert within.high == close(simulated(limits, seconds, REQUESTS[job]), REQUESTS[job])
    assert within.low == close(simulated(limits, seconds, REQUESTS[job], full=True), REQUESTS[job])


@fewer
@given(numbers("total_iops_sec"), st.sampled_from([4096, 10000, 65536]), jobs, times)
def test_a_request_above_size_iops_sec_counts_as_several(
    given_: dict[str, int], size: int, job: Job, seconds: float
) -> None:
    limits = Limits(**given_, size_iops_sec=size)
    within = reach(limits, job, seconds)
    assert within is not None
    assert within.high == close(simulated(limits, seconds, REQUESTS[job]), REQUESTS[job])


@pytest.mark.parametrize(
    ("given_", "seconds", "low", "high"),
    [
        ({"total_iops_sec": 250}, 10, 2500, 2525),  # a tenth of a second's worth more
        # A plain burst lasts a second, at any height.
        ({"total_iops_sec": 250, "total_iops_sec_max": 500}, 10, 2500, 3000),
        # In the burst, which is held to its own height,
        ({"total_iops_sec": 250, "total_iops_sec_max": 500, "total_iops_sec_max_length": 30}, 10, 2500, 5050),
        # and after it.
        ({"total_iops_sec": 250, "total_iops_sec_max": 500, "total_iops_sec_max_length": 4}, 20, 5000, 7000),
    ],
)
def test_examples_that_a_person_can_reckon(given_: dict[str, int], seconds: float, low: int, high: int) -> None:
    limits = Limits(**given_)
    assert reach(limits, Job(name=JobName.READ), seconds) == Reach(low, high)
    assert simulated(limits, seconds, ["read"]) == pytest.approx(high, abs=2)
    assert simulated(limits, seconds, ["read"], full=True) == pytest.approx(low, abs=2)


def test_a_mixed_job_runs_at_the_pace_of_its_slower_half() -> None:
    limits = Limits(read_iops_sec=150, write_iops_sec=60)
    within = reach(limits, MIXED, 10)
    assert within == Reach(1200, 1212)
    assert within is not None
    mostly_reads = reach(limits, Job(name=JobName.MIXED, read_percent=75), 10)
    assert mostly_reads is not None
    assert mostly_reads.low == 2000


@pytest.mark.parametrize(
    ("limits", "job"),
    [
        (Limits(), MIXED),
        (Limits(write_iops_sec=1), Job(name=JobName.READ)),
        (Limits(read_bytes_sec=1), Job(name=JobName.WRITE)),
    ],
    ids=["none", "of writes", "of reads"],
)
def test_a_limit_of_the_other_direction_does_not_hold_a_job_back(limits: Limits, job: Job) -> None:
    assert reach(limits, job, 10) is None


def test_what_a_load_takes_is_counted_in_the_direction_and_unit_of_the_limit() -> None:
    load = RequestLoad(read_operations=10, write_operations=4, read_bytes=1000, write_bytes=70)
    limits = {
        "total_iops_sec": 14,
        "read_iops_sec": 10,
        "write_iops_sec": 4,
        "total_bytes_sec": 1070,
        "read_bytes_sec": 1000,
        "write_bytes_sec": 70,
    }
    for name, taken in limits.items():
        bound = only_bound(Limits(**{name: 99}))
        assert bound.parameter.name == name
        assert bound.taken(load) == taken


@examples
@given(st.lists(st.integers(1, 10**6), min_size=1), st.integers(1, 10**6))
def test_a_load_of_unknown_sizes_is_never_said_to_take_more_than_it_does(requests: list[int], size: int) -> None:
    bound = only_bound(Limits(total_iops_sec=100, size_iops_sec=size))
    exactly = sum(max(request / size, 1) for request in requests)
    taken = bound.taken(RequestLoad(read_operations=len(requests), read_bytes=sum(requests)))
    assert taken <= exactly * (1 + 1e-9)
    assert taken >= len(requests)


@examples
@given(limits_, jobs, times, times)
def test_more_time_never_allows_less(limits: Limits, job: Job, some: float, more: float) -> None:
    less, later = reach(limits, job, some), reach(limits, job, some + more)
    assert less is not None
    assert later is not None
    assert less.low <= later.low
    assert less.high <= later.high
    assert less.low <= less.high
