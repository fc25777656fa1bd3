"""The record of changes, in a real SQLite file: what is on the disk when, and what a broken file is called."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import Conclusion, Ending, Event, Happening, RecordedChange, RecordedEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import SCHEMA_VERSION, CorruptRecord, Record
from plimsoll_agent.store.record_query import Selection, Verified
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.frozen import replace
from tests.unit.nobody import as_nobody, umask
from tests.unit.sql import asked, do
from tests.unit.values import GUEST, NOON, OF_0_1_0, PROJECT, VOLUME, a_disk, a_guest, examples_of, possible_limits

LIMITS = Limits(total_iops_sec=250, total_iops_sec_max=500, total_iops_sec_max_length=30)
LATER = NOON + timedelta(minutes=5)
DISK = a_disk()
fewer = examples_of(50)  # each waits for the disk


def a_change(disk: Disk = DISK, after: Limits = LIMITS, **other: object) -> Change:
    reason = because(Code.RULE, rule="bronze")
    change = Change(
        disk=disk, before=Limits(), after=after, direction=Direction.LOWER, reason=reason, cause=Code.NEVER_LIMITED
    )
    return replace(change, **other)  # type: ignore[arg-type]


def an_event(disk: Disk | None = None, at: datetime = NOON, what: Happening = Happening.PAUSED) -> Event:
    return Event(
        at=at,
        by="ann",
        what=what,
        reason=because(Code.OPERATOR, why="maintenance"),
        disk=None if disk is None else disk.named,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.sqlite"


@pytest.fixture
def record(path: Path) -> Record:
    return Record(path)


def rows(path: Path, columns: str = "*") -> list[tuple[object, ...]]:
    """As another program sees the file now."""
    return asked(path, f"SELECT {columns} FROM change ORDER BY id")


def ended(record: Record, result: Ending | None, change: Change | None = None) -> int:
    """A change that ended so; with None it is under way."""
    (id_,) = record.intend([change or a_change()], NOON, "tests")
    if result is not None:
        record.conclude([Conclusion(id_, result)], LATER)
    return id_


# --- intents


def test_an_intent_says_who_changes_what_from_what_into_what_and_why(record: Record, path: Path) -> None:
    before = Limits(read_bytes_sec=2**20)
    record.intend(
        [a_change(before=before, direction=Direction.RAISE, cause=Code.DESIRED_CHANGED)],
        NOON,
        "root (ann)",
        "04d2ab",
        "7c1e5d",
    )
    assert rows(path) == [
        (
            1,
            "2026-11-20T12:00:00+00:00",
            "root (ann)",
            f"{GUEST}/{VOLUME}",
            DISK.attachment,
            GUEST,
            "instance-00000001",
            PROJECT,
            "vdb",
            "volumes",
            f"volume-{VOLUME}",
            VOLUME,
            '{"read_bytes_sec": 1048576}',
            '{"total_iops_sec": 250, "total_iops_sec_max": 500, "total_iops_sec_max_length": 30}',
            "raise",
            '{"code": "rule", "rule": "bronze"}',
            "desired-changed",
            None,
            None,
            None,
            "04d2ab",
            1,
            None,
            None,
            None,
            "7c1e5d",
        )
    ]


def test_an_intent_of_no_revision_has_none(record: Record) -> None:
    ended(record, None)
    assert [(change.revision, change.rules) for change in record.unsettled()] == [(None, None)]


def test_every_change_has_an_id_of_its_own_over_all_passes(path: Path) -> None:
    changes = [a_change(), a_change(), a_change()]
    ids = [id_ for _ in range(3) for id_ in Record(path).intend(changes, NOON, "tests")]
    assert len(set(ids)) == 9
    assert ids == sorted(ids)


def test_ids_are_in_the_order_of_the_changes(record: Record, path: Path) -> None:
    disks = [a_disk(target=target) for target in ("vdc", "vda", "vdb")]
    ids = record.intend([a_change(disk) for disk in disks], NOON, "tests")
    assert rows(path, "id, target") == list(zip(ids, ("vdc", "vda", "vdb"), strict=True))


def test_the_id_of_a_row_that_was_deleted_is_not_given_again(record: Record, path: Path) -> None:
    (first,) = record.intend([a_change()], NOON, "tests")
    do(path, "DELETE FROM change")
    assert record.intend([a_change()], NOON, "tests") != [first]


def test_intents_of_a_pass_are_written_all_or_none(record: Record, path: Path) -> None:
    record.intend([a_change()], NOON, "tests")
    impossible = a_change(replace(DISK, target=None))  # type: ignore[arg-type]
    with pytest.raises(StateError, match=r"record\.sqlite: NOT NULL constraint failed"):
        record.intend([a_change(), impossible], NOON, "tests")
    assert len(rows(path)) == 1


def test_names_that_tenants_choose_are_values_and_no_sql(record: Record, path: Path) -> None:
    name = "'; DROP TABLE change; --\0\n\u202e"
    record.intend([a_change(a_disk(a_guest(name=name)))], NOON, "tests")
    assert rows(path, "guest_name") == [(name,)]


def test_a_commit_waits_for_the_disk_and_leaves_the_file_readable_for_others(record: Record, path: Path) -> None:
    record.intend([a_change()], NOON, "tests")
    with record._write() as database:
        assert tuple(database.execute("PRAGMA synchronous").fetchone()) == (3,), "EXTRA"
    assert asked(path, "PRAGMA journal_mode") == [("delete",)], "not WAL"
    assert [file.name for file in path.parent.iterdir()] == ["record.sqlite"], "closed, with nothing left over"


def test_what_a_link_in_its_place_leads_to_keeps_its_mode(record: Record, path: Path) -> None:
    other = path.with_name("another's")
    other.write_bytes(b"x" * 200)
    other.chmod(0o644)
    path.unlink(missing_ok=True)
    path.symlink_to(other)
    with suppress(StateError):
        record.intend([a_change()], NOON, "tests")
    assert (stat.S_IMODE(other.stat().st_mode), other.read_bytes()) == (0o644, b"x" * 200)


def test_the_file_is_for_its_owner_alone_whatever_the_umask_is(record: Record, path: Path) -> None:
    with umask(0):
        record.intend([], NOON, "tests")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_times_of_another_zone_are_kept_in_utc_so_that_they_compare(record: Record, path: Path) -> None:
    record.intend([a_change()], NOON.astimezone(timezone(timedelta(hours=9))), "tests")
    assert rows(path, "intended_at") == [("2026-11-20T12:00:00+00:00",)]


# --- conclusions


def test_how_a_change_ended_is_written_to_it_alone(record: Record, path: Path) -> None:
    ids = record.intend([a_change()] * 3, NOON, "tests")
    record.conclude([Conclusion(ids[2], Ending.REFUSED, "QEMU says no"), Conclusion(ids[0], Ending.DONE)], LATER)
    when = "2026-11-20T12:05:00+00:00"
    assert rows(path, "result, result_at, detail") == [
        ("done", when, None),
        (None, None, None),
        ("refused", when, "QEMU says no"),
    ]
    assert set(rows(path, "intended_at")) == {("2026-11-20T12:00:00+00:00",)}, "when it was meant stays"


def test_results_of_changes_of_another_record_are_refused_and_none_is_written(record: Record, path: Path) -> None:
    (id_,) = record.intend([a_change()], NOON, "tests")
    with pytest.raises(StateError, match="has no change 7"):
        record.conclude([Conclusion(id_, Ending.DONE), Conclusion(7, Ending.DONE)], NOON)
    assert rows(path, "result") == [(None,)]
    path.unlink()
    with pytest.raises(StateError, match="unable to open"):
        record.conclude([Conclusion(id_, Ending.DONE)], NOON)
    assert not path.exists()


# --- what is not settled

SETTLED = {Ending.DONE, Ending.REFUSED, Ending.NOT_SENT, Ending.TOOK, Ending.DID_NOT_TAKE, Ending.GONE}


@pytest.mark.parametrize("result", [None, *Ending])
def test_only_what_was_not_answered_or_is_under_way_is_to_be_settled(record: Record, result: Ending | None) -> None:
    id_ = ended(record, result)
    unsettled = [(change.id, change.disk.key, change.attachment, change.after) for change in record.unsettled()]
    assert unsettled == ([] if result in SETTLED else [(id_, DISK.key, DISK.attachment, LIMITS)])


def test_what_is_to_be_settled_comes_oldest_first(record: Record) -> None:
    ids = record.intend([a_change()] * 5, NOON, "tests")
    record.conclude([Conclusion(ids[4], Ending.TIMED_OUT), Conclusion(ids[1], Ending.DONE)], NOON)
    record.conclude([Conclusion(ids[0], Ending.TIMED_OUT)], LATER)
    assert [change.id for change in record.unsettled()] == [ids[0], ids[2], ids[3], ids[4]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """For hypothesis, whose examples share it."""
    return Record(tmp_path_factory.mktemp("record") / "record.sqlite")


@fewer
@given(after=possible_limits())
def test_limits_that_were_meant_are_read_back_unchanged(shared: Record, after: Limits) -> None:
    shared.intend([a_change(after=after)], NOON, "tests")
    assert shared.unsettled()[-1].after == after


# --- what was put in force last


@pytest.mark.parametrize("result", [None, *Ending])
def test_only_a_change_that_is_known_to_have_taken_is_actual(record: Record, result: Ending | None) -> None:
    ended(record, result)
    taken = result in (Ending.DONE, Ending.TOOK)
    last = record.last_actual(DISK.key)
    told = None if last is None else (last.disk.key, last.at, last.by, last.after, last.reason)
    assert told == ((DISK.key, NOON, "tests", LIMITS, because(Code.RULE, rule="bronze")) if taken else None)


def test_the_last_one_that_took_is_told_though_others_came_after_it(record: Record) -> None:
    for rate, result in ((1, Ending.DONE), (2, Ending.TOOK), (3, Ending.REFUSED), (4, None)):
        ended(record, result, a_change(after=Limits(total_iops_sec=rate)))
    last = record.last_actual(DISK.key)
    assert last is not None
    assert last.after == Limits(total_iops_sec=2)


def test_changes_of_another_disk_are_not_told(record: Record) -> None:
    ended(record, Ending.DONE)
    for other in (
        a_disk(volume_id=None),
        a_disk(a_guest(uuid=GUEST.replace("1", "2"))),
        a_disk(pool="x", volume_id=""),
    ):
        assert record.last_actual(other.key) is None
    assert record.last_actual("") is None


def test_looking_for_the_last_change_writes_nothing_and_needs_no_right_to() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "rec?ord#%20.sqlite"
        ended(Record(path), Ending.DONE)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        with as_nobody():
            assert Record(path).last_actual(DISK.key) is not None
            with pytest.raises(StateError, match="readonly"):
                ended(Record(path), Ending.DONE)
        path.parent.chmod(0)
        for look in (Record(path).is_there, lambda: Record(path).last_actual(DISK.key)):
            with as_nobody(), pytest.raises(StateError, match="Permission denied; add this user to its group"):
                look()
        path.parent.chmod(0o700)


# --- files that are no record


def _intend(record: Record) -> object:
    return record.intend([a_change()], NOON, "tests")


def _conclude(record: Record) -> object:
    return record.conclude([Conclusion(1, Ending.DONE)], NOON)


def _last(record: Record) -> object:
    return record.last_actual(DISK.key)


def _note(record: Record) -> object:
    return record.note([an_event()])


def _list(record: Record) -> object:
    return list(record_query.entries(record, Selection()))


def _newest(record: Record) -> object:
    return record_query.newest(record, Selection(), 5)


Use = Callable[[Record], object]
WRITERS: Sequence[Use] = (_intend, _conclude, _note)
READERS: Sequence[Use] = (_last, _list, _newest, Record.unsettled, Record.taken, record_query.end)


@pytest.mark.parametrize("use", [*WRITERS, *READERS])
@pytest.mark.parametrize(
    "content", [b"", b"this is no database\n" * 100, b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_file_that_is_no_record_is_corrupt_and_named_and_kept(path: Path, content: bytes, use: Use) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptRecord, match=str(path)):
        use(Record(path))
    assert path.read_bytes() == content, "it may be all that is left of the record"


def test_a_record_that_a_killed_pass_left_half_written_names_the_pass(record: Record) -> None:
    """What SQLite answers to one who may only read: functional/test_history has it from SQLite itself."""
    ended(record, None)
    half_written = sqlite3.OperationalError("attempt to write a readonly database")
    half_written.sqlite_errorcode = sqlite3.SQLITE_READONLY_ROLLBACK
    with (
        pytest.raises(StateError, match=r"a pass was killed while it wrote; .* the next pass repairs it"),
        record.look(),
    ):
        raise half_written


@pytest.mark.parametrize("use", [*WRITERS, *READERS])
def test_a_directory_in_the_place_of_the_file_is_a_state_error(path: Path, use: Use) -> None:
    path.mkdir()
    with pytest.raises(StateError, match=str(path)):
        use(Record(path))


@pytest.mark.parametrize("use", [_intend, _conclude, _note])
def test_a_missing_directory_is_a_state_error_and_is_not_made(tmp_path: Path, use: Use) -> None:
    with pytest.raises(StateError, match=f"{tmp_path}/absent/record.sqlite: "):
        use(Record(tmp_path / "absent" / "record.sqlite"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("use", [*WRITERS, *READERS])
def test_a_record_of_a_newer_plimsoll_is_refused_and_kept(record: Record, path: Path, use: Use) -> None:
    ended(record, None)
    do(path, "PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(
        StateError, match=rf"{path}: written by a newer plimsoll \(version 99, known up to 7\)"
    ) as error:
        use(record)
    assert not isinstance(error.value, CorruptRecord), "it must not be set aside"
    assert path.read_bytes() == before


def test_a_record_without_its_table_is_a_state_error(record: Record, path: Path) -> None:
    ended(record, None)
    do(path, "DROP TABLE change")
    for use in (_intend, _conclude, *READERS):
        with pytest.raises(CorruptRecord, match="no such table"):
            use(record)


@pytest.mark.parametrize("use", [Record.unsettled, _last, Record.taken, _list])
@pytest.mark.parametrize("after", ["''", "'[]'", "'{\"x\": 1}'", '\'{"total_iops_sec": "1"}\'', "x'ff'"])
def test_a_row_whose_limits_are_damaged_is_a_state_error_and_no_limit(
    record: Record, path: Path, after: str, use: Use
) -> None:
    ended(record, None if use is Record.unsettled else Ending.DONE)
    do(path, f"UPDATE change SET after = {after}")
    with pytest.raises(CorruptRecord, match=str(path)):
        use(record)


@pytest.mark.parametrize(
    "damage", ['reason = \'{"code": "of tomorrow"}\'', "reason = '[]'", "reason = ''", "intended_at = 'once'"]
)
def test_a_last_change_whose_row_is_damaged_is_a_state_error(record: Record, path: Path, damage: str) -> None:
    ended(record, Ending.DONE)
    do(path, f"UPDATE change SET {damage}")
    with pytest.raises(StateError, match=str(path)):
        record.last_actual(DISK.key)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A record with an open change and one that is done; hypothesis' examples share its path."""
    path = tmp_path_factory.mktemp("record") / "record.sqlite"
    for result in (None, Ending.DONE):
        ended(Record(path), result)
    return path, path.read_bytes()


@fewer
@given(st.data())
def test_a_record_with_bytes_changed_works_or_is_a_state_error(
    whole: tuple[Path, bytes], data: st.DataObject
) -> None:
    path, content = whole[0], bytearray(whole[1])
    start = data.draw(st.integers(0, 600) | st.integers(0, len(content) - 1))
    damage = data.draw(st.binary(min_size=1, max_size=64))
    content[start : start + len(damage)] = damage
    path.write_bytes(content)
    for use in (*READERS, *WRITERS):
        with suppress(StateError):
            use(Record(path))
    with suppress(StateError):
        record_query.verify(Record(path))


def test_a_record_with_bytes_changed_in_a_name_has_another_name_and_works(whole: tuple[Path, bytes]) -> None:
    """Where no reader works the test before this one says nothing."""
    path, content = whole
    path.write_bytes(content.replace(b"instance-00000001", b"instance-OTHERONE"))
    for use in (*READERS, *WRITERS):
        use(Record(path))
    known = Record(path).last_actual(DISK.key)
    assert known is not None
    assert known.disk.guest_name == "instance-OTHERONE"
    assert record_query.verify(Record(path)).faults == ()


# --- the version before


@pytest.fixture
def old(path: Path) -> Path:
    return Path(shutil.copyfile(OF_0_1_0 / "record.sqlite", path))


def test_a_record_of_0_1_0_is_read_by_the_words_of_today_and_not_touched(old: Path) -> None:
    before, record = old.read_bytes(), Record(old)
    of_vdb = record_query.entries(record, Selection(disk="vdb"))
    changes = [each for each in of_vdb if isinstance(each, RecordedChange)]
    assert [(each.before, each.after, each.direction, each.cause) for each in changes] == [
        (Limits(), Limits(total_iops_sec=250), Direction.LOWER, Code.NEVER_LIMITED),
        (Limits(total_iops_sec=9), Limits(total_iops_sec=250), Direction.RAISE, Code.CHANGED_OVER_QMP),
        (Limits(total_iops_sec=250), Limits(total_iops_sec=500), Direction.RAISE, Code.DESIRED_CHANGED),
    ]
    (undone,) = record_query.entries(record, Selection(reason="undone"))
    assert isinstance(undone, RecordedChange)
    assert (undone.direction, undone.result, undone.reason.facts["foreign"]) == (Direction.REMOVE, Ending.DONE, True)
    (open_one,) = record.unsettled()
    assert (open_one.result, open_one.before) == (Ending.TIMED_OUT, Limits(total_iops_sec=9))
    assert len(record.taken()) == 3
    events = [each for each in record_query.entries(record, Selection()) if isinstance(each, RecordedEvent)]
    added, ended, approved = Happening.HOLD_ADDED, Happening.HOLD_ENDED, Happening.APPROVED
    assert [event.what for event in events] == [
        Happening.RECORD_STARTED, added, added, ended, added, Happening.PAUSED, Happening.RESUMED, approved, approved
    ]  # fmt: skip
    assert events[-1].reason is not None
    assert events[-1].reason.facts.keys() == {"revision", "why"}
    assert record_query.verify(record).faults == ()
    assert old.read_bytes() == before


@pytest.mark.parametrize("use", [_intend, _conclude, _note])
def test_a_record_of_0_1_0_becomes_one_of_today_when_it_is_written(old: Path, use: Use) -> None:
    others = Selection(guest="instance-00000002")
    before = [*record_query.entries(Record(old), others)]
    use(Record(old))
    assert asked(old, "PRAGMA user_version") == [(SCHEMA_VERSION,)]
    assert [*record_query.entries(Record(old), others)] == before
    assert record_query.verify(Record(old)).faults == ()


def test_a_migrated_file_has_the_tables_of_a_new_one(old: Path, tmp_path: Path) -> None:
    def tables(path: Path) -> list[object]:
        names = "SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY name"
        return [asked(path, query) for query in ("PRAGMA table_info(change)", "PRAGMA table_info(event)", names)]

    _note(Record(old))
    _note(Record(tmp_path / "new.sqlite"))
    assert tables(old) == tables(tmp_path / "new.sqlite")


# --- the same change again


def test_a_change_that_is_refused_again_and_again_takes_one_row(record: Record, path: Path) -> None:
    for number in range(300):
        at = NOON + number * timedelta(minutes=5)
        (id_,) = record.intend([a_change()], at, "tests", "04d2ab")
        assert rows(path, "retried_at IS NULL, result IS NULL") == [(number == 0, number == 0)], "no call without it"
        assert [(change.id, change.at, change.result) for change in record.unsettled()] == [(id_, at, None)]
        record.conclude([Conclusion(id_, Ending.REFUSED, "no such option")], at + timedelta(seconds=1))
    last = NOON + 299 * timedelta(minutes=5)
    (change,) = (entry for entry in record_query.entries(record, Selection()) if isinstance(entry, RecordedChange))
    assert (change.at, change.times, change.last_at) == (NOON, 300, last)
    assert (change.result, change.result_at) == (Ending.REFUSED, last + timedelta(seconds=1))
    assert (change.detail, change.open, record.unsettled()) == ("no such option", False, [])
    assert record_query.verify(record).faults == ()


@pytest.mark.parametrize("result", [Ending.REFUSED, Ending.NOT_SENT, Ending.DID_NOT_TAKE])
def test_every_end_without_an_effect_is_counted(record: Record, path: Path, result: Ending) -> None:
    assert [ended(record, result) for _ in range(3)] == [1, 1, 1]
    assert rows(path, "times, result") == [(3, result.value)]


@pytest.mark.parametrize("result", [Ending.DONE, Ending.TOOK, Ending.GONE])
def test_an_end_that_changed_something_or_is_another_attachments_is_never_counted(
    record: Record, result: Ending
) -> None:
    assert [ended(record, result) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    "other",
    [
        a_change(replace(DISK, guest=replace(DISK.guest, run="7"))),  # another attachment
        a_change(after=Limits(total_iops_sec=1)),
        a_change(before=Limits(total_iops_sec=1)),
        a_change(reason=because(Code.RULE, rule="silver")),
        a_change(cause=Code.EXTERNAL_CHANGE),
        a_change(replace(DISK, guest=replace(DISK.guest, name="renamed"))),
    ],
)
def test_another_change_is_a_row_of_its_own_and_so_is_the_first_one_after_it(record: Record, other: Change) -> None:
    assert [ended(record, Ending.REFUSED, change) for change in (a_change(), other, a_change())] == [1, 2, 3]


def test_another_person_or_other_rules_make_a_row_of_their_own(record: Record) -> None:
    ids = []
    for by, revision in (("ann", "04d2ab"), ("bob", "04d2ab"), ("bob", "5d1f0c")):
        ids += record.intend([a_change()], NOON, by, revision)
        record.conclude([Conclusion(ids[-1], Ending.REFUSED)], NOON)
    assert ids == [1, 2, 3]


@pytest.mark.parametrize(
    ("result", "detail"), [(Ending.DONE, None), (Ending.REFUSED, "another"), (Ending.NOT_SENT, "no")]
)
def test_an_attempt_that_ends_otherwise_is_a_row_of_its_own(
    record: Record, result: Ending, detail: str | None
) -> None:
    for at in (NOON, LATER):
        (id_,) = record.intend([a_change()], at, "tests")
        record.conclude([Conclusion(id_, Ending.REFUSED, "no")], at)
    at = LATER + timedelta(minutes=5)
    (id_,) = record.intend([a_change()], at, "tests", "")
    record.conclude([Conclusion(id_, result, detail)], at)
    _, refused, last = record_query.entries(record, Selection())
    assert isinstance(refused, RecordedChange)
    assert isinstance(last, RecordedChange)
    assert (refused.times, refused.last_at, refused.detail) == (2, LATER, "no")
    assert (last.id, last.at, last.result, last.result_at, last.detail, last.times) == (2, at, result, at, detail, 1)
    assert last == replace(refused, id=2, at=at, result=result, result_at=at, detail=detail, times=1, last_at=None)
    assert record.unsettled() == []


def test_an_attempt_that_is_not_answered_stays_open_until_it_is_known_and_another_is_begun_beside_it(
    record: Record, path: Path
) -> None:
    ended(record, Ending.DID_NOT_TAKE)
    opened = [ended(record, Ending.TIMED_OUT), ended(record, Ending.TIMED_OUT)]
    assert opened == [1, 2]
    assert [(c.id, c.result) for c in record.unsettled()] == [(1, Ending.TIMED_OUT), (2, Ending.TIMED_OUT)]
    record.conclude([Conclusion(id_, Ending.DID_NOT_TAKE) for id_ in opened], LATER)
    assert rows(path, "times, result, retried_at") == [(2, "did-not-take", None), (1, "did-not-take", None)]
    assert record.unsettled() == []


def test_a_change_that_was_counted_is_found_by_the_time_of_its_last_attempt(record: Record) -> None:
    for at in (NOON, LATER):
        (id_,) = record.intend([a_change()], at, "tests")
        record.conclude([Conclusion(id_, Ending.REFUSED)], at)
    found = [entry.id for entry in record_query.entries(record, Selection(since=LATER)) if entry.at == NOON]
    assert found == [1]
    assert list(record_query.entries(record, Selection(since=LATER + timedelta(seconds=1)))) == []


# --- events, and how a record begins


def test_what_an_operator_did_is_kept_with_the_names_of_the_disk(record: Record) -> None:
    record.note([an_event(DISK, what=Happening.HOLD_ADDED), an_event(at=LATER)])
    _, held, paused = record_query.entries(record, Selection())
    reason = because(Code.OPERATOR, why="maintenance")
    assert held == RecordedEvent(id=2, at=NOON, by="ann", what=Happening.HOLD_ADDED, disk=DISK.named, reason=reason)
    assert paused == RecordedEvent(id=3, at=LATER, by="ann", what=Happening.PAUSED, disk=None, reason=reason)


@pytest.mark.parametrize("use", [_intend, _note])
def test_a_new_file_says_that_it_is_one(record: Record, use: Use) -> None:
    use(record)
    first = next(iter(record_query.entries(record, Selection())))
    assert isinstance(first, RecordedEvent)
    assert (first.id, first.what, first.reason) == (1, Happening.RECORD_STARTED, None)


def test_reading_makes_no_file_and_finds_nothing(record: Record, path: Path) -> None:
    assert record.identity() is None
    for use in READERS:
        use(record)
        use(Record(path.parent / "absent" / "record.sqlite"))
    assert list(path.parent.iterdir()) == []


def test_a_corrupt_file_is_set_aside_and_the_new_one_names_it(record: Record, path: Path) -> None:
    for number, name in ((1, "record.sqlite.corrupt"), (2, "record.sqlite.corrupt.2")):
        content = b"no database %d" % number
        path.write_bytes(content)
        assert record.set_aside(LATER, "root") == path.with_name(name)
        assert path.with_name(name).read_bytes() == content
        (started,) = record_query.entries(record, Selection())
        assert isinstance(started, RecordedEvent)
        assert (started.at, started.what) == (LATER, Happening.RECORD_STARTED)
        assert started.reason == because(Code.RECORD_SET_ASIDE, instead_of=name)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert record.intend([a_change()], NOON, "tests") == [1]


def test_the_journal_of_a_corrupt_file_goes_with_it_and_is_not_rolled_into_the_new_one(
    record: Record, path: Path
) -> None:
    ended(record, Ending.DONE)
    path.with_name("record.sqlite-journal").write_bytes(b"of a killed pass")
    record.set_aside(LATER, "root")
    assert path.with_name("record.sqlite.corrupt-journal").read_bytes() == b"of a killed pass"
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "record.sqlite",
        "record.sqlite.corrupt",
        "record.sqlite.corrupt-journal",
    ]


def test_a_file_that_cannot_be_set_aside_stays(record: Record, path: Path) -> None:
    path.mkdir()
    with pytest.raises(StateError, match=str(path)):
        record.set_aside(LATER, "root")
    assert [file.name for file in path.parent.iterdir()] == ["record.sqlite"]


# --- what is listed


@pytest.fixture
def listed(record: Record) -> Record:
    """Three changes of two guests, a minute apart, and an event of each guest between them."""
    other = a_disk(a_guest(uuid=GUEST.replace("1", "2"), name="db", project="shop"), target="vda", volume_id=None)
    record.intend([], NOON, "tests")
    record.note([an_event(DISK, NOON + timedelta(seconds=30)), an_event(other, NOON + timedelta(seconds=90))])
    gold = because(Code.RULE, rule="gold")
    changes = [a_change(), a_change(other, cause=Code.CHANGED_OVER_QMP), a_change(reason=gold)]
    for minute, change in enumerate(changes):
        record.intend([change], NOON + timedelta(minutes=minute), "tests")
    record.conclude([Conclusion(2, Ending.DONE), Conclusion(3, Ending.TIMED_OUT)], LATER)
    return record


def told(entries: Iterable[RecordedChange | RecordedEvent]) -> str:
    """``c1 e2``: changes and events by their ids; what began the record is left out."""
    names = [f"{'c' if isinstance(entry, RecordedChange) else 'e'}{entry.id}" for entry in entries]
    return " ".join(name for name in names if name != "e1")


@pytest.mark.parametrize(
    ("selection", "entries"),
    [
        (Selection(), "c1 e2 c2 e3 c3"),
        (Selection(disk="vda"), "c2 e3"),
        (Selection(disk=VOLUME), "c1 e2 c3"),
        (Selection(disk=DISK.key), "c1 e2 c3"),
        (Selection(guest="db"), "c2 e3"),
        (Selection(guest=GUEST.upper()), "c1 e2 c3"),
        (Selection(project=PROJECT), "c1 e2 c3"),
        (Selection(project=f"{PROJECT[:8]}-{PROJECT[8:]}"), "c1 e2 c3"),
        (Selection(since=NOON + timedelta(seconds=60)), "c2 e3 c3"),
        (Selection(until=NOON + timedelta(seconds=60)), "c1 e2"),
        (Selection(reason="gold"), "c3"),
        (Selection(reason="rule"), "c1 c2 c3"),
        (Selection(reason="changed-over-qmp"), "c2"),
        (Selection(reason="paused"), "e2 e3"),
        (Selection(reason="operator"), "e2 e3"),
        (Selection(result="done"), "c2"),
        (Selection(result="under-way"), "c1"),
        (Selection(guest="db", result="timed-out"), ""),
        (Selection(guest="' OR 1 --"), ""),
    ],
)
def test_entries_are_chosen_and_come_in_the_order_of_time(listed: Record, selection: Selection, entries: str) -> None:
    assert told(record_query.entries(listed, selection)) == entries
    assert told(record_query.newest(listed, selection, 100)) == entries
    assert told(record_query.newest(listed, selection, 2)) == " ".join(entries.split()[-2:])


def test_a_list_goes_on_where_another_ended(listed: Record) -> None:
    end = record_query.end(listed)
    listed.intend([a_change()], LATER, "tests")
    listed.note([an_event(at=LATER)])
    assert told(record_query.entries(listed, Selection(), after=end)) == "e4 c4"
    assert told(record_query.entries(listed, Selection(), upto=end)) == "c1 e2 c2 e3 c3"


def test_a_clock_that_was_set_back_takes_no_entry_out_of_the_list(listed: Record) -> None:
    listed.intend([a_change()], NOON - timedelta(days=1), "tests")
    assert sorted(told(record_query.entries(listed, Selection())).split()) == ["c1", "c2", "c3", "c4", "e2", "e3"]
    assert "c4" in told(record_query.newest(listed, Selection(), 4)), "what was recorded last is among the newest"


def test_a_list_of_more_than_a_page_is_whole(record: Record) -> None:
    for _ in range(3):
        record.intend([a_change()] * 999, NOON, "tests")
    assert [entry.id for entry in record_query.entries(record, Selection(reason="rule"))] == list(range(1, 2998))
    assert [entry.id for entry in record_query.newest(record, Selection(reason="rule"), 2500)] == list(
        range(498, 2998)
    )


def test_a_reader_that_stops_in_the_middle_of_a_list_does_not_keep_a_pass_from_writing(record: Record) -> None:
    record.intend([a_change()] * 3000, NOON, "tests")
    entries = record_query.entries(record, Selection())
    next(entries)
    assert record.intend([a_change()], NOON, "tests") == [3001]
    assert sum(1 for _ in entries) == 3001


def test_a_damaged_row_in_a_list_is_named(listed: Record, path: Path) -> None:
    do(path, "UPDATE change SET before = 'x' WHERE id = 2")
    with pytest.raises(CorruptRecord, match="change 2: "):
        list(record_query.entries(listed, Selection()))
    do(path, "UPDATE change SET before = '{}', reason = 'x' WHERE id = 2")
    with pytest.raises(CorruptRecord, match="change 2: "):
        list(record_query.entries(listed, Selection(reason="gold")))


def test_the_last_change_that_took_is_known_of_every_disk(listed: Record) -> None:
    listed.conclude([Conclusion(3, Ending.TOOK)], LATER)
    listed.intend([a_change(after=Limits(total_iops_sec=9))], LATER, "tests")
    assert [(last.disk.guest_uuid, last.after) for last in listed.taken()] == [
        (GUEST.replace("1", "2"), LIMITS),
        (GUEST, LIMITS),
    ]


# --- verify


def test_a_whole_record_has_no_fault_and_says_what_is_in_it(listed: Record) -> None:
    assert record_query.verify(listed) == Verified(changes=3, events=3, faults=())


@pytest.mark.parametrize(
    ("table", "rubbish"),
    [
        *(("event", each) for each in ("what = 'slept'", "reason = '[]'", "at = 'once'", "disk = 'x/y'")),
        ("change", "before = '{\"total_iops_sec\": -1}'"),
        ("change", "before = ''"),
        ("change", "after = 5"),
        ("change", 'reason = \'{"code": "of tomorrow"}\''),
        ("change", "cause = 'chance'"),
        ("change", "direction = 'up'"),
        ("change", "result = 'fine'"),
        ("change", "result_at = NULL"),
        ("change", "result = NULL"),
        ("change", "intended_at = '2026-11-20 12:00:00'"),
        ("change", "intended_at = 1795176000"),
        ("change", "by = x'ff'"),
        ("change", "guest_name = CAST(x'ff' AS TEXT)"),
        ("change", "guest_uuid = 'another'"),
        ("change", "revision = x'07'"),
    ],
)
def test_a_row_that_no_plimsoll_wrote_is_found_among_good_ones(
    listed: Record, path: Path, table: str, rubbish: str
) -> None:
    do(path, f"UPDATE {table} SET {rubbish} WHERE id = 2")
    (fault,) = record_query.verify(listed).faults
    assert fault.startswith(f"{path}: {table} 2: ")


@pytest.mark.parametrize("loss", [0, 3, 5000, -4096])
def test_a_file_that_was_cut_off_is_found(listed: Record, path: Path, loss: int) -> None:
    listed.intend([a_change()] * 40, NOON, "tests")
    content = path.read_bytes()
    path.write_bytes(content[:loss])
    assert record_query.verify(listed).faults


def test_an_index_that_hides_rows_is_found(listed: Record, path: Path) -> None:
    do(
        path,
        "PRAGMA writable_schema = 1",
        "UPDATE sqlite_master SET sql = replace(sql, '(disk)', '(pool)') WHERE sql LIKE '%change_disk%'",
    )
    assert record_query.verify(listed).faults
