"""``memory.json`` and ``approval.json``: what is read stands there; no limit, hold or approval is made up."""

from __future__ import annotations

import json
from typing import Any

from plimsoll_agent.model.limits import PARAMETERS, Limits
from plimsoll_agent.store import memory_file
from plimsoll_agent.store.memory_file import Memory
from plimsoll_agent.store.state import Given, State, StateError
from tests.fuzz import scratch
from tests.fuzz.refusals import assert_clear

NEW_NAMES = {"wanted": "desired", "put": "applied", "returns": "restore_to", "theirs": "foreign"}
"""Of what is compared below, by the names in version 3."""


def judge(content: bytes, outcome: Memory | tuple[Given, ...] | None) -> None:
    """Whatever is read stands in the file as it is."""
    if outcome is None:
        return
    written = json.loads(content)
    if isinstance(outcome, tuple):
        approvals = [(given.approval.digest, given.approval.remove, given.by) for given in outcome]
        assert approvals == [(each["digest"], each["remove"], each["by"]) for each in written.get("approvals", [])]
        return
    if written["version"] == 3:
        written = _known_to_version_3(written)
    assert outcome.brake.judged == written.get("judged")
    assert outcome.brake.recent.keys() == written.get("recent", {}).keys()
    for key, remembered in outcome.disks.items():
        disk = {NEW_NAMES.get(name, name): part for name, part in written["disks"][key].items()}
        for part in ("desired", "applied", "restore_to"):
            assert_same(getattr(remembered, part), disk.get(part))
        assert remembered.foreign is disk.get("foreign", False)
        assert remembered.by_type == disk.get("by_type")
        assert remembered.by_rules == tuple(disk.get("by_rules", ()))
        assert remembered.revision == disk.get("revision")
    assert outcome.holds.keys() == written["holds"].keys(), "a hold that is lost could raise its disk"
    for key, hold in outcome.holds.items():
        assert hold.disk.key == key
        assert_same(hold.limits, written["holds"][key]["limits"])


def _known_to_version_3(written: dict[str, Any]) -> dict[str, Any]:
    """It had neither rules nor revision: what stands in their place, or was made by them, is not read."""
    disks = {
        key: {name: part for name, part in disk.items() if name not in ("by_rules", "revision")}
        for key, disk in written["disks"].items()
        if isinstance(disk, dict)
    }
    return {name: part for name, part in written.items() if name not in ("judged", "recent")} | {"disks": disks}


def assert_same(limits: Limits | None, written: Any) -> None:
    if limits is None:
        assert written is None
        return
    lengths = {parameter.name for parameter in PARAMETERS if parameter.role == "length"}
    said = {name: value for name, value in written.items() if value not in ({0, 1} if name in lengths else {0, None})}
    assert limits.in_effect() == said


def target(data: bytes) -> None:
    state = State(scratch.directory(), boot="b1")
    for path, load in ((state.memory, state.load_memory), (state.approval, state.load_approvals)):
        path.write_bytes(data)
        try:
            outcome = load()
        except StateError as error:
            assert_clear(error, f"{path}: ")
            continue
        finally:
            path.unlink()
        judge(data, outcome)
        if isinstance(outcome, Memory):  # what is read can be written again
            text = memory_file.encoded(outcome, memory_file.fitting(outcome, {}), state.boot)
            assert memory_file.decoded(json.loads(text), state.boot, path) == outcome
