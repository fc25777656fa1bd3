"""What a replay asks Prometheus, and the disks that the answers are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import field
from math import isfinite, nan

from plimsoll_agent.congestion.reduction import is_reduction
from plimsoll_agent.model.limits import PARAMETERS, Limits, LimitsError
from plimsoll_agent.monitor import metrics
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.replay.values import DiskKey, ReplayedDisk
from plimsoll_monitoring.promql import SeriesSelection, any_of, apart, each, fresh, sum_over_time
from plimsoll_monitoring.region import status as fleet_status
from plimsoll_monitoring.region.answers import Ask, NodeKey, Series, key_of, label
from plimsoll_monitoring.region.disks import FACTS, NAMES, several_volumes, without_disks

_DISK = metrics.DISK
_BY = "region, uuid, target_device"
_MINUTES = 10
"""The time in which samples are counted."""
_APART = 300
"""Seconds between the moments at which a node is asked for."""


@frozen
class ReplayNode:
    """A node, and how many disks its metrics have."""

    key: NodeKey
    disks: int


@frozen(kw_only=True)
class Nodes:
    """The nodes of the selection."""

    nodes: tuple[ReplayNode, ...]
    aggregates: frozenset[NodeKey]
    """Those without metrics of single disks."""
    unreachable: frozenset[NodeKey]
    """Those that had metrics lately and have none at the end."""
    pass_seconds: float | None
    """Between passes: the time that an average is over, of the node where it is longest. None is unknown."""
    scrape_seconds: float | None
    """Between two samples, of the node that has most of them."""


def nodes(ask: Ask, selection: SeriesSelection, seconds: int) -> Nodes:
    """Raises ``PlimsollError``."""
    matchers = selection.matchers()
    disks = ask(f"sum by (region, instance) ({each(metrics.DISKS, matchers, 'volume_type', 'state')})")
    aggregates = {key_of(series) for series in ask(without_disks(matchers))}
    general = {name: ask(question) for name, question in fleet_status.node_questions(matchers).items()}
    interval = ask(f"max (quantile_over_time(0.5, {metrics.PASS_INTERVAL_SECONDS}{matchers}[{seconds}s]))")
    # Of the last hour, in which metrics may have begun, or missed a while, the minutes that have most of them.
    samples = ask(
        f"max (max_over_time(count_over_time({metrics.PASS_LAST_TIMESTAMP_SECONDS}{matchers}[{_MINUTES}m])[1h:1m]))"
    )
    most = samples[0].known if samples else None
    return Nodes(
        nodes=tuple(
            ReplayNode(key_of(series), round(series.known or 0))
            for series in sorted(disks, key=key_of)
            if series.known and key_of(series) not in aggregates
        ),
        aggregates=frozenset(aggregates),
        unreachable=frozenset(fleet_status.unreachable(general)),
        pass_seconds=interval[0].known if interval else None,
        scrape_seconds=60 * _MINUTES / most if most else None,
    )


def subjects(ask: Ask, chunk: Sequence[ReplayNode], selection: SeriesSelection, until: float) -> list[ReplayedDisk]:
    """The disks that these nodes of one region have at the end. Raises ``PlimsollError``."""
    here = (any_of("instance", [node.key[1] for node in chunk]),)
    of = SeriesSelection(region=chunk[0].key[0], types=selection.types, projects=selection.projects)
    matchers = of.matchers(*here)
    info = ask(each(metrics.DISK_INFO, of.matchers(*here, types=True, projects=True), *_DISK, *FACTS))
    keys = {_key(series) for series in info}
    if not keys:
        return []
    names = {label(series, "uuid"): series for series in ask(each(metrics.GUEST_INFO, matchers, "uuid", *NAMES))}
    holds = {
        _key(series)
        for series in ask(each(metrics.DISK_HOLD_END_TIMESTAMP_SECONDS, matchers, *_DISK))
        if (series.known or 0.0) > until
    }
    without_limit = {_key(series): series.known for series in ask(each(metrics.DISK_UNLIMITED, matchers, *_DISK))}
    states = {
        _key(series): (label(series, "state"), label(series, "reason"))
        for series in ask(each(metrics.DISK_STATE, matchers, *_DISK, "state", "reason"))
    }
    actual, desired = (
        _numbers(ask, metric, matchers) for metric in (metrics.DISK_LIMIT_ACTUAL, metrics.DISK_LIMIT_DESIRED)
    )
    return [
        ReplayedDisk(
            region=label(series, "region"),
            uuid=label(series, "uuid"),
            domain=label(series, "domain"),
            target=label(series, "target_device"),
            facts={name: label(series, name) for name in FACTS}
            | {name: label(names[label(series, "uuid")], name) for name in NAMES if label(series, "uuid") in names},
            actual=_lasting(
                _actual(without_limit.get(_key(series)), actual.get(_key(series), {})),
                desired.get(_key(series), {}),
                states.get(_key(series), ("", ""))[0],
            ),
            reason=states.get(_key(series), ("", ""))[1],
            held=_key(series) in holds,
        )
        for series in info
    ]


def _actual(without_limit: float | None, numbers: Mapping[str, int]) -> Limits | None:
    """None where a part of them is missing."""
    if without_limit is None or (not without_limit and not numbers):
        return None
    return Limits() if without_limit else _limits(numbers)


def _lasting(actual: Limits | None, numbers: Mapping[str, int], state: str) -> Limits | None:
    """Without what lasts for a while: a reduction by congestion, or a burst that is as short as what is saved of it.

    ``numbers`` are the desired limits: with lower ones in force than these, what is seen is no measure of new ones.
    Those of a disk whose change is planned stay in force. Where it is deferred or failed, lower ones may be either:
    None.
    """
    desired = _limits(numbers) if numbers else None
    if actual is None or desired is None or actual == desired or state == Kind.PLANNED:
        return actual
    if not (actual.shortens(desired) or is_reduction(actual, desired)):
        return actual
    return desired if state in (Kind.IN_SYNC, Kind.CHANGED) else None


def _numbers(ask: Ask, of_unit: Mapping[str, str], matchers: str) -> Mapping[DiskKey, Mapping[str, int]]:
    numbers: dict[DiskKey, dict[str, int]] = defaultdict(dict)
    for metric in of_unit.values():
        for series in ask(each(metric, matchers, *_DISK, "parameter")):
            if series.known is not None:
                numbers[_key(series)][label(series, "parameter")] = round(series.known)
    return numbers


def _limits(numbers: Mapping[str, int]) -> Limits | None:
    try:
        return Limits.from_mapping({parameter.name: numbers.get(parameter.name, 0) for parameter in PARAMETERS})
    except LimitsError:
        return None


@frozen(kw_only=True)
class Most:
    """The most of a disk over the time, by direction. None or absent is unknown."""

    operations: Mapping[str, float] = field(default_factory=dict, hash=False)
    bytes: Mapping[str, float] = field(default_factory=dict, hash=False)
    ratio: float | None = None
    """Of a limit that was used, without its burst."""
    seconds: float = 0.0
    """Of the time, of which there are samples."""
    mean: float | None = None
    """Requests a second, of all samples."""


def most(
    ask: Ask, disks: Sequence[ReplayedDisk], seconds: int, stale: Set[str], sample_seconds: Mapping[str, float]
) -> dict[DiskKey, Most]:
    """``stale``: nodes that served old metrics for a while. ``sample_seconds``: of each sample of a node.

    Raises ``PlimsollError``.
    """

    def over(metric: str, by: str) -> Sequence[Series]:
        return ask(f"max by ({by}) (max_over_time({metric}{matchers_of(disks)}[{seconds}s]))")

    rates: dict[str, dict[DiskKey, dict[str, float]]] = {}
    for unit, metric in metrics.DISK_AVERAGE.items():
        rates[unit] = defaultdict(dict)
        for series in over(metric, f"{_BY}, direction"):
            if series.known is not None:
                rates[unit][_key(series)][label(series, "direction")] = series.known
    ratio = {_key(series): series.known for series in over(metrics.DISK_AVERAGE_LIMIT_RATIO, _BY)}

    def summed(function: str, *matchers: str) -> dict[DiskKey, float]:
        """Unknown, so absent, is one with a sample that is no number, or that may be of another time."""
        metric, over_time = metrics.DISK_AVERAGE["operations"], f"[{seconds}s]"
        sums: dict[DiskKey, float] = defaultdict(float)
        for one in ask(
            sum_over_time(function, metric, f"{matchers_of(disks, *matchers)}{over_time}", f"{_BY}, instance")
        ):
            instance = label(one, "instance")
            sums[_key(one)] += nan if instance in stale else one.value * sample_seconds.get(instance, nan)
        return {key: value for key, value in sums.items() if isfinite(value)}

    times, requests = summed("count", 'direction="read"'), summed("sum")
    return {
        disk.key: Most(
            operations=rates["operations"].get(disk.key, {}),
            bytes=rates["bytes"].get(disk.key, {}),
            ratio=ratio.get(disk.key),
            seconds=times.get(disk.key, 0.0),
            mean=requests[disk.key] / times[disk.key] if disk.key in requests and times.get(disk.key) else None,
        )
        for disk in disks
    }


def with_several_volumes(ask: Ask, disks: Sequence[ReplayedDisk], seconds: int) -> frozenset[DiskKey]:
    """Those whose target had another volume for a part of the time. Raises ``PlimsollError``."""
    return frozenset(_key(series) for series in ask(several_volumes(matchers_of(disks), seconds)))


def matchers_of(disks: Iterable[ReplayedDisk], *more: str) -> str:
    """These disks of one region, on whichever nodes they were; others of their guests too."""
    each_disk = list(disks)
    uuids = sorted({disk.uuid for disk in each_disk})
    return SeriesSelection(region=each_disk[0].region).matchers(any_of("uuid", uuids), *more)


def rate_of(unit: str, disks: Sequence[ReplayedDisk], side: str) -> str:
    """Requests or bytes a second, of one direction or both (``total``), by disk and node."""
    metric = metrics.DISK_AVERAGE[unit]
    if side == "total":
        return _once(f"sum without (direction) ({metric}{matchers_of(disks)})")
    return _once(metric + matchers_of(disks, any_of("direction", [side])))


def ratio_of(disks: Sequence[ReplayedDisk]) -> str:
    """The share that a disk used of the limit that it used most of."""
    return _once(metrics.DISK_AVERAGE_LIMIT_RATIO + matchers_of(disks))


def latency_of(disks: Sequence[ReplayedDisk]) -> str:
    return _once(metrics.DISK_AVERAGE_LATENCY_SECONDS + matchers_of(disks))


def stale_nodes(ask: Ask, region: str, seconds: int) -> frozenset[str]:
    """Those whose metrics were not ``fresh`` all the time. Raises ``PlimsollError``."""
    answer = ask(f"min_over_time(({fresh_nodes(region)})[{seconds}s:{_APART}s])")
    return frozenset(label(series, "instance") for series in answer if series.known != 1)


def sample_seconds(ask: Ask, region: str, seconds: int) -> dict[str, float]:
    """Between two samples of each node. Raises ``PlimsollError``."""
    passes = metrics.PASS_LAST_TIMESTAMP_SECONDS + SeriesSelection(region=region).matchers()
    # Of two jobs the one that has more samples counts, as in sums.
    answer = ask(f"min by (region, instance) ({apart(passes, seconds)})")
    return {label(series, "instance"): series.value for series in answer}


def _once(values: str) -> str:
    # Two jobs of a site may scrape the same node.
    return f"max by (region, instance, uuid, target_device) ({values})"


def fresh_nodes(region: str) -> str:
    return fresh(SeriesSelection(region=region).matchers())


def _key(series: Series) -> DiskKey:
    return label(series, "region"), label(series, "uuid"), label(series, "target_device")
