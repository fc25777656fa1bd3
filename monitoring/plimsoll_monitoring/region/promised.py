"""What disks are promised, and the most that guests took: the queries for Prometheus, and rows from its answers.

Queries are over what ``plimsoll-rules.yaml`` records by pool and volume type, so that a month of a region is a few
series. A peak is the highest sum of averages between two passes; its latency is that of probes within half an hour of
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.metrics import Metric
from plimsoll_agent.util.frozen import astuple, frozen, names, of_tuple
from plimsoll_monitoring.promql import SeriesSelection, any_of, each, equal, quantile, selector
from plimsoll_monitoring.region.answers import Answers, NodeKey, Series, key_of, label
from plimsoll_monitoring.region.device_classes import PoolKey


class PromisedBy(StrEnum):
    """What is summed up."""

    TYPE = "type"
    POOL = "pool"
    CLASS = "class"


class Over(StrEnum):
    """The time in which the most was taken."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


WINDOWS: Mapping[Over, int] = {Over.DAY: 86400, Over.WEEK: 7 * 86400, Over.MONTH: 30 * 86400}
"""Seconds."""
LABELS: Mapping[PromisedBy, tuple[str, ...]] = {
    PromisedBy.TYPE: ("region", "volume_type"),
    PromisedBy.POOL: ("region", "cluster", "pool"),
    PromisedBy.CLASS: ("region", "class"),
}
UNITS = ("operations", "bytes")
_STEP = 60
"""Seconds between the moments at which sums by class are made; passes are no closer."""
_FINE = 15
_NEAR = 1800
"""Seconds: how far from the peak a probe may be."""
_BUCKETS = metrics.PROBE_LATENCY_SECONDS_BUCKET
_OBSERVED = metrics.PASS_OBSERVED_TIMESTAMP_SECONDS
_ROW = "row"
"""A label that tells parts of one query apart."""


@frozen(kw_only=True)
class Place:
    """A volume type in a pool, in a region; no label of it is trusted."""

    region: str
    cluster: str
    pool: str
    volume_type: str


@frozen(kw_only=True)
class PromiseRow:
    """What one type, pool or class is promised of one unit, and what its guests took at most."""

    labels: Mapping[str, str | None] = field(hash=False)
    """None is unknown: the class of a pool that no report has."""
    unit: str
    disks: int
    unlimited: int
    unknown: int
    promised: float | None
    """None if no disk has a limit of this unit that is known."""
    most: float | None
    """None if nothing is known of the time."""
    most_at: float | None
    """The latest time of it."""
    use: float | None
    """The highest share of what was promised at the same time."""
    p99: float | None
    """Seconds: latency of probes near ``most_at``; None without any."""
    since: float | None
    """From when on Prometheus knows what was taken."""

    @property
    def at_least(self) -> bool:
        """The promise is a lower bound: there are disks without a limit, or whose limits are unknown."""
        return bool(self.unlimited or self.unknown)

    @property
    def ratio(self) -> float | None:
        return self.promised / self.most if self.promised is not None and self.most else None


def first_questions(selection: SeriesSelection, window: int) -> dict[str, str]:
    """Which places there are or were, and which nodes with metrics are in no sum."""
    nodes = selection.matchers()
    of_place = ", ".join(names(Place))
    fresh = f"{each(metrics.POOL_DISKS, nodes)} and on (region, instance) time() - {each(_OBSERVED, nodes)} < 3600"
    return {
        "left_out": f"{each(metrics.DISKS, nodes)} > 0 unless on (region, instance) ({fresh})",
        "places": f"group by ({of_place}) (last_over_time({metrics.POOL_SUM[metrics.POOL_DISKS]}{nodes}[{window}s]))",
    }


def places(answers: Answers) -> list[Place]:
    every = (of_tuple(Place, [label(series, name) for name in names(Place)]) for series in answers["places"])
    return sorted(every, key=astuple)


def left_out(answers: Answers) -> list[NodeKey]:
    """Nodes with disks that are in no sum: not observed for an hour, or of an earlier version."""
    return sorted({key_of(series) for series in answers["left_out"]})


Groups = Mapping[tuple[str | None, ...], Sequence[Place]]
"""The places of each row, by the values of its labels."""


def group_places(there: Iterable[Place], by: PromisedBy, classes: Mapping[PoolKey, str]) -> Groups:
    groups: dict[tuple[str | None, ...], list[Place]] = {}
    for place in there:
        key: tuple[str | None, ...]
        if by is PromisedBy.CLASS:
            key = place.region, _class_of(place, classes)
        else:
            key = tuple(getattr(place, name) for name in LABELS[by])
        groups.setdefault(key, []).append(place)
    return groups


def _class_of(place: Place, classes: Mapping[PoolKey, str]) -> str | None:
    if place.cluster:
        return classes.get((place.cluster, place.pool))
    # The node does not know its cluster: the pool's name will do where only one cluster has it.
    its = {name for (_, pool), name in classes.items() if pool == place.pool}
    return its.pop() if len(its) == 1 else None


def _sum(*selectors: str) -> str:
    """The sum of what is recorded of places, each once: two Prometheuses that record the same may be read as one."""
    return f"sum(max by ({', '.join(names(Place))}) ({' or '.join(selectors)}))"


def _of(metric: Metric, group: Sequence[Place], more: str = "") -> str:
    """The sum of a metric over the places of a row, as a series without labels."""
    labels = ("region", "cluster", "pool", "volume_type")
    matchers = ((*(equal(name, getattr(place, name)) for name in labels), more) for place in group)
    return _sum(*(selector(metrics.POOL_SUM[metric], *each_) for each_ in matchers))


def _of_pools(metric: Metric, group: Sequence[Place]) -> str:
    """The same of whole pools, with a selector for each cluster: many of them take long at each moment of a month."""
    pools: dict[tuple[str, str], list[str]] = {}
    for region, cluster, pool in sorted({(place.region, place.cluster, place.pool) for place in group}):
        pools.setdefault((region, cluster), []).append(pool)
    selectors = (
        selector(metrics.POOL_SUM[metric], equal("region", region), equal("cluster", cluster), any_of("pool", its))
        for (region, cluster), its in pools.items()
    )
    return _sum(*selectors)


def _by_row(parts: Iterable[tuple[int, str]]) -> str:
    """One query of all rows."""
    return "\nor\n".join(f'label_replace({expr}, "{_ROW}", "{number}", "", "")' for number, expr in parts)


def row_questions(groups: Groups, by: PromisedBy, window: int) -> dict[str, str]:
    """The sums of now and of the time, a series a row."""
    pairs = [*enumerate(groups.items())]
    queries = {
        name: _by_row((n, _of(metric, group)) for n, (_, group) in pairs)
        for name, metric in (("disks", metrics.POOL_DISKS), ("disks_unknown", metrics.POOL_DISKS_UNKNOWN))
    }
    for unit in UNITS:
        only = f'unit="{unit}"'
        queries[f"unlimited_{unit}"] = _by_row(
            (n, _of(metrics.POOL_DISKS_UNLIMITED, group, only)) for n, (_, group) in pairs
        )
        queries[f"promised_{unit}"] = _by_row((n, _of(metrics.POOL_PROMISED[unit], group)) for n, (_, group) in pairs)
        usage = [(n, _usage(by, key, group, unit)) for n, (key, group) in pairs]
        shares = [(n, _share(by, key, group, unit)) for n, (key, group) in pairs]
        queries[f"most_{unit}"] = _by_row((n, f"max_over_time({_over(by, expr, window)})") for n, expr in usage)
        queries[f"use_{unit}"] = _by_row((n, f"max_over_time({_over(by, expr, window)})") for n, expr in shares)
        # timestamp() of a selector alone takes a second for a thousand steps (Prometheus 2.42); no value is below 0.
        queries[f"since_{unit}"] = _by_row(
            (n, f"min_over_time(timestamp({expr} >= 0)[{window}s:600s])") for n, expr in usage
        )
    return queries


def hour_questions(groups: Groups, by: PromisedBy, answers: Answers, window: int) -> dict[str, str]:
    """The end of the latest hour in which the most was taken: to look at each moment of a month takes a minute."""
    queries = {}
    for unit in UNITS:
        parts = []
        for n, expr, most in _with_most(groups, by, answers, unit):
            moment = f"timestamp(max_over_time({_over(by, expr, 3600)}) >= {most!r})"
            parts.append((n, f"({moment} or max_over_time({moment}[{window}s:3600s]))"))
        if parts:
            queries[unit] = _by_row(parts)
    return queries


def peak_questions(groups: Groups, by: PromisedBy, answers: Answers, hours: Answers, now: float) -> dict[str, str]:
    """When in that hour it was."""
    queries = {}
    for unit, answer in hours.items():
        ends = _values(answer)
        parts = [
            (n, f"max_over_time(timestamp({expr} >= {most!r})[3600s:{_FINE}s]{_offset(now - ends[n])})")
            for n, expr, most in _with_most(groups, by, answers, unit)
            if n in ends
        ]
        if parts:
            queries[unit] = _by_row(parts)
    return queries


def _with_most(groups: Groups, by: PromisedBy, answers: Answers, unit: str) -> Iterator[tuple[int, str, float]]:
    """The rows from which something was taken: their number, what they took, and the most of it."""
    most = _values(answers[f"most_{unit}"])
    for n, (key, group) in enumerate(groups.items()):
        if most.get(n):
            yield n, _usage(by, key, group, unit), most[n]


def _offset(seconds: float) -> str:
    """Prometheus refuses one of zero."""
    return f" offset {round(seconds)}s" if round(seconds) > 0 else ""


def _usage(by: PromisedBy, key: Sequence[str | None], group: Sequence[Place], unit: str) -> str:
    return (
        _of_pools(metrics.POOL_AVERAGE[unit], group)
        if by is PromisedBy.CLASS
        else _rule_sum(by, key, metrics.TAKEN, unit)
    )


def _share(by: PromisedBy, key: Sequence[str | None], group: Sequence[Place], unit: str) -> str:
    if by is PromisedBy.CLASS:
        usage, promises = (_of_pools(of[unit], group) for of in (metrics.POOL_AVERAGE, metrics.POOL_PROMISED))
        return f"{usage} / ({promises} > 0)"
    return _rule_sum(by, key, metrics.USED, unit)


def _rule_sum(by: PromisedBy, key: Sequence[str | None], of: Mapping[str, Mapping[str, str]], unit: str) -> str:
    """The one series that a rule makes of the row."""
    level = "volume_type" if by is PromisedBy.TYPE else "pool"
    return selector(of[level][unit], *(equal(name, value or "") for name, value in zip(LABELS[by], key, strict=True)))


def _over(by: PromisedBy, expr: str, seconds: int) -> str:
    """All of its values in that time; no rule knows the class of a pool."""
    return f"({expr})[{seconds}s:{_STEP}s]" if by is PromisedBy.CLASS else f"{expr}[{seconds}s]"


def latency_questions(groups: Groups, by: PromisedBy, peaks: Answers, now: float) -> dict[str, str]:
    """p99 of the probes within half an hour of each peak."""
    queries = {}
    for unit, answer in peaks.items():
        at = _values(answer)
        parts = [
            (n, f"({quantile(0.99, '(le)', _increase(group, by, at[n], now))} >= 0)")
            for n, group in enumerate(groups.values())
            if n in at
        ]
        if parts:
            queries[unit] = _by_row(parts)
    return queries


def _increase(group: Sequence[Place], by: PromisedBy, at: float, now: float) -> str:
    """What the histograms of a row's probes counted in the hour around a time."""
    over, back = f"{2 * _NEAR}s", _offset(now - min(at + _NEAR, now))
    parts = []
    for place in group:
        region, pool = equal("region", place.region), equal("pool", place.pool)
        buckets = selector(_BUCKETS, region, equal("volume_type", place.volume_type), over=over)
        grew = each(f"increase({buckets}{back})", "", *_BUCKETS.labels)
        if by is not PromisedBy.TYPE:
            # Only guests with a disk there: histograms have no label of a pool.
            targets = selector(metrics.PROBE_INFO, region, pool, over=over) + back
            disks = selector(metrics.DISK_INFO, region, pool, equal("cluster", place.cluster), over=over) + back
            both = f"last_over_time({targets}) and on (region, instance, uuid) last_over_time({disks})"
            guests = f"group by (region, instance, uuid) ({both})"
            grew = f"{grew} and on (region, instance, uuid) {guests}"
        parts.append(f"({grew})")
    return " or ".join(dict.fromkeys(parts))


def rows(groups: Groups, by: PromisedBy, answers: Answers, peaks: Answers, latencies: Answers) -> list[PromiseRow]:
    """The rows, the highest ratio first; both units of one stay together."""
    pairs: list[list[PromiseRow]] = []
    values = {name: _values(answer) for name, answer in answers.items()}
    for n, key in enumerate(groups):
        of = {name: here[n] for name, here in values.items() if n in here}
        disks, unknown = round(of.get("disks", 0)), round(of.get("disks_unknown", 0))
        pair = []
        for unit in UNITS:
            no_limit = round(of.get(f"unlimited_{unit}", 0))
            bound = disks > no_limit + unknown
            pair.append(
                PromiseRow(
                    labels=dict(zip(LABELS[by], key, strict=True)),
                    unit=unit,
                    disks=disks,
                    unlimited=no_limit,
                    unknown=unknown,
                    promised=of.get(f"promised_{unit}") if bound else None,
                    most=of.get(f"most_{unit}"),
                    most_at=_values(peaks.get(unit, ())).get(n),
                    use=of.get(f"use_{unit}") if bound else None,
                    p99=_values(latencies.get(unit, ())).get(n),
                    since=of.get(f"since_{unit}"),
                )
            )
        pairs.append(pair)
    pairs.sort(key=lambda pair: max(row.ratio or 0.0 for row in pair), reverse=True)
    return [row for pair in pairs for row in pair]


def _values(answer: Iterable[Series]) -> dict[int, float]:
    """By the number of the row."""
    return {int(label(series, _ROW)): series.known for series in answer if series.known is not None}
