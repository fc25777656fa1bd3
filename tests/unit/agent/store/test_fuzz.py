"""Damaged state files: what was written there, or a clear error; never a crash, a hang, or limits made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.store.state import Given, Memory, State, StateError
from plimsoll_agent.util.frozen import replace
from tests.fuzz.targets.memory import judge
from tests.unit.damage import damaged, each_damage
from tests.unit.values import NOON, OF_0_1_0, a_disk, examples_of

TIGHT = Limits(total_iops_sec=250, total_iops_sec_max=500, total_iops_sec_max_length=30, total_bytes_sec=104857600)
DISK = a_disk()
OTHER = a_disk(volume_id=None, image="disk", pool="vms")
THEIRS = Remembered(
    desired=TIGHT,
    since=NOON,
    seen=NOON,
    applied=Limits(read_iops_sec=9, group_name="g"),
    attachment="3:2:volumes/v",
    restore_to=Limits(write_iops_sec=7),
    foreign=True,
    reverts=3,
    reverted_at=NOON,
    enforced=True,
    by_type="gold",
    by_rules=("night",),
    revision="a1b2c3",
)
MEMORY = Memory(
    disks={
        DISK.key: THEIRS,
        OTHER.key: replace(THEIRS, desired=None, applied=None, restore_to=None, reverts=0, reverted_at=None),
    },
    holds={
        DISK.key: Hold(
            disk=DISK.named,
            limits=TIGHT,
            since=NOON,
            until=NOON + timedelta(hours=2),
            by="root (ann)",
            why="a restore",
        ),
        OTHER.key: Hold(
            disk=OTHER.named, limits=None, since=NOON, until=NOON + timedelta(hours=2), by="root", why="left alone"
        ),
    },
)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    """The examples share it."""
    return State(tmp_path_factory.mktemp("state"), boot="b1")


@pytest.fixture(scope="module")
def whole(state: State) -> Mapping[str, Any]:
    """A memory of today and one of 0.1.0, and an approval, as they are written."""
    state.save_memory(MEMORY)
    state.save_approvals([Given(Approval("a1b2c3d4e5f60718", remove=True), "root (ann)", NOON)])
    return {
        "version 5": json.loads(state.memory.read_text()),
        "version 3": json.loads((OF_0_1_0 / "memory.json").read_text()),
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


KINDS = pytest.mark.parametrize("kind", ["version 5", "version 3", "approval"])


@KINDS
@examples_of(300)
@given(data=st.data())
def test_one_part_damaged(state: State, whole: Mapping[str, Any], kind: str, data: st.DataObject) -> None:
    content = data.draw(damaged(whole[kind]))
    judge(content, read(state, content, approval=kind == "approval"))


@pytest.mark.slow  # some of each are tried above
@KINDS
def test_each_part_damaged_in_each_way(state: State, whole: Mapping[str, Any], kind: str) -> None:
    for content in each_damage(whole[kind]):
        judge(content, read(state, content, approval=kind == "approval"))


@examples_of(60)  # each waits for the disk
@given(data=st.data())
def test_what_is_read_of_a_damaged_memory_can_be_written_again(
    tmp_path_factory: pytest.TempPathFactory, whole: Mapping[str, Any], data: st.DataObject
) -> None:
    directory: Path = tmp_path_factory.getbasetemp()
    again = State(directory, boot="b1")
    content = data.draw(damaged(whole["version 3"]))
    memory = read(again, content)
    if isinstance(memory, Memory):
        again.save_memory(memory)
        assert again.load_memory() == memory
