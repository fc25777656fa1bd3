"""Which class a pool is of, by what Ceph prints; and what is no such file."""

from __future__ import annotations

import json

import pytest

from plimsoll_agent.errors import ConfigError
from plimsoll_monitoring.region.device_classes import classes_of


def steps(*roots: str) -> list[dict[str, object]]:
    """As a CRUSH rule has them: ``set_chooseleaf_tries`` first, for erasure coding."""
    first = {"op": "set_chooseleaf_tries", "num": 5}
    return [first, *({"op": "take", "item": -1, "item_name": root} for root in roots), {"op": "emit"}]


OSDS = {
    "epoch": 9,
    "fsid": "c1",
    "pools": [
        {"pool": 1, "pool_name": "volumes", "crush_rule": 0},
        {"pool": 2, "pool_name": "fast", "crush_rule": 1},
        {"pool": 3, "pool_name": "both", "crush_rule": 2},
        {"pool": 4, "pool_name": "lost", "crush_rule": 7},
    ],
}
CRUSH = {
    "devices": [],
    "buckets": [],
    "rules": [
        {"rule_id": 0, "steps": steps("default")},
        {"rule_id": 1, "steps": steps("default~ssd")},
        {"rule_id": 2, "steps": steps("default~ssd", "default~hdd", "other~ssd")},
    ],
}
KNOWN = {("c1", "volumes"): "any", ("c1", "fast"): "ssd", ("c1", "both"): "ssd+hdd"}


def told(**files: object) -> list[tuple[str, bytes]]:
    return [(name, json.dumps(value).encode()) for name, value in files.items()]


def test_a_pool_is_of_the_class_whose_tree_its_rule_takes() -> None:
    assert classes_of(told(report={"osdmap": OSDS, "crushmap": CRUSH, "health": {}})) == KNOWN


@pytest.mark.parametrize("files", [{"osd": OSDS, "crush": CRUSH}, {"crush": CRUSH, "osd": OSDS}])
def test_two_dumps_are_one_report_in_any_order(files: dict[str, object]) -> None:
    assert classes_of(told(**files)) == KNOWN


def test_a_report_of_each_cluster_keeps_pools_of_the_same_name_apart() -> None:
    other = {"osdmap": OSDS | {"fsid": "c2"}, "crushmap": {"rules": [{"rule_id": 0, "steps": steps("default~hdd")}]}}
    found = classes_of(told(one={"osdmap": OSDS, "crushmap": CRUSH}, two=other))
    assert found == KNOWN | {("c2", "volumes"): "hdd"}


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        (told(f=[]), "f: not a JSON object"),
        ([("f\x1b", b"nonsense")], "f?: not a JSON object"),
        ([("f", b"[" * 100_000)], "f: not a JSON object"),
        ([("f", b"\xff")], "f: not a JSON object"),
        (told(f={"nodes": []}), "f: neither a report of Ceph nor a dump of its maps"),
        (told(f=OSDS), "f: a dump of one map needs one of the other"),
        (told(f=CRUSH), "f: a dump of one map needs one of the other"),
        (told(f=OSDS, g=OSDS, h=CRUSH), "f: which dumps belong together is unknown; give ceph report of each"),
        (told(f={"osdmap": {"fsid": "c"}, "crushmap": CRUSH}), "f: no pools with their CRUSH rules"),
        (told(f={"osdmap": OSDS | {"fsid": 5}, "crushmap": CRUSH}), "f: no pools with their CRUSH rules"),
        (told(f={"osdmap": [], "crushmap": CRUSH}), "f: no pools with their CRUSH rules"),
        (told(f={"osdmap": OSDS, "crushmap": {"rules": [{"rule_id": 1}]}}), "f: no CRUSH rules with their steps"),
        (told(f={"osdmap": OSDS, "crushmap": {"rules": 5}}), "f: no CRUSH rules with their steps"),
        (
            told(
                f={"osdmap": OSDS, "crushmap": {"rules": [{"rule_id": 1, "steps": [{"op": "take", "item_name": 5}]}]}}
            ),
            "f: no CRUSH rules with their steps",
        ),
        (
            told(f={"osdmap": OSDS, "crushmap": {"rules": [{"rule_id": [], "steps": []}]}}),
            "f: no CRUSH rules with their steps",
        ),
        (
            told(f={"osdmap": OSDS | {"pools": [{"pool_name": "p", "crush_rule": []}]}, "crushmap": CRUSH}),
            "f: no pools with their CRUSH rules",
        ),
    ],
)
def test_another_file_is_an_error_of_one_line(files: list[tuple[str, bytes]], wrong: str) -> None:
    with pytest.raises(ConfigError) as raised:
        classes_of(files)
    assert str(raised.value).startswith(wrong)
    assert "\n" not in str(raised.value)
