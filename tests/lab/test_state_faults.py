"""The state directory in trouble: nothing loosened, no wrong limit, and the next pass is clean."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.limits import Limits
from tests.lab.cloud import Cloud, Guest
from tests.lab.node import Node
from tests.looking import in_force

pytestmark = pytest.mark.hurt

Guests = Callable[..., list[Guest]]
LIMIT, TIGHTER, LOOSER = (Limits(total_iops_sec=iops) for iops in (250, 240, 260))


def rules(limits: Limits) -> str:
    return f"default: {{limits: {{total_iops_sec: {limits.total_iops_sec}}}}}\n"


@pytest.fixture
def guest(guests: Guests) -> Guest:
    return guests(1)[0]


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud, guest: Guest) -> Node:
    """A node that has limited its guest's two disks."""
    node = Node(tmp_path, cloud, rules(LIMIT))
    assert node.run("enforce", "--guest", guest.uuid).status == 0
    return node


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own for the state, which can be filled and made read-only."""
    place = tmp_path / "state"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0750", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def limits_of(hypervisor: Libvirt, guest: Guest) -> set[Limits]:
    return {in_force(hypervisor, guest.uuid, target) for target in guest.disks}


def enforce(node: Node, guest: Guest) -> tuple[int, str]:
    ran = node.run("enforce", "--yes", "--guest", guest.uuid)  # it is not the brake that is tested here
    assert "Traceback" not in ran.out + ran.err
    return ran.status, ran.out + ran.err


def clean(node: Node, guest: Guest) -> None:
    """The next pass does as it always did, and knows our limits for ours."""
    status, said = enforce(node, guest)
    assert status == 0, said
    assert "left alone" not in said.replace(" 0 left alone", ""), said
    assert node.run("record", "--verify").status == 0


def fill(place: Path) -> None:
    with (place / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 4096, b"[]", b'{"version": 2}', b"\xff\xfe{}"])
def test_a_corrupt_memory_is_set_aside_and_made_anew_from_the_record(
    node: Node, guest: Guest, hypervisor: Libvirt, content: bytes
) -> None:
    node.state.memory.write_bytes(content)
    node.write_rules(rules(TIGHTER))
    status, said = enforce(node, guest)
    assert status == 3, said
    assert "set aside" in said
    assert limits_of(hypervisor, guest) == {TIGHTER}, "limits of ours are known as ours"
    assert node.state.memory.with_name("memory.json.corrupt").read_bytes() == content
    clean(node, guest)


def test_a_corrupt_record_is_set_aside_and_begun_anew(node: Node, guest: Guest, hypervisor: Libvirt) -> None:
    content = bytearray(node.state.record.read_bytes())
    content[: len(content) // 2] = b"\x5a" * (len(content) // 2)
    node.state.record.write_bytes(bytes(content))
    node.write_rules(rules(LOOSER))
    status, said = enforce(node, guest)
    assert status == 3, said
    assert limits_of(hypervisor, guest) <= {LIMIT, LOOSER}
    assert node.state.record.with_name("record.sqlite.corrupt").read_bytes() == bytes(content)
    clean(node, guest)
    assert limits_of(hypervisor, guest) == {LOOSER}


def test_a_corrupt_approval_approves_of_nothing(node: Node, guest: Guest) -> None:
    node.state.approval.write_text("{{{")
    noted = node.run("enforce", "--guest", guest.uuid)
    assert noted.status == 3, noted.out + noted.err
    assert "nothing is approved" in noted.out
    clean(node, guest)


def test_rules_that_are_broken_leave_the_last_good_ones_in_force(
    node: Node, guest: Guest, hypervisor: Libvirt
) -> None:
    node.write_rules("default: {limits: {total_iops: 1}}\n")
    status, said = enforce(node, guest)
    assert status == 1, said
    assert "did you mean total_iops_sec?" in said
    assert limits_of(hypervisor, guest) == {LIMIT}
    node.write_rules(rules(LIMIT))
    clean(node, guest)


def test_with_corrupt_last_good_rules_too_nothing_is_done(node: Node, guest: Guest, hypervisor: Libvirt) -> None:
    node.write_rules("default: {limits: {total_iops: 1}}\n")
    node.state.last_rules.write_bytes(b"\xff\xff: [")
    status, said = enforce(node, guest)
    assert status == 1, said
    assert limits_of(hypervisor, guest) == {LIMIT}
    node.write_rules(rules(LIMIT))
    clean(node, guest)


def test_files_of_a_newer_plimsoll_are_refused_and_kept(node: Node, guest: Guest, hypervisor: Libvirt) -> None:
    newer = json.dumps(json.loads(node.state.memory.read_text()) | {"version": 99})
    node.state.memory.write_text(newer)
    node.write_rules(rules(TIGHTER))
    status, said = enforce(node, guest)
    assert status == 1, said
    assert "newer plimsoll" in said
    assert (limits_of(hypervisor, guest), node.state.memory.read_text()) == ({LIMIT}, newer)


def test_a_record_of_a_newer_plimsoll_is_kept_and_only_tightened_without(
    node: Node, guest: Guest, hypervisor: Libvirt
) -> None:
    with sqlite3.connect(node.state.record) as database:
        database.execute("PRAGMA user_version = 99")
    node.write_rules(rules(LOOSER))
    status, said = enforce(node, guest)
    assert status in (1, 3), said
    assert limits_of(hypervisor, guest) == {LIMIT}, "without a record nothing is loosened"
    node.write_rules(rules(TIGHTER))
    status, said = enforce(node, guest)
    assert status == 3, said
    assert limits_of(hypervisor, guest) == {TIGHTER}


def test_a_deleted_state_directory_makes_a_new_node_of_it(node: Node, guest: Guest, hypervisor: Libvirt) -> None:
    shutil.rmtree(node.state.directory)
    node.write_rules(rules(LOOSER))
    status, said = enforce(node, guest)
    assert status == 0, said
    assert limits_of(hypervisor, guest) == {LIMIT}, "nobody knows any more whose limits these are: left alone"
    assert "2 disks left alone" in said


def only_tightens(node: Node, guest: Guest, hypervisor: Libvirt) -> None:
    """Nothing can be recorded: a looser limit is not put in force, a tighter one is, and both are said."""
    node.write_rules(rules(LOOSER))
    status, said = enforce(node, guest)
    assert status in (1, 3), said
    assert limits_of(hypervisor, guest) == {LIMIT}
    node.write_rules(rules(TIGHTER))
    status, said = enforce(node, guest)
    assert status == 3, said
    assert limits_of(hypervisor, guest) == {TIGHTER}


def test_on_a_full_disk_limits_are_tightened_and_never_loosened(
    small: Path, tmp_path: Path, cloud: Cloud, guest: Guest, hypervisor: Libvirt
) -> None:
    node = Node(tmp_path, cloud, rules(LIMIT))
    assert enforce(node, guest)[0] == 0
    fill(small)
    only_tightens(node, guest, hypervisor)
    (small / "ballast").unlink()
    node.write_rules(rules(LOOSER))
    status, said = enforce(node, guest)
    assert status == 0, said
    assert "Traceback" not in said
    assert node.run("record", "--verify").status == 0


def test_on_a_read_only_disk_limits_are_tightened_and_never_loosened(
    small: Path, tmp_path: Path, cloud: Cloud, guest: Guest, hypervisor: Libvirt
) -> None:
    node = Node(tmp_path, cloud, rules(LIMIT))
    assert enforce(node, guest)[0] == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    only_tightens(node, guest, hypervisor)
    subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    status, said = enforce(node, guest)
    assert status == 0, said
    assert node.run("record", "--verify").status == 0
