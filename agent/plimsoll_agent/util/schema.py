"""Files that people write as YAML: text in, values out, or every fault with its line and the word that was meant.

A validator takes a part of the YAML and returns plimsoll's value of it, or raises ``Invalid`` with all faults in that
part, each with its path.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import meant, nearest, printable

if TYPE_CHECKING:
    from plimsoll_agent.util import yaml_lines

Value = TypeVar("Value")
Steps = tuple[str | int, ...]

STDIN = "<stdin>"
LARGEST = 2**20
"""Bytes of a file."""
MOST_FAULTS = 200
"""As many as people read; to find the nearest words for a hundred thousand would take minutes."""


class RemarkCode(StrEnum):
    """What a remark is about. Programs use these codes, never the text."""

    # faults
    YAML = "yaml"
    UNKNOWN_KEY = "unknown-key"
    MISSING_KEY = "missing-key"
    INVALID_VALUE = "invalid-value"
    MORE_FAULTS = "more-faults"
    # warnings
    RULE_ENDED = "rule-ended"
    LIMITS_LEFT_OUT = "limits-left-out"
    GROUP_OF_FILTERS = "group-of-filters"
    NO_EFFECT = "no-effect"
    TOO_LOW = "too-low"
    # notes
    EXACT_NUMBER = "exact-number"


class Invalid(Exception):
    """What is wrong with a value; ``path`` leads from the value to the faulty part of it."""

    def __init__(
        self,
        text: str | Callable[[], str],
        path: Iterable[str | int] = (),
        code: RemarkCode = RemarkCode.INVALID_VALUE,
    ) -> None:
        """A callable ``text`` is called only if it is printed."""
        super().__init__(text)
        self.text = text
        self.path = list(path)
        self.code = code


class InvalidParts(Invalid):
    """Several faults of a value."""

    def __init__(self, parts: Sequence[Invalid]) -> None:
        super().__init__(f"{len(parts)} faults")
        self.parts = parts


class FaultSeverity(StrEnum):
    FAULT = "fault"
    """The whole file is refused."""
    WARNING = "warning"
    """The file is accepted, but probably has a mistake."""
    NOTE = "note"
    """How the file is read."""


@frozen(kw_only=True)
class Remark:
    """Something about one place in the file; ``key`` is like ``rules[2].match.pool``, empty for the whole file."""

    line: int
    key: str
    text: str
    code: RemarkCode
    severity: FaultSeverity = FaultSeverity.FAULT

    def at(self, origin: str) -> str:
        """``origin:line: key: what is wrong``; the key's last word is left out if the text begins with it."""
        around, _, last = self.key.rpartition(".")
        key = around if last and self.text.startswith(last) else self.key
        return f"{origin}:{self.line}: {key}: {self.text}" if key else f"{origin}:{self.line}: {self.text}"


@frozen
class Checked(Generic[Value]):
    """The value of a text, None if there are ``faults``, which are in the order of the lines."""

    value: Value | None
    faults: tuple[Remark, ...]
    document: yaml_lines.Document

    def good(self, origin: str) -> Value:
        """Raises ``ConfigError``, a line for each fault."""
        if self.value is None:
            raise ConfigError("\n".join(fault.at(origin) for fault in self.faults))
        return self.value


def read(path: Path) -> str | None:
    """The text of the file, which may be a link; None if it is missing. Raises ``ConfigError``."""
    try:
        content = files.read_whole(path, LARGEST + 1, follow=True)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return decoded(content, str(path))


def standard_input() -> str:
    """Raises ``ConfigError``."""
    return decoded(sys.stdin.buffer.read(LARGEST + 1) if sys.stdin else b"", STDIN)  # None: it is closed


def decoded(content: bytes, origin: str) -> str:
    """Raises ``ConfigError``."""
    if len(content) > LARGEST:
        raise ConfigError(f"{origin}:1: is larger than 1 MiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{origin}:{line}: cannot be read: {error}") from error


def check(text: str, validate: Callable[[Any], Value]) -> Checked[Value]:
    """The result of ``validate`` for the document in the text, which is None if it is empty."""
    from plimsoll_agent.util import yaml_lines  # here, since not all that name faults read YAML

    document = yaml_lines.load(text)
    value = None
    faults: list[tuple[int, Steps, str | Callable[[], str], RemarkCode]] = [
        (fault.line, fault.path, fault.text, RemarkCode.YAML) for fault in document.faults
    ]
    if document.value is not None or not faults:
        try:
            value = validate(document.value)
        except Invalid as wrong:
            for fault in below(wrong):
                path = tuple(fault.path)
                if path not in document.odd:
                    faults.append((document.line_of(path), path, fault.text, fault.code))
    if not faults:
        return Checked(value, (), document)
    faults.sort(key=itemgetter(0))
    remarks = [
        Remark(line=line, key=key_of(path), text=short(text if isinstance(text, str) else text(), 400), code=code)
        for line, path, text, code in faults[:MOST_FAULTS]
    ]
    if len(faults) > MOST_FAULTS:
        more = f"and {len(faults) - MOST_FAULTS} more faults"
        remarks.append(Remark(line=faults[MOST_FAULTS][0], key="", text=more, code=RemarkCode.MORE_FAULTS))
    return Checked(None, in_order(remarks), document)


def in_order(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    return tuple(sorted(dict.fromkeys(remarks), key=lambda remark: remark.line))


def key_of(path: Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{short(step, 40)}" for step in path).removeprefix(".")


def short(text: str, most: int) -> str:
    """Text of unknown origin as one line of limited length."""
    safe = printable(text[: most + 1])
    return safe if len(safe) <= most else f"{safe[: most - 1]}…"


def shown(value: object) -> str:
    return "nothing" if value is None else short(repr(value), 60)


class Keys:
    """A mapping under validation: its valid values, and the faults."""

    def __init__(self, mapping: object, validators: Mapping[str, Callable[[Any], Any]], what: str = "") -> None:
        if not isinstance(mapping, dict):
            raise Invalid(what or f"must be a mapping with {', '.join(validators)}")
        self.given = mapping
        self.known = tuple(validators)
        self.values: dict[str, Any] = {}
        self.faults: list[Invalid] = []
        self._unknown = [name.lower() for name in mapping if name not in validators]
        for name, value in mapping.items():
            if name not in validators:
                self.faults.append(Invalid(partial(self.unknown, name), [name], RemarkCode.UNKNOWN_KEY))
                continue
            try:
                self.values[name] = validators[name](value)
            except Invalid as wrong:
                self.faults += below(wrong, name)

    def unknown(self, name: str) -> str:
        """The message about an unknown key."""
        return f"{short(name, 40)} is not a key here; {meant(name, self.known)}"

    def fault(self, text: str, *path: str | int, code: RemarkCode = RemarkCode.INVALID_VALUE) -> None:
        self.faults.append(Invalid(text, path, code))

    def lacks(self, *words: str) -> bool:
        """Whether all of the words are missing, and none is there misspelled."""
        if any(word in self.given for word in words):
            return False
        return not any(nearest(name, words) for name in self._unknown[:20])

    def need(self, word: str, remedy: str = "") -> None:
        if self.lacks(word):
            self.fault(f"{word} is missing{remedy}", word, code=RemarkCode.MISSING_KEY)

    def done(self) -> dict[str, Any]:
        if self.faults:
            raise InvalidParts(self.faults)
        return self.values


def below(wrong: Invalid, *steps: str | int) -> list[Invalid]:
    """The faults of a part, with their paths from the whole of which it is a part."""
    faults = wrong.parts if isinstance(wrong, InvalidParts) else [wrong]
    for fault in faults:
        fault.path[:0] = steps
    return list(faults)


def each(one: Callable[[Any], Value], items: Iterable[object]) -> list[Value]:
    values: list[Value] = []
    faults: list[Invalid] = []
    for index, value in enumerate(items):
        try:
            values.append(one(value))
        except Invalid as wrong:
            faults += below(wrong, index)
    if faults:
        raise InvalidParts(faults)
    return values


def line(most: int) -> Callable[[object], str]:
    def validate(value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise Invalid(f"must be text, not {shown(value)}; put it in quotes")
        if len(value) > most:
            raise Invalid(f"must be at most {most} characters, and is {len(value)}")
        if not value.isprintable():
            raise Invalid(f"must be one line of printable characters, not {shown(value)}")
        return value

    return validate


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"must be true or false, not {shown(value)}")
    return value


def one_of(words: Sequence[str]) -> Callable[[object], str]:
    def validate(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            near = nearest(str(value), words)
            perhaps = f"; did you mean {near}?" if near else ""
            raise Invalid(f"must be {', '.join(words[:-1])} or {words[-1]}, not {shown(value)}{perhaps}")
        return value

    return validate


def repeated(items: Iterable[object]) -> Iterator[int]:
    """The indices of texts that occur earlier in the list."""
    earlier: set[str] = set()
    for index, one in enumerate(items):
        if isinstance(one, str):
            if one in earlier:
                yield index
            earlier.add(one)
