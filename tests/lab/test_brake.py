"""The brake on a node with a hundred disks: a slip waits for a person, a reboot does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.disk import ephemeral, volume
from lab.looking import actual
from lab.node import Node, only
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits

pytestmark = pytest.mark.shared

GUESTS, VOLUMES = 10, 9
"""Of each guest, beside a disk of its own. A QEMU takes half a second of a core to start, a disk a tenth of that."""
DEFAULT = Limits(total_iops_sec=3000)
RULES = "default: {limits: {total_iops_sec: 3000}}\n"


@pytest.fixture(scope="module")
def hundred(cloud: Cloud) -> Iterator[list[Guest]]:
    """Of paused guests."""
    made = cloud.paused_guests([[ephemeral(2**26), *(volume(2**26) for _ in range(VOLUMES))] for _ in range(GUESTS)])
    yield made
    cloud.destroy_guests(made)


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    return Node(tmp_path, cloud, RULES, braked=True)


def everything_actual(hypervisor: Libvirt, guests: list[Guest]) -> list[Limits]:
    return [actual(hypervisor, guest.uuid, target) for guest in guests for target in guest.disks]


def rules_for(volumes: list[str], iops: int) -> str:
    """What a storage team writes: other limits for some volumes."""
    named = "".join(f"\n        - {volume}" for volume in volumes)
    return (
        RULES + f"rules:\n  - name: gold\n    match:\n      volume:{named}\n    limits: {{total_iops_sec: {iops}}}\n"
    )


def test_a_node_is_observed_switched_to_enforce_braked_approved_and_rebooted(
    tmp_path: Path, cloud: Cloud, hundred: list[Guest], hypervisor: Libvirt
) -> None:
    node, scope = Node(tmp_path, cloud, RULES, mode="observe", braked=True), only(*hundred)

    # A new node observes, and is then switched to enforce: it does what its plan said.
    assert node.run("enforce", *scope).status == 0
    assert set(everything_actual(hypervisor, hundred)) == {Limits()}, "observing writes nothing"
    plan = node.run("plan", *scope)
    assert plan.out.splitlines()[-1] == "Plan: 100 to set."
    node.set_mode("enforce")
    enforced = node.run("enforce", *scope)
    assert enforced.status == 0, enforced.out + enforced.err
    assert set(everything_actual(hypervisor, hundred)) == {DEFAULT}

    # A slip: 30 for 3000, on 30 of 100 disks. None of them is changed, in no pass.
    volumes = [image.volume_id for guest in hundred for image in guest.disks.values() if image.volume_id]
    slipped = volumes[::3]
    assert len(slipped) == 30
    node.write_rules(rules_for(slipped, 30))
    planned = node.run("plan", *scope)
    for _ in range(2):
        braked = node.run("enforce", *scope)
        assert braked.status == 4, braked.out + braked.err
        # Others' guests on this libvirt count too: new rules are judged on the whole node.
        assert re.search(r"BRAKE  30 of \d+ disks deferred: 30 cut by more than half \(to 1 %\)", braked.out)
        assert set(everything_actual(hypervisor, hundred)) == {DEFAULT}
    assert re.search(r"BRAKE  30 of \d+ disks deferred: 30 cut by more than half \(to 1 %\)", planned.out)
    assert '       rule "gold": 3000 → 30 IOPS (30 disks)' in planned.out
    command = next(line for line in braked.out.splitlines() if "plimsoll approve" in line)

    # It was meant: one command, and it is done. Another state of the rules is not approved by it.
    revision = command.split("plimsoll approve ")[1].split()[0]
    node.write_rules(rules_for(slipped, 31))
    refused = node.run("approve", revision, "--reason", "gold is cheap now")
    assert refused.status == 64, refused.out
    node.write_rules(rules_for(slipped, 30))
    assert node.run("approve", revision, "--reason", "gold is cheap now").status == 0
    done = node.run("enforce", *scope)
    assert done.status == 0, done.out + done.err
    limits = everything_actual(hypervisor, hundred)
    assert (limits.count(Limits(total_iops_sec=30)), limits.count(DEFAULT)) == (30, 70)

    # Every guest loses its limits in a reboot: they are put back without asking anybody.
    for guest in hundred:
        definition = guest.domain().XMLDesc(2)  # VIR_DOMAIN_XML_INACTIVE
        connection = guest.domain().connect()
        guest.domain().destroy()
        domain = connection.defineXML(_without_limits(definition))  # as Nova does it
        domain.createWithFlags(1)  # VIR_DOMAIN_START_PAUSED
    assert set(everything_actual(hypervisor, hundred)) == {Limits()}
    again = node.run("enforce", *scope)
    assert again.status == 0, again.out + again.err
    limits = everything_actual(hypervisor, hundred)
    assert (limits.count(Limits(total_iops_sec=30)), limits.count(DEFAULT)) == (30, 70)
    verified = node.run("record", "--verify")
    assert verified.status == 0, verified.out


def _without_limits(definition: str) -> str:
    return re.sub(r"<iotune>.*?</iotune>", "", definition, flags=re.DOTALL)
