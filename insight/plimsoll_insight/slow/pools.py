"""Names and kinds of pools, out of ``ceph osd lspools``, ``ceph osd pool ls detail`` or ``ceph osd dump``, as text or
as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from plimsoll_agent.errors import PlimsollError

_LISTED = re.compile(r"(?:^|,)(\d{1,9}) ([^,\n]+)", re.MULTILINE)
"""Before Nautilus all were in one line: ``0 rbd,1 volumes,``"""
_DUMPED = re.compile(r"^pool (\d{1,9}) '([^'\n]+)'(?: (replicated|erasure) )?", re.MULTILINE)
_KINDS = {"1": False, "3": True}
"""``type`` in JSON: 1 is replicated, 3 erasure-coded (``pg_pool_t`` in ``osd_types.h``)."""


class UnreadablePools(PlimsollError):
    """A file has no names of pools."""


def parse(text: str, where: str) -> dict[int, str]:
    """By their numbers. Raises ``UnreadablePools``."""
    try:
        names = {number: name for number, name, _ in _rows(text)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StopIteration):
        names = {}
    if not names:
        raise UnreadablePools(f"{where}: not the output of ceph osd pool ls detail, osd lspools or osd dump")
    return names


def erasure_coded(text: str) -> dict[str | int, bool]:
    """Whether a pool is, by name and by number; not those of which the text does not tell, as lspools of none. Of a
    text that ``parse`` has read.
    """
    return {key: kind for number, name, kind in _rows(text) if kind is not None for key in (number, name)}


def _rows(text: str) -> list[tuple[int, str, bool | None]]:
    """The number and the name of each, and whether it is erasure-coded, where the text tells."""
    if text.lstrip().startswith(("{", "[")):
        document = json.loads(text)
        return [_row(each) for each in (document["pools"] if isinstance(document, dict) else document)]
    if lines := _DUMPED.findall(text):
        return [(int(number), name.strip(), kind == "erasure" if kind else None) for number, name, kind in lines]
    return [(int(number), name.strip(), None) for number, name in _LISTED.findall(text)]


def _row(pool: Mapping[str, Any]) -> tuple[int, str, bool | None]:
    number = next(pool[key] for key in ("pool", "pool_id", "poolnum") if key in pool)
    name = next(pool[key] for key in ("pool_name", "poolname") if key in pool)
    return int(number), str(name), _KINDS.get(str(pool.get("type")))
