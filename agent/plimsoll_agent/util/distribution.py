"""plimsoll as it is installed: its version and its commands, by two files beside the package.

``importlib.metadata`` reads the same, but its import takes a tenth of a start: it is asked only without these files.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_NAME = "plimsoll-agent"
_GROUP = "plimsoll.commands"


@lru_cache(maxsize=1)
def version() -> str:
    """Raises ``ModuleNotFoundError`` if plimsoll is not installed."""
    if (text := _beside("METADATA")) is None:
        from importlib import metadata  # here, since it is for a checkout

        return metadata.version(_NAME)
    return next(line.removeprefix("Version: ") for line in text.splitlines() if line.startswith("Version: "))


@lru_cache(maxsize=1)
def commands() -> dict[str, str]:
    """By the name that is typed: module and class, as ``package.module:Class``."""
    if (text := _beside("entry_points.txt")) is None:
        from importlib import metadata

        pairs = [
            (point.name, point.value) for point in metadata.distribution(_NAME).entry_points.select(group=_GROUP)
        ]
    else:
        _, _, section = text.partition(f"[{_GROUP}]\n")
        rows = (line.partition(" = ") for line in section.partition("\n[")[0].splitlines() if line)
        pairs = [(name, value) for name, _, value in rows]
    return {name.replace("_", " "): value for name, value in pairs}


def needs(extra: str) -> str:
    """How to install what an extra brings, for the end of a message; ``insight`` is in the package of ``report``."""
    package = {"insight": "report"}.get(extra, extra)
    return f"install the package plimsoll-{package}, or by pip: pip install 'plimsoll-agent[{extra}]'"


def _beside(file: str) -> str | None:
    """None without one installation beside the package."""
    site = Path(__file__).parents[2]
    beside = [entry for entry in site.iterdir() if re.fullmatch(r"plimsoll_agent-.+\.dist-info", entry.name)]
    return (beside[0] / file).read_text(encoding="utf-8") if len(beside) == 1 else None
