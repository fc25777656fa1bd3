"""Deciding: sources in their order, and a trail of what each said."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll_agent.credits.model import Credits
from plimsoll_agent.messages.sentences import words
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import (
    Answer,
    Decision,
    Desired,
    NoOpinion,
    Situation,
    Source,
    Step,
    Unmanaged,
    buckets_of,
    decide,
    no_opinion_of,
)
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.util.frozen import replace
from tests.unit.values import NOON, a_disk, a_guest, a_situation

SILENT = NoOpinion(because(Code.NO_DEFAULT))
WANTS = Desired(Limits(total_iops_sec=250), because(Code.NODE_DEFAULT))
UNMANAGED = Unmanaged(because(Code.RULE_UNMANAGES, rule="r"))
UNKNOWN = Unknown(because(Code.IMPOSSIBLE, detail="?"))


def source(name: str, *answers: Answer) -> Source:
    return lambda disk, situation: tuple(Step(name, answer) for answer in answers)


def never(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    raise AssertionError("asked though an earlier source had answered")


@pytest.mark.parametrize("answer", [WANTS, UNMANAGED, UNKNOWN, Desired(Limits(), because(Code.NODE_DEFAULT))])
def test_the_first_answer_that_is_not_silent_is_the_decision(answer: Answer) -> None:
    decision = decide(a_disk(), a_situation(), (source("a", SILENT), source("b", SILENT, answer, WANTS), never))
    assert decision.desired == answer
    assert [step.asked for step in decision.trail] == ["a", "b", "b"], "the trail ends with the answer"


def test_unknown_ends_the_question_though_a_default_would_answer() -> None:
    decision = decide(a_disk(), a_situation(), (source("cinder", UNKNOWN), source("default", WANTS)))
    assert decision.desired == UNKNOWN


def test_a_disk_of_which_no_source_speaks_is_left_alone_and_not_released() -> None:
    decision = decide(a_disk(actual=Limits(total_iops_sec=1)), a_situation(), (source("a", SILENT), source("b")))
    assert isinstance(decision.desired, Unmanaged)
    assert decision.desired.reason.code is Code.NO_LIMIT
    assert decision.trail == (Step("a", SILENT),)


def test_what_is_remembered_is_of_one_attachment_or_came_back_with_the_definition() -> None:
    disk = a_disk()
    remembered = Remembered(
        desired=WANTS.limits, since=NOON, seen=NOON, applied=WANTS.limits, attachment=disk.attachment
    )
    situation = a_situation(memory={disk.key: remembered})
    again = a_guest(run="4")
    assert situation.ours(disk) is remembered
    assert situation.ours(a_disk(again)) is None, "the guest was started anew"
    assert situation.ours(a_disk(node="7")) is None, "the volume was attached anew"
    assert situation.ours(a_disk(again, defined=WANTS.limits)) is remembered, "from its persistent definition"
    assert situation.ours(a_disk(volume_id="a0e41de2-d6b7-47d3-8136-56883c77d09e", defined=WANTS.limits)) is None
    observed = a_situation(memory={disk.key: replace(remembered, applied=None)})
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
    decision = decide(a_disk(), a_situation(Rules(rules=rules)), (source("a", said),))
    return decision.desired, [(step.asked, step.answer.reason.code) for step in decision.trail[1:]]


def iops(answer: Answer) -> int:
    assert isinstance(answer, Desired)
    return answer.limits.total_iops_sec


def test_a_ceiling_lowers_and_a_floor_raises_what_the_sources_said() -> None:
    assert iops(bounded(ceiling("c", LOW))[0]) == 100
    assert iops(bounded(floor("f", HIGH))[0]) == 1000
    desired, trail = bounded(ceiling("c", HIGH), floor("f", LOW))
    assert desired == WANTS, "what is within its bounds keeps its reason"
    assert trail == [
        ('floor of rule "f"', Code.RULE_WITHOUT_LIMITS),
        ('ceiling of rule "c"', Code.RULE_WITHOUT_LIMITS),
    ]


def test_where_floor_and_ceiling_cross_the_ceiling_wins() -> None:
    desired, trail = bounded(floor("f", HIGH), ceiling("c", LOW))
    assert iops(desired) == 100
    assert desired.reason == because(Code.NODE_DEFAULT, floor="f", ceiling="c"), "the source, and who bounded it"
    assert [asked for asked, _ in trail] == ['floor of rule "f"', 'ceiling of rule "c"']


def test_only_the_first_rule_that_matches_bounds() -> None:
    desired, trail = bounded(ceiling("x", Limits(total_iops_sec=1), ELSEWHERE), ceiling("c", HIGH), ceiling("d", LOW))
    assert iops(desired) == 250
    assert trail == [
        ('ceiling of rule "x"', Code.RULE_DOES_NOT_MATCH),
        ('ceiling of rule "c"', Code.RULE_WITHOUT_LIMITS),
    ]


def test_limits_beside_a_ceiling_are_bounded_by_the_first_ceiling_and_not_by_their_own_rules() -> None:
    own = Rule(name="own", match=HERE, limits=HIGH, ceiling=Limits(total_iops_sec=1))
    assert iops(bounded(ceiling("c", LOW), own, said=Desired(HIGH, own.reason))[0]) == 100


def test_a_bound_that_has_ended_bounds_nothing() -> None:
    desired, trail = bounded(ceiling("c", LOW, until=NOON))
    assert (desired, trail) == (WANTS, [('ceiling of rule "c"', Code.RULE_ENDED)])
    assert iops(bounded(ceiling("c", LOW, until=NOON + timedelta(seconds=1)))[0]) == 100


@pytest.mark.parametrize("bound", [ceiling("c", LOW, SOMEWHERE), floor("f", LOW, SOMEWHERE)])
def test_where_it_is_unknown_whether_a_bound_fits_all_is_unknown(bound: Rule) -> None:
    desired, _ = bounded(bound, ceiling("d", HIGH))
    assert isinstance(desired, Unknown)
    assert desired.reason.code is Code.CLUSTER_UNKNOWN


SAVES = {
    "guest_ceiling": (LOW, Limits(total_iops_sec=50)),
    "credits": (Credits("total_iops_sec", 1000, 60_000), Credits("total_iops_sec", 500, 60_000)),
}


@pytest.mark.parametrize("word", SAVES)
@pytest.mark.parametrize(
    ("matches", "of"),
    [((HERE, HERE), 0), ((ELSEWHERE, HERE), 1), ((ELSEWHERE, ELSEWHERE), None), ((SOMEWHERE, HERE), UNKNOWN)],
)
def test_a_shared_ceiling_and_credits_are_of_the_first_rule_that_matches(
    word: str, matches: tuple[Match, Match], of: int | Unknown | None
) -> None:
    """Of no other too, and of none while it is unknown whether one before matches."""
    each = zip("cd", matches, SAVES[word], strict=True)
    rules = [Rule(name=name, match=match, **{word: value}) for name, match, value in each]  # type: ignore[arg-type]
    desired, _ = bounded(*rules)
    if isinstance(of, Unknown):
        assert desired == Unknown(because(Code.CLUSTER_UNKNOWN, monitors=""))
    else:
        assert desired == (WANTS if of is None else bounded(replace(rules[of], match=HERE))[0])
        assert (desired == WANTS) == (of is None)
    shared = buckets_of(a_disk(), a_situation(Rules(rules=tuple(rules))))
    names = ["cd"[of]] if word == "guest_ceiling" and isinstance(of, int) else []
    assert [bucket.rule for bucket, _ in shared] == names


@pytest.mark.parametrize("said", [UNMANAGED, UNKNOWN, SILENT])
def test_what_is_left_alone_is_not_bounded(said: Answer) -> None:
    desired, trail = bounded(ceiling("c", LOW), floor("f", HIGH), said=said)
    assert not isinstance(desired, Desired)
    assert trail == []


def test_a_disk_without_limits_gets_those_of_a_ceiling_and_none_of_a_floor() -> None:
    unlimited = Desired(Limits(), because(Code.RULE, rule="free"))
    assert bounded(ceiling("c", LOW), said=unlimited)[0] == Desired(LOW, because(Code.RULE, rule="free", ceiling="c"))
    assert bounded(floor("f", LOW), said=unlimited)[0] == unlimited


def test_limits_by_hand_are_not_bounded() -> None:
    by_hand = Desired(HIGH, because(Code.COMMAND_LINE))
    assert bounded(ceiling("c", LOW), floor("f", HIGH), said=by_hand) == (by_hand, [])


def test_a_rule_without_an_opinion_has_a_reason() -> None:
    ended = Rule(name="r", match=Match(), limits=WANTS.limits, until=NOON)
    assert no_opinion_of(ended, a_disk(), NOON) == NoOpinion(because(Code.RULE_ENDED, until=NOON.isoformat()))
    elsewhere = Rule(name="r", match=Match(pool=("vms",)), limits=WANTS.limits)
    assert no_opinion_of(elsewhere, a_disk(), NOON) == NoOpinion(because(Code.RULE_DOES_NOT_MATCH, word="pool"))
    everywhere = Rule(name="r", match=Match(), limits=WANTS.limits)
    assert no_opinion_of(everywhere, a_disk(), NOON) is None


# --- limits whose source is gone

HAD, OTHER = WANTS.limits, Limits(total_iops_sec=9)
LIMITED = a_disk(actual=HAD, defined=HAD)
KEPT = Remembered(desired=HAD, since=NOON, seen=NOON, applied=None, attachment="of before", enforced=True)
PUT = Remembered(desired=OTHER, since=NOON, seen=NOON, applied=HAD, attachment=LIMITED.attachment)
NOT_ASKED = NoOpinion(because(Code.NO_CATALOGUE_SOURCE))


def with_memory(disk: Disk, remembered: Remembered, *said: Answer) -> Decision:
    return decide(disk, a_situation(memory={disk.key: remembered}), (source("a", SILENT, *said),))


@pytest.mark.parametrize(
    ("disk", "remembered", "said", "orphaned"),
    [
        (LIMITED, KEPT, [], True),
        (LIMITED, PUT, [], True),
        (LIMITED, replace(KEPT, enforced=False), [], False),
        (LIMITED, replace(KEPT, desired=OTHER), [], False),
        (LIMITED, replace(PUT, applied=OTHER), [], False),
        (replace(LIMITED, node="9", defined=OTHER), PUT, [], False),
        (LIMITED, replace(PUT, desired=None), [], False),
        (a_disk(), replace(KEPT, desired=Limits()), [], False),
        (replace(LIMITED, actual=UNKNOWN), KEPT, [], False),
        # a source that was not asked may still say the same
        (LIMITED, KEPT, [NOT_ASKED], False),
        (LIMITED, replace(KEPT, source=Code.QOS_SPEC), [NOT_ASKED], False),
        (LIMITED, replace(KEPT, source=Code.RULE), [NOT_ASKED], True),
    ],
)
def test_limits_are_orphaned_where_a_source_is_known_to_have_given_them(
    disk: Disk, remembered: Remembered, said: list[Answer], orphaned: bool
) -> None:
    decision = with_memory(disk, remembered, *said)
    assert decision.desired.reason.code is (Code.ORPHANED if orphaned else Code.NO_LIMIT)
    assert [step.asked for step in decision.trail if step.asked != "a"] == ["limits in force"] * orphaned


@pytest.mark.parametrize(
    ("remembered", "origin"),
    [
        (replace(KEPT, source=Code.FLAVOR), "the flavor, which sets none now"),
        (replace(KEPT, source=Code.NODE_DEFAULT), "the default, which sets none now"),
        (replace(KEPT, source=Code.FLAVOR, by_rules=("least",)), 'rule "least", which sets none now'),
        (replace(KEPT, source=Code.QOS_SPEC, by_type="gold"), "volume type gold, which sets none now"),
        (replace(KEPT, source=Code.DESIRED_BEFORE), "a source that is gone"),
        (KEPT, "a source that is gone"),
    ],
)
def test_orphaned_limits_name_what_they_came_from(remembered: Remembered, origin: str) -> None:
    assert words(with_memory(LIMITED, remembered).desired.reason) == f"orphaned limits: they came from {origin}"


@pytest.mark.parametrize(
    ("type", "released", "facts"),
    [
        ("gold", "gold", {"type": "gold"}),
        (None, "", {}),
        ("gold", "", None),
        ("gold", None, None),
        (None, None, None),
    ],
)
def test_a_release_is_for_the_type_of_the_disk(
    type: str | None, released: str | None, facts: dict[str, object] | None
) -> None:
    decision = with_memory(replace(LIMITED, volume_type=type), replace(KEPT, released=released))
    if facts is None:
        assert decision.desired.reason.code is Code.ORPHANED
    else:
        assert decision.desired == Desired(Limits(), because(Code.RELEASED, **facts))
        assert decision.trail[-1] == Step("release", decision.desired)


# --- holds


def test_a_hold_has_the_last_word_and_what_the_sources_said_stays_known() -> None:
    hold = Hold(disk=LIMITED.named, limits=OTHER, since=NOON, until=NOON + timedelta(hours=1), by="ann", why="a test")
    as_it_is = replace(hold, limits=None)
    situation = a_situation()
    for said in (WANTS, UNKNOWN, SILENT):
        without = decide(LIMITED, situation, (source("a", said),))
        for held, desired in ((hold, Desired(OTHER, hold.reason)), (as_it_is, Unmanaged(as_it_is.reason))):
            decision = decide(LIMITED, replace(situation, holds={LIMITED.key: held}), (source("a", said),))
            assert (decision.desired, decision.aside) == (desired, without.desired)
            assert decision.trail == (*without.trail, Step("hold", desired))
    unmanaged = decide(LIMITED, replace(situation, holds={LIMITED.key: hold}), (source("a", UNMANAGED),))
    assert (unmanaged.desired, unmanaged.aside) == (UNMANAGED, None)


def test_what_comes_after_a_hold_is_in_the_trail_beside_what_the_sources_said() -> None:
    decision = with_memory(LIMITED, replace(PUT, desired=None, restore_to=OTHER))
    assert decision.aside == Unmanaged(because(Code.NO_LIMIT))
    assert decision.trail[-1] == Step("hold", Desired(OTHER, because(Code.HOLD_ENDED)))
    assert with_memory(LIMITED, replace(PUT, restore_to=OTHER), WANTS).desired == WANTS, (
        "a source wants something by now"
    )


@pytest.mark.parametrize(
    ("restore_to", "actual", "goes_back"),
    [
        (OTHER, HAD, True),
        (Limits(total_iops_sec=999), HAD, False),
        (Limits(), HAD, False),
        (OTHER, UNKNOWN, False),
    ],
)
def test_where_it_is_unknown_what_comes_after_a_hold_only_less_than_it_is_given_back(
    restore_to: Limits, actual: Limits | Unknown, goes_back: bool
) -> None:
    disk = replace(LIMITED, actual=actual)
    decision = with_memory(disk, replace(PUT, desired=None, restore_to=restore_to), UNKNOWN)
    assert decision.desired == (Desired(restore_to, because(Code.HOLD_ENDED)) if goes_back else UNKNOWN)
    assert with_memory(disk, replace(PUT, desired=None, restore_to=restore_to)).desired == Desired(
        restore_to, because(Code.HOLD_ENDED)
    )


# --- what comes at the end of rules


def until(hours: int, number: int, name: str = "rule", **match: tuple[str, ...]) -> Rule:
    limits, end = Limits(total_iops_sec=number), NOON + timedelta(hours=hours)
    return Rule(name=name, match=Match(**match), limits=limits, override=True, until=end)


def ahead(*rules: Rule) -> list[tuple[int, object]]:
    """After how many hours, and what then; the default is 1000."""
    situation = a_situation(Rules(rules=rules, default=Limits(total_iops_sec=1000)))
    decision = decide(a_disk(), situation, SOURCES)
    assert [later.at for later in decision.later] == [at for at, _ in decision.ahead]
    return [
        (round((at - NOON) / timedelta(hours=1)), said.limits.total_iops_sec if isinstance(said, Desired) else said)
        for at, said in decision.ahead
    ]


def test_what_the_sources_will_want_is_told_for_the_end_of_each_rule_that_changes_it() -> None:
    ceiling = Rule(name="most", match=Match(), ceiling=Limits(total_iops_sec=700))
    assert ahead() == []
    assert ahead(until(-1, 9)) == [], "it has ended"
    assert ahead(until(1, 9, project=("another",))) == [], "it is about other disks"
    assert ahead(until(2, 250)) == [(2, 1000)]
    assert ahead(until(2, 250), ceiling) == [(2, 700)]
    assert ahead(until(1, 125), until(2, 250)) == [(1, 250), (2, 1000)]
    assert ahead(until(2, 250), until(1, 125)) == [(2, 1000)], "the one beneath ends first"
    always = replace(until(0, 500), until=None)
    assert ahead(until(1, 250), always, until(2, 125)) == [(1, 500)], "the last one never has a say"
