"""Which unit makes the pass of a rollout's gate, and what the gate takes for that pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.collection import plugin

node_pass = plugin("modules.node_pass")

BEGUN = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
DAEMON, ENFORCE = "plimsoll-daemon.service", "plimsoll-enforce.service"


class Node:
    """As AnsibleModule: a node whose units make a pass some seconds after they were told to."""

    def __init__(self, *, daemon: bool, seconds: float | None = 1.0, version: str = "0.1.1") -> None:
        """``seconds`` is how long a pass takes, None: it never ends."""
        self.params = {"version": "0.1.1", "timeout": 25, "warnings_pass": False, "tolerated": []}
        self.told: list[str] = []
        self.clock = 0.0
        self._daemon = daemon
        self._seconds = seconds
        self._version = version
        self._passes = [(-300.0, -299.0)]
        """When each began, and ended."""

    def run_command(self, words: list[str]) -> tuple[int, str, str]:
        match words:
            case ["systemctl", "is-active", "--quiet", unit] if unit == DAEMON:
                return (0 if self._daemon else 3), "", ""
            case ["systemctl", "reload", unit] if unit == DAEMON:
                self._pass(0.01)
            case ["systemctl", "start", unit] if unit == ENFORCE:
                if not self._daemon:  # --unless-daemon
                    self._pass(0.1)
                    self.clock = self._passes[-1][1]
            case ["/usr/local/bin/plimsoll", "status", *_]:
                self.clock += 0.2
                return 0, self._status(), ""
            case ["journalctl", *_, of]:
                return 0, f"RuntimeError: the words of {of}\n", ""
            case _:
                raise AssertionError(words)
        self.told.append(" ".join(words[1:]))
        return 0, "", ""

    def _pass(self, after: float) -> None:
        if self._seconds is not None:
            self._passes.append((self.clock + after, self.clock + after + self._seconds))

    def _status(self) -> str:
        began = max(began for began, ended in self._passes if ended <= self.clock)
        made = {
            "plimsoll": self._version,
            "started": (BEGUN + timedelta(seconds=began)).isoformat(),
            "enforcing": True,
            "trouble": None,
        }
        return json.dumps({"complaints": [], "findings": [], "pass": made, "disks": {"states": {"in-sync": 3}}})


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> Callable[[Node], dict[str, Any]]:
    def ask(node: Node) -> dict[str, Any]:
        def sleep(seconds: float) -> None:
            node.clock += seconds

        now = SimpleNamespace(now=lambda _: BEGUN + timedelta(seconds=node.clock))
        monkeypatch.setattr(node_pass, "time", SimpleNamespace(monotonic=lambda: node.clock, sleep=sleep))
        monkeypatch.setattr(node_pass, "datetime", now)
        result: dict[str, Any] = node_pass.passes_until_healthy(node)
        return result

    return ask


Healthy = Callable[[Node], dict[str, Any]]


def test_without_a_daemon_the_pass_is_that_of_the_timers_service(healthy: Healthy) -> None:
    node = Node(daemon=False)
    assert healthy(node) == {"changed": False, "wrong": [], "passes": 1, "last_words": [], "disks": {"in-sync": 3}}
    assert node.told == [f"start {ENFORCE}"]


def test_beside_a_daemon_the_pass_is_the_daemons(healthy: Healthy) -> None:
    """The timer's service makes none there, and so a rollout would never be healthy."""
    node = Node(daemon=True)
    assert (healthy(node)["wrong"], node.told) == ([], [f"reload {DAEMON}"])
    assert node.clock < 3, "it is seen as soon as it is over"


def test_a_pass_of_the_daemon_that_takes_longer_than_the_wait_for_it_counts(healthy: Healthy) -> None:
    assert healthy(Node(daemon=True, seconds=12.0))["wrong"] == []


def test_a_daemon_that_makes_no_pass_is_not_healthy_and_its_last_line_is_shown(healthy: Healthy) -> None:
    result = healthy(Node(daemon=True, seconds=None))
    assert result["wrong"] == ["the last pass started at 2026-11-20T13:55:00+00:00, before this run"]
    assert result["last_words"] == [f"last line of {DAEMON}: RuntimeError: the words of _SYSTEMD_UNIT={DAEMON}"]


def test_a_daemon_that_still_runs_the_earlier_version_is_not_healthy(healthy: Healthy) -> None:
    result = healthy(Node(daemon=True, version="0.1.0"))
    assert result["wrong"] == ["the last pass was made by plimsoll 0.1.0, not 0.1.1"]
    assert result["last_words"] == []
