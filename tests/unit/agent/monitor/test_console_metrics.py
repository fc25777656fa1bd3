"""What the consoles told, as Prometheus reads it."""

from __future__ import annotations

from pathlib import Path

from plimsoll_agent.consoles.model import Consoles
from plimsoll_agent.consoles.patterns import StallKind
from plimsoll_agent.monitor import console_metrics, prometheus_text
from tests.unit.consolevalues import some_consoles
from tests.unit.node import uuid_of
from tests.unit.values import NOON

GOLDEN = Path(__file__).parents[2] / "data" / "console_metrics.prom"


def text(consoles: Consoles, detail: str = "disk") -> str:
    return prometheus_text.text(console_metrics.families(consoles, detail=detail))


def series(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_the_metrics_are_the_golden_text() -> None:
    assert text(some_consoles()) == GOLDEN.read_text(), "look at each line that differs, then copy it there"


def test_without_detail_there_is_no_series_of_a_guest() -> None:
    without = text(some_consoles(), "aggregate")
    assert "uuid" not in without
    assert "plimsoll_project_stalled_timestamp_seconds{" in without


def test_a_guest_that_was_read_has_each_kind_and_one_that_was_not_has_none() -> None:
    every = text(some_consoles())
    for number, kinds in ((3, len(StallKind)), (4, 0), (5, 0)):
        assert sum(f'uuid="{uuid_of(number)}"' in line for line in series(every)) == kinds


def test_the_cost_is_the_budget() -> None:
    assert len(series(text(Consoles(NOON)))) == console_metrics.PER_NODE
