"""A real live migration, to a second libvirtd beside the first: the guest is left alone on both sides."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libvirt
import pytest

from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.hypervisor import Movement
from plimsoll_agent.limits import Limits
from tests.lab.cloud import Cloud, Guest, libvirtd
from tests.lab.node import Node
from tests.looking import in_force, put

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
def migrating(booted: Guest, target: str, hypervisor: Libvirt) -> Iterator[Guest]:
    """The booted guest in the middle of a migration that takes its time."""
    for letter in ("vda", "vdb"):
        put(hypervisor, booted.uuid, letter, Limits())
    domain = booted.domain()
    errors: list[Any] = []

    def migrate() -> None:
        flags = libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PEER2PEER
        slowly = {libvirt.VIR_MIGRATE_PARAM_BANDWIDTH: 1, libvirt.VIR_MIGRATE_PARAM_URI: "tcp:127.0.0.1:49199"}
        try:
            domain.migrateToURI3(target, slowly, flags)
        except libvirt.libvirtError as error:
            errors.append(error)

    thread = threading.Thread(target=migrate)
    thread.start()
    there = libvirt.open(target)
    deadline = time.monotonic() + 60
    while not there.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE) or not _transfers(domain):
        assert not errors, errors
        assert time.monotonic() < deadline, "the migration did not begin"
        time.sleep(0.1)
    there.close()
    yield booted
    domain.abortJob()
    thread.join(60)
    assert len(errors) == 1, "the migration was aborted, not completed"
    booted.wait_for_agent(60)


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

    assert in_force(hypervisor, migrating.uuid, "vdb") == Limits()
