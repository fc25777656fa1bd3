"""A burst is written as long as what is saved of it; memory, brake, undo and the health gate know what is desired."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.cli.approve import PauseNode
from plimsoll_agent.congestion.following import Followed, Following
from plimsoll_agent.credits.model import Credits
from plimsoll_agent.messages import explain
from plimsoll_agent.messages.sentences import words as words_of
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.monitor import pass_summary
from plimsoll_agent.monitor.pass_summary import PassSetting
from plimsoll_agent.reconcile.outcome import Mode, PassReport
from plimsoll_agent.rules.model import Match, Rule, Rules, UnderCongestion
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util.frozen import replace
from tests.unit.agent.reconcile.test_undo import Person as Undoing
from tests.unit.node import FSID, FakeDisk, Node, a_volume, changes, codes, guest, kinds, set_by_hand, uuid_of
from tests.unit.person import Person
from tests.unit.places import settings_in
from tests.unit.values import NOON

BURST = Limits(total_iops_sec=100, total_iops_sec_max=1000, total_iops_sec_max_length=60)
HIGHER = Limits(total_iops_sec=150, total_iops_sec_max=1000, total_iops_sec_max_length=60)
OTHER = Limits(total_iops_sec=777)
SETTING = PassSetting(version="1.2.3", boot="b1", ended=NOON)


class Clock:
    """Seconds since the node booted; no time passes by itself."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bursting:
    """A node with one volume that has a burst."""

    def __init__(self, directory: Path, desired: Limits = BURST) -> None:
        self.node = Node(directory, guest(1, a_volume(1)), rules=Rules(default=desired))
        self.clock = Clock()

    @property
    def disk(self) -> FakeDisk:
        return self.node.disk(1)

    def run(self, mode: Mode = Mode.ENFORCE) -> PassReport:
        return self.node.run(mode, clock=self.clock)

    def spend(self, requests: int, seconds: float = 0) -> None:
        reads, *rest = self.disk.done
        self.disk.done = (reads + requests, *rest)  # type: ignore[assignment]
        self.clock.now += seconds

    def length(self) -> int:
        return self.disk.actual.total_iops_sec_max_length

    def revise(self, desired: Limits) -> None:
        self.node.rules = Rules(default=desired, revision=str(desired))


@pytest.fixture
def bursting(tmp_path: Path) -> Bursting:
    """After its first pass, and half of the burst spent."""
    bursting = Bursting(tmp_path)
    bursting.run()
    bursting.run()
    bursting.spend(30_000)
    return bursting


def test_a_write_for_another_reason_gives_no_burst_again(bursting: Bursting) -> None:
    bursting.revise(HIGHER)
    assert kinds(bursting.run()) == ["changed"]
    assert bursting.disk.actual == Limits(total_iops_sec=150, total_iops_sec_max=1000, total_iops_sec_max_length=30)
    assert kinds(bursting.run()) == ["in-sync"]


def test_the_plan_and_the_pass_say_and_do_the_same(bursting: Bursting) -> None:
    bursting.revise(HIGHER)
    plan = bursting.run(Mode.PLAN)
    assert [each.after for each in changes(plan)] == [each.after for each in changes(bursting.run())]
    assert "the burst as long as what is saved" in words_of(changes(plan)[0].reason)


def test_a_pass_that_only_observes_counts_what_was_used(bursting: Bursting) -> None:
    bursting.run(Mode.OBSERVE)
    (account,) = (bursting.node.state.load_accounts() or {}).values()
    assert account.buckets["total_iops_sec"].spent == 30_000


def test_the_burst_grows_again_with_what_is_saved_and_nothing_calls_that_external(bursting: Bursting) -> None:
    set_by_hand(bursting.disk, OTHER)
    assert changes(bursting.run())[0].cause is Code.EXTERNAL_CHANGE
    lengths = [bursting.length()]
    for _ in range(40):
        bursting.spend(0, 15)
        grown = changes(bursting.run())
        assert {each.cause for each in grown} <= {Code.BURST_SAVED}
        assert {each.direction for each in grown} <= {Direction.RAISE}
        lengths.append(bursting.length())
    assert lengths[0] == 30
    assert lengths[-1] == 60
    assert lengths == sorted(lengths)
    assert len(set(lengths)) <= 6  # 30, 38, 48, 60 by a quarter more, and the last to the whole
    assert bursting.node.memory[next(iter(bursting.node.memory))].desired == BURST


def test_what_is_saved_while_the_disk_is_reduced_is_no_external_change(bursting: Bursting) -> None:
    """Half of the burst is spent, and comes back while there is none."""
    node = bursting.node
    reduced = Rule(name="all", match=Match(), congestion=UnderCongestion(Limits(total_iops_sec=10)))
    node.rules = Rules(default=BURST, rules=(reduced,))
    factor = Followed(x=0.5, device_class="ssd", published=0.5, until=NOON + timedelta(days=1), generation=1)
    causes = set()
    for x in (0.5, 0.4, 0.3, 0.3, 1.0):
        node.following = Following({(FSID, "volumes"): replace(factor, x=x)})
        bursting.spend(0, 20)
        causes |= {each.cause for each in changes(bursting.run())}
    assert causes == {Code.CONGESTION}
    assert {entry.reverts for entry in node.memory.values()} == {0}
    assert 30 < bursting.length() < 60


def test_the_burst_of_a_disk_that_was_right_from_the_start_is_shortened_and_grows_by_plimsoll(tmp_path: Path) -> None:
    bursting = Bursting(tmp_path)
    node, disk = bursting.node, bursting.disk
    disk.actual = disk.defined = BURST
    reduced = Rule(name="all", match=Match(), congestion=UnderCongestion(Limits(total_iops_sec=10)))
    own = Rule(name="own", match=Match(), limits=BURST, override=True)
    node.rules = Rules(rules=(own, reduced))
    bursting.run()
    bursting.run()
    bursting.spend(30_000)
    factor = Followed(x=0.5, device_class="ssd", published=0.5, until=NOON + timedelta(days=1), generation=1)
    causes = []
    for x in (0.5, 0.5, 0.4, 1.0, 1.0):
        node.following = Following({(FSID, "volumes"): replace(factor, x=x)})
        causes += [each.cause for each in changes(bursting.run())]
    assert causes == [Code.CONGESTION] * 3
    assert bursting.length() == 30
    bursting.spend(0, 15)
    assert kinds(bursting.run()) == ["in-sync"], "less than a quarter more"
    bursting.spend(0, 150)
    assert [each.cause for each in changes(bursting.run())] == [Code.BURST_SAVED]
    assert {entry.reverts for entry in node.memory.values()} == {0}


@pytest.mark.parametrize("by", ["plimsoll", "a person"])
def test_an_undo_restores_a_disk_whose_burst_is_shorter_since_a_reduction_ended(tmp_path: Path, by: str) -> None:
    bursting = Bursting(tmp_path)
    node = bursting.node
    reduced = Rule(name="all", match=Match(), congestion=UnderCongestion(Limits(total_iops_sec=10)))
    factor = Followed(x=0.5, device_class="ssd", published=0.5, until=NOON + timedelta(days=1), generation=1)
    bursting.run()
    moment = node.now + timedelta(seconds=1)
    node.rules = Rules(default=HIGHER, rules=(reduced,), revision="higher")
    bursting.run()
    bursting.run()
    bursting.spend(30_000)
    for x in (0.5, 1.0):
        node.following = Following({(FSID, "volumes"): replace(factor, x=x)})
        bursting.run()
    assert bursting.disk.actual == replace(HIGHER, total_iops_sec_max_length=30)
    if by == "a person":
        set_by_hand(bursting.disk, replace(HIGHER, total_iops_sec_max_length=29))
    undone = Undoing(node).undo(moment).undone
    assert [each.result.reason.code for each in undone] == [Code.UNDONE if by == "plimsoll" else Code.EXTERNAL_CHANGE]
    assert (bursting.disk.actual == BURST) == (by == "plimsoll")


BOTH = replace(BURST, total_bytes_sec=2**20)
OF_BYTES = UnderCongestion(Limits(total_bytes_sec=1000))


@pytest.fixture
def partly(tmp_path: Path) -> Bursting:
    """Half of its burst is spent, congestion halves its bytes and leaves its requests alone."""
    bursting = Bursting(tmp_path, BOTH)
    bursting.clock.now = time.clock_gettime(time.CLOCK_BOOTTIME)  # a restore reads the real one
    bursting.run()
    bursting.run()
    bursting.spend(30_000)
    bursting.node.rules = Rules(default=BOTH, rules=(Rule(name="all", match=Match(), congestion=OF_BYTES),))
    factor = Followed(x=0.5, device_class="ssd", published=0.5, until=NOON + timedelta(days=1), generation=1)
    bursting.node.following = Following({(FSID, "volumes"): factor})
    return bursting


def test_a_burst_that_congestion_leaves_is_as_long_as_what_is_saved_and_seldom_written(partly: Bursting) -> None:
    """While limits are in sync nothing has to shorten them; the write for congestion fills the bucket again."""
    partly.run()
    assert partly.disk.actual == replace(BOTH, total_bytes_sec=2**19, total_iops_sec_max_length=30)
    lengths = []
    for _ in range(40):
        partly.spend(0, 15)
        partly.run()
        lengths.append(partly.length())
    assert (lengths[0], lengths[-1]) == (30, 60)
    assert lengths == sorted(lengths)
    assert len(set(lengths)) <= 5
    for _ in range(10):
        partly.spend(4000)
        assert kinds(partly.run()) == ["in-sync"], "QEMU ends the burst by itself"
    partly.node.following = Following()
    partly.run()
    assert partly.disk.actual == replace(BOTH, total_iops_sec_max_length=20)


def test_a_disk_that_is_attached_under_congestion_has_the_whole_of_the_burst_that_it_leaves(partly: Bursting) -> None:
    partly.run()
    partly.node.hypervisor.by_uuid[uuid_of(2)] = guest(2, a_volume(2))
    assert kinds(partly.run()) == ["in-sync", "changed"]
    assert partly.node.disk(2).actual == replace(BOTH, total_bytes_sec=2**19)


def test_disks_of_a_group_that_congestion_reduces_have_what_their_group_has_saved(partly: Bursting) -> None:
    node, grouped = partly.node, replace(BOTH, group_name="g")
    other = guest(2, a_volume(2), a_volume(3))
    node.hypervisor.by_uuid[other.uuid] = other
    reduced = Rule(name="all", match=Match(), congestion=OF_BYTES)
    following, node.following = node.following, Following()
    node.rules = Rules(default=grouped, rules=(reduced,))
    node.run(clock=partly.clock)
    node.run(clock=partly.clock)
    for disk in other.disks.values():
        disk.done = (10_000, 0, 0, 0)
    node.following = following
    node.run(clock=partly.clock)
    expected = replace(grouped, total_bytes_sec=2**19, total_iops_sec_max_length=40)
    assert [disk.actual for disk in other.disks.values()] == [expected, expected]
    assert kinds(node.run(clock=partly.clock)) == ["in-sync"] * 3


def test_a_restore_gives_back_no_more_of_a_burst_than_what_is_saved(partly: Bursting, tmp_path: Path) -> None:
    partly.run()
    settings = settings_in(tmp_path, state_dir=partly.node.state.directory)
    restoring = Person().types
    assert (
        restoring(PauseNode, "--reason", "x", "--restore", settings=settings, hypervisor=partly.node.hypervisor) == 0
    )
    assert partly.disk.actual == replace(BOTH, total_iops_sec_max_length=30)


def test_nor_does_one_while_a_raise_waits_for_the_cluster(partly: Bursting) -> None:
    partly.run()
    partly.node.rules = Rules(default=replace(BOTH, total_bytes_sec=2**21), rules=partly.node.rules.rules)
    partly.node.following, partly.node.ceph.raised = Following(), ("SLOW_OPS",)
    assert kinds(partly.run()) == ["changed"]
    assert partly.disk.actual == replace(BOTH, total_iops_sec_max_length=30)


def test_a_killed_pass_that_reduced_and_shortened_is_no_external_change(
    partly: Bursting, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        for name in ("remember", "conclude"):
            patch.setattr(NodeStore, name, lambda *_: (_ for _ in ()).throw(StateError("killed")))
        partly.run()
    assert partly.length() == 30
    assert {each.cause for each in changes(partly.run())} <= {Code.CONGESTION}
    assert {entry.reverts for entry in partly.node.memory.values()} == {0}


@pytest.mark.parametrize("end", ["a restart of the guest", "a lower hold"])
def test_what_is_used_of_the_limits_of_a_hold_costs_nothing_of_the_burst(tmp_path: Path, end: str) -> None:
    bursting = Bursting(tmp_path)
    bursting.run()
    bursting.run()
    bursting.node.hold(1, "vda", Limits(total_iops_sec=5000))
    bursting.run()
    for _ in range(10):
        bursting.spend(200_000, 60)
        bursting.run()
    if end.startswith("a restart"):
        bursting.node.hypervisor.restart(next(iter(bursting.node.hypervisor.by_uuid.values())))
        bursting.disk.done = (100_000, 0, 0, 0)
        bursting.clock.now += 60
    else:
        bursting.node.hold(1, "vda", Limits(total_iops_sec=1000))
    bursting.run()
    bursting.node.now = bursting.node.now.replace(day=bursting.node.now.day + 1)
    bursting.run()
    assert bursting.disk.actual == BURST


def test_an_unhealthy_cluster_gets_no_longer_burst(bursting: Bursting) -> None:
    set_by_hand(bursting.disk, OTHER)
    bursting.run()
    bursting.spend(0, 200)
    bursting.node.ceph.raised = ("SLOW_OPS",)
    assert kinds(bursting.run()) == ["deferred"]
    assert bursting.length() == 30


def test_a_pass_that_is_killed_after_its_write_gives_nothing_twice(
    bursting: Bursting, monkeypatch: pytest.MonkeyPatch
) -> None:
    bursting.revise(HIGHER)
    with monkeypatch.context() as patch:
        for name in ("remember", "save_accounts", "conclude"):
            patch.setattr(NodeStore, name, lambda *_: (_ for _ in ()).throw(StateError("killed")))
        bursting.run()
    assert bursting.length() == 30
    bursting.spend(20_000)
    set_by_hand(bursting.disk, OTHER)
    bursting.run()
    assert bursting.length() == 10
    assert bursting.node.memory[next(iter(bursting.node.memory))].desired == HIGHER


def test_the_end_of_an_open_change_is_the_whole_burst_to_the_memory(
    bursting: Bursting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next pass would brake a raise from a burst that was only as long as what was saved."""
    bursting.revise(HIGHER)
    with monkeypatch.context() as patch:
        patch.setattr(NodeStore, "remember", lambda *_: (_ for _ in ()).throw(StateError("killed")))
        patch.setattr(NodeStore, "conclude", lambda *_: None)
        bursting.run()
    report = bursting.run()
    assert report.braked is None
    assert kinds(report) == ["in-sync"]
    assert bursting.node.memory[next(iter(bursting.node.memory))].desired == HIGHER


def test_a_wrong_clock_of_the_node_earns_nothing(bursting: Bursting) -> None:
    bursting.node.now = bursting.node.now.replace(year=2036)
    bursting.revise(HIGHER)
    bursting.run()
    assert bursting.length() == 30


def test_a_reboot_of_the_node_earns_nothing_for_the_time_before(bursting: Bursting) -> None:
    bursting.run()
    bursting.node.state = State(bursting.node.state.directory, "another boot")
    bursting.node.hypervisor.restart(next(iter(bursting.node.hypervisor.by_uuid.values())))
    bursting.disk.done = (0, 0, 0, 0)
    bursting.clock.now = 60
    bursting.run()
    assert bursting.length() == 30


def test_a_file_that_is_damaged_costs_no_limit_and_says_so(
    bursting: Bursting, caplog: pytest.LogCaptureFixture
) -> None:
    bursting.run()
    bursting.node.state.credits.write_text('{"version": 1, "boot"')
    bursting.revise(HIGHER)
    bursting.run()
    assert "they count as whole" in caplog.text
    assert bursting.length() == 60
    assert bursting.node.state.load_accounts()


@pytest.mark.parametrize("fault", ["a newer plimsoll's", "not readable at the pass's begin"])
def test_a_file_that_cannot_be_read_now_stays_as_it_is(
    bursting: Bursting, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Else each pass over some guests would forget what all others have spent."""
    bursting.run()
    file, load = bursting.node.state.credits, State.load_accounts
    if fault.startswith("a newer"):
        file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
    before, calls = file.read_text(), []

    def fails_once(state: State) -> object:
        calls.append(state)
        if len(calls) == 1:
            raise StateError("credits.json: cannot be read: Too many open files")
        return load(state)

    monkeypatch.setattr(State, "load_accounts", fails_once)
    report = bursting.run()
    assert len(calls) > 1
    assert file.read_text() == before
    assert [note.code for note in report.notes] == [Code.SAVINGS_NOT_KEPT] * fault.startswith("a newer")


def test_a_hold_ends_as_it_does_without_bursts(bursting: Bursting) -> None:
    bursting.node.hold(1, "vda", HIGHER)
    bursting.run()
    assert bursting.length() == 30
    bursting.node.now = bursting.node.now.replace(day=bursting.node.now.day + 1)
    assert [each.after.total_iops_sec for each in changes(bursting.run())] == [100]
    assert kinds(bursting.run()) == ["in-sync"]
    assert bursting.node.memory[next(iter(bursting.node.memory))].restore_to is None


@pytest.mark.parametrize("holds", [False, True])
def test_external_changes_are_reverted_so_often_and_no_more_while_the_burst_changes(
    bursting: Bursting, holds: bool
) -> None:
    if holds:
        bursting.node.hold(1, "vda", HIGHER)
        bursting.run()
    bursting.node.rounds = 2
    for spent in (0, 3000, 3000):
        bursting.spend(spent)
        ours = bursting.disk.actual
        set_by_hand(bursting.disk, OTHER)
        report = bursting.run()
    assert codes(report) == [Code.REVERTED_TOO_OFTEN]
    set_by_hand(bursting.disk, ours)  # who changed it has given up
    bursting.spend(0, 200)
    assert kinds(bursting.run()) == ["changed"]


def test_members_of_a_group_get_one_length_from_what_all_have_spent(tmp_path: Path) -> None:
    limits = Limits(**{**BURST.in_effect(), "group_name": "both"})  # type: ignore[arg-type]
    pair = guest(1, a_volume(1), a_volume(2))
    node = Node(tmp_path, pair, rules=Rules(rules=(Rule(name="g", match=Match(), limits=limits),)))
    clock = Clock()
    node.run(clock=clock)
    node.run(clock=clock)
    for target, requests in (("vda", 10_000), ("vdb", 20_000)):
        node.disk(1, target).done = (requests, 0, 0, 0)
    set_by_hand(node.disk(1, "vdb"), OTHER)
    node.run(clock=clock)
    assert {disk.actual.total_iops_sec_max_length for disk in node.disks()} == {30}
    assert set(kinds(node.run(clock=clock))) == {"in-sync"}


def test_what_is_saved_stands_in_explain_and_in_the_metrics(bursting: Bursting) -> None:
    report = bursting.run(Mode.PLAN)
    (outcome,) = report.outcomes
    record = Record(bursting.node.state.record)
    assert dict(explain.rows(outcome, report.situation, record))["saved"] == (
        "30000 of 60000 requests (33 s at 1000 IOPS)"
    )
    data = explain.data(outcome, report.situation, None, record)
    assert data["saved"] == {"total_iops_sec": {"balance": 30_000, "capacity": 60_000}}
    assert pass_summary.fold(None, report, SETTING).disks[0].saved == {"total_iops_sec": 0.5}
    bursting.spend(33_000)
    (owing,) = (report := bursting.run(Mode.PLAN)).outcomes
    assert dict(explain.rows(owing, report.situation, record))["saved"] == "nothing, 3000 requests owed"
    assert pass_summary.fold(None, report, SETTING).disks[0].saved == {"total_iops_sec": 0.0}


def test_a_burst_that_was_never_read_is_unknown_and_no_series(tmp_path: Path) -> None:
    report = Bursting(tmp_path).node.run(Mode.PLAN)
    record, unlimited = Record(tmp_path / "none"), report.outcomes[0]
    limited = replace(unlimited, disk=replace(unlimited.disk, actual=unlimited.decision.desired.limits))
    assert "saved" not in dict(explain.rows(unlimited, report.situation, record))
    assert (
        dict(explain.rows(limited, report.situation, record))["saved"] == "unknown: its counters have not been read"
    )
    assert pass_summary.fold(None, report, SETTING).disks[0].saved == {}


GP = Credits("total_iops_sec", 1000, 60_000)


@pytest.mark.parametrize(
    ("limits", "desired", "words"),
    [
        (Limits(total_iops_sec=100), BURST, 'default, with credits by rule "gp"'),
        (Limits(total_iops_sec=1000), Limits(total_iops_sec=1000), "default"),
        (Limits(total_bytes_sec=2**27), Limits(total_bytes_sec=2**27), "default"),
        (
            Limits(total_iops_sec=100, total_iops_sec_max=200),
            Limits(total_iops_sec=100, total_iops_sec_max=200),
            "default",
        ),
        (Limits(total_iops_sec=100, size_iops_sec=65536), Limits(total_iops_sec=100, size_iops_sec=65536), "default"),
    ],
)
def test_credits_are_a_burst_on_any_limits_that_can_have_it(
    tmp_path: Path, limits: Limits, desired: Limits, words: str
) -> None:
    gp = Rule(name="gp", match=Match(), credits=GP)
    node = Node(tmp_path, guest(1, a_volume(1)), rules=Rules(default=limits, rules=(gp,)))
    (outcome,) = node.run().outcomes
    assert node.disk(1).actual == desired
    assert words_of(outcome.decision.desired.reason) == words
    steps = {step.asked: step.answer.reason.code for step in outcome.decision.trail}
    assert (steps['credits of rule "gp"'] is Code.CREDITS_NOT_POSSIBLE) == (desired == limits)


def test_a_ceiling_bounds_credits_and_their_account_is_of_what_is_left(tmp_path: Path) -> None:
    gp = Rule(name="gp", match=Match(), credits=GP, ceiling=Limits(total_iops_sec=500))
    node = Node(tmp_path, guest(1, a_volume(1)), rules=Rules(default=Limits(total_iops_sec=100), rules=(gp,)))
    node.run()
    assert node.disk(1).actual == Limits(total_iops_sec=100, total_iops_sec_max=500, total_iops_sec_max_length=60)


def test_a_restart_gives_no_credits_again_that_were_spent(tmp_path: Path) -> None:
    gp = Rule(name="gp", match=Match(), limits=Limits(total_iops_sec=100), override=True, credits=GP)
    node = Node(tmp_path, guest(1, a_volume(1)), rules=Rules(rules=(gp,)))
    clock = Clock()
    node.run(clock=clock)
    node.run(clock=clock)
    node.disk(1).done = (30_000, 0, 0, 0)
    node.run(clock=clock)
    node.hypervisor.restart(next(iter(node.hypervisor.by_uuid.values())), Limits(total_iops_sec=100))
    node.disk(1).done = (0, 0, 0, 0)
    node.run(clock=clock)
    assert node.disk(1).actual.total_iops_sec_max_length == 30


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("fresh", [{}, {"vda": Limits(total_iops_sec=100, total_iops_sec_max=1000)}])
def test_a_migration_brings_the_burst_as_it_was_written_last(
    tmp_path: Path, fresh: dict[str, Limits], comes_back: bool
) -> None:
    """Also where Nova sets the limits of the QoS spec on the way, where the disk's limits are unknown at first, and
    to a node that knows it from an earlier stay.
    """
    rules = Rules(rules=(Rule(name="gp", match=Match(), limits=BURST, override=True),))
    owner, clock = guest(1, a_volume(1)), Clock()
    for name in "ab":
        (tmp_path / name).mkdir()
    here, there = Node(tmp_path / "a", owner, rules=rules), Node(tmp_path / "b", rules=rules)
    disk = owner.disks["vda"]
    here.run(clock=clock)
    here.run(clock=clock)
    if comes_back:
        here.hypervisor.migrate(owner, there.hypervisor)
        there.run(clock=clock)
        here, there = there, here
    disk.done = (30_000, 0, 0, 0)
    set_by_hand(disk, OTHER)
    here.run(clock=clock)
    assert disk.actual.total_iops_sec_max_length == 30
    here.hypervisor.migrate(owner, there.hypervisor, fresh)
    disk.done = (0, 0, 0, 0)
    there.rules = Rules()
    there.run(clock=clock)
    there.rules = rules
    for _ in range(2):
        there.run(clock=clock)
        assert disk.actual.total_iops_sec_max_length == 30


def test_a_burst_that_is_not_read_yet_stays_as_short_as_it_was_written(
    bursting: Bursting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt has no counters of a guest that it is busy with."""
    set_by_hand(bursting.disk, OTHER)
    bursting.run()
    bursting.node.state.credits.unlink()
    monkeypatch.setattr(bursting.node.hypervisor, "block_stats", lambda *_: {})
    assert kinds(bursting.run()) == ["in-sync"]
    assert bursting.length() == 30


def test_counters_are_read_where_there_is_a_burst_and_nowhere_else(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1, limits=BURST)), guest(2, a_volume(2)), rules=Rules(default=OTHER))
    node.run(Mode.PLAN)
    assert node.hypervisor.calls.count("block_stats") == 1


def test_accounts_of_guests_that_are_gone_are_forgotten_and_those_of_a_pass_beside_are_not(
    bursting: Bursting,
) -> None:
    bursting.run()
    (key, account), *_ = (bursting.node.state.load_accounts() or {}).items()
    bursting.node.state.save_accounts({key: account, "gone/a": account})
    store = NodeStore(bursting.node.state, "tests")
    store.accounts()
    bursting.node.state.save_accounts({key: account, "gone/a": account, "new/a": account})
    store.save_accounts({key: account}, {key.partition("/")[0]})
    assert set(bursting.node.state.load_accounts() or {}) == {key, "new/a"}


def test_without_a_burst_nothing_is_kept(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)), rules=Rules(default=OTHER))
    node.run()
    node.run()
    assert node.state.load_accounts() is None
