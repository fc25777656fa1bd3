"""What holds for all tests."""

from __future__ import annotations

import sys

import pytest

from tests.depth import DEPTH, TAKEN


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
