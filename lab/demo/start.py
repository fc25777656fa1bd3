"""The last act: a guest that writes all the time starts without limits, and its first second is limited."""

from __future__ import annotations

import time
from pathlib import Path

from lab.cloud import Cloud
from lab.cloud.domain import without_limits
from lab.daemon import daemon_on
from lab.demo import plot
from lab.demo.measured import Sampler
from lab.demo.stage import Stage
from lab.observer import STARTED, observing

LIMIT = 250
RULES = f"default: {{limits: {{total_iops_sec: {LIMIT}}}}}\n"
WRITER = (
    "fio --name=w --filename=/mnt/volume/fio-test --size=64M --rw=randwrite --bs=4k --direct=1 --ioengine=libaio"
    " --iodepth=4 --time_based --runtime=600"
)
EVERY = 0.05
"""Seconds between two counts of the guest's requests."""
AFTER = 6.0
"""Seconds for which it is watched."""


def play(cloud: Cloud, picture: Path) -> None:
    stage = Stage(cloud, "start", RULES)
    guest, domain = stage.guest, stage.guest.domain()
    print("\n11. A guest that writes without pause is saved to a file, and its limits are removed from there")
    guest.exec(["sh", "-c", f"{WRITER} > /dev/null 2>&1 & echo $! > /run/w.pid"])
    domain.managedSave()
    domain.managedSaveDefineXML(without_limits(domain.managedSaveGetXMLDesc()))
    print("$ plimsoll daemon &", flush=True)
    with daemon_on(stage.node, installed=True), observing(cloud.libvirt_uri) as observer:
        print("    libvirt starts it, with the daemon running:")
        sampler = Sampler(guest, stage.target, EVERY)
        began = time.monotonic()
        domain.create()
        seconds = observer.reaction(STARTED, guest.uuid, LIMIT, "vda", "vdb", after=began)
        stage.sampler = sampler
        stage.mark("started")
        time.sleep(AFTER)
        sampler.stop()
        stage.plimsoll("record", "--guest", guest.uuid)
    guest.wait_for_agent(60)
    guest.exec(["sh", "-c", "kill $(cat /run/w.pid)"])
    first = sampler.requests(1.0)
    print(f"\n    Limits were in force {seconds * 1000:.0f} ms after libvirt had reported the start.")
    print(f"    In its first second it wrote {first} times; the limit is {LIMIT} a second.")
    print("    By a pass each five minutes it would have had no limit for 150 s on average.")
    stage.more_figures = {"limit": LIMIT, "seconds_until_in_force": seconds, "requests_in_first_second": first}
    plot.draw(stage, sampler, "A guest without limits starts while plimsoll daemon runs", picture)
