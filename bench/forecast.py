"""Recoveries as they were forecast and as they went: ``script/bench forecast``.

In each drill an OSD of the lab is stopped until the monitors take it for down, objects are written, and it returns.
Before the failure ``plimsoll forecast --live`` is asked, with the number of objects that will be stale (of those that
will be written, the share with a copy on that OSD) and the time that one client takes to read or write one object of
this size alone, which is measured just then. ``plimsoll drill`` records what follows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.lab import in_lab, say
from lab.cloud import Cloud, LabError
from lab.cloud.ceph import Ceph
from lab.cloud.command import run
from lab.node import Node
from plimsoll_insight.drill.recording import Recording, read
from plimsoll_insight.drill.results import results
from plimsoll_insight.forecast.ranges import Range

KIB = 1 << 10
MIB = 1 << 20
PATIENCE = 400.0
CALM = 4.0
OSD = "osd.1"
ROW = "{:>7} {:>7} {:>6} {:>7} {:>10} {:>4} {:>8} {:>12} {:>6} {:>6} {:>14} {:>9} {:>6} {:>5}"
WORDS = ("alone", "stale", "seen", "forecast", "measured", "error", "load")
_LATENCY = re.compile(r"Average Latency\(s\):\s+([\d.e-]+)")


@dataclass(frozen=True)
class Drill:
    objects: int
    size: int
    sleep: float
    active: int
    places: int
    groups: int = 32
    """Of the pool."""
    written: int | None = None
    """Of each object, which is there before; None: it is new and written whole."""


DRILLS = (
    Drill(300, 4 * MIB, 0.2, 1, 1),
    Drill(1000, 4 * KIB, 0.1, 3, 1),
    Drill(3000, 4 * KIB, 0.05, 1, 1),
    Drill(1000, 64 * KIB, 0.1, 3, 4),
    Drill(3000, 64 * KIB, 0.05, 3, 4),
    Drill(1600, 4 * KIB, 0.1, 1, 1, groups=8),
    Drill(600, 4 * MIB, 0, 1, 1),
    Drill(300, 4 * MIB, 0.1, 3, 2, written=4 * KIB),
)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench forecast", description=__doc__)
    parser.add_argument(
        "--drill", type=int, action="append", metavar="N", choices=range(1, len(DRILLS) + 1),
        help=f"only this one of {len(DRILLS)}; repeatable",
    )  # fmt: skip
    parser.add_argument("--keep", type=Path, metavar="DIR", help="recordings and forecasts stay there")
    parsed = parser.parse_args(words)
    chosen = parsed.drill or range(1, len(DRILLS) + 1)
    return in_lab(lambda cloud: _all(cloud, [DRILLS[number - 1] for number in chosen], parsed.keep), ("ceph",))


def _all(cloud: Cloud, drills: Sequence[Drill], keep: Path | None) -> None:
    say("Alone: milliseconds to write or read one object. Stale, seen: objects, as forecast and at the return.")
    say("In sync after so many seconds, as forecast and as seen between two answers. The error is of the middles.")
    say(ROW.format("objects", "size", "sleep", "active", "backfills", "PGs", "written", *WORDS))
    for drill in drills:
        with tempfile.TemporaryDirectory() as home, _pool(cloud.ceph, drill) as pool:
            _hold(cloud, drill, pool, Node(Path(home), cloud, mode="observe"))
            if keep:
                shutil.copytree(home, keep / pool)


def _hold(cloud: Cloud, drill: Drill, pool: str, node: Node) -> None:
    ceph, file = cloud.ceph, node.home / "drill"
    alone = _alone(ceph, pool, drill)
    if drill.written:
        _write(ceph, pool, drill, drill.size)
    until(ceph, is_clean)
    latency = f"{min(alone):.6f}s..{max(alone):.6f}s"
    words = ("forecast", "--live", "--lose", OSD, "--ceph-conf", str(ceph.conf), "--id", "admin", "-f", "json")
    [row] = node.run(*words, "--object-latency", latency).data()
    stale = row["degraded"]["low"] * drill.objects
    ran = node.run(*words, "--object-latency", latency, "--stale", str(round(stale)))
    [row] = ran.data()
    (node.home / "forecast.json").write_text(ran.out)
    osd = ceph.daemon(OSD)
    record = node.start("drill", "record", str(file), "--no-guests", "--ceph-conf", str(ceph.conf))
    try:
        time.sleep(CALM)
        osd.stop()
        until(ceph, lambda status: status["osdmap"]["num_up_osds"] == 2)
        _write(ceph, pool, drill, drill.written or drill.size)
        osd.cont()
        until(ceph, lambda status: status["osdmap"]["num_up_osds"] == 3)
        time.sleep(CALM)
        until(ceph, is_clean)
        load = os.getloadavg()[0]
        time.sleep(2 * CALM)
        record.send_signal(signal.SIGINT)
        record.communicate(timeout=30)
    finally:
        record.kill()
        record.communicate()
        osd.heal()
    recording = read(file)
    [incident] = results(recording).incidents
    told, seen = row["clean"], recovered(recording)
    error = (seen.low + seen.high) / (told["low"] + told["high"]) - 1
    size, written = (f"{each // KIB} KiB" if each < MIB else f"{each // MIB} MiB" for each in _sizes(drill))
    told_words = f"{told['low']:.1f}..{told['high']:.1f}"
    alone_words = f"{1000 * min(alone):.1f}..{1000 * max(alone):.1f}"
    say(
        ROW.format(
            *(drill.objects, size, drill.sleep, drill.active, drill.places, drill.groups, written),
            *(alone_words, f"{stale:.0f}", incident.stale or "?", told_words, f"{seen.low:.0f}..{seen.high:.0f}"),
            *(f"{100 * error:+.0f} %", f"{load:.1f}"),
        )
    )


def recovered(recording: Recording) -> Range:
    """Seconds from the return until all are in sync. Both are seen between two answers of a loaded cluster."""
    up = clean = None
    for (before, was), (after, state) in pairwise(recording.statuses):
        if was.up < state.up == state.osds:
            up = before, after
        if up and was.unclean and not state.unclean:
            clean = before, after
    if not (up and clean):
        raise LabError("the drill has no recovery")
    return Range(max(clean[0] - up[1], 0.0), clean[1] - up[0])


def _sizes(drill: Drill) -> tuple[int, int]:
    return drill.size, drill.written or drill.size


class _pool:  # noqa: N801  # a context manager
    """Of its own, with settings of recovery for all OSDs."""

    def __init__(self, ceph: Ceph, drill: Drill) -> None:
        self._ceph, self._drill, self._name = ceph, drill, f"drill-{uuid4().hex[:8]}"

    def __enter__(self) -> str:
        groups = str(self._drill.groups)
        self._ceph.run("osd", "pool", "create", self._name, groups, groups)
        self._ceph.run("osd", "pool", "application", "enable", self._name, "rbd")
        for option, value in (
            ("osd_recovery_sleep", self._drill.sleep),
            ("osd_recovery_sleep_hdd", self._drill.sleep),  # which counts where the other is 0
            ("osd_recovery_max_active", self._drill.active),
            ("osd_max_backfills", self._drill.places),
        ):
            self._ceph.run("tell", "osd.*", "config", "set", option, str(value))
        until(self._ceph, is_clean)
        return self._name

    def __exit__(self, *_: object) -> None:
        self._ceph.run("osd", "pool", "delete", self._name, self._name, "--yes-i-really-really-mean-it")


def _alone(ceph: Ceph, pool: str, drill: Drill) -> tuple[float, float]:
    """Seconds to write one object, and to read one, one after the other."""
    size, of = str(drill.size), ("--run-name", "alone")
    wrote = _rados(ceph, pool, "bench", "5", "write", "-b", size, "-O", size, "-t", "1", "--no-cleanup", *of)
    got = _rados(ceph, pool, "bench", "3", "seq", "-t", "1", *of)
    return _latency(wrote), _latency(got)


def _latency(said: str) -> float:
    found = _LATENCY.search(said)
    if not found:
        raise LabError(f"rados bench tells no latency: {said[-200:]}")
    return float(found[1])


def _write(ceph: Ceph, pool: str, drill: Drill, size: int) -> None:
    """Each object, its first bytes."""
    words = ("-b", str(size), "-O", str(size), "-t", "8", "--max-objects", str(drill.objects), "--no-cleanup")
    _rados(ceph, pool, "bench", "300", "write", *words, "--run-name", "stale")


def _rados(ceph: Ceph, pool: str, *words: str) -> str:
    return run(["rados", "-c", ceph.conf, "-p", pool, *words], timeout=PATIENCE)


def until(ceph: Ceph, holds: Callable[[dict[str, Any]], bool]) -> None:
    """Within some seconds: what is measured is recorded, and to ask costs half a second of a core."""
    end = time.monotonic() + PATIENCE
    while not holds(json.loads(ceph.run("status", "-f", "json"))):
        if time.monotonic() > end:
            raise LabError("Ceph does not come to it")
        time.sleep(2)


def is_clean(status: dict[str, Any]) -> bool:
    return {each["state_name"] for each in status["pgmap"]["pgs_by_state"]} == {"active+clean"}
