"""A volume is attached by Cinder and libvirt while the daemon runs: its QoS spec follows, by a refresh in between."""

from __future__ import annotations

import configparser
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest

from lab.cloud import Cloud, Guest, OpenStack
from lab.cloud.disk import volume as disk_of_a_volume
from lab.daemon import daemon_on
from lab.node import Node
from lab.observer import DEVICE_ADDED, Observer, observing
from lab.waiting import PATIENT
from plimsoll_agent.store.refresh_state import RefreshDir
from plimsoll_agent.util.frozen import replace

pytestmark = pytest.mark.shared

Guests = Callable[..., list[Guest]]

UNIT = Path(__file__).parents[2] / "systemd/plimsoll-catalogue.service"
PROMISED = 15.0
"""Seconds from a first attachment to its limits: docs/guide/catalogue.rst has 12."""
SPACING = 10.0
CALLS = 4
"""Of a refresh at most: types, QoS specs, new volumes, known volumes."""
IOPS = 900


class PathUnit(threading.Thread):
    """systemd's part of plimsoll-catalogue.path: starts the command of the service when its files say so."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read(UNIT)
        _, *self._words = unit["Service"]["ExecStart"].split()
        self._node = node
        self._again = node.catalogue / "again"
        self._ended = threading.Event()
        self.begun: list[datetime] = []
        """When each refresh began, by the refresher's own notes."""

    def run(self) -> None:
        seen = self._written()
        while not self._ended.wait(0.05):
            if self._written() == seen and not self._again.exists():
                continue
            seen = self._written()
            self._again.unlink(missing_ok=True)
            self._node.run(*self._words)
            begun = RefreshDir(self._node.catalogue).load_notes().begun
            assert begun is not None
            self.begun.append(begun)

    def _written(self) -> int:
        try:
            return self._node.state.attachments.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def end(self) -> None:
        self._ended.set()
        self.join(PATIENT)


@contextmanager
def working(node: Node) -> Iterator[PathUnit]:
    """The daemon and the path unit."""
    unit = PathUnit(node)
    with daemon_on(node):
        unit.start()
        try:
            yield unit
        finally:
            unit.end()


@pytest.fixture
def observer(cloud: Cloud) -> Iterator[Observer]:
    with observing(cloud.libvirt_uri) as observer:
        yield observer


def attach(openstack: OpenStack, guest: Guest, volume_id: str) -> str:
    """As Nova does, but for the limits that Cinder handed out: only what a refresh fetched can set them."""
    target = guest.free_target(disk_of_a_volume())
    attachment = openstack.attach(volume_id, guest.uuid, target)
    guest.plug(replace(attachment.disk(), iotune=()), target)
    openstack.complete(attachment)
    return target


def test_the_spec_of_an_attached_volume_is_in_force_within_seconds_and_cinder_is_asked_once_in_ten(
    tmp_path: Path, cloud: Cloud, openstack: OpenStack, guests: Guests, observer: Observer
) -> None:
    node = Node(tmp_path, cloud)
    node.use_cinder(cloud)
    (guest,) = guests(disks=[])
    ready = []
    for _ in range(5):
        name = uuid4().hex[:8]
        qos = openstack.create_qos(f"spec-{name}", {"total_iops_sec": IOPS})
        kind = openstack.create_volume_type(f"type-{name}", qos)
        ready.append(openstack.create_volume(kind, size_gib=1).id)
    first, *more = ready

    with working(node) as unit:
        mark, begun = openstack.mark(), time.monotonic()
        target = attach(openstack, guest, first)
        seconds = observer.reaction(DEVICE_ADDED, guest.uuid, IOPS, target, after=begun)
        print(f"first attachment: its spec in force {seconds * 1000:.0f} ms after libvirt's event")
        assert seconds < PROMISED

        # On a busy machine an attachment takes seconds: each counts from its own.
        begins = {}
        for each in more:
            at = time.monotonic()
            begins[attach(openstack, guest, each)] = at
        for each, at in begins.items():
            seconds = observer.reaction(DEVICE_ADDED, guest.uuid, IOPS, each, after=at)
            print(f"{each}, one of {len(begins)} in a row: {seconds * 1000:.0f} ms")
            assert seconds < PROMISED + SPACING
        time.sleep(SPACING)  # what is left behind would follow by then
        ended = time.monotonic()

    requests = [each for each in openstack.requests_since(mark, agent="plimsoll") if each.service == "cinder"]
    requests = [each for each in openstack.requests_since(mark, agent="plimsoll") if each.service == "cinder"]
    gaps = [(after - before).total_seconds() for before, after in pairwise(unit.begun)]
    print(
        f"{len(unit.begun)} refreshes with {len(requests)} calls of Cinder, {[f'{gap:.1f}' for gap in gaps]} s apart"
    )
    assert len(unit.begun) <= 1 + (ended - begun) / SPACING
    assert all(gap >= SPACING for gap in gaps), "refreshes that attachments start are 10 s apart"
    assert len(requests) <= CALLS * len(unit.begun), "no call for each volume"
    assert node.run("record", "--verify").status == 0
