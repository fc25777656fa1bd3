"""Who is named, how often chance alone names one, and the arithmetic of both."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import combinations
from math import comb

import pytest

from plimsoll_insight.slow.tree import CrushBucket, Tree
from plimsoll_insight.slow.verdict import OfBucket, OfOsd, Verdict, at_least, judge, leaders, tail
from tests import depth

CLUSTERS = depth.count(quick=100, landing=400, soak=10_000)
SIZES = [(3, 1), (9, 3), (30, 10), (240, 10)]


def tree_of(osds: int, each: int) -> Tree:
    return Tree(bucket_of={
        osd: CrushBucket((("root", "default"), ("rack", f"r{osd // (4 * each)}"), ("host", f"h{osd // each}")))
        for osd in range(osds)
    })  # fmt: skip


def drawn(chance: random.Random, rate: float) -> int:
    """From a Poisson distribution, by the times between requests."""
    number, time = 0, chance.expovariate(1)
    while time < rate:
        number, time = number + 1, time + chance.expovariate(1)
    return number


def named(osds: int, each: int, rate: Callable[[random.Random, int], float], seed: str) -> list[object]:
    chance, tree = random.Random(seed), tree_of(osds, each)
    return [
        judge(Counter(
            (chance.randrange(60), osd) for osd in range(osds) for _ in range(drawn(chance, rate(chance, osd)))
        ), tree)
        for _ in range(CLUSTERS)
    ]  # fmt: skip


def at_once(blamed: Mapping[int, int], tree: Tree | None, minutes: int = 20) -> Verdict:
    """As many in each of so many minutes."""
    return judge({(minute, osd): number for osd, number in blamed.items() for minute in range(minutes)}, tree)


@pytest.mark.parametrize(("osds", "each"), SIZES)
@pytest.mark.parametrize("rate", [0.5, 5, 20])
def test_where_all_are_alike_none_is_named(osds: int, each: int, rate: float) -> None:
    found = named(osds, each, lambda *_: rate, f"alike {osds} {rate}")
    assert sum(each is not None for each in found) <= CLUSTERS // 100


def test_where_osds_differ_as_they_do_in_a_large_cluster_hardly_any_is_named() -> None:
    """Rates that follow an exponential distribution: the slowest of 240 has six times the mean."""
    found = named(240, 10, lambda chance, _: 20 * chance.expovariate(1), "exponential")
    assert sum(each is not None for each in found) <= max(CLUSTERS // 50, 1)


@pytest.mark.parametrize(("osds", "each"), SIZES)
def test_an_osd_with_many_times_the_others_is_named_each_time(osds: int, each: int) -> None:
    found = named(osds, each, lambda _, osd: 60 if osd == 1 else 2, f"osd {osds}")
    assert all(isinstance(one, OfOsd) and one.osd == 1 for one in found)


def test_a_host_whose_osds_are_slow_is_named_rather_than_its_worst_osd() -> None:
    found = named(240, 10, lambda _, osd: (90 if osd == 25 else 40) if osd // 10 == 2 else 4, "host")
    assert all(isinstance(one, OfBucket) and one.bucket.path[-1] == ("host", "h2") for one in found)
    assert {one.worst for one in found if isinstance(one, OfBucket)} == {25}


def test_a_rack_whose_hosts_are_slow_is_named_rather_than_one_of_them() -> None:
    found = named(240, 10, lambda _, osd: 40 if osd // 40 == 1 else 4, "rack")
    assert all(isinstance(one, OfBucket) and one.bucket.path[-1] == ("rack", "r1") for one in found)


def test_nine_of_ten_osds_of_a_host_among_the_slowest_twelve_of_240() -> None:
    blamed = {osd: 100 + osd for osd in range(20, 29)} | {100: 90, 150: 80, 200: 70} | dict.fromkeys(range(60, 90), 3)
    found = at_once(blamed, tree_of(240, 10))
    assert isinstance(found, OfBucket)
    assert (found.bucket.name, found.inside, found.osds, found.slowest, found.all) == ("h2", 9, 10, 12, 240)
    assert found.chance < 1e-9


def test_few_requests_name_none() -> None:
    assert at_once({1: 1}, None, 9) is None
    assert isinstance(at_once({1: 1}, None, 10), OfOsd)


def test_even_counts_name_none() -> None:
    assert at_once(dict.fromkeys(range(10), 50), tree_of(240, 10)) is not None, "a whole host"
    assert at_once(dict.fromkeys(range(0, 240, 10), 50), tree_of(240, 10)) is None, "one of each host"


def test_the_tail_is_that_of_all_draws() -> None:
    draws = list(combinations(range(8), 3))
    for hit in range(4):
        assert tail(8, 4, 3, hit) == pytest.approx(
            sum(len({0, 1, 2, 3} & {*one}) >= hit for one in draws) / len(draws)
        )


@pytest.mark.parametrize(("number", "of", "chance"), [(12, 20, 0.3), (5, 5, 1 / 3), (4, 300, 1 / 240), (3, 3, 0.1)])
def test_the_chance_of_so_many_is_bounded_from_above_and_closely(number: int, of: int, chance: float) -> None:
    exact = sum(comb(of, k) * chance**k * (1 - chance) ** (of - k) for k in range(number, of + 1))
    assert exact <= at_least(number, of, chance) * (1 + 1e-9)
    assert at_least(number, of, chance) <= 1.2 * exact
    assert at_least(1, 10, 0.3) == 1


def test_a_leader_has_three_times_as_many_as_any_other_in_a_minute() -> None:
    assert leaders({(0, 1): 3, (0, 2): 1, (1, 1): 3, (1, 2): 2, (2, 2): 1}) == {1: 1, 2: 1}


@pytest.mark.parametrize(("interval", "longest"), [(60, 10), (5, 2)])
@pytest.mark.parametrize("bursts", [5, 20])
@pytest.mark.parametrize(("osds", "each"), SIZES)
def test_where_slow_requests_come_in_bursts_at_random_osds_hardly_any_is_named(
    osds: int, each: int, bursts: int, interval: int, longest: float
) -> None:
    """Each of 1 to 12 requests, on one OSD, at any time of a day."""
    chance, tree = random.Random(f"bursts {osds} {bursts}"), tree_of(osds, each)
    found = 0
    for _ in range(CLUSTERS):
        blamed: Counter[tuple[int, int]] = Counter()
        for _ in range(bursts):
            osd, begin = chance.randrange(osds), chance.randrange(86_400)
            for _ in range(chance.randint(1, 12)):
                blamed[int(begin + chance.uniform(0, longest)) // interval, osd] += 1
        found += judge(blamed, tree) is not None
    assert found <= CLUSTERS // 100


def test_osds_are_compared_with_those_of_their_class_and_root() -> None:
    """40 hdd that are evenly slow do not stand out for being no ssd; the one ssd that is slow does."""
    hdd = {osd: CrushBucket((("root", "default"), ("rack", "hdd"), ("host", f"d{osd // 10}"))) for osd in range(40)}
    ssd = {
        osd: CrushBucket((("root", "default"), ("rack", "ssd"), ("host", f"s{osd // 10}"))) for osd in range(40, 400)
    }
    tree = Tree(bucket_of=hdd | ssd, class_of=dict.fromkeys(hdd, "hdd") | dict.fromkeys(ssd, "ssd"))
    roots = Tree(
        bucket_of={osd: CrushBucket((("root", each.path[1][1]), *each.path[1:])) for osd, each in (hdd | ssd).items()}
    )
    slow = dict.fromkeys(hdd, 20)
    assert at_once(slow, tree) is None
    assert at_once(slow, roots) is None
    found = at_once(slow | {77: 9}, tree)
    assert isinstance(found, OfOsd)
    assert (found.osd, found.device_class, found.next) == (77, "ssd", 0)
    found = at_once(slow | dict.fromkeys(range(10, 20), 30), tree)
    assert isinstance(found, OfBucket)
    assert (found.bucket.name, found.device_class, found.osds, found.all) == ("d1", "hdd", 10, 40)
