"""Looking at a node: one guest's trouble is that guest's, and nobody is asked who should not be."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from plimsoll_agent.errors import (
    DeadlineExceeded,
    NoSuchGuest,
    NotFound,
    NotSent,
    PlimsollError,
    Rejected,
    Unreachable,
    UnreadableXML,
)
from plimsoll_agent.model.clusters import Cluster, Clusters
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import Movement, Sighting
from plimsoll_agent.model.limits import Limits, LimitsError, LimitsProblem
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.reconcile.observe import Observation, guests_with, observe, reason_of, scope_of
from plimsoll_agent.reconcile.outcome import Scope
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeDisk, FakeGuest, FakeHypervisor, hangs, raising, volume
from tests.unit.values import VOLUME

UUIDS = [f"0000000{n}-0000-4000-8000-000000000000" for n in range(9)]
LIMITS = Limits(total_iops_sec=250)
EVERYTHING = Scope()


def guest(number: int, *targets: str) -> FakeGuest:
    disks = {target: FakeDisk(f"{target}-of-{number}", actual=LIMITS) for target in targets or ("vda", "vdb")}
    return FakeGuest(f"instance-0000000{number}", UUIDS[number], disks)


def look(hypervisor: FakeHypervisor, scope: Scope = EVERYTHING, *, sizes: bool = False) -> Observation:
    return observe(hypervisor, scope, needs_size=lambda _: sizes, at_once=1, clusters=Clusters())


def images(seen: Observation) -> list[str]:
    return [disk.image for disk in seen.disks]


def codes(seen: Observation) -> list[Code | None]:
    """Why what is in force is not known, by disk; None where it is known."""
    return [disk.actual.reason.code if isinstance(disk.actual, Unknown) else None for disk in seen.disks]


def unreachable(seen: Observation) -> list[tuple[str, Code]]:
    return [(missed.guest.uuid, missed.reason.code) for missed in seen.unreachable]


# --- who is looked at


def test_every_disk_of_every_guest_is_seen_with_what_is_actual() -> None:
    seen = look(FakeHypervisor(guest(1), guest(2, "vda")))
    assert images(seen) == ["vda-of-1", "vdb-of-1", "vda-of-2"]
    assert {disk.actual for disk in seen.disks} == {LIMITS}
    assert {disk.defined for disk in seen.disks} == {Limits()}, "libvirt's word is kept apart from QEMU's"
    assert (seen.unreachable, seen.hung) == ((), frozenset())


@pytest.mark.parametrize(
    "words", [{"instance-00000002"}, {UUIDS[2]}, {"instance-00000002", UUIDS[2]}], ids=["name", "uuid", "both"]
)
def test_only_guests_that_are_asked_for_are_looked_at(words: set[str]) -> None:
    hypervisor = FakeHypervisor(guest(1), guest(2, "vda"), guest(3))
    assert images(look(hypervisor, Scope(frozenset(words)))) == ["vda-of-2"]
    assert hypervisor.calls == ["guests", "look", "actual"]


def test_all_that_are_asked_for_and_not_there_are_named_and_no_guest_is_looked_at() -> None:
    hypervisor = FakeHypervisor(guest(1))
    with pytest.raises(NoSuchGuest, match=r"name or uuid b, c$"):
        look(hypervisor, Scope(frozenset({"instance-00000001", "c", "b"})))
    assert set(hypervisor.calls) == {"guests", "look"}, "no QEMU is asked"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("booted", "; did you mean instance-00000001 (booted)?"),
        ("twins", "; did you mean instance-00000002 (twins) or instance-00000003 (twins)?"),
        ("instance-0000003", "; did you mean instance-00000003?"),
        ("boted", "; did you mean instance-00000001 (booted)?"),
        ("instance-0000", "; 4 guests begin with it: give the whole name"),
        ("twi", "; 2 guests begin with it: give the whole name"),
        ("boo", "; did you mean instance-00000001 (booted)?"),
        ("zzz", ""),
    ],
)
def test_the_name_that_nova_shows_is_answered_with_the_guest_that_has_it(typed: str, meant: str) -> None:
    guests = [guest(number) for number in (1, 2, 3, 4)]
    for each, name in zip(guests, ("booted", "twins", "twins", "a\x1b[2J"), strict=True):
        each.display_name = name
    hypervisor = FakeHypervisor(*guests)
    with pytest.raises(NoSuchGuest) as error:
        look(hypervisor, Scope(frozenset({typed})))
    assert str(error.value) == f"no running guest has the name or uuid {typed}{meant}"
    if typed not in ("booted", "twins"):
        with pytest.raises(NoSuchGuest) as error:
            guests_with(hypervisor, typed)
        assert str(error.value).endswith(meant or "; plimsoll disk list shows all")


def test_the_only_server_of_a_name_is_found_by_it_and_of_several_all_are_named() -> None:
    guests = [guest(number) for number in (1, 2, 3, 4)]
    for each, name in zip(guests, ("booted", "twins", "twins", "instance-00000001"), strict=True):
        each.display_name = name
    hypervisor = FakeHypervisor(*guests)
    assert guests_with(hypervisor, "booted") == Scope(frozenset({UUIDS[1]}))
    assert scope_of(hypervisor, ["booted", "none", "instance-00000002"]) == Scope(
        frozenset({UUIDS[1], "none", "instance-00000002"})
    )
    # A tenant gave a server the name that another guest has.
    assert guests_with(hypervisor, "instance-00000001") == Scope(frozenset({UUIDS[1]}))
    several = "2 servers are named 'twins': instance-00000002, instance-00000003; give one of these names"
    for ask in (guests_with, lambda node, word: scope_of(node, [word])):
        with pytest.raises(NoSuchGuest) as error:
            ask(hypervisor, "twins")
        assert str(error.value) == several


@pytest.mark.parametrize(
    ("call", "error"), [("guests", Unreachable("libvirt is down")), ("look", KeyboardInterrupt())]
)
def test_a_list_that_cannot_be_had_and_an_interrupt_are_not_one_guests_trouble(
    call: str, error: BaseException
) -> None:
    hypervisor = FakeHypervisor(guest(1), guest(2))
    hypervisor.before[call] = raising(error)
    with pytest.raises(type(error)):
        look(hypervisor)


def test_a_node_without_guests_is_empty_and_not_an_error() -> None:
    assert look(FakeHypervisor()) == Observation(disks=(), unreachable=())


def test_guests_stay_in_the_order_of_their_list_whoever_answers_first() -> None:
    class FirstIsSlow(FakeHypervisor):
        others = threading.Semaphore(0)

        def look(self, uuid: str) -> Sighting:
            if uuid == UUIDS[1]:
                assert self.others.acquire(timeout=10)
            try:
                return super().look(uuid)
            finally:
                self.others.release()

    seen = observe(FirstIsSlow(guest(1), guest(2), guest(3)), EVERYTHING, at_once=2, clusters=Clusters())
    assert [disk.guest.uuid for disk in seen.disks] == [uuid for uuid in UUIDS[1:4] for _ in range(2)]


def test_each_disk_knows_its_cluster_where_its_monitors_tell() -> None:
    here = Cluster(Path("a.conf"), "fsid a", frozenset({"127.0.0.1"}))
    there = Cluster(Path("b.conf"), "fsid b", frozenset({"10.0.0.1"}))
    seen = observe(FakeHypervisor(guest(1)), EVERYTHING, clusters=Clusters((there, here)), at_once=1)
    assert {disk.cluster for disk in seen.disks} == {"fsid a"}
    assert {disk.cluster for disk in look(FakeHypervisor(guest(1))).disks} == {None}


# --- sizes


def test_sizes_are_asked_once_a_guest_and_only_where_they_are_desired() -> None:
    hypervisor = FakeHypervisor(guest(1))
    assert {disk.size for disk in look(hypervisor).disks} == {None}
    assert "sizes" not in hypervisor.calls
    assert {disk.size for disk in look(hypervisor, sizes=True).disks} == {10 * 2**30}
    assert hypervisor.calls.count("sizes") == 1


def test_each_disk_has_its_own_size_and_one_that_is_not_told_is_unknown() -> None:
    one = guest(1, "vda", "vdb", "vdc")
    one.disks["vda"].size, one.disks["vdb"].size, one.disks["vdc"].size = 2**30, None, 2**31
    assert [disk.size for disk in look(FakeHypervisor(one), sizes=True).disks] == [2**30, None, 2**31]


@pytest.mark.parametrize("error", [hangs(), Rejected("no"), NotSent("not asked"), NotFound("gone")])
def test_disks_whose_sizes_cannot_be_had_are_seen_all_the_same(error: PlimsollError) -> None:
    hypervisor = FakeHypervisor(guest(1))
    hypervisor.before["sizes"] = raising(error)
    seen = look(hypervisor, sizes=True)
    assert [(disk.size, disk.actual) for disk in seen.disks] == [(None, LIMITS)] * 2
    assert (seen.unreachable, seen.hung) == ((), frozenset())


def test_a_guest_that_hangs_is_not_asked_for_its_sizes_too() -> None:
    hypervisor = FakeHypervisor(guest(1), guest(2))
    hypervisor.by_uuid[UUIDS[1]].trouble = hangs()
    assert [disk.size for disk in look(hypervisor, sizes=True).disks] == [None] * 2 + [10 * 2**30] * 2
    assert hypervisor.calls.count("sizes") == 1, "it would be one deadline more"


def test_a_guest_without_rbd_disks_is_asked_for_nothing_more() -> None:
    bare = guest(1)
    bare.disks.clear()
    hypervisor = FakeHypervisor(bare)
    assert look(hypervisor, sizes=True) == Observation(disks=(), unreachable=(), guests=1, other_disks={UUIDS[1]: ()})
    assert hypervisor.calls == ["guests", "look"]


# --- guests in trouble


def test_one_disk_that_hangs_silences_the_others_of_its_guest_only() -> None:
    hypervisor = FakeHypervisor(guest(1, "vda", "vdb", "vdc"), guest(2))
    hypervisor.by_uuid[UUIDS[1]].trouble = hangs()
    seen = look(hypervisor)
    assert codes(seen) == [Code.TIMED_OUT] * 3 + [None] * 2
    assert seen.hung == {UUIDS[1]}
    assert seen.unreachable == (), "its disks are known"
    assert hypervisor.calls.count("actual") == 1 + 2


def test_what_was_known_before_a_guest_hung_stays_known() -> None:
    hypervisor = FakeHypervisor(guest(1, "vda", "vdb", "vdc"))

    def hang_from_now_on() -> None:
        hypervisor.by_uuid[UUIDS[1]].trouble = hangs()

    hypervisor.before["actual"] = lambda: hypervisor.before.update(actual=hang_from_now_on)
    seen = look(hypervisor)
    assert codes(seen) == [None, Code.TIMED_OUT, Code.TIMED_OUT]
    assert seen.hung == {UUIDS[1]}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Rejected("QEMU says no"), Code.REJECTED),
        (NotFound("gone"), Code.NOT_FOUND),
        (NotSent("the guest is busy"), Code.NOT_SENT),
        (LimitsError((LimitsProblem(("total_iops_sec",), "QEMU's own rules broken"),)), Code.IMPOSSIBLE),
    ],
)
def test_a_disk_whose_limits_cannot_be_had_is_unknown_and_its_neighbour_is_asked(
    error: PlimsollError, code: Code
) -> None:
    hypervisor = FakeHypervisor(guest(1))
    hypervisor.before["actual"] = raising(error)
    seen = look(hypervisor)
    assert codes(seen) == [code, None]
    assert isinstance(seen.disks[0].actual, Unknown)
    assert seen.disks[0].actual.reason.facts == {"detail": str(error)}
    assert seen.hung == frozenset(), "it answered, or was not asked"


@pytest.mark.parametrize(
    ("error", "code", "hung"),
    [
        (hangs(), Code.TIMED_OUT, True),
        (NotSent("not asked: 4 calls hang already"), Code.NOT_SENT, False),
        (NotFound("the guest is gone"), Code.NOT_FOUND, False),
        (Rejected("no"), Code.REJECTED, False),
        (Unreachable("libvirt is down"), Code.NOT_READ, False),
        (UnreadableXML("cut off"), Code.UNREADABLE_XML, False),
        (KeyError("a surprise"), Code.NOT_READ, False),
    ],
)
def test_a_guest_that_cannot_be_looked_at_is_reported_and_costs_no_other_guest(
    error: Exception, code: Code, hung: bool
) -> None:
    hypervisor = FakeHypervisor(guest(1), guest(2))
    hypervisor.before["look"] = raising(error)
    seen = look(hypervisor)
    assert unreachable(seen) == [(UUIDS[1], code)]
    assert images(seen) == ["vda-of-2", "vdb-of-2"]
    assert seen.hung == ({UUIDS[1]} if hung else frozenset())


@pytest.mark.parametrize("xml", ["", "<domain>", "<domain/>", "<!DOCTYPE domain [<!ENTITY a 'a'>]><domain/>"])
def test_a_definition_that_cannot_be_read_costs_its_guest_only(xml: str) -> None:
    first = guest(1)
    first.xml = xml or " "
    seen = look(FakeHypervisor(first, guest(2)))
    assert unreachable(seen) == [(UUIDS[1], Code.UNREADABLE_XML)]
    assert images(seen) == ["vda-of-2", "vdb-of-2"]


@pytest.mark.parametrize("call", ["look", "sizes", "actual"])
def test_an_unforeseen_error_costs_its_guest_only_and_is_logged_as_a_bug(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    hypervisor = FakeHypervisor(replace(guest(1), name="in\nstance"), guest(2))
    hypervisor.before[call] = raising(ZeroDivisionError)
    seen = look(hypervisor, sizes=True)
    assert unreachable(seen) == [(UUIDS[1], Code.NOT_READ)], "half a guest is not shown as a whole one"
    assert seen.unreachable[0].reason.facts == {"detail": "ZeroDivisionError()"}
    assert images(seen) == ["vda-of-2", "vdb-of-2"]
    (logged,) = caplog.records
    assert "a bug in plimsoll" in logged.getMessage()
    assert "\n" not in logged.getMessage(), "tenants choose names"
    assert logged.exc_info


def test_trouble_that_is_foreseen_is_not_logged_as_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    first, second = guest(1), guest(2)
    first.xml, second.trouble = "<domain>", hangs()
    look(FakeHypervisor(first, second), sizes=True)
    assert caplog.records == []


# --- guests on the move


@pytest.mark.parametrize(
    ("movement", "code"), [(Movement.LEAVING, Code.MIGRATING), (Movement.ARRIVING, Code.INCOMING)]
)
def test_disks_of_a_guest_on_the_move_are_seen_and_its_qemu_is_not_asked(movement: Movement, code: Code) -> None:
    moving = guest(1)
    moving.movement = movement
    hypervisor = FakeHypervisor(moving)
    seen = look(hypervisor, sizes=True)
    assert images(seen) == ["vda-of-1", "vdb-of-1"]
    assert codes(seen) == [code, code]
    assert hypervisor.calls == ["guests", "look"]
    assert (seen.unreachable, seen.hung) == ((), frozenset())


# --- words


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DeadlineExceeded("x"), Code.TIMED_OUT),
        (NotSent("x"), Code.NOT_SENT),
        (NotFound("x"), Code.NOT_FOUND),
        (Rejected("x"), Code.REJECTED),
        (LimitsError((LimitsProblem((), "x"),)), Code.IMPOSSIBLE),
        (UnreadableXML("x"), Code.UNREADABLE_XML),
        (Unreachable("x"), Code.NOT_READ),
        (OSError("x"), Code.NOT_READ),
    ],
)
def test_an_error_has_the_reason_of_its_kind_and_its_own_words(error: Exception, code: Code) -> None:
    assert (reason_of(error).code, reason_of(error).facts) == (code, {"detail": "x"})


def test_a_threaded_look_sees_what_one_after_the_other_sees() -> None:
    class TwoAtOnce(FakeHypervisor):
        """Each guest waits for another one, so that no look is alone."""

        pair = threading.Barrier(2, timeout=10)

        def actual(self, disk: Disk) -> Limits:
            if disk.target == "vda":
                self.pair.wait()
            return super().actual(disk)

    guests = [guest(number) for number in range(1, 5)]
    together = observe(TwoAtOnce(*guests), EVERYTHING, needs_size=lambda _: True, at_once=4, clusters=Clusters())
    assert together == look(FakeHypervisor(*guests), sizes=True)


# --- counters


def test_counters_are_read_at_the_clocks_time_and_only_when_asked_for() -> None:
    hypervisor = FakeHypervisor(guest(1), guest(2, "vda"))
    assert look(hypervisor).readings == {}
    assert "block_stats" not in hypervisor.calls
    seen = observe(
        hypervisor, EVERYTHING, clusters=Clusters(), clock=iter([10.0, 12.0, 20.0, 24.0]).__next__, at_once=1
    )
    assert sorted(seen.readings) == sorted(disk.key for disk in seen.disks)
    assert sorted({reading.at for reading in seen.readings.values()}) == [11.0, 22.0]


def test_a_guest_that_hangs_is_not_asked_for_its_counters() -> None:
    hypervisor = FakeHypervisor(guest(1))
    hypervisor.by_uuid[UUIDS[1]].trouble = hangs()
    assert observe(hypervisor, EVERYTHING, clusters=Clusters(), clock=lambda: 1.0, at_once=1).readings == {}
    assert "block_stats" not in hypervisor.calls


def test_a_guest_on_the_move_is_not_asked_for_its_counters() -> None:
    moving = guest(1)
    moving.movement = Movement.LEAVING
    hypervisor = FakeHypervisor(moving)
    observe(hypervisor, EVERYTHING, clusters=Clusters(), clock=lambda: 1.0, at_once=1)
    assert "block_stats" not in hypervisor.calls


def test_a_guest_that_hangs_over_its_counters_counts_as_one_that_hangs() -> None:
    """The next call to it, a write, would hold one more of libvirtd's workers."""
    hypervisor = FakeHypervisor(guest(1))
    hypervisor.before["block_stats"] = raising(DeadlineExceeded("QEMU: no answer within 5 s"))
    seen = observe(hypervisor, EVERYTHING, clusters=Clusters(), clock=lambda: 1.0, at_once=1)
    assert (seen.readings, seen.hung) == ({}, {UUIDS[1]})
    assert [disk.actual for disk in seen.disks] == [LIMITS, LIMITS], "what was told before stays told"


# --- one disk


def test_a_guest_is_found_by_name_uuid_or_volume_and_no_other_one_is_asked_anything() -> None:
    """Asking a guest for sizes stops it while QEMU reads its images."""
    guests = [guest(number) for number in (1, 2, 3)]
    guests[0].xml = "<domain>"
    guests[1].disks["vdc"] = volume(VOLUME)
    hypervisor = FakeHypervisor(*guests)
    for meant in ("instance-00000002", UUIDS[2], VOLUME):
        assert guests_with(hypervisor, meant) == Scope(frozenset({UUIDS[2]}))
    assert set(hypervisor.calls) == {"guests", "look"}
    with pytest.raises(NoSuchGuest, match="matches 'vda'; plimsoll disk list shows all"):
        guests_with(hypervisor, "vda")


def test_a_volume_of_two_guests_is_found_in_both() -> None:
    guests = [guest(number) for number in (1, 2, 3)]
    for each in guests[:2]:
        each.disks["vdc"] = volume(VOLUME)
    assert guests_with(FakeHypervisor(*guests), VOLUME) == Scope(frozenset(UUIDS[1:3]))
