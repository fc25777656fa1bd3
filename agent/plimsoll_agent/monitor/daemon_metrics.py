"""The metrics of the daemon. Counters begin with it."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.daemon_status import DaemonStatus
from plimsoll_agent.monitor.prometheus_text import Family, counter, histogram, single


def families(state: DaemonStatus) -> Iterator[Family]:
    yield single(metrics.DAEMON_HEARTBEAT_TIMESTAMP_SECONDS, state.written)
    yield single(metrics.DAEMON_START_TIMESTAMP_SECONDS, state.started)
    yield single(metrics.DAEMON_CONNECTED, int(state.connected_since is not None))
    yield counter(metrics.DAEMON_RECONNECTS_TOTAL, [((), state.reconnects)])
    yield counter(metrics.DAEMON_EVENTS_TOTAL, [((kind,), number) for kind, number in state.events.items()])
    yield counter(metrics.DAEMON_EVENTS_LOST_TOTAL, [((), state.lost)])
    yield counter(metrics.DAEMON_EVENT_PASSES_TOTAL, [((result,), number) for result, number in state.passes.items()])
    yield histogram(
        metrics.DAEMON_EVENT_PASS_DURATION_SECONDS,
        [((), dict(state.seconds), state.seconds_sum)] if state.seconds else [],
    )
    yield counter(
        metrics.DAEMON_FULL_PASSES_TOTAL, [((result,), number) for result, number in state.full_passes.items()]
    )
    yield single(metrics.DAEMON_QUEUE_LENGTH, state.queue)
    yield single(metrics.DAEMON_GUESTS_SET_ASIDE, len(state.set_aside))
    yield single(metrics.DAEMON_GUESTS_DAMPED, len(state.damped))
    yield single(metrics.DAEMON_LAST_RELOAD_SUCCESSFUL, int(state.reloaded))
    yield single(metrics.DAEMON_THREADS, state.threads)
    yield single(metrics.DAEMON_OPEN_FDS, state.descriptors)
    yield single(metrics.DAEMON_RESIDENT_MEMORY_BYTES, state.memory)
