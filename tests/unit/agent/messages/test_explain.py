"""What ``disk explain`` says of the stages of its node."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval
from plimsoll_agent.catalogue.stages import Stages
from plimsoll_agent.messages import explain
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.decide import Decision, Desired
from plimsoll_agent.reconcile.consider import outcome_of
from plimsoll_agent.store.record import Record
from plimsoll_agent.util.frozen import replace
from tests.unit.values import NOON, a_disk, a_situation

STAGES = Stages(percent=(1.0, 10.0, 100.0), wait=timedelta(minutes=30), reached=1, entered=NOON)
APPROVAL = RegionApproval(
    of=Of.SPECS, digest="0a1b" * 16, since=NOON, until=NOON + timedelta(days=7), by="ann", why="sale", stages=STAGES
)
OUTCOME = outcome_of(a_disk(), Decision(desired=Desired(Limits(), because(Code.NO_LIMIT)), trail=()))


def told(tmp_path: Path, orders: Orders) -> tuple[list[str], object]:
    situation, record = replace(a_situation(), orders=orders), Record(tmp_path / "record.sqlite")
    rows = [text for name, text in explain.rows(OUTCOME, situation, record) if name == "stage"]
    return rows, explain.data(OUTCOME, situation, None, record)["stages"]


@pytest.mark.parametrize(
    ("position", "number", "percent", "here"),
    [
        (0.5, 1, 1, "reached"),
        (1.0, 2, 10, "reached"),
        (50.0, 3, 100, "not yet: stage 2 of 3 (10 % of nodes) since 2026-11-20 12:00 UTC"),
    ],
)
def test_the_stage_of_the_node_is_told_and_whether_it_is_reached(
    tmp_path: Path, position: float, number: int, percent: float, here: str
) -> None:
    rows, data = told(tmp_path, Orders(staged=(APPROVAL,)).on_node(position))
    assert rows == [f"{number} of 3 ({percent} % of nodes) of approval 0a1b0a1b0a1b0a1b of specs: {here}"]
    reached = here == "reached"
    numbers = {"stage": number, "stages": 3, "percent": percent, "reached": reached}
    assert data == [{"approval": APPROVAL.digest, "of": "specs"} | numbers]


def test_each_approval_has_its_row_and_one_without_stages_has_none(tmp_path: Path) -> None:
    rules = replace(APPROVAL, of=Of.RULES, digest="f" * 64, stages=replace(STAGES, reached=0, entered=None))
    rows, data = told(
        tmp_path, Orders(approvals=(replace(APPROVAL, stages=None),), staged=(APPROVAL, rules)).on_node(5)
    )
    assert [row.partition(" of approval ")[2] for row in rows] == [
        "0a1b0a1b0a1b0a1b of specs: reached",
        "ffffffffffffffff of rules: not yet: stage 1 of 3 (1 % of nodes)",
    ]
    assert isinstance(data, list)
    assert len(data) == 2


@pytest.mark.parametrize(
    "orders", [Orders(staged=(APPROVAL,)), Orders(approvals=(replace(APPROVAL, stages=None),)).on_node(5)]
)
def test_without_a_position_or_without_stages_there_is_no_row(tmp_path: Path, orders: Orders) -> None:
    """Without a region file the node is in no stage."""
    assert told(tmp_path, orders) == ([], [])
