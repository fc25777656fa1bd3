"""``plimsoll record``: what a person may type, and what a reader is told of a record that grows."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from plimsoll_agent.app.record_follow import FollowedRecord
from plimsoll_agent.cli import server_column
from plimsoll_agent.cli.record import RecordList, selected
from plimsoll_agent.config import settings as config
from plimsoll_agent.errors import UsageError
from plimsoll_agent.messages.record import entry_data, entry_line, verified_lines
from plimsoll_agent.messages.serialize import disk_data
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import Conclusion, Ending, Entry, Event, Happening, RecordedChange, RecordedEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.store import record_query
from plimsoll_agent.store.node_store import Move
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection, Verified
from plimsoll_agent.store.retention import Retention
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.unit.lastpasses import a_last_disk, a_last_pass
from tests.unit.person import Person, Terminal
from tests.unit.values import NOON, VOLUME, a_disk, a_guest
from tests.unit.widths import WIDTHS, misfits, plain

LATER = NOON + timedelta(seconds=5)
DISK = a_disk()


def a_change(disk: Disk = DISK) -> Change:
    rule = because(Code.RULE, rule="gold")
    before, after = Limits(total_iops_sec=500), Limits(total_iops_sec=3000)
    return Change(
        disk=disk, before=before, after=after, direction=Direction.RAISE, reason=rule, cause=Code.DESIRED_CHANGED
    )


@pytest.fixture
def record(tmp_path: Path) -> Record:
    record = Record(tmp_path / "record.sqlite")
    record.intend([a_change()], NOON, "root")
    return record


# --- moments


def given(**options: object) -> argparse.Namespace:
    names = ("disk", "guest", "project", "since", "until", "reason", "result", "last")
    return argparse.Namespace(**(dict.fromkeys(names) | options))


@pytest.mark.parametrize(
    "text", ["soon", "2h ago", "-2h", "", "2026-13-01", "999999d", "0001-01-01T00:00+14:00", "5"]
)
def test_what_is_no_moment_is_a_usage_error_that_names_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--since"):
        selected(given(since=text), NOON)


@pytest.mark.parametrize("options", [{"since": "1h", "until": "2h"}, {"last": -1}])
def test_a_selection_of_nothing_is_a_usage_error(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        selected(given(**options), NOON)


# --- words


def only(entries: Iterable[Entry]) -> Entry:
    """The one that did not begin the record."""
    (entry,) = (e for e in entries if not (isinstance(e, RecordedEvent) and e.what is Happening.RECORD_STARTED))
    return entry


def test_a_change_is_a_line(record: Record) -> None:
    line = "2026-11-20 12:00:00 UTC  instance-00000001 vdb  500 → 3000 IOPS"
    assert entry_line(only(record_query.entries(record, Selection()))) == f'{line}   rule "gold"; under way   by root'
    record.conclude([Conclusion(1, Ending.REFUSED, "no\nsuch device")], LATER)
    refused = only(record_query.entries(record, Selection()))
    assert entry_line(refused) == f'{line}   rule "gold"; rejected (no?such device)   by root'
    exact = line.replace("500 → 3000 IOPS", "total_iops_sec 500 → 3000   ")
    assert entry_line(refused, exact=True).startswith(exact)
    assert entry_line(refused, concluded=True).startswith("2026-11-20 12:00:05 UTC  "), "when the result came"


def test_names_that_others_chose_cannot_make_a_line_of_their_own(tmp_path: Path) -> None:
    record = Record(tmp_path / "record.sqlite")
    evil = "x\n2026-11-20 12:00:00  \x1b[2J\u202e"
    record.intend([a_change(a_disk(a_guest(name=evil), target=evil))], NOON, evil)
    because_of = Event(
        at=NOON,
        by=evil,
        what=Happening.PAUSED,
        reason=because(Code.OPERATOR, why=evil),
        disk=a_disk(target=evil).named,
    )
    record.note([because_of])
    assert all(entry_line(entry).isprintable() for entry in record_query.entries(record, Selection()))


def test_a_reason_without_its_facts_is_shown_by_its_code(record: Record) -> None:
    change = only(record_query.entries(record, Selection()))
    assert isinstance(change, RecordedChange)
    assert "   rule; under way" in entry_line(replace(change, reason=Reason(Code.RULE)))


def test_every_kind_of_entry_and_every_result_has_words(record: Record) -> None:
    change = only(record_query.entries(record, Selection()))
    assert isinstance(change, RecordedChange)
    results = {entry_line(replace(change, result=result)) for result in (None, *Ending)}
    assert len(results) == len(Ending) + 1
    for what in Happening:
        event = RecordedEvent(id=2, at=NOON, by="ann", what=what, disk=None, reason=because(Code.OPERATOR, why="x"))
        assert "this node" in entry_line(event)
        assert entry_data(event)["what"] == what.value


def test_a_hold_that_moved_with_its_guest_is_told_apart(record: Record) -> None:
    hold = because(Code.HOLD, why="x", by="ann", until="2026-11-20T13:00:00+00:00")
    lines = {
        entry_line(
            RecordedEvent(
                id=2,
                at=NOON,
                by="root",
                what=Happening.HOLD_ENDED,
                disk=DISK.named,
                reason=replace(hold, facts=facts),
            )
        )
        for facts in (hold.facts, *({**hold.facts, "moved": move.value} for move in Move))
    }
    assert {line.partition("; ")[2].partition("   by ")[0] for line in lines} == {
        "",
        "came with its guest from another node",
        "guest left this node",
        "guest came back, its hold was ended or replaced on another node",
    }


def test_a_disk_has_the_names_that_the_report_of_a_pass_has(record: Record) -> None:
    entry, seen = entry_data(only(record_query.entries(record, Selection()))), disk_data(DISK)
    told = set(entry) & set(seen)
    assert told == {"guest", "guest_uuid", "project", "disk", "volume", "pool", "image"}
    assert {name: entry[name] for name in told} == {name: seen[name] for name in told}
    assert entry["key"] == DISK.key


def test_each_fault_is_a_line_and_comes_instead_of_the_sum() -> None:
    lines = [*verified_lines(Verified(changes=9, events=2, faults=("words", "others")))]
    assert lines == ["the file is damaged: words", "the file is damaged: others"]


# --- following


def told(following: FollowedRecord) -> list[tuple[int, str | None, bool]]:
    """Changes by id and result; True for a result that came later."""
    return [
        (entry.id, entry.result and entry.result.value, concluded)
        for entry, concluded in following.new()
        if isinstance(entry, RecordedChange)
    ]


def following(record: Record, selection: Selection | None = None, number: int = 10) -> FollowedRecord:
    follower = FollowedRecord(record, selection or Selection())
    list(follower.start(number))
    return follower


def test_what_comes_is_told_once(record: Record) -> None:
    follower = following(record)
    assert told(follower) == []
    record.intend([a_change(), a_change()], NOON, "root")
    assert told(follower) == [(2, None, False), (3, None, False)]
    assert told(follower) == []


@pytest.mark.parametrize("number", [0, 1, 10])
def test_a_result_is_shown_of_changes_of_before_whether_they_were_listed_or_not(record: Record, number: int) -> None:
    record.intend([a_change()], NOON, "root")
    follower = following(record, number=number)
    record.conclude([Conclusion(1, Ending.TIMED_OUT), Conclusion(2, Ending.DONE)], LATER)
    assert told(follower) == [(1, "timed-out", True), (2, "done", True)]
    record.conclude([Conclusion(1, Ending.TOOK)], LATER)
    assert told(follower) == [(1, "took", True)]
    assert told(follower) == []


def test_only_what_is_selected_is_followed_and_a_result_that_is_asked_for_is_found(record: Record) -> None:
    follower = following(record, Selection(guest="other", result="done"))
    record.intend([a_change(), a_change(a_disk(a_guest(name="other")))], NOON, "root")
    assert told(follower) == []
    record.conclude([Conclusion(id_, Ending.DONE) for id_ in (1, 2, 3)], LATER)
    assert told(follower) == [(3, "done", True)]


def test_a_record_that_is_set_aside_is_followed_on_in_the_new_one(record: Record, tmp_path: Path) -> None:
    record.intend([a_change()], NOON, "root")
    follower = following(record)
    record.set_aside(LATER, "root")
    (started,) = [entry for entry, _ in follower.new()]
    assert isinstance(started, RecordedEvent)
    record.intend([a_change()], LATER, "root")
    assert told(follower) == [(1, None, False)]
    (tmp_path / "record.sqlite").unlink()
    assert told(follower) == []
    record.intend([a_change()], LATER, "root")
    assert told(follower) == [(1, None, False)]


def test_entries_that_retention_removes_are_no_reason_to_begin_again(record: Record) -> None:
    record.note([Event(at=NOON, by="ann", what=Happening.PAUSED, reason=None)])
    record.intend([a_change()], NOON + timedelta(days=300), "root")
    follower = following(record)
    record.retain(Retention(), NOON + timedelta(days=400))
    assert record.since() == NOON
    assert list(follower.new()) == []
    record.note([Event(at=NOON + timedelta(days=400), by="ann", what=Happening.RESUMED, reason=None)])
    ((resumed, _),) = follower.new()
    assert isinstance(resumed, RecordedEvent)
    assert resumed.what is Happening.RESUMED


def test_a_record_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    record = Record(tmp_path / "record.sqlite")
    follower = following(record)
    assert told(follower) == []
    record.intend([a_change()], NOON, "root")
    assert told(follower) == [(1, None, False)]


# --- at a moment


class Shell(Person):
    """A person who asks the record of a node."""

    def __init__(self, directory: Path) -> None:
        self.record = Record(State(directory).record)
        self.directory = directory

    def at(self, moment: str, *words: str) -> int:
        settings = replace(config.load([], []), state_dir=self.directory)
        return self.types(RecordList, "--at", moment, *words, settings=settings)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    limits = [Limits(total_iops_sec=number) if number else Limits() for number in (0, 500, 9, 600, 700)]
    steps = [(0, 1, Ending.DONE), (2, 3, Ending.DONE), (3, 4, None)]
    for hour, (before, after, result) in enumerate(steps):
        change = replace(a_change(), before=limits[before], after=limits[after])
        (id_,) = shell.record.intend([change], NOON + timedelta(hours=hour), "root (ann)")
        if result is not None:
            shell.record.conclude([Conclusion(id_, result)], NOON + timedelta(hours=hour))
    return shell


def test_what_was_actual_is_told_with_its_change_and_what_is_unknown(shell: Shell) -> None:
    name = f"instance-00000001 vdb ({VOLUME})"
    first = f'{name}  500 IOPS   since 2026-11-20 12:00:00 UTC: rule "gold"   by root (ann) (change 1)'
    assert shell.at("2026-11-20T12:30", VOLUME) == 0
    assert shell.out.splitlines() == [first, "  external change to 9 IOPS before 2026-11-20 13:00:00 UTC (change 2)"]
    assert shell.at("2026-11-20T15:00", "instance-00000001", "vdb") == 0
    assert shell.out.splitlines() == [
        f'{name}  600 IOPS   since 2026-11-20 13:00:00 UTC: rule "gold"   by root (ann) (change 2)',
        "  or already 700 IOPS: change 3 of 2026-11-20 14:00:00 UTC by root (ann), result unknown yet",
    ]
    assert shell.at("2026-11-20T11:00", VOLUME) == 0
    assert shell.out.splitlines() == [
        f"{name}  unknown: no change recorded up to then",
        "  the first change found unlimited before 2026-11-20 12:00:00 UTC (change 1)",
    ]


def test_programs_get_the_change_itself(shell: Shell) -> None:
    assert shell.at("2026-11-20T15:00", VOLUME, "-f", "json") == 0
    (told,) = json.loads(shell.out)
    assert (told["at"], told["volume"]) == ("2026-11-20T15:00:00+00:00", VOLUME)
    assert told["limits"] == {"total_iops_sec": 600}
    assert (told["change"]["id"], told["change"]["by"]) == (2, "root (ann)")
    assert (told["unsure"]["id"], told["unsure_until"], told["found_next"]) == (3, None, None)
    assert shell.at("2026-11-20T15:00", VOLUME, "-f", "yaml") == 0
    assert yaml.safe_load(shell.out) == [told]


@pytest.mark.parametrize(
    ("moment", "words", "said"),
    [
        ("2999-01-01", [VOLUME], "is in the future"),
        ("soon", [VOLUME], "is not a time"),
        ("2026-11-20T15:00", [], "needs a disk"),
        ("2026-11-20T15:00", ["a", "b", "c"], "needs a disk"),
        ("2026-11-20T15:00", ["instance-7", "vdb"], "no change of a disk 'instance-7 vdb'"),
        ("2026-11-19T15:00", [VOLUME], "the record starts at 2026-11-20 13:00:00 UTC"),
    ],
)
def test_what_the_record_cannot_answer_is_64(
    shell: Shell, moment: str, words: list[str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    if "starts" in said:
        shell.record.retain(Retention(keep_days=1), NOON + timedelta(days=1, hours=1, minutes=30))
    assert shell.at(moment, *words) == 64
    assert said in caplog.text


def refused(record: Record, number: int) -> None:
    """So many changes that libvirt refuses for the same reason."""
    detail = "invalid argument: total_bytes_sec cannot be set higher than total_bytes_sec_max"
    for each in range(number):
        guest = a_guest(name=f"instance-{each:08x}", uuid=f"{each:08x}-0000-4000-8000-000000000000")
        (id_,) = record.intend([a_change(a_disk(guest))], NOON, "plimsoll-enforce.service")
        record.conclude([Conclusion(id_, Ending.REFUSED, detail)], LATER)


def listed(directory: Path, *words: str, stdout: io.StringIO | None = None) -> str:
    person = Person()
    settings = replace(config.load([], []), state_dir=directory)
    person.types(RecordList, *words, settings=settings, stdout=stdout)
    return person.out


@pytest.mark.parametrize("width", WIDTHS)
def test_on_a_terminal_each_entry_is_a_row_and_a_reason_of_many_is_told_once(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    refused(record, 40)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    page, pipe = listed(tmp_path, stdout=Terminal()), listed(tmp_path)
    assert page.count("\x1b[1;31mrejected") == 40
    assert misfits(page, pipe, width) == []
    assert len(pipe.splitlines()) == 1 + 42, "the head, the start of the record and 41 changes"
    assert len(page.splitlines()) <= 42 + 10
    assert "\n".join(plain(page)).count("total_bytes_sec_max") == 1
    assert all(f"instance-{number:08x}" in page for number in range(40))


def test_the_list_has_the_formats_and_columns_of_every_list(record: Record, tmp_path: Path) -> None:
    refused(record, 2)
    (start, gold, *others) = json.loads(listed(tmp_path, "-f", "json"))
    assert (start["what"], gold["kind"], [each["result"] for each in others]) == (
        "record-started",
        "change",
        ["refused", "refused"],
    )
    assert yaml.safe_load(listed(tmp_path, "-f", "yaml")) == [start, gold, *others]
    rows = list(csv.DictReader(io.StringIO(listed(tmp_path, "-f", "csv"))))
    assert [(row["at"], row["before"], row["after"], row["result"]) for row in rows[1:3]] == [
        (NOON.isoformat(), "total_iops_sec=500", "total_iops_sec=3000", ""),
        (NOON.isoformat(), "total_iops_sec=500", "total_iops_sec=3000", "refused"),
    ]
    assert listed(tmp_path, "-f", "value", "-c", "guest", "-c", "disk").splitlines()[-1] == "instance-00000001 vdb"
    chosen = json.loads(listed(tmp_path, "-f", "json", "-c", "result", "--sort-column", "result"))
    assert chosen == [{"result": "refused"}, {"result": "refused"}, {}, {"result": None}], "unknown is last"
    assert listed(tmp_path, "-c", "guest", "-c", "change").splitlines()[-1] == "instance-00000001  500 → 3000 IOPS"


def test_a_guest_that_is_unknown_here_is_told_as_such(record: Record, tmp_path: Path) -> None:
    words = "No guest web-1 in the record or the last pass; names of servers that left are unknown here."
    person, settings = Person(), replace(config.load([], []), state_dir=tmp_path)
    assert person.types(RecordList, "--guest", "web-1", settings=settings) == 0
    assert (person.out, person.err) == (f"{words}\n", "")
    assert person.types(RecordList, "--guest", "web-1", "-f", "json", settings=settings) == 0
    assert (person.out, person.err) == ("[]\n", f"{words}\n")
    for known in (DISK.guest.name, DISK.guest.uuid.upper()):
        assert person.types(RecordList, "--guest", known, "--until", "2020-01-01", settings=settings) == 0
        assert person.out == "No such entries; plimsoll record lists the last ones.\n"
    pass_summary_file.save(State(tmp_path), a_last_pass(a_last_disk(server="web-1")))
    assert person.types(RecordList, "--guest", "web-1", "--until", "2020-01-01", settings=settings) == 0
    assert person.out == "No such entries; plimsoll record lists the last ones.\n"


@pytest.mark.parametrize("mode", [["--verify"], ["--follow"], ["--at", "2026-11-20T12:30", VOLUME]], ids=" ".join)
def test_what_is_no_list_has_no_csv(record: Record, tmp_path: Path, mode: list[str]) -> None:
    settings = replace(config.load([], []), state_dir=tmp_path)
    assert Person().types(RecordList, *mode, "-f", "csv", settings=settings) == 64


@pytest.mark.parametrize(
    ("form", "number"), [("table", 3000), ("json", 300), ("yaml", 300), ("csv", 3000), ("value", 3000)]
)
def test_all_entries_are_written_as_they_are_read(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, number: int
) -> None:
    """Or a record of a million entries would be in memory."""
    pipe, [entry, *_] = io.StringIO(), list(record_query.entries(record, Selection()))
    written = 0

    def many(*_: object) -> Iterator[Entry]:
        nonlocal written
        for _ in range(number):
            yield entry
        written = pipe.tell()

    monkeypatch.setattr(record_query, "entries", many)
    assert "\n" in listed(tmp_path, "--last", "0", "-f", form, stdout=pipe)
    assert written > 0.5 * pipe.tell()


def test_the_last_pass_is_read_once_a_round_for_guests_that_it_does_not_have(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, reads = iter([3, 0, 2]), list[State]()

    def names(state: State, _: object) -> dict[str, str | None]:
        reads.append(state)
        return {}

    def wait(_: RecordList) -> bool:
        number = next(rounds, None)
        record.intend([a_change()] * (number or 0), LATER, "root")
        return number is not None

    monkeypatch.setattr(server_column, "names_of", names)
    monkeypatch.setattr(RecordList, "_wait", wait)
    person = Person()
    settings = replace(config.load([], []), state_dir=tmp_path)
    assert person.types(RecordList, "--follow", "-f", "json", settings=settings) == 0
    assert len(person.out.splitlines()) == 2 + 3 + 2, "the start of the record, a change, and two rounds"
    assert len(reads) == 1 + 2, "at its start, and in the rounds with changes"
