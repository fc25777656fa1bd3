"""The factors of congestion that a node applies, to and from JSON."""

from __future__ import annotations

import json
from typing import Any

from plimsoll_agent.congestion import law
from plimsoll_agent.congestion.following import Followed, Pools
from plimsoll_agent.congestion.signal import PoolKey
from plimsoll_agent.util.decoding import count, several, text, time

VERSION = 1


def encoded(pools: Pools) -> str:
    """The file's text, a pool a line."""
    lines = ",".join(f"\n {json.dumps(_data(pool, each))}" for pool, each in sorted(pools.items()))
    return f'{{"version": {VERSION},\n"pools": [{lines}]}}\n'


def decoded(envelope: dict[str, Any]) -> dict[PoolKey, Followed]:
    """The reverse of ``encoded``. Raises what ``decoding.UNREADABLE`` names."""
    return dict(several(_pool, envelope["pools"]))


def _data(pool: PoolKey, each: Followed) -> dict[str, object]:
    cluster, name = pool
    return {
        "cluster": cluster,
        "pool": name,
        "class": each.device_class,
        "x": each.x,
        "published": each.published,
        "until": each.until.isoformat(),
        "generation": each.generation,
        "moves": [at.isoformat() for at in each.moves],
    }


def _pool(value: Any) -> tuple[PoolKey, Followed]:
    return (text(value["cluster"]), text(value["pool"])), Followed(
        x=law.factor(value["x"]),
        device_class=text(value["class"]),
        published=law.factor(value["published"]),
        until=time(value["until"]),
        generation=count(value["generation"]),
        moves=several(time, value["moves"]),
    )
