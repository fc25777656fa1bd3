"""Real live migrations: to a libvirtd beside the first, and by Nova from one compute node to another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import libvirt
import pytest

from lab.cloud import Cloud, Guest, Nova, OpenStack, libvirtd, novaconf
from lab.cloud.secondnode import SecondNode
from lab.congested import WITH_FLOOR, Congested
from lab.daemon import Daemon, daemon_on
from lab.looking import actual, put
from lab.node import Node, Ran
from lab.waiting import until
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.hypervisor import Movement
from plimsoll_agent.model.limits import Limits

pytestmark = pytest.mark.hurt

RULES = "default: {limits: {total_iops_sec: 250}}\n"


@pytest.fixture
def target(cloud: Cloud) -> Iterator[str]:
    """The URI of a second libvirtd in the cloud's namespace."""
    other = libvirtd.Libvirt(cloud.layout, cloud.namespace, beside="target")
    other.make(cloud.ceph.key("client.cinder"))
    yield other.uri
    for domain in other.shared().listAllDomains():
        domain.destroy()
    other.close()
    other.daemon.kill()


@pytest.fixture
def migrating(booted: Guest, target: str, hypervisor: Libvirt, cloud: Cloud) -> Iterator[Guest]:
    """The booted guest in the middle of a migration that takes its time."""
    for letter in ("vda", "vdb"):
        put(hypervisor, booted.uuid, letter, Limits())
    domain = booted.domain()
    errors: list[Any] = []

    def migrate() -> None:
        flags = libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PEER2PEER
        slowly = {libvirt.VIR_MIGRATE_PARAM_BANDWIDTH: 1, libvirt.VIR_MIGRATE_PARAM_URI: "tcp:127.0.0.1"}
        try:
            domain.migrateToURI3(target, slowly, flags)
        except libvirt.libvirtError as error:
            errors.append(error)

    thread = threading.Thread(target=migrate)
    thread.start()
    there = libvirt.open(target)

    def begun() -> bool:
        assert not errors, errors
        return bool(there.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)) and _transfers(domain)

    until(begun, tell=lambda: "the migration did not begin")
    there.close()
    yield booted
    if not errors:
        abort_migration(cloud, booted)
    thread.join(60)
    assert len(errors) == 1, "the migration was aborted, not completed"
    booted.wait_for_agent(60)
    for letter in ("vda", "vdb"):
        put(hypervisor, booted.uuid, letter, Limits())


def abort_migration(cloud: Cloud, guest: Guest) -> None:
    """By another connection: that of the migration has a call under way, and may lose the wake-up for a second."""
    connection = cloud.connect()
    connection.lookupByUUIDString(guest.uuid).abortJob()
    connection.close()


def _transfers(domain: Any) -> bool:
    return bool(domain.jobStats().get("memory_processed", 0))


def test_a_guest_on_the_move_is_left_alone_on_both_sides(
    migrating: Guest, target: str, cloud: Cloud, tmp_path: Path, hypervisor: Libvirt
) -> None:
    assert hypervisor.look(migrating.uuid).movement is Movement.LEAVING
    (tmp_path / "source").mkdir()
    source = Node(tmp_path / "source", cloud, RULES).run("enforce", "--guest", migrating.uuid)
    assert source.status == 0, source.out + source.err
    assert "2 disks left alone: the guest is migrating out" in source.out

    arriving = Libvirt(target, deadline=5, at_once=4)
    assert arriving.look(migrating.uuid).movement is Movement.ARRIVING
    arriving.close()
    (tmp_path / "target").mkdir()
    there = Node(tmp_path / "target", cloud, RULES).run("enforce", "--guest", migrating.uuid, "--uri", target)
    assert there.status == 0, there.out + there.err
    assert "2 disks left alone: the guest is migrating in" in there.out

    assert actual(hypervisor, migrating.uuid, "vdb") == Limits()


def test_the_daemon_leaves_a_guest_alone_that_migrates_and_limits_it_when_that_is_cancelled(
    migrating: Guest, cloud: Cloud, tmp_path: Path, hypervisor: Libvirt
) -> None:
    node = Node(tmp_path, cloud, RULES)
    with node.settings.open("a") as file:  # libvirt has no event for a migration that is cancelled
        file.write("[daemon]\nfull_pass_interval = 10\n")
    with daemon_on(node):
        assert actual(hypervisor, migrating.uuid, "vdb") == Limits()
        abort_migration(cloud, migrating)
        until_limited(hypervisor, migrating.uuid, [250, 250])


def test_a_reduced_guest_is_as_the_node_has_it_to_which_it_moves(
    guests: Callable[..., list[Guest]], target: str, cloud: Cloud, tmp_path: Path, hypervisor: Libvirt
) -> None:
    """QEMU is started there with the reduced limits. They are never taken for what the disk had, or for desired."""
    (guest,) = guests()
    nodes = []
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
        nodes.append(Congested(tmp_path / name, cloud, WITH_FLOOR))
    source, other = nodes
    there = Libvirt(target, deadline=5, at_once=4)
    with daemon_on(source.node):
        source.publish(0.5)
        until_limited(hypervisor, guest.uuid, [500, 500])
        until_marked(hypervisor, guest.uuid)
        guest.domain().resume()
        migrate(guest, cloud.libvirt_uri, target)
        assert limits_of(there, guest.uuid) == [500, 500], "as it was"
    with daemon_on(other.node, "--uri", target):
        until_limited(there, guest.uuid, [1000, 1000])
        other.publish(0.7)
        until_limited(there, guest.uuid, [700, 700])
        until_marked(there, guest.uuid)
    source.publish(0.9)
    with daemon_on(source.node) as daemon:
        migrate(guest, target, cloud.libvirt_uri)
        until_limited(hypervisor, guest.uuid, [900, 900], daemon)
        source.publish(1)
        until_limited(hypervisor, guest.uuid, [1000, 1000], daemon)
    there.close()


def until_marked(hypervisor: Libvirt, uuid: str) -> None:
    """The guest's mark, which follows a write, tells other nodes that its limits are reduced."""
    marks = lambda: [disk.mark for disk in hypervisor.look(uuid).disks]  # noqa: E731
    until(lambda: all(mark is not None and mark.reduced for mark in marks()), tell=marks)


def migrate(guest: Guest, source: str, to: str) -> None:
    """Live, from one libvirtd to another, with its limits as QEMU has them."""
    with closing(libvirt.open(source)) as here, closing(libvirt.open(to)) as there:
        params = {libvirt.VIR_MIGRATE_PARAM_URI: "tcp:127.0.0.1"}
        here.lookupByUUIDString(guest.uuid).migrate3(there, params, libvirt.VIR_MIGRATE_LIVE)


@pytest.fixture
def second(nova: Nova, cloud: Cloud) -> Iterator[SecondNode]:
    """A second compute node of Nova's."""
    node = SecondNode(cloud.layout, cloud.namespace, nova)
    node.make(cloud.ceph.key("client.cinder"))
    yield node
    node.end()


def test_limits_and_a_hold_follow_a_live_migration_by_nova_and_back(
    nova: Nova, second: SecondNode, openstack: OpenStack, cloud: Cloud, tmp_path: Path
) -> None:
    """Nova gives a volume of a type with a QoS spec the spec's limits again; other disks keep what they have."""
    word = uuid4().hex[:8]
    gold = openstack.create_volume_type(f"gold-{word}", openstack.create_qos(f"gold-{word}", {"total_iops_sec": 200}))
    server = nova.boot(f"moves-{word}", nova.create_flavor(f"m1-{word}"))
    volume = openstack.create_volume(gold)
    nova.attach(server.id, volume.id)
    first = Libvirt(nova.libvirt_uri, deadline=5, at_once=4)
    other = Libvirt(second.libvirt.uri, deadline=5, at_once=4)
    by_host = {novaconf.HOST: (nova.libvirt_uri, first, "a"), second.host: (second.libvirt.uri, other, "b")}
    (start, (uri, on_it, home)) = next(one for one in by_host.items() if one[0] == server_host(nova, server.id))
    (there, (uri2, on_that, home2)) = next(one for one in by_host.items() if one[0] != start)

    def node(name: str) -> Node:
        (tmp_path / name).mkdir()
        return Node(tmp_path / name, cloud, RULES_OF_VOLUMES.format(250))

    a, b = node(home), node(home2)
    ok(a.run("enforce", "--uri", uri, "--guest", server.id))
    held = ("--for", "1h", "--limits", "total_iops_sec=100", "--reason", "noisy")
    ok(a.run("disk", "hold", "add", server.id, "vdb", *held, "--uri", uri))
    assert limits_of(on_it, server.id) == [250, 100]

    nova.live_migrate(server.id, there)
    assert limits_of(on_that, server.id) == [250, 200], "as Nova has it"
    ok(b.run("enforce", "--uri", uri2))
    assert limits_of(on_that, server.id) == [250, 100]
    assert [hold["reason"] for hold in b.run("disk", "hold", "list", "-f", "json").data()] == ["noisy"]
    assert "came with its guest from another node" in b.run("record", "--reason", "hold").out

    b.write_rules(RULES_OF_VOLUMES.format(260))
    ok(b.run("enforce", "--uri", uri2))
    assert limits_of(on_that, server.id) == [260, 100], "a changed default reaches it"
    ok(b.run("disk", "hold", "end", server.id, "vdb"))
    ok(b.run("enforce", "--uri", uri2))
    assert limits_of(on_that, server.id) == [260, 300]

    a.write_rules(RULES_OF_VOLUMES.format(270))
    with daemon_on(a, "--uri", uri):
        nova.live_migrate(server.id, start)
        until_limited(on_it, server.id, [270, 300])  # as it was left on the other node, and by the changed default
    assert a.run("disk", "hold", "list", "-f", "json").data() == []

    nova.hard_reboot(server.id)
    assert limits_of(on_it, server.id) == [0, 200], "without its mark, and as it was attached"
    ok(a.run("enforce", "--uri", uri))
    assert limits_of(on_it, server.id) == [270, 300], "the node's memory knows it"
    first.close()
    other.close()
    nova.delete(server.id)


RULES_OF_VOLUMES = """\
default: {{limits: {{total_iops_sec: {}}}}}
rules:
  - {{name: volumes, match: {{pool: volumes}}, limits: {{total_iops_sec: 300}}, override: true}}
"""


def server_host(nova: Nova, server_id: str) -> str:
    host: str = nova.openstack.connection.compute.get_server(server_id).compute_host
    return host


def limits_of(hypervisor: Libvirt, uuid: str) -> list[int]:
    return [actual(hypervisor, uuid, target).total_iops_sec for target in ("vda", "vdb")]


def until_limited(hypervisor: Libvirt, uuid: str, iops: list[int], daemon: Daemon | None = None) -> None:
    def has() -> str:
        why = f"{daemon.said}\n{daemon.node.run('plan', '-v').out}" if daemon else ""
        return f"{limits_of(hypervisor, uuid)}\n{why}"

    until(lambda: limits_of(hypervisor, uuid) == iops, tell=has)


def ok(ran: Ran) -> None:
    assert ran.status == 0, ran.out + ran.err
