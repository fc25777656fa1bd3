"""Which directories moved, by the subtrees of before and after."""

from __future__ import annotations

from itertools import pairwise

import pytest

from plimsoll_insight.mds.answers import Directory, Owners, directory
from plimsoll_insight.mds.moves import DirectoryMove, most_within, moves
from tests.unit.insight.mds.ranks import owned

ROOT = {"/": 0}


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        pytest.param(ROOT, ROOT | {"/a": 1}, [("/a", 0, 1)], id="a new subtree came from the rank around it"),
        pytest.param(ROOT | {"/a": 1}, ROOT, [("/a", 1, 0)], id="one that merged went to the rank around it"),
        pytest.param(ROOT | {"/a": 1}, ROOT | {"/a": 2}, [("/a", 1, 2)], id="from rank to rank"),
        pytest.param(ROOT | {"/a": 1}, ROOT | {"/a": 1, "/a/b": 1}, [], id="a root inside of the same rank"),
        pytest.param(
            ROOT | {"/a": 1}, ROOT | {"/a/b": 1}, [("/a", 1, 0)], id="what stays, though all around it goes"
        ),
        pytest.param(
            ROOT | {"/a": 1}, ROOT | {"/a.0*": 1, "/a.1*": 2}, [("/a.1", 1, 2)], id="of a split one half moved"
        ),
        pytest.param(
            ROOT | {"/a.0*": 1, "/a.1*": 2}, ROOT | {"/a/b": 1}, [("/a.0", 1, 0), ("/a.1", 2, 0)],
            id="whose child it was of two halves is unknown, and no move",
        ),
        pytest.param(
            ROOT | {"/ab": 1}, ROOT | {"/ab": 1, "/a": 1}, [("/a", 0, 1)], id="a name that begins alike"
        ),
    ],
)  # fmt: skip
def test_a_move_is_a_change_of_the_rank_that_has_a_directory(
    before: dict[str, int], after: dict[str, int], moved: list[tuple[str, int, int]]
) -> None:
    seen = [
        (f"{each.directory.path}.{each.directory.fragment}".rstrip("."), each.source, each.target)
        for each in moves(owned(before), owned(after), 0.0)
    ]
    assert seen == moved


def test_moves_of_different_fragments_and_of_another_time_are_no_repetition() -> None:
    def move(time: float, fragment: str) -> DirectoryMove:
        return DirectoryMove(time=time, directory=Directory("/a", fragment), source=0, target=1)

    apart = [move(0, "0"), move(1, "1"), move(2, "00"), move(700, "0")]
    assert most_within(apart, 600) == {"/a": 1}
    assert most_within([*apart, move(599, "0"), move(701, "0")], 600) == {"/a": 3}


def test_a_directory_that_is_removed_and_made_again_where_its_pin_says_is_no_repetition() -> None:
    root = owned(ROOT)
    looks: list[Owners] = [root]
    for number in range(4):
        looks += [root | {directory("/home/tmp", f"0x{number}"): 1}, root]
    seen = [each for number, pair in enumerate(pairwise(looks)) for each in moves(*pair, float(number))]
    assert most_within(seen, 600) == {"/home/tmp": 2}
