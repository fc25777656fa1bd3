"""How the ceilings of guests and projects are split on a node, to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll_agent.ceilings.buckets import CeilingKey, LastCounters, Shared
from plimsoll_agent.util.decoding import as_json, data_of, mapping, several, text, value_of

VERSION = 1


def encoded(splits: Mapping[CeilingKey, Shared], looks: Mapping[str, LastCounters], boot: str) -> str:
    """The file's text, a ceiling a line; ``boot`` is the node's boot id: counters have times since it booted."""
    lines = sorted(f"\n {as_json({**data_of(bucket), **data_of(each)})}" for bucket, each in splits.items())
    counters = ",".join(f"\n {as_json(key)}: {as_json(data_of(look))}" for key, look in sorted(looks.items()))
    head = f'"version": {VERSION}, "boot": {as_json(boot)}'
    return f'{{{head},\n"ceilings": [{",".join(lines)}],\n"looks": {{{counters}}}}}\n'


def decoded(envelope: dict[str, Any], boot: str) -> tuple[dict[CeilingKey, Shared], dict[str, LastCounters]]:
    """The reverse of ``encoded``. Raises what ``decoding.UNREADABLE`` names."""
    looks = mapping(lambda value: value_of(LastCounters, value), envelope["looks"])
    same_run = text(envelope["boot"]) == boot
    return dict(several(_shared, envelope["ceilings"])), looks if same_run else {}


def _shared(value: Any) -> tuple[CeilingKey, Shared]:
    return value_of(CeilingKey, value), value_of(Shared, value, "refused")
