"""Lists, holds and acknowledgements of all disks of a pool, a server, a project or a type: which, and how many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.cli.acknowledge import AcknowledgeAdd, AcknowledgeEnd
from plimsoll_agent.cli.disk import DiskList
from plimsoll_agent.cli.hold import HoldAdd, HoldEnd
from plimsoll_agent.cli.many import Choice
from plimsoll_agent.cli.passes import Enforce
from plimsoll_agent.model.entries import RecordedEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeHypervisor, hangs
from tests.unit.node import FSID, guest, uuid_of
from tests.unit.person import Person, Terminal
from tests.unit.places import settings_in
from tests.unit.values import a_disk, a_guest

ONE, TWO = "instance-00000001", "instance-00000002"
UNSURE = f"rules: [{{name: a, match: {{cluster: {FSID}}}, override: true, limits: {{total_iops_sec: 250}}}}]"
LONG = ("--for", "2h", "--reason", "a lost pool")


class Shell(Person):
    """A person at a node with two guests; each has a disk of its own (pool vms) and a volume (pool volumes)."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.state = directory, State(directory)
        self.guests = [guest(1), guest(2)]
        self.hypervisor = FakeHypervisor(*self.guests)
        self.rules("default: {limits: {total_iops_sec: 250}}")

    def rules(self, text: str) -> None:
        (self.directory / "rules.yaml").write_text(text)

    def run(self, command: type, *words: str, answer: str | None = None) -> int:
        settings = settings_in(self.directory, state_dir=self.directory)
        stdin = None if answer is None else Terminal(answer)
        return self.types(command, *words, settings=settings, hypervisor=self.hypervisor, stdin=stdin)

    def hold(self, *words: str, answer: str | None = None) -> int:
        return self.run(HoldAdd, *LONG, "--limits", "total_iops_sec=800", *words, answer=answer)

    def kept(self, what: str = "holds") -> list[str]:
        """Guests and targets of all that are held, or acknowledged."""
        memory = self.state.load_memory()
        entries: Mapping[str, Any] = {} if memory is None else getattr(memory, what)
        return sorted(f"{each.disk.guest_name} {each.disk.target}" for each in entries.values())

    def events(self, reason: str) -> int:
        entries = record_query.entries(Record(self.state.record), Selection(reason=reason))
        return sum(isinstance(entry, RecordedEvent) for entry in entries)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize(
    ("words", "disks"),
    [
        (("--pool", "volumes"), [f"{ONE} vdb", f"{TWO} vdb"]),
        (("--pool", "volumes", "--pool", "vms", "--server", ONE), [f"{ONE} vda", f"{ONE} vdb"]),
        (("--server", uuid_of(2)), [f"{TWO} vda", f"{TWO} vdb"]),
        (("--server", "web"), [f"{ONE} vda", f"{ONE} vdb", f"{TWO} vda", f"{TWO} vdb"]),
        (("--pool", "vms", "--server", "no-such"), []),
        (("--type", "gold"), []),
    ],
)
def test_a_list_has_the_disks_that_have_a_value_of_each_option(
    shell: Shell, words: tuple[str, ...], disks: list[str]
) -> None:
    shell.run(DiskList, *words, "-f", "json")
    assert sorted(f"{row['guest']} {row['disk']}" for row in json.loads(shell.out)) == disks


def test_a_list_without_such_disks_says_so_and_not_that_there_are_none(shell: Shell) -> None:
    shell.run(DiskList, "--pool", "a", "--pool", "b", "--type", "gold")
    assert shell.out == "No disk of type gold and pool a or b; plimsoll disk list has all.\n"


@pytest.mark.parametrize(
    ("option", "value", "has"),
    [
        ("project", "p1", True),
        ("project", "shop", True),
        ("project", "p2", False),
        ("type", "gold", True),
        ("type", "silver", False),
        ("server", "db-1", True),
        ("server", "db", False),
    ],
)
def test_projects_and_servers_have_ids_and_names(option: str, value: str, has: bool) -> None:
    disk = a_disk(a_guest(project="p1", project_name="shop", display_name="db-1"), volume_type="gold")
    nothing = dict.fromkeys(("project", "type", "pool", "server"), ())
    assert Choice(**nothing | {option: (value,)}).has(disk) is has


def test_a_pool_is_held_by_its_number_of_disks_and_a_pass_applies_it(shell: Shell) -> None:
    assert shell.hold("--pool", "volumes", answer="2\n") == 0
    assert "This holds 2 disks of 2 guests. Type 2 to go on: " in shell.out
    assert shell.kept() == [f"{ONE} vdb", f"{TWO} vdb"]
    assert [each.disks["vdb"].actual for each in shell.guests] == [Limits(total_iops_sec=800)] * 2
    assert all(f"{name} vdb  held until " in shell.out for name in (ONE, TWO))
    assert shell.events("hold") == 2


@pytest.mark.parametrize(
    ("words", "answer", "message"),
    [
        ((), "3\n", "nothing changed"),
        ((), "y\n", "nothing changed"),
        (("--disks", "3"), None, "this holds 2 disks of 2 guests, not 3; if these are the right ones: --disks 2"),
        ((), None, "no terminal to ask on: this holds 2 disks of 2 guests; if these are the right ones: --disks 2"),
        (("--server", "no-such", "--disks", "0"), None, "nothing changed: there is no disk that it holds"),
        ((ONE, "vda"), None, "give either a guest and its disk, or some of --project, --type, --pool, --server"),
    ],
)
def test_another_number_or_none_holds_nothing(
    shell: Shell, words: tuple[str, ...], answer: str | None, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert shell.hold(*words, "--pool", "volumes", answer=answer) == 64
    assert message in caplog.text
    assert shell.kept() == []
    assert shell.hypervisor.writes == []


def test_without_a_choice_a_disk_must_be_named_and_yes_means_nothing(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    assert shell.hold() == 64
    assert "give either a guest and its disk" in caplog.text
    assert shell.hold(ONE, "vda", "--disks", "1") == 64
    assert "--disks needs one of --project, --type, --pool, --server" in caplog.text


def test_disks_that_cannot_be_held_are_left_out_and_named(shell: Shell) -> None:
    shell.rules(f"rules: [{{name: hands-off, match: {{guest: {uuid_of(2)}}}, manage: false}}]")
    assert shell.hold("--pool", "volumes", "--disks", "1") == 0
    assert f"left out: {TWO} vdb: " in shell.err
    assert shell.kept() == [f"{ONE} vdb"]


def test_a_dry_run_lists_all_and_a_change_of_one_limit_keeps_the_others_of_each(shell: Shell) -> None:
    shell.guests[0].disks["vdb"] = replace(
        shell.guests[0].disks["vdb"], actual=Limits(total_iops_sec=250, total_bytes_sec=5000)
    )
    words = (*LONG, "--set", "total_iops_sec=900", "--pool", "volumes")
    shell.rules("{}")
    shell.run(HoldAdd, *words, "--dry-run")
    assert shell.out.count("vdb") >= 2
    assert shell.kept() == []
    assert shell.run(HoldAdd, *words, "--ignore-health", "--disks", "2") == 0
    actual = [each.disks["vdb"].actual for each in shell.guests]
    assert actual == [Limits(total_iops_sec=900, total_bytes_sec=5000), Limits(total_iops_sec=900)]


def test_holds_of_a_pool_end_together_also_of_a_guest_that_is_gone(shell: Shell) -> None:
    shell.hold("--pool", "volumes", "--pool", "vms", "--disks", "4")
    shell.hypervisor.by_uuid.pop(uuid_of(2))
    assert shell.run(HoldEnd, "--pool", "volumes", "--disks", "1") == 64
    assert shell.run(HoldEnd, "--pool", "volumes", "--reason", "it is back", answer="2\n") == 0
    assert "This ends the holds of 2 disks of 2 guests. Type 2 to go on: " in shell.out
    assert shell.kept() == [f"{ONE} vda", f"{TWO} vda"]


def test_names_of_servers_are_those_of_the_last_pass_where_a_hold_ends(shell: Shell) -> None:
    shell.hold("--server", ONE, "--disks", "2")
    assert shell.run(HoldEnd, "--server", "web", "--disks", "2") == 64, "no pass over the node has told its name"
    shell.run(Enforce)
    assert shell.run(HoldEnd, "--server", "web", "--disks", "2") == 0
    assert shell.kept() == []


def test_the_unknown_disks_of_a_pool_are_acknowledged_and_counted_again_together(shell: Shell) -> None:
    shell.rules(UNSURE)
    assert shell.run(AcknowledgeAdd, *LONG, "--pool", "volumes", "--dry-run") == 0
    assert shell.kept("acknowledged") == []
    assert shell.run(AcknowledgeAdd, *LONG, "--pool", "volumes", answer="2\n") == 0
    assert "This acknowledges 2 disks of 2 guests. Type 2 to go on: " in shell.out
    assert shell.kept("acknowledged") == [f"{ONE} vdb", f"{TWO} vdb"]
    assert shell.run(AcknowledgeEnd, "--server", ONE, "--disks", "1") == 0
    assert shell.kept("acknowledged") == [f"{TWO} vdb"]
    assert shell.run(AcknowledgeEnd, "--pool", "volumes", "--disks", "2") == 64
    assert shell.events("acknowledged") == 3


def test_known_disks_and_guests_that_do_not_answer_are_not_acknowledged(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    assert shell.run(AcknowledgeAdd, *LONG, "--pool", "volumes", "--disks", "2") == 64
    assert "there is no disk that it acknowledges" in caplog.text
    shell.rules(UNSURE)
    shell.guests[1].trouble = hangs()
    shell.run(AcknowledgeAdd, *LONG, "--pool", "volumes", "--disks", "1")
    assert shell.kept("acknowledged") == [f"{ONE} vdb"]
