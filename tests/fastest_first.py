"""A pytest plugin of ``tests.mutation``: tests that are fast come first, since one that fails is enough."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

STATISTICS = Path("mutmut-stats.json")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if STATISTICS.exists():
        seconds = json.loads(STATISTICS.read_text(encoding="utf-8"))["duration_by_test"]
        items.sort(key=lambda item: (seconds.get(item.nodeid, 0), item.nodeid))
