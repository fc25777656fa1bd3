from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from plimsoll_insight.forecast.ranges import Range
from plimsoll_insight.ordered_return.plan import fits
from tests.unit.insight.ordered_return.seen import MIB, PEAK, planned


def order(
    down: Sequence[int], per_host: int = 1, away: Mapping[int, float | None] | None = None
) -> list[tuple[int, ...]]:
    return [wave.osds for wave in planned(down, per_host, away).waves]


def test_osds_that_bring_placement_groups_to_service_come_first() -> None:
    """With 0, 2 and 4 down 1.0, 1.1 and 1.2 have no copy: 0 and 2 bring two of them each, and then all are served."""
    plan = planned([0, 2, 4, 5])
    assert plan.inactive == 3
    assert plan.waves[0].osds[:2] == (2, 0)
    assert [wave.served for wave in plan.waves] == [3, 0]


def test_a_group_that_needs_two_copies_is_served_by_the_second() -> None:
    from plimsoll_insight.ordered_return.plan import plan
    from tests.unit.insight.ordered_return.seen import HOSTS, WHOLE, groups, returning

    up = {4, 5}
    waves = plan(returning([0, 1, 2, 3]), groups(up), WHOLE, {"1": 2}, up, per_host=1, at_once=1, wave_seconds=None)
    assert set(HOSTS) - up == {osd for wave in waves.waves for osd in wave.osds}
    assert sum(wave.served for wave in waves.waves) == 3  # 1.0, 1.3 and 1.5 have no copy, and need both
    assert waves.waves[0].served == 0


def test_of_equal_ones_the_first_is_who_was_away_for_the_shortest_time() -> None:
    assert order([1], away={1: 5}) == [(1,)]
    assert order([4, 5], away={4: 5000, 5: 60}) == [(5,), (4,)]
    assert order([4, 5], away={4: None, 5: 60}) == [(5,), (4,)], "unknown may be long"


@pytest.mark.parametrize(("per_host", "sizes"), [(1, [3, 3]), (2, [6])])
def test_a_wave_has_no_more_osds_of_a_host_than_is_allowed(per_host: int, sizes: list[int]) -> None:
    assert [len(osds) for osds in order([0, 1, 2, 3, 4, 5], per_host)] == sizes


def test_the_time_is_that_of_all_waves() -> None:
    assert planned([0, 1, 2, 3]).seconds == Range(20, 140)


def test_memory_that_is_unknown_is_neither_enough_nor_too_little() -> None:
    plan = planned([0, 2, 4])
    room = {"a": PEAK - 1, "b": PEAK, "c": None}
    assert fits(plan, (0, 2, 4), room, {}) == {0: False, 2: True, 4: None}
    assert fits(plan, (2,), room, {"b": MIB}) == {2: False}


def test_two_osds_of_a_host_in_one_wave_need_the_room_of_both() -> None:
    plan = planned([0, 1], per_host=2)
    assert fits(plan, (0, 1), {"a": 2 * PEAK - 1}, {}) == {0: True, 1: False}
