"""Logs of all kinds as one: the cluster's, those of OSDs, and what OSDs remember."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.events import UNKNOWN
from plimsoll_insight.slow.osd_count import OsdCount
from plimsoll_insight.slow.tallies import MOST_BY_OSD, OsdIntervals


def together(*sources: Counts) -> Counts:
    """Logs of all kinds as one: a request that two tell of is in each, so of each OSD the larger count of it."""
    whole = Counts(sources[0].width)
    choice: dict[int, Counts] = {}
    reporting: dict[int, Counts] = {}
    """Of OSDs whose requests no other line has."""
    for osd in sorted({osd for source in sources for osd in (*source.osds, *source.by_state.of)}):
        of_osd = {source: source.osds.get(osd, OsdCount()) for source in sources}
        source = choice[osd] = max(
            sources, key=lambda each: (of_osd[each].total, each.by_state.number(osd), -of_osd[each].again)
        )
        more, unknown, twice = of_osd[source], 0, of_osd[source].twice
        if osd in source.by_state.of:
            whole.by_state.of[osd] = source.by_state.of[osd]
        elif not more.total:
            reporting[osd] = max(sources, key=lambda each: of_osd[each].reported)
            unknown = of_osd[reporting[osd]].reported
            twice += unknown - of_osd[reporting[osd]].reported_least
            whole.by_state.add(osd, UNKNOWN, unknown)
        of_pools = max(
            sources, key=lambda each: (each is source and osd in each.by_pool.of, each.by_pool.number(osd))
        )
        if osd in of_pools.by_pool.of:
            whole.by_pool.of[osd] = of_pools.by_pool.of[osd]
        whole.osds[osd] = _merged(replace(more, unknown=more.unknown + unknown, twice=twice), of_osd.values())
    whole.blamed = _of_chosen([(source.blamed, source, choice) for source in sources])
    whole.started = _of_chosen([(source.started, source, choice) for source in sources])
    whole.bins = _of_chosen(
        [
            *((source.bins, source, choice) for source in sources),
            *((source.reported, source, reporting) for source in sources),
        ]
    )
    for source in sources:
        whole.by_monitor.merge(source.by_monitor)
        whole.dumped |= source.dumped
        whole.images |= source.images
        whole.pool_of_image |= source.pool_of_image
    whole.first = min((source.first for source in sources if source.first is not None), default=None)
    whole.last = max((source.last for source in sources if source.last is not None), default=None)
    return whole


def _merged(count: OsdCount, each: Collection[OsdCount]) -> OsdCount:
    """With the most that any of these has of what is no request."""
    return replace(
        count,
        failed=max(one.failed for one in each),
        boot=max(one.boot for one in each),
        wrongly_down=max(one.wrongly_down for one in each),
        worst_age=max(one.worst_age for one in each),
        at_once=max(one.at_once for one in each),
        stalls=max(one.stalls for one in each),
        is_named=any(one.is_named for one in each),
    )


def _of_chosen(each: Sequence[tuple[OsdIntervals, Counts, Mapping[int, Counts]]]) -> OsdIntervals:
    """Of intervals, each of a source, those of the OSDs for which that source is chosen."""
    whole = OsdIntervals(max(intervals.width for intervals, _, _ in each), MOST_BY_OSD)
    for intervals, source, choice in each:
        counts = intervals.as_wide_as(whole.width)
        whole.counts.update({key: count for key, count in counts.items() if choice.get(key[1]) is source})
    return whole
