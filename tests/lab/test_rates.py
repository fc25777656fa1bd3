"""fio in a real guest, held against what the limits allow: base × time + burst × length."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.limits import Limits, Unit
from plimsoll_probes import fio
from plimsoll_probes.allowance import Direction, allowed
from tests.lab.cloud import Guest
from tests.looking import put

pytestmark = pytest.mark.quiet

FILE = "/mnt/volume/fio-test"
SIZE = 2**28
SECONDS = 15
IOPS = 250
BYTES = 4 * 2**20
TOLERANCE = 0.05

DIRECTIONS: dict[fio.Pattern, tuple[Direction, ...]] = {
    "randread": ("read",),
    "randwrite": ("write",),
    "randrw": ("read", "write"),
}
patterns = pytest.mark.parametrize("pattern", DIRECTIONS)


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


def run(guest: Guest, pattern: fio.Pattern, seconds: int = SECONDS) -> fio.Totals:
    completed = guest.exec(fio.Job(pattern, FILE, seconds, size=SIZE).argv(), timeout=seconds * 5)
    return fio.parse(completed.out or completed.err)


_baselines: dict[fio.Pattern, fio.Totals] = {}


def baseline(guest: Guest, hypervisor: Libvirt, pattern: fio.Pattern) -> fio.Totals:
    """What the cluster gives without a limit: a limit that it cannot exceed twice proves nothing."""
    if pattern not in _baselines:
        put(hypervisor, guest.uuid, "vdb", Limits())
        _baselines[pattern] = run(guest, pattern, 6)
    measured = _baselines[pattern]
    if measured.iops < 2 * IOPS or measured.bytes / measured.seconds < 2 * BYTES:
        pytest.fail(
            f"this machine is too slow to tell: {pattern} without a limit does {measured.iops:.0f} iops and"
            f" {measured.bytes / measured.seconds / 2**20:.1f} MiB/s; twice {IOPS} and {BYTES / 2**20:.0f} are needed"
        )
    return measured


def hold_against(limits: Limits, unit: Unit, pattern: fio.Pattern, did: fio.Totals) -> None:
    may = allowed(limits, unit, did.seconds, *DIRECTIONS[pattern])
    done = did.operations if unit == "iops" else did.bytes
    assert done == pytest.approx(may, rel=TOLERANCE), f"{done} {unit} done, {may:.0f} allowed in {did.seconds:.1f} s"


@patterns
@pytest.mark.parametrize(
    ("unit", "limits"),
    [("iops", Limits(total_iops_sec=IOPS)), ("bytes", Limits(total_bytes_sec=BYTES))],
    ids=["iops", "bytes"],
)
def test_a_guest_gets_what_its_limit_allows_and_no_more(
    unlimited: Guest, hypervisor: Libvirt, pattern: fio.Pattern, unit: Unit, limits: Limits
) -> None:
    baseline(unlimited, hypervisor, pattern)
    put(hypervisor, unlimited.uuid, "vdb", limits)
    hold_against(limits, unit, pattern, run(unlimited, pattern))


def test_read_and_write_limits_hold_each_on_its_own(unlimited: Guest, hypervisor: Libvirt) -> None:
    baseline(unlimited, hypervisor, "randrw")
    limits = Limits(read_iops_sec=150, write_iops_sec=60)
    put(hypervisor, unlimited.uuid, "vdb", limits)
    did = run(unlimited, "randrw")
    # A mixed job of equal shares runs at the pace of its slower half.
    writes = allowed(limits, "iops", did.seconds, "write")
    assert did.write_operations == pytest.approx(writes, rel=TOLERANCE)
    assert did.read_operations == pytest.approx(did.write_operations, rel=0.1)


def test_a_burst_is_there_in_the_first_seconds_and_then_over(unlimited: Guest, hypervisor: Libvirt) -> None:
    baseline(unlimited, hypervisor, "randread")
    limits = Limits(total_iops_sec=100, total_iops_sec_max=300, total_iops_sec_max_length=5)
    put(hypervisor, unlimited.uuid, "vdb", limits)
    burst = run(unlimited, "randread", 4)
    assert burst.iops > 2 * limits.total_iops_sec, "the burst is to be had at once"
    hold_against(limits, "iops", "randread", burst)

    put(hypervisor, unlimited.uuid, "vdb", limits)  # QEMU empties the buckets at a write
    hold_against(limits, "iops", "randread", run(unlimited, "randread", 20))


def test_a_request_above_size_iops_sec_counts_as_several(unlimited: Guest, hypervisor: Libvirt) -> None:
    baseline(unlimited, hypervisor, "randread")
    put(hypervisor, unlimited.uuid, "vdb", Limits(total_iops_sec=400, size_iops_sec=4096))
    did = run(unlimited, "randread")
    quarter = Limits(total_iops_sec=100)  # 16 KiB are four times 4 KiB
    hold_against(quarter, "iops", "randread", did)
