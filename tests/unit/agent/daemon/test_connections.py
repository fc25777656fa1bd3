"""One connection for all passes, until it is renewed; and each of its calls is progress."""

from __future__ import annotations

import threading

import pytest

from plimsoll_agent.daemon.connections import Connections
from plimsoll_agent.errors import NotFound, Unreachable
from tests.fakes import FakeHypervisor, raising
from tests.unit.node import guest, uuid_of

PATIENT = 20.0


class Connected(FakeHypervisor):
    def __init__(self) -> None:
        super().__init__(guest(1))
        self.closed = threading.Event()
        self.closed_by: threading.Thread | None = None

    def close(self) -> None:
        self.closed_by = threading.current_thread()
        self.closed.set()


class World:
    def __init__(self) -> None:
        self.made: list[Connected] = []
        self.told = 0
        self.connections = Connections(self.connect)

    def connect(self) -> Connected:
        made = Connected()
        self.made.append(made)
        return made

    def progress(self) -> None:
        self.told += 1


@pytest.fixture
def world() -> World:
    return World()


def test_passes_share_one_connection_until_it_is_renewed(world: World) -> None:
    connections = world.connections
    for _ in range(3):
        connections.get(world.progress).guests()
    assert [one.calls for one in world.made] == [["guests"] * 3]
    connections.renew()
    connections.get(world.progress).guests()
    assert [one.calls for one in world.made] == [["guests"] * 3, ["guests"]]


def test_a_former_connection_is_closed_in_a_thread_that_ends_no_process_late(world: World) -> None:
    """Closing is a call to libvirt, which may hang."""
    world.connections.get(world.progress)
    world.connections.renew()
    (former,) = world.made
    assert former.closed.wait(PATIENT)
    assert former.closed_by is not None
    assert former.closed_by is not threading.current_thread()
    assert (former.closed_by.daemon, former.closed_by.name) == (True, "close-connections")


def test_what_was_never_made_is_not_closed(world: World) -> None:
    before = threading.active_count()
    world.connections.renew()
    assert (world.made, threading.active_count()) == ([], before)


def test_a_process_that_may_have_no_more_threads_renews_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.connections.get(world.progress)
    monkeypatch.setattr(threading.Thread, "start", raising(RuntimeError("can't start new thread")))
    world.connections.renew()
    world.connections.get(world.progress)
    assert len(world.made) == 2


def test_of_two_threads_that_connect_at_once_both_have_the_first_connection_and_the_other_is_closed() -> None:
    """Connecting takes a deadline while libvirt hangs, so no thread waits for another's."""
    made = [Connected(), Connected()]
    begun, goes_on = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]
    turns = iter(range(2))

    def connect() -> Connected:
        turn = next(turns)
        begun[turn].set()
        assert goes_on[turn].wait(PATIENT)
        return made[turn]

    connections = Connections(connect)
    threads = [threading.Thread(target=lambda: connections.get(lambda: None).guests(), daemon=True) for _ in range(2)]
    for thread, each in zip(threads, begun, strict=True):
        thread.start()
        assert each.wait(PATIENT)
    for thread, each in zip(threads[::-1], goes_on[::-1], strict=True):
        each.set()
        thread.join(PATIENT)
    assert [one.calls for one in made] == [[], ["guests", "guests"]]
    assert [one.closed.is_set() for one in made] == [True, False]


def test_libvirt_that_is_down_is_tried_again_by_the_next_pass(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    down = [True]

    def connect() -> Connected:
        if down.pop():
            raise Unreachable("libvirt is down")
        return world.connect()

    connections = Connections(connect)
    with pytest.raises(Unreachable):
        connections.get(world.progress)
    down.append(False)
    assert connections.get(world.progress).guests()


def test_each_call_returns_what_the_hypervisor_returns_and_is_progress_when_it_ends(world: World) -> None:
    hypervisor = world.connections.get(world.progress)
    assert hypervisor.look(uuid_of(1)) == world.made[0].look(uuid_of(1))
    assert world.told == 1
    world.made[0].by_uuid.clear()
    with pytest.raises(NotFound):
        hypervisor.look(uuid_of(1))
    assert world.told == 2, "a call that fails has ended too"


def test_calls_are_given_all_that_they_are_given(world: World) -> None:
    made: list[tuple[object, ...]] = []

    class Recording(Connected):
        def call(self, *args: object, **more: object) -> str:
            made.append((args, more))
            return "answer"

    hypervisor = Connections(Recording).get(world.progress)
    assert hypervisor.call(1, "b", alone=True) == "answer"  # type: ignore[attr-defined]
    assert made == [((1, "b"), {"alone": True})]
