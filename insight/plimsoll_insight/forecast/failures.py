"""What may fail, and which part of the cluster has a copy there: by counts, or by the placement of a cluster."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.forecast import arithmetic
from plimsoll_insight.forecast.ranges import Range, exactly
from plimsoll_insight.forecast.recovery import PlacementGroup, evenly
from plimsoll_insight.slow.tree import NO_OSD, Tree

USUAL_GROUPS = 100
"""Placement groups of an OSD: what Ceph aims at (mon_target_pg_per_osd)."""
_MOST_SPREAD = 5000


class UnreadablePlacement(PlimsollError):
    """An answer of the cluster is not understood."""


class UnknownBucket(PlimsollError):
    """The CRUSH map has no such bucket, type or OSD."""

    def __init__(self, name: str, names: Collection[str]) -> None:
        super().__init__(f"the CRUSH map has no {name}")
        self.name, self.known = name, names


@frozen(kw_only=True)
class Failure:
    """What fails. None is unknown."""

    name: str
    share: Range
    """Of placement groups, or of hot objects: those with a copy in what fails."""
    stopped: Range | None = None
    """The share of objects that keep fewer copies than min_size: guests that need them stop until it returns."""
    objects: Range | None = None
    """With a copy in what fails."""
    osds: int | None = None
    hosts: int | None = None
    left: int | None = None
    """OSDs that stay."""
    hosts_left: int | None = None
    groups: Range | None = None
    """Placement groups of each OSD that fails."""
    recovering: tuple[PlacementGroup, ...] = ()
    """Those of them with objects, as they are placed, or as in a cluster of which only the numbers are known."""


def by_counts(
    domains: int,
    losses: int,
    copies: int,
    objects: Range | None,
    per_domain: int | None,
    groups: float = USUAL_GROUPS,
    hosts: int = 1,
) -> Failure:
    """Of failure domains of one size, with so many ``hosts`` each, whose OSDs have so many placement groups each.
    Raises ``ValueError``.
    """
    if not 0 < losses < domains or copies > domains:
        raise ValueError(f"{losses} of {domains} failure domains cannot be lost with {copies} copies")
    share = arithmetic.degraded_share(domains, losses, copies)
    return Failure(
        name=f"{losses} of {domains} domains",
        share=exactly(share),
        objects=None if objects is None else Range(share * objects.low, share * objects.high),
        osds=None if per_domain is None else losses * per_domain,
        hosts=losses * hosts,
        hosts_left=(domains - losses) * hosts,
        left=None if per_domain is None else (domains - losses) * per_domain,
        recovering=()
        if per_domain is None
        else spread(losses * per_domain, (domains - losses) * per_domain, copies, groups),
    )


def spread(losses: int, stay: int | None, copies: int, groups: float) -> tuple[PlacementGroup, ...]:
    return tuple(evenly(losses, stay, copies, max(1, min(int(groups), _MOST_SPREAD // losses))))


@frozen(kw_only=True)
class Pool:
    size: int
    least: int
    """``min_size``."""
    objects: int
    stored: int


@frozen
class Placement:
    """Which OSDs each placement group is on, and what its pool has."""

    groups: Sequence[tuple[int, tuple[int, ...]]]
    """The number of its pool, and its OSDs."""
    pools: Mapping[int, Pool]

    @property
    def object_bytes(self) -> float | None:
        """The mean; None without objects."""
        objects = sum(pool.objects for pool in self.pools.values())
        return sum(pool.stored for pool in self.pools.values()) / objects if objects else None

    @property
    def copies(self) -> Range | None:
        sizes = [pool.size for pool in self.pools.values() if pool.objects]
        return Range(min(sizes), max(sizes)) if sizes else None

    @property
    def groups_of_each(self) -> Range | None:
        """Placement groups of an OSD; None without any."""
        numbers = Counter(osd for _, on in self.groups for osd in on).values()
        return Range(min(numbers), max(numbers)) if numbers else None

    def failure(self, name: str, osds: Collection[int], tree: Tree) -> Failure:
        """What these OSDs have. Objects are spread evenly over the placement groups of their pool."""
        hosts = _hosts(tree, osds)
        number: dict[int, int] = {}
        for pool, _ in self.groups:
            number[pool] = number.get(pool, 0) + 1
        all_objects = degraded_objects = stopped_objects = 0.0
        copies = hit = 0
        recovering: list[tuple[tuple[int, ...], float, bool]] = []
        for pool, on in self.groups:
            of = self.pools.get(pool)
            if of is None:
                raise UnreadablePlacement(f"pool {pool} has placement groups and is not in ceph df")
            each = of.objects / number[pool]
            missing = sum(osd in osds for osd in on)
            all_objects += each
            copies += missing
            hit += missing > 0
            degraded_objects += each if missing else 0.0
            stopped_objects += each if missing and len(on) - missing < of.least else 0.0
            if missing and each:
                recovering.append((on, each, len(on) - missing >= of.least))
        share = degraded_objects / all_objects if all_objects else hit / max(len(self.groups), 1)
        return Failure(
            name=name,
            share=exactly(share),
            stopped=exactly(stopped_objects / all_objects) if all_objects else None,
            objects=exactly(degraded_objects),
            osds=len(osds),
            hosts=hosts,
            left=len(tree.osds) - len(osds),
            hosts_left=_hosts(tree, tree.osds) - hosts,
            groups=exactly(copies / len(osds)),
            recovering=tuple(
                PlacementGroup(
                    osds=on, lost=frozenset(osds).intersection(on), part=each / degraded_objects, can_wait=can_wait
                )
                for on, each, can_wait in recovering
            ),
        )


def each_of(type: str, tree: Tree, placement: Placement) -> Iterator[Failure]:
    """If each bucket of this type failed, or each ``osd``. Raises ``UnknownBucket``."""
    types = [*tree.types(), "osd"]
    if type not in types:
        raise UnknownBucket(type, types)
    for bucket, osds in tree.buckets().items():
        if bucket.type == type:
            yield placement.failure(bucket.name, set(osds), tree)
    if type == "osd":
        for osd in sorted(tree.osds):
            yield placement.failure(f"osd.{osd}", {osd}, tree)


def together(names: Sequence[str], tree: Tree, placement: Placement) -> Failure:
    """If all these failed at once: buckets, or OSDs as ``osd.3``. Raises ``UnknownBucket``."""
    by_name: dict[str, set[int]] = {f"osd.{osd}": {osd} for osd in tree.osds}
    for bucket, osds in tree.buckets().items():
        by_name.setdefault(bucket.name, set()).update(osds)
    for name in names:
        if name not in by_name:
            raise UnknownBucket(name, by_name)
    union = set().union(*(by_name[name] for name in names))
    return placement.failure(", ".join(names), union, tree)


def _hosts(tree: Tree, osds: Collection[int]) -> int:
    return len({tree.bucket_of[osd].path for osd in osds})


def placement(groups: str, details: str, usage: str) -> Placement:
    """Of ``ceph pg dump pgs_brief``, ``ceph osd pool ls detail`` and ``ceph df``, as JSON. Raises
    ``UnreadablePlacement``.
    """
    try:
        document = json.loads(groups)
        rows = document["pg_stats"] if isinstance(document, dict) else document
        on = [
            (int(row["pgid"].partition(".")[0]), tuple(osd for osd in map(int, row["acting"]) if osd != NO_OSD))
            for row in rows
        ]
        stats = {int(pool["id"]): pool["stats"] for pool in json.loads(usage)["pools"]}
        pools = {number: pool for each in json.loads(details) for number, pool in _pool(each, stats)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadablePlacement(
            "ceph pg dump pgs_brief, osd pool ls detail, df: not the JSON that they print with -f json"
        ) from error
    return Placement(on, pools)


def _pool(entry: Mapping[str, Any], stats: Mapping[int, Mapping[str, Any]]) -> Iterator[tuple[int, Pool]]:
    number = int(entry["pool_id"] if "pool_id" in entry else entry["pool"])
    if number not in stats:  # it was deleted between two of the questions
        return
    of = stats[number]
    size = of["stored"] if "stored" in of else of["bytes_used"]  # before Nautilus that was without copies
    yield (
        number,
        Pool(size=int(entry["size"]), least=int(entry["min_size"]), objects=int(of["objects"]), stored=int(size)),
    )
