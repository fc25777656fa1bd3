"""What holds for all tests."""

from __future__ import annotations

from tests.depth import DEPTH


def pytest_report_header() -> str:
    return f"depth: {DEPTH}"
