"""Spans of time as people write them: ``2h``, ``90m``, ``1d12h``."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SPAN = re.compile(r"(\d{1,6}[dhms])+", re.ASCII)
_LONGEST = timedelta(days=36525)  # a century: what is added to or taken from now is a date still


def parse(text: str) -> timedelta:
    """Raises ``ValueError`` with a sentence for what is no span, or none at all."""
    if _SPAN.fullmatch(text.removeprefix("-")) and text.startswith("-"):
        raise ValueError(f"must be positive, like {text[1:]}")
    if not _SPAN.fullmatch(text):
        raise ValueError(f"{text!r} is no span of time; write it like 2h, 90m or 1d12h")
    seconds = sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([dhms])", text))
    if not seconds:
        raise ValueError(f"{text} is no time at all")
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text} is more than a century")
    return timedelta(seconds=seconds)


def words(span: timedelta) -> str:
    """``1 h 20 min``: the two largest units, for people."""
    seconds = max(0, int(span.total_seconds()))
    sizes = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, unit in sizes:
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"
