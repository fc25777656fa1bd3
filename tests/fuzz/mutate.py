"""Damage to a text that keeps most of its structure: JSON as a tree, XML and YAML by their tokens and brackets."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

LONGEST = 2**20
"""Bytes of what is made here; the largest files that plimsoll reads are larger, and in proportion as slow."""

_DEEP = sys.getrecursionlimit()
# What breaks parsers: numbers at the edge of a type, in other scripts and notations; odd characters; markup.
NUMBERS = (
    *(
        "0",
        "00",
        "-0",
        "-1",
        "1",
        "+5",
        " 5",
        "5 ",
        "1_000",
        "1,000",
        "0.5",
        "250.0",
        "1e3",
        "1e999",
        "-1e999",
        "NaN",
    ),
    *("0x10", "0o17", "1:30", "５", "٥", "²", str(10**15), str(10**15 + 1), str(2**31), str(2**53 + 1), str(2**63)),
    *(str(2**64), "9" * 30, "9" * 400, "9" * 4299, "9" * 5000, "inf", "null", "true", "false", "~", ".nan"),
)
TEXTS = (
    *("", " ", "\0", "\n", "\t", "\r", "\x1b[2J", "\x85", "\u2028", "\u202e", "\ufeff", "\ufffe", "\ud800", "🚢"),
    *(
        "'",
        '"',
        "\\",
        "\\u0000",
        "\\ud800",
        "\\u001b",
        "/",
        "//",
        "..",
        ":",
        "::",
        "=",
        "%",
        "%s",
        "{}",
        "{0}",
        "$(x)",
    ),
    *("&lt;", "&#53;", "&#xD800;", "&x;", "]]>", "<![CDATA[5]]>", "<!-- 5 -->", "<?x 1?>", "<x/>", "<!DOCTYPE d>"),
    *("!!int", "!x", "&a", "*a", "[!-a", "|", ">", "?", "- ", "# ", "---", "...", "<<: *a", "x: [", "unlimited"),
    *("2026-01-01", "2026-11-20T12:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "x" * 300),
)
_PLAIN_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 250, 10**15, 10**15 + 1, 2**63, 2**64, 10**400, 0.5, 1e300, -0.0),
    *(float("inf"), float("nan"), [], {}, [1], [[]], [None], {"a": 1}, {"": ""}, {"total_iops_sec": 0}),
)
_NEAR = 5_000
"""Characters in which a part is looked for: the expressions below are quadratic."""
_TOKEN = re.compile(r"\d+|\w+|\s+|[^\w\s]")
_NUMBER = re.compile(r"\d+")
_SPAN = re.compile(
    r"<([\w:]+)[^<>]*/>|<([\w:]+)\b[^<>]*>.*?</\2>|\{[^{}]*\}|\[[^][]*\]|\"[^\"\n]*\"|'[^'\n]*'", re.DOTALL
)

Damage = Callable[[random.Random, str, Sequence[str]], str]


def mutated(data: bytes, chance: random.Random, others: Sequence[str] = (), most: int = LONGEST) -> bytes:
    """The data with some damage; ``others`` are samples of the same kind, from which parts may be taken."""
    if chance.random() < 0.05 or b"\0\0\0\0" in data:
        for _ in range(chance.choice((1, 1, 2, 5))):
            data = _bytes(data, chance)
        return data[:most]
    text = data.decode("utf-8", "surrogatepass") if _is_text(data) else data.decode("utf-8", "replace")
    tree = _tree(text) if chance.random() < 0.7 else None
    if tree is not None:
        with suppress(RecursionError):
            text = _in_tree(chance, tree)
    else:
        for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
            text = chance.choice(_DAMAGES)(chance, text, others)
    return text.encode("utf-8", "surrogatepass")[:most]


def long(data: bytes, chance: random.Random, size: int = LONGEST) -> bytes:
    """The data with one part of it repeated, up to that size: what takes time by the square of it shows here."""
    text = data.decode("utf-8", "replace")
    tree = _tree(text)
    if tree is None or chance.random() < 0.2:
        start, end = _part(chance, text)
        part = text[start:end] or "x"
        return (text[:end] + part * (size // len(part)) + text[end:]).encode()[:size]
    holder, key = chance.choice(list(_holders(tree)))
    value = holder[key]
    times = size // (len(json.dumps(value)) + 2)
    match value:
        case str():
            holder[key] = value * (size // (len(value) or 1)) or "x" * size
        case list() if value and chance.random() < 0.7:
            holder[key] = value * times
        case _ if isinstance(holder, list):
            holder[key : key + 1] = [value] * times
        case _:
            holder |= {f"{key}{number}": value for number in range(times // 2)}
    return json.dumps(tree).encode()


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _bytes(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    some = chance.choice((b"", b"\0", b"\xff", b"\xfe\xff", b"\xed\xa0\x80", b"\xc3", bytes([chance.randrange(256)])))
    length = chance.choice((len(some), len(some), len(some), 0, 1, 4, len(data)))
    return data[:at] + some + data[at + length :]


# --- text


def _place(chance: random.Random, text: str, pattern: re.Pattern[str] = _TOKEN) -> tuple[int, int]:
    """Where a token is, near a random place; an empty one where there is none."""
    at = chance.randrange(len(text) + 1)
    found = pattern.search(text, at, at + _NEAR) or pattern.search(text, 0, _NEAR)
    return found.span() if found else (at, at)


def _replaced(chance: random.Random, text: str, others: Sequence[str]) -> str:
    start, end = _place(chance, text)
    words = NUMBERS if text[start:end].isdigit() else TEXTS
    return text[:start] + chance.choice(words if chance.random() < 0.8 else (*NUMBERS, *TEXTS)) + text[end:]


def _other_number(chance: random.Random, text: str, others: Sequence[str]) -> str:
    start, end = _place(chance, text, _NUMBER)
    number = chance.choice((*NUMBERS, str(int(text[start:end][:20] or 0) + chance.choice((-1, 1)))))
    return text[:start] + number + text[end:]


def _inserted(chance: random.Random, text: str, others: Sequence[str]) -> str:
    at = _place(chance, text)[chance.randrange(2)]
    return text[:at] + chance.choice((*NUMBERS, *TEXTS)) + text[at:]


def _dropped(chance: random.Random, text: str, others: Sequence[str]) -> str:
    start, end = _part(chance, text)
    return text[:start] + text[end:]


def _doubled(chance: random.Random, text: str, others: Sequence[str]) -> str:
    start, end = _part(chance, text)
    return text[:end] + text[start:end] + text[end:]


def _moved(chance: random.Random, text: str, others: Sequence[str]) -> str:
    start, end = _part(chance, text)
    left = text[:start] + text[end:]
    at = _place(chance, left)[0]
    return left[:at] + text[start:end] + left[at:]


def _swapped(chance: random.Random, text: str, others: Sequence[str]) -> str:
    (start, end), (other, last) = sorted((_part(chance, text), _part(chance, text)))
    if end > other:
        return text
    return text[:start] + text[other:last] + text[end:other] + text[start:end] + text[last:]


def _taken(chance: random.Random, text: str, others: Sequence[str]) -> str:
    """A part of another sample."""
    if not others:
        return text
    other = chance.choice(others)
    start, end = _part(chance, other)
    at, past = _part(chance, text)
    return text[:at] + other[start:end] + text[chance.choice((at, past)) :]


def _cut(chance: random.Random, text: str, others: Sequence[str]) -> str:
    return text[: chance.randrange(len(text) + 1)]


def _grown(chance: random.Random, text: str, others: Sequence[str]) -> str:
    """A part repeated often: what takes time by the square of its length shows here."""
    if chance.random() < 0.9:
        return text
    start, end = chance.choice((_part, _place))(chance, text)
    part = text[start:end] or chance.choice(("[", "<a>", "- ", "a-", "{", "&amp;", ","))
    times = max(1, chance.choice((100, 5_000, 50_000)) // len(part))
    return text[:end] + part * times + text[end:]


def _part(chance: random.Random, text: str) -> tuple[int, int]:
    """A line, an element, an object, a list, a text in quotes, or a token."""
    kind = chance.randrange(3)
    if kind == 0:
        at = chance.randrange(len(text) + 1)
        end = text.find("\n", at) + 1 or len(text)
        return text.rfind("\n", 0, at) + 1, end
    return _place(chance, text, _SPAN if kind == 1 else _TOKEN)


_DAMAGES: tuple[Damage, ...] = (
    *(_replaced, _other_number, _inserted, _dropped, _doubled, _moved, _swapped, _taken, _cut, _grown),
)

# --- JSON


def _tree(text: str) -> Any:
    """What a JSON document holds; None for all else, and for one without parts."""
    if text[:1] not in "{[":
        return None
    try:
        return json.loads(text) or None
    except (ValueError, RecursionError):
        return None


def _in_tree(chance: random.Random, tree: Any) -> str:
    """Raises ``RecursionError``."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        holders = list(_holders(tree))
        if not holders:
            break
        _change(chance, *chance.choice(holders), holders)
    if chance.random() < 0.05:
        depth = chance.choice((50, _DEEP - 300, _DEEP, 100_000))
        opening, closing = chance.choice((("[", "]"), ('{"a":', "}")))
        return json.dumps(tree).replace("null", opening * depth + "1" + closing * depth, 1)
    return json.dumps(tree)


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield value, key
        yield from _holders(inner)


def _change(chance: random.Random, holder: Any, key: Any, holders: Sequence[tuple[Any, Any]]) -> None:
    other, others_key = chance.choice(holders)
    if (isinstance(holder, dict) and key not in holder) or (isinstance(holder, list) and key >= len(holder)):
        return  # an earlier change removed it
    value = holder[key]
    match chance.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[chance.choice((*TEXTS, *NUMBERS, others_key if isinstance(others_key, str) else "x"))] = value
        case 1:
            holder.insert(chance.randrange(len(holder) + 1), value)
        case 2 | 3:
            holder[key] = json.loads(json.dumps(_value(other, others_key)))  # a copy: no cycles
        case 4 if isinstance(value, int) and not isinstance(value, bool):
            holder[key] = value + chance.choice((-1, 1, value, -2 * value))
        case 4 | 5:
            holder[key] = chance.choice((*TEXTS, *NUMBERS))
        case 6 if isinstance(value, str) and value:
            holder[key] = chance.choice(_DAMAGES)(chance, value, ())
        case _:
            holder[key] = deepcopy(chance.choice(_PLAIN_VALUES))


def _value(holder: Any, key: Any) -> Any:
    try:
        return holder[key]
    except (LookupError, TypeError):
        return None
