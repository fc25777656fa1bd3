"""The lab's Keystone and Cinder are the real ones, and their volumes are what guests have attached."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from lab.cloud import Cloud, Guest, Login, OpenStack
from lab.looking import actual
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits

GIB = 1024**3


def _name(word: str) -> str:
    return f"{word}-{uuid4().hex[:8]}"


@pytest.mark.shared
def test_a_volume_is_an_image_in_ceph_that_grows_with_it(cloud: Cloud, openstack: OpenStack) -> None:
    volume = openstack.create_volume(openstack.create_volume_type(_name("plain")))
    image = f"volumes/volume-{volume.id}"
    assert json.loads(cloud.ceph.rbd("info", image, "--format", "json"))["size"] == GIB
    openstack.extend(volume.id, 3)
    assert json.loads(cloud.ceph.rbd("info", image, "--format", "json"))["size"] == 3 * GIB
    openstack.delete_volume(volume.id)
    assert volume.id not in cloud.ceph.rbd("ls", "volumes")


@pytest.mark.shared
def test_an_attached_volume_keeps_the_limits_of_its_attachment_when_the_spec_is_edited(
    cloud: Cloud, openstack: OpenStack, guests: Callable[..., list[Guest]], hypervisor: Libvirt
) -> None:
    qos = openstack.create_qos(
        _name("gold"), {"read_iops_sec": 500, "total_bytes_sec_per_gb": 1048576, "read_iops_sec_max_length": 9}
    )
    volume = openstack.create_volume(openstack.create_volume_type(_name("gold"), qos), size_gib=2)
    (guest,) = guests()
    attachment = cloud.attach_volume(guest, volume.id)
    assert attachment.qos_specs["total_bytes_sec"] == 2 * 1048576
    # As Nova: the length of a burst is dropped.
    attached = Limits(read_iops_sec=500, total_bytes_sec=2 * 1048576)
    assert actual(hypervisor, guest.uuid, attachment.target) == attached
    assert guest.disks[attachment.target].volume_id == volume.id

    openstack.update_qos(qos, {"read_iops_sec": 900})
    cloud.extend_volume(guest, attachment, 4)
    assert guest.domain().blockInfo(attachment.target)[0] == 4 * GIB
    assert actual(hypervisor, guest.uuid, attachment.target) == attached

    guest.destroy()
    openstack.detach(attachment)
    assert openstack.wait_for_volume(volume.id, "available").size == 4


@pytest.mark.shared
def test_a_reader_may_do_what_the_policy_and_the_access_rules_say_and_no_more(openstack: OpenStack) -> None:
    reader = openstack.create_user(_name("reader"), ["reader"])
    assert _status(openstack, reader, "/qos-specs") == 403
    with openstack.cinder_policy({"volume_extension:qos_specs_manage:get_all": "role:reader"}):
        # Below the API the database layer asks once more, for an administrator (cinder/db/api.py).
        assert _status(openstack, reader, "/qos-specs") == 403
    with openstack.cinder_policy({"context_is_admin": "role:admin or role:reader"}):
        assert _status(openstack, reader, "/qos-specs") == 200
        narrow = openstack.create_application_credential(
            reader, "narrow", access_rules=[("block-storage", "GET", "/v3/types")]
        )
        assert _status(openstack, narrow, "/types") == 200
        assert _status(openstack, narrow, "/qos-specs") == 401
    assert _status(openstack, reader, "/qos-specs") == 403


def _status(openstack: OpenStack, who: Login, path: str) -> int:
    connection = openstack.connect(who)
    status: int = connection.block_storage.get(path).status_code
    connection.close()
    return status


@pytest.mark.shared
def test_what_cinder_was_asked_can_be_counted_and_told_apart_by_client(openstack: OpenStack) -> None:
    mark = openstack.mark()
    volume_type = openstack.create_volume_type(_name("counted"))
    openstack.connection.block_storage.get_type(volume_type.id)
    calls = Counter(request.call for request in openstack.requests_since(mark, agent="lab openstacksdk"))
    assert calls["POST /v3/types"] == 1
    assert calls["GET /v3/types/ID"] == 1
    assert openstack.requests_since(mark, agent="nobody") == []


@pytest.mark.shared
def test_clouds_yaml_is_enough_for_a_client_of_its_own(openstack: OpenStack, tmp_path: Path) -> None:
    import openstack as sdk

    file = openstack.clouds_yaml(tmp_path / "clouds.yaml", site=openstack.admin)
    loader = sdk.config.OpenStackConfig(config_files=[str(file)], load_envvars=False)
    with sdk.connection.Connection(config=loader.get_one("site")) as connection:
        assert list(connection.block_storage.services(binary="cinder-volume"))


@pytest.mark.hurt
def test_cinder_that_was_killed_or_frozen_is_well_again(cloud: Cloud, openstack: OpenStack) -> None:
    openstack.cinder.kill()
    openstack.keystone.stop()
    assert (openstack.cinder.state, openstack.keystone.state) == ("gone", "stopped")
    cloud.up(["openstack"])
    openstack.create_volume(openstack.create_volume_type(_name("again")))
