"""Deciding: sources in their order, and a trail of what each said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll_agent.decide import Answer, Remembered, Silent, Situation, Source, Step, Unmanaged, Wants, decide
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Unknown, because
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
