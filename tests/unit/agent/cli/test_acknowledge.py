"""``plimsoll disk acknowledge``: what it covers, how it ends, and what it leaves in memory, record and lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plimsoll_agent.cli.acknowledge import AcknowledgeAdd, AcknowledgeEnd, AcknowledgeList
from plimsoll_agent.cli.disk import DiskExplain, DiskList
from plimsoll_agent.cli.hold import HoldAdd
from plimsoll_agent.cli.passes import Enforce, Plan
from plimsoll_agent.messages.record import entry_line
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeHypervisor, hangs
from tests.unit.node import FSID, guest
from tests.unit.person import Person
from tests.unit.places import settings_in

GUEST = "instance-00000001"
UNSURE = f"rules: [{{name: a, match: {{cluster: {FSID}}}, override: true, limits: {{total_iops_sec: 250}}}}]"
"""No Ceph configuration of this node tells which disks are in that cluster."""


class Shell(Person):
    """A person at a node with one guest, whose two disks are unknown as a rule is for a cluster."""

    def __init__(self, directory: Path) -> None:
        self.guest, self.directory = guest(1), directory
        self.hypervisor = FakeHypervisor(self.guest)
        self.rules = directory / "rules.yaml"
        self.rules.write_text(UNSURE)
        self.state = State(directory / "state")

    def run(self, command: type, *words: str) -> int:
        return self.types(command, *words, settings=settings_in(self.directory), hypervisor=self.hypervisor)

    def add(self, *words: str, target: str = "vda", span: str = "2d") -> int:
        return self.run(AcknowledgeAdd, GUEST, target, "--for", span, "--reason", "ticket 4711", *words)

    def acknowledged(self) -> list[str]:
        """The targets."""
        memory = self.state.load_memory()
        return [] if memory is None else sorted(each.disk.target for each in memory.acknowledged.values())

    def events(self) -> list[str]:
        """The newest first."""
        entries = record_query.entries(Record(self.state.record), Selection(reason="acknowledged"))
        return [entry_line(entry).split("  ", 1)[1] for entry in entries]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    assert shell.run(Enforce) == 3
    return shell


def test_an_acknowledged_disk_no_longer_makes_the_pass_partial_and_is_told_with_who_and_why(shell: Shell) -> None:
    assert shell.add() == 0
    assert shell.out.startswith(f"{GUEST} vda  unknown, acknowledged until ")
    assert shell.run(Enforce) == 3, "the other one is not"
    assert shell.add(target="vdb") == 0
    assert shell.run(Enforce) == 0
    assert shell.run(Plan) == 0
    assert "2 unknown" in shell.out
    assert ": ticket 4711" in shell.out
    assert shell.acknowledged() == ["vda", "vdb"]
    shell.run(DiskList)
    assert shell.out.count("ticket 4711") == 2
    shell.run(DiskExplain, GUEST, "vda")
    assert ": ticket 4711" in shell.out
    shell.run(Plan, "-f", "json")
    first, _ = json.loads(shell.out)["outcomes"]
    assert (first["result"], first["acknowledged"]["why"]) == ("unknown", "ticket 4711")


def test_it_ends_when_the_limits_are_known_and_when_its_time_is_over_and_each_end_is_recorded(shell: Shell) -> None:
    shell.add()
    shell.add(target="vdb")
    shell.run(HoldAdd, GUEST, "vdb", "--for", "1h", "--reason", "so")
    assert shell.acknowledged() == ["vda"], "a hold decides"
    shell.rules.write_text("{}")
    shell.run(Enforce)
    assert shell.acknowledged() == []
    shell.rules.write_text(UNSURE)
    assert shell.run(Enforce) == 3, "it does not come back"
    ends = [line for line in shell.events() if "acknowledgement ended" in line]
    assert len(ends) == 2
    assert len(shell.events()) == 4

    shell.add(span="1s")
    memory = shell.state.load_memory()
    assert memory is not None
    (given,) = memory.acknowledged.values()
    shell.state.save_memory(replace(memory, acknowledged={given.disk.key: replace(given, until=given.since)}))
    assert shell.run(Enforce) == 3
    assert shell.acknowledged() == []


def test_it_is_listed_and_ended_early_and_a_dry_run_changes_nothing(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    shell.run(AcknowledgeList)
    assert shell.out == "No acknowledged disks on this node; unknown ones: plimsoll disk list --state unknown\n"
    assert shell.add("--dry-run") == 0
    assert "Dry run: nothing is written." in shell.out
    assert shell.acknowledged() == []
    shell.add()
    shell.run(AcknowledgeList, "-f", "json")
    (row,) = json.loads(shell.out)
    assert (row["guest"], row["disk"], row["reason"]) == (GUEST, "vda", "ticket 4711")
    assert shell.run(AcknowledgeEnd, GUEST, "--dry-run") == 0
    assert shell.acknowledged() == ["vda"]
    assert shell.run(AcknowledgeEnd, GUEST) == 0
    assert shell.acknowledged() == []
    assert shell.run(Enforce) == 3
    assert shell.run(AcknowledgeEnd, GUEST) == 64
    assert "no acknowledgement of" in caplog.text


def test_only_what_is_unknown_can_be_acknowledged_and_no_guest_that_hangs(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    shell.guest.trouble = hangs()
    assert shell.add() == 64
    assert "does not answer" in caplog.text
    shell.guest.trouble = None
    shell.add()
    shell.guest.trouble = hangs()
    assert shell.run(Enforce) == 1, "a hung guest counts whoever acknowledged its disk"
    shell.guest.trouble = None
    shell.rules.write_text("default: {limits: {total_iops_sec: 250}}")
    assert shell.add() == 64
    assert "its limits are known" in caplog.text


def test_an_entry_that_cannot_be_read_costs_itself_alone(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    shell.add()
    shell.run(HoldAdd, GUEST, "vdb", "--for", "1h", "--reason", "so")
    text = shell.state.memory.read_text()
    data = json.loads(text)
    (key,) = data["acknowledged"]
    data["acknowledged"][key]["until"] = "soon"
    shell.state.memory.write_text(json.dumps(data))
    memory = shell.state.load_memory()
    assert memory is not None
    assert (memory.acknowledged, len(memory.holds)) == ({}, 1)
    assert "acknowledgement of disk" in caplog.text


def test_a_memory_without_acknowledgements_is_that_of_the_version_before(shell: Shell) -> None:
    data = json.loads(shell.state.memory.read_text())
    del data["acknowledged"]
    shell.state.memory.write_text(json.dumps(data | {"version": 5}))
    memory = shell.state.load_memory()
    assert memory is not None
    assert memory.acknowledged == {}
    assert shell.add() == 0
    assert json.loads(shell.state.memory.read_text())["version"] == 7
