"""Faults of the state directory and of the rules file."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from lab.cloud import Guest
from plimsoll_agent.model.limits import Limits
from tests import depth
from tests.lab.faults.scene import OTHERS, TIGHT, USUAL, Row, Scene, rules
from tests.lab.passes import LIMIT
from tests.lab.test_state_faults import fill

NOBODY = 65534
HALF = 0.7
"""Seconds between the two halves of a file: less than between two looks of the daemon."""
HALVES = depth.count(quick=3, landing=3, soak=50)
"""Times that the rules are written in two halves."""


@contextmanager
def full(scene: Scene, victim: Guest) -> Iterator[None]:
    fill(scene.node.home)
    scene.tighten(victim)
    yield
    assert_not_raised(scene, victim)
    (scene.node.home / "ballast").unlink()


@contextmanager
def read_only(scene: Scene, victim: Guest) -> Iterator[None]:
    remount = ["mount", "-o", "remount,ro", scene.node.home]
    # Busy while a pass has a file open for writing.
    scene.until(lambda: subprocess.run(remount, check=False, capture_output=True).returncode == 0, "read-only")
    scene.tighten(victim)
    try:
        yield
        assert_not_raised(scene, victim)
    finally:
        subprocess.run(["mount", "-o", "remount,rw", scene.node.home], check=True)


@contextmanager
def deleted(scene: Scene, victim: Guest) -> Iterator[None]:
    gone = datetime.now(UTC)
    shutil.rmtree(scene.node.state.directory)
    scene.until(
        lambda: (
            scene.known is not None
            and scene.known.last_full_pass is not None
            and scene.known.last_full_pass > gone
            and scene.node.state.memory.exists()  # one that began before does not make it again
        ),
        "a pass over the node that makes its state again",
    )
    yield
    lock = scene.node.state.directory / "daemon.lock"
    scene.until(lock.exists, "the daemon locks the new directory", 2 * 15)
    second = scene.node.run("daemon")
    assert second.status == 75, second.err


@contextmanager
def of_another_owner(scene: Scene, victim: Guest) -> Iterator[None]:
    own(scene, NOBODY)
    yield
    own(scene, 0)


def own(scene: Scene, uid: int) -> None:
    for path in (scene.node.state.directory, *scene.node.state.directory.iterdir()):
        os.chown(path, uid, uid)


@contextmanager
def rules_broken(scene: Scene, victim: Guest) -> Iterator[None]:
    scene.node.write_rules("default: {limits: {total_iops_sec")
    scene.loosen(victim, "vdb")
    yield
    scene.node.write_rules(rules(LIMIT))


@contextmanager
def rules_gone(scene: Scene, victim: Guest) -> Iterator[None]:
    (scene.node.home / "rules.yaml").unlink()
    scene.loosen(victim, "vdb")
    yield
    scene.node.write_rules(rules(LIMIT))


@contextmanager
def rules_replaced(scene: Scene, victim: Guest) -> Iterator[None]:
    scene.watch.right.add(OTHERS)
    for limits in (OTHERS, LIMIT) * 5:
        scene.loosen(victim, "vdb")
        scene.node.write_rules(rules(limits))
    yield


@contextmanager
def rules_in_two_halves(scene: Scene, victim: Guest) -> Iterator[None]:
    """The first is good rules too, with limits that no disk may get; an event comes between the two."""
    path = scene.node.home / "rules.yaml"
    for _ in range(HALVES):
        with path.open("w") as file:
            file.write(rules(Limits(total_iops_sec=200)))
            file.flush()
            scene.loosen(victim, "vdb")
            time.sleep(HALF)
            file.write("rules: [{name: all, match: {pool: [volumes]}, limits: {total_iops_sec: 250}}]\n")
        scene.until_right([victim], USUAL)
    yield
    scene.node.write_rules(rules(LIMIT))


def assert_not_raised(scene: Scene, victim: Guest) -> None:
    """A change that could not be recorded."""
    assert set((scene.limits(victim) or {}).values()) == {Limits(**TIGHT)}


ROWS = (
    Row("state directory full", full, "limits are lowered, and not raised while no change can be recorded", "3.2 s"),
    Row(
        "state directory read-only",
        read_only,
        "limits are lowered, and not raised while no change can be recorded",
        "3.5 s",
    ),
    Row(
        "state directory deleted",
        deleted,
        "the next full pass makes it again, from the marks in the guests; an external change before that counts as "
        "attach-time limits, and stays",
        "0.1 s",
    ),
    Row("state directory of another owner", of_another_owner, "nothing", "0.1 s"),
    Row("rules file broken", rules_broken, "the last good rules stay in use", "0.2 s"),
    Row("rules file gone", rules_gone, "the last good rules stay in use", "0.1 s"),
    Row(
        "rules file replaced in the middle of passes",
        rules_replaced,
        "each pass uses the rules that it read",
        "0.1 s",
    ),
    Row(
        "rules file written in two halves, an event between them",
        rules_in_two_halves,
        "the rules before stay in use until nothing has written the file for a second",
        "0.1 s",
    ),
)
