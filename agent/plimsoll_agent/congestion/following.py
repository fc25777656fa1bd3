"""The factor that a node applies to the disks of each pool: the published one, or without that the way back. Pure.

A change of it costs a write of limits to each disk of the pool, which fills QEMU's buckets: so small changes are left
out, and there are at most ``MOST_MOVES`` an hour. The last of these is kept for the return to 1, which so comes in
time whatever was before. A disk without a factor has its desired limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from plimsoll_agent.congestion.law import TUNING, returned
from plimsoll_agent.congestion.published import LASTS, Factors
from plimsoll_agent.congestion.signal import PoolKey
from plimsoll_agent.util.decoding import Count, Moment, Ratio
from plimsoll_agent.util.frozen import frozen, replace

MOST_MOVES = 20
WITHIN = timedelta(hours=1)
HYSTERESIS = 0.03
"""A factor that differs by less than this share of the present one is not applied, unless it is 1."""
PERIOD = timedelta(seconds=TUNING.period)


@frozen(kw_only=True)
class Followed:
    """The factor of a pool on this node."""

    x: Ratio
    """The one that is applied."""
    device_class: str
    published: Ratio
    """The one that was published last,"""
    until: Moment
    """which counts so long,"""
    generation: Count
    """in this generation of its file. An earlier one is refused."""
    moves: tuple[Moment, ...] = ()
    """When ``x`` has changed in the last hour."""

    def counts(self, now: datetime) -> bool:
        """Else it is only there for its moves."""
        return self.x < 1 or now < self.until


Pools = Mapping[PoolKey, Followed]


@frozen
class Following:
    """What a pass applies. A pool that is missing has 1."""

    pools: Pools = field(default_factory=dict, hash=False)
    saves: bool = False
    """The pass is to save these, before it writes the first limit that follows them."""

    def x(self, cluster: str | None, pool: str) -> float:
        its = self.pools.get((cluster or "", pool))
        return 1.0 if its is None else its.x

    def device_class(self, cluster: str | None, pool: str) -> str:
        """ "" if it is unknown."""
        its = self.pools.get((cluster or "", pool))
        return "" if its is None else its.device_class


def follow(
    before: Pools, factors: Factors | None, now: datetime, enforces: Callable[[str], bool]
) -> dict[PoolKey, Followed]:
    """The factors at this time; ``enforces`` is whether a cluster's (by its fsid) are to be applied at all."""
    files = {} if factors is None else factors.clusters
    pools = {pool for file in files.values() for pool in file.pools} | before.keys()
    after: dict[PoolKey, Followed] = {}
    for pool in sorted(pools):
        last, file = before.get(pool), files.get(pool[0])
        if not enforces(pool[0]):
            if last is not None:
                after[pool] = _ended(last, now)
            continue
        factor = None if file is None else file.of(pool)
        # An earlier one is of before; once the last has expired, it is of a machine whose clock is not ahead.
        if (
            file is not None
            and factor is not None
            and (last is None or file.generation >= last.generation or last.until <= now)
        ):
            new = Followed(
                x=1.0 if last is None else last.x,
                device_class=factor.device_class,
                published=factor.x,
                until=file.valid_until,
                generation=file.generation,
                moves=() if last is None else last.moves,
            )
            after[pool] = _moved(new, factor.x, now)
        elif last is not None:
            after[pool] = _moved(last, _without_signal(last, now), now)
    return {pool: each for pool, each in after.items() if each.x < 1 or each.moves or each.until > now}


def ended(before: Pools, now: datetime) -> dict[PoolKey, Followed]:
    """All of them at 1: nothing is reduced any more."""
    after = {pool: _ended(each, now) for pool, each in before.items()}
    return {pool: each for pool, each in after.items() if each.moves}


def _ended(each: Followed, now: datetime) -> Followed:
    return replace(_moved(each, 1.0, now, always=True), until=min(each.until, now))


def _without_signal(last: Followed, now: datetime) -> float:
    """The published factor counts until it expires; from then on x grows in each period."""
    if now < last.until:
        return last.x if last.until - now <= 2 * LASTS else 1.0  # the clock was ahead then
    since_then = 1 + (now - last.until) // PERIOD
    if len(_recent(last, now)) >= MOST_MOVES - 1:  # the only move that is left is the one to 1
        return 1.0 if returned(last.x, since_then) == 1 else last.x
    last_move = min(last.moves[-1], now) if last.moves else last.until  # the clock may have been ahead
    # Passes save what they follow, and the last one may have been minutes before the file expired: so one step first.
    return returned(last.x, (now - last_move) // PERIOD if last_move >= last.until else 1)


def _moved(each: Followed, x: float, now: datetime, *, always: bool = False) -> Followed:
    moves = _recent(each, now)
    is_small = x < 1 and abs(x - each.x) < HYSTERESIS * each.x
    room = MOST_MOVES if x == 1 else MOST_MOVES - 1
    if x == each.x or (not always and (is_small or len(moves) >= room)):
        return replace(each, moves=moves)
    return replace(each, x=x, moves=(*moves, now))


def _recent(each: Followed, now: datetime) -> tuple[datetime, ...]:
    return tuple(min(at, now) for at in each.moves if now - at < WITHIN)
