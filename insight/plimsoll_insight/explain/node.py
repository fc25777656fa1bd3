"""What one node knows of a disk: what its passes measured, its record, its probes, and the guest's console."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median, quantiles

from plimsoll_agent.consoles.model import GuestConsole, Stalls
from plimsoll_agent.consoles.patterns import StallKind
from plimsoll_agent.messages.record import entry_data, entry_line
from plimsoll_agent.model.disk import Disk, guest_of
from plimsoll_agent.model.entries import Entry
from plimsoll_agent.model.limits import PARAMETERS, Limits
from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.pass_summary import LastDisk, LastPass
from plimsoll_agent.monitor.usage_history import PastPass
from plimsoll_agent.terminal.moments import Window
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import ago, minute, plural, printable
from plimsoll_insight.explain.answer import ExplainCase
from plimsoll_insight.explain.diagnosis import Diagnosis, Unexplained
from plimsoll_insight.explain.evidence import Evidence, Neighbour, PassInterval, SharedPlace, idle, since_late
from plimsoll_insight.explain.guests import ExplainedDisk
from plimsoll_insight.explain.messages import FEW_PASSES, UNEXPLAINED, disk_lines
from plimsoll_insight.explain.serialize import disk_data
from plimsoll_insight.explain.slowness import LEAST_OF_NODE, usual_of

_MOST_MISSING = 2016
_TOO_LITTLE = "too little is known (few requests, or few passes with [metrics] textfile_dir)"
_UNEXPLAINED: Mapping[Unexplained, str] = {
    Unexplained.NOT_READ: f"{UNEXPLAINED[Unexplained.NOT_READ]}; Ceph's health is unknown here",
    Unexplained.TOO_LITTLE: _TOO_LITTLE,
    Unexplained.FEW_PASSES: FEW_PASSES,
    Unexplained.STANDS_STILL: "no requests end any more, and they may wait; Ceph's health is unknown here: see"
    " ceph health detail",
    Unexplained.NODE_STANDS_STILL: "no request of any guest on this node ended in the last pass: can it reach Ceph?",
    Unexplained.NO_USUAL: "what is usual for its type is unknown: few passes, or few disks of its type here",
    Unexplained.NODE: "the disks of other guests on this node are slow too: it is the node, or the cluster",
    Unexplained.BURSTS: "perhaps its own limit: on average it used half of it or more, and no other guest is slow",
    Unexplained.ALONE: "it is slow, and the disks of other guests on this node are not (large requests take longer)",
}


@frozen(kw_only=True)
class NodeEvidence:
    """None is unknown, for the reason in ``complaints``."""

    window: Window
    now: datetime
    entries: tuple[Entry, ...] | None
    """Of the record: changes and holds of the disk."""
    last: LastPass | None
    disk: LastDisk | None
    """In the last pass."""
    probes: Mapping[str, int] | None
    """Runs on this node by their verdict."""
    console: GuestConsole | None
    """None also where consoles are not read."""
    explained: ExplainedDisk
    diagnosis: Diagnosis
    guest_name: str
    complaints: tuple[str, ...] = ()


def explain(disk: Disk, evidence: Evidence) -> ExplainedDisk:
    """Its changes are entries of the record."""
    actual = disk.actual if isinstance(disk.actual, Limits) else None
    return ExplainedDisk(
        guest_uuid=disk.guest.uuid,
        disk=disk.target,
        volume=disk.volume_id or "",
        volume_type=disk.volume_type or "",
        pool=disk.pool,
        cluster=disk.cluster or "",
        evidence=evidence,
        limits=None
        if actual is None
        else {one.name: value for one in PARAMETERS if (value := getattr(actual, one.name))},
    )


def evidence(
    past: Iterable[PastPass], disk: Disk, types: Mapping[str, str | None], window: Window, now: datetime
) -> Evidence:
    """What passes measured in this time; ``types`` has the volume types of the node's disks by ``Disk.key``.

    What is usual is the lower quartile over all of these passes, as for the region: the median disk of its type here.
    """
    alike = {key for key, name in types.items() if name == disk.volume_type} | {disk.key}
    medians, numbers, readings = list[float](), list[int](), list[PassInterval]()
    for one in past:
        waits = [each.latency for key, each in one.disks.items() if key in alike and each.latency is not None]
        if waits:
            medians.append(median(waits))
            numbers.append(len(waits))
        # Clocks differ: a pass may be later than now.
        if window.since <= one.at and (one.at <= window.until or window.until == now):
            readings.append(_past_interval(one, disk, alike))
    places = [number for number, each in enumerate(readings) if each.operations is not None]
    readings = readings[places[0] :] if places else []
    gaps = [later.at - each.at for each, later in pairwise(readings)]
    seconds = median(gaps) if gaps else 300.0
    usual = quantiles(medians, n=4, method="inclusive")[0] if len(medians) > 1 else None
    intervals = [*_without_gaps(readings, seconds)]
    # What was due in this time: passes may have stopped.
    for late in range(
        1, min(int((window.until.timestamp() - intervals[-1].at) / seconds), _MOST_MISSING) if intervals else 0
    ):
        intervals.append(PassInterval(at=readings[-1].at + late * seconds))
    since = since_late(intervals[0].at, window.since.timestamp() + seconds, seconds) if intervals else None
    usual = usual_of(usual, numbers, LEAST_OF_NODE)
    return Evidence(seconds=seconds, intervals=tuple(intervals), usual=usual, since=since)


def _without_gaps(readings: Sequence[PassInterval], seconds: float) -> Iterator[PassInterval]:
    """With intervals of which nothing is known where there was no pass."""
    for each, later in pairwise(readings):
        yield each
        for number in range(1, min(round((later.at - each.at) / seconds), _MOST_MISSING)):
            yield PassInterval(at=each.at + number * seconds)
    yield from readings[-1:]


def _past_interval(one: PastPass, disk: Disk, alike: Collection[str]) -> PassInterval:
    own, actual = one.disks.get(disk.key), disk.actual
    is_hung, is_paused = disk.guest.uuid in one.unanswered, disk.guest.uuid in one.paused
    if own is None:
        return PassInterval(at=one.at.timestamp(), unanswered=is_hung, paused=is_paused)
    others = {key: each for key, each in one.disks.items() if guest_of(key) != disk.guest.uuid}
    waits = [each.latency for each in others.values() if each.latency is not None]
    of_type = [each.latency for key, each in others.items() if key in alike and each.latency is not None]
    rates = {unit: {key: getattr(each, unit) for key, each in one.disks.items()} for unit in metrics.UNITS}
    return PassInterval(
        at=one.at.timestamp(),
        operations=own.operations,
        bytes=own.bytes,
        share=own.share,
        limit=own.limit,
        allowed=own.allowed,
        burst=own.limit is not None and isinstance(actual, Limits) and bool(getattr(actual, f"{own.limit}_max")),
        latency=own.latency,
        of_type=median(of_type) if of_type else None,
        of_node=median(waits) if waits else None,
        of_node_disks=len(waits),
        neighbours=tuple(_busiest(rates, disk.guest.uuid)),
        paused=is_paused,
    )


def _busiest(rates_of: Mapping[str, Mapping[str, float]], guest: str) -> Iterator[Neighbour]:
    """Of each unit the busiest other guest; the rates are by ``Disk.key``."""
    for unit, by_disk in rates_of.items():
        rates: dict[str, float] = {}
        for key, rate in by_disk.items():
            rates[guest_of(key)] = rates.get(guest_of(key), 0.0) + rate
        whole = sum(rates.values())
        rates.pop(guest, None)
        most = max(rates, key=lambda uuid: rates[uuid], default=None)
        if most is not None and rates[most]:
            yield Neighbour(uuid=most, place=SharedPlace.NODE, unit=unit, rate=rates[most], share=rates[most] / whole)
        else:
            yield idle(SharedPlace.NODE, unit)


def lines(facts: NodeEvidence) -> Iterator[str]:
    """In words."""
    yield f"In {facts.window.words}, by the passes and the record of this node:"
    yield from (f"  {printable(complaint)}" for complaint in facts.complaints)
    if facts.entries is not None:
        yield from (f"  {entry_line(entry)}" for entry in facts.entries)
        if not facts.entries:
            yield f"  no change of its limits since {minute(facts.window.since)} in this node's record"
    yield from (f"  {line}" for line in (*_console_lines(facts), *_now_lines(facts)))
    if facts.explained.evidence.intervals:
        first = datetime.fromtimestamp(facts.explained.evidence.intervals[0].at, UTC)
        yield f"  what passes measured of it is kept since {minute(first)}"
    _, *rest = disk_lines(facts.explained, facts.diagnosis, facts.probes, _names(facts), _UNEXPLAINED)
    yield from rest
    guest = printable(facts.explained.guest_uuid)
    yield f"With Ceph's health, the pool and other nodes: plimsoll region explain {guest} {facts.window.options}"


def case_of(facts: NodeEvidence) -> ExplainCase:
    """For the answer, which stands before ``lines``."""
    disk = facts.explained
    return ExplainCase(
        server=_names(facts).get(disk.guest_uuid) or facts.guest_name,
        disks=((disk, facts.diagnosis),),
        window=facts.window,
        names=_names(facts),
        reasons=_UNEXPLAINED,
    )


def _names(facts: NodeEvidence) -> dict[str, str]:
    """Of the guests in the last pass, by UUID."""
    disks = () if facts.last is None else facts.last.disks
    return {each.named.guest_uuid: each.server or each.named.guest_name for each in disks}


def _console_lines(facts: NodeEvidence) -> Iterator[str]:
    console = facts.console
    if console is None:
        return
    if console.trouble is not None:
        yield f"its console cannot be read ({printable(console.trouble)}): it is unknown whether it stalled"
    for kind, stalls in _recent(facts).items():
        number = plural(stalls.lines, "line")
        yield f"its kernel reported {kind.value}: {number} since its console is read, the last {minute(stalls.last)}"


def _recent(facts: NodeEvidence) -> dict[StallKind, Stalls]:
    by_kind = {} if facts.console is None else facts.console.stalls
    return {kind: stalls for kind, stalls in by_kind.items() if stalls.last >= facts.window.since}


def _now_lines(facts: NodeEvidence) -> Iterator[str]:
    last, disk = facts.last, facts.disk
    if facts.window.until < facts.now:
        return
    if last is None or disk is None:
        yield "last pass: unknown: no pass over the whole node has seen this disk"
        return
    if disk.held_until is not None:
        yield f"held by an operator until {minute(disk.held_until)}"
    if disk.gated:
        yield "its change is deferred: its cluster is unhealthy, or its health unknown"
    if disk.rates is None:
        when = ago(last.ended, facts.now)
        yield f"last pass, {when}: its use is unknown, which needs two readings of QEMU's counters"


def data(facts: NodeEvidence) -> dict[str, object]:
    """The same as plain data."""
    console = facts.console
    return {
        "since": facts.window.since.isoformat(),
        "until": facts.window.until.isoformat(),
        "entries": None if facts.entries is None else [entry_data(entry) for entry in facts.entries],
        "held_until": None
        if facts.disk is None or facts.disk.held_until is None
        else facts.disk.held_until.isoformat(),
        "probes": None if facts.probes is None else dict(facts.probes),
        "console": None
        if console is None
        else {
            "state": console.state.value,
            "stalls": {
                kind.value: {"lines": stalls.lines, "last": stalls.last.isoformat()}
                for kind, stalls in _recent(facts).items()
            },
        },
        "disk": disk_data(facts.explained, facts.diagnosis, _names(facts)),
        "complaints": list(facts.complaints),
    }


def verdicts(values: Sequence[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
