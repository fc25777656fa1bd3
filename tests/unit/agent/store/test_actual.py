"""What limits a disk had at a moment of the past: from the record alone, and said so where it does not know."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.entries import Conclusion, Ending
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.store.actual import LimitsAt, actual
from plimsoll_agent.store.record import Record
from tests.unit.values import GUEST, NOON, VOLUME, a_disk

HOUR = timedelta(hours=1)
OTHER = "aaaaa007-001a-4ea4-a2eb-d491b58efc11"


def limits(number: int) -> Limits:
    return Limits(total_iops_sec=number) if number else Limits()


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(tmp_path / "record.sqlite")


def put(
    record: Record,
    hour: int,
    before: int,
    after: int,
    result: Ending | None = Ending.DONE,
    *,
    took: timedelta = timedelta(0),
    volume: str = VOLUME,
) -> None:
    disk = a_disk(volume_id=volume, target="vdb" if volume == VOLUME else "vdc")
    reason = because(Code.RULE, rule="gold")
    change = Change(
        disk=disk,
        before=limits(before),
        after=limits(after),
        direction=Direction.LOWER,
        reason=reason,
        cause=Code.DESIRED_CHANGED,
    )
    (id_,) = record.intend([change], NOON + hour * HOUR, "root (ann)")
    if result is not None:
        record.conclude([Conclusion(id_, result)], NOON + hour * HOUR + took)


def at(record: Record, hours: float, volume: str = VOLUME) -> LimitsAt:
    (found,) = actual(record, NOON + hours * HOUR, volume, None)
    return found


def told(found: LimitsAt) -> tuple[Limits | None, int | None, datetime | None]:
    return found.limits, found.change and found.change.id, found.seen


def test_it_is_what_the_last_change_before_that_moment_put_there(record: Record) -> None:
    for hour, (before, after) in enumerate([(0, 1), (1, 2), (2, 3)]):
        put(record, hour, before, after)
    for hours, id_ in ((0, 1), (0.5, 1), (1, 2), (1.9, 2), (2, 3), (1000, 3)):
        assert told(at(record, hours)) == (limits(id_), id_, NOON + (id_ - 1) * HOUR)
        assert (at(record, hours).unsure, at(record, hours).found_next) == (None, None)


def test_before_the_first_change_only_what_it_found_is_known(record: Record) -> None:
    put(record, 1, 7, 8)
    found = at(record, 0.5)
    assert told(found) == (None, None, None)
    assert found.found_next is not None
    assert found.found_next.before == limits(7)


@pytest.mark.parametrize("result", [Ending.REFUSED, Ending.NOT_SENT, Ending.DID_NOT_TAKE])
def test_a_change_without_an_effect_shows_what_was_still_actual(record: Record, result: Ending) -> None:
    put(record, 0, 0, 1)
    put(record, 2, 1, 2, result)
    assert told(at(record, 3)) == (limits(1), 1, NOON + 2 * HOUR)
    assert at(record, 3).unsure is None


@pytest.mark.parametrize("result", [None, Ending.TIMED_OUT])
def test_a_change_whose_result_is_unknown_may_have_been_actual(record: Record, result: Ending | None) -> None:
    put(record, 0, 0, 1)
    put(record, 1, 1, 2, result)
    found = at(record, 2)
    assert told(found) == (limits(1), 1, NOON + HOUR)
    assert found.unsure is not None
    assert (found.unsure.id, found.unsure_until) == (2, None)
    put(record, 3, 2, 3)
    assert (at(record, 2).unsure_until, at(record, 2).found_next) == (NOON + 3 * HOUR, None)
    assert told(at(record, 3)) == (limits(3), 3, NOON + 3 * HOUR)


def test_one_that_was_found_out_later_is_unknown_from_the_call_to_then(record: Record) -> None:
    put(record, 0, 0, 1)
    put(record, 1, 1, 2, Ending.TOOK, took=HOUR)
    found = at(record, 1.5)
    assert told(found) == (limits(1), 1, NOON + HOUR)
    assert found.unsure is not None
    assert (found.unsure.id, found.unsure_until) == (2, NOON + 2 * HOUR)
    assert told(at(record, 2)) == (limits(2), 2, NOON + 2 * HOUR)


def test_a_change_that_took_without_an_answer_is_the_origin_of_what_the_next_one_found(record: Record) -> None:
    put(record, 0, 0, 1, Ending.TIMED_OUT)
    put(record, 1, 1, 2, Ending.REFUSED)
    assert told(at(record, 2)) == (limits(1), 1, NOON + HOUR)


def test_what_something_else_changed_is_told_from_the_next_change_that_found_it(record: Record) -> None:
    put(record, 0, 0, 1)
    put(record, 2, 9, 1)
    found = at(record, 1)
    assert told(found) == (limits(1), 1, NOON), "as far as plimsoll knows"
    assert found.found_next is not None
    assert (found.found_next.before, found.found_next.at) == (limits(9), NOON + 2 * HOUR)
    put(record, 4, 8, 1, Ending.REFUSED)
    assert told(at(record, 5)) == (limits(8), None, NOON + 4 * HOUR), "not plimsoll's"


def test_limits_that_something_else_set_again_are_not_those_of_the_change_before(record: Record) -> None:
    put(record, 0, 0, 1)
    put(record, 2, 9, 2, Ending.REFUSED)
    put(record, 4, 1, 2, Ending.REFUSED)
    assert told(at(record, 5)) == (limits(1), None, NOON + 4 * HOUR)


def test_an_attempt_that_is_under_way_after_others_were_refused_is_one_that_may_have_been(record: Record) -> None:
    put(record, 0, 0, 1, Ending.REFUSED)
    put(record, 2, 0, 1, None)
    assert at(record, 1).unsure is None
    found = at(record, 3)
    assert told(found) == (limits(0), None, NOON + 2 * HOUR)
    assert found.unsure is not None
    assert found.unsure.after == limits(1)


def test_a_disk_is_meant_by_guest_and_disk_or_by_the_volume(record: Record) -> None:
    put(record, 0, 0, 1)
    put(record, 0, 0, 2, volume=OTHER)
    moment = NOON + HOUR
    for guest in ("instance-00000001", GUEST, GUEST.upper()):
        assert [found.limits for found in actual(record, moment, guest, None)] == [limits(1), limits(2)]
        assert [found.limits for found in actual(record, moment, guest, "vdc")] == [limits(2)]
    assert [found.limits for found in actual(record, moment, OTHER, None)] == [limits(2)]
    assert actual(record, moment, "nobody", None) == []
    assert actual(record, moment, "instance-00000001", "vdx") == []


def test_without_a_record_nothing_is_known(record: Record) -> None:
    assert actual(record, NOON, VOLUME, None) == []
