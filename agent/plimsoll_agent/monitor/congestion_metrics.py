"""The factors of congestion, for the machine that publishes them: ``PER_CLASS`` series of each device class."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.congestion.published import FactorFile
from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.prometheus_text import Family, gauge, single

PER_CLASS = 4


def families(file: FactorFile) -> Iterator[Family]:
    yield single(metrics.CONGESTION_PUBLISHED_TIMESTAMP_SECONDS, file.issued)
    yield gauge(metrics.CONGESTION_FACTOR, [(each.key, each.x) for each in file.factors])
    yield gauge(
        metrics.CONGESTION_STATE,
        [((*each.key, each.action, each.why), 1) for each in file.factors],
    )
    latencies = [(each.key, each.latency) for each in file.factors if each.latency is not None]
    targets = [(each.key, each.target) for each in file.factors if each.target is not None]
    yield gauge(metrics.CONGESTION_LATENCY_SECONDS, latencies)
    yield gauge(metrics.CONGESTION_TARGET_SECONDS, targets)
