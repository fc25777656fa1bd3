"""What holds for all tests."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lab import command
from tests import schemas, times
from tests.depth import DEPTH, TAKEN

_COMMANDS = "plimsoll_agent.terminal.base"
command.checks.append(schemas.of_words)


def pytest_runtest_setup() -> None:
    """Each command that a test runs in its own process is held to its schema; ``lab/command.py`` has the others.

    Nothing is imported for it: every test would depend on commands then, in time and for ``tests.changed``.
    """
    commands = sys.modules.get(_COMMANDS)
    if commands is None or hasattr(commands.OneLineErrors.run, "__wrapped__"):
        return
    run: Callable[[Any, argparse.Namespace], int] = commands.OneLineErrors.run

    @functools.wraps(run)
    def held(self: Any, parsed_args: argparse.Namespace) -> int:
        with schemas.watched(self, parsed_args):
            return run(self, parsed_args)

    commands.OneLineErrors.run = held


def pytest_sessionstart() -> None:
    times.begin()


def pytest_sessionfinish() -> None:
    """What was measured is written here: pytest-xdist kills a worker that takes its time after this."""
    coverage = sys.modules.get("coverage")  # imported where COVERAGE_PROCESS_START is set
    measured = coverage.Coverage.current() if coverage else None
    if measured:
        measured.stop()
        measured.save()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    times.leave(terminalreporter)
    counts = "; ".join(f"{module} {', '.join(map(str, taken))}" for module, taken in sorted(TAKEN.items()))
    terminalreporter.write_line(f"depth: {DEPTH}{f', counts of {counts}' if counts else ''}")
