"""Commands that are given a server's name, which a tenant chose: whom they mean, and what they ask before a write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plimsoll_agent.cli.acknowledge import AcknowledgeAdd, AcknowledgeEnd
from plimsoll_agent.cli.hold import HoldAdd, HoldEnd, HoldList
from plimsoll_agent.cli.passes import Enforce, Plan
from plimsoll_agent.cli.record import RecordList
from plimsoll_agent.cli.undo import Undo
from plimsoll_agent.model.entries import Event, Happening
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.store.record import Record
from tests.unit.agent.cli.test_many import LONG, ONE, TWO, UNSURE
from tests.unit.agent.cli.test_many import Shell as ManyShell
from tests.unit.values import NOON

LIMITED = Limits(total_iops_sec=250)
MEANING = f"web-1 is {ONE} of project "


class Shell(ManyShell):
    """A person at a node with two servers, web-1 and web-2, that a pass has seen."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.guests[0].display_name, self.guests[1].display_name = "web-1", "web-2"

    def actual(self, number: int) -> list[Limits]:
        return [disk.actual for disk in self.guests[number].disks.values()]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_limits_of_a_server_are_set_after_an_answer_only(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    assert shell.run(Enforce, "--guest", "web-1", answer="n\n") == 64
    assert MEANING in shell.out
    assert shell.run(Enforce, "--guest", "web-1") == 64, "no terminal, so nothing to ask on"
    assert f"to write its limits, give --guest {ONE}" in caplog.text
    assert shell.hypervisor.writes == []
    assert shell.run(Enforce, "--guest", "web-1", answer="y\n") == 0
    assert (shell.actual(0), shell.actual(1)) == ([LIMITED] * 2, [Limits()] * 2)


def test_a_plan_for_a_server_asks_nothing(shell: Shell) -> None:
    assert shell.run(Plan, "--guest", "web-1") == 2
    assert ONE in shell.out
    assert TWO not in shell.out


def test_an_undo_says_which_guest_a_server_is_and_leaves_the_others(shell: Shell) -> None:
    shell.run(Enforce, "--guest", ONE, "--guest", TWO)
    assert shell.run(Undo, "--last", "--guest", "web-2", "--yes", "--ignore-health") == 0
    assert f"web-2 is {TWO} of project " in shell.err
    assert (shell.actual(0), shell.actual(1)) == ([LIMITED] * 2, [Limits()] * 2)


def test_an_undo_of_a_recorded_guest_is_not_of_a_server_that_took_its_name(shell: Shell) -> None:
    shell.run(Enforce, "--guest", ONE, "--guest", TWO)
    del shell.hypervisor.by_uuid[shell.guests[0].uuid]
    shell.guests[1].display_name = ONE
    shell.run(Undo, "--last", "--guest", ONE, "--yes", "--ignore-health")
    assert shell.actual(1) == [LIMITED] * 2


@pytest.mark.parametrize("sure", [True, False], ids=["--yes", "answer"])
@pytest.mark.parametrize("what", ["holds", "acknowledged"])
def test_what_was_decided_for_a_server_ends_by_its_name_once_an_operator_agrees(
    shell: Shell, what: str, sure: bool
) -> None:
    add, end = (HoldAdd, HoldEnd) if what == "holds" else (AcknowledgeAdd, AcknowledgeEnd)
    shell.rules("{}" if what == "holds" else UNSURE)
    assert shell.run(add, ONE, "vda", *LONG) == 0
    shell.run(Enforce)  # the pass over the node notes the servers' names
    assert shell.run(end, "web-1", "vda", answer="n\n") == 64
    assert shell.kept(what) == [f"{ONE} vda"]
    assert shell.run(end, "web-1", "vda", *["--yes"] * sure, answer=None if sure else "y\n") == 0
    assert MEANING in (shell.err if sure else shell.out)
    assert shell.kept(what) == []


@pytest.mark.parametrize("what", ["holds", "acknowledged"])
def test_a_damaged_last_pass_keeps_no_decision_for_a_guest_from_its_end(shell: Shell, what: str) -> None:
    add, end = (HoldAdd, HoldEnd) if what == "holds" else (AcknowledgeAdd, AcknowledgeEnd)
    shell.rules("{}" if what == "holds" else UNSURE)
    assert shell.run(add, ONE, "vda", *LONG) == 0
    shell.run(Enforce)
    shell.state.last_pass.write_text("damaged")
    assert shell.run(end, "web-1", "vda") == 1, "whose name that is cannot be told"
    assert shell.run(end, ONE, "vda") == 0
    assert shell.kept(what) == []


def test_the_record_of_a_server_is_that_of_its_guest(shell: Shell) -> None:
    shell.run(Enforce)
    for words in (("--guest", "web-2", "-c", "guest", "-f", "value"), ("--at", "1s", "web-2")):
        assert shell.run(RecordList, *words) == 0
        assert TWO in shell.out
        assert ONE not in shell.out


def test_lists_name_the_servers_of_the_last_pass_and_others_by_their_guests(shell: Shell) -> None:
    for guest in (ONE, TWO):
        assert shell.run(HoldAdd, guest, "vda", *LONG) == 0
    shell.run(Enforce)
    del shell.hypervisor.by_uuid[shell.guests[1].uuid]
    shell.run(Enforce)
    Record(shell.state.record).note([Event(at=NOON, by="ann", what=Happening.PAUSED, reason=None)])
    for command, others in ((RecordList, {("this node", "this node")}), (HoldList, set())):
        assert shell.run(command, "-c", "server", "-c", "guest") == 0
        rows = {tuple(line.split("  ")) for line in shell.out.splitlines()[1:]}
        assert {tuple(filter(None, map(str.strip, row))) for row in rows} == {("web-1", ONE), (TWO, TWO)} | others
        assert shell.run(command, "-f", "json") == 0
        data = {(row["server"], row["guest"]) for row in json.loads(shell.out)}
        assert data - {(None, None)} == {("web-1", ONE), (None, TWO)}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Enforce, ("--guest", "web-1")),
        (Undo, ("--last", "--yes", "--guest", "web-1")),
        (HoldEnd, ("web-1", "vda", "--yes")),
        (AcknowledgeEnd, ("web-1", "vda", "--yes")),
        (RecordList, ("--guest", "web-1")),
    ],
)
def test_a_name_of_two_servers_means_neither(
    shell: Shell, command: type, words: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    shell.guests[1].display_name = "web-1"
    shell.run(Enforce)
    before = len(shell.hypervisor.writes)
    assert shell.run(command, *words) == 64
    assert f"2 servers are named 'web-1': {ONE}, {TWO}; give one of these names" in caplog.text
    assert len(shell.hypervisor.writes) == before


def test_the_end_of_a_hold_is_not_said_to_be_none_where_the_last_pass_is_damaged(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    shell.run(Enforce)
    shell.state.last_pass.write_text("{")
    assert shell.run(HoldEnd, "web-1", "vda", "--yes") == 1
    assert "no hold on" not in caplog.text
