"""When the threads of the daemon count as stuck."""

from __future__ import annotations

import time
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from plimsoll_agent.daemon.schedule import PassResult
from plimsoll_agent.daemon.workers import Ended, Progress, Workers

PATIENT = 10.0


class Passes:
    """Each makes one call whenever the test lets it, and the clock is the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.goes_on: SimpleQueue[bool] = SimpleQueue()
        self.made: SimpleQueue[None] = SimpleQueue()
        self.ended: SimpleQueue[Ended] = SimpleQueue()
        self.workers = Workers(1, self.over_a_guest, self.over_the_node, self.ended.put)

    def over_the_node(self, progress: Progress) -> bool:
        while self.goes_on.get():
            progress()
            self.made.put(None)
        return True

    def over_a_guest(self, _: str, progress: Progress) -> PassResult:
        self.over_the_node(progress)
        return PassResult.CHANGED

    def makes_a_call(self) -> None:
        self.goes_on.put(True)
        self.made.get(timeout=PATIENT)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Passes]:
    passes = Passes(monkeypatch)
    yield passes
    passes.goes_on.put(False)


@pytest.mark.parametrize("of", ["guest", "node"])
def test_a_pass_is_stuck_where_its_calls_end_no_more_and_not_where_it_takes_long(passes: Passes, of: str) -> None:
    workers = passes.workers
    if of == "node":
        workers.begin_full()
    else:
        workers.begin("1ebc1454-0d31-4367-8c90-06e18daa66f9")
    for _ in range(20):
        passes.now += 100
        assert not workers.stuck(120)
        passes.makes_a_call()
    passes.now += 119
    assert not workers.stuck(120)
    passes.now += 2
    assert workers.stuck(120)


def test_who_waits_for_the_next_pass_is_not_stuck(passes: Passes) -> None:
    passes.workers.begin_full()
    passes.goes_on.put(False)
    passes.workers.ended(passes.ended.get(timeout=PATIENT))
    passes.now += 1e6
    assert not passes.workers.stuck(120)
