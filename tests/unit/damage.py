"""A JSON file with one part replaced by what does not belong there; what is no JSON is tested with the decoder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from hypothesis import strategies as st

Place = tuple[str | int, ...]
RAW = [
    "null", "true", "-1", "0", "1", "1e999", "NaN", "250.5", "1" + "0" * 15, "1" + "0" * 4299, "9" * 5000,
    '""', '"\\ud800"', '"\\u001b[2J"', f'"{"x" * 20_000}"', '"s-1"', '"good"', '"total_iops_sec"',
    '"2026-11-20T12:00:00Z"', '"2026-11-20T12:00:00"', '"0001-01-01T00:00:00+23:59"', "[]", "[1]", '[["a"]]',
    f"[{'1,' * 20_000}1]", "{}", '{"a": 1}', '{"total_iops_sec": 0}',
    '{"total_iops_sec": [[]]}', '{"code": []}', '{"code": "rule"}',
]  # fmt: skip
_DEEP = sys.getrecursionlimit()
_anything = st.sampled_from(RAW) | st.builds(
    lambda depth, pair: pair[0] * depth + "1" + pair[1] * depth,
    st.integers(_DEEP - 300, _DEEP + 10) | st.integers(1, 50) | st.just(100_000),
    st.sampled_from([("[", "]"), ('{"a":', "}")]),
)


def places(value: object, at: Place = ()) -> Iterator[Place]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield (*at, name)
        yield from places(inner, (*at, name))


def replaced(whole: Mapping[str, Any], place: Place, text: str) -> bytes:
    """The text need not be JSON."""
    inside = copy = json.loads(json.dumps(whole))
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = "@here@"
    return json.dumps(copy).replace('"@here@"', text).encode("utf-8", "surrogatepass")


def damaged(whole: Mapping[str, Any]) -> st.SearchStrategy[bytes]:
    return st.builds(partial(replaced, whole), st.sampled_from([*places(whole)]), _anything)


def each_damage(whole: Mapping[str, Any]) -> Iterator[bytes]:
    return (replaced(whole, place, text) for text in RAW for place in places(whole))
