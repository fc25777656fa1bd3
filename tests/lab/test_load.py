"""``plimsoll load`` against fio in a real guest: rates, sizes and shares, and QEMU's own histograms of latency."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.cloud import Cloud, Guest
from lab.node import Node, only
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_insight.load.latency import devices

pytestmark = pytest.mark.quiet

WRITES, READS = 200, 20
"""The most a second."""
SECONDS = 4
"""Of each size."""
KIB = 1024
FILES = {"writer": "/mnt/volume/load-test", "reader": "/root/load-test"}
"""On vdb and on vda."""


@pytest.fixture(scope="module")
def guest(booted: Guest) -> Guest:
    """With both files written out, so that nothing is allocated in a test."""
    for file in FILES.values():
        fill = ["fio", "--name=fill", f"--filename={file}", "--size=32M", "--rw=write", "--bs=1M", "--end_fsync=1"]
        completed = booted.exec(fill, timeout=300)
        assert completed.exit_code == 0, completed.err
    return booted


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    return Node(tmp_path, cloud)


def fio(guest: Guest, seconds: int) -> dict[str, int]:
    """One job writes 4k to vdb, the other reads 512k from vda; how many requests each did."""
    results = guest.fio(
        [
            "--direct=1", "--ioengine=libaio", "--size=32M", "--time_based",
            f"--runtime={seconds}",
            "--name=writer", f"--filename={FILES['writer']}", "--rw=randwrite", "--bs=4k", f"--rate_iops={WRITES}",
            "--name=reader", f"--filename={FILES['reader']}", "--rw=read", "--bs=512k", f"--rate_iops={READS}",
        ],
        timeout=seconds * 10,
    )  # fmt: skip
    jobs = {job["jobname"]: job for job in results}
    return {"writer": jobs["writer"]["write"]["total_ios"], "reader": jobs["reader"]["read"]["total_ios"]}


def disks(data: list[dict[str, Any]], guest: Guest) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rows of vda and vdb: only a volume's name is a UUID."""
    (vda,) = (row for row in data if "/" in row["volume"])
    (vdb,) = (row for row in data if "/" not in row["volume"])
    assert {vda["guest"], vdb["guest"]} == {guest.name}
    return vda, vdb


def wait_until(what: Callable[[], bool], of: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {of}"
        time.sleep(0.1)


def with_histograms(hypervisor: Libvirt, guest: Guest) -> int:
    """How many devices of the guest have some."""
    found = devices(hypervisor.monitor(guest.uuid, "query-blockstats"))
    assert not any(device.others for device in found)
    return sum(device.latencies is not None for device in found)


def test_who_writes_4k_and_who_reads_512k_are_told_apart_and_each_request_is_in_qemus_histograms(
    guest: Guest, hypervisor: Libvirt, node: Node
) -> None:
    process = node.start("load", "--latency", "--for", "1h", *only(guest), "-f", "json")
    wait_until(lambda: with_histograms(hypervisor, guest) == 2, "both disks with histograms")
    made = fio(guest, 6)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "libvirt marks these guests as tainted (custom-monitor) until they stop" in " ".join(err.split())
    vda, vdb = disks(json.loads(out), guest)
    assert vdb["write_size"] == pytest.approx(4 * KIB, rel=0.1)
    assert vda["read_size"] == pytest.approx(512 * KIB, rel=0.1)
    assert vdb["write_share"] > 0.9
    assert vda["read_share"] > 0.9
    assert vda["read_bytes_share"] > 0.99
    assert vdb["sizes"]["write"]["4096"] > 0.9
    # What else the guest does: its file systems write journals and times.
    assert made["writer"] <= vdb["latency"]["write"]["requests"] <= made["writer"] * 1.02 + 20
    assert made["reader"] <= vda["latency"]["read"]["requests"] <= made["reader"] * 1.02 + 20
    assert 0 < vdb["write_p50"]["value"] <= vdb["write_p99"]["value"]
    assert with_histograms(hypervisor, guest) == 0
    assert not node.state.histograms.exists()


def test_rows_by_time_show_when_a_guest_began_to_write_larger_requests(guest: Guest, node: Node) -> None:
    process = node.start("load", "--by", "time", "--for", "1h", *only(guest), "-f", "json")
    write = f"fio --direct=1 --ioengine=libaio --size=32M --name=w --filename={FILES['writer']} --rw=randwrite"
    write += f" --time_based --runtime={SECONDS} --rate_iops={WRITES} >/dev/null"
    completed = guest.exec(["sh", "-c", f"{write} --bs=4k && {write} --bs=64k"], timeout=SECONDS * 20)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (completed.exit_code, process.returncode) == (0, 0), completed.err or err
    rows = json.loads(out)
    assert [row["end"] for row in rows[:-1]] == [row["begin"] for row in rows[1:]]
    # An interval in which fio ends or begins has both sizes, or few requests.
    most = [
        max(row["sizes"]["write"], key=row["sizes"]["write"].get) for row in rows if row["write_iops"] > WRITES / 4
    ]
    assert {"4096", "65536"} <= set(most), rows
    assert most.index("65536") > max(at for at, size in enumerate(most) if size == "4096"), rows


def test_what_kill_9_leaves_is_removed_at_the_next_start(guest: Guest, hypervisor: Libvirt, node: Node) -> None:
    process = node.start("load", "--latency", "--for", "1h", *only(guest))
    wait_until(lambda: with_histograms(hypervisor, guest) == 2, "both disks with histograms")
    process.kill()
    process.communicate(timeout=30)
    assert with_histograms(hypervisor, guest) == 2
    assert node.state.histograms.exists()
    ran = node.run("load", "--for", "500ms", "--interval", "500ms", *only(guest))
    assert ran.status == 0
    said = " ".join(ran.err.split())
    assert said == f"Removed the latency histograms that an earlier plimsoll load left in 1 guest: {guest.uuid}"
    assert with_histograms(hypervisor, guest) == 0
    assert not node.state.histograms.exists()
