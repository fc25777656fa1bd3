"""Who will feel new limits: worked by hand from averages between passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.model.impact import Impact, impact, tightened_bases
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Rates

AT_250 = Limits(total_iops_sec=250)
AT_25 = Limits(total_iops_sec=25)
HOUR = 3600.0


def rates(reads: float = 0, writes: float = 0, *, size: int = 4096, seconds: float = HOUR) -> Rates:
    return Rates(
        read_iops=reads, write_iops=writes, read_bytes=reads * size, write_bytes=writes * size, seconds=seconds
    )


def test_a_cut_is_felt_for_the_part_of_the_time_in_which_the_limit_would_have_been_reached() -> None:
    found = impact(AT_250, AT_25, [rates(10), rates(100, 40), rates(30, 0, seconds=2 * HOUR)])
    assert found == Impact(seconds=4 * HOUR, share=0.75, base="total_iops_sec", present=30)
    assert found.felt
    assert found.unit == "iops"


def test_a_disk_that_did_less_will_not_feel_it() -> None:
    found = impact(AT_250, AT_25, [rates(20)])
    assert found is not None
    assert (found.share, found.felt, found.present) == (0, False, 20)


def test_without_averages_nothing_is_known() -> None:
    assert impact(AT_250, AT_25, []) is None


@pytest.mark.parametrize(
    ("before", "after", "bases"),
    [
        (AT_250, AT_25, ("total_iops_sec",)),
        (AT_25, AT_250, ()),
        (AT_25, Limits(), ()),
        (Limits(), AT_25, ("total_iops_sec",)),
        (
            Limits(read_iops_sec=50, write_iops_sec=100),
            Limits(read_iops_sec=100, write_iops_sec=50),
            ("write_iops_sec",),
        ),
        (AT_25, Limits(total_iops_sec=25, total_bytes_sec=10**6), ("total_bytes_sec",)),
        # The same rate with a smaller burst, and the same numbers where a large request counts as more.
        (
            Limits(total_iops_sec=25, total_iops_sec_max=100, total_iops_sec_max_length=60),
            Limits(total_iops_sec=25, total_iops_sec_max=100, total_iops_sec_max_length=10),
            ("total_iops_sec",),
        ),
        (AT_25, Limits(total_iops_sec=25, size_iops_sec=4096), ("total_iops_sec",)),
        (Limits(total_iops_sec=25, size_iops_sec=4096), AT_25, ()),
    ],
)
def test_only_what_allows_less_than_before_is_felt(before: Limits, after: Limits, bases: tuple[str, ...]) -> None:
    assert tightened_bases(before, after) == bases


def test_reads_and_writes_are_told_apart() -> None:
    unlimited_reads = Limits(write_iops_sec=50)
    assert impact(Limits(), unlimited_reads, [rates(400, 10)]) == Impact(
        seconds=HOUR, share=0, base="write_iops_sec", present=10
    )


def test_a_burst_that_the_limits_allow_is_not_felt() -> None:
    """300 a second for a minute are 18,000: 25 a second and a burst of 300 for 60 s allow as much, 30 s do not."""
    minute = [rates(300, seconds=60)]
    long, short = (
        Limits(total_iops_sec=25, total_iops_sec_max=320, total_iops_sec_max_length=length) for length in (60, 30)
    )
    felt = [found.felt for limits in (long, short) if (found := impact(Limits(), limits, minute))]
    assert felt == [False, True]


def test_a_large_request_counts_as_several_where_the_limits_say_so() -> None:
    found = impact(Limits(), Limits(total_iops_sec=100, size_iops_sec=4096), [rates(30, size=16384)])
    assert found is not None
    assert (found.present, found.felt) == (120, True)


def test_the_parameter_that_is_reached_most_is_named() -> None:
    found = impact(Limits(), Limits(total_iops_sec=100, total_bytes_sec=10**6), [rates(50, size=16384)])
    assert found is not None
    assert (found.base, found.unit, found.present) == ("total_bytes_sec", "bytes", 50 * 16384)


@given(st.lists(st.floats(0, 1000), min_size=1), st.integers(1, 1000), st.integers(1, 1000))
def test_a_lower_limit_is_never_felt_less(loads: list[float], one: int, other: int) -> None:
    history = [rates(load) for load in loads]
    felt = [
        found.share
        for limit in sorted((one, other))
        if (found := impact(Limits(), Limits(total_iops_sec=limit), history))
    ]
    assert felt[0] >= felt[1]
