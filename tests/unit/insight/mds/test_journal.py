"""The record of changes to file systems: what is open, after an end at any moment."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from plimsoll_insight.mds.journal import FileSystemJournal, FileSystemJournalError
from plimsoll_insight.mds.settings import CephSetting, Name, SettingStep

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)
OFF = SettingStep(CephSetting(Name.INTERVAL, "mds"), None, "0")
PIN = SettingStep(CephSetting(Name.PIN, "/a"), "-1", "2")


def test_what_was_begun_is_open_in_its_order_until_it_is_undone_and_only_for_its_file_system(tmp_path: Path) -> None:
    path = tmp_path / "record"
    journal, other = FileSystemJournal(path, "fsid", "one"), FileSystemJournal(path, "fsid", "two")
    first = journal.begin(OFF, NOW, "root (anna)")
    other.begin(PIN, NOW, "root")
    second = journal.begin(PIN, NOW, "root")  # it was killed before it was done
    journal.done(first, NOW, "root (anna)")
    assert [(each.number, each.step, each.by) for each in journal.open_steps()] == [
        (first, OFF, "root (anna)"),
        (second, PIN, "root"),
    ]
    journal.undone(first, NOW, "root")
    assert [each.step for each in journal.open_steps()] == [PIN]
    assert [each.step for each in other.open_steps()] == [PIN]
    assert FileSystemJournal(path, "another", "one").open_steps() == []


def test_a_line_that_was_cut_off_is_of_nothing_done_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "record"
    journal = FileSystemJournal(path, "fsid", "one")
    journal.begin(OFF, NOW, "root")
    whole = path.read_bytes()
    for length in range(1, len(whole)):
        path.write_bytes(whole + whole[:length])
        assert [each.step for each in journal.open_steps()] == [OFF]
        assert journal.begin(PIN, NOW, "root") == 1
        assert [each.step for each in journal.open_steps()] == [OFF, PIN]


def test_a_line_in_the_middle_that_lost_its_end_is_refused_since_it_may_be_open(tmp_path: Path) -> None:
    path = tmp_path / "record"
    journal = FileSystemJournal(path, "fsid", "one")
    for step in (OFF, PIN):
        journal.begin(step, NOW, "root")
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(first[:-5] + b"\n" + rest)
    with pytest.raises(FileSystemJournalError, match=r"record:1: is corrupt"):
        journal.open_steps()


def test_a_record_that_is_too_long_is_refused_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record"
    journal = FileSystemJournal(path, "fsid", "one")
    journal.begin(OFF, NOW, "root")
    journal.begin(PIN, NOW, "root")
    whole = path.read_bytes()
    monkeypatch.setattr("plimsoll_insight.mds.journal._MOST", len(whole) - 1)
    journal = FileSystemJournal(path, "fsid", "one")
    for use in (journal.open_steps, lambda: journal.begin(PIN, NOW, "root")):
        with pytest.raises(FileSystemJournalError, match=r"record: is larger than "):
            use()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("line", [b"rubbish\n", b'{"version": 2}\n', b'{"version": 1, "begin": {}}\n', b"[]\n"])
def test_a_line_that_is_not_understood_ends_it_since_it_may_be_open(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "record"
    FileSystemJournal(path, "fsid", "one").begin(OFF, NOW, "root")
    of_it = line.replace(b'"begin"', b'"fsid": "fsid", "file_system": "one", "at": "2026-11-30", "by": "x", "begin"')
    path.write_bytes(path.read_bytes() + of_it)
    with pytest.raises(FileSystemJournalError, match=r"record:2: is corrupt: "):
        FileSystemJournal(path, "fsid", "one").open_steps()
