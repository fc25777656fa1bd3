"""QEMU's throttle, by hand: tests/lab/test_throttle.py holds it against the real one."""

from __future__ import annotations

from collections import Counter

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_insight.simulate.throttle import NEVER, SECOND, LeakyBucket, Throttle, departures

MILLISECOND = SECOND // 1000


def by_second(times: list[int]) -> list[int]:
    counts = Counter(time // SECOND for time in times)
    return [counts[second] for second in range(max(counts) + 1)]


def test_without_limits_a_request_goes_when_it_comes() -> None:
    assert departures(Limits(), [(0, 4096, False), (5, 1 << 30, True)]) == [0, 5]


def test_a_bucket_without_a_burst_has_room_for_a_tenth_of_a_second_and_overflows_by_a_request() -> None:
    """100 a second: ten and one more go at once, then one each 10 ms."""
    times = departures(Limits(total_iops_sec=100), [(0, 4096, False)] * 14)
    assert times == [0] * 11 + [10 * MILLISECOND, 20 * MILLISECOND, 30 * MILLISECOND]


def test_a_burst_of_one_second_goes_at_once_and_what_follows_at_the_base() -> None:
    times = departures(Limits(total_iops_sec=10, total_iops_sec_max=50), [(0, 512, True)] * 70)
    assert times[:51] == [0] * 51
    assert by_second(times) == [51 + 9, 10]


def test_a_longer_burst_keeps_its_rate_for_its_length() -> None:
    """100 a second, with a tenth of a second at once, until 300 have gone beside the base: 380 in 4 s; then 20."""
    limits = Limits(total_iops_sec=20, total_iops_sec_max=100, total_iops_sec_max_length=3)
    assert by_second(departures(limits, [(0, 4096, False)] * 420))[:6] == [110, 100, 100, 70, 20, 20]


def test_a_request_larger_than_the_size_counts_in_fractions() -> None:
    """12 KiB at 8 KiB is 1.5 requests; 4 KiB is one, not half."""
    limits = Limits(total_iops_sec=10, size_iops_sec=8192)
    assert departures(limits, [(0, 12288, False)] * 3) == [0, SECOND // 20, SECOND // 5]
    assert departures(limits, [(0, 4096, False)] * 3) == [0, 0, SECOND // 10]


def test_of_several_limits_the_longest_wait_counts() -> None:
    limits = Limits(total_iops_sec=100, write_bytes_sec=1000)
    assert departures(limits, [(0, 1100, True), (0, 100, True), (0, 100, False)]) == [0, SECOND, 0]


def test_reads_and_writes_wait_apart() -> None:
    limits = Limits(read_iops_sec=10, write_iops_sec=20)
    assert departures(limits, [(0, 512, False), (0, 512, True)] * 4) == [
        0, 0, 0, 0, 100 * MILLISECOND, 0, 200 * MILLISECOND, 50 * MILLISECOND,
    ]  # fmt: skip


def test_a_request_that_comes_while_others_wait_goes_after_them() -> None:
    """20 a second: three at once, and the fourth 50 ms later."""
    limits, later = Limits(total_iops_sec=20), 51 * MILLISECOND
    assert departures(limits, [(0, 512, False)] * 4 + [(later, 512, False)]) == [
        0, 0, 0, 50 * MILLISECOND, 100 * MILLISECOND,
    ]  # fmt: skip


def test_a_bucket_leaks_while_nothing_comes() -> None:
    bucket = LeakyBucket(100)
    bucket.add(30)
    assert bucket.wait() == 200 * MILLISECOND
    bucket.leak(150 * MILLISECOND)
    assert bucket.wait() == 50 * MILLISECOND


def test_a_write_of_the_same_limits_empties_the_bucket_and_lets_one_request_go() -> None:
    limits = Limits(total_iops_sec=10)
    throttle: Throttle[int] = Throttle(limits)
    assert [throttle.arrive(0, 512, False, number) for number in range(6)] == [True, True, False, False, False, False]
    # The first of the queue goes unasked, and the empty bucket has room for one more.
    assert throttle.write(limits, 1000) == [2, 3]
    assert throttle.waiting() == 2
    assert throttle.due == 1000 + SECOND // 10


def test_disks_of_a_group_share_the_rate_in_turn() -> None:
    throttle: Throttle[str] = Throttle(Limits(total_iops_sec=30), disks=3)
    for _ in range(40):
        for disk, name in enumerate("abc"):
            throttle.arrive(0, 4096, False, name, disk)
    order: list[str] = []
    while (due := throttle.due) <= SECOND:
        order += throttle.wake(due)
    assert Counter(order) == {"a": 10, "b": 10, "c": 10}
    assert order[:6] == ["b", "a", "c", "b", "a", "c"]  # four went at once: the first to wait is b


def test_a_disk_that_comes_late_does_not_wait_for_the_queue_of_another() -> None:
    throttle: Throttle[str] = Throttle(Limits(total_iops_sec=10), disks=2)
    for _ in range(50):
        throttle.arrive(0, 4096, True, "first", 0)
    throttle.arrive(1000, 4096, True, "late", 1)
    order = throttle.wake(throttle.due) + throttle.wake(throttle.due)
    assert order == ["first", "late"]


@pytest.mark.parametrize("write", [False, True])
def test_nothing_is_due_where_nothing_waits(write: bool) -> None:
    throttle: Throttle[None] = Throttle(Limits(total_iops_sec=10))
    assert throttle.arrive(0, 4096, write, None)
    assert throttle.due == NEVER
