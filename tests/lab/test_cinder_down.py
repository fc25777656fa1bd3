"""Keystone or Cinder gone, frozen or denying in a pass that asks first: no limit changes, and it ends in time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lab.cloud import Cloud, Guest, OpenStack
from lab.cloud.disk import volume as disk_of_a_volume
from lab.looking import actual
from lab.node import Node
from lab.waiting import until
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import replace
from tests.lab.test_daemon_cinder import working

pytestmark = pytest.mark.hurt

DEADLINE = 8
GRACE = 10
OLD = Limits(total_iops_sec=500)


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud, openstack: OpenStack) -> Iterator[Node]:
    node = Node(tmp_path, cloud)
    node.use_cinder(cloud, deadline=DEADLINE)
    yield node
    cloud.up(["openstack"])  # whatever was hurt is well again, or it fails here


@pytest.fixture
def attached(cloud: Cloud, openstack: OpenStack, guests: Callable[..., list[Guest]], node: Node) -> tuple[Any, Any]:
    """A spec, and the attachment of a volume that has its limits in force."""
    name = f"spec-{uuid4().hex[:8]}"
    qos = openstack.create_qos(name, {"total_iops_sec": 500})
    (guest,) = guests(disks=[])
    attachment = cloud.attach_volume(guest, openstack.create_volume(openstack.create_volume_type(name, qos)).id)
    # Other guests' volumes may be none of Cinder's, which a pass over all would end with 3 for.
    assert node.run("enforce", "--refresh", "--guest", attachment.instance_uuid).status == 0
    return qos, attachment


@contextmanager
def keystone_killed(openstack: OpenStack) -> Iterator[None]:
    openstack.keystone.kill()
    yield
    openstack.keystone.start()


@contextmanager
def cinder_killed(openstack: OpenStack) -> Iterator[None]:
    openstack.cinder.kill()
    yield
    openstack.cinder.start()


@contextmanager
def keystone_frozen(openstack: OpenStack) -> Iterator[None]:
    openstack.keystone.stop()
    yield
    openstack.keystone.cont()


@contextmanager
def cinder_frozen(openstack: OpenStack) -> Iterator[None]:
    openstack.cinder.stop()
    yield
    openstack.cinder.cont()


@contextmanager
def denied(openstack: OpenStack) -> Iterator[None]:
    with openstack.cinder_policy({"volume_extension:qos_specs_manage:get_all": "!"}):
        yield


@pytest.mark.parametrize("hurt", [keystone_killed, cinder_killed, keystone_frozen, cinder_frozen, denied])
def test_a_control_plane_in_trouble_changes_no_limit_and_delays_no_pass(
    hurt: Callable[[OpenStack], Any], openstack: OpenStack, attached: tuple[Any, Any], node: Node, hypervisor: Libvirt
) -> None:
    qos, attachment = attached
    openstack.update_qos(qos, {"total_iops_sec": 900})
    before = (node.catalogue / "catalogue.json").read_bytes()
    with hurt(openstack):
        began = time.monotonic()
        ran = node.run("enforce", "--refresh", "--guest", attachment.instance_uuid)
        took = time.monotonic() - began
    assert ran.status == 3, ran.out + ran.err
    assert len(ran.err.strip().splitlines()) == 1, ran.err
    assert "1 in sync" in ran.out
    assert took < DEADLINE + GRACE
    assert actual(hypervisor, attachment.instance_uuid, attachment.target) == OLD
    assert (node.catalogue / "catalogue.json").read_bytes() == before, "what was known stays"

    assert node.run("enforce", "--refresh", "--guest", attachment.instance_uuid).status == 0
    assert actual(hypervisor, attachment.instance_uuid, attachment.target) == Limits(total_iops_sec=900)


def test_without_asking_first_a_disk_is_right_in_the_first_pass_past_the_interval(
    openstack: OpenStack, attached: tuple[Any, Any], node: Node, hypervisor: Libvirt
) -> None:
    qos, attachment = attached
    openstack.update_qos(qos, {"total_iops_sec": 900})
    mark = openstack.mark()
    assert node.run("catalogue", "refresh").status == 0
    assert openstack.requests_since(mark, agent="plimsoll") == [], "nothing is due"
    assert node.run("enforce", "--guest", attachment.instance_uuid).status == 0
    assert actual(hypervisor, attachment.instance_uuid, attachment.target) == OLD

    _passed(node.catalogue / "catalogue.json", timedelta(seconds=60))  # the shortest interval there is
    assert node.run("catalogue", "refresh").status == 0
    assert node.run("enforce", "--guest", attachment.instance_uuid).status == 0
    assert actual(hypervisor, attachment.instance_uuid, attachment.target) == Limits(total_iops_sec=900)


def _passed(file: Path, time: timedelta) -> None:
    """As if it had been written so long ago."""
    data = json.loads(file.read_text())
    data["issued"] = (datetime.fromisoformat(data["issued"]) - time).isoformat()
    file.write_text(json.dumps(data))


def test_a_volume_that_no_catalogue_has_is_left_as_it_is_through_an_outage(
    cloud: Cloud, openstack: OpenStack, guests: Callable[..., list[Guest]], node: Node, hypervisor: Libvirt
) -> None:
    (guest,) = guests(disks=[])
    plain = openstack.create_volume_type(
        f"type-{uuid4().hex[:8]}", openstack.create_qos(uuid4().hex, {"total_iops_sec": 7})
    )
    attachment = cloud.attach_volume(guest, openstack.create_volume(plain).id)
    node.write_rules("default: {limits: {total_iops_sec: 250}}\n")
    with keystone_killed(openstack):
        ran = node.run("enforce", "--refresh")
    assert ran.status == 3
    assert actual(hypervisor, guest.uuid, attachment.target) == Limits(total_iops_sec=7), "no default takes over"


@pytest.mark.parametrize("hurt", [keystone_killed, cinder_killed])
def test_a_volume_attached_in_an_outage_has_its_spec_soon_after_it(
    hurt: Callable[[OpenStack], Any],
    cloud: Cloud,
    openstack: OpenStack,
    guests: Callable[..., list[Guest]],
    node: Node,
    hypervisor: Libvirt,
) -> None:
    """With the daemon: the refresher that an attachment starts fails, and is not started again and again."""
    name = uuid4().hex[:8]
    qos = openstack.create_qos(f"spec-{name}", {"total_iops_sec": 900})
    volume = openstack.create_volume(openstack.create_volume_type(f"type-{name}", qos))
    (guest,) = guests(disks=[])
    target = guest.free_target(disk_of_a_volume())
    attachment = openstack.attach(volume.id, guest.uuid, target)
    with working(node) as unit:
        with hurt(openstack):
            guest.plug(replace(attachment.disk(), iotune=()), target)
            until(lambda: unit.begun)
            assert node.run("enforce", "--guest", guest.uuid).status == 3
            assert actual(hypervisor, guest.uuid, target) == Limits(), "unknown: no default takes over"
            assert len(unit.begun) <= 2
        openstack.complete(attachment)
        # As its timer does when the pause after a failure is over.
        assert node.run("catalogue", "refresh", "--now").status == 0
        until(lambda: actual(hypervisor, guest.uuid, target) == Limits(total_iops_sec=900))
