"""fio in a real guest, held against what the limits allow: base × time + burst × length."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.cloud import Guest
from lab.looking import put
from lab.waiting import until
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.evaluate.allowance import reach
from plimsoll_probes.guest import fio
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import Flow, Measured
from tests import depth

pytestmark = pytest.mark.quiet

FILE = "/mnt/volume/fio-test"
SIZE = 2**28
SECONDS = 10
IOPS = 250
BYTES = 4 * 2**20
TOLERANCE = 0.05
REQUESTS, DATA = Limits(total_iops_sec=IOPS), Limits(total_bytes_sec=BYTES)
# Each limit and each job; in a soak each with each.
CASES = [(REQUESTS, JobName.READ), (DATA, JobName.WRITE), (REQUESTS, JobName.MIXED), (DATA, JobName.MIXED)]
if depth.DEPTH is depth.Depth.SOAK:
    CASES += [(REQUESTS, JobName.WRITE), (DATA, JobName.READ)]


@pytest.fixture(scope="module")
def guest(booted: Guest) -> Guest:
    """With the test file written out, so that every run overwrites and none allocates."""
    fill = ["fio", "--name=fill", f"--filename={FILE}", f"--size={SIZE}", "--rw=write", "--bs=1M", "--direct=1"]
    completed = booted.exec(fill, timeout=300)
    assert completed.exit_code == 0, completed.err
    return booted


@pytest.fixture
def unlimited(guest: Guest, hypervisor: Libvirt) -> Iterator[Guest]:
    put(hypervisor, guest.uuid, "vdb", Limits())
    yield guest
    put(hypervisor, guest.uuid, "vdb", Limits())


def run(guest: Guest, name: JobName, seconds: int = SECONDS) -> Measured:
    job = Job(name=name, seconds=seconds, file_size=SIZE)
    text = fio.job_file(job, FILE, None, "libaio")
    completed = guest.exec(list(fio.ARGV), timeout=seconds * 5, input=text)
    return fio.parse(completed.out or completed.err, job, engine="libaio")


def operations(flow: Flow | None) -> int:
    assert flow is not None, "none of that direction ended"
    return flow.operations


_baselines: dict[JobName, Measured] = {}


def baseline(guest: Guest, hypervisor: Libvirt, name: JobName) -> Measured:
    """What the cluster gives without a limit: a limit that it cannot exceed twice proves nothing."""
    if name not in _baselines:
        put(hypervisor, guest.uuid, "vdb", Limits())
        _baselines[name] = run(guest, name, 6)
    measured = _baselines[name]
    if measured.iops < 2 * IOPS or measured.bytes / measured.seconds < 2 * BYTES:
        pytest.fail(
            f"this machine is too slow to tell: {name} without a limit does {measured.iops:.0f} iops and"
            f" {measured.bytes / measured.seconds / 2**20:.1f} MiB/s; twice {IOPS} and {BYTES / 2**20:.0f} are needed"
        )
    return measured


def hold_against(limits: Limits, name: JobName, did: Measured) -> None:
    """QEMU empties the buckets when limits are put, so all of a burst is there."""
    within = reach(limits, Job(name=name), did.seconds)
    assert within is not None
    assert did.operations == pytest.approx(within.high, rel=TOLERANCE), (
        f"{did.operations} done, {within.high:.0f} allowed in {did.seconds:.1f} s"
    )


@pytest.mark.parametrize(
    ("limits", "name"), CASES, ids=lambda value: "-".join(value.in_effect()) if isinstance(value, Limits) else value
)
def test_a_guest_gets_what_its_limit_allows_and_no_more(
    unlimited: Guest, hypervisor: Libvirt, limits: Limits, name: JobName
) -> None:
    baseline(unlimited, hypervisor, name)
    put(hypervisor, unlimited.uuid, "vdb", limits)
    hold_against(limits, name, run(unlimited, name))


@pytest.mark.core
def test_read_and_write_limits_hold_each_on_its_own(unlimited: Guest, hypervisor: Libvirt) -> None:
    baseline(unlimited, hypervisor, JobName.MIXED)
    limits = Limits(read_iops_sec=150, write_iops_sec=60)
    put(hypervisor, unlimited.uuid, "vdb", limits)
    did = run(unlimited, JobName.MIXED)
    # A mixed job of equal shares runs at the pace of its slower half, and the limit shows in that half. fio draws
    # which of both a request is: of 1200 draws the halves differ by a quarter once in 40,000 runs.
    within = reach(limits, Job(name=JobName.MIXED), did.seconds)
    assert within is not None
    assert operations(did.write) == pytest.approx(within.high / 2, rel=TOLERANCE)
    assert operations(did.read) == pytest.approx(operations(did.write), rel=0.25)


def test_what_waits_passes_at_once_where_the_group_changes_and_only_there(
    unlimited: Guest, hypervisor: Libvirt
) -> None:
    """It is what ``drains`` tells of, and so must be what QEMU does."""

    def done() -> int:
        return hypervisor.block_stats(unlimited.uuid, ["vdb"])["vdb"].read_requests

    slow, shared = Limits(total_iops_sec=5), Limits(total_iops_sec=5, group_name="some")
    put(hypervisor, unlimited.uuid, "vdb", slow)
    words = ["fio", "--name=wait", f"--filename={FILE}", "--rw=randread", "--bs=4k", "--direct=1"]
    words += ["--ioengine=libaio", "--iodepth=60", "--time_based", "--runtime=12"]
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(unlimited.exec, words, timeout=120)
        idle = done()
        until(lambda: done() > idle)
        passed = {}
        for name, limits in {"again": slow, "joins": shared, "in it": replace(shared, total_iops_sec=6)}.items():
            before = done()
            put(hypervisor, unlimited.uuid, "vdb", limits)
            time.sleep(1)
            passed[name] = done() - before
        waiting.result()
    assert passed["again"] < 20
    assert passed["joins"] >= 50
    assert passed["in it"] < 20


@pytest.mark.core
def test_a_burst_is_there_in_the_first_seconds_and_then_over(unlimited: Guest, hypervisor: Libvirt) -> None:
    baseline(unlimited, hypervisor, JobName.READ)
    limits = Limits(total_iops_sec=100, total_iops_sec_max=300, total_iops_sec_max_length=5)
    put(hypervisor, unlimited.uuid, "vdb", limits)
    burst = run(unlimited, JobName.READ, 4)
    assert burst.iops > 2 * limits.total_iops_sec, "the burst is to be had at once"
    hold_against(limits, JobName.READ, burst)

    put(hypervisor, unlimited.uuid, "vdb", limits)
    hold_against(limits, JobName.READ, run(unlimited, JobName.READ, 20))


def test_a_request_above_size_iops_sec_counts_as_several(unlimited: Guest, hypervisor: Libvirt) -> None:
    baseline(unlimited, hypervisor, JobName.READ)
    limits = Limits(total_iops_sec=400, size_iops_sec=4096)  # 16 KiB are four times 4 KiB
    put(hypervisor, unlimited.uuid, "vdb", limits)
    hold_against(limits, JobName.READ, run(unlimited, JobName.READ))
