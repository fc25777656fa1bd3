"""Faults of one guest: others are served meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lab.cloud import Guest
from lab.cloud.disk import volume
from lab.cloud.domain import without_limits
from lab.cloud.libvirtd import Libvirt, bindings
from lab.cloud.namespace import kill_and_wait
from tests import depth
from tests.lab.faults.scene import OTHERS, USUAL, Row, Scene, rules
from tests.lab.passes import LIMIT

STOPPED = depth.count(quick=0, landing=0, soak=600)
"""Seconds for which two QEMUs are stopped, at least."""
COPY_LIMIT = 64 * 2**10  # bytes per second: the copy is under way until it is aborted


@contextmanager
def qemu_stopped(scene: Scene, victim: Guest) -> Iterator[None]:
    pid = victim.qemu_pid
    scene.loosen(victim, "vda")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def two_stopped(scene: Scene, victim: Guest) -> Iterator[None]:
    """A pass over the node waits for both, and gives a third guest its limits by an edit, and new disks theirs."""
    second, third = new = scene.guests(2)
    scene.until_right(new, USUAL)
    pids = [guest.qemu_pid for guest in (victim, second)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        scene.watch.right.add(OTHERS)
        end = time.monotonic() + STOPPED
        edited = f"rules: [{{name: edited, match: {{guest: [{third.uuid}]}}, limits: {{total_iops_sec: 240}}}}]\n"
        for limits, more in ((OTHERS, edited), (LIMIT, "")):
            scene.node.write_rules(rules(LIMIT) + more)
            third.attach(volume(2**30))
            scene.until_right([third], 2 * USUAL, limits)
        while time.monotonic() < end:
            scene.loosen(third)
            scene.until_right([third], USUAL)
            time.sleep(1)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    scene.until_right(new, USUAL)
    scene.end(new)


@contextmanager
def qemu_killed(scene: Scene, victim: Guest) -> Iterator[None]:
    kill_and_wait(victim.qemu_pid)
    yield
    scene.until(lambda: not victim.domain().isActive(), "libvirt notices")
    victim.hard_reboot()


@contextmanager
def rebooted(scene: Scene, victim: Guest) -> Iterator[None]:
    victim.hard_reboot()
    yield


@contextmanager
def reset(scene: Scene, victim: Guest) -> Iterator[None]:
    victim.domain().resume()
    scene.loosen(victim, "vdb")
    victim.domain().reset()
    yield


@contextmanager
def paused(scene: Scene, victim: Guest) -> Iterator[None]:
    victim.domain().resume()
    victim.domain().suspend()
    scene.loosen(victim, "vdb")
    yield
    victim.domain().resume()


@contextmanager
def saved(scene: Scene, victim: Guest) -> Iterator[None]:
    file = scene.cloud.layout.root / f"{victim.name}.saved"
    victim.domain().resume()
    victim.domain().save(str(file))
    yield
    scene.cloud.libvirt.shared().restore(str(file))
    file.unlink()


@contextmanager
def saved_without_limits(scene: Scene, victim: Guest) -> Iterator[None]:
    """What is restored has the limits of the moment of the save."""
    file = scene.cloud.layout.root / f"{victim.name}.saved"
    connection = scene.cloud.libvirt.shared()
    victim.domain().resume()  # a paused one is paused again, and taken for one that migrates in, until it runs
    victim.domain().save(str(file))
    connection.saveImageDefineXML(str(file), without_limits(connection.saveImageGetXMLDesc(str(file))))
    yield
    connection.restore(str(file))
    file.unlink()


@contextmanager
def managed_saved(scene: Scene, victim: Guest) -> Iterator[None]:
    victim.domain().resume()
    victim.domain().managedSave()
    yield
    victim.domain().create()


@contextmanager
def plugged(scene: Scene, victim: Guest) -> Iterator[None]:
    victim.attach(volume(2**30))
    yield


@contextmanager
def replaced(scene: Scene, victim: Guest) -> Iterator[None]:
    victim.hard_reboot(other=volume(2**30))
    yield


@contextmanager
def block_job(scene: Scene, victim: Guest) -> Iterator[None]:
    file = scene.cloud.layout.root / f"{victim.name}.copy"
    target = f"<disk type='file'><driver type='raw'/><source file='{file}'/></disk>"
    transient = 4  # VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
    victim.domain().blockCopy("vdb", target, {"bandwidth": COPY_LIMIT}, transient)
    scene.loosen(victim, "vdb")
    yield
    victim.domain().blockJobAbort("vdb")
    file.unlink(missing_ok=True)


@contextmanager
def snapshot(scene: Scene, victim: Guest) -> Iterator[None]:
    """As Cinder and Nova make one."""
    image = victim.disks["vdb"]
    name = f"{image.pool}/{image.image}@fault"
    scene.cloud.ceph.rbd("snap", "create", name)
    scene.loosen(victim, "vdb")
    try:
        yield
    finally:
        scene.cloud.ceph.rbd("snap", "rm", name)


@contextmanager
def migrated(scene: Scene, victim: Guest) -> Iterator[None]:
    """To another libvirtd; back it comes without limits."""
    cloud = scene.cloud
    other = Libvirt(cloud.layout, cloud.namespace, beside="other")
    other.make(cloud.ceph.key("client.cinder"))
    try:
        victim.domain().resume()
        migrate(victim.domain(), other.uri)
        yield
        there = other.shared().lookupByUUIDString(victim.uuid)
        migrate(there, cloud.libvirt_uri, without_limits(there.XMLDesc(bindings().VIR_DOMAIN_XML_MIGRATABLE)))
    finally:
        other.close()
        other.daemon.kill()


def migrate(domain: Any, uri: str, definition: str | None = None) -> None:
    libvirt = bindings()
    flags = libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PEER2PEER
    flags |= libvirt.VIR_MIGRATE_PERSIST_DEST | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    given = {libvirt.VIR_MIGRATE_PARAM_URI: "tcp:127.0.0.1"}  # libvirt finds a port that is free
    if definition is not None:
        given[libvirt.VIR_MIGRATE_PARAM_DEST_XML] = definition
    domain.migrateToURI3(uri, given, flags)


ROWS = (
    Row(
        "QEMU stopped and continued",
        qemu_stopped,
        "the guest is set aside until it answers; a change that was sent is settled by reading",
        "0.2 s",
    ),
    Row(
        "two QEMUs stopped, while rules are edited and disks plugged",
        two_stopped,
        "all other guests get the new limits by the next pass over the node",
        "0.2 s",
    ),
    Row("QEMU killed", qemu_killed, "limited as soon as it is started again", "0.2 s"),
    Row("guest rebooted (hard)", rebooted, "limited as soon as it is started again", "0.2 s"),
    Row("guest reset", reset, "nothing; an external change at the same moment is reverted", "0.1 s"),
    Row("guest paused and continued", paused, "nothing; an external change at the same moment is reverted", "0.3 s"),
    Row("guest saved and restored", saved, "restored with its limits", "0.1 s"),
    Row("guest saved, restored without limits", saved_without_limits, "limited as soon as it is restored", "0.2 s"),
    Row("guest managed-saved and started", managed_saved, "started with its limits", "0.1 s"),
    Row("live migration away, and back without limits", migrated, "limited as soon as it runs", "0.9 s"),
    Row("disk plugged", plugged, "limited as soon as it is there", "0.1 s"),
    Row("disk replaced under the same letter", replaced, "the new disk is limited as a new one", "0.1 s"),
    Row("block job under way", block_job, "an external change is reverted while the copy runs", "0.1 s"),
    Row("snapshot under way", snapshot, "an external change is reverted while the snapshot exists", "0.1 s"),
)
