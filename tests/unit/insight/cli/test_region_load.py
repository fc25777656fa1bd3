"""``plimsoll region load``: which nodes it counts, and what it says where none of their disks did anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_insight.cli.region_load import RegionLoadList
from plimsoll_monitoring.region.answers import Series
from tests.unit.person import Person

NOW = 1_800_000_000.0


class FakePrometheus:
    """With these nodes, whose disks do nothing, also the one that is first."""

    warnings = ()

    def __init__(
        self, *nodes: str, stale: Sequence[str] = (), aggregates: Sequence[str] = (), gone: Sequence[str] = ()
    ) -> None:
        self._nodes, self._stale, self._aggregates, self._gone = nodes, stale, aggregates, gone
        self.asked: list[str] = []

    def now(self) -> float:
        return NOW

    def as_of(self, at: float) -> None:
        assert at == NOW

    def query(self, promql: str) -> list[Series]:
        self.asked.append(promql)
        if promql.startswith("topk"):
            return [Series({"uuid": "1", "target_device": "vda", "direction": "read"}, 0)]
        nodes: Sequence[str] = ()
        if promql.startswith("max_over_time("):
            nodes = [*self._nodes, *self._gone]
        elif "plimsoll_disks{" in promql:
            nodes = self._aggregates
        elif "avg_over_time" in promql:
            nodes = self._stale
        elif promql.startswith("max by (region, instance) (plimsoll_pass_last_timestamp_seconds"):
            nodes = self._nodes
        return [Series({"region": "r1", "instance": node}, NOW) for node in nodes]


def ran(fake: FakePrometheus, *words: str) -> tuple[int, str]:
    status, out, _ = told(fake, *words)
    return status, out


def told(fake: FakePrometheus, *words: str) -> tuple[int, str, str]:
    def connect(self: Any, *_: object) -> FakePrometheus:
        self._name = "http://p:9090"
        return fake

    person = Person()
    status = person.types(RegionLoadList, *words, settings=config.load([], []), connect=connect)
    return status, person.out, person.err


def test_nothing_is_said_of_nodes_that_are_not_counted() -> None:
    assert ran(FakePrometheus("n1", "n2")) == (0, "No disk did anything.\n")
    assert ran(FakePrometheus("n1", "n2", aggregates=["n2"]), "--by", "type") == (0, "No disk did anything.\n")
    for fake in (FakePrometheus("n1", "n2", stale=["n2"]), FakePrometheus("n1", "n2", aggregates=["n2"])):
        assert ran(fake) == (0, "No disk of the counted nodes did anything.\n")


@pytest.mark.parametrize("by", ["volume", "type"])
@pytest.mark.parametrize("form", ["table", "json"])
def test_where_no_node_is_counted_there_is_no_load_to_list(
    by: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert ran(FakePrometheus("n1", "n2", stale=["n1", "n2"]), "--by", by, "-f", form) == (1, "")
    (said,) = caplog.messages
    assert said.startswith("http://p:9090: no node to count: all had no passes in a tenth of this time or more")


def test_disks_of_the_nodes_that_are_left_are_in_no_metric(caplog: pytest.LogCaptureFixture) -> None:
    assert ran(FakePrometheus("n1", "n2", stale=["n1"], aggregates=["n2"])) == (1, "")
    assert "no metrics of single disks" in caplog.text


def test_a_node_whose_target_has_got_another_name_is_not_told_as_gone() -> None:
    err = told(FakePrometheus("n1", gone=["n1:9100"]))[2]
    assert "(no metrics in Prometheus; a node of the same name has some, with other labels): n1:9100" in err


def test_a_node_whose_metrics_ended_is_named_and_in_no_sum() -> None:
    fake = FakePrometheus("n1", gone=["n2"])
    assert told(fake) == (
        0,
        "No disk of the counted nodes did anything.\n",
        "1 node not counted: unreachable (no metrics in Prometheus): n2\n",
    )
    sums = [promql for promql in fake.asked if "sum_over_time" in promql]
    assert any('uuid=~"1"' in promql for promql in sums)
    assert all('instance!~"n2"' in promql for promql in sums)
