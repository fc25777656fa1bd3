"""Which device class a pool's CRUSH rule takes, from what Ceph prints as JSON. Only Ceph knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.util import ceph_json
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
        report = _read(name, text)
        if "osdmap" in report and "crushmap" in report:
            classes |= _join(name, report["osdmap"], name, report["crushmap"])
        elif "pools" in report and "fsid" in report:
            dumps.append((name, report))
        elif "rules" in report and "buckets" in report:
            crushes.append((name, report))
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
    return classes | _join(*dumps[0], *crushes[0])


def _read(name: str, text: bytes) -> Mapping[str, Any]:
    try:
        content = ceph_json.parse(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ConfigError(f"{printable(name)}: not a JSON object; {_WANTED}")
    return content


def _join(osd_name: str, osds: Any, crush_name: str, crush: Any) -> dict[PoolKey, str]:
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
        rules = {rule["rule_id"]: "+".join(_classes_of_rule(rule["steps"])) for rule in crush["rules"]}
    except (LookupError, TypeError, AttributeError):
        raise ConfigError(f"{printable(crush_name)}: no CRUSH rules with their steps; {_WANTED}") from None
    return {(fsid, name): rules[rule] for name, rule in pools if rule in rules}


def _classes_of_rule(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The classes of a rule's ``take`` steps, each once: ``default~ssd`` is the shadow tree of the class ssd."""
    classes = [step["item_name"].partition("~")[2] or ANY for step in steps if step["op"] == "take"]
    yield from dict.fromkeys(classes)
