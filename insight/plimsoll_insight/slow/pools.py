"""Names of pools, out of ``ceph osd lspools`` or ``ceph osd dump``, as text or as JSON."""

from __future__ import annotations

import json
import re

from plimsoll_agent.errors import PlimsollError

_LISTED = re.compile(r"(?:^|,)(\d{1,9}) ([^,\n]+)", re.MULTILINE)
"""Before Nautilus all were in one line: ``0 rbd,1 volumes,``"""
_DUMPED = re.compile(r"^pool (\d{1,9}) '([^'\n]+)'", re.MULTILINE)


class UnreadablePools(PlimsollError):
    """A file has no names of pools."""


def parse(text: str, where: str) -> dict[int, str]:
    """By their numbers. Raises ``UnreadablePools``."""
    try:
        names = _of_json(text) if text.lstrip().startswith(("{", "[")) else _of_text(text)
    except (ValueError, KeyError, TypeError, RecursionError):
        names = {}
    if not names:
        raise UnreadablePools(f"{where}: not the output of ceph osd lspools or ceph osd dump")
    return names


def _of_json(text: str) -> dict[int, str]:
    document = json.loads(text)
    if isinstance(document, dict):
        return {int(each["pool"]): str(each["pool_name"]) for each in document["pools"]}
    return {int(each["poolnum"]): str(each["poolname"]) for each in document}


def _of_text(text: str) -> dict[int, str]:
    pattern = _DUMPED if _DUMPED.search(text) else _LISTED
    return {int(number): name.strip() for number, name in pattern.findall(text)}
