"""``plimsoll undo`` on real guests: QEMU has in force what it had before, and nobody else's limit was touched."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab import behind
from lab.cloud import Cloud, Guest
from lab.cloud.disk import ephemeral, volume
from lab.looking import actual, put
from lab.node import Node, only
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from tests import depth

OLD, NEW, OTHERS = Limits(total_iops_sec=300), Limits(total_iops_sec=120), Limits(total_iops_sec=77)
KILLS = depth.count(quick=3, landing=6, soak=40)
# So many must meet an undo under way, or they prove nothing.
MET = KILLS // 3

Guests = Callable[..., list[Guest]]


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    return Node(tmp_path, cloud)


def with_a_volume(guests: Guests, number: int) -> list[Guest]:
    """So many guests with one disk each."""
    return [guest for _ in range(number) for guest in guests(disks=[volume(2**30)])]


def limit(node: Node, limits: Limits, *guests: Guest) -> str:
    """Put these limits in force by a rule; returns the moment before."""
    moment = datetime.now(UTC).isoformat()
    node.write_rules(f"default: {{limits: {limits.in_effect()}}}\n")
    enforced = node.run("enforce", *only(*guests))
    assert enforced.status == 0, enforced.out + enforced.err
    return moment


def by_qemu(guest: Guest) -> dict[str, int]:
    """Requests per second by image, as QEMU itself says."""
    blocks = (block["inserted"] for block in behind.query_block(guest) if "inserted" in block)
    images = {image.image for image in guest.disks.values()}
    return {image: block["iops"] for block in blocks for image in images if image in block["file"]}


def all_actual(hypervisor: Libvirt, *guests: Guest) -> list[Limits]:
    return [actual(hypervisor, guest.uuid, target) for guest in guests for target in guest.disks]


@contextmanager
def stopped(guest: Guest) -> Iterator[None]:
    """QEMU does not answer."""
    pid = guest.qemu_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.core
@pytest.mark.shared
def test_qemu_has_actual_what_it_had_before_and_an_undo_is_undone_by_another(
    node: Node, guests: Guests, hypervisor: Libvirt
) -> None:
    (guest,) = guests(disks=[ephemeral(2**30), volume(2**30), volume(2**30, "scsi", iotune={"total_iops_sec": 50})])
    first = limit(node, OLD, guest)
    second = limit(node, NEW, guest)
    assert sorted(by_qemu(guest).values()) == [50, 120, 120], "what Nova attached with a limit is left to it"

    dry = node.run("undo", "--since", second, "--dry-run", *only(guest))
    assert dry.status == 0
    assert sorted(by_qemu(guest).values()) == [50, 120, 120]
    done = node.run("undo", "--since", second, "--yes", *only(guest))
    assert done.status == 0, done.out + done.err
    assert sorted(by_qemu(guest).values()) == [50, 300, 300]
    planned = sorted(line for line in dry.out.splitlines() if "→" in line)
    changes = (re.split("; done|  undo of ", line)[0] for line in done.out.splitlines() if "→" in line)
    assert sorted(changes) == planned
    told = node.run("record", "--reason", "undone", "-f", "json").data()
    assert [entry["result"] for entry in told] == ["done", "done"]

    moment = told[0]["intended_at"]
    assert node.run("undo", "--since", moment, "--yes", *only(guest)).status == 0
    assert sorted(by_qemu(guest).values()) == [50, 120, 120]
    assert node.run("undo", "--since", first, "--yes", *only(guest)).status == 0
    assert sorted(by_qemu(guest).values()) == [0, 0, 50]
    again = node.run("plan", *only(guest))
    assert "Plan: 2 to set" in again.out, "and what plimsoll does not keep any more it may limit again"
    assert "external change" not in again.out


@pytest.mark.shared
def test_a_limit_that_was_taken_over_is_no_limit_of_plimsoll_again(
    node: Node, guests: Guests, hypervisor: Libvirt
) -> None:
    (guest,) = guests(disks=[volume(2**30, iotune={"total_iops_sec": 50})])
    node.write_rules("rules: [{name: all, match: {pool: '*'}, override: true, limits: {total_iops_sec: 300}}]\n")
    moment = datetime.now(UTC).isoformat()
    assert node.run("enforce", *only(guest)).status == 0
    assert all_actual(hypervisor, guest) == [OLD]
    assert node.run("undo", "--since", moment, "--yes", "--ignore-health", *only(guest)).status == 0
    assert all_actual(hypervisor, guest) == [Limits(total_iops_sec=50)]
    node.write_rules(f"default: {{limits: {NEW.in_effect()}}}\n")
    told = node.run("enforce", *only(guest))
    assert "1 disk left alone: attach-time limits" in told.out
    assert all_actual(hypervisor, guest) == [Limits(total_iops_sec=50)]


@pytest.mark.shared
def test_what_another_client_changed_and_who_was_restarted_is_left_alone_and_listed(
    node: Node, guests: Guests, hypervisor: Libvirt
) -> None:
    by_hand, behind_back, restarted, plain = made = with_a_volume(guests, 4)
    limit(node, OLD, *made)
    moment = limit(node, NEW, *made)
    put(hypervisor, by_hand.uuid, "vda", OTHERS)
    behind.set_limits(behind_back, "vda", OTHERS)
    restarted.domain().destroy()
    restarted.domain().createWithFlags(1)  # VIR_DOMAIN_START_PAUSED; its definition has our limits
    assert all_actual(hypervisor, restarted) == [NEW]

    done = node.run("undo", "--since", moment, "--yes", *only(*made))
    assert done.status == 3, done.out + done.err
    assert all_actual(hypervisor, *made) == [OTHERS, OTHERS, NEW, OLD]
    for guest, why in (
        (by_hand, "external change"),
        (behind_back, "external change"),
        (restarted, "reattached since then, or its guest restarted"),
    ):
        assert f"= {guest.name} lab vda  left alone: {why}" in done.out
    assert f"~ {plain.name} lab vda  120 → 300 IOPS" in done.out

    data = node.run("undo", "--since", moment, "--yes", "-f", "json", *only(*made)).data()
    assert [disk["result"] for disk in data["disks"] if disk["guest"] == plain.name] == ["in-sync"]


@pytest.mark.shared
def test_a_guest_that_is_gone_is_listed_and_no_failure(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    gone, here = with_a_volume(guests, 2)
    limit(node, OLD, gone, here)
    moment = limit(node, NEW, gone, here)
    gone.domain().destroy()
    done = node.run("undo", "--since", moment, "--yes", *only(gone, here))
    assert done.status == 0, done.out + done.err
    assert f"{gone.name} vda  left alone: no longer on this node" in done.out
    assert all_actual(hypervisor, here) == [OLD]


@pytest.mark.shared
def test_one_that_hangs_is_reported_as_unknown_and_delays_no_other(
    node: Node, guests: Guests, hypervisor: Libvirt
) -> None:
    hangs, well = with_a_volume(guests, 2)
    limit(node, OLD, hangs, well)
    moment = limit(node, NEW, hangs, well)
    with stopped(hangs):
        done = node.run("undo", "--since", moment, "--yes", *only(hangs, well))
    assert done.status == 3, done.out + done.err
    # Undo looks first, and libvirt does not answer a second time: not even the server's name.
    assert re.search(rf"^\? {hangs.name} (lab )?vda  unknown: no answer from QEMU within 5 s", done.out, re.MULTILINE)
    assert all_actual(hypervisor, hangs, well) == [NEW, OLD]
    assert node.run("undo", "--since", moment, "--yes", *only(hangs, well)).status == 0
    assert all_actual(hypervisor, hangs, well) == [OLD, OLD]


@pytest.mark.hurt
def test_killed_at_any_moment_the_next_run_completes_it_and_what_is_remembered_is_true(
    node: Node, guests: Guests, hypervisor: Libvirt
) -> None:
    made = guests(5)
    limit(node, OLD, *made)
    moments, in_the_middle = random.Random(20261122), 0
    for number in range(KILLS):
        moment = limit(node, NEW, *made)
        process = node.start("undo", "--since", moment, "--yes", *only(*made))
        while process.poll() is None and not node.record.unsettled():
            time.sleep(0.003)
        # At its first intent, or later: among its writes, the memory, the results. A fast machine is done by then.
        time.sleep(moments.uniform(0, 0.1) if number % 3 == 2 else 0)
        process.kill()
        process.communicate()
        in_the_middle += bool(node.record.unsettled())
        now = all_actual(hypervisor, *made)
        assert set(now) <= {OLD, NEW}, number
        if number % 2:
            ended = node.run("undo", "--since", moment, "--yes", *only(*made))
        else:
            node.write_rules(f"default: {{limits: {OLD.in_effect()}}}\n")
            ended = node.run("enforce", *only(*made))
            assert "left alone" not in ended.out, "no limit of ours is taken for another's"
            assert "external change" not in ended.out
        assert ended.status == 0, ended.out + ended.err
        assert set(all_actual(hypervisor, *made)) == {OLD}
    assert in_the_middle >= MET, "too few of the kills met an undo under way to prove anything"
    assert node.run("record", "--verify").status == 0
    assert (
        node.run("record", "--result", "under-way").out == "No such entries; plimsoll record lists the last ones.\n"
    )


@pytest.mark.hurt
@pytest.mark.parametrize(
    ("flag", "blocking", "reason"),
    [
        ("noscrub", {"OS_CEPH__BLOCKING_CHECKS": "OSDMAP_FLAGS"}, "OSDMAP_FLAGS"),
        ("pause", {}, "OSDMAP_FLAGS (pauserd, pausewr)"),  # whatever checks block
    ],
)
def test_a_removal_is_deferred_while_the_cluster_is_unhealthy_unless_an_operator_says_otherwise(
    flag: str, blocking: dict[str, str], reason: str, node: Node, guests: Guests, hypervisor: Libvirt, cloud: Cloud
) -> None:
    (guest,) = guests(disks=[volume(2**30)])
    moment = limit(node, NEW, guest)
    node.environment |= blocking
    cloud.ceph.run("osd", "set", flag)
    try:
        wait_for_check(cloud, raised=True)
        waits = node.run("undo", "--since", moment, "--yes", *only(guest))
        assert waits.status == 1, waits.out + waits.err
        assert f"is healthy: {reason}\n" in waits.out
        assert all_actual(hypervisor, guest) == [NEW]
        assert node.run("undo", "--since", moment, "--yes", "--ignore-health", *only(guest)).status == 0
        assert all_actual(hypervisor, guest) == [Limits()]
        moment = limit(node, NEW, guest)
    finally:
        cloud.ceph.run("osd", "unset", flag)
    wait_for_check(cloud, raised=False)
    assert node.run("undo", "--since", moment, "--yes", *only(guest)).status == 0
    assert all_actual(hypervisor, guest) == [Limits()]


def wait_for_check(cloud: Cloud, *, raised: bool) -> None:
    end = time.monotonic() + 60
    while ("OSDMAP_FLAGS" in cloud.ceph.status()["health"]["checks"]) is not raised:
        assert time.monotonic() < end, "the monitor does not come to say so"
        time.sleep(0.5)


@pytest.mark.shared
def test_another_volume_at_the_same_letter_is_not_touched(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    first, second = volume(2**30, "scsi"), volume(2**30, "scsi")
    (guest,) = guests(disks=[volume(2**30, "scsi")])  # which brings the controller; a paused guest lets go of these
    target = guest.attach(first)
    limit(node, OLD, guest)
    moment = limit(node, NEW, guest)
    guest.detach(target)
    assert guest.attach(second) == target
    put(hypervisor, guest.uuid, target, NEW)
    done = node.run("undo", "--since", moment, "--yes", "-f", "json", *only(guest))
    assert done.status == 0, done.out + done.err
    assert actual(hypervisor, guest.uuid, target) == NEW
    listed = {disk["disk"]: disk for disk in done.data()["disks"]}
    assert listed[target]["volume"] == first.image.volume_id
    assert listed[target]["reason"] == {"code": "not-here"}

    guest.detach(target)
    guest.plug(first, target)  # the same volume again, by another attachment
    put(hypervisor, guest.uuid, target, NEW)
    again = node.run("undo", "--since", moment, "--yes", "-f", "json", *only(guest)).data()
    assert [disk["reason"] for disk in again["disks"] if disk["disk"] == target] == [{"code": "reattached"}]
    assert actual(hypervisor, guest.uuid, target) == NEW
