"""A real live migration, to a second libvirtd beside the first: the guest is left alone on both sides."""

from __future__ import annotations

import shutil
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
from tests.lab.cloud import Cloud, Daemon, Guest
from tests.lab.cloud.libvirtd import SECRET_XML
from tests.lab.node import Node
from tests.looking import in_force, put

pytestmark = pytest.mark.hurt

RULES = "default: {limits: {total_iops_sec: 250}}\n"
COVERED = ("etc/libvirt", "run/libvirt", "var/lib/libvirt", "var/cache/libvirt", "var/log/libvirt")
OTHER_HOST = "7b1c0b5e-93ad-4a38-9e5b-5a9d1a1c2d3e"


@pytest.fixture
def target(cloud: Cloud) -> Iterator[str]:
    """The URI of a second libvirtd in the cloud's namespace, with directories and a host id of its own."""
    root = cloud.layout.root
    home = root / "second"
    for place in COVERED:
        (home / place).mkdir(parents=True, exist_ok=True)
    shutil.copy(root / "etc/libvirt/qemu.conf", home / "etc/libvirt")
    settings = (root / "etc/libvirt/libvirtd.conf").read_text()
    # libvirt refuses to migrate a guest to the host that it is on.
    (home / "etc/libvirt/libvirtd.conf").write_text(f'{settings}host_uuid = "{OTHER_HOST}"\n')
    binds = " && ".join(f"mount --bind {home}/{place} /{place}" for place in COVERED)
    uri = f"qemu+unix:///system?socket={home}/run/libvirt/libvirt-sock"
    daemon = Daemon(
        cloud.namespace,
        "libvirtd-target",
        ["unshare", "--mount", "sh", "-c", f"{binds} && exec libvirtd --pid-file {home}/libvirtd.pid"],
        home / "libvirtd.out",
        lambda: _serves(uri),
    )
    daemon.start()
    connection = libvirt.open(uri)
    secret = connection.secretDefineXML(SECRET_XML, 0)
    here = cloud.connect()
    secret.setValue(here.secretLookupByUUIDString(secret.UUIDString()).value(), 0)
    here.close()
    yield uri
    for domain in connection.listAllDomains():
        domain.destroy()
    connection.close()
    daemon.kill()


def _serves(uri: str) -> bool:
    try:
        libvirt.open(uri).close()
    except libvirt.libvirtError:
        return False
    return True


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
