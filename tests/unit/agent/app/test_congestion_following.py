"""Which passes follow congestion, which keep what the daemon does, and which restore what it left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.app import congestion_following
from plimsoll_agent.app.congestion_following import Follow
from plimsoll_agent.config import settings as config
from plimsoll_agent.congestion.following import Followed
from plimsoll_agent.congestion.published import Factors
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.unit.agent.congestion.values import a_factor, a_factor_file
from tests.unit.daemonstatus import FULL
from tests.unit.node import FSID
from tests.unit.values import NOON

POOL = (FSID, "volumes")
REDUCED = Followed(x=0.5, device_class="ssd", published=0.5, until=NOON + timedelta(seconds=60), generation=7)
FILE = a_factor_file(a_factor(0.7), pools={POOL: ("ssd",)}, generation=8)


@pytest.fixture
def state(tmp_path: Path) -> State:
    state = State(tmp_path)
    state.save_factors({POOL: REDUCED})
    return state


def x(state: State, what: Follow, mode: str = "enforce") -> float:
    """By a pass that trusts ``NOON``, whatever the node's clock has."""
    whole = config.load([], [])
    settings = replace(whole, congestion=replace(whole.congestion, mode=mode))
    return congestion_following.following(settings, state, what, lambda: Factors({FSID: FILE}), NOON).x(*POOL)


def runs(state: State, **other: object) -> None:
    """A daemon, which goes by the node's clock; a duration of ``other`` is how long ago it was."""
    now = datetime.now(UTC)
    values = {"written": now, "last_full_pass": now, "mode": "enforce"} | other
    daemon_status.save(
        state,
        replace(
            FULL, **{key: now - value if isinstance(value, timedelta) else value for key, value in values.items()}
        ),
    )


def test_the_daemons_pass_over_the_node_follows_and_only_where_the_settings_enforce(state: State) -> None:
    assert (x(state, Follow.MOVE), x(state, Follow.MOVE, "observe")) == (0.7, 1)


def test_its_pass_over_a_guest_applies_what_that_one_did_whether_or_not_there_was_one_since_it_began(
    state: State,
) -> None:
    assert x(state, Follow.STAY) == 0.5


@pytest.mark.parametrize(
    ("daemon", "after"),
    [
        ({}, 0.5),
        ({"version": "another"}, 0.5),
        ({"written": timedelta(minutes=2)}, 1),
        ({"last_full_pass": timedelta(hours=2)}, 1),
        ({"mode": "observe"}, 1),
        (None, 1),
    ],
)
def test_any_other_pass_keeps_that_while_the_daemon_does_its_work_and_else_restores(
    state: State, daemon: dict[str, object] | None, after: float
) -> None:
    if daemon is not None:
        runs(state, **daemon)
    assert x(state, Follow.KEEP) == after
    assert x(state, Follow.END) == 1


def test_a_file_that_cannot_be_read_is_a_factor_of_one(state: State) -> None:
    runs(state)
    state.factors.write_text("{")
    assert x(state, Follow.KEEP) == 1


def test_a_fault_of_the_file_is_logged_once_until_it_changes(state: State, caplog: pytest.LogCaptureFixture) -> None:
    path = state.directory / "factors.json"
    whole = path.read_bytes()
    for content in (b"damaged", b"damaged", b'{"version": 9}', whole, b"damaged"):
        path.write_bytes(content)
        congestion_following.applied(state)
    assert [each.message.count("every factor of congestion counts as 1") for each in caplog.records] == [1, 1, 1]
    assert "known up to" in caplog.records[1].message
