"""Faults of Ceph: limits are lowered meanwhile, and not raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.cloud import Guest
from tests import depth
from tests.lab.faults.files import assert_not_raised
from tests.lab.faults.scene import Row, Scene
from tests.lab.test_storm import OSDS, one_osd_killed

FLAPS = depth.count(quick=2, landing=3, soak=20)
NOTICED = 60.0
"""Seconds until the monitor has told of it."""


@contextmanager
def osd_gone(scene: Scene, victim: Guest) -> Iterator[None]:
    with one_osd_killed(scene.cloud):
        scene.tighten(victim)
        yield
        assert_not_raised(scene, victim)


@contextmanager
def all_osds_gone(scene: Scene, victim: Guest) -> Iterator[None]:
    with one_osd_killed(scene.cloud) as kill_the_others:
        kill_the_others()
        scene.tighten(victim)
        yield
        assert_not_raised(scene, victim)


@contextmanager
def osd_flapping(scene: Scene, victim: Guest) -> Iterator[None]:
    ceph = scene.cloud.ceph
    scene.tighten(victim)
    for _ in range(FLAPS):
        ceph.run("osd", "down", "osd.1")
        scene.until(lambda: ceph.status()["osdmap"]["num_up_osds"] == len(OSDS), "the OSD is up again", NOTICED)
    yield
    ceph.wait_healthy()


@contextmanager
def pool_full(scene: Scene, victim: Guest) -> Iterator[None]:
    ceph = scene.cloud.ceph
    ceph.run("osd", "pool", "set-quota", "volumes", "max_objects", "1")
    try:
        scene.until(lambda: "POOL_FULL" in ceph.status()["health"]["checks"], "the pool is full", NOTICED)
        scene.tighten(victim)
        yield
        assert_not_raised(scene, victim)
    finally:
        ceph.run("osd", "pool", "set-quota", "volumes", "max_objects", "0")
        ceph.wait_healthy()


@contextmanager
def monitor_gone(scene: Scene, victim: Guest) -> Iterator[None]:
    scene.cloud.ceph.daemon("mon.a").kill()
    scene.tighten(victim)
    try:
        yield
        assert_not_raised(scene, victim)
    finally:
        scene.cloud.ceph.daemon("mon.a").start()
        scene.cloud.ceph.wait_healthy(60)


ROWS = (
    Row("an OSD gone", osd_gone, "limits are lowered, and not raised until Ceph is healthy", "3.9 s", back=40),
    Row(
        "all OSDs gone",
        all_osds_gone,
        "limits are lowered, and not raised until Ceph is healthy",
        "0.1 s",
        back=40,
    ),
    Row("an OSD flapping", osd_flapping, "limits are raised only while Ceph is healthy", "0.1 s", back=40),
    Row("a pool full", pool_full, "limits are lowered, and not raised until Ceph is healthy", "0.1 s", back=40),
    Row(
        "the monitor gone",
        monitor_gone,
        "limits are lowered, and not raised while Ceph's health is unknown",
        "0.1 s",
        back=40,
    ),
)
