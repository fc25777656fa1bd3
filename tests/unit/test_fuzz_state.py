"""Damaged state files: what was written there, or a clear error; never a crash, a hang, or limits made up."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll_agent.approvals import Approval
from plimsoll_agent.decide import Remembered
from plimsoll_agent.holds import Hold
from plimsoll_agent.limits import PARAMETERS, Limits
from plimsoll_agent.state import Given, Memory, State, StateError
from tests.unit.values import NOON, a_disk, examples, examples_of

TIGHT = Limits(total_iops_sec=250, total_iops_sec_max=500, total_iops_sec_max_length=30, total_bytes_sec=104857600)
DISK = a_disk()
OTHER = a_disk(volume_id=None, image="disk", pool="vms")
THEIRS = Remembered(
    TIGHT,
    NOON,
    NOON,
    Limits(read_iops_sec=9, group_name="g"),
    "3:2:volumes/v",
    Limits(write_iops_sec=7),
    True,
    3,
    NOON,
    kept=True,
    by_type="gold",
    by_rules=("night",),
    revision="a1b2c3",
)
MEMORY = Memory(
    {DISK.key: THEIRS, OTHER.key: replace(THEIRS, wanted=None, put=None, returns=None, fought=0, fought_at=None)},
    {
        DISK.key: Hold(DISK.named, TIGHT, NOON, NOON + timedelta(hours=2), "root (ann)", "a restore"),
        OTHER.key: Hold(OTHER.named, None, NOON, NOON + timedelta(hours=2), "root", "left alone"),
    },
)
WANTED_IN_VERSION_1 = {"wanted", "since", "seen", "put", "attachment"}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    """The examples share it."""
    return State(tmp_path_factory.mktemp("state"), boot="b1")


@pytest.fixture(scope="module")
def whole(state: State) -> Mapping[str, Any]:
    """A memory in each of its versions, and an approval, as they are written."""
    state.save_memory(MEMORY)
    fourth = json.loads(state.memory.read_text())
    third = {
        "version": 3,
        "boot": fourth["boot"],
        "disks": {
            key: {name: part for name, part in entry.items() if name not in ("by_rules", "revision")}
            for key, entry in fourth["disks"].items()
        },
        "holds": fourth["holds"],
    }
    second = third | {
        "version": 2,
        "disks": {
            key: {name: part for name, part in entry.items() if name != "by_type"}
            for key, entry in third["disks"].items()
        },
    }
    disks = {
        key: {name: part for name, part in entry.items() if name in WANTED_IN_VERSION_1}
        for key, entry in second["disks"].items()
    }
    state.save_approvals([Given(Approval("a1b2c3d4e5f60718", remove=True), "root (ann)", NOON)])
    return {
        "version 4": fourth,
        "version 3": third,
        "version 2": second,
        "version 1": {"version": 1, "boot": "b1", "disks": disks},
        "approval": json.loads(state.approval.read_text()),
    }


Outcome = Memory | tuple[Given, ...] | None


def read(state: State, content: bytes, *, approval: bool = False) -> Outcome:
    """What it is read as; None for a ``StateError``, of which ``CorruptState`` is one. Others pass through."""
    path = state.approval if approval else state.memory
    path.write_bytes(content)
    try:
        return state.load_approvals() if approval else state.load_memory()
    except StateError as error:
        complaint = str(error)
    finally:
        path.unlink()
    assert complaint.startswith(f"{path}: "), "it names the file"
    assert len(complaint) < 10_000, "and does not repeat it"
    return None


def judge(content: bytes, outcome: Outcome) -> None:
    """Whatever is read stands in the file as it is."""
    if outcome is None:
        return
    written = json.loads(content)
    if isinstance(outcome, tuple):
        approvals = [(given.approval.digest, given.approval.remove, given.by) for given in outcome]
        assert approvals == [(each["digest"], each["remove"], each["by"]) for each in written.get("approvals", [])]
        return
    assert outcome.judged == written.get("judged")
    assert outcome.recent.keys() == written.get("recent", {}).keys()
    for key, remembered in outcome.disks.items():
        for part in ("wanted", "put", "returns"):
            _same(getattr(remembered, part), written["disks"][key].get(part))
        assert remembered.theirs is written["disks"][key].get("theirs", False)
        assert remembered.by_type == written["disks"][key].get("by_type")
        assert remembered.by_rules == tuple(written["disks"][key].get("by_rules", ()))
        assert remembered.revision == written["disks"][key].get("revision")
    for key, hold in outcome.holds.items():
        assert hold.disk.key == key
        _same(hold.limits, written["holds"][key]["limits"])


def _same(limits: Limits | None, written: Any) -> None:
    if limits is None:
        assert written is None
        return
    lengths = {parameter.name for parameter in PARAMETERS if parameter.role == "length"}
    said = {name: value for name, value in written.items() if value not in ({0, 1} if name in lengths else {0, None})}
    assert limits.in_effect() == said


# --- ways to damage a file

DEEP = sys.getrecursionlimit()
RAW = [
    "null", "true", "-1", "0", "1", "1e999", "-1e999", "NaN", "250.0", "1" + "0" * 15, "1" + "0" * 4299, "9" * 5000,
    '""', '"\\ud800"', '"total_iops_sec"', '"2026-11-20T12:00:00Z"', '"0001-01-01T00:00:00+23:59"', "[]", "{}",
    '{"total_iops_sec": 0}', '{"total_iops_sec": 999999}', '{"total_iops_sec": [[]]}',
]  # fmt: skip
deep = st.builds(
    lambda depth, pair: pair[0] * depth + "1" + pair[1] * depth,
    st.integers(DEEP - 300, DEEP + 10) | st.integers(1, 50) | st.just(100_000),
    st.sampled_from([("[", "]"), ('{"a":', "}")]),
)
raw = st.sampled_from(RAW) | deep


def places(value: object, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*at, name)
            yield from places(inner, (*at, name))


def replaced(envelope: Mapping[str, Any], place: tuple[str, ...], text: str) -> bytes:
    """The file with the value at that place replaced by a text, which need not be JSON."""
    copy = json.loads(json.dumps(envelope))
    inside = copy
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = "@here@"
    return json.dumps(copy, indent=1).replace('"@here@"', text).encode("utf-8", "surrogatepass")


KINDS = pytest.mark.parametrize("kind", ["version 4", "version 3", "version 2", "version 1", "approval"])


@KINDS
@examples
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(content=b"")
@example(content=b"[" * 100_000)
@example(content=b'{"version":' * 100_000)
def test_any_bytes(state: State, kind: str, content: bytes) -> None:
    judge(content, read(state, content, approval=kind == "approval"))


@KINDS
@examples_of(300)
@given(data=st.data())
def test_bytes_changed(state: State, whole: Mapping[str, Any], kind: str, data: st.DataObject) -> None:
    content = bytearray(json.dumps(whole[kind], indent=1).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    judge(bytes(content), read(state, bytes(content), approval=kind == "approval"))


@KINDS
@examples
@given(data=st.data())
def test_a_file_that_was_cut_off_is_read_as_nothing(
    state: State, whole: Mapping[str, Any], kind: str, data: st.DataObject
) -> None:
    content = json.dumps(whole[kind], indent=1).encode()
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    assert read(state, cut, approval=kind == "approval") is None
    zeros = cut + b"\0" * (len(content) - len(cut))  # as XFS may leave it after a power cut
    assert read(state, zeros, approval=kind == "approval") is None


@KINDS
@examples
@given(data=st.data())
def test_stretches_lost_doubled_or_swapped(
    state: State, whole: Mapping[str, Any], kind: str, data: st.DataObject
) -> None:
    content = json.dumps(whole[kind], indent=1).encode()
    a, b, c = sorted(data.draw(st.tuples(*[st.integers(0, len(content))] * 3)))
    first, second = content[a:b], content[b:c]
    damaged = content[:a] + data.draw(st.sampled_from([first, first * 2 + second, second + first])) + content[c:]
    judge(damaged, read(state, damaged, approval=kind == "approval"))


@KINDS
@examples_of(300)
@given(data=st.data(), text=raw)
def test_parts_replaced(state: State, whole: Mapping[str, Any], kind: str, data: st.DataObject, text: str) -> None:
    place = data.draw(st.sampled_from([*places(whole[kind])]))
    content = replaced(whole[kind], place, text)
    judge(content, read(state, content, approval=kind == "approval"))


@pytest.mark.slow  # some of each are tried above
@pytest.mark.parametrize("text", RAW, ids=lambda text: text[:12])
@KINDS
def test_each_part_replaced_by_each_oddity(state: State, whole: Mapping[str, Any], kind: str, text: str) -> None:
    for place in places(whole[kind]):
        content = replaced(whole[kind], place, text)
        judge(content, read(state, content, approval=kind == "approval"))


@pytest.mark.parametrize(
    "part",
    ["wanted", *(pytest.param(name, marks=pytest.mark.slow) for name in ("since", "attachment", "fought", "theirs"))],
)
def test_what_json_can_just_read_is_not_too_deep_to_complain_about(
    state: State, whole: Mapping[str, Any], part: str
) -> None:
    for depth in range(DEEP - 200, DEEP + 2):
        inside = (
            f'{{"total_iops_sec": {"[" * depth}{"]" * depth}}}' if part == "wanted" else "[" * depth + "]" * depth
        )
        content = replaced(whole["version 3"], ("disks", DISK.key, part), inside)
        outcome = read(state, content)
        assert outcome is None or (isinstance(outcome, Memory) and DISK.key not in outcome.disks)


@examples_of(60)  # each waits for the disk
@given(data=st.data(), text=st.sampled_from(RAW))
def test_what_is_read_of_a_damaged_memory_can_be_written_again(
    tmp_path_factory: pytest.TempPathFactory, whole: Mapping[str, Any], data: st.DataObject, text: str
) -> None:
    directory: Path = tmp_path_factory.getbasetemp()
    again = State(directory, boot="b1")
    content = replaced(whole["version 3"], data.draw(st.sampled_from([*places(whole["version 3"])])), text)
    memory = read(again, content)
    if isinstance(memory, Memory):
        again.save_memory(memory)
        assert again.load_memory() == memory
