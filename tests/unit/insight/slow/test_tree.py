"""The CRUSH tree in each form that Ceph prints it in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plimsoll_insight.slow.tree import CrushBucket, UnreadableTree, parse

JEWEL = """\
ID WEIGHT   TYPE NAME               UP/DOWN REWEIGHT PRIMARY-AFFINITY
-1 60.00000 root default
-7 30.00000     rack r1
-2 20.00000         host ceph1-021
 0 10.00000             osd.0            up  1.00000          1.00000
12 10.00000             osd.12         down        0          1.00000
-3 10.00000         host ceph1-022
 1 10.00000             osd.1            up  1.00000          1.00000
-8 30.00000     rack r2
-4 30.00000         host ceph1-023
 2 30.00000             osd.2            up  1.00000          1.00000
"""
LUMINOUS = """\
ID  CLASS WEIGHT   TYPE NAME               STATUS REWEIGHT PRI-AFF
 -1       60.00000 root default
 -7       30.00000     rack r1
 -2       20.00000         host ceph1-021
  0   hdd 10.00000             osd.0           up  1.00000 1.00000
 12  nvme 10.00000             osd.12        down        0 1.00000
 -3       10.00000         host ceph1-022
  1   ssd 10.00000             osd.1           up  1.00000 1.00000
 -8       30.00000     rack r2
 -4       30.00000         host ceph1-023
  2   hdd 30.00000             osd.2           up  1.00000 1.00000
"""
PATHS = {
    0: (("root", "default"), ("rack", "r1"), ("host", "ceph1-021")),
    12: (("root", "default"), ("rack", "r1"), ("host", "ceph1-021")),
    1: (("root", "default"), ("rack", "r1"), ("host", "ceph1-022")),
    2: (("root", "default"), ("rack", "r2"), ("host", "ceph1-023")),
}


@pytest.mark.parametrize("text", [JEWEL, LUMINOUS], ids=["without CLASS", "with CLASS"])
def test_text_with_and_without_classes(text: str) -> None:
    tree = parse(text, "tree.txt")
    assert {osd: bucket.path for osd, bucket in tree.bucket_of.items()} == PATHS
    assert tree.types() == ["root", "rack", "host"]
    assert tree.class_of[12] == ("nvme" if "CLASS" in text else "")


def test_a_class_in_capitals_and_an_osd_outside_of_the_map() -> None:
    stray = "  3   hdd        0 osd.3                    down        0 1.00000\n"
    tree = parse(LUMINOUS.replace("  nvme ", "  NVMe ") + stray, "tree.txt")
    assert {osd: bucket.path for osd, bucket in tree.bucket_of.items()} == PATHS


def test_json_of_a_real_cluster() -> None:
    text = (Path(__file__).parents[2] / "data/ceph-pacific/osd-tree.json").read_text()
    tree = parse(text, "osd-tree.json")
    assert {osd: bucket.path for osd, bucket in tree.bucket_of.items()} == dict.fromkeys(
        (0, 1, 2), (("root", "default"), ("host", "vm"))
    )


def test_buckets_have_all_osds_below_them_and_come_before_what_is_in_them() -> None:
    found = {bucket.name: osds for bucket, osds in parse(JEWEL, "").buckets().items()}
    assert found == {"default": [0, 12, 1, 2], "r1": [0, 12, 1], "ceph1-021": [0, 12], "ceph1-022": [1], "r2": [2],
                     "ceph1-023": [2]}  # fmt: skip
    assert list(found) == ["default", "r1", "ceph1-021", "ceph1-022", "r2", "ceph1-023"]


CIRCLE = '{"nodes": [{"id": -1, "type": "root", "name": "a", "children": [-1]}]}'


@pytest.mark.parametrize(
    "text", ["", "{}", '{"nodes": 1}', CIRCLE, "ID WEIGHT\n", "[" * 10_000, "{" * 10_000], ids=range(7)
)
def test_what_is_no_tree_is_one_line_that_names_the_file(text: str) -> None:
    with pytest.raises(UnreadableTree, match=r"^file: not the output of ceph osd tree"):
        parse(text, "file")


@pytest.mark.parametrize(("name", "hosts"), [
    ("24-tree-tabs.txt", {0: "a", 1: "a", 2: "b", 3: "b"}),
    ("26-tree-shadow-after.txt", dict.fromkeys(range(4), "a")),
])  # fmt: skip
def test_levels_by_tabs_and_without_the_shadows_of_device_classes(name: str, hosts: dict[int, str]) -> None:
    tree = parse((Path(__file__).parents[2] / "data/reports/slow" / name).read_text(), name)
    assert {osd: bucket.path for osd, bucket in tree.bucket_of.items()} == {
        osd: (("root", "default"), ("host", host)) for osd, host in hosts.items()
    }


LINKED = """\
ID   CLASS  WEIGHT   TYPE NAME          STATUS  REWEIGHT  PRI-AFF
-50         3.00000  root fast
 -3         2.00000      host a
  0    ssd  1.00000          osd.0          up   1.00000  1.00000
  1    ssd  1.00000          osd.1          up   1.00000  1.00000
 -1         3.00000  root default
 -4         1.00000      host b
  2    ssd  1.00000          osd.2          up   1.00000  1.00000
 -3         2.00000      host a
  0    ssd  1.00000          osd.0          up   1.00000  1.00000
  1    ssd  1.00000          osd.1          up   1.00000  1.00000
"""


def linked_json() -> str:
    """As Ceph prints it: what is in two roots twice."""
    osds = {osd: {"id": osd, "name": f"osd.{osd}", "type": "osd", "device_class": "ssd"} for osd in range(3)}
    a = {"id": -3, "name": "a", "type": "host", "children": [1, 0]}
    fast = {"id": -50, "name": "fast", "type": "root", "children": [-3]}
    default = {"id": -1, "name": "default", "type": "root", "children": [-3, -4]}
    b = {"id": -4, "name": "b", "type": "host", "children": [2]}
    return json.dumps({"nodes": [fast, a, osds[0], osds[1], default, b, osds[2], a, osds[0], osds[1]], "stray": []})


@pytest.mark.parametrize("text", [LINKED, linked_json()])
def test_a_host_that_is_linked_into_two_roots_is_in_both_and_one_host(text: str) -> None:
    found = {bucket.name: sorted(osds) for bucket, osds in parse(text, "tree").buckets().items()}
    assert found == {"fast": [0, 1], "default": [0, 1, 2], "a": [0, 1], "b": [2]}
    assert len(parse(text, "tree").buckets()) == 4


def test_a_bucket_in_a_host_is_of_that_host() -> None:
    path = (("root", "default"), ("rack", "r1"), ("host", "a"), ("shelf", "a-1"))
    assert [CrushBucket(path[:depth]).host for depth in (2, 3, 4)] == ["r1", "a", "a"]


def test_shadows_in_json_are_left_out() -> None:
    nodes = [
        {"id": -1, "name": "default", "type": "root", "children": [-2]},
        {"id": -2, "name": "a", "type": "host", "children": [0]},
        {"id": 0, "name": "osd.0", "type": "osd", "device_class": "hdd"},
        {"id": -3, "name": "default~hdd", "type": "root", "children": [-4]},
        {"id": -4, "name": "a~hdd", "type": "host", "children": [0]},
    ]
    tree = parse(json.dumps({"nodes": nodes}), "tree")
    assert [bucket.path for bucket in tree.bucket_of.values()] == [(("root", "default"), ("host", "a"))]
