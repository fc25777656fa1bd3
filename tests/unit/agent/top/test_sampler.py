"""Following the disks of a node: who is asked what, how often, and what a guest in trouble costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

from plimsoll_agent.errors import NoSuchGuest, Unreachable
from plimsoll_agent.model.hypervisor import BlockStats, Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.model.usage import Usage
from plimsoll_agent.reconcile.outcome import Scope
from plimsoll_agent.top.sampler import LOOK_AGAIN, Sampler
from tests.fakes import FakeDisk, FakeGuest, FakeHypervisor, hangs, raising, volume

LIMIT = Limits(total_iops_sec=100)
A, B = "1ebc1454-0d31-4367-8c90-06e18daa66f9", "2ebc1454-0d31-4367-8c90-06e18daa66f9"


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A sampler over a fake hypervisor, a guest ``a`` and a guest ``b``, and the time."""

    def __init__(self, hypervisor: FakeHypervisor | None = None, scope: frozenset[str] = frozenset()) -> None:
        self.a = FakeGuest("a", A, {"vda": volume(actual=LIMIT)})
        self.b = FakeGuest("b", B, {"vda": volume(actual=LIMIT)})
        self.hypervisor = hypervisor or FakeHypervisor()
        self.hypervisor.by_uuid = {A: self.a, B: self.b}
        self.clock = Clock()
        self.sampler = Sampler(self.hypervisor, Scope(scope), clock=self.clock, at_once=1)

    def round(self, *busy: FakeGuest, seconds: float = 2, iops: int = 50) -> dict[str, Usage]:
        """Time goes by, in which some guests read, and then there is a round; usages by guest and target."""
        self.clock.now += seconds
        for guest in busy:
            for disk in guest.disks.values():
                reads, read, writes, written = disk.done
                disk.done = (reads + int(iops * seconds), read, writes, written)
        self.hypervisor.calls.clear()
        self.sampler.ask()
        return {f"{u.disk.guest.name} {u.disk.target}": u for u in self.sampler.sample().usages}


def test_definitions_and_limits_are_not_read_in_every_round() -> None:
    node = Node()
    node.round()
    node.round()
    assert set(node.hypervisor.calls) == {"guests", "block_stats"}
    node.a.disks["vda"].actual = Limits(total_iops_sec=200)
    assert node.round(node.a, seconds=LOOK_AGAIN)["a vda"].share == 0.25


class NoCounters(FakeHypervisor):
    """Guests whose QEMU is busy: libvirt does not wait, and has no counters of theirs."""

    busy = False

    def block_stats(self, uuid: str, targets: Iterable[str]) -> Mapping[str, BlockStats]:
        told = super().block_stats(uuid, targets)
        return {} if self.busy else told


def test_a_guest_that_hangs_costs_its_own_lines_only_and_is_left_in_peace_for_a_while() -> None:
    node = Node()
    node.round()
    node.a.trouble = hangs()
    found = node.round(node.b, seconds=LOOK_AGAIN)
    assert (found["a vda"].rates, found["b vda"].share) == (None, 0.5)
    assert isinstance(found["a vda"].disk.actual, Unknown)
    sample = node.sampler.sample()
    assert [(one.guest.name, one.reason.code) for one in sample.unreachable] == [("a", Code.TIMED_OUT)]
    assert sample.incomplete
    node.round(seconds=LOOK_AGAIN / 2)
    assert node.hypervisor.calls.count("block_stats") == 1, "b alone is asked"
    node.a.trouble = None
    node.round(seconds=LOOK_AGAIN)
    assert node.round(node.a)["a vda"].share == 0.5
    assert not node.sampler.sample().incomplete


def test_a_guest_that_is_busy_is_asked_nothing_that_waits() -> None:
    hypervisor = NoCounters()
    node = Node(hypervisor)
    node.round()
    hypervisor.busy = True
    found = node.round(node.a, seconds=LOOK_AGAIN)
    assert not {"look", "actual"} & set(hypervisor.calls)
    assert found["a vda"].reason is not None
    assert found["a vda"].rates is None


def test_a_new_guest_that_is_busy_is_asked_for_its_definition_only() -> None:
    hypervisor = NoCounters()
    hypervisor.busy = True
    found = Node(hypervisor).round()
    assert "actual" not in hypervisor.calls
    assert found["a vda"].reason is not None


def test_a_guest_that_hung_is_not_asked_for_limits_while_it_is_busy_still() -> None:
    hypervisor = NoCounters()
    node = Node(hypervisor)
    node.a.trouble = hangs()
    node.round()
    hypervisor.busy = True
    found = node.round(seconds=LOOK_AGAIN * 2)
    assert not {"look", "actual"} & set(hypervisor.calls)
    reason = found["a vda"].reason
    assert reason is not None
    assert reason.code is Code.TIMED_OUT, "why it is busy is known: a call to it hangs"


def test_guests_come_and_go() -> None:
    node = Node()
    del node.hypervisor.by_uuid[B]
    assert set(node.round()) == {"a vda"}
    node.hypervisor.by_uuid = {B: node.b}
    assert set(node.round()) == {"b vda"}
    assert node.sampler.sample().guests == 1


def test_a_guest_that_goes_while_it_is_asked_is_no_trouble() -> None:
    node = Node()
    node.round()
    node.hypervisor.before["block_stats"] = lambda: node.hypervisor.by_uuid.clear()
    assert node.round() == {}
    assert not node.sampler.sample().incomplete


def test_a_guest_that_was_started_again_is_looked_at_again() -> None:
    node = Node()
    node.round()
    found = node.round(node.a)
    assert (found["a vda"].share, found["b vda"].share) == (0.5, 0)
    node.hypervisor.restart(node.a, Limits(total_iops_sec=10))
    node.a.disks["vda"].done = (0, 0, 0, 0)
    assert node.round()["a vda"].rates is None
    node.round()
    found = node.round(node.a, iops=5)
    assert found["a vda"].share == 0.5, "of the limit that it has now"


def test_a_disk_that_is_attached_later_is_followed() -> None:
    node = Node()
    node.round()
    node.hypervisor.attach(node.a, "vdb", FakeDisk("new", actual=LIMIT))
    node.round(seconds=LOOK_AGAIN)
    assert node.round(node.a)["a vdb"].share == 0.5


def test_the_limits_of_a_guest_on_the_move_are_not_asked_for() -> None:
    node = Node()
    node.a.movement = Movement.LEAVING
    node.round()
    assert node.hypervisor.calls.count("actual") == 1, "b's"
    found = node.round(node.a)
    assert found["a vda"].rates is not None
    assert found["a vda"].share is None
    assert not node.sampler.sample().incomplete


def test_an_unreadable_definition_is_that_guests_trouble() -> None:
    node = Node()
    node.a.xml = "<domain>"
    found = node.round()
    assert set(found) == {"b vda"}
    assert [one.reason.code for one in node.sampler.sample().unreachable] == [Code.UNREADABLE_XML]


def test_nothing_is_known_while_libvirt_is_away() -> None:
    node = Node()
    node.round()
    node.round(node.a)
    node.hypervisor.before["guests"] = raising(Unreachable("libvirt does not list its guests"))
    with pytest.raises(Unreachable):
        node.round()
    assert [usage.rates for usage in node.sampler.sample().usages] == [None, None]


def test_only_guests_of_the_scope_are_asked() -> None:
    node = Node(scope=frozenset({"b"}))
    assert set(node.round()) == {"b vda"}
    assert node.sampler.sample().guests == 1


def test_a_guest_that_does_not_run_here_is_named() -> None:
    with pytest.raises(NoSuchGuest, match="nobody"):
        Node(scope=frozenset({"a", "nobody"})).sampler.check()
