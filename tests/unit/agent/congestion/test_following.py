"""Which factor a node applies: the published one in few moves, and without a signal the way back to 1."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta

import pytest

from plimsoll_agent.congestion.following import (
    MOST_MOVES,
    PERIOD,
    WITHIN,
    Followed,
    Following,
    Pools,
    ended,
    follow,
)
from plimsoll_agent.congestion.published import LASTS, Factors
from plimsoll_agent.store import factors_file
from tests.unit.agent.congestion.values import a_factor, a_factor_file
from tests.unit.node import FSID
from tests.unit.values import NOON

POOL = (FSID, "volumes")


def always(_: str) -> bool:
    return True


def never(_: str) -> bool:
    return False


def published(x: float, at: datetime = NOON, generation: int = 7) -> Factors:
    pools = {POOL: ("ssd",)}
    file = a_factor_file(a_factor(x), issued=at, valid_until=at + LASTS, generation=generation, pools=pools)
    return Factors({FSID: file})


def one(x: float, at: datetime = NOON) -> Pools:
    return follow({}, published(x, at), at, always)


def test_the_published_factor_is_applied_and_a_small_difference_is_not() -> None:
    pools = one(0.73)
    assert (pools[POOL].x, pools[POOL].device_class, pools[POOL].moves) == (0.73, "ssd", (NOON,))
    for x, after in ((0.75, 0.73), (0.71, 0.73), (0.752, 0.752), (0.7, 0.7)):
        assert follow(pools, published(x), NOON, always)[POOL].x == after


def test_a_cluster_that_is_only_observed_is_not_followed_and_one_no_longer_enforced_ends_at_once() -> None:
    assert not follow({}, published(0.5), NOON, never)
    assert follow(one(0.5), published(0.5), NOON, never)[POOL].x == 1
    assert ended(one(0.5), NOON)[POOL].x == 1


def test_without_a_signal_x_stays_until_the_file_expires_and_then_grows_in_each_period() -> None:
    pools, xs = one(0.65), []
    for period in range(8):
        now = NOON + period * PERIOD
        pools = follow(pools, Factors(), now, always)
        xs.append(pools[POOL].x)
    assert xs == [0.65, 0.65, 0.65, 0.75, 0.85, 0.95, 1.0, 1.0]


@pytest.mark.parametrize("lost", ["class", "pool", "switched off"])
def test_what_has_no_valid_factor_has_no_signal(lost: str) -> None:
    later = NOON + LASTS
    factors = {
        "class": Factors({FSID: a_factor_file(a_factor(0.2, "hdd"), valid_until=later + LASTS, generation=9)}),
        "pool": Factors({FSID: a_factor_file(a_factor(0.2), pools={}, generation=9)}),
        "switched off": None,
    }[lost]
    assert follow(one(0.5), factors, later, always)[POOL].x == 0.6


def test_an_older_file_is_followed_once_the_newer_one_has_expired() -> None:
    """Another machine publishes now, and the clock of the last one was ahead."""
    almost, then = NOON + LASTS - PERIOD, NOON + LASTS
    assert follow(one(0.5), published(0.2, almost, generation=6), almost, always)[POOL].x == 0.5
    assert follow(one(0.5), published(0.2, almost, generation=6), then, always)[POOL].x == 0.2


def test_a_pool_that_is_not_followed_has_the_factor_1_and_no_class() -> None:
    following = Following(one(0.73))
    assert (following.x(*POOL), following.device_class(*POOL)) == (0.73, "ssd")
    for cluster, pool in ((None, "volumes"), ("another", "volumes"), (FSID, "vms")):
        assert (following.x(cluster, pool), following.device_class(cluster, pool)) == (1, "")


def test_two_passes_at_the_moment_at_which_the_file_expires_make_one_step() -> None:
    pools = one(0.5)
    for _ in range(2):
        pools = follow(pools, Factors(), NOON + LASTS, always)
        assert pools[POOL].x == 0.6


def test_the_last_move_of_an_hour_is_made_after_the_whole_periods_of_the_way_back() -> None:
    moves = tuple(NOON - number * PERIOD for number in range(MOST_MOVES - 1, 0, -1))
    last = Followed(x=0.65, device_class="ssd", published=0.65, until=NOON, generation=7, moves=moves)
    for periods, x in ((2.6, 0.65), (3, 1.0)):
        assert follow({POOL: last}, Factors(), NOON + periods * PERIOD, always)[POOL].x == x


@pytest.mark.parametrize(("x", "seconds", "counts"), [(1, 0, False), (1, 1, True), (0.9, 0, True)])
def test_a_factor_of_1_that_has_expired_is_only_there_for_its_moves(x: float, seconds: int, counts: bool) -> None:
    until = NOON + timedelta(seconds=seconds)
    its = Followed(x=x, device_class="ssd", published=x, until=until, generation=7, moves=(NOON,))
    assert its.counts(NOON) is counts


def test_a_pass_that_comes_late_makes_one_step_first_and_then_as_many_as_periods_have_gone() -> None:
    pools = follow(one(0.3), Factors(), NOON + timedelta(minutes=6), always)
    assert pools[POOL].x == 0.4
    assert follow(pools, Factors(), NOON + timedelta(minutes=8), always)[POOL].x == 0.8


def test_an_expiry_far_in_the_future_is_a_wrong_clock_and_does_not_count() -> None:
    assert follow(one(0.5), Factors(), NOON - timedelta(days=1), always)[POOL].x == 1


def test_a_clock_that_was_set_back_over_the_last_move_lowers_nothing() -> None:
    until = NOON + LASTS
    pools = follow(one(0.5), Factors(), until + 10 * PERIOD, always)
    xs = []
    for period in range(4, 8):  # before that move, then on
        pools = follow(pools, Factors(), until + period * PERIOD, always)
        xs.append(pools[POOL].x)
    assert xs == [0.6, 0.7, 0.8, 0.9]


def test_whatever_is_published_there_are_few_moves_an_hour_and_the_way_back_takes_minutes() -> None:
    """Of random factors and losses: the moves of any hour, and the time until 1 after the last signal."""
    rng = random.Random(37)
    for _ in range(60):
        pools: Pools = {}
        moves: list[datetime] = []
        now, x = NOON, 1.0
        for period in range(rng.randrange(20, 300)):
            now = NOON + period * PERIOD
            signal = published(round(rng.uniform(0.05, 1), 4), now) if rng.random() < 0.7 else Factors()
            pools = follow(pools, signal, now, always)
            x, last = (pools[POOL].x if POOL in pools else 1.0), x
            moves += [now] if x != last else []
        assert all(sum(at <= each < at + WITHIN for each in moves) <= MOST_MOVES for at in moves)
        until = now + timedelta(minutes=10)
        while x < 1 and now < until:
            now += PERIOD
            pools = follow(pools, Factors(), now, always)
            x, last = (pools[POOL].x if POOL in pools else 1.0), x
            moves += [now] if x != last else []
        assert x == 1
        assert all(sum(at <= each < at + WITHIN for each in moves) <= MOST_MOVES for at in moves)


def test_a_pool_at_one_is_forgotten_when_nothing_of_it_counts() -> None:
    assert not follow(ended(one(0.5), NOON), Factors(), NOON + WITHIN + LASTS, always)


def test_the_file_has_all_of_it() -> None:
    pools = {
        POOL: one(0.73)[POOL],
        (FSID, "vms"): Followed(x=1.0, device_class="hdd", published=0.9, until=NOON, generation=0, moves=()),
    }
    assert factors_file.decoded(json.loads(factors_file.encoded(pools))) == pools
