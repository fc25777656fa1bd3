"""``enforce`` with damaged files: nothing raised, no wrong limit, and the next pass is clean.

Full, read-only and missing directories are the lab's.
"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from plimsoll_agent.cli.record import RecordList
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util import files
from tests.unit.enforcing import Shell
from tests.unit.sql import do

LIMIT, TIGHTER, LOOSER = (Limits(total_iops_sec=iops) for iops in (250, 240, 260))


def write_rules(shell: Shell, limits: Limits) -> None:
    shell.rules.write_text(f"default: {{limits: {{total_iops_sec: {limits.total_iops_sec}}}}}\n")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """At a node that has limited its guest's disk."""
    shell = Shell(tmp_path)
    shell.source, shell.asks_ceph = "none", False
    write_rules(shell, LIMIT)
    assert shell.enforce() == 0
    return shell


def actual(shell: Shell) -> Limits:
    (disk,) = shell.guest.disks.values()
    return disk.actual


def assert_the_next_is_clean(shell: Shell) -> None:
    """The next pass does as it always did, and knows our limits for ours."""
    assert shell.enforce("--yes") == 0, shell.out
    assert "left alone" not in shell.out.replace(" 0 left alone", "")
    assert shell.run(RecordList, "--verify") == 0


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 4096, b"[]", b'{"version": 2}', b"\xff\xfe{}"])
def test_a_corrupt_memory_is_set_aside_and_made_again_from_the_record(shell: Shell, content: bytes) -> None:
    shell.state.memory.write_bytes(content)
    write_rules(shell, TIGHTER)
    assert shell.enforce("--yes") == 3
    assert "moved aside" in shell.out
    assert actual(shell) == TIGHTER, "limits of ours are known as ours"
    assert shell.state.memory.with_name("memory.json.corrupt").read_bytes() == content
    assert_the_next_is_clean(shell)


def test_a_corrupt_record_is_set_aside_and_begun_again(shell: Shell) -> None:
    content = bytearray(shell.state.record.read_bytes())
    content[: len(content) // 2] = b"\x5a" * (len(content) // 2)
    shell.state.record.write_bytes(bytes(content))
    write_rules(shell, LOOSER)
    assert shell.enforce("--yes") == 3, shell.out
    assert actual(shell) == LOOSER, "the new record has it"
    assert shell.state.record.with_name("record.sqlite.corrupt").read_bytes() == bytes(content)
    assert_the_next_is_clean(shell)


def test_a_corrupt_approval_approves_of_nothing(shell: Shell) -> None:
    shell.state.approval.write_text("{{{")
    assert shell.enforce() == 3
    assert "nothing is approved" in shell.out
    assert_the_next_is_clean(shell)


def test_rules_that_are_broken_leave_the_last_good_ones_actual(shell: Shell) -> None:
    shell.rules.write_text("default: {limits: {total_iops: 1}}\n")
    (disk,) = shell.guest.disks.values()
    disk.actual = disk.defined = Limits()
    assert shell.enforce("--yes") == 1
    assert "did you mean total_iops_sec?" in shell.err
    assert actual(shell) == LIMIT, "what another removed is put back by them"
    write_rules(shell, LIMIT)
    assert_the_next_is_clean(shell)


def test_with_corrupt_last_good_rules_too_nothing_is_done(shell: Shell) -> None:
    shell.rules.write_text("default: {limits: {total_iops: 1}}\n")
    shell.state.last_rules.write_bytes(b"\xff\xff: [")
    written = len(shell.hypervisor.writes)
    assert shell.enforce("--yes") == 1
    assert (actual(shell), len(shell.hypervisor.writes)) == (LIMIT, written)
    write_rules(shell, LIMIT)
    assert_the_next_is_clean(shell)


def test_a_memory_of_a_newer_plimsoll_is_refused_and_kept(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    newer = json.dumps(json.loads(shell.state.memory.read_text()) | {"version": 99})
    shell.state.memory.write_text(newer)
    write_rules(shell, TIGHTER)
    assert shell.enforce("--yes") == 1
    assert "newer plimsoll" in caplog.text
    assert (actual(shell), shell.state.memory.read_text()) == (LIMIT, newer)


def test_with_a_record_of_a_newer_plimsoll_limits_are_lowered_and_never_raised(shell: Shell) -> None:
    do(shell.state.record, "PRAGMA user_version = 99")
    before = shell.state.record.read_bytes()
    write_rules(shell, LOOSER)
    assert shell.enforce("--yes") == 1
    assert actual(shell) == LIMIT, "without a record nothing is raised"
    write_rules(shell, TIGHTER)
    assert shell.enforce("--yes") == 3
    assert actual(shell) == TIGHTER
    assert shell.state.record.read_bytes() == before


class _Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


@pytest.mark.parametrize("whole", [False, True], ids=["half written", "just replaced"])
def test_killed_at_any_write_of_any_file_the_next_pass_is_clean(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    write_whole, killed_at, left = files.write_whole, list[str](), 0

    def write(path: Path, content: str | bytes, mode: int = 0o640, *, durable: bool = True) -> files.Stamp:
        nonlocal left
        left -= 1
        if left >= 0:
            return write_whole(path, content, mode, durable=durable)
        killed_at.append(path.name)
        if whole:
            write_whole(path, content, mode, durable=durable)
        else:
            given = content.encode() if isinstance(content, str) else content
            path.with_name(f".{path.name}.killed").write_bytes(given[: len(given) // 2])
        raise _Killed

    for number in count():
        before, after = (Limits(total_iops_sec=LIMIT.total_iops_sec - each) for each in (number, number + 1))
        write_rules(shell, after)
        left, met = number, len(killed_at)
        with monkeypatch.context() as patch:
            patch.setattr(files, "write_whole", write)
            with suppress(_Killed):
                shell.enforce("--yes")
        assert actual(shell) in (before, after), killed_at
        assert_the_next_is_clean(shell)
        assert actual(shell) == after, killed_at
        if len(killed_at) == met:
            break
    assert {*killed_at} >= {"memory.json", "pass.json", "clock.json", "rules.last.yaml"}
