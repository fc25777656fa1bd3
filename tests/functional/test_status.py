"""``plimsoll status``: each command that it prints to be run next is one that runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.functional.conftest import Ran

Run = Callable[..., Ran]
USAGE = 64
LIMITED = "default: {limits: {total_iops_sec: 250}}\n"


def passed(plimsoll: Run, *words: str) -> None:
    plimsoll("enforce", *words)


def nothing_yet(plimsoll: Run, here: Path) -> None:
    """No pass."""


def observing(plimsoll: Run, here: Path) -> None:
    (here / "rules.yaml").write_text(LIMITED)
    passed(plimsoll)


def refused(plimsoll: Run, here: Path) -> None:
    """libvirt's test driver refuses some limits."""
    (here / "rules.yaml").write_text("default: {limits: {total_iops_sec: 250, total_bytes_sec: 100MiB}}\n")
    passed(plimsoll, "--mode", "enforce")


def braked(plimsoll: Run, here: Path) -> None:
    for iops in (2500, 25):
        rules = (
            f"rules: [{{name: all, match: {{pool: osp-vms}}, override: true, limits: {{total_iops_sec: {iops}}}}}]\n"
        )
        (here / "rules.yaml").write_text(rules)
        passed(plimsoll)


def paused(plimsoll: Run, here: Path) -> None:
    passed(plimsoll)
    (here / "paused").write_text(f"rack 2 is moved\n(by ann, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC)")


def broken_rules(plimsoll: Run, here: Path) -> None:
    (here / "rules.yaml").write_text("rules: [")
    passed(plimsoll)


def no_rules(plimsoll: Run, here: Path) -> None:
    passed(plimsoll)
    (here / "rules.yaml").unlink()
    passed(plimsoll)


@pytest.mark.parametrize(
    ("state", "first"),
    [
        (nothing_yet, ["enforce --mode observe"]),
        (observing, ["plan"]),
        (refused, ["record --guest"]),
        (braked, ["plan"]),
        (paused, ["resume --reason"]),
        (broken_rules, ["rules check"]),
        (no_rules, ["rules check"]),
    ],
)
def test_each_next_command_runs_as_it_is_printed(
    state: Callable[[Run, Path], None], first: list[str], plimsoll: Run, test_node: str, tmp_path: Path
) -> None:
    with (tmp_path / "plimsoll.conf").open("a") as settings:
        settings.write(f"pause_file = {tmp_path}/paused\n[libvirt]\nuri = {test_node}\n")
    state(plimsoll, tmp_path)
    told = plimsoll("status", COLUMNS="200").out
    commands = [line.partition("next: ")[2] for line in told.splitlines() if "next: " in line]
    assert any(each in command for each in first for command in commands), told
    for command in commands:
        program, *words = shlex.split(command)
        if program == "plimsoll":
            ran = plimsoll(*(word for word in words if not word.startswith("--config-file=")))
            assert ran.status != USAGE, (command, ran.err)
