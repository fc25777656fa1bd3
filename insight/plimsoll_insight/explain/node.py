"""What one node knows of a disk: its last pass, its record and its probes. Figures over time are in Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from statistics import median

from plimsoll_agent.fleet.messages import percent, seconds_words
from plimsoll_agent.messages.limits import short_limits
from plimsoll_agent.messages.record import entry_data, entry_words, time_words
from plimsoll_agent.monitor.pass_summary import LastDisk, LastPass
from plimsoll_agent.store.entries import Entry
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import ago, minute, plural, printable
from plimsoll_insight.explain.cause import Cause
from plimsoll_insight.explain.evidence import Interval, Neighbour, Place
from plimsoll_insight.explain.messages import CAUSES


@frozen
class NodeEvidence:
    """None is unknown, for the reason in ``complaints``."""

    since: datetime
    now: datetime
    entries: tuple[Entry, ...] | None
    """Of the record: changes and holds of the disk."""
    last: LastPass | None
    disk: LastDisk | None
    """In the last pass."""
    probes: Mapping[str, int] | None
    """Runs on this node by their verdict."""
    complaints: tuple[str, ...] = ()

    @property
    def cause(self) -> Cause:
        """The limit where the disk was at limit in the last pass; one pass tells no more."""
        return Cause.LIMIT if self.disk is not None and self.disk.at_limit else Cause.UNKNOWN


def interval(last: LastPass, disk: LastDisk) -> Interval | None:
    """The averages of the last pass, of the disk and of other guests on the node; None without any."""
    rates = disk.rates
    if rates is None or last.looked is None:
        return None
    others = [each for each in last.disks if each.named.guest_uuid != disk.named.guest_uuid and each.rates]
    waits = [each.rates.latency for each in others if each.rates and each.rates.latency is not None]
    of_type = [
        each.rates.latency
        for each in others
        if each.rates and each.rates.latency is not None and each.volume_type == disk.volume_type
    ]
    limit = max(disk.shares, key=lambda name: disk.shares[name], default=None)
    return Interval(
        last.looked.timestamp(),
        operations=rates.of("total_iops_sec"),
        bytes=rates.of("total_bytes_sec"),
        share=None if limit is None else disk.shares[limit],
        limit=limit,
        allowed=None if limit is None or disk.actual is None else getattr(disk.actual, limit) or None,
        latency=rates.latency,
        of_type=median(of_type) if of_type else None,
        of_type_disks=len(of_type),
        of_node=median(waits) if waits else None,
        of_node_disks=len(waits),
        neighbours=tuple(_busiest(last, disk)),
    )


def _busiest(last: LastPass, disk: LastDisk) -> Iterator[Neighbour]:
    for unit, base in (("operations", "total_iops_sec"), ("bytes", "total_bytes_sec")):
        rates: dict[str, float] = {}
        for each in last.disks:
            if each.rates is not None:
                uuid = each.named.guest_uuid
                rates[uuid] = rates.get(uuid, 0.0) + each.rates.of(base)
        whole = sum(rates.values())
        rates.pop(disk.named.guest_uuid, None)
        most = max(rates, key=lambda uuid: rates[uuid], default=None)
        if most is not None and rates[most]:
            yield Neighbour(most, Place.NODE, unit, rates[most], rates[most] / whole)


def lines(found: NodeEvidence, name: str, asked: str) -> Iterator[str]:
    """In words; ``name`` is the guest's UUID, ``asked`` the duration that was typed."""
    yield f"In the last {asked}, by this node's record and its last pass:"
    yield from (f"  {printable(complaint)}" for complaint in found.complaints)
    if found.entries is not None:
        yield from (f"  {time_words(entry.at)}  {entry_words(entry)}" for entry in found.entries)
        if not found.entries:
            yield f"  no change of its limits since {minute(found.since)} in this node's record"
    yield from (f"  {line}" for line in _pass_lines(found))
    if found.probes is not None:
        told = ", ".join(f"{number} {printable(verdict)}" for verdict, number in sorted(found.probes.items()))
        yield f"  probes on this node: {told or 'none'}"
    words = f"  Cause: {CAUSES[found.cause]}"
    yield words + (" in the last pass" if found.cause is Cause.LIMIT else ": one pass does not show it")
    yield f"Figures over time are in Prometheus: plimsoll region explain {printable(name)} --since {asked}"


def _pass_lines(found: NodeEvidence) -> Iterator[str]:
    last, disk = found.last, found.disk
    if last is None or disk is None:
        yield "last pass: unknown: no pass over the whole node has seen this disk"
        return
    if disk.held_until is not None:
        yield f"held by an operator until {minute(disk.held_until)}"
    if disk.gated:
        yield "its change is deferred: its cluster is unhealthy, or its health unknown"
    one, when = interval(last, disk), ago(last.ended, found.now)
    if one is None:
        yield f"last pass, {when}: its use is unknown, which needs two readings of QEMU's counters"
        return
    limits = "unknown" if disk.actual is None else short_limits(disk.actual)
    used = "" if one.share is None or one.limit is None else f", {percent(one.share)} of {one.limit}"
    yield (
        f"last pass, {when}: {one.operations or 0:.0f} IOPS{used} (limit {limits}); a request took"
        f" {seconds_words(one.latency)}"
    )
    yield (
        f"others on this node: {plural(one.of_type_disks or 0, 'disk')} of its type took"
        f" {seconds_words(one.of_type)}, all {one.of_node_disks} took {seconds_words(one.of_node)} (median)"
    )
    names = {each.named.guest_uuid: each.named.guest_name for each in last.disks}
    for busy in one.neighbours:
        unit = "requests" if busy.unit == "operations" else "bytes"
        yield f"busiest other guest: {printable(names[busy.uuid])} did {percent(busy.share)} of all {unit}"


def data(found: NodeEvidence) -> dict[str, object]:
    """The same as plain data."""
    one = None if found.last is None or found.disk is None else interval(found.last, found.disk)
    return {
        "since": found.since.isoformat(),
        "entries": None if found.entries is None else [entry_data(entry) for entry in found.entries],
        "last_pass": None
        if one is None or found.last is None
        else {
            "at": found.last.ended.isoformat(),
            "operations_per_second": one.operations,
            "bytes_per_second": one.bytes,
            "limit": one.limit,
            "limit_ratio": one.share,
            "latency": one.latency,
            "type_latency": one.of_type,
            "node_latency": one.of_node,
            "neighbours": [
                {"guest_uuid": each.uuid, "place": each.place.value, "unit": each.unit, "share": each.share}
                for each in one.neighbours
            ],
        },
        "held_until": None
        if found.disk is None or found.disk.held_until is None
        else found.disk.held_until.isoformat(),
        "probes": None if found.probes is None else dict(found.probes),
        "cause": found.cause.value,
        "complaints": list(found.complaints),
    }


def verdicts(told: Sequence[str]) -> dict[str, int]:
    return dict(sorted(Counter(told).items()))
