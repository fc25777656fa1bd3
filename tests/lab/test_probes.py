"""``plimsoll probe run`` in a real guest whose cluster is well: the right verdict, the right figures, no trace."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import behind
from lab.cloud import Cloud, Guest
from lab.looking import actual, put
from lab.node import Node
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Marks
from plimsoll_probes.output.serialize import result_data
from plimsoll_probes.store.history import History

pytestmark = pytest.mark.quiet

TOLERANCE = 0.05
# What fio and plimsoll both tell, under the names of each.
PERCENTILES = {
    "50.000000": "p50",
    "90.000000": "p90",
    "95.000000": "p95",
    "99.000000": "p99",
    "99.900000": "p99.9",
    "99.990000": "p99.99",
}


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud, booted: Guest, hypervisor: Libvirt) -> Iterator[Node]:
    """Its rules are a test's own. The file is small: what is desired of it is a place for requests."""
    node = Node(tmp_path, cloud)
    node.use_probes(seconds=5, file_size=2**24)
    yield node
    put(hypervisor, booted.uuid, "vdb", Limits())
    hypervisor.set_marks(booted.uuid, Marks())  # else the next test's node knows what this one desired
    assert left_in(booted) == "", "a probe leaves nothing"


def left_in(guest: Guest) -> str:
    """What probes have left: names of files, and fio where it runs."""
    look = "ls -A /mnt/volume | grep plimsoll; cat /proc/[0-9]*/comm | grep -x fio"
    return guest.exec(["sh", "-c", look]).out


def enforced(node: Node, guest: Guest, limits: str, *more: str) -> None:
    """A rule that gives the volume these limits, which are put in force, and says that it is probed."""
    match = f"match: {{guest: {guest.uuid}, kind: volume}}"
    lines = [f"limits: {limits}", "probe: {every: 5m}", *more]
    node.write_rules(f"rules:\n  - name: canary\n    {match}\n" + "".join(f"    {line}\n" for line in lines))
    ran = node.run("enforce", "--guest", guest.uuid)
    assert ran.status == 0, ran.out + ran.err


def probed(node: Node, *jobs: str, status: int = 0) -> list[dict[str, Any]]:
    ran = node.run("probe", "run", "-f", "json", *(word for job in jobs for word in ("--job", job)), timeout=120)
    assert ran.status == status, ran.out + ran.err
    told = ran.data()
    assert told["postponed"] == []
    results: list[dict[str, Any]] = told["results"]
    assert [result["job"]["name"] for result in results] == list(jobs)
    return results


@pytest.mark.core
def test_three_jobs_get_the_limit_and_are_kept_with_fios_own_percentiles(
    node: Node, booted: Guest, cloud: Cloud
) -> None:
    enforced(node, booted, "{total_iops_sec: 250}")
    history = History(node.state.probes)
    process = node.start("probe", "run", "-f", "json")
    # The result of the first job lies in the guest until the second has one.
    end = time.monotonic() + 60
    while not (history.path.exists() and history.runs()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no job ends"
        time.sleep(0.3)
    fios = json.loads(booted.exec(["sh", "-c", "gzip -dc /mnt/volume/.plimsoll-probe-*/out.json.gz"]).out)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert err == ""

    results = json.loads(out)["results"]
    assert [result["job"]["name"] for result in results] == ["read", "write", "mixed"]
    volume = booted.disks["vdb"].volume_id
    for result in results:
        assert (result["verdict"], result["why"]) == ("kept", "within"), result
        assert result["measured"]["iops"] == pytest.approx(250, rel=TOLERANCE)
        assert result["measured"]["unfinished"] == 0
        assert result["counted"]["read_operations"] + result["counted"]["write_operations"] == pytest.approx(
            result["measured"]["operations"], rel=TOLERANCE
        )
        assert (result["disk"], result["volume"]) == ("vdb", volume)
        circumstances = result["circumstances"]
        assert [circumstances[when] for when in ("promised", "before", "after")] == 3 * [{"total_iops_sec": 250}]
        # None but what a release of Ceph always raises.
        assert circumstances["health_before"]["raised"] == list(cloud.ceph.status()["health"]["checks"])
    assert len({result["session"] for result in results}) == 1
    kept = [result_data(result) for result in reversed(history.runs())]
    assert kept == results, "what is told is what is kept"

    (first,) = fios["jobs"]
    ours = results[0]["measured"]["read"]
    assert (ours["operations"], ours["bytes"]) == (first["read"]["clat_ns"]["N"], first["read"]["io_bytes"])
    assert ours["latency"]["max"] == first["read"]["clat_ns"]["max"] / 10**9
    for theirs, name in PERCENTILES.items():
        bucket = ours["latency"][name]
        said = first["read"]["clat_ns"]["percentile"][theirs] / 10**9
        assert bucket["lower"] <= said <= bucket["upper"], name


@pytest.mark.parametrize(
    ("limits", "job", "parameter"),
    [
        ("{total_bytes_sec: 4194304}", "write", "total_bytes_sec"),
        ("{total_iops_sec: 100, total_iops_sec_max: 300, total_iops_sec_max_length: 3}", "read", "total_iops_sec"),
        ("{read_iops_sec: 150, write_iops_sec: 60}", "mixed", "write_iops_sec"),
    ],
    ids=["bytes", "burst", "each direction"],
)
def test_whatever_the_limit_is_made_of_a_run_that_uses_it_up_is_kept(
    node: Node, booted: Guest, limits: str, job: str, parameter: str
) -> None:
    """The probe's own filling takes from the burst, and so does the time until fio begins: some of it is allowed."""
    enforced(node, booted, limits)
    (result,) = probed(node, job)
    assert (result["verdict"], result["facts"]["parameter"]) == ("kept", parameter), result
    facts = result["facts"]
    if parameter + "_max" in limits:
        assert facts["done"] <= facts["allowed"] * (1 + TOLERANCE)
        assert result["measured"]["iops"] > 1.2 * 100, "what was left of the burst was had"
    else:
        assert facts["done"] == pytest.approx(facts["allowed"], rel=TOLERANCE)


def test_a_limit_that_is_removed_over_qmp_is_found_out(node: Node, booted: Guest, hypervisor: Libvirt) -> None:
    enforced(node, booted, "{total_iops_sec: 100}")
    behind.set_limits(booted, "vdb", Limits())
    assert actual(hypervisor, booted.uuid, "vdb") == Limits()
    ran = node.run("probe", "run", "--job", "read", timeout=60)
    assert ran.status == 3, ran.out + ran.err
    assert "over-limit: " in ran.out
    assert "of the promised limit 100 IOPS, but QEMU has no limit: see plimsoll plan" in ran.out
    shown = node.run("probe", "show", "--guest", booted.uuid, "-f", "json").data()
    assert (shown["verdict"], shown["why"]) == ("over-limit", "not-set")
    assert shown["facts"]["done"] > 2 * shown["facts"]["allowed"]
    assert shown["since"] == shown["started"]


def test_without_a_limit_there_is_nothing_to_hold_it_against(node: Node, booted: Guest) -> None:
    enforced(node, booted, "unlimited")
    (result,) = probed(node, "read")
    assert (result["verdict"], result["why"]) == ("no-limit", "unlimited")
    assert result["measured"]["iops"] > 250


def test_a_missed_objective_is_slow_though_the_limit_is_used_up(node: Node, booted: Guest) -> None:
    # 8 requests in flight at 100 a second take 80 ms each.
    enforced(node, booted, "{total_iops_sec: 100}", "objective: {p50: 20ms}")
    (result,) = probed(node, "write", status=3)
    assert (result["verdict"], result["why"]) == ("slow", "objective-missed"), result
    facts = result["facts"]
    assert (facts["direction"], facts["quantile"], facts["objective"]) == ("write", 0.5, 0.02)
    assert 0.04 < facts["measured"] < 0.16
