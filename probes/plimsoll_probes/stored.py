"""How a result of a probe stands in the history: values as rows, and rows as values again.

The latencies are kept as fio's own buckets, so that nothing is lost of them.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, astuple, fields
from datetime import timedelta
from typing import Any

from plimsoll_agent.database import NONSENSE, stamp, text_of, text_or_none, time_of
from plimsoll_agent.limits import Limits
from plimsoll_agent.rules import Objective
from plimsoll_probes.chosen import ChosenTarget
from plimsoll_probes.finding import Finding, Verdict, Why
from plimsoll_probes.histogram import Histogram
from plimsoll_probes.job import Direction, Job, JobName
from plimsoll_probes.result import Circumstances, Counted, Flow, Health, Measured, Postponed, ProbeResult, Subject
from plimsoll_probes.tally import Promised, Sums, Tally

# --- values into rows


def row_of(result: ProbeResult) -> dict[str, object]:
    measured = result.measured
    timed = measured is not None and measured.seconds > 0
    return {
        "session": result.session,
        "node": result.node,
        "started": stamp(result.started),
        "ended": stamp(result.ended),
        **asdict(result.subject),
        "rule": result.rule,
        "job": result.job.name.value,
        "verdict": result.finding.verdict.value,
        "why": result.finding.why.value,
        "facts": as_json(result.finding.facts),
        "iops": measured.iops if measured and timed else None,
        "bytes_sec": measured.bytes / measured.seconds if measured and timed else None,
        "detail": as_json(
            {
                "job": {name: value for name, value in asdict(result.job).items() if name != "name"},
                "measured": None if measured is None else _measured_data(measured),
                "counted": None if result.counted is None else asdict(result.counted),
                "circumstances": _circumstances_data(result.circumstances),
                "objective": None if result.objective is None else asdict(result.objective),
            }
        ),
    }


def as_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Limits):
        return value.in_effect()
    return dict(value) if isinstance(value, Mapping) else str(value)


def _measured_data(measured: Measured) -> dict[str, object]:
    return {
        "seconds": measured.seconds,
        "read": _flow_data(measured.read),
        "write": _flow_data(measured.write),
        "unfinished": measured.unfinished,
        "fio": measured.fio,
        "engine": measured.engine,
        "cpu_busy": measured.cpu_busy,
    }


def _flow_data(flow: Flow | None) -> dict[str, object] | None:
    """Latencies as ``[bucket, count, count, …]``: what fio's buckets hold from that one on, up to an empty one."""
    if flow is None:
        return None
    return {
        "operations": flow.operations,
        "bytes": flow.bytes,
        "latency_max": flow.latency_max,
        "latency": _spans(flow.latency),
    }


def _spans(histogram: Histogram) -> list[list[int]]:
    spans: list[list[int]] = []
    following = None
    for index, count in histogram.buckets:
        if index == following:
            spans[-1].append(count)
        else:
            spans.append([index, count])
        following = index + 1
    return spans


def _circumstances_data(circumstances: Circumstances) -> dict[str, object]:
    return {
        "promised": circumstances.promised,
        "before": circumstances.before,
        "after": circumstances.after,
        "health_before": _health_data(circumstances.health_before),
        "health_after": _health_data(circumstances.health_after),
        "frozen": circumstances.frozen,
        "moved": circumstances.moved,
    }


def _health_data(health: Health | None) -> tuple[object, str] | None:
    return None if health is None else (health.raised, health.detail)


def row_of_tally(tally: Tally) -> dict[str, object]:
    sums = tally.sums
    return {
        "guest_uuid": tally.guest_uuid,
        "volume_type": tally.volume_type,
        "job": tally.job.value,
        "guest_name": tally.guest_name,
        "last": stamp(tally.last),
        "runs": as_json({verdict.value: count for verdict, count in sums.runs.items()}),
        "read": as_json(_spans(sums.latency.get("read", Histogram()))),
        "write": as_json(_spans(sums.latency.get("write", Histogram()))),
        "promised": as_json([[quantile, *astuple(promised)] for quantile, promised in sums.promised.items()]),
    }


def row_of_chosen(target: ChosenTarget) -> dict[str, object]:
    return {
        "guest_uuid": target.guest_uuid,
        "directory": target.directory,
        "guest_name": target.guest_name,
        "rule": target.rule,
        "jobs": as_json(target.jobs),
        "every": target.every.total_seconds(),
        "since": stamp(target.since),
        "seen": stamp(target.seen),
    }


# --- rows into values

UNREADABLE = (*NONSENSE, LookupError, OverflowError)


def result_of(row: sqlite3.Row) -> ProbeResult:
    detail = json.loads(text_of(row["detail"]))
    job = detail["job"]
    return ProbeResult(
        node=text_of(row["node"]),
        subject=Subject(**{field.name: _subject(field.name, row[field.name]) for field in fields(Subject)}),
        job=Job(
            name=JobName(row["job"]),
            engine=text_of(job["engine"]),
            **{name: _count(job[name]) for name in _JOB_NUMBERS},
        ),
        started=time_of(row["started"]),
        ended=time_of(row["ended"]),
        finding=Finding(Verdict(row["verdict"]), Why(row["why"]), _facts(row["facts"])),
        measured=None if detail["measured"] is None else _measured_of(detail["measured"]),
        counted=None if detail["counted"] is None else _counted_of(detail["counted"]),
        circumstances=_circumstances_of(detail["circumstances"]),
        objective=_objective(detail.get("objective")),
        rule=text_or_none(row["rule"]),
        session=text_of(row["session"]),
        id=row["id"],
    )


def postponed_of(row: sqlite3.Row) -> Postponed:
    return Postponed(
        at=time_of(row["at"]),
        node=text_of(row["node"]),
        guest_uuid=text_of(row["guest_uuid"]),
        guest_name=text_of(row["guest_name"]),
        directory=text_of(row["directory"]),
        why=Why(row["why"]),
        facts=_facts(row["facts"]),
    )


def tally_of(row: sqlite3.Row) -> Tally:
    latency: dict[Direction, Histogram] = {
        "read": _histogram(json.loads(text_of(row["read"]))),
        "write": _histogram(json.loads(text_of(row["write"]))),
    }
    return Tally(
        guest_uuid=text_of(row["guest_uuid"]),
        guest_name=text_of(row["guest_name"]),
        volume_type=text_of(row["volume_type"]),
        job=JobName(row["job"]),
        last=time_of(row["last"]),
        sums=Sums(
            {Verdict(name): _count(count) for name, count in _facts(row["runs"]).items()},
            {direction: histogram for direction, histogram in latency.items() if histogram.buckets},
            {
                _number(quantile): Promised(_count(requests), _count(missed))
                for quantile, requests, missed in json.loads(text_of(row["promised"]))
            },
        ),
    )


def chosen_of(row: sqlite3.Row) -> ChosenTarget:
    return ChosenTarget(
        guest_uuid=text_of(row["guest_uuid"]),
        guest_name=text_of(row["guest_name"]),
        directory=text_of(row["directory"]),
        rule=text_or_none(row["rule"]),
        jobs=tuple(map(JobName, json.loads(text_of(row["jobs"])))),
        every=timedelta(seconds=_number(row["every"])),
        since=time_of(row["since"]),
        seen=time_of(row["seen"]),
    )


_JOB_NUMBERS = tuple(field.name for field in fields(Job) if field.name not in ("name", "engine"))
_ALWAYS = ("guest_uuid", "guest_name", "directory")
"""What every subject has."""


def _subject(name: str, value: object) -> Any:
    return text_of(value) if name in _ALWAYS else text_or_none(value)


def _measured_of(data: Any) -> Measured:
    seconds = _number(data["seconds"])
    if not seconds:
        raise ValueError("measured for no time")
    return Measured(
        seconds=seconds,
        read=_flow_of(data["read"]),
        write=_flow_of(data["write"]),
        unfinished=_count(data["unfinished"]),
        fio=text_of(data["fio"]),
        engine=text_of(data["engine"]),
        cpu_busy=None if data["cpu_busy"] is None else _number(data["cpu_busy"]),
    )


def _flow_of(data: Any) -> Flow | None:
    if data is None:
        return None
    return Flow(
        operations=_count(data["operations"]),
        bytes=_count(data["bytes"]),
        latency=_histogram(data["latency"]),
        latency_max=_count(data["latency_max"]),
    )


def _histogram(spans: Any) -> Histogram:
    buckets: list[tuple[int, int]] = []
    for first, *counts in spans:
        if not set(map(type, counts)) <= {int}:
            raise ValueError("what is in the buckets are no counts")
        buckets += enumerate(counts, _count(first))
    return Histogram(tuple(buckets))


def _counted_of(data: Any) -> Counted:
    return Counted(
        seconds=_number(data["seconds"]),
        read_operations=_count(data["read_operations"]),
        write_operations=_count(data["write_operations"]),
        read_bytes=_count(data["read_bytes"]),
        write_bytes=_count(data["write_bytes"]),
        last_rate=None if data["last_rate"] is None else _number(data["last_rate"]),
    )


def _circumstances_of(data: Any) -> Circumstances:
    return Circumstances(
        promised=_limits(data["promised"]),
        before=_limits(data["before"]),
        after=_limits(data["after"]),
        health_before=_health(data["health_before"]),
        health_after=_health(data["health_after"]),
        frozen=_truth(data["frozen"]),
        moved=_truth(data["moved"]),
    )


def _objective(value: Any) -> Objective | None:
    if value is None:
        return None
    slowest = value["slowest"]
    return Objective(
        tuple((_number(part), _number(seconds)) for part, seconds in value["quantiles"]),
        None if slowest is None else _number(slowest),
    )


def _limits(value: Any) -> Limits | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} are no limits")
    return Limits.from_mapping(value)


def _health(value: Any) -> Health | None:
    if value is None:
        return None
    raised, detail = value
    if raised is not None and not isinstance(raised, list):
        raise ValueError(f"{raised!r} are no health checks")
    return Health(None if raised is None else tuple(text_of(check) for check in raised), text_of(detail))


def _facts(value: object) -> dict[str, object]:
    facts = json.loads(text_of(value))
    if not isinstance(facts, dict):
        raise ValueError(f"{value!r} are no facts")
    return facts


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is no number of that kind")
    return value
