"""The region as plain data, as for ``-f json``. Keys are stable; units are bytes and seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_monitoring.region import promised
from plimsoll_monitoring.region.congestion import CongestedClass
from plimsoll_monitoring.region.disks import FACTS, RegionDisk
from plimsoll_monitoring.region.probes import LABELS, QUANTILES, ProbeRow, ProbesBy, kept_ratio
from plimsoll_monitoring.region.problems import RegionProblem
from plimsoll_monitoring.region.status import Node, RegionSnapshot

FORMAT_VERSION = 2


def moment(seconds: float | None) -> str | None:
    """A time as ISO 8601."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def status_data(status: RegionSnapshot, problems: Iterable[RegionProblem]) -> dict[str, object]:
    """``region status`` as data."""
    states, runs = status.states, status.runs
    return {
        "version": FORMAT_VERSION,
        "at": moment(status.at),
        "level": status.level.name.lower(),
        "regions": list(status.regions),
        "problems": [
            {
                "level": problem.level.name.lower(),
                "text": problem.text,
                "next": problem.do,
                "nodes": [{"region": region, "node": instance} for region, instance in problem.nodes],
                "figures": list(problem.figures),
                "alerts": list(problem.alerts),
            }
            for problem in problems
        ],
        "stages": [
            {
                "region": one.node[0],
                "node": one.node[1],
                "approval": one.approval,
                "stage": one.stage,
                "stages": one.stages,
                "since": moment(one.since),
                "stops": [{"condition": name, "known": certain} for name, certain in one.stops],
            }
            for one in status.stages
        ],
        "nodes": [_node_data(node) for node in status.nodes],
        "disks": {kind.value: states[kind.value] for kind in Kind},
        "unknown": sum(one.unknown for one in status.types),
        "unknown_acknowledged": sum(one.acknowledged for one in status.types),
        "unlimited": sum(one.unlimited for one in status.types),
        "at_limit": sum(one.at_limit for one in status.types),
        "external_changes_reverted": round(sum(one.drift for one in status.types)),
        "runs": _whole(runs),
        "kept": kept_ratio(runs),
        "types": [
            {
                "region": one.region,
                "volume_type": one.name,
                "disks": dict(one.states),
                "unknown": one.unknown,
                "unknown_acknowledged": one.acknowledged,
                "unlimited": one.unlimited,
                "at_limit": one.at_limit,
                "external_changes_reverted": round(one.drift),
                "runs": _whole(one.runs),
                "kept": kept_ratio(one.runs),
                **one.quantiles,
            }
            for one in status.types
        ],
        "probes": [
            {
                "region": one.node[0],
                "node": one.node[1],
                "guest": one.domain,
                "guest_uuid": one.uuid,
                "directory": one.directory,
                "last": moment(one.last),
                "every": one.every,
                "late": one.late(status.at),
                "postponed": moment(one.postponed),
                "why": one.why,
                "verdicts": dict(one.verdicts),
            }
            for one in status.probed
        ],
        "aggregates_only": [instance for _, instance in status.aggregates],
    }


def _whole(runs: Mapping[str, float]) -> dict[str, int]:
    return {verdict: round(number) for verdict, number in runs.items()}


def _node_data(node: Node) -> dict[str, object]:
    return {
        "region": node.region,
        "node": node.instance,
        "level": node.judgement.level.name.lower(),
        "unreachable_since": moment(node.unreachable_since),
        "version": node.version,
        "enforcing": node.enforcing,
        "paused": node.paused,
        "wrong": {
            finding.measure.name: {"level": finding.level.name.lower(), "value": finding.figure.value}
            for finding in node.judgement.wrong
        },
    }


DISK_COLUMNS = (
    *("region", "node", "server", "guest", "guest_uuid", "disk"),
    *FACTS,
    "project_name",
    *("states", "operations_per_second", "bytes_per_second", "limit", "limit_ratio", "pass_ended"),
)


def disk_cells(disk: RegionDisk) -> tuple[object, ...]:
    """A disk under ``DISK_COLUMNS``."""
    return (
        *(*disk.node, disk.facts["server"] or None, disk.domain, disk.uuid, disk.target),
        *(disk.facts[name] or None for name in (*FACTS, "project_name")),
        *(list(disk.states), disk.operations, disk.bytes, disk.limit, disk.share, moment(disk.pass_ended)),
    )


def row_columns(by: ProbesBy) -> tuple[str, ...]:
    names = {"instance": "node", "domain": "guest", "uuid": "guest_uuid"}
    labels = (names.get(label, label) for label in LABELS[by])
    return (*labels, "runs", "kept", *QUANTILES, "guests", "broken", "late", "postponed")


def row_cells(row: ProbeRow) -> tuple[object, ...]:
    """Results of probes, under ``row_columns``."""
    numbers = (row.guests, row.broken, row.late, row.postponed)
    return (*row.labels.values(), _whole(row.runs), row.kept, *(row.quantiles[name] for name in QUANTILES), *numbers)


def promised_columns(by: promised.PromisedBy) -> tuple[str, ...]:
    counts = ("disks", "unlimited", "unknown", "promised", "at_least", "most", "most_at")
    return (*promised.LABELS[by], "unit", *counts, "ratio", "peak_use", "p99", "since")


def promised_cells(row: promised.PromiseRow) -> tuple[object, ...]:
    """Under ``promised_columns``."""
    counts = (row.disks, row.unlimited, row.unknown, row.promised, row.at_least, row.most, moment(row.most_at))
    return (*row.labels.values(), row.unit, *counts, row.ratio, row.use, row.p99, moment(row.since))


CONGESTION_COLUMNS = (
    "region",
    "cluster",
    "class",
    "x",
    "latency",
    "target",
    "action",
    "why",
    "reduced",
    "day",
    "published",
)


def congestion_cells(row: CongestedClass) -> tuple[object, ...]:
    names = (row.region, row.cluster, row.device_class)
    return (
        *names,
        row.x,
        row.latency,
        row.target,
        row.action,
        row.why,
        row.reduced,
        list(row.day),
        moment(row.published),
    )
