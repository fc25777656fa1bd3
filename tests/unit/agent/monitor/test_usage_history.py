"""What passes measured of disks, and what is left of it after a crash, at the end of the room, and of bad lines."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Rates, Used
from plimsoll_agent.monitor import usage_history
from plimsoll_agent.monitor.pass_summary import LastPass
from plimsoll_agent.monitor.usage_history import PastDisk, append, averages, most_used, passes
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util.frozen import replace
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name
from tests.unit.node import uuid_of
from tests.unit.values import NOON

RATES = Rates(
    read_iops=100.0, write_iops=50.25, read_bytes=4096.0, write_bytes=8192.0, seconds=300.0, latency=0.00812345
)


def a_pass(minutes: int = 0, number: int = 1) -> LastPass:
    used = a_last_disk(
        a_name(number),
        actual=Limits(read_iops_sec=200, write_iops_sec=100),
        rates=RATES,
        shares={"read_iops_sec": 0.5, "write_iops_sec": 0.502512},
    )
    return a_last_pass(used, a_last_disk(a_name(9)), looked=NOON + timedelta(minutes=minutes))


def test_a_pass_is_kept_with_four_digits_and_without_disks_of_which_nothing_is_known(tmp_path: Path) -> None:
    append(State(tmp_path), a_pass())
    (past,) = passes(State(tmp_path))
    used = PastDisk(
        operations=150.2,
        bytes=12290.0,
        latency=0.008123,
        limit="write_iops_sec",
        share=0.5025,
        allowed=100,
        rates=replace(RATES, latency=None),
    )
    assert (past.at, dict(past.disks)) == (NOON, {a_name(1).key: used})


def test_the_most_that_a_disk_used_is_the_highest_average_of_each_kind(tmp_path: Path) -> None:
    name, state = a_name(1), State(tmp_path)
    for iops, of_bytes in ((100.0, 7000.0), (300.0, 9000.0), (200.0, 4000.0)):
        append(
            state,
            a_last_pass(
                a_last_disk(
                    name,
                    rates=Rates(read_iops=iops, write_iops=0.0, read_bytes=0.0, write_bytes=of_bytes, seconds=300.0),
                ),
                looked=NOON,
            ),
        )
    append(state, a_pass(number=2))
    assert most_used(state) == {name.key: Used(300, 9000), a_name(2).key: Used(150.2, 12290)}


def test_a_guest_that_did_not_answer_is_kept_without_averages_of_any_other(tmp_path: Path) -> None:
    append(State(tmp_path), a_last_pass(hung_guests=frozenset({"u1"}), looked=NOON))
    (past,) = passes(State(tmp_path))
    assert (dict(past.disks), past.unanswered) == ({}, {"u1"})


def test_a_guest_that_a_person_paused_is_kept_with_the_averages_of_a_pass(tmp_path: Path) -> None:
    append(State(tmp_path), replace(a_pass(), paused_guests=frozenset({uuid_of(1), uuid_of(9)})))
    append(State(tmp_path), a_last_pass(paused_guests=frozenset({uuid_of(1)}), looked=NOON))
    (past,) = passes(State(tmp_path))
    assert (past.paused, past.unanswered) == ({uuid_of(1), uuid_of(9)}, set())


def test_a_line_of_before_unanswered_and_paused_guests_were_kept_is_read(tmp_path: Path) -> None:
    State(tmp_path).usage.write_text('{"at": 1795176000.0, "disks": {"a/b": [1.0, 2.0, null, null, null, null]}}\n')
    (past,) = passes(State(tmp_path))
    assert (list(past.disks), past.unanswered, past.paused) == (["a/b"], set(), set())
    assert averages(State(tmp_path), ["a/b"]) == {"a/b": []}


def test_averages_are_those_of_the_disks_that_are_asked_for_the_oldest_first(tmp_path: Path) -> None:
    state = State(tmp_path)
    for minutes, number in ((0, 1), (5, 2), (10, 1)):
        append(state, replace(a_pass(minutes, number)))
    key = a_name(1).key
    assert averages(state, [key, "never/seen"]) == {key: [replace(RATES, latency=None)] * 2, "never/seen": []}


@pytest.mark.parametrize(
    "rates", ["[]", "[[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]", "[[1, 2, 3, 4]]", "[[1, 2, -3, 4, 5]]"]
)
def test_rates_that_are_not_those_of_the_disks_beside_them_are_none(tmp_path: Path, rates: str) -> None:
    disks = '{"a/b": [1.0, 2.0, null, null, null, null]}'
    State(tmp_path).usage.write_text(f'{{"at": 1795176000.0, "disks": {disks}, "rates": {rates}}}\n')
    assert averages(State(tmp_path), ["a/b"]) == {"a/b": []}


def test_a_disk_without_limits_or_requests_is_kept_with_what_is_known(tmp_path: Path) -> None:
    rates = Rates(read_iops=0.0, write_iops=0.0, read_bytes=0.0, write_bytes=0.0, seconds=300.0)
    idle = a_last_disk(actual=None, rates=rates)
    append(State(tmp_path), a_last_pass(idle))
    (past,) = passes(State(tmp_path))
    assert dict(past.disks) == {
        a_name().key: PastDisk(
            operations=0.0,
            bytes=0.0,
            latency=None,
            limit=None,
            share=None,
            allowed=None,
            rates=rates,
        )
    }


@pytest.mark.parametrize("other", [{}, {"looked": None}])
def test_a_pass_without_averages_adds_nothing(tmp_path: Path, other: dict[str, object]) -> None:
    disks = [a_last_disk(rates=RATES)] if other else [a_last_disk()]
    append(State(tmp_path), a_last_pass(*disks, **other))
    assert list(tmp_path.iterdir()) == []


def test_a_full_file_takes_the_place_of_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(tmp_path)
    append(state, a_pass())
    monkeypatch.setattr(usage_history, "MOST_BYTES", 3 * state.usage.stat().st_size)
    for minute in range(1, 8):
        append(state, a_pass(minute))
    assert [(past.at - NOON) / timedelta(minutes=1) for past in passes(state)] == [3, 4, 5, 6, 7]
    assert max(path.stat().st_size for path in tmp_path.iterdir()) <= usage_history.MOST_BYTES


@pytest.mark.parametrize(
    "line",
    [
        b'{"at": 1, "dis',
        b"\xff",
        b"[]",
        b"{}",
        b'{"at": -1, "disks": {}}',
        b'{"at": 1e99, "disks": {}}',
        b'{"at": 1, "disks": {"a/b": [1]}}',
        b'{"at": 1, "disks": {"a/b": [NaN, 1, 1, "total_iops_sec", 1, 1]}}',
        b"[" * 100_000,
    ],
)
def test_a_line_that_cannot_be_read_is_left_out(tmp_path: Path, line: bytes) -> None:
    state = State(tmp_path)
    append(state, a_pass(0))
    with state.usage.open("ab") as file:
        file.write(line + b"\n")
    append(state, a_pass(5))
    assert [past.at for past in passes(state)] == [NOON, NOON + timedelta(minutes=5)]


def test_without_a_file_there_is_no_history_and_a_link_is_refused(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert list(passes(state)) == []
    state.usage.symlink_to("/etc/passwd")
    with pytest.raises(StateError, match=r"usage\.jsonl: cannot be read"):
        list(passes(state))
    with pytest.raises(StateError, match=r"usage\.jsonl: cannot be written"):
        append(state, a_pass())
