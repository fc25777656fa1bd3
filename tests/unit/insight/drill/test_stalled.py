"""Guests that stall while a drill is recorded."""

from __future__ import annotations

import pytest

from plimsoll_insight.drill.stalled import StallWatch
from plimsoll_insight.drill.status import ClusterCounts
from tests.unit.insight.drill.recorded import DEGRADED, status

WELL, DOWN = status(), status(2, DEGRADED, 20)
BOUND = 5.0


def run(
    rates: list[int | None], cluster: list[ClusterCounts | None] | None = None, bound: float = BOUND
) -> tuple[StallWatch, list[tuple[int, float]]]:
    """A disk with so many requests in each second, None where it cannot be read; and when it was beyond the bound."""
    stalls, told = StallWatch(bound), []
    for second, rate in enumerate(rates):
        if rate is not None:
            stalls.saw(0, float(second), served=rate > 0)
        found = stalls.beyond(float(second), DOWN if cluster is None else cluster[second])
        told += [(second, length) for length in found.values()]
    return stalls, told


@pytest.mark.parametrize("without", [0, None])
def test_a_busy_disk_that_completes_nothing_is_beyond_the_bound_once_it_is_over(without: int | None) -> None:
    _, told = run([*[9] * 10, *[without] * 8])
    assert told == [(15, 6), (16, 7), (17, 8)]


@pytest.mark.parametrize("before", [[9] * 4, [9, 0] * 20])
def test_a_disk_that_was_not_busy_does_not_stall(before: list[int | None]) -> None:
    stalls, told = run([*before, *[0] * 20])
    assert (told, stalls.any_busy) == ([], False)


def test_while_all_is_well_a_disk_is_idle_until_the_cluster_knows_of_its_failure() -> None:
    rates: list[int | None] = [*[9] * 10, *[0] * 20]
    assert run(rates, [WELL] * 30)[1] == []
    assert run(rates, [*[WELL] * 25, *[DOWN] * 5])[1][0] == (25, 16)
    assert run(rates, [*[WELL] * 25, *[None] * 5])[1][0] == (25, 16)


def test_a_disk_that_was_idle_for_long_before_the_failure_is_not_told() -> None:
    assert run([*[9] * 10, *[0] * 100], [*[WELL] * 90, *[DOWN] * 20])[1] == []


def test_a_disk_that_completes_a_request_now_and_then_in_the_failure_is_no_less_busy() -> None:
    """As one in the lab did, before the monitors knew: some placement groups still had their primary."""
    rates: list[int | None] = [*[9] * 30, 0, 0, 1, *[0] * 5, 2, *[0] * 10]
    assert [second for second, _ in run(rates, [*[WELL] * 38, *[DOWN] * 11])[1]] == [*range(44, 49)]


def test_a_disk_may_stall_again() -> None:
    rates: list[int | None] = [*[9] * 10, *[0] * 20, 9, *[0] * 7]
    assert [second for second, _ in run(rates, [*[WELL] * 12, *[DOWN] * 26])[1]] == [*range(15, 30), 36, 37]


def test_disks_that_are_gone_are_not_told() -> None:
    stalls, told = run([*[9] * 10, *[0] * 8])
    assert told
    stalls.only({1})
    assert stalls.beyond(30.0, DOWN) == {}
