"""The metrics of the daemon. Counters begin with it."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.daemon_status import DaemonStatus
from plimsoll_agent.monitor.prometheus_text import Family, counter, histogram, single


def families(told: DaemonStatus) -> Iterator[Family]:
    yield single(metrics.DAEMON_HEARTBEAT_TIMESTAMP_SECONDS, told.written)
    yield single(metrics.DAEMON_START_TIMESTAMP_SECONDS, told.started)
    yield single(metrics.DAEMON_CONNECTED, int(told.connected_since is not None))
    yield counter(metrics.DAEMON_RECONNECTS_TOTAL, [((), told.reconnects)])
    yield counter(metrics.DAEMON_EVENTS_TOTAL, [((kind,), number) for kind, number in told.events.items()])
    yield counter(metrics.DAEMON_EVENTS_LOST_TOTAL, [((), told.lost)])
    yield counter(metrics.DAEMON_EVENT_PASSES_TOTAL, [((result,), number) for result, number in told.passes.items()])
    yield histogram(
        metrics.DAEMON_EVENT_PASS_DURATION_SECONDS,
        [((), dict(told.seconds), told.seconds_sum)] if told.seconds else [],
    )
    yield counter(
        metrics.DAEMON_FULL_PASSES_TOTAL, [((result,), number) for result, number in told.full_passes.items()]
    )
    yield single(metrics.DAEMON_QUEUE_LENGTH, told.queue)
    yield single(metrics.DAEMON_GUESTS_SET_ASIDE, len(told.set_aside))
    yield single(metrics.DAEMON_GUESTS_DAMPED, len(told.damped))
    yield single(metrics.DAEMON_LAST_RELOAD_SUCCESSFUL, int(told.reloaded))
    yield single(metrics.DAEMON_THREADS, told.threads)
    yield single(metrics.DAEMON_OPEN_FDS, told.descriptors)
    yield single(metrics.DAEMON_RESIDENT_MEMORY_BYTES, told.memory)
