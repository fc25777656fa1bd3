"""A diagnosis as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from plimsoll_insight.explain import messages
from plimsoll_insight.explain.diagnosis import Diagnosis
from plimsoll_insight.explain.evidence import PassInterval
from plimsoll_insight.explain.guests import ExplainedDisk, FoundGuest, Stall, Stay


def data(
    guest: FoundGuest,
    stays: Sequence[Stay],
    disks: Iterable[tuple[ExplainedDisk, Diagnosis]],
    probes: Mapping[str, int],
    stalls: Iterable[Stall],
    names: Mapping[str, str],
) -> dict[str, object]:
    return {
        "region": guest.region,
        "server": guest.server or None,
        "guest": guest.name,
        "guest_uuid": guest.uuid,
        "project": guest.project or None,
        "project_name": guest.project_name or None,
        "nodes": [{"node": stay.node[1], "since": _time(stay.since), "until": _time(stay.until)} for stay in stays],
        "probes": dict(probes),
        "stalls": [{"at": _time(stall.at), "kind": stall.kind, "lines": stall.lines} for stall in stalls],
        "disks": [disk_data(disk, diagnosis, names) for disk, diagnosis in disks],
    }


def disk_data(disk: ExplainedDisk, diagnosis: Diagnosis, names: Mapping[str, str]) -> dict[str, object]:
    one = diagnosis.neighbour
    return {
        "disk": disk.disk,
        "volume": disk.volume or None,
        "volume_type": disk.volume_type or None,
        "qos_spec": disk.qos_spec or None,
        "pool": disk.pool or None,
        "cluster": disk.cluster or None,
        "limits": None if disk.limits is None else dict(disk.limits),
        "changes": [
            {
                "at": _time(change.at),
                "before": dict(change.before),
                "after": dict(change.after),
                "reason": change.reason,
            }
            for change in disk.changes
        ],
        "reverted": [_time(at) for at in disk.reverted],
        "held": [{"since": _time(since), "until": _time(until)} for since, until in disk.held],
        "cause": diagnosis.cause.value,
        "unexplained": None if diagnosis.unexplained is None else diagnosis.unexplained.value,
        "checks": list(diagnosis.raised),
        "neighbour": None
        if one is None
        else {
            "guest_uuid": one.uuid,
            "name": names.get(one.uuid) or None,
            "place": one.place.value,
            "unit": one.unit,
            "share": one.share,
        },
        "slow": [_time(each.at) for each in diagnosis.slow],
        "slow_intervals": diagnosis.all_slow,
        "known_intervals": diagnosis.known,
        "usual_latency": disk.evidence.usual,
        "interval": disk.evidence.seconds,
        "intervals": [_interval(each) for each in disk.evidence.intervals],
        "tenant": messages.tenant_words(disk, diagnosis),
    }


def _interval(one: PassInterval) -> dict[str, object]:
    return {
        "at": _time(one.at),
        "node": one.node,
        "operations_per_second": one.operations,
        "bytes_per_second": one.bytes,
        "limit": one.limit,
        "limit_ratio": one.share,
        "latency": one.latency,
        "type_latency": one.of_type,
        "node_latency": one.of_node,
        "unanswered": one.unanswered,
        "paused": one.paused,
        "checks": None if one.raised is None else list(one.raised),
    }


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
