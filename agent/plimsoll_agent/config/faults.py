"""Faults of settings, with file, line and key: oslo.config ignores unknown keys, and its errors have no lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plimsoll_agent.config.options import OPTIONS, NumberWithUnit, Timeout
from plimsoll_agent.config.oslo import iniparser, types
from plimsoll_agent.util.files import reason
from plimsoll_agent.util.schema import short
from plimsoll_agent.util.text import meant

_REMOVED = {("probe", "engine"): "probes choose fio's engine"}


def of_environment() -> Iterator[str]:
    for group, options in OPTIONS.items():
        for option in options:
            name = f"OS_{group}__{option.dest}".upper()
            if name in os.environ and (fault := _fault(group, option.dest, os.environ[name])):
                yield f"environment: {name}: {fault}"


def of_file(file: Path) -> Iterator[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        yield f"{file}: no such file"
        return
    except OSError as error:
        yield f"{file}: cannot be read: {reason(error)}"
        return
    except UnicodeDecodeError as error:
        yield f"{file}: cannot be read: {error}"
        return
    parser = _Entries()
    try:
        parser.parse(lines)
    except iniparser.ParseError as error:
        yield f"{file}:{error.lineno}: {error.msg}: {error.line.strip()}"
        return
    for line, group, key, value in parser.entries:
        fault = _fault(group, key, value)
        if fault:
            yield f"{file}:{line}: [{group}] {key}: {fault}" if group else f"{file}:{line}: {key}: {fault}"


def keys_of(file: Path) -> Iterator[tuple[int, str, str]]:
    """The settings in a file without faults, each with its line."""
    parser = _Entries()
    parser.parse(file.read_text(encoding="utf-8").splitlines())
    yield from ((line, group, key) for line, group, key, _ in parser.entries)


class _Entries(iniparser.BaseParser):
    """oslo's own parser, with the line of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.group = ""
        self.entries: list[tuple[int, str, str, str]] = []
        self._begun = 0

    def new_section(self, section: str) -> None:
        self.group = section

    def _split_key_value(self, line: str) -> tuple[str, list[str]]:
        # Called at the first line of an entry; ``assignment`` is called after its last line.
        self._begun = self.lineno
        key, value = super()._split_key_value(line)
        return key, value

    def assignment(self, key: str, value: list[str]) -> None:
        self.entries.append((self._begun, self.group, key, "\n".join(value)))


def _of_number(type: Any, value: str) -> str | None:
    """The fault of a number, in plimsoll's words."""
    whole = isinstance(type, types.Integer)
    if not value.strip():
        return "is empty; remove the line for the default"
    try:
        number = (
            type.read(value) if isinstance(type, NumberWithUnit | Timeout) else int(value) if whole else float(value)
        )
    except ValueError as error:
        if isinstance(type, NumberWithUnit | Timeout):
            return str(error)
        return f"must be {'a whole number' if whole else 'a number'}, not {short(repr(value), 60)}"
    if number != number:  # neither below the minimum nor above the maximum
        return "must be a number"
    if type.min is not None and number < type.min:
        return f"must be at least {type.min}"
    return f"must be at most {type.max}" if type.max is not None and number > type.max else None


def _fault(group: str, key: str, value: str) -> str | None:
    if not group:
        return "not in a section; write [DEFAULT] before the first setting"
    options = {option.dest: option for option in OPTIONS.get(group, ())}
    if not options:
        return f"no such section; known are {', '.join(f'[{name}]' for name in OPTIONS)}"
    if (group, key) in _REMOVED:
        return f"no longer a setting: {_REMOVED[group, key]}; remove the line"
    if key not in options:
        return f"no such setting; {meant(key, options)}"
    type = options[key].type
    if isinstance(type, types.Number):
        return _of_number(type, value)
    try:
        type(value)
    except ValueError as error:
        return str(error)
    return None
