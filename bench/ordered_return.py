"""OSDs of a host that return all at once, and in waves: ``PLIMSOLL_LAB_OSDS=12 script/bench ordered_return``.

A host's OSDs are killed, objects are written, and they return: all at once without a bound, all at once into a memory
cgroup that has a part of what they took then, and in waves into the same. One client writes an object of 4 KiB after
the other: its longest wait is what a guest would feel.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.lab import in_lab, say
from lab import osdhost
from lab.cloud import Cloud, LabError
from lab.cloud.cephconf import OSDS
from lab.node import Node

HOST = "lab-a"
POOL = "returning"
PATIENCE = 900.0
MIB = 2**20
ROW = "{:<8} {:>6} {:>7} {:>8} {:>9} {:>9}  {}"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench ordered_return", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of each way; default: 3")
    parser.add_argument("--objects", type=int, default=5000, help="written in peace, and while they are away")
    parser.add_argument("--room", type=float, default=0.85, help="of what they take without a bound; default: 0.85")
    parser.add_argument("--bound", type=int, metavar="MIB", help="of the host, instead of a part of what is measured")
    parser.add_argument("--groups", type=int, default=64, help="placement groups of the pool")
    parsed = parser.parse_args(words)
    if len(OSDS) < 6:
        parser.error("set PLIMSOLL_LAB_OSDS=12: a wave of one OSD is no order")
    return in_lab(lambda cloud: _all(cloud, parsed), ("ceph",))


def _all(cloud: Cloud, parsed: argparse.Namespace) -> None:
    cloud.ceph.run("osd", "pool", "create", POOL, str(parsed.groups))
    cloud.ceph.run("osd", "pool", "application", "enable", POOL, "rbd")
    write(cloud, parsed.objects)
    cloud.ceph.wait_healthy(PATIENCE)
    say(f"{len(OSDS)} OSDs; those of {HOST} hold {sum(held().values()) / MIB:.0f} MiB in peace")
    say(ROW.format("way", "killed", "stall s", "clean s", "peak MiB", "load", ""))
    for _ in range(parsed.runs):
        bound = (parsed.bound or 0) * MIB
        if not bound:
            with osdhost.bounded({HOST: 2**40}):
                bound = int(parsed.room * one(cloud, parsed.objects, "free"))
        for way in ("waves", "at once"):
            with osdhost.bounded({HOST: bound}):
                one(cloud, parsed.objects, way)


def one(cloud: Cloud, objects: int, way: str) -> int:
    """The most that its OSDs held."""
    daemons = [cloud.ceph.daemon(f"osd.{osd}") for osd in osdhost.osds(HOST)]
    for daemon in daemons:
        daemon.kill()
    wait(lambda: cloud.ceph.status()["osdmap"]["num_up_osds"] == len(OSDS) - len(daemons))
    write(cloud, objects)
    with tempfile.TemporaryDirectory() as home, client(cloud) as stalls, peaks() as most:
        began, said = time.monotonic(), ""
        if way == "waves":
            ran = Node(Path(home), cloud).run(
                "return", "run", "--yes", "--id", "admin", "--on-host", osdhost.words(), "--steady", "5s",
                "--reserve", "0", "--when-full", "restart", "--patience", "120s", timeout=PATIENCE,
            )  # fmt: skip
            lines = (ran.out + ran.err).splitlines()
            said = " | ".join(line for line in lines
                              if re.search(r"holds|restarts osd|Peaks|at most", line))  # fmt: skip
        else:
            for osd in osdhost.osds(HOST):
                osdhost.main(HOST, "systemctl", "start", f"ceph-osd@{osd}.service")
            until_settled(cloud)
        clean = is_clean(cloud)
        took, killed = time.monotonic() - began, osdhost.kills(HOST)
    with Path("/proc/loadavg").open() as file:
        load = file.read().split()[0]
    stall, whole = f"{stalls.longest:.1f}", f"{took:.0f}" if clean else "never"
    say(ROW.format(way, killed, stall, whole, f"{most.peak / MIB:.0f}", load, said))
    (osdhost.group(HOST) / "memory.limit_in_bytes").write_text(str(2**40))
    for daemon in daemons:
        daemon.heal()
    cloud.ceph.wait_healthy(PATIENCE)
    return most.peak


def until_settled(cloud: Cloud) -> None:
    """All is clean, or an OSD was killed and nothing changes any more."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and not is_clean(cloud):
        if osdhost.kills(HOST) and cloud.ceph.status()["osdmap"]["num_up_osds"] < len(OSDS):
            time.sleep(20)
            return
        time.sleep(1)


def is_clean(cloud: Cloud) -> bool:
    status = cloud.ceph.status()
    states = {each["state_name"] for each in status["pgmap"]["pgs_by_state"]}
    return states == {"active+clean"} and status["osdmap"]["num_up_osds"] == len(OSDS)


def wait(true: object) -> None:
    end = time.monotonic() + PATIENCE
    while not true():  # type: ignore[operator]
        if time.monotonic() > end:
            raise LabError("the OSDs are not down")
        time.sleep(0.5)


def write(cloud: Cloud, objects: int) -> None:
    """New ones of 4 KiB."""
    cloud.ceph._run(
        "rados", "-c", str(cloud.ceph.conf), "-p", POOL, "bench", "600", "write", "-b", "4096", "-t", "32",
        "--max-objects", str(objects), "--no-cleanup", "--run-name", f"run-{time.monotonic_ns()}", timeout=PATIENCE,
    )  # fmt: skip


def held() -> dict[int, int]:
    from plimsoll_insight.ordered_return.hosts import PROCESSES, resident

    return resident("".join(osdhost._processes(HOST, PROCESSES[1:])))


@dataclass
class Stalls:
    longest: float = 0.0


@contextmanager
def client(cloud: Cloud) -> Iterator[Stalls]:
    """Writes one object at a time, and knows how long the slowest took."""
    argv = ["rados", "-c", str(cloud.ceph.conf), "-p", POOL, "bench", "3600", "write", "-b", "4096", "-t", "1",
            "--no-cleanup", "--run-name", f"client-{time.monotonic_ns()}"]  # fmt: skip
    stalls = Stalls()
    last = time.monotonic()

    def read() -> None:
        nonlocal last
        assert process.stdout is not None
        before = 0
        for line in process.stdout:
            words = line.split()
            if len(words) >= 4 and words[0].isdigit() and words[3].isdigit():
                finished, now = int(words[3]), time.monotonic()
                if finished > before:
                    before, last = finished, now
                stalls.longest = max(stalls.longest, now - last)

    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        thread = threading.Thread(target=read)
        thread.start()
        try:
            time.sleep(3)
            stalls.longest = 0.0
            yield stalls
        finally:
            process.kill()
            thread.join()


@dataclass
class Peak:
    peak: int = 0


@contextmanager
def peaks() -> Iterator[Peak]:
    most, over = Peak(), threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            most.peak = max(most.peak, sum(held().values()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()
