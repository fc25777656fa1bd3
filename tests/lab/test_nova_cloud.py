"""The lab's Nova is the real one: what it writes into guests, and what of it is old after a change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.limits import Limits
from tests.lab.cloud import Cloud, Nova, OpenStack
from tests.lab.node import Node
from tests.looking import in_force

pytestmark = pytest.mark.shared

GIB = 1024**3


@pytest.fixture
def on_the_node(nova: Nova) -> Iterator[Libvirt]:
    hypervisor = Libvirt(nova.libvirt_uri, deadline=5, at_once=4)
    yield hypervisor
    hypervisor.close()


def test_limits_of_flavor_and_spec_are_what_nova_writes_and_a_hard_reboot_brings_the_old_ones_back(
    cloud: Cloud, openstack: OpenStack, nova: Nova, on_the_node: Libvirt, tmp_path: Path
) -> None:
    word = uuid4().hex[:8]
    qos = openstack.create_qos(f"gold-{word}", {"total_iops_sec_per_gb": 100})
    volume = openstack.create_volume(openstack.create_volume_type(f"gold-{word}", qos), size_gib=2)
    server = nova.boot(f"web-{word}", nova.create_flavor(f"m1-{word}", {"quota:disk_read_iops_sec": "222"}))
    nova.attach(server.id, volume.id)
    assert in_force(on_the_node, server.id, "vda") == Limits(read_iops_sec=222)
    assert in_force(on_the_node, server.id, "vdb") == Limits(total_iops_sec=200)

    openstack.update_qos(qos, {"total_iops_sec_per_gb": 300})
    openstack.extend(volume.id, 4)
    wait_for_size(nova, server.id, "vdb", 4 * GIB)
    node = Node(tmp_path, cloud, "default: {limits: {total_iops_sec: 250}}\n")
    shown = node.run("disk", "list", "--uri", nova.libvirt_uri, "-f", "json").data()
    print(json.dumps(shown))
    nova.hard_reboot(server.id)
    assert in_force(on_the_node, server.id, "vdb") == Limits(total_iops_sec=200)
    nova.delete(server.id)
    openstack.wait_for_volume(volume.id, "available")


def wait_for_size(nova, server_id, target, size):
    import time
    for _ in range(100):
        if nova.domain(server_id).blockInfo(target)[0] == size:
            return
        time.sleep(0.2)
    raise AssertionError(nova.domain(server_id).blockInfo(target))
