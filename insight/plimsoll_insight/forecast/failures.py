"""What may fail, and which part of the cluster has a copy there: by counts, or by the placement of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util import ceph_json
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_insight.forecast import arithmetic
from plimsoll_insight.forecast.ranges import Range, exactly
from plimsoll_insight.forecast.recovery import PlacementGroup, evenly
from plimsoll_insight.slow.tree import NO_OSD, Tree

USUAL_GROUPS = 100
"""Placement groups of an OSD: what Ceph aims at (mon_target_pg_per_osd)."""
_MOST_SPREAD = 5000
_LEAST_GROUPS = 16
"""Placement groups of a pool of which none has two OSDs in one bucket by chance."""


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
    """The share of objects that keep fewer copies than min_size, or of a stretched pool in too few sites: guests that
    need them stop until it returns."""
    objects: Range | None = None
    """With a copy in what fails."""
    osds: int | None = None
    hosts: int | None = None
    left: int | None = None
    """OSDs that stay."""
    hosts_left: int | None = None
    is_rebuilt: bool = True
    """False where too few failure domains stay: then copies are made again only on what returns."""
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
        is_rebuilt=domains - losses >= copies,
        recovering=()
        if per_domain is None
        else spread(losses * per_domain, (domains - losses) * per_domain, copies, groups),
    )


def spread(losses: int, stay: int | None, copies: int, groups: float) -> tuple[PlacementGroup, ...]:
    return tuple(evenly(losses, stay, copies, max(1, min(int(groups), _MOST_SPREAD // losses))))


@frozen(kw_only=True)
class Pool:
    name: str = ""
    size: int
    least: int
    """``min_size``."""
    objects: int
    stored: int
    unknown: int = 0
    """Placement groups of which the manager has no report: it counts no object of theirs. ``objects`` and ``stored``
    are those of all, as if these had as many as the others."""
    is_unknown: bool = False
    """It has no report of any."""
    sites: int = 0
    """Of a stretched pool, in how many buckets its OSDs have to be for a placement group to be active."""
    site_type: int = 0
    """Of such buckets, the number of their type."""


@frozen(kw_only=True)
class Spread:
    """By the number of each pool."""

    number: Mapping[int, int]
    """Placement groups."""
    osds: Mapping[int, Collection[int]]
    """All that have some of these."""
    apart: Mapping[int, Collection[str]]
    """The types of buckets in which each placement group has one OSD at most, as its CRUSH rule asks for."""
    site_of: Mapping[int, Mapping[int, str]]
    """Of stretched pools, the site of each OSD."""

    def sites(self, pool: int, osds: Iterable[int]) -> int:
        """In how many sites these OSDs are."""
        return len({site for osd in osds if (site := self.site_of[pool].get(osd)) is not None})


@frozen
class Placement:
    """Which OSDs each placement group is on, and what its pool has."""

    groups: Sequence[tuple[int, tuple[int, ...]]]
    """The number of its pool, and its OSDs; without any where it is unknown."""
    pools: Mapping[int, Pool]

    @property
    def unknown(self) -> int:
        return sum(pool.unknown for pool in self.pools.values())

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

    def spread(self, tree: Tree) -> Spread:
        number = Counter(pool for pool, _ in self.groups)
        with_osds = Counter(pool for pool, on in self.groups if on)
        osds: dict[int, set[int]] = {pool: set() for pool in number}
        apart = {pool: set(tree.types()) for pool, groups in with_osds.items() if groups >= _LEAST_GROUPS}
        names = {osd: dict(bucket.path) for osd, bucket in tree.bucket_of.items()}
        for pool, on in self.groups:
            osds[pool].update(on)
            for type in tuple(apart.get(pool, ())):
                buckets = {names.get(osd, {}).get(type) for osd in on}
                if len(buckets) < len(on) or None in buckets:
                    apart[pool].discard(type)
        site_of = {
            id: {osd: site for osd in osds.get(id, ()) if (site := names.get(osd, {}).get(kind)) is not None}
            for id, pool in self.pools.items() if pool.sites and (kind := tree.type_of.get(pool.site_type))
        }  # fmt: skip
        return Spread(number=number, osds=osds, apart=apart, site_of=site_of)

    def failure(self, name: str, osds: Collection[int], tree: Tree, spread: Spread) -> Failure:
        """What these OSDs have. Objects are spread evenly over the placement groups of their pool; ``spread`` is that
        of this placement.
        """
        all_objects = degraded_objects = stopped_objects = anywhere_objects = 0.0
        copies = hit = anywhere = most_copies = 0
        hit_pools: set[int] = set()
        # Where a site fails as a whole, the monitors ask for one less.
        sites = {
            pool: min(self.pools[pool].sites, spread.sites(pool, set(spread.osds.get(pool, ())).difference(osds)))
            for pool in spread.site_of
        }
        recovering: list[tuple[tuple[int, ...], float, bool]] = []
        for pool, on in self.groups:
            of = self.pools.get(pool)
            if of is None:
                raise UnreadablePlacement(f"pool {pool} has placement groups and is not in ceph df")
            each = of.objects / spread.number[pool]
            all_objects += each
            if not on:
                anywhere_objects += each
                anywhere += 1
                most_copies += min(of.size, len(osds))
                continue
            missing = sum(osd in osds for osd in on)
            copies += missing
            hit += missing > 0
            degraded_objects += each if missing else 0.0
            if not missing:
                continue
            hit_pools.add(pool)
            serves = len(on) - missing >= of.least
            if serves and pool in sites:
                serves = spread.sites(pool, set(on).difference(osds)) >= sites[pool]
            stopped_objects += 0.0 if serves else each
            if each:
                recovering.append((on, each, serves))
        all_groups = max(len(self.groups), 1)
        # Copies are made again where the pools are that lost some: not on other device classes, or on OSDs that are
        # down or out.
        stay = set().union(*(spread.osds[pool] for pool in hit_pools)).difference(osds)
        elsewhere = set().union(*spread.osds.values()).difference(osds)
        apart = {pool: spread.apart.get(pool, ()) for pool in hit_pools}
        domains = {type: _number_of(type, elsewhere, tree) for type in set().union(*apart.values())}
        return Failure(
            name=name,
            share=_part(degraded_objects, anywhere_objects, all_objects)
            if all_objects
            else _part(hit, anywhere, all_groups),
            stopped=_part(stopped_objects, anywhere_objects, all_objects) if all_objects else None,
            objects=Range(degraded_objects, degraded_objects + anywhere_objects),
            osds=len(osds),
            hosts=_hosts(tree, osds),
            left=len(stay),
            is_rebuilt=all(domains[type] >= self.pools[pool].size for pool, types in apart.items() for type in types),
            hosts_left=_hosts(tree, stay.intersection(tree.bucket_of)),
            groups=Range(copies / len(osds), (copies + most_copies) / len(osds)),
            recovering=tuple(
                PlacementGroup(
                    osds=on, lost=frozenset(osds).intersection(on), part=each / degraded_objects, can_wait=can_wait
                )
                for on, each, can_wait in recovering
            ),
        )


def _number_of(type: str, osds: Collection[int], tree: Tree) -> int:
    """Of buckets of this type that have one of these OSDs."""
    paths = (tree.bucket_of[osd].path for osd in osds if osd in tree.bucket_of)
    return len({name for path in paths for kind, name in path if kind == type})


def _part(some: float, more: float, all: float) -> Range:
    """From some of all to some and more."""
    return Range(some / all, min((some + more) / all, 1.0))


def each_of(type: str, tree: Tree, placement: Placement) -> Iterator[Failure]:
    """If each bucket of this type failed, or each ``osd``. Raises ``UnknownBucket``."""
    types = [*tree.types(), "osd"]
    if type not in types:
        raise UnknownBucket(type, types)
    spread = placement.spread(tree)
    for bucket, osds in tree.buckets().items():
        if bucket.type == type:
            yield placement.failure(bucket.name, set(osds), tree, spread)
    if type == "osd":
        for osd in sorted(tree.osds):
            yield placement.failure(f"osd.{osd}", {osd}, tree, spread)


def together(names: Sequence[str], tree: Tree, placement: Placement) -> Failure:
    """If all these failed at once: buckets, or OSDs as ``osd.3``. Raises ``UnknownBucket``."""
    by_name: dict[str, set[int]] = {f"osd.{osd}": {osd} for osd in tree.osds}
    for bucket, osds in tree.buckets().items():
        by_name.setdefault(bucket.name, set()).update(osds)
    for name in names:
        if name not in by_name:
            raise UnknownBucket(name, by_name)
    union = set().union(*(by_name[name] for name in names))
    return placement.failure(", ".join(names), union, tree, placement.spread(tree))


def _hosts(tree: Tree, osds: Collection[int]) -> int:
    return len({tree.bucket_of[osd].host for osd in osds})


def placement(groups: str, details: str, usage: str) -> Placement:
    """Of ``ceph pg dump pgs_brief``, ``ceph osd pool ls detail`` and ``ceph df``, as JSON. Raises
    ``UnreadablePlacement``.
    """
    try:
        document = ceph_json.parse(groups)
        rows = document["pg_stats"] if isinstance(document, dict) else document
        pool_of = [int(row["pgid"].partition(".")[0]) for row in rows]
        on = [
            (pool, tuple(osd for osd in map(int, row["acting"]) if osd != NO_OSD))
            for pool, row in zip(pool_of, rows, strict=True)
        ]
        # A manager that has just taken over has them until OSDs report, and longer of OSDs that are down.
        unknown = Counter(pool for pool, row in zip(pool_of, rows, strict=True) if row.get("state") == "unknown")
        of_pools = Counter(pool_of)
        stats = {int(pool["id"]): pool["stats"] for pool in ceph_json.parse(usage)["pools"]}
        pools = {
            number: _with_unknown(pool, unknown[number], of_pools[number])
            for each in ceph_json.parse(details) for number, pool in _pool(each, stats)
        }  # fmt: skip
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
    # Placement groups whose count is wrong until they are scrubbed make the sum of a small pool negative (tracker
    # 43308).
    yield (
        number,
        Pool(
            name=str(entry.get("pool_name", number)),
            size=int(entry["size"]),
            least=int(entry["min_size"]),
            sites=int(entry.get("peering_crush_bucket_count", 0)),  # since Pacific
            site_type=int(entry.get("peering_crush_bucket_barrier", 0)),
            objects=max(int(of["objects"]), 0),
            stored=max(int(size), 0),
        ),
    )


def _with_unknown(pool: Pool, unknown: int, groups: int) -> Pool:
    reports = groups - unknown
    if not unknown:
        return pool
    return replace(
        pool,
        objects=pool.objects * groups // reports if reports else pool.objects,
        stored=pool.stored * groups // reports if reports else pool.stored,
        unknown=unknown,
        is_unknown=not reports,
    )
