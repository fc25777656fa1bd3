"""Which limits are tighter than others, against the throttle of single requests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll_agent.model.limits import Limits
from plimsoll_insight.replay.values import tightens
from plimsoll_insight.simulate.throttle import SECOND, departures
from tests import depth

PARTS = ("read_iops_sec", "write_iops_sec")
TOTAL = ("total_iops_sec",)


def some_limits(bases: Sequence[str], rates: Sequence[int]) -> st.SearchStrategy[Limits]:
    def one(numbers: Sequence[tuple[int, int, int]]) -> Limits:
        names = [base + ending for base in bases for ending in ("", "_max", "_max_length")]
        return Limits(**dict(zip(names, chain(*numbers), strict=True)))

    bursts = st.sampled_from([(0, 0), (80, 1), (80, 3), (160, 2), (160, 9)])
    number = st.builds(lambda rate, burst: (rate, *burst), st.sampled_from(rates), bursts)
    return st.tuples(*[number] * len(bases)).map(one)


PAIRS = st.sampled_from([(TOTAL, TOTAL), (TOTAL, PARTS), (PARTS, TOTAL), (PARTS, PARTS[1:])]).flatmap(
    lambda pair: st.tuples(some_limits(pair[0], (10, 20)), some_limits(pair[1], (20, 40)))
)
PAUSES = st.sampled_from([0, 50, 200, 1000, 3000])


@settings(max_examples=depth.examples(600))
@given(pair=PAIRS, load=st.lists(st.tuples(PAUSES, st.integers(1, 80), st.booleans()), min_size=1, max_size=15))
def test_what_limits_let_through_does_not_wait_under_those_that_are_not_tighter(
    pair: tuple[Limits, Limits], load: list[tuple[int, int, bool]]
) -> None:
    """``load``: so many requests at once, milliseconds after those before.

    Where reads and writes wait, a total lets one request more through.
    """
    before, after = pair
    now, requests = 0, []
    for pause, together, write in load:
        now += pause * SECOND // 1000
        requests += [(now, 512, write)] * together
    sent = sorted((at, 512, write) for at, (_, _, write) in zip(departures(before, requests), requests, strict=True))
    waits = (gone - at for gone, (at, _, _) in zip(departures(after, sent), sent, strict=True))
    assert max(waits) <= SECOND / 20 or tightens(before, after)
