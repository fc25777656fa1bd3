"""What disks are promised, and the most that guests took: the queries for Prometheus, and rows from its answers.

Queries are over what ``plimsoll-rules.yaml`` records by pool and volume type, so that a month of a region is a few
series. A peak is the highest sum of averages between two passes; its latency is that of probes within half an hour of
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.fleet.device_classes import PoolKey
from plimsoll_agent.fleet.promql import Answers, NodeKey, Selection, Series, each, key_of, label
from plimsoll_agent.monitor.promql import any_of, quoted
from plimsoll_agent.util.frozen import frozen


class By(StrEnum):
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
LABELS: Mapping[By, tuple[str, ...]] = {
    By.TYPE: ("region", "volume_type"),
    By.POOL: ("region", "cluster", "pool"),
    By.CLASS: ("region", "class"),
}
UNITS = ("operations", "bytes")
_STEP = 60
"""Seconds between the moments at which sums by class are made; passes are no closer."""
_FINE = 15
_NEAR = 1800
"""Seconds: how far from the peak a probe may be."""
_SUM = "pool_volume_type:plimsoll_pool_{}:sum"
_BUCKETS = "plimsoll_probe_latency_seconds_bucket"
_OBSERVED = "plimsoll_pass_observed_timestamp_seconds"
_ROW = "row"
"""A label that tells parts of one query apart."""


@frozen
class Place:
    """A volume type in a pool, in a region; no label of it is trusted."""

    region: str
    cluster: str
    pool: str
    volume_type: str


@frozen
class Row:
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


def first_questions(selection: Selection, window: int) -> dict[str, str]:
    """Which places there are or were, and which nodes are in no sum."""
    nodes = selection.matchers()
    of_place = "region, cluster, pool, volume_type"
    fresh = f"{each('plimsoll_pool_disks', nodes)} and on (region, instance) time() - {each(_OBSERVED, nodes)} < 3600"
    return {
        "nodes": each("plimsoll_pass_last_timestamp_seconds", nodes),
        "left_out": f"{each('plimsoll_disks', nodes)} > 0 unless on (region, instance) ({fresh})",
        "places": f"group by ({of_place}) (last_over_time({_sum('disks', nodes)}[{window}s]))",
    }


def places(answers: Answers) -> list[Place]:
    names = ("region", "cluster", "pool", "volume_type")
    return sorted(
        (Place(*(label(series, name) for name in names)) for series in answers["places"]),
        key=lambda place: (place.region, place.cluster, place.pool, place.volume_type),
    )


def left_out(answers: Answers) -> list[NodeKey]:
    """Nodes with disks that are in no sum: not observed for an hour, or of an earlier version."""
    return sorted({key_of(series) for series in answers["left_out"]})


Groups = Mapping[tuple[str | None, ...], Sequence[Place]]
"""The places of each row, by the values of its labels."""


def grouped(there: Iterable[Place], by: By, classes: Mapping[PoolKey, str]) -> Groups:
    groups: dict[tuple[str | None, ...], list[Place]] = {}
    for place in there:
        key: tuple[str | None, ...]
        if by is By.CLASS:
            key = place.region, _class_of(place, classes)
        else:
            key = tuple(getattr(place, name) for name in LABELS[by])
        groups.setdefault(key, []).append(place)
    return groups


def _class_of(place: Place, classes: Mapping[PoolKey, str]) -> str | None:
    if place.cluster:
        return classes.get((place.cluster, place.pool))
    # The node does not know its cluster: the pool's name will do where only one cluster has it.
    found = {name for (_, pool), name in classes.items() if pool == place.pool}
    return found.pop() if len(found) == 1 else None


def _sum(what: str, matchers: str) -> str:
    return f"{_SUM.format(what)}{matchers}"


def _of(what: str, group: Sequence[Place], more: str = "") -> str:
    """The sum of a metric over the places of a row, as a series without labels."""
    return f"sum({' or '.join(_sum(what, matchers) for matchers in _matchers(group, more))})"


def _of_pools(what: str, group: Sequence[Place]) -> str:
    """The same of whole pools, with a selector for each cluster: many of them take long at each moment of a month."""
    pools: dict[tuple[str, str], list[str]] = {}
    for place in group:
        pools.setdefault((place.region, place.cluster), []).append(place.pool)
    selectors = (
        _sum(what, f"{{region={quoted(region)},cluster={quoted(cluster)},{any_of('pool', sorted({*names}))}}}")
        for (region, cluster), names in pools.items()
    )
    return f"sum({' or '.join(selectors)})"


def _matchers(group: Sequence[Place], more: str = "") -> Iterator[str]:
    for place in group:
        named = ("region", "cluster", "pool", "volume_type")
        each_ = [f"{name}={quoted(getattr(place, name))}" for name in named]
        yield "{" + ",".join([*each_, *([more] if more else [])]) + "}"


def _by_row(parts: Iterable[tuple[int, str]]) -> str:
    """One query of all rows."""
    return "\nor\n".join(f'label_replace({expr}, "{_ROW}", "{number}", "", "")' for number, expr in parts)


def row_questions(groups: Groups, by: By, window: int) -> dict[str, str]:
    """The sums of now and of the time, a series a row."""
    numbered = [*enumerate(groups.items())]
    asked = {
        name: _by_row((n, _of(name, group)) for n, (_, group) in numbered) for name in ("disks", "disks_unknown")
    }
    for unit in UNITS:
        only = f'unit="{unit}"'
        asked[f"unlimited_{unit}"] = _by_row((n, _of("disks_unlimited", group, only)) for n, (_, group) in numbered)
        asked[f"promised_{unit}"] = _by_row(
            (n, _of(f"promised_{unit}_per_second", group)) for n, (_, group) in numbered
        )
        taken = [(n, _taken(by, key, group, unit)) for n, (key, group) in numbered]
        used = [(n, _used(by, key, group, unit)) for n, (key, group) in numbered]
        asked[f"most_{unit}"] = _by_row((n, f"max_over_time({_over(by, expr, window)})") for n, expr in taken)
        asked[f"use_{unit}"] = _by_row((n, f"max_over_time({_over(by, expr, window)})") for n, expr in used)
        # timestamp() of a selector alone takes a second for a thousand steps (Prometheus 2.42); no value is below 0.
        asked[f"since_{unit}"] = _by_row(
            (n, f"min_over_time(timestamp({expr} >= 0)[{window}s:600s])") for n, expr in taken
        )
    return asked


def hour_questions(groups: Groups, by: By, answers: Answers, window: int) -> dict[str, str]:
    """The end of the latest hour in which the most was taken: to look at each moment of a month takes a minute."""
    asked = {}
    for unit in UNITS:
        parts = []
        for n, expr, most in _with_most(groups, by, answers, unit):
            found = f"timestamp(max_over_time({_over(by, expr, 3600)}) >= {most!r})"
            parts.append((n, f"({found} or max_over_time({found}[{window}s:3600s]))"))
        if parts:
            asked[unit] = _by_row(parts)
    return asked


def peak_questions(groups: Groups, by: By, answers: Answers, hours: Answers, now: float) -> dict[str, str]:
    """When in that hour it was."""
    asked = {}
    for unit, answer in hours.items():
        ends = _values(answer)
        parts = [
            (n, f"max_over_time(timestamp({expr} >= {most!r})[3600s:{_FINE}s]{_offset(now - ends[n])})")
            for n, expr, most in _with_most(groups, by, answers, unit)
            if n in ends
        ]
        if parts:
            asked[unit] = _by_row(parts)
    return asked


def _with_most(groups: Groups, by: By, answers: Answers, unit: str) -> Iterator[tuple[int, str, float]]:
    """The rows from which something was taken: their number, what they took, and the most of it."""
    most = _values(answers[f"most_{unit}"])
    for n, (key, group) in enumerate(groups.items()):
        if most.get(n):
            yield n, _taken(by, key, group, unit), most[n]


def _offset(seconds: float) -> str:
    """Prometheus refuses one of zero."""
    return f" offset {round(seconds)}s" if round(seconds) > 0 else ""


def _taken(by: By, key: Sequence[str | None], group: Sequence[Place], unit: str) -> str:
    what = f"average_{unit}_per_second"
    return _of_pools(what, group) if by is By.CLASS else _recorded(by, key, f"{what}:sum")


def _used(by: By, key: Sequence[str | None], group: Sequence[Place], unit: str) -> str:
    if by is By.CLASS:
        taken, promised = (_of_pools(f"{what}_{unit}_per_second", group) for what in ("average", "promised"))
        return f"{taken} / ({promised} > 0)"
    return _recorded(by, key, f"used_{unit}:ratio")


def _recorded(by: By, key: Sequence[str | None], what: str) -> str:
    """The one series that a rule makes of the row."""
    level = "volume_type" if by is By.TYPE else "pool"
    named = ",".join(f"{name}={quoted(value or '')}" for name, value in zip(LABELS[by], key, strict=True))
    return f"{level}:plimsoll_pool_{what}{{{named}}}"


def _over(by: By, expr: str, seconds: int) -> str:
    """All of its values in that time; no rule knows the class of a pool."""
    return f"({expr})[{seconds}s:{_STEP}s]" if by is By.CLASS else f"{expr}[{seconds}s]"


def latency_questions(groups: Groups, by: By, peaks: Answers, now: float) -> dict[str, str]:
    """p99 of the probes within half an hour of each peak."""
    asked = {}
    for unit, answer in peaks.items():
        at = _values(answer)
        parts = [
            (n, f"(histogram_quantile(0.99, sum by (le) ({_increased(group, by, at[n], now)})) >= 0)")
            for n, group in enumerate(groups.values())
            if n in at
        ]
        if parts:
            asked[unit] = _by_row(parts)
    return asked


def _increased(group: Sequence[Place], by: By, at: float, now: float) -> str:
    """What the histograms of a row's probes counted in the hour around a time."""
    over = f"[{2 * _NEAR}s]{_offset(now - min(at + _NEAR, now))}"
    parts = []
    for place in group:
        of = f"region={quoted(place.region)},volume_type={quoted(place.volume_type)}"
        grew = f"max without (job) (increase({_BUCKETS}{{{of}}}{over}))"
        if by is not By.TYPE:
            # Only guests with a disk there: histograms have no label of a pool.
            there = f"region={quoted(place.region)},pool={quoted(place.pool)}"
            cluster = f",cluster={quoted(place.cluster)}"
            probed = f"last_over_time(plimsoll_probe_info{{{there}}}{over})"
            disks = f"last_over_time(plimsoll_disk_info{{{there}{cluster}}}{over})"
            guests = f"group by (region, instance, uuid) ({probed} and on (region, instance, uuid) {disks})"
            grew = f"{grew} and on (region, instance, uuid) {guests}"
        parts.append(f"({grew})")
    return " or ".join(dict.fromkeys(parts))


def rows(groups: Groups, by: By, answers: Answers, peaks: Answers, latencies: Answers) -> list[Row]:
    """The rows, the highest ratio first; both units of one stay together."""
    found: list[list[Row]] = []
    values = {name: _values(answer) for name, answer in answers.items()}
    for n, key in enumerate(groups):
        of = {name: here[n] for name, here in values.items() if n in here}
        disks, unknown = round(of.get("disks", 0)), round(of.get("disks_unknown", 0))
        pair = []
        for unit in UNITS:
            unlimited = round(of.get(f"unlimited_{unit}", 0))
            bound = disks > unlimited + unknown
            pair.append(
                Row(
                    labels=dict(zip(LABELS[by], key, strict=True)),
                    unit=unit,
                    disks=disks,
                    unlimited=unlimited,
                    unknown=unknown,
                    promised=of.get(f"promised_{unit}") if bound else None,
                    most=of.get(f"most_{unit}"),
                    most_at=_values(peaks.get(unit, ())).get(n),
                    use=of.get(f"use_{unit}") if bound else None,
                    p99=_values(latencies.get(unit, ())).get(n),
                    since=of.get(f"since_{unit}"),
                )
            )
        found.append(pair)
    found.sort(key=lambda pair: max(row.ratio or 0.0 for row in pair), reverse=True)
    return [row for pair in found for row in pair]


def _values(answer: Iterable[Series]) -> dict[int, float]:
    """By the number of the row."""
    return {int(label(series, _ROW)): series.known for series in answer if series.known is not None}
