"""What is printed is printed without a lock: a pager, or a stopped terminal, would hold it until it is read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from plimsoll_agent.app.guest_pass import guests_locked
from plimsoll_agent.cli.hold import HoldAdd
from plimsoll_agent.cli.passes import Enforce
from plimsoll_agent.cli.undo import Undo
from plimsoll_agent.store.state import Busy
from plimsoll_agent.util.frozen import replace
from tests.unit.enforcing import Shell


class Pager(io.StringIO):
    """Standard output. Each write is a moment at which another pass may begin, or may not."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self._shell = shell
        self.writes = 0
        self.held = 0

    def write(self, text: str) -> int:
        self.writes += 1
        try:
            with self._shell.state.locked(), guests_locked(self._shell.state, [self._shell.guest.uuid]):
                pass
        except Busy:
            self.held += 1
        return super().write(text)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    ("command", "words", "line"),
    [
        (Enforce, ("--mode", "enforce"), "unlimited → 250 IOPS"),
        (Enforce, ("--mode", "enforce", "--guest", "GUEST"), "unlimited → 250 IOPS"),
        (Undo, ("--since", "1h", "--yes"), "250 IOPS → unlimited"),
        (HoldAdd, ("GUEST", "vda", "--for", "2h", "--limits", "total_iops_sec=9", "--reason", "x"), "→ 9 IOPS"),
    ],
)
def test_no_lock_is_held_while_lines_are_read(
    tmp_path: Path, command: type, words: tuple[str, ...], line: str, terminal: bool
) -> None:
    shell = Shell(tmp_path)
    shell.source, shell.asks_ceph = "none", False
    shell.rules.write_text("default: {limits: {total_iops_sec: 250}}")
    if command is Undo:
        shell.enforce()
    pager = Pager(shell)
    pager.isatty = lambda: terminal  # type: ignore[method-assign]
    meant = [word.replace("GUEST", shell.guest.name) for word in words]
    settings = replace(shell.settings, mode="enforce")
    shell.types(command, *meant, settings=settings, hypervisor=shell.hypervisor, stdout=pager)
    assert line in shell.out, shell.out + shell.err
    assert pager.writes
    assert pager.held == 0
