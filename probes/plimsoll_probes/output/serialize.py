"""Probes as plain data, for ``-f json`` and others. Keys are stable; units are bytes and seconds, times in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from plimsoll_agent.messages.serialize import limits_data
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.frozen import asdict
from plimsoll_probes.evaluate.compare import QUANTILES, Comparison, QuantileChange, Then, ratio
from plimsoll_probes.model.finding import Finding
from plimsoll_probes.model.histogram import Histogram, Quantile, edges
from plimsoll_probes.model.job import Job
from plimsoll_probes.model.result import Circumstances, Health, Measured, Postponed, ProbeResult, QemuCounts, Subject
from plimsoll_probes.output.messages import Streak, quantile_name

FORMAT_VERSION = 2
_NANOSECONDS = 10**9


def result_data(result: ProbeResult, *, histograms: bool = False, streak: Streak | None = None) -> dict[str, object]:
    """A result. ``histograms`` adds fio's buckets: ``[lower_ns, upper_ns, count]``, with null for the upper edge of
    the last one. ``streak`` adds since when the verdict has been the same."""
    data = (
        {"version": FORMAT_VERSION, "id": result.id, "node": result.node}
        | subject_data(result.subject)
        | {
            "job": job_data(result.job),
            "started": time_data(result.started),
            "ended": time_data(result.ended),
            "session": result.session or None,
            "rule": result.rule,
            "objective": None if result.objective is None else _objective_data(result.objective),
        }
        | finding_data(result.finding)
        | {
            "measured": None if result.measured is None else measured_data(result.measured, histograms=histograms),
            "counted": None if result.counted is None else _counted_data(result.counted),
            "circumstances": _circumstances_data(result.circumstances),
        }
    )
    if streak is not None:
        first, last_good = streak
        data |= {"since": time_data(first), "kept_until": None if last_good is None else time_data(last_good)}
    return data


def _objective_data(objective: Objective) -> dict[str, float]:
    """Seconds by quantile, and of the slowest request."""
    data = {quantile_name(part): seconds for part, seconds in objective.quantiles}
    return data if objective.slowest is None else data | {"slowest": objective.slowest}


def subject_data(subject: Subject) -> dict[str, object]:
    """The guest and disk that were probed, with the same keys as in other lists."""
    return {
        "guest": subject.guest_name,
        "guest_uuid": subject.guest_uuid,
        "display_name": subject.display_name,
        "project": subject.project,
        "directory": subject.directory,
        "key": subject.disk,
        "disk": subject.target,
        "volume": subject.volume_id,
        "pool": subject.pool,
        "image": subject.image,
        "volume_type": subject.volume_type,
        "cluster": subject.cluster,
    }


def job_data(job: Job) -> dict[str, object]:
    return asdict(job) | {"name": job.name.value}


def finding_data(finding: Finding) -> dict[str, object]:
    return {"verdict": finding.verdict.value, "why": finding.why.value, "facts": facts_data(finding.facts)}


def facts_data(facts: Mapping[str, object]) -> dict[str, object]:
    return {name: _fact(value) for name, value in facts.items()}


def _fact(value: Any) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case Limits():
            return value.in_effect()
        case Mapping():
            return facts_data(value)
        case list() | tuple() | set() | frozenset():
            return [_fact(each) for each in value]
        case datetime():
            return time_data(value)
        case _:
            return str(value)


def measured_data(measurement: Measured, *, histograms: bool = False) -> dict[str, object]:
    """What fio measured, by direction, and of both together where both occur."""
    flows: dict[str, object] = {
        name: {
            "operations": flow.operations,
            "bytes": flow.bytes,
            "iops": flow.operations / measurement.seconds,
            "bytes_per_second": flow.bytes / measurement.seconds,
        }
        | _latency_data(flow.latency, flow.latency_max, histograms)
        for name, flow in measurement.flows
    }
    both = _latency_data(measurement.latency, measurement.latency_max, False) if len(flows) == 2 else None
    return {
        "seconds": measurement.seconds,
        "operations": measurement.operations,
        "bytes": measurement.bytes,
        "iops": measurement.iops,
        "bytes_per_second": measurement.bytes / measurement.seconds,
        "unfinished": measurement.unfinished,
        "cpu_busy": measurement.cpu_busy,
        "fio": measurement.fio,
        "engine": measurement.engine,
        "read": flows.get("read"),
        "write": flows.get("write"),
        "both": both,
    }


def _latency_data(histogram: Histogram, latency_max: int, whole: bool) -> dict[str, object]:
    latency: dict[str, object] = {
        quantile_name(fraction): quantile_data(histogram.quantile(fraction, latency_max)) for fraction in QUANTILES
    }
    latency["max"] = latency_max / _NANOSECONDS if histogram.count else None
    data: dict[str, object] = {"latency": latency, "saturated": histogram.saturated}
    if whole:
        data["histogram_ns"] = [[*edges(index), count] for index, count in histogram.buckets]
    return data


def quantile_data(quantile: Quantile | None) -> dict[str, object] | None:
    """In seconds; a saturated one has neither upper bound nor value."""
    if quantile is None:
        return None
    upper = quantile.upper
    return {
        "lower": quantile.lower / _NANOSECONDS,
        "upper": None if upper is None else upper / _NANOSECONDS,
        "value": None if quantile.saturated else quantile.value / _NANOSECONDS,
        "saturated": quantile.saturated,
    }


def _counted_data(counts: QemuCounts) -> dict[str, object]:
    return asdict(counts)


def _circumstances_data(circumstances: Circumstances) -> dict[str, object]:
    return {
        "promised": limits_data(circumstances.promised),
        "before": limits_data(circumstances.before),
        "after": limits_data(circumstances.after),
        "health_before": _health_data(circumstances.health_before),
        "health_after": _health_data(circumstances.health_after),
        "frozen": circumstances.frozen,
        "moved": circumstances.moved,
    }


def _health_data(health: Health | None) -> dict[str, object] | None:
    """None where the health was not asked; ``raised`` is null where it is unknown."""
    if health is None:
        return None
    return {"raised": None if health.raised is None else list(health.raised), "detail": health.detail}


def postponed_data(postponement: Postponed) -> dict[str, object]:
    return {
        "at": time_data(postponement.at),
        "node": postponement.node,
        "guest": postponement.guest_name,
        "guest_uuid": postponement.guest_uuid,
        "directory": postponement.directory,
        "why": postponement.why.value,
        "facts": facts_data(postponement.facts),
    }


def comparison_data(comparison: Comparison) -> dict[str, object]:
    """Then and now; ``then`` is null where there is nothing to compare with, ``now`` where this run has no result."""
    then, now = comparison.then, comparison.now
    both = (then, now) if then is not None and now is not None else None
    return {
        "version": FORMAT_VERSION,
        "run": result_data(comparison.run),
        "span": comparison.span.total_seconds(),
        "then": None if then is None else _then_data(then),
        "now": None if now is None else _then_data(now),
        "iops_ratio": both and ratio(both[1].iops, both[0].iops),
        "latency": [row_data(row) for row in comparison.rows],
        "verdicts": {verdict.value: number for verdict, number in comparison.verdicts.items()},
        "other_jobs": comparison.other_jobs,
        "other_limits": comparison.other_limits,
    }


def _then_data(then: Then) -> dict[str, object]:
    return {
        "runs": then.runs,
        "seconds": then.seconds,
        "iops": then.iops,
        "bytes_per_second": then.bytes_per_second,
        "latency_max": {name: slowest / _NANOSECONDS for name, slowest in then.latency_max.items()},
    }


def row_data(row: QuantileChange) -> dict[str, object]:
    return {
        "direction": row.direction,
        "quantile": quantile_name(row.fraction),
        "then": quantile_data(row.then),
        "now": quantile_data(row.now),
        "ratio": row.ratio,
    }


def time_data(time: datetime) -> str:
    """ISO 8601 in UTC."""
    return time.astimezone(UTC).isoformat()
