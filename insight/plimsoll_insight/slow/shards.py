"""Whose fault a request is that a sum calls ``started``: its OSD's, unless its pool is erasure-coded.

There it is ``started`` as long as it waits for any shard, of which the others are on other OSDs
(``ECBackend.cc``; seen with Ceph 16.2). A sum names no placement group, and at most one pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.events import OF_SHARDS, STARTED


def settle_started(counts: Counts, sources: Sequence[Counts], kinds: Mapping[str | int, bool]) -> list[int]:
    """Takes those back of which an OSD may be innocent. ``counts``: of all ``sources``. ``kinds``: whether a pool is
    erasure-coded, by name and by number. Gives the OSDs whose pools nothing tells of: they keep theirs.
    """
    with_shards = frozenset().union(*(source.with_shards for source in sources))
    without_shards = frozenset().union(*(source.without_shards for source in sources))

    def is_erasure_coded(osd: int) -> bool | None:
        """Whether a pool is, of which the OSD has requests: as the pools are known, else as lines of the OSD tell,
        else as those of others do. None where none does.
        """
        of_pools = [kinds.get(pool) for pool in counts.by_pool.of.get(osd, ())]
        if True in of_pools:
            return True
        if of_pools and None not in of_pools:
            return False
        if osd in with_shards or osd in without_shards:
            return osd in with_shards
        return bool(with_shards) if with_shards or without_shards else None

    untold: list[int] = []
    for osd in [osd for osd, each in counts.osds.items() if each.started]:
        match is_erasure_coded(osd):
            case True:
                _take_back(osd, counts)
            case None:
                untold.append(osd)
    return untold


def _take_back(osd: int, counts: Counts) -> None:
    count = counts.osds[osd]
    count.primary -= count.started
    count.unknown += count.started
    states = counts.by_state.of[osd] = Counter(counts.by_state.of[osd])
    number = min(states[STARTED], count.started)  # of many states the last ones are ``other``
    if number:
        states[OF_SHARDS] += number
        states[STARTED] -= number
    if not states[STARTED]:
        del states[STARTED]
    for key, number in counts.started.as_wide_as(counts.blamed.width).items():
        if key[1] == osd:
            counts.blamed.counts[key] -= number
            if not counts.blamed.counts[key]:
                del counts.blamed.counts[key]
