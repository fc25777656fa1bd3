"""When each target is probed: at fixed times of its own, from which it never drifts.

The times of a target are ``n × every + phase`` since the epoch. The phase comes from the names of node, guest and
directory: it spreads them evenly and is the same after every restart, with nothing stored. Time zones and their
summer times do not matter.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from plimsoll_probes.chosen import Planned


@dataclass(frozen=True, slots=True)
class Due:
    """A target at one of its times."""

    target: Planned
    at: datetime


def previous(target: Planned, now: datetime) -> datetime:
    """Its last time that is not after now."""
    every, phase = _seconds(target), _phase(target)
    return datetime.fromtimestamp((math.floor(now.timestamp()) - phase) // every * every + phase, UTC)


def following(target: Planned, now: datetime) -> datetime:
    """Its first time after now."""
    return previous(target, now) + target.probing.every


def due(
    targets: Iterable[Planned], begun: Mapping[tuple[str, str], datetime], now: datetime, late: float
) -> tuple[Due, ...]:
    """The targets whose last time is at most ``late`` seconds ago and was not used yet, the longest waiting first.

    ``begun`` says by ``Target.key`` when the last probe began that had begun by now. What a clock that was set back
    left after now must not hide it there: it is no probe of this time, and counts for nothing here. A time that was
    missed is gone; so each target is due once at the most, however long nobody asked.
    """
    waiting: list[Due] = []
    for target in targets:
        at = previous(target, now)
        last = begun.get(target.key)
        used = last is not None and at <= last <= now
        if now - at <= timedelta(seconds=late) and not used:
            waiting.append(Due(target, at))
    return tuple(sorted(waiting, key=_order))


def table(targets: Iterable[Planned], now: datetime, until: datetime) -> tuple[Due, ...]:
    """All times after now and not after ``until``; a rule that ends before has none after its end."""
    times = (Due(target, at) for target in targets for at in _times(target, now, until))
    return tuple(sorted(times, key=_order))


def _times(target: Planned, now: datetime, until: datetime) -> Iterator[datetime]:
    at = following(target, now)
    while at <= until and (target.until is None or at < target.until):
        yield at
        at += target.probing.every


def _order(item: Due) -> tuple[datetime, str, str]:
    return item.at, *item.target.key


def _seconds(target: Planned) -> int:
    return int(target.probing.every.total_seconds())


def _phase(target: Planned) -> int:
    """Seconds, below those of ``every``."""
    name = "\0".join((target.node, *target.key)).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(name).digest()) % _seconds(target)
