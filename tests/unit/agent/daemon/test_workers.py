"""What the threads of the daemon tell of their passes, and when they count as stuck."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from plimsoll_agent.daemon.schedule import PassResult
from plimsoll_agent.daemon.workers import (
    Ended,
    FullPassEnded,
    FullPassResult,
    GuestPassEnded,
    Progress,
    Workers,
)

PATIENT = 10.0
GUEST, OTHER = "1ebc1454-0d31-4367-8c90-06e18daa66f9", "2ebc1454-0d31-4367-8c90-06e18daa66f9"


class Passes:
    """Each makes one call whenever the test lets it, and the clock is the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.goes_on: SimpleQueue[bool] = SimpleQueue()
        self.made: SimpleQueue[None] = SimpleQueue()
        self.ended: SimpleQueue[Ended] = SimpleQueue()
        self.begun: SimpleQueue[str] = SimpleQueue()
        self.dies = False
        self.workers = Workers(2, self.over_a_guest, self.over_the_node, self.ended.put)

    def over_the_node(self, progress: Progress) -> FullPassResult:
        while self.goes_on.get():
            progress()
            self.made.put(None)
        if self.dies:
            raise SystemExit
        return FullPassResult.BUSY

    def over_a_guest(self, uuid: str, progress: Progress) -> PassResult:
        self.begun.put(uuid)
        self.over_the_node(progress)
        return PassResult.CHANGED

    def ends(self) -> Ended:
        self.goes_on.put(False)
        ended = self.ended.get(timeout=PATIENT)
        self.workers.ended(ended)
        return ended

    def makes_a_call(self) -> None:
        self.goes_on.put(True)
        self.made.get(timeout=PATIENT)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Passes]:
    passes = Passes(monkeypatch)
    yield passes
    for _ in range(3):
        passes.goes_on.put(False)


@pytest.mark.parametrize("of", ["guest", "node"])
def test_a_pass_is_stuck_where_its_calls_end_no_more_and_not_where_it_takes_long(passes: Passes, of: str) -> None:
    workers = passes.workers
    if of == "node":
        workers.begin_full()
    else:
        workers.begin(GUEST)
    for _ in range(20):
        passes.now += 100
        assert not workers.stuck(120)
        passes.makes_a_call()
    passes.now += 120
    assert not workers.stuck(120)
    passes.now += 1
    assert workers.stuck(120)


def test_the_pass_that_makes_no_progress_for_longest_counts(passes: Passes) -> None:
    passes.workers.begin(GUEST)
    passes.now += 100
    passes.workers.begin(OTHER)
    passes.now += 21
    assert passes.workers.stuck(120)


def test_who_waits_for_the_next_pass_is_not_stuck(passes: Passes) -> None:
    passes.workers.begin_full()
    passes.ends()
    passes.now += 1e6
    assert not passes.workers.stuck(120)
    assert not passes.workers.stuck(0.5)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_has_died_is_stuck_at_once(passes: Passes) -> None:
    passes.dies = True
    passes.workers.begin_full()
    passes.goes_on.put(False)
    (thread,) = (each for each in passes.workers._threads if each.name == "full-pass")
    thread.join(PATIENT)
    assert passes.workers.stuck(120)


def test_a_pass_that_has_ended_is_told_with_its_guest_its_result_and_how_long_it_took(passes: Passes) -> None:
    passes.now = 1000.0
    passes.workers.begin(GUEST)
    assert passes.begun.get(timeout=PATIENT) == GUEST
    passes.now += 7
    assert passes.ends() == GuestPassEnded(GUEST, PassResult.CHANGED, 7.0)
    passes.workers.begin_full()
    assert passes.ends() == FullPassEnded(FullPassResult.BUSY)


def test_a_full_pass_takes_no_worker_of_guests(passes: Passes) -> None:
    workers = passes.workers
    assert (workers.free, workers.busy) == (2, False)
    workers.begin_full()
    assert (workers.free, workers.busy) == (2, True)
    workers.begin(GUEST)
    workers.begin(OTHER)
    assert workers.free == 0
    assert {passes.begun.get(timeout=PATIENT) for _ in range(2)} == {GUEST, OTHER}, "side by side"
    for _ in range(3):
        passes.ends()
    assert (workers.free, workers.busy) == (2, False)


def test_threads_keep_no_process_and_have_names(passes: Passes) -> None:
    """A pass that hangs would keep a daemon that is stopped; the names are what py-spy shows."""
    threads = passes.workers._threads
    assert [each.name for each in threads] == ["full-pass", "guest-pass-0", "guest-pass-1"]
    assert all(each.daemon for each in threads)
    assert set(threads) <= set(threading.enumerate())
