"""The daemon's main loop: takes in events and results, starts what is due, and tells how it is."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Protocol

from plimsoll_agent.adapters.deadline import SharedCalls
from plimsoll_agent.adapters.service_manager import ServiceManager
from plimsoll_agent.app.node import state_of
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.daemon.catalogue_watch import EVERY, CatalogueWatch
from plimsoll_agent.daemon.ceiling_watch import CeilingWatch
from plimsoll_agent.daemon.congestion_watch import CongestionWatch
from plimsoll_agent.daemon.connections import MOST_CALLS, Connection, Connections
from plimsoll_agent.daemon.passes import Between, full_pass, guest_pass
from plimsoll_agent.daemon.rules_watch import RulesWatch
from plimsoll_agent.daemon.schedule import EventEffect, Schedule, Waiting
from plimsoll_agent.daemon.vitals import may_have_another_thread, vitals
from plimsoll_agent.daemon.workers import Ended, FullPassEnded, FullPassResult, GuestPassEnded, Workers
from plimsoll_agent.errors import ConfigError, PlimsollError
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.guest_events import Connected, Disconnected, EventKind, GuestEvent, LinkEvent
from plimsoll_agent.monitor import daemon_status, textfile
from plimsoll_agent.monitor.daemon_status import HEARTBEAT, DaemonStatus, WaitingGuest
from plimsoll_agent.store.state import Busy
from plimsoll_agent.util.distribution import version
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

LOG = logging.getLogger(__name__)

MOST_MESSAGES = 10_000
"""Events that wait for the main loop; further ones are dropped, and a full pass takes their place."""
STUCK = 120.0
"""Seconds of a pass without the end of a call, beside deadlines, after which the watchdog is not told any more.

A pass over the node that is stuck holds the lock that the timer's pass needs.
"""
MOST_FAILURES = 5
"""Passes over the node that may fail in a row while libvirt's events arrive; then the daemon ends.

A new process has all that this one may have lost. While libvirt is down, it would do no better.
"""
_TICK = 5.0
_SOON = 1.0
"""Seconds between two writes of what it tells, where something has happened."""
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Of the histogram of passes over single guests, in seconds."""


class DaemonSignal(Enum):
    STOP = "stop"
    RELOAD = "reload"


Writes = Callable[[Disk, Mapping[str, object]], None]
Tell = Callable[[LinkEvent], None]


class Link(Protocol):
    @property
    def alive(self) -> bool: ...

    def close(self) -> None: ...


@frozen(kw_only=True)
class Dependencies:
    """What the daemon stands on."""

    load: Callable[[], Settings]
    """Raises ``ConfigError``."""
    stamp: Callable[[], object]
    """Of the files that ``load`` reads: it differs after an edit. Raises ``OSError``."""
    connect: Callable[[Settings, Writes, SharedCalls], Connection]
    """Raises ``Unreachable``."""
    link: Callable[[Settings, Tell], Link]
    manager: ServiceManager


@frozen
class _Wrote:
    uuid: str
    target: str
    limits: Mapping[str, object]


Message = LinkEvent | Ended | DaemonSignal


class Service:
    """Raises ``ConfigError`` if the settings cannot be read."""

    def __init__(self, world: Dependencies) -> None:
        self._world = world
        self._version = version()  # it reads a file, for which later no descriptor may be left
        self._stamp_read = self._stamp_seen = world.stamp()
        self._settings = settings = world.load()
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._wrote: SimpleQueue[_Wrote] = SimpleQueue()
        self._schedule = Schedule(settings.daemon.full_pass_interval)
        self._counted = _Counted()
        self._calls = SharedCalls(MOST_CALLS)
        self._connections = Connections(self._connect), Connections(self._connect)
        """For passes over single guests, and for full passes, which may take all calls at once."""
        of_guests, of_node = self._connections
        between = Between()
        self._rules = RulesWatch(settings.rules_file)
        self._ceilings = CeilingWatch()
        self._workers = Workers(
            settings.bounds.at_once,
            lambda uuid, progress: guest_pass(
                self._settings,
                of_guests,
                between,
                uuid,
                progress,
                read=self._rules.text,
                on_change=self._ceilings.changed,
            ),
            lambda progress: full_pass(self._settings, of_node, between, progress, read=self._rules.text),
            self._inbox.put,
        )
        self._link: Link | None = None
        self._catalogue = CatalogueWatch(settings)
        self._congestion = CongestionWatch()
        self._look_at = 0.0
        self._stop_by: float | None = None
        self._status = 0
        self._beat = 0.0
        self._told_at = float("-inf")
        self._lost = 0
        """Of the link's thread; those in ``_counted`` are known to the schedule."""
        self._unwritten: set[str] = set()
        """What could not be written last time, and was logged."""

    def signal(self, what: DaemonSignal) -> None:
        """May be called in a signal handler."""
        self._inbox.put(what)

    def run(self) -> int:
        """Until it is stopped, or only a new process can help; returns the exit status.

        Raises ``Busy``, ``StateError``.
        """
        state = state_of(self._settings)
        state.prepare()
        with state.daemon_locked() as self._lock:
            self._link = self._world.link(self._settings, self._tell)
            self._world.manager.ready()
            LOG.info("plimsoll daemon %s runs (mode %s)", self._version, self._settings.mode)
            try:
                while not self._ends():
                    self._turn()
            finally:
                self._link.close()
                self._world.manager.stopping()
                self._remove()
            LOG.info("plimsoll daemon ended%s", "; a pass did not end in time" if self._workers.busy else "")
            return self._status

    # --- a turn of the loop

    def _turn(self) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + EVERY
            self._look_at_settings(now)
            self._rules.look(self._settings.rules_file)
            self._look_at_catalogue(now)
            if self._congestion.changed(self._settings, now) or self._ceilings.due(self._settings, now):
                self._schedule.full_pass_due(now)
        self._begin_due(now)
        if now >= self._beat:
            self._tell_how_it_is(now)
        if self._healthy():
            self._world.manager.alive()
        until = min(self._beat, self._look_at, now + self._longest_wait)
        # Where all workers run, what is due waits for the end of one, which is a message; while it ends, for nothing.
        if self._workers.free > 0 and self._stop_by is None:
            until = min(until, self._schedule.wake_at())
        with suppress(Empty):
            message = self._inbox.get(timeout=max(0.0, until - now))
            for _ in range(MOST_MESSAGES):
                self._take(message, time.monotonic())
                message = self._inbox.get_nowait()

    def _look_at_settings(self, now: float) -> None:
        before, self._stamp_seen = self._stamp_seen, self._stamp()
        is_written = self._stamp_seen != before  # perhaps something writes them just now
        if not is_written and self._stamp_seen != self._stamp_read and self._stop_by is None:
            self._reload(now)

    def _stamp(self) -> object:
        try:
            return self._world.stamp()
        except OSError:  # no descriptor is left to list a directory
            return self._stamp_seen

    def _look_at_catalogue(self, now: float) -> None:
        guests = self._catalogue.changed(self._settings)
        if guests is None:
            self._schedule.full_pass_due(now)
        for uuid in sorted(guests or ()):
            self._take(GuestEvent(uuid=uuid, name="", kind=EventKind.CATALOGUE), now)

    def _begin_due(self, now: float) -> None:
        if self._stop_by is not None:
            return
        if self._schedule.begin_full_pass(now):
            self._workers.begin_full()
        while self._workers.free > 0 and (uuid := self._schedule.begin(now)) is not None:
            self._workers.begin(uuid)

    def _ends(self) -> bool:
        return self._stop_by is not None and (not self._workers.busy or time.monotonic() >= self._stop_by)

    @property
    def _longest_wait(self) -> float:
        watchdog = self._world.manager.watchdog
        longest = _TICK if watchdog is None else min(_TICK, watchdog / 3)
        return longest if self._stop_by is None else min(longest, max(0.0, self._stop_by - time.monotonic()))

    def _healthy(self) -> bool:
        # A call waits for a free one before its own deadline.
        longest = STUCK + 2 * self._settings.deadline + self._settings.ceph.deadline
        return self._link is not None and self._link.alive and not self._workers.stuck(longest)

    # --- messages

    def _tell(self, event: LinkEvent) -> None:
        """In libvirt's event loop: only hands it on."""
        if isinstance(event, GuestEvent) and self._inbox.qsize() >= MOST_MESSAGES:
            self._lost += 1
        else:
            self._inbox.put(event)

    def _take(self, message: Message, now: float) -> None:
        with suppress(Empty):  # a write is noted before its event can come
            while True:
                wrote = self._wrote.get_nowait()
                self._schedule.wrote(wrote.uuid, wrote.target, wrote.limits, now)
        match message:
            case GuestEvent():
                self._counted.events[message.kind.value] += 1
                self._counted.lost += self._schedule.event(message, now) is EventEffect.OVERFLOW
            case Connected():
                self._connected(now)
            case Disconnected():
                self._disconnected(message)
                self._tell_soon(now)
            case GuestPassEnded():
                self._workers.ended(message)
                self._counted.guest_pass(message)
                self._schedule.ended(message.uuid, message.result, now)
                self._log_set_aside(message.uuid, now)
                self._tell_soon(now)
            case FullPassEnded():
                self._workers.ended(message)
                self._counted.full_pass(message)
                self._schedule.full_pass_ended(
                    message.result is FullPassResult.DONE,
                    now,
                    postponed=message.result is FullPassResult.POSTPONED,
                )
                if self._counted.failed_in_a_row >= MOST_FAILURES:
                    self._give_up(now, f"{MOST_FAILURES} passes over the node have failed in a row")
                self._tell_soon(now)
            case DaemonSignal.RELOAD:
                self._reload(now)
                self._rules.read(self._settings.rules_file)
            case DaemonSignal.STOP:
                self._stop(now)
        if self._lost > self._counted.dropped:
            self._counted.lost += self._lost - self._counted.dropped
            self._counted.dropped = self._lost
            self._schedule.full_pass_due(now)

    def _stop(self, now: float) -> None:
        if self._stop_by is None:
            self._stop_by = now + self._settings.daemon.stop_timeout
            self._world.manager.stopping()

    def _give_up(self, now: float, why: str) -> None:
        """What manages services starts it again."""
        if self._stop_by is None:
            LOG.error("plimsoll daemon ends, to be started again: %s", why)
            self._status = 1
            self._stop(now)

    def _connected(self, now: float) -> None:
        counts = self._counted
        LOG.info("events of libvirt at %s arrive", self._settings.uri)
        counts.reconnects += counts.was_connected
        counts.was_connected = True
        counts.connected_since, counts.disconnected = datetime.now(UTC), ""
        for connections in self._connections:
            connections.renew()
        self._schedule.reconnected(now)
        self._tell_soon(now)

    def _disconnected(self, message: Disconnected) -> None:
        if self._counted.disconnected != message.why:
            LOG.warning("%s; trying again", message.why)
        self._counted.connected_since, self._counted.disconnected = None, message.why
        self._counted.failed_in_a_row = 0
        self._schedule.connected = False

    def _reload(self, now: float) -> None:
        manager = self._world.manager
        manager.reloading()
        self._stamp_read = self._stamp()
        try:
            settings = self._world.load()
            if settings.state_dir != self._settings.state_dir:
                raise ConfigError("state_dir was changed; restart plimsoll-daemon.service")
        except ConfigError as error:
            LOG.error("%s\nThe settings read before stay in use.", error)
            self._counted.trouble = str(error)
        else:
            uri, self._settings = self._settings.uri, settings
            self._counted.trouble = ""
            self._schedule.interval = settings.daemon.full_pass_interval
            if settings.uri != uri and self._link is not None:
                self._link.close()
                self._link = self._world.link(settings, self._tell)
            for connections in self._connections:
                connections.renew()
            LOG.info("settings read again (mode %s)", settings.mode)
        self._schedule.full_pass_due(now)
        self._tell_soon(now)
        manager.ready()

    def _log_set_aside(self, uuid: str, now: float) -> None:
        for each in self._schedule.set_aside(now):
            if each.uuid == uuid and each.failures == 1:
                name, seconds = printable(each.name), round(each.until - now)
                LOG.warning("guest %s (%s) is set aside: its pass failed; next try in %s s", name, uuid, seconds)

    def _connect(self) -> Connection:
        return self._world.connect(self._settings, self._note_write, self._calls)

    def _note_write(self, disk: Disk, limits: Mapping[str, object]) -> None:
        """In a worker's thread, before the write."""
        self._wrote.put(_Wrote(disk.guest.uuid, disk.target, limits))

    # --- what it tells

    def _tell_soon(self, now: float) -> None:
        self._beat = min(self._beat, max(now, self._told_at + _SOON))

    def _tell_how_it_is(self, now: float) -> None:
        self._beat, self._told_at = now + HEARTBEAT, now
        if not may_have_another_thread():
            self._give_up(now, "it may have no more threads")
        status = self._told()
        self._world.manager.status(daemon_status.line(status))
        self._try("lock", self._keep_lock)
        self._write(status)

    def _keep_lock(self) -> None:
        """In a state directory that was deleted and made again, too. Raises ``Busy``, ``StateError``."""
        state_of(self._settings).prepare()
        self._lock.keep()

    def _write(self, status: DaemonStatus) -> None:
        state, directory = state_of(self._settings), self._settings.metrics.textfile_dir
        self._try("status", lambda: daemon_status.save(state, status))
        if directory is not None:
            from plimsoll_agent.monitor import daemon_metrics

            families = daemon_metrics.families(status)
            self._try("metrics", lambda: textfile.write(directory, "daemon", families))

    def _remove(self) -> None:
        """What is left would be read as that of a daemon that runs."""
        state, directory = state_of(self._settings), self._settings.metrics.textfile_dir
        self._try("status", lambda: state.daemon.unlink(missing_ok=True))
        if directory is not None:
            self._try("metrics", lambda: textfile.remove(directory, "daemon"))

    def _try(self, name: str, write: Callable[[], None]) -> None:
        """A fault is logged once, until it is gone. Raises ``Busy``: another daemon has the lock."""
        try:
            write()
        except Busy:
            raise
        except (OSError, PlimsollError) as error:
            if name not in self._unwritten:
                LOG.error("%s of the daemon: %s", name, error)
            self._unwritten.add(name)
        else:
            self._unwritten.discard(name)

    def _told(self) -> DaemonStatus:
        now, moment, counts, usage = time.monotonic(), datetime.now(UTC), self._counted, vitals()

        def shown(waiting: Waiting) -> WaitingGuest:
            return WaitingGuest(
                uuid=waiting.uuid,
                name=waiting.name,
                until=moment + timedelta(seconds=waiting.until - now),
                failures=waiting.failures,
            )

        return DaemonStatus(
            version=self._version,
            mode=self._settings.mode,
            pid=os.getpid(),
            started=counts.started,
            written=moment,
            full_pass_interval=self._settings.daemon.full_pass_interval,
            connected_since=counts.connected_since,
            disconnected=counts.disconnected,
            reconnects=counts.reconnects,
            events=dict(counts.events),
            lost=counts.lost,
            passes=dict(counts.passes),
            seconds=counts.cumulative,
            seconds_sum=counts.seconds_sum,
            full_passes=dict(counts.full_passes),
            last_full_pass=counts.last_full_pass,
            queue=self._schedule.queue,
            set_aside=tuple(map(shown, self._schedule.set_aside(now))),
            damped=tuple(map(shown, self._schedule.damped(now))),
            threads=usage.threads,
            descriptors=usage.descriptors,
            memory=usage.memory,
            reloaded=not counts.trouble,
            trouble=counts.trouble,
        )


class _Counted:
    """Since the start."""

    def __init__(self) -> None:
        self.started = datetime.now(UTC)
        self.connected_since: datetime | None = None
        self.was_connected = False
        self.disconnected = ""
        self.reconnects = 0
        self.events: Counter[str] = Counter()
        self.lost = 0
        self.dropped = 0
        self.passes: Counter[str] = Counter()
        self.buckets: Counter[float] = Counter()
        self.seconds_sum = 0.0
        self.full_passes: Counter[str] = Counter()
        self.last_full_pass: datetime | None = None
        self.failed_in_a_row = 0
        """Passes over the node, since the last one or the last connection."""
        self.trouble = ""

    def guest_pass(self, end: GuestPassEnded) -> None:
        self.passes[end.result.value] += 1
        self.seconds_sum += end.seconds
        self.buckets[next((bound for bound in BUCKETS if end.seconds <= bound), float("inf"))] += 1

    def full_pass(self, end: FullPassEnded) -> None:
        if end.result is FullPassResult.POSTPONED:
            return
        is_done = end.result is FullPassResult.DONE
        self.full_passes["done" if is_done else "failed"] += 1
        if is_done:
            self.last_full_pass, self.failed_in_a_row = datetime.now(UTC), 0
        elif end.result is FullPassResult.FAILED and self.connected_since is not None:
            self.failed_in_a_row += 1

    @property
    def cumulative(self) -> dict[str, int]:
        counts, total = dict[str, int](), 0
        for bound in BUCKETS:
            total += self.buckets[bound]
            counts[f"{bound:g}"] = total
        return counts | {"+Inf": total + self.buckets[float("inf")]}


def heed_signals(service: Service) -> None:
    """SIGTERM and SIGINT stop it, SIGHUP reloads."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number, what in (
        (signal.SIGTERM, DaemonSignal.STOP),
        (signal.SIGINT, DaemonSignal.STOP),
        (signal.SIGHUP, DaemonSignal.RELOAD),
    ):
        signal.signal(number, lambda *_, what=what: service.signal(what))
