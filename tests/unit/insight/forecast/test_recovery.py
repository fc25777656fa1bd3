"""How fast OSDs that returned recover, by what is allowed to be under way at once."""

from __future__ import annotations

import pytest

from plimsoll_insight.forecast.recovery import PlacementGroup, RecoveryPace, evenly, per_second, seconds

BACK = frozenset((1,))
PACE = RecoveryPace(each=0.01, sleep=0.09, active=3, places=1)
"""A group alone recovers an object each 0.1 s."""


def groups(*osds: tuple[int, ...]) -> list[PlacementGroup]:
    return [PlacementGroup(osds=each, lost=BACK, part=1 / len(osds)) for each in osds]


def test_groups_of_one_primary_recover_one_after_the_other() -> None:
    assert seconds(groups((1, 0), (1, 2)), 100, PACE) == pytest.approx(10)


def test_with_one_place_the_osd_that_returned_takes_from_one_primary_at_a_time() -> None:
    assert seconds(groups((0, 1), (2, 1)), 100, PACE) == pytest.approx(10)
    assert seconds(
        groups((0, 1), (2, 1)), 100, RecoveryPace(each=0.01, sleep=0.09, active=3, places=2)
    ) == pytest.approx(5)


def test_what_it_fetches_itself_goes_beside_what_it_is_sent() -> None:
    assert seconds(groups((1, 0), (0, 1)), 100, PACE) == pytest.approx(5)


def test_a_sleep_is_of_the_primary_and_not_of_each_group() -> None:
    # Two groups of one primary at once: 2 / 0.1 s is more than an object each 0.09 s.
    assert seconds(
        groups((0, 1), (0, 1)), 99, RecoveryPace(each=0.01, sleep=0.09, active=3, places=2)
    ) == pytest.approx(99 * 0.09)
    assert seconds(groups((0, 1), (0, 1)), 100, RecoveryPace(each=0.1, sleep=0, active=3, places=2)) == pytest.approx(
        5
    )


def test_no_more_objects_are_under_way_than_the_setting_allows() -> None:
    three = groups((0, 1), (0, 1), (0, 1))
    assert seconds(three, 90, RecoveryPace(each=0.1, sleep=0, active=1, places=3)) == pytest.approx(9)
    assert seconds(three, 90, RecoveryPace(each=0.1, sleep=0, active=2, places=3)) == pytest.approx(4.5)
    assert seconds(three, 90, RecoveryPace(each=0.1, sleep=0, active=9, places=3)) == pytest.approx(3)


def test_an_osd_that_missed_much_is_no_primary_until_it_has_all() -> None:
    # 100 entries of each group are few; 101 are not, and others send both groups, one at a time.
    both = groups((1, 0), (0, 1))
    assert seconds(both, 200, PACE) == pytest.approx(10)
    assert seconds(both, 202, PACE) == pytest.approx(20.2)
    kept = [PlacementGroup(osds=group.osds, lost=group.lost, part=group.part, can_wait=False) for group in both]
    assert seconds(kept, 202, PACE) == pytest.approx(10.1)


def test_a_free_place_is_taken_by_the_next_group() -> None:
    unequal = [
        PlacementGroup(osds=(0, 1), lost=BACK, part=0.7),
        PlacementGroup(osds=(2, 1), lost=BACK, part=0.2),
        PlacementGroup(osds=(3, 1), lost=BACK, part=0.1),
    ]
    # The two small ones after each other, beside the large one.
    assert seconds(unequal, 100, RecoveryPace(each=0.01, sleep=0.09, active=3, places=2)) == pytest.approx(7)


def test_of_a_cluster_of_numbers_each_lost_osd_has_its_part() -> None:
    made = evenly(2, 4, 3, 30)
    assert sum(group.part for group in made) == pytest.approx(1)
    assert [sum(osd in group.osds for group in made) for osd in range(6)] == [30] * 6
    assert sum(group.osds[0] in group.lost for group in made) == 20
    # Of two copies it is the primary of half of its groups, and is sent the others.
    made = evenly(1, 3, 2, 30)
    assert seconds(made, 60, PACE) == pytest.approx(3)
    assert per_second(made, 60, PACE) == pytest.approx(20)
