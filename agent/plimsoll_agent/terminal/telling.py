"""The base of commands that tell of disks as ``plan`` does: their formats, and how much they show."""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from plimsoll_agent.messages.disk_lines import DONE_IN
from plimsoll_agent.messages.lines import DiskLine, Line, Severity
from plimsoll_agent.terminal.base import NodeCommand, add_format, add_verbose, text_of
from plimsoll_agent.terminal.changes import FEW, laid_out
from plimsoll_agent.terminal.main import Plimsoll
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import plural

LOG = logging.getLogger(__name__)
_NAMED = (Severity.CUT, Severity.UNKNOWN)
_DONE, _NOT_DONE = "plimsoll record", "--dry-run --all lists them"
"""What shows disks that are only counted."""


class TellsDisks(NodeCommand):
    """A command with a line for each disk that changes."""

    def __init__(self, app: Plimsoll, app_args: argparse.Namespace | None, cmd_name: str | None = None) -> None:
        super().__init__(app, app_args, cmd_name)
        self._alike: Counter[DiskLine] = Counter()
        self._ended: list[DiskLine] = []

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
        """The line of a disk that is done, to be told by ``telling``; of many alike a terminal gets a few.

        A disk whose change failed, or timed out, is always named.
        """
        why, duration, _ = line.why.partition(DONE_IN)
        if every or self.terminal.width is None or (line.severity in _NAMED and not duration):
            self._ended.append(line)
            return
        alike = replace(line, names=("", "", ""), why=f"{why} ({_DONE if duration else _NOT_DONE})")
        self._alike[alike] += 1
        if self._alike[alike] <= FEW:
            self._ended.append(line)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Around ``tell_one``, and around the locks: a pager, or a stopped terminal, must not hold them.

        Also after an error or Ctrl-C, what was done before is told.
        """
        try:
            yield
        finally:
            for line in self._ended:
                self.tell([line])
            for line, number in self._alike.items():
                if number > FEW:
                    self.tell([replace(line, names=(f"{plural(number - FEW, 'more disk')}", "", ""))])
            if isinstance(sys.exception(), KeyboardInterrupt):
                LOG.error("interrupted: nothing more is written; what was changed before: plimsoll record")

    def say_data(self, data: object, format: str) -> None:
        self.say(text_of(data, format))
