"""The node's own probes as parts of a study: each run is a window, with the latencies of all its requests."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_insight.hist.flows import FlowWindows, LogExtent, of_histogram
from plimsoll_insight.hist.records import DIRECTIONS, Unread
from plimsoll_insight.hist.scale import SCALES
from plimsoll_insight.hist.study import StudyPart
from plimsoll_probes.model.histogram import BUCKETS
from plimsoll_probes.model.result import ProbeResult


def part_of(result: ProbeResult) -> StudyPart | None:
    """None where no request completed."""
    measurement = result.measured
    if measurement is None or not measurement.operations:
        return None
    begin = round(result.started.timestamp() * 1000)
    length = max(round(measurement.seconds * 1000), 1)

    def flows(*_: float) -> Iterator[FlowWindows]:
        for direction, flow in measurement.flows:
            if flow.latency.buckets:
                yield of_histogram(DIRECTIONS.index(direction), begin, begin + length, flow.latency)

    directions = frozenset(
        DIRECTIONS.index(direction) for direction, flow in measurement.flows if flow.latency.buckets
    )
    extent = LogExtent(begin + length, begin + length, length, frozenset({SCALES[BUCKETS]}), (), Unread(), directions)
    subject = result.subject
    return StudyPart(
        name=f"result {result.id}",
        guest=subject.guest_name,
        group=subject.volume_type or "",
        extent=extent,
        offset_ms=0,
        flows=flows,
    )
