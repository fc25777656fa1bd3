"""What disks did in the last week by the region's Prometheus, in steps that are longer the longer ago they are.

Rates and latency are averages over the step; the share of a limit is the highest of a pass in it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.usage_history import PastDisk, PastPass
from plimsoll_agent.util.frozen import frozen
from plimsoll_monitoring.promql import any_of, braces, each
from plimsoll_monitoring.region.answers import NodeKey, TimeSeries, key_of, label

STEPS = ((600, 30), (3600, 18), (4 * 3600, 36))
"""Seconds of a step, and how many of them: five hours, then most of a day, then six days."""
STALE = 3600
"""Seconds after which what a pass observed counts no more."""
_AT_ONCE = 200
"""So many guests are in one query."""
Over = Callable[[str, float, int, int], Sequence[TimeSeries]]
"""The values of a query up to a time (seconds since 1970), of so many seconds, one each step. Raises
``PlimsollError``."""


@frozen(kw_only=True)
class _At:
    """The place of a value: a disk on a node, at the end of a step."""

    node: NodeKey
    guest: str
    target: str
    time: float


def passes(over: Over, disks: Sequence[Disk], until: datetime) -> list[PastPass]:
    """The steps up to then, the oldest first, from the first one with a sample. Raises ``PlimsollError``."""
    end, steps = float(int(until.timestamp())), list[PastPass]()
    guests = sorted({disk.guest.uuid for disk in disks})
    chunks = [guests[at : at + _AT_ONCE] for at in range(0, len(guests), _AT_ONCE)]
    for step, number in STEPS:
        of_time: dict[float, dict[str, PastDisk]] = defaultdict(dict)
        hung_guests: dict[float, set[str]] = defaultdict(set)
        for chunk in chunks:
            answers = _Answers(over, chunk, end, step, number)
            for at, uuid in answers.hung():
                hung_guests[at].add(uuid)
            for at, key, past in answers.disks({(disk.guest.uuid, disk.target): disk for disk in disks}):
                of_time[at][key] = past
        times = [end - back * step for back in range(number)]
        steps += (
            PastPass(
                at=datetime.fromtimestamp(at, UTC),
                disks=of_time[at],
                unanswered=frozenset(hung_guests[at]),
                step=step,
            )
            for at in times
        )
        end -= number * step
    while steps and not (steps[-1].disks or steps[-1].unanswered):
        steps.pop()
    return steps[::-1]


class _Answers:
    """The answers about some guests in steps of one length."""

    def __init__(self, over: Over, guests: Sequence[str], end: float, step: int, number: int) -> None:
        self._over, self._end, self._step, self._number = over, end, step, number
        self._of_guests = braces(any_of("uuid", guests))

    def hung(self) -> Iterator[tuple[float, str]]:
        """Guests that did not answer a pass, and when."""
        for line in self._lines("max", metrics.GUEST_HUNG, "uuid"):
            yield from ((at, label(line, "uuid")) for at, value in line.values.items() if value == 1)

    def disks(self, here: Mapping[tuple[str, str], Disk]) -> Iterator[tuple[float, str, PastDisk]]:
        """What is known of them, with the end of its step and ``Disk.key``."""
        places = self._same(here)
        rates = [self._by("direction", "avg", metrics.DISK_AVERAGE[unit]) for unit in metrics.UNITS]
        latencies = self._by("", "avg", metrics.DISK_AVERAGE_LATENCY_SECONDS)
        shares = self._by("parameter", "max", metrics.DISK_AVERAGE_LIMIT_RATIO)
        actual = [metrics.DISK_LIMIT_ACTUAL[f"{unit}_per_second"] for unit in metrics.UNITS]
        limits = self._by("parameter", "last", *actual)
        best: dict[tuple[float, str], PastDisk] = {}
        for at, key in places.items():
            values = [its[at].get(side) for its in rates for side in ("read", "write")]
            past = _past(values, latencies[at].get(""), shares[at], limits[at], self._step)
            other = best.get((at.time, key))  # on another node: the guest moved in this step
            if past is not None and (other is None or past.operations > other.operations):
                best[at.time, key] = past
        for (time, key), past in best.items():
            yield time, key, past

    def _same(self, here: Mapping[tuple[str, str], Disk]) -> dict[_At, str]:
        """Where the disks that are here now were, by nodes that observed them lately."""
        ages = {
            (key_of(line), at): at - time
            for line in self._ask(
                f"max by (region, instance) (max_over_time({metrics.PASS_OBSERVED_TIMESTAMP_SECONDS}[{self._step}s]))"
            )
            for at, time in line.values.items()
        }
        same = {}
        for line in self._lines("last", metrics.DISK_INFO, *_DISK, "volume"):
            disk = here.get((label(line, "uuid"), label(line, "target_device")))
            if disk is None or label(line, "volume") != (disk.volume_id or ""):
                continue
            for at in line.values:
                if ages.get((key_of(line), at), math.inf) <= max(self._step, STALE):
                    same[_at(line, at)] = disk.key
        return same

    def _by(self, name: str, of_step: str, *of: str) -> dict[_At, dict[str, float]]:
        """By the values of that label; those that are no number are unknown."""
        values: dict[_At, dict[str, float]] = defaultdict(dict)
        for line in (line for metric in of for line in self._lines(of_step, metric, *_DISK, name)):
            for at, value in line.values.items():
                if math.isfinite(value):
                    values[_at(line, at)][label(line, name)] = value
        return values

    def _lines(self, of_step: str, metric: str, *by: str) -> Sequence[TimeSeries]:
        over_time = f"{of_step}_over_time({metric}{self._of_guests}[{self._step}s])"
        return self._ask(each(over_time, "", *filter(None, by)))

    def _ask(self, promql: str) -> Sequence[TimeSeries]:
        return self._over(promql, self._end, self._step * self._number, self._step)


_DISK = ("uuid", "target_device")


def _at(line: TimeSeries, time: float) -> _At:
    return _At(node=key_of(line), guest=label(line, "uuid"), target=label(line, "target_device"), time=time)


def _past(
    values: Sequence[float | None],
    latency: float | None,
    shares: Mapping[str, float],
    limits: Mapping[str, float],
    step: int,
) -> PastDisk | None:
    """None without all of its rates."""
    reads, writes, read_bytes, write_bytes = values
    if reads is None or writes is None or read_bytes is None or write_bytes is None:
        return None
    rates = Rates(
        read_iops=reads,
        write_iops=writes,
        read_bytes=read_bytes,
        write_bytes=write_bytes,
        seconds=float(step),
        latency=latency,
    )
    limit = max(shares, key=lambda name: shares[name]) if shares else None
    return PastDisk(
        operations=rates.of("total_iops_sec"),
        bytes=rates.of("total_bytes_sec"),
        latency=latency,
        limit=limit,
        share=None if limit is None else shares[limit],
        allowed=round(limits[limit]) if limit is not None and limit in limits else None,
        rates=rates,
    )
