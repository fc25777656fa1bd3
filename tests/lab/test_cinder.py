"""What Cinder says decides, also for disks attached long ago: real Keystone, Cinder, RBD, libvirt and QEMU."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lab.cloud import Cloud, Guest, OpenStack
from lab.node import Node, Ran
from plimsoll_agent.adapters.libvirt import domxml
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.catalogue.planner import SKEW
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import replace
from tests.lab import luks

pytestmark = pytest.mark.shared

Guests = Callable[..., list[Guest]]


@dataclass
class Site:
    """A node, how it comes to know what Cinder says, and a guest that the tests attach volumes to."""

    node: Node
    cloud: Cloud
    openstack: OpenStack
    guest: Guest
    hypervisor: Libvirt
    publish: Callable[[], None] | None
    """What the region's machine does now and then; None where the node asks Cinder itself."""

    def qos(self, consumer: str = "front-end", **keys: object) -> Any:
        return self.openstack.create_qos(_name("spec"), keys, consumer=consumer)

    def volume(self, qos: Any = None, size_gib: int = 1) -> Any:
        kind = self.openstack.create_volume_type(_name("type"), qos)
        return self.openstack.create_volume(kind, size_gib=size_gib)

    def attach(self, volume: Any) -> Any:
        return self.cloud.attach_volume(self.guest, volume.id)

    def enforce(self) -> Ran:
        """One pass that asks first. A region's file must have been begun after the disks were met."""
        if self.publish is not None:
            self.node.run("enforce")
            time.sleep(SKEW.total_seconds())
            self.publish()
        return self.node.run("enforce", "--refresh")

    def start_paused(self, text: str) -> None:
        """As Nova starts a guest: defined anew."""
        self.cloud.libvirt.shared().defineXML(text).createWithFlags(1)  # VIR_DOMAIN_START_PAUSED

    def qemu(self, attachment: Any) -> Limits:
        """QEMU's own answer, past libvirt."""
        disks = domxml.parse(self.guest.domain().XMLDesc())[1]
        (disk,) = (disk for disk in disks if disk.volume_id == attachment.volume_id)
        return self.hypervisor.qemu_says(self.guest.uuid)[disk.path]


def _name(word: str) -> str:
    return f"{word}-{uuid4().hex[:8]}"


BOTH_WAYS = ("credentials on the node", "region file")
# For tests of which the shorter way is enough where time is short.
CORE_BY_CREDENTIALS = pytest.mark.parametrize(
    "site", [pytest.param(BOTH_WAYS[0], marks=pytest.mark.core), BOTH_WAYS[1]], indirect=True
)


@pytest.fixture(params=BOTH_WAYS)
def site(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    cloud: Cloud,
    openstack: OpenStack,
    guests: Guests,
    hypervisor: Libvirt,
) -> Site:
    node = Node(tmp_path, cloud)
    node.use_cinder(cloud)
    publish = _published_by(tmp_path, cloud, node) if request.param == "region file" else None
    (guest,) = guests(disks=[])
    return Site(node, cloud, openstack, guest, hypervisor, publish)


def _published_by(home: Path, cloud: Cloud, node: Node) -> Callable[[], None]:
    """One machine of the region fetches for all; the node has no credentials."""
    private, public, out = home / "region.key", home / "region.pub", home / "region.json"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    private.chmod(0o600)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    (home / "fetcher").mkdir()
    fetcher = Node(home / "fetcher", cloud)
    fetcher.use_cinder(cloud)
    node.use_region_file(out, public)
    (home / "clouds.yaml").unlink()

    def publish() -> None:
        make = ("catalogue", "refresh", "--region-file", str(out), "--signing-key", str(private))
        ran = fetcher.run(*make)
        if ran.status == 4:  # these edits are meant, removals too
            typed = re.search(r"plimsoll (region approve .*) --reason TEXT", ran.err)
            assert typed, ran.err
            approved = fetcher.run(*shlex.split(typed[1]), "--reason", "meant", "--region-file", str(out))
            assert approved.status == 0, approved.err
            ran = fetcher.run(*make)
        assert ran.status == 0, ran.err

    return publish


@CORE_BY_CREDENTIALS
def test_an_edited_spec_reaches_a_disk_that_is_attached(site: Site) -> None:
    qos = site.qos(total_iops_sec=500)
    attached = site.attach(site.volume(qos))
    site.openstack.update_qos(
        qos, {"total_iops_sec": 3000, "total_iops_sec_max": 4000, "total_iops_sec_max_length": 9}
    )
    assert site.qemu(attached) == Limits(total_iops_sec=500), "Cinder itself tells nobody"
    ran = site.enforce()
    assert ran.status == 0, ran.out + ran.err
    desired = Limits(total_iops_sec=3000, total_iops_sec_max=4000, total_iops_sec_max_length=9)
    assert site.qemu(attached) == desired
    assert site.node.run("plan").status == 0


def test_a_type_that_is_given_another_spec_takes_its_disks_along(site: Site) -> None:
    old, new = site.qos(total_iops_sec=500), site.qos(read_iops_sec=300, write_iops_sec=200)
    volume = site.volume(old)
    attached = site.attach(volume)
    blocks = site.openstack.connection.block_storage
    kind = blocks.find_type(volume.volume_type)
    blocks.disassociate_qos_spec(old, kind.id)
    blocks.associate_qos_spec(new, kind.id)
    assert site.enforce().status == 0
    assert site.qemu(attached) == Limits(read_iops_sec=300, write_iops_sec=200)


@CORE_BY_CREDENTIALS
def test_an_extended_disk_has_its_limits_per_gib_in_the_very_next_pass(site: Site) -> None:
    qos = site.qos(consumer="both", total_iops_sec_per_gb=30, total_iops_sec_per_gb_min=100, total_iops_sec_max=200)
    attached = site.attach(site.volume(qos, size_gib=2))
    assert site.enforce().status == 0
    assert site.qemu(attached) == Limits(total_iops_sec=100)
    for size, iops in ((5, 150), (9, 200)):
        site.cloud.extend_volume(site.guest, attached, size)
        ran = site.node.run("enforce")
        assert ran.status == 0, ran.err
        assert site.qemu(attached) == Limits(total_iops_sec=iops), "nobody has to be asked: the size is libvirt's"


@pytest.mark.parametrize("site", BOTH_WAYS[:1], indirect=True)
def test_a_luks_header_takes_nothing_from_limits_per_gib(site: Site) -> None:
    volume = site.volume(site.qos(total_iops_sec_per_gb=300), size_gib=2)
    attachment = site.openstack.attach(volume.id, site.guest.uuid, "vda")
    attached = attachment.disk()
    luks.remove(site.cloud, attached)
    behind_the_header = replace(attached, size=attached.size - 16 * 2**20)  # LUKS2's
    with luks.encrypted(site.cloud, behind_the_header, "vda") as written:
        site.guest.domain().attachDevice(written)
        site.openstack.complete(attachment)
        enforced = site.enforce()
        assert enforced.status == 0, enforced.out + enforced.err
        assert site.guest.domain().blockInfo("vda")[0] == 2 * 2**30 - 16 * 2**20
        assert site.qemu(attachment) == Limits(total_iops_sec=600), "Cinder and Nova count 2 GiB"


def test_old_limits_that_a_hard_reboot_brings_back_go_in_one_pass(site: Site) -> None:
    qos = site.qos(total_iops_sec=500)
    attached = site.attach(site.volume(qos))
    old = site.guest.domain().XMLDesc(2)  # VIR_DOMAIN_XML_INACTIVE: what the volume was attached with
    site.openstack.update_qos(qos, {"total_iops_sec": 900})
    assert site.enforce().status == 0
    assert site.qemu(attached) == Limits(total_iops_sec=900)

    site.guest.domain().destroy()
    site.start_paused(old)
    assert site.qemu(attached) == Limits(total_iops_sec=500)
    left = site.node.run("enforce")
    assert site.qemu(attached) == Limits(total_iops_sec=500), "its type may be another one by now"
    assert left.status == 0
    assert "volume not fetched from Cinder since it was attached" in left.out
    assert site.enforce().status == 0
    assert site.qemu(attached) == Limits(total_iops_sec=900)


def test_detach_retype_attach_does_not_bring_the_old_types_limits_back(site: Site) -> None:
    gold, bronze = site.qos(total_iops_sec=3000), site.qos(total_iops_sec=100)
    volume = site.volume(gold)
    attached = site.attach(volume)
    assert site.enforce().status == 0
    site.guest.domain().destroy()
    site.openstack.detach(attached)
    site.openstack.retype(volume.id, site.openstack.create_volume_type(_name("type"), bronze))
    again = site.openstack.attach(volume.id, site.guest.uuid, attached.target)
    text = site.guest.domain().XMLDesc(2).replace("<total_iops_sec>3000<", "<total_iops_sec>100<")
    site.start_paused(text)
    site.openstack.complete(again)
    assert site.node.run("enforce").status == 0
    assert site.qemu(again) == Limits(total_iops_sec=100)
    assert site.enforce().status == 0
    assert site.qemu(again) == Limits(total_iops_sec=100)
    assert "Plan: nothing to change, " in site.node.run("plan").out


def test_no_spec_is_no_word_and_the_back_ends_spec_is_not_ours(site: Site) -> None:
    plain, backend = site.attach(site.volume()), site.attach(site.volume(site.qos("back-end", total_iops_sec=5)))
    both = site.attach(site.volume(site.qos("both", total_iops_sec=600)))
    assert site.enforce().status == 0
    assert [site.qemu(one) for one in (plain, backend, both)] == [Limits(), Limits(), Limits(total_iops_sec=600)]
    told = site.node.run("disk", "explain", site.guest.uuid, backend.volume_id)
    assert "is not for QEMU (consumer back-end)" in told.out
