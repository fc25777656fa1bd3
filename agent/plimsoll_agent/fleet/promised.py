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
from plimsoll_agent.fleet.promql import Answers, NodeKey, Selection, Series, each, key_of, label, quoted
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
"""Seconds between the moments that are looked at; passes are no closer."""
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


def _matchers(group: Sequence[Place], more: str = "") -> Iterator[str]:
    for place in group:
        named = ("region", "cluster", "pool", "volume_type")
        each_ = [f"{name}={quoted(getattr(place, name))}" for name in named]
        yield "{" + ",".join([*each_, *([more] if more else [])]) + "}"


def _by_row(parts: Iterable[tuple[int, str]]) -> str:
    """One query of all rows."""
    return "\nor\n".join(f'label_replace({expr}, "{_ROW}", "{number}", "", "")' for number, expr in parts)


def row_questions(groups: Groups, window: int) -> dict[str, str]:
    """The sums of now and of the time, a series a row; for ``number_of``."""
    numbered = [*enumerate(groups.values())]
    over = f"[{window}s:{_STEP}s]"
    asked = {name: _by_row((n, _of(name, group)) for n, group in numbered) for name in ("disks", "disks_unknown")}
    for unit in UNITS:
        taken, promised = f"average_{unit}_per_second", f"promised_{unit}_per_second"
        only = f'unit="{unit}"'
        asked[f"unlimited_{unit}"] = _by_row((n, _of("disks_unlimited", group, only)) for n, group in numbered)
        asked[f"promised_{unit}"] = _by_row((n, _of(promised, group)) for n, group in numbered)
        asked[f"most_{unit}"] = _by_row((n, f"max_over_time(({_of(taken, group)}){over})") for n, group in numbered)
        asked[f"use_{unit}"] = _by_row(
            (n, f"max_over_time(({_of(taken, group)} / ({_of(promised, group)} > 0)){over})") for n, group in numbered
        )
        asked[f"since_{unit}"] = _by_row(
            (n, f"min_over_time(timestamp({_of(taken, group)})[{window}s:600s])") for n, group in numbered
        )
    return asked


def peak_questions(groups: Groups, answers: Answers, window: int) -> dict[str, str]:
    """When the most was taken."""
    asked = {}
    for unit in UNITS:
        most = _values(answers[f"most_{unit}"])
        parts = [
            (n, f"max_over_time(timestamp({_of(f'average_{unit}_per_second', group)} >= {most[n]!r})"
                f"[{window}s:{_STEP}s])")
            for n, group in enumerate(groups.values())
            if most.get(n)
        ]  # fmt: skip
        if parts:
            asked[unit] = _by_row(parts)
    return asked


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
    ago = round(now - min(at + _NEAR, now))
    over = f"[{2 * _NEAR}s]" + (f" offset {ago}s" if ago else "")
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
