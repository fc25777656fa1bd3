"""Rows of the history: from values, and back into values.

Latencies are kept in fio's buckets, without loss.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.store.database import stamp, time_of
from plimsoll_agent.util.decoding import count, data_of, mapping, maybe, number, text, value_of
from plimsoll_agent.util.frozen import asdict, astuple, names
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import Direction, Job, JobName
from plimsoll_probes.model.result import (
    Circumstances,
    Flow,
    Health,
    Measured,
    Postponed,
    ProbeResult,
    QemuCounts,
    Subject,
)
from plimsoll_probes.schedule.targets import ChosenTarget
from plimsoll_probes.store.tally import Promise, Sums, Tally

# --- values into rows


def row_of(result: ProbeResult) -> dict[str, object]:
    measurement = result.measured
    has_time = measurement is not None and measurement.seconds > 0
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
        "iops": measurement.iops if measurement and has_time else None,
        "bytes_sec": measurement.bytes / measurement.seconds if measurement and has_time else None,
        "detail": as_json(
            {
                "job": data_of(result.job),
                "measured": maybe(_measured_data, measurement),
                "counted": maybe(data_of, result.counted),
                "circumstances": _circumstances_data(result.circumstances),
                "objective": maybe(data_of, result.objective),
            }
        ),
    }


def as_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Limits):
        return value.in_effect()
    return dict(value) if isinstance(value, Mapping) else str(value)


def _measured_data(measurement: Measured) -> dict[str, Any]:
    """Latencies as ``[bucket, count, count, …]``: the counts of consecutive buckets, up to an empty one."""
    data: dict[str, Any] = data_of(measurement)
    for direction, flow in measurement.flows:
        data[direction]["latency"] = _spans(flow.latency)
    return data


def _spans(histogram: Histogram) -> list[list[int]]:
    spans: list[list[int]] = []
    following = None
    for index, requests in histogram.buckets:
        if index == following:
            spans[-1].append(requests)
        else:
            spans.append([index, requests])
        following = index + 1
    return spans


def _circumstances_data(circumstances: Circumstances) -> dict[str, object]:
    health = "health_before", "health_after"
    return {**data_of(circumstances), **{name: _health_data(getattr(circumstances, name)) for name in health}}


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
        "promised": as_json([[quantile, *astuple(promise)] for quantile, promise in sums.promised.items()]),
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


def result_of(row: sqlite3.Row) -> ProbeResult:
    detail = json.loads(text(row["detail"]))
    return ProbeResult(
        node=text(row["node"]),
        subject=value_of(Subject, {name: row[name] for name in names(Subject)}),
        job=value_of(Job, {**detail["job"], "name": row["job"]}),
        started=time_of(row["started"]),
        ended=time_of(row["ended"]),
        finding=Finding(Verdict(row["verdict"]), Why(row["why"]), _facts(row["facts"])),
        measured=maybe(_measured_of, detail["measured"]),
        counted=maybe(partial(value_of, QemuCounts), detail["counted"]),
        circumstances=_circumstances_of(detail["circumstances"]),
        objective=maybe(partial(value_of, Objective), detail.get("objective")),
        rule=maybe(text, row["rule"]),
        session=text(row["session"]),
        id=row["id"],
    )


def postponed_of(row: sqlite3.Row) -> Postponed:
    return Postponed(
        at=time_of(row["at"]),
        node=text(row["node"]),
        guest_uuid=text(row["guest_uuid"]),
        guest_name=text(row["guest_name"]),
        directory=text(row["directory"]),
        why=Why(row["why"]),
        facts=_facts(row["facts"]),
    )


def tally_of(row: sqlite3.Row) -> Tally:
    latency: dict[Direction, Histogram] = {
        "read": _histogram(json.loads(text(row["read"]))),
        "write": _histogram(json.loads(text(row["write"]))),
    }
    return Tally(
        guest_uuid=text(row["guest_uuid"]),
        guest_name=text(row["guest_name"]),
        volume_type=text(row["volume_type"]),
        job=JobName(row["job"]),
        last=time_of(row["last"]),
        sums=Sums(
            {Verdict(name): count(runs) for name, runs in _facts(row["runs"]).items()},
            {direction: histogram for direction, histogram in latency.items() if histogram.buckets},
            {
                number(quantile): Promise(count(requests), count(misses))
                for quantile, requests, misses in json.loads(text(row["promised"]))
            },
        ),
    )


def chosen_of(row: sqlite3.Row) -> ChosenTarget:
    return ChosenTarget(
        guest_uuid=text(row["guest_uuid"]),
        guest_name=text(row["guest_name"]),
        directory=text(row["directory"]),
        rule=maybe(text, row["rule"]),
        jobs=tuple(map(JobName, json.loads(text(row["jobs"])))),
        every=timedelta(seconds=number(row["every"])),
        since=time_of(row["since"]),
        seen=time_of(row["seen"]),
    )


def _measured_of(data: Any) -> Measured:
    return value_of(Measured, {**data, **{name: maybe(_flow_of, data[name]) for name in ("read", "write")}})


def _flow_of(data: Any) -> Flow:
    return value_of(Flow, {**data, "latency": _histogram(data["latency"])})


def _histogram(spans: Any) -> Histogram:
    buckets: list[tuple[int, int]] = []
    for first, *counts in spans:
        if not set(map(type, counts)) <= {int}:
            raise ValueError("the buckets do not contain counts")
        buckets += enumerate(counts, count(first))
    return Histogram(tuple(buckets))


def _circumstances_of(data: Any) -> Circumstances:
    health = {name: maybe(_health, data[name]) for name in ("health_before", "health_after")}
    return value_of(Circumstances, {**data, **health}, "reduced")


def _health(value: Any) -> Health:
    checks, detail = value
    return value_of(Health, {"raised": checks, "detail": detail}, "blocking")


def _facts(value: object) -> dict[str, object]:
    facts = mapping(lambda fact: fact, json.loads(text(value)))
    return {"actual" if name == "in_force" else name: fact for name, fact in facts.items()}  # its name in 0.1.0
