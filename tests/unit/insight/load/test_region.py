"""The rows of a region's load have the names that its Prometheus has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from plimsoll_agent.monitor import metrics
from plimsoll_insight.load.region import LoadBy, of_region
from plimsoll_monitoring.region.answers import Series


@pytest.mark.parametrize("names", [("demo", ""), ("", "demo")])
def test_a_project_whose_name_is_known_of_some_guests_only_has_it(names: Sequence[str]) -> None:
    def ask(query: str) -> list[Series]:
        if query.startswith("max by (project, project_name)"):
            return [Series({"project": "p1", "project_name": name}, 1.0) for name in names]
        if query.startswith("sum by (project, direction)"):
            assert metrics.GUEST_INFO in query
            return [Series({"project": "p1", "direction": "read"}, 5.0)]
        return []

    (row,) = of_region(ask, "north", (), (), LoadBy.PROJECT, 60, 5).rows
    assert row.labels == {"project": "p1", "project_name": "demo"}
