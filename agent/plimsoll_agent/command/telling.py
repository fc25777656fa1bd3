"""The base of commands that tell of disks as ``plan`` does: their formats, and how much they show."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from plimsoll_agent.command.base import NodeCommand, add_format, add_verbose, text_of
from plimsoll_agent.command.changes import FEW, laid_out
from plimsoll_agent.command.main import Plimsoll
from plimsoll_agent.messages.plan import DONE_IN, DiskLine, Line
from plimsoll_agent.util.text import plural


class TellsDisks(NodeCommand):
    """A command with a line for each disk that changes."""

    def __init__(self, app: Plimsoll, app_args: argparse.Namespace | None, cmd_name: str | None = None) -> None:
        super().__init__(app, app_args, cmd_name)
        self._alike: Counter[DiskLine] = Counter()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_format(parser)
        add_verbose(parser)
        parser.add_argument(
            "--all", action="store_true", help="on a terminal, list every disk, also where many change alike"
        )
        return parser

    def tell(self, lines: Iterable[Line], *, every: bool = True, remedy: str = "") -> None:
        for line in laid_out(lines, self.terminal, every=every, remedy=remedy):
            self.say(line)

    def tell_one(self, line: DiskLine, *, every: bool) -> None:
        """At once the line of a disk that is done; of many alike a terminal gets a few, and then ``tell_rest``."""
        alike = replace(line, names=("", "", ""), why=line.why.partition(DONE_IN)[0])
        self._alike[alike] += 1
        if every or self.terminal.width is None or self._alike[alike] <= FEW:
            self.tell([line])
            self._alike[alike] = min(self._alike[alike], FEW)

    def tell_rest(self) -> None:
        for line, number in self._alike.items():
            if number > FEW:
                self.tell([replace(line, names=(f"{plural(number - FEW, 'more disk')}", "", ""))])

    def say_data(self, data: object, format: str) -> None:
        self.say(text_of(data, format))
