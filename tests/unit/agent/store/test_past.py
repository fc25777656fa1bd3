"""What the record tells of limits as they were before the changes since a moment: a pure function of its rows."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.model.direction import direction
from plimsoll_agent.model.entries import Ending, RecordedChange
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.store.past import Past, pasts
from tests.unit.node import uuid_of
from tests.unit.values import NOON, a_disk, a_guest, examples_of, possible_limits

UNLIMITED = Limits()
OLD, NEW, NEWER = Limits(total_iops_sec=250), Limits(total_iops_sec=900), Limits(total_iops_sec=400)
OTHERS = Limits(total_iops_sec=77)
LONG_AGO = NOON - timedelta(days=30)


def a_row(
    id_: int,
    before: Limits,
    after: Limits,
    *,
    minutes: int | None = None,
    number: int = 1,
    code: Reason | None = None,
    result: Ending | None = Ending.DONE,
    run: str = "3",
) -> RecordedChange:
    disk = a_disk(a_guest(uuid=uuid_of(number), run=run))
    at = NOON + timedelta(minutes=id_ if minutes is None else minutes)
    return RecordedChange(
        id=id_,
        at=at,
        by="root",
        disk=disk.named,
        attachment=disk.attachment,
        before=before,
        after=after,
        direction=direction(before, after),
        reason=code or because(Code.NODE_DEFAULT),
        cause=Code.DESIRED_CHANGED,
        revision=None,
        result=result,
        result_at=None if result is None else at,
        detail=None,
    )


def minute(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


def only(found: list[Past]) -> Past:
    (past,) = found
    return past


def test_the_first_change_from_the_moment_on_tells_what_was_before_and_the_last_what_plimsoll_put() -> None:
    rows = [a_row(1, UNLIMITED, OLD), a_row(2, OLD, NEW), a_row(3, NEW, NEWER)]
    past = only(pasts(rows, minute(2), LONG_AGO, {}))
    assert (past.before, past.after) == (OLD, NEWER)


@pytest.mark.parametrize("result", [Ending.REFUSED, Ending.NOT_SENT, Ending.DID_NOT_TAKE, Ending.GONE])
def test_what_did_not_take_changed_nothing(result: Ending) -> None:
    rows = [a_row(1, UNLIMITED, OLD), a_row(2, OLD, NEWER, result=result), a_row(3, OLD, NEW)]
    past = only(pasts(rows, minute(2), LONG_AGO, {}))
    assert (past.before, past.after) == (OLD, NEW)
    assert pasts(rows[:2], minute(2), LONG_AGO, {}) == []


def test_what_took_as_was_found_later_counts_like_what_was_seen_to_take() -> None:
    past = only(pasts([a_row(1, UNLIMITED, OLD, result=Ending.TOOK)], NOON, LONG_AGO, {}))
    assert (past.before, past.after) == (UNLIMITED, OLD)


@pytest.mark.parametrize("result", [None, Ending.TIMED_OUT])
def test_a_disk_of_which_a_change_is_unknown_is_not_passed_over(
    result: Ending | None,
) -> None:
    past = only(pasts([a_row(1, UNLIMITED, OLD, result=result)], NOON, LONG_AGO, {}))
    assert (past.before, past.after) == (None, None)


def test_a_change_of_the_very_moment_is_undone_and_one_before_it_is_not() -> None:
    assert pasts([a_row(1, UNLIMITED, OLD)], minute(1), LONG_AGO, {})
    assert pasts([a_row(1, UNLIMITED, OLD)], minute(1) + timedelta(microseconds=1), LONG_AGO, {}) == []


def test_limits_that_plimsoll_had_put_are_its_own_and_others_are_not() -> None:
    rows = [a_row(1, UNLIMITED, OLD), a_row(2, OLD, NEW), a_row(3, OTHERS, NEW)]
    assert only(pasts(rows, minute(2), LONG_AGO, {})).foreign is False
    assert only(pasts(rows, minute(1), LONG_AGO, {})).foreign is True, (
        "before the first change plimsoll had none there"
    )
    assert only(pasts(rows, minute(3), LONG_AGO, {})).foreign is True, "somebody else had changed it in between"


def test_what_a_hold_had_replaced_is_whose_it_was_before_it() -> None:
    hold, ended = because(Code.HOLD), because(Code.HOLD_ENDED)
    foreign = [a_row(1, OTHERS, NEW, code=hold), a_row(2, NEW, OTHERS, code=ended), a_row(3, OTHERS, OLD)]
    assert only(pasts(foreign, minute(3), LONG_AGO, {})).foreign is True
    assert only(pasts(foreign, minute(2), LONG_AGO, {})).foreign is True, (
        "what the hold had applied does not come back"
    )
    ours = [
        a_row(0, UNLIMITED, OLD),
        a_row(1, OLD, NEW, code=hold),
        a_row(2, NEW, OLD, code=ended),
        a_row(3, OLD, NEW),
    ]
    assert only(pasts(ours, minute(3), LONG_AGO, {})).foreign is False


def test_of_a_moment_in_a_hold_what_was_before_the_hold_counts() -> None:
    hold = because(Code.HOLD)
    held = [a_row(1, UNLIMITED, OLD), a_row(2, OLD, NEW, code=hold), a_row(3, NEW, NEWER, code=hold)]
    rows = [*held, a_row(4, NEWER, OLD, code=because(Code.HOLD_ENDED)), a_row(5, OLD, UNLIMITED)]
    over_at_3 = {held[0].disk.key: minute(3)}
    for since, over in ((3, {}), (4, {}), (4, over_at_3)):
        past = only(pasts(rows, minute(since), LONG_AGO, over))
        assert (past.before, past.after, past.foreign) == (OLD, UNLIMITED, False)
    assert only(pasts([*held, a_row(4, OTHERS, OLD)], minute(4), LONG_AGO, {})).before == OTHERS, (
        "another's, not the hold's"
    )
    kept = pasts([*held, a_row(4, NEWER, UNLIMITED)], minute(4), LONG_AGO, over_at_3)
    assert only(kept).before == NEWER, "the hold was over, and the sources desired the same"
    other = pasts([*held, a_row(4, NEWER, UNLIMITED)], minute(4), LONG_AGO, {held[0].disk.key: minute(2)})
    assert only(other).before == NEW, "that of the hold before it had stayed"
    anew = [a_row(4, OTHERS, NEW, code=hold, run="4"), a_row(5, NEW, OTHERS, run="4")]
    assert only(pasts([*held, *anew], minute(5), LONG_AGO, {})).before == OTHERS, "attached anew with another limit"


def test_what_was_reverted_for_another_client_is_theirs_for_the_next_undo_too() -> None:
    undone = because(Code.UNDONE, since="2026-11-20T12:00:00+00:00", foreign=True)
    rows = [a_row(1, OTHERS, OLD), a_row(2, OLD, OTHERS, code=undone), a_row(3, OTHERS, NEW)]
    assert only(pasts(rows, minute(3), LONG_AGO, {})).foreign is True
    ours = [*rows[:1], a_row(2, OLD, UNLIMITED, code=because(Code.UNDONE)), a_row(3, UNLIMITED, NEW)]
    assert only(pasts(ours, minute(3), LONG_AGO, {})).foreign is False


def test_changes_on_two_attachments_or_from_before_the_node_was_started_are_of_no_one_attachment() -> None:
    one = [a_row(1, UNLIMITED, OLD), a_row(2, OLD, NEW)]
    assert only(pasts(one, NOON, LONG_AGO, {})).attachment == one[0].attachment
    assert only(pasts([one[0], a_row(2, OLD, NEW, run="4")], NOON, LONG_AGO, {})).attachment is None
    assert only(pasts(one, NOON, minute(2), {})).attachment is None
    assert only(pasts(one, NOON, minute(9), {})).attachment is None, "counted anew, the same number is another's"


@examples_of(200)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            possible_limits(),
            st.sampled_from([Ending.DONE, Ending.TOOK, Ending.REFUSED]),
        ),
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_after_any_changes_of_plimsoll_alone_each_disk_goes_back_to_what_it_had_at_the_moment(
    steps: list[tuple[int, Limits, Ending]], cut: int
) -> None:
    now = dict.fromkeys((1, 2, 3), UNLIMITED)
    at_the_moment, applied = dict(now), set[int]()
    rows = []
    for id_, (number, limits, result) in enumerate(steps, start=1):
        rows.append(a_row(id_, now[number], limits, number=number, result=result))
        if result is not Ending.REFUSED:
            now[number] = limits
        if id_ <= cut:
            at_the_moment = dict(now)
            applied |= set() if result is Ending.REFUSED else {number}
    found = {past.disk.guest_uuid: past for past in pasts(rows, minute(cut + 1), LONG_AGO, {})}
    for number in now:
        past = found.get(uuid_of(number))
        after = now[number] if past is None else past.before
        assert after == at_the_moment[number]
        if past is not None:
            assert past.after == now[number]
            assert past.foreign == (number not in applied)
