"""YAML that remembers its lines and refuses what a person did not mean: keys twice, aliases, odd keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from plimsoll_agent.errors import ConfigError

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """The plain value, and the line of each key and item in it."""

    value: Any
    lines: dict[Path, int]

    def line_of(self, path: Sequence[object]) -> int:
        """The line of what stands at the path, or of the nearest thing around it that is there."""
        steps = tuple(step if isinstance(step, int) else str(step) for step in path)
        return next(line for n in range(len(steps), -1, -1) if (line := self.lines.get(steps[:n])) is not None)


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        # An alias can stand for a document of exponential size; nothing of ours needs one.
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not read here", problem_mark=mark)
        return super().compose_node(parent, index)


def load(text: str, origin: str) -> Document:
    """The document in the text. Raises ``ConfigError`` as ``origin:line: what is wrong``."""
    lines: dict[Path, int] = {(): 1}
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            value = None if node is None else _value(loader, node, (), lines, origin)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise ConfigError(f"{origin}:{line}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise ConfigError(f"{origin}:1: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{origin}:1: nested too deeply") from error
    return Document(value, lines)


_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)", re.ASCII)


def _scalar(loader: _Loader, node: yaml.Node, place: str) -> Any:
    try:
        value = loader.construct_object(node, deep=True)
    except yaml.YAMLError:
        raise
    except Exception as error:  # PyYAML trips over a 13th month, a !!bool that is none, a number of a million digits
        kind = node.tag.rpartition(":")[2]
        raise ConfigError(f"{place}: {node.value[:40]!r} cannot be read as {kind}") from error
    if isinstance(value, int) and not isinstance(value, bool) and not _DECIMAL.fullmatch(node.value):
        raise ConfigError(f"{place}: {node.value} is {value} to YAML; write that, or put it in quotes if it is text")
    return value


def _value(loader: _Loader, node: yaml.Node, path: Path, lines: dict[Path, int], origin: str) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, (*path, index), lines, origin) for index, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(loader, node, f"{origin}:{node.start_mark.line + 1}")
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key, line = key_node.value, key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise ConfigError(f"{origin}:{line}: a key must be a word")
        if key in mapping:
            raise ConfigError(f"{origin}:{line}: {key} stands here twice; remove one")
        lines[*path, key] = line
        mapping[key] = _value(loader, value_node, (*path, key), lines, origin)
    return mapping
