"""What the record keeps, by age and by size: nothing that is needed goes, and the file stays small."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import Conclusion, Ending, Entry, Event, Happening, RecordedChange, RecordedEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.store import record_query
from plimsoll_agent.store.past import Past, pasts
from plimsoll_agent.store.record import CorruptRecord, Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.retention import Retention
from plimsoll_agent.store.state import StateError
from tests import depth
from tests.unit.sql import asked, do
from tests.unit.values import NOON, a_disk, a_guest

DAY = timedelta(days=1)
MONTH = Retention(keep_days=31)
RULE = because(Code.RULE, rule="bronze")


def disk(number: int) -> Disk:
    return a_disk(guest=a_guest(uuid=f"{number:08}-0000-4000-8000-000000000000"))


def a_change(of: Disk, before: int, after: int, reason: Reason = RULE) -> Change:
    its, new = (Limits(total_iops_sec=number) if number else Limits() for number in (before, after))
    return Change(
        disk=of, before=its, after=new, direction=Direction.LOWER, reason=reason, cause=Code.DESIRED_CHANGED
    )


def put(
    record: Record,
    at: datetime,
    change: Change,
    result: Ending | None = Ending.DONE,
    detail: str = "",
) -> int:
    (id_,) = record.intend([change], at, "tests")
    if result is not None:
        record.conclude([Conclusion(id_, result)], at)
    return id_


def in_it(record: Record) -> list[Entry]:
    return list(record_query.entries(record, Selection()))


def changes(record: Record) -> list[int]:
    return [entry.id for entry in in_it(record) if isinstance(entry, RecordedChange)]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(tmp_path / "record.sqlite")


def test_what_is_older_goes_but_for_the_newest_change_of_each_disk(record: Record) -> None:
    for day in range(4):
        for number in range(2):
            put(record, NOON + day * DAY, a_change(disk(number), day, day + 1))
    put(record, NOON + 40 * DAY, a_change(disk(0), 4, 5))
    record.retain(MONTH, NOON + 41 * DAY)
    assert changes(record) == [7, 8, 9], "the one before the month tells what was in force at its beginning"
    assert record.since() == NOON + 3 * DAY
    record.retain(MONTH, NOON + 90 * DAY)
    assert changes(record) == [8, 9]
    assert [change.after.total_iops_sec for change in record.taken()] == [4, 5]
    assert record.since() == NOON + 40 * DAY
    assert record_query.verify(record).faults == ()


@pytest.mark.parametrize("result", [None, Ending.TIMED_OUT])
def test_a_change_whose_result_is_unknown_is_kept(record: Record, result: Ending | None) -> None:
    put(record, NOON, a_change(disk(0), 0, 1), result)
    put(record, NOON, a_change(disk(0), 1, 2))
    record.retain(MONTH, NOON + 400 * DAY)
    assert [change.id for change in record.unsettled()] == [1]


def test_a_refused_change_that_is_tried_again_is_kept(record: Record) -> None:
    put(record, NOON, a_change(disk(0), 0, 1), Ending.REFUSED)
    put(record, NOON, a_change(disk(0), 0, 1), None)
    record.retain(MONTH, NOON + 400 * DAY)
    assert [(change.id, change.at) for change in record.unsettled()] == [(1, NOON)]


def test_the_newest_change_of_a_disk_is_kept_beside_the_newest_that_took(record: Record) -> None:
    verdicts = (
        Ending.DONE,
        Ending.DONE,
        Ending.REFUSED,
        Ending.GONE,
        Ending.REFUSED,
    )
    for number, result in enumerate(verdicts):
        put(record, NOON, a_change(disk(0), number, number + 1), result)
    record.retain(MONTH, NOON + 400 * DAY)
    assert changes(record) == [2, 5]


def test_what_was_before_a_hold_is_kept_with_it(record: Record) -> None:
    hold, over = because(Code.HOLD, why="import", by="ann", until="later"), because(Code.HOLD_ENDED)
    for number, reason in enumerate((RULE, RULE, hold, over, hold)):
        put(record, NOON, a_change(disk(0), number, number + 1, reason))
    record.retain(MONTH, NOON + 400 * DAY)
    assert changes(record) == [2, 3, 4, 5]


def test_what_undo_would_revert_is_the_same_before_and_after(tmp_path: Path) -> None:
    """For any moment that the record still answers for."""
    chance = random.Random(20261122)
    reasons = [RULE, because(Code.HOLD, why="w", by="b", until="u"), because(Code.HOLD_ENDED)]
    reasons += [because(Code.UNDONE, since="s", theirs=theirs) for theirs in (True, False)]
    rounds, removed = depth.count(quick=8, landing=16, soak=1000), 0
    for round_ in range(rounds):
        record = Record(tmp_path / f"{round_}.sqlite")
        actual = dict.fromkeys(range(3), 0)
        for day in range(40):
            number, after = chance.randrange(3), chance.randrange(3)
            change = a_change(disk(number), actual[number], after, chance.choice(reasons))
            result = chance.choice([Ending.DONE, Ending.TOOK, Ending.REFUSED, Ending.TIMED_OUT])
            put(record, NOON + day * DAY, change, result)
            actual[number] = after if result in (Ending.DONE, Ending.TOOK) else actual[number]
            if change.reason.code in (Code.HOLD, Code.HOLD_ENDED):
                what = Happening.HOLD_ADDED if change.reason.code is Code.HOLD else Happening.HOLD_ENDED
                record.note(
                    [Event(at=NOON + day * DAY, by="ann", what=what, reason=change.reason, disk=disk(number).named)]
                )
        moments = [NOON + day * DAY + timedelta(hours=1) for day in range(40)]
        before = {moment: undone(record, moment) for moment in moments}
        all_of_them = len(in_it(record))
        record.retain(MONTH, NOON + chance.randrange(32, 75) * DAY)
        since = record.since()
        assert since is not None
        removed += all_of_them - len(in_it(record))
        for moment in moments:
            if moment > since:
                assert undone(record, moment) == before[moment]
    assert removed > rounds, "or nothing was removed that could have been missed"


def undone(record: Record, since: datetime) -> list[Past]:
    rows = record_query.changes_of_disks(record, since)
    return pasts(rows, since, NOON, record_query.holds_over(record, since))


def test_events_go_with_their_time_but_the_first_and_the_end_of_the_last_hold_of_a_disk_stay(record: Record) -> None:
    named = disk(0).named
    record.note([Event(at=NOON, by="ann", what=Happening.PAUSED, reason=because(Code.OPERATOR, why="w"))])
    for hour, what in enumerate((Happening.HOLD_ADDED, Happening.HOLD_ENDED) * 3):
        record.note([Event(at=NOON + timedelta(hours=hour), by="ann", what=what, reason=None, disk=named)])
    record.note([Event(at=NOON + 40 * DAY, by="ann", what=Happening.RESUMED, reason=None)])
    record.retain(MONTH, NOON + 41 * DAY)
    assert [entry.id for entry in in_it(record)] == [1, 8, 9]
    assert record.since() == NOON + timedelta(hours=5)
    assert record_query.verify(record).faults == ()


def test_a_clock_that_was_wrong_once_keeps_nothing_for_ever_and_takes_nothing_along(record: Record) -> None:
    for number, at in enumerate((NOON, NOON + 9000 * DAY, NOON + DAY, NOON - 9000 * DAY, NOON + 50 * DAY)):
        put(record, at, a_change(disk(0), number, number + 1))
    record.retain(MONTH, NOON + 60 * DAY)
    assert changes(record) == [4, 5]
    assert record.since() == NOON + DAY


def test_what_was_written_during_the_pass_is_not_taken_for_a_wrong_clock(record: Record) -> None:
    paused = Event(at=NOON + timedelta(minutes=5), by="ann", what=Happening.PAUSED, reason=None)
    record.note([paused])
    put(record, NOON + timedelta(minutes=4), a_change(disk(0), 0, 1))
    put(record, NOON + timedelta(minutes=5), a_change(disk(0), 1, 2))
    record.retain(MONTH, NOON)
    assert [entry.what for entry in in_it(record) if isinstance(entry, RecordedEvent)][1:] == [Happening.PAUSED]
    assert changes(record) == [1, 2]
    assert record.since() is None


def test_a_record_that_is_too_large_loses_the_oldest_first_and_the_file_becomes_smaller(record: Record) -> None:
    reason = because(Code.RULE, rule="b" * 4000)
    for number in range(4):
        batch = [a_change(disk(n), number, number + 1, reason) for n in range(250)]
        at = NOON + number * DAY
        record.conclude([Conclusion(id_, Ending.DONE) for id_ in record.intend(batch, at, "tests")], at)
    before = record.path.stat().st_size
    assert before > 4 * 2**20
    record.retain(Retention(keep_mib=4), NOON + 4 * DAY)
    assert record.path.stat().st_size <= 4 * 2**20 < before
    left = changes(record)
    assert left == list(range(251, 1001)), "what was in force on the second day is known"
    assert record.since() == NOON + DAY
    assert len(record.taken()) == 250
    assert record_query.verify(record).faults == ()


def test_a_pass_removes_a_step_and_the_next_ones_the_rest(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll_agent.store.retention._STEP", 20)
    monkeypatch.setattr("plimsoll_agent.store.retention._CHUNK", 10)
    for number in range(50):
        put(record, NOON + timedelta(minutes=number), a_change(disk(0), number, number + 1))
    left = []
    for _ in range(4):
        record.retain(MONTH, NOON + 90 * DAY)
        left.append(len(changes(record)))
    assert left == [31, 11, 1, 1]
    assert record.since() == NOON + timedelta(minutes=49)


def test_where_nothing_is_old_nothing_is_written(record: Record) -> None:
    put(record, NOON, a_change(disk(0), 0, 1))
    before = record.path.stat().st_mtime_ns
    record.retain(MONTH, NOON + DAY)
    assert record.path.stat().st_mtime_ns == before
    assert record.since() is None


def test_no_record_is_made_to_remove_something_from(record: Record) -> None:
    record.retain(MONTH, NOON)
    assert not record.is_there()
    assert record.since() is None


def test_a_file_that_was_made_before_is_written_once_to_be_one_that_shrinks(record: Record) -> None:
    reason = because(Code.RULE, rule="b" * 4000)
    put(record, NOON, a_change(disk(0), 0, 1))
    do(record.path, "PRAGMA auto_vacuum = NONE", "VACUUM")
    for number in range(500):
        put(record, NOON, a_change(disk(0), number, number + 1, reason))
    before = record.path.stat().st_size
    record.retain(MONTH, NOON + 90 * DAY)
    assert record.path.stat().st_size < before / 10
    assert asked(record.path, "PRAGMA auto_vacuum") == [(2,)]
    assert record_query.verify(record).faults == ()


@pytest.mark.parametrize("values", ["'x', 1, ''", "1, 'x', ''", "1, 1, 'soon'"])
def test_nonsense_in_the_place_of_what_was_removed_is_a_fault_of_the_file(record: Record, values: str) -> None:
    put(record, NOON, a_change(disk(0), 0, 1))
    do(record.path, f"INSERT INTO retention VALUES ({values})")
    with pytest.raises(CorruptRecord):
        record.retain(MONTH, NOON + 90 * DAY)
    with pytest.raises(StateError):
        record.since()


def test_a_thousand_disks_that_refuse_for_a_year_stay_under_the_bound(record: Record) -> None:
    """A row a disk, whatever the number of passes; each fifth day QEMU says something else."""
    disks, passes = depth.count(quick=20, landing=50, soak=1000), depth.count(quick=100, landing=400, soak=3650)
    step = timedelta(days=365) / passes
    batch = [a_change(disk(number), 0, 1) for number in range(disks)]
    for number in range(passes):
        at = NOON + number * step
        ids = record.intend(batch, at, "tests")
        said = f"no such option ({(at - NOON).days // 5})"
        record.conclude([Conclusion(id_, Ending.REFUSED, said) for id_ in ids], at)
        record.retain(Retention(keep_days=90, keep_mib=64), at)
    assert len(changes(record)) <= disks * (90 // 5 + 2)
    bound = 2**17 + 900 * disks * (90 // 5 + 2)
    assert record.path.stat().st_size <= min(bound, 65 * 2**20)
    assert record_query.verify(record).faults == ()


def test_events_that_are_too_many_go_with_the_changes_of_their_time(record: Record) -> None:
    """Congestion has an entry every 20 seconds, with all disks of a class; changes may be few."""
    reason = Reason(Code.CONGESTION, {"x": 0.5, "members": ["a" * 4000]})
    for number in range(600):
        at = NOON + timedelta(minutes=number)
        if number in (0, 1, 590):
            put(record, at, a_change(disk(0), number, number + 1))
        record.note([Event(at=at, by="tests", what=Happening.CONGESTION, reason=reason)])
    record.retain(Retention(keep_mib=1), NOON + DAY)
    assert record.path.stat().st_size <= 2**20
    assert record.since() is not None
    assert changes(record) == [2, 3], "nothing that is newer than an event goes before it"
    assert in_it(record)[-1].at == NOON + timedelta(minutes=599), "the newest stay"
    assert record_query.verify(record).faults == ()
