"""The lab's Nova is the real one: what it writes into guests, and which of it is stale after a change."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from plimsoll_agent import domxml
from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.limits import Limits
from tests.lab.cloud import Nova, OpenStack
from tests.looking import in_force, put

pytestmark = pytest.mark.shared

GIB = 1024**3
QUOTA = {"quota:disk_read_iops_sec": "222"}


@pytest.fixture
def on_the_node(nova: Nova) -> Iterator[Libvirt]:
    hypervisor = Libvirt(nova.libvirt_uri, deadline=5, at_once=4)
    yield hypervisor
    hypervisor.close()


def test_nova_writes_limits_when_it_attaches_and_writes_the_old_ones_again_at_a_hard_reboot(
    openstack: OpenStack, nova: Nova, on_the_node: Libvirt
) -> None:
    word = uuid4().hex[:8]
    qos = openstack.create_qos(f"gold-{word}", {"total_iops_sec_per_gb": 100})
    volume = openstack.create_volume(openstack.create_volume_type(f"gold-{word}", qos), size_gib=2)
    server = nova.boot(f"web-{word}", nova.create_flavor(f"m1-{word}", QUOTA))
    assert nova.attach(server.id, volume.id) == "vdb"
    assert domxml.parse(on_the_node.look(server.id).xml)[0].extra_specs == QUOTA
    assert in_force(on_the_node, server.id, "vda") == Limits(read_iops_sec=222)
    assert in_force(on_the_node, server.id, "vdb") == Limits(total_iops_sec=200)

    openstack.update_qos(qos, {"total_iops_sec_per_gb": 300})
    nova.extend(server.id, volume.id, 4)
    assert in_force(on_the_node, server.id, "vdb") == Limits(total_iops_sec=200)

    put(on_the_node, server.id, "vdb", Limits(total_iops_sec=1200))
    nova.hard_reboot(server.id)
    assert in_force(on_the_node, server.id, "vdb") == Limits(total_iops_sec=200)
    assert nova.domain(server.id).blockInfo("vdb")[0] == 4 * GIB

    nova.delete(server.id)
    openstack.wait_for_volume(volume.id, "available")


def test_the_flavors_quota_misses_a_guest_that_boots_from_a_volume(
    openstack: OpenStack, nova: Nova, on_the_node: Libvirt
) -> None:
    word = uuid4().hex[:8]
    root = openstack.create_volume(openstack.create_volume_type(f"plain-{word}"), bootable=True)
    server = nova.boot(f"bfv-{word}", nova.create_flavor(f"m1-{word}", QUOTA), root_volume=root.id)
    assert in_force(on_the_node, server.id, "vda") == Limits()
    nova.delete(server.id)
