"""The factors of congestion as metrics: a golden file, the budget, and no zero for what is unknown."""

from __future__ import annotations

from pathlib import Path

from plimsoll_agent.congestion.published import Gap
from plimsoll_agent.monitor.congestion_metrics import PER_CLASS, families
from plimsoll_agent.monitor.prometheus_text import text
from tests.unit.agent.congestion.values import a_factor, a_factor_file

GOLDEN = Path(__file__).parents[2] / "data" / "congestion_metrics.prom"


def test_the_metrics_are_those_of_the_golden_file_and_what_is_unknown_has_none() -> None:
    unknown = a_factor(1, "hdd", latency=None, target=None, why=Gap.NO_REQUESTS)
    assert text(families(a_factor_file(a_factor(), unknown))) == GOLDEN.read_text(), "look at each line that differs"
    samples = [sample for family in families(a_factor_file()) for sample in family.samples]
    assert len(samples) == PER_CLASS + 1
