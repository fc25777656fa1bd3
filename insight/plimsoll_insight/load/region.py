"""Who makes a region's load: the queries for its Prometheus, and sums and shares from the answers.

Prometheus adds up each disk's averages over the time and answers with the few highest, not with every disk; names are
asked of those only. A sample stands for the time between two of its node's, as nodes may be scraped at different
rates. What all disks did together is read from each node's own sums, so that shares are shares of everything, also
where nodes have no metrics of single disks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.metrics import Metric
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.load.tally import DIRECTIONS, Did, share_of
from plimsoll_monitoring.promql import SeriesSelection, any_of, apart, each, fresh, increase, quote, step_of
from plimsoll_monitoring.region import status as fleet_status
from plimsoll_monitoring.region.answers import Answers, Ask, NodeKey, Series, key_of, label
from plimsoll_monitoring.region.disks import several_volumes, without_disks

UNITS: Mapping[str, str] = {"requests": "operations", "bytes": "bytes"}
"""What a disk did, and the word for it in names of metrics."""
_FRESH = 0.9
"""Of the time: a node whose metrics are of its present passes for less of it is not counted, as what stands still in
the rest is not what its disks did."""
_PASSES = metrics.PASS_LAST_TIMESTAMP_SECONDS


class LoadBy(StrEnum):
    """What is summed up."""

    VOLUME = "volume"
    GUEST = "guest"
    PROJECT = "project"
    TYPE = "type"


LABELS: Mapping[LoadBy, tuple[str, ...]] = {
    LoadBy.VOLUME: ("uuid", "target_device"),
    LoadBy.GUEST: ("uuid",),
    LoadBy.PROJECT: ("project",),
    LoadBy.TYPE: ("volume_type",),
}
_FACTS: Mapping[LoadBy, Sequence[tuple[str, str, tuple[str, ...]]]] = {
    LoadBy.VOLUME: (
        (metrics.DISK_INFO, "uuid, target_device", ("domain", "volume", "volume_type", "project")),
        (metrics.GUEST_INFO, "uuid", ("server", "project_name")),
    ),
    LoadBy.GUEST: ((metrics.GUEST_INFO, "uuid", ("domain", "server", "project", "project_name")),),
    LoadBy.PROJECT: ((metrics.GUEST_INFO, "project", ("project_name",)),),
    LoadBy.TYPE: (),
}
"""Metrics with names of a row: the labels that they have in common with it, and those that are taken."""
_OF_VOLUME = ("volume", "volume_type")

Key = tuple[str, ...]


@frozen(kw_only=True)
class LoadRow:
    """One volume, guest, project or type, by its labels, and what it did; tenants may have chosen names."""

    region: str
    labels: Mapping[str, str] = field(hash=False)
    did: Did = field(hash=False)
    several_volumes: bool = False
    """Its target had several in the time: what is of one of them is in no label."""
    stall_lines: int | None = None
    """Lines about stalls on the guest's console in the time; None where it is not read."""
    stalled: float | None = None
    """When a guest of the project stalled last in the time (seconds since 1970)."""

    def largest(self, whole: Did) -> float:
        """The largest of its shares."""
        return max(share_of(self.did, whole, what, side) or 0.0 for what in UNITS for side in DIRECTIONS)


@frozen(kw_only=True)
class RegionLoad:
    """What a region's disks did, and the rows with the largest shares of it, the largest first."""

    region: str
    whole: Did = field(hash=False)
    rows: tuple[LoadRow, ...]
    number: int
    """Of all volumes, guests, projects or types that were there in the time."""
    stalled_projects: int


def first_questions(selection: SeriesSelection, seconds: int) -> dict[str, str]:
    nodes = selection.matchers()
    general = fleet_status.node_questions(nodes)
    there = f"max by (region, instance) (last_over_time({_PASSES}{nodes}[{seconds}s]))"
    present = f"avg_over_time((\n  {fresh(nodes)}\n)[{seconds}s:{step_of(seconds)}s])"
    return {
        "last_pass": general["last_pass"],
        # Also those that were there in a longer time.
        "seen": f"{general['seen']} or {there}",
        "aggregates": without_disks(nodes),
        "stale": f"{each(_PASSES, nodes)} unless on (region, instance) ({present} >= {_FRESH})",
    }


def regions(answers: Answers) -> list[str]:
    return sorted({label(series, "region") for series in answers["last_pass"]})


def stale(answers: Answers) -> list[NodeKey]:
    return sorted({key_of(series) for series in answers["stale"]})


def of_region(
    ask: Ask,
    region: str,
    nodes: Sequence[str],
    leave_out: Collection[NodeKey],
    by: LoadBy,
    seconds: int,
    top: int,
) -> RegionLoad:
    """The rows that are among the ``top`` in requests or bytes, read or written. Raises ``PlimsollError``."""
    out = sorted(re.escape(instance) for its, instance in leave_out if its == region)
    without = f"instance!~{quote('|'.join(out))}" if out else ""
    selection = SeriesSelection(region=region, nodes=tuple(nodes))
    matchers = selection.matchers(without)
    over = _Over(matchers, seconds)
    whole = {what: ask(f"sum by (direction) ({_of_nodes(unit, matchers, over)})") for what, unit in UNITS.items()}
    answers = {what: ask(_highest(by, unit, matchers, over, top)) for what, unit in UNITS.items()}
    keys = sorted({_key(by, series) for answer in answers.values() for series in answer})
    facts: dict[Key, dict[str, str]] = {}
    several: set[Key] = set()
    stalls: dict[Key, float] = {}
    if by in (LoadBy.VOLUME, LoadBy.GUEST) and keys:
        few = selection.matchers(without, any_of("uuid", sorted({key[0] for key in keys})))
        answers = {what: ask(_sums(by, unit, few, over)) for what, unit in UNITS.items()}
        lines = increase(metrics.GUEST_STALL_LINES_TOTAL, few, f"{seconds}s")
        stalls = {(label(series, "uuid"),): series.value for series in ask(f"sum by (uuid) ({lines})")}
        facts = _facts(ask, by, few, seconds)
        if by is LoadBy.VOLUME:
            several = {_key(by, series) for series in ask(several_volumes(few, seconds))}
            for key in several & facts.keys():
                facts[key] |= dict.fromkeys(_OF_VOLUME, "")
    elif by is LoadBy.PROJECT:
        facts = _facts(ask, by, matchers, seconds)
    last = f"max by (project) ({metrics.PROJECT_STALLED_TIMESTAMP_SECONDS}{matchers}) >= time() - {seconds}"
    last_stalls = {label(series, "project"): series.value for series in ask(last)}
    did = _did(by, answers)
    total = _did(None, whole).get((), Did())
    rows = []
    for key in keys:
        labels = dict(zip(LABELS[by], key, strict=True))
        lines_of = stalls.get(key[:1]) if by in (LoadBy.VOLUME, LoadBy.GUEST) else None
        rows.append(
            LoadRow(
                region=region,
                labels={**facts.get(key, {}), **labels},
                did=did.get(key, Did()),
                several_volumes=key in several,
                stall_lines=None if lines_of is None else round(lines_of),
                stalled=last_stalls.get(key[0]) if by is LoadBy.PROJECT and key[0] else None,
            )
        )
    rows.sort(key=lambda row: -row.largest(total))
    return RegionLoad(
        region=region,
        whole=total,
        rows=tuple(rows),
        number=_number(ask, by, over, rows),
        stalled_projects=len(last_stalls),
    )


@frozen
class _Over:
    """Some time of the nodes that match."""

    matchers: str
    seconds: int

    def sum(self, rate: Metric, matchers: str) -> str:
        """What was done, by a metric of what was done in a second."""
        each_apart = apart(f"{_PASSES}{self.matchers}", self.seconds)
        products = (
            f"\n  sum_over_time({rate}{matchers}[{self.seconds}s])\n"
            f"  * on (region, instance, job) group_left () max by (region, instance, job) ({each_apart})\n"
        )
        return each(products, "", *rate.labels)


def _of_nodes(unit: str, matchers: str, over: _Over) -> str:
    """What each node's disks of a type did together."""
    return over.sum(metrics.AVERAGE[unit], matchers)


def _sums(by: LoadBy, unit: str, matchers: str, over: _Over) -> str:
    """What each row did."""
    labels = f"{', '.join(LABELS[by])}, direction"
    if by is LoadBy.TYPE:
        return f"sum by ({labels}) ({_of_nodes(unit, matchers, over)})"
    disks = over.sum(metrics.DISK_AVERAGE[unit], matchers)
    if by is not LoadBy.PROJECT:
        return f"sum by ({labels}) ({disks})"
    info = f"max by (uuid, project) (last_over_time({metrics.GUEST_INFO}{matchers}[{over.seconds}s]))"
    return (
        f"sum by ({labels}) (\n  sum by (uuid, direction) ({disks})\n"
        f"  * on (uuid) group_left (project) topk by (uuid) (1, {info})\n)"
    )


def _highest(by: LoadBy, unit: str, matchers: str, over: _Over, top: int) -> str:
    """The highest of each direction; all types and projects, which are few."""
    sums = _sums(by, unit, matchers, over)
    return f"topk by (direction) ({top}, {sums})" if by in (LoadBy.VOLUME, LoadBy.GUEST) else sums


def _facts(ask: Ask, by: LoadBy, matchers: str, seconds: int) -> dict[Key, dict[str, str]]:
    """The names of now, else the last ones; of a project with several names any."""
    by_key: dict[Key, dict[str, str]] = {}
    of_guest: dict[str, dict[str, str]] = {}
    for metric, common, names in _FACTS[by]:
        labels = f"{common}, {', '.join(names)}"
        now = f"max by ({labels}) ({metric}{matchers})"
        last = f"max by ({labels}) (last_over_time({metric}{matchers}[{seconds}s]))"
        for series in ask(f"{now} or on ({common}) {last}"):
            values = {name: label(series, name) for name in names}
            if by is LoadBy.VOLUME and common == "uuid":
                of_guest[label(series, "uuid")] = values
            else:
                key = _key(by, series)
                if any(values.values()) or key not in by_key:  # Nova keeps no name for some guests of a project
                    by_key[key] = values
    return {key: {**of_guest.get(key[0], {}), **values} for key, values in by_key.items()}


def _number(ask: Ask, by: LoadBy, over: _Over, rows: Sequence[LoadRow]) -> int:
    if by in (LoadBy.TYPE, LoadBy.PROJECT):
        return len(rows)
    metric = metrics.DISK_INFO if by is LoadBy.VOLUME else metrics.GUEST_INFO
    there = f"last_over_time({metric}{over.matchers}[{over.seconds}s])"
    return round(_only(ask(f"count(group by ({', '.join(LABELS[by])}) ({there}))")))


def _did(by: LoadBy | None, answers: Mapping[str, Iterable[Series]]) -> dict[Key, Did]:
    by_key: dict[Key, Did] = {}
    for what, answer in answers.items():
        for series in answer:
            did = by_key.setdefault(() if by is None else _key(by, series), Did())
            counts: Counter[str] = getattr(did, what)
            counts[label(series, "direction")] += round(series.known or 0.0)
    return by_key


def _key(by: LoadBy, series: Series) -> Key:
    return tuple(label(series, name) for name in LABELS[by])


def _only(answer: Sequence[Series]) -> float:
    return answer[0].known or 0.0 if answer else 0.0
