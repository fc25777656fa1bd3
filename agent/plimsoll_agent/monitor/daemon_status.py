"""What the daemon tells of itself: a value, its file in the state directory, and whether it counts as running."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from plimsoll_agent.store.state import DAEMON, CorruptState, State, StateError
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import Amount, Count, Moment, as_json, count, data_of, value_of
from plimsoll_agent.util.frozen import frozen, replace
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
    until: Moment
    failures: Count


@frozen(kw_only=True)
class DaemonStatus:
    """Counters are since ``started``."""

    version: str
    """plimsoll's."""
    mode: str
    """That of the settings in use."""
    pid: Count
    started: Moment
    written: Moment
    full_pass_interval: Count
    """Seconds."""
    connected_since: Moment | None = None
    """None while there is no connection for events."""
    disconnected: str = ""
    """Why there is none."""
    reconnects: Count = 0
    events: Mapping[str, Count] = field(default_factory=dict)
    """By kind."""
    lost: Count = 0
    """Events that found the queue full; a full pass took their place."""
    passes: Mapping[str, Count] = field(default_factory=dict)
    """Passes over single guests, by result."""
    seconds: Mapping[str, Count] = field(default_factory=dict)
    """Of these passes, cumulative counts by upper bound of their duration, ``+Inf`` last."""
    seconds_sum: Amount = 0.0
    full_passes: Mapping[str, Count] = field(default_factory=dict)
    """By result: done or failed."""
    last_full_pass: Moment | None = None
    """The end of the last one that was done."""
    queue: Count = 0
    set_aside: tuple[WaitingGuest, ...] = ()
    damped: tuple[WaitingGuest, ...] = ()
    threads: Count = 0
    descriptors: Count = 0
    memory: Count = 0
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
        return value_of(DaemonStatus, {**value, "version": value["plimsoll"], "gone": False})

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
    data = {**data_of(status), "plimsoll": status.version, "version": DAEMON.version}
    del data["gone"]
    files.write_whole(state.daemon, as_json(data) + "\n", durable=False)  # written again soon
