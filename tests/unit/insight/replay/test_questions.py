"""What a replay makes of answers of Prometheus."""

from __future__ import annotations

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_insight.replay.questions import most, nodes
from plimsoll_insight.replay.values import ReplayedDisk
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region.answers import Series
from tests.unit.node import uuid_of

HOUR = 3600
DISK = ReplayedDisk(region="r1", uuid=uuid_of(1), domain="d", target="vda", facts={}, actual=Limits())


def ask(promql: str) -> list[Series]:
    """Half an hour on n1 with a sample a minute, 100 requests a second, then on n2 with one each 15 s, and 40."""
    samples = {"n1": 30, "n2": 120}
    rates = {"n1": 100.0, "n2": 40.0}
    of = {"region": "r1", "uuid": uuid_of(1), "target_device": "vda"}
    if "count_over_time" in promql:
        return [Series({**of, "instance": node}, float(number)) for node, number in samples.items()]
    if "sum_over_time" in promql:
        return [Series({**of, "instance": node}, number * rates[node]) for node, number in samples.items()]
    return []


def test_a_sample_stands_for_the_time_between_two_of_its_own_node() -> None:
    one = most(ask, [DISK], HOUR, frozenset(), {"n1": 60.0, "n2": 15.0})[DISK.key]
    assert (one.seconds, one.mean) == (HOUR, pytest.approx(70))


def test_samples_of_a_node_whose_scrapes_are_unknown_stand_for_no_time() -> None:
    one = most(ask, [DISK], HOUR, frozenset(), {"n1": 60.0})[DISK.key]
    assert (one.seconds, one.mean) == (0, None)


def test_nodes_without_metrics_at_the_end_are_known() -> None:
    def answer(promql: str) -> list[Series]:
        there = ("n1", "n2") if promql.startswith("max_over_time(") else ("n1",)
        return [Series({"region": "r1", "instance": node}, 1) for node in there]

    assert nodes(answer, SeriesSelection(), HOUR).unreachable == {("r1", "n2")}
