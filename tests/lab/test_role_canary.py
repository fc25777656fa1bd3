"""The role canary against a real Keystone, Glance, Cinder and Nova: what it makes, leaves, and takes back."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import libvirt
import pytest

from lab.cloud import Nova, OpenStack
from lab.cloud.nova import IMAGE
from lab.cloud.novaconf import HOST
from lab.looking import actual
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules import loader
from plimsoll_probes.schedule.targets import choose
from tests.lab.playbook import Playbooks, Played, write_localhost

pytestmark = pytest.mark.shared

NOTHING, MUCH = "canary/nothing.yml", "canary/much.yml"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    return write_localhost(tmp_path / "inventory/hosts.yml")


@pytest.fixture
def playbooks(tmp_path: Path, openstack: OpenStack) -> Playbooks:
    """For an administrator whose clouds.yaml is where OpenStack's programs look for it."""
    playbooks = Playbooks(tmp_path)
    playbooks.environment["OS_CLIENT_CONFIG_FILE"] = str(openstack.clouds_yaml(tmp_path / "clouds.yaml"))
    # openstack.cloud 2.5.0 takes it for loaded, as it was up to openstacksdk 4.14; the lab needs a newer one.
    (tmp_path / "sitecustomize.py").write_text("import openstack.version\n")
    playbooks.environment["PYTHONPATH"] = str(tmp_path)
    return playbooks


def all_there_is(openstack: OpenStack, word: str) -> list[Any]:
    """What bears the word, of guests, volumes and images."""
    cloud = openstack.connection
    everything = (*cloud.compute.servers(), *cloud.block_storage.volumes(), *cloud.image.images())
    return [one for one in everything if word in (one.name or "")]


def test_each_node_has_a_canary_after_a_run_and_none_when_they_are_taken_back(
    openstack: OpenStack, nova: Nova, on_the_node: Libvirt, playbooks: Playbooks, inventory: Path
) -> None:
    word = uuid4().hex[:8]
    qos = openstack.create_qos(f"gold-{word}", {"total_iops_sec_per_gb": 100})
    openstack.create_volume_type(f"gold-{word}", qos)
    nova.create_flavor(f"canary-{word}")
    (inventory.parent / "canary.raw").write_bytes(bytes(2**20))

    checked = playbooks.play(MUCH, inventory, "--check", word=word)
    assert checked.ok, checked.failures
    assert f"To be created: canary-{word}-{HOST}" in checked.said
    assert len(checked.changed) == 3, "the image, the volume, the guest"
    assert all_there_is(openstack, word) == []

    made = playbooks.play(MUCH, inventory, "-vvv", word=word)
    assert made.ok, made.failures
    (found,) = openstack.connection.compute.servers(name=word)
    (volume,) = (one for one in openstack.connection.block_storage.volumes() if word in (one.name or ""))
    assert (found.name, found.status, found.compute_host) == (f"canary-{word}-{HOST}", "ACTIVE", HOST)
    assert (volume.name, volume.size, volume.volume_type) == (found.name, 2, f"gold-{word}")
    assert [one.id for one in found.attached_volumes] == [volume.id]
    assert actual(on_the_node, found.id, "vdb") == Limits(total_iops_sec=200)
    assert '"admin_password": "' not in made.out, "Nova's answer has the guest's first one in it"

    with closing(libvirt.open(nova.libvirt_uri)) as connection:
        definition = connection.lookupByUUIDString(found.id).XMLDesc()
    assert "org.qemu.guest_agent.0" in definition, "the agent's channel, which the image asks for"
    assert chosen_by_its_rule(made, on_the_node.look(found.id).disks) == [(found.name, "/srv/data")]
    prepare = base64.b64decode(found.user_data)
    assert volume.id[:20].encode() in prepare
    subprocess.run(["sh", "-n"], input=prepare, check=True)

    again = playbooks.play(MUCH, inventory, word=word)
    assert (again.ok, again.changed) == (True, []), again.failures

    gone = playbooks.play(MUCH, inventory, word=word, plimsoll_canary_state="absent")
    assert gone.ok, gone.failures
    openstack.connection.block_storage.wait_for_delete(volume, interval=0.5, wait=30)
    assert all_there_is(openstack, word) == []


def chosen_by_its_rule(played: Played, disks: Sequence[Disk]) -> list[tuple[str, str]]:
    """The guests that the rule that the role says chooses, and where in them."""
    (rule,) = (
        result["plimsoll_canary_rule"] for _, _, result in played.results if result.get("plimsoll_canary_rule")
    )
    rules = loader.parse(json.dumps({"rules": [rule]}), "rules.yaml")
    targets = choose(rules, disks, datetime.now(UTC), node=HOST, default_directory="/elsewhere").targets
    return [(target.guest.display_name or "", target.directory) for target in targets]


def test_all_that_is_not_there_is_said_at_once_and_nothing_is_made(
    openstack: OpenStack, nova: Nova, playbooks: Playbooks, inventory: Path
) -> None:
    word = uuid4().hex[:8]
    missing = {
        "plimsoll_canary_volume_type": "golden",
        "plimsoll_canary_image": IMAGE,
        "plimsoll_canary_hosts": [HOST, "n15"],
    }
    played = playbooks.play(MUCH, inventory, word=word, plimsoll_canary_image_file="", **missing)
    said = played.failures["localhost"]
    assert said.startswith(f"Nothing was done: there is no flavor canary-{word} (plimsoll_canary_flavor); ")
    assert "there is no volume type golden (plimsoll_canary_volume_type) for this project, but " in said
    assert f"guests of the image {IMAGE} have no agent channel: " in said
    assert said.endswith("Nova has no node n15 (plimsoll_canary_hosts)")
    assert all_there_is(openstack, word) == []


def test_a_guest_of_another_project_with_a_canarys_name_is_left_alone(
    openstack: OpenStack, nova: Nova, playbooks: Playbooks, inventory: Path
) -> None:
    word = uuid4().hex[:8]
    volume = openstack.create_volume(openstack.create_volume_type(f"gold-{word}"), name=f"canary-{word}-{HOST}")
    played = playbooks.play(MUCH, inventory, word=word, plimsoll_canary_state="absent")
    assert played.failures["localhost"].startswith(
        f"Nothing was done: this project has canary-{word}-{HOST}, not created by this role"
    )
    assert [one.id for one in all_there_is(openstack, word)] == [volume.id]
    openstack.delete_volume(volume.id)


def test_with_nothing_set_or_no_cloud_it_says_what_must_be(playbooks: Playbooks, inventory: Path) -> None:
    played = playbooks.play(NOTHING, inventory)
    assert played.failures["localhost"].startswith(
        "Nothing was done: set plimsoll_canary_region, plimsoll_canary_hosts, plimsoll_canary_image,"
        " plimsoll_canary_flavor, plimsoll_canary_volume_type"
    )
    nowhere = playbooks.play(
        MUCH, inventory, word="r1", plimsoll_canary_cloud="nowhere", plimsoll_canary_image_file=""
    )
    assert nowhere.failures["localhost"].startswith("Nothing was done: the query of the cloud nowhere failed: ")
    assert "Traceback" not in nowhere.out
