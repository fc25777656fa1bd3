"""JSON as Ceph prints it: numbers that are none stand there as C writes them, ``inf`` and ``-nan``. And its text of
``SLOW_OPS``.
"""

from __future__ import annotations

import json
import re
from typing import Any

# A string comes first, so nothing in one is taken for a number.
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|(-?)\b(?:(inf)|nan)\b')
_OF_MONITORS = re.compile(r" sec, (?:daemons \[)?mon[.,][\w.-]+(?:,mon[.,][\w.-]+)*(?:\](?!\.)| has )")


def are_of_monitors(slow_ops: str) -> bool:
    """Whether monitors alone are slow: no guest waits for that. One that has not left its election may say so for
    weeks.
    """
    return _OF_MONITORS.search(slow_ops) is not None


def parse(text: str | bytes) -> Any:
    """Raises ``ValueError``, ``RecursionError``.

    Reef up to 18.2.4 has ``"score_acting":inf`` of a pool that it has not scored, by public reports of ``ceph osd
    dump``.
    """
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    try:
        return json.loads(text)
    except ValueError:
        plain = _NO_NUMBER.sub(_as_python_reads, text)
        if plain == text:
            raise
        return json.loads(plain)


def _as_python_reads(match: re.Match[str]) -> str:
    sign, is_infinite = match[1], match[2]
    if sign is None:
        return match[0]
    return f"{sign}Infinity" if is_infinite else "NaN"
