"""What clusters and hosts answer: texts of Ceph 16.2.15, of its tools and of Debian 12's, cut."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from plimsoll_agent.errors import Rejected, UsageError
from plimsoll_insight.ordered_return import cluster, hosts
from plimsoll_insight.ordered_return.hosts import HostMemory, Ways
from plimsoll_insight.ordered_return.prediction import log_means
from plimsoll_insight.slow.tree import CrushBucket, Tree

OSD = {"osd": 0, "up": 1, "in": 1, "down_at": 0, "state": ["exists", "up"]}
DUMP = {
    "fsid": "029b0680-c108-4b05-81a8-4c9dd2e3226e",
    "modified": "2026-11-30T10:06:24.869653+0000",
    "flags": "sortbitwise,noout,recovery_deletes",
    "osds": [
        OSD,
        OSD | {"osd": 1, "up": 0, "in": 0, "down_at": 13, "state": ["exists", "autoout"]},
        OSD | {"osd": 2, "up": 0, "down_at": 13, "state": ["exists"]},
        OSD | {"osd": 3, "up": 0, "in": 0, "state": ["destroyed", "exists"]},
        OSD | {"osd": 4, "up": 0, "in": 0, "state": ["exists", "new"]},
    ],
    "osd_xinfo": [
        {"osd": 1, "down_stamp": "2026-11-30T10:00:00.000000+0000"}, {"osd": 2, "down_stamp": "0.000000"},
        *({"osd": osd, "down_stamp": "0.000000"} for osd in (0, 3, 4)),
    ],
}  # fmt: skip


def test_only_osds_that_could_return_are_down_and_an_unknown_moment_is_not_1970() -> None:
    osd_map = cluster.osd_map(json.dumps(DUMP))
    assert (osd_map.up, osd_map.down) == ({0}, [1, 2])
    assert osd_map.osds[1].down_since == 1796032800
    assert (osd_map.osds[2].down_since, osd_map.osds[2].down_at) == (None, 13)
    assert "noout" in osd_map.flags


def test_the_time_of_an_earlier_death_is_not_that_of_this_one() -> None:
    """One whose connections were refused keeps the old stamp: 16.2.15 sets its ``dead_epoch`` alone."""
    xinfo = DUMP["osd_xinfo"][0] | {"dead_epoch": 13}  # type: ignore[index,operator]
    for up_from, since in ((9, None), (14, 1796032800)):
        osds = [OSD | {"osd": 1, "up": 0, "up_from": up_from, "down_at": 13, "state": ["exists"]}]
        osd_map = cluster.osd_map(json.dumps(DUMP | {"osds": osds, "osd_xinfo": [xinfo]}))
        assert osd_map.osds[1].down_since == since


def test_flags_of_osds_hosts_and_classes_that_keep_them_from_serving_are_named_with_what_ends_them() -> None:
    osds = [OSD | {"osd": 1, "up": 0, "state": ["exists", "noup", "nodown"]}, OSD | {"osd": 2, "up": 0}]
    groups = {"crush_node_flags": {"host-2": ["noout", "noup"]}, "device_class_flags": {"ssd": ["noin"]}}
    osd_map = cluster.osd_map(json.dumps(DUMP | {"osds": osds} | groups))
    place = {osd: CrushBucket((("root", "default"), ("host", f"host-{osd}"))) for osd in (1, 2)}
    assert osd_map.blocked([1], Tree(bucket_of=place, class_of={1: "ssd", 2: "hdd"})) == {
        "osd.1 has the flag noup": "ceph osd rm-noup osd.1",
        "ssd has the flag noin": "ceph osd unset-group noin ssd",
    }
    assert osd_map.blocked([2], Tree(bucket_of=place)) == {
        "host-2 has the flag noup": "ceph osd unset-group noup host-2"
    }


def test_the_logs_of_an_osd_are_known_where_all_of_them_are() -> None:
    sizes = cluster.log_sizes(
        json.dumps(
            {
                "pg_stats": [
                    *({"pgid": f"1.{pg}", "state": "active+clean", "log_size": 10 * pg} for pg in (1, 2, 3)),
                    {"pgid": "1.4", "state": "unknown", "log_size": 0},
                ]
            }
        )
    )
    whole = {"1.1": (0, 1), "1.2": (0, 2), "1.3": (2, 1), "1.4": (2, 3)}
    assert log_means([0, 1, 2, 3, 9], whole, sizes) == {0: 15, 1: 20}


@pytest.mark.parametrize(
    ("state", "inactive", "moving", "clean"),
    [
        ("active+clean", False, False, True),
        ("active+clean+scrubbing+deep", False, False, True),
        ("stale+active+clean", True, False, False),  # all its OSDs are down: no request is served
        ("active+undersized+degraded", False, False, False),
        ("undersized+degraded+peered", True, False, False),
        ("remapped+peering", True, True, False),
        ("activating+degraded", True, True, False),
        ("down+peering", True, False, False),
        ("incomplete", True, False, False),
        ("unknown", True, True, False),
        ("active+recovery_wait+degraded", False, False, False),
    ],
)
def test_the_state_of_a_group_tells_whether_it_serves_moves_and_is_clean(
    state: str, inactive: bool, moving: bool, clean: bool
) -> None:
    text = json.dumps({"pg_ready": True, "pg_stats": [{"pgid": "1.a", "state": state, "acting": [2147483647, 2]}]})
    group = cluster.groups(text)["1.a"]
    assert (group.is_inactive, group.is_moving, group.is_clean) == (inactive, moving, clean)
    assert group.acting == (2,)


def test_checks_that_osds_raise_which_are_down_are_told_from_others() -> None:
    names = (
        "OSD_DOWN",
        "OSD_RACK_DOWN",
        "PG_AVAILABILITY",
        "SLOW_OPS",
        "CEPHADM_FAILED_DAEMON",
        "MGR_MODULE_DEPENDENCY",
        "OBJECT_UNFOUND",
        "OSD_NEARFULL",
        "PG_BACKFILL_FULL",
        "BLUESTORE_SLOW_OP_ALERT",
        "MDS_SLOW_METADATA_IO",
        "OSD_DATACENTER_DOWN",
        "DEGRADED_STRETCH_MODE",
        "MDS_CLIENTS_LAGGY",
        "MON_DOWN",
        "OSD_FULL",
        "PG_DAMAGED",
        "A_NEW_ONE",
    )
    checks = {name: {"summary": {"message": "words"}} for name in names}
    health = cluster.health(json.dumps({"health": {"checks": checks}, "pgmap": {}}))
    assert health.unexpected({"OSD_FULL"}) == ["A_NEW_ONE (words)", "MON_DOWN (words)", "PG_DAMAGED (words)"]


@pytest.mark.parametrize(("words", "expected"), [
    ("1 pg recovery_unfound", True), ("2 pgs recovery_unfound, 1 pg backfill_unfound", True),
    ("3 pgs backfill_unfound", True), ("1 pg inconsistent", False),
    ("2 pgs recovery_unfound, 1 pg inconsistent", False), ("1 pg snaptrim_error, 1 pg recovery_unfound", False),
])  # fmt: skip
def test_damage_is_expected_where_it_is_but_objects_that_an_osd_which_is_down_may_have(
    words: str, expected: bool
) -> None:
    checks = {"PG_DAMAGED": {"summary": {"message": f"Possible data damage: {words}"}}}
    health = cluster.health(json.dumps({"health": {"checks": checks}, "pgmap": {}}))
    assert (health.unexpected(()) == []) is expected


def test_the_placement_of_osdmaptool_is_read_with_its_holes() -> None:
    text = "osdmaptool: osdmap file\npool 1 pg_num 2\n1.0\t[0,2]\t0\n1.1f\t[2147483647,1]\t1\n"
    assert cluster.full_placement(text + "#osd\tcount\n") == {"1.0": (0, 2), "1.1f": (1,)}


def test_only_what_is_set_for_all_osds_is_the_value_before() -> None:
    row = {"section": "osd", "name": "osd_max_backfills", "value": "4", "mask": ""}
    others = [row | {"value": "2", "mask": "class:ssd"}, row | {"section": "osd.3"}, row | {"section": "global"}]
    assert cluster.osd_section(json.dumps([*others, row])) == {"osd_max_backfills": "4"}
    assert cluster.osd_section(json.dumps(others)) == {}


@pytest.mark.parametrize(
    "read",
    [
        cluster.osd_map,
        cluster.groups,
        cluster.log_sizes,
        cluster.full_placement,
        cluster.health,
        cluster.osd_section,
        hosts.memory,
    ],
)
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"osds": 3}', "[[[", "null"])
def test_an_answer_that_is_not_understood_is_refused(read: Callable[[str], object], text: str) -> None:
    if text == "[]" and read in (cluster.groups, cluster.log_sizes, cluster.osd_section):
        return  # a cluster without any
    with pytest.raises(Rejected):
        read(text)


def test_memory_is_read_in_bytes_and_one_field_less_is_unknown() -> None:
    text = "MemTotal:       24684096 kB\nMemFree: 9 kB\nMemAvailable:   16467156 kB\nSwapTotal: 0 kB\n"
    assert hosts.memory(text) == HostMemory(24684096 << 10, 16467156 << 10)
    with pytest.raises(Rejected, match="MemAvailable"):
        hosts.memory(text.replace("MemAvailable", "MemAvail"))


def test_memory_of_osds_is_found_as_packages_cephadm_and_a_shell_start_them() -> None:
    lines = (
        " 51328 /usr/bin/ceph-osd -f --cluster ceph --id 7 --setuser ceph --setgroup ceph",
        "951328 /usr/bin/ceph-osd -n osd.12 -f --setuser ceph --default-log-to-file=false",
        "  1024 /usr/bin/ceph-osd -f -i 3 -c /etc/ceph/ceph.conf",
        "   512 /usr/bin/ceph-osd --mkfs --osd-uuid 8233bc74",
    )
    assert hosts.resident("\n".join(lines)) == {7: 51328 << 10, 12: 951328 << 10, 3: 1 << 20}


def test_the_condition_of_a_unit_has_why_it_failed() -> None:
    text = (
        "Id=osd@7.service\nActiveState=failed\nResult=oom-kill\n\n"
        "Id=osd@8.service\nActiveState=active\nResult=success\n"
    )
    assert hosts.unit_states(text) == {"osd@7.service": "failed (oom-kill)", "osd@8.service": "active"}


def test_no_word_reaches_a_host_that_a_shell_there_would_change() -> None:
    ways = Ways(
        on_host=("ssh", "root@{host}"),
        unit="ceph-{fsid}@osd.{osd}.service",
        start=("systemctl", "start"),
        restart=("x",),
        fsid="029b0680",
    )
    assert ways.prefix("ceph-3.example.org") == ["ssh", "root@ceph-3.example.org"]
    assert ways.units([7]) == ["ceph-029b0680@osd.7.service"]
    for name in ("a;reboot", "a b", "$(reboot)", "`id`", "a'b", "a|b", "", "a\nb", "a*", "~root", "-oProxyCommand=x"):
        with pytest.raises(UsageError, match="is no name of a host"):
            ways.prefix(name)
    for word in ("a;reboot", "a b", "$(id)", "`id`", "a'b", "a|b", "a&b", "", "a\nb", "a*", "~root"):
        with pytest.raises(UsageError, match="cannot be sent to a host"):
            hosts.check(word)


def test_one_host_is_not_asked_in_place_of_several() -> None:
    """By ``--on-host sudo`` all would be this one."""
    ways = Ways(
        on_host=("sudo",), unit="ceph-osd@{osd}.service", start=("systemctl", "start"), restart=("x",), fsid="f"
    )
    ways.check_reach(["a"])
    with pytest.raises(UsageError, match="--on-host: needs"):
        ways.check_reach(["a", "b"])


def test_what_forbids_restarts_counts_more_than_what_a_site_has_for_the_unit() -> None:
    ways = Ways(
        on_host=("ssh", "{host}"),
        unit="ceph-osd@{osd}.service",
        start=("systemctl", "start"),
        restart=("x",),
        fsid="f",
    )
    assert ways.drop_ins([7])[0].rpartition("/")[2] > "override.conf"
