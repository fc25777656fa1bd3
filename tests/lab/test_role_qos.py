"""The role qos against a real Keystone and Cinder: what check mode says, what a run does, and what it does not do."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

import pytest

from lab.cloud import Cloud, OpenStack
from lab.node import Node
from plimsoll_agent.qos import file as qos_file
from plimsoll_agent.qos.file import Declaration, DeclaredType, Spec
from tests.lab.playbook import Playbooks, write_localhost

pytestmark = pytest.mark.shared


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud, openstack: OpenStack) -> Node:
    """For what plimsoll says by itself."""
    node = Node(tmp_path, cloud)
    node.use_cinder(cloud)
    return node


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    return write_localhost(tmp_path / "inventory/hosts.yml")


@pytest.fixture
def playbooks(node: Node, tmp_path: Path) -> Playbooks:
    """For an administrator whose clouds.yaml is where OpenStack's programs look for it."""
    playbooks = Playbooks(tmp_path)
    playbooks.environment |= {
        "OS_CLOUD": "lab",
        "OS_CLIENT_CONFIG_FILE": node.environment["OS_CLIENT_CONFIG_FILE"],
    }
    return playbooks


def declare(file: Path, word: str, iops: int) -> None:
    name = f"role-{word}"
    spec = Spec(name, "front-end", {"total_iops_sec": str(iops)})
    file.write_text(qos_file.text_of(Declaration({name: spec}, {name: DeclaredType(name=name, qos_spec=name)})))


def test_check_mode_shows_the_plan_and_changes_nothing_then_a_run_does_it_and_the_next_has_nothing_to_do(
    node: Node, playbooks: Playbooks, inventory: Path, word: str
) -> None:
    before = node.run("qos", "export").out
    declare(file := inventory.parent / "qos.yaml", word, 500)

    checked = playbooks.play("qos/nothing.yml", inventory, "--check")
    assert checked.ok, checked.failures
    assert checked.changed == [("Plan against Cinder", "localhost")]
    planned = node.run("qos", "plan", str(file))
    assert f"+ QoS spec role-{word}  front-end: total_iops_sec 500" in checked.said
    assert checked.said == planned.out.splitlines(), "what plimsoll says"
    assert node.run("qos", "export").out == before

    played = playbooks.play("qos/nothing.yml", inventory)
    assert played.ok, played.failures
    assert played.changed == [("Apply to Cinder", "localhost")]
    assert node.run("qos", "plan", str(file)).status == 0

    again = playbooks.play("qos/nothing.yml", inventory)
    assert (again.ok, again.changed, again.said) == (True, [], []), again.failures


def test_what_changes_an_attached_volume_waits_until_these_steps_are_approved(
    node: Node, playbooks: Playbooks, inventory: Path, openstack: OpenStack, word: str
) -> None:
    name = f"role-{word}"
    kind = openstack.create_volume_type(name, openstack.create_qos(name, {"total_iops_sec": 500}))
    volume = openstack.create_volume(kind)
    attachment = openstack.attach(volume.id, str(uuid4()))
    openstack.complete(attachment)
    try:
        declare(file := inventory.parent / "qos.yaml", word, 30)
        checked = playbooks.play("qos/nothing.yml", inventory, "--check")
        assert checked.ok, checked.failures
        assert f"{name}: 1 attached volume changes; one of 1 GiB: 500 → 30 IOPS (to 6 %)" in checked.said
        code = approval(checked.said[-1])

        declare(file, word, 31)
        refused = playbooks.play("qos/nothing.yml", inventory, plimsoll_qos_approve=code)
        why = refused.failures["localhost"]
        assert why.startswith("Nothing was done")
        assert f"the approval {code} is for another plan" in why
        assert refused.changed == []
        assert "total_iops_sec 500 → 31" in node.run("qos", "plan", str(file)).out

        played = playbooks.play("qos/nothing.yml", inventory, plimsoll_qos_approve=approval(why))
        assert played.ok, played.failures
        assert node.run("qos", "plan", str(file)).status == 0
    finally:
        openstack.detach(attachment)


def approval(sentence: str) -> str:
    found = re.search(r"-e plimsoll_qos_approve=([0-9a-f]{6})\b", sentence)
    assert found, sentence
    return found[1]


def test_a_secret_out_of_a_vault_is_nowhere_to_be_read_and_gone_afterwards(
    node: Node, playbooks: Playbooks, inventory: Path, openstack: OpenStack, word: str
) -> None:
    del playbooks.environment["OS_CLOUD"], playbooks.environment["OS_CLIENT_CONFIG_FILE"]
    vaulted = openstack.create_application_credential(openstack.admin, f"role-{word}")
    secret = vaulted.auth["application_credential_secret"]
    openstack.clouds_yaml(inventory.parent / "secret.yaml", vaulted=vaulted)
    left = node.home / "left"
    left.mkdir()
    playbooks.environment["TMPDIR"] = str(left)

    file = inventory.parent / "declared.yaml"
    file.write_text(node.run("qos", "export").out)
    others = qos_file.read(file).declared
    name = f"role-{word}"
    specs = dict(others.specs) | {name: Spec(name, "front-end", {"total_iops_sec": "5"})}
    file.write_text(
        qos_file.text_of(Declaration(specs, dict(others.types) | {name: DeclaredType(name=name, qos_spec=name)}))
    )
    made = playbooks.play("qos/much.yml", inventory, "-vvv", "--diff")
    assert made.ok, made.failures
    assert made.changed == [("Apply to Cinder", "localhost")]

    file.write_text(qos_file.text_of(others))
    refused = playbooks.play("qos/much.yml", inventory, "-vvv", "--diff")
    assert not refused.ok
    assert f"- volume type {name}" in refused.said
    code = approval(refused.failures["localhost"])
    pruned = playbooks.play("qos/much.yml", inventory, plimsoll_qos_approve=code)
    assert pruned.ok, pruned.failures
    assert node.run("qos", "export").out == file.read_text()

    assert secret not in made.out + refused.out + pruned.out
    assert list(left.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "variables", "why"),
    [
        (None, {}, "Set plimsoll_qos_file, or start with: plimsoll qos export --output"),
        ("qos_specs: {}\nvolume_types: {gold: {}}\n", {}, "qos.yaml: <stdin>:2: "),
        ("{}", {"plimsoll_qos_command": "/opt/nowhere/plimsoll"}, "The command /opt/nowhere/plimsoll does not run"),
        ("{}", {"plimsoll_qos_prune_in_use": True}, "Set both, or neither."),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    playbooks: Playbooks,
    inventory: Path,
    text: str | None,
    variables: dict[str, object],
    why: str,
) -> None:
    if text is not None:
        (inventory.parent / "qos.yaml").write_text(text)
    played = playbooks.play("qos/nothing.yml", inventory, **variables)
    assert why in played.failures["localhost"]
    assert "Traceback" not in played.out
