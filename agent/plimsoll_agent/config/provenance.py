"""Where the value of each setting comes from: the file and line, the environment, or the default."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from plimsoll_agent.config import faults
from plimsoll_agent.config.options import OPTIONS
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.quantities import Quantity

MASK = "****"
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")


@frozen(kw_only=True)
class Setting:
    """One setting with its value in force. A secret is masked."""

    section: str
    name: str
    value: object
    default: object
    origin: str
    """``FILE:LINE``, ``environment: NAME`` or ``default``."""
    changed: bool
    """The value is not the default."""
    quantity: Quantity | None
    """What its number counts."""


def settings_of(conf: Any, files: Sequence[Path]) -> Iterator[Setting]:
    """All settings in the order of the sample. ``conf`` is oslo.config's, ``files`` are those it has read."""
    lines = {(group, key): f"{file}:{line}" for file in files for line, group, key in faults.keys_of(file)}
    for section, options in OPTIONS.items():
        for option in options:
            value = (conf if section == "DEFAULT" else conf[section])[option.dest]
            variable = f"OS_{section}__{option.dest}".upper()
            origin = f"environment: {variable}" if variable in os.environ else lines.get((section, option.dest))
            text = MASK if option.secret and value else _harmless(value)
            differs = value != option.default
            yield Setting(
                section=section,
                name=option.dest,
                value=text,
                default=option.default,
                origin=origin or "default",
                changed=differs,
                quantity=getattr(option.type, "quantity", None),
            )


def _harmless(value: object) -> object:
    """Without the credentials of an address, or of each in a list."""
    if isinstance(value, list):
        return [_harmless(item) for item in value]
    return _CREDENTIALS.sub(f"{MASK}@", value) if isinstance(value, str) else value
