"""The daemon as process 1 of a container: how it is known, and asked for a pass."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from plimsoll_agent.adapters import container
from tests.fakes import raising


@pytest.mark.parametrize(
    ("words", "here"),
    [
        (["/opt/plimsoll/current/bin/python", "-I", "/opt/plimsoll/current/bin/plimsoll", "daemon"], True),
        (["/usr/bin/plimsoll", "daemon", "--mode", "observe"], True),
        (["/usr/bin/plimsoll", "--config-file", "/etc/plimsoll/other.conf", "daemon"], True),
        (["/usr/bin/plimsoll", "--config-dir", "/etc/daemon", "status"], False),
        (["/usr/bin/python3", "/usr/local/bin/every", "300", "plimsoll", "probe", "run", "--due"], False),
        (["/sbin/init"], False),
        (["/usr/bin/tail", "plimsoll"], False),
    ],
)
def test_process_1_is_the_daemon_by_its_command(words: list[str], here: bool, tmp_path: Path) -> None:
    (tmp_path / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    assert container.is_here(tmp_path / "cmdline") is here


def test_where_process_1_cannot_be_read_it_is_not(tmp_path: Path) -> None:
    assert not container.is_here(tmp_path / "none")


def test_a_reload_is_sighup_and_one_that_is_refused_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *words: sent.append(words))
    assert container.reload_daemon() == ""
    assert sent == [(1, signal.SIGHUP)]
    monkeypatch.setattr(os, "kill", raising(PermissionError(errno.EPERM, "Operation not permitted")))
    assert "process 1) cannot be signalled: Operation not permitted" in container.reload_daemon()
