"""Real drills: OSDs fail and return; phases are found when they were made, and the same drill twice has the same."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.cloud import Cloud, Guest
from lab.node import Node
from lab.waiting import until
from plimsoll_insight.drill.phases import DrillPhase
from plimsoll_insight.drill.recording import read
from plimsoll_insight.drill.results import Incident, Results, results
from tests import depth

pytestmark = pytest.mark.hurt

DRILLS = depth.count(quick=1, landing=1, soak=12)
HOSTS = depth.count(quick=0, landing=0, soak=2)
TWICE = depth.count(quick=0, landing=0, soak=1)
SOON, CALM, AWAY = 4.0, 10.0, 12.0
"""Seconds until the load is there, before the failure, and from when the monitors know it until the OSD returns."""
SEEN = 3.0
"""Seconds by which a phase may begin before or after it was made."""
PATIENCE = 120.0
# Each write is flushed: what librbd keeps in its cache waits for no OSD.
LOAD = (
    "fio --name=w --filename=/mnt/volume/drill --size=64M --direct=1 --ioengine=libaio --rw=randwrite --bs=4k"
    " --rate_iops=20 --fdatasync=1 --time_based --runtime=36000 >/dev/null 2>&1 & echo $! >/run/drill.pid"
)
END = "kill $(cat /run/drill.pid); rm -f /run/drill.pid; true"


@pytest.fixture
def loaded(booted: Guest) -> Iterator[Guest]:
    def said(words: str) -> None:
        assert booted.exec(["sh", "-c", words], timeout=PATIENCE).exit_code == 0

    said(LOAD)
    time.sleep(SOON)  # until fio does its rate
    yield booted
    said(END)


def osds_up(cloud: Cloud) -> int:
    return int(cloud.ceph.status()["osdmap"]["num_up_osds"])


def is_clean(cloud: Cloud) -> bool:
    return {each["state_name"] for each in cloud.ceph.status()["pgmap"]["pgs_by_state"]} == {"active+clean"}


class Failure(Enum):
    STOPPED = auto()
    """Its connections stay open, as where it hangs."""
    KILLED = auto()
    """Others are refused, and know at once."""
    CUT = auto()
    """It runs, and nothing comes through."""


FAILURES = tuple(Failure)


@dataclass(frozen=True)
class Held:
    """A drill: when things were done to the cluster and seen in it, and what was found in its recording."""

    hit: float
    down: float
    up: float
    clean: float
    found: Results
    told: dict[str, Any]

    @property
    def began(self) -> dict[str, float]:
        return {span.phase.value: self.found.recording.began + span.begin for span in self.found.phases.spans[1:]}

    @property
    def coarsest(self) -> float:
        """Seconds between two answers of the cluster, at most: on a loaded machine each takes some."""
        times = [time for time, _ in self.found.recording.statuses]
        return max(after - before for before, after in pairwise(times))

    @property
    def incident(self) -> Incident:
        [incident] = self.found.incidents
        return incident


def held(cloud: Cloud, guest: Guest, home: Path, osds: Collection[int], failure: Failure) -> Held:
    """These OSDs fail at once, and return together."""
    cloud.ceph.wait_healthy(PATIENCE)
    file, node = home / "drill", Node(home, cloud, mode="observe")
    daemons = [cloud.ceph.daemon(f"osd.{osd}") for osd in osds]
    record = node.start("drill", "record", str(file), "--guest", guest.uuid, "--ceph-conf", str(cloud.ceph.conf))
    cuts = ExitStack()
    try:
        time.sleep(CALM)
        hit = time.time()
        for osd, daemon in zip(osds, daemons, strict=True):
            match failure:
                case Failure.STOPPED:
                    daemon.stop()
                case Failure.KILLED:
                    daemon.kill()
                case Failure.CUT:
                    cuts.enter_context(cloud.ceph.cut_off(osd))
        until(lambda: osds_up(cloud) == 3 - len(osds), PATIENCE)
        time.sleep(AWAY)
        assert node.run("drill", "mark", str(file), "the OSDs return").status == 0
        cuts.close()
        for daemon in daemons:
            if failure is Failure.STOPPED:
                daemon.cont()
            if failure is Failure.KILLED:
                daemon.start(wait=False)
        until(lambda: osds_up(cloud) == 3, PATIENCE)
        time.sleep(SEEN)
        clean = until(lambda: is_clean(cloud), PATIENCE)
        time.sleep(3 * SEEN)
        # As a node that loses its power: the report has all until then.
        record.send_signal(signal.SIGKILL)
    finally:
        record.kill()
        record.communicate()
        cuts.close()
        for daemon in daemons:
            daemon.heal()
    told = node.run("drill", "report", str(file), "-f", "json").data()
    found = results(read(file))
    # By the monitor's own clock: on a loaded machine it takes seconds to ask.
    down, up = (
        max(line.time for line in found.recording.events if re.match(rf"osd\.\d+ {words}", line.text))
        for words in (r"failed \(", r".* boot$")
    )
    drill = Held(hit, down, up, clean, found, told)
    print(f"osd {osds} {failure.name}, load {os.getloadavg()[0]:.1f}; seconds after it failed, as done and as found:")
    print(
        {"outage": 0, "degraded": round(down - hit, 1), "return": round(up - hit, 1), "normal": round(clean - hit, 1)}
    )
    print({phase: round(at - hit, 1) for phase, at in drill.began.items()})
    print(json.dumps(told["incidents"]))
    return drill


def assert_found(drill: Held, guest: Guest, failure: Failure) -> None:
    if failure is not Failure.KILLED:  # what a killed one had may be missed for less than two seconds
        assert drill.began["outage"] == pytest.approx(drill.hit, abs=SEEN)
        assert {stall.disk.uuid for stall in drill.found.stalls} == {guest.uuid}
    assert drill.began["degraded"] == pytest.approx(drill.down, abs=SEEN)
    assert drill.began["return"] == pytest.approx(drill.up, abs=SEEN)
    assert drill.began["normal"] == pytest.approx(drill.clean, abs=SEEN)
    if drill.coarsest < SEEN:  # else all peering may lie between two answers
        assert drill.incident.peering > 0


@pytest.mark.parametrize("number", range(DRILLS))
def test_the_phases_are_found_when_they_were_made(number: int, cloud: Cloud, loaded: Guest, tmp_path: Path) -> None:
    failure = FAILURES[number % len(FAILURES)]
    drill = held(cloud, loaded, tmp_path, [number // len(FAILURES) % 3], failure)
    assert_found(drill, loaded, failure)
    told = drill.told
    assert (told["ended"], [mark["text"] for mark in told["marks"]]) == (None, ["the OSDs return"])


@pytest.mark.parametrize("number", range(HOSTS))
def test_the_phases_of_a_whole_host_are_found_as_well(
    number: int, cloud: Cloud, loaded: Guest, tmp_path: Path
) -> None:
    failure = (Failure.STOPPED, Failure.KILLED)[number % 2]
    with cloud.ceph.two_on_one_host() as osds:
        assert_found(held(cloud, loaded, tmp_path, osds, failure), loaded, failure)


@pytest.mark.parametrize("_", range(TWICE))
def test_the_same_drill_twice_has_the_same_phases_and_figures(
    _: int, cloud: Cloud, loaded: Guest, tmp_path: Path
) -> None:
    drills = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        drills.append(held(cloud, loaded, tmp_path / name, [0], Failure.STOPPED))
    first, second = drills
    # Some objects are recovered before the manager tells of it.
    for drill in drills:
        phases = [span.phase for span in drill.found.phases.spans if span.phase is not DrillPhase.RECOVERY]
        assert phases == [
            DrillPhase.NORMAL,
            DrillPhase.OUTAGE,
            DrillPhase.DEGRADED,
            DrillPhase.RETURN,
            DrillPhase.NORMAL,
        ]
    for figure in ("detect", "serve", "recover"):
        assert getattr(first.incident, figure) == pytest.approx(getattr(second.incident, figure), abs=2 * SEEN), (
            figure
        )
    (least, most), (other_least, other_most) = first.incident.peering_range, second.incident.peering_range
    assert least <= other_most
    assert other_least <= most
    assert first.incident.share == pytest.approx(second.incident.share, abs=0.1)
