"""OSDs of a host that return all at once, and in waves: ``PLIMSOLL_LAB_OSDS=24 script/bench ordered_return``.

A host's OSDs are killed, all objects are written again, and they return: all at once without a bound, all at once
into a memory cgroup that has a part of what they took then, and in waves into the same. One client writes 4 KiB into
one object after the other: its longest wait is what a guest would feel. The command has a higher priority than the
OSDs, as an admin host does not share their cores.
"""

from __future__ import annotations

import argparse
import os
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
from lab.cloud.cephclient import DEBIANS_PYTHON
from lab.cloud.cephconf import OSDS
from lab.cloud.layout import CHECKOUT
from lab.cloud.release import program
from lab.node import Node

HOST = "lab-a"
POOL = "returning"
PATIENCE = 900.0
PRIORITY = -10
MIB = 2**20
ROW = "{:<8} {:>6} {:>7} {:>8} {:>9} {:>9} {:>6}"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench ordered_return", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of each way; default: 3")
    parser.add_argument("--objects", type=int, default=1200, help="of 4 MiB; default: 1200")
    parser.add_argument("--room", type=float, default=0.75, help="of what they take without a bound; default: 0.75")
    parser.add_argument("--bound", type=int, metavar="MIB", help="of the host, instead of a part of what is measured")
    parser.add_argument("--groups", type=int, default=512, help="placement groups; default: 512")
    parser.add_argument("--per-host", type=int, default=4, help="OSDs of a wave; default: 4")
    parsed = parser.parse_args(words)
    if len(OSDS) < 6:
        parser.error("set PLIMSOLL_LAB_OSDS=24: a wave of one OSD is no order")
    return in_lab(lambda cloud: _all(cloud, parsed), ("ceph",))


def _all(cloud: Cloud, parsed: argparse.Namespace) -> None:
    cloud.ceph.run("osd", "pool", "create", POOL, str(parsed.groups))
    cloud.ceph.run("osd", "pool", "application", "enable", POOL, "rbd")
    cloud.ceph.wait_healthy(PATIENCE)
    fill(cloud, parsed.objects)
    cloud.ceph.wait_healthy(PATIENCE)
    say(f"{len(OSDS)} OSDs; those of {HOST} hold {sum(held().values()) / MIB:.0f} MiB in peace")
    say(ROW.format("way", "killed", "stall s", "clean s", "peak MiB", "bound MiB", "load"))
    for _ in range(parsed.runs):
        bound = (parsed.bound or 0) * MIB
        if not bound:
            with osdhost.bounded({HOST: 2**40}):
                bound = int(parsed.room * one(cloud, parsed, "free"))
        for way in ("waves", "at once"):
            with osdhost.bounded({HOST: bound}):
                one(cloud, parsed, way, f"{bound / MIB:.0f}")


def one(cloud: Cloud, parsed: argparse.Namespace, way: str, bound: str = "") -> int:
    """The most that its OSDs held."""
    daemons = [cloud.ceph.daemon(f"osd.{osd}") for osd in osdhost.osds(HOST)]
    for daemon in daemons:
        daemon.kill()
    wait(lambda: cloud.ceph.status()["osdmap"]["num_up_osds"] == len(OSDS) - len(daemons))
    fill(cloud, parsed.objects)
    with tempfile.TemporaryDirectory() as home, client(cloud, parsed.objects) as stalls, peaks() as most:
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        began, said = time.monotonic(), ""
        if way == "waves":
            ran = Node(Path(home), cloud).run(
                "return", "run", "--yes", "--id", "admin", "--on-host", osdhost.words(), "--steady", "4s",
                "--interval", "1s", "--per-host", str(parsed.per_host), "--reserve", "0", "--when-full", "restart",
                "--patience", "120s", timeout=PATIENCE,
            )  # fmt: skip
            lines = (ran.out + ran.err).splitlines()
            said = "\n".join(f"  {line}" for line in lines
                             if re.search(r"holds:|starts osd|at most|Peaks|done|refuse|rror", line))  # fmt: skip
        else:
            for osd in osdhost.osds(HOST):
                osdhost.main(HOST, "systemctl", "start", f"ceph-osd@{osd}.service")
            until_settled(cloud)
        clean = is_clean(cloud)
        took, killed = time.monotonic() - began, osdhost.kills(HOST)
    with Path("/proc/loadavg").open() as file:
        load = file.read().split()[0]
    stall, whole = f"{stalls.longest:.1f}", f"{took:.0f}" if clean else "never"
    say(ROW.format(way, killed, stall, whole, f"{most.peak / MIB:.0f}", bound, load))
    if said:
        say(said)
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
    # A placement group that is scrubbed is clean, too.
    states = (each["state_name"].split("+") for each in status["pgmap"]["pgs_by_state"])
    return all({"active", "clean"} <= set(words) for words in states) and status["osdmap"]["num_up_osds"] == len(OSDS)


def wait(true: object) -> None:
    end = time.monotonic() + PATIENCE
    while not true():  # type: ignore[operator]
        if time.monotonic() > end:
            raise LabError("the OSDs are not down")
        time.sleep(0.5)


def objects(cloud: Cloud, *way: object) -> list[str]:
    words = (DEBIANS_PYTHON, CHECKOUT / "bench/objects.py", cloud.ceph.conf, POOL, *way)
    return program([str(word) for word in words], cloud.layout.cache)


def fill(cloud: Cloud, number: int) -> None:
    """Each object, whole."""
    subprocess.run(objects(cloud, "fill", number, 4 * MIB), check=True, timeout=PATIENCE)


def held() -> dict[int, int]:
    from plimsoll_insight.ordered_return.hosts import PROCESSES, resident

    return resident("".join(osdhost._processes(HOST, PROCESSES[1:])))


@dataclass
class Stalls:
    longest: float = 0.0


@contextmanager
def client(cloud: Cloud, number: int) -> Iterator[Stalls]:
    """Writes into one object at a time, and knows how long the slowest took, or takes by now."""
    stalls = Stalls()
    last = time.monotonic()

    def read() -> None:
        nonlocal last
        assert process.stdout is not None
        for line in process.stdout:
            stalls.longest = max(stalls.longest, float(line))
            last = time.monotonic()

    with subprocess.Popen(objects(cloud, "touch", number), stdout=subprocess.PIPE, text=True) as process:
        thread = threading.Thread(target=read)
        thread.start()
        try:
            time.sleep(3)
            stalls.longest = 0.0
            yield stalls
            stalls.longest = max(stalls.longest, time.monotonic() - last)
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
