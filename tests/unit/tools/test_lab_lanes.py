"""Which of the lab's lanes run beside each other: what one does must not be what another measures or needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from tests.lab import conftest
from tests.lab.run import LANES, Lane


def before(lane: Lane) -> Iterator[Lane]:
    """All that are over when it begins."""
    for each in LANES:
        if each.name in lane.after:
            yield each
            yield from before(each)


BESIDE = [
    (one, other) for one, other in combinations(LANES, 2) if one not in before(other) and other not in before(one)
]


def test_four_lanes_run_beside_each_other_and_three_beside_the_groups_that_need_no_lab() -> None:
    """Emulated guests answer too late where more is beside them."""

    def most(lanes: Sequence[Lane]) -> int:
        return max(
            number
            for number in range(1, len(lanes) + 1)
            if any(set(combinations(some, 2)) <= set(BESIDE) for some in combinations(lanes, number))
        )

    assert most(LANES) == 4
    assert most([lane for lane in LANES if not any(each.later for each in (lane, *before(lane)))]) == 3


@pytest.mark.parametrize("lanes", BESIDE, ids=lambda lanes: " ".join(lane.name for lane in lanes))
def test_lanes_beside_each_other_do_each_other_no_harm(lanes: tuple[Lane, Lane]) -> None:
    one, other = lanes
    assert "quiet" not in (one.group, other.group), "it measures rates"
    if one.offset == other.offset:
        assert {one.group, other.group} == {"shared"}, "of what hurts the cloud others want to use"
    else:
        assert abs(one.offset - other.offset) >= 100, "as many ports are Ceph's"


def test_each_group_has_lanes_that_run_all_of_it() -> None:
    lanes = {group: [lane.name for lane in LANES if lane.group == group] for group in conftest.GROUPS}
    for group, names in lanes.items():
        if names != [group]:
            parts = [conftest.LANES[name] for name in names]
            assert len({fixture for fixture, _ in parts}) == 1, group
            assert sorted(needed for _, needed in parts) == [False, True], group
