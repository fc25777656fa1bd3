"""What the consoles told comes back from the file, and a damaged one is a clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.consoles import file
from plimsoll_agent.store.state import State, StateError
from tests.unit.consolevalues import some_consoles


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    """The examples share it."""
    return State(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module")
def whole(state: State) -> dict[str, Any]:
    file.save(state, some_consoles())
    value: dict[str, Any] = json.loads(state.consoles.read_text())
    return value


def test_what_is_written_comes_back(state: State) -> None:
    file.save(state, some_consoles())
    assert file.load(state) == some_consoles()


def test_before_the_first_reading_there_is_none(tmp_path: Path) -> None:
    assert file.load(State(tmp_path)) is None


def test_another_version_is_not_read(state: State, whole: dict[str, Any]) -> None:
    state.consoles.write_text(json.dumps(whole | {"version": 2}))
    with pytest.raises(StateError, match="the next pass replaces it"):
        file.load(state)
