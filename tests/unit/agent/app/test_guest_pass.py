"""Passes over single guests beside a pass over the node and beside commands, in threads as in a daemon."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from plimsoll_agent.app.context import pass_context, run
from plimsoll_agent.app.guest_pass import pass_over
from plimsoll_agent.app.node import state_of
from plimsoll_agent.cli.hold import HoldAdd, HoldEnd
from plimsoll_agent.errors import NoSuchGuest
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.reconcile.outcome import Mode, PassReport, Scope
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import Busy
from tests.fakes import FakeGuest, FakeHypervisor, volume
from tests.unit.node import codes, kinds, set_by_hand
from tests.unit.person import Person
from tests.unit.places import NO_CLUSTER, settings_in

A, B = "1ebc1454-0d31-4367-8c90-06e18daa66f9", "2ebc1454-0d31-4367-8c90-06e18daa66f9"
OF_A, OF_B = "aaaabc14-0d31-4367-8c90-06e18daa66f9", "bbbbbc14-0d31-4367-8c90-06e18daa66f9"
DEFAULT, OTHER = Limits(total_iops_sec=250), Limits(total_iops_sec=300)


class Node(Person):
    """Guests ``a`` and ``b``, limited by a first pass over the node."""

    def __init__(self, directory: Path) -> None:
        self.a, self.b = FakeGuest("a", A, {"vda": volume(OF_A)}), FakeGuest("b", B, {"vda": volume(OF_B)})
        self.hypervisor = FakeHypervisor(self.a, self.b)
        (directory / "rules.yaml").write_text("default: {limits: {total_iops_sec: 250}}")
        self.settings = settings_in(directory, ceph=NO_CLUSTER)
        self.state = state_of(self.settings)
        self.state.prepare()
        assert kinds(self.over_the_node()) == ["changed", "changed"]

    def over_the_node(self) -> PassReport:
        with self.state.locked():
            context = pass_context(self.settings, read_only=False)
            return run(self.settings, self.hypervisor, context, scope=Scope(), mode=Mode.ENFORCE)

    def over(self, uuid: str, patience: float = 0) -> PassReport:
        return pass_over(self.settings, self.hypervisor, [uuid], patience=patience)

    def limits_of(self, guest: FakeGuest) -> Limits:
        return guest.disks["vda"].actual

    @contextmanager
    def stuck(self, call: str, does: Callable[[], PassReport]) -> Iterator[Future[PassReport]]:
        """``does`` runs beside us, and waits in its next ``call`` of the hypervisor until the end."""
        reached, goes_on = threading.Event(), threading.Event()

        def wait() -> None:
            reached.set()
            assert goes_on.wait(60)

        self.hypervisor.before[call] = wait
        with ThreadPoolExecutor(1) as beside:
            running = beside.submit(does)
            try:
                assert reached.wait(60)
                yield running
            finally:
                goes_on.set()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_pass_over_a_guest_changes_that_guest_alone(node: Node) -> None:
    set_by_hand(node.a.disks["vda"], OTHER)
    set_by_hand(node.b.disks["vda"], OTHER)
    assert kinds(node.over(A)) == ["changed"]
    assert (node.limits_of(node.a), node.limits_of(node.b)) == (DEFAULT, OTHER)


def test_a_guest_that_does_not_run_is_an_error(node: Node) -> None:
    with pytest.raises(NoSuchGuest):
        node.over("3ebc1454-0d31-4367-8c90-06e18daa66f9")


@pytest.mark.parametrize("call", ["look", "actual", "set_limits"])
def test_a_pass_over_the_node_that_hangs_holds_up_neither_another_guest_nor_a_hold(node: Node, call: str) -> None:
    set_by_hand(node.a.disks["vda"], OTHER)
    with node.stuck(call, node.over_the_node) as running:
        set_by_hand(node.b.disks["vda"], OTHER)
        assert kinds(node.over(B)) == ["changed"]
        held = ("b", "vda", "--for", "1h", "--limits", "total_iops_sec=100", "--reason", "test")
        assert node.types(HoldAdd, *held, settings=node.settings, hypervisor=node.hypervisor) == 0
        assert node.limits_of(node.b) == Limits(total_iops_sec=100)
    assert running.result().failures == 0
    assert node.limits_of(node.b) == Limits(total_iops_sec=100)
    memory = node.state.load_memory()
    assert memory is not None
    assert [hold.disk.guest_name for hold in memory.holds.values()] == ["b"]
    assert memory.disks[f"{B}/{OF_B}"].applied == Limits(total_iops_sec=100), "what the hold's pass remembered"
    assert memory.disks[f"{A}/{OF_A}"].applied == DEFAULT
    assert node.limits_of(node.a) == DEFAULT


@pytest.mark.parametrize("call", ["look", "actual", "set_limits", "define_limits", "set_marks"])
def test_two_passes_never_work_on_one_guest(node: Node, call: str) -> None:
    set_by_hand(node.a.disks["vda"], OTHER)
    node.hypervisor.lose_marks()
    with node.stuck(call, lambda: node.over(A)) as running:
        with pytest.raises(Busy, match=f"is changing guest {A}; nothing was changed"):
            node.over(A)
        writes = list(node.hypervisor.writes)
        report = node.over_the_node()
        assert node.hypervisor.writes == writes
        if call in ("look", "actual", "set_limits"):
            assert codes(report)[0] is Code.GUEST_BUSY
            assert kinds(report) == ["deferred", "in-sync"]
    assert kinds(running.result()) == ["changed"]
    assert kinds(node.over(A)) == ["in-sync"]


def test_a_change_in_flight_is_not_settled_by_another_pass(node: Node) -> None:
    set_by_hand(node.a.disks["vda"], OTHER)
    with node.stuck("set_limits", lambda: node.over(A)) as running:
        (open_one,) = Record(node.state.record).unsettled()
        node.over_the_node()
        assert Record(node.state.record).unsettled() == [open_one]
    assert kinds(running.result()) == ["changed"]
    assert Record(node.state.record).unsettled() == []


@pytest.mark.parametrize("command", ["add", "end"])
def test_what_was_held_since_a_pass_decided_is_not_raised_by_it(node: Node, command: str) -> None:
    """The hold keeps the present limits, so that libvirt's definition tells nothing of it."""
    tight = Limits(total_iops_sec=100)
    words = ("a", "vda", "--for", "1h", "--limits", "total_iops_sec=100", "--reason", "test")
    set_by_hand(node.a.disks["vda"], tight)
    if command == "end":
        assert node.types(HoldAdd, *words, settings=node.settings, hypervisor=node.hypervisor) == 0
        set_by_hand(node.a.disks["vda"], OTHER)
    with node.stuck("actual", node.over_the_node) as running:
        if command == "add":
            assert node.types(HoldAdd, *words, settings=node.settings, hypervisor=node.hypervisor) == 0
        else:
            assert node.types(HoldEnd, "a", settings=node.settings, hypervisor=node.hypervisor) == 0
    assert codes(running.result())[0] is Code.CHANGED_SINCE
    assert node.limits_of(node.a) == (tight if command == "add" else OTHER)
    assert kinds(node.over_the_node())[0] == ("in-sync" if command == "add" else "changed")
    assert (node.a.marks or "").count("<hold") == (1 if command == "add" else 0)


def test_a_guest_whose_lock_cannot_be_had_is_lowered_and_not_raised(node: Node) -> None:
    (node.state.directory / "guests.lock").unlink()
    (node.state.directory / "guests.lock").mkdir()
    set_by_hand(node.a.disks["vda"], OTHER)
    set_by_hand(node.b.disks["vda"], Limits(total_iops_sec=100))
    report = node.over_the_node()
    assert kinds(report) == ["changed", "failed"]
    assert codes(report)[1] is Code.NO_RECORD


@pytest.mark.parametrize("call", ["look", "actual", "set_limits", "define_limits", "set_marks"])
def test_a_killed_pass_leaves_no_lock_and_the_next_settles_its_change(node: Node, call: str) -> None:
    node.hypervisor.lose_marks()
    set_by_hand(node.a.disks["vda"], OTHER)
    child = os.fork()
    if child == 0:
        node.hypervisor.before[call] = lambda: os.kill(os.getpid(), signal.SIGKILL)
        node.over(A)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    written = call in ("define_limits", "set_marks")
    if written:  # the child's libvirt was its own
        set_by_hand(node.a.disks["vda"], DEFAULT)
    assert len(Record(node.state.record).unsettled()) == (1 if call == "set_limits" or written else 0)
    assert kinds(node.over(A)) == (["in-sync"] if written else ["changed"])
    assert Record(node.state.record).unsettled() == []
    assert node.limits_of(node.a) == DEFAULT


def test_a_pass_in_a_process_that_lives_on_sees_what_another_process_stored(node: Node) -> None:
    node.over(A)
    child = os.fork()
    if child == 0:
        words = ("a", "vda", "--for", "1h", "--limits", "total_iops_sec=100", "--reason", "test")
        try:
            os._exit(node.types(HoldAdd, *words, settings=node.settings, hypervisor=node.hypervisor))
        finally:  # else an error would have it go on as a second pytest
            os._exit(70)
    assert os.waitpid(child, 0)[1] == 0
    assert kinds(node.over(A)) == ["changed"]
    assert node.limits_of(node.a) == Limits(total_iops_sec=100)
