"""Which unit makes the pass of a gate, what the gate takes for that pass, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.monitor.pass_summary import LastPass
from plimsoll_agent.monitor.thresholds import SHIPPED
from plimsoll_agent.reconcile.outcome import UnreachableGuest
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.node.gate import Requirements
from plimsoll_monitoring.node.status import NodeStatus
from plimsoll_monitoring.node.until_healthy import GateDependencies, GateResult, after_passes
from tests.unit.lastpasses import UNTOUCHED, a_last_disk, a_last_pass
from tests.unit.node import uuid_of
from tests.unit.values import NOON

DAEMON, ENFORCE = "plimsoll-daemon.service", "plimsoll-enforce.service"
HANGS = UnreachableGuest(GuestRef(uuid_of(7), "g7"), UNTOUCHED)


class Node:
    """A node whose units make a pass some seconds after they were told to; ``clock`` is in seconds."""

    DAEMON = DAEMON

    def __init__(self, *, daemon: bool, seconds: float | None = 1.0, version: str = "0.1.1") -> None:
        """``seconds`` is how long a pass takes, None: it never ends."""
        self.told: list[str] = []
        self.clock = 0.0
        self.passes = [(-300.0, -299.0)]
        """When each began, and ended."""
        self.last: Callable[[LastPass], LastPass] = lambda last: last
        self.paused = False
        self._daemon = daemon
        self._seconds = seconds
        self._version = version

    def daemon_runs(self) -> bool:
        return self._daemon

    def run_pass(self) -> str:
        self.told.append(ENFORCE)
        self._pass(0.1)
        self.clock = max(self.clock, self.passes[-1][1])
        return "" if self._seconds is not None else f"{ENFORCE}: RuntimeError: cannot decide"

    def reload_daemon(self) -> str:
        self.told.append(DAEMON)
        self._pass(0.01)
        return ""

    def last_line(self, unit: str) -> str:
        return f"words of {unit}\x1b[2J"

    def _pass(self, after: float) -> None:
        if self._seconds is not None:
            self.passes.append((self.clock + after, self.clock + after + self._seconds))

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.clock)

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def look(self) -> NodeStatus:
        self.clock += 0.2
        began, ended = max((began, ended) for began, ended in self.passes if ended <= self.clock)
        started, over = NOON + timedelta(seconds=began), NOON + timedelta(seconds=ended)
        last = a_last_pass(a_last_disk(), version=self._version, started=started, ended=over, looked=started)
        return NodeStatus(
            now=self.now(),
            last=self.last(replace(last, last_good=over)),
            probes=None,
            paused=because(Code.PAUSED, file="/etc/plimsoll/paused", why="no") if self.paused else None,
            written={},
            thresholds=SHIPPED,
        )


def gate(node: Node, wait: int = 25) -> GateResult:
    world = GateDependencies(units=node, look=node.look, now=node.now, sleep=node.sleep)
    return after_passes(world, Requirements("0.1.1"), timedelta(seconds=wait))


def words(found: GateResult) -> list[str]:
    return [fault.words for fault in found.faults]


def test_without_a_daemon_the_pass_is_that_of_the_timers_service() -> None:
    node = Node(daemon=False)
    found = gate(node)
    assert (found.faults, found.passes, node.told) == ((), 1, [ENFORCE])


def test_beside_a_daemon_the_pass_is_the_daemons() -> None:
    """The timer's service makes none there, and so a rollout would never be healthy."""
    node = Node(daemon=True)
    assert (gate(node).faults, node.told) == ((), [DAEMON])
    assert node.clock < 3, "it is seen as soon as it is over"


def test_a_pass_of_the_daemon_that_takes_longer_than_the_wait_for_it_counts() -> None:
    assert gate(Node(daemon=True, seconds=12.0)).faults == ()


@pytest.mark.parametrize(("daemon", "said"), [(True, f"{DAEMON}: words of {DAEMON}"), (False, f"{ENFORCE}: Runtime")])
def test_a_unit_that_makes_no_pass_is_not_healthy_and_its_last_line_is_shown(daemon: bool, said: str) -> None:
    (text,) = words(gate(Node(daemon=daemon, seconds=None)))
    assert text.startswith("there was no pass: the last one started at 2026-")
    assert f"; {said}" in text
    assert "\x1b" not in text


def test_in_a_container_whose_daemon_makes_no_pass_no_systemd_is_asked_why() -> None:
    class WithoutSystemd(Node):
        def daemon_runs(self) -> bool:
            raise AssertionError

        def last_line(self, unit: str) -> str:
            raise AssertionError(unit)

    node = WithoutSystemd(daemon=True, seconds=None)
    world = GateDependencies(
        units=node, look=node.look, now=node.now, sleep=node.sleep, reload_daemon=node.reload_daemon
    )
    (text,) = words(after_passes(world, Requirements("0.1.1"), timedelta()))
    assert text.endswith("; plimsoll daemon: no output")


def test_a_daemon_that_still_runs_the_earlier_version_is_not_healthy() -> None:
    assert words(gate(Node(daemon=True, version="0.1.0"))) == [
        "the last pass was made by plimsoll 0.1.0, not by 0.1.1"
    ]


def test_a_guest_that_hung_for_a_pass_is_waited_for() -> None:
    node = Node(daemon=False)
    node.last = lambda last: replace(last, unreachable=(HANGS,)) if len(node.passes) < 4 else last
    found = gate(node)
    assert (found.faults, found.passes) == ((), 3)


def test_the_wait_has_an_end() -> None:
    node = Node(daemon=False)
    node.last = lambda last: replace(last, unreachable=(HANGS,))
    found = gate(node)
    assert [fault.figure for fault in found.faults] == ["unreachable_guests"]
    assert found.passes == 3
    assert node.clock < 25
    assert gate(node, wait=0).passes == 1


def test_what_only_an_operator_ends_is_not_waited_for() -> None:
    paused, braked = Node(daemon=False), Node(daemon=False)
    paused.paused = True
    braked.last = lambda last: replace(last, braked="a1b2c3", braked_disks=3)
    assert [gate(node).passes for node in (paused, braked)] == [1, 1]
