"""A ceiling is split max-min fair over need."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from plimsoll_agent.ceilings.split import Need, floor, split
from tests.depth import count

ALL = None
"""Without bound."""


@pytest.mark.parametrize(
    ("ceiling", "needs", "parts"),
    [
        (3000, [(1000, ALL)], [1000]),
        (3000, [(9000, ALL)], [3000]),
        (3000, [(5000, ALL), (5000, ALL)], [1500, 1500]),
        (3000, [(500, ALL), (5000, ALL), (5000, ALL)], [500, 1250, 1250]),
        # 100 × 1.2 for the first, the rest for the second.
        (3000, [(5000, 100.0), (5000, ALL)], [150, 2850]),
        (3000, [(5000, 1000.0), (5000, ALL)], [1200, 1800]),
        # All have what they need: what is left is shared equally.
        (3000, [(5000, 1000.0), (5000, 500.0)], [1800, 1200]),
        (3000, [(1300, 1000.0), (5000, 500.0)], [1300, 1700]),
        # An idle one can begin.
        (3000, [(5000, 0.0), (5000, ALL)], [150, 2850]),
        (10, [(100, ALL)] * 3, [3, 3, 3]),
    ],
)
def test_it_is_split_by_need(ceiling: int, needs: list[tuple[int, float | None]], parts: list[int]) -> None:
    assert split(ceiling, [Need(*each) for each in needs]) == parts


def test_what_others_have_is_not_split() -> None:
    assert split(3000, [Need(5000, ALL), Need(5000, ALL)], others_have=1000, others=1) == [1000, 1000]


def test_no_disk_has_less_than_a_floor_whatever_others_have() -> None:
    assert split(3000, [Need(5000, ALL), Need(5000, 0.0)], others_have=9000, others=1) == [100, 100]
    assert split(2, [Need(5000, ALL)] * 5) == [1] * 5


def wants_of(needs: Sequence[Need], least: int) -> list[int]:
    return [each.most if each.rate is None else min(each.most, max(least, round(each.rate * 1.2))) for each in needs]


def assert_max_min(available: int, wants: Sequence[int], parts: Sequence[int]) -> None:
    """Max-min fair: one disk can only get more where another one gets less that has no more than it."""
    short = [number for number, (want, part) in enumerate(zip(wants, parts, strict=True)) if part < want]
    for number in short:
        assert parts[number] >= max(parts)
    assert sum(parts) <= available
    assert not short or available - sum(parts) < len(short)


def test_whatever_they_need_the_split_is_fair_and_within_the_ceiling() -> None:
    rng = random.Random(37)
    was_short = was_left = 0
    for _ in range(count(quick=2000, landing=20000, soak=200000)):
        ceiling = rng.choice([1, 7, 100, 3000, 10**9, rng.randint(1, 5000)])
        needs = [
            Need(rng.choice([1, 50, 400, 3000, rng.randint(1, 9000)]), rng.choice([ALL, 0.0, rng.uniform(0, 4000)]))
            for _ in range(rng.randint(1, 9))
        ]
        others = rng.choice([0, 0, 1, 3])
        have = rng.randint(0, 2 * ceiling) if others else 0
        parts = split(ceiling, needs, others_have=have, others=others)
        least = floor(ceiling, len(needs) + others)
        available = max(ceiling - have, least * len(needs))
        assert all(min(least, need.most) <= part <= need.most for need, part in zip(needs, parts, strict=True))
        wants = wants_of(needs, least)
        first = [min(*pair) for pair in zip(wants, parts, strict=True)]
        assert_max_min(available, wants, first)
        if first == wants:
            extra = [part - want for part, want in zip(parts, wants, strict=True)]
            assert_max_min(available - sum(wants), [n.most - w for n, w in zip(needs, wants, strict=True)], extra)
        was_short, was_left = was_short + (first != wants), was_left + (parts != wants and first == wants)
        order = rng.sample(range(len(needs)), len(needs))
        assert split(ceiling, [needs[at] for at in order], others_have=have, others=others) == [
            parts[at] for at in order
        ]
    assert was_short > 100
    assert was_left > 100
