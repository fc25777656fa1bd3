"""What is written under congestion is between the floor and the desired limits, in proportion to the shares."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.congestion.reduction import written
from plimsoll_agent.model.limits import BASES, PARAMETERS, Limits
from tests import depth
from tests.unit.values import examples_of, possible_limits

SHARES = st.floats(1, 1e9)


def floor_of(floor: Limits, base: str) -> int:
    """By the documentation: of its own direction, else of both; for both together, else the sum of the two."""
    scope, unit, _ = base.split("_")
    total, read, write = (getattr(floor, f"{each}_{unit}_sec") for each in ("total", "read", "write"))
    return {"total": total or (read and write and read + write), "read": read or total, "write": write or total}[
        scope
    ]


FACTORS_EACH = depth.count(quick=4, landing=10, soak=100)
"""At soak depth 10^6 cases in all."""


@given(possible_limits(), possible_limits(), SHARES, st.integers())
@examples_of(1000)
def test_no_limit_is_ever_above_what_is_desired_or_below_its_floor_or_gone(
    desired: Limits, floor: Limits, share: float, seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(FACTORS_EACH):
        check(desired, chance.choice((1 - chance.random(), chance.random() / share + 1e-12)), floor, share)


def check(desired: Limits, x: float, floor: Limits, share: float) -> None:
    result = written(desired, x, floor, share)
    assert (result.group_name, result.size_iops_sec) == (desired.group_name, desired.size_iops_sec)
    for base in BASES:
        rate, least = getattr(desired, base), floor_of(floor, base)
        new, burst, length = (getattr(result, base + ending) for ending in ("", "_max", "_max_length"))
        assert min(rate, least) <= new <= rate
        assert bool(new) == bool(rate)
        if not least or x == 1:
            assert (new, burst, length) == tuple(getattr(desired, base + end) for end in ("", "_max", "_max_length"))
        else:
            part = min(x * share, 1) * rate
            assert (burst, length) == (0, 0)
            assert new in (rate, least) or part - 1e-3 <= new < part + 1.001


@given(possible_limits(), possible_limits(), SHARES)
@examples_of(150)
def test_without_congestion_or_without_a_floor_not_a_byte_differs(
    desired: Limits, floor: Limits, share: float
) -> None:
    assert written(desired, 1.0, floor, share) is desired
    assert written(desired, 0.05, None, share) is desired


def test_shares_decide_who_gives_up_first_and_a_disk_keeps_its_floor() -> None:
    rates = [
        [
            written(Limits(total_iops_sec=500), x, Limits(total_iops_sec=50), share).total_iops_sec
            for share in (1, 2, 4)
        ]
        for x in (0.9, 0.5, 0.2, 0.1, 0.05)
    ]
    assert rates == [[450, 500, 500], [250, 500, 500], [100, 200, 400], [50, 100, 200], [50, 50, 100]]


def test_a_rate_that_is_whole_is_not_rounded_up_further() -> None:
    assert written(Limits(read_iops_sec=10), 0.1, Limits(read_iops_sec=1), 3.0).read_iops_sec == 3


@pytest.mark.parametrize(("x", "share"), [(0.0, 1), (1.01, 1), (float("nan"), 1), (0.5, 0.9), (0.5, float("inf"))])
def test_a_factor_or_share_that_cannot_be_is_refused(x: float, share: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        written(Limits(total_iops_sec=500), x, Limits(total_iops_sec=50), share)


def test_every_parameter_is_kept_where_nothing_is_reduced() -> None:
    """A parameter that libvirt adds is not lost."""
    desired = Limits(total_iops_sec=5, total_iops_sec_max=7, total_iops_sec_max_length=9, size_iops_sec=4096)
    result = written(desired, 0.5, Limits(total_bytes_sec=1))
    assert {p.name: getattr(result, p.name) for p in PARAMETERS} == {
        p.name: getattr(desired, p.name) for p in PARAMETERS
    }
