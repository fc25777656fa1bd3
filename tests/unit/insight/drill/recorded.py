"""Recordings made up second by second, as a drill of a small cluster goes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from plimsoll_insight.drill.recording import (
    DrillSample,
    ProbeJob,
    RecordingWriter,
    job_line,
    sample_line,
    status_line,
)
from plimsoll_insight.drill.status import ClusterCounts
from plimsoll_probes.model.histogram import Histogram

BEGAN = 1_795_799_229.0
GROUPS = 24
CLEAN = {"active+clean": GROUPS}
PEERING = {"active+clean": 8, "peering": 16}
DEGRADED = {"active+clean": 8, "active+undersized+degraded": 16}
RECOVERING = {"active+clean": 20, "active+recovering+degraded": 4}


def status(up: int = 3, states: dict[str, int] = CLEAN, degraded: int = 0) -> ClusterCounts:
    return ClusterCounts(
        osds=3,
        up=up,
        within=3,
        states=states,
        objects=100,
        degraded=degraded,
        misplaced=0,
        copies=200 if degraded else 0,
        recovering=0.0,
        slow=0,
    )


Second = tuple[float | None, ClusterCounts | None]
"""The IOPS of each disk, and the status; None is unknown."""


def drill(
    *, normal: int = 20, outage: int = 8, degraded: int = 20, peering: int = 4, recovery: int = 10
) -> list[Second]:
    """An OSD that stops, is seen to be down at the end of the outage, returns, and is recovered."""
    return [
        *[(100.0, status())] * normal,
        *[(0.0, status())] * (outage - 1),
        (0.0, status(2)),
        *[(110.0, status(2, DEGRADED, 50))] * degraded,
        *[(5.0, status(3, PEERING))] * peering,
        *[(60.0, status(3, RECOVERING, 20))] * recovery,
        *[(100.0, status())] * normal,
    ]


def write(path: Path, seconds: Sequence[Second], disks: int = 1, *, end: bool = True) -> None:
    """Each disk does as many requests, of 1 ms, and of 2 ms where there are fewer than in peace."""
    writer = RecordingWriter.begin(path, BEGAN, "node-1", 1.0)
    for number in range(disks):
        guest = f"instance-{number:08x}"
        writer.write(BEGAN, {"disk": [number, guest, f"{number:08d}-0000-4000-8000-000000000000", "vda"]})
    writer.write(
        BEGAN,
        sample_line(DrillSample(time=BEGAN, numbers=[], ends=[], seconds=[], requests=[], latency=[], unknown=[])),
    )
    for time, line in lines(seconds, disks):
        writer.write(BEGAN + time, line)
    if end:
        writer.write(BEGAN + len(seconds), {"end": "over"})


def lines(seconds: Sequence[Second], disks: int) -> Iterator[tuple[float, dict[str, object]]]:
    chance = random.Random(7)
    for number, (iops, state) in enumerate(seconds):
        if state is not None:
            yield number + 0.2, status_line(state)
        else:
            yield number + 0.9, {"gap": "ceph", "since": BEGAN + number, "why": "no answer from Ceph within 1 s"}
        if iops is not None:
            of = range(disks) if iops else ()
            latency = 1000 if iops >= 100 else 2000
            yield number + 1.0, sample_line(
                DrillSample(
                    time=number, numbers=[*of], ends=[0.0 for _ in of], seconds=[1.0 for _ in of],
                    requests=[iops for _ in of], unknown=[],
                    latency=[latency if disks == 1 else chance.randrange(latency, 3 * latency) for _ in of],
                )
            )  # fmt: skip


def probed(path: Path, seconds: int) -> None:
    """Add jobs of two probes, of 5 s; in each, every 80 s, a request waits for 8 s, as in the outage of ``drill``."""
    writer, chance = RecordingWriter.more(path), random.Random(8)
    for guest in ("probe-1", "probe-2"):
        begin = 1.0
        while begin < seconds:
            waits = begin % 80 < 20 < begin % 80 + 5
            end = begin + (13 if waits else 5)
            samples = [chance.randrange(1_000_000, 3_000_000) for _ in range(50)] + [8_000_000_000] * waits
            job = ProbeJob(
                began=BEGAN + begin,
                ended=BEGAN + end,
                guest=guest,
                latency=Histogram.of(samples).buckets,
                slowest=max(samples),
            )
            writer.write(job.ended, job_line(job))
            begin = end + 0.4
