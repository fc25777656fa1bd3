"""What is asked of Prometheus, and found in its answers, before the next stage of an approval."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll_agent.catalogue.orders import Of, RegionApproval
from plimsoll_agent.catalogue.stages import StageCheck, Stages
from plimsoll_agent.errors import Unreachable
from plimsoll_agent.reconcile.health_gate import BLOCKING_CHECKS
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.region.answers import Series
from plimsoll_monitoring.region.stages import StageCase, findings, judged, questions
from tests import golden
from tests.unit.values import NOON

WAIT = timedelta(minutes=30)
STAGES = Stages(percent=(1.0, 100.0), wait=WAIT, entered=NOON)


def test_the_time_before_an_approval_is_before_its_first_one_also_where_it_was_approved_again() -> None:
    """When it was approved again, the nodes of its stage had the new limits already."""
    again = NOON + timedelta(hours=2)
    for since, stages in ((NOON, STAGES), (again, replace(STAGES, entered=again, began=NOON))):
        approval = RegionApproval(
            of=Of.RULES, digest="ab" * 32, since=since, until=again + WAIT, by="ann", why="x", stages=stages
        )
        case = StageCase(approval=approval, stages=stages, now=(again + WAIT).timestamp(), checks=())
        assert " offset 9000s" in questions(case)["at_limit_before"]


def test_an_unhealthy_cluster_without_a_reason_is_unknown() -> None:
    """The mgr of an old release of Ceph has no ``ceph_health_detail``."""
    approval = RegionApproval(
        of=Of.RULES, digest="ab" * 32, since=NOON, until=NOON + WAIT, by="ann", why="x", stages=STAGES
    )
    case = StageCase(approval=approval, stages=STAGES, now=NOON.timestamp(), checks=())
    for status, holds in ((0.0, True), (1.0, None)):
        answers: dict[str, list[Series]] = {key: [] for key in questions(case)}
        answers["ceph"] = [Series({"cluster": "c"}, status)]
        (health,) = (each for each in judged(case, answers) if each.condition is StageCheck.HEALTH)
        assert health.holds is holds


# --- what is found in answers

A, B = ({"region": "r", "instance": name} for name in ("a", "b"))
CLOCK = (NOON + WAIT).timestamp()
APPROVAL = RegionApproval(
    of=Of.SPECS, digest="ab" * 32, since=NOON, until=NOON + 2 * WAIT, by="ann", why="x", stages=STAGES
)
CASE = StageCase(approval=APPROVAL, stages=STAGES, now=CLOCK, checks=BLOCKING_CHECKS)


def each(value: float) -> list[Series]:
    return [Series(A, value), Series(B, value)]


WELL: dict[str, list[Series]] = {
    "nodes": each(1),
    "members": each(0.5),
    "observed": each(CLOCK - 60),
    "enforcing": each(1),
    "paused": each(0),
    "disks": each(10),
    "disks_before": each(10),
    "at_limit": [Series(A, 2), Series(B, 0)],
    "at_limit_before": [Series(A, 1), Series(B, 0)],
    "samples": each(20),
    "samples_before": each(10),
    "probed": [Series({"verdict": "kept"}, 1)],
    "broken": each(0),
    "reverts": each(0),
    "failed": each(0),
    "gates": [Series({**one, "cluster": "c"}, 0) for one in (A, B)],
    "ceph": [Series({"cluster": "c"}, 1)],
    "checks": [Series({"cluster": "c", "name": "POOL_NEAR_FULL"}, 1)],
    "osds": [Series({"cluster": "c"}, 1000)],
    "osds_down": [Series({"cluster": "c"}, 10)],
}
GATES_OF_TWO = [Series({**one, "cluster": cluster}, 0) for one in (A, B) for cluster in ("c", "d")]
GOOD = {
    StageCheck.ARRIVED: "2 nodes have it",
    StageCheck.AT_LIMIT: "touched disks were at their limits 10.0 % of the time, 5.0 % before",
    StageCheck.VERDICTS: "probes kept their promises",
    StageCheck.REVERTS: "none",
    StageCheck.WRITES: "none",
    StageCheck.HEALTH: "Ceph reports no check that blocks",
}
NOT_NOW = "1 node without a pass in the last 15 minutes, or since the stage began: a"
NAN = float("nan")
OTHERS: list[tuple[StageCheck, bool | None, str, dict[str, list[Series]]]] = [
    (StageCheck.ARRIVED, None, "no node has it yet, as far as Prometheus has metrics", {"nodes": []}),
    (StageCheck.ARRIVED, False, "1 node without it yet: c",
     {"members": [Series({"region": "r", "instance": "c"}, 0.2)]}),
    (StageCheck.ARRIVED, False, NOT_NOW, {"observed": [Series(A, CLOCK - 901), Series(B, CLOCK)]}),
    (StageCheck.ARRIVED, False, NOT_NOW, {"observed": [Series(B, CLOCK)]}),
    (StageCheck.ARRIVED, False, NOT_NOW, {"observed": [Series(A, NAN), Series(B, CLOCK)]}),
    (StageCheck.ARRIVED, False, "1 node in mode observe, or in an unknown mode: b",
     {"enforcing": [Series(A, 1), Series(B, 0)]}),
    (StageCheck.ARRIVED, False, "1 node paused: b", {"paused": [Series(A, 0), Series(B, NAN)]}),
    (StageCheck.AT_LIMIT, False,
     "touched disks were at their limits 10.5 % of the time, 5.0 % before (allowed: 5 more)",
     {"at_limit": [Series(A, 2.1), Series(B, 0)]}),
    (StageCheck.AT_LIMIT, None, "1 node without averages of disks: b", {"at_limit": [Series(A, 2)]}),
    (StageCheck.AT_LIMIT, None, "before the approval: 1 node without averages of disks: b",
     {"disks_before": [Series(A, 10), Series(B, NAN)]}),
    (StageCheck.AT_LIMIT, None, "before the approval: no touched disk was on the nodes of the stage",
     {"disks_before": []}),
    (StageCheck.AT_LIMIT, None, "all touched disks on the nodes of the stage are left alone", {"disks": each(0)}),
    (StageCheck.AT_LIMIT, True, "touched disks were at their limits 5.0 % of the time, 0.0 % before",
     {"disks_before": each(0), "at_limit": each(0.5)}),
    (StageCheck.AT_LIMIT, False,
     "touched disks were at their limits 5.5 % of the time, 0.0 % before (allowed: 5 more)",
     {"disks_before": each(0), "at_limit": [Series(A, 1.1), Series(B, 0)]}),
    (StageCheck.AT_LIMIT, None, "gaps in the averages of disks now or before: b",
     {"samples_before": [Series(A, 10), Series(B, 9)]}),
    (StageCheck.AT_LIMIT, None, "gaps in the averages of disks now or before: b", {"samples": [Series(A, 20)]}),
    (StageCheck.VERDICTS, None, "the number of probes is not a number", {"probed": [Series({}, NAN)]}),
    (StageCheck.VERDICTS, None, "the number of probes is not a number", {"broken": each(NAN)}),
    (StageCheck.VERDICTS, False, "probes broke their promise on b", {"broken": [Series(A, 0), Series(B, 1)]}),
    (StageCheck.VERDICTS, None, "no probe with a verdict ended on its nodes since the stage began", {"probed": []}),
    (StageCheck.REVERTS, False, "external changes were reverted on b", {"reverts": [Series(A, 0), Series(B, 1)]}),
    (StageCheck.REVERTS, None, "1 node without a figure: b", {"reverts": [Series(A, 0)]}),
    (StageCheck.WRITES, False, "limits could not be set on a, b", {"failed": each(1)}),
    (StageCheck.WRITES, None, "2 nodes without a figure: a, b", {"failed": each(NAN)}),
    (StageCheck.WRITES, None, "all touched disks on the nodes of the stage are left alone", {"disks": each(0)}),
    (StageCheck.WRITES, None, "no touched disk was on the nodes of the stage", {"disks": []}),
    (StageCheck.HEALTH, False, "the health gate is shut on b", {"gates": [Series(A, 0), Series(B, 1)]}),
    (StageCheck.HEALTH, False, "Ceph reports OSD_DOWN (11 of 1000 OSDs)",
     {"checks": [Series({"cluster": "c", "name": "OSD_DOWN"}, 1)], "osds_down": [Series({"cluster": "c"}, 11)]}),
    (StageCheck.HEALTH, False, "Ceph reports SLOW_OPS",
     {"checks": [Series({"region": "r", "cluster": "c", "name": "SLOW_OPS"}, 1)]}),
    (StageCheck.HEALTH, None, "no ceph_health_status of the region; let Prometheus scrape Ceph's mgr", {"ceph": []}),
    (StageCheck.HEALTH, None, "no ceph_health_status with the label cluster of c, where the stage has disks",
     {"ceph": [Series({"cluster": "other"}, 0)]}),
    (StageCheck.HEALTH, True, "Ceph reports no check that blocks", {"ceph": [Series({}, 0)], "checks": []}),
    (StageCheck.HEALTH, None, "no ceph_health_status with the label cluster of c, d, where the stage has disks",
     {"gates": GATES_OF_TWO, "ceph": [Series({}, 0)], "checks": []}),
    (StageCheck.HEALTH, True, "Ceph reports no check that blocks",
     {"gates": GATES_OF_TWO, "ceph": [Series({}, 0), Series({"cluster": "d"}, 0)], "checks": []}),
    (StageCheck.HEALTH, True, "Ceph reports no check that blocks",
     {"gates": GATES_OF_TWO, "ceph": [Series({"region": "c"}, 0), Series({"cluster": "d"}, 0)], "checks": []}),
    (StageCheck.HEALTH, False, "Ceph reports SLOW_OPS",
     {"ceph": [Series({"region": "c"}, 1)], "checks": [Series({"region": "c", "name": "SLOW_OPS"}, 1)]}),
]  # fmt: skip


def test_all_is_found_good_where_the_answers_say_so() -> None:
    assert {each.condition: (each.holds, each.detail) for each in judged(CASE, WELL)} == {
        condition: (True, words) for condition, words in GOOD.items()
    }


@pytest.mark.parametrize(("condition", "holds", "words", "answers"), OTHERS)
def test_what_is_against_a_condition_is_told_and_what_is_missing_or_no_number_is_unknown(
    condition: StageCheck, holds: bool | None, words: str, answers: dict[str, list[Series]]
) -> None:
    found = {each.condition: each for each in judged(CASE, WELL | answers)}
    assert (found[condition].holds, found[condition].detail) == (holds, words)


def test_a_check_of_another_region_is_none_of_this_one() -> None:
    elsewhere = {"region": "elsewhere", "cluster": "c", "name": "SLOW_OPS"}
    *_, health = judged(CASE, WELL | {"checks": [*WELL["checks"], Series(elsewhere, 1)]})
    assert health.holds is True


def test_without_an_answer_or_with_half_of_one_all_is_unknown() -> None:
    def gone(_: str) -> list[Series]:
        raise Unreachable("connection refused")

    for result, words in (
        (findings(APPROVAL, (), lambda: CLOCK, gone, tuple), "connection refused"),
        (findings(APPROVAL, (), lambda: CLOCK, lambda _: [], lambda: ("a store is missing",)), "a store is missing"),
    ):
        assert {each.condition: (each.holds, each.detail) for each in result} == dict.fromkeys(GOOD, (None, words))
    assert findings(replace(APPROVAL, stages=None), (), lambda: CLOCK, gone, tuple) == ()


def test_what_is_asked_is_as_it_was_read() -> None:
    """A real Prometheus answers these in tests/functional/test_stages.py."""
    cases: dict[str, str] = {}
    for name, types, hours in (("of two types after an hour", ("gold", "a.b"), 1), ("after two days", (), 48)):
        now = NOON + timedelta(hours=hours)
        stages = replace(STAGES, types=types, entered=NOON + timedelta(minutes=5))
        one = replace(APPROVAL, stages=stages)
        asked = questions(StageCase(approval=one, stages=stages, now=now.timestamp(), checks=()))
        cases |= {f"{name}: {question}": promql for question, promql in asked.items()}
    early = replace(STAGES, entered=None)
    case = StageCase(approval=replace(APPROVAL, stages=early), stages=early, now=NOON.timestamp() - 9, checks=())
    cases["before it is published"] = questions(case)["at_limit_before"]
    golden.check("stage_questions.txt", __file__, cases)
