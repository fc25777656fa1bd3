"""Guests that hang and disks that change under a pass; a libvirtd that is gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.disk import volume
from lab.looking import actual, put
from lab.node import Node, only
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.reconcile.outcome import Kind
from tests import depth
from tests.lab.passes import LIMIT, ChangesUnderTheHand, pass_over

pytestmark = pytest.mark.hurt

RULES = "default: {limits: {total_iops_sec: 250}}\n"
DEADLINE = 2.0
# How long libvirtd is away, in seconds: longer than a pass goes on without it.
STOPPED = depth.count(quick=8, landing=8, soak=60)

Guests = Callable[..., list[Guest]]


@pytest.fixture(autouse=True)
def _whole_again(cloud: Cloud) -> Iterator[None]:
    """What a test broke is whole again after it, or the run is over."""
    yield
    cloud.up(("ceph", "libvirt"))


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    return Node(tmp_path, cloud, RULES, deadline=DEADLINE)


@pytest.mark.core
def test_a_stopped_qemu_costs_its_own_disks_only(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
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
    assert enforce.out.count("  unknown: no answer from QEMU") == 2, enforce.out
    assert took < 3 * DEADLINE + 3, "one deadline for the hung guest, and the process does not wait for its threads"
    for guest in (first, last):
        assert actual(hypervisor, guest.uuid, "vdb") == LIMIT

    settled = node.run("enforce", *only(first, hung, last))
    assert settled.status == 0, settled.out + settled.err
    assert actual(hypervisor, hung.uuid, "vdb") == LIMIT


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
        assert [outcome.result.kind for outcome in report.outcomes] == [Kind.UNKNOWN]
        (open_change,) = node.record.unsettled()
        assert open_change.after == LIMIT
    finally:
        os.kill(pid, signal.SIGCONT)
    assert node.run("enforce", *only(guest)).status == 0
    assert node.record.unsettled() == []


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
        assert actual(hypervisor, booted.uuid, target) == Limits()
    finally:
        booted.detach(target)
        for letter in ("vda", "vdb"):
            put(hypervisor, booted.uuid, letter, Limits())


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


@pytest.mark.parametrize("seconds", [0, STOPPED], ids=["killed", "stopped"])
def test_a_libvirtd_that_goes_in_mid_pass_costs_that_pass_and_nothing_else(
    node: Node, cloud: Cloud, guests: Guests, hypervisor: Libvirt, seconds: int
) -> None:
    made = guests(8)
    started = time.monotonic()
    assert node.run("enforce", *only(*made)).status == 0
    whole = time.monotonic() - started
    node.write_rules("default: {limits: {total_iops_sec: 200}}\n")
    process = node.start("enforce", *only(*made))
    time.sleep(whole * 0.7)
    cloud.libvirtd.stop() if seconds else cloud.libvirtd.kill()
    stopped = time.monotonic()
    out, err = process.communicate(timeout=50)
    assert "Traceback" not in out + err
    assert time.monotonic() - stopped < 30, "a pass ends by itself, long before libvirtd is back"
    if seconds:
        time.sleep(max(0, seconds - (time.monotonic() - stopped)))
        cloud.libvirtd.cont()
    else:
        cloud.libvirtd.start()
    met = {actual(hypervisor_of(cloud), guest.uuid, "vdb") for guest in made}
    assert met <= {LIMIT, Limits(total_iops_sec=200)}
    after = node.run("enforce", *only(*made))
    assert after.status == 0, after.out + after.err
    assert {actual(hypervisor_of(cloud), guest.uuid, "vdb") for guest in made} == {Limits(total_iops_sec=200)}
    assert node.record.unsettled() == []
    assert node.run("record", "--verify").status == 0


def hypervisor_of(cloud: Cloud) -> Libvirt:
    """A new connection: the old ones went with libvirtd."""
    return Libvirt(cloud.libvirt_uri, deadline=10, at_once=2)
