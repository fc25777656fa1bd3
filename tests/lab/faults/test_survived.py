"""Each fault against the real thing, while the daemon runs: nothing loosened, no wrong limit, others served, and all
limits right again without a person."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lab.cloud import Cloud, Guest
from tests import depth
from tests.lab.faults.scene import Row, Scene
from tests.lab.faults.table import ROWS

pytestmark = pytest.mark.faults

TIMES = depth.count(quick=1, landing=1, soak=5)
ALL_SET = 10.0
"""Seconds until new guests have their limits."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, cloud: Cloud) -> Iterator[Scene]:
    home = tmp_path_factory.mktemp("faults") / "node"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=0755", "tmpfs", str(home)], check=True)
    try:
        scene = Scene(home, cloud)
        scene.start()
        yield scene
        scene.stop()
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)


@pytest.fixture(scope="module")
def usual(scene: Scene) -> tuple[int, int]:
    """The daemon's descriptors and memory after its first changes."""
    guests = scene.guests(2)
    scene.until_right(guests, ALL_SET)
    scene.end(guests)
    return scene.descriptors, scene.memory


@pytest.fixture
def made(scene: Scene, usual: object) -> Iterator[Callable[[], list[Guest]]]:
    """Makes guests that have their limits; they go with the test."""
    every: list[Guest] = []

    def make() -> list[Guest]:
        new = scene.guests(3)
        every.extend(new)
        scene.until_right(new, ALL_SET)
        return new

    yield make
    scene.end(every)


@contextmanager
def new_daemon_after_failure(scene: Scene) -> Iterator[None]:
    """A row that fails leaves no daemon in trouble to the next one, and a second try begins with a new one."""
    try:
        yield
    except BaseException:
        scene.process.kill()
        scene.process.wait()
        scene.watch.wrong.clear()
        scene.start()
        raise


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_a_fault_is_survived(row: Row, scene: Scene, usual: tuple[int, int], made: Callable[[], list[Guest]]) -> None:
    for _ in range(TIMES):
        with new_daemon_after_failure(scene):
            victim, other, quiet = made()
            looks, served = scene.watch.looks, None
            with row.fault(scene, victim):
                if row.served is not None:
                    scene.loosen(other)
                    served = scene.until_right([other], row.served)
            ended = time.monotonic()
            if row.served is None:
                scene.loosen(other)
            scene.until_right([victim, other, quiet], row.back)
            back = time.monotonic() - ended
            scene.assert_whole(*usual)
            scene.until(lambda looks=looks: scene.watch.looks > looks, "a look at the limits")  # type: ignore[misc]
            meanwhile = "" if served is None else f"others after {served:.2f} s, "
            now = f"{scene.memory / 2**20:.0f} MiB, {scene.descriptors} descriptors"
            print(f"{row.name}: {meanwhile}all right {back:.2f} s after its end; {now}")
