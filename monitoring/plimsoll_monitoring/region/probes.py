"""The probes of the region: late ones, broken promises, and percentiles from merged buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.metrics import Metric
from plimsoll_agent.util.frozen import frozen
from plimsoll_monitoring.promql import SeriesSelection, each, increase, label_list, quantile
from plimsoll_monitoring.region.answers import Answers, NodeKey, Series, key_of, label
from plimsoll_probes.model.finding import BROKEN, GOOD

FAILED = "failed"
QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
WINDOW = "1d"
_DUE_TWICE = 2
_GUEST = ("uuid", "domain", "directory")
_BOOT = "node_boot_time_seconds"
"""node_exporter's."""
_MOMENTS = ("probe_last", "probe_every", "probe_chosen", "probe_postponed")
_BUCKETS = metrics.PROBE_LATENCY_SECONDS_BUCKET
_RUNS = metrics.PROBE_RUNS_TOTAL
_INFO = metrics.PROBE_INFO


class ProbesBy(StrEnum):
    """What results are summed by."""

    TYPE = "type"
    PROJECT = "project"
    NODE = "node"
    GUEST = "guest"


LABELS: Mapping[ProbesBy, tuple[str, ...]] = {
    ProbesBy.TYPE: ("region", "volume_type"),
    ProbesBy.PROJECT: ("region", "project"),
    ProbesBy.NODE: ("region", "instance"),
    ProbesBy.GUEST: ("region", "instance", "uuid", "domain"),
}
Group = tuple[str | None, ...]
"""The values of a row's labels; None is unknown."""
_TargetKey = tuple[NodeKey, str, str, str]


def probe_questions(matchers: str) -> dict[str, str]:
    """Queries for when each guest was probed, is due and was postponed, and for the newest verdicts."""
    return {
        "probe_last": each(metrics.PROBE_LAST_TIMESTAMP_SECONDS, matchers, *_GUEST),
        "probe_every": each(metrics.PROBE_INTERVAL_SECONDS, matchers, *_GUEST),
        "probe_chosen": each(metrics.PROBE_CHOSEN_TIMESTAMP_SECONDS, matchers, *_GUEST),
        "probe_postponed": each(metrics.PROBE_POSTPONED_TIMESTAMP_SECONDS, matchers, *_GUEST, "why"),
        "probe_verdicts": each(metrics.PROBE_VERDICT, matchers, *_GUEST, "probe", "verdict"),
        "boot": each(_BOOT, matchers),
    }


def questions(selection: SeriesSelection, by: ProbesBy, window: str = WINDOW) -> dict[str, str]:
    """The queries of ``plimsoll region probes``: PromQL by name."""
    labels = LABELS[by]
    queries = {
        **probe_questions(selection.matchers()),
        "known": each(_INFO, selection.matchers(types=True, projects=True), *_GUEST, "project", "volume_type"),
        # Prometheus extrapolates: of each counter whole runs, so that all sums agree.
        "runs": f"sum by {label_list(*labels, 'verdict')} (round({_increase(_RUNS, selection, by, window)}))",
        "aggregates": f"{each(_RUNS, selection.matchers())} unless on (region, instance) {_INFO}",
    }
    for name, share in QUANTILES.items():
        queries[name] = quantile(share, label_list(*labels, "le"), _increase(_BUCKETS, selection, by, window))
    return queries


def _increase(metric: Metric, selection: SeriesSelection, by: ProbesBy, window: str) -> str:
    """The increase of a counter in the window, with the labels to sum it by."""
    grew = increase(metric, selection.matchers(types=True), window)
    if by is not ProbesBy.PROJECT and not selection.projects:
        return grew
    # Guests that are gone since count too. One project each, else Prometheus refuses the whole query.
    info = f"last_over_time({_INFO}{selection.matchers(projects=True)}[{window}])"
    project = f"topk by (region, instance, uuid) (1, {each('', f'({info})', 'uuid', 'project')})"
    return f"{grew} * on (region, instance, uuid) group_left (project) ({project})"


@frozen
class ProbeTarget:
    """One probed directory of a guest, by its node's metrics; times in seconds since 1970."""

    node: NodeKey
    uuid: str
    domain: str
    directory: str
    last: float | None
    every: float | None
    chosen: float | None
    postponed: float | None
    """When it was last postponed, None where a probe began since."""
    why: str | None
    verdicts: Mapping[str, str] = field(hash=False)
    """The newest verdict of each job."""
    boot: float | None = None
    """When its node started: what was missed while it was off is not made up for."""

    def late(self, now: float) -> bool:
        """Whether it was due twice and did not run."""
        moments = [moment for moment in (self.last, self.chosen, self.boot) if moment is not None]
        return self.every is not None and bool(moments) and now - max(moments) > _DUE_TWICE * self.every

    def count(self, *verdicts: str) -> int:
        """How many of its jobs have one of these verdicts."""
        return sum(verdict in verdicts for verdict in self.verdicts.values())


def probes(answers: Answers) -> tuple[ProbeTarget, ...]:
    """The probes from the answers to ``probe_questions``."""
    moments = {name: {_target_key(series): series.value for series in answers[name]} for name in _MOMENTS}
    why = {_target_key(series): label(series, "why") for series in answers["probe_postponed"]}
    verdicts: dict[_TargetKey, dict[str, str]] = defaultdict(dict)
    for series in answers["probe_verdicts"]:
        verdicts[_target_key(series)][label(series, "probe")] = label(series, "verdict")
    keys, boot = set(verdicts).union(*moments.values()), {key_of(each): each.value for each in answers["boot"]}
    return tuple(
        ProbeTarget(
            *key,
            last=moments["probe_last"].get(key),
            every=moments["probe_every"].get(key),
            chosen=moments["probe_chosen"].get(key),
            postponed=moments["probe_postponed"].get(key),
            why=why.get(key),
            verdicts=verdicts.get(key, {}),
            boot=boot.get(key[0]),
        )
        for key in sorted(keys)
    )


def _target_key(series: Series) -> _TargetKey:
    return key_of(series), label(series, "uuid"), label(series, "domain"), label(series, "directory")


@frozen
class ProbeRow:
    """The results of probes for one type, project, node or guest."""

    labels: Mapping[str, str | None] = field(hash=False)
    """None is unknown, as the type of a guest that was never probed."""
    runs: Mapping[str, float] = field(hash=False)
    """Runs in the window, by their verdict."""
    quantiles: Mapping[str, float | None] = field(hash=False)
    """Latency in seconds; None is unknown."""
    guests: int | None
    """Guests that are probed, whose newest verdict breaks a promise, that are late, that were postponed; None
    where the nodes have no metrics of single guests."""
    broken: int | None
    late: int | None
    postponed: int | None

    @property
    def kept(self) -> float | None:
        return kept_ratio(self.runs)


def rows(answers: Answers, by: ProbesBy, selection: SeriesSelection, now: float) -> list[ProbeRow]:
    """The rows from the answers to ``questions``, the worst first."""
    runs: dict[Group, dict[str, float]] = defaultdict(dict)
    for series in answers["runs"]:
        runs[_group(series, by)][label(series, "verdict")] = series.value
    quantiles = {name: {_group(series, by): series.known for series in answers[name]} for name in QUANTILES}
    members = _members(answers, by, everything=not (selection.types or selection.projects))
    has_members = any(members.values())
    return sorted(
        (
            ProbeRow(
                dict(zip(LABELS[by], group, strict=True)),
                runs.get(group, {}),
                {name: quantiles[name].get(group) for name in QUANTILES},
                *(_guests(members.get(group, ()), now) if has_members else (None,) * 4),
            )
            for group in runs.keys() | members.keys()
        ),
        key=_badness,
    )


def _members(answers: Answers, by: ProbesBy, *, everything: bool) -> dict[Group, list[ProbeTarget]]:
    """The guests of each row. Those of unknown type and project are left out unless ``everything``."""
    info = {
        _target_key(series): {name: label(series, name) for name in ("volume_type", "project")}
        for series in answers["known"]
    }
    members: dict[Group, list[ProbeTarget]] = defaultdict(list)
    for target in probes(answers):
        facts = info.get((target.node, target.uuid, target.domain, target.directory))
        if facts is not None or everything:
            region, instance = target.node
            place = {"region": region, "instance": instance, "uuid": target.uuid, "domain": target.domain}
            labels = {**place, **(facts or {})}
            members[tuple(labels.get(name) for name in LABELS[by])].append(target)
    return members


def aggregates(answers: Answers) -> set[NodeKey]:
    """The nodes without metrics of single guests."""
    return {key_of(series) for series in answers["aggregates"]}


def _group(series: Series, by: ProbesBy) -> Group:
    return tuple(label(series, name) for name in LABELS[by])


def _guests(members: Iterable[ProbeTarget], now: float) -> tuple[int, int, int, int]:
    """How many are probed, broken, late and postponed; a guest with two directories counts once."""
    # A guest that has moved is served for days by the node that it left, too.
    newest: dict[tuple[str, str, str], ProbeTarget] = {}
    for one in members:
        key = one.node[0], one.uuid, one.directory
        if key not in newest or (one.last or 0.0) > (newest[key].last or 0.0):
            newest[key] = one
    of = list(newest.values())
    return (
        len({one.uuid for one in of}),
        len({one.uuid for one in of if one.count(*BROKEN)}),
        len({one.uuid for one in of if one.late(now)}),
        len({one.uuid for one in of if one.postponed is not None}),
    )


def _badness(row: ProbeRow) -> tuple[float, int, float, list[str]]:
    share, slow = row.kept, row.quantiles["p99"]
    return (
        2.0 if share is None else share,
        -(row.broken or 0),
        -(slow or 0.0),
        [value or "" for value in row.labels.values()],
    )


def kept_ratio(runs: Mapping[str, float]) -> float | None:
    """The share of conclusive runs that kept their promise; None without any."""
    total = sum(runs.get(verdict, 0.0) for verdict in (*GOOD, *BROKEN))
    return sum(runs.get(verdict, 0.0) for verdict in GOOD) / total if total > 0 else None


def proving(runs: Mapping[str, float]) -> int:
    """How many runs were conclusive."""
    return round(sum(runs.get(verdict, 0.0) for verdict in (*GOOD, *BROKEN)))
