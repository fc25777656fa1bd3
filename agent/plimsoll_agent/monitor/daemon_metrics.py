"""The metrics of the daemon. Counters begin with it."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.monitor.daemon_status import DaemonStatus
from plimsoll_agent.monitor.prometheus_text import Family, counter, gauge, histogram


def families(told: DaemonStatus) -> Iterator[Family]:
    yield _one(
        "plimsoll_daemon_heartbeat_timestamp_seconds",
        "When the daemon wrote these metrics, every 15 seconds",
        told.written.timestamp(),
    )
    yield _one("plimsoll_daemon_start_timestamp_seconds", "When the daemon started", told.started.timestamp())
    yield _one(
        "plimsoll_daemon_connected",
        "1 while libvirt's events arrive, else 0",
        int(told.connected_since is not None),
    )
    yield _sum("plimsoll_daemon_reconnects_total", "Connections for events after the first", told.reconnects)
    yield counter(
        "plimsoll_daemon_events_total",
        "Events of libvirt about guests",
        ("kind",),
        [((kind,), number) for kind, number in told.events.items()],
    )
    yield _sum(
        "plimsoll_daemon_events_lost_total",
        "Events that found the queue full; a full pass took their place",
        told.lost,
    )
    yield counter(
        "plimsoll_daemon_event_passes_total",
        "Passes over single guests, by result",
        ("result",),
        [((result,), number) for result, number in told.passes.items()],
    )
    yield histogram(
        "plimsoll_daemon_event_pass_duration_seconds",
        "Duration of passes over single guests",
        (),
        [((), dict(told.seconds), told.seconds_sum)] if told.seconds else [],
    )
    yield counter(
        "plimsoll_daemon_full_passes_total",
        "Passes of the daemon over the whole node, by result",
        ("result",),
        [((result,), number) for result, number in told.full_passes.items()],
    )
    yield _one("plimsoll_daemon_queue_length", "Guests that wait for a pass", told.queue)
    yield _one(
        "plimsoll_daemon_guests_set_aside",
        "Guests whose pass failed, until the next try",
        len(told.set_aside),
    )
    yield _one(
        "plimsoll_daemon_guests_damped",
        "Guests whose passes are spaced out, after many events",
        len(told.damped),
    )
    yield _one(
        "plimsoll_daemon_last_reload_successful",
        "1 if the settings in use are those of the last reload, else 0",
        int(told.reloaded),
    )
    yield _one("plimsoll_daemon_threads", "Threads of the daemon", told.threads)
    yield _one("plimsoll_daemon_open_fds", "Open file descriptors of the daemon", told.descriptors)
    yield _one("plimsoll_daemon_resident_memory_bytes", "Resident memory of the daemon", told.memory)


def _one(name: str, documentation: str, value: float) -> Family:
    return gauge(name, documentation, (), [((), value)])


def _sum(name: str, documentation: str, value: float) -> Family:
    return counter(name, documentation, (), [((), value)])
