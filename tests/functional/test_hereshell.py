"""Programs on this machine, as a canary without an agent runs them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from plimsoll_agent.errors import UsageError
from plimsoll_probes.adapters import local_shell
from plimsoll_probes.adapters.local_shell import HereShell
from plimsoll_probes.guest.shell import Ran
from plimsoll_probes.model.finding import Trouble, Why


def wait_until_gone(pid: int) -> None:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.02)
    raise AssertionError(f"{pid} runs on")


def test_a_program_ends_as_it_would_in_a_guest() -> None:
    ran = HereShell().run(["sh", "-c", "echo out; echo err >&2; exit 3"], seconds=9)
    assert ran == Ran(status=3, signal=None, out=b"out\n", err=b"err\n")
    assert HereShell().run(["sh", "-c", "kill -9 $$"], seconds=9) == Ran(status=None, signal=9, out=b"", err=b"")


def test_words_are_words_and_no_shell_reads_them() -> None:
    assert HereShell().run(["echo", "-n", "$HOME;", "*"], seconds=9).out == b"$HOME; *"


def test_a_program_that_reads_nothing_and_one_that_reads_all_are_both_well() -> None:
    given = bytes(range(256)) * 1000
    assert HereShell().run(["cat"], seconds=9, stdin=given).out == given
    assert HereShell().run(["true"], seconds=9, stdin=given).status == 0
    assert HereShell().run(["cat"], seconds=9).out == b"", "our own input is nobody else's"


def test_time_is_up_for_a_program_and_its_children(tmp_path: Path) -> None:
    script = f"sleep 77 & echo $! >{tmp_path}/child; echo so far; wait"
    began = time.monotonic()
    ran = HereShell().run(["sh", "-c", script], seconds=1)
    assert (ran.status, ran.out) == (124, b"so far\n")
    assert time.monotonic() - began < 4
    wait_until_gone(int((tmp_path / "child").read_text()))


def test_what_will_not_end_is_left_in_time_and_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It went out of timeout's reach, and holds the output open."""
    monkeypatch.setattr(local_shell, "KILL_AFTER", 0)
    monkeypatch.setattr(local_shell, "SLACK", 0.5)
    script = f"trap '' TERM; echo $$ >{tmp_path}/child; sleep 77; sleep 77"
    began = time.monotonic()
    with pytest.raises(Trouble) as caught:
        HereShell().run(["sh", "-c", script], seconds=1)
    assert caught.value.why is Why.UNFINISHED
    assert time.monotonic() - began < 4
    wait_until_gone(int((tmp_path / "child").read_text()))


def test_who_watches_is_told_about_once_a_second_also_of_a_program_that_keeps_silent() -> None:
    told: list[float] = []
    HereShell().run(["sleep", "2.5"], seconds=9, tell=lambda: told.append(time.monotonic()))
    assert len(told) == 2
    HereShell().run(["sh", "-c", "exec >&- 2>&-; sleep 1.5"], seconds=9, tell=lambda: told.append(0))
    assert len(told) == 3


def test_who_watches_may_end_it_and_nothing_runs_on(tmp_path: Path) -> None:
    def leave() -> None:
        raise UsageError("enough")

    with pytest.raises(UsageError, match="enough"):
        HereShell().run(["sh", "-c", f"echo $$ >{tmp_path}/child; sleep 77; true"], seconds=77, tell=leave)
    wait_until_gone(int((tmp_path / "child").read_text()))


def test_output_without_end_costs_what_an_agent_would_keep() -> None:
    with pytest.raises(Trouble) as caught:
        HereShell().run(["cat", "/dev/zero"], seconds=9)
    assert caught.value.why is Why.NONSENSE


def test_a_machine_without_timeout_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_shell, "PATH", "/nonexistent")
    with pytest.raises(Trouble) as caught:
        HereShell().run(["true"], seconds=9)
    assert caught.value.why is Why.NOT_SUPPORTED


@pytest.mark.parametrize("path", ["", ".", None])
def test_no_program_of_the_present_directory_is_run(
    path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("timeout", "sh", "id"):
        (tmp_path / name).write_text("#!/bin/sh\necho planted\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    if path is None:
        monkeypatch.delenv("PATH")
    else:
        monkeypatch.setenv("PATH", path)
    assert HereShell().run(["sh", "-c", "id -u; echo $HOME"], seconds=9).out == f"{os.geteuid()}\n\n".encode()
