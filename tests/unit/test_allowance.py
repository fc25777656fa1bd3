"""What limits allow, against a simulation of QEMU's leaky buckets that knows nothing of the formula."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll_agent.limits import Limits, Unit
from plimsoll_probes.allowance import Direction, allowed
from tests.unit.values import examples

NANOSECONDS = 10**9
BLOCK = 16384
BOTH: tuple[Direction, ...] = ("read", "write")


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

    def account(self, units: int) -> None:
        """``throttle_account``"""
        self.level += units
        if self.burst_length > 1:
            self.burst_level += units


def simulated(limits: Limits, unit: Unit, seconds: float, *directions: Direction, request: int = 1) -> int:
    """What passes in the first ``seconds``, when every direction always has a request of so many units waiting."""

    def bucket(scope: str) -> Bucket:
        base = f"{scope}_{unit}_sec"
        # QEMU's burst_length is 1 unless said otherwise.
        length = getattr(limits, f"{base}_max_length") or 1
        return Bucket(getattr(limits, base), getattr(limits, f"{base}_max"), length)

    total = bucket("total")
    buckets = {direction: (total, bucket(direction)) for direction in directions}
    every = [total, *(own for _, own in buckets.values())]
    due = dict.fromkeys(directions, 0)
    now = passed = 0
    while True:
        direction = min(due, key=lambda waiting: due[waiting])
        if due[direction] > seconds * NANOSECONDS:
            return passed
        for one in every:
            one.leak(due[direction] - now)
        now = due[direction]
        for one in buckets[direction]:
            one.account(request)
        passed += request
        # A request that was accounted may hold up both directions, where they share the total.
        for waiting in directions:
            due[waiting] = max(due[waiting], now + max(one.wait() for one in buckets[waiting]))


def close(expected: int, request: int = 1) -> object:
    return pytest.approx(expected, rel=0.03, abs=4 * request)


@st.composite
def bounds(draw: st.DrawFn, base: str, scale: int = 1) -> dict[str, int]:
    """A rate of ``scale`` times 20 to 200, perhaps with a burst."""
    rate = draw(st.integers(20, 200))
    peak = draw(st.just(0) | st.integers(rate, 8 * rate))
    length = draw(st.sampled_from([0, 1, 2, 5, 20])) if peak else 0
    return {base: rate * scale, f"{base}_max": peak * scale, f"{base}_max_length": length}


times = st.floats(0.5, 30)
fewer = settings(examples, max_examples=60)


@fewer
@given(bounds("total_iops_sec"), times, st.sampled_from([("read",), ("write",), BOTH]))
def test_a_total_allows_what_qemu_lets_pass_whichever_way_it_goes(
    given_: dict[str, int], seconds: float, directions: tuple[Direction, ...]
) -> None:
    limits = Limits(**given_)
    assert allowed(limits, "iops", seconds, *directions) == close(simulated(limits, "iops", seconds, *directions))


@fewer
@given(bounds("read_iops_sec"), bounds("write_iops_sec"), times)
def test_limits_on_each_direction_add_up(read: dict[str, int], write: dict[str, int], seconds: float) -> None:
    limits = Limits(**read, **write)
    assert allowed(limits, "iops", seconds, *BOTH) == close(simulated(limits, "iops", seconds, *BOTH))
    assert allowed(limits, "iops", seconds, "read") == close(simulated(limits, "iops", seconds, "read"))
    assert allowed(limits, "iops", seconds, "write") == close(simulated(limits, "iops", seconds, "write"))


@fewer
@given(bounds("write_bytes_sec", scale=BLOCK), times)
def test_bytes_are_allowed_as_operations_are(given_: dict[str, int], seconds: float) -> None:
    limits = Limits(**given_)
    expected = simulated(limits, "bytes", seconds, "write", request=BLOCK)
    assert allowed(limits, "bytes", seconds, "write") == close(expected, BLOCK)


@pytest.mark.parametrize(
    ("given_", "seconds", "expected"),
    [
        ({"total_iops_sec": 250}, 10, 2525),  # a tenth of a second's worth more
        ({"total_iops_sec": 250, "total_iops_sec_max": 500}, 10, 3000),  # a plain burst lasts a second, at any height
        (
            {"total_iops_sec": 250, "total_iops_sec_max": 500, "total_iops_sec_max_length": 30},
            10,
            5050,
        ),  # in the burst
        ({"total_iops_sec": 250, "total_iops_sec_max": 500, "total_iops_sec_max_length": 4}, 20, 7000),  # after it
    ],
)
def test_examples_that_a_person_can_reckon(given_: dict[str, int], seconds: float, expected: int) -> None:
    limits = Limits(**given_)
    assert allowed(limits, "iops", seconds, "read") == expected
    assert simulated(limits, "iops", seconds, "read") == pytest.approx(expected, abs=2)


@pytest.mark.parametrize(
    ("limits", "unit", "directions"),
    [
        (Limits(), "iops", BOTH),
        (Limits(total_bytes_sec=1), "iops", BOTH),
        (Limits(total_iops_sec=1, size_iops_sec=4096), "bytes", BOTH),
        (Limits(read_iops_sec=1), "iops", ("write",)),
        (Limits(read_iops_sec=1), "iops", BOTH),
    ],
)
def test_what_is_not_limited_is_infinite(limits: Limits, unit: Unit, directions: tuple[Direction, ...]) -> None:
    assert allowed(limits, unit, 10, *directions) == inf


@examples
@given(bounds("total_iops_sec"), times, times)
def test_more_time_never_allows_less(given_: dict[str, int], some: float, more: float) -> None:
    limits = Limits(**given_)
    assert allowed(limits, "iops", some, "read") <= allowed(limits, "iops", some + more, "read")
