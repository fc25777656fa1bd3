"""Passes until a node is healthy, or until no further pass would help."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import printable
from plimsoll_monitoring.node.gate import LASTING, NodeFault, Requirements, faults
from plimsoll_monitoring.node.status import NodeStatus

BETWEEN = timedelta(seconds=10)
_POLL = 0.5


class Units(Protocol):
    """``plimsoll_agent.adapters.units``."""

    def daemon_runs(self) -> bool: ...
    def run_pass(self) -> str: ...
    def reload_daemon(self) -> str: ...
    def last_line(self, unit: str) -> str: ...

    DAEMON: str


@frozen
class GateResult:
    """How the node is, why it is not healthy, and how many passes were made."""

    status: NodeStatus
    faults: tuple[NodeFault, ...]
    passes: int = 0


@frozen(kw_only=True)
class GateDependencies:
    """What a gate asks."""

    units: Units
    look: Callable[[], NodeStatus]
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    reload_daemon: Callable[[], str] | None = None
    """Has the daemon make a pass where it is process 1 and no systemd is: ``adapters.container``."""


def after_passes(world: GateDependencies, needs: Requirements, wait: timedelta) -> GateResult:
    """At least one pass, and another every ten seconds while the node is unhealthy, for as long as ``wait``.

    An approval or the end of a pause is not waited for. Raises ``Unreachable``, ``DeadlineExceeded`` of systemd.
    """
    begin = world.now()
    needs = replace(needs, since=begin)
    passes = 0
    while True:
        status, trouble = _one_pass(world)
        passes += 1
        wrong = faults(status, needs)
        figures = {fault.figure for fault in wrong}
        if not wrong or figures & LASTING or world.now() + BETWEEN > begin + wait:
            break
        world.sleep(BETWEEN.total_seconds())
    if trouble and "" in figures:
        first = next(fault for fault in wrong if not fault.figure)
        more = replace(first, text=f"{first.text}; {printable(trouble)}")
        wrong = tuple(more if fault is first else fault for fault in wrong)
    return GateResult(status, wrong, passes)


def _one_pass(world: GateDependencies) -> tuple[NodeStatus, str]:
    """The status after it, and why there was none, or ""."""
    if world.reload_daemon is None and not world.units.daemon_runs():
        trouble = world.units.run_pass()
        return world.look(), trouble
    # The timer's service makes none beside it. A reload is over before the pass that follows it.
    begin = world.now()
    trouble = (world.reload_daemon or world.units.reload_daemon)()
    while True:
        status = world.look()
        if status.last is not None and status.last.started >= begin:
            return status, ""
        if world.now() >= begin + BETWEEN:
            if not trouble and world.reload_daemon is None:
                unit = world.units.DAEMON
                trouble = f"{unit}: {world.units.last_line(unit) or 'no output'}"
            return status, trouble or "plimsoll daemon: no output"
        world.sleep(_POLL)
