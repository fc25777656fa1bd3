"""``plimsoll region explain`` in a simulated region of 50 nodes with 400 disks, over a day in a real Prometheus.

Each node has four guests with two disks, vda of type bronze and vdb of type gold; nodes 41 to 50 are on another
cluster, with the type silver for vdb. What is wrong, in steps of five minutes that end now:

========  =============================================================================================
node3     guest 12 uses all of the limit of vdb, steps 100 to 139; it is raised at step 140
node7     guest 28 makes ten times the load of the others, steps 100 to 139: requests of its neighbours are slow
node10    guest 40 is there until step 149, and then on node11, where it uses all of the limit of vdb from step 200 on
node41…   SLOW_OPS is raised in their cluster, steps 200 to 219: all of its disks are slow
node20    guest 80 is slow, steps 100 to 139, and nothing around it is
========  =============================================================================================
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import Catalogue, VolumeType
from plimsoll_agent.catalogue.qosspec import Consumer, QosSpec
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import pass_metrics
from plimsoll_agent.monitor.pass_summary import LastDisk
from tests import schemas
from tests.functional.conftest import Ran
from tests.simulated_region import Served, prometheus_of, series_lines
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name
from tests.unit.node import uuid_of

STEP, LAST = 300, 288
AHEAD = 12
"""Steps after now: the tests take minutes, and a region whose metrics have ended is unknown."""
NODES, GUESTS = range(1, 51), 4
CLUSTERS = {False: "11111111-1111-4111-8111-111111111111", True: "22222222-2222-4222-8222-222222222222"}
HELD, LOUD, MOVED, ALONE, STALLED = 12, 28, 40, 80, 165
TWINS, HOSTILE = (60, 61), 70
TYPES = ("bronze", "gold", "silver")
ROOT = Path(__file__).parents[2]
Run = Callable[..., Ran]


def volume(guest: int) -> str:
    return f"{guest:08}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


def guests_of(node: int, step: int) -> list[int]:
    first = (node - 1) * GUESTS + 4
    there = [guest for guest in range(first, first + GUESTS) if guest != MOVED]
    return [*there, MOVED] if node == (10 if step < 150 else 11) else there


def kind_of(node: int, guest: int, target: str, step: int) -> str:
    """What the disk does then."""
    if 100 <= step < 140:
        if (guest, target) == (HELD, "vdb"):
            return "held"
        if (guest, target) == (ALONE, "vdb"):
            return "alone"
        if node == 7:
            return "loud" if guest == LOUD else "slow"
    if (guest, target) == (MOVED, "vdb") and step >= 200:
        return "held"
    if (guest, target) == (HELD, "vdb") and step >= 140:
        return "raised"
    return "slow" if node > 40 and 200 <= step < 220 else "calm"


LATENCY = {"calm": 0.004, "held": 0.080, "loud": 0.050, "slow": 0.200, "raised": 0.004, "alone": 0.300}
IOPS = {"held": 500.0, "loud": 5000.0}


@cache
def disk(node: int, guest: int, target: str, kind: str) -> LastDisk:
    gold, other = target == "vdb", node > 40
    limits = Limits(total_iops_sec=1000 if kind == "raised" else 500) if gold else Limits(total_iops_sec=250)
    iops = IOPS.get(kind, 100.0)
    return a_last_disk(
        a_name(guest, target, volume_id=volume(guest) if gold else None, key=f"{uuid_of(guest)}/{target}"),
        volume_type=("silver" if other else "gold") if gold else "bronze",
        cluster=CLUSTERS[other],
        actual=limits,
        desired=limits,
        server="twin" if guest in TWINS else uuid_of(HELD) if guest == HOSTILE else f"web-{guest}",
        project_name="shop",
        rates=Rates(
            read_iops=iops / 2,
            write_iops=iops / 2,
            read_bytes=iops * 4096,
            write_bytes=iops * 4096,
            seconds=300.0,
            latency=LATENCY[kind],
        ),
        shares={"total_iops_sec": 1.0 if kind == "held" else 0.2},
        allowed={"total_iops_sec": 500.0},
    )


@cache
def told(node: int, kinds: tuple[tuple[int, str, str], ...]) -> list[str]:
    """Lines of a node's metrics, with its labels."""
    disks = [disk(node, *each) for each in kinds]
    own = f'job="node",region="r1",instance="node{node}:9100"'
    lines = []
    for line in series_lines(pass_metrics.families(a_last_pass(*disks, interval=300.0), detail="disk")):
        name, _, rest = line.partition("{")
        if name.startswith(("plimsoll_disk_", "plimsoll_guest_info", "plimsoll_pool_average", "plimsoll_health")):
            lines.append(f"{name}{{{own},{rest}")
    return lines


def lines() -> dict[str, list[str]]:
    now = int(time.time()) // STEP * STEP
    found: dict[str, list[str]] = {}
    series: dict[str, list[tuple[int, str]]] = {}

    def put(at: int, key: str, value: object) -> None:
        series.setdefault(key, []).append((at, str(value)))

    for step in range(LAST + 1 + AHEAD):
        at = now - (LAST - step) * STEP
        latency: dict[str, list[float]] = {name: [] for name in TYPES}
        load: dict[str, dict[int, float]] = {}
        for node in NODES:
            kinds = tuple(
                (guest, target, kind_of(node, guest, target, step))
                for guest in guests_of(node, step)
                for target in ("vda", "vdb")
            )
            for line in told(node, kinds):
                key, _, value = line.rpartition(" ")
                put(at, key, value)
            for guest, target, kind in kinds:
                one = disk(node, guest, target, kind)
                latency[one.volume_type or ""].append(LATENCY[kind])
                on_it = load.setdefault(one.cluster or "", {})
                on_it[guest] = on_it.get(guest, 0.0) + IOPS.get(kind, 100.0)
        stalled = f'uuid="{uuid_of(STALLED)}",domain="instance-{STALLED:08}",kind="hung-task"'
        put(
            at,
            f'plimsoll_guest_stall_lines_total{{region="r1",instance="node41:9100",{stalled}}}',
            2 + 3 * (step > 205),
        )
        for node in NODES:
            observed = f'plimsoll_pass_observed_timestamp_seconds{{region="r1",instance="node{node}:9100"}}'
            put(at, observed, at)
        for name, values in latency.items():
            labels = f'{{region="r1",volume_type="{name}"}}'
            put(at, f"volume_type:plimsoll_disk_average_latency_seconds:median{labels}", median(values))
            put(at, f"volume_type:plimsoll_disk_average_latency_seconds:count{labels}", len(values))
        for cluster, of in load.items():
            for guest in sorted(of, key=lambda guest: -of[guest])[:3]:
                labels = f'{{region="r1",uuid="{uuid_of(guest)}",cluster="{cluster}",pool="volumes"}}'
                for unit, each in (("operations", 1), ("bytes", 8192)):
                    put(at, f"uuid_pool:plimsoll_disk_average_{unit}_per_second:top3{labels}", of[guest] * each)
        for cluster in CLUSTERS.values():
            put(at, f'ceph_health_status{{cluster="{cluster}"}}', 0)
            ill = cluster == CLUSTERS[True] and 200 <= step < 220
            put(at, f'ceph_health_detail{{cluster="{cluster}",name="SLOW_OPS"}}', int(ill))
    for key, values in series.items():
        found.setdefault(key.partition("{")[0], []).extend(f"{key} {value} {at}" for at, value in values)
    return found


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with prometheus_of(lines(), tmp_path_factory.mktemp("explain")) as there:
        yield there


@pytest.fixture
def explain(plimsoll: Run, region: Served) -> Run:
    return lambda *words, **others: plimsoll("region", "explain", *words, "--prometheus", region.url, **others)


def explained(explain: Run, *words: str) -> Any:
    ran = explain(*words, "-f", "json")
    assert (ran.status, ran.err) == (0, "")
    schemas.hold("region explain", ran.out, "json")
    return json.loads(ran.out)


def disks_of(data: Any) -> dict[str, Any]:
    return {each["disk"]: each for each in data["disks"]}


@pytest.mark.parametrize(
    ("guest", "causes"),
    [
        (HELD, {"vda": "not-slow", "vdb": "limit"}),
        (MOVED, {"vda": "not-slow", "vdb": "limit"}),
        (LOUD + 1, {"vda": "neighbour", "vdb": "neighbour"}),
        (41 * GUESTS + 1, {"vda": "cluster", "vdb": "cluster"}),
        (5, {"vda": "not-slow", "vdb": "not-slow"}),
        (ALONE, {"vda": "not-slow", "vdb": "unknown"}),
    ],
)
def test_the_planted_cause_is_found(explain: Run, guest: int, causes: dict[str, str]) -> None:
    found = disks_of(explained(explain, uuid_of(guest)))
    assert {name: each["cause"] for name, each in found.items()} == causes


def test_a_server_that_moved_is_followed_to_its_new_node(explain: Run) -> None:
    found = explained(explain, f"web-{MOVED}")
    assert [each["node"] for each in found["nodes"]] == ["node10:9100", "node11:9100"]
    (vdb,) = [each for each in found["disks"] if each["disk"] == "vdb"]
    assert {each["node"] for each in vdb["intervals"]} == {"node10:9100", "node11:9100"}
    assert vdb["known_intervals"] == len(vdb["intervals"]) >= LAST - 2


def test_a_volume_is_explained_alone_and_the_tenant_gets_a_sentence(explain: Run) -> None:
    ran = explain(volume(HELD))
    assert (ran.status, ran.err) == (0, "")
    words = " ".join(ran.out.split())
    assert ran.out.startswith(f"web-{HELD} vdb was slow because of its own LIMIT, 500 IOPS   ")
    assert re.search(r"\nvdb  ·+▓+·+  limit 500 IOPS\n", ran.out)
    assert f"\nnext: ssh node3 plimsoll disk hold add {uuid_of(HELD)} vdb " in ran.out
    assert re.search(rf'tenant: "Your volume {volume(HELD)} used all of its 500 IOPS between (.*) UTC\."', words)
    assert f"\n\nserver web-{HELD} (project shop) on node3:9100\nvdb  volume {volume(HELD)}, type gold" in ran.out
    assert re.search(r"UTC: limit 500 → 1000 IOPS", words)
    assert re.search(
        r"Cause: its own limit, 500 IOPS; between .* 40 of 40 slow intervals; known 100 % of the time", words
    )
    assert "vda" not in ran.out


def test_a_server_with_the_uuid_of_another_as_its_name_does_not_hide_it(explain: Run) -> None:
    assert explained(explain, uuid_of(HELD))["guest_uuid"] == uuid_of(HELD)
    assert explained(explain, uuid_of(HOSTILE))["server"] == uuid_of(HELD)


def test_the_tenant_is_not_shown_other_tenants(explain: Run) -> None:
    found = explained(explain, uuid_of(LOUD + 1))
    for each in found["disks"]:
        assert (each["neighbour"]["guest_uuid"], each["neighbour"]["name"]) == (uuid_of(LOUD), f"web-{LOUD}")
        assert uuid_of(LOUD) not in each["tenant"]
        assert f"web-{LOUD}" not in each["tenant"]
        assert "other load on the same" in each["tenant"]
    shown = explain(uuid_of(LOUD + 1)).out
    assert f"web-{LOUD + 1} was slow because of a NEIGHBOUR on node7: web-{LOUD} did " in shown
    assert shown.count("tenant: ") == 1, "its disks waited for the same"
    shown = " ".join(shown.split())
    assert f"Cause: a neighbour: guest web-{LOUD} ({uuid_of(LOUD)}) did " in shown


def test_the_qos_spec_of_its_type_is_named_where_the_machine_has_a_catalogue(explain: Run, tmp_path: Path) -> None:
    types = {
        "t1": VolumeType(id="t1", name="gold", qos_spec="s1"),
        "t2": VolumeType(id="t2", name="bronze", qos_spec=None),
    }
    spec = QosSpec(id="s1", name="gold-\x1biops", consumer=Consumer.FRONT_END, keys={"total_iops_sec": "500"})
    catalogue.save(tmp_path, Catalogue(1, datetime.now(UTC), "r1", {"s1": spec}, types))
    ran = explain(uuid_of(5), OS_CATALOGUE__DIRECTORY=str(tmp_path))
    words = " ".join(ran.out.split())
    assert f"vdb volume {volume(5)}, type gold (QoS spec gold-?iops), limit 500 IOPS" in words
    assert "vda own disk, type bronze, limit 250 IOPS" in words


def test_a_check_of_one_cluster_is_not_blamed_for_disks_of_another(explain: Run) -> None:
    here = disks_of(explained(explain, uuid_of(5)))["vdb"]
    assert all(each["checks"] == [] for each in here["intervals"])
    there = disks_of(explained(explain, uuid_of(41 * GUESTS + 1)))["vdb"]
    assert there["checks"] == ["SLOW_OPS"]
    assert there["slow_intervals"] == len(there["slow"]) == 20


def test_what_its_kernel_reported_is_told_with_its_time(explain: Run) -> None:
    (stall,) = explained(explain, uuid_of(STALLED))["stalls"]
    assert (stall["kind"], stall["lines"]) == ("hung-task", 3)
    assert re.search(r"\nits kernel reported hung-task: 3 lines before .* UTC\n", explain(uuid_of(STALLED)).out)
    assert explained(explain, uuid_of(5))["stalls"] == []


def test_before_it_was_slow_it_was_not(explain: Run) -> None:
    found = disks_of(explained(explain, uuid_of(HELD), "--since", "6h"))["vdb"]
    assert (found["cause"], found["slow"]) == ("not-slow", [])


def test_a_time_that_has_ended_is_explained_by_what_was_in_it(explain: Run) -> None:
    whole = disks_of(explained(explain, uuid_of(HELD)))["vdb"]
    until_then = disks_of(explained(explain, uuid_of(HELD), "--until", "6h"))["vdb"]
    assert until_then["cause"] == whole["cause"] == "limit"
    begin = min(map(datetime.fromisoformat, whole["slow"]))
    before = (begin - timedelta(minutes=10)).isoformat()
    found = disks_of(explained(explain, uuid_of(HELD), "--since", "24h", "--until", before))["vdb"]
    assert (found["cause"], found["slow"]) == ("not-slow", [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no-such",), "no metrics of a server or volume no-such in the last 24h"),
        (("a\x1b[2J",), r"server or volume a\?\[2J in"),
        (("",), "give a server's UUID or name, or a volume's UUID"),
        (("web-1", "--since", "soon"), "--since: 'soon' is not a time; write 14:00"),
        (("web-1", "--since", "1s"), "--since must be 5m or more before the end, and 90d or less"),
        (("twin",), f"twin stands for 2 servers; give the UUID of one: {uuid_of(60)}, {uuid_of(61)}"),
        (("instance-00000001", "--region", "elsewhere"), "no metrics"),
    ],
)
def test_what_cannot_be_explained_is_one_line(explain: Run, words: tuple[str, ...], said: str) -> None:
    ran = explain(*words)
    assert (ran.status, ran.out) == (64, "")
    assert len(" ".join(ran.err.split("\n")).strip()) < 400
    assert re.search(said, " ".join(ran.err.split()))


def test_a_node_tells_what_it_knows_of_the_past_of_a_disk(plimsoll: Run, test_node: str, tmp_path: Path) -> None:
    """It has made one pass, which reads no counters of this driver's disks with requests."""
    plimsoll("enforce", "--mode", "observe", "--uri", test_node, OS_METRICS__TEXTFILE_DIR=str(tmp_path))
    words = ("disk", "explain", "--uri", test_node, "instance-00000001", "vda", "--since", "24h")
    ran = plimsoll(*words)
    assert ran.status == 0, ran.err
    past = " ".join(ran.out.partition("In the last 24h")[2].split())
    assert "no change of its limits since" in past
    assert re.search(r"last pass, \d+ s ago: its use is unknown, which needs two readings", past)
    assert "probes on its node: none Cause: unknown: too little is known (few requests, or few passes" in past
    assert re.search(r"plimsoll region explain [0-9a-f-]{36} --since 24h$", past)
    schemas.hold("disk explain", plimsoll(*words, "-f", "json").out, "json")
