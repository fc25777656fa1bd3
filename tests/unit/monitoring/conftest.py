"""The node that is judged was not started just now, whatever the machine of the tests was."""

import pytest

from plimsoll_agent.store import clock


@pytest.fixture(autouse=True)
def _has_run_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "uptime", lambda: 30 * 86400.0)
