"""What Prometheus is asked about a guest's disks, and the evidence in its answers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from itertools import groupby, pairwise

from plimsoll_agent.model.limits import PARAMETERS
from plimsoll_agent.monitor import metrics
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_insight.explain.evidence import Evidence, LimitChange, Neighbour, PassInterval, SharedPlace, idle
from plimsoll_insight.explain.slowness import LEAST_OF_TYPE, usual_of
from plimsoll_monitoring.promql import SeriesSelection, any_of, braces, each, equal, increase, quote, selector
from plimsoll_monitoring.region.answers import Ask, NodeKey, Series, TimeSeries, key_of, label

Over = Callable[[str], Sequence[TimeSeries]]
"""Asks for the values of the whole time, at the steps. Raises ``PlimsollError``."""

SLOW_CHECKS = ("PG_AVAILABILITY", "SLOW_OPS", "OSD_FULL", "POOL_FULL", "PG_*_FULL", "OSD_DOWN", "OSD_*_DOWN")
"""Ceph's checks that tell of stopped or slow requests: those of the health gate, and any OSD that is down."""
GATE = "health gate of plimsoll"
_USUAL = "7d"
STALE = 3600.0
"""Seconds after which what a pass observed counts no more, as in the recorded sums of a region."""
_DISK = ("target_device", "uuid")
_PLACE = ("cluster", "pool")


@frozen
class StepSpan:
    """Times of the first and the last step (seconds since 1970), and the time between two steps."""

    seconds: int
    step: int

    @staticmethod
    def of(seconds: int) -> StepSpan:
        """Each minute up to three hours, every five minutes up to a week, and then 2016 steps."""
        step = 60 if seconds <= 3 * 3600 else max(300, math.ceil(seconds / 2016 / 60) * 60)
        return StepSpan(seconds, step)

    def times(self, now: float) -> list[float]:
        """Of all steps, back from the present second."""
        return [float(int(now) - back * self.step) for back in reversed(range(self.seconds // self.step))]


@frozen
class Stay:
    """A guest on a node, from the first to the last step that shows it there."""

    node: NodeKey
    since: float
    until: float


@frozen
class Stall:
    """Lines by which the guest's kernel reported stalled I/O before this time."""

    at: float
    kind: str
    lines: int


@frozen
class FoundGuest:
    """A server by its last metrics in the span."""

    uuid: str
    region: str
    name: str
    server: str
    project: str
    project_name: str


@frozen
class ExplainedDisk:
    """A disk with all that was measured."""

    guest_uuid: str
    disk: str
    volume: str
    volume_type: str
    pool: str
    cluster: str
    evidence: Evidence
    limits: Mapping[str, int] | None = field(hash=False)
    """Its last actual limits; None is unknown, nothing unlimited."""
    changes: tuple[LimitChange, ...] = ()
    reverted: tuple[float, ...] = ()
    """When external changes were reverted."""
    held: tuple[tuple[float, float], ...] = ()
    """Between these times it was held, by an operator."""
    qos_spec: str = ""
    """The name of its type's QoS spec; empty without one, or if it is unknown."""


# --- which guest


def guests(ask: Ask, selection: SeriesSelection, term: str, seconds: int) -> list[FoundGuest]:
    """The servers that a UUID, a volume's ID or a name stands for, by the first of these that finds one: tenants
    choose names. Of each the facts of a node of now, if there is one. Raises ``PlimsollError``.
    """
    by_volume = _last(metrics.DISK_INFO, selection, "volume", [term], seconds)

    def look_up(name: str, values: Sequence[str]) -> list[FoundGuest]:
        last = _last(metrics.GUEST_INFO, selection, name, values, seconds)
        now = f"{metrics.GUEST_INFO}{selection.matchers(any_of(name, values))}"
        latest = {label(series, "uuid"): series for series in ask(f"{now} or on (uuid) {last}")}
        return [_guest(latest[uuid]) for uuid in sorted(latest)]

    if one := look_up("uuid", [term]):
        return one
    if uuids := sorted({label(series, "uuid") for series in ask(by_volume)}):
        return look_up("uuid", uuids)
    servers = {guest.uuid: guest for name in ("server", "domain") for guest in look_up(name, [term])}
    return [servers[uuid] for uuid in sorted(servers)]


def _guest(series: Series) -> FoundGuest:
    return FoundGuest(
        label(series, "uuid"),
        label(series, "region"),
        *(label(series, name) for name in ("domain", "server", "project", "project_name")),
    )


def _last(metric: str, selection: SeriesSelection, name: str, values: Sequence[str], seconds: int) -> str:
    return f"last_over_time({metric}{selection.matchers(any_of(name, values))}[{seconds}s])"


# --- its disks


def disks(
    ask: Ask,
    over: Over,
    selection: SeriesSelection,
    guest: FoundGuest,
    volume: str | None,
    now: float,
    span: StepSpan,
) -> tuple[list[ExplainedDisk], list[Stay]]:
    """The guest's disks, or the one with this volume; and where the guest was. Raises ``PlimsollError``."""
    region = equal("region", guest.region) if guest.region else ""
    own = SeriesSelection(nodes=selection.nodes).matchers(equal("uuid", guest.uuid), region)
    times = span.times(now)
    info = over(each(metrics.DISK_INFO, own, *_DISK, "volume", "volume_type", *_PLACE))
    at_node = _where(info, times)
    stays = _stays(at_node)
    if not stays:
        return [], []
    targets: dict[str, TimeSeries] = {}
    for line in sorted(info, key=lambda line: max(line.values)):
        if volume is None or label(line, "volume") == volume:
            targets[label(line, "target_device")] = line
    around = _Around(ask, over, guest, stays, region, span.step)
    readings = _Own(over, own, stays, span.step)
    explanations = []
    for target in sorted(targets):
        facts = targets[target]
        present = [at for line in info if label(line, "target_device") == target for at in line.values]
        steps = [at for at in times if min(present) <= at <= max(present)]
        shared_by = around.of(facts)
        intervals = tuple(shared_by(readings.at(target, at_node.get(at), at)) for at in steps)
        explanations.append(
            ExplainedDisk(
                guest_uuid=guest.uuid,
                disk=target,
                volume=label(facts, "volume"),
                volume_type=label(facts, "volume_type"),
                pool=label(facts, "pool"),
                cluster=label(facts, "cluster"),
                evidence=Evidence(float(span.step), intervals, around.usual(label(facts, "volume_type"))),
                limits=readings.limits(target, at_node, steps),
                changes=tuple(readings.changes(target, at_node, steps)),
                reverted=tuple(readings.reverted(target, at_node, steps)),
                held=tuple(readings.held(target, steps)),
            )
        )
    return explanations, stays


def _where(info: Iterable[TimeSeries], times: Sequence[float]) -> dict[float, NodeKey]:
    """By time the node; of two that have the guest the later one, since the last metrics of the old one stay."""
    times_of: dict[NodeKey, set[float]] = defaultdict(set)
    for line in info:
        times_of[key_of(line)] |= line.values.keys()
    nodes: dict[float, NodeKey] = {}
    since: dict[NodeKey, float] = {}
    for at in times:
        since = {node: since.get(node, at) for node, its in times_of.items() if at in its}
        if since:
            nodes[at] = max(since, key=lambda node: since[node])
    return nodes


def _stays(where: Mapping[float, NodeKey]) -> list[Stay]:
    """In order of time."""
    stays: list[Stay] = []
    for at, node in where.items():
        if stays and stays[-1].node == node:
            stays[-1] = replace(stays[-1], until=at)
        else:
            stays.append(Stay(node, at, at))
    return stays


class _Own:
    """What is measured of the guest's own disks."""

    def __init__(self, over: Over, own: str, stays: Sequence[Stay], step: int) -> None:
        nodes = SeriesSelection(region=stays[0].node[0] or None).matchers(
            any_of("instance", sorted({stay.node[1] for stay in stays}))
        )
        self._observed = _by_node(over(each(metrics.PASS_OBSERVED_TIMESTAMP_SECONDS, nodes)))
        by = f"region, instance, {', '.join(_DISK)}"
        rate = {unit: each(metrics.DISK_AVERAGE[unit], own, *_DISK, "direction") for unit in metrics.UNITS}
        self._rates = {unit: _by_disk(over(f"sum by ({by}) ({rate[unit]})")) for unit in metrics.UNITS}
        self._latency = _by_disk(over(each(metrics.DISK_AVERAGE_LATENCY_SECONDS, own, *_DISK)))
        self._shares = _lines_by_disk(over(each(metrics.DISK_AVERAGE_LIMIT_RATIO, own, *_DISK, "parameter")))
        self._limits = _lines_by_disk(
            line
            for metric in metrics.DISK_LIMIT_ACTUAL.values()
            for line in over(each(metric, own, *_DISK, "parameter"))
        )
        self._unlimited = _by_disk(over(each(metrics.DISK_UNLIMITED, own, *_DISK)))
        self._states = _lines_by_disk(over(each(metrics.DISK_STATE, own, *_DISK, "state", "reason")))
        self._hung = _by_node(over(f"max by (region, instance) ({_within(metrics.GUEST_HUNG + own, step)})"))
        self._paused = _by_node(over(each(metrics.GUEST_PAUSED, own, "uuid")))
        self._reverted = _by_disk(over(each(metrics.DISK_EXTERNAL_CHANGES_REVERTED_TOTAL, own, *_DISK)))
        self._held = over(each(metrics.DISK_HOLD_END_TIMESTAMP_SECONDS, own, *_DISK))

    def at(self, target: str, node: NodeKey | None, at: float) -> PassInterval:
        read_at = None if node is None else self._observed.get(node, {}).get(at)
        if node is None or read_at is None or at - read_at >= STALE:
            return PassInterval(at)
        key = node, target
        shares = {
            label(line, "parameter"): line.values[at]
            for line in self._shares.get(key, ())
            if _finite(line.values.get(at)) is not None
        }
        limit = max(shares, key=lambda name: shares[name], default=None)
        limits = self._set(key, at) or {}
        return PassInterval(
            at,
            node[1],
            operations=_value(self._rates["operations"], key, at),
            bytes=_value(self._rates["bytes"], key, at),
            share=None if limit is None else shares[limit],
            limit=limit,
            allowed=None if limit is None else limits.get(limit),
            burst=f"{limit}_max" in limits,
            latency=_value(self._latency, key, at),
            observed=read_at,
            unanswered=at in self._hung.get(node, ()),
            paused=at in self._paused.get(node, ()),
        )

    def _set(self, key: tuple[NodeKey, str], at: float) -> dict[str, int] | None:
        """Its actual limits then; None is unknown."""
        limits = {
            label(line, "parameter"): int(line.values[at]) for line in self._limits.get(key, ()) if at in line.values
        }
        if not limits and _value(self._unlimited, key, at) is None:
            return None
        return {one.name: limits[one.name] for one in PARAMETERS if one.name in limits}

    def limits(self, target: str, nodes: Mapping[float, NodeKey], steps: Sequence[float]) -> dict[str, int] | None:
        every = (self._set((nodes[at], target), at) for at in reversed(steps) if at in nodes)
        return next((limits for limits in every if limits is not None), None)

    def changes(self, target: str, nodes: Mapping[float, NodeKey], steps: Sequence[float]) -> Iterator[LimitChange]:
        before: dict[str, int] | None = None
        for at in steps:
            now = self._set((nodes[at], target), at) if at in nodes else None
            if now is None:
                continue
            if before is not None and now != before:
                yield LimitChange(at, before, now, self._reason((nodes[at], target), at))
            before = now

    def _reason(self, key: tuple[NodeKey, str], at: float) -> str | None:
        return next((label(line, "reason") for line in self._states.get(key, ()) if at in line.values), None)

    def reverted(self, target: str, nodes: Mapping[float, NodeKey], steps: Sequence[float]) -> Iterator[float]:
        before: tuple[NodeKey, float] | None = None
        for at in steps:
            node = nodes.get(at)
            count = None if node is None else _value(self._reverted, (node, target), at)
            if node is None or count is None:
                continue
            if before is not None and before[0] == node and count > before[1]:
                yield at
            before = node, count

    def held(self, target: str, steps: Sequence[float]) -> Iterator[tuple[float, float]]:
        lines = [line for line in self._held if label(line, "target_device") == target]
        for is_held, run in groupby(steps, key=lambda at: any(line.values.get(at, 0.0) > at for line in lines)):
            times = list(run)
            if is_held:
                yield times[0], times[-1]


class _Around:
    """What is measured of other disks, of the nodes and of the clusters."""

    def __init__(
        self, ask: Ask, over: Over, guest: FoundGuest, stays: Sequence[Stay], region: str, step: int
    ) -> None:
        self._ask, self._over, self._guest, self._region, self._step = ask, over, guest, region, step
        nodes = any_of("instance", sorted({stay.node[1] for stay in stays}))
        self._others = braces(region, nodes, f"uuid!={quote(guest.uuid)}")
        every = braces(region, nodes)
        latency = each(metrics.DISK_AVERAGE_LATENCY_SECONDS, self._others, *_DISK)
        by = "region, instance"
        self._of_node = _by_node(over(f"quantile by ({by}) (0.5, {latency})"))
        self._of_node_disks = _by_node(over(f"count by ({by}) ({latency})"))
        self._on_node: dict[str, list[TimeSeries]] = {}
        self._node_sum: dict[str, dict[NodeKey, Mapping[float, float]]] = {}
        for unit in metrics.UNITS:
            name, labels = metrics.DISK_AVERAGE[unit], (*_DISK, "direction")
            busiest = f"topk by ({by}) (1, sum by ({by}, uuid) ({each(name, self._others, *labels)}))"
            self._on_node[unit] = list(over(busiest))
            self._node_sum[unit] = _by_node(over(f"sum by ({by}) ({each(name, every, *labels)})"))
        self._types: dict[str, tuple[Mapping[float, float], Mapping[float, float], float | None]] = {}
        self._pools: dict[tuple[str, str], Mapping[str, tuple[list[TimeSeries], Mapping[float, float]]]] = {}
        self._health: dict[str, Callable[[float], tuple[str, ...] | None]] = {}

    def usual(self, volume_type: str) -> float | None:
        return self._of_type(volume_type)[2]

    def _of_type(self, volume_type: str) -> tuple[Mapping[float, float], Mapping[float, float], float | None]:
        if volume_type not in self._types:
            matchers = braces(self._region, equal("volume_type", volume_type))
            usual = self._ask(f"max(quantile_over_time(0.25, {metrics.LATENCY_MEDIAN}{matchers}[{_USUAL}]))")
            counts = _only(self._over(f"max({metrics.LATENCY_COUNT}{matchers})"))
            value = next((series.known for series in usual), None)
            self._types[volume_type] = (
                _only(self._over(f"max({metrics.LATENCY_MEDIAN}{matchers})")),
                counts,
                usual_of(value, list(counts.values()), LEAST_OF_TYPE),
            )
        return self._types[volume_type]

    def of(self, facts: TimeSeries) -> Callable[[PassInterval], PassInterval]:
        """Adds what was around a disk with these labels."""
        medians, counts, _ = self._of_type(label(facts, "volume_type"))
        place = label(facts, "cluster"), label(facts, "pool")
        pools, checks = self._pool(*place), self._checks(place[0])
        region = key_of(facts)[0]

        def add(one: PassInterval) -> PassInterval:
            disks = _whole(counts.get(one.at))
            # Of a disk that is alone it would be its own.
            of_type = None if disks == 1 else _finite(medians.get(one.at))
            interval = replace(one, of_type=of_type, of_type_disks=disks, raised=checks(one.at))
            if one.node is None:
                return interval
            node = region, one.node
            return replace(
                interval,
                of_node=_finite(self._of_node.get(node, {}).get(one.at)),
                of_node_disks=_whole(self._of_node_disks.get(node, {}).get(one.at)),
                neighbours=tuple(self._neighbours(node, pools, one.at)),
            )

        return add

    def _neighbours(
        self, node: NodeKey, pools: Mapping[str, tuple[list[TimeSeries], Mapping[float, float]]], at: float
    ) -> Iterator[Neighbour]:
        for unit in metrics.UNITS:
            on_node = [line for line in self._on_node[unit] if key_of(line) == node]
            lines_of = (
                (SharedPlace.NODE, on_node, self._node_sum[unit].get(node, {})),
                (SharedPlace.POOL, *pools[unit]),
            )
            for place, lines, sums in lines_of:
                whole = sums.get(at)
                rates = [
                    (label(line, "uuid"), rate)
                    for line in lines
                    if (rate := _finite(line.values.get(at))) is not None
                ]
                busy = [(uuid, rate) for uuid, rate in rates if rate and uuid != self._guest.uuid]
                if whole:
                    yield from (Neighbour(uuid, place, unit, rate, min(1.0, rate / whole)) for uuid, rate in busy)
                # A node's lines are of other guests alone, a pool's of the three busiest.
                if whole is not None and not busy and (rates or place is SharedPlace.NODE):
                    yield idle(place, unit)

    def _pool(self, cluster: str, pool: str) -> Mapping[str, tuple[list[TimeSeries], Mapping[float, float]]]:
        if (cluster, pool) not in self._pools:
            matchers = braces(self._region, equal("cluster", cluster), equal("pool", pool))
            by_unit = {}
            for unit in metrics.UNITS:
                of_nodes = each(metrics.POOL_AVERAGE[unit], matchers, *_PLACE, "volume_type")
                by_unit[unit] = (
                    list(self._over(f"max by (uuid) ({metrics.BUSIEST_GUESTS[unit]}{matchers})")),
                    _only(self._over(f"sum({of_nodes})")),
                )
            self._pools[cluster, pool] = by_unit
        return self._pools[cluster, pool]

    def _is_of(self, line: TimeSeries, cluster: str) -> bool:
        """Whether Ceph's mgr tells it of this cluster; a site may name regions by a label ``cluster``."""
        if label(line, "cluster"):
            return label(line, "cluster") == cluster
        return label(line, "region") in ("", self._guest.region, cluster)

    def _checks(self, cluster: str) -> Callable[[float], tuple[str, ...] | None]:
        """By time the checks that were raised; by Ceph's mgr, of which a Prometheus may have several clusters."""
        if cluster not in self._health:
            active = f"({_within('ceph_health_detail', self._step)}) == 1"
            checks = [
                line
                for line in self._over(f"max by (name, region, cluster) {active}")
                if self._is_of(line, cluster) and _tells(label(line, "name"))
            ]
            statuses = [
                line
                for line in self._over("max by (region, cluster) (ceph_health_status)")
                if self._is_of(line, cluster)
            ]
            gates = (
                self._over(f"max({selector(metrics.HEALTH_GATE_SHUT, equal('cluster', cluster))}) == 1")
                if cluster
                else []
            )

            def checks_at(at: float) -> tuple[str, ...] | None:
                labels = [label(line, "name") for line in checks if at in line.values]
                labels += [GATE for line in gates if at in line.values]
                return tuple(labels) if labels or any(at in line.values for line in statuses) else None

            self._health[cluster] = checks_at
        return self._health[cluster]


def stalls(over: Over, guest: FoundGuest) -> list[Stall]:
    """In order of time; none also where consoles are not read. Raises ``PlimsollError``."""
    matchers = braces(equal("region", guest.region) if guest.region else "", equal("uuid", guest.uuid))
    increases = []
    for line in over(each(metrics.GUEST_STALL_LINES_TOTAL, matchers, "kind")):
        counts = sorted(line.values.items())
        for (_, before), (at, now) in pairwise(counts):
            if now > before:
                increases.append(Stall(at, label(line, "kind"), round(now - before)))
    return sorted(increases, key=lambda stall: (stall.at, stall.kind))


def names(ask: Ask, guest: FoundGuest, uuids: Iterable[str], seconds: int) -> dict[str, str]:
    """What other guests in the guest's region are called, by UUID. Raises ``PlimsollError``."""
    others = sorted(set(uuids))
    if not others:
        return {}
    answer = ask(_last(metrics.GUEST_INFO, SeriesSelection(region=guest.region or None), "uuid", others, seconds))
    return {label(series, "uuid"): label(series, "server") or label(series, "domain") for series in answer}


def probe_runs(ask: Ask, stays: Sequence[Stay], seconds: int) -> dict[str, int]:
    """Runs of probes on these nodes by their verdict. Raises ``PlimsollError``."""
    nodes = any_of("instance", sorted({stay.node[1] for stay in stays}))
    answer = ask(f"sum by (verdict) ({increase(metrics.PROBE_RUNS_TOTAL, braces(nodes), f'{seconds}s')}) > 0")
    return {label(series, "verdict"): max(1, round(series.value)) for series in answer}


def _within(metric: str, step: int) -> str:
    """The most in the interval that ends at each step: what is true for less than one is seen too."""
    return f"max_over_time({metric}[{max(step - 1, 1)}s]) or {metric}"


def _tells(check: str) -> bool:
    return any(fnmatchcase(check, pattern) for pattern in SLOW_CHECKS)


def _by_disk(lines: Iterable[TimeSeries]) -> dict[tuple[NodeKey, str], Mapping[float, float]]:
    return {(key_of(line), label(line, "target_device")): line.values for line in lines}


def _lines_by_disk(lines: Iterable[TimeSeries]) -> dict[tuple[NodeKey, str], list[TimeSeries]]:
    by_disk: dict[tuple[NodeKey, str], list[TimeSeries]] = defaultdict(list)
    for line in lines:
        by_disk[key_of(line), label(line, "target_device")].append(line)
    return by_disk


def _by_node(lines: Iterable[TimeSeries]) -> dict[NodeKey, Mapping[float, float]]:
    return {key_of(line): line.values for line in lines}


def _only(lines: Sequence[TimeSeries]) -> Mapping[float, float]:
    return lines[0].values if lines else {}


def _value(
    series: Mapping[tuple[NodeKey, str], Mapping[float, float]], key: tuple[NodeKey, str], at: float
) -> float | None:
    return _finite(series.get(key, {}).get(at))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _whole(value: float | None) -> int | None:
    return None if _finite(value) is None else round(value or 0)
