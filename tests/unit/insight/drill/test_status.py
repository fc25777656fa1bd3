"""What Ceph's answers hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from plimsoll_agent.errors import Rejected
from plimsoll_insight.drill.status import ClusterCounts, LogLine, log, status

# As a cluster of 16.2.15 answered while an OSD was down, shortened.
OSDS = {"epoch": 22, "num_osds": 3, "num_up_osds": 2, "num_in_osds": 3, "num_remapped_pgs": 0}
ANSWER = {
    "health": {"status": "HEALTH_WARN", "checks": {
        "OSD_DOWN": {"severity": "HEALTH_WARN", "summary": {"message": "1 osds down", "count": 1}},
        "SLOW_OPS": {"severity": "HEALTH_WARN", "summary": {
            "message": "11 slow ops, oldest one blocked for 31 sec, osd.1 has slow ops", "count": 1}},
    }},
    "osdmap": OSDS,
    "pgmap": {
        "pgs_by_state": [
            {"state_name": "active+undersized+degraded", "count": 13}, {"state_name": "active+clean", "count": 7},
            {"state_name": "remapped+peering", "count": 2}, {"state_name": "activating", "count": 1},
            {"state_name": "active+clean+scrubbing", "count": 1},
        ],
        "num_pgs": 24, "num_objects": 128, "degraded_objects": 81, "degraded_total": 256,
        "misplaced_objects": 5, "misplaced_total": 256, "recovering_objects_per_sec": 6,
    },
}  # fmt: skip


def test_counts_are_read_and_placement_groups_summed_by_what_they_do() -> None:
    found = status(json.dumps(ANSWER))
    assert (found.osds, found.up, found.within) == (3, 2, 3)
    assert (found.objects, found.degraded, found.misplaced, found.copies, found.recovering) == (128, 81, 5, 256, 6)
    assert (found.peering, found.inactive, found.unclean) == (3, 3, 16)
    assert (found.slow, found.checks) == (11, ("OSD_DOWN", "SLOW_OPS"))


def test_a_healthy_cluster_has_no_rates_and_no_copies_to_recover() -> None:
    healthy = {"health": {"checks": {}}, "osdmap": {"osdmap": OSDS},
               "pgmap": {"pgs_by_state": [{"state_name": "active+clean", "count": 24}]}}  # fmt: skip
    found = status(json.dumps(healthy))
    assert found == ClusterCounts(
        osds=3,
        up=2,
        within=3,
        states={"active+clean": 24},
        objects=0,
        degraded=0,
        misplaced=0,
        copies=0,
        recovering=0.0,
        slow=0,
    )
    assert (found.peering, found.inactive, found.unclean) == (0, 0, 0)


@pytest.mark.parametrize(("check", "well"), [("MGR_DOWN", False), ("MON_DOWN", True)])
def test_without_a_manager_no_cluster_is_known_to_be_well(check: str, well: bool) -> None:
    checks = {check: {"summary": {"message": "no active mgr"}}}
    osds = {"num_osds": 3, "num_up_osds": 3, "num_in_osds": 3}
    groups = {"pgs_by_state": [{"state_name": "active+clean", "count": 24}]}
    counts = status(json.dumps({"health": {"checks": checks}, "osdmap": osds, "pgmap": groups}))
    assert counts.is_well is well


def test_slow_requests_without_a_number_are_unknown() -> None:
    checks = {"SLOW_OPS": {"summary": {"message": "some slow ops"}}}
    assert status(json.dumps(ANSWER | {"health": {"checks": checks}})).slow is None


@pytest.mark.parametrize(("checks", "slow"), [
    ({"REQUEST_SLOW": "14 slow requests are blocked > 32 sec. Implicated osds 3,9"}, 14),
    ({"REQUEST_STUCK": "4 stuck requests are blocked > 4096 sec. Implicated osds 3,9"}, 4),
    ({"REQUEST_SLOW": "14 slow requests are blocked > 32 sec", "REQUEST_STUCK": "4 stuck requests are blocked"}, 18),
    ({"SLOW_OPS": "0 slow ops, oldest one blocked for 6 sec, osd.1 has slow ops"}, 1),
    ({"SLOW_OPS": "1 slow ops, oldest one blocked for 1810044 sec, mon.e has slow ops"}, 0),
    ({"SLOW_OPS": "7 slow ops, oldest one blocked for 39 sec, daemons [mon.a-1,mon.b] have slow ops."}, 0),
    ({"SLOW_OPS": "7 slow ops, oldest one blocked for 39 sec, daemons [mon,a,mon,b] have slow ops."}, 0),
    ({"SLOW_OPS": "7 slow ops, oldest one blocked for 39 sec, daemons [mon.a,mon.b]... have slow ops."}, 7),
    ({"SLOW_OPS": "7 slow ops, oldest one blocked for 39 sec, daemons [mon.a,osd.1] have slow ops."}, 7),
    ({"REQUEST_STUCK": "some stuck requests"}, None),
])  # fmt: skip
def test_slow_requests_of_each_release_and_a_first_report_of_0_are_some_but_none_is_a_monitor_s(
    checks: dict[str, str], slow: int | None
) -> None:
    told = {name: {"summary": {"message": message}} for name, message in checks.items()}
    well = {"num_osds": 3, "num_up_osds": 3, "num_in_osds": 3}
    clean = {"pgs_by_state": [{"state_name": "active+clean", "count": 64}]}
    found = status(json.dumps({"health": {"checks": told}, "osdmap": well, "pgmap": clean}))
    assert (found.slow, found.is_well) == (slow, slow == 0)


@pytest.mark.parametrize("answer", ["", "[]", "{}", '{"health": {"checks": {}}, "osdmap": {}, "pgmap": {}}'])
def test_an_answer_that_is_not_understood_is_one_error(answer: str) -> None:
    with pytest.raises(Rejected, match=r"^ceph status cannot be read"):
        status(answer)
    with pytest.raises(Rejected, match=r"^ceph log last cannot be read"):
        log(answer if answer != "[]" else '[{"stamp": "yesterday"}]')


def test_lines_of_the_log_have_their_time_and_no_control_characters() -> None:
    line = {"name": "mon.a", "stamp": "2026-11-27T17:03:07.111851+0000", "seq": 641, "channel": "cluster",
            "priority": "[WRN]", "message": "osd.1 failed\x1b[2J "}  # fmt: skip
    time = datetime(2026, 11, 27, 17, 3, 7, 111851, UTC).timestamp()
    assert log(json.dumps([line])) == [
        LogLine(time=time, who="mon.a", number=641, level="WRN", text="osd.1 failed?[2J")
    ]
