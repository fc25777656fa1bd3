"""``plimsoll top`` against fio in a real guest: QEMU's counters, held against QEMU's limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lab.cloud import Cloud, Guest
from lab.looking import put
from lab.node import Node
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from plimsoll_probes.guest import fio
from plimsoll_probes.model.job import Job, JobName

pytestmark = pytest.mark.quiet

IOPS = 250
INTERVAL = 5
# fio writes before top's first reading and after its second.
JOB = Job(name=JobName.WRITE, seconds=14, file_size=2**26)
FILE = "/mnt/volume/top-test"


@pytest.fixture
def busy(booted: Guest, hypervisor: Libvirt) -> Iterator[Guest]:
    """A guest that writes to vdb as much as its limit lets it; vda has the same limit and nothing to do."""
    fill = ["fio", "--name=fill", f"--filename={FILE}", f"--size={JOB.file_size}", "--rw=write", "--bs=1M"]
    completed = booted.exec(fill, timeout=300)
    assert completed.exit_code == 0, completed.err
    for target in ("vda", "vdb"):
        put(hypervisor, booted.uuid, target, Limits(total_iops_sec=IOPS))
    given = {"timeout": JOB.seconds * 5, "input": fio.job_file(JOB, FILE, None, "libaio")}
    load = Thread(target=booted.exec, args=(list(fio.ARGV),), kwargs=given, daemon=True)
    load.start()
    yield booted
    load.join()
    for target in ("vda", "vdb"):
        put(hypervisor, booted.uuid, target, Limits())


def test_a_disk_at_its_limit_is_shown_at_limit_and_an_idle_one_is_not(
    busy: Guest, cloud: Cloud, hypervisor: Libvirt, tmp_path: Path
) -> None:
    _wait_until_at_work(busy, hypervisor)
    ran = Node(tmp_path, cloud).run("top", "--once", "-f", "json", "--interval", str(INTERVAL), "--guest", busy.name)
    disks: dict[str, dict[str, Any]] = {disk["disk"]: disk for disk in ran.data()}
    assert ran.status == 0, ran.err
    assert list(disks) == ["vdb", "vda"], "closest to the wall first"
    assert disks["vdb"]["actual"] == {"total_iops_sec": IOPS}
    assert 0.9 < disks["vdb"]["share"] < 1.1, "does this machine give twice the limit without it?"
    assert disks["vdb"]["rates"]["write_iops_sec"] == pytest.approx(IOPS, rel=0.1)
    assert disks["vdb"]["rates"]["write_bytes_sec"] == pytest.approx(IOPS * JOB.block_size, rel=0.1)
    assert disks["vdb"]["at_limit"] == 1
    assert disks["vda"]["share"] < 0.1
    assert disks["vda"]["at_limit"] == 0


def _wait_until_at_work(guest: Guest, hypervisor: Libvirt) -> None:
    deadline, before = time.monotonic() + 10, None
    while time.monotonic() < deadline:
        done = hypervisor.block_stats(guest.uuid, ["vdb"])["vdb"].write_requests
        if before is not None and done - before > IOPS / 4:
            return
        before = done
        time.sleep(0.5)
    pytest.fail("fio does not write in the guest")
