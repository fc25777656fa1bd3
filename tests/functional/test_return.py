"""``plimsoll return`` as a person calls it, on a cluster and a host that answer as real ones did."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plimsoll_agent.util import locks
from plimsoll_insight.adapters.cluster import LiveCluster
from plimsoll_insight.adapters.returning_osds import OsdHosts
from plimsoll_insight.cli.return_plan import SYSTEMD
from plimsoll_insight.ordered_return.cluster import full_placement, osd_map
from plimsoll_insight.ordered_return.hosts import NotStarted, Ways
from plimsoll_insight.ordered_return.journal import ChangeTarget, ClusterChange, ReturnJournal, TargetKind
from tests.functional.conftest import Ran
from tests.functional.test_drill import STATUS
from tests.functional.test_forecast import COUNTERS, OSD, shown

FSID = "bcebd1ee-e0de-43ae-9dbe-a7fd9e23a0d7"
# The map has osd.1 up once its unit was started; flags and settings are files.
CEPH = """#!/bin/sh
home={home}
[ -e $home/silent ] && {{ echo "error connecting to the cluster" >&2; exit 1; }}
case "$*" in
*"osd dump"*) cat $home/dump-$(ls $home | grep -c '^up$').json | sed "s/FLAGS/sortbitwise$(cat $home/flags)/" ;;
*"osd tree"*) cat $home/tree.json ;;
*"getmap"*) : ;;
*"pgs_brief"*) cat $home/groups-$(ls $home | grep -c '^up$').json ;;
*"pg dump pgs"*) echo '{{"pg_stats": [{{"pgid": "1.0", "log_size": 40}}]}}' ;;
*"pool ls"*) echo '[{{"pool_id": 1, "pool_name": "volumes", "size": 2, "min_size": 1}}]' ;;
*"show-with-defaults osd."*) cat $home/osd.json ;;
*"osd metadata"*) echo '{{"id": 0, "rotational": "1", "journal_rotational": "1"}}' ;;
*"perf dump"*) cat $home/counters.json ;;
*"config dump"*) cat $home/config ;;
*"osd set noout"*) [ -e $home/refused ] && exit 13; echo ,noout > $home/flags ;;
*"osd unset noout"*) [ -e $home/refused ] && exit 13; : > $home/flags ;;
*"log last"*) echo '[]' ;;
*" status"*) cat $home/status.json ;;
*" df"*) echo '{{"pools": [{{"id": 1, "stats": {{"objects": 100, "stored": 209715200}}}}]}}' ;;
*) echo "Error EINVAL: $*" >&2; exit 22 ;;
esac
"""
HOST = """#!/bin/sh
home={home}
shift
echo "$*" >> $home/sent
case "$*" in
"cat /proc/meminfo") printf 'MemTotal: 8000000 kB\\nMemAvailable: 7000000 kB\\nSwapTotal: 0 kB\\nSwapFree: 0 kB\\n' ;;
"ps "*) echo "51328 /usr/bin/ceph-osd -f --cluster ceph --id 0"
        cat $home/more-processes 2>/dev/null
        [ -e $home/up ] && echo "61000 /usr/bin/ceph-osd -f --cluster ceph --id 1" ;;
"systemctl show"*) printf 'Id=ceph-osd@1.service\\nActiveState=failed\\nResult=oom-kill\\n' ;;
"systemctl start"*) [ -e $home/dead ] || touch $home/up ;;
"tee "*) cat >> $home/drop-in ;;
esac
exit 0
"""


OSDMAPTOOL = """#!/bin/sh
case "$*" in *"--mark-up 1 --adjust-crush-weight "*" --save") exit ;; *--clear-temp*) ;; *) exit 1 ;; esac
printf '1.0\\t[0,1]\\t0\\n'
cat {home}/more-groups 2>/dev/null
true
"""


class Cluster:
    """One of two OSDs is down."""

    def __init__(self, home: Path) -> None:
        self.home = home
        osd = {"up": 1, "in": 1, "down_at": 0, "state": ["exists", "up"]}
        for number in (0, 1):
            second = osd | {"osd": 1, "up": number, "down_at": 13, "state": ["exists"]}
            dump = {"fsid": FSID, "modified": "2026-11-30T10:06:24.8+0000", "flags": "FLAGS",
                    "osds": [osd | {"osd": 0}, second],
                    "osd_xinfo": [{"osd": each, "down_stamp": "0.000000"} for each in (0, 1)]}  # fmt: skip
            state, acting = ("active+clean", [0, 1]) if number else ("active+undersized", [0])
            groups = {"pg_stats": [{"pgid": "1.0", "state": state, "up": acting, "acting": acting}]}
            self.write(f"dump-{number}.json", dump)
            self.write(f"groups-{number}.json", groups)
        hosts = [{"id": -2 - osd, "type": "host", "name": f"host-{osd}", "children": [osd]} for osd in (0, 1)]
        osds = [{"id": osd, "type": "osd", "name": f"osd.{osd}", "status": "down" if osd else "up"} for osd in (0, 1)]
        root = {"id": -1, "type": "root", "name": "default", "children": [-2, -3]}
        self.write("tree.json", {"nodes": [root, *hosts, *osds]})
        self.write("osd.json", json.loads(shown(OSD)))
        self.write("counters.json", COUNTERS)
        self.write("config", [])
        self.write("status.json", STATUS)
        (home / "flags").touch()
        for name, text in (
            ("ceph", CEPH),
            ("host", HOST),
            (
                "osdmaptool",
                OSDMAPTOOL,
            ),
        ):
            (home / name).write_text(text.format(home=home))
            (home / name).chmod(0o755)
        (home / "ceph.conf").touch()

    def write(self, name: str, document: object) -> None:
        (self.home / name).write_text(json.dumps(document))

    def raise_check(self, name: str) -> None:
        checks = {name: {"severity": "HEALTH_WARN", "summary": {"message": "1/3 mons down", "count": 1}}}
        self.write("status.json", STATUS | {"health": {"checks": checks}})

    def has(self, name: str) -> bool:
        return (self.home / name).exists()

    @property
    def options(self) -> tuple[str, ...]:
        return ("--ceph-conf", str(self.home / "ceph.conf"), "--on-host", f"{self.home}/host {{host}}")

    def run(self, plimsoll: Callable[..., Ran], verb: str, *words: str) -> Ran:
        options = self.options if verb in ("plan", "run") else self.options[:2] if verb == "stop" else ()
        return plimsoll("return", verb, *options, *words, PATH=f"{self.home}:{os.environ['PATH']}")


def leave_noout(cluster: Cluster, state: Path, on_host: list[str]) -> None:
    """As a return that was killed leaves it."""
    journal = ReturnJournal(state / "return/return.jsonl", "killed", "root", lambda: datetime.now(UTC))
    journal.write("begin", fsid=FSID, osds=[1], pid=1, recording="-", unit="ceph-osd@{osd}.service", on_host=on_host)
    journal.intend(ClusterChange(ChangeTarget(TargetKind.FLAG, "noout"), None, "set"))
    (cluster.home / "flags").write_text(",noout")


FAST = ("--yes", "--steady", "0", "--interval", "100ms", "--flag", "noout")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    (tmp_path / "cluster").mkdir()
    return Cluster(tmp_path / "cluster")


def test_a_return_starts_what_is_down_forbids_restarts_for_that_time_and_is_recorded(
    cluster: Cluster, plimsoll: Callable[..., Ran]
) -> None:
    ran = cluster.run(plimsoll, "run", *FAST)
    assert (ran.status, ran.err) == (0, "")
    assert "Wave 1: osd.1 of host-1, 50 MiB to 60 MiB of memory each." in ran.out
    assert "osd.1: 60 MiB at most; forecast 50 MiB to 60 MiB, -1 %" in ran.out
    drop_in = "/run/systemd/system/ceph-osd@1.service.d"
    sent = [line for line in (cluster.home / "sent").read_text().splitlines() if not line.startswith(("cat", "ps"))]
    assert sent == [
        "systemctl show --property=Id,ActiveState,Result ceph-osd@1.service",
        f"mkdir -p {drop_in}", f"tee {drop_in}/zz-plimsoll-return.conf", "systemctl daemon-reload",
        "systemctl reset-failed ceph-osd@1.service", "systemctl start ceph-osd@1.service",
        f"rm -f {drop_in}/zz-plimsoll-return.conf", "systemctl daemon-reload",
    ]  # fmt: skip
    assert (cluster.home / "drop-in").read_text() == "[Service]\nRestart=no\n"
    assert (cluster.home / "flags").read_text() == ""
    status = json.loads(cluster.run(plimsoll, "status", "-f", "json").out)
    assert (status["state"], status["osds"], status["not_restored"]) == ("done", [1], [])
    assert [entry["what"] for entry in status["entries"]] == [*["change"] * 2, "start", *["restored"] * 2, "end"]


def test_the_full_placement_has_what_is_down_and_leaves_out_what_stays_out(tmp_path: Path) -> None:
    """By Ceph's own tool, of which ``--mark-up-in`` would bring back all."""

    def osdmaptool(*words: str) -> str:
        argv = ("osdmaptool", "osds", *words)
        return subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60).stdout

    osdmaptool("--createsimple", "8", "--with-default-pool", "--pg-bits", "5")
    osdmaptool("--mark-up-in", "--adjust-crush-weight", "7:0", "--save")
    expected = full_placement(
        osdmaptool("--mark-out", "3", "--adjust-crush-weight", "99:0", "--save", "--test-map-pgs-dump")
    )
    down = {"osd": 0, "up": 0, "down_at": 5, "state": ["exists"]}
    for osd in (1, 2, 3):
        # The tool has no word for down: these have a weight of nothing instead.
        osdmaptool("--mark-out", str(osd), "--adjust-crush-weight", "99:0", "--save")
    told = {"fsid": FSID, "modified": "2026-11-30T10:06:24.8+0000", "flags": "", "osd_xinfo": [],
            "osds": [*(down | {"osd": osd, "state": ["autoout", "exists"]} for osd in (1, 2)),
                     down | {"osd": 3}, down | {"osd": 4, "up": 1, "state": ["exists", "up"]}]}  # fmt: skip
    (tmp_path / "ceph").write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; cp {tmp_path}/osds "$2"\n')
    (tmp_path / "ceph").chmod(0o755)
    live = LiveCluster(conf=tmp_path / "ceph.conf", client="admin", deadline=30, command=str(tmp_path / "ceph"))
    placement = live.full_placement(osd_map(json.dumps(told)))
    assert placement == expected
    members = {osd for osds in placement.values() for osd in osds}
    assert members == {0, 1, 2, 4, 5, 6}


@pytest.mark.parametrize(
    ("file", "change", "status", "complaint"),
    [
        ("tree.json", ('"children": [1]', '"children": []'), 0, "osd.1: in no host of the CRUSH map, and left out"),
        ("ceph", ('"log_size": 40', '"log": 40'), 2, "The logs of placement groups may be full: ceph pg dump pgs"),
        (
            "groups-0.json",
            ('"active+undersized"', '"unknown"'),
            2,
            "The manager has no report of 1 placement group: their logs are taken as full",
        ),
        (
            "osd.json",
            ("osd_max_backfills", "of_another_release"),
            2,
            "Some settings or counters of OSDs are unknown: the configuration that is in force has no number for"
            " osd_max_backfills",
        ),
        (
            "dump-0.json",
            ('"state": ["exists"]', '"state": ["exists", "noup"]'),
            3,
            "return run would refuse: osd.1 has the flag noup: ceph osd rm-noup osd.1, or --skip it",
        ),
        ("flags", ("", ",noin"), 3, "refuse: the cluster has the flag noin: ceph osd unset noin"),
        ("host", ("MemTotal", "Total"), 3, "refuse: the memory of host-1 is unknown: /proc/meminfo has no MemTotal"),
    ],
)
def test_what_is_unknown_or_would_be_refused_is_told(
    cluster: Cluster, plimsoll: Callable[..., Ran], file: str, change: tuple[str, str], status: int, complaint: str
) -> None:
    text = (cluster.home / file).read_text()
    assert change[0] in text
    (cluster.home / file).write_text(text.replace(*change))
    ran = cluster.run(plimsoll, "plan")
    assert (ran.status, complaint in ran.err) == (status, True), ran.err


def test_memory_of_which_nothing_is_known_has_to_be_given(cluster: Cluster, plimsoll: Callable[..., Ran]) -> None:
    cluster.write("osd.json", [])
    (cluster.home / "host").write_text((cluster.home / "host").read_text().replace("--id 0", "--of nobody"))
    ran = cluster.run(plimsoll, "plan")
    assert (ran.status, "the memory that 1 OSD will take is unknown: give --osd-memory" in ran.err) == (3, True)
    assert cluster.run(plimsoll, "plan", "--osd-memory", "50MiB").status == 2


def test_an_osd_holds_what_those_of_its_device_class_hold(cluster: Cluster, plimsoll: Callable[..., Ran]) -> None:
    tree, dump = (json.loads((cluster.home / name).read_text()) for name in ("tree.json", "dump-0.json"))
    tree["nodes"][1]["children"] = [0, 2]
    tree["nodes"].append({"id": 2, "type": "osd", "name": "osd.2", "status": "up"})
    for osd in tree["nodes"][-3:]:
        osd["device_class"] = "hdd" if osd["id"] == 2 else "ssd"
    dump["osds"].append(dump["osds"][0] | {"osd": 2})
    cluster.write("tree.json", tree)
    cluster.write("dump-0.json", dump)
    (cluster.home / "more-processes").write_text("9000 /usr/bin/ceph-osd -f --cluster ceph --id 2\n")
    [row] = json.loads(cluster.run(plimsoll, "plan", "-f", "json").out)
    assert row["memory"]["low"] == pytest.approx(51328 * 1024, rel=1e-5)
    for osd in tree["nodes"][-3:-1]:
        osd["device_class"] = "nvme" if osd["id"] else "hdd"
    cluster.write("tree.json", tree)
    [row] = json.loads(cluster.run(plimsoll, "plan", "-f", "json").out)
    assert row["memory"]["low"] == pytest.approx(9000 * 1024, rel=1e-5)  # none of its class is up


def test_a_machine_without_a_return_says_so(cluster: Cluster, plimsoll: Callable[..., Ran]) -> None:
    assert "no return has run on this machine" in cluster.run(plimsoll, "status").out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("run",), "no terminal to ask on"),
        (("plan", "--within", "host-9"), "the CRUSH map has no host-9; did you mean host-"),
        (("plan", "--reserve", "lots"), "--reserve: 'lots' is no number of per cent"),
        (("plan", "--unit", "ceph-osd@{osd};reboot"), "cannot be sent to a host"),
        (("run", "--set", "osd_memory_target=1"), "--set osd_memory_target=1: only"),
        (("run", "--set", "osd_mclock_profile=balanced"), "has no effect"),
        (("run", "--flag", "norecover"), "--flag norecover: nothing gets in sync with it"),
        (("run", "--interval", "0"), "--interval: must be more than 0"),
    ],
)
def test_a_wrong_command_line_is_told_before_anything_is_done(
    words: tuple[str, ...], complaint: str, cluster: Cluster, plimsoll: Callable[..., Ran]
) -> None:
    ran = cluster.run(plimsoll, *words)
    assert (ran.status, ran.out if words[0] == "plan" else "") == (64, "")
    assert complaint in ran.err
    assert not cluster.has("up")


def test_one_line_says_why_nothing_is_started(cluster: Cluster, plimsoll: Callable[..., Ran]) -> None:
    cluster.raise_check("MON_DOWN")
    ran = cluster.run(plimsoll, "run", *FAST)
    assert (ran.status, len(ran.err.splitlines()), cluster.has("up")) == (1, 1, False)
    assert "nothing is started: MON_DOWN (1/3 mons down): more is wrong than OSDs that are down" in ran.err


def test_a_cluster_in_which_nothing_gets_in_sync_is_told_before_anything_is_started(
    cluster: Cluster, plimsoll: Callable[..., Ran]
) -> None:
    (cluster.home / "flags").write_text(",norebalance,norecover")
    ran = cluster.run(plimsoll, "run", *FAST)
    assert (ran.status, cluster.has("up")) == (1, False)
    assert "the cluster has the flag norebalance, norecover, with which nothing gets in sync" in ran.err
    assert cluster.run(plimsoll, "run", *FAST, "--until", "active").status == 0


def test_what_a_killed_return_has_changed_is_restored_by_the_next_one_also_with_all_osds_up(
    cluster: Cluster, plimsoll: Callable[..., Ran], tmp_path: Path
) -> None:
    assert cluster.run(plimsoll, "run", *FAST).status == 0
    leave_noout(cluster, tmp_path / "state", on_host=[f"{cluster.home}/host", "{host}"])
    checked = cluster.run(plimsoll, "run", "--check")
    assert (checked.status, (cluster.home / "flags").read_text()) == (3, ",noout")
    assert "plimsoll return stop restores that" in checked.err
    assert (cluster.run(plimsoll, "run", *FAST).status, (cluster.home / "flags").read_text()) == (0, "")
    assert cluster.run(plimsoll, "run", "--check").status == 0


def test_hosts_start_their_osds_though_another_cannot(tmp_path: Path) -> None:
    (tmp_path / "host").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/sent\n[ $1 != a ] || exit 1\n')
    (tmp_path / "host").chmod(0o755)
    ways = Ways(on_host=(f"{tmp_path}/host", "{host}"), unit="ceph-osd@{osd}.service", start=SYSTEMD, restart=SYSTEMD,
                fsid=FSID)  # fmt: skip
    hosts = OsdHosts(ways=ways, host_of={17: "a", 3: "b", 5: "c"}, deadline=10)
    with pytest.raises(NotStarted, match=r"^a: ") as error:
        hosts.start([17, 3, 5])
    assert error.value.osds == (17,)
    sent = (tmp_path / "sent").read_text()
    assert all(f"systemctl start ceph-osd@{osd}.service" in sent for osd in (3, 5))


def test_a_pool_that_is_deleted_during_the_look_is_left_out(cluster: Cluster, plimsoll: Callable[..., Ran]) -> None:
    """It is in the answers before, and not in that on pools."""
    (cluster.home / "more-groups").write_text("2.0\t[0,1]\t0\n")
    groups = json.loads((cluster.home / "groups-0.json").read_text())
    row = {"pgid": "2.0", "state": "stale+active+clean", "up": [1], "acting": [1]}
    cluster.write("groups-0.json", {"pg_stats": [*groups["pg_stats"], row]})
    ran = cluster.run(plimsoll, "plan")
    assert (ran.status, ran.err) == (2, "")
    assert "1 OSD to return in 1 wave" in ran.out


def test_an_answer_of_a_large_cluster_is_read(cluster: Cluster, plimsoll: Callable[..., Ran]) -> None:
    """130,000 placement groups take 16 MiB."""
    path = cluster.home / "groups-0.json"
    path.write_text(path.read_text() + " " * 17 * 2**20)
    assert cluster.run(plimsoll, "plan").status == 2


def statuses(cluster: Cluster, plimsoll: Callable[..., Ran], state: Path) -> Iterator[tuple[str, int]]:
    """Of everything that a return may come to."""

    def of(verb: str, *words: str) -> tuple[str, int]:
        return f"return {verb}", cluster.run(plimsoll, verb, *words).status

    yield of("plan")
    yield of("run", "--check")
    yield of("run", "--check", "--within", "osd.0")
    yield of("plan", "--within", "osd.0")
    cluster.raise_check("MON_DOWN")
    yield of("plan")
    yield of("run", *FAST)
    cluster.write("status.json", STATUS)
    (cluster.home / "silent").touch()
    yield of("plan")
    (cluster.home / "silent").unlink()
    yield of("status")
    yield of("stop")
    lock = locks.take(state / "return/return.lock")
    yield of("run", *FAST)
    yield of("stop")
    os.close(lock)
    (cluster.home / "dead").touch()
    yield of("run", *FAST, "--start-within", "0", "--patience", "1s")
    leave_noout(cluster, state, on_host=["false"])
    (cluster.home / "refused").touch()
    yield of("status")
    yield of("stop")
    (cluster.home / "refused").unlink()
    yield of("stop")
    with (state / "return/return.jsonl").open("a") as file:
        file.write("rubbish}\n")
    yield of("status")
    yield of("stop")
