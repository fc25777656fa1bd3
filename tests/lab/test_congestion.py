"""The signal of congestion on a real Ceph: what passes count of a light disk and of one at its limit, from QEMU's
counters, held against fio in the guest; the device classes of Ceph's pools; and limits that follow a signed file.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lab.cloud import Cloud, Guest
from lab.congested import WITH_FLOOR, Congested
from lab.daemon import daemon_on
from lab.looking import actual, put
from lab.node import Node
from lab.waiting import PATIENT
from plimsoll_agent.adapters.ceph import Ceph
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model import clusters
from plimsoll_agent.model.limits import Limits
from plimsoll_monitoring.region.congestion import elements
from plimsoll_monitoring.region.device_classes import classes_of

SECONDS, LIGHT, HEAVY, DEPTH = 20, 20, 25, 8
BETWEEN = 6
"""Seconds between two passes, both while fio reads."""
FILES = {"light": "/mnt/volume/congestion-test", "heavy": "/root/congestion-test"}
"""On vdb and on vda."""


@pytest.fixture
def guest(booted: Guest, hypervisor: Libvirt) -> Iterator[Guest]:
    """Its vdb has far more than it will use, its vda less."""
    for file in FILES.values():
        fill = ["fio", "--name=fill", f"--filename={file}", "--size=8M", "--rw=write", "--bs=1M", "--end_fsync=1"]
        assert booted.exec(fill, timeout=300).exit_code == 0
    put(hypervisor, booted.uuid, "vdb", Limits(total_iops_sec=2000))
    put(hypervisor, booted.uuid, "vda", Limits(total_iops_sec=HEAVY))
    yield booted
    for target in ("vda", "vdb"):
        put(hypervisor, booted.uuid, target, Limits())


def fio(guest: Guest) -> dict[str, float]:
    """The mean seconds of each job's requests, as the guest saw them."""
    words = ["--direct=1", "--ioengine=libaio", "--size=8M", "--bs=4k", "--rw=randread"]
    light = ["--name=light", f"--filename={FILES['light']}", f"--rate_iops={LIGHT}"]
    heavy = ["--name=heavy", f"--filename={FILES['heavy']}", f"--iodepth={DEPTH}"]
    jobs = guest.fio([*words, "--time_based", f"--runtime={SECONDS}", *light, *heavy], timeout=SECONDS * 20)
    return {job["jobname"]: job["read"]["lat_ns"]["mean"] / 1e9 for job in jobs}


def light_disks(node: Node, textfiles: Path) -> dict[str, tuple[float, float]]:
    """Requests and seconds by pool, after a pass."""
    assert node.run("enforce").status in (0, 3)
    text = (textfiles / "plimsoll-pass.prom").read_text()
    values = {
        (sample.name, sample.labels["pool"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("plimsoll_light_")
    }
    return {
        pool: (number, values["plimsoll_light_latency_seconds_total", pool])
        for (name, pool), number in values.items()
        if name == "plimsoll_light_requests_total"
    }


def done(hypervisor: Libvirt, guest: Guest) -> int:
    """Requests of vdb so far."""
    stats = hypervisor.block_stats(guest.uuid, ["vdb"])["vdb"]
    return stats.read_requests + stats.write_requests


def at_work(hypervisor: Libvirt, guest: Guest) -> bool:
    def reads() -> list[int]:
        return [stats.read_requests for stats in hypervisor.block_stats(guest.uuid, ["vda", "vdb"]).values()]

    before = reads()
    time.sleep(0.5)
    return all(after - then > 5 for then, after in zip(before, reads(), strict=True))


@pytest.mark.quiet
def test_a_light_disk_tells_the_latency_of_ceph_and_one_at_its_limit_is_not_asked(
    guest: Guest, cloud: Cloud, hypervisor: Libvirt, tmp_path: Path
) -> None:
    node = Node(tmp_path, cloud, mode="observe")
    node.use_metrics(tmp_path)
    with ThreadPoolExecutor() as pool:
        run = pool.submit(fio, guest)
        deadline = time.monotonic() + 30
        while not at_work(hypervisor, guest):
            assert time.monotonic() < deadline, "fio does not read in the guest"
        start = done(hypervisor, guest)
        assert light_disks(node, tmp_path) == {}, "one reading is no measurement"
        first = done(hypervisor, guest)
        time.sleep(BETWEEN)
        second = done(hypervisor, guest)
        pools = light_disks(node, tmp_path)
        last = done(hypervisor, guest)
        saw = run.result()
    sums = {name: wait for name, wait in pools.items() if wait[0]}
    ((requests, seconds),) = sums.values()
    assert len(pools) == 2, "the pool of the disk at its limit has sums too, of nothing"
    assert second - first <= round(requests) <= last - start, "as QEMU counted between the passes"
    assert 0 < seconds / requests < 2 * saw["light"]
    assert saw["heavy"] > DEPTH / HEAVY * 0.7, "it waited at its limit"


@pytest.mark.quiet
def test_ceph_tells_the_device_class_of_each_pool(cloud: Cloud, tmp_path: Path) -> None:
    (cluster,) = clusters.read([cloud.ceph.conf]).known
    command = shutil.which("ceph", path=Node(tmp_path, cloud).environment["PATH"])
    assert command
    pools = elements(classes_of(Ceph("plimsoll", 30, command).maps(cluster)))
    assert {fsid for fsid, _ in pools} == {cluster.fsid}
    assert {"vms", "volumes"} <= {pool for _, pool in pools}
    assert all(pools.values())


# --- enforced

FULL = Limits(total_iops_sec=1000)


@pytest.mark.shared
def test_a_disk_follows_a_signed_file_and_is_restored_whatever_ends_that(
    guests: Callable[..., list[Guest]], cloud: Cloud, hypervisor: Libvirt, tmp_path: Path
) -> None:
    """The file expires; the daemon is killed, and the timer's pass runs; an operator pauses the node."""
    (guest,) = guests()

    def has(limits: Limits) -> None:
        end = time.monotonic() + PATIENT
        while actual(hypervisor, guest.uuid, "vdb") != limits:
            assert time.monotonic() < end, actual(hypervisor, guest.uuid, "vdb")
            time.sleep(0.2)

    there = Congested(tmp_path, cloud, WITH_FLOOR)
    with daemon_on(there.node):
        has(FULL)
        there.publish(0.8, lasts=3)
        has(Limits(total_iops_sec=800))
        has(FULL)
        there.publish(0.5)
        has(Limits(total_iops_sec=500))
    assert there.node.run("enforce", "--unless-daemon").status == 0
    has(FULL)
    with daemon_on(there.node) as daemon:
        there.publish(0.6)
        has(Limits(total_iops_sec=600))
        daemon.process.kill()
        daemon.process.wait(PATIENT)
    assert there.node.run("enforce", "--unless-daemon").status == 0
    has(FULL)
    with daemon_on(there.node):
        there.publish(0.7)
        has(Limits(total_iops_sec=700))
        ran = there.node.run("pause", "--reason", "test", "--restore")
        assert (ran.status, "restored" in ran.out) == (0, True), ran
        has(FULL)
    put(hypervisor, guest.uuid, "vdb", Limits())
