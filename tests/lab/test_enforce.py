"""The command on real guests: what it finds, plans, writes, shows and leaves behind."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lab import behind
from lab.cloud import Cloud, Guest
from lab.cloud.disk import ephemeral, volume
from lab.looking import actual, put
from lab.node import Node, only
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits

pytestmark = pytest.mark.shared

DEFAULT = Limits(total_iops_sec=250, total_iops_sec_max=500, total_bytes_sec=104857600, total_bytes_sec_max=125829120)
RULES = "default:\n  limits:\n" + "".join(f"    {name}: {value}\n" for name, value in DEFAULT.in_effect().items())

Guests = Callable[..., list[Guest]]


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    return Node(tmp_path, cloud, RULES)


def all_actual(hypervisor: Libvirt, guest: Guest) -> dict[str, Limits]:
    return {target: actual(hypervisor, guest.uuid, target) for target in guest.disks}


@pytest.mark.core
def test_plan_says_what_enforce_then_does_and_a_second_pass_does_nothing(
    node: Node, guests: Guests, hypervisor: Libvirt
) -> None:
    (guest,) = guests(disks=[ephemeral(2**30), volume(2**30), volume(2**30, "scsi")])
    plan = node.run("plan", *only(guest))
    assert plan.status == 2
    assert plan.out.splitlines()[-1] == "Plan: 3 to set."
    assert set(all_actual(hypervisor, guest).values()) == {Limits()}, "a plan changes nothing"
    assert not node.state.directory.exists(), "and leaves nothing behind"

    enforce = node.run("enforce", *only(guest))
    assert enforce.status == 0, enforce.err
    assert all_actual(hypervisor, guest) == {"vda": DEFAULT, "vdb": DEFAULT, "sda": DEFAULT}
    planned = sorted(line for line in plan.out.splitlines() if "→" in line)
    assert sorted(line.split("; done")[0] for line in enforce.out.splitlines() if "→" in line) == planned

    again = node.run("plan", *only(guest))
    assert again.status == 0
    assert again.out == "Plan: nothing to change, 3 in sync.\n"


def test_limits_on_the_command_line_need_no_file(
    tmp_path: Path, cloud: Cloud, guests: Guests, hypervisor: Libvirt
) -> None:
    node = Node(tmp_path, cloud)
    (guest,) = guests()
    words = ["--total-iops-sec", "250", "--total-bytes-sec", "104857600", *only(guest)]
    dry = node.run("enforce", "--dry-run", *words)
    assert dry.status == 2
    assert set(all_actual(hypervisor, guest).values()) == {Limits()}
    assert node.run("enforce", *words).status == 0
    assert set(all_actual(hypervisor, guest).values()) == {Limits(total_iops_sec=250, total_bytes_sec=104857600)}


def test_observe_says_the_same_and_writes_nothing(
    tmp_path: Path, cloud: Cloud, guests: Guests, hypervisor: Libvirt
) -> None:
    node = Node(tmp_path, cloud, RULES, mode="observe")
    (guest,) = guests()
    observed = node.run("enforce", *only(guest))
    assert observed.status == 0
    assert "Plan: 2 to set" in observed.out
    assert set(all_actual(hypervisor, guest).values()) == {Limits()}


def test_a_limit_raised_over_qmp_is_shown_and_put_right(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    (guest,) = guests()
    node.run("enforce", *only(guest))
    behind.set_limits(guest, "vdb", Limits(total_iops_sec=9999))
    (row,) = [row for row in node.run("disk", "list", *only(guest), "-f", "json").data() if row["disk"] == "vdb"]
    assert row["actual"] == {"total_iops_sec": 9999}
    shown = node.run("disk", "show", guest.name, "vdb", "-f", "json").data()
    assert shown["defined"] == DEFAULT.in_effect(), "libvirt still believes in the limit"
    plan = node.run("plan", *only(guest))
    assert "changed over QMP, not through libvirt" in plan.out
    assert node.run("enforce", *only(guest)).status == 0
    assert actual(hypervisor, guest.uuid, "vdb") == DEFAULT


def test_a_volume_that_nova_attached_with_limits_is_left_alone_until_a_rule_overrides(
    node: Node, guests: Guests, hypervisor: Libvirt
) -> None:
    gold = Limits(read_iops_sec=900, write_iops_sec=450)
    (guest,) = guests(disks=[volume(2**30, iotune={"read_iops_sec": 900, "write_iops_sec": 450})])
    enforce = node.run("enforce", *only(guest))
    assert enforce.status == 0
    assert "1 disk left alone: attach-time limits" in enforce.out
    assert actual(hypervisor, guest.uuid, "vda") == gold
    node.write_rules(
        RULES + "rules:\n  - name: ours\n    match: {pool: volumes}\n    override: true\n"
        "    limits: {total_iops_sec: 250}\n"
    )
    assert node.run("enforce", *only(guest)).status == 0
    assert actual(hypervisor, guest.uuid, "vda") == Limits(total_iops_sec=250)


def test_a_rule_chooses_by_volume_project_flavor_pool_and_guest(
    node: Node, guests: Guests, hypervisor: Libvirt
) -> None:
    (guest,) = guests()
    shown = node.run("disk", "show", guest.name, "vdb", "-f", "json").data()
    for number, (word, value) in enumerate(
        {
            "volume": shown["volume"],
            "project": shown["project"],
            "flavor": shown["flavor"],
            "pool": shown["pool"],
            "guest": shown["guest_uuid"],
        }.items()
    ):
        limits = Limits(total_iops_sec=300 + number)
        match = f"{{{word}: '{value}'}}"
        node.write_rules(
            f"rules:\n  - name: chosen\n    match: {match}\n    limits: {{total_iops_sec: {300 + number}}}\n"
        )
        assert node.run("enforce", *only(guest)).status == 0
        assert actual(hypervisor, guest.uuid, "vdb") == limits, word


def test_manage_false_is_never_written_to(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    (guest,) = guests()
    node.write_rules(RULES + "rules:\n  - name: exempt\n    match: {pool: vms}\n    manage: false\n")
    assert node.run("enforce", *only(guest)).status == 0
    assert all_actual(hypervisor, guest) == {"vda": Limits(), "vdb": DEFAULT}
    assert node.run("enforce", "--total-iops-sec", "9", *only(guest)).status == 0
    assert all_actual(hypervisor, guest) == {"vda": Limits(), "vdb": Limits(total_iops_sec=9)}


def test_rules_say_unlimited_aloud_to_remove_a_limit(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    (guest,) = guests()
    node.run("enforce", *only(guest))
    node.write_rules("default: {limits: unlimited}\n")
    plan = node.run("plan", *only(guest))
    # What the brake stops on other guests is told too.
    its = [line for line in plan.out.splitlines() if line.startswith(f"- {guest.name}")]
    assert ["alone: plimsoll approve --remove" in line for line in its] == [True, True], plan.out
    (digest,) = re.findall(r"If it is meant: plimsoll approve --remove ([0-9a-f]{16})", plan.out)
    assert node.run("enforce", "--approve", digest, *only(guest)).status == 4, "which approves of no removal"
    assert node.run("enforce", "--approve", digest, "--remove", *only(guest)).status == 0
    assert set(all_actual(hypervisor, guest).values()) == {Limits()}


def test_broken_rules_name_the_line_and_the_pass_runs_on_the_last_good_ones(
    node: Node, guests: Guests, hypervisor: Libvirt
) -> None:
    (guest,) = guests()
    node.run("enforce", *only(guest))
    put(hypervisor, guest.uuid, "vdb", Limits(total_iops_sec=1))
    node.write_rules("default:\n  limits:\n    total_iops_sec: 5\n    read_iops_sec: 5\n")
    enforce = node.run("enforce", *only(guest))
    assert enforce.status == 1
    assert "rules.yaml:3: default.limits: total_iops_sec and read_iops_sec exclude each other" in enforce.err
    assert "Using the last good rules" in enforce.err
    assert actual(hypervisor, guest.uuid, "vdb") == DEFAULT


def test_disk_show_verify_asks_qemu_itself(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    (guest,) = guests()
    put(hypervisor, guest.uuid, "vdb", Limits(write_bytes_sec=2**20))
    shown = node.run("disk", "show", guest.name, "vdb", "--verify", "-f", "json")
    assert shown.status == 0, shown.err
    assert shown.data()["qemu"] == {"write_bytes_sec": 2**20}
    assert shown.data()["size"] == 2**30


def test_disk_explain_tells_who_set_it_and_since_when(node: Node, guests: Guests) -> None:
    (guest,) = guests()
    node.run("enforce", *only(guest))
    told = node.run("disk", "explain", guest.name, "vdb")
    assert told.status == 0
    assert "default" in told.out
    assert "by plimsoll" in told.out


def test_every_change_is_in_the_record(node: Node, guests: Guests) -> None:
    (guest,) = guests()
    node.run("enforce", *only(guest))
    with closing(sqlite3.connect(node.state.record)) as database:
        rows = database.execute("SELECT guest_uuid, target, direction, result FROM change ORDER BY target").fetchall()
    assert rows == [(guest.uuid, "vda", "lower", "done"), (guest.uuid, "vdb", "lower", "done")]


def test_a_migrated_volume_is_known_by_its_serial(node: Node, guests: Guests) -> None:
    serial = "6665c608-001a-4ea4-a2eb-d491b58efc11"
    (guest,) = guests(disks=[volume(2**30, serial=serial, image="volume-0c0ffee0-001a-4ea4-a2eb-d491b58efc11")])
    (row,) = node.run("disk", "list", *only(guest), "-f", "json").data()
    assert row["volume"] == serial
    assert node.run("disk", "show", serial, "-f", "json").data()["image"].startswith("volume-0c0ffee0")


def test_a_group_is_shared_and_left_again(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    (guest,) = guests()
    node.write_rules("default: {limits: {total_iops_sec: 400, group_name: both}}\n")
    assert node.run("enforce", *only(guest)).status == 0
    assert set(all_actual(hypervisor, guest).values()) == {Limits(total_iops_sec=400, group_name="both")}
    node.write_rules("default: {limits: {total_iops_sec: 250}}\n")
    enforce = node.run("enforce", *only(guest))
    assert enforce.status == 0, enforce.out
    assert set(all_actual(hypervisor, guest).values()) == {Limits(total_iops_sec=250)}
