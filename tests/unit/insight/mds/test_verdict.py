"""When a balancer is thrashing, and what to pin."""

from __future__ import annotations

import pytest

from plimsoll_insight.mds.answers import Directory
from plimsoll_insight.mds.moves import DirectoryMove
from plimsoll_insight.mds.verdict import MOVES, MdsAnswer, judge, judge_moves, pins
from plimsoll_insight.mds.watch import RankDid, RanksPeriod


def span(*ranks: tuple[int, int], moves: tuple[DirectoryMove, ...] = (), seconds: float = 60.0) -> RanksPeriod:
    """Requests and forwards of each rank."""
    did = {rank: RankDid(rank, seconds, *each) for rank, each in enumerate(ranks)}
    return RanksPeriod(begin=0.0, end=seconds, ranks=did, moves=moves, unknown=0.0)


def to_and_fro(number: int) -> tuple[DirectoryMove, ...]:
    return tuple(
        DirectoryMove(time=60.0 * each, directory=Directory("/a"), source=each % 2, target=1 - each % 2)
        for each in range(number)
    )


EVEN = ((9000, 0), (9000, 0))


@pytest.mark.parametrize(
    ("whole", "answer"),
    [
        (span(*EVEN), MdsAnswer.CALM),
        (span(*EVEN, moves=to_and_fro(MOVES - 1)), MdsAnswer.CALM),
        (span(*EVEN, moves=to_and_fro(MOVES)), MdsAnswer.THRASHING),
        (span((9000, 4000), (9000, 0)), MdsAnswer.THRASHING),
        (span((9000, 900), (9000, 0)), MdsAnswer.CALM),
        (span((20, 10), (9, 0)), MdsAnswer.CALM),
        (span((9900, 0), (100, 0)), MdsAnswer.UNEVEN),
        (span((9900, 0), (1000, 0)), MdsAnswer.CALM),
        (span((9900, 0)), MdsAnswer.CALM),
        (span((200, 0), (0, 0)), MdsAnswer.CALM),
        (span((0, 0), (0, 0)), MdsAnswer.CALM),
    ],
)
def test_a_sign_needs_repetition_or_a_share_of_many_requests(whole: RanksPeriod, answer: MdsAnswer) -> None:
    assert judge(whole, whole, complete=True).answer is answer


def test_what_is_known_in_part_is_never_calm_and_a_sign_in_it_counts() -> None:
    assert judge(span(*EVEN), span(*EVEN), complete=False).answer is MdsAnswer.CANNOT_TELL
    assert judge(span(), span(), complete=True).answer is MdsAnswer.CANNOT_TELL  # each rank has another daemon now
    assert judge_moves((), complete=False).answer is MdsAnswer.CANNOT_TELL
    assert judge_moves(to_and_fro(MOVES), complete=False).answer is MdsAnswer.THRASHING


def test_children_of_one_directory_are_spread_and_others_go_to_ranks_in_turn() -> None:
    assert pins(["/a/x", "/a/y", "/b/z", "/c"], [0, 2]) == ["/a=distributed", "/b/z=0", "/c=2"]


def test_the_root_and_what_is_below_a_directory_that_is_spread_get_no_pin() -> None:
    assert pins(["/", "/a", "/b", "/a/x", "/a/y", "/a/x/deep"], [0, 1]) == ["/a=distributed", "/b=0"]
