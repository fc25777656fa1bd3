"""Real drills: an OSD is stopped or killed and returns; the phases are found when they were made."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll_insight.drill.recording import read
from plimsoll_insight.drill.results import results
from tests import depth
from tests.lab.cloud import Cloud, Guest
from tests.lab.node import Node
from tests.lab.waiting import until

pytestmark = pytest.mark.hurt

DRILLS = depth.count(quick=1, landing=1, soak=12)
SOON, CALM, AWAY = 4.0, 10.0, 12.0
"""Seconds until the load is there, before the failure, and from when the monitors know it until the OSD returns."""
SEEN = 3.0
"""Seconds by which a phase may begin before or after it was made."""
PATIENCE = 120.0
# Each write is flushed: what librbd keeps in its cache waits for no OSD.
LOAD = (
    "fio --name=w --filename=/mnt/volume/drill --size=64M --direct=1 --ioengine=libaio --rw=randwrite --bs=4k"
    " --rate_iops=60 --fdatasync=1 --time_based --runtime=36000 >/dev/null 2>&1 & echo $! >/run/drill.pid"
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


@pytest.mark.parametrize("number", range(DRILLS))
def test_the_phases_are_found_when_they_were_made(number: int, cloud: Cloud, loaded: Guest, tmp_path: Path) -> None:
    cloud.ceph.wait_healthy(PATIENCE)
    file, node = tmp_path / "drill", Node(tmp_path, cloud, mode="observe")
    osd, kills = cloud.ceph.daemon(f"osd.{number % 3}"), number % 2 == 1
    record = node.start("drill", "record", str(file), "--guest", loaded.uuid, "--ceph-conf", str(cloud.ceph.conf))
    try:
        time.sleep(CALM)
        hit = time.time()
        osd.kill() if kills else osd.stop()
        down = until(lambda: osds_up(cloud) == 2, PATIENCE)
        time.sleep(AWAY)
        assert node.run("drill", "mark", str(file), "the OSD returns").status == 0
        osd.start() if kills else osd.cont()
        up = until(lambda: osds_up(cloud) == 3, PATIENCE)
        time.sleep(SEEN)
        clean = until(lambda: is_clean(cloud), PATIENCE)
        time.sleep(3 * SEEN)
        # As a node that loses its power: the report has all until then.
        record.send_signal(signal.SIGKILL)
    finally:
        record.kill()
        record.communicate()
        osd.heal()
    print(
        f"load {os.getloadavg()[0]:.1f}; hit at 0, down {down - hit:.1f}, up {up - hit:.1f}, clean {clean - hit:.1f}"
    )
    found = results(read(file))
    began = {span.phase.value: found.recording.began + span.begin for span in found.phases.spans[1:]}
    print({phase: round(at - hit, 1) for phase, at in began.items()})
    told = node.run("drill", "report", str(file), "-f", "json").data()
    print(json.dumps(told["incidents"]))
    [incident] = found.incidents
    if not kills:  # one that is killed may be missed for less than two seconds
        assert began["outage"] == pytest.approx(hit, abs=SEEN)
        assert {stall.disk.uuid for stall in found.stalls} == {loaded.uuid}
    assert began["degraded"] == pytest.approx(down, abs=SEEN)
    assert began["return"] == pytest.approx(up, abs=SEEN)
    assert began["normal"] == pytest.approx(clean, abs=SEEN)
    assert incident.peering > 0
    assert (told["ended"], [mark["text"] for mark in told["marks"]]) == (None, ["the OSD returns"])
