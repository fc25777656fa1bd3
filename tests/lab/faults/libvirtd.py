"""Faults of libvirtd: no guest is served while they last; all have their limits soon after."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from lab.cloud import Guest
from tests import depth
from tests.lab.faults.scene import Row, Scene

STOPPED = depth.count(quick=4, landing=8, soak=60)
"""Seconds."""
RESTARTS = depth.count(quick=3, landing=5, soak=20)


@contextmanager
def killed(scene: Scene, victim: Guest) -> Iterator[None]:
    scene.loosen(victim, "vda")
    scene.cloud.libvirtd.kill()
    try:
        yield
    finally:
        scene.cloud.libvirtd.start()


@contextmanager
def stopped(scene: Scene, victim: Guest) -> Iterator[None]:
    scene.loosen(victim, "vda")
    scene.cloud.libvirtd.stop()
    try:
        time.sleep(STOPPED)
        yield
    finally:
        scene.cloud.libvirtd.cont()


@contextmanager
def restarted(scene: Scene, victim: Guest) -> Iterator[None]:
    scene.loosen(victim, "vda")
    for number in range(RESTARTS):
        scene.cloud.libvirtd.kill()
        scene.cloud.libvirtd.start()
        scene.loosen(victim, ("vda", "vdb")[number % 2])
    yield


ROWS = (
    Row(
        "libvirtd killed and started",
        killed,
        "the daemon connects again and passes over the whole node",
        "0.6 s",
        served=None,
        back=30,
    ),
    Row(
        "libvirtd stopped and continued",
        stopped,
        "calls time out; the daemon goes on as soon as it answers",
        "3.7 s",
        served=None,
        back=40,
    ),
    Row(
        "libvirtd restarted many times", restarted, "the daemon connects again each time", "0.1 s", served=30, back=40
    ),
)
