"""What volumes did lately by the region's Prometheus, beside limits that they may get: queries and answers.

Prometheus compares: for a region's volumes over a week the averages themselves would be gigabytes. Of a volume that
moved to another node or guest in the time, both count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

from plimsoll_agent.model.impact import Impact, tightened_bases
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.monitor import metrics
from plimsoll_monitoring.promql import any_of, braces, each, equal
from plimsoll_monitoring.region.answers import Ask, Series, label

WEEK = 7 * 86400
STEP = 300
"""Seconds between two looks at a volume's averages; a pass every five minutes has one for each."""
_AT_ONCE = 200
"""So many volumes are in one query."""
_DISK = ("uuid", "target_device")
_ON = f"on (region, instance, {', '.join(_DISK)})"
Limit = tuple[Limits, Limits]
"""Before and after."""


def impacts(
    ask: Ask, limits: Mapping[str, Limit], before_each: Callable[[], None] = lambda: None
) -> dict[str, Impact | None]:
    """By the volumes' ids; None where Prometheus has no averages of it. ``before_each`` query is called first.

    Raises ``PlimsollError``.
    """

    def asks(promql: str) -> Sequence[Series]:
        before_each()
        return ask(promql)

    answers: dict[str, Impact | None] = dict.fromkeys(limits)
    for pair in dict.fromkeys(limits.values()):
        for volumes in _parts([volume for volume, its in limits.items() if its == pair]):
            answers |= _of_part(asks, volumes, *pair)
    return answers


def guests_of(ask: Ask, volumes: Collection[str]) -> dict[str, str]:
    """The name of the server that has each volume now, by the volume's id; without those that are unknown.

    Prometheus must not join them: it refuses where nodes tell two names of a server, as while it moves.
    """
    if not volumes:
        return {}
    disks = ask(f"group by (uuid, volume) ({metrics.DISK_INFO}{braces(any_of('volume', sorted(volumes)))})")
    uuids = sorted({label(series, "uuid") for series in disks})
    names = ask(f"group by (uuid, server) ({metrics.GUEST_INFO}{braces(any_of('uuid', uuids))})") if uuids else ()
    servers = {label(series, "uuid"): label(series, "server") for series in names if label(series, "server")}
    pairs = ((label(series, "volume"), servers.get(label(series, "uuid"))) for series in disks)
    return {volume: server for volume, server in pairs if server}


def _parts(volumes: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(volumes)
    while part := list(islice(rest, _AT_ONCE)):
        yield part


def _of_part(ask: Ask, volumes: Sequence[str], before: Limits, after: Limits) -> dict[str, Impact]:
    over = f"[{WEEK}s:{STEP}s]"
    info = braces(any_of("volume", volumes))
    uuids = sorted(
        {label(series, "uuid") for series in ask(f"group by (uuid) (last_over_time({_info(info, WEEK)}))")}
    )
    if not uuids:
        return {}
    rates = {base: _rate(base, after, braces(any_of("uuid", uuids)), info) for base in tightened_bases(before, after)}
    shares = {base: f"({rate}) / {after.most(base, STEP) / STEP}" for base, rate in rates.items()}
    at_limit = " + ".join(f"(({share}) >= bool {AT_LIMIT_RATIO})" for share in shares.values())
    times = _values(ask(f"count_over_time(({next(iter(rates.values()))}){over})"))
    part = _values(ask(f"avg_over_time(clamp_max({at_limit}, 1){over})"))
    most = {base: _values(ask(f"max_over_time(({share}){over})")) for base, share in shares.items()}
    now = {base: _values(ask(f"last_over_time(({rate}){over})")) for base, rate in rates.items()}
    answers = {}
    for volume in part.keys() & times.keys():
        base = max(rates, key=lambda each: most[each].get(volume, 0.0))
        answers[volume] = Impact(
            seconds=times[volume] * STEP, share=part[volume], base=base, present=now[base].get(volume, 0.0)
        )
    return answers


def _info(matchers: str, seconds: int) -> str:
    return f"{metrics.DISK_INFO}{matchers}[{seconds}s]"


def _rate(base: str, after: Limits, guests: str, info: str) -> str:
    """What a limit of this name counts a second, by volume."""
    scope, unit, _ = base.split("_")
    side = "" if scope == "total" else equal("direction", scope)
    count = _average("operations" if unit == "iops" else "bytes", guests, side)
    if unit == "iops" and after.size_iops_sec:
        # The least that QEMU can have counted, as ``Rates.counted``.
        parts = f"{_average('bytes', guests, side)} / {after.size_iops_sec}"
        count = f"({count} >= {parts} or {parts})"
    of_disk = f"sum by (region, instance, {', '.join(_DISK)}) ({count})"
    volume = each(metrics.DISK_INFO, info, *_DISK, "volume")
    return f"sum by (volume) ({of_disk} * {_ON} group_left (volume) {volume})"


def _average(unit: str, guests: str, side: str) -> str:
    matchers = braces(guests.strip("{}"), side)
    return each(metrics.DISK_AVERAGE[unit], matchers, *_DISK, "direction")


def _values(answer: Sequence[Series]) -> dict[str, float]:
    return {label(series, "volume"): series.value for series in answer if math.isfinite(series.value)}
