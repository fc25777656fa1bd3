"""Whatever runs on a node beside plain Nova guests: seen for what it is, and nothing of it stops a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import libvirt
import pytest

from lab.cloud import Cloud, Guest, Image, Server, ports
from lab.cloud.disk import belonging_to, ephemeral, volume, xml
from lab.looking import actual
from lab.node import Node
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from tests.lab import luks

pytestmark = pytest.mark.shared

RULES = "default: {limits: {total_iops_sec: 250}}\n"
LIMIT = Limits(total_iops_sec=250)


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    return Node(tmp_path, cloud, RULES)


@pytest.fixture
def raw_guest(cloud: Cloud) -> Iterator[Callable[[str, str], Any]]:
    """A paused guest that Nova did not make: ``raw_guest(name, devices)``."""
    connection = cloud.connect()
    made: list[Any] = []

    def make(name: str, devices: str) -> Any:
        domain = connection.createXML(
            f"<domain type='qemu'><name>{name}</name><memory unit='MiB'>8</memory><vcpu>1</vcpu>"
            f"<os><type arch='x86_64' machine='q35'>hvm</type></os><devices>{devices}"
            "<controller type='usb' model='none'/><memballoon model='none'/></devices></domain>",
            libvirt.VIR_DOMAIN_START_PAUSED,
        )
        made.append(domain)
        return domain

    yield make
    for domain in made:
        domain.destroy()
    connection.close()


@pytest.fixture
def rbd_disk(cloud: Cloud) -> Iterator[Callable[[str], str]]:
    """The XML of a disk under a target; its image goes with the test."""
    images: list[Image] = []

    def make(target: str) -> str:
        disk = belonging_to(str(uuid4()), ephemeral(2**24))
        cloud.ceph.create_image(disk.image.pool, disk.image.image, disk.size)
        images.append(disk.image)
        return xml(disk, target)

    yield make
    cloud.ceph.batch([{"remove": [image.pool, image.image]} for image in images])


@pytest.mark.parametrize(
    "name",
    ["two words", 'a "quoted" one', "it&apos;s &lt;odd&gt; &amp; old", "лодка 🐟", "مرحبا"],
)
def test_a_guest_of_any_name_that_nova_did_not_make_is_limited(
    node: Node,
    rbd_disk: Callable[[str], str],
    raw_guest: Callable[[str, str], Any],
    hypervisor: Libvirt,
    name: str,
) -> None:
    domain = raw_guest(name, rbd_disk("vda"))
    uuid = domain.UUIDString()
    enforce = node.run("enforce", "--guest", domain.name())
    assert enforce.status == 0, enforce.out + enforce.err
    assert actual(hypervisor, uuid, "vda") == LIMIT
    (row,) = node.run("disk", "list", "--guest", uuid, "-f", "json").data()
    assert row["guest"] == domain.name()
    shown = node.run("disk", "show", domain.name(), "-f", "json").data()
    assert shown["project"] is None


def test_only_rbd_disks_are_ours(
    cloud: Cloud,
    node: Node,
    rbd_disk: Callable[[str], str],
    raw_guest: Callable[[str, str], Any],
    hypervisor: Libvirt,
) -> None:
    local, iso = cloud.layout.root / "local.img", cloud.layout.root / "local.iso"
    for file in (local, iso):
        file.write_bytes(bytes(2**20))
    domain = raw_guest(
        "a bit of everything",
        rbd_disk("vda") + f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{local}'/>"
        "<target dev='vdb' bus='virtio'/></disk>"
        "<disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>"
        f"<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='{iso}'/>"
        "<target dev='sdb' bus='sata'/><readonly/></disk>"
        + rbd_disk("sdc").replace("device='disk'", "device='cdrom'").replace("virtio", "sata"),
    )
    enforce = node.run("enforce", "--guest", domain.UUIDString())
    assert enforce.status == 0, enforce.out + enforce.err
    assert "Done: 1 set, in " in enforce.out
    assert actual(hypervisor, domain.UUIDString(), "vda") == LIMIT
    for target in ("vdb", "sdb", "sdc"):
        assert domain.blockIoTune(target, 1)["total_iops_sec"] == 0


def test_a_guest_without_disks_is_no_trouble(node: Node, raw_guest: Callable[[str, str], Any]) -> None:
    domain = raw_guest("diskless", "")
    enforce = node.run("enforce", "--guest", domain.UUIDString())
    assert (enforce.status, enforce.err) == (0, "")


def test_what_nova_wrote_about_a_guest_is_shown(cloud: Cloud, node: Node) -> None:
    server = Server(name="tenant's <b>web</b> & \u202e db")
    guest: Guest = cloud.paused_guest([ephemeral(2**30), volume(2**30, "scsi")], server)
    try:
        shown = node.run("disk", "show", guest.uuid, "sda", "-f", "json").data()
        assert shown["display_name"] == server.name
        assert (shown["project"], shown["user"], shown["flavor"]) == (server.project, server.user, server.flavor.name)
        assert shown["bus"] == "scsi"
        assert shown["volume"] == guest.disks["sda"].volume_id
        assert shown["size"] == 2**30
        assert shown["monitors"] == [f"127.0.0.1:{ports.MONITOR_V1}"]
        assert shown["cluster"] == cloud.ceph.status()["fsid"]
        told = node.run("disk", "show", guest.uuid, "sda").out
        assert "\u202e" not in told, "nothing that turns a terminal's text around"
    finally:
        guest.destroy()


@pytest.fixture
def encrypted_disk(cloud: Cloud) -> Iterator[str]:
    disk = volume(2**26)
    with luks.encrypted(cloud, disk, "vda") as written:
        yield written
    luks.remove(cloud, disk)


def test_an_encrypted_volume_is_limited_like_any_other(
    node: Node, encrypted_disk: str, raw_guest: Callable[[str, str], Any], hypervisor: Libvirt
) -> None:
    domain = raw_guest("encrypted", encrypted_disk)
    enforce = node.run("enforce", "--guest", domain.UUIDString())
    assert enforce.status == 0, enforce.out + enforce.err
    assert actual(hypervisor, domain.UUIDString(), "vda") == LIMIT
    shown = node.run("disk", "show", "encrypted", "vda", "--verify", "-f", "json")
    assert shown.status == 0, shown.err
    assert shown.data()["encrypted"] is True
    assert shown.data()["qemu"] == LIMIT.in_effect(), "QEMU's own list names the image below the decryption"
    assert shown.data()["size"] == 2**26, "what the guest sees, without the LUKS header"
