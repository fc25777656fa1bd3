"""``plimsoll top`` before now: what it shows of a pass, from the files that passes and changes leave on the node."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from plimsoll_agent.cli.passes import Enforce
from plimsoll_agent.cli.top import Rewind
from plimsoll_agent.errors import Unreachable
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import usage_history
from plimsoll_agent.monitor.usage_history import PastDisk, PastPass
from plimsoll_agent.reconcile.outcome import Scope
from plimsoll_agent.top.keys import About, Pane, View
from plimsoll_agent.top.live import Contents, screen
from plimsoll_agent.top.sampler import Sampler
from plimsoll_agent.util.frozen import replace
from tests.fakes import raising
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
                rates=Rates(read_iops=iops, write_iops=0.0, read_bytes=4096 * iops, write_bytes=0.0, seconds=300.0),
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
        assert "50 % of 200 IOPS" in row
        assert view.back == back
        assert f"PAST: {back} pass" in lines[0]
        assert f"{node.now - timedelta(minutes=5 * back):%H:%M:%S}Z" in lines[0]
    assert node.screen(7)[0].back == 2, "no pass is older"


def test_a_disk_that_this_pass_did_not_measure_is_unknown_and_not_idle(node: Node) -> None:
    node.passed(5, 100)
    _, lines = node.screen(1)
    assert all("unknown: not measured in this pass" in line for line in lines if line.startswith("db-1"))
    assert "2 unknown" in lines[0]


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
    view = replace(view, pane=Pane(key=node.sample.usages[0].disk.key, about=About.HOLD))
    lines = "\n".join(line.plain for line in screen(contents, view, 120, 20).lines)
    assert f"plimsoll disk hold add {ONE} vda --for 2h --set total_iops_sec=200 --reason TEXT" in lines


# --- the time before the last hour


def before(node: Node, *hours: float, iops: float = 300) -> list[PastPass]:
    """What Prometheus has of the first disk, so long ago, the oldest first."""
    rates = Rates(read_iops=iops, write_iops=0.0, read_bytes=4096 * iops, write_bytes=0.0, seconds=3600.0)
    past = PastDisk(
        operations=iops, bytes=4096 * iops, latency=None, limit="total_iops_sec", share=1.0, allowed=300, rates=rates
    )
    key = node.sample.usages[0].disk.key
    return [PastPass(at=node.now - timedelta(hours=ago), disks={key: past}, step=3600) for ago in hours]


def answered(node: Node, back: int, word: str) -> list[str]:
    """The screen once the time before has come."""
    end = time.monotonic() + 20
    while word not in "\n".join(lines := node.screen(back)[1]):
        assert time.monotonic() < end, lines
        time.sleep(0.01)
    return lines


def test_beyond_the_passes_of_the_hour_is_what_prometheus_has_and_the_screen_says_so(node: Node) -> None:
    node.passed(5, 100)
    asked: list[datetime] = []

    def earlier(_: Sequence[Disk], until: datetime) -> tuple[list[PastPass], str]:
        asked.append(until)
        return before(node, 30, 3), ""

    node.past = Rewind(node.state, earlier)
    lines = answered(node, 2, "mean of")
    at = node.now - timedelta(hours=3)
    assert f"{at:%Y-%m-%d %H:%M}Z" in lines[0]
    assert "PAST: 2 back, Prometheus, mean of 1 h" in lines[0]
    assert f"{node.now - timedelta(hours=30):%Y-%m-%d %H:%M}Z ·▲· " in lines[1]
    assert "Prometheus, mean of 1 h" in node.screen(2, width=80)[1][0]
    (row,) = (line for line in lines if line.startswith("web-1") and " vda " in line)
    assert ("300" in row.split(), "100 % of 300 IOPS" in row) == (True, True)
    others = [line for line in lines if line.startswith("db-1")]
    assert all("unknown: Prometheus has no sample of it" in line for line in others)
    assert len(others) == 2
    assert node.screen(9)[0].back == 3
    assert "PAST: 1 pass back" in node.screen(1)[1][0]
    assert [abs(until - (node.now - timedelta(minutes=5))) < timedelta(seconds=1) for until in asked] == [True]


def test_a_change_of_days_ago_is_a_mark_in_its_step(node: Node) -> None:
    assert node.run(Enforce, "--guest", ONE) == 0
    node.now += timedelta(days=2)
    node.passed(5, 100)
    node.past = Rewind(node.state, lambda *_: (before(node, 60, 47, 30), ""))
    lines = answered(node, 3, "mean of")
    assert "changed: web-1 vda unlimited → 250 IOPS" in lines[1]
    assert "·▲··" in lines[1]
    assert "no limit changed" in node.screen(2)[1][1]


INCOMPLETE = "http://p:9090: the answer is incomplete: a storage node did not answer"


def test_what_is_missing_in_an_incomplete_answer_is_told_beside_what_there_is(node: Node) -> None:
    node.passed(5, 100)
    node.past = Rewind(node.state, lambda *_: (before(node, 30, 3), INCOMPLETE))
    assert "PAST: 2 back, Prometheus, mean of 1 h" in answered(node, 2, INCOMPLETE)[0]
    assert INCOMPLETE not in "".join(node.screen(0)[1])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (raising(Unreachable("http://p:9090: cannot be reached")), "http://p:9090: cannot be reached"),
        (lambda *_: ([], ""), "Prometheus has no sample of these disks"),
        (lambda *_: ([], INCOMPLETE), INCOMPLETE),
    ],
)
def test_without_an_answer_the_passes_stay_and_the_screen_says_why(
    node: Node, answer: Callable[..., tuple[list[PastPass], str]], words: str
) -> None:
    node.passed(5, 100)
    node.past = Rewind(node.state, answer)
    lines = answered(node, 2, words)
    assert "PAST: 1 pass back" in lines[0]
    assert words not in "".join(node.screen(0)[1])


def test_prometheus_is_asked_of_the_disks_once_they_are_known(node: Node) -> None:
    asked: list[int] = []
    node.past = Rewind(node.state, lambda disks, _: (asked.append(len(disks)) or before(node, 3), ""))
    whole, node.sample = node.sample, replace(node.sample, usages=())
    assert "no pass of the last hour measured the disks" in node.screen(1)[1][1]
    node.sample = whole
    answered(node, 1, "mean of")
    assert asked == [len(whole.usages)]


def test_while_prometheus_is_asked_the_hour_can_be_seen_and_the_screen_says_that_more_comes(node: Node) -> None:
    node.passed(5, 100)
    waits = Event()
    node.past = Rewind(node.state, lambda *_: (before(node, 3) if waits.wait(20) else [], ""))
    _, lines = node.screen(2)
    assert "PAST: 1 pass back" in lines[0]
    assert "Prometheus is asked for the week before" in "".join(lines)
    waits.set()
    assert "is asked for" not in "".join(answered(node, 2, "mean of"))
