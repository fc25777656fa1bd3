"""YAML with line numbers, which refuses probable mistakes: repeated keys, odd keys, odd numbers, aliases, tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import yaml

from plimsoll_agent.util.frozen import frozen

Path = tuple[str | int, ...]

DEEPEST = 20
"""How deep lists and mappings may be nested."""

# libyaml's parser is some ten times faster; builds of PyYAML without it are rare, but exist.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# No number here has a longer text, and PyYAML is slow to convert one.
_LONGEST_NUMBER = 64
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)", re.ASCII)
# PyYAML's own list (yaml.reader) without the byte order mark, on which its two parsers disagree, and without the line
# breaks that editors do not count (U+0085, U+2028, U+2029).
_NO_CHARACTER = "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
_NO_ASCII_CHARACTER = "[^\t\n\r\x20-\x7e]"
# Tabs before a comment: the parsers disagree on tabs between words, and text with a tab is refused anyway.
_TAB = re.compile(r"^[^#\n\t]*\t", re.MULTILINE)


@frozen
class Fault:
    """What is wrong with the value at the path."""

    line: int
    path: Path
    text: str


@frozen(kw_only=True)
class Document:
    """The plain value, the line of each key and item in it, and its faults as YAML.

    Times stay text. A document that cannot be read is None with one fault.
    """

    value: Any
    lines: dict[Path, int] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    odd: frozenset[Path] = frozenset()
    """Paths of values with a fault: the value there is a placeholder."""

    def line_of(self, path: Sequence[str | int]) -> int:
        """The line of the value at the path, or of the nearest one around it."""
        steps = tuple(path)
        return next((line for n in range(len(steps), 0, -1) if (line := self.lines.get(steps[:n])) is not None), 1)


def load(text: str, loader: Any = LOADER) -> Document:
    """The document in the text. Raises nothing, whatever the text."""
    text = text.removeprefix("\ufeff")
    fault = _unreadable(text)
    if fault is not None:
        return Document(value=None, faults=(fault,))
    reading = _Reading()
    try:
        reading.events = loader(text)
        return reading.document()
    except _TooDeep as error:
        return Document(value=None, faults=(Fault(reading.line, (), str(error)),))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = reading.line if mark is None else mark.line + 1
        words = (
            f"YAML syntax, here or above: {error.problem or error.context}; check indentation, brackets and quotes"
        )
        return Document(value=None, faults=(Fault(line, (), words),))
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # "\UFFFFFFFF" is a character to the scanner
        return Document(value=None, faults=(Fault(reading.line, (), f"cannot be read: {error}"),))
    finally:
        if reading.events is not None:
            reading.events.dispose()


def _unreadable(text: str) -> Fault | None:
    # The whole list takes 3 ms to compile, at every pass; most rules are ASCII.
    no_character = re.compile(_NO_ASCII_CHARACTER if text.isascii() else _NO_CHARACTER)
    for wrong, words in ((no_character, "a character that YAML does not allow"), (_TAB, "a tab; use spaces")):
        match = wrong.search(text)
        if match is not None:
            return Fault(text.count("\n", 0, match.end() - 1) + 1, (), f"has {words}")
    return None


class _TooDeep(Exception):
    def __init__(self) -> None:
        super().__init__(f"is nested more than {DEEPEST} deep")


class _Reading:
    """One walk over the events of a document: PyYAML's nodes have no place for most faults."""

    def __init__(self) -> None:
        self.events: Any = None
        self.line = 1
        self._lines: dict[Path, int] = {}
        self._faults: list[Fault] = []
        self._odd: set[Path] = set()

    def document(self) -> Document:
        value = None
        self._next()  # the stream's start
        if not isinstance(self._next(), yaml.StreamEndEvent):
            value = self._value(self._next(), ())
            self._next()  # the document's end
            if not isinstance(self._next(), yaml.StreamEndEvent):
                self._fault((), "another document begins here; a file has one")
        return Document(value=value, lines=self._lines, faults=tuple(self._faults), odd=frozenset(self._odd))

    def _next(self) -> Any:
        event = self.events.get_event()
        self.line = event.start_mark.line + 1
        return event

    def _fault(self, path: Path, text: str, *, odd: bool = False) -> None:
        self._faults.append(Fault(self.line, path, text))
        if odd:
            self._odd.add(path)

    def _value(self, event: Any, path: Path) -> Any:
        if path:
            self._lines.setdefault(path, self.line)
        # An alias can expand to a document of exponential size.
        if isinstance(event, yaml.AliasEvent):
            return self._fault(path, "aliases are not allowed here; write the value instead", odd=True)
        if event.tag is not None:
            self._fault(path, "tags are not allowed here; remove the word that begins with !", odd=True)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if len(path) == DEEPEST:
            raise _TooDeep
        return self._items(path) if isinstance(event, yaml.SequenceStartEvent) else self._pairs(path)

    def _items(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _pairs(self, path: Path) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = event.value if isinstance(event, yaml.ScalarEvent) and event.tag is None else None
            if not key or not key.isprintable():
                self._fault(path, "a key must be a word")
                self._skip(event)
                self._skip(self._next())
            elif key in pairs:
                self._fault((*path, key), f"{key} is listed twice; remove one")
                self._skip(self._next())
            else:
                self._lines[*path, key] = self.line
                pairs[key] = None
                pairs[key] = self._value(self._next(), (*path, key))
        return pairs

    def _skip(self, event: Any) -> None:
        depth = 0
        while True:
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise _TooDeep
            if depth == 0:
                return
            event = self._next()

    def _scalar(self, event: Any, path: Path) -> Any:
        text = event.value
        if not event.implicit[0] or len(text) > _LONGEST_NUMBER:
            return text
        kind = self.events.resolve(yaml.ScalarNode, text, (True, False)).rpartition(":")[2]
        if kind == "int" and _DECIMAL.fullmatch(text):
            return int(text.replace("_", ""))
        if kind not in ("null", "bool", "int", "float"):
            return text
        try:
            value = self.events.construct_object(yaml.ScalarNode(f"tag:yaml.org,2002:{kind}", text))
        except ValueError:  # 0x_
            return self._fault(path, f"{text!r} cannot be read as {kind}", odd=True)
        if kind == "int":
            words = f"{text} is {value} to YAML; write the number that is meant, or put it in quotes if it is text"
            self._fault(path, words, odd=True)
        return value
