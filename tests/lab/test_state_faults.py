"""The state directory full, read-only or gone: nothing raised, no wrong limit, and the next pass is clean.

Damaged files are tests/unit/agent/passes/test_state_faults.py.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.looking import actual
from lab.node import Node
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits

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
    return {actual(hypervisor, guest.uuid, target) for target in guest.disks}


def enforce(node: Node, guest: Guest) -> tuple[int, str]:
    ran = node.run("enforce", "--guest", guest.uuid)  # it is not the brake that is tested here
    assert "Traceback" not in ran.out + ran.err
    return ran.status, ran.out + ran.err


def fill(place: Path) -> None:
    with (place / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass


def test_after_a_deleted_state_directory_the_guests_tell_whose_limits_they_have(
    node: Node, guest: Guest, hypervisor: Libvirt
) -> None:
    shutil.rmtree(node.state.directory)
    node.write_rules(rules(LOOSER))
    status, said = enforce(node, guest)
    assert status == 0, said
    assert limits_of(hypervisor, guest) == {LOOSER}, "by the marks in its definition"
    assert "Done: 2 " in said


def only_lowers(node: Node, guest: Guest, hypervisor: Libvirt) -> None:
    """Nothing can be recorded: a looser limit is not put in force, a tighter one is, and both are said."""
    node.write_rules(rules(LOOSER))
    status, said = enforce(node, guest)
    assert status in (1, 3), said
    assert limits_of(hypervisor, guest) == {LIMIT}
    node.write_rules(rules(TIGHTER))
    status, said = enforce(node, guest)
    assert status == 3, said
    assert limits_of(hypervisor, guest) == {TIGHTER}


def test_on_a_full_disk_limits_are_lowered_and_never_raised(
    small: Path, tmp_path: Path, cloud: Cloud, guest: Guest, hypervisor: Libvirt
) -> None:
    node = Node(tmp_path, cloud, rules(LIMIT))
    assert enforce(node, guest)[0] == 0
    fill(small)
    only_lowers(node, guest, hypervisor)
    (small / "ballast").unlink()
    node.write_rules(rules(LOOSER))
    status, said = enforce(node, guest)
    assert status == 0, said
    assert "Traceback" not in said
    assert node.run("record", "--verify").status == 0


def test_on_a_read_only_disk_limits_are_lowered_and_never_raised(
    small: Path, tmp_path: Path, cloud: Cloud, guest: Guest, hypervisor: Libvirt
) -> None:
    node = Node(tmp_path, cloud, rules(LIMIT))
    assert enforce(node, guest)[0] == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    only_lowers(node, guest, hypervisor)
    subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    status, said = enforce(node, guest)
    assert status == 0, said
    assert node.run("record", "--verify").status == 0
