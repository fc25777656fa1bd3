"""A node of a real Nova: what Nova writes into guests, and what plimsoll puts right of what it leaves stale."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from lab.cloud import Cloud, Nova, OpenStack, novaconf
from lab.cloud.disk import GIB
from lab.looking import actual
from lab.node import Node, Ran
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.adapters.libvirt.domxml import NOVAS, parse
from plimsoll_agent.model.limits import Limits

pytestmark = pytest.mark.shared

QUOTA = {"quota:disk_read_iops_sec": "222"}


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud, nova: Nova) -> Node:
    node = Node(tmp_path, cloud)
    node.use_cinder(cloud, nova=True, host=novaconf.HOST)
    return node


@pytest.fixture
def enforce(node: Node, nova: Nova) -> Callable[..., Ran]:
    def run(*words: str) -> Ran:
        ran = node.run("enforce", "--uri", nova.libvirt_uri, *words)
        assert ran.status == 0, ran.out + ran.err
        return ran

    return run


def test_an_edit_an_extend_and_a_hard_reboot_are_each_right_after_one_pass(
    openstack: OpenStack, nova: Nova, on_the_node: Libvirt, enforce: Callable[..., Ran]
) -> None:
    """Nova writes limits when it attaches a disk, and the same ones again at a hard reboot; nothing in between."""
    word = uuid4().hex[:8]
    qos = openstack.create_qos(f"gold-{word}", {"total_iops_sec_per_gb": 100})
    volume = openstack.create_volume(openstack.create_volume_type(f"gold-{word}", qos), size_gib=2)
    server = nova.boot(f"web-{word}", nova.create_flavor(f"m1-{word}", QUOTA))
    assert nova.attach(server.id, volume.id) == "vdb"
    assert on_the_node.look(server.id).guest.extra_specs == QUOTA
    assert actual(on_the_node, server.id, "vda") == Limits(read_iops_sec=222)
    assert actual(on_the_node, server.id, "vdb") == Limits(total_iops_sec=200)

    openstack.update_qos(qos, {"total_iops_sec_per_gb": 300})
    assert actual(on_the_node, server.id, "vdb") == Limits(total_iops_sec=200), "as it was attached"
    enforce("--refresh")
    assert actual(on_the_node, server.id, "vda") == Limits(read_iops_sec=222)
    assert actual(on_the_node, server.id, "vdb") == Limits(total_iops_sec=600)

    nova.extend(server.id, volume.id, 4)
    assert actual(on_the_node, server.id, "vdb") == Limits(total_iops_sec=600), "Nova tells the guest its size only"
    enforce()
    assert actual(on_the_node, server.id, "vdb") == Limits(total_iops_sec=1200)

    nova.hard_reboot(server.id)
    assert actual(on_the_node, server.id, "vdb") == Limits(total_iops_sec=200), "as it was attached"
    assert nova.domain(server.id).blockInfo("vdb")[0] == 4 * GIB
    enforce("--refresh")
    assert actual(on_the_node, server.id, "vdb") == Limits(total_iops_sec=1200)

    nova.delete(server.id)
    openstack.wait_for_volume(volume.id, "available")


def test_a_rule_holds_a_guest_that_boots_from_a_volume_to_its_flavor(
    openstack: OpenStack, nova: Nova, on_the_node: Libvirt, node: Node, enforce: Callable[..., Ran]
) -> None:
    word = uuid4().hex[:8]
    plain = openstack.create_volume_type(f"plain-{word}")
    root, data = openstack.create_volume(plain, bootable=True), openstack.create_volume(plain)
    server = nova.boot(f"bfv-{word}", nova.create_flavor(f"m1-{word}", QUOTA), root_volume=root.id)
    nova.attach(server.id, data.id)
    assert actual(on_the_node, server.id, "vda") == Limits(), "the flavor's quota misses it"
    enforce("--refresh")
    assert actual(on_the_node, server.id, "vda") == Limits(), "no rule says so"
    node.write_rules("rules:\n  - {name: bfv, match: {pool: volumes}, boot_volume_by_flavor: true}\n")
    enforce()
    assert actual(on_the_node, server.id, "vda") == Limits(read_iops_sec=222)
    assert actual(on_the_node, server.id, "vdb") == Limits(), "it is not booted from"
    nova.delete(server.id)


def test_nova_is_asked_once_for_flavors_that_the_definitions_do_not_tell(
    openstack: OpenStack, nova: Nova, on_the_node: Libvirt, node: Node, enforce: Callable[..., Ran]
) -> None:
    word = uuid4().hex[:8]
    flavor = nova.create_flavor(f"m1-{word}", QUOTA)
    servers = [nova.boot(f"{name}-{word}", flavor) for name in ("a", "b")]
    for server in servers:
        _as_an_older_nova_wrote_it(nova, server.id)
        nova.domain(server.id).setBlockIoTune("vda", {"read_iops_sec": 0}, 1)  # VIR_DOMAIN_AFFECT_LIVE
    assert node.run("enforce", "--uri", nova.libvirt_uri).status == 3, "nobody knows yet"
    assert {actual(on_the_node, server.id, "vda") for server in servers} == {Limits()}, "not known is not unlimited"
    mark = openstack.mark()
    enforce("--refresh")
    assert {actual(on_the_node, server.id, "vda") for server in servers} == {Limits(read_iops_sec=222)}
    asked = [request for request in openstack.requests_since(mark, agent="plimsoll") if request.service == "nova"]
    assert [request.path.endswith("/servers/detail") for request in asked if "servers" in request.path] == [True]

    mark = openstack.mark()
    enforce("--refresh")
    asked = [request for request in openstack.requests_since(mark, agent="plimsoll") if "servers" in request.path]
    assert asked == [], "a flavor stays until the guest is started anew"
    for server in servers:
        nova.delete(server.id)


def _as_an_older_nova_wrote_it(nova: Nova, uuid: str) -> None:
    domain = nova.domain(uuid)
    (instance,) = re.findall(r"<nova:instance.*?</nova:instance>", domain.XMLDesc(), re.DOTALL)
    without = re.sub(r"<nova:extraSpecs>.*?</nova:extraSpecs>", "", instance, flags=re.DOTALL)
    assert without != instance
    plain = re.sub(r"xmlns:nova=\S+?(?=>)|(?<=</)nova:|(?<=<)nova:", "", without)  # libvirt adds the namespace itself
    domain.setMetadata(2, plain, "nova", NOVAS[0].strip("{}"), 1)  # VIR_DOMAIN_METADATA_ELEMENT, _AFFECT_LIVE
    assert parse(domain.XMLDesc())[0].extra_specs is None
