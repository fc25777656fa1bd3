"""Which device class a pool's CRUSH rule takes, from what Ceph prints as JSON. Only Ceph knows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.util.text import printable

PoolKey = tuple[str, str]
"""Cluster (its fsid) and pool."""
ANY = "any"
"""Of a rule that takes devices of all classes."""
_WANTED = "write the output of: ceph report; or of both: ceph osd dump -f json, ceph osd crush dump -f json"


def classes_of(texts: Iterable[tuple[str, bytes]]) -> dict[PoolKey, str]:
    """The class of each pool, from files given by name and content: ``ceph report`` of each cluster, or ``ceph osd
    dump`` and ``ceph osd crush dump`` of one. Raises ``ConfigError``.
    """
    classes: dict[PoolKey, str] = {}
    dumps: list[tuple[str, Mapping[str, Any]]] = []
    crushes: list[tuple[str, Mapping[str, Any]]] = []
    for name, text in texts:
        told = _read(name, text)
        if "osdmap" in told and "crushmap" in told:
            classes |= _joined(name, told["osdmap"], name, told["crushmap"])
        elif "pools" in told and "fsid" in told:
            dumps.append((name, told))
        elif "rules" in told and "buckets" in told:
            crushes.append((name, told))
        else:
            raise ConfigError(f"{printable(name)}: neither a report of Ceph nor a dump of its maps; {_WANTED}")
    if not dumps and not crushes:
        return classes
    if len(dumps) != 1 or len(crushes) != 1:
        (alone, _) = (dumps or crushes)[0]
        raise ConfigError(
            f"{printable(alone)}: a dump of one map needs one of the other; {_WANTED}"
            if not (dumps and crushes)
            else f"{printable(alone)}: which dumps belong together is unknown; give ceph report of each cluster"
        )
    return classes | _joined(*dumps[0], *crushes[0])


def _read(name: str, text: bytes) -> Mapping[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ConfigError(f"{printable(name)}: not a JSON object; {_WANTED}")
    return told


def _joined(osd_name: str, osds: Any, crush_name: str, crush: Any) -> dict[PoolKey, str]:
    try:
        fsid = osds["fsid"]
        pools = [(pool["pool_name"], pool["crush_rule"]) for pool in osds["pools"]]
        if not isinstance(fsid, str) or not all(
            isinstance(name, str) and isinstance(rule, int) for name, rule in pools
        ):
            raise TypeError
    except (LookupError, TypeError):
        raise ConfigError(f"{printable(osd_name)}: no pools with their CRUSH rules; {_WANTED}") from None
    try:
        rules = {rule["rule_id"]: "+".join(_taken(rule["steps"])) for rule in crush["rules"]}
    except (LookupError, TypeError, AttributeError):
        raise ConfigError(f"{printable(crush_name)}: no CRUSH rules with their steps; {_WANTED}") from None
    return {(fsid, name): rules[rule] for name, rule in pools if rule in rules}


def _taken(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The classes of a rule's ``take`` steps, each once: ``default~ssd`` is the shadow tree of the class ssd."""
    taken = [step["item_name"].partition("~")[2] or ANY for step in steps if step["op"] == "take"]
    yield from dict.fromkeys(taken)
