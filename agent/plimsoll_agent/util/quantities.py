"""Numbers as people write them, with their unit: ``100MiB``, ``2k``, ``1.5GiB/s``, ``10m`` for a duration.

The grammar is in ``docs/reference/limits.rst``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from plimsoll_agent.util import durations

if TYPE_CHECKING:
    from fractions import Fraction


class Quantity(StrEnum):
    """What a number counts, and so which units it may have."""

    SIZE = "bytes"
    BYTES = "bytes per second"
    REQUESTS = "requests per second"
    SECONDS = "seconds"


_LETTERS = "kMGTP"
_BYTES = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate(_LETTERS, 1)},
    **{f"{letter.upper()}iB": 1024**power for power, letter in enumerate(_LETTERS, 1)},
}
_REQUESTS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_UNITS: Mapping[Quantity, Mapping[str, int]] = {
    Quantity.SIZE: {"": 1, **_BYTES},
    Quantity.BYTES: {"": 1, **_BYTES, **{f"{unit}/s": factor for unit, factor in _BYTES.items()}},
    Quantity.REQUESTS: {
        f"{unit}{ending}": factor
        for unit, factor in _REQUESTS.items()
        for ending in ("", "/s", "IOPS", " IOPS", "iops", " iops")
    },
    Quantity.SECONDS: {"": 1, **durations.UNITS},
}
_EXAMPLES = {
    Quantity.SIZE: "100MiB, 100MB or 104857600",
    Quantity.BYTES: "100MiB, 100MB or 104857600",
    Quantity.REQUESTS: "500, 2k or 10M",
    Quantity.SECONDS: "60, 60s or 10m",
}
_PLAIN = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
_WRITTEN = re.compile(r"((?:0|[1-9]\d{0,17})(?:\.\d{1,9})?)(?: ?([A-Za-z/][A-Za-z/ ]{0,9}))?", re.ASCII)
_TIME = re.compile(r"(\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?: ?(ms|[smhd]))?", re.ASCII)
"""A number as ``float`` reads it."""
_LONGEST_SHOWN = 40


def read(text: str, quantity: Quantity) -> int:
    """The number that is written so, with a unit or without.

    Raises ``ValueError`` with a message for the operator, also if it is no whole number.
    """
    if _PLAIN.fullmatch(text):
        return int(text)
    if quantity is Quantity.SECONDS and durations.is_written_as_one(text):
        return int(durations.parse(text).total_seconds())
    parts = _WRITTEN.fullmatch(text)
    factor = _UNITS.get(quantity, {}).get(parts[2] or "") if parts else None
    if parts is None or factor is None:
        choices = " or ".join(f"{other} ({number})" for other, number in candidates(text, quantity))
        if choices:
            raise ValueError(f"{_shown(text)} is ambiguous; write {choices}")
        raise ValueError(
            f"must be a whole number, or one with a unit, such as {_EXAMPLES[quantity]}, not {_shown(text)}"
        )
    number = _exactly(parts[1]) * factor
    if number.denominator != 1:
        raise ValueError(f"{_shown(text)} is no whole number of {quantity}; write one, such as {round(number)}")
    return int(number)


def read_time(text: str) -> float:
    """Seconds: a number of them, or a duration. Raises ``ValueError`` with a message for the operator."""
    words = text.strip()
    if durations.is_written_as_one(words):
        return durations.parse(words).total_seconds()
    parts = _TIME.fullmatch(words)
    number = float(parts[1]) if parts else math.inf
    if parts is None or math.isinf(number):
        raise ValueError(f"must be seconds, such as 10, 0.5, 500ms, 10s or 1m, not {_shown(text)}")
    return number / 1000 if parts[2] == "ms" else number * durations.UNITS[parts[2] or "s"]


def written(number: int, quantity: Quantity) -> str:
    """How to write the number: bytes with the largest binary unit of which they are a whole number."""
    if quantity in (Quantity.SIZE, Quantity.BYTES) and number:
        for unit, factor in sorted(_BYTES.items(), key=lambda unit: -unit[1]):
            if unit.endswith("iB") and number % factor == 0:
                return f"{number // factor}{unit}"
    return str(number)


def has_unit(text: str, quantity: Quantity) -> bool:
    """Whether it is such a number, and has more than digits."""
    try:
        read(text, quantity)
    except ValueError:
        return False
    return not _PLAIN.fullmatch(text)


def candidates(text: str, quantity: Quantity) -> Iterator[tuple[str, int]]:
    """What may be meant by an ambiguous unit, as in ``100m`` or ``100Mb``, each with its number."""
    parts = _WRITTEN.fullmatch(text)
    if parts is None or quantity is Quantity.SECONDS:
        return
    letter = re.fullmatch(r"([kmgtp])i?b?(?:/s)?", parts[2] or "", re.IGNORECASE)
    if letter is None:
        return
    for unit, factor in (_REQUESTS if quantity is Quantity.REQUESTS else _BYTES).items():
        number = _exactly(parts[1]) * factor
        if unit[:1].lower() == letter[1].lower() and number.denominator == 1:
            yield f"{parts[1]}{unit}", int(number)


def _exactly(number: str) -> Fraction:
    from fractions import Fraction  # here: few numbers have a unit, and it is slow to import

    return Fraction(number)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def with_unit(value: float, quantity: Quantity) -> str:
    """``1GiB``, ``15m``, ``0.5s``: in the largest unit that it is whole in, as it may be written."""
    if quantity is not Quantity.SECONDS:
        return written(int(value), quantity)
    for unit, factor in (("d", 86400), ("h", 3600), ("m", 60)):
        if value and value % factor == 0:
            return f"{value // factor:g}{unit}"
    return f"{value:g}s"
