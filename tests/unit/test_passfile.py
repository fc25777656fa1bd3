"""The file of the last pass: all of it comes back, and a damaged one is a clear error, with nothing made up."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll_agent import passfile
from plimsoll_agent.disk import DiskName
from plimsoll_agent.hypervisor import BlockStats, GuestRef
from plimsoll_agent.lastpass import Grade, LastCatalogue, LastDisk, LastPass, Totals
from plimsoll_agent.outcome import Kind, Overlooked
from plimsoll_agent.reason import Code, Reason
from plimsoll_agent.refreshdir import Calls
from plimsoll_agent.state import CorruptState, State, StateError
from plimsoll_agent.usage import Rates, Reading
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_varied_pass
from tests.unit.values import examples, examples_of, possible_limits

DEEP = sys.getrecursionlimit()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    """The examples share it."""
    return State(tmp_path_factory.mktemp("state"), boot="b1")


@pytest.fixture(scope="module")
def whole(state: State) -> dict[str, Any]:
    """A pass as it is written."""
    passfile.save(state, a_varied_pass())
    value: dict[str, Any] = json.loads(state.last_pass.read_text())
    return value


# --- what is written comes back

texts = st.text(max_size=12)
counts = st.integers(0, 2**63)
numbers = st.floats(0, 1e18)
offsets = st.sampled_from([UTC, timezone(timedelta(hours=9)), timezone(timedelta(minutes=-210))])
times = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=offsets)
facts = st.dictionaries(texts.filter(lambda name: name != "code"), texts | st.integers() | st.none(), max_size=2)
reasons = st.builds(Reason, st.sampled_from(Code), facts)
shares = st.dictionaries(texts, numbers, max_size=2)


@st.composite
def names(draw: st.DrawFn) -> DiskName:
    uuid = draw(texts.filter(lambda text: "/" not in text))
    others = [draw(st.none() | texts), draw(texts), draw(texts), draw(texts), draw(st.none() | texts)]
    return DiskName(f"{uuid}/{draw(texts)}", uuid, draw(texts), *others)  # type: ignore[arg-type]


disks = st.builds(
    LastDisk,
    named=names(),
    volume_type=st.none() | texts,
    flavor=st.none() | texts,
    cluster=st.none() | texts,
    kind=st.sampled_from(Kind),
    reason=reasons,
    in_force=st.none() | possible_limits(),
    wanted=st.none() | possible_limits(),
    drifted=st.booleans(),
    corrected=counts,
    attachment=texts,
    reading=st.none() | st.builds(Reading, numbers, st.builds(BlockStats, counts, counts, counts, counts)),
    rates=st.none() | st.builds(Rates, numbers, numbers, numbers, numbers, numbers),
    shares=shares,
    allowed=shares,
)
passes = st.builds(
    LastPass,
    version=texts,
    boot=texts,
    started=times,
    ended=times,
    grade=st.sampled_from(Grade),
    enforcing=st.booleans(),
    trouble=texts,
    looked=st.none() | times,
    last_good=st.none() | times,
    phases=shares,
    interval=st.none() | numbers,
    disks=st.lists(disks, max_size=3).map(tuple),
    overlooked=st.lists(st.builds(Overlooked, st.builds(GuestRef, texts, texts), reasons), max_size=2).map(tuple),
    guests=counts,
    notes=st.lists(reasons, max_size=2).map(tuple),
    paused=st.none() | reasons,
    braked=st.none() | texts,
    braked_disks=counts,
    holds=counts,
    sources=st.dictionaries(texts, st.booleans(), max_size=4),
    catalogue=st.none() | st.builds(LastCatalogue, st.none() | times, texts, counts),
    calls=st.builds(Calls, counts, counts, st.dictionaries(texts, counts, max_size=2)),
    busy=counts,
    totals=st.builds(
        Totals,
        st.dictionaries(st.sampled_from(Grade), counts),
        st.dictionaries(st.sampled_from(Kind), counts),
        st.dictionaries(texts, counts, max_size=2),
    ),
)


@examples_of(100)  # each waits for the disk
@given(last=passes)
@example(last=a_varied_pass())
def test_all_of_a_pass_comes_back(state: State, last: LastPass) -> None:
    passfile.save(state, last)
    assert passfile.load(state) == last


def test_before_the_first_pass_there_is_none(tmp_path: Path) -> None:
    assert passfile.load(State(tmp_path)) is None


def test_others_than_the_group_do_not_read_what_tenants_have(tmp_path: Path) -> None:
    passfile.save(State(tmp_path), a_varied_pass())
    assert State(tmp_path).last_pass.stat().st_mode & 0o777 == 0o640


def test_a_disk_is_a_line_so_that_a_person_can_search_the_file(tmp_path: Path) -> None:
    last = a_varied_pass()
    passfile.save(State(tmp_path), last)
    lines = State(tmp_path).last_pass.read_text().splitlines()
    for disk in last.disks:
        assert len([line for line in lines if f'"{disk.named.guest_uuid}"' in line and disk.kind in line]) == 1


def test_where_nothing_can_be_written_one_line_says_which_file(tmp_path: Path) -> None:
    gone = State(tmp_path / "gone")
    with pytest.raises(StateError, match=r"pass\.json: cannot be written: No such file") as raised:
        passfile.save(gone, a_last_pass())
    assert "\n" not in str(raised.value)


# --- what is not a pass


def read(state: State, content: bytes) -> LastPass | None:
    """What it is read as; None for a ``StateError``. All else passes through."""
    state.last_pass.write_bytes(content)
    try:
        return passfile.load(state)
    except StateError as error:
        complaint = str(error)
    assert complaint.startswith(f"{state.last_pass}: "), "it names the file"
    assert len(complaint) < 1000, "and does not repeat it"
    assert complaint.isprintable(), "nor shows what a terminal would obey"
    return None


def judge(content: bytes, last: LastPass | None) -> None:
    """Whatever is read of limits stands in the file as it is."""
    if last is None:
        return
    written = json.loads(content)
    assert len(last.disks) == len(written["disks"])
    for disk, of_file in zip(last.disks, written["disks"], strict=True):
        assert disk.kind == of_file["kind"]
        for limits, said in ((disk.in_force, of_file["in_force"]), (disk.wanted, of_file["wanted"])):
            assert (limits is None) == (said is None), "unknown is not unlimited"
            assert limits is None or set(limits.in_effect()) <= set(said)


def test_a_file_of_another_version_is_refused_with_what_becomes_of_it(state: State, whole: dict[str, Any]) -> None:
    state.last_pass.write_text(json.dumps(whole | {"version": 2}))
    with pytest.raises(StateError, match=r"version 2, known is 1.*the next pass writes it anew") as raised:
        passfile.load(state)
    assert not isinstance(raised.value, CorruptState), "it is a good one, for whom it was written"


def test_a_damaged_file_is_called_corrupt(state: State) -> None:
    state.last_pass.write_text("{")
    with pytest.raises(CorruptState, match=r"pass\.json: is corrupt"):
        passfile.load(state)


def test_a_file_without_end_is_not_read_to_its_end(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    passfile.save(state, a_last_pass(a_last_disk()))
    assert passfile.load(state) is not None
    monkeypatch.setattr(passfile, "MOST_BYTES", state.last_pass.stat().st_size - 5)
    with pytest.raises(CorruptState):
        passfile.load(state)


def test_a_pipe_in_its_place_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(State(tmp_path).last_pass)
    with pytest.raises(StateError, match="no regular file"):
        passfile.load(State(tmp_path))


def test_limits_that_qemu_would_refuse_make_the_file_corrupt(state: State, whole: dict[str, Any]) -> None:
    impossible = {"total_iops_sec": 5, "read_iops_sec": 5}
    content = replaced(whole, ("disks", 0, "in_force"), json.dumps(impossible))
    assert read(state, content) is None


# --- ways to damage it

Place = tuple[str | int, ...]
RAW = [
    "null", "true", "-1", "0", "1", "1e999", "-1e999", "NaN", "Infinity", "250.5", "1" + "0" * 400, "9" * 5000,
    '""', '"\\ud800"', '"\\u001b[2J"', f'"{"x" * 5000}"', '"good"', '"2026-11-20T12:00:00"',
    '"0001-01-01T00:00:00+23:59"', "[]", "{}", "[[]]", '{"total_iops_sec": []}', '{"code": []}', '{"code": "rule"}',
]  # fmt: skip
deep = st.builds(
    lambda depth, pair: pair[0] * depth + "1" + pair[1] * depth,
    st.integers(DEEP - 300, DEEP + 10) | st.integers(1, 50) | st.just(100_000),
    st.sampled_from([("[", "]"), ('{"a":', "}")]),
)


def places(value: object, at: Place = ()) -> Iterator[Place]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield (*at, name)
        yield from places(inner, (*at, name))


def replaced(whole: dict[str, Any], place: Place, text: str) -> bytes:
    """The file with the value at that place replaced by a text, which need not be JSON."""
    copy = json.loads(json.dumps(whole))
    inside = copy
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = "@here@"
    return json.dumps(copy).replace('"@here@"', text).encode("utf-8", "surrogatepass")


@examples
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(content=b"")
@example(content=b"[" * 100_000)
@example(content=b'{"version":' * 100_000)
def test_any_bytes(state: State, content: bytes) -> None:
    judge(content, read(state, content))


@examples_of(300)
@given(data=st.data())
def test_bytes_changed(state: State, whole: dict[str, Any], data: st.DataObject) -> None:
    content = bytearray(json.dumps(whole).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    judge(bytes(content), read(state, bytes(content)))


@examples
@given(data=st.data())
def test_a_file_that_was_cut_off_is_read_as_nothing(state: State, whole: dict[str, Any], data: st.DataObject) -> None:
    content = json.dumps(whole).encode()
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    assert read(state, cut) is None
    assert read(state, cut + b"\0" * (len(content) - len(cut))) is None, "as XFS may leave it after a power cut"


@examples_of(300)
@given(data=st.data(), text=st.sampled_from(RAW) | deep)
def test_parts_replaced(state: State, whole: dict[str, Any], data: st.DataObject, text: str) -> None:
    content = replaced(whole, data.draw(st.sampled_from([*places(whole)])), text)
    judge(content, read(state, content))


@pytest.mark.slow  # some of each are tried above
@pytest.mark.parametrize("text", RAW, ids=lambda text: text[:12])
def test_each_part_replaced_by_each_oddity(state: State, whole: dict[str, Any], text: str) -> None:
    for place in places(whole):
        content = replaced(whole, place, text)
        judge(content, read(state, content))


def test_each_part_left_out_makes_the_file_corrupt_or_is_a_plain_fact(state: State, whole: dict[str, Any]) -> None:
    for name in whole:
        assert read(state, json.dumps({key: whole[key] for key in whole if key != name}).encode()) is None


@examples_of(60)  # each waits for the disk
@given(data=st.data(), text=st.sampled_from(RAW) | deep)
def test_what_is_read_of_a_damaged_file_can_be_written_again(
    state: State, whole: dict[str, Any], data: st.DataObject, text: str
) -> None:
    last = read(state, replaced(whole, data.draw(st.sampled_from([*places(whole)])), text))
    if last is not None:
        passfile.save(state, last)
        assert passfile.load(state) == last
