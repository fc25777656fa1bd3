"""What ranks did between readings."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.mds.answers import Subtrees
from plimsoll_insight.mds.watch import RanksReading, fragmented, load_shares, ranks_of, spans, together
from tests.unit.insight.mds.ranks import counted, owned, reading

OWNERS = owned({"/": 0, "/a": 1})


def test_a_rank_counts_for_the_time_in_which_its_daemon_was_the_same() -> None:
    first = reading(0, OWNERS, {0: counted(100, 10, 90, 9.0), 1: counted(50)})
    second = reading(10, OWNERS, {0: counted(300, 30, 270, 27.0), 1: counted(20)})  # it began again
    third = reading(20, OWNERS, {0: counted(400, 30, 370, 28.0), 1: counted(60)})
    other = replace(third.ranks[0], daemon="standby", counters=counted(900))
    fourth = replace(third, time=30.0, ranks={0: other, 1: third.ranks[1]})
    whole = together(spans([first, second, third, fourth]))
    assert [(did.seconds, did.requests, did.forwards) for did in whole.ranks.values()] == [(20, 300, 20), (20, 40, 0)]
    assert whole.ranks[0].latency == 19 / 280


def test_where_a_rank_gave_no_answer_nothing_moved_and_the_time_is_unknown() -> None:
    lost = reading(10, OWNERS, {0: counted()}, {1: "no answer"})
    before, after = (
        reading(0, OWNERS, {0: counted(), 1: counted()}),
        reading(20, OWNERS, {0: counted(), 1: counted()}),
    )
    whole = together(spans([before, lost, after]))
    assert (list(whole.moves), whole.unknown) == ([], 20)


def test_a_directory_on_its_way_when_ranks_answered_has_not_gone_to_the_rank_around_it() -> None:
    first = reading(0, OWNERS, {0: counted(), 1: counted(), 2: counted()})
    on_its_way = reading(10, owned({"/": 0}), {0: counted(), 1: counted(), 2: counted()})
    hearsay = Subtrees({}, owned({"/a": 2}))
    of_nobody = {**on_its_way.ranks, 1: replace(on_its_way.ranks[1], subtrees=hearsay)}
    of_both = {rank: replace(each, subtrees=Subtrees(owned({"/a": rank}), {})) for rank, each in of_nobody.items()}
    of_both[0] = on_its_way.ranks[0]
    last = reading(20, owned({"/": 0, "/a": 2}), {0: counted(), 1: counted(), 2: counted()})
    for between in (of_nobody, of_both, dict(reversed(of_both.items()))):
        moves = together(spans([first, *[replace(on_its_way, ranks=between)] * 2, last])).moves
        assert [(move.source, move.target) for move in moves] == [(1, 2)]


def test_a_directory_is_in_pieces_where_several_ranks_have_it_and_not_where_they_have_what_is_below() -> None:
    owners = owned({"/": 0, "/a.0*": 1, "/a.1*": 2, "/b.0*": 1, "/b.1*": 1, "/c/d": 1, "/c": 2})
    assert fragmented(owners) == {"/a": [1, 2]}


def loaded(*loads: Mapping[str, float] | None) -> RanksReading:
    """Of as many ranks."""
    whole = reading(0, OWNERS, {rank: counted() for rank, _ in enumerate(loads)})
    return replace(whole, ranks={rank: replace(whole.ranks[rank], loads=each) for rank, each in enumerate(loads)})


def test_shares_of_the_load_are_of_all_ranks_and_of_readings_that_know_each() -> None:
    lost = replace(loaded({"/a": 1000}), errors={1: "no answer"})
    readings = [loaded({"/a": 30, "/b": 0}, {"/a": 30, "/c": 40}), loaded({"/a": 5}, {"/c": 5}), lost,
                loaded({"/a": 1000}, None)]  # fmt: skip
    assert load_shares(readings) == pytest.approx({"/a": 0.55, "/c": 0.45})
    assert load_shares([lost]) == {}
    assert load_shares([loaded({"/a": 0})]) == {}


def test_a_directory_is_on_the_ranks_that_have_a_part_of_it_else_on_that_of_what_is_around_it() -> None:
    owners = owned({"/": 0, "/a.0*": 1, "/a.1*": 2, "/b": 1})
    assert ranks_of(["/a", "/b/below", "/c"], owners) == {"/a": [1, 2], "/b/below": [1], "/c": [0]}
    assert ranks_of(["/c"], {}) == {"/c": []}
