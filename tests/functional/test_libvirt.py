"""The adapter on libvirt's real bindings: what it reads, and how it words the library's errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from plimsoll_agent import domxml
from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.errors import Rejected, Unreachable, Vanished
from plimsoll_agent.hypervisor import Movement
from plimsoll_agent.limits import Limits
from tests.looking import in_force, put


@pytest.fixture
def hypervisor(test_node: str) -> Iterator[Libvirt]:
    hypervisor = Libvirt(test_node, deadline=5, at_once=4)
    yield hypervisor
    hypervisor.close()


def test_guests_that_nova_made_are_read_through_real_bindings(hypervisor: Libvirt) -> None:
    guests = hypervisor.guests()
    assert len(guests) == 4
    sighting = hypervisor.look(guests[0].uuid)
    guest, disks = domxml.parse(sighting.xml)
    assert guest.uuid == guests[0].uuid
    assert guest.project == "76f321b2fd294e5fa90eb0525110f9e2"
    assert disks
    assert sighting.movement is Movement.STAYS, "a driver that knows no jobs has no migration under way"


def test_limits_of_the_definition_are_read(hypervisor: Libvirt) -> None:
    grouped = hypervisor.guests()[3].uuid
    assert in_force(hypervisor, grouped, "vdc") == Limits(
        total_bytes_sec=4194304, total_iops_sec=500, group_name="vm-total"
    )


def test_what_libvirt_refuses_is_rejected_with_its_words(hypervisor: Libvirt) -> None:
    # The test driver refuses a base without a burst, which QEMU takes.
    with pytest.raises(Rejected, match="total_iops_sec_max"):
        put(hypervisor, hypervisor.guests()[0].uuid, "vda", Limits(total_iops_sec=250))


def test_a_guest_that_is_gone_has_vanished(hypervisor: Libvirt) -> None:
    with pytest.raises(Vanished):
        hypervisor.look("00000000-0000-4000-8000-000000000000")


def test_a_guest_that_has_stopped_has_vanished_whatever_libvirt_calls_it(hypervisor: Libvirt) -> None:
    guest = hypervisor.guests()[0]
    connection = hypervisor._connection()
    connection.lookupByUUIDString(guest.uuid).destroy()
    hypervisor._idle.put(connection)  # each connection to the test driver is a world of its own
    with pytest.raises(Vanished):
        in_force(hypervisor, guest.uuid, "vda")


@pytest.mark.parametrize(
    "uri", ["test:///nowhere/node.xml", "qemu+unix:///system?socket=/nowhere", "no-such-driver:///"]
)
def test_a_libvirt_that_is_not_there_is_unreachable_and_named(uri: str) -> None:
    with pytest.raises(Unreachable, match=r"nowhere|no-such-driver"):
        Libvirt(uri, deadline=5, at_once=4)


def test_libvirt_prints_nothing_by_itself(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unreachable):
        Libvirt("qemu+unix:///system?socket=/nowhere", deadline=5, at_once=4)
    assert capfd.readouterr().err == ""


def test_calls_may_come_from_several_threads(hypervisor: Libvirt) -> None:
    guests = hypervisor.guests()
    seen: list[str] = []
    threads = [threading.Thread(target=lambda g=guest: seen.append(hypervisor.look(g.uuid).xml)) for guest in guests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(seen) == len(guests)
