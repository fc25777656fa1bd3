"""What ``plimsoll top`` tells of desired limits: what a plan decides, of what was read already."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from plimsoll_agent.app.context import pass_context, run
from plimsoll_agent.app.live_plan import LivePlan
from plimsoll_agent.app.node import state_of
from plimsoll_agent.cli import top_once
from plimsoll_agent.cli.disk import DiskExplain, DiskShow
from plimsoll_agent.cli.top_once import COLUMNS
from plimsoll_agent.credits.ledger import Account, Bucket
from plimsoll_agent.errors import NotFound
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.reconcile.outcome import Mode, Scope
from plimsoll_agent.top.rows import Wrong, rows
from plimsoll_agent.top.sampler import Sampler
from plimsoll_agent.util.frozen import replace
from tests.fakes import PROJECT, FakeGuest, FakeHypervisor, hangs, volume
from tests.unit.person import Person
from tests.unit.places import settings_in

RULES = "default: {limits: {total_iops_sec: 250}}"
A, B = "1ebc1454-0d31-4367-8c90-06e18daa66f9", "2ebc1454-0d31-4367-8c90-06e18daa66f9"
OF_A, OF_B = "aaaabc14-0d31-4367-8c90-06e18daa66f9", "bbbbbc14-0d31-4367-8c90-06e18daa66f9"


class Node:
    """Guest ``a``, unlimited, and guest ``b``, as it is desired."""

    def __init__(self, directory: Path, text: str = RULES) -> None:
        self.a = FakeGuest("a", A, {"vda": volume(OF_A)})
        self.b = FakeGuest("b", B, {"vda": volume(OF_B, actual=Limits(total_iops_sec=250))})
        self.hypervisor = FakeHypervisor(self.a, self.b)
        (directory / "rules.yaml").write_text(text)
        self.settings = settings_in(directory)
        self.sampler = Sampler(self.hypervisor, Scope(), clock=lambda: 1.0, at_once=1)
        self.sampler.ask()
        self.hypervisor.calls.clear()
        self.plan = LivePlan(self.settings, Scope())

    def written(self) -> list[str]:
        return sorted(str(path) for path in self.settings.state_dir.rglob("*"))


def test_it_decides_as_a_plan_does_and_asks_no_service_and_writes_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    planned = node.plan.planned(node.sampler.sample())
    assert (node.hypervisor.calls, node.written(), planned.complaint) == ([], [], "")
    context = pass_context(node.settings, read_only=True)
    passed = run(node.settings, node.hypervisor, context, scope=Scope(), mode=Mode.PLAN)
    assert {key: (o.change, o.result) for key, o in planned.outcomes.items()} == {
        o.disk.key: (o.change, o.result) for o in passed.outcomes
    }
    found = rows(node.sampler.sample(), planned)
    assert [(row.guest_name, row.wrong) for row in found] == [("a", Wrong.UNLIMITED), ("b", Wrong.NOT)]


def test_it_tells_whether_passes_write(tmp_path: Path) -> None:
    node = Node(tmp_path)
    pause_file = tmp_path / "paused"
    plan = LivePlan(replace(node.settings, mode="enforce", pause_file=pause_file), Scope())
    assert plan.planned(node.sampler.sample()).mode == "enforce"
    pause_file.touch()
    assert plan.planned(node.sampler.sample()).mode == "writes paused"


def test_a_disk_that_shares_a_ceiling_says_which_and_its_part(tmp_path: Path) -> None:
    shared = "{name: team, match: {pool: volumes}, project_ceiling: {total_iops_sec: 300}}"
    node = Node(tmp_path, f"{RULES}\nrules: [{shared}]")
    node.settings.state_dir.mkdir()
    node.b.disks["vda"].actual = Limits()
    context = pass_context(node.settings, read_only=False)
    run(node.settings, node.hypervisor, context, scope=Scope(), mode=Mode.ENFORCE)
    assert [guest.disks["vda"].actual.total_iops_sec for guest in (node.a, node.b)] == [150, 150]
    node.sampler = Sampler(node.hypervisor, Scope(), clock=lambda: 1.0, at_once=1)
    node.sampler.ask()
    row = rows(node.sampler.sample(), node.plan.planned(node.sampler.sample()), sort="name")[0]
    assert row.limits_words == "150 IOPS, desired 250 IOPS; part of 300 IOPS of project demo"
    expected = [
        {
            "whose": "project",
            "owner": PROJECT,
            "rule": "team",
            "ceiling": {"total_iops_sec": 300},
            "disks": 2,
            "used": {"total_iops_sec": None},
            "allowed": {"total_iops_sec": 300},
            "part": {"total_iops_sec": 150},
        }
    ]
    cells = dict(zip(map(str, COLUMNS), top_once.cells(row), strict=True))
    assert cells["ceilings"].machine_readable() == expected  # type: ignore[attr-defined]
    line = 'project demo: 300 IOPS on this node, its part 150 IOPS (rule "team"; 2 disks)'
    assert cells["ceilings"].human_readable() == line  # type: ignore[attr-defined]
    person = Person()
    for command in (DiskShow, DiskExplain):
        person.types(command, "a", "vda", "-f", "json", settings=node.settings, hypervisor=node.hypervisor)
        assert json.loads(person.out)["ceilings"] == expected
        person.types(command, "a", "vda", settings=node.settings, hypervisor=node.hypervisor)
        assert line in " ".join(person.out.replace("|", " ").split())


def test_what_is_saved_of_a_burst_is_brought_forward_to_the_readings(tmp_path: Path) -> None:
    """Passes are minutes apart, in which a burst may end."""
    bursting = Limits(total_iops_sec=100, total_iops_sec_max=1000, total_iops_sec_max_length=60)
    node = Node(tmp_path, f"default: {{limits: {json.dumps(bursting.in_effect())}}}")
    disk = node.b.disks["vda"]
    disk.actual, disk.done = bursting, (15000, 0, 0, 0)
    sampler = Sampler(node.hypervisor, Scope(), clock=lambda: 100.0, at_once=1)
    sampler.ask()
    first, second = (usage.disk for usage in sampler.sample().usages)
    account = Account(
        at=70.0,
        counters={
            second.key: (
                second.attachment,
                BlockStats(read_requests=0, read_bytes=0, write_requests=0, write_bytes=0),
            )
        },
        buckets={"total_iops_sec": Bucket(spent=3000, held=57000, room=60000)},
    )
    node.settings.state_dir.mkdir()
    state_of(node.settings).save_accounts({second.key: account})
    saved = node.plan.planned(sampler.sample()).saved
    left = 60000 - 3000 - (15000 - 30 * 100)
    assert saved == {first.key: {"total_iops_sec": 1}, second.key: {"total_iops_sec": left / 60000}}


def test_rules_that_cannot_be_read_leave_the_desired_limits_unknown(tmp_path: Path) -> None:
    node = Node(tmp_path, "default: {limit: 1}")
    planned = node.plan.planned(node.sampler.sample())
    assert "rules.yaml:1" in planned.complaint
    assert not planned.outcomes
    (row, _) = rows(node.sampler.sample(), planned)
    assert "desired unknown" in row.limits_words


def test_an_edit_of_the_rules_counts_at_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.plan.planned(node.sampler.sample())
    node.settings.rules_file.write_text("{}")
    planned = node.plan.planned(node.sampler.sample())
    assert [row.wrong for row in rows(node.sampler.sample(), planned)] == [Wrong.NOT, Wrong.NOT]


def test_an_explanation_has_the_words_of_disk_explain_and_asks_no_other_guest(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.b.trouble = hangs()
    explained = node.plan.explained(node.sampler.sample(), A, f"{A}/{OF_A}", node.hypervisor)
    assert node.hypervisor.calls == ["guests", "look", "actual"]
    assert re.fullmatch(r"plimsoll disk explain a vda   \d\d:\d\d:\d\dZ", explained.title)
    node.b.trouble = None
    person = Person()
    person.types(DiskExplain, "a", settings=node.settings, hypervisor=node.hypervisor)
    told = [line.split() for line in person.out.splitlines()[-len(explained.rows) :]]
    assert [" ".join(row).split() for row in explained.rows] == told


def test_what_cannot_be_explained_says_why(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with pytest.raises(NotFound, match="no longer attached"):
        node.plan.explained(node.sampler.sample(), A, f"{A}/gone", node.hypervisor)
    node.a.trouble = hangs()
    explained = node.plan.explained(node.sampler.sample(), A, f"{A}/{OF_A}", node.hypervisor)
    assert any("unknown" in answer for _, answer in explained.rows)
