"""libvirt's events of guests, as its bindings call for them, and what the daemon does of them.

A JSON list of steps: ``[event, guest, argument...]`` by the name of a callback; ``["wrote", guest, target, limits]``,
``["wait", seconds]`` and ``["ended", result]`` of the pass that runs longest.
"""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

from plimsoll_agent.adapters.libvirt.event_link import EventLink
from plimsoll_agent.daemon.schedule import MOST_GUESTS, EventEffect, PassResult, Schedule
from plimsoll_agent.model.guest_events import GuestEvent, LinkEvent
from tests.unit.values import NINETEEN

_CALLBACKS = ("_lifecycle", "_device_added", "_device_removed", "_tunable", "_block_job", "_job")
_ARGUMENTS = {"_lifecycle": (int, int), "_tunable": (dict,), "_block_job": (str, int, int)}
"""What libvirt's bindings promise; all others have no argument, or text."""
_MOST_STEPS = 2000
_LONGEST_DELAY = 700.0
"""Seconds from an event to its pass, for a guest that was set aside or flaps."""


class _Daemon:
    """A schedule with its passes, which end when they are told to."""

    def __init__(self) -> None:
        self.schedule = Schedule(300, connected=True)
        self.now = 0.0
        self.running: list[str] = []
        self.owed: dict[str, float] = {}
        """Since when each guest has an event that no pass has followed."""
        self.wrote: dict[tuple[str, str], dict[str, Any]] = {}
        self.link = EventLink.__new__(EventLink)
        self.link._ended = threading.Event()
        self.link._tell = self._hear

    def _hear(self, event: LinkEvent) -> None:
        assert isinstance(event, GuestEvent)
        verdict = self.schedule.event(event, self.now)
        if verdict in (EventEffect.PASS, EventEffect.MERGED):
            self.owed.setdefault(event.uuid, self.now)
        if verdict is EventEffect.ECHO:
            assert event.limits == self.wrote[event.uuid, event.target], "an external change is no echo"
        if event.kind.value == "stopped":
            self.owed.pop(event.uuid, None)

    def step(self, what: Any, *more: Any) -> None:
        match what, *more:
            case "wait", int() | float() as seconds if 0 <= seconds < 1e9:
                self.now += seconds
            case "ended", str() as result if self.running and result in list(PassResult):
                self.schedule.ended(self.running.pop(0), PassResult(result), self.now)
            case "wrote", str() as guest, str() as target, dict() as limits:
                full = dict.fromkeys(NINETEEN, 0) | limits  # as every write is
                self.wrote[guest, target] = full
                self.schedule.wrote(guest, target, full, self.now)
            case str() as name, str() as guest, *arguments if f"_{name}" in _CALLBACKS:
                kinds = _ARGUMENTS.get(f"_{name}", ())
                if len(arguments) >= len(kinds) and all(map(isinstance, arguments, kinds)):
                    domain = SimpleNamespace(UUIDString=lambda: guest, name=lambda: f"instance-{guest}")
                    getattr(self.link, f"_{name}")(None, domain, *arguments[: len(kinds)], None)
        self.begin()

    def begin(self) -> None:
        while (uuid := self.schedule.begin(self.now)) is not None:
            assert uuid not in self.running, "one guest is never in two passes"
            self.running.append(uuid)
            self.owed.pop(uuid, None)
        assert len(self.schedule._guests) <= MOST_GUESTS

    def finish(self) -> None:
        """All passes end well, and whoever is owed one is served in time."""
        end = self.now + _LONGEST_DELAY
        for _ in range(4 * _MOST_STEPS):
            while self.running:
                self.schedule.ended(self.running.pop(0), PassResult.IN_SYNC, self.now)
            if not self.owed:
                return
            if self.schedule.begin_full_pass(self.now):
                self.schedule.full_pass_ended(True, self.now)
            self.now = max(self.now, self.schedule.wake_at())
            assert self.now <= end, f"{len(self.owed)} guests wait for ever"
            self.begin()
        raise AssertionError("it never comes to rest")


def target(data: bytes) -> None:
    try:
        steps = json.loads(data)
    except (ValueError, RecursionError):
        return
    daemon = _Daemon()
    for step in steps[:_MOST_STEPS] if isinstance(steps, list) else ():
        if isinstance(step, list) and step:
            daemon.step(*step)
    daemon.finish()
