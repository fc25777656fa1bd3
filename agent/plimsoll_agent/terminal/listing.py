"""Lists: columns that are chosen and sorted alike in all formats, and closing lines for people."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import chain, compress, islice
from typing import Any

from cliff import columns as cliff_columns
from cliff import lister

from plimsoll_agent.terminal.columns import Column, number_of
from plimsoll_agent.terminal.formats import Formatted, terminal_for
from plimsoll_agent.terminal.page import write_lines
from plimsoll_agent.terminal.table import paragraph

_LAST = (2, 0.0, 0.0, "")


class Listing(Formatted, lister.Lister):
    """A command whose ``take_action`` returns columns, and rows of cells."""

    closing: Sequence[str] = ()
    """Lines for people below the table."""
    empty: str | None = None
    """A line for people instead of a table without rows; a table of heads without it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--wide", action="store_true", help="all columns, however narrow the terminal is")
        return parser

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        rows = iter(ordered(list(data), column_names, parsed_args) if parsed_args.sort_columns else data)
        people = parsed_args.formatter == "table"
        first = list(islice(rows, 1))
        if people and not first and self.empty is not None and not parsed_args.columns:
            write_lines(self.app.stdout, filter(None, [self.empty]))
            return 0
        places = chosen_of(column_names, parsed_args)
        long = bool(places) or parsed_args.wide or not people
        mask = [
            number in places if places else long or not _is_long(column) for number, column in enumerate(column_names)
        ]
        names: list[str] = list(compress(column_names, mask))
        # YAML refuses subclasses of str.
        names = names if people else list(map(str, names))
        cells = (tuple(compress(row, mask)) for row in chain(first, rows))
        self.formatter.emit_list(names, cells, self.app.stdout, parsed_args)
        if people and not parsed_args.columns:
            for line in self.closing:
                write_lines(self.app.stdout, paragraph(line, terminal_for(self.app.stdout, parsed_args)))
        return 0


def ordered(
    rows: Sequence[Sequence[Any]], column_names: Sequence[str], parsed_args: argparse.Namespace
) -> Sequence[Sequence[Any]]:
    """As ``--sort-column`` says. Raises ``UsageError``."""
    for name in reversed(parsed_args.sort_columns):
        number = number_of(name, column_names, "--sort-column")
        rows = _sorted(rows, number, descending=parsed_args.sort_direction == "desc")
    return rows


def chosen_of(column_names: Sequence[str], parsed_args: argparse.Namespace) -> set[int]:
    """The numbers of the columns that ``-c`` names. Raises ``UsageError``."""
    return {number_of(name, column_names, "--column") for name in parsed_args.columns}


def _is_long(column: str) -> bool:
    return isinstance(column, Column) and column.long


def _sorted(rows: Sequence[Sequence[Any]], number: int, *, descending: bool) -> list[Sequence[Any]]:
    pairs = [(_order(row[number]), row) for row in rows]
    present = [pair for pair in pairs if pair[0] != _LAST]
    present.sort(key=lambda pair: pair[0], reverse=descending)
    return [row for _, row in present] + [row for key, row in pairs if key == _LAST]


def _order(cell: object) -> tuple[int, float, float, str]:
    """What a cell is sorted by. Limits by their requests, then their bytes; unlimited is more than all of them."""
    plain = cell.machine_readable() if isinstance(cell, cliff_columns.FormattableColumn) else cell
    match plain:
        case None:
            return _LAST
        case int() | float():
            return (0, float(plain), 0.0, "")
        case {"code": code}:
            return (1, 0.0, 0.0, str(code))
        case {"value": None, "saturated": True}:  # a quantile beyond the last bucket
            return (0, float("inf"), 0.0, "")
        case {"value": value}:
            return _order(value)
        case dict():
            return (0, _rate(plain, "iops"), _rate(plain, "bytes"), "")
        case _:
            return (1, 0.0, 0.0, str(plain).casefold())


def _rate(limits: dict[str, Any], unit: str) -> float:
    rates = [limits[name] for scope in ("total", "read", "write") if (name := f"{scope}_{unit}_sec") in limits]
    return float(sum(rates)) if rates else float("inf")
