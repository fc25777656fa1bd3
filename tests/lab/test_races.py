"""Guests that change, and others who write, while a pass is under way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.looking import actual
from lab.node import Node, only
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.reconcile.outcome import Kind
from tests.lab.passes import LIMIT, ChangesUnderTheHand, pass_over

pytestmark = pytest.mark.shared

RULES = "default: {limits: {total_iops_sec: 250}}\n"
DEADLINE = 2.0

Guests = Callable[..., list[Guest]]


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    return Node(tmp_path, cloud, RULES, deadline=DEADLINE)


def test_a_guest_destroyed_between_plan_and_write_is_left_alone(node: Node, guests: Guests, cloud: Cloud) -> None:
    (guest,) = guests()
    node.state.prepare()
    report = pass_over(guest, node, ChangesUnderTheHand(cloud.libvirt_uri, lambda: guest.domain().destroy()))
    assert {outcome.result.kind for outcome in report.outcomes} == {Kind.LEFT_ALONE}
    assert {outcome.result.reason.code for outcome in report.outcomes} == {Code.NOT_FOUND}
    assert report.failures == 0


def test_a_guest_whose_qemu_is_killed_in_mid_pass_is_left_alone(node: Node, guests: Guests, cloud: Cloud) -> None:
    (guest,) = guests()
    node.state.prepare()

    def kill() -> None:
        os.kill(guest.qemu_pid, signal.SIGKILL)

    report = pass_over(guest, node, ChangesUnderTheHand(cloud.libvirt_uri, kill))
    assert Kind.CHANGED not in {outcome.result.kind for outcome in report.outcomes}
    assert report.count(Kind.UNKNOWN) <= 1


def test_a_restarted_guest_gets_its_limits_back(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    (guest,) = guests()
    definition = guest.domain().XMLDesc(2)  # VIR_DOMAIN_XML_INACTIVE
    assert node.run("enforce", *only(guest)).status == 0
    guest.domain().destroy()
    guest.domain()._conn.defineXML(definition)  # as Nova does it: written again, without our limits
    guest.domain().createWithFlags(1)  # VIR_DOMAIN_START_PAUSED
    assert actual(hypervisor, guest.uuid, "vdb") == Limits()
    assert node.run("enforce", *only(guest)).status == 0
    assert actual(hypervisor, guest.uuid, "vdb") == LIMIT


def test_two_passes_at_once_are_one_pass_and_a_sentence(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    made = guests(3)
    both = [node.start("enforce", *only(*made)) for _ in range(2)]
    ended = [process.communicate(timeout=60) for process in both]
    statuses = sorted(process.returncode for process in both)
    assert statuses in ([0, 0], [0, 75]), ended
    assert all(actual(hypervisor, guest.uuid, "vdb") == LIMIT for guest in made)


def test_two_passes_and_a_person_at_once_leave_one_truth(node: Node, guests: Guests, hypervisor: Libvirt) -> None:
    made = guests(3)
    held = made[0]
    words = (
        "disk",
        "hold",
        "add",
        held.name,
        "vdb",
        "--for",
        "2h",
        "--limits",
        "total_iops_sec=100",
        "--reason",
        "x",
    )
    everybody = [node.start("enforce", *only(*made)), node.start(*words), node.start("enforce", *only(*made))]
    ended = [(process.communicate(timeout=90), process.returncode) for process in everybody]
    assert ended[1][1] == 0, ended
    assert {ended[0][1], ended[2][1]} <= {0, 75}, ended
    last = node.run("enforce", *only(*made))
    assert last.status == 0, last.out + last.err
    assert actual(hypervisor, held.uuid, "vdb") == Limits(total_iops_sec=100)
    assert {actual(hypervisor, guest.uuid, "vda") for guest in made} == {LIMIT}
    assert [row["guest"] for row in node.run("disk", "hold", "list", "-f", "json").data()] == [held.name]
    verified = node.run("record", "--verify")
    assert verified.status == 0, verified.out
    assert node.run("disk", "hold", "end", held.name).status == 0
    assert node.run("enforce", *only(*made)).status == 0
    assert actual(hypervisor, held.uuid, "vdb") == LIMIT


def test_a_clock_that_runs_a_day_ahead_and_back_raises_nothing(node: Node, guests: Guests, cloud: Cloud) -> None:
    (guest,) = guests()
    node.state.prepare()
    hypervisor, now = Libvirt(cloud.libvirt_uri, deadline=DEADLINE, at_once=4), datetime.now(UTC)
    assert pass_over(guest, node, hypervisor, now=now).count(Kind.CHANGED) == 2
    for hours in (24, 0, -24, 0):
        report = pass_over(guest, node, hypervisor, now=now + timedelta(hours=hours))
        assert (report.count(Kind.IN_SYNC), report.notes) == (2, ()), hours
    hypervisor.close()
    assert node.run("record", "--verify").status == 0


def test_a_guest_that_reboots_between_plan_and_write_is_left_to_the_next_pass(
    node: Node, guests: Guests, cloud: Cloud, hypervisor: Libvirt
) -> None:
    (guest,) = guests()
    node.state.prepare()
    definition = guest.domain().XMLDesc(2)  # VIR_DOMAIN_XML_INACTIVE

    def reboot() -> None:
        connection = guest.domain().connect()
        guest.domain().destroy()
        connection.defineXML(definition).createWithFlags(1)  # VIR_DOMAIN_START_PAUSED

    report = pass_over(guest, node, ChangesUnderTheHand(cloud.libvirt_uri, reboot))
    assert {outcome.result.reason.code for outcome in report.outcomes} == {Code.ANOTHER_DISK}
    assert actual(hypervisor, guest.uuid, "vdb") == Limits(), "the plan was for another run of the guest"
    assert node.run("enforce", *only(guest)).status == 0
    assert actual(hypervisor, guest.uuid, "vdb") == LIMIT
