"""Has systemd make a pass, and reads what a unit said last."""

from __future__ import annotations

import os

from plimsoll_agent.adapters import program

ENFORCE, DAEMON = "plimsoll-enforce.service", "plimsoll-daemon.service"
_ANSWER = 30.0
_LONGEST_PASS = 330.0
"""Seconds: the unit's TimeoutStartSec, and some for systemd."""


def daemon_runs() -> bool:
    """Raises ``Unreachable``, ``DeadlineExceeded``."""
    return _run(["systemctl", "is-active", "--quiet", DAEMON], _ANSWER).status == 0


def run_pass() -> str:
    """Make a pass as the timer does, to its end; why there was none, or "". Raises likewise."""
    result = _run(["systemctl", "start", ENFORCE], _LONGEST_PASS)
    return "" if result.status == 0 else f"{ENFORCE}: {last_line(ENFORCE) or result.last_complaint}"


def reload_daemon() -> str:
    """Let the daemon make a pass, which begins after this; why not, or "". Raises likewise."""
    result = _run(["systemctl", "reload", DAEMON], _ANSWER)
    return "" if result.status == 0 else f"{DAEMON}: {last_line(DAEMON) or result.last_complaint}"


def last_line(unit: str) -> str:
    """The last line of the unit's own output in the journal, without systemd's; "" without one."""
    argv = ["journalctl", "--lines", "1", "--output", "cat", "--quiet", f"_SYSTEMD_UNIT={unit}"]
    return _run(argv, _ANSWER).out.decode("utf-8", "replace").strip()


def _run(argv: list[str], seconds: float) -> program.Ended:
    return program.run(argv[0], argv, seconds, environment=os.environ | {"LC_ALL": "C"})
