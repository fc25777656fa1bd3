"""Faults of Ceph: limits are lowered meanwhile, and not raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.cloud import Guest
from tests.lab.faults.files import assert_not_raised
from tests.lab.faults.scene import Row, Scene
from tests.lab.test_storm import one_osd_killed


@contextmanager
def osd_gone(scene: Scene, victim: Guest) -> Iterator[None]:
    with one_osd_killed(scene.cloud):
        scene.tighten(victim)
        yield
        assert_not_raised(scene, victim)


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
        "the monitor gone",
        monitor_gone,
        "limits are lowered, and not raised while Ceph's health is unknown",
        "0.1 s",
        back=40,
    ),
)
