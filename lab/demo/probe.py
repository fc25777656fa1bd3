"""The third act: the three probes inside the guest, all kept; then an OSD stops in the middle of one."""

from __future__ import annotations

import time
from pathlib import Path

from lab.cloud import Cloud, LabError
from lab.cloud.domain import PROJECT
from lab.demo import plot
from lab.demo.stage import Stage

LIMIT = 250
SECONDS = 12
OSD = "osd.1"
RULES = f"""\
default:
  limits:
    total_iops_sec: {LIMIT}
rules:
  - name: canaries
    match:
      project: {PROJECT}
    probe:
      every: 6h
      directory: /mnt/volume
    objective:
      p99: 250ms
"""


def play(cloud: Cloud, picture: Path) -> None:
    print("\n8. Probes: the rules name the guests, how often each is probed, and the latency that it should have")
    print("\n" + "".join(f"     {line}\n" for line in RULES.splitlines()))
    stage = Stage(cloud, "probe", RULES, f"[probe]\nseconds = {SECONDS}\nfile_size = {2**28}\n")

    def scenes() -> None:
        stage.plimsoll("enforce")
        stage.mark("probes")
        stage.plimsoll("probe", "run")
        print(f"\n9. The same again, and a few seconds into the first job {OSD} stops")
        stalled = cloud.ceph.daemon(OSD)
        with stage.beside("probe", "run"):
            _until_it_works(stage)
            stage.mark(f"{OSD} stops")
            stalled.stop()
        stage.mark(f"{OSD} goes on")
        stalled.cont()
        stage.plimsoll("probe", "history")
        stage.plimsoll("probe", "show", "--guest", stage.guest.name, "--job", "read")
        print("\n10. The state of the node, and what the check for Nagios reports")
        stage.plimsoll("status")
        stage.check("probe")
        cloud.ceph.wait_healthy(120)

    sampler = stage.watch(scenes)
    stage.probes()
    plot.draw(stage, sampler, "Probes of a limited disk, and an OSD that stops in one of them", picture)


def _until_it_works(stage: Stage) -> None:
    """Until the job itself is under way: small reads at the limit's pace, and the file's large writes are over."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        before = stage.guest.domain().blockStats(stage.target)
        time.sleep(3)
        after = stage.guest.domain().blockStats(stage.target)
        if after[0] - before[0] > 2 * LIMIT:
            return
    raise LabError("the probe does not begin to read")
