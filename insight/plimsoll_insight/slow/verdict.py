"""Which host, rack or OSD stands out, and how often chance alone would name one.

OSDs are compared with those of their own device class and root only.

**A bucket** is named where so many of its OSDs are among the slowest 5 %, or among as many as it has, that drawing
these at random would do it less than once in a thousand clusters: the upper tail of the hypergeometric distribution,
times the number of buckets of its type (Bonferroni). It needs at least two of its OSDs there, and half of them.

**An OSD** is named where it has three times as many as any other, and so many intervals that chance would give it
these in less than one of a thousand clusters: intervals in which it has any, or in which it leads, having three times
as many as any other; at least three. Each is drawn as if it could be any OSD's (binomial, times twice the number of
OSDs). Slow requests come in bursts: their number says little, and a burst that is short beside an interval makes one.

With fewer than 10 requests none is named. ``tests/unit/insight/slow/test_verdict.py`` draws clusters in which none
stands out, and counts how often one is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, comb, exp, lgamma, log

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.slow.tree import CrushBucket, Tree

SLOWEST = 0.05
CHANCE = 0.001
LEAST = 10
_TIMES = 3
_INTERVALS = 3
_SMALLEST = 3
"""OSDs in a cluster of which no tree is known."""


@frozen(kw_only=True)
class OfBucket:
    """``inside`` of the bucket's ``osds`` are among the slowest ``slowest`` of ``all`` OSDs."""

    bucket: CrushBucket
    device_class: str
    inside: int
    osds: int
    slowest: int
    all: int
    chance: float
    worst: int
    """The OSD of it with most blamed requests."""


@frozen(kw_only=True)
class OfOsd:
    """The OSD has ``number`` of ``all`` blamed requests of OSDs like it, in ``intervals``; the next has ``next``.

    In ``led`` of them it leads.
    """

    osd: int
    device_class: str
    number: int
    all: int
    next: int
    intervals: int
    led: int


Verdict = OfBucket | OfOsd | None


def judge(counts: Mapping[tuple[int, int], int], tree: Tree | None) -> Verdict:
    """``counts``: the requests of each OSD that has any, by interval: ``(interval, OSD)``."""
    if sum(counts.values()) < LEAST:
        return None
    sums: Counter[int] = Counter()
    for (_, osd), number in counts.items():
        sums[osd] += number
    if tree is None:
        return _osd(counts, sums, list(sums), max(len(sums), _SMALLEST), max(len(sums), _SMALLEST), "")
    return _bucket(sums, tree) or max(
        filter(None, (
            _osd(counts, sums, osds, len(osds), len(tree.osds), kind) for (_, kind), osds in tree.alike().items()
        )),
        key=lambda each: each.number,
        default=None,
    )  # fmt: skip


def _bucket(sums: Mapping[int, int], tree: Tree) -> OfBucket | None:
    buckets = tree.buckets()
    types = Counter(bucket.type for bucket in buckets)
    candidates = []
    for (root, kind), osds in tree.alike().items():
        of_kind = set(osds)
        for bucket, below in buckets.items():
            inside = [osd for osd in below if osd in of_kind]
            if bucket.path[0] != root or not inside or len(inside) == len(osds):
                continue
            slowest = _slowest(sums, osds, max(ceil(SLOWEST * len(osds)), len(inside)))
            hit = [osd for osd in inside if osd in slowest]
            if len(hit) < 2 or 2 * len(hit) < len(inside):
                continue
            chance = min(tail(len(osds), len(inside), len(slowest), len(hit)) * types[bucket.type], 1.0)
            if chance < CHANCE:
                worst = max(hit, key=lambda osd: sums[osd])
                candidates.append(
                    OfBucket(
                        bucket=bucket,
                        device_class=kind,
                        inside=len(hit),
                        osds=len(inside),
                        slowest=len(slowest),
                        all=len(osds),
                        chance=chance,
                        worst=worst,
                    )
                )
    # Of a rack with one host both are as likely: the host says more.
    return min(candidates, key=lambda each: (each.chance, -len(each.bucket.path)), default=None)


def _slowest(sums: Mapping[int, int], osds: Sequence[int], number: int) -> set[int]:
    """At most so many: of several that are even, none is slower than the others."""
    with_any = sorted((sums[osd] for osd in osds if sums.get(osd)), reverse=True)
    beyond = with_any[number] if len(with_any) > number else 0
    return {osd for osd in osds if sums.get(osd, 0) > beyond}


def tail(all: int, inside: int, draws: int, hit: int) -> float:
    """The chance that at least ``hit`` of ``draws`` OSDs, drawn from ``all``, are among ``inside`` ones."""
    ways = sum(comb(inside, k) * comb(all - inside, draws - k) for k in range(hit, min(inside, draws) + 1))
    return ways / comb(all, draws)


def _osd(
    counts: Mapping[tuple[int, int], int],
    sums: Mapping[int, int],
    alike: Sequence[int],
    osds: int,
    all: int,
    kind: str,
) -> OfOsd | None:
    """Of ``osds`` that are alike, in a cluster of ``all``."""
    among = set(alike)
    order = sorted((osd for osd in sums if osd in among), key=lambda osd: -sums[osd])
    if not order:
        return None
    worst = order[0]
    most, following = sums[worst], sums[order[1]] if len(order) > 1 else 0
    if most < LEAST or most < _TIMES * following:
        return None
    of_alike = {key: number for key, number in counts.items() if key[1] in among}
    leads, any_ = leaders(of_alike), Counter(osd for _, osd in of_alike)
    chance = min(
        at_least(times[worst], sum(times.values()), 1 / osds)
        for times in (leads, any_)
        if times[worst] >= _INTERVALS or times is any_
    )
    if any_[worst] < _INTERVALS or 2 * chance * all >= CHANCE:
        return None
    return OfOsd(
        osd=worst,
        device_class=kind,
        number=most,
        all=sum(sums[osd] for osd in order),
        next=following,
        intervals=any_[worst],
        led=leads[worst],
    )


def leaders(counts: Mapping[tuple[int, int], int]) -> Counter[int]:
    """The intervals that each OSD leads."""
    by_interval: dict[int, list[tuple[int, int]]] = {}
    for (interval, osd), number in counts.items():
        first_two = by_interval.setdefault(interval, [])
        first_two.append((number, osd))
        first_two.sort(reverse=True)
        del first_two[2:]
    return Counter(
        first_two[0][1]
        for first_two in by_interval.values()
        if len(first_two) == 1 or first_two[0][0] >= _TIMES * first_two[1][0]
    )


def at_least(number: int, of: int, chance: float) -> float:
    """The chance of so many or more ``of`` these (binomial). The sum is bounded by a geometric one."""
    if number <= of * chance:
        return 1.0
    rest = log(1 - chance) * (of - number) if number < of else 0.0
    first = exp(lgamma(of + 1) - lgamma(number + 1) - lgamma(of - number + 1) + number * log(chance) + rest)
    ratio = (of - number) / (number + 1) * chance / (1 - chance) if number < of else 0.0
    return min(first / (1 - ratio), 1.0)
