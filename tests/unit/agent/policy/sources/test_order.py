"""Where limits come from: rules before and after what a disk was attached with, as design and manual have it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Decision, Desired, NoOpinion, Unmanaged, decide
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.util.frozen import replace
from tests.unit.values import NOON, a_disk, a_situation

HERE, ELSEWHERE = Match(pool=("volumes",)), Match(pool=("elsewhere",))
A, B, C = Limits(total_iops_sec=100), Limits(total_iops_sec=200), Limits(total_iops_sec=300)
OWN = Limits(total_iops_sec=3000)


def limit(name: str, limits: Limits = A, match: Match = HERE) -> Rule:
    return Rule(name=name, match=match, limits=limits)


def override(name: str, limits: Limits = A, match: Match = HERE) -> Rule:
    return Rule(name=name, match=match, limits=limits, override=True)


def exempt(name: str, match: Match = HERE) -> Rule:
    return Rule(name=name, match=match, manage=False)


def decision(*rules: Rule, disk: Disk | None = None, memory: Any = None, **other: Any) -> Decision:
    return decide(disk or a_disk(), a_situation(Rules(rules=rules, **other), memory), SOURCES)


def desired(*rules: Rule, **other: Any) -> Limits:
    answer = decision(*rules, **other).desired
    assert isinstance(answer, Desired)
    return answer.limits


def left_alone(*rules: Rule, **other: Any) -> Code:
    answer = decision(*rules, **other).desired
    assert isinstance(answer, Unmanaged)
    return answer.reason.code


ATTACHED = a_disk(defined=OWN, actual=OWN)


# --- rules among each other


def test_the_first_rule_that_matches_wins() -> None:
    assert desired(limit("other", C, ELSEWHERE), limit("a", A), limit("b", B)) == A
    assert desired(limit("b", B), limit("a", A)) == B


def test_a_rule_comes_before_the_default() -> None:
    assert desired(limit("a", A), default=C) == A
    assert desired(limit("a", A, ELSEWHERE), default=C) == C


def test_among_exemptions_and_overrides_the_order_of_the_file_decides() -> None:
    assert left_alone(exempt("x"), override("o")) is Code.RULE_UNMANAGES
    assert desired(override("o"), exempt("x")) == A
    assert desired(exempt("x", ELSEWHERE), override("o", B)) == B


def test_an_exemption_holds_wherever_it_stands_among_plain_rules() -> None:
    # A plain rule is asked after Cinder and the flavor, an exemption before them.
    assert left_alone(limit("a"), exempt("x"), default=C) is Code.RULE_UNMANAGES


def test_an_override_comes_before_a_plain_rule_that_stands_above_it() -> None:
    assert desired(limit("a", A), override("o", B)) == B


def test_without_rule_and_default_a_disk_is_left_alone() -> None:
    assert left_alone() is Code.NO_LIMIT
    assert left_alone(limit("a", match=ELSEWHERE)) is Code.NO_LIMIT


def test_limits_are_taken_whole_and_never_merged() -> None:
    assert desired(limit("a", A), default=Limits(total_bytes_sec=2**20)) == A


def test_unlimited_is_an_answer_and_not_silence() -> None:
    assert desired(limit("free", Limits()), default=C) == Limits()


# --- limits that others gave


def test_a_disk_attached_with_limits_is_left_alone_by_plain_rules_and_the_default() -> None:
    assert left_alone(limit("a"), default=C, disk=ATTACHED) is Code.FOREIGN_LIMIT


def test_an_override_takes_over_limits_of_others() -> None:
    assert desired(override("o", B), disk=ATTACHED) == B


def test_the_definition_decides_whose_a_limit_is_not_qemu() -> None:
    behind = a_disk(defined=Limits(), actual=OWN)
    assert desired(default=C, disk=behind) == C
    undone = a_disk(defined=OWN, actual=Limits())
    assert left_alone(default=C, disk=undone) is Code.FOREIGN_LIMIT


EARLIER = "an earlier run of the guest"


@pytest.mark.parametrize(
    ("limits", "enforced", "attachment", "ours"),
    [
        (OWN, True, ATTACHED.attachment, True),
        (A, True, ATTACHED.attachment, True),
        (OWN, False, ATTACHED.attachment, False),
        (OWN, True, EARLIER, True),
        (A, True, EARLIER, False),
        (OWN, False, EARLIER, False),
    ],
    ids=[
        "enforced",
        "enforced, then changed by another",
        "only observed",
        "ours came back with the definition",
        "another came with the new attachment",
        "observed before the restart",
    ],
)
def test_a_limit_is_ours_only_where_we_enforced_it(
    limits: Limits, enforced: bool, attachment: str, ours: bool
) -> None:
    remembered = Remembered(
        desired=limits, since=NOON, seen=NOON, applied=limits if enforced else None, attachment=attachment
    )
    answer = decision(disk=ATTACHED, memory={ATTACHED.key: remembered}, default=C).desired
    assert isinstance(answer, Desired if ours else Unmanaged)


def test_a_definition_that_cannot_be_read_is_unknown_and_gets_no_default() -> None:
    unknown = Unknown(because(Code.IMPOSSIBLE, detail="?"))
    assert decision(limit("a"), default=C, disk=a_disk(defined=unknown)).desired == unknown
    assert desired(override("o", B), disk=a_disk(defined=unknown)) == B
    assert left_alone(exempt("x"), disk=a_disk(defined=unknown)) is Code.RULE_UNMANAGES


def test_during_a_hold_the_sources_speak_of_what_was_there_before_it() -> None:
    held = Remembered(
        desired=None, since=NOON, seen=NOON, applied=C, attachment=ATTACHED.attachment, restore_to=OWN, foreign=True
    )
    disk = replace(ATTACHED, defined=C, actual=C)
    before = {disk.key: replace(held, restore_to=Limits())}
    assert desired(default=A, disk=disk, memory=before) == A, "there was no limit of others"
    assert desired(default=A, disk=disk, memory={disk.key: replace(held, foreign=False)}) == A, "it was ours"
    assert desired(override("o", B), disk=disk, memory={disk.key: held}) == B


# --- words of a rule besides limits


def test_a_rule_that_has_ended_is_as_if_it_were_not_there() -> None:
    ended = replace(override("a", A), until=NOON)
    assert desired(ended, limit("b", B)) == B
    assert desired(replace(ended, until=NOON + timedelta(seconds=1)), limit("b", B)) == A
    assert left_alone(replace(exempt("x"), until=NOON)) is Code.NO_LIMIT
    assert decision(ended).trail[0].answer.reason.code is Code.RULE_ENDED


def test_limits_that_a_source_desired_that_is_gone_are_orphaned_and_others_are_not() -> None:
    ours = Remembered(
        desired=OWN, since=NOON, seen=NOON, applied=OWN, attachment=ATTACHED.attachment, source=Code.RULE
    )
    assert left_alone(disk=ATTACHED, memory={ATTACHED.key: ours}) is Code.ORPHANED
    for other in (replace(ours, desired=None), replace(ours, source=None), replace(ours, source=Code.QOS_SPEC)):
        assert left_alone(disk=ATTACHED, memory={ATTACHED.key: other}) is Code.NO_LIMIT, "Cinder is not asked here"
    assert left_alone(exempt("x"), disk=ATTACHED, memory={ATTACHED.key: ours}) is Code.RULE_UNMANAGES
    assert left_alone(disk=ATTACHED) is Code.FOREIGN_LIMIT


@pytest.mark.parametrize("concerned", [exempt, override, limit])
def test_a_disk_on_an_unknown_cluster_is_left_unchanged_where_that_decides(concerned: Any) -> None:
    match = Match(cluster=("bcebd1ee-e0de-43ae-9dbe-a7fd9e23a0d7",))
    unplaced = a_disk(monitors=("10.0.0.1:6789",))
    answer = decision(replace(concerned("x"), match=match), disk=unplaced).desired
    assert answer == Unknown(because(Code.CLUSTER_UNKNOWN, monitors="10.0.0.1:6789"))
    placed = replace(unplaced, cluster="00000000-0000-4000-8000-000000000000")
    assert left_alone(replace(concerned("x"), match=match), disk=placed) is Code.NO_LIMIT
    elsewhere = replace(match, pool=("elsewhere",))
    assert left_alone(replace(concerned("x"), match=elsewhere), disk=unplaced) is Code.NO_LIMIT, "it decides nothing"


# --- limits by hand


def test_limits_by_hand_come_before_every_rule_but_exemptions() -> None:
    assert desired(override("o", B), default=C, command_line=A) == A
    assert desired(exempt("x", ELSEWHERE), command_line=A, disk=ATTACHED) == A
    assert left_alone(exempt("x"), command_line=A) is Code.RULE_UNMANAGES
    assert left_alone(override("o", B), exempt("x"), command_line=A) is Code.RULE_UNMANAGES


def test_limits_by_hand_are_said_to_be() -> None:
    answer = decision(command_line=A).desired
    assert isinstance(answer, Desired)
    assert answer.reason.code is Code.COMMAND_LINE


def test_limits_by_hand_are_added_to_the_rules_not_put_in_their_place() -> None:
    rules = Rules(rules=(exempt("x"),), default=C)
    assert rules.with_command_line(A) == Rules(rules=(exempt("x"),), default=C, command_line=A)


# --- the trail


def test_the_trail_says_who_was_asked_and_why_they_were_silent() -> None:
    trail = decision(override("o", B, ELSEWHERE), limit("a", A, ELSEWHERE), default=C).trail
    assert [step.asked for step in trail] == [
        'rule "o"',
        "Cinder",
        "flavor",
        "attached with",
        'rule "a"',
        "default",
    ]
    silent = [step.answer.reason for step in trail if isinstance(step.answer, NoOpinion)]
    assert [reason.code for reason in silent] == [
        Code.RULE_DOES_NOT_MATCH,
        Code.NO_CATALOGUE_SOURCE,
        Code.NOT_FOR_VOLUMES,
        Code.NO_LIMIT,
        Code.RULE_DOES_NOT_MATCH,
    ]
    assert silent[0].facts == {"word": "pool"}
    assert isinstance(trail[-1].answer, Desired)
    assert trail[-1].answer.reason.code is Code.NODE_DEFAULT


def test_a_default_that_is_not_configured_is_said_so() -> None:
    last = decision().trail[-1]
    assert last.asked == "default"
    assert isinstance(last.answer, NoOpinion)
    assert last.answer.reason.code is Code.NO_DEFAULT
