"""``plimsoll disk hold``: what its status promises, what it says, and what it leaves in memory and record."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.cli.disk import DiskList, DiskShow
from plimsoll_agent.cli.hold import HoldAdd, HoldEnd, HoldList
from plimsoll_agent.errors import Unreachable
from plimsoll_agent.messages.record import entry_line
from plimsoll_agent.model.entries import RecordedEvent
from plimsoll_agent.model.hypervisor import Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.state import Memory, State
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeHypervisor, hangs
from tests.unit.node import guest
from tests.unit.person import Person
from tests.unit.places import settings_in

GUEST = "instance-00000001"
HELD = Limits(total_iops_sec=800)


class Shell(Person):
    """A person at a node with one guest, two unlimited disks on it, and rules that limit both."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.guest = guest(1)
        self.hypervisor = FakeHypervisor(self.guest)
        self.mode = "enforce"
        self.before: dict[int, Callable[[], object]] = {}
        """What happens before the connection of this number, from 1."""
        (directory / "rules.yaml").write_text("default: {limits: {total_iops_sec: 250}}")
        self.connected = 0

    def add(self, *words: str, target: str = "vda", limits: str | None = "total_iops_sec=800") -> int:
        given = () if limits is None else ("--limits", limits)
        return self.run(HoldAdd, GUEST, target, "--for", "2h", "--reason", "why not", *given, *words)

    def run(self, command: type, *words: str, stdin: io.StringIO | None = None) -> int:
        settings = settings_in(self.directory, state_dir=self.directory, mode=self.mode)

        @contextmanager
        def libvirt(*_: object) -> Iterator[FakeHypervisor]:
            self.connected += 1
            self.before.get(self.connected, lambda: None)()
            yield self.hypervisor

        self.connected = 0
        return self.types(command, *words, settings=settings, libvirt=libvirt, stdin=stdin)

    @property
    def state(self) -> State:
        return State(self.directory)

    def holds(self) -> dict[str, Limits | None]:
        """By target."""
        memory = self.state.load_memory()
        assert memory is not None
        return {hold.disk.target: hold.limits for hold in memory.holds.values()}

    def events(self) -> list[RecordedEvent]:
        entries = record_query.entries(Record(self.state.record), Selection(reason="hold"))
        return [entry for entry in entries if isinstance(entry, RecordedEvent)]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


# --- a disk by the name of its server


class Answers(io.StringIO):
    def isatty(self) -> bool:
        return True


def by_server(shell: Shell, *words: str, stdin: io.StringIO | None = None) -> int:
    shell.guest.display_name = "web-1"
    return shell.run(HoldAdd, "web-1", "vda", "--for", "2h", "--reason", "x", *words, stdin=stdin)


def test_a_hold_by_a_servers_name_says_which_guest_it_is_and_asks(shell: Shell) -> None:
    assert by_server(shell, stdin=Answers("n\n")) == 64
    assert f"web-1 is {GUEST} of project " in shell.out
    assert shell.state.load_memory() is None or not shell.holds()
    assert by_server(shell, stdin=Answers("y\n")) == 0
    assert set(shell.holds()) == {"vda"}


def test_a_hold_by_a_servers_name_without_a_terminal_needs_yes(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    assert by_server(shell) == 64
    assert f"add --yes if it is meant, or give {GUEST}" in caplog.text
    assert by_server(shell, "--yes") == 0
    assert f"web-1 is {GUEST} of project" in shell.err
    assert set(shell.holds()) == {"vda"}


def test_looking_at_a_disk_by_its_servers_name_asks_nothing(shell: Shell) -> None:
    shell.guest.display_name = "web-1"
    assert shell.run(DiskShow, "web-1", "vda") == 0
    assert shell.run(DiskList, "--guest", "web-1") == 0
    assert GUEST in shell.out


# --- the status of hold add


def test_a_hold_actual_is_0_and_the_pass_reports_the_other_disks(shell: Shell) -> None:
    assert shell.add() == 0
    assert shell.guest.disks["vda"].actual == HELD
    held, *passed = shell.out.splitlines()
    assert held.startswith(f"{GUEST} vda  held until ")
    assert [line.split("  ")[0] for line in passed] == [f"+ {GUEST} web vda", f"+ {GUEST} web vdb"]
    assert "250" in passed[1], "the pass is over the guest, and hides nothing of what it did to it"


@pytest.mark.parametrize(("limits", "status"), [("total_iops_sec=800", 3), (None, 0)])
def test_a_disk_that_is_left_alone_does_not_have_the_limits_of_the_hold(
    shell: Shell, limits: str | None, status: int
) -> None:
    shell.before[2] = lambda: setattr(shell.guest, "movement", Movement.LEAVING)
    assert shell.add(limits=limits) == status
    assert "migrating out" in shell.out
    assert "vda" in shell.holds()


def unreachable() -> None:
    raise Unreachable("libvirt is gone")


@pytest.mark.parametrize("stopped", [False, True], ids=["libvirt", "guest"])
def test_a_hold_stands_and_says_so_when_its_pass_comes_to_nothing(shell: Shell, stopped: bool) -> None:
    shell.before[2] = shell.hypervisor.by_uuid.clear if stopped else unreachable
    assert shell.add() == 3
    assert shell.holds() == {"vda": HELD}
    assert "Held, but not applied" in shell.err
    assert ("no running guest has" if stopped else "libvirt is gone") in shell.err


def test_a_guest_that_could_not_be_looked_at_is_not_said_to_be_gone(shell: Shell) -> None:
    shell.before[2] = lambda: setattr(shell.guest, "xml", "<no xml")
    assert shell.add() == 3
    assert "cannot be parsed" in shell.out
    assert "gone" not in shell.out


def test_in_mode_observe_nothing_is_written_and_the_status_is_0(shell: Shell) -> None:
    shell.mode = "observe"
    assert shell.add() == 0
    assert shell.hypervisor.writes == []
    assert shell.holds() == {"vda": HELD}


def test_broken_rules_do_not_make_a_hold_that_stands_look_like_none(shell: Shell) -> None:
    assert shell.add() == 0
    (shell.directory / "rules.yaml").write_text("broken")
    assert shell.add(target="vdb", limits="total_iops_sec=100") == 0
    assert shell.err.count("Using the last good rules") == 1


# --- one limit of several


BOTH = Limits(total_iops_sec=250, total_bytes_sec=100 * 2**20)


@pytest.fixture
def limited(shell: Shell) -> Shell:
    """Its first disk has limits of both units, as the rules desire."""
    (shell.directory / "rules.yaml").write_text("default: {limits: {total_iops_sec: 250, total_bytes_sec: 100MiB}}")
    shell.guest.disks["vda"].actual = BOTH
    return shell


def test_set_changes_one_limit_and_the_dry_run_the_hold_and_the_pass_say_the_same(limited: Shell) -> None:
    change = f"~ {GUEST} web vda  250 → 200 IOPS (100 MiB/s kept)  held until "
    assert limited.add("--set", "total_iops_sec=200", "--dry-run", limits=None) == 0
    assert limited.out.startswith(change)
    assert limited.add("--set", "total_iops_sec=200", limits=None) == 0
    held, line, *_ = limited.out.splitlines()
    assert held.endswith("UTC: 200 IOPS 100 MiB/s")
    assert line.startswith(change)
    assert limited.err == ""
    assert limited.guest.disks["vda"].actual == replace(BOTH, total_iops_sec=200)


def test_a_cut_that_removes_another_limit_says_so_before_and_when_it_is_deferred_for_that(limited: Shell) -> None:
    """No ceph.conf names the disk's cluster here, so its health is unknown and nothing is removed."""
    assert limited.add(limits="total_iops_sec=200") == 3
    keep = "to keep that: "
    assert limited.err == (f"--limits is the full set, and removes total_bytes_sec; {keep}--set total_iops_sec=200\n")
    assert f"; it would remove total_bytes_sec; {keep}plimsoll disk hold add with --set total_iops_sec=200" in (
        limited.out
    )
    assert limited.guest.disks["vda"].actual == BOTH
    assert limited.add("--set", "total_iops_sec=200", limits=None) == 0, "what the deferred hold lacks is kept too"
    assert limited.guest.disks["vda"].actual == replace(BOTH, total_iops_sec=200)
    assert limited.add("--set", "total_bytes_sec=50MiB", limits=None) == 0
    assert limited.guest.disks["vda"].actual == Limits(total_iops_sec=200, total_bytes_sec=50 * 2**20)


@pytest.mark.parametrize("limits", ["unlimited", "read_iops_sec=100,write_iops_sec=100,total_bytes_sec=1MiB", None])
def test_a_hold_that_removes_all_or_nothing_has_no_warning(limited: Shell, limits: str | None) -> None:
    limited.add("--dry-run", limits=limits)
    assert limited.err == ""


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (
            "default: {limits: {total_iops_sec: 900}}",
            "--set changes the desired limits (900 IOPS); the actual ones are 250 IOPS 100 MiB/s.",
        ),
        ("{}", "--set changes the actual limits (250 IOPS 100 MiB/s): no source desires others."),
    ],
)
def test_set_says_which_limits_it_changes_where_there_are_two(limited: Shell, rules: str, words: str) -> None:
    (limited.directory / "rules.yaml").write_text(rules)
    assert limited.add("--dry-run", "--set", "total_bytes_sec=1MiB", limits=None) == 0
    assert limited.out.splitlines()[0] == words


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (None, r"vda: its limits are unknown: .*; give the full set with --limits"),
        ("gold", "shares its limits with others, as group gold"),
    ],
)
def test_set_keeps_no_limits_that_are_unknown_or_those_of_a_group(
    limited: Shell, caplog: pytest.LogCaptureFixture, group: str | None, words: str
) -> None:
    (limited.directory / "rules.yaml").write_text("{}")
    if group is None:
        limited.guest.trouble = hangs()
    limited.guest.disks["vda"].actual = replace(BOTH, group_name=group)
    assert limited.add("--set", "total_iops_sec=200", limits=None) == 64
    assert re.search(words, caplog.messages[-1])
    assert limited.state.load_memory() is None


# --- the words around it


@pytest.mark.parametrize("span", ["-2h", "-1d12h", "-90m"])
def test_a_hold_for_less_than_no_time_is_refused_for_what_is_wrong(
    shell: Shell, span: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert shell.run(HoldAdd, GUEST, "vda", "--for", span, "--reason", "x") == 64
    assert caplog.messages == [f"--for: must be positive, like {span[1:]}"]


@pytest.mark.parametrize(
    ("mode", "paused", "next_line"),
    [
        ("enforce", None, "the next pass applies the desired limits"),
        ("observe", None, "mode is observe: nothing will be written"),
        ("enforce", "", "the node is paused: nothing will be written until plimsoll resume"),
        (
            "enforce",
            "until 2100-01-01 05:03 UTC:\n",
            "the node is paused: nothing will be written until 2100-01-01 05:03 UTC or plimsoll resume",
        ),
    ],
)
def test_the_end_of_a_hold_says_what_its_limits_will_be(
    shell: Shell, mode: str, paused: str | None, next_line: str
) -> None:
    shell.add()
    shell.mode = mode
    if paused is not None:
        (shell.directory / "paused").write_text(paused)
    assert shell.run(HoldEnd, GUEST) == 0
    assert shell.out == f"{GUEST} vda  no longer held; {next_line}\n"


# --- the health of Ceph


def test_a_hold_that_ignores_the_health_gate_raises_a_limit_and_the_record_says_so(shell: Shell) -> None:
    """No ceph.conf names the disk's cluster here, so its health is unknown."""
    shell.add(limits="total_iops_sec=700")
    assert shell.add() == 3
    assert shell.guest.disks["vda"].actual == Limits(total_iops_sec=700)
    assert shell.add("--ignore-health") == 0
    assert shell.guest.disks["vda"].actual == HELD
    *_, last = shell.events()
    assert last.reason is not None
    assert last.reason.facts["ignore_health"] is True
    assert "why not (ignores the health gate)" in entry_line(last)
    shell.run(HoldList)
    assert "why not (ignores the health gate)" in shell.out


# --- memory and record


def test_the_hold_that_another_replaces_ends_in_the_record_first(shell: Shell) -> None:
    shell.add(limits="total_iops_sec=700")
    shell.add()
    assert [event.what.value for event in shell.events()] == ["hold-added", "hold-ended", "hold-added"]
    assert shell.holds() == {"vda": HELD}


def test_why_a_hold_was_ended_is_told_beside_why_there_was_one(shell: Shell) -> None:
    shell.add()
    shell.run(HoldEnd, GUEST, "--reason", "the import\nis done")
    assert shell.holds() == {}
    ended = shell.events()[-1]
    line = entry_line(ended)
    assert "why not; ended early: the import?is done" in line
    shell.add()
    shell.run(HoldEnd, GUEST)
    assert "early" not in entry_line(shell.events()[-1])


def test_ending_one_hold_leaves_the_end_of_another_to_be_recorded(shell: Shell) -> None:
    shell.add()
    shell.add(target="vdb")
    memory = shell.state.load_memory()
    assert memory is not None
    past = datetime.now(UTC) - timedelta(minutes=1)
    over = {key: replace(hold, until=past) if key.endswith("_disk") else hold for key, hold in memory.holds.items()}
    shell.state.save_memory(Memory(disks=memory.disks, holds=over))
    assert shell.run(HoldEnd, GUEST, "vdb") == 0
    assert list(shell.holds()) == ["vda"], "a pass has yet to say in the record that it has ended"


def test_since_when_a_disk_is_held_is_listed(shell: Shell) -> None:
    shell.add()
    assert shell.run(HoldList, "-f", "json") == 0
    (held,) = json.loads(shell.out)
    since, until = (datetime.fromisoformat(held[name]) for name in ("since", "until"))
    assert until - since == timedelta(hours=2)


# --- a memory that is damaged


def damage(shell: Shell) -> None:
    shell.add()
    shell.state.memory.write_text("no memory")


def test_unknown_holds_are_not_reported_as_none(shell: Shell) -> None:
    assert shell.run(HoldList) == 0
    assert shell.out == "No holds on this node; to add one: plimsoll disk hold add\n"
    damage(shell)
    assert shell.run(HoldList) == 1
    assert shell.out == ""
    assert "memory.json: is corrupt" in shell.err
    assert shell.state.memory.read_text() == "no memory", "whoever looks leaves it to the next pass"


@pytest.mark.parametrize("command", ["add", "end"])
def test_a_memory_is_not_set_aside_without_a_word(shell: Shell, command: str) -> None:
    damage(shell)
    status = shell.add() if command == "add" else shell.run(HoldEnd, GUEST, "vda")
    assert status == (0 if command == "add" else 64)
    assert "memory file damaged" in shell.err
    assert shell.err.count("memory.json: is corrupt") == 1


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        ("total_iops_sec=2k", f"+ {GUEST} web vda  unlimited → 2000 IOPS  held until "),
        (None, f"= {GUEST} web vda  stays unlimited  held until "),
    ],
)
def test_a_dry_run_of_a_hold_shows_it_and_leaves_nothing_behind(shell: Shell, limits: str | None, line: str) -> None:
    assert shell.add("--dry-run", limits=limits) == 0
    shown, below = shell.out.splitlines()
    assert shown.startswith(line)
    assert below == "Dry run: nothing is written."
    assert shell.guest.disks["vda"].actual == Limits()
    assert shell.state.load_memory() is None
