"""What one refresh leaves for the next, and how long nobody is asked after failures."""

from __future__ import annotations

import fcntl
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.model import CatalogueError
from plimsoll_agent.store.refresh_state import (
    FIRST_PAUSE,
    LOCK,
    LONGEST_PAUSE,
    NAME,
    Calls,
    LastRegion,
    NovaFailures,
    RefreshDir,
    RefreshNotes,
    locked,
)
from plimsoll_agent.store.state import Busy

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def pause(notes: RefreshNotes) -> float:
    assert notes.until is not None
    return (notes.until - NOW).total_seconds()


def test_each_failure_doubles_the_pause_up_to_an_hour() -> None:
    notes, pauses = RefreshNotes(), []
    for _ in range(1100):
        notes = notes.failed(NOW, "down", chance=1)
        pauses.append(pause(notes))
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE == max(pauses)


def test_chance_keeps_nodes_apart_and_never_takes_more_than_half_of_the_pause() -> None:
    assert (
        pause(RefreshNotes(failures=3).failed(NOW, "down", 0))
        == pause(RefreshNotes(failures=3).failed(NOW, "down", 1)) / 2
    )


def test_no_service_is_asked_during_the_pause_and_one_after_it() -> None:
    notes = RefreshNotes().failed(NOW, "down", 1)
    assert notes.pausing(NOW)
    assert not notes.pausing(NOW + timedelta(seconds=FIRST_PAUSE))
    assert not notes.succeeded().pausing(NOW)
    assert notes.succeeded() == RefreshNotes(calls=Calls(good=1, failed=1))


def test_a_nova_that_fails_for_long_is_paused_for_and_counted_and_cinder_is_not_waited_for() -> None:
    notes, pauses = RefreshNotes(failures=3, until=NOW, trouble="Cinder: down"), []
    for _ in range(4):
        notes = notes.nova_failed(NOW, "Nova: down", 1)
        assert notes.nova.until is not None
        pauses.append((notes.nova.until - NOW).total_seconds())
        assert (notes.failures, notes.pausing(NOW), notes.nova.pausing(NOW)) == (0, False, True)
        notes = notes.cinder_read  # while Nova is not asked
    assert pauses == [FIRST_PAUSE * 2**number for number in range(4)]
    assert notes.most_failures == (4, "Nova: down")
    assert notes.calls == Calls(failed=4)
    cinders = notes.failed(NOW, "Cinder: down", 1)
    assert pause(cinders) == FIRST_PAUSE, "as long as after its first failure"
    assert cinders.most_failures == (4, "Nova: down")
    assert cinders.succeeded() == RefreshNotes(calls=Calls(good=1, failed=5))


def test_a_refresh_is_a_failure_only_once_it_is_known_to_be_interrupted(tmp_path: Path) -> None:
    directory = RefreshDir(tmp_path)
    before = RefreshNotes(failures=1, until=NOW, trouble="down", calls=Calls(good=9000, failed=40))
    directory.save_notes(before.beginning(NOW, 1))
    during = directory.load_notes()
    assert (during.most_failures, during.calls) == ((1, "down"), before.calls), "as passes publish them"
    assert before.succeeded().calls == Calls(good=9001, failed=40)
    next_one = during.ended
    assert (next_one.most_failures, next_one.calls.failed) == ((2, "the last refresh was interrupted"), 41)
    assert pause(next_one) == 2 * FIRST_PAUSE
    assert next_one.ended == next_one
    assert before.ended == before


def test_calls_add_up_over_refreshes_that_failed_and_those_that_did_not(tmp_path: Path) -> None:
    directory = RefreshDir(tmp_path)
    directory.save_notes(RefreshNotes().asked({"block-storage": 2}).failed(NOW, "down", 1))
    directory.save_notes(directory.load_notes().asked({"block-storage": 3, "compute": 1}).succeeded())
    assert directory.load_notes().calls == Calls(good=1, failed=1, of_service={"block-storage": 5, "compute": 1})


def test_notes_of_a_plimsoll_that_did_not_count_are_kept(tmp_path: Path) -> None:
    directory = RefreshDir(tmp_path)
    directory.save_notes(RefreshNotes().failed(NOW, "down", 1))
    path = tmp_path / "refresh.json"
    old = json.loads(path.read_text())
    del old["calls"], old["nova"], old["under_way"]
    path.write_text(json.dumps(old))
    assert directory.load_notes().trouble == "down"
    assert directory.load_notes().calls == Calls()


def test_a_clock_that_is_set_back_by_a_day_makes_no_pause_of_a_day() -> None:
    assert not RefreshNotes().failed(NOW, "down", 1).pausing(NOW - timedelta(days=1))


def test_notes_are_kept(tmp_path: Path) -> None:
    region = LastRegion(where="https://x/y", generation=5, digest="ab", etag='"e"', modified=None, asked=NOW)
    nova = NovaFailures(3, NOW, "Nova: down")
    notes = RefreshNotes(failures=2, until=NOW, trouble="down", nova=nova, region=region)
    directory = RefreshDir(tmp_path)
    directory.save_notes(notes)
    assert directory.load_notes() == notes


def test_counts_of_calls_are_all_there_or_not_read(tmp_path: Path) -> None:
    """A missing one is not zero."""
    directory = RefreshDir(tmp_path)
    directory.save_notes(RefreshNotes(calls=Calls(good=3, failed=2, of_service={})))
    path = tmp_path / NAME
    notes = json.loads(path.read_text())
    del notes["calls"]["failed"]
    path.write_text(json.dumps(notes))
    assert directory.load_notes() == RefreshNotes()


@pytest.mark.parametrize("content", ["", "{}", '{"version": 2}', '{"version": 1, "failures": -1}', "[" * 50_000])
def test_notes_that_cannot_be_read_prevent_no_refresh(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    assert RefreshDir(tmp_path).load_notes() == RefreshNotes()


def test_one_refreshes_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path / LOCK), pytest.raises(Busy), RefreshDir(tmp_path).locked():
        pass
    with locked(tmp_path / LOCK):
        assert (tmp_path / LOCK).stat().st_mode & 0o777 == 0o600


def test_a_refresh_of_a_release_before_begins_none_beside_this_one(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    with RefreshDir(tmp_path).locked(), pytest.raises(BlockingIOError):
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(directory)


def test_what_is_raised_while_it_is_held_is_not_taken_for_another_refresh(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), RefreshDir(tmp_path).locked():
        raise BlockingIOError


def test_a_directory_where_nothing_can_be_made_is_told(tmp_path: Path) -> None:
    said = r"absent/refresh\.lock: cannot be locked: No such file"
    with pytest.raises(CatalogueError, match=said), RefreshDir(tmp_path / "absent").locked():
        raise AssertionError("held")


@pytest.mark.parametrize(
    ("since", "wait"), [(0, 10), (3, 7), (9.5, 0.5), (10, 0), (3600, 0), (-1, 0)], ids=lambda seconds: f"{seconds} s"
)
def test_woken_refreshes_begin_ten_seconds_apart(since: float, wait: float) -> None:
    """A start in the future is of a clock that was set back: nobody waits for it."""
    assert RefreshNotes(begun=NOW - timedelta(seconds=since)).wait(NOW, 10) == wait


def test_without_a_woken_refresh_before_there_is_nothing_to_wait_for() -> None:
    assert RefreshNotes().wait(NOW, 10) == 0


def test_the_start_of_a_woken_refresh_is_kept_over_others(tmp_path: Path) -> None:
    directory = RefreshDir(tmp_path)
    directory.save_notes(RefreshNotes(begun=NOW).failed(NOW, "down", 1).asked({"a": 1}))
    assert directory.load_notes().begun == NOW
    assert directory.load_notes().succeeded().begun == NOW


def test_another_refresh_is_asked_for_by_a_file_and_where_there_can_be_none_nothing_fails(tmp_path: Path) -> None:
    RefreshDir(tmp_path).ask_again()
    assert (tmp_path / "again").exists()
    RefreshDir(tmp_path / "nowhere").ask_again()


def test_asking_for_another_refresh_follows_no_link(tmp_path: Path) -> None:
    """The directory is the refresher's, and a refresh may be root's."""
    (tmp_path / "again").symlink_to(tmp_path / "paused")
    RefreshDir(tmp_path).ask_again()
    assert not (tmp_path / "paused").exists()
