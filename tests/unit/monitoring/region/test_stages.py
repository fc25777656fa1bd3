"""What is asked of Prometheus, and found in its answers, before the next stage of an approval."""

from __future__ import annotations

from datetime import timedelta

from plimsoll_agent.catalogue.orders import Of, RegionApproval
from plimsoll_agent.catalogue.stages import Condition, Stages
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.region.answers import Series
from plimsoll_monitoring.region.stages import Case, judged, questions
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


def test_a_cluster_that_is_not_well_and_does_not_say_why_is_unknown() -> None:
    """The mgr of an old release of Ceph has no ``ceph_health_detail``."""
    approval = RegionApproval(Of.RULES, "ab" * 32, NOON, NOON + WAIT, "ann", "x", stages=STAGES)
    case = Case(approval=approval, stages=STAGES, now=NOON.timestamp(), checks=())
    for status, holds in ((0.0, True), (1.0, None)):
        answers: dict[str, list[Series]] = {key: [] for key in questions(case)}
        answers["ceph"] = [Series({"cluster": "c"}, status)]
        (health,) = (each for each in judged(case, answers) if each.condition is Condition.HEALTH)
        assert health.holds is holds
