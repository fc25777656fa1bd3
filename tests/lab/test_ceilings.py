"""Disks that share a ceiling: what a real QEMU lets through."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.ceilings.buckets import CeilingKey, Shared, Sharer, Sharing, Whose, group_of, step, within
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from tests.lab.test_throttle import Qemu

CEILING = Limits(total_iops_sec=60)
OWN = Limits(total_iops_sec=50)
PERIOD, PERIODS, DEPTH = 6.0, 6, 120
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
