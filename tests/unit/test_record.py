"""The record of changes, in a real SQLite file: what is on the disk when, and what a broken file is called."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll_agent.changes import Change, Direction
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, because
from plimsoll_agent.record import Conclusion, LastChange, OpenChange, Record, Verdict
from plimsoll_agent.state import StateError
from tests.unit.values import GUEST, NOON, PROJECT, VOLUME, a_disk, a_guest, examples, possible_limits

LIMITS = Limits(total_iops_sec=250, total_iops_sec_max=500, total_iops_sec_max_length=30)
LATER = NOON + timedelta(minutes=5)
DISK = a_disk()
NOBODY = 65534
fewer = settings(examples, max_examples=50)  # each waits for the disk


def a_change(disk: Disk = DISK, after: Limits = LIMITS, **other: object) -> Change:
    reason = because(Code.RULE, rule="bronze")
    change = Change(disk, Limits(), after, Direction.TIGHTEN, reason, Code.NEVER_LIMITED)
    return replace(change, **other)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.sqlite"


@pytest.fixture
def record(path: Path) -> Record:
    return Record(path)


def rows(path: Path, columns: str = "*") -> list[tuple[object, ...]]:
    """As another program sees the file now."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(f"SELECT {columns} FROM change ORDER BY id").fetchall()


def do(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def ended(record: Record, verdict: Verdict | None, change: Change | None = None) -> int:
    """A change that ended so; with None it is under way."""
    (id_,) = record.intend([change or a_change()], NOON, "tests")
    if verdict is not None:
        record.conclude([Conclusion(id_, verdict)], LATER)
    return id_


# --- intents


def test_an_intent_says_who_changes_what_from_what_into_what_and_why(record: Record, path: Path) -> None:
    before = Limits(read_bytes_sec=2**20)
    record.intend(
        [a_change(before=before, direction=Direction.LOOSEN, cause=Code.WANTED_CHANGED)], NOON, "root (ann)"
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
            "loosen",
            '{"code": "rule", "rule": "bronze"}',
            "wanted-changed",
            None,
            None,
            None,
        )
    ]


def test_an_intent_stands_in_the_file_for_others_when_its_id_is_known(record: Record, path: Path) -> None:
    ids = record.intend([a_change(), a_change()], NOON, "tests")
    assert rows(path, "id, result") == [(id_, None) for id_ in ids]


def test_every_change_has_an_id_of_its_own_over_all_passes(path: Path) -> None:
    changes = [a_change(), a_change(), a_change()]
    ids = [id_ for _ in range(3) for id_ in Record(path).intend(changes, NOON, "tests")]
    assert len(set(ids)) == 9
    assert ids == sorted(ids)


def test_ids_are_in_the_order_of_the_changes(record: Record, path: Path) -> None:
    disks = [a_disk(target=target) for target in ("vdc", "vda", "vdb")]
    ids = record.intend([a_change(disk) for disk in disks], NOON, "tests")
    assert rows(path, "id, target") == list(zip(ids, ("vdc", "vda", "vdb"), strict=True))


def test_the_id_of_a_row_that_somebody_deleted_is_not_given_again(record: Record, path: Path) -> None:
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
    with record._open() as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",), "not WAL"
    assert [file.name for file in path.parent.iterdir()] == ["record.sqlite"], "closed, with nothing left over"


def test_the_file_is_for_its_owner_and_its_group_whatever_the_umask_is(record: Record, path: Path) -> None:
    before = os.umask(0)
    try:
        record.intend([], NOON, "tests")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_was_not_finished_when_it_was_made_is_finished(record: Record, path: Path) -> None:
    path.write_bytes(b"")
    path.chmod(0o666)
    assert record.unsettled() == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert len(record.intend([a_change()], NOON, "tests")) == 1


# --- conclusions


def test_how_a_change_ended_is_written_to_it_alone(record: Record, path: Path) -> None:
    ids = record.intend([a_change()] * 3, NOON, "tests")
    record.conclude([Conclusion(ids[2], Verdict.REFUSED, "QEMU says no"), Conclusion(ids[0], Verdict.DONE)], LATER)
    when = "2026-11-20T12:05:00+00:00"
    assert rows(path, "result, result_at, detail") == [
        ("done", when, None),
        (None, None, None),
        ("refused", when, "QEMU says no"),
    ]
    assert set(rows(path, "intended_at")) == {("2026-11-20T12:00:00+00:00",)}, "when it was meant stays"


def test_a_conclusion_of_no_change_changes_nothing(record: Record, path: Path) -> None:
    record.conclude([Conclusion(7, Verdict.DONE)], NOON)
    assert rows(path) == []


# --- what is not settled

SETTLED = {Verdict.DONE, Verdict.REFUSED, Verdict.NOT_SENT, Verdict.TOOK, Verdict.DID_NOT_TAKE, Verdict.GONE}


@pytest.mark.parametrize("verdict", [None, *Verdict])
def test_only_what_was_not_answered_or_is_under_way_is_to_be_settled(record: Record, verdict: Verdict | None) -> None:
    id_ = ended(record, verdict)
    open_change = OpenChange(id_, DISK.key, DISK.attachment, LIMITS)
    assert record.unsettled() == ([] if verdict in SETTLED else [open_change])


def test_what_is_to_be_settled_comes_oldest_first(record: Record) -> None:
    ids = record.intend([a_change()] * 5, NOON, "tests")
    record.conclude([Conclusion(ids[4], Verdict.UNANSWERED), Conclusion(ids[1], Verdict.DONE)], NOON)
    record.conclude([Conclusion(ids[0], Verdict.UNANSWERED)], LATER)
    assert [change.id for change in record.unsettled()] == [ids[0], ids[2], ids[3], ids[4]]


def test_what_was_settled_later_is_settled(record: Record) -> None:
    id_ = ended(record, Verdict.UNANSWERED)
    record.conclude([Conclusion(id_, Verdict.TOOK)], LATER)
    assert record.unsettled() == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """For hypothesis, whose examples share it."""
    return Record(tmp_path_factory.mktemp("record") / "record.sqlite")


@fewer
@given(after=possible_limits())
def test_limits_that_were_meant_are_read_back_as_they_were(shared: Record, after: Limits) -> None:
    shared.intend([a_change(after=after)], NOON, "tests")
    assert shared.unsettled()[-1].after == after


# --- what was put in force last


@pytest.mark.parametrize("verdict", [None, *Verdict])
def test_only_a_change_that_is_known_to_have_taken_is_in_force(record: Record, verdict: Verdict | None) -> None:
    ended(record, verdict)
    taken = verdict in (Verdict.DONE, Verdict.TOOK)
    last = LastChange(NOON, "tests", LIMITS, because(Code.RULE, rule="bronze"))
    assert record.last_in_force(DISK.key) == (last if taken else None)


def test_the_last_one_that_took_is_told_though_others_came_after_it(record: Record) -> None:
    for rate, verdict in ((1, Verdict.DONE), (2, Verdict.TOOK), (3, Verdict.REFUSED), (4, None)):
        ended(record, verdict, a_change(after=Limits(total_iops_sec=rate)))
    last = record.last_in_force(DISK.key)
    assert last is not None
    assert last.after == Limits(total_iops_sec=2)


def test_changes_of_another_disk_are_not_told(record: Record) -> None:
    ended(record, Verdict.DONE)
    for other in (
        a_disk(volume_id=None),
        a_disk(a_guest(uuid=GUEST.replace("1", "2"))),
        a_disk(pool="x", volume_id=""),
    ):
        assert record.last_in_force(other.key) is None
    assert record.last_in_force("") is None


def test_looking_for_the_last_change_makes_no_file(record: Record, path: Path) -> None:
    assert record.last_in_force(DISK.key) is None
    assert not path.exists()
    assert Record(path.parent / "absent" / "record.sqlite").last_in_force(DISK.key) is None


def test_looking_for_the_last_change_writes_nothing_and_needs_no_right_to() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "rec?ord#%20.sqlite"
        ended(Record(path), Verdict.DONE)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(NOBODY)
        try:
            assert Record(path).last_in_force(DISK.key) is not None
            with pytest.raises(StateError, match="readonly"):
                ended(Record(path), Verdict.DONE)
        finally:
            os.seteuid(user)
            path.parent.chmod(0o700)


def test_a_directory_that_others_may_not_enter_is_a_state_error() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "record.sqlite"
        ended(Record(path), Verdict.DONE)
        path.parent.chmod(0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(NOBODY)
        try:
            with pytest.raises(StateError, match=f"{path}: .*Permission denied"):
                Record(path).last_in_force(DISK.key)
        finally:
            os.seteuid(user)
            path.parent.chmod(0o700)


# --- files that are no record


def _intend(record: Record) -> object:
    return record.intend([a_change()], NOON, "tests")


def _conclude(record: Record) -> object:
    return record.conclude([Conclusion(1, Verdict.DONE)], NOON)


def _last(record: Record) -> object:
    return record.last_in_force(DISK.key)


Use = Callable[[Record], object]
WRITERS: Sequence[Use] = (_intend, _conclude, Record.unsettled)


@pytest.mark.parametrize("use", [*WRITERS, _last])
@pytest.mark.parametrize(
    "content", [b"this is no database\n" * 100, b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_file_that_is_no_database_is_a_state_error_that_names_it(path: Path, content: bytes, use: Use) -> None:
    path.write_bytes(content)
    with pytest.raises(StateError, match=str(path)):
        use(Record(path))
    assert path.read_bytes() == content, "it may be all that is left of the record"


@pytest.mark.parametrize("use", [*WRITERS, _last])
def test_a_directory_in_the_place_of_the_file_is_a_state_error(path: Path, use: Use) -> None:
    path.mkdir()
    with pytest.raises(StateError, match=str(path)):
        use(Record(path))


@pytest.mark.parametrize("use", WRITERS)
def test_a_missing_directory_is_a_state_error_and_is_not_made(tmp_path: Path, use: Use) -> None:
    with pytest.raises(StateError, match=f"{tmp_path}/absent/record.sqlite: unable to open"):
        use(Record(tmp_path / "absent" / "record.sqlite"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("use", WRITERS)
def test_a_record_of_a_newer_plimsoll_is_refused_and_kept(record: Record, path: Path, use: Use) -> None:
    ended(record, None)
    do(path, "PRAGMA user_version = 2")
    before = path.read_bytes()
    with pytest.raises(StateError, match=rf"{path}: written by a newer plimsoll \(version 2\)"):
        use(record)
    assert path.read_bytes() == before


def test_a_record_without_its_table_is_a_state_error(record: Record, path: Path) -> None:
    ended(record, None)
    do(path, "DROP TABLE change")
    for use in (*WRITERS, _last):
        with pytest.raises(StateError, match="no such table"):
            use(record)


@pytest.mark.parametrize("use", [Record.unsettled, _last])
@pytest.mark.parametrize(
    "after",
    [
        "''",
        "'x'",
        "'5'",
        "'null'",
        "'[]'",
        "'[1]'",
        "'{\"x\": 1}'",
        '\'{"total_iops_sec": "1"}\'',
        "x'ff'",
    ],
)
def test_a_row_whose_limits_are_damaged_is_a_state_error_and_no_limit(
    record: Record, path: Path, after: str, use: Use
) -> None:
    ended(record, None if use is Record.unsettled else Verdict.DONE)
    do(path, f"UPDATE change SET after = {after}")
    with pytest.raises(StateError, match=str(path)):
        use(record)


@pytest.mark.parametrize(
    "damage", ['reason = \'{"code": "of tomorrow"}\'', "reason = '[]'", "reason = ''", "intended_at = 'once'"]
)
def test_a_last_change_whose_row_is_damaged_is_a_state_error(record: Record, path: Path, damage: str) -> None:
    ended(record, Verdict.DONE)
    do(path, f"UPDATE change SET {damage}")
    with pytest.raises(StateError, match=str(path)):
        record.last_in_force(DISK.key)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A record with an open change and one that is done; hypothesis' examples share its path."""
    path = tmp_path_factory.mktemp("record") / "record.sqlite"
    for verdict in (None, Verdict.DONE):
        ended(Record(path), verdict)
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
    for use in (_last, *WRITERS):
        with suppress(StateError):
            use(Record(path))
