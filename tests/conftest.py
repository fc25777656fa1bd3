"""What holds for all tests."""

from __future__ import annotations

import argparse
import functools
import sys

import pytest

from plimsoll_agent.command.base import OneLineErrors
from tests import schemas
from tests.depth import DEPTH, TAKEN

_run = OneLineErrors.run


@functools.wraps(_run)
def _held(self: OneLineErrors, parsed_args: argparse.Namespace) -> int:
    """Each command that a test runs in its own process; ``tests/command.py`` has the others."""
    with schemas.watched(self, parsed_args):
        return _run(self, parsed_args)


OneLineErrors.run = _held  # type: ignore[method-assign]


def pytest_sessionfinish() -> None:
    """What was measured is written here: pytest-xdist kills a worker that takes its time after this."""
    coverage = sys.modules.get("coverage")  # imported where COVERAGE_PROCESS_START is set
    measured = coverage.Coverage.current() if coverage else None
    if measured:
        measured.stop()
        measured.save()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = "; ".join(f"{module} {', '.join(map(str, taken))}" for module, taken in sorted(TAKEN.items()))
    terminalreporter.write_line(f"depth: {DEPTH}{f', counts of {counts}' if counts else ''}")
