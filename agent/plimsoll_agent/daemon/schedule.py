"""What the daemon does next. Pure: no threads, and no clock (``now`` is in seconds, and never goes back)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from plimsoll_agent.model.guest_events import EventKind, GuestEvent
from plimsoll_agent.util.frozen import frozen

QUIET = 60.0
"""Seconds between two passes over a guest after which it does not count as flapping."""
SPACING = ((6, 0.0), (9, 1.0), (12, 5.0))
"""Up to so many passes in a row, each less than ``QUIET`` after the one before, are so many seconds apart."""
SPACED = 30.0
"""Seconds between two passes of a guest that goes on flapping."""
SPACED_NEW = 1.0
"""At most so many where it was started, or got a device: a disk may be there without limits."""
ASIDE = (5.0, 600.0)
"""Seconds that a guest is set aside after a failure, doubled with each further one; and at most."""
BUSY_AGAIN = 1.0
"""Seconds before another try where another pass works on the guest; sooner where a full pass of the daemon ends."""
POSTPONED = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each further try where a pass was postponed. After these an event or a full pass is needed."""
FULL_AGAIN = 10.0
"""Seconds before a full pass that failed, or found another one running, is tried again; doubled each time."""
AT_REST_AGAIN = 2.0
"""Seconds before one is tried again that found a file of its rules changed just now."""
TOLD_APART = 10.0
"""Seconds between two full passes of which one only tells what a pass over a guest has left undone."""
FULL_APART = 1.0
"""Seconds between the beginnings of two full passes, whatever asks for them."""
MOST_GUESTS = 4096
"""Guests in the queue, and writes that are remembered. Above it a full pass takes the place of the queue."""
ECHO = 30.0
"""Seconds in which libvirt's event for a write of the daemon is expected."""

_NEW_DISKS = (EventKind.STARTED, EventKind.DEVICE_ADDED)
_LEADS_TO_A_PASS = frozenset(EventKind) - {EventKind.ARRIVING, EventKind.STOPPED, EventKind.DEVICE_REMOVED}
_OTHER_DISKS = (
    EventKind.STARTED,
    EventKind.ARRIVING,
    EventKind.STOPPED,
    EventKind.DEVICE_ADDED,
    EventKind.DEVICE_REMOVED,
)


class EventEffect(StrEnum):
    """What an event leads to."""

    PASS = "pass"  # noqa: S105  # no password
    MERGED = "merged"
    """A pass over the guest is due already."""
    ECHO = "echo"
    """It tells of a write of this daemon."""
    NONE = "none"
    """It changes no limit: a guest that stopped, lost a device, or arrives and does not run yet."""
    OVERFLOW = "overflow"
    """The queue is full: a full pass is due instead."""


class PassResult(StrEnum):
    """How a pass over a guest ended."""

    IN_SYNC = "in-sync"
    CHANGED = "changed"
    INCOMPLETE = "incomplete"
    """A disk is unknown, or a change deferred: as after a full pass, which also tries it again."""
    GONE = "gone"
    """The guest does not run any more."""
    BUSY = "busy"
    """Another pass works on the guest, or on the node."""
    UNREACHABLE = "unreachable"
    """The guest does not answer, or libvirt."""
    FAILED = "failed"
    POSTPONED = "postponed"
    """The guest migrates, or a call for one of its disks was not sent: tried again a few times."""


_SET_ASIDE = (PassResult.UNREACHABLE, PassResult.FAILED)
_AGAIN = (*_SET_ASIDE, PassResult.BUSY, PassResult.POSTPONED)


@frozen
class _Flaps:
    last: float | None = None
    """When the last pass began."""
    in_a_row: int = 0
    """Passes that each began less than ``QUIET`` after the one before."""

    def quiet(self, now: float) -> bool:
        return self.last is None or now - self.last >= QUIET

    def with_pass(self, now: float) -> _Flaps:
        return _Flaps(now, 1 if self.quiet(now) else self.in_a_row + 1)


@dataclass
class _Guest:
    name: str
    waits_since: float | None = None
    """When the first event came for which no pass has begun."""
    runs: bool = False
    another: bool = False
    """It stopped while its pass ran, or was started: what this pass found out is of a QEMU that is gone."""
    new_disks: bool = False
    """It was started, or got a device, after its last pass began."""
    had_new_disks: bool = False
    """The same, before that pass."""
    not_before: float = 0.0
    flaps: _Flaps = field(default_factory=_Flaps)
    before: _Flaps = field(default_factory=_Flaps)
    """Without the last pass."""
    result: PassResult | None = None
    """Of the last pass that has ended."""
    failures: int = 0
    postponed: int = 0
    """Passes in a row, without an event in between."""

    @property
    def spacing(self) -> float:
        seconds = next((seconds for most, seconds in SPACING if self.flaps.in_a_row < most), SPACED)
        return min(seconds, SPACED_NEW) if self.new_disks else seconds

    @property
    def wait(self) -> float | None:
        """Seconds from the end of the last pass until it is tried again; None if it is not."""
        if self.result is PassResult.BUSY:
            return BUSY_AGAIN
        if self.result is PassResult.POSTPONED:
            return POSTPONED[self.postponed - 1] if self.postponed <= len(POSTPONED) else None
        first, most = ASIDE
        return min(most, first * 2.0 ** min(self.failures - 1, 20)) if self.failures else None

    def hasten(self, now: float) -> None:
        """Something has happened to it: where it answers, it does not wait as long as for another try of the same."""
        if self.result is PassResult.FAILED:
            self.not_before = min(self.not_before, now + ASIDE[0])
        elif self.result is PassResult.POSTPONED:
            self.not_before, self.postponed = 0.0, 0


@frozen(kw_only=True)
class Waiting:
    """A guest that is not passed over at once, until when (on the clock of ``now``), and after how many failures."""

    uuid: str
    name: str
    until: float
    failures: int


@frozen
class _Write:
    at: float
    limits: Mapping[str, object]


@dataclass
class Schedule:
    """``interval``: seconds between two full passes. The first is due at once."""

    interval: float
    connected: bool = False
    """While it is false no pass over a guest begins: there would be no answer."""
    _guests: OrderedDict[str, _Guest] = field(default_factory=OrderedDict)
    """By uuid, those who wait in the order of their first event."""
    _written: OrderedDict[tuple[str, str], _Write] = field(default_factory=OrderedDict)
    """By guest and target the last write of this daemon."""
    _full_at: float = 0.0
    _full_began: float = float("-inf")
    _full_runs: bool = False
    _full_failures: int = 0

    # --- what happens

    def event(self, event: GuestEvent, now: float) -> EventEffect:
        guest = self._guests.get(event.uuid)
        if event.kind in (EventKind.STOPPED, EventKind.STARTED) and guest is not None:
            guest.failures, guest.not_before = 0, 0.0  # another QEMU: what hung is gone
            guest.another = guest.runs
        if event.kind is EventKind.STOPPED and guest is not None:
            guest.waits_since = None
        echo = self._is_echo(event, now)
        if event.kind not in _LEADS_TO_A_PASS:
            return EventEffect.NONE
        if echo:
            return EventEffect.ECHO
        if guest is None:
            if len(self._guests) >= MOST_GUESTS:
                self._forget(now)
            if len(self._guests) >= MOST_GUESTS:
                self.full_pass_due(now)
                return EventEffect.OVERFLOW
            guest = self._guests[event.uuid] = _Guest(event.uuid)
        guest.name = event.name or guest.name
        guest.new_disks |= event.kind in _NEW_DISKS
        guest.hasten(now)
        if guest.waits_since is not None:
            return EventEffect.MERGED
        guest.waits_since = now
        self._guests.move_to_end(event.uuid)
        return EventEffect.PASS

    def reconnected(self, now: float) -> None:
        """What happened in between is unknown, and guests may have been set aside since libvirt did not answer."""
        self.connected = True
        for guest in self._guests.values():
            guest.failures, guest.not_before = 0, 0.0
        self.full_pass_due(now)

    def wrote(self, uuid: str, target: str, limits: Mapping[str, object], now: float) -> None:
        """The daemon is about to set these limits."""
        self._written[uuid, target] = _Write(now, limits)
        self._written.move_to_end((uuid, target))
        while self._written and (
            len(self._written) > MOST_GUESTS or now - next(iter(self._written.values())).at > ECHO
        ):
            self._written.popitem(last=False)

    def full_pass_due(self, now: float) -> None:
        """As soon as possible; while one runs, after it: it may have looked before what happened now."""
        self._full_at = now
        self._full_failures = 0

    def ended(self, uuid: str, result: PassResult, now: float) -> None:
        guest = self._guests[uuid]
        if result is PassResult.INCOMPLETE and guest.result is not result:
            # Only a full pass tells status and metrics.
            self._full_at = min(self._full_at, self._full_began + TOLD_APART)
        another, guest.another, guest.runs = guest.another, False, False
        guest.result = result
        if result is PassResult.BUSY:  # it has looked at nothing
            guest.flaps = guest.before
        if result in _AGAIN:
            guest.new_disks |= guest.had_new_disks
        if another:
            return
        guest.failures = guest.failures + 1 if result in _SET_ASIDE else 0
        guest.postponed = guest.postponed + 1 if result is PassResult.POSTPONED else 0
        wait = guest.wait
        if wait is not None:
            guest.not_before = now + wait
        if guest.waits_since is not None:
            guest.hasten(now)
        elif wait is not None:
            guest.waits_since = now
            self._guests.move_to_end(uuid)

    def full_pass_ended(self, done: bool, now: float, *, postponed: bool = False) -> None:
        """``done`` is false if it failed, or found another one running, or is ``postponed``."""
        self._full_runs = False
        for guest in self._waiting.values():
            if guest.result is PassResult.BUSY:  # most often by this pass
                guest.not_before = min(guest.not_before, now)
        if done:
            self._full_failures = 0
            return
        if self._full_at > now:  # else it was asked for meanwhile
            wait = AT_REST_AGAIN if postponed else FULL_AGAIN * 2.0 ** min(self._full_failures, 20)
            self._full_at = min(self._full_at, now + min(self.interval, wait))
            self._full_failures += not postponed

    # --- what is next

    def begin_full_pass(self, now: float) -> bool:
        """Whether one is due; then it counts as begun."""
        if self._full_runs or now < self._when_full:
            return False
        self._full_runs = True
        self._full_began = now
        self._full_at = now + self.interval
        return True

    def begin(self, now: float) -> str | None:
        """The uuid of the guest whose pass begins now; None if none is due."""
        if not self.connected:
            return None
        for uuid, guest in self._guests.items():
            if guest.waits_since is not None and not guest.runs and self._when(guest) <= now:
                guest.before, guest.flaps = guest.flaps, guest.flaps.with_pass(now)
                guest.had_new_disks, guest.new_disks = guest.new_disks, False
                guest.waits_since, guest.runs = None, True
                return uuid
        return None

    def wake_at(self) -> float:
        """When something is due next, if nothing happens before and a worker is free."""
        times = [] if self._full_runs else [self._when_full]
        if self.connected:
            times += [self._when(guest) for guest in self._waiting.values()]
        return min(times, default=float("inf"))

    # --- what is shown

    @property
    def queue(self) -> int:
        """Guests for which a pass is due, those set aside or damped too."""
        return len(self._waiting)

    def set_aside(self, now: float) -> tuple[Waiting, ...]:
        return tuple(
            Waiting(uuid=uuid, name=guest.name, until=guest.not_before, failures=guest.failures)
            for uuid, guest in self._guests.items()
            if guest.failures and not guest.runs and guest.not_before > now
        )

    def damped(self, now: float) -> tuple[Waiting, ...]:
        """Guests that flap."""
        return tuple(
            Waiting(uuid=uuid, name=guest.name, until=guest.flaps.last + guest.spacing, failures=0)
            for uuid, guest in self._guests.items()
            if guest.flaps.last is not None and guest.spacing and not guest.flaps.quiet(now)
        )

    @property
    def _waiting(self) -> dict[str, _Guest]:
        return {
            uuid: guest for uuid, guest in self._guests.items() if guest.waits_since is not None and not guest.runs
        }

    @property
    def _when_full(self) -> float:
        return max(self._full_at, self._full_began + FULL_APART)

    @staticmethod
    def _when(guest: _Guest) -> float:
        """When its pass may begin."""
        return max(guest.not_before, 0.0 if guest.flaps.last is None else guest.flaps.last + guest.spacing)

    def _is_echo(self, event: GuestEvent, now: float) -> bool:
        """Whether it tells of the daemon's last write to the disk.

        Any other event after which the disk may have other limits, or be another disk, ends the expectation.
        """
        if event.kind is EventKind.TUNABLE:
            write = self._written.get((event.uuid, event.target))
            if write is not None and now - write.at <= ECHO and event.limits == write.limits:
                return True
            self._written.pop((event.uuid, event.target), None)
        elif event.kind in _OTHER_DISKS:
            for key in [key for key in self._written if key[0] == event.uuid]:
                del self._written[key]
        return False

    def _forget(self, now: float) -> None:
        """Guests of which nothing is due or known that still counts."""
        for uuid, guest in [*self._guests.items()]:
            idle = guest.waits_since is None and not guest.runs and not guest.failures
            if idle and guest.flaps.quiet(now):
                del self._guests[uuid]
