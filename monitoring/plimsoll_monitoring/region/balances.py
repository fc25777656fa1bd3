"""What is saved of the bursts of volumes, by the region's Prometheus: queries and answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from plimsoll_agent.model.limits import BASES
from plimsoll_agent.monitor import metrics
from plimsoll_agent.qos.balances import Balance
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_monitoring.promql import any_of, braces, each
from plimsoll_monitoring.region.answers import Answers, NodeKey, Series, key_of, label

OLD = timedelta(minutes=15)
"""What a pass observed before counts no more: three passes of the timer."""
_DISK = ("uuid", "target_device")
_DiskKey = tuple[NodeKey, str, str]


def questions() -> dict[str, str]:
    """Of all disks: which of their volumes are of this cloud is in Cinder's list.

    Prometheus must not join them: it refuses where two jobs that scrape the same node saw two volumes of a disk.
    """
    with_volume, unknown = braces('volume!=""'), braces(any_of("state", [Kind.UNKNOWN, Kind.FAILED]))
    bursts = braces(any_of("parameter", [f"{base}_max" for base in BASES]))
    desired = [metrics.DISK_LIMIT_DESIRED[f"{unit}_per_second"] for unit in metrics.UNITS]
    return {
        "observed": each(metrics.PASS_OBSERVED_TIMESTAMP_SECONDS, ""),
        "volumes": each(metrics.DISK_INFO, with_volume, *_DISK, "volume"),
        "saved": f"min by (region, instance, {', '.join(_DISK)}) ({metrics.DISK_BURST_SAVED_RATIO})",
        "with_burst": " or ".join(each(metric, bursts, *_DISK) for metric in desired),
        "unknown": each(metrics.DISK_STATE, unknown, *_DISK),
    }


def balances(answers: Answers, now: datetime, *, whole: bool = True) -> dict[str, Balance | None]:
    """By volume, the least where several disks are of one; None where no burst is desired.

    A volume is not there where that is unknown: no pass observed its disk lately, its desired limits are unknown, its
    counters were not read yet, or the answers are not ``whole`` and have nothing of it.
    """
    times = {key_of(each): _time(each) for each in answers["observed"]}
    volumes: dict[_DiskKey, set[str]] = {}
    for each_disk in answers["volumes"]:
        volumes.setdefault(_disk(each_disk), set()).add(label(each_disk, "volume"))
    ratios = {_disk(series): series.known for series in answers["saved"]}
    unsure = {_disk(series) for name in ("with_burst", "unknown") for series in answers[name]}
    answer: dict[str, list[Balance | None]] = {}
    unknown: set[str] = set()
    for disk, names in volumes.items():
        at, ratio = times.get(disk[0]), ratios.get(disk)
        is_old = at is None or abs(now - at) >= OLD
        is_unsure = ratio is None and (not whole or disk in ratios or disk in unsure)
        if at is None or is_old or is_unsure or len(names) > 1:
            unknown |= names
        else:
            balance = None if ratio is None else Balance(round(min(max(ratio, 0.0), 1.0) * 100), at)
            answer.setdefault(min(names), []).append(balance)
    least = {volume: _least(its) for volume, its in answer.items()}
    return {volume: balance for volume, balance in least.items() if balance or volume not in unknown}


def _least(balances: list[Balance | None]) -> Balance | None:
    return min(filter(None, balances), key=lambda each: (each.percent, each.at), default=None)


def _disk(series: Series) -> _DiskKey:
    uuid, target = (label(series, name) for name in _DISK)
    return key_of(series), uuid, target


def _time(series: Series) -> datetime | None:
    try:
        return datetime.fromtimestamp(series.value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
