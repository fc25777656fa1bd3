"""Requests over time, with the OSDs and hosts that may be their cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta

from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.tree import Tree


@frozen(kw_only=True)
class SlowInterval:
    """``requests`` were slow in it; ``osds`` and ``hosts`` have those that they may be the cause of."""

    begin: float
    requests: int
    osds: Mapping[int, int]
    hosts: Mapping[str, int]


@frozen
class OverTime:
    """Intervals of ``width`` seconds, without those in which no request was slow."""

    width: float
    intervals: Sequence[SlowInterval]


def width_words(seconds: float) -> str:
    """``1 min``, ``2.5 s``."""
    return durations.words(timedelta(seconds=seconds)) if seconds % 1 == 0 else f"{seconds:g} s"


_MOST = 600


def over_time(counts: Counts, tree: Tree | None) -> OverTime:
    """In the wider ones of the intervals that are known of all requests and of those of each OSD, at most 600."""
    width = max(counts.bins.width, counts.blamed.width)
    while len({interval for interval, _ in counts.bins.as_wide_as(width)}) > _MOST:
        width *= 2
    all_, of_osds = counts.bins.as_wide_as(width), counts.blamed.as_wide_as(width)
    requests: Counter[int] = Counter()
    osds: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for (interval, _), number in all_.items():
        requests[interval] += number
    for (interval, osd), number in of_osds.items():
        osds[interval][osd] += number
    return OverTime(width, [
        SlowInterval(begin=each * width, requests=requests[each], osds=osds[each], hosts=_hosts(osds[each], tree))
        for each in sorted({*requests, *osds})
    ])  # fmt: skip


def _hosts(osds: Mapping[int, int], tree: Tree | None) -> Mapping[str, int]:
    hosts: Counter[str] = Counter()
    for osd, number in osds.items():
        if tree and osd in tree.bucket_of:
            hosts[tree.bucket_of[osd].host] += number
    return hosts
