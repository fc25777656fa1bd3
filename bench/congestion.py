"""A real Ceph that can do less than its limits allow: ``script/bench congestion``.

A guest reads from four disks with shares 1, 1, 2 and 4 as fast as it may, and 20 times a second from a fifth one, the
light one. A delay bounds what each OSD serves: first more than all limits together, then less. Each arm moves x, from
the latency that QEMU counts of the light disk; the daemon of a node writes the limits. Periods are of a few seconds,
so a run takes minutes. ``plimsoll simulate`` is told what the OSDs can do, and its x and latency stand beside.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from bench.lab import in_lab, say
from bench.ways import PLIMSOLL
from lab.cloud import Cloud, Guest
from lab.cloud.cephconf import OSDS
from lab.cloud.disk import volume
from lab.congested import Congested
from lab.daemon import daemon_on
from lab.others import others_writes
from lab.waiting import until
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.congestion.law import TUNING, ClassState, Signal
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.simulate.arms import ARMS
from plimsoll_insight.simulate.results import jain

SHARES = (1, 1, 2, 4)
DESIRED, FLOOR, LIGHT = 60, 6, 20
"""Requests a second: of each heavy disk, of these at least, and of the light one, whose limit is far above."""
QUEUE = 8
SETTLE = ("aimd", "plimsoll")
"""Arms that need all periods; the others are what they are at once."""
SIZE = 128 * 2**20
ROW = "{:<9} {:>5} {:>8} {:>8} {:>13} {:>6} {:>7} {:>6} {:>6}"
PATIENCE = 120.0


@dataclass(frozen=True)
class Run:
    """Of one arm, in its last third: seconds, requests a second."""

    arm: str
    x: float
    mean: float
    p99: float
    rates: tuple[float, ...]
    near: int | None
    """Periods until the latency was below 1.25 times the objective."""
    swing: float

    @property
    def jain(self) -> float | None:
        """Of rate over share, of disks with more than their floor and less than their desired limit."""
        parts = [
            rate / share for rate, share in zip(self.rates, SHARES, strict=True)
            if 1.1 * FLOOR < rate < 0.9 * DESIRED
        ]  # fmt: skip
        return jain(parts)

    def show(self) -> None:
        heavy = "+".join(f"{rate:.0f}" for rate in self.rates)
        near = "never" if self.near is None else str(self.near)
        index = "-" if self.jain is None else f"{self.jain:.3f}"
        say(ROW.format(self.arm, f"{self.x:.2f}", f"{self.mean * 1000:.0f}", f"{self.p99 * 1000:.0f}", heavy,
                       index, near, f"{self.swing:.0%}", f"{os.getloadavg()[0]:.1f}"))  # fmt: skip


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench congestion", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of nothing and of plimsoll; default: 5")
    parser.add_argument("--arms", nargs="*", default=["nothing", "half", "aimd", "plimsoll"], choices=ARMS)
    parser.add_argument("--period", type=float, default=5.0, help="seconds; default: 5")
    parser.add_argument("--periods", type=int, default=36, help="of a run that settles; default: 36")
    parser.add_argument("--multiple", type=float, default=6.0, help="of the usual latency, the objective; default: 6")
    parser.add_argument("--meanwhile", choices=TROUBLES, help="what happens after a third of a run, to its end")
    parser.add_argument("--course", action="store_true", help="say x and the latency in ms of each period")
    parser.add_argument("--well", type=int, default=280, help="requests a second of an OSD; default: 280")
    parser.add_argument("--congested", type=int, default=55, help="of one in congestion; default: 55")
    parsed = parser.parse_args(words)
    return in_lab(lambda cloud: _all(cloud, parsed))


def _all(cloud: Cloud, parsed: argparse.Namespace) -> None:
    guest = cloud.booted_guest()
    _shrinkable(cloud)
    bench = Bench(cloud, guest, parsed)
    objective = parsed.multiple * bench.usual()
    say(f"{len(OSDS)} OSDs; the objective is {objective * 1000:.0f} ms, {parsed.multiple:g} times the usual latency")
    say(ROW.format("arm", "x", "mean ms", "p99 ms", "heavy/s", "Jain", "periods", "swing", "load"))
    runs: list[Run] = []
    for number in range(parsed.runs):
        for arm in parsed.arms:
            if number == 0 or arm in ("nothing", "plimsoll"):
                runs.append(bench.run(arm, objective))
    for arm in parsed.arms:
        x, mean = simulated(arm, objective, parsed)
        its = [run for run in runs if run.arm == arm]
        say(f"{arm}: x {median(run.x for run in its):.2f} and {median(run.mean for run in its) * 1000:.0f} ms;"
            f" simulated {x:.2f} and {mean * 1000:.0f} ms")  # fmt: skip
    theirs = [[run.p99 for run in runs if run.arm == arm] for arm in ("plimsoll", "nothing")]
    if all(theirs):
        ratios = ", ".join(f"{ours / nothing:.2f}" for ours, nothing in zip(*theirs, strict=True))
        say(f"p99 of the light disk, by that of nothing: {ratios}")


# --- Ceph made small


def _shrinkable(cloud: Cloud) -> None:
    """One thread of an OSD takes all requests, so that a delay of each bounds how many it serves, and all OSDs are
    asked alike.
    """
    conf = cloud.ceph.conf
    name = "ms async op threads"
    conf.write_text(re.sub(rf"(?m)^{name} = .*$", f"{name} = 1", conf.read_text()))
    for number in OSDS:
        cloud.ceph.daemon(f"osd.{number}").kill()
    cloud.ceph.heal()
    for name in ("pg_num", "pgp_num"):
        cloud.ceph.run("osd", "pool", "set", "volumes", name, "64")
    cloud.ceph.wait_healthy(PATIENCE)


@contextmanager
def bounded(cloud: Cloud, requests: int) -> Iterator[None]:
    """Each OSD serves so many reads a second, each of which is delayed twice."""
    name = "osd_debug_inject_dispatch_delay"
    cloud.ceph.run("config", "set", "osd", f"{name}_duration", f"{1 / requests / 2:.6f}")
    cloud.ceph.run("config", "set", "osd", f"{name}_probability", "1")
    try:
        yield
    finally:
        cloud.ceph.run("config", "rm", "osd", f"{name}_probability")


@contextmanager
def osd_out(cloud: Cloud) -> Iterator[None]:
    """Its objects are recovered elsewhere."""
    cloud.ceph.run("osd", "out", "0")
    try:
        yield
    finally:
        cloud.ceph.run("osd", "in", "0")
        cloud.ceph.wait_healthy(PATIENCE)


@contextmanager
def foreign_load(cloud: Cloud) -> Iterator[None]:
    """Of a client that no limit of plimsoll is for."""
    with others_writes(cloud, "--io-threads", "16"):
        yield


TROUBLES = {"osd-out": osd_out, "foreign-load": foreign_load}


# --- runs


class Bench:
    def __init__(self, cloud: Cloud, guest: Guest, parsed: argparse.Namespace) -> None:
        self._cloud, self._guest, self._parsed = cloud, guest, parsed
        self._hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=4)
        disks = [volume() for _ in (*SHARES, LIGHT)]
        self._targets = [guest.attach(disk) for disk in disks]
        self._ids = [disk.image.volume_id for disk in disks]
        fill = [f"--name=fill-{target} --filename=/dev/{target} --rw=write --bs=1M" for target in self._targets]
        self._fio(PATIENCE, *" ".join(fill).split())

    def _rules(self, arm: str) -> str:
        """``half`` knows no shares."""
        rules = [
            {"name": f"share {share} of {id}", "match": {"volume": id},
             "congestion": {"floor": {"total_iops_sec": FLOOR}, "share": 1 if arm == "half" else share}}
            for share, id in zip(SHARES, self._ids, strict=False)
        ]  # fmt: skip
        return json.dumps({"default": {"limits": {"total_iops_sec": DESIRED}}, "rules": rules})

    def usual(self) -> float:
        """Seconds that a request of the light disk takes while nothing is congested."""
        seconds = 6 * self._parsed.period
        with bounded(self._cloud, self._parsed.well), self._limited("nothing"), self._load(seconds):
            before = self._counters()[-1]
            time.sleep(seconds * 0.6)
            return latency(before, self._counters()[-1])

    def run(self, arm: str, objective: float) -> Run:
        parsed = self._parsed
        tuning = replace(TUNING, period=parsed.period, delay=1)
        state, means, xs = ClassState(), list[float](), list[float]()
        periods = parsed.periods if arm in SETTLE else parsed.periods // 3
        settled, seconds = periods * 2 // 3, parsed.period * periods
        with (
            self._limited(arm) as there,
            bounded(self._cloud, parsed.congested),
            self._load(seconds) as job,
            ExitStack() as trouble,
        ):
            before = middle = self._counters()
            for number in range(periods):
                if number == periods // 3 and parsed.meanwhile:
                    trouble.enter_context(TROUBLES[parsed.meanwhile](self._cloud))
                if number == settled:
                    middle = before
                time.sleep(parsed.period)
                now = self._counters()
                means.append(latency(before[-1], now[-1]))
                rate = sum(rates(before[:-1], now[:-1], parsed.period))
                before = now
                signal = None if means[-1] == inf else Signal(latency=means[-1], rate=rate)
                state = ARMS[arm](state, signal, objective, tuning)
                xs.append(state.x)
                there.publish(state.x)
            saw = job.result()
        last = xs[settled:]
        run = Run(
            arm=arm,
            x=median(last),
            mean=latency(middle[-1], before[-1]),
            p99=saw["clat_ns"]["percentile"]["99.000000"] / 1e9,
            rates=rates(middle[:-1], before[:-1], parsed.period * (periods - settled)),
            near=next((number for number, each in enumerate(means) if each < 1.25 * objective), None),
            swing=(max(last) - min(last)) / median(last),
        )
        run.show()
        if parsed.course:
            each = zip(xs, means, strict=True)
            say("  " + " ".join(f"{x:.2f}:{1000 * mean:.0f}" for x, mean in each))
        return run

    @contextmanager
    def _limited(self, arm: str) -> Iterator[Congested]:
        """A node of its own: a factor changes a number of times an hour only."""
        with tempfile.TemporaryDirectory() as directory:
            there = Congested(Path(directory), self._cloud, self._rules(arm))
            there.publish(1)
            with daemon_on(there.node):
                yield there

    @contextmanager
    def _load(self, seconds: float) -> Iterator[Future[Any]]:
        """From the time at which all disks are read; what fio says of the last third of the light one."""
        *heavy, light = self._targets
        jobs = [f"--name={each} --filename=/dev/{each} --iodepth={QUEUE} --runtime={seconds:.0f}" for each in heavy]
        paced = f"--filename=/dev/{light} --iodepth={QUEUE} --rate_iops={LIGHT} --rate_process=poisson"
        begin = round(seconds * 2 / 3)
        jobs += [f"--name=settling {paced} --runtime={begin}"]
        jobs += [f"--name=settled {paced} --startdelay={begin} --runtime={seconds / 3:.0f}"]
        reads = " ".join(f"{job} --rw=randread" for job in jobs).split()
        with ThreadPoolExecutor() as pool:
            before = self._counters()
            job = pool.submit(self._fio, seconds + PATIENCE, "--bs=4k", "--time_based", *reads)
            until(lambda: job.done() or all(rates(before, self._counters(), 1)), PATIENCE)
            yield job

    def _fio(self, timeout: float, *words: str) -> Any:
        """What it says of its last job's reads."""
        usual = ["--thread", "--direct=1", "--ioengine=libaio", f"--size={SIZE}"]
        return self._guest.fio([*usual, *words], timeout)[-1]["read"]

    def _counters(self) -> list[BlockStats]:
        """Of the light disk last."""
        every = self._hypervisor.block_stats(self._guest.uuid, self._targets)
        return [every[target] for target in self._targets]


def rates(before: Sequence[BlockStats], after: Sequence[BlockStats], seconds: float) -> tuple[float, ...]:
    return tuple((now.read_requests - then.read_requests) / seconds for then, now in zip(before, after, strict=True))


def latency(before: BlockStats, after: BlockStats) -> float:
    """Seconds of a request, on average; inf where none ended."""
    done = after.since(before)
    if done is None or not done.read_requests or done.nanoseconds is None:
        return inf
    return done.nanoseconds / done.read_requests / 1e9


def simulated(arm: str, objective: float, parsed: argparse.Namespace) -> tuple[float, float]:
    """x and the light disk's mean latency in the last third of such a run."""
    heavy = [
        {"name": f"share {share}", "guests": SHARES.count(share), "queue": QUEUE, "writes": "0%",
         "limits": {"total_iops_sec": DESIRED},
         "congestion": {"floor": {"total_iops_sec": FLOOR}, "share": share}}
        for share in sorted({*SHARES})
    ]  # fmt: skip
    light = {"name": "light", "guests": 1, "iops": LIGHT, "writes": "0%", "limits": {"total_iops_sec": DESIRED},
             "light": True}  # fmt: skip
    served = f"{1000 / parsed.congested:.3f}ms"
    text = json.dumps({
        "title": "as the lab", "duration": f"{parsed.period * parsed.periods:g}s", "period": f"{parsed.period:g}s",
        "warm_up": f"{parsed.period * (parsed.periods * 2 // 3):g}s",
        "cluster": {"hosts": len(OSDS), "osds_per_host": 1, "servers": 1, "read": served, "write": served,
                    "service": "fixed", "copies": 2},
        "disks": [light, *heavy],
        "congestion": {"objective": f"{objective * 1000:.3f}ms", "arms": [arm]},
    })  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        words = [PLIMSOLL, "simulate", file.name, "-f", "json"]
        rows = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    mean = next(row["mean"] for row in rows if row["disks"] == "light")
    limits = [each["total_iops_sec"] for row in rows if row["disks"] == "share 1" for each in row["periods"]]
    return median(limits[len(limits) * 2 // 3 :]) / DESIRED, mean
