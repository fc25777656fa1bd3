"""``plimsoll top`` before now: what it shows of a pass, from the files that passes and changes leave on the node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.cli.passes import Enforce
from plimsoll_agent.cli.top import Rewind
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import usage_history
from plimsoll_agent.reconcile.outcome import Scope
from plimsoll_agent.top.keys import About, Pane, View
from plimsoll_agent.top.live import Contents, screen
from plimsoll_agent.top.sampler import Sampler
from plimsoll_agent.util.frozen import replace
from tests.unit.agent.cli.test_many import ONE, TWO, Shell
from tests.unit.lastpasses import a_last_disk, a_last_pass

WIDTHS = (60, 80, 120, 200)


class Node(Shell):
    """Two servers, web-1 and db-1, and what its passes measured of the first one: half of a limit."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.guests[0].display_name, self.guests[1].display_name = "web-1", "db-1"
        sampler = Sampler(self.hypervisor, Scope(), clock=lambda: 1.0, at_once=1)
        sampler.ask()
        self.sample = sampler.sample()
        self.now = datetime.now(UTC)
        self.past = Rewind(self.state)

    def passed(self, minutes: float, iops: float, *, guests: int = 1) -> None:
        disks = [
            a_last_disk(
                usage.disk.named,
                rates=Rates(iops, 0.0, 4096 * iops, 0.0, 300.0),
                shares={"total_iops_sec": 0.5},
                actual=replace(usage.disk.defined, total_iops_sec=200),
            )
            for usage in self.sample.usages[: 2 * guests]
        ]
        at = self.now - timedelta(minutes=minutes)
        usage_history.append(self.state, a_last_pass(*disks, looked=at, hung_guests=frozenset()))

    def screen(self, back: int, width: int = 120) -> tuple[View, list[str]]:
        live = Contents(sample=self.sample, at=self.now, node="compute-17", interval=2.0)
        view, contents = self.past.of(View(back=back), live)
        lines = screen(contents, view, width, 20).lines
        return view, [line.plain.rstrip() for line in lines]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_step_back_shows_what_the_disks_did_in_that_pass_and_the_limits_of_then(node: Node) -> None:
    node.passed(10, 900)
    node.passed(5, 100)
    for back, iops in ((1, "100"), (2, "900")):
        view, lines = node.screen(back)
        (row,) = (line for line in lines if line.startswith("web-1") and " vda " in line)
        assert iops in row.split()
        assert "50 % IOPS" in row
        assert view.back == back
        assert f"PAST: {back} pass" in lines[0]
        assert f"{node.now - timedelta(minutes=5 * back):%H:%M:%S}Z" in lines[0]


def test_a_disk_that_this_pass_did_not_measure_is_unknown_and_not_idle(node: Node) -> None:
    node.passed(5, 100)
    _, lines = node.screen(1)
    assert all("unknown: not measured in this pass" in line for line in lines if line.startswith("db-1"))
    assert "2 unknown" in lines[0]


def test_a_step_back_beyond_the_oldest_pass_stays_on_it_and_forward_again_is_one_key(node: Node) -> None:
    node.passed(10, 900)
    node.passed(5, 100)
    assert node.screen(7)[0].back == 2


def test_limits_that_were_changed_before_a_pass_are_marked_in_it_and_in_no_other(node: Node) -> None:
    node.passed(10, 900)
    assert node.run(Enforce, "--guest", ONE) == 0
    node.passed(-1, 100)
    _, after = node.screen(1)
    assert "changed: web-1 vda unlimited → 250 IOPS, web-1 vdb unlimited → 250 IOPS" in after[1]
    _, before = node.screen(2)
    assert "▲◆" in before[1]
    assert "no limit changed" in before[1]
    assert TWO not in after[1]


def test_what_the_newest_pass_changed_itself_is_not_hidden_until_the_next_one(node: Node) -> None:
    node.passed(5, 900)
    node.passed(0, 100)
    assert node.run(Enforce, "--guest", ONE) == 0
    assert "changed: web-1 vda unlimited → 250 IOPS" in node.screen(1)[1][1]
    assert "no limit changed" in node.screen(2)[1][1]


def test_an_hour_is_the_end_and_a_node_without_passes_says_so(node: Node) -> None:
    node.passed(61, 900)
    view, lines = node.screen(1)
    assert "no pass of the last hour measured the disks" in lines[1]
    assert view.back == 1, "until > is pressed, so that it can be read"
    assert "PAST" not in lines[0]


def test_disks_of_a_pass_that_are_no_longer_here_are_counted(node: Node) -> None:
    node.passed(5, 100, guests=2)
    node.sample = replace(node.sample, usages=node.sample.usages[:2])
    assert "2 disks of then not here now" in node.screen(1)[1][1]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_past_fits_every_terminal(node: Node, width: int) -> None:
    for minutes in range(58, 0, -1):
        node.passed(minutes, minutes)
    _, lines = node.screen(30, width)
    assert max(map(len, lines)) <= width
    assert "PAST: 30 passes back" in lines[0]
    assert lines[1].count("▲") == 1


def test_h_shows_the_command_that_holds_the_disk_at_its_closest_limit(node: Node) -> None:
    node.passed(5, 100)
    live = Contents(sample=node.sample, at=node.now, node="compute-17", interval=2.0)
    view, contents = node.past.of(View(back=1), live)
    view = replace(view, pane=Pane(node.sample.usages[0].disk.key, about=About.HOLD))
    lines = "\n".join(line.plain for line in screen(contents, view, 120, 20).lines)
    assert f"plimsoll disk hold add {ONE} vda --for 2h --set total_iops_sec=200 --reason TEXT" in lines
