"""A replay against the truth: known loads are recorded, limits change, and the same loads come again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.disk import volume
from lab.cloud.prometheus import Prometheus
from lab.node import Node
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.monitor import metrics
from tests import depth

pytestmark = pytest.mark.quiet

RUNS = depth.count(quick=0, landing=0, soak=1)
SECONDS = 1200
"""How long the loads run, under either limits."""
STEP = 5
"""Seconds from one pass to the next: an average is over so many."""
SOON = 30.0
TOLERANCE, ROOM = 0.2, 0.03
"""Of a figure; and of a share, which may be 0."""
EVENLY = "--rate_iops={} --iodepth=8"
IN_BURSTS = "--rate_iops=60 --iodepth=8 --thinktime=20s --thinktime_blocks=600 --rate_ignore_thinktime=1"


@dataclass(frozen=True)
class Case:
    """What a disk does (words of fio), and its limits before and after."""

    load: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    size: str = "4k"


SIZED = {"size_iops_sec": 4096}
CASES = {
    "steady, below both": Case(EVENLY.format(40), {"total_iops_sec": 100}, {"total_iops_sec": 60}),
    "steady, above": Case(EVENLY.format(60), {"total_iops_sec": 100}, {"total_iops_sec": 40}),
    "closed loop at its limit": Case("--iodepth=4", {"total_iops_sec": 80}, {"total_iops_sec": 50}),
    "closed loop, raised": Case("--iodepth=1 --thinktime=25ms", {"total_iops_sec": 20}, {"total_iops_sec": 80}),
    "bursts": Case(IN_BURSTS, {"total_iops_sec": 100}, {"total_iops_sec": 40}),
    "bursts with a length": Case(
        IN_BURSTS,
        {"total_iops_sec": 100},
        {"total_iops_sec": 30, "total_iops_sec_max": 50, "total_iops_sec_max_length": 5},
    ),
    "bursts at their limit, raised": Case(IN_BURSTS, {"total_iops_sec": 40}, {"total_iops_sec": 100}),
    "large requests count several times": Case(
        EVENLY.format(20), {"total_iops_sec": 200} | SIZED, {"total_iops_sec": 60} | SIZED, size="16k"
    ),
    "large requests below": Case(
        EVENLY.format(8), {"total_iops_sec": 200} | SIZED, {"total_iops_sec": 60} | SIZED, size="16k"
    ),
}


@dataclass
class Plant:
    node: Node
    prometheus: Prometheus
    disks: dict[str, tuple[Guest, str, str]] = field(default_factory=dict)
    """By the name of the case: the guest, the target and the volume."""

    def rules(self, which: str) -> str:
        return "rules:\n" + "".join(
            f"  - {{name: r{number}, match: {{volume: {self.disks[name][2]}}}, override: true,"
            f" limits: {json.dumps(dict(getattr(case, which)))}}}\n"
            for number, (name, case) in enumerate(CASES.items())
        )

    def record(self, which: str, seconds: float) -> dict[str, float]:
        """Has the loads under these limits; returns the requests a second that QEMU has served, by the name."""
        self.node.write_rules(self.rules(which))
        self._pass()
        with ExitStack() as stack:
            for name, case in CASES.items():
                stack.enter_context(self._loaded(name, case))
            first, start = self._served(), time.monotonic()
            while time.monotonic() < start + seconds:
                began = time.monotonic()
                self._pass()
                time.sleep(max(STEP - (time.monotonic() - began), 0))
            last, period = self._served(), time.monotonic() - start
        return {name: (last[name] - first[name]) / period for name in last}

    def _served(self) -> dict[str, int]:
        return {name: guest.domain().blockStats(target)[0] for name, (guest, target, _) in self.disks.items()}

    def _pass(self) -> None:
        ran = self.node.run("enforce")
        assert ran.status == 0, ran.out + ran.err

    @contextmanager
    def _loaded(self, name: str, case: Case) -> Iterator[None]:
        guest, target, _ = self.disks[name]
        words = f"fio --name=w --filename=/dev/{target} --size=64M --readonly --rw=randread --direct=1"
        words += f" --ioengine=libaio --bs={case.size} --time_based --runtime=36000 {case.load}"
        said(guest, f"{words} >/run/{target}.out 2>&1 & echo $! >/run/{target}.pid; sleep 2; kill -0 $!")
        try:
            yield
        finally:
            said(guest, f"kill $(cat /run/{target}.pid); true")

    def replay(self, rules: Path) -> dict[str, dict[str, Any]]:
        """By the name of the case; of the last hour, of which what was recorded is known."""
        rules.write_text(self.rules("after"))
        ran = self.node.run(
            *("simulate", "--from-prometheus", self.prometheus.url, "--since", "1h", "--step", str(STEP)),
            *("--rules", str(rules), "--by", "disk", "-f", "json"),
        )
        assert ran.status == 2, ran.out + ran.err
        rows = {(row["guest_uuid"], row["disk"]): row for row in ran.data()}
        return {name: rows[guest.uuid, target] for name, (guest, target, _) in self.disks.items()}

    def at_limit(self, seconds: float) -> dict[str, float]:
        """The share of the time, of this time until now."""
        each = f"max by (uuid, target_device) ({metrics.DISK_AVERAGE_LIMIT_RATIO} >= bool {AT_LIMIT_RATIO})"
        found = {
            (labels["uuid"], labels["target_device"]): value
            for labels, value in self.prometheus.query(f"avg_over_time(({each})[{seconds:.0f}s:{STEP}s])")
        }
        return {name: found[guest.uuid, target] for name, (guest, target, _) in self.disks.items()}


def said(guest: Guest, words: str) -> None:
    done = guest.exec(["sh", "-c", words], timeout=120)
    assert done.exit_code == 0, done.err


@pytest.fixture
def plant(tmp_path: Path, cloud: Cloud, prometheus: Prometheus, booted: Guest, other: Guest) -> Iterator[Plant]:
    node = Node(tmp_path, cloud)
    prometheus.forget(SOON)
    node.use_metrics(prometheus.textfiles("node-1"))
    plant = Plant(node, prometheus)
    for number, name in enumerate(CASES):
        guest, disk = (booted, other)[number % 2], volume()
        plant.disks[name] = guest, guest.attach(disk), disk.image.volume_id or ""
    yield plant
    for guest, target, _ in plant.disks.values():
        guest.detach(target)
    prometheus.clear()


@pytest.mark.timeout(2 * SECONDS + 1200)
@pytest.mark.parametrize("_", range(RUNS))
def test_what_is_replayed_is_what_happens_under_the_new_limits(_: int, plant: Plant, tmp_path: Path) -> None:
    plant.record("before", SECONDS)
    rows = plant.replay(tmp_path / "after.yaml")
    served = plant.record("after", SECONDS)
    at_limit = plant.at_limit(SECONDS - 2 * STEP)
    wrong = []
    for name, row in rows.items():
        share, rate = row["at_limit_after"], row["served_after"]
        words = (
            f"{name}: at limit {row['at_limit_before']:.2f}, then {share['low']:.2f} to {share['high']:.2f} replayed,"
            f" {at_limit[name]:.2f} measured; {row['served_before']:.1f} a second, then {rate['low']:.1f} to"
            f" {rate['high']:.1f} replayed, {served[name]:.1f} measured"
        )
        print(words)
        if not (holds(share, at_limit[name]) and holds(rate, served[name])):
            wrong.append(words)
    assert not wrong


def holds(span: Mapping[str, float], value: float) -> bool:
    return span["low"] * (1 - TOLERANCE) - ROOM <= value <= span["high"] * (1 + TOLERANCE) + ROOM
