"""The daemon on real guests: what happens to them, and the limits that follow. Times are printed, not asserted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.disk import volume
from lab.daemon import Daemon, daemon_on
from lab.looking import actual, put
from lab.node import Node
from lab.observer import DEVICE_ADDED, STARTED, TUNABLE, Observer, observing
from lab.waiting import PATIENT
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from tests.lab.passes import LIMIT

RULES = "default: {limits: {total_iops_sec: 250}}\n"
LIVE = 1  # VIR_DOMAIN_AFFECT_LIVE

Guests = Callable[..., list[Guest]]


@pytest.fixture
def daemon(tmp_path: Path, cloud: Cloud) -> Iterator[Daemon]:
    node = Node(tmp_path, cloud, RULES)
    node.use_metrics(tmp_path)
    with daemon_on(node) as daemon:
        yield daemon
    hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=4)
    for guest in cloud.guests():  # its rules are for all guests, the booted one of other tests, too
        for target in guest.disks:
            put(hypervisor, guest.uuid, target, Limits())
    hypervisor.close()


@pytest.fixture
def observer(cloud: Cloud) -> Iterator[Observer]:
    with observing(cloud.libvirt_uri) as observer:
        yield observer


def told(what: str, seconds: float) -> None:
    print(f"{what}: {seconds * 1000:.0f} ms")


@pytest.mark.shared
@pytest.mark.core
def test_what_happens_to_a_guest_is_followed_by_its_limits(
    daemon: Daemon, observer: Observer, guests: Guests, hypervisor: Libvirt
) -> None:
    def in_force(*targets: str) -> None:
        assert {actual(hypervisor, guest.uuid, target) for target in targets} == {LIMIT}

    now = time.monotonic()
    (guest,) = guests()
    told("guest started, two disks", observer.reaction(STARTED, guest.uuid, 250, "vda", "vdb", after=now))
    in_force("vda", "vdb")

    now = time.monotonic()
    target = guest.attach(volume(2**30))
    told("device added", observer.reaction(DEVICE_ADDED, guest.uuid, 250, target, after=now))
    in_force("vda", "vdb", target)

    now = time.monotonic()
    guest.hard_reboot()
    told("hard reboot", observer.reaction(STARTED, guest.uuid, 250, "vda", "vdb", after=now))
    in_force("vda", "vdb")

    now = time.monotonic()
    guest.domain().setBlockIoTune("vdb", {"total_iops_sec": 9000}, LIVE)
    observer.wait(lambda seen: seen.uuid == guest.uuid and seen.limits.get("total_iops_sec") == 9000, now)
    told("external change", observer.reaction(TUNABLE, guest.uuid, 250, "vdb", after=now))
    in_force("vda", "vdb")

    daemon.until(lambda known: known.passes.get("changed") == 4)
    known = daemon.known
    assert known is not None
    assert sum(known.passes.values()) == 4, "no event of its own writes led to a pass"
    assert daemon.node.run("record", "--verify").status == 0
    print(f"{known.memory / 2**20:.0f} MiB, {known.threads} threads, {known.descriptors} descriptors")


@pytest.mark.shared
def test_a_suspended_and_a_reset_guest_keep_their_limits(
    daemon: Daemon, observer: Observer, guests: Guests, hypervisor: Libvirt
) -> None:
    now = time.monotonic()
    (guest,) = guests()
    observer.reaction(STARTED, guest.uuid, 250, "vda", "vdb", after=now)
    daemon.until(lambda known: known.passes.get("changed") == 1)
    guest.domain().resume()
    guest.domain().reset()
    guest.domain().suspend()
    daemon.until(lambda known: known.passes.get("in-sync"))
    assert actual(hypervisor, guest.uuid, "vdb") == LIMIT


@pytest.mark.hurt
def test_after_libvirtd_was_killed_guests_get_their_limits_and_others_keep_them(
    daemon: Daemon, cloud: Cloud, guests: Guests
) -> None:
    (old,) = guests()
    daemon.until(lambda known: known.passes.get("changed") == 1)
    cloud.libvirtd.kill()
    try:
        daemon.until(lambda known: known.disconnected)
    finally:
        cloud.libvirtd.start()
    began = time.monotonic()
    (new,) = guests()
    old.domain().setBlockIoTune("vdb", {"total_iops_sec": 9000}, LIVE)
    hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=4)
    end = time.monotonic() + PATIENT
    while {actual(hypervisor, guest.uuid, target) for guest in (old, new) for target in ("vda", "vdb")} != {LIMIT}:
        assert time.monotonic() < end, daemon.known
        time.sleep(0.05)
    told("libvirtd back, and a guest started", time.monotonic() - began)
    daemon.until(lambda known: known.reconnects == 1)
    hypervisor.close()
