"""What the daemon tells of itself: its file, its line, its metrics, and when it counts as running."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.monitor import daemon_metrics, daemon_status, prometheus_text
from plimsoll_agent.monitor.daemon_status import HEARTBEAT, DaemonStatus
from plimsoll_agent.store.state import CorruptState, State, StateError
from plimsoll_agent.util.frozen import replace
from tests.unit.daemonstatus import FULL
from tests.unit.values import NOON

GOLDEN = Path(__file__).parents[2] / "data" / "daemon_metrics.prom"

FRESH = DaemonStatus(version="1.0", mode="enforce", pid=4711, started=NOON, written=NOON, full_pass_interval=300)


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path)


@pytest.mark.parametrize("status", [FULL, FRESH])
def test_it_is_read_as_it_was_written(state: State, status: DaemonStatus) -> None:
    assert daemon_status.load(state) is None
    daemon_status.save(state, status)
    assert daemon_status.load(state) == status


def test_one_that_was_killed_does_not_run_from_that_moment_on(state: State) -> None:
    with state.daemon_locked():
        daemon_status.save(state, FULL)
        assert daemon_status.load(state) == FULL
    status = daemon_status.load(state)
    assert status is not None
    assert (status.gone, status.runs(NOON)) == (True, False)


@pytest.mark.parametrize(
    ("content", "error"), [("{", CorruptState), ('{"version": 1}', CorruptState), ('{"version": 2}', StateError)]
)
def test_a_file_that_cannot_be_read_counts_as_no_daemon(
    state: State, content: str, error: type[StateError], caplog: pytest.LogCaptureFixture
) -> None:
    state.daemon.write_text(content)
    with pytest.raises(error):
        daemon_status.load(state)
    assert daemon_status.load_or_none(state) is None
    assert "daemon.json" in caplog.text


@pytest.mark.parametrize(
    ("seconds", "runs"), [(0, True), (4 * HEARTBEAT, True), (4 * HEARTBEAT + 1, False), (-1, False)]
)
def test_it_runs_if_it_has_written_lately_and_not_in_the_future(seconds: float, runs: bool) -> None:
    assert FULL.runs(NOON + timedelta(seconds=seconds)) is runs


@pytest.mark.parametrize(
    ("status", "enforces"),
    [
        (FULL, True),
        (FRESH, False),  # no full pass yet
        (replace(FULL, last_full_pass=NOON - timedelta(seconds=601)), False),
        (replace(FULL, last_full_pass=NOON + timedelta(days=1)), False),  # the clock was ahead
        (replace(FULL, version="0.9"), False),
        (replace(FULL, mode="observe"), False),
        (replace(FULL, written=NOON - timedelta(minutes=2)), False),
    ],
)
def test_the_timers_pass_runs_unless_the_daemon_of_its_version_does_its_work(
    status: DaemonStatus, enforces: bool
) -> None:
    assert status.enforces("1.0", "enforce", NOON) is enforces


def test_its_line_says_what_is_wrong() -> None:
    assert daemon_status.line(FULL) == (
        "events since 2026-11-20 11:00 UTC: 16; passes over guests: 9; last full pass 2026-11-20 11:59 UTC;"
        " instance-00000001 set aside until 2026-11-20 12:02:00 UTC;"
        " 1 guest with passes spaced out, after many events; the last reload failed, earlier settings are in use"
    )
    assert daemon_status.line(replace(FRESH, disconnected="libvirt at x cannot be reached")) == (
        "no events: libvirt at x cannot be reached; passes over guests: 0; no full pass yet"
    )


def test_the_metrics_are_the_golden_text() -> None:
    text = prometheus_text.text(daemon_metrics.families(FULL))
    assert text == GOLDEN.read_text(), "look at each line that differs, then copy it there"
