"""plimsoll as it is installed: its version and its commands, by two files beside the package.

``importlib.metadata`` reads the same, but its import takes a tenth of a start: it is asked only without these files.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_NAME = "plimsoll-agent"
_COMMANDS = "[plimsoll.commands]"


@lru_cache(maxsize=1)
def version() -> str:
    """Raises ``ModuleNotFoundError`` if plimsoll is not installed."""
    lines = _read("METADATA").splitlines()
    return next(line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))


@lru_cache(maxsize=1)
def commands() -> dict[str, str]:
    """By the name that is typed: module and class, as ``package.module:Class``."""
    _, _, text = _read("entry_points.txt").partition(f"{_COMMANDS}\n")
    rows = (line.partition(" = ") for line in text.partition("\n[")[0].splitlines() if line)
    return {name.replace("_", " "): value for name, _, value in rows}


def _read(file: str) -> str:
    site = Path(__file__).parents[2]
    beside = [entry for entry in site.iterdir() if re.fullmatch(r"plimsoll_agent-.+\.dist-info", entry.name)]
    if len(beside) == 1:
        return (beside[0] / file).read_text(encoding="utf-8")
    from importlib.metadata import distribution  # here, since it is for a checkout

    return distribution(_NAME).read_text(file) or ""
