"""Faults of the daemon's own process, and other programs that change limits beside it."""

from __future__ import annotations

import random
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.cloud import Guest
from tests import depth
from tests.lab.faults.scene import Row, Scene

KILLS = depth.count(quick=2, landing=3, soak=20)
EXHAUSTED = 4.0
"""Seconds without a free descriptor."""


@contextmanager
def all_at_once(scene: Scene, victim: Guest) -> Iterator[None]:
    """The timer's pass, an operator and a second daemon, beside the daemon."""
    scene.loosen(victim)
    timer = scene.node.start("enforce")
    person = scene.node.start("enforce", "--guest", victim.uuid)
    second = scene.node.start("daemon")
    yield
    for process, fine in ((timer, (0, 3, 75)), (person, (0, 3, 75)), (second, (75,))):
        out, err = process.communicate(timeout=60)
        assert process.returncode in fine, out + err


@contextmanager
def killed(scene: Scene, victim: Guest) -> Iterator[None]:
    moments = random.Random(20261124)
    for _ in range(KILLS):
        scene.loosen(victim)
        time.sleep(moments.uniform(0, 0.2))
        scene.process.kill()
        scene.process.wait()
        scene.start()
    yield


@contextmanager
def no_descriptors(scene: Scene, victim: Guest) -> Iterator[None]:
    pid = scene.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    # As many as are open: libvirt's poll(2) is refused where a limit is below the number of its own.
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (scene.descriptors, hard))
    scene.loosen(victim)
    try:
        time.sleep(EXHAUSTED)
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def out_of_memory(scene: Scene, victim: Guest) -> Iterator[None]:
    """The kernel kills it, as with ``MemoryMax=``; then it is started again, as by systemd."""
    with memory_limit(scene.process.pid, 64 * 2**10):
        scene.loosen(victim)
        scene.until(lambda: scene.process.poll() is not None, "the daemon is killed")
        assert scene.process.returncode == -signal.SIGKILL
    scene.start()
    yield


@contextmanager
def memory_limit(pid: int, more: int) -> Iterator[None]:
    """What the process takes from now on is at most ``more`` bytes; until it is gone."""
    root = Path("/sys/fs/cgroup")
    old = (root / "memory").is_dir()  # of cgroups version 1, where what it has stays with its former group
    group = (root / "memory" if old else root) / f"plimsoll-faults-{pid}"
    group.mkdir()
    try:
        if not old:
            (root / "cgroup.subtree_control").write_text("+memory")
            (group / "memory.swap.max").write_text("0")
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(more))
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        group.rmdir()


ROWS = (
    Row(
        "daemon, timer's pass, an operator and a second daemon at once",
        all_at_once,
        "one of them makes each change; the second daemon ends with 75",
        "0.1 s",
        served=10,
    ),
    Row("daemon killed at random moments", killed, "started again, it settles changes whose end is unknown", "0.1 s"),
    Row("no descriptor left", no_descriptors, "passes fail until there is one", "1.1 s", served=None),
    Row(
        "memory limit hit",
        out_of_memory,
        "the kernel ends the daemon; started again, it settles changes whose end is unknown",
        "0.1 s",
    ),
)
