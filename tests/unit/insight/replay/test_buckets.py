"""The throttle on rates: by hand, and against the throttle of single requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll_agent.model.limits import Limits
from plimsoll_insight.replay.buckets import Buckets, ReplayInterval
from plimsoll_insight.simulate.throttle import SECOND, departures
from tests import depth

T = 60.0


def replayed(
    limits: Limits, *intervals: tuple[float, float], size: float = 4096, most: bool = True, queues: bool = True
) -> list[ReplayInterval]:
    """Each interval is its reads and writes, as many as come in it."""
    buckets = Buckets([limits], ("read", "write"), most=most, queues=queues)
    return [buckets.advance(np.array([[r], [w]]), np.array([[r * size], [w * size]]), T) for r, w in intervals]


def test_what_fits_neither_waits_nor_is_at_limit() -> None:
    (one,) = replayed(Limits(total_iops_sec=100), (2000, 3000))
    assert (one.overflow, one.waited, one.drain, one.at_limit) == ([0], [0], [0], [False])


def test_twice_the_limit_for_a_minute_waits_for_a_minute() -> None:
    """12,000 requests for 100 a second and a bucket of 10: 6010 go. The bucket is full after 0.1 s, and what comes
    after that waits: 59.9 s of 200 a second. The last one waits for the 5990 before it."""
    (one,) = replayed(Limits(total_iops_sec=100), (12000, 0))
    assert one.overflow == pytest.approx([5990])
    assert one.waited == pytest.approx([200 * 59.9])
    assert one.drain == pytest.approx([59.9])
    assert one.at_limit == [True]


def test_a_queue_is_served_later_and_ends_when_it_is_empty() -> None:
    """5990 wait at first; 50 a second come then, so that the queue shrinks by 50 a second for 119.8 s."""
    _, second, third, fourth = replayed(Limits(total_iops_sec=100), (12000, 0), (3000, 0), (3000, 0), (3000, 0))
    assert second.overflow == pytest.approx([2990])
    assert second.waited == pytest.approx([3000])
    assert third.overflow == pytest.approx([0])
    assert third.waited == pytest.approx([50 * 59.8])
    assert (fourth.waited, fourth.at_limit) == ([0], [False])


def test_without_a_queue_what_does_not_fit_never_comes() -> None:
    _, second = replayed(Limits(total_iops_sec=100), (12000, 0), (3000, 0), queues=False)
    assert (second.overflow, second.drain, second.at_limit) == ([0], [0], [False])


def test_a_burst_lets_through_its_room_and_then_the_base() -> None:
    """A bucket of 600 × 10 beside 60 × 100: 12,000 of 15,000 go, since 250 a second are less than 600."""
    limits = Limits(total_iops_sec=100, total_iops_sec_max=600, total_iops_sec_max_length=10)
    first, second = replayed(limits, (15000, 0), (6000, 0), queues=False)
    assert first.overflow == pytest.approx([3000])
    assert second.overflow == pytest.approx([0])
    _, again = replayed(limits, (15000, 0), (0, 0), queues=False)
    assert (again.overflow, again.at_limit) == ([0], [False])


def test_a_burst_of_more_than_a_second_has_its_own_rate() -> None:
    """600 × 1000 fit in, but 600 a second and a tenth of a second more is all that goes."""
    limits = Limits(total_iops_sec=100, total_iops_sec_max=600, total_iops_sec_max_length=1000)
    (one,) = replayed(limits, (60000, 0))
    assert one.overflow == pytest.approx([60000 - 600 * 60.1])


def test_large_requests_count_as_several_between_two_bounds() -> None:
    """100 a second of 16 KiB, counted per 4 KiB: 400 at least, 500 at most."""
    limits = Limits(total_iops_sec=450, size_iops_sec=4096)
    (least,) = replayed(limits, (6000, 0), size=16384, most=False)
    (most,) = replayed(limits, (6000, 0), size=16384, most=True)
    assert least.overflow == pytest.approx([0])
    assert most.overflow == pytest.approx([6000 - (450 * 60 + 45) / 5])


def test_a_limit_of_writes_leaves_reads_alone() -> None:
    (one,) = replayed(Limits(write_iops_sec=100, read_iops_sec=1000), (6000, 12000))
    assert one.overflow == pytest.approx([5990])
    assert one.waited == pytest.approx([300 * 5990 / (300 - 100)], rel=1)


def test_the_tightest_limit_counts() -> None:
    """100 requests of 1 MiB a second at 10 MiB/s: a tenth goes, and the bucket's second of a tenth."""
    (one,) = replayed(Limits(total_iops_sec=1000, total_bytes_sec=10 << 20), (6000, 0), size=1 << 20)
    assert one.overflow == pytest.approx([6000 - 601])


def test_disks_do_not_touch_each_other() -> None:
    buckets = Buckets([Limits(total_iops_sec=10), Limits(), Limits(total_iops_sec=1000)], ("total",), most=True,
                      queues=True)  # fmt: skip
    one = buckets.advance(np.full((1, 3), 6000.0), np.zeros((1, 3)), T)
    assert list(one.overflow) == pytest.approx([6000 - 601, 0, 0])
    assert list(one.at_limit) == [True, False, False]


RATES = st.integers(20, 400)


@settings(max_examples=depth.examples(40))
@given(
    rate=RATES, burst=st.integers(0, 5), length=st.integers(1, 20), loads=st.lists(RATES, min_size=1, max_size=5),
    size=st.sampled_from([512, 4096, 65536]), counted=st.sampled_from([0, 8192]),
)  # fmt: skip
def test_it_is_what_the_throttle_of_single_requests_comes_to(
    rate: int, burst: int, length: int, loads: list[int], size: int, counted: int
) -> None:
    """Evenly spaced requests, an interval a load: as many have not gone at the end of each."""
    given_limits: dict[str, Any] = {"total_iops_sec": rate, "size_iops_sec": counted}
    if burst:
        given_limits |= {"total_iops_sec_max": rate * burst, "total_iops_sec_max_length": length}
    limits = Limits(**given_limits)
    seconds = 10.0
    buckets = Buckets([limits], ("total",), most=False, queues=True)
    requests, results = [], []
    for number, load in enumerate(loads):
        amount = load * seconds
        results.append(buckets.advance(np.array([[amount]]), np.array([[amount * size]]), seconds))
        begin = number * seconds
        requests += [(int((begin + place / load) * SECOND), size, False) for place in range(int(amount))]
    times = departures(limits, requests)
    units = max(size / counted, 1) if counted else 1
    # A bucket overflows by one request, and a tenth of a second of the limit is in it.
    room = 4 + rate * 0.15 / units + max(burst, 1) * rate * 0.1 / units
    for number, result in enumerate(results, 1):
        end = int(number * seconds * SECOND)
        rest = sum(at < end <= gone for (at, _, _), gone in zip(requests, times, strict=True))
        assert result.overflow[0] == pytest.approx(rest, abs=room + 0.02 * loads[number - 1] * seconds)
