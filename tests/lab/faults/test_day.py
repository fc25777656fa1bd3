"""An operator's day beside the daemon: each second an observer compares what QEMU has with what ``plimsoll status``
tells. No disk that is not as desired stands under a green light for longer than passes need to find it.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab import behind
from lab.cloud import Cloud, Guest
from lab.cloud.disk import volume
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.config import settings as config
from plimsoll_agent.messages.limits import short_limits
from plimsoll_agent.model.limits import Limits
from plimsoll_monitoring.cli.status import look
from plimsoll_monitoring.node.status import NodeStatus
from tests import depth
from tests.lab.faults.cinder import REMOVED, REVERTED, Site, with_catalogue
from tests.lab.faults.scene import FULL_PASSES, LOOSE, TIGHT, USUAL, Scene, Where, rules
from tests.lab.passes import LIMIT
from tests.lab.test_state_faults import fill

pytestmark = pytest.mark.faults

DAYS = depth.count(quick=0, landing=0, soak=1)
UNSEEN = FULL_PASSES + 5.0
"""Seconds after which a pass over the node has found a disk that is wrong."""
PROJECT, LESS, HELD = (
    Limits(total_iops_sec=500, total_iops_sec_max=1000, total_iops_sec_max_length=10),
    Limits(total_iops_sec=5),
    Limits(total_iops_sec=800),
)
_IN_BYTES = 1  # VIR_DOMAIN_BLOCK_RESIZE_BYTES


class Light(threading.Thread):
    """The observer."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(name="light", daemon=True)
        self._scene = scene
        self._desired: dict[Where, Limits] = {}
        self._since: dict[Where, float] = {}
        self._found: dict[Where, Limits | None] = {}
        self.step = ""
        """What the operator does."""
        self._ended = threading.Event()
        self.wrong: list[str] = []
        self.looks = self.red = 0

    def expects(self, disks: Sequence[Where], limits: Limits) -> None:
        """From now on these are the desired limits."""
        self._desired |= dict.fromkeys(disks, limits)

    def was_right(self, disks: Sequence[Where]) -> None:
        """They were, perhaps between two looks."""
        for where in disks:
            self._since.pop(where, None)

    @property
    def status(self) -> NodeStatus:
        return look(config.load([self._scene.node.settings], []), datetime.now(UTC))

    @property
    def green(self) -> bool:
        return self.status.exit_status == 0

    def end(self) -> None:
        self._ended.set()
        self.join(60)

    def run(self) -> None:
        while not self._ended.wait(1):
            for guest in {where.guest for where in self._desired}:
                self._look_at(guest, self._scene.limits(guest))
            late = {where: time.monotonic() - since for where, since in list(self._since.items())}
            status = self.status
            green = status.exit_status == 0
            self.looks, self.red = self.looks + 1, self.red + (not green)
            if green:
                self.wrong += [
                    f"{datetime.now(UTC):%H:%M:%S} {self.step}: {where.guest.name} {where.target} green for"
                    f" {seconds:.0f} s with {_short(self._found[where])}, not {_short(self._desired[where])};"
                    f" {_told(status, where)}"
                    for where, seconds in late.items()
                    if seconds > UNSEEN
                ]

    def _look_at(self, guest: Guest, found: dict[str, Limits] | None) -> None:
        """What QEMU has; None where libvirt does not answer, so that it is unknown."""
        for where, limits in list(self._desired.items()):
            if where.guest is not guest or found is None:
                continue
            self._found[where] = found.get(where.target)
            if self._found[where] == limits:
                self._since.pop(where, None)
            else:
                self._since.setdefault(where, time.monotonic())


def _short(limits: Limits | None) -> str:
    return "no answer" if limits is None else short_limits(limits)


def _told(status: NodeStatus, where: Where) -> str:
    """What the last pass over the node has found."""
    last = status.last
    told = [
        f"{disk.kind} {disk.reason.code}, new {disk.is_new}, at {last.ended:%H:%M:%S}"
        for disk in (last.disks if last is not None else ())
        if (disk.named.guest_uuid, disk.named.target) == (where.guest.uuid, where.target)
    ]
    return last.ended.strftime("%H:%M:%S") if not told and last else "; ".join(told)


class Day:
    def __init__(self, scene: Scene, site: Site, light: Light, guests: Sequence[Guest]) -> None:
        self.scene, self.site, self.light = scene, site, light
        self.own, self.first, self.second = ([Where(guest, target) for target in guest.disks] for guest in guests)
        self._gib = 1

    def right(self, disks: Sequence[Where], limits: Limits, within: float = USUAL) -> None:
        self.light.expects(disks, limits)
        self.scene.until_all([(where, limits) for where in disks], within)
        self.light.was_right(disks)

    def project_and_exception(self) -> None:
        """Task 2: a project at 500 with bursts, and an exception of two hours."""
        self.write_rules(PROJECT)
        self.right(self.own, PROJECT)
        held = self.first[0]
        words = ("--for", "2h", "--limits", f"total_iops_sec={HELD.total_iops_sec}", "--reason", "import")
        ran = self.scene.node.run("disk", "hold", "add", held.guest.name, held.target, *words)
        assert ran.status in (0, 3), ran.out + ran.err
        self.right([held], HELD)
        ran = self.scene.node.run("disk", "hold", "end", held.guest.name, held.target)
        assert ran.status in (0, 3), ran.out + ran.err
        self.right([held], LIMIT)

    def edits_of_specs(self) -> None:
        """Task 3: another number, one for each GiB, an extended volume, an invalid number, and as it was."""
        extended, *disks = [*self.first, *self.second]
        self.edit({"total_iops_sec": "300"})
        self.right([extended, *disks], Limits(total_iops_sec=300))
        self.edit({"total_iops_sec_per_gb": "200"})
        self.right(disks, Limits(total_iops_sec=200))
        self.right([extended], Limits(total_iops_sec=200 * self._gib))
        self._gib += 1
        extended.guest.domain().blockResize(extended.target, self._gib * 2**30, _IN_BYTES)
        self.right([extended], Limits(total_iops_sec=200 * self._gib))
        self.edit({"total_iops_sec": "many"})
        self.change(self.second)
        self.scene.until(lambda: not self.light.green, "an invalid spec is told", UNSEEN)
        self.edit({"total_iops_sec": str(LIMIT.total_iops_sec)})
        self.right([extended, *disks], LIMIT)

    def edit(self, keys: dict[str, str]) -> None:
        self.site.edit(keys)
        assert self.site.refresh() == 0

    def accident(self) -> None:
        """Task 5: 500 becomes 5. The brake stops it, and no light is green until it is mended."""
        self.write_rules(LESS)
        self.light.expects(self.own, LESS)
        self.scene.until(lambda: not self.light.green, "the brake is told", UNSEEN)
        assert self.scene.limits(self.own[0].guest) == {where.target: PROJECT for where in self.own}
        self.write_rules(PROJECT)
        self.right(self.own, PROJECT)

    def daemon_and_libvirtd(self) -> None:
        """Task 7: libvirtd killed, the daemon killed, a second daemon."""
        self.change(self.first)
        self.scene.cloud.libvirtd.kill()
        self.scene.cloud.libvirtd.start()
        self.right(self.first, LIMIT)
        self.scene.process.kill()
        self.scene.process.wait()
        self.change(self.second)
        self.scene.start()
        self.right(self.second, LIMIT)
        assert self.scene.node.run("daemon").status == 75

    def wrong_things(self) -> None:
        """Task 12: broken rules, damaged files, a full disk; and limits behind libvirt's back."""
        self.scene.node.write_rules("rules: [")
        self.change(self.first)
        self.right(self.first, LIMIT)
        self.scene.until(lambda: not self.light.green, "broken rules are told", UNSEEN)
        self.write_rules(PROJECT)
        state, fetched = self.scene.node.state, self.scene.node.catalogue / catalogue.NAME
        for file in (state.memory, state.attachments, state.last_pass, fetched):
            self.light.step = f"{file.name} damaged"
            file.write_text("{")
            self.change(self.second)
            behind.set_limits(*self.first[0], Limits(**LOOSE))
            if file is fetched:
                time.sleep(UNSEEN)
                assert self.site.refresh() == 0
            self.right([*self.first, *self.second], LIMIT, UNSEEN + REVERTED)
        self.light.step = "disk full"
        fill(self.scene.node.home)
        self.scene.set(self.first[0].guest, [where.target for where in self.first], TIGHT)
        time.sleep(UNSEEN + 5)
        (self.scene.node.home / "ballast").unlink()
        self.right(self.first, LIMIT)

    def change(self, disks: Sequence[Where]) -> None:
        """Externally: removed and raised."""
        for where, limits in zip(disks, (REMOVED, LOOSE), strict=True):
            self.scene.set(where.guest, [where.target], limits)

    def write_rules(self, limits: Limits) -> None:
        """For the guest of the project, whatever Cinder tells."""
        own = self.own[0].guest
        given = ", ".join(f"{name}: {value}" for name, value in limits.in_effect().items())
        self.scene.node.write_rules(
            f"rules:\n  - {{name: project, match: {{guest: {own.uuid}}}, override: true, limits: {{{given}}}}}\n"
            + rules(LIMIT)
        )


@pytest.fixture
def day(tmp_path: Path, cloud: Cloud) -> Iterator[Day]:
    """The brake stops a cut to a tenth."""
    home = tmp_path / "node"
    home.mkdir()
    with _small(home):
        scene = Scene(home, cloud)
        text = scene.node.settings.read_text()
        scene.node.settings.write_text(re.sub("^factor = .*$", "factor = 10", text, flags=re.MULTILINE))
        scene.start()
        try:
            with with_catalogue(scene, "openstack") as site:
                guests = scene.cloud.paused_guests([[volume(2**30), volume(2**30)] for _ in range(3)])
                try:
                    site.learn(guests)
                    day = Day(scene, site, Light(scene), guests)
                    day.right([*day.own, *day.first, *day.second], LIMIT)
                    day.light.start()
                    yield day
                    day.light.end()
                finally:
                    scene.end(guests)
        finally:
            scene.stop()


@contextmanager
def _small(home: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=0755", "tmpfs", str(home)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)


@pytest.mark.skipif(not DAYS, reason="takes minutes: script/soak")
def test_no_light_is_green_over_a_disk_that_is_not_as_desired(day: Day) -> None:
    steps = (day.project_and_exception, day.edits_of_specs, day.accident, day.daemon_and_libvirtd, day.wrong_things)
    for step in DAYS * steps:
        day.light.step = step.__name__
        step()
    assert not day.light.wrong, "\n".join(day.light.wrong[:20])
    print(f"{day.light.looks} looks, {day.light.red} of them not green")
