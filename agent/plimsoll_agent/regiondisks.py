"""The disks of the region that somebody should look at: without a limit, not as wanted, or at the wall."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from plimsoll_agent.outcome import Kind
from plimsoll_agent.promql import Answers, Ask, NodeKey, Selection, Series, any_of, each, key_of, label
from plimsoll_agent.usage import AT_WALL

UNLIMITED = "unlimited"
WALL = "at-wall"
STATES = (UNLIMITED, *(kind.value for kind in Kind), WALL)
"""What a disk can be asked for by."""
WORST = (UNLIMITED, *(kind.value for kind in (Kind.FAILED, Kind.NOT_KNOWN, Kind.WAITS, Kind.PLANNED)), WALL)
"""What is listed where nobody asks for something else: the worst first."""
_DISK = ("domain", "target_device", "uuid")
_BY = f"region, instance, {', '.join(_DISK)}"
_INFO = "plimsoll_disk_info"
FACTS = ("volume", "project", "flavor", "volume_type", "pool", "cluster")
_NAMED = 500
"""So many disks are asked for by their names; of more, everything is read."""

DiskKey = tuple[NodeKey, str, str, str]
"""The node, the domain's name, the target, the domain's uuid."""


@dataclass(frozen=True, slots=True)
class RegionDisk:
    """A disk, as its node told last. What is None is not known."""

    node: NodeKey
    domain: str
    target: str
    uuid: str
    facts: Mapping[str, str] = field(hash=False)
    """Volume, project, flavor, volume type, pool, cluster; empty where the disk has none."""
    state: str | None
    unlimited: bool
    """Nothing limits it, and a limit is wanted."""
    wall: str | None
    """The limit of which it used the largest share, under libvirt's name."""
    share: float | None
    operations: float | None
    """A second, reads and writes, on average between the node's last two passes."""
    bytes: float | None
    told: float | None
    """When the pass ended that told all this (seconds since 1970)."""

    @property
    def at_wall(self) -> bool:
        return self.share is not None and self.share >= AT_WALL

    @property
    def states(self) -> tuple[str, ...]:
        """Its names among ``STATES``."""
        found = {UNLIMITED: self.unlimited, self.state: True, WALL: self.at_wall}
        return tuple(state for state in STATES if found.get(state))


def number_questions(selection: Selection, states: Sequence[str]) -> dict[str, str]:
    """Which nodes there are, which tell of their disks in sums only, and how many disks are in each state."""
    nodes = selection.matchers()
    asked = {
        "nodes": each("plimsoll_pass_last_timestamp_seconds", nodes),
        "aggregates": without_disks(nodes),
    }
    return asked | {state: f"count({_found(selection, state)})" for state in states}


def search(
    ask: Ask, selection: Selection, numbers: Mapping[str, int], states: Sequence[str], most: int
) -> list[DiskKey]:
    """The worst disks, at most so many (0 for all): by the first of these states that each is in, then by what it
    does. What ``numbers`` tell that is not needed is not asked for. Raises ``PlimsollError``.
    """
    keys: dict[DiskKey, None] = {}
    for state in states:
        room = most - len(keys) if most else numbers[state]
        if room > 0 and numbers[state]:
            found = _found(selection, state)
            answer = ask(found if numbers[state] <= room else f"topk({most}, {_ranked(selection, state, found)})")
            keys |= {_key(series): None for series in sorted(answer, key=lambda series: -(series.known or 0))}
    return list(keys)[: most or None]


def _ranked(selection: Selection, state: str, found: str) -> str:
    """The disks with what they do; at the wall, with the share that they have of it already."""
    if state == WALL:
        return found
    these = f"plimsoll_disk_average_operations_per_second{selection.matchers()} and on ({_BY}) ({found})"
    return f"sum by ({_BY}) ({each(these, '', *_DISK, 'direction')}) or ({found}) * 0"


def _found(selection: Selection, state: str) -> str:
    nodes = selection.matchers()
    if state == UNLIMITED:
        found = _unlimited(nodes)
    elif state == WALL:
        found = f"{each('plimsoll_disk_average_limit_ratio', nodes, *_DISK)} >= {AT_WALL}"
    else:
        in_state = selection.matchers(any_of("state", [state]))
        found = f"{each('plimsoll_disk_state', in_state, *_DISK)} == 1"
    if selection.types or selection.projects:
        found += f" and on ({_BY}) {_INFO}{selection.matchers(types=True, projects=True)}"
    return found


def _unlimited(matchers: str) -> str:
    # Without a limit that is wanted it may well be so.
    unlimited = f"{each('plimsoll_disk_unlimited', matchers, *_DISK)} == 1"
    return f"{unlimited} and on ({_BY}) plimsoll_disk_limit_wanted{matchers}"


def without_disks(matchers: str) -> str:
    """The nodes that have disks, and tell of them in sums only."""
    return f"({each('plimsoll_disks', matchers)} > 0) unless on (region, instance) {_INFO}{matchers}"


def fact_questions(selection: Selection, disks: Iterable[DiskKey]) -> dict[str, str]:
    """All that is told of these disks, of which there is one at least, and of others perhaps."""
    uuids = sorted({uuid for _, _, _, uuid in disks})
    nodes = selection.matchers(*([any_of("uuid", uuids)] if len(uuids) <= _NAMED else []))
    return {
        "info": each(_INFO, nodes, *_DISK, *FACTS),
        "state": each("plimsoll_disk_state", nodes, *_DISK, "state") + " == 1",
        "unlimited": _unlimited(nodes),
        "shares": each("plimsoll_disk_average_limit_ratio", nodes, *_DISK, "parameter"),
        "operations": f"sum by ({_BY}) "
        f"({each('plimsoll_disk_average_operations_per_second', nodes, *_DISK, 'direction')})",
        "bytes": f"sum by ({_BY}) ({each('plimsoll_disk_average_bytes_per_second', nodes, *_DISK, 'direction')})",
        "told": each("plimsoll_pass_last_timestamp_seconds", selection.matchers()),
    }


def numbers(answers: Answers, states: Sequence[str]) -> dict[str, int]:
    """How many disks are in each of these states. ``answers`` are those to ``number_questions``."""
    return {state: sum(round(series.value) for series in answers[state]) for state in states}


def aggregates(answers: Answers) -> set[NodeKey]:
    """Nodes that tell of their disks in sums only."""
    return {key_of(series) for series in answers["aggregates"]}


def worst_first(disks: Iterable[RegionDisk], states: Sequence[str]) -> list[RegionDisk]:
    """By the first of these states that each is in, and then by what it does: at the wall, by its share."""

    def badness(disk: RegionDisk) -> tuple[int, float]:
        place = next((number for number, state in enumerate(states) if state in disk.states), len(states))
        at_wall = place < len(states) and states[place] == WALL
        return place, -((disk.share if at_wall else disk.operations) or 0.0)

    return sorted(disks, key=badness)


def disks(answers: Answers, keys: Sequence[DiskKey]) -> list[RegionDisk]:
    """These disks in their order. ``answers`` are those to ``fact_questions``."""
    facts = {_key(series): series.labels for series in answers["info"]}
    state = {_key(series): label(series, "state") for series in answers["state"]}
    unlimited = {_key(series) for series in answers["unlimited"]}
    shares: dict[DiskKey, list[tuple[float, str]]] = defaultdict(list)
    for series in answers["shares"]:
        if series.known is not None:
            shares[_key(series)].append((series.value, label(series, "parameter")))
    done = {name: {_key(series): series.known for series in answers[name]} for name in ("operations", "bytes")}
    told = {key_of(series): series.value for series in answers["told"]}
    listed = []
    for key in keys:
        share, wall = max(shares.get(key, ()), default=(None, None))
        listed.append(
            RegionDisk(
                *key,
                facts={name: facts.get(key, {}).get(name, "") for name in FACTS},
                state=state.get(key),
                unlimited=key in unlimited,
                wall=wall,
                share=share,
                operations=done["operations"].get(key),
                bytes=done["bytes"].get(key),
                told=told.get(key[0]),
            )
        )
    return listed


def _key(series: Series) -> DiskKey:
    return key_of(series), *(label(series, name) for name in _DISK)  # type: ignore[return-value]  # three of them
