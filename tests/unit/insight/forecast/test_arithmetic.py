"""The formulas, beside figures that were published of clusters."""

from __future__ import annotations

import math

import pytest

from plimsoll_insight.forecast import arithmetic


@pytest.mark.parametrize(("share", "published"), [(0.5, 23), (0.75, 34), (0.9, 41)])
def test_the_mean_of_writes_is_as_published_by_the_degraded_share(share: float, published: int) -> None:
    assert round(1000 * arithmetic.mean_service(share, 0.001, 0.022)) == published


@pytest.mark.parametrize(("domains", "published"), [(3, 45), (10, 14), (20, 8)])
def test_the_mean_of_writes_is_as_published_by_the_number_of_failure_domains(domains: int, published: int) -> None:
    share = arithmetic.degraded_share(domains, 1, 3)
    assert round(1000 * arithmetic.mean_service(share, 0.001, 0.022)) == published


def test_of_several_lost_domains_the_share_has_each_placement_group_once() -> None:
    # Of the 10 pairs of 5 domains, 7 have one of the first two: 4 + 3.
    assert arithmetic.degraded_share(5, 2, 2) == pytest.approx(0.7)


def test_few_writes_reach_as_many_objects_and_many_reach_all() -> None:
    assert arithmetic.written_objects(10, 1e6) == pytest.approx(10, rel=1e-4)
    assert arithmetic.written_objects(1e6, 100) == pytest.approx(100)
    assert arithmetic.written_objects(100, 100) == pytest.approx(100 * (1 - 1 / math.e))


def test_logs_have_a_budget_for_each_osd_and_bounds_for_each_placement_group() -> None:
    assert [arithmetic.log_entries(groups) for groups in (0, 10, 100, 3000)] == [10_000, 10_000, 3000, 250]
    assert [arithmetic.log_entries(groups, 8000, 500, 100) for groups in (10, 40, 1000)] == [500, 200, 100]


def test_memory_grows_with_logs_and_missing_objects_and_by_a_fifth_at_least() -> None:
    gib = 1 << 30
    assert arithmetic.memory_peak(4 * gib, 100, 0, 0) == pytest.approx(4.8 * gib)
    assert arithmetic.memory_peak(4 * gib, 100, 10_000, 0) == 4 * gib + 100 * 10_000 * arithmetic.ENTRY
    more = arithmetic.memory_peak(4 * gib, 100, 10_000, 10**7) - arithmetic.memory_peak(4 * gib, 100, 10_000, 0)
    assert more == 10**7 * arithmetic.MISSING


def test_copies_that_were_sent_are_in_memory_with_those_on_their_way_where_so_many_are_missing() -> None:
    assert (arithmetic.copies_held(1000, 4), arithmetic.copies_held(7, 4)) == (arithmetic.KEPT + 2 * 4, 7)
    assert arithmetic.memory_peak(100, 0, 0, 0, copies=88) == 188
