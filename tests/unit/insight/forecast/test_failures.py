"""Which part of a cluster has a copy in what fails."""

from __future__ import annotations

import json

import pytest

from plimsoll_insight.forecast.failures import (
    Placement,
    Pool,
    UnknownBucket,
    UnreadablePlacement,
    by_counts,
    each_of,
    placement,
    together,
)
from plimsoll_insight.forecast.ranges import Range, exactly
from plimsoll_insight.slow.tree import CrushBucket, Tree, parse

ROOT, A, B = ("root", "default"), ("host", "a"), ("host", "b")
TREE = Tree(bucket_of={osd: CrushBucket((ROOT, A if osd < 2 else B)) for osd in range(4)})
PLACED = Placement(
    [(1, (0, 2)), (1, (1, 3)), (1, (0, 3)), (1, (2, 1)), (2, (0, 1))],
    {1: Pool(size=2, least=1, objects=400, stored=400 << 20), 2: Pool(size=2, least=2, objects=100, stored=50 << 20)},
)


def test_each_osd_has_the_objects_of_its_placement_groups() -> None:
    found = {one.name: one for one in each_of("osd", TREE, PLACED)}
    # osd.0 has two of the four of pool 1, 200 objects, and all 100 of pool 2; these keep 1 copy of at least 2.
    assert found["osd.0"].objects == exactly(300)
    assert found["osd.0"].share == exactly(0.6)
    assert found["osd.0"].stopped == exactly(0.2)
    assert (found["osd.0"].osds, found["osd.0"].hosts, found["osd.0"].left) == (1, 1, 3)
    assert found["osd.2"].share == exactly(0.4)
    assert found["osd.2"].stopped == exactly(0)


def test_a_host_has_the_placement_groups_of_its_osds_once() -> None:
    found = {one.name: one for one in each_of("host", TREE, PLACED)}
    assert found["a"].share == exactly(1)
    assert found["a"].groups == exactly(3)  # osd.0 is on three, osd.1 on three
    assert found["b"].share == exactly(0.8)


def test_several_fail_together() -> None:
    found = together(["osd.2", "a"], TREE, PLACED)
    assert (found.name, found.osds, found.hosts) == ("osd.2, a", 3, 2)
    # All objects but those of the second and third placement group of pool 1 have no copy, or too few.
    assert found.stopped == exactly(0.6)


def test_what_is_between_a_host_and_its_osds_is_no_host() -> None:
    shelves = {osd: CrushBucket((ROOT, A if osd < 2 else B, ("shelf", f"s{osd}"))) for osd in range(4)}
    found = {one.name: one for one in each_of("host", Tree(bucket_of=shelves), PLACED)}
    assert (found["a"].osds, found["a"].hosts, found["a"].hosts_left) == (2, 1, 1)


def test_what_the_map_has_not_is_named() -> None:
    with pytest.raises(UnknownBucket, match="the CRUSH map has no rack1"):
        together(["rack1"], TREE, PLACED)
    with pytest.raises(UnknownBucket, match="the CRUSH map has no rack"):
        list(each_of("rack", TREE, PLACED))


GROUPS = {"pg_ready": True, "pg_stats": [{"pgid": "1.0", "acting": [0, 2]}, {"pgid": "1.a", "acting": [1, 3]}]}
DETAILS = [{"pool_id": 1, "pool_name": "volumes", "size": 2, "min_size": 1}]
VOLUMES = Pool(name="volumes", size=2, least=1, objects=90, stored=900)
USAGE = {"pools": [{"name": "volumes", "id": 1, "stats": {"objects": 90, "stored": 900}}]}


@pytest.mark.parametrize("groups", [GROUPS, GROUPS["pg_stats"]])
def test_answers_of_ceph_are_read_with_and_without_the_frame_of_nautilus(groups: object) -> None:
    found = placement(json.dumps(groups), json.dumps(DETAILS), json.dumps(USAGE))
    assert found == Placement([(1, (0, 2)), (1, (1, 3))], {1: VOLUMES})
    assert (found.object_bytes, found.copies) == (10, exactly(2))


def test_a_stretched_pool_stops_where_all_copies_of_a_site_fail_and_not_the_site() -> None:
    """The monitors ask for fewer sites only without any OSD of one."""
    nodes = [{"id": -1, "name": "default", "type": "root", "type_id": 11, "children": [-2, -3]}]
    for site, hosts in ((-2, (0, 1, 2)), (-3, (3, 4, 5))):
        own = [-10 - host for host in hosts]
        nodes.append({"id": site, "name": f"dc{-site}", "type": "datacenter", "type_id": 8, "children": own})
        for host in hosts:
            nodes.append({"id": -10 - host, "name": f"h{host}", "type": "host", "type_id": 1, "children": [host]})
            nodes.append({"id": host, "name": f"osd.{host}", "type": "osd", "type_id": 0})
    tree = parse(json.dumps({"nodes": nodes, "stray": []}), "ceph osd tree")
    pairs = ((0, 1), (1, 2), (0, 2))
    groups = [(*near, *(osd + 3 for osd in far)) for near in pairs for far in pairs]
    rows = [{"pgid": f"1.{number}", "acting": acting} for number, acting in enumerate(groups)]
    stretched = {"pool_id": 1, "pool_name": "volumes", "size": 4, "min_size": 2, "is_stretch_pool": True,
                 "peering_crush_bucket_count": 2, "peering_crush_bucket_barrier": 8}  # fmt: skip
    found = placement(json.dumps(rows), json.dumps([stretched]), json.dumps(USAGE))
    # Three of the nine groups have both copies of that site on these hosts.
    stopped = together(["h0", "h1"], tree, found).stopped
    assert stopped is not None
    assert (stopped.low, stopped.high) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert [together([name], tree, found).stopped for name in ("h0", "dc2")] == [exactly(0), exactly(0)]
    flat = placement(json.dumps(rows), json.dumps([DETAILS[0] | {"min_size": 2}]), json.dumps(USAGE))
    assert together(["h0", "h1"], tree, flat).stopped == exactly(0)


def test_a_negative_count_of_objects_is_none_of_them() -> None:
    usage = {"pools": [{"name": "volumes", "id": 1, "stats": {"objects": -3, "stored": -4096}}]}
    found = placement(json.dumps(GROUPS), json.dumps(DETAILS), json.dumps(usage))
    assert (found.pools[1].objects, found.pools[1].stored) == (0, 0)


def test_a_shard_that_is_missing_already_is_on_no_osd() -> None:
    """Else a group of k=2, m=1 with a hole would seem to serve with one shard, and the hole to be an OSD of many."""
    rows = [{"pgid": "1.0", "acting": [0, 2147483647, 2]}, {"pgid": "1.1", "acting": [1, 2147483647, 3]}]
    details = [{"pool_id": 1, "pool_name": "volumes", "size": 3, "min_size": 2}]
    one = placement(json.dumps(rows), json.dumps(details), json.dumps(USAGE))
    assert one.groups_of_each == exactly(1)
    lost = together(["osd.0"], TREE, one)
    assert (lost.share, lost.stopped) == (exactly(0.5), exactly(0.5))


@pytest.mark.parametrize("damaged", ["", "[]", "{}", '{"pools": [{"id": 1}]}'])
def test_answers_that_are_not_understood_are_one_error(damaged: str) -> None:
    with pytest.raises(UnreadablePlacement):
        placement(json.dumps(GROUPS), json.dumps(DETAILS), damaged)


def test_an_empty_cluster_has_no_size_of_objects() -> None:
    empty = Placement([(1, (0, 2))], {1: Pool(size=2, least=1, objects=0, stored=0)})
    assert (empty.object_bytes, empty.copies) == (None, None)
    assert next(each_of("osd", TREE, empty)).share == exactly(1)


def test_groups_without_a_report_may_be_anywhere_and_have_as_many_objects_as_others() -> None:
    """After a manager has taken over, and before OSDs report: else a failure would seem to cost nothing."""
    rows = [
        {"pgid": "1.0", "state": "active+clean", "acting": [0, 2]},
        {"pgid": "1.1", "state": "active+clean", "acting": [1, 3]},
        {"pgid": "1.2", "state": "unknown", "acting": []},
    ]
    one = placement(json.dumps(rows), json.dumps(DETAILS), json.dumps(USAGE))
    assert (one.unknown, one.pools[1].objects, one.pools[1].is_unknown) == (1, 135, False)
    lost = together(["osd.0"], TREE, one)
    assert (lost.share, lost.objects, lost.groups) == (Range(1 / 3, 2 / 3), Range(45, 90), Range(1, 2))
    assert lost.stopped == Range(0, 1 / 3)
    empty = placement(
        json.dumps(rows), json.dumps(DETAILS), json.dumps(USAGE).replace('"objects": 90', '"objects": 0')
    )
    assert together(["osd.0"], TREE, empty).share == Range(1 / 3, 2 / 3)
    rows = [{"pgid": "1.0", "state": "unknown", "acting": []}]
    assert placement(json.dumps(rows), json.dumps(DETAILS), json.dumps(USAGE)).pools[1].is_unknown


def test_copies_are_made_again_on_the_osds_of_their_pools_alone() -> None:
    """Not on those of another device class, that are out, or down."""
    tree = Tree(bucket_of={osd: CrushBucket((ROOT, ("host", f"h{osd}"))) for osd in range(9)})
    pools = {id: Pool(size=2, least=1, objects=10, stored=10) for id in (1, 2)}
    placed = Placement([(1, (0, 1)), (1, (1, 2)), (2, (3, 4)), (2, (5, 6))], pools)
    lost = together(["osd.0"], tree, placed)
    assert (lost.left, lost.hosts_left) == (2, 2)


def test_copies_are_not_made_again_where_too_few_failure_domains_stay() -> None:
    three = Tree(bucket_of={osd: CrushBucket((ROOT, ("host", f"h{osd % 3}"))) for osd in range(6)})
    on_hosts = [(1, (pg % 6, (pg + 1) % 6, (pg + 2) % 6)) for pg in range(16)]
    pools = {1: Pool(size=3, least=2, objects=10, stored=10)}
    assert [one.is_rebuilt for one in each_of("host", three, Placement(on_hosts, pools))] == [False] * 3
    assert all(one.is_rebuilt for one in each_of("osd", three, Placement(on_hosts, pools)))
    # A rule of OSDs, of which two copies may be on one host.
    on_osds = [*on_hosts, (1, (0, 3, 1))]
    assert all(one.is_rebuilt for one in each_of("host", three, Placement(on_osds, pools)))
    # By so few groups a rule is not known.
    assert all(one.is_rebuilt for one in each_of("host", three, Placement(on_hosts[:3], pools)))
    assert [by_counts(domains, 1, 3, None, None).is_rebuilt for domains in (3, 4)] == [False, True]


def test_a_score_that_is_no_number_is_read_as_reef_prints_it() -> None:
    details = json.dumps([DETAILS[0] | {"read_balance": {"score_acting": 7.5}}]).replace("7.5", "inf")
    assert placement(json.dumps(GROUPS), details, json.dumps(USAGE)).pools == {1: VOLUMES}
