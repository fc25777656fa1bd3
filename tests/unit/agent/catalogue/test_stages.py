"""The stage of a node, by its own name."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll_agent.catalogue.stages import LAST, Stages, position
from plimsoll_agent.util.frozen import replace
from tests.unit.values import NOON

NAMES = [f"compute-{number}.example.com" for number in range(5000)]
WAIT = timedelta(minutes=30)
STAGES = Stages(percent=(1.0, 10.0, 100.0), wait=WAIT)


@pytest.mark.parametrize("share", [1, 10, 50])
def test_a_stage_has_its_share_of_nodes_whatever_they_are_called(share: float) -> None:
    for names in (NAMES, [name.split(".")[0] for name in NAMES], [name.upper() for name in NAMES]):
        # Five standard deviations of a share of 5000.
        spread = 5 * (share / 100 * (1 - share / 100) / len(names)) ** 0.5
        assert sum(position(name) < share for name in names) / len(names) == pytest.approx(share / 100, abs=spread)


def test_a_node_stays_where_it_is() -> None:
    """By sha256sum: a release with another hash would move a stage to nodes that have not had it."""
    # printf 'plimsoll stage\0node12' | sha256sum | cut -c -16
    assert position("node12") == pytest.approx(100 * 0xF1D00E6B69208421 / 2**64)


def test_each_stage_has_the_nodes_of_those_before_and_the_last_has_all() -> None:
    for name in NAMES:
        here = [STAGES.at(number, NOON).reach(position(name)) for number in range(3)]
        assert here == sorted(here)
        assert here.index(True) == STAGES.of(position(name))
    assert STAGES.at(2, NOON).reach(LAST)
    assert not STAGES.at(1, NOON).reach(LAST)
    assert not STAGES.at(0, NOON).reach(1.0), "1 % are those below"
    assert STAGES.of(1.0) == 1


@pytest.mark.parametrize(
    "percent", [(), (1.0,), (10.0, 1.0, 100.0), (0.0, 100.0), (50.0, 50.0, 100.0), (100.0, 101.0)]
)
def test_stages_that_do_not_grow_to_all_nodes_cannot_be_built(percent: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="are no stages"):
        Stages(percent=percent, wait=WAIT)


@pytest.mark.parametrize("reached", [-1, 3])
def test_a_stage_that_there_is_not_cannot_be_reached(reached: int) -> None:
    with pytest.raises(ValueError, match="are no stages"):
        replace(STAGES, reached=reached)


def test_the_next_stage_is_due_after_the_wait_from_its_publication_and_none_follows_the_last() -> None:
    assert STAGES.due() is None
    assert STAGES.at(0, NOON).due() == NOON + WAIT
    assert STAGES.at(2, NOON).due() is None


def test_stages_that_are_approved_again_take_from_no_node_what_it_has_and_give_it_to_none_unjudged() -> None:
    later = NOON + WAIT
    reached = STAGES.at(1, NOON)
    assert STAGES.after(reached, renewed=False, now=later) == reached
    assert STAGES.after(reached, renewed=True, now=later) == STAGES.at(1, later)
    other = Stages(percent=(1.0, 100.0), wait=WAIT)
    again = other.after(reached, renewed=True, now=later)
    assert again == STAGES.at(1, later)
    assert other.after(again, renewed=False, now=later + WAIT) == again
    assert other.after(again.at(2, later), renewed=False, now=later) == other.at(1, later), "10 % is past"
    assert STAGES.after(STAGES, renewed=False, now=later) == STAGES.at(0, later)
