"""What ``-f`` chooses: tables for people, CSV, bare values; cliff has JSON and YAML."""

from __future__ import annotations

import abc
import argparse
import csv
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TextIO

from plimsoll_agent.errors import UsageError
from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.terminal import table
from plimsoll_agent.terminal.columns import NOTHING, Column, number_of
from plimsoll_agent.terminal.output import Terminal, terminal_of
from plimsoll_agent.terminal.table import Cell
from plimsoll_agent.util.on_demand import postponed
from plimsoll_agent.util.text import printable

with postponed("stevedore"):  # for formats of other packages
    from cliff import columns, show
    from cliff.formatters import base
    from cliff.formatters.json_format import JSONFormatter
    from cliff.formatters.yaml_format import YAMLFormatter

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"([×<>] ?)?[\d.,]+( ?(%|[nµm]?s|[KMGT]?i?B(/s)?))?")


class Shown(columns.FormattableColumn[Any]):
    """A value for programs, and its text for people."""

    def __init__(self, value: object, people: str, tone: Tone | None = None) -> None:
        super().__init__(value)
        self._people = people
        self.tone = tone

    def human_readable(self) -> str:
        return self._people


def _shown(value: object) -> Cell:
    text, tone = _people(value)
    return Cell(printable(text), tone)


def _people(value: object) -> tuple[str, Tone | None]:
    tone = value.tone if isinstance(value, Shown) else None
    if isinstance(value, columns.FormattableColumn):
        value = value.human_readable()
    return NOTHING if value is None else str(value), tone


class Table(base.ListFormatter, base.SingleFormatter):
    """``-f table``: for people."""

    remedy = ""
    """What shows hidden columns, beside a wider terminal; by default options of lists."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("table formatter")
        group.add_argument(
            "--max-width",
            metavar="N",
            type=int,
            help="width of the table, instead of the terminal's; 0: each row in one line",
        )

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        terminal, cells = terminal_for(stdout, parsed_args), ([_shown(value) for value in row] for row in data)
        heads = [name for name in column_names if isinstance(name, Column)]
        if terminal.width is None and len(heads) == len(column_names):
            stdout.writelines(f"{line}\n" for line in table.piped(heads, cells, terminal))
            return
        rows = list(cells)
        traits = [
            name if isinstance(name, Column) else Column(name, right=_are_numbers([row[number] for row in rows]))
            for number, name in enumerate(column_names)
        ]
        long = getattr(parsed_args, "wide", None)
        every = bool(getattr(parsed_args, "columns", ()) or long)
        remedy = self.remedy or (" or -c" if long is None else ", --wide or -c")
        for line in table.lines(traits, rows, terminal, asked=every, remedy=remedy):
            stdout.write(f"{line}\n")

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        rows: list[table.Row] = []
        for name, value in zip(column_names, data, strict=True):
            text, tone = _people(value)
            # Several lines were laid out by the command.
            first, *others = [printable(line.strip()) for line in text.split("\n")]
            rows.append((Cell(name.replace("_", " ")), Cell(first, tone)))
            rows += [(Cell(""), Cell(line, tone)) for line in others]
        for line in table.pairs(rows, terminal_for(stdout, parsed_args)):
            stdout.write(f"{line}\n")


def terminal_for(stdout: TextIO, parsed_args: argparse.Namespace) -> Terminal:
    """Raises ``UsageError``."""
    terminal = terminal_of(stdout, getattr(parsed_args, "colour", "auto"))
    most: int | None = getattr(parsed_args, "max_width", None)
    if most is None:
        return terminal
    if most < 0:
        raise UsageError("--max-width must be 0 or more")
    return Terminal(most or None, terminal.colour)


def _are_numbers(cells: Sequence[Cell]) -> bool:
    texts = {cell.text for cell in cells} - {NOTHING}
    return bool(texts) and all(map(_NUMBER.fullmatch, texts))


class _Rows(base.ListFormatter, base.SingleFormatter, abc.ABC):
    """A line for each thing."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """No options of its own."""

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        self.emit_list(column_names, [data], stdout, parsed_args)


class Json(JSONFormatter):
    """``-f json``: cliff's, row by row."""

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        compact = parsed_args.noindent
        between = "["
        for row in data:
            text = json.dumps(dict(zip(column_names, map(_plain, row), strict=True)), indent=None if compact else 2)
            stdout.write(between + (text if compact else "\n" + textwrap.indent(text, "  ")))
            between = ", " if compact else ","
        stdout.write("[]\n" if between == "[" else "]\n" if compact else "\n]\n")


class Yaml(YAMLFormatter):
    """``-f yaml``: cliff's, row by row."""

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        rows = iter(data)
        first = list(islice(rows, 1))
        super().emit_list(column_names, first, stdout, parsed_args)
        for row in rows:
            super().emit_list(column_names, [row], stdout, parsed_args)


def _plain(value: object) -> object:
    return value.machine_readable() if isinstance(value, columns.FormattableColumn) else value


class Csv(_Rows):
    """``-f csv``: cells are text, limits are ``name=value`` separated by spaces, reasons are JSON, unknown is empty.
    Text that a spreadsheet would take for a formula gets an apostrophe before it.
    """

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        writer = csv.writer(stdout, lineterminator="\n")
        writer.writerow(column_names)
        for row in data:
            cells = [_cell(value) for value in row]
            writer.writerow([_harmless(cell) if isinstance(cell, str) else cell for cell in cells])


class Value(_Rows):
    """``-f value``: the cells of CSV without heads and quotes, a space between them; unknown is ``-``."""

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        for row in data:
            cells = [_cell(value) for value in row]
            stdout.write(" ".join(NOTHING if cell in (None, "") else str(cell) for cell in cells) + "\n")

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        self.emit_list(column_names, [[value] for value in data], stdout, parsed_args)


def _cell(value: object) -> object:
    plain = _plain(value)
    if isinstance(plain, dict):
        plain = _mapping(plain)
    if isinstance(plain, list):
        plain = " ".join(map(str, plain))
    return printable(plain) if isinstance(plain, str) else plain


def _mapping(plain: dict[str, object]) -> str:
    """Limits in words; a reason, which has all kinds of facts, as JSON."""
    if "code" in plain:
        return json.dumps(plain)
    return " ".join(f"{name}={number}" for name, number in plain.items()) or "unlimited"


def _harmless(text: str) -> str:
    """Text that no spreadsheet takes for a formula, since tenants choose names."""
    return f"'{text}" if text.startswith(_FORMULA) else text


@dataclass(frozen=True)
class _Format:
    obj: Any


class _Formats:
    """The formats of all lists and single things, as cliff wants its plugins. Searching for plugins takes longer."""

    def __init__(self) -> None:
        formats = {"table": Table(), "json": Json(), "yaml": Yaml(), "csv": Csv(), "value": Value()}
        self._formats = {name: _Format(obj) for name, obj in formats.items()}

    def names(self) -> list[str]:
        return list(self._formats)

    def __iter__(self) -> Iterator[_Format]:
        return iter(self._formats.values())

    def __getitem__(self, name: str) -> _Format:
        return self._formats[name]


_HELP = {
    "--format": ("FORMAT", "table (the default), csv, json, value or yaml"),
    "--column": ("COLUMN", "only this column; repeatable"),
    "--sort-column": ("COLUMN", "sort by this column, numbers as numbers and unknown last; repeatable"),
    "--sort-ascending": (None, argparse.SUPPRESS),  # as without it
    "--sort-descending": (None, "the largest first"),
    "--noindent": (None, "JSON in one line"),
}
"""cliff's own texts are longer."""


class Formatted:
    """A command with ``-f`` and ``-c``."""

    formatter_namespace = "plimsoll"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)  # type: ignore[misc]
        for action in parser._actions:
            for option in action.option_strings:
                action.metavar, action.help = _HELP.get(option, (action.metavar, action.help))
        return parser

    def _load_formatter_plugins(self) -> Any:
        return _Formats()


class Showing(Formatted, show.ShowOne):
    """A command whose ``take_action`` returns names, and their values."""

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        for name in parsed_args.columns:
            number_of(name, column_names, "--column")
        return super().produce_output(parsed_args, column_names, data)
