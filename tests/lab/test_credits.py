"""Bursts as long as what is saved of them: QEMU in a storm of writes, and an idle hour spent by a real guest."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.looking import actual, put
from lab.node import Node, only
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.credits.ledger import Account, Member, affordable, brought_forward, written
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Reading
from plimsoll_probes.guest import fio
from plimsoll_probes.model.job import Job, JobName
from tests.depth import count
from tests.lab.test_throttle import Qemu

pytestmark = pytest.mark.quiet

BURST = Limits(total_iops_sec=4, total_iops_sec_max=20, total_iops_sec_max_length=20)
CAPACITY = 400
SECONDS = 32
DISKS = 5
DEPTH = 8


@dataclass
class Storm:
    """Writes to one disk at random times; ``saves`` writes the burst as saved, else all of it."""

    number: int
    saves: bool = True
    chance: random.Random = field(default_factory=lambda: random.Random(37))
    account: Account | None = None
    sent: int = 0
    due: float = 0.0

    def step(self, qemu: Qemu, now: float, done: int) -> None:
        if now >= self.due:
            self._write(qemu, now, done)
            self.due = now + self.chance.uniform(1, 5)
        while self.sent - done < DEPTH:
            qemu.send(self.number, 4096, False)
            self.sent += 1

    def _write(self, qemu: Qemu, now: float, done: int) -> None:
        reading = Reading(now, BlockStats(read_requests=done, read_bytes=0, write_requests=0, write_bytes=0))
        member = Member(key="a", attachment="1", actual=BURST, applied=BURST, desired=BURST, reading=reading)
        account = brought_forward(self.account, BURST, [member])
        assert account is not None
        limits = affordable(BURST, account) if self.saves else BURST
        qemu.limit(self.number, limits, f"group{self.number}")
        if self.account is None or self.chance.random() > 0.2:  # else the pass is killed before it saves
            self.account = written(account, limits)


@pytest.mark.timeout(180)
def test_in_a_storm_of_writes_qemu_lets_through_what_was_earned(tmp_path: Path) -> None:
    storms = [Storm(number, chance=random.Random(number)) for number in range(DISKS)]
    storms[-1].saves = False
    with Qemu(tmp_path, DISKS) as qemu:
        began = time.monotonic()
        while (now := time.monotonic() - began) < SECONDS:
            done = [reads for reads, _ in qemu.requests()]
            for storm in storms:
                storm.step(qemu, now, done[storm.number])
            time.sleep(0.02)
        done = [reads for reads, _ in qemu.requests()]
    ratios = [round(each / (CAPACITY + 4 * now), 3) for each in done]
    print(f"{qemu.version}: granted over earned {ratios[:-1]}; the whole burst at each write: {ratios[-1]}")
    assert ratios[-1] > 1.1, "these writes would have shown it"
    assert all(0.94 <= ratio <= 1.005 for ratio in ratios[:-1]), ratios


HOURS = count(quick=0, landing=0, soak=1)
RULES = """\
rules:
  - name: credits
    match: {kind: volume}
    limits: {total_iops_sec: 10}
    override: true
    credits: {total_iops_sec_max: 400, capacity: 400000}
"""
EARNED = 36_000
FILE, SIZE = "/mnt/volume/credits-test", 2**26


@pytest.mark.parametrize("hour", range(HOURS))
@pytest.mark.timeout(900)
def test_an_idle_hour_is_a_burst_of_the_length_that_explain_states(
    hour: int, tmp_path: Path, cloud: Cloud, booted: Guest, hypervisor: Libvirt
) -> None:
    """The hour is one of the account alone: its file says that it spent all an hour ago."""
    node = Node(tmp_path, cloud, RULES)
    fill = ["fio", "--name=fill", f"--filename={FILE}", f"--size={SIZE}", "--rw=write", "--bs=1M", "--direct=1"]
    put(hypervisor, booted.uuid, "vdb", Limits())
    assert booted.exec(fill, timeout=300).exit_code == 0
    for _ in range(2):
        assert node.run("enforce", *only(booted)).status == 0
    data = json.loads(node.state.credits.read_text())
    (account,) = (each for each in data["accounts"].values() if each["buckets"])
    account["buckets"]["total_iops_sec"]["spent"] = 400_000
    account["at"] -= 3600
    node.state.credits.write_text(json.dumps(data))
    put(hypervisor, booted.uuid, "vdb", Limits(total_iops_sec=5))  # reverted, with the burst as saved
    assert node.run("enforce", *only(booted)).status == 0
    length = actual(hypervisor, booted.uuid, "vdb").total_iops_sec_max_length
    assert length * 400 == pytest.approx(EARNED, rel=0.02)
    print(node.run("disk", "explain", booted.uuid, "vdb").out)

    def run(seconds: int) -> int:
        job = Job(name=JobName.READ, seconds=seconds, file_size=SIZE)
        text = fio.job_file(job, FILE, None, "libaio")
        completed = booted.exec(list(fio.ARGV), timeout=seconds * 3 + 60, input=text)
        flow = fio.parse(completed.out or completed.err, job, engine="libaio").read
        assert flow is not None
        return flow.operations

    began = time.monotonic()
    burst = run(80)
    assert burst == pytest.approx(80 * 400, rel=0.05)
    rest, seconds = run(60), time.monotonic() - began
    print(f"{burst} in 80 s, then {rest} in 60 s")
    assert burst + rest == pytest.approx(EARNED + 10 * seconds, rel=0.05)
    put(hypervisor, booted.uuid, "vdb", Limits())
