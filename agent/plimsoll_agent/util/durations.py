"""Durations as people write them: ``2h``, ``90m``, ``1d12h``."""

from __future__ import annotations

import re
from datetime import timedelta

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(\d{1,6}[dhms])+", re.ASCII)
LONGEST_EXCEPTION = timedelta(days=366)
"""Of what an operator decides: a longer one belongs in a rule."""
_LONGEST = timedelta(days=36525)  # a century: added to or subtracted from now, the result is still a date


def is_written_as_one(text: str) -> bool:
    """Whether it has the form of a duration; ``parse`` may refuse it still."""
    return _DURATION.fullmatch(text) is not None


def parse(text: str) -> timedelta:
    """Raises ``ValueError`` with a message for the operator."""
    if text.startswith("-") and is_written_as_one(text[1:]):
        raise ValueError(f"must be positive, like {text[1:]}")
    if not is_written_as_one(text):
        raise ValueError(f"{text!r} is not a duration; write it like 2h, 90m or 1d12h")
    seconds = sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([dhms])", text))
    if not seconds:
        raise ValueError(f"{text} must be more than 0")
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text} is more than a century")
    return timedelta(seconds=seconds)


def words(duration: timedelta) -> str:
    """``1 h 20 min``: the two largest units."""
    seconds = max(0, int(duration.total_seconds()))
    sizes = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, unit in sizes:
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"
