"""How lists look on a terminal: columns under capitals, nothing around them. cliff has the formats for machines."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from cliff import columns
from cliff.formatters import base
from rich.cells import cell_len

_GAP = "  "


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


class CsvOfOne(base.SingleFormatter):
    """``-f csv`` of a single thing: a list of one."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """No options of its own."""

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        writer = csv.writer(stdout, lineterminator="\n")
        writer.writerow(column_names)
        writer.writerow(
            value.machine_readable() if isinstance(value, columns.FormattableColumn) else value for value in data
        )
