"""The status of the region: the queries for Prometheus, and the nodes and types from its answers.

Each node is judged by the same ranges as by ``plimsoll status`` on the node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.daemon_status import LATE, faults
from plimsoll_agent.monitor.thresholds import Level, Thresholds
from plimsoll_agent.reconcile.outcome import ACKNOWLEDGED, NEW, Kind
from plimsoll_agent.util.frozen import frozen
from plimsoll_monitoring.node.health import Figure, Judgement, judge
from plimsoll_monitoring.promql import SeriesSelection, each, increase, quantile
from plimsoll_monitoring.region import firing
from plimsoll_monitoring.region.answers import Answers, NodeKey, Series, key_of, label
from plimsoll_monitoring.region.disks import aggregates, without_disks
from plimsoll_monitoring.region.firing import Firing
from plimsoll_monitoring.region.probes import FAILED, QUANTILES, WINDOW, ProbeTarget, probe_questions, probes
from plimsoll_probes.model.finding import BROKEN

_BEHIND = (Kind.PLANNED, Kind.DEFERRED)
_PASSED = metrics.PASS_LAST_TIMESTAMP_SECONDS
_CLOCKS_DIFFER = 60.0
"""Seconds by which clocks of machines may differ."""
_SEEN = "3d:15m"
"""How long a node without metrics is listed, and the resolution."""


UNKNOWN_VERSION = "?"


def node_questions(nodes: str) -> dict[str, str]:
    """The queries for which nodes there are, and how old their metrics are."""
    return {
        "last_pass": each(_PASSED, nodes),
        # A node whose exporter is gone is missing from all other answers; a removed node drops out in time.
        "seen": f"max_over_time(max by (region, instance) (timestamp({_PASSED}{nodes}))[{_SEEN}])",
        "observed": each(metrics.PASS_OBSERVED_TIMESTAMP_SECONDS, nodes),
    }


def questions(selection: SeriesSelection) -> dict[str, str]:
    """The queries of ``plimsoll region status``: PromQL by name."""
    nodes = selection.matchers()
    heartbeat = metrics.DAEMON_HEARTBEAT_TIMESTAMP_SECONDS + nodes
    queries = {
        **node_questions(nodes),
        "good_pass": each(metrics.PASS_LAST_GOOD_TIMESTAMP_SECONDS, nodes),
        "phases": each(metrics.PASS_DURATION_SECONDS, nodes, "phase"),
        "enforcing": each(metrics.PASS_ENFORCING, nodes),
        "paused": each(metrics.PASS_PAUSED, nodes),
        "braked": each(metrics.PASS_BRAKED_DISKS, nodes, "revision"),
        # When it was scraped: since then it has aged by up to the time between two scrapes.
        "daemon_age": each("", f"(timestamp({heartbeat}) - {heartbeat})"),
        "daemon_connected": each(metrics.DAEMON_CONNECTED, nodes),
        "daemon_reloaded": each(metrics.DAEMON_LAST_RELOAD_SUCCESSFUL, nodes),
        "sources": each(metrics.SOURCE_UP, nodes, "source"),
        "catalogue": each(metrics.CATALOGUE_ISSUED_TIMESTAMP_SECONDS, nodes),
        # Of a node with a catalogue in its settings, also where none is usable.
        "configured": each(metrics.CATALOGUE_STALE_AFTER_SECONDS, nodes),
        "unreachable_guests": each(metrics.GUESTS, selection.matchers('state="unreachable"')),
        "versions": each(metrics.BUILD_INFO, nodes, "version"),
        "disks": each(metrics.DISKS, nodes, "volume_type", "state") + " > 0",
        "unlimited": each(metrics.DISKS_UNLIMITED, nodes, "volume_type") + " > 0",
        "unknown": each(metrics.DISKS_UNKNOWN, nodes, "volume_type"),
        "acknowledged": each(metrics.DISKS_UNKNOWN_ACKNOWLEDGED, nodes, "volume_type") + " > 0",
        "at_limit": each(metrics.DISKS_AT_LIMIT, nodes, "volume_type"),
        "drift": (
            f"sum by (region, volume_type) ({increase(metrics.EXTERNAL_CHANGES_REVERTED_TOTAL, nodes, WINDOW)})"
        ),
        "aggregates": without_disks(nodes),
        "recorded": f"group({metrics.DISKS_OF_NODE}{nodes})",
        "runs": f"sum by (region, volume_type, verdict) (round({increase(metrics.PROBE_RUNS_TOTAL, nodes, WINDOW)}))",
        "stage": each(metrics.REGION_STAGE, nodes, "approval"),
        "stages": each(metrics.REGION_STAGES, nodes, "approval"),
        "stage_entered": each(metrics.REGION_STAGE_ENTERED_TIMESTAMP_SECONDS, nodes, "approval"),
        "stage_stopped": each(metrics.REGION_STAGE_STOPPED, nodes, "approval", "condition", "known") + " == 1",
        "alerts": firing.question(selection),
        **probe_questions(nodes),
    }
    for name, share in QUANTILES.items():
        if selection.nodes:  # for single nodes no rule records it, and the query is cheap
            buckets = increase(metrics.PROBE_LATENCY_SECONDS_BUCKET, nodes, WINDOW)
            queries[name] = quantile(share, "(region, volume_type, le)", buckets)
        else:
            queries[name] = f"{metrics.QUANTILES[name]}{nodes}"
    return queries


@frozen
class Node:
    """One node, by its last metrics."""

    region: str
    instance: str
    judgement: Judgement
    unreachable_since: float | None
    """When its metrics ended; None for a node that has metrics."""
    version: str | None
    enforcing: bool | None
    paused: bool

    @property
    def has_daemon(self) -> bool:
        """Whether it has metrics of one, which one that is stopped removes."""
        return any(each.measure.name == "daemon_faults" for each in self.judgement.findings)


@frozen
class TypeStatus:
    """The disks of a volume type in a region ("" for those without a type), and its probes of a day."""

    region: str
    name: str
    states: Mapping[str, int] = field(hash=False)
    unknown: int
    """Those of them in state ``unknown`` that should be known, and of which no operator knows."""
    acknowledged: int
    unlimited: int
    at_limit: int
    drift: float
    runs: Mapping[str, float] = field(hash=False)
    """Runs by their verdict."""
    quantiles: Mapping[str, float | None] = field(hash=False)
    """Latency in seconds; None is unknown."""


@frozen(kw_only=True)
class StageReached:
    """How far an approval with stages has come, by the machine that makes the region file (``node``)."""

    node: NodeKey
    approval: str
    """The first 16 digits of its digest."""
    stage: int
    """From 1."""
    stages: int
    since: float | None
    stops: tuple[tuple[str, bool], ...]
    """The conditions that stop the next stage, and whether they are known not to be met."""


@frozen(kw_only=True)
class RegionSnapshot:
    """The region, or all regions of Prometheus, as of ``at``."""

    at: float
    nodes: tuple[Node, ...]
    types: tuple[TypeStatus, ...]
    probed: tuple[ProbeTarget, ...]
    aggregates: tuple[NodeKey, ...]
    """The nodes without metrics of single disks and guests."""
    alerts: tuple[Firing, ...]
    """Those that fire in this Prometheus."""
    stages: tuple[StageReached, ...]
    unruled: bool
    """There are probes but nothing recorded: the recording rules are not loaded."""

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(sorted({node.region for node in self.nodes}))

    @property
    def level(self) -> Level:
        """The worst of all nodes and alerts."""
        levels = [node.judgement.level for node in self.nodes] or [Level.UNKNOWN]
        return max(levels + [alert.level for alert in self.alerts])

    @property
    def versions(self) -> Counter[str]:
        """How many nodes that report have each version."""
        reporting = (node.version or "" for node in self.nodes if node.unreachable_since is None)
        return Counter(version or UNKNOWN_VERSION for version in sorted(reporting))

    @property
    def states(self) -> Counter[str]:
        """Disks by their state."""
        return sum((Counter(one.states) for one in self.types), Counter[str]())

    @property
    def all_states(self) -> Counter[str]:
        """The same with ``ACKNOWLEDGED`` and ``NEW`` apart, as in the status of a node."""
        states, unknown = self.states, sum(one.unknown for one in self.types)
        acknowledgements = sum(one.acknowledged for one in self.types)
        new = max(0, states[Kind.UNKNOWN] - unknown - acknowledgements)  # metrics of one node may disagree
        return Counter({**states, Kind.UNKNOWN.value: unknown, ACKNOWLEDGED: acknowledgements, NEW: new})

    @property
    def runs(self) -> Mapping[str, float]:
        """Runs of probes in a day, by their verdict."""
        runs: dict[str, float] = defaultdict(float)
        for one in self.types:
            for verdict, number in one.runs.items():
                runs[verdict] += number
        return runs


def status(answers: Answers, now: float, thresholds: Mapping[str, Thresholds]) -> RegionSnapshot:
    """The status from the answers to ``questions``. ``now`` is by the clock of Prometheus."""
    targets = probes(answers)
    types = tuple(_types(answers))
    return RegionSnapshot(
        at=now,
        nodes=tuple(_nodes(answers, targets, now, thresholds)),
        types=types,
        probed=targets,
        aggregates=tuple(sorted(aggregates(answers))),
        alerts=tuple(firing.alerts(answers["alerts"])),
        stages=tuple(_stages(answers)),
        # Without requests in a day there are rules and no quantiles.
        unruled=bool(answers["runs"]) and not any(answers[name] for name in (*QUANTILES, "recorded")),
    )


def _stages(answers: Answers) -> Iterator[StageReached]:
    def key(series: Series) -> tuple[NodeKey, str]:
        return key_of(series), label(series, "approval")

    numbers, since = ({key(one): one.known for one in answers[name]} for name in ("stages", "stage_entered"))
    stops: dict[tuple[NodeKey, str], list[tuple[str, bool]]] = defaultdict(list)
    for one in answers["stage_stopped"]:
        stops[key(one)].append((label(one, "condition"), label(one, "known") == "true"))
    for one in answers["stage"]:
        number, of = one.known, numbers.get(key(one))
        if number is not None and of is not None:
            yield StageReached(
                node=key_of(one),
                approval=label(one, "approval"),
                stage=round(number),
                stages=round(of),
                since=since.get(key(one)),
                stops=tuple(sorted(stops[key(one)])),
            )


# --- nodes -----------------------------------------------------------------------------------------------


def unreachable(answers: Answers) -> set[NodeKey]:
    """The nodes without metrics now, by the answers to ``node_questions``."""
    return _by_node(answers["seen"]).keys() - _by_node(answers["last_pass"]).keys()


def overdue(answers: Answers, now: float, thresholds: Mapping[str, Thresholds]) -> dict[NodeKey, float | None]:
    """The nodes whose metrics of disks are old, and for how long none was observed; None is unknown."""
    observations = _by_node(answers["observed"])
    ages: dict[NodeKey, float | None] = {}
    for key, moment in _by_node(answers["last_pass"]).items():
        age = _age(observations.get(key), now)
        figures = Figure(name="pass_age", value=_age(moment, now)), Figure(name="observed_age", value=age)
        if judge(figures, thresholds).level is not Level.OK:
            ages[key] = age
    return ages


def _nodes(
    answers: Answers, targets: Sequence[ProbeTarget], now: float, thresholds: Mapping[str, Thresholds]
) -> Iterator[Node]:
    last = _by_node(answers["last_pass"])
    sightings = _by_node(answers["seen"])
    by_name = {
        name: _by_node(answers[name])
        for name in ("good_pass", "observed", "paused", "braked", "catalogue", "unreachable_guests")
    }
    daemon = [_by_node(answers[f"daemon_{name}"]) for name in ("age", "connected", "reloaded")]
    enforcing = _by_node(answers["enforcing"])
    revisions = {key_of(series): label(series, "revision") for series in answers["braked"]}
    versions = {key_of(series): label(series, "version") for series in answers["versions"]}
    down = _down(answers["sources"])
    catalogues = {*by_name["catalogue"], *map(key_of, answers["configured"])}
    phases = _sums(answers["phases"])
    kinds = _sums(answers["disks"], "state")
    behind = {key: sum(kinds.get((key, kind.value), 0.0) for kind in _BEHIND) for key, _ in kinds}
    no_limit, unknown = _sums(answers["unlimited"]), _sums(_unknown(answers))
    at_limit = _sums(answers["at_limit"])
    of_node = _targets_by_node(targets)
    for key in sorted(last.keys() | sightings.keys()):
        if key not in last:
            figures: tuple[Figure, ...] = (Figure(name="pass_age", value=None),)
        else:
            here = {name: values.get(key) for name, values in by_name.items()}
            # Before the first observation a node tells neither; 0.1.0 has another name for its time.
            old = here["observed"] is None and here["paused"] is not None
            zero = None if here["paused"] is None else 0.0
            figures = (
                Figure(name="pass_age", value=_age(last[key], now)),
                Figure(name="good_pass_age", value=_age(here["good_pass"], now)),
                Figure(name="pass_seconds", value=phases.get((key,))),
                Figure(name="sources_down", value=len(down[key]), about=", ".join(sorted(down[key]))),
                *([Figure(name="catalogue_age", value=_age(here["catalogue"], now))] if key in catalogues else []),
                *([] if old else [Figure(name="observed_age", value=_age(here["observed"], now))]),
                Figure(name="paused", value=here["paused"]),
                Figure(name="braked", value=here["braked"], about=revisions.get(key, "")),
                *_of_daemon(*(values.get(key) for values in daemon)),
                Figure(name="unlimited", value=no_limit.get((key,), zero)),
                Figure(name="behind", value=behind.get(key, zero), about=_behind_words(kinds, key)),
                Figure(name="failed", value=kinds.get((key, Kind.FAILED.value), zero)),
                Figure(name="unknown", value=unknown.get((key,), zero)),
                Figure(name="unreachable_guests", value=here["unreachable_guests"]),
                Figure(name="at_limit", value=at_limit.get((key,))),
                # Nothing is probed in a pause, and that has a figure of its own.
                Figure(name="probe_late", value=0 if here["paused"] else sum(one.late(now) for one in of_node[key])),
                Figure(name="probe_broken", value=sum(one.count(*BROKEN) for one in of_node[key])),
                Figure(name="probe_failed", value=sum(one.count(FAILED) for one in of_node[key])),
            )
        yield Node(
            *key,
            judge(figures, thresholds),
            None if key in last else sightings[key],
            versions.get(key),
            bool(enforcing[key]) if key in enforcing else None,
            bool(by_name["paused"].get(key)),
        )


def _down(sources: Iterable[Series]) -> dict[NodeKey, list[str]]:
    """The sources of each node that do not answer."""
    down: dict[NodeKey, list[str]] = defaultdict(list)
    for series in sources:
        if series.value == 0:
            down[key_of(series)].append(label(series, "source"))
    return down


def _targets_by_node(targets: Iterable[ProbeTarget]) -> dict[NodeKey, list[ProbeTarget]]:
    of_node: dict[NodeKey, list[ProbeTarget]] = defaultdict(list)
    for target in targets:
        of_node[target.node].append(target)
    return of_node


def _of_daemon(age: float | None, connection: float | None, reload: float | None) -> tuple[Figure, ...]:
    """None where it does not run, or was stopped."""
    if age is None:
        return ()
    causes = faults(runs=age <= LATE, connected=connection != 0, reloaded=reload != 0)
    return (Figure(name="daemon_faults", value=len(causes), about=", ".join(causes)),)


def _behind_words(kinds: Mapping[tuple[object, ...], float], key: NodeKey) -> str:
    there = [kind for kind in _BEHIND if kinds.get((key, kind.value))]
    return " or ".join({Kind.PLANNED: "out of sync", Kind.DEFERRED: "deferred"}[kind] for kind in there)


def _age(moment: float | None, now: float) -> float | None:
    """How long ago; unknown for a time in the future: a wrong clock would hide an old pass."""
    return None if moment is None or moment - now > _CLOCKS_DIFFER else max(now - moment, 0.0)


def _by_node(answer: Iterable[Series]) -> dict[NodeKey, float]:
    return {key_of(series): series.value for series in answer}


def _sums(answer: Iterable[Series], *labels: str) -> dict[tuple[object, ...], float]:
    """Sums by node, and by these labels."""
    sums: dict[tuple[object, ...], float] = defaultdict(float)
    for series in answer:
        sums[key_of(series), *(label(series, name) for name in labels)] += series.value
    return dict(sums)


# --- volume types ----------------------------------------------------------------------------------------


def _types(answers: Answers) -> Iterator[TypeStatus]:
    states: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for series in answers["disks"]:
        states[_type_key(series)][label(series, "state")] += round(series.value)
    runs: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for series in answers["runs"]:
        runs[_type_key(series)][label(series, "verdict")] += series.value  # type: ignore[assignment]  # floats too
    of_type = {name: _by_type(answers[name]) for name in ("acknowledged", "unlimited", "at_limit", "drift")}
    of_type["unknown"] = _by_type(_unknown(answers))
    quantiles = {name: {_type_key(series): series.known for series in answers[name]} for name in QUANTILES}
    for key in sorted(states.keys() | runs.keys()):
        numbers = {name: sums.get(key, 0.0) for name, sums in of_type.items()}
        yield TypeStatus(
            *key,
            states[key],
            unknown=round(numbers["unknown"]),
            acknowledged=round(numbers["acknowledged"]),
            unlimited=round(numbers["unlimited"]),
            at_limit=round(numbers["at_limit"]),
            drift=numbers["drift"],
            runs=runs[key],
            quantiles={name: quantiles[name].get(key) for name in QUANTILES},
        )


def _unknown(answers: Answers) -> Iterator[Series]:
    """Nodes of before have no such sum."""
    yield from answers["unknown"]
    keys = set(map(key_of, answers["unknown"]))
    for series in answers["disks"]:
        if label(series, "state") == Kind.UNKNOWN and key_of(series) not in keys:
            yield series


def _type_key(series: Series) -> tuple[str, str]:
    return label(series, "region"), label(series, "volume_type")


def _by_type(answer: Iterable[Series]) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for series in answer:
        sums[_type_key(series)] += series.value
    return dict(sums)
