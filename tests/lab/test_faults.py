"""Guests that hang, restart and change under a pass; a libvirtd that is gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.brake import Brake
from plimsoll_agent.clusters import Cluster, Clusters
from plimsoll_agent.decide import Situation
from plimsoll_agent.disk import Disk
from plimsoll_agent.gate import ClusterHealth, Gate
from plimsoll_agent.hypervisor import Sighting
from plimsoll_agent.ledger import Ledger
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, PassReport, Scope
from plimsoll_agent.passes import Caution, Mode, run_pass
from plimsoll_agent.reason import Code
from plimsoll_agent.rules import Rules
from plimsoll_agent.sources import SOURCES
from plimsoll_agent.write import Bounds
from tests import depth
from tests.lab.cloud import Cloud, Guest
from tests.lab.cloud.disk import volume
from tests.lab.node import Node
from tests.looking import in_force, put

pytestmark = pytest.mark.hurt

LIMIT = Limits(total_iops_sec=250)
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


def only(*guests: Guest) -> list[str]:
    return [word for guest in guests for word in ("--guest", guest.uuid)]


@pytest.mark.core
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
        (open_change,) = node.record.unsettled()
        assert open_change.after == LIMIT
    finally:
        os.kill(pid, signal.SIGCONT)
    assert node.run("enforce", *only(guest)).status == 0
    assert node.record.unsettled() == []


def pass_over(
    guest: Guest, node: Node, hypervisor: Libvirt, *, now: datetime | None = None, rules: Rules | None = None
) -> PassReport:
    now = now or datetime.now(UTC)
    ledger = Ledger(node.state, "test")
    memory = ledger.recall(now, look_only=False)
    return run_pass(
        Scope(frozenset({guest.uuid})),
        Situation(now, rules or Rules(default=LIMIT), memory.disks, memory.holds),
        Mode.ENFORCE,
        hypervisor=hypervisor,
        sources=SOURCES,
        ledger=ledger,
        bounds=Bounds(),
        caution=Caution(Brake(), Gate(Clusters(), nobody), lambda: None, rounds=3),
        tell=lambda _: None,
    )


def nobody(cluster: Cluster) -> ClusterHealth:
    raise AssertionError("nothing is loosened here")


class ChangesUnderTheHand(Libvirt):
    """Does something to the world between the first look and the one just before the write."""

    def __init__(self, uri: str, between: Callable[[], object]) -> None:
        super().__init__(uri, deadline=5, at_once=4)
        self._between = between
        self._looks = 0

    def look(self, uuid: str) -> Sighting:
        self._looks += 1
        if self._looks == 1:
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
    assert {ended[0][1], ended[2][1]} <= {0, 1}, ended
    last = node.run("enforce", *only(*made))
    assert last.status == 0, last.out + last.err
    assert in_force(hypervisor, held.uuid, "vdb") == Limits(total_iops_sec=100)
    assert {in_force(hypervisor, guest.uuid, "vda") for guest in made} == {LIMIT}
    assert [row["guest"] for row in node.run("disk", "hold", "list", "-f", "json").data()] == [held.name]
    verified = node.run("record", "--verify")
    assert verified.status == 0, verified.out
    assert node.run("disk", "hold", "end", held.name).status == 0
    assert node.run("enforce", *only(*made)).status == 0
    assert in_force(hypervisor, held.uuid, "vdb") == LIMIT


def test_a_clock_that_runs_a_day_ahead_and_back_loosens_nothing(node: Node, guests: Guests, cloud: Cloud) -> None:
    (guest,) = guests()
    node.state.prepare()
    hypervisor, now = Libvirt(cloud.libvirt_uri, deadline=DEADLINE, at_once=4), datetime.now(UTC)
    assert pass_over(guest, node, hypervisor, now=now).count(Kind.CHANGED) == 2
    for hours in (24, 0, -24, 0):
        report = pass_over(guest, node, hypervisor, now=now + timedelta(hours=hours))
        assert (report.count(Kind.RIGHT), report.notes) == (2, ()), hours
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
    assert in_force(hypervisor, guest.uuid, "vdb") == Limits(), "the plan was for another run of the guest"
    assert node.run("enforce", *only(guest)).status == 0
    assert in_force(hypervisor, guest.uuid, "vdb") == LIMIT


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
    met = {in_force(hypervisor_of(cloud), guest.uuid, "vdb") for guest in made}
    assert met <= {LIMIT, Limits(total_iops_sec=200)}
    after = node.run("enforce", *only(*made))
    assert after.status == 0, after.out + after.err
    assert {in_force(hypervisor_of(cloud), guest.uuid, "vdb") for guest in made} == {Limits(total_iops_sec=200)}
    assert node.record.unsettled() == []
    assert node.run("record", "--verify").status == 0


def hypervisor_of(cloud: Cloud) -> Libvirt:
    """A new connection: the old ones went with libvirtd."""
    return Libvirt(cloud.libvirt_uri, deadline=10, at_once=2)
