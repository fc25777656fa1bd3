"""The base of commands that tell of disks as ``plan`` does: their formats, and how much they show."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from plimsoll_agent.command.base import NodeCommand, add_format, add_verbose, text_of
from plimsoll_agent.command.changes import laid_out
from plimsoll_agent.messages.plan import Line


class TellsDisks(NodeCommand):
    """A command with a line for each disk that changes."""

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

    def say_data(self, data: object, format: str) -> None:
        self.say(text_of(data, format))
