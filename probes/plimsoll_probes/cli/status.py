"""``plimsoll status``: this node on one screen."""

from __future__ import annotations

import argparse
import os
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO, TypeVar

from plimsoll_agent import catalogue, passfile, textfile
from plimsoll_agent.cli.page import Page, write_lines
from plimsoll_agent.cli.standing import pause_in_force, state_of
from plimsoll_agent.config import Settings
from plimsoll_agent.lastpass import LastPass
from plimsoll_agent.measures import Level
from plimsoll_agent.report import printable
from plimsoll_agent.state import CorruptState, State, StateError
from plimsoll_probes import status
from plimsoll_probes.cli.base import HistoryCommand, history_of, now
from plimsoll_probes.status import Probes

WIDTH = 100
"""Where it does not go to a terminal, which knows its own."""
_LEAST_WIDTH = 60
# SGR of ECMA-48: bold, and red, magenta, yellow.
_COLOURS = {Level.CRITICAL: "1;31", Level.UNKNOWN: "1;35", Level.WARNING: "1;33"}
_T = TypeVar("_T")


class Status(HistoryCommand, Page):
    """Show how this node is on one screen: what is wrong and what to do, its passes, sources, disks and probes.

    Neither libvirt nor Ceph nor a network is asked, only the files that passes and probes left: it answers while
    those hang. What is wrong is judged by the ranges of [health].

    Exit status: 0 all is well, 3 something is not, 1 there was no pass yet or a file cannot be read, 64 usage.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[object]]:
        self._found = look(self.settings(parsed_args), now())
        self.status = self._found.exit_status
        last, width = self._found.last, _width(self.app.stdout)
        if last is not None and last.disks:
            self.table = status.type_table(last)
        facts = status.facts(self._found)
        indent = max(map(len, facts)) + 2
        people = {name: _hanging(value, width, indent) for name, value in facts.items()}
        return self.page(parsed_args, people, status.data(self._found))

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        if parsed_args.formatter == "table" and not parsed_args.columns:
            write_lines(self.app.stdout, (*_headlines(self._found, self.app.stdout), ""))
        return super().produce_output(parsed_args, column_names, data)


def look(settings: Settings, at: datetime) -> status.Status:
    """What there is to be read now."""
    state, complaints = state_of(settings), dict[str, str]()

    def read(name: str, what: Callable[[], _T]) -> _T | None:
        try:
            return what()
        except StateError as error:
            complaints[name] = printable(str(error))
            return None

    def probes() -> Probes:
        with history_of(settings, shown=True) as history:
            return Probes.of(history, at)

    return status.Status(
        now=at,
        last=read("pass", lambda: _last_pass(state)),
        probes=read("probes", probes),
        paused=pause_in_force(settings, at),
        written=dict(_written(settings, state)),
        thresholds=settings.health,
        complaints=complaints,
    )


def _last_pass(state: State) -> LastPass | None:
    """Raises ``StateError``."""
    try:
        return passfile.load(state)
    except CorruptState as error:
        raise StateError(f"{error}; the next pass over all guests begins it anew") from error


def _written(settings: Settings, state: State) -> Iterator[tuple[Path, datetime]]:
    files = [state.last_pass, state.memory, state.record, state.probes]
    if settings.catalogue.source != "none":
        files.append(settings.catalogue.directory / catalogue.NAME)
    if settings.metrics.textfile_dir is not None:
        files += [textfile.path(settings.metrics.textfile_dir, producer) for producer in ("pass", "probe")]
    for file in files:
        try:
            yield file, datetime.fromtimestamp(file.stat().st_mtime, UTC)
        except OSError:
            continue


def _headlines(found: status.Status, stdout: TextIO) -> Iterator[str]:
    yield status.headline(found)
    longest = max(map(len, Level.__members__))
    for level, line in status.wrong_lines(found):
        name = f"{level.name:{longest}}"
        coloured = f"\x1b[{_COLOURS[level]}m{name}\x1b[0m" if _colours(stdout) else name
        yield f"{coloured}  {_hanging(line, _width(stdout), longest + 2)}"


def _hanging(text: str, width: int, indent: int) -> str:
    """In lines of that width, which all begin at the indent; the first one is there already."""
    lines = textwrap.wrap(text, max(width - indent, 20), break_on_hyphens=False) or [""]
    return f"\n{' ' * indent}".join(lines)


def _width(stdout: TextIO) -> int:
    if not stdout.isatty():
        return WIDTH
    return max(_LEAST_WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)


def _colours(stdout: TextIO) -> bool:
    """Only on a terminal that has them, and unless somebody wants none (no-color.org)."""
    return stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
