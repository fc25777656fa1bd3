"""Guests that hang, restart and change under a pass; a libvirtd that is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.apply import Bounds
from plimsoll_agent.decide import Situation
from plimsoll_agent.disk import Disk
from plimsoll_agent.hypervisor import Sighting
from plimsoll_agent.ledger import Ledger
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, Scope
from plimsoll_agent.passes import Mode, run_pass
from plimsoll_agent.reason import Code
from plimsoll_agent.rules import Rules
from plimsoll_agent.sources import SOURCES
from tests.lab.cloud import Cloud, Guest
from tests.lab.cloud.disk import volume
from tests.lab.node import Node
from tests.looking import in_force, put

pytestmark = pytest.mark.hurt

LIMIT = Limits(total_iops_sec=250)
RULES = "default: {limits: {total_iops_sec: 250}}\n"
DEADLINE = 2.0

Guests = Callable[..., list[Guest]]


@pytest.fixture(autouse=True)
def _whole_again(cloud: Cloud) -> Iterator[None]:
    """What a test broke is whole again after it, or the run is over."""
    yield
    cloud.up(("ceph", "libvirt"))
    cloud.ceph.wait_healthy(60)


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    return Node(tmp_path, cloud, RULES, deadline=DEADLINE)


def only(*guests: Guest) -> list[str]:
    return [word for guest in guests for word in ("--guest", guest.uuid)]


def test_a_stopped_qemu_costs_its_own_disks_and_nobody_elses(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    first, hung, last = guests(3)
    pid = hung.qemu_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        enforce = node.run("enforce", *only(first, hung, last), timeout=60)
        took = time.monotonic() - started
    finally:
        os.kill(pid, signal.SIGCONT)
    assert enforce.status == 3, enforce.out + enforce.err
    assert enforce.out.count("not known") == 2, enforce.out
    assert took < 3 * DEADLINE + 3, "one deadline for the hung guest, and the process does not wait for its threads"
    for guest in (first, last):
        assert in_force(hypervisor, guest.uuid, "vdb") == LIMIT

    settled = node.run("enforce", *only(first, hung, last))
    assert settled.status == 0, settled.out + settled.err
    assert in_force(hypervisor, hung.uuid, "vdb") == LIMIT


def test_a_qemu_that_stops_answering_in_mid_write_is_settled_by_the_next_pass(
    node: Node, guests: Guests, cloud: Cloud
) -> None:
    (guest,) = guests(disks=[volume(2**30)])
    pid = guest.qemu_pid

    class StopsBeforeTheWrite(Libvirt):
        def set_limits(self, disk: Disk, limits: Limits, *, alone: bool = False) -> None:
            os.kill(pid, signal.SIGSTOP)
            super().set_limits(disk, limits, alone=alone)

    hypervisor = StopsBeforeTheWrite(cloud.libvirt_uri, deadline=DEADLINE, at_once=4)
    node.state.prepare()
    try:
        report = pass_over(guest, node, hypervisor)
        assert [outcome.result.kind for outcome in report.outcomes] == [Kind.NOT_KNOWN]
        (open_change,) = Ledger(node.state, "test")._record.unsettled()
        assert open_change.after == LIMIT
    finally:
        os.kill(pid, signal.SIGCONT)
    assert node.run("enforce", *only(guest)).status == 0
    assert Ledger(node.state, "test")._record.unsettled() == []


def pass_over(guest: Guest, node: Node, hypervisor: Libvirt):  # type: ignore[no-untyped-def]
    return run_pass(
        Scope(frozenset({guest.uuid})),
        Situation(datetime.now(UTC), Rules(default=LIMIT), node.state.load_memory()),
        Mode.ENFORCE,
        hypervisor=hypervisor,
        sources=SOURCES,
        ledger=Ledger(node.state, "test"),
        bounds=Bounds(),
        tell=lambda _: None,
    )


class ChangesUnderTheHand(Libvirt):
    """Does something to the world between the first look and the one just before the write."""

    def __init__(self, uri: str, between: Callable[[], object]) -> None:
        super().__init__(uri, deadline=5, at_once=4)
        self._between = between
        self._looks = 0

    def look(self, uuid: str) -> Sighting:
        self._looks += 1
        if self._looks == 2:
            self._between()
        return super().look(uuid)


def test_a_letter_that_becomes_another_volume_between_plan_and_write_is_not_limited(
    node: Node, booted: Guest, cloud: Cloud, hypervisor: Libvirt
) -> None:
    target = booted.attach(volume(2**30))
    other = volume(2**30)

    def swap() -> None:
        booted.detach(target)
        assert booted.attach(other) == target, "the new volume took the old one's letter"

    node.state.prepare()
    for letter in ("vda", "vdb"):  # only the new disk is to be changed
        put(hypervisor, booted.uuid, letter, LIMIT)
    try:
        report = pass_over(booted, node, ChangesUnderTheHand(cloud.libvirt_uri, swap))
        (outcome,) = [outcome for outcome in report.outcomes if outcome.disk.target == target]
        assert outcome.result.reason.code is Code.ANOTHER_DISK
        assert booted.disks[target].volume_id == other.image.volume_id
        assert in_force(hypervisor, booted.uuid, target) == Limits()
    finally:
        booted.detach(target)
        for letter in ("vda", "vdb"):
            put(hypervisor, booted.uuid, letter, Limits())


def test_a_guest_destroyed_between_plan_and_write_is_left_alone(node: Node, guests: Guests, cloud: Cloud) -> None:
    (guest,) = guests()
    node.state.prepare()
    report = pass_over(guest, node, ChangesUnderTheHand(cloud.libvirt_uri, lambda: guest.domain().destroy()))
    assert {outcome.result.kind for outcome in report.outcomes} == {Kind.LEFT_ALONE}
    assert {outcome.result.reason.code for outcome in report.outcomes} == {Code.VANISHED}
    assert report.failures == 0


def test_a_guest_whose_qemu_is_killed_in_mid_pass_is_left_alone(node: Node, guests: Guests, cloud: Cloud) -> None:
    (guest,) = guests()
    node.state.prepare()

    def kill() -> None:
        os.kill(guest.qemu_pid, signal.SIGKILL)

    report = pass_over(guest, node, ChangesUnderTheHand(cloud.libvirt_uri, kill))
    assert Kind.CHANGED not in {outcome.result.kind for outcome in report.outcomes}
    assert report.count(Kind.NOT_KNOWN) <= 1


def test_a_restarted_guest_gets_its_limits_back(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    (guest,) = guests()
    definition = guest.domain().XMLDesc(2)  # VIR_DOMAIN_XML_INACTIVE
    assert node.run("enforce", *only(guest)).status == 0
    guest.domain().destroy()
    guest.domain()._conn.defineXML(definition)  # as Nova does it: written anew, without our limits
    guest.domain().createWithFlags(1)  # VIR_DOMAIN_START_PAUSED
    assert in_force(hypervisor, guest.uuid, "vdb") == Limits()
    assert node.run("enforce", *only(guest)).status == 0
    assert in_force(hypervisor, guest.uuid, "vdb") == LIMIT


def test_a_libvirtd_that_is_gone_is_one_sentence(node: Node, cloud: Cloud, guests: Guests) -> None:
    guests()
    cloud.libvirtd.kill()
    try:
        enforce = node.run("enforce", timeout=30)
    finally:
        cloud.libvirtd.start()
    assert enforce.status == 1
    assert enforce.err.count("\n") == 1, enforce.err
    assert cloud.libvirt_uri in enforce.err


def test_a_libvirtd_that_hangs_is_one_sentence_within_the_deadline(node: Node, cloud: Cloud, guests: Guests) -> None:
    guests()
    cloud.libvirtd.stop()
    try:
        started = time.monotonic()
        enforce = node.run("enforce", timeout=30)
        took = time.monotonic() - started
    finally:
        cloud.libvirtd.cont()
    assert enforce.status == 1
    assert enforce.err.count("\n") == 1, enforce.err
    assert took < DEADLINE + 3


def test_two_passes_at_once_are_one_pass_and_a_sentence(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    made = guests(3)
    both = [node.start("enforce", *only(*made)) for _ in range(2)]
    ended = [process.communicate(timeout=60) for process in both]
    statuses = sorted(process.returncode for process in both)
    assert statuses in ([0, 0], [0, 1]), ended
    assert all(in_force(hypervisor, guest.uuid, "vdb") == LIMIT for guest in made)


def test_a_pass_that_is_killed_leaves_nothing_that_the_next_one_does_not_put_right(
    node: Node, guests: Guests, hypervisor: Libvirt
) -> None:
    made = guests(6)
    before = time.monotonic()
    assert node.run("enforce", *only(*made)).status == 0
    whole = time.monotonic() - before
    for number in range(8):
        # Other limits each time, and a kill at another moment of the pass each time.
        limit = Limits(total_iops_sec=300 + number)
        node.write_rules(f"default: {{limits: {{total_iops_sec: {limit.total_iops_sec}}}}}\n")
        process = node.start("enforce", *only(*made))
        try:
            process.communicate(timeout=whole * (number + 1) / 8)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        after = node.run("enforce", *only(*made))
        assert after.status == 0, after.out + after.err
        assert "left alone" not in after.out.replace("0 left alone", ""), "no limit of ours is taken for another's"
        assert all(in_force(hypervisor, guest.uuid, "vdb") == limit for guest in made)
    assert Ledger(node.state, "test")._record.unsettled() == []
