"""A page: what is wrong, lines of facts and a table for people, one object for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from plimsoll_agent.terminal.formats import Showing, Table, terminal_for
from plimsoll_agent.terminal.problems import Line, problem_lines


class Page(Showing):
    """A command whose ``take_action`` returns ``page(…)``."""

    opening: Sequence[Line] = ()
    """What is wrong, or that nothing is; above everything else."""
    table: tuple[Sequence[str], Sequence[Sequence[object]]] | None = None
    closing: Sequence[str] = ()

    def page(
        self, parsed_args: argparse.Namespace, people: dict[str, str], data: dict[str, object]
    ) -> tuple[Sequence[str], Sequence[object]]:
        if parsed_args.formatter == "table":
            return tuple(people), tuple(people.values())
        if parsed_args.formatter == "csv":  # a cell holds no objects
            data = {
                name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in data.items()
            }
        return tuple(data), tuple(data.values())

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        for_people = parsed_args.formatter == "table" and not parsed_args.columns
        if for_people and self.opening:
            write_lines(
                self.app.stdout, (*problem_lines(self.opening, terminal_for(self.app.stdout, parsed_args)), "")
            )
        super().produce_output(parsed_args, column_names, data)
        if for_people:
            if self.table is not None:
                self.app.stdout.write("\n")
                below = Table()
                below.remedy = " or -f json"
                below.emit_list(*self.table, self.app.stdout, parsed_args)
            write_lines(self.app.stdout, self.closing)
        return 0


def write_lines(stdout: TextIO, lines: Iterable[str]) -> None:
    for line in lines:
        stdout.write(f"{line}\n")
