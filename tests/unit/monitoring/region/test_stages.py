"""What is asked of Prometheus before the next stage of an approval."""

from __future__ import annotations

from datetime import timedelta

from plimsoll_agent.catalogue.orders import Of, RegionApproval
from plimsoll_agent.catalogue.stages import Stages
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.region.stages import Case, questions
from tests.unit.values import NOON

WAIT = timedelta(minutes=30)
STAGES = Stages(percent=(1.0, 100.0), wait=WAIT, entered=NOON)


def test_the_time_before_an_approval_is_before_its_first_one_also_where_it_was_approved_again() -> None:
    """When it was approved again, the nodes of its stage had the new limits already."""
    again = NOON + timedelta(hours=2)
    for since, stages in ((NOON, STAGES), (again, replace(STAGES, entered=again, began=NOON))):
        approval = RegionApproval(Of.RULES, "ab" * 32, since, again + WAIT, "ann", "x", stages=stages)
        case = Case(approval=approval, stages=stages, now=(again + WAIT).timestamp(), checks=())
        assert " offset 9000s" in questions(case)["at_limit_before"]
