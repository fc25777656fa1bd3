"""Deciding: sources in their order, and a trail of what each said."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from plimsoll_agent.decide import Answer, Remembered, Silent, Situation, Source, Step, Unmanaged, Wants, decide
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Unknown, because
from plimsoll_agent.rules import Match, Rule, Rules
from tests.unit.values import NOON, a_disk, a_guest, a_situation

SILENT = Silent(because(Code.NO_DEFAULT))
WANTS = Wants(Limits(total_iops_sec=250), because(Code.NODE_DEFAULT))
UNMANAGED = Unmanaged(because(Code.RULE_UNMANAGES, rule="r"))
UNKNOWN = Unknown(because(Code.IMPOSSIBLE, detail="?"))


def source(name: str, *answers: Answer) -> Source:
    return lambda disk, situation: tuple(Step(name, answer) for answer in answers)


def never(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    raise AssertionError("asked though an earlier source had answered")


@pytest.mark.parametrize("answer", [WANTS, UNMANAGED, UNKNOWN, Wants(Limits(), because(Code.NODE_DEFAULT))])
def test_the_first_answer_that_is_not_silent_is_the_decision(answer: Answer) -> None:
    decision = decide(a_disk(), a_situation(), (source("a", SILENT), source("b", SILENT, answer, WANTS), never))
    assert decision.wanted == answer
    assert [step.asked for step in decision.trail] == ["a", "b", "b"], "the trail ends with the answer"


def test_unknown_ends_the_question_though_a_default_would_answer() -> None:
    decision = decide(a_disk(), a_situation(), (source("cinder", UNKNOWN), source("default", WANTS)))
    assert decision.wanted == UNKNOWN


def test_a_disk_of_which_nobody_speaks_is_left_alone_and_not_released() -> None:
    decision = decide(a_disk(in_force=Limits(total_iops_sec=1)), a_situation(), (source("a", SILENT), source("b")))
    assert isinstance(decision.wanted, Unmanaged)
    assert decision.wanted.reason.code is Code.NO_LIMIT
    assert decision.trail == (Step("a", SILENT),)


def test_what_is_remembered_is_of_one_attachment_or_came_back_with_the_definition() -> None:
    disk = a_disk()
    remembered = Remembered(WANTS.limits, NOON, NOON, WANTS.limits, disk.attachment)
    situation = a_situation(memory={disk.key: remembered})
    again = a_guest(run="4")
    assert situation.ours(disk) is remembered
    assert situation.ours(a_disk(again)) is None, "the guest was started anew"
    assert situation.ours(a_disk(node="7")) is None, "the volume was attached anew"
    assert situation.ours(a_disk(again, defined=WANTS.limits)) is remembered, "from its persistent definition"
    assert situation.ours(a_disk(volume_id="a0e41de2-d6b7-47d3-8136-56883c77d09e", defined=WANTS.limits)) is None
    observed = a_situation(memory={disk.key: replace(remembered, put=None)})
    assert observed.ours(a_disk(again, defined=WANTS.limits)) is None, "what was never enforced cannot come back"


# --- floors and ceilings

HIGH, LOW = Limits(total_iops_sec=1000), Limits(total_iops_sec=100)
HERE, ELSEWHERE = Match(pool=("volumes",)), Match(pool=("elsewhere",))
SOMEWHERE = Match(cluster=("bcebd1ee-e0de-43ae-9dbe-a7fd9e23a0d7",))


def ceiling(name: str, limits: Limits, match: Match = HERE, **other: object) -> Rule:
    return Rule(name=name, match=match, ceiling=limits, **other)  # type: ignore[arg-type]


def floor(name: str, limits: Limits, match: Match = HERE) -> Rule:
    return Rule(name=name, match=match, floor=limits)


def bounded(*rules: Rule, said: Answer = WANTS) -> tuple[Answer, list[tuple[str, Code]]]:
    """What comes of an answer, and the trail after it."""
    decision = decide(a_disk(), a_situation(Rules(rules)), (source("a", said),))
    return decision.wanted, [(step.asked, step.answer.reason.code) for step in decision.trail[1:]]


def iops(answer: Answer) -> int:
    assert isinstance(answer, Wants)
    return answer.limits.total_iops_sec


def test_a_ceiling_lowers_and_a_floor_raises_what_the_sources_said() -> None:
    assert iops(bounded(ceiling("c", LOW))[0]) == 100
    assert iops(bounded(floor("f", HIGH))[0]) == 1000
    wanted, trail = bounded(ceiling("c", HIGH), floor("f", LOW))
    assert wanted == WANTS, "what is within its bounds keeps its reason"
    assert trail == [
        ('floor of rule "f"', Code.RULE_BOUNDS_NOTHING),
        ('ceiling of rule "c"', Code.RULE_BOUNDS_NOTHING),
    ]


def test_where_floor_and_ceiling_cross_the_ceiling_wins() -> None:
    wanted, trail = bounded(floor("f", HIGH), ceiling("c", LOW))
    assert iops(wanted) == 100
    assert wanted.reason == because(Code.NODE_DEFAULT, floor="f", ceiling="c"), "the source, and who bounded it"
    assert [asked for asked, _ in trail] == ['floor of rule "f"', 'ceiling of rule "c"']


def test_only_the_first_rule_that_matches_bounds() -> None:
    wanted, trail = bounded(ceiling("x", Limits(total_iops_sec=1), ELSEWHERE), ceiling("c", HIGH), ceiling("d", LOW))
    assert iops(wanted) == 250
    assert trail == [
        ('ceiling of rule "x"', Code.RULE_DOES_NOT_MATCH),
        ('ceiling of rule "c"', Code.RULE_BOUNDS_NOTHING),
    ]


def test_limits_beside_a_ceiling_are_bounded_by_the_first_ceiling_and_not_by_their_own_rules() -> None:
    own = Rule(name="own", match=HERE, limits=HIGH, ceiling=Limits(total_iops_sec=1))
    assert iops(bounded(ceiling("c", LOW), own, said=Wants(HIGH, own.reason))[0]) == 100


def test_a_bound_that_has_ended_bounds_nothing() -> None:
    wanted, trail = bounded(ceiling("c", LOW, until=NOON))
    assert (wanted, trail) == (WANTS, [('ceiling of rule "c"', Code.RULE_ENDED)])
    assert iops(bounded(ceiling("c", LOW, until=NOON + timedelta(seconds=1)))[0]) == 100


@pytest.mark.parametrize("bound", [ceiling("c", LOW, SOMEWHERE), floor("f", LOW, SOMEWHERE)])
def test_where_nobody_knows_whether_a_bound_fits_nothing_is_known(bound: Rule) -> None:
    wanted, _ = bounded(bound, ceiling("d", HIGH))
    assert isinstance(wanted, Unknown)
    assert wanted.reason.code is Code.CLUSTER_NOT_KNOWN


@pytest.mark.parametrize("said", [UNMANAGED, UNKNOWN, SILENT])
def test_what_is_left_alone_is_not_bounded(said: Answer) -> None:
    wanted, trail = bounded(ceiling("c", LOW), floor("f", HIGH), said=said)
    assert not isinstance(wanted, Wants)
    assert trail == []


def test_a_disk_without_limits_gets_those_of_a_ceiling_and_none_of_a_floor() -> None:
    unlimited = Wants(Limits(), because(Code.RULE, rule="free"))
    assert bounded(ceiling("c", LOW), said=unlimited)[0] == Wants(LOW, because(Code.RULE, rule="free", ceiling="c"))
    assert bounded(floor("f", LOW), said=unlimited)[0] == unlimited


def test_limits_by_hand_are_not_bounded() -> None:
    by_hand = Wants(HIGH, because(Code.COMMAND_LINE))
    assert bounded(ceiling("c", LOW), floor("f", HIGH), said=by_hand) == (by_hand, [])
