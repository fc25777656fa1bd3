"""The disks of the region that are unlimited, out of sync or at limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.monitor import metrics
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.util.frozen import frozen
from plimsoll_monitoring.promql import SeriesSelection, any_of, each
from plimsoll_monitoring.region.answers import Answers, Ask, NodeKey, Series, key_of, label

UNLIMITED = "unlimited"
AT_LIMIT = "at-limit"
STATES = (UNLIMITED, *(kind.value for kind in Kind), AT_LIMIT)
"""The states that disks can be selected by."""
WORST = (UNLIMITED, *(kind.value for kind in (Kind.FAILED, Kind.UNKNOWN, Kind.DEFERRED, Kind.PLANNED)), AT_LIMIT)
"""The states that are listed by default, the worst first."""
_DISK = metrics.DISK
_BY = f"region, instance, {', '.join(_DISK)}"
FACTS = ("volume", "project", "flavor", "volume_type", "pool", "cluster")
NAMES = ("server", "project_name")
_NAMED = 500
"""Up to this many disks are queried by their names; for more, all are read."""

DiskKey = tuple[NodeKey, str, str, str]
"""The node, the domain's name, the target, the domain's uuid."""


@frozen
class RegionDisk:
    """A disk by its node's last metrics. None is unknown."""

    node: NodeKey
    domain: str
    target: str
    uuid: str
    facts: Mapping[str, str] = field(hash=False)
    """``FACTS`` of the disk and ``NAMES`` of its guest; empty where it has none, or the node is older."""
    state: str | None
    unlimited: bool
    """It is unlimited although a limit is desired."""
    limit: str | None
    """The limit that it used the largest share of, under libvirt's name."""
    share: float | None
    operations: float | None
    """A second, reads and writes, on average between the node's last two passes."""
    bytes: float | None
    pass_ended: float | None
    """When the pass behind these values ended (seconds since 1970)."""

    @property
    def at_limit(self) -> bool:
        return self.share is not None and self.share >= AT_LIMIT_RATIO

    @property
    def states(self) -> tuple[str, ...]:
        """Its states, of ``STATES``."""
        flags = {UNLIMITED: self.unlimited, self.state: True, AT_LIMIT: self.at_limit}
        return tuple(state for state in STATES if flags.get(state))


def several_volumes(matchers: str, seconds: int) -> str:
    """PromQL: the targets that had several volumes in the time. Figures are of a target, not of a volume."""
    of_target = "region, uuid, target_device"
    info = f"last_over_time({metrics.DISK_INFO}{matchers}[{seconds}s])"
    return f"count by ({of_target}) (group by ({of_target}, volume) ({info})) > 1"


def number_questions(selection: SeriesSelection, states: Sequence[str]) -> dict[str, str]:
    """Queries for the nodes without metrics of single disks, and the number of disks in each state."""
    queries = {"aggregates": without_disks(selection.matchers())}
    return queries | {state: f"count({_disks_in(selection, state)})" for state in states}


def search(
    ask: Ask, selection: SeriesSelection, numbers: Mapping[str, int], states: Sequence[str], most: int
) -> list[DiskKey]:
    """The worst disks, at most ``most`` (0 for all): by the first of these states that each is in, then the busiest.
    States without disks in ``numbers`` are not queried. Raises ``PlimsollError``.
    """
    keys: dict[DiskKey, None] = {}
    for state in states:
        room = most - len(keys) if most else numbers[state]
        if room > 0 and numbers[state]:
            query = _disks_in(selection, state)
            answer = ask(query if numbers[state] <= room else f"topk({most}, {_rank(selection, state, query)})")
            keys |= {_key(series): None for series in sorted(answer, key=lambda series: -(series.known or 0))}
    return list(keys)[: most or None]


def _rank(selection: SeriesSelection, state: str, query: str) -> str:
    """The disks with their operations a second; for those at limit ``query`` already has their share."""
    if state == AT_LIMIT:
        return query
    these = f"{metrics.DISK_AVERAGE['operations']}{selection.matchers()} and on ({_BY}) ({query})"
    return f"sum by ({_BY}) ({each(these, '', *_DISK, 'direction')}) or ({query}) * 0"


def _disks_in(selection: SeriesSelection, state: str) -> str:
    nodes = selection.matchers()
    if state == UNLIMITED:
        query = _disks_without_limit(nodes)
    elif state == AT_LIMIT:
        query = f"{each(metrics.DISK_AVERAGE_LIMIT_RATIO, nodes, *_DISK)} >= {AT_LIMIT_RATIO}"
    else:
        in_state = selection.matchers(any_of("state", [state]))
        query = f"{each(metrics.DISK_STATE, in_state, *_DISK)} == 1"
    if selection.types or selection.projects:
        query += f" and on ({_BY}) {metrics.DISK_INFO}{selection.matchers(types=True, projects=True)}"
    return query


def _disks_without_limit(matchers: str) -> str:
    # Without a desired limit, unlimited is right.
    no_limit = f"{each(metrics.DISK_UNLIMITED, matchers, *_DISK)} == 1"
    rates = " or ".join(metrics.DISK_LIMIT_DESIRED[f"{unit}_per_second"] + matchers for unit in metrics.UNITS)
    return f"{no_limit} and on ({_BY}) ({rates})"


def without_disks(matchers: str) -> str:
    """A query for the nodes with disks but without metrics of single disks."""
    return f"({each(metrics.DISKS, matchers)} > 0) unless on (region, instance) {metrics.DISK_INFO}{matchers}"


def fact_questions(selection: SeriesSelection, disks: Iterable[DiskKey]) -> dict[str, str]:
    """Queries for all metrics of these disks, at least one; the answers may have other disks too."""
    uuids = sorted({uuid for _, _, _, uuid in disks})
    nodes = selection.matchers(*([any_of("uuid", uuids)] if len(uuids) <= _NAMED else []))
    return {
        "info": each(metrics.DISK_INFO, nodes, *_DISK, *FACTS),
        "names": each(metrics.GUEST_INFO, nodes, "uuid", *NAMES),
        "state": each(metrics.DISK_STATE, nodes, *_DISK, "state") + " == 1",
        "unlimited": _disks_without_limit(nodes),
        "shares": each(metrics.DISK_AVERAGE_LIMIT_RATIO, nodes, *_DISK, "parameter"),
        "operations": f"sum by ({_BY}) ({each(metrics.DISK_AVERAGE['operations'], nodes, *_DISK, 'direction')})",
        "bytes": f"sum by ({_BY}) ({each(metrics.DISK_AVERAGE['bytes'], nodes, *_DISK, 'direction')})",
        "pass_ended": each(metrics.PASS_LAST_TIMESTAMP_SECONDS, selection.matchers()),
    }


def numbers(answers: Answers, states: Sequence[str]) -> dict[str, int]:
    """How many disks are in each of these states, from the answers to ``number_questions``."""
    return {state: sum(round(series.value) for series in answers[state]) for state in states}


def aggregates(answers: Answers) -> set[NodeKey]:
    """The nodes without metrics of single disks."""
    return {key_of(series) for series in answers["aggregates"]}


def worst_first(disks: Iterable[RegionDisk], states: Sequence[str]) -> list[RegionDisk]:
    """By the first of these states that each is in, then the busiest; those at limit by their share."""

    def badness(disk: RegionDisk) -> tuple[int, float]:
        place = next((number for number, state in enumerate(states) if state in disk.states), len(states))
        at_limit = place < len(states) and states[place] == AT_LIMIT
        return place, -((disk.share if at_limit else disk.operations) or 0.0)

    return sorted(disks, key=badness)


def disks(answers: Answers, keys: Sequence[DiskKey]) -> list[RegionDisk]:
    """These disks in their order, from the answers to ``fact_questions``."""
    facts = {_key(series): series.labels for series in answers["info"]}
    names = {(key_of(series), label(series, "uuid")): series.labels for series in answers["names"]}
    state = {_key(series): label(series, "state") for series in answers["state"]}
    no_limit = {_key(series) for series in answers["unlimited"]}
    shares: dict[DiskKey, list[tuple[float, str]]] = defaultdict(list)
    for series in answers["shares"]:
        if series.known is not None:
            shares[_key(series)].append((series.value, label(series, "parameter")))
    rates = {name: {_key(series): series.known for series in answers[name]} for name in ("operations", "bytes")}
    pass_ended = {key_of(series): series.value for series in answers["pass_ended"]}
    result = []
    for key in keys:
        share, limit = max(shares.get(key, ()), default=(None, None))
        labels = {**facts.get(key, {}), **names.get((key[0], key[3]), {})}
        result.append(
            RegionDisk(
                *key,
                facts={name: labels.get(name, "") for name in (*FACTS, *NAMES)},
                state=state.get(key),
                unlimited=key in no_limit,
                limit=limit,
                share=share,
                operations=rates["operations"].get(key),
                bytes=rates["bytes"].get(key),
                pass_ended=pass_ended.get(key[0]),
            )
        )
    return result


def _key(series: Series) -> DiskKey:
    return key_of(series), *(label(series, name) for name in _DISK)  # type: ignore[return-value]  # three of them
