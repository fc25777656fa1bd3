"""The factors of congestion that a node applies, to and from JSON."""

from __future__ import annotations

from typing import Any

from plimsoll_agent.congestion.following import Followed, Pools
from plimsoll_agent.congestion.signal import PoolKey
from plimsoll_agent.util.decoding import as_json, data_of, several, text, value_of

VERSION = 1


def encoded(pools: Pools) -> str:
    """The file's text, a pool a line."""
    lines = ",".join(f"\n {as_json(_data(pool, each))}" for pool, each in sorted(pools.items()))
    return f'{{"version": {VERSION},\n"pools": [{lines}]}}\n'


def decoded(envelope: dict[str, Any]) -> dict[PoolKey, Followed]:
    """The reverse of ``encoded``. Raises what ``decoding.UNREADABLE`` names."""
    return dict(several(_pool, envelope["pools"]))


def _data(pool: PoolKey, each: Followed) -> dict[str, object]:
    cluster, name = pool
    data = data_of(each)
    return {"cluster": cluster, "pool": name, "class": data.pop("device_class"), **data}


def _pool(value: Any) -> tuple[PoolKey, Followed]:
    key = text(value["cluster"]), text(value["pool"])
    return key, value_of(Followed, {**value, "device_class": value["class"]})
