"""While the pause file is there, no command writes to a guest: no limit, no definition, nothing of plimsoll's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.cli import undo
from plimsoll_agent.cli.approve import PauseNode, ResumeNode
from plimsoll_agent.cli.hold import HoldAdd, HoldEnd
from plimsoll_agent.cli.passes import Enforce, Plan
from plimsoll_agent.cli.undo import Undo
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeHypervisor
from tests.unit.node import guest, set_by_hand
from tests.unit.person import Person, Terminal
from tests.unit.places import NO_CLUSTER, settings_in

GUEST = "instance-00000001"
READS = {"guests", "look", "actual", "block_stats", "sizes", "knows"}
"""All that a paused node may ask of its hypervisor: what is not here is taken for a write."""


class Shell(Person):
    """A person at a node in mode enforce, whose guests have limits that plimsoll put; then its rules were changed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.began = datetime.now(UTC) - timedelta(minutes=1)
        self.guests = [guest(number) for number in (1, 2)]
        self.hypervisor = FakeHypervisor(*self.guests)
        self.rules(iops=250)
        assert self.run(Enforce, "--mode", "enforce") == 0
        assert self.run(HoldAdd, GUEST, "vdb", "--for", "1h", "--reason", "x", "--limits", "total_iops_sec=200") == 0
        set_by_hand(self.guests[1].disks["vda"], Limits(total_iops_sec=7))
        self.rules(iops=100)

    def rules(self, *, iops: int) -> None:
        (self.directory / "rules.yaml").write_text(f"default: {{limits: {{total_iops_sec: {iops}}}}}\n")

    def run(self, command: type, *words: str, answer: str = "") -> int:
        settings = settings_in(self.directory, ceph=NO_CLUSTER)
        settings = replace(settings, bounds=replace(settings.bounds, at_once=1))
        return self.types(command, *words, settings=settings, hypervisor=self.hypervisor, stdin=Terminal(answer))

    def pause(self) -> None:
        assert self.run(PauseNode, "--reason", "maintenance") == 0

    @property
    def limits(self) -> list[tuple[Limits, Limits | None]]:
        """What is in force, and what stands in the persistent definition."""
        return [(disk.actual, disk.persistent) for guest in self.guests for disk in guest.disks.values()]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setattr(undo, "_booted", lambda: datetime.min.replace(tzinfo=UTC))
    return Shell(tmp_path)


HOLD = (GUEST, "vda", "--for", "1h", "--reason", "x")
WRITING: dict[str, tuple[type, tuple[str, ...]]] = {
    "enforce": (Enforce, ()),
    "enforce --yes": (Enforce, ("--yes",)),
    "enforce with limits": (Enforce, ("--yes", "--total-iops-sec", "60")),
    "hold": (HoldAdd, (*HOLD, "--limits", "unlimited")),
    "hold --ignore-health": (HoldAdd, (*HOLD, "--limits", "unlimited", "--ignore-health")),
    "undo": (Undo, ("--since", "2h", "--yes")),
    "undo --ignore-health": (Undo, ("--since", "2h", "--yes", "--ignore-health")),
}
OTHERS: dict[str, tuple[type, tuple[str, ...]]] = {
    "plan": (Plan, ()),
    "enforce --guest": (Enforce, ("--guest", GUEST)),
    "enforce in mode observe": (Enforce, ("--mode", "observe")),
    "hold as it is": (HoldAdd, HOLD),
    "hold end": (HoldEnd, (GUEST, "vdb")),
    "undo, asked": (Undo, ("--since", "2h")),
    "undo --dry-run": (Undo, ("--since", "2h", "--dry-run")),
}


@pytest.mark.parametrize(("command", "words"), (WRITING | OTHERS).values(), ids=WRITING | OTHERS)
def test_a_paused_node_is_not_written_to(shell: Shell, command: type, words: tuple[str, ...]) -> None:
    shell.pause()
    before = shell.limits
    shell.hypervisor.calls.clear()
    shell.run(command, *words, answer="y\n")
    assert set(shell.hypervisor.calls) <= READS
    assert shell.limits == before


@pytest.mark.parametrize(("command", "words"), WRITING.values(), ids=WRITING)
def test_once_it_is_resumed_the_same_commands_write(shell: Shell, command: type, words: tuple[str, ...]) -> None:
    shell.pause()
    shell.run(command, *words)
    assert shell.run(ResumeNode, "--reason", "done") == 0
    shell.hypervisor.calls.clear()
    shell.run(command, *words)
    assert {"set_limits", "define_limits"} <= set(shell.hypervisor.calls), shell.out


@pytest.mark.parametrize("words", [(), ("--yes",)], ids=["asked", "yes"])
def test_undo_on_a_paused_node_is_refused_with_the_reason(
    shell: Shell, words: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    shell.pause()
    caplog.clear()
    shell.run(Undo, "--since", "2h", *words, answer="y\n")
    (said,) = caplog.messages
    assert "maintenance" in said
    assert str(shell.directory / "paused") in said


def test_a_pause_itself_writes_nothing(shell: Shell) -> None:
    shell.hypervisor.calls.clear()
    shell.pause()
    assert shell.hypervisor.calls == []


MOMENTS = [
    *((Enforce, call) for call in ("guests", "look", "actual", "set_limits", "define_limits", "set_marks")),
    *((Undo, call) for call in ("guests", "look", "actual", "set_limits", "define_limits")),
]


@pytest.mark.parametrize(
    ("command", "call"), MOMENTS, ids=lambda part: part if isinstance(part, str) else part.__name__
)
def test_a_pause_in_the_middle_stops_every_later_write(shell: Shell, command: type, call: str) -> None:
    """Whatever is under way when the pause comes; after it nothing begins, in the definition neither."""
    at = 0

    def pause() -> None:
        nonlocal at
        shell.pause()
        at = len(shell.hypervisor.calls)

    shell.hypervisor.calls.clear()
    shell.hypervisor.before[call] = pause
    shell.run(command, *(("--since", "2h", "--yes") if command is Undo else ("--yes",)))
    assert at, f"{call} was never asked"
    assert set(shell.hypervisor.calls[at:]) <= READS
