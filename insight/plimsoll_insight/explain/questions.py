"""What Prometheus is asked about a guest's disks, and the evidence in its answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from plimsoll_agent.monitor import metrics
from plimsoll_agent.util.frozen import of_tuple, replace
from plimsoll_insight.explain.evidence import Evidence, since_late
from plimsoll_insight.explain.guests import ExplainedDisk, FoundGuest, Stall, Stay, StepSpan
from plimsoll_insight.explain.other_readings import OtherReadings
from plimsoll_insight.explain.own_readings import OwnReadings
from plimsoll_insight.explain.series import DISK, PLACE, Over
from plimsoll_monitoring.promql import SeriesSelection, any_of, braces, each, equal, increase
from plimsoll_monitoring.region.answers import Ask, NodeKey, Series, TimeSeries, key_of, label

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
    labels = ("uuid", "region", "domain", "server", "project", "project_name")
    return of_tuple(FoundGuest, [label(series, name) for name in labels])


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
    """The guest's disks, or the one with this volume; and where the guest was. Raises ``PlimsollError``.

    Figures are of a target: what another volume did there, before or after, is not of this disk.
    """
    region = equal("region", guest.region) if guest.region else ""
    own = SeriesSelection(nodes=selection.nodes).matchers(equal("uuid", guest.uuid), region)
    times = span.times(now)
    info = over(each(metrics.DISK_INFO, own, *DISK, "volume", "volume_type", *PLACE))
    at_node = _where(info, times)
    stays = _stays(at_node)
    if not stays:
        return [], []
    at_target: dict[str, dict[str, list[TimeSeries]]] = {}
    for line in sorted(info, key=lambda line: _last_here(line, at_node)):
        volumes = at_target.setdefault(label(line, "target_device"), {})
        volumes[label(line, "volume")] = [*volumes.pop(label(line, "volume"), ()), line]
    around = OtherReadings(ask, over, guest, stays, region, span.step)
    readings = OwnReadings(over, own, stays, span.step)
    explanations = []
    for target, its_volume in sorted((target, name) for target, volumes in at_target.items() for name in volumes):
        if volume is not None and its_volume != volume:
            continue
        volumes = at_target[target]
        facts = volumes[its_volume][-1]
        present = [at for line in volumes[its_volume] for at in line.values]
        steps = list(_steps(times, min(present), max(present), lambda at: readings.observed(stays[-1].node, at)))
        others = [line for name, lines in volumes.items() if name != its_volume for line in lines]
        nodes = _without(at_node, others)
        shared_by = around.of(facts)
        intervals = tuple(shared_by(readings.at(target, nodes.get(at), at)) for at in steps)
        explanations.append(
            ExplainedDisk(
                guest_uuid=guest.uuid,
                disk=target,
                volume=label(facts, "volume"),
                volume_type=label(facts, "volume_type"),
                pool=label(facts, "pool"),
                cluster=label(facts, "cluster"),
                evidence=Evidence(
                    seconds=float(span.step),
                    intervals=intervals,
                    usual=around.usual(label(facts, "volume_type")),
                    since=since_late(steps[0], times[0], span.step),
                ),
                limits=readings.limits(target, nodes, steps),
                changes=tuple(readings.changes(target, nodes, steps)),
                reverted=tuple(readings.reverted(target, nodes, steps)),
                held=tuple(readings.held(target, nodes, steps)),
                replaced=its_volume != [*volumes][-1],
            )
        )
    return explanations, stays


def _steps(
    times: Iterable[float], first: float, last: float, pass_at: Callable[[float], float | None]
) -> Iterator[float]:
    """From the first to the last that has the disk, and those after it until a pass of its node is without it: before
    that one it is unknown, and not gone.
    """
    for at in times:
        if at > last and pass_at(at) is not None:
            return
        if at >= first:
            yield at


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


def _last_here(line: TimeSeries, at_node: Mapping[float, NodeKey]) -> float:
    return max((at for at in line.values if at_node.get(at) == key_of(line)), default=0.0)


def _without(at_node: Mapping[float, NodeKey], lines: Iterable[TimeSeries]) -> dict[float, NodeKey]:
    """Where the guest was, without the times at which these are of that node."""
    times = {at for line in lines for at in line.values if at_node.get(at) == key_of(line)}
    return {at: node for at, node in at_node.items() if at not in times}


def _stays(where: Mapping[float, NodeKey]) -> list[Stay]:
    """In order of time."""
    stays: list[Stay] = []
    for at, node in where.items():
        if stays and stays[-1].node == node:
            stays[-1] = replace(stays[-1], until=at)
        else:
            stays.append(Stay(node, at, at))
    return stays


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
    nodes = SeriesSelection(region=stays[0].node[0] or None).matchers(
        any_of("instance", sorted({stay.node[1] for stay in stays}))
    )
    answer = ask(f"sum by (verdict) ({increase(metrics.PROBE_RUNS_TOTAL, nodes, f'{seconds}s')}) > 0")
    return {label(series, "verdict"): max(1, round(series.value)) for series in answer}
