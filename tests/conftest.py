"""What holds for all tests."""

from __future__ import annotations

import pytest

from tests.depth import DEPTH, TAKEN


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = "; ".join(f"{module} {', '.join(map(str, taken))}" for module, taken in sorted(TAKEN.items()))
    terminalreporter.write_line(f"depth: {DEPTH}{f', counts of {counts}' if counts else ''}")
