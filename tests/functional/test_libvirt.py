"""The adapter on libvirt's real bindings: what it reads, and how it words the library's errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import libvirt
import pytest

from lab.looking import actual, disk_of, put
from plimsoll_agent.adapters.deadline import SharedCalls, StillHangs
from plimsoll_agent.adapters.libvirt import client
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.errors import DeadlineExceeded, NotFound, NotSent, Rejected, Unreachable
from plimsoll_agent.model.hypervisor import Movement, Versions
from plimsoll_agent.model.limits import Limits, LimitsError


@pytest.fixture
def hypervisor(test_node: str) -> Iterator[Libvirt]:
    hypervisor = Libvirt(test_node, deadline=5, at_once=4)
    yield hypervisor
    hypervisor.close()


@contextmanager
def world(hypervisor: Libvirt) -> Iterator[Any]:
    """The connection that the next call will be on: each one to the test driver is a world of its own."""
    link = hypervisor._link()
    yield link.connection
    hypervisor._idle.put(link)


def test_guests_that_nova_made_are_read_through_real_bindings(hypervisor: Libvirt) -> None:
    guests = hypervisor.guests()
    assert len(guests) == 4
    sighting = hypervisor.look(guests[0].uuid)
    assert sighting.guest.uuid == guests[0].uuid
    assert sighting.guest.project == "76f321b2fd294e5fa90eb0525110f9e2"
    assert sighting.disks
    assert sighting.movement is Movement.STAYS, "a driver that knows no jobs has no migration under way"


def test_limits_of_the_definition_are_read(hypervisor: Libvirt) -> None:
    grouped = hypervisor.guests()[3].uuid
    assert actual(hypervisor, grouped, "vdc") == Limits(
        total_bytes_sec=4194304, total_iops_sec=500, group_name="vm-total"
    )


def test_what_libvirt_refuses_is_rejected_with_its_words(hypervisor: Libvirt) -> None:
    # The test driver refuses a base without a burst, which QEMU takes.
    with pytest.raises(Rejected, match="total_iops_sec_max"):
        put(hypervisor, hypervisor.guests()[0].uuid, "vda", Limits(total_iops_sec=250))


def test_a_guest_that_is_gone_has_vanished(hypervisor: Libvirt) -> None:
    with pytest.raises(NotFound):
        hypervisor.look("00000000-0000-4000-8000-000000000000")


def test_a_guest_that_has_stopped_has_vanished_whatever_libvirt_calls_it(hypervisor: Libvirt) -> None:
    guest = hypervisor.guests()[0]
    with world(hypervisor) as connection:
        connection.lookupByUUIDString(guest.uuid).destroy()
    with pytest.raises(NotFound):
        actual(hypervisor, guest.uuid, "vda")


def test_a_guest_that_was_started_again_answers_again(hypervisor: Libvirt) -> None:
    guest = hypervisor.guests()[0]
    before = hypervisor.look(guest.uuid).guest.run
    with world(hypervisor) as connection:
        connection.lookupByUUIDString(guest.uuid).destroy()
        connection.lookupByUUIDString(guest.uuid).create()
    assert hypervisor.look(guest.uuid).guest.run not in (None, before)
    assert actual(hypervisor, guest.uuid, "vda") == Limits()


def test_a_guest_that_was_started_after_the_list_is_found(hypervisor: Libvirt) -> None:
    guest = hypervisor.guests()[0]
    with world(hypervisor) as connection:
        connection.lookupByUUIDString(guest.uuid).destroy()
    assert guest not in hypervisor.guests()
    with world(hypervisor) as connection:
        connection.lookupByUUIDString(guest.uuid).create()
    assert hypervisor.look(guest.uuid).guest.uuid == guest.uuid


def test_guests_of_the_list_are_not_looked_up_with_every_call(
    hypervisor: Libvirt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lookup costs as much as a look; a second connection has no list yet, and asks for one."""
    looked_up: list[str] = []
    monkeypatch.setattr(libvirt.virConnect, "lookupByUUIDString", lambda _, uuid: looked_up.append(uuid))
    guests = hypervisor.guests()
    with world(hypervisor):
        for guest in guests:
            hypervisor.look(guest.uuid)
    for guest in guests:
        for disk in hypervisor.look(guest.uuid).disks:
            hypervisor.actual(disk)
    assert looked_up == []


def test_close_says_farewell_on_every_connection(hypervisor: Libvirt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else libvirtd logs an error for each: whoever holds a guest's object holds its connection open."""
    still_held: list[int] = []
    close = libvirt.virConnect.close
    monkeypatch.setattr(libvirt.virConnect, "close", lambda connection: still_held.append(close(connection)))
    guests = hypervisor.guests()
    with world(hypervisor):
        hypervisor.look(guests[0].uuid)
    hypervisor.close()
    assert still_held == [0, 0]


def test_a_guest_without_a_definition_of_its_own_has_none_to_write(hypervisor: Libvirt) -> None:
    uuid = hypervisor.guests()[0].uuid
    with world(hypervisor) as connection:
        domain = connection.lookupByUUIDString(uuid)
        text = domain.XMLDesc()
        domain.destroy()
        domain.undefine()
        connection.createXML(text)
    limits = Limits(total_iops_sec=250, total_iops_sec_max=250)
    hypervisor.define_limits(disk_of(hypervisor, uuid, "vda"), limits)
    assert actual(hypervisor, uuid, "vda") == Limits()


def test_a_definition_that_libvirt_refuses_to_write_is_rejected(hypervisor: Libvirt) -> None:
    disk = disk_of(hypervisor, hypervisor.guests()[0].uuid, "vda")
    with pytest.raises(Rejected, match="total_iops_sec_max"):
        hypervisor.define_limits(disk, Limits(total_iops_sec=250))


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
    threads = [
        threading.Thread(target=lambda g=guest: seen.append(hypervisor.look(g.uuid).guest.uuid)) for guest in guests
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(seen) == sorted(guest.uuid for guest in guests)


# --- a survey


Tune = Callable[[Any, str, int], dict[str, Any]]
BLOCK_IO_TUNE: Tune = libvirt.virDomain.blockIoTune
JOB_INFO = libvirt.virDomain.jobInfo
CONTROL_INFO = libvirt.virDomain.controlInfo
GROUPED = 3
"""The guest, by its place in the list, with three disks: vda, vdb, and vdc in a group."""


def test_a_survey_is_one_errand(hypervisor: Libvirt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs two hand-offs between threads."""
    errands: list[str] = []
    call = hypervisor._deadlines.call
    guest = hypervisor.guests()[GROUPED]
    expected = {disk.target: hypervisor.actual(disk) for disk in hypervisor.look(guest.uuid).disks}
    monkeypatch.setattr(hypervisor._deadlines, "call", lambda who, *ask: [errands.append(who), call(who, *ask)][1])
    assert hypervisor.survey(guest.uuid).actual == expected
    assert len(expected) == 3
    assert len(errands) == 1


def refused(domain: Any, _target: str, flags: int) -> dict[str, Any]:
    return BLOCK_IO_TUNE(domain, "nowhere", flags)


def impossible(_domain: Any, _target: str, _flags: int) -> dict[str, Any]:
    return {"total_iops_sec": 1, "read_iops_sec": 1}


def stopped(domain: Any, target: str, flags: int) -> dict[str, Any]:
    domain.destroy()
    return BLOCK_IO_TUNE(domain, target, flags)


@pytest.mark.parametrize(
    ("trouble", "kind", "last"),
    [(refused, Rejected, Limits), (impossible, LimitsError, Limits), (stopped, NotFound, NotFound)],
)
def test_a_disk_whose_limits_cannot_be_had_costs_a_survey_that_disk_only(
    hypervisor: Libvirt, monkeypatch: pytest.MonkeyPatch, trouble: Tune, kind: type, last: type
) -> None:
    uuid = hypervisor.guests()[GROUPED].uuid
    answers = {"vdb": trouble}
    monkeypatch.setattr(
        libvirt.virDomain,
        "blockIoTune",
        lambda domain, target, flags=0: answers.get(target, BLOCK_IO_TUNE)(domain, target, flags),
    )
    survey = hypervisor.survey(uuid)
    assert [disk.target for disk in survey.disks] == ["vda", "vdb", "vdc"]
    assert [type(survey.actual[disk.target]) for disk in survey.disks] == [Limits, kind, last]


def test_a_guest_that_was_just_surveyed_is_not_asked_whether_it_hangs_before_its_counters(
    hypervisor: Libvirt, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied = [libvirt.VIR_DOMAIN_CONTROL_OCCUPIED, 0, 10_000]
    monkeypatch.setattr(libvirt.virDomain, "controlInfo", lambda _domain: occupied)
    now = [0.0]
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: now[0]))
    uuid = hypervisor.guests()[GROUPED].uuid
    assert hypervisor.block_stats(uuid, ["vda"]) == {}, "it hangs"
    hypervisor.survey(uuid)
    assert set(hypervisor.block_stats(uuid, ["vda"])) == {"vda"}
    now[0] += 0.5
    assert hypervisor.block_stats(uuid, ["vda"]) == {}, "that was some time ago"


def hanging(monkeypatch: pytest.MonkeyPatch, *answered: str) -> tuple[list[str], threading.Event]:
    """The disks whose limits are asked for; and what lets the calls return that hang, for all but ``answered``.

    As with QEMU (qemuDomainGetJobStatsInternal), the question about a job waits for a call that hangs.
    """
    asked: list[str] = []
    lid = threading.Event()
    held: set[str] = set()

    def hangs(domain: Any, target: str, flags: int) -> dict[str, Any]:
        asked.append(target)
        if target not in answered:
            held.add(domain.UUIDString())
            assert lid.wait(10)
        return BLOCK_IO_TUNE(domain, target, flags)

    def job_info(domain: Any) -> list[int]:
        assert domain.UUIDString() not in held or lid.wait(10)
        answer: list[int] = JOB_INFO(domain)
        return answer

    def control_info(domain: Any) -> list[int]:
        occupied = [libvirt.VIR_DOMAIN_CONTROL_OCCUPIED, 0, 10_000]
        return occupied if domain.UUIDString() in held and not lid.is_set() else CONTROL_INFO(domain)

    monkeypatch.setattr(libvirt.virDomain, "blockIoTune", hangs)
    monkeypatch.setattr(libvirt.virDomain, "jobInfo", job_info)
    monkeypatch.setattr(libvirt.virDomain, "controlInfo", control_info)
    return asked, lid


def test_a_survey_that_is_cut_short_keeps_what_was_told_and_never_changes(
    test_node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, lid = hanging(monkeypatch, "vda")
    hypervisor = Libvirt(test_node, deadline=1, at_once=1)  # the call that hangs has the only slot
    survey = hypervisor.survey(hypervisor.guests()[GROUPED].uuid)
    kinds = [(disk.target, type(survey.actual[disk.target])) for disk in survey.disks]
    assert kinds == [("vda", Limits), ("vdb", DeadlineExceeded), ("vdc", DeadlineExceeded)]
    assert asked == ["vda", "vdb"]
    lid.set()
    while hypervisor.hung:
        time.sleep(0.01)
    assert [(disk.target, type(survey.actual[disk.target])) for disk in survey.disks] == kinds
    hypervisor.close()


def test_of_a_guest_that_hangs_only_libvirt_is_asked_until_its_call_returns(
    test_node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, lid = hanging(monkeypatch)
    shared = SharedCalls(2)
    first, second = (Libvirt(test_node, deadline=1, at_once=1, shared_calls=shared) for _ in range(2))
    uuid = first.guests()[GROUPED].uuid
    before = first.survey(uuid)
    again = second.survey(uuid)
    assert asked == ["vda"]
    assert again.disks == before.disks, "the definition is known"
    assert {type(told) for told in again.actual.values()} == {StillHangs}
    with pytest.raises(StillHangs):
        second.block_stats(uuid, ["vda"])
    lid.set()
    while shared.hung:
        time.sleep(0.01)
    assert {type(told) for told in second.survey(uuid).actual.values()} == {Limits}
    for each in (first, second):
        each.close()


def test_a_guest_that_hangs_for_another_process_is_looked_at(test_node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass of the timer does not know of the hung calls of the one before, whose job libvirt still holds."""
    _asked, lid = hanging(monkeypatch)
    first, second = (Libvirt(test_node, deadline=1, at_once=1) for _ in range(2))
    uuid = first.guests()[GROUPED].uuid
    before = first.survey(uuid)
    assert second.look(uuid).disks == before.disks
    survey = second.survey(uuid)
    assert survey.disks == before.disks
    assert {type(answer) for answer in survey.actual.values()} == {DeadlineExceeded}
    lid.set()


def test_a_guest_that_hangs_gets_no_limits(test_node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libvirt would set them once the call before ends, when a hold or a pause may have come."""
    writes: list[str] = []
    hypervisor = Libvirt(test_node, deadline=1, at_once=1)
    disk = hypervisor.look(hypervisor.guests()[GROUPED].uuid).disks[0]
    monkeypatch.setattr(libvirt.virDomain, "controlInfo", lambda _: [libvirt.VIR_DOMAIN_CONTROL_OCCUPIED, 0, 4000])
    monkeypatch.setattr(libvirt.virDomain, "setBlockIoTune", lambda _, target, *__: writes.append(target))
    with pytest.raises(NotSent):
        hypervisor.set_limits(disk, Limits(total_iops_sec=100))
    assert writes == []
    hypervisor.close()


@pytest.mark.parametrize(
    ("control", "is_asked"),
    [
        ([libvirt.VIR_DOMAIN_CONTROL_OK, 0, 0], True),  # between two calls of a migration
        ([libvirt.VIR_DOMAIN_CONTROL_JOB, 0, 9], True),
        ([libvirt.VIR_DOMAIN_CONTROL_OCCUPIED, 0, 1999], True),  # it may be a phase of a migration
        ([libvirt.VIR_DOMAIN_CONTROL_OCCUPIED, 0, 2000], False),
        ([libvirt.VIR_DOMAIN_CONTROL_ERROR, libvirt.VIR_DOMAIN_CONTROL_ERROR_REASON_MONITOR, 0], True),
        ([libvirt.VIR_DOMAIN_CONTROL_ERROR, libvirt.VIR_DOMAIN_CONTROL_ERROR_REASON_INTERNAL, 0], True),
    ],
)
def test_a_guest_is_asked_for_its_job_unless_another_call_hangs(
    hypervisor: Libvirt, monkeypatch: pytest.MonkeyPatch, control: list[int], is_asked: bool
) -> None:
    leaving = {"operation": libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT}
    monkeypatch.setattr(libvirt.virDomain, "controlInfo", lambda _: control)
    monkeypatch.setattr(libvirt.virDomain, "jobInfo", lambda _: [libvirt.VIR_DOMAIN_JOB_UNBOUNDED])
    monkeypatch.setattr(libvirt.virDomain, "jobStats", lambda _: leaving)
    movement = hypervisor.look(hypervisor.guests()[0].uuid).movement
    assert movement is (Movement.LEAVING if is_asked else Movement.STAYS)


def test_a_guest_that_hangs_in_its_job_keeps_its_disks(test_node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lid = threading.Event()
    monkeypatch.setattr(libvirt.virDomain, "controlInfo", lambda _: [libvirt.VIR_DOMAIN_CONTROL_JOB, 0, 9])
    monkeypatch.setattr(libvirt.virDomain, "jobInfo", lambda _: lid.wait(10) and [libvirt.VIR_DOMAIN_JOB_NONE])
    hypervisor = Libvirt(test_node, deadline=0.5, at_once=2, shared_calls=SharedCalls(4))
    uuid = hypervisor.guests()[GROUPED].uuid
    for kind in (DeadlineExceeded, StillHangs):
        survey = hypervisor.survey(uuid)
        answers = {target: type(answer) for target, answer in survey.actual.items()}
        assert answers == dict.fromkeys(["vda", "vdb", "vdc"], kind)
    lid.set()


def test_a_guest_whose_xml_does_not_come_is_unanswered(test_node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lid = threading.Event()
    hypervisor = Libvirt(test_node, deadline=1, at_once=1)
    uuid = hypervisor.guests()[0].uuid
    monkeypatch.setattr(libvirt.virDomain, "XMLDesc", lambda *_: lid.wait(10))
    with pytest.raises(DeadlineExceeded):
        hypervisor.survey(uuid)
    lid.set()


def test_a_survey_of_a_guest_on_the_move_asks_its_qemu_nothing(
    hypervisor: Libvirt, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = hypervisor.guests()[GROUPED].uuid
    asked: list[str] = []
    arriving = [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION]
    monkeypatch.setattr(libvirt.virDomain, "state", lambda *_: arriving)
    monkeypatch.setattr(libvirt.virDomain, "blockIoTune", lambda _, target, *__: asked.append(target))
    survey = hypervisor.survey(uuid)
    assert survey.movement is Movement.ARRIVING
    assert [disk.target for disk in survey.disks] == ["vda", "vdb", "vdc"]
    assert asked == []


@pytest.mark.parametrize(
    ("state", "paused"),
    [
        ([libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER], True),
        ([libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR], False),
        ([libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_SNAPSHOT], False),
        ([libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION], False),
        ([libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_PAUSED_USER], False),  # another state has other reasons
    ],
)
def test_only_a_person_pauses_a_guest(
    hypervisor: Libvirt, monkeypatch: pytest.MonkeyPatch, state: list[int], paused: bool
) -> None:
    uuid = hypervisor.guests()[GROUPED].uuid
    monkeypatch.setattr(libvirt.virDomain, "state", lambda *_: state)
    assert (hypervisor.look(uuid).paused, hypervisor.survey(uuid).paused) == (paused, paused)


def test_libvirt_returns_its_version_and_that_of_the_hypervisor(hypervisor: Libvirt) -> None:
    with world(hypervisor) as connection:
        told = connection.getLibVersion(), connection.getVersion()
    versions = hypervisor.versions()
    assert (versions.libvirt, versions.qemu) == told
    assert versions.libvirt >= 7_000_000
    assert str(Versions(9_000_013, 2)) == "libvirt 9.0.13 and QEMU 0.0.2"
