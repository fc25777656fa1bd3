"""Which host, rack or OSD stands out, and how often chance alone would name one.

**A bucket** is named where so many of its OSDs are among the slowest 5 %, or among as many as it has, that drawing
these at random would do it less than once in a thousand clusters: the upper tail of the hypergeometric distribution,
times the number of buckets of its type (Bonferroni). It needs at least two of its OSDs there, and half of them.

**An OSD** is named where it has three times as many as any other, and so many less than once in a thousand clusters
whose OSDs all expect as many as the others have (Poisson, times the number of OSDs).

With fewer than 10 requests none is named. ``tests/unit/insight/slow/test_verdict.py`` draws clusters in which none
stands out, and counts how often one is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, comb, exp, lgamma, log

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.slow.tree import Bucket, Tree

SLOWEST = 0.05
CHANCE = 0.001
LEAST = 10
_TIMES = 3


@frozen
class OfBucket:
    """``inside`` of the bucket's ``osds`` are among the slowest ``slowest`` of ``all`` OSDs."""

    bucket: Bucket
    inside: int
    osds: int
    slowest: int
    all: int
    chance: float
    worst: int
    """The OSD of it with most blamed requests."""


@frozen
class OfOsd:
    """The OSD has ``number`` of ``all`` blamed requests; the next has ``next``."""

    osd: int
    number: int
    all: int
    next: int


Verdict = OfBucket | OfOsd | None


def verdict(blamed: Mapping[int, int], tree: Tree | None) -> Verdict:
    """``blamed``: the requests of each OSD that has any."""
    if sum(blamed.values()) < LEAST:
        return None
    if tree is None:
        return _osd(blamed, len(blamed))
    return _bucket(blamed, tree) or _osd(blamed, len(tree.osds))


def _bucket(blamed: Mapping[int, int], tree: Tree) -> OfBucket | None:
    osds = tree.osds
    buckets = tree.buckets()
    types = Counter(bucket.type for bucket in buckets)
    found = []
    for bucket, inside in buckets.items():
        if len(inside) == len(osds):
            continue
        slowest = _slowest(blamed, osds, max(ceil(SLOWEST * len(osds)), len(inside)))
        hit = [osd for osd in inside if osd in slowest]
        if len(hit) < 2 or 2 * len(hit) < len(inside):
            continue
        chance = min(tail(len(osds), len(inside), len(slowest), len(hit)) * types[bucket.type], 1.0)
        if chance < CHANCE:
            worst = max(hit, key=lambda osd: blamed[osd])
            found.append(OfBucket(bucket, len(hit), len(inside), len(slowest), len(osds), chance, worst))
    # Of a rack with one host both are as likely: the host says more.
    return min(found, key=lambda each: (each.chance, -len(each.bucket.path)), default=None)


def _slowest(blamed: Mapping[int, int], osds: Sequence[int], number: int) -> set[int]:
    """At most so many: of several that are even, none is slower than the others."""
    with_any = sorted((blamed[osd] for osd in osds if blamed.get(osd)), reverse=True)
    beyond = with_any[number] if len(with_any) > number else 0
    return {osd for osd in osds if blamed.get(osd, 0) > beyond}


def tail(all: int, inside: int, drawn: int, hit: int) -> float:
    """The chance that at least ``hit`` of ``drawn`` OSDs, drawn from ``all``, are among ``inside`` ones."""
    ways = sum(comb(inside, k) * comb(all - inside, drawn - k) for k in range(hit, min(inside, drawn) + 1))
    return ways / comb(all, drawn)


def _osd(blamed: Mapping[int, int], osds: int) -> OfOsd | None:
    order = sorted(blamed, key=lambda osd: -blamed[osd])
    most, whole = blamed[order[0]], sum(blamed.values())
    following = blamed[order[1]] if len(order) > 1 else 0
    usual = (whole - most) / max(osds - 1, 1)
    if most < LEAST or most < _TIMES * following or at_least(most, usual) * osds >= CHANCE:
        return None
    return OfOsd(order[0], most, whole, following)


def at_least(number: int, mean: float) -> float:
    """The chance of so many or more where ``mean`` are expected (Poisson; the sum is bounded by a geometric one)."""
    if number <= mean:
        return 1.0
    if mean == 0:
        return 0.0
    return min(exp(number * log(mean) - mean - lgamma(number + 1)) / (1 - mean / (number + 1)), 1.0)
