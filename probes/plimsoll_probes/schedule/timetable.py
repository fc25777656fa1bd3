"""When each target is probed: at fixed times.

The times of a target are ``n × every + phase`` since the epoch. The phase is a hash of node, guest and directory: it
spreads targets evenly and stays the same without being stored. Time zones and summer time do not matter.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.schedule.targets import PlannedTarget


@frozen
class Due:
    """A target at one of its times."""

    target: PlannedTarget
    at: datetime


def previous(target: PlannedTarget, now: datetime) -> datetime:
    """The target's last time up to now."""
    every, phase = _seconds(target), _phase(target)
    return datetime.fromtimestamp((math.floor(now.timestamp()) - phase) // every * every + phase, UTC)


def following(target: PlannedTarget, now: datetime) -> datetime:
    """The target's first time after now."""
    return previous(target, now) + target.probing.every


def due(
    targets: Iterable[PlannedTarget], starts: Mapping[tuple[str, str], datetime], now: datetime, late: float
) -> tuple[Due, ...]:
    """The targets whose last time is at most ``late`` seconds ago and had no probe yet, longest waiting first.

    ``starts`` has by ``Target.key`` when the last probe began, without probes after now, which a clock leaves that
    was set back. Missed times are not made up: each target is due at most once.
    """
    waiting: list[Due] = []
    for target in targets:
        at = previous(target, now)
        last = starts.get(target.key)
        had_probe = last is not None and at <= last <= now
        if now - at <= timedelta(seconds=late) and not had_probe:
            waiting.append(Due(target, at))
    return tuple(sorted(waiting, key=_order))


def table(targets: Iterable[PlannedTarget], now: datetime, until: datetime) -> tuple[Due, ...]:
    """All times after now up to ``until``, or to the end of the target's rule."""
    times = (Due(target, at) for target in targets for at in _times(target, now, until))
    return tuple(sorted(times, key=_order))


def _times(target: PlannedTarget, now: datetime, until: datetime) -> Iterator[datetime]:
    at = following(target, now)
    while at <= until and (target.until is None or at < target.until):
        yield at
        at += target.probing.every


def _order(item: Due) -> tuple[datetime, str, str]:
    return item.at, *item.target.key


def _seconds(target: PlannedTarget) -> int:
    return int(target.probing.every.total_seconds())


def _phase(target: PlannedTarget) -> int:
    """Seconds, less than ``every``."""
    name = "\0".join((target.node, *target.key)).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(name).digest()) % _seconds(target)
