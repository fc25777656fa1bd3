"""Disks that share a ceiling: what a real QEMU lets through, and what the daemon writes while a guest works."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.daemon import Daemon, daemon_on
from lab.looking import actual, put
from lab.node import Node
from lab.waiting import until
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.ceilings.buckets import CeilingKey, Shared, Sharer, Sharing, Whose, group_of, step, within
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from tests import depth
from tests.lab.test_throttle import Qemu

CEILING = Limits(total_iops_sec=60)
OWN = Limits(total_iops_sec=50)
PERIOD, PERIODS, DEPTH = 5.0, 5, 120
STARTS = 2
"""In this period the second disk begins."""


@pytest.mark.quiet
def test_qemu_keeps_a_group_exactly_and_split_limits_together_within_the_ceiling(tmp_path: Path) -> None:
    """The disks 0 and 1 are a group, 2 and 3 have limits of their own; of each two the second is idle at first."""
    sent, shared = [0] * 4, dict[CeilingKey, Shared]()
    bucket = CeilingKey(Whose.GUEST, "g", "team")
    rates: list[list[float]] = []
    have = [OWN, OWN]

    def split(qemu: Qemu, did: list[float | None]) -> None:
        nonlocal shared, have
        sharers = tuple(
            Sharer(key=f"g/{number}", limits=OWN, rates={"total_iops_sec": need}) for number, need in enumerate(did)
        )
        now = datetime.now(UTC) + len(rates) * timedelta(seconds=30)
        shared = step(shared, {bucket: Sharing(ceiling=CEILING, disks=2, sharers=sharers)}, now)
        after = [within(OWN, shared[bucket].parts[each.key]) for each in sharers]
        for number in sorted(range(2), key=lambda number: after[number].total_iops_sec - have[number].total_iops_sec):
            if after[number] != have[number]:
                qemu.limit(2 + number, after[number], f"own{number}")
        have = after

    with Qemu(tmp_path, 4) as qemu:
        for number in range(2):
            qemu.limit(number, CEILING, group_of(["team"]))
        split(qemu, [None, None])
        for period in range(-1, PERIODS):  # the first one fills the queues
            began, before = time.monotonic(), [reads for reads, _ in qemu.requests()]
            while time.monotonic() - began < PERIOD:
                done = [reads for reads, _ in qemu.requests()]
                for number in range(4):
                    while (number % 2 == 0 or period >= STARTS) and sent[number] - done[number] < DEPTH:
                        qemu.send(number, 4096, False)
                        sent[number] += 1
                time.sleep(0.005)
            seconds = time.monotonic() - began
            after = [reads for reads, _ in qemu.requests()]
            if period < 0:
                continue
            rates.append([(new - old) / seconds for new, old in zip(after, before, strict=True)])
            own = zip(rates[-1][2:], have, strict=True)
            split(qemu, [None if rate >= AT_LIMIT_RATIO * its.total_iops_sec else rate for rate, its in own])
    print([[round(rate) for rate in each] for each in rates], have)
    for first, second, third, fourth in rates:
        assert first + second == pytest.approx(60, rel=0.03)
        assert third + fourth <= 60 * 1.03
    assert rates[STARTS - 1][2] == pytest.approx(50, rel=0.03), "all that it may have, while the other is idle"
    for _, _, third, fourth in rates[STARTS + 2 :]:
        assert (third, fourth) == (pytest.approx(30, rel=0.03), pytest.approx(30, rel=0.03))


# --- libvirt, a guest and the daemon

RULES = """
default: {{limits: {{total_iops_sec: 100}}}}
rules:
  - name: team
    match: {{pool: "*"}}
    {whose}_ceiling: {{total_iops_sec: {ceiling}}}
"""
SHARED = 120
SOAK = pytest.mark.skipif(depth.DEPTH is not depth.Depth.SOAK, reason="takes a minute; a guest's goes the same way")
FILES = {"busy": "/root/ceilings-test", "late": "/mnt/volume/ceilings-test"}
"""On vda and on vdb."""
LASTS, LATE = 32, 15
"""Seconds of fio, and when the second disk begins."""


@pytest.fixture
def guest(booted: Guest, hypervisor: Libvirt) -> Iterator[Guest]:
    for file in FILES.values():
        fill = ["fio", "--name=fill", f"--filename={file}", "--size=8M", "--rw=write", "--bs=1M", "--end_fsync=1"]
        assert booted.exec(fill, timeout=300).exit_code == 0
    yield booted
    for target in ("vda", "vdb"):
        put(hypervisor, booted.uuid, target, Limits())


def fio(guest: Guest) -> int:
    """How many requests both jobs did together."""
    words = ["--direct=1", "--ioengine=libaio", "--size=8M", "--bs=4k", "--rw=randread"]
    jobs = [f"--name=busy --filename={FILES['busy']} --iodepth=16 --runtime={LASTS}"]
    jobs += [f"--name=late --filename={FILES['late']} --iodepth=16 --runtime={LASTS - LATE} --startdelay={LATE}"]
    results = guest.fio([*words, "--time_based", *" ".join(jobs).split()], timeout=LASTS * 10)
    return sum(job["read"]["total_ios"] for job in results)


def looks(daemon: Daemon, seconds: float) -> None:
    """Two passes over the node, with so many seconds between them."""
    for wait in (0.0, seconds):
        time.sleep(wait)
        before = daemon.told().full_passes.get("done", 0)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.until(lambda known: known.full_passes.get("done", 0) > before)  # noqa: B023


@pytest.mark.quiet
@pytest.mark.parametrize(
    ("whose", "equal", "one_busy", "both_busy"),
    [
        # A tenth of an equal part for an idle disk, and what the busy one cannot use.
        ("guest", (60, 60), (100, 20), (60, 60)),
        # Beside them two idle disks of another guest: (120 - 2 × 3) / 2.
        pytest.param("project", (30, 30), (100, 6), (57, 57), marks=SOAK),
    ],
)
def test_a_split_follows_what_a_guest_does_and_fio_gets_no_more_than_the_ceiling(
    guest: Guest,
    guests: Callable[..., list[Guest]],
    cloud: Cloud,
    hypervisor: Libvirt,
    tmp_path: Path,
    whose: str,
    equal: tuple[int, int],
    one_busy: tuple[int, int],
    both_busy: tuple[int, int],
) -> None:
    (idle,) = guests()
    node = Node(tmp_path, cloud, RULES.format(whose=whose, ceiling=SHARED))

    def iops(*of: Guest) -> tuple[int, ...]:
        return tuple(actual(hypervisor, one.uuid, target).total_iops_sec for one in of for target in ("vda", "vdb"))

    def done() -> int:
        return sum(stats.read_requests for stats in hypervisor.block_stats(guest.uuid, ["vda", "vdb"]).values())

    with daemon_on(node) as daemon, ThreadPoolExecutor() as pool:
        assert iops(guest) == equal
        start = done()
        run = pool.submit(fio, guest)
        until(lambda: done() > start + 50, within=60)
        began = time.monotonic()
        looks(daemon, 6)
        assert iops(guest) == one_busy
        time.sleep(max(0.0, LATE + 2 - (time.monotonic() - began)))
        looks(daemon, 6)
        assert iops(guest) == both_busy
        sharers = (guest, idle) if whose == "project" else (guest,)
        assert sum(iops(*sharers)) == SHARED
        requests = run.result()
    print(whose, requests / LASTS, "requests a second of", SHARED)
    assert requests <= SHARED * LASTS * 1.03
