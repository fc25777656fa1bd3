"""What each OSD will take of its host's memory when it returns, and how long, by the model of ``forecast``. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_insight.forecast.failures import Placement, Spread
from plimsoll_insight.forecast.forecast import Inputs, forecast
from plimsoll_insight.forecast.ranges import Range, exactly
from plimsoll_insight.ordered_return.cluster import OsdMap
from plimsoll_insight.ordered_return.plan import Returning
from plimsoll_insight.slow.tree import Tree


@frozen(kw_only=True)
class Away:
    """The cluster, with OSDs that are down."""

    osd_map: OsdMap
    tree: Tree
    placement: Placement
    """As it is while all OSDs are up."""
    now: float
    """Seconds since the Unix epoch."""
    times: Mapping[int, float]
    """When epochs of the map began, of those that were asked."""

    def host_of(self) -> dict[int, str]:
        return {osd: bucket.host for osd, bucket in self.tree.bucket_of.items()}

    def away(self, osd: int) -> float | None:
        """Seconds."""
        one = self.osd_map.osds[osd]
        since = self.times.get(one.down_at) if one.down_since is None else one.down_since
        return None if since is None else max(self.now - since, 0.0)


def returning(
    cluster: Away, osds: Collection[int], inputs: Inputs, conditions: Mapping[int, str], logs: Mapping[int, float]
) -> list[Returning]:
    """``logs``: the entries that a log of each OSD's placement groups has on average; else it may be full."""
    own = {osd: replace(inputs, log_entries=exactly(logs[osd])) if osd in logs else inputs for osd in osds}
    spread = cluster.placement.spread(cluster.tree)
    return [_returning(cluster, osd, own[osd], conditions.get(osd), spread) for osd in osds]


def log_means(
    osds: Collection[int], whole: Mapping[str, Collection[int]], sizes: Mapping[str, int]
) -> dict[int, float]:
    """By OSD the mean of the logs of its placement groups, where all are known."""
    means: dict[int, float] = {}
    for osd in osds:
        own = [sizes.get(id) for id, members in whole.items() if osd in members]
        entries = [size for size in own if size is not None]
        if own and len(entries) == len(own):
            means[osd] = sum(entries) / len(entries)
    return means


def _returning(cluster: Away, osd: int, inputs: Inputs, condition: str | None, spread: Spread) -> Returning:
    failure = cluster.placement.failure(f"osd.{osd}", {osd}, cluster.tree, spread)
    away = cluster.away(osd)
    figures = forecast(failure, replace(inputs, away=None if away is None else exactly(away)))
    return Returning(
        number=osd,
        host=cluster.tree.bucket_of[osd].host,
        away=away,
        condition=condition,
        groups=0 if failure.groups is None else round(failure.groups.low),
        memory=figures.memory,
    )


def in_peace(resident: Collection[int], target: Range | None) -> Range | None:
    """What an OSD holds: of those that are up, else by its ``osd_memory_target``. None is unknown."""
    return Range(min(resident), max(resident)) if resident else target
