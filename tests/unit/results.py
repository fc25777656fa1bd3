"""Results of probes that several unit tests start from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from plimsoll_agent.model.limits import Limits
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import Job, JobName
from plimsoll_probes.model.result import Circumstances, Flow, Measured, ProbeResult, Subject
from tests.unit.values import GUEST, NOON, PROJECT, VOLUME

MS = 10**6
HOSTILE = "a\x1b[2J\x07b\nc\rd\u202ee\u2028f"
SINCE = datetime(2026, 11, 20, 9, 13, tzinfo=UTC)
KEPT_UNTIL = datetime(2026, 11, 20, 9, 1, tzinfo=UTC)
LIMIT = Limits(total_iops_sec=250)


def a_subject(**other: Any) -> Subject:
    return Subject(
        **{
            "guest_uuid": GUEST,
            "guest_name": "instance-00000001",
            "directory": "/var/tmp",
            "display_name": "canary",
            "project": PROJECT,
            "disk": f"{GUEST}/{VOLUME}",
            "target": "vdb",
            "pool": "volumes",
            "image": f"volume-{VOLUME}",
            "volume_id": VOLUME,
            "volume_type": "gold",
        }
        | other
    )


def a_flow(latencies: Sequence[int], slowest: int | None = None) -> Flow:
    """Requests of 16 KiB that took so many nanoseconds each."""
    exact = max(latencies, default=0) if slowest is None else slowest
    return Flow(
        operations=len(latencies), bytes=16384 * len(latencies), latency=Histogram.of(latencies), latency_max=exact
    )


@cache
def _alike(latency: int, number: int) -> Flow:
    """Thousands of requests, counted once for all tests."""
    return a_flow([latency] * number)


def a_measurement(
    reads: Flow | None = None, writes: Flow | None = None, seconds: float = 30.0, unfinished: int = 0
) -> Measured:
    return Measured(
        seconds=seconds,
        read=reads,
        write=writes,
        unfinished=unfinished,
        fio="fio-3.33",
        engine="libaio",
        cpu_busy=0.12,
    )


def a_finding(verdict: Verdict = Verdict.KEPT, why: Why = Why.WITHIN, **facts: object) -> Finding:
    if why is Why.WITHIN and not facts:
        facts = {"parameter": "total_iops_sec", "allowed": 7525.0, "done": 7530}
    return Finding(verdict, why, facts)


def a_probe(
    *,
    job: JobName | Job = JobName.READ,
    started: datetime = NOON,
    iops: int = 251,
    latency: int = 41 * MS,
    **other: Any,
) -> ProbeResult:
    """Thirty seconds of requests that all took the same time, half of them writes in the mixed job."""
    job = job if isinstance(job, Job) else Job(name=job)
    reads = round(30 * iops * job.shares.get("read", 0))
    writes = 30 * iops - reads
    measured = a_measurement(_alike(latency, reads) if reads else None, _alike(latency, writes) if writes else None)
    return ProbeResult(
        **{
            "node": "node1",
            "subject": a_subject(),
            "job": job,
            "started": started,
            "ended": started + timedelta(seconds=30),
            "finding": a_finding(),
            "measured": measured,
            "circumstances": Circumstances(promised=LIMIT, before=LIMIT, after=LIMIT),
            "rule": "canaries",
            "session": "s1",
        }
        | other
    )
