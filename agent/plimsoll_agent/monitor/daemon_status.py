"""What the daemon tells of itself: a value, its file in the state directory, and whether it counts as running."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from plimsoll_agent.store.state import DAEMON, CorruptState, State, StateError
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import count, flag, mapping, maybe, number, several, text, time
from plimsoll_agent.util.frozen import asdict, frozen, replace
from plimsoll_agent.util.text import minute, plural, printable, second

MOST_BYTES = 2**20
HEARTBEAT = 15.0
"""Seconds between two writes of the file."""
LATE = 4 * HEARTBEAT
"""Seconds without one after which the daemon counts as not running."""


@frozen(kw_only=True)
class WaitingGuest:
    """A guest that is not passed over before ``until``."""

    uuid: str
    name: str
    until: datetime
    failures: int = 0


@frozen(kw_only=True)
class DaemonStatus:
    """Counters are since ``started``."""

    version: str
    """plimsoll's."""
    mode: str
    """That of the settings in use."""
    pid: int
    started: datetime
    written: datetime
    full_pass_interval: int
    """Seconds."""
    connected_since: datetime | None = None
    """None while there is no connection for events."""
    disconnected: str = ""
    """Why there is none."""
    reconnects: int = 0
    events: Mapping[str, int] = field(default_factory=dict)
    """By kind."""
    lost: int = 0
    """Events that found the queue full; a full pass took their place."""
    passes: Mapping[str, int] = field(default_factory=dict)
    """Passes over single guests, by result."""
    seconds: Mapping[str, int] = field(default_factory=dict)
    """Of these passes, cumulative counts by upper bound of their duration, ``+Inf`` last."""
    seconds_sum: float = 0.0
    full_passes: Mapping[str, int] = field(default_factory=dict)
    """By result: done or failed."""
    last_full_pass: datetime | None = None
    """The end of the last one that was done."""
    queue: int = 0
    set_aside: tuple[WaitingGuest, ...] = ()
    damped: tuple[WaitingGuest, ...] = ()
    threads: int = 0
    descriptors: int = 0
    memory: int = 0
    """Resident bytes."""
    reloaded: bool = True
    """Whether the settings in use are those of the last reload."""
    trouble: str = ""
    """Why they are not."""
    gone: bool = False
    """It was killed or crashed: its lock is free. Not in the file."""

    def runs(self, now: datetime) -> bool:
        """Whether it has written lately, and has its lock where that can be looked at."""
        return not self.gone and timedelta() <= now - self.written <= timedelta(seconds=LATE)

    def faults(self, now: datetime) -> tuple[str, ...]:
        return faults(runs=self.runs(now), connected=self.connected_since is not None, reloaded=self.reloaded)

    def enforces(self, version: str, mode: str, now: datetime) -> bool:
        """Whether it does the work of the timer's pass: it has this version and mode, and its full passes succeed."""
        last, late = self.last_full_pass, timedelta(seconds=2 * self.full_pass_interval)
        same = (self.version, self.mode) == (version, mode)
        return same and self.runs(now) and last is not None and timedelta() <= now - last <= late


DOES_NOT_RUN, NO_EVENTS, NOT_RELOADED = "does not run", "has no events", "settings not reloaded"


def faults(*, runs: bool, connected: bool, reloaded: bool) -> tuple[str, ...]:
    """What is wrong with it; of one that does not run only that is known."""
    if not runs:
        return (DOES_NOT_RUN,)
    return (*[NO_EVENTS] * (not connected), *[NOT_RELOADED] * (not reloaded))


def line(status: DaemonStatus) -> str:
    """One line about it, right out of context."""
    if status.connected_since is None:
        parts = [f"no events: {status.disconnected or 'not connected to libvirt yet'}"]
    else:
        parts = [f"events since {minute(status.connected_since)}: {sum(status.events.values())}"]
    last = status.last_full_pass
    parts += [
        f"passes over guests: {sum(status.passes.values())}",
        "no full pass yet" if last is None else f"last full pass {minute(last)}",
    ]
    if status.set_aside:
        first, *others = status.set_aside
        parts.append(
            f"{printable(first.name)} set aside until {second(first.until)}"
            + f" and {len(others)} more" * bool(others)
        )
    if status.damped:
        parts.append(f"{plural(len(status.damped), 'guest')} with passes spaced out, after many events")
    if not status.reloaded:
        parts.append("the last reload failed, earlier settings are in use")
    return "; ".join(parts)


def load(state: State) -> DaemonStatus | None:
    """None if no daemon runs, or has ended by itself. Raises ``CorruptState``, ``StateError``."""

    def of(value: Any) -> DaemonStatus:
        if count(value["version"]) != DAEMON.version:
            raise StateError(f"{state.daemon}: written by another version; restart plimsoll-daemon.service")
        return _read(value)

    status = decoding.load(state.daemon, MOST_BYTES, of, StateError, corrupt=CorruptState)
    return status if status is None else replace(status, gone=state.lacks_daemon())


def load_or_none(state: State) -> DaemonStatus | None:
    """None also if the file cannot be read, which is logged."""
    try:
        return load(state)
    except StateError as error:
        logging.getLogger(__name__).warning("%s", error)
        return None


def save(state: State, status: DaemonStatus) -> None:
    """Raises ``OSError``."""
    data = {**asdict(status), "plimsoll": status.version, "version": DAEMON.version}
    del data["gone"]
    content = json.dumps(data, default=lambda moment: moment.isoformat())
    files.write_whole(state.daemon, content + "\n", durable=False)  # written again soon


def _read(value: Any) -> DaemonStatus:
    return DaemonStatus(
        version=text(value["plimsoll"]),
        mode=text(value["mode"]),
        pid=count(value["pid"]),
        started=time(value["started"]),
        written=time(value["written"]),
        full_pass_interval=count(value["full_pass_interval"]),
        connected_since=maybe(time, value["connected_since"]),
        disconnected=text(value["disconnected"]),
        reconnects=count(value["reconnects"]),
        events=mapping(count, value["events"]),
        lost=count(value["lost"]),
        passes=mapping(count, value["passes"]),
        seconds=mapping(count, value["seconds"]),
        seconds_sum=number(value["seconds_sum"]),
        full_passes=mapping(count, value["full_passes"]),
        last_full_pass=maybe(time, value["last_full_pass"]),
        queue=count(value["queue"]),
        set_aside=several(_waiting, value["set_aside"]),
        damped=several(_waiting, value["damped"]),
        threads=count(value["threads"]),
        descriptors=count(value["descriptors"]),
        memory=count(value["memory"]),
        reloaded=flag(value["reloaded"]),
        trouble=text(value["trouble"]),
    )


def _waiting(value: Any) -> WaitingGuest:
    return WaitingGuest(
        uuid=text(value["uuid"]),
        name=text(value["name"]),
        until=time(value["until"]),
        failures=count(value["failures"]),
    )
