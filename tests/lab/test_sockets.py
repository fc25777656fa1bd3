"""Whom a pass talks to: the kernel's word on every socket of a real ``plimsoll enforce``, and what it imported."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest, ports
from lab.looking import actual
from lab.node import Node
from plimsoll_agent.adapters.ed25519 import read_private
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.catalogue import attachments, signed_file
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import Catalogue, Volume, VolumeType
from plimsoll_agent.catalogue.qosspec import Consumer, QosSpec
from plimsoll_agent.catalogue.signed_file import Region
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.store.refresh_state import RefreshDir
from tests.functional.webserver import key_pair

pytestmark = pytest.mark.shared

Guests = Callable[..., list[Guest]]

# What a program needs that speaks HTTP, has keys, or checks a signature: a pass does only that, of a new region file.
NOT_IN_A_PASS = ("requests", "urllib3", "http.client", "ssl", "keystoneauth1", "openstack", "cryptography")
# The C library asks there for the name of a user; nobody but this machine listens.
NAME_SERVICE = "/var/run/nscd/socket"
RULES = "rules:\n  - {name: own, match: {pool: vms}, override: true, limits: {total_iops_sec: 300}}\n"


@dataclass(frozen=True)
class Trace:
    """What a pass did that others could notice."""

    families: frozenset[str]
    """Of its sockets, children's too."""
    peers: frozenset[str]
    """Paths, and ports of this machine."""
    modules: frozenset[str]


@pytest.fixture
def guest(guests: Guests) -> Guest:
    (guest,) = guests()
    return guest


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud, guest: Guest) -> Node:
    """It has met the guest's volume."""
    node = Node(tmp_path, cloud, RULES)
    node.use_cinder(cloud)
    assert node.run("enforce", "--mode=observe", "--guest", guest.uuid).status in (0, 3)
    return node


def cinder_said(node: Node, iops_per_gib: int) -> None:
    """Of all volumes that the node has met; per GiB, so that a pass asks for sizes too."""
    met = attachments.load(node.state.attachments)
    assert met is not None
    spec = QosSpec(
        id="s", name="gold", consumer=Consumer.FRONT_END, keys={"total_iops_sec_per_gb": str(iops_per_gib)}
    )
    type, now = VolumeType(id="t", name="gold", qos_spec=spec.id), datetime.now(UTC)
    volumes = {
        id: Volume(type=type.id, marks=frozenset(marks), read=now) for id, marks in met.marks_of_volumes().items()
    }
    catalogue.save(node.catalogue, Catalogue(1, now, "lab", {spec.id: spec}, {type.id: type}, volumes))


def enforce_traced(node: Node, guest: Guest) -> Trace:
    log = node.home / "strace"
    command = [
        *("strace", "-f", "-qq", "-e", "trace=socket,connect", "-o", str(log)),
        *(sys.executable, "-X", "importtime", str(Path(sys.executable).with_name("plimsoll"))),
        *("--config-file", str(node.home / "plimsoll.conf"), "enforce", "--guest", guest.uuid),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=node.environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    calls = log.read_text()
    modules = re.findall(r"^import time: [^|]*\|[^|]*\|\s*(\S+)$", ended.stderr, re.MULTILINE)
    assert "plimsoll_agent.reconcile.run" in modules
    return Trace(
        families=frozenset(re.findall(r"socket\((\w+)", calls)),
        peers=frozenset(re.findall(r'sun_path=@?"([^"]*)"', calls) + re.findall(r"_port=htons\((\d+)\)", calls)),
        modules=frozenset(modules),
    )


def test_a_pass_with_a_catalogue_talks_to_libvirt_alone(
    node: Node, guest: Guest, cloud: Cloud, hypervisor: Libvirt
) -> None:
    cinder_said(node, 500)
    trace = enforce_traced(node, guest)
    assert actual(hypervisor, guest.uuid, "vdb") == Limits(total_iops_sec=500), "it went by the catalogue"
    assert trace.families == {"AF_UNIX"}
    assert trace.peers - {NAME_SERVICE} == {str(cloud.layout.libvirt_socket)}


def test_a_pass_with_a_catalogue_has_no_http_client_and_no_keys(node: Node, guest: Guest) -> None:
    cinder_said(node, 500)
    modules = enforce_traced(node, guest).modules
    assert {name for name in modules if name.startswith(tuple(f"{one}." for one in NOT_IN_A_PASS))} == set()
    assert modules & {*NOT_IN_A_PASS} == set()


def test_orders_for_the_region_are_checked_once_and_without_a_client_or_a_secret_key(
    node: Node, guest: Guest, tmp_path: Path
) -> None:
    cinder_said(node, 500)
    key, public = key_pair(tmp_path)
    node.use_region_file(tmp_path / "none", public)
    now = datetime.now(UTC)
    file = read_private(key).seal(signed_file.encode(Region(generation=1, issued=now, begun=now, source="lab")))
    RefreshDir(node.catalogue).save_region_file(file)
    key.unlink()
    for checks in (True, False):
        trace = enforce_traced(node, guest)
        assert trace.families == {"AF_UNIX"}
        assert trace.modules & {*NOT_IN_A_PASS} == ({"cryptography"} if checks else set())


def test_only_a_raise_lets_a_pass_ask_ceph_too(node: Node, guest: Guest, hypervisor: Libvirt) -> None:
    cinder_said(node, 500)
    assert node.run("enforce", "--guest", guest.uuid).status == 0
    cinder_said(node, 900)
    trace = enforce_traced(node, guest)
    assert actual(hypervisor, guest.uuid, "vdb") == Limits(total_iops_sec=900)
    asked = {int(peer) for peer in trace.peers if peer.isdecimal()}
    assert asked, "strace sees what goes over the network"
    first, last = ports.CEPH_DAEMONS
    assert asked <= {ports.MONITOR_V1, ports.MONITOR_V2, *range(first, last + 1)}
