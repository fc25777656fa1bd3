"""How lists look on a terminal: columns under capitals, nothing around them. cliff has the formats for machines."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from cliff import columns
from cliff.formatters import base
from rich.cells import cell_len

from plimsoll_agent.report import printable

_GAP = "  "
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Shown(columns.FormattableColumn[Any]):
    """A value for machines, and its words for people."""

    def __init__(self, value: object, people: str) -> None:
        super().__init__(value)
        self._people = people

    def human_readable(self) -> str:
        return self._people


def _shown(value: object) -> str:
    if isinstance(value, columns.FormattableColumn):
        return str(value.human_readable())
    return "-" if value is None else str(value)


def _padded(text: str, width: int) -> str:
    # In cells of a terminal, not in characters: an emoji is one of these and two of those.
    return text + " " * (width - cell_len(text))


class PlainTable(base.ListFormatter, base.SingleFormatter):
    """``-f table``: for people."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """No options of its own."""

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        rows = [[name.replace("_", " ").upper() for name in column_names]]
        rows += [[_shown(value) for value in row] for row in data]
        widths = [max(cell_len(row[column]) for row in rows) for column in range(len(column_names))]
        for row in rows:
            cells = [_padded(text, width) for text, width in zip(row, widths, strict=True)]
            stdout.write(_GAP.join(cells).rstrip() + "\n")

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        width = max(cell_len(name) for name in column_names)
        for name, value in zip(column_names, data, strict=True):
            stdout.write(f"{_padded(name.replace('_', ' '), width)}{_GAP}{_shown(value)}\n")


class Csv(base.ListFormatter, base.SingleFormatter):
    """``-f csv``: a cell is text, limits in it are ``name=value`` with spaces between, unknown is empty. Before text
    that a spreadsheet would take for a formula stands an apostrophe.
    """

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """No options of its own."""

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
            writer.writerow([_cell(value) for value in row])

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        self.emit_list(column_names, [data], stdout, parsed_args)


def _cell(value: object) -> object:
    plain = value.machine_readable() if isinstance(value, columns.FormattableColumn) else value
    if isinstance(plain, dict):
        plain = " ".join(f"{name}={number}" for name, number in plain.items()) or "unlimited"
    if isinstance(plain, list):
        plain = " ".join(plain)
    return _harmless(printable(plain)) if isinstance(plain, str) else plain


def _harmless(text: str) -> str:
    """As a spreadsheet takes it for text: a tenant chooses names, and one that begins so would be a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
