"""When the next stage of an approval is published, and what is published with it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest

from plimsoll_agent.catalogue.model import Lists, VolumeType
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionPause, Withdrawal
from plimsoll_agent.catalogue.publication import PublicationStep, States, advanced, other_of, with_returns
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.stages import ALWAYS, ConditionFinding, StageCheck, Stages
from plimsoll_agent.util.frozen import replace
from tests.unit.values import NOON

WAIT, DAY = timedelta(minutes=30), timedelta(days=1)
TYPES = {"t": VolumeType(id="t", name="gold", qos_spec="s")}


def lists(limit: int) -> Lists:
    return Lists(
        {"s": QosSpec(id="s", name="gold", consumer="front-end", keys={"total_iops_sec": str(limit)})}, TYPES
    )


BEFORE, AFTER, THIRD = lists(500), lists(5), lists(7)
STAGES = Stages(percent=(1.0, 10.0, 100.0), wait=WAIT, before=BEFORE.digest)
APPROVAL = RegionApproval(
    of=Of.SPECS, digest=AFTER.digest, since=NOON, until=NOON + DAY, by="ann", why="sale", stages=STAGES
)
JUDGED = tuple(one for one in StageCheck if one not in {StageCheck.APPROVED, StageCheck.RUNNING})


def good(_: RegionApproval) -> Iterable[ConditionFinding]:
    return [ConditionFinding(one, True, "") for one in JUDGED]


def at(number: int, minutes: float = 0, one: RegionApproval = APPROVAL) -> Orders:
    assert one.stages is not None
    return Orders(staged=(replace(one, stages=one.stages.at(number, NOON + timedelta(minutes=minutes))),))


def step(
    published: Orders, minutes: float, judge: object = good, orders: Orders | None = None, read: Lists = AFTER
) -> tuple[int, list[StageCheck]]:
    """The stage that is published then, and what stops the next."""
    result = advanced(
        orders or Orders(staged=(APPROVAL,)),
        published,
        read.digest,
        judge,  # type: ignore[arg-type]
        NOON + timedelta(minutes=minutes),
    )
    (one,) = result.orders.staged
    assert one.stages is not None
    return one.stages.reached, [each.condition for each in result.stops]


def test_a_stage_lasts_its_wait_from_its_publication() -> None:
    assert step(Orders(), 0) == (0, [])
    assert step(at(0), 29.9) == (0, [])
    assert step(at(0), 30) == (1, [])
    assert step(at(0), 6000) == (1, []), "by one stage also where the publisher was down for days"
    assert step(at(1, 31), 60) == (1, [])
    assert step(at(1, 31), 61) == (2, [])
    assert step(at(2, 61), 600) == (2, [])


def test_a_stage_is_entered_when_it_is_published_and_is_judged_as_it_was() -> None:
    judged: list[RegionApproval] = []

    def judge(one: RegionApproval) -> Iterable[ConditionFinding]:
        judged.append(one)
        return good(one)

    first = advanced(Orders(staged=(APPROVAL,)), Orders(), AFTER.digest, judge, NOON).orders
    assert (first, judged) == (at(0), [])
    next_ = advanced(Orders(staged=(APPROVAL,)), first, AFTER.digest, judge, NOON + WAIT).orders
    assert (next_, judged) == (at(1, 30), list(first.staged))


@pytest.mark.parametrize("holds", [False, None])
@pytest.mark.parametrize("condition", JUDGED)
def test_each_condition_that_is_not_met_or_unknown_stops_the_next_stage(
    condition: StageCheck, holds: bool | None
) -> None:
    def judge(_: RegionApproval) -> Iterable[ConditionFinding]:
        return [ConditionFinding(one, holds if one is condition else True, "x") for one in JUDGED]

    assert step(at(0), 31, judge) == (0, [condition])


@pytest.mark.parametrize("condition", JUDGED)
def test_a_condition_that_nothing_was_said_about_stops_the_next_stage(condition: StageCheck) -> None:
    def judge(one: RegionApproval) -> Iterable[ConditionFinding]:
        return [each for each in good(one) if each.condition is not condition]

    assert step(at(0), 31, judge) == (0, [condition])
    (stop,) = advanced(at(0), at(0), AFTER.digest, judge, NOON + WAIT).stops
    assert (stop.holds, stop.detail) == (None, "was not judged")


def test_an_approval_without_stages_has_nothing_to_advance() -> None:
    orders = Orders(staged=(replace(APPROVAL, stages=None),))
    for last in (orders, at(0)):
        assert advanced(orders, last, AFTER.digest, good, NOON + WAIT) == PublicationStep(orders=orders)


def test_two_that_are_stopped_are_both_told() -> None:
    """Of rules and of specs, as an older plimsoll may have approved them."""
    rules = replace(APPROVAL, of=Of.RULES)
    both = Orders(staged=(*at(0).staged, *at(0, one=rules).staged))
    result = advanced(both, both, AFTER.digest, lambda _: (), NOON + WAIT)
    assert len(result.stops) == 2 * len(JUDGED)


def test_what_an_operator_does_not_want_judged_stops_nothing_but_for_what_always_counts() -> None:
    def none(_: RegionApproval) -> Iterable[ConditionFinding]:
        return ()

    one = replace(APPROVAL, stages=replace(STAGES, without=frozenset(StageCheck)))
    assert step(at(0), 31, none, Orders(staged=(one,))) == (0, [StageCheck.ARRIVED])

    def arrived(_: RegionApproval) -> Iterable[ConditionFinding]:
        return [ConditionFinding(StageCheck.ARRIVED, True, "")]

    assert step(at(0), 31, arrived, Orders(staged=(one,))) == (1, [])
    assert StageCheck.ARRIVED in ALWAYS


def stops(read: Lists = AFTER, removals: frozenset[str] = frozenset(), **orders: object) -> list[tuple[object, ...]]:
    """What stops the next stage after 31 minutes, in words."""
    result = advanced(
        replace(Orders(staged=(APPROVAL,)), **orders),
        at(0),
        read.digest,
        good,
        NOON + timedelta(minutes=31),
        removals,
    )
    return [(each.condition, each.holds, each.detail) for each in result.stops]


def test_other_specs_in_cinder_and_a_pause_stop_the_next_stage() -> None:
    words = f"Cinder has other QoS specs and types now ({THIRD.digest[:16]})"
    assert stops(THIRD) == [(StageCheck.APPROVED, False, words)]
    pause = RegionPause(since=NOON, until=NOON + timedelta(minutes=32), by="ann", why="Ceph moves")
    assert stops(pause=pause) == [(StageCheck.RUNNING, False, "the region is paused")]
    assert stops(pause=replace(pause, until=NOON + timedelta(minutes=31))) == []
    two = (APPROVAL, replace(APPROVAL, digest=lists(8).digest))
    assert len(stops(THIRD, staged=two)) == 1, "what was never published has its wait before it"


def test_volumes_of_more_types_that_lose_their_limits_than_were_named_stop_the_next_stage() -> None:
    """They were attached since. In the last stage the region's brake would take the specs from all nodes again."""
    assert stops(removals=frozenset("t"), staged=(replace(APPROVAL, remove=frozenset("t")),)) == []
    words = "volumes of 2 more volume types lose their limits: approve it with --remove"
    assert stops(removals=frozenset("tu")) == [(StageCheck.APPROVED, False, words)]


def test_rules_are_not_compared_with_what_cinder_has() -> None:
    one = replace(APPROVAL, of=Of.RULES, digest="ab" * 32)
    assert step(at(0, one=one), 31, orders=Orders(staged=(one,)), read=THIRD) == (1, [])


def test_the_file_has_both_states_while_stages_last_and_those_of_before_at_their_end() -> None:
    early = States(read=AFTER, main=BEFORE, other=None)
    assert other_of(at(0), early, BEFORE) == AFTER
    edited = States(read=THIRD, main=BEFORE, other=AFTER)
    assert other_of(at(1), edited, BEFORE) == AFTER, "Cinder was edited again: nodes of the stage keep theirs"
    assert other_of(at(2), States(read=AFTER, main=BEFORE, other=AFTER), AFTER) == BEFORE
    assert other_of(at(2), States(read=AFTER, main=AFTER, other=BEFORE), AFTER) == BEFORE
    assert other_of(Orders(), early, BEFORE) is None
    assert other_of(at(1), States(read=THIRD, main=BEFORE, other=None), BEFORE) is None, "nothing has it any more"


BACK = Withdrawal(
    of=Of.SPECS,
    digest=AFTER.digest,
    before=BEFORE.digest,
    began=NOON,
    since=NOON + WAIT,
    until=NOON + DAY,
    by="ann",
    why="slow",
)


@pytest.mark.parametrize("main", [BEFORE, AFTER])
def test_a_withdrawal_brings_back_the_state_of_before_in_the_middle_and_after_the_last_stage(main: Lists) -> None:
    states = States(read=AFTER, main=main, other=AFTER if main is BEFORE else BEFORE)
    orders = Orders(withdrawals=(BACK,))
    assert states.before(orders, Orders(), NOON + WAIT) == BEFORE
    again = Orders(withdrawals=(BACK,), staged=(APPROVAL,))
    assert states.before(again, Orders(), NOON + WAIT) == main, "approved again"
    assert other_of(orders, states, BEFORE) is None
    approved = with_returns(orders, Orders(), BEFORE.digest, lambda *_: frozenset({"t"}), NOON + WAIT)
    (one,) = approved.approvals
    assert (one.by, one.why) == ("ann", "withdrawn at 2026-11-20 12:30 UTC: slow")
    assert approved.approve(Of.SPECS, BEFORE.digest, NOON + WAIT, removing="t")
    assert not approved.approve(Of.SPECS, AFTER.digest, NOON + WAIT)


def test_a_withdrawal_after_the_last_stage_brings_back_the_state_of_before_a_small_edit_too() -> None:
    states = States(read=THIRD, main=THIRD, other=BEFORE)
    assert states.before(Orders(withdrawals=(BACK,)), at(2), NOON + WAIT) == BEFORE
    assert states.before(Orders(withdrawals=(BACK,)), at(1), NOON + WAIT) == THIRD, "these never had it"


def test_what_a_return_removes_is_known_from_its_first_publication_on() -> None:
    """Later the withdrawn specs may be in no file any more, so nothing tells what they did."""
    orders = Orders(withdrawals=(BACK,))
    asked: list[tuple[Withdrawal, str]] = []

    def removals(withdrawal: Withdrawal, to: str) -> frozenset[str]:
        asked.append((withdrawal, to))
        return frozenset({"t"})

    first = with_returns(orders, Orders(), BEFORE.digest, removals, NOON + WAIT)
    assert asked == [(BACK, BEFORE.digest)]
    later = with_returns(orders, first, BEFORE.digest, lambda *_: frozenset(), NOON + 2 * WAIT)
    assert later.approvals == first.approvals
    lost = with_returns(later, later, BEFORE.digest, lambda *_: frozenset(), NOON + 2 * WAIT)
    assert lost.approvals == first.approvals, "where the file with the orders is lost they are those published last"


def test_nodes_return_to_a_small_edit_of_the_state_of_before_but_a_later_one_is_as_any_other() -> None:
    """The spec was corrected in Cinder before the approval was withdrawn, or at once."""
    orders = Orders(withdrawals=(BACK,))
    first = with_returns(orders, Orders(), THIRD.digest, lambda *_: frozenset(), NOON + WAIT)
    later = with_returns(orders, first, lists(8).digest, lambda *_: frozenset(), NOON + 2 * WAIT)
    for each in (first, later):
        assert [one.digest for one in each.approvals] == [BEFORE.digest, THIRD.digest]
