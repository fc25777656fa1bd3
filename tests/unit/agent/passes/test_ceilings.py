"""Disks share the ceiling of their guest or project: what is written, and what stays as it would be without."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.ceilings.buckets import MOST_MOVES, Ceilings, Split
from plimsoll_agent.cli.approve import PauseNode
from plimsoll_agent.errors import Rejected
from plimsoll_agent.messages import explain
from plimsoll_agent.messages.record import actual_lines, entry_line
from plimsoll_agent.messages.sentences import state_reason, words
from plimsoll_agent.model.clusters import Clusters
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.reconcile.outcome import Kind, Mode, PassReport, Scope
from plimsoll_agent.rules.model import Match, Rule, Rules, UnderCongestion
from plimsoll_agent.store import record_query
from plimsoll_agent.store.actual import actual
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeGuest
from tests.unit.agent.passes.test_congestion import at, made
from tests.unit.agent.passes.test_congestion import rules as congested
from tests.unit.node import Node, a_volume, changes, codes, guest, kinds, own_disk, set_by_hand, uuid_of
from tests.unit.person import Person, Terminal
from tests.unit.places import settings_in

GOLD = Limits(total_iops_sec=1000)
CEILING = Limits(total_iops_sec=1500)
SECONDS = 30


def rules(desired: Limits | None = GOLD, *others: Rule, ceiling: Limits = CEILING, whose: str = "project") -> Rules:
    shared = Rule(name="team", match=Match(), **{f"{whose}_ceiling": ceiling})
    return Rules(default=desired, rules=(*others, shared), revision=f"{desired} {ceiling} {whose} {others}")


class Daemon(Node):
    """Each pass comes a period after the one before, and sees what disks did in it."""

    def __init__(self, directory: Path, *guests: FakeGuest, rules: Rules) -> None:
        super().__init__(directory, *guests, rules=rules)
        self.split = Split.BY_NEED
        self.uptime = 1000.0

    def period(self, **iops: float) -> PassReport:
        """A pass after disks did so many reads a second: ``g1_vda=200``."""
        self.uptime += SECONDS
        self.now += timedelta(seconds=SECONDS) - timedelta(minutes=5)
        for name, rate in iops.items():
            number, target = name.removeprefix("g").split("_")
            disk = self.disk(int(number), target)
            reads, read, writes, written = disk.done
            disk.done = (reads + round(rate * SECONDS), read + round(rate * SECONDS) * 4096, writes, written)
        return self.run(clock=lambda: self.uptime)

    def starts(self, number: int) -> None:
        new = guest(number, a_volume(number))
        self.hypervisor.by_uuid[new.uuid] = new

    def passes_over(self, number: int) -> None:
        """A pass over one guest, as after its event."""
        how, self.split = self.split, Split.STAY
        self.run(scope=Scope(frozenset({uuid_of(number)})))
        self.split = how

    def iops(self) -> list[int]:
        return [disk.actual.total_iops_sec for disk in self.disks()]


@pytest.fixture
def node(tmp_path: Path) -> Daemon:
    """Two guests of a project, each with a disk of 1000 IOPS, after two passes."""
    node = Daemon(tmp_path, guest(1, a_volume(1)), guest(2, a_volume(2)), rules=rules())
    node.period()
    return node


# --- a guest's disks without limits of their own


def test_disks_without_limits_share_one_group(tmp_path: Path) -> None:
    node = Daemon(tmp_path, guest(1), guest(2), rules=rules(None, whose="guest"))
    node.period()
    (limits,) = {disk.actual for disk in node.disks()}
    assert (limits.total_iops_sec, limits.in_effect().keys()) == (1500, {"total_iops_sec", "group_name"})
    assert kinds(node.period(g1_vda=700, g1_vdb=800)) == ["in-sync"] * 4


def test_they_keep_what_an_unlimited_source_says_otherwise(tmp_path: Path) -> None:
    node = Daemon(tmp_path, guest(1), rules=rules(Limits(), whose="guest"))
    node.period()
    assert {disk.actual.total_iops_sec for disk in node.disks()} == {1500}
    node.rules = Rules(default=Limits(), revision="without")
    node.period()
    report = node.run(yes=True)
    assert {disk.actual for disk in node.disks()} == {Limits()}, [words(o.result.reason) for o in report.outcomes]


def test_a_ceiling_of_bytes_beside_a_limit_of_requests_is_an_own_limit(tmp_path: Path) -> None:
    node = Daemon(
        tmp_path, guest(1, a_volume(1)), rules=rules(ceiling=Limits(total_bytes_sec=2**20 * 50), whose="guest")
    )
    node.period()
    assert node.disk(1).actual == Limits(total_iops_sec=1000, total_bytes_sec=2**20 * 50)


def test_a_group_shares_with_disks_that_have_limits_of_their_own(tmp_path: Path) -> None:
    limited = Rule(name="small", match=Match(kind=("volume",)), limits=Limits(total_iops_sec=600), override=True)
    node = Daemon(
        tmp_path, guest(1, own_disk(1), own_disk(1), a_volume(1)), rules=rules(None, limited, whose="guest")
    )
    node.disk(1, "vdb").image = "another"
    node.period()
    first, second, third = (disk.actual for disk in node.disks())
    assert first == second
    assert (first.total_iops_sec, third.total_iops_sec) == (900, 600)


# --- shared by need


def test_two_guests_share_by_need_and_an_idle_one_gets_its_part_in_two_periods(node: Daemon) -> None:
    assert node.iops() == [750, 750]
    node.period(g1_vda=750, g2_vda=0)
    # A tenth of an equal part for the idle one; the other gets what it may have.
    assert node.iops() == [1000, 500]
    node.period(g1_vda=1000, g2_vda=500)
    assert node.iops() == [750, 750]


def test_nothing_is_written_while_no_disk_at_limit_would_get_more(node: Daemon) -> None:
    for rate in (100, 300, 50, 700):
        assert kinds(node.period(g1_vda=rate, g2_vda=rate / 2)) == ["in-sync"] * 2


def test_what_is_split_is_never_more_than_the_ceiling_not_even_between_two_writes(node: Daemon) -> None:
    sums: list[int] = []
    write = node.hypervisor.set_limits

    def watched(*words: object, **more: bool) -> None:
        write(*words, **more)  # type: ignore[arg-type]
        sums.append(sum(node.iops()))

    node.hypervisor.set_limits = watched  # type: ignore[method-assign]
    for first, second in ((750, 0), (1000, 500), (0, 750), (500, 1000)):
        node.period(g1_vda=first, g2_vda=second)
    assert len(sums) == 8
    assert max(sums) == 1500


def refuse(node: Daemon, *iops: int) -> None:
    """The second guest does not take these limits; without any it takes none."""
    write = node.hypervisor.set_limits

    def refused(disk: Disk, limits: Limits, *, alone: bool = False) -> None:
        if disk.guest.uuid == uuid_of(2) and (not iops or limits.total_iops_sec in iops):
            raise Rejected("device is busy")
        write(disk, limits, alone=alone)

    node.hypervisor.set_limits = refused  # type: ignore[method-assign]


def test_a_disk_of_no_ceiling_is_raised_beside_one_that_waits_for_room(tmp_path: Path) -> None:
    team = Rule(name="team", match=Match(pool=("volumes",)), project_ceiling=CEILING)
    free = a_volume(7, pool="others")
    node = Daemon(
        tmp_path,
        guest(1, a_volume(1), free),
        guest(2, a_volume(2)),
        rules=Rules(default=GOLD, rules=(team,), revision="1"),
    )
    node.period()
    assert node.iops() == [750, 1000, 750]
    refuse(node, 500)
    set_by_hand(free, Limits(total_iops_sec=9))
    assert kinds(node.period(g1_vda=750, g2_vda=0)) == ["deferred", "changed", "failed"]
    assert node.iops() == [750, 1000, 750]


def test_nothing_is_raised_while_a_limit_cannot_be_lowered_that_was_to_make_room(node: Daemon) -> None:
    write = node.hypervisor.set_limits
    refuse(node, 500)
    report = node.period(g1_vda=750, g2_vda=0)
    first, second = (each.result for each in report.outcomes)
    assert (first.kind, first.reason.code) == (Kind.DEFERRED, Code.CEILING_FULL)
    assert words(first.reason) == (
        'project_ceiling of rule "team" has no room: deferred until vda of instance-00000002 is lowered'
    )
    assert second.kind is Kind.FAILED
    assert sorted(node.told, key=lambda each: each.disk.key) == list(report.outcomes), "each is told once"
    (shared,) = node.state.load_ceilings()[0].values()
    assert [part["total_iops_sec"] for part in shared.parts.values()] == [750, 750]
    assert shared == next(iter(report.situation.ceilings.shared.values()))
    node.passes_over(1)
    assert node.iops() == [750, 750]
    volume = node.seen(1, "vda").volume_id or ""
    (state,) = actual(Record(node.state.record), node.now, volume, None)
    assert state.limits == Limits(total_iops_sec=750)
    node.hypervisor.set_limits = write  # type: ignore[method-assign]
    node.period(g1_vda=750, g2_vda=0)
    assert node.iops() == [750, 500]
    node.period(g1_vda=750, g2_vda=0)
    assert node.iops() == [1000, 500]


def test_others_share_what_is_left_by_a_limit_that_can_never_be_lowered(tmp_path: Path) -> None:
    node = Daemon(tmp_path, *(guest(number, a_volume(number)) for number in (1, 2, 3)), rules=rules())
    node.period()
    node.period(g1_vda=500, g2_vda=500, g3_vda=0)
    assert node.iops() == [725, 725, 50]
    write = node.hypervisor.set_limits

    def refused(disk: Disk, limits: Limits, *, alone: bool = False) -> None:
        if disk.guest.uuid == uuid_of(2) and limits.total_iops_sec < 725:
            raise Rejected("device is busy")
        write(disk, limits, alone=alone)

    node.hypervisor.set_limits = refused  # type: ignore[method-assign]
    seen = []
    for _ in range(2 * MOST_MOVES):
        first, _second, third = node.iops()
        report = node.period(g1_vda=first, g2_vda=10, g3_vda=third)
        assert report.outcomes[1].result.kind is Kind.FAILED
        seen.append(node.iops())
    assert seen == [[725, 725, 50], *[[387, 725, 387]] * (2 * MOST_MOVES - 1)]
    (shared,) = node.state.load_ceilings()[0].values()
    assert len(shared.moves) < 5, "what is refused each time is no split"


def test_a_limit_of_its_own_that_is_not_lowered_counts_as_it_is(node: Daemon) -> None:
    small = Match(volume=(node.seen(2, "vda").volume_id or "",))
    node.rules = rules(GOLD, Rule(name="small", match=small, limits=Limits(total_iops_sec=500), override=True))
    refuse(node, 500)
    for _ in range(3):
        assert node.period(g1_vda=750, g2_vda=0).outcomes[1].result.kind is Kind.FAILED
        assert node.iops() == [750, 750]


def test_a_hold_is_raised_beside_a_disk_that_is_not_lowered(node: Daemon) -> None:
    refuse(node, 600)
    node.hold(1, "vda", Limits(total_iops_sec=900))
    assert kinds(node.period()) == ["changed", "failed"]
    assert node.iops() == [900, 750]


def test_what_is_tried_again_counts_those_that_cannot_be_read(node: Daemon) -> None:
    refuse(node, 500)
    node.period(g1_vda=750, g2_vda=0)
    node.hypervisor.by_uuid[uuid_of(1)].trouble = StateError("hangs")
    node.period(g2_vda=750)
    assert node.iops() == [750, 750]


def test_nothing_is_raised_beside_a_disk_that_takes_no_limit(tmp_path: Path) -> None:
    node = Daemon(tmp_path, *(guest(number, a_volume(number)) for number in (1, 2)), rules=rules())
    refuse(node)
    for _ in range(4):
        node.period(g1_vda=750, g2_vda=0)
        assert node.iops() == [750, 0]


def test_what_a_disk_has_that_is_not_lowered_is_unknown_of_a_rate_that_is_new_in_the_ceiling(node: Daemon) -> None:
    refuse(node)
    node.period(g1_vda=750, g2_vda=0)
    node.rules = rules(ceiling=replace(CEILING, total_bytes_sec=2**20 * 50))
    node.period(g1_vda=750, g2_vda=750)
    assert [disk.actual.total_bytes_sec for disk in node.disks()] == [2**20 * 25, 0]


def test_a_burst_that_cannot_be_removed_is_counted(tmp_path: Path) -> None:
    burst = Limits(total_iops_sec=700, total_iops_sec_max=1400, total_iops_sec_max_length=10)
    node = Daemon(tmp_path, guest(1, a_volume(1)), guest(2, a_volume(2)), rules=Rules(default=burst))
    node.period()
    node.rules = rules(burst)
    refuse(node)
    for _ in range(2):
        node.period(g1_vda=700, g2_vda=0)
    assert node.iops() == [100, 700]


def test_a_ceiling_that_is_new_is_tried_again_until_all_its_disks_are_lowered(tmp_path: Path) -> None:
    node = Daemon(tmp_path, *(guest(number, a_volume(number)) for number in (1, 2)), rules=Rules(default=GOLD))
    node.period()
    node.rules = rules()
    write = node.hypervisor.set_limits

    def refused(disk: Disk, limits: Limits, *, alone: bool = False) -> None:
        if disk.guest.uuid == uuid_of(2):
            raise Rejected("device is busy")
        write(disk, limits, alone=alone)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node.hypervisor, "set_limits", refused)
        node.period()
        assert node.iops() == [750, 1000]
    node.period()
    assert node.iops() == [500, 750], "until the pass after it that has lowered the limit"
    node.period(g1_vda=500, g2_vda=750)
    assert node.iops() == [750, 750]


def test_a_limit_of_its_own_is_lowered_before_another_is_raised(node: Daemon) -> None:
    small = Match(volume=(node.seen(2, "vda").volume_id or "",))
    node.rules = rules(GOLD, Rule(name="small", match=small, limits=Limits(total_iops_sec=600), override=True))
    write, sums = node.hypervisor.set_limits, list[int]()

    def watched(disk: Disk, limits: Limits, *, alone: bool = False) -> None:
        write(disk, limits, alone=alone)
        sums.append(sum(node.iops()))

    node.hypervisor.set_limits = watched  # type: ignore[method-assign]
    node.period()
    assert node.iops() == [900, 600]
    assert sums == [1350, 1500]


def test_there_are_at_most_twenty_writes_an_hour_and_the_last_splits_equally(node: Daemon) -> None:
    written = 0
    for number in range(100):
        first, second = node.iops()
        busy = (first, 0) if number % 2 else (0, second)
        written += bool(changes(node.period(g1_vda=busy[0], g2_vda=busy[1])))
    assert written == MOST_MOVES
    assert node.iops() == [750, 750]


def test_the_timer_splits_equally(node: Daemon) -> None:
    node.period(g1_vda=750)
    assert node.iops() == [1000, 500]
    node.split = Split.EQUALLY
    node.run()
    assert node.iops() == [750, 750]


def test_what_cannot_be_read_needs_all(node: Daemon) -> None:
    node.period(g1_vda=750)
    node.hypervisor.by_uuid[uuid_of(2)].disks["vda"].node += 1  # another attachment: its counters are from 0
    node.period(g1_vda=1000)
    assert node.iops() == [750, 750]


# --- what is left alone


def held(node: Daemon) -> None:
    node.hold(2, "vda", Limits(total_iops_sec=900))


def unmanaged(node: Daemon) -> None:
    own = Rule(name="off", match=Match(volume=(node.seen(2, "vda").volume_id or "",)), manage=False)
    node.rules = rules(GOLD, own)


@pytest.mark.parametrize(
    ("happens", "first", "second"),
    [
        # A held disk has what it has, and the other the rest.
        (held, 600, 900),
        (unmanaged, 500, 1000),
    ],
)
def test_a_disk_that_is_left_alone_is_counted_as_it_is(
    node: Daemon, happens: Callable[[Daemon], None], first: int, second: int
) -> None:
    happens(node)
    node.period()
    assert node.iops() == [first, second]


@pytest.mark.parametrize("without", ["rule", "guest", "project"])
def test_what_ends_it_restores(node: Daemon, without: str) -> None:
    match without:
        case "rule":
            node.rules = Rules(default=GOLD, revision="without")
        case "guest":
            del node.hypervisor.by_uuid[uuid_of(2)]
        case "project":
            node.hypervisor.by_uuid[uuid_of(2)].project = "another"
    node.ceph.raised, node.ceph.asked = ("SLOW_OPS",), 0
    report = node.period()
    assert {each.direction for each in changes(report)} == {Direction.RESTORE}
    assert set(node.iops()) == {1000}
    assert node.ceph.asked == 0
    assert {entry.reduced for entry in node.memory.values() if entry.attachment} == {None}


def test_an_unreachable_guest_keeps_its_part(node: Daemon) -> None:
    node.period(g1_vda=750)
    assert node.iops() == [1000, 500]
    node.hypervisor.by_uuid[uuid_of(2)].trouble = StateError("hangs")
    node.period(g1_vda=1000)
    assert node.iops() == [1000, 500]


def test_an_unreachable_guest_that_had_no_part_is_counted(tmp_path: Path) -> None:
    node = Daemon(
        tmp_path, *(guest(number, a_volume(number)) for number in (1, 2)), rules=rules(Limits(total_iops_sec=700))
    )
    node.period()
    node.starts(3)
    node.hypervisor.by_uuid[uuid_of(2)].trouble = StateError("hangs")
    for _ in range(2):
        node.period()
        # 700 of one that cannot be reached, all that it may have for the new one, the rest for the idle one.
        assert node.iops() == [100, 700, 700]


def test_a_held_disk_of_an_unreachable_guest_is_counted(node: Daemon) -> None:
    held(node)
    node.period()
    node.hypervisor.by_uuid[uuid_of(2)].trouble = StateError("hangs")
    node.period(g1_vda=600)
    assert node.iops() == [600, 900]


def test_a_disk_of_unknown_limits_keeps_its_part_and_others_of_its_guest_are_split(tmp_path: Path) -> None:
    node = Daemon(tmp_path, guest(1, a_volume(1), a_volume(3)), guest(2, a_volume(2)), rules=rules())
    node.period()
    assert node.iops() == [500, 500, 500]
    read, key = node.hypervisor.actual, node.seen(1, "vda").key

    def unread(disk: Disk) -> Limits:
        if disk.key == key:
            raise Rejected("device is gone")
        return read(disk)

    node.hypervisor.actual = unread  # type: ignore[method-assign]
    node.period(g1_vdb=500)
    assert node.iops() == [500, 950, 50]


@pytest.mark.parametrize("unknown", ["vda", "vdb"])
def test_a_group_stays_while_limits_of_its_guest_are_unknown(tmp_path: Path, unknown: str) -> None:
    limited = Rule(name="small", match=Match(kind=("volume",)), limits=Limits(total_iops_sec=600), override=True)
    node = Daemon(
        tmp_path, guest(1, own_disk(1), a_volume(1), a_volume(3)), rules=rules(None, limited, whose="guest")
    )
    node.period()
    node.period(g1_vda=500)
    assert node.iops() == [1400, 50, 50]
    read = node.hypervisor.actual

    def unread(disk: Disk) -> Limits:
        if disk.target == unknown:
            raise Rejected("device is gone")
        return read(disk)

    node.hypervisor.actual = unread  # type: ignore[method-assign]
    node.period(g1_vdc=50)
    assert node.iops() == [1400, 50, 50]


def test_guests_that_start_between_two_passes_do_not_get_the_same_part(tmp_path: Path) -> None:
    node = Daemon(tmp_path, guest(1, a_volume(1)), rules=rules(Limits(total_iops_sec=700)))
    node.period()
    for number in (2, 3, 4):
        node.starts(number)
        node.passes_over(number)
    # 1500 - 1400, and then a tenth of an equal part.
    assert node.iops() == [700, 700, 100, 37]


def test_guests_that_start_while_a_pass_over_the_node_runs_are_counted_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Daemon(tmp_path, guest(1, a_volume(1)), rules=rules(Limits(total_iops_sec=700)))
    node.period()
    save = NodeStore.save_ceilings

    def meanwhile(store: NodeStore, ceilings: Ceilings) -> None:
        monkeypatch.undo()
        node.starts(2)
        node.passes_over(2)
        save(store, ceilings)

    monkeypatch.setattr(NodeStore, "save_ceilings", meanwhile)
    node.period(g1_vda=100)
    node.starts(3)
    node.passes_over(3)
    # 1500 - 1400: what the second one has is not given again.
    assert node.iops() == [700, 700, 100]
    del node.hypervisor.by_uuid[uuid_of(2)]
    node.period()
    assert node.iops() == [700, 700]


def test_guests_that_start_before_any_pass_over_the_node_share(tmp_path: Path) -> None:
    node = Daemon(tmp_path, rules=rules())
    node.period()
    for number in (1, 2):
        node.starts(number)
        node.passes_over(number)
    assert node.iops() == [1000, 500]


def test_a_plan_gives_nothing_away(node: Daemon) -> None:
    before = node.state.load_ceilings()
    node.starts(3)
    node.split = Split.STAY
    (change,) = changes(node.run(Mode.PLAN))
    assert change.after.total_iops_sec == 50
    assert node.state.load_ceilings() == before


def test_a_guest_whose_limit_is_raised_gets_what_is_left(tmp_path: Path) -> None:
    node = Daemon(
        tmp_path, *(guest(number, a_volume(number)) for number in (1, 2)), rules=rules(Limits(total_iops_sec=700))
    )
    node.period()
    node.rules = rules(Limits(total_iops_sec=900))
    node.split = Split.STAY
    node.run(scope=Scope(frozenset({uuid_of(1)})))
    assert node.iops() == [800, 700]


@pytest.mark.parametrize("content", [None, "{"])
def test_without_the_file_passes_over_guests_leave_limits_within_the_ceiling(
    node: Daemon, content: str | None
) -> None:
    node.period(g1_vda=750)
    assert node.iops() == [1000, 500]
    if content is None:
        node.state.ceilings.unlink()
    else:
        node.state.ceilings.write_text(content)
    for number in (2, 1):
        node.passes_over(number)
    assert node.iops() == [1000, 500]


def test_a_reduced_guest_that_arrives_gets_no_more_than_is_left(node: Daemon, tmp_path: Path) -> None:
    source = Daemon(made(tmp_path / "source"), guest(3, a_volume(3)), guest(4, a_volume(4)), rules=rules())
    source.period()
    source.period(g3_vda=750)
    assert source.iops() == [1000, 500]
    for number, left in ((4, 50), (3, 37)):
        source.hypervisor.migrate(source.hypervisor.by_uuid[uuid_of(number)], node.hypervisor)
        node.passes_over(number)
        assert node.disk(number).actual.total_iops_sec == left


def test_the_end_of_a_hold_gives_what_the_hold_had(node: Daemon) -> None:
    held(node)
    node.period()
    assert node.iops() == [600, 900]
    node.now += timedelta(hours=3)
    node.passes_over(2)
    assert node.iops() == [600, 900]
    assert node.memory[node.seen(2, "vda").key].reduced == Limits(total_iops_sec=900)


def test_a_new_guest_begins_with_what_is_left(node: Daemon) -> None:
    node.starts(3)
    node.passes_over(3)
    assert node.iops() == [750, 750, 50]
    node.period(g1_vda=750, g2_vda=750, g3_vda=0)
    assert node.iops() == [500, 500, 500]


def test_a_pass_over_one_guest_leaves_disks_whose_limits_are_within_the_ceiling(tmp_path: Path) -> None:
    guests = guest(1, a_volume(1)), guest(2, a_volume(2))
    node = Daemon(tmp_path, *guests, rules=rules(Limits(total_iops_sec=700)))
    node.period()
    node.passes_over(1)
    assert kinds(node.run(scope=Scope(frozenset({uuid_of(1)})))) == ["in-sync"]
    assert node.iops() == [700, 700]


def test_a_pause_and_mode_observe_write_nothing(node: Daemon) -> None:
    node.rules = Rules(default=GOLD, revision="without")
    node.paused = lambda: because(Code.PAUSED, file="paused", why="")
    node.period()
    node.paused = lambda: None
    node.run(Mode.OBSERVE)
    node.run(Mode.PLAN)
    assert node.iops() == [750, 750]


def test_a_pause_that_restores_ends_the_split(node: Daemon, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = settings_in(tmp_path, state_dir=node.state.directory)
    options = ("--reason", "x", "--restore")
    person = Person()
    assert person.types(PauseNode, *options, settings=settings, hypervisor=node.hypervisor, stdin=Terminal("")) == 0
    assert node.iops() == [1000, 1000]
    assert node.state.load_ceilings() == ({}, {})
    assert person.types(PauseNode, *options, settings=settings, hypervisor=node.hypervisor, stdin=Terminal("")) == 64
    assert caplog.messages[-1].endswith("; to restore limits: plimsoll resume, then plimsoll pause --restore")


def cut(node: Daemon) -> Rules:
    """Rules of which the brake stops the second guest's disk."""
    small = Match(volume=(node.seen(2, "vda").volume_id or "",))
    return rules(GOLD, Rule(name="small", match=small, limits=Limits(total_iops_sec=20), override=True))


def test_a_ceiling_whose_disks_the_brake_stops_is_not_split(node: Daemon) -> None:
    node.rules = rules(ceiling=Limits(total_iops_sec=15))
    node.period()
    assert node.iops() == [750, 750]


def test_a_guest_that_starts_while_the_brake_stops_a_disk_gets_what_is_left(node: Daemon) -> None:
    node.rules = cut(node)
    for number in (3, 4):
        node.starts(number)
        node.period()
    assert node.iops() == [750, 750, 50, 37]
    assert kinds(node.period()) == ["in-sync", "deferred", "in-sync", "in-sync"]


def test_a_disk_gets_back_what_it_had_while_the_brake_stops_another(node: Daemon) -> None:
    node.rules = cut(node)
    set_by_hand(node.disk(1), Limits(total_iops_sec=9))
    assert kinds(node.period()) == ["changed", "deferred"]
    assert node.iops() == [750, 750]


# --- beside others


def test_a_disk_keeps_its_part_while_its_own_raise_waits_since_its_cluster_is_unknown(node: Daemon) -> None:
    """Else its whole limit would be restored, and with it more than the ceiling."""
    node.rules, node.ceph.known = rules(Limits(total_iops_sec=1400)), Clusters(())
    assert codes(node.period()) == [Code.CLUSTER_UNKNOWN] * 2
    assert node.iops() == [750, 750]


def test_under_congestion_the_lower_of_both_counts(tmp_path: Path) -> None:
    both = replace(congested(GOLD), rules=(*congested(GOLD).rules, *rules().rules), revision="both")
    node = Daemon(tmp_path, guest(1, a_volume(1)), guest(2, a_volume(2)), rules=both)
    node.period()
    node.following = at(0.5)
    node.period()
    assert node.iops() == [500, 500]
    node.following = at(0.9)
    node.period()
    assert node.iops() == [750, 750]


def test_the_reason_has_no_factor_of_a_congestion_that_leaves_the_limit(tmp_path: Path) -> None:
    floor = Rule(name="all", match=Match(), congestion=UnderCongestion(GOLD))
    node = Daemon(tmp_path, guest(1, a_volume(1)), guest(2, a_volume(2)), rules=rules(GOLD, floor))
    node.following = at(0.5)
    report = node.period()
    assert node.iops() == [750, 750]
    assert [each.reduced_by.facts["x"] for each in report.outcomes if each.reduced_by] == [1, 1]


def test_no_burst_is_written_while_disks_share(tmp_path: Path) -> None:
    burst = Limits(total_iops_sec=700, total_iops_sec_max=1400, total_iops_sec_max_length=10)
    node = Daemon(tmp_path, guest(1, a_volume(1)), guest(2, a_volume(2)), rules=rules(burst))
    node.period()
    assert {disk.actual for disk in node.disks()} == {Limits(total_iops_sec=700)}
    node.rules = Rules(default=burst, revision="without")
    node.period()
    assert {disk.actual.total_iops_sec_max for disk in node.disks()} == {1400}


def test_reads_and_writes_are_lowered_alike(tmp_path: Path) -> None:
    parts = Limits(read_iops_sec=800, write_iops_sec=400)
    node = Daemon(tmp_path, guest(1, a_volume(1)), guest(2, a_volume(2)), rules=rules(parts))
    node.period()
    assert {disk.actual for disk in node.disks()} == {Limits(read_iops_sec=500, write_iops_sec=250)}


def test_memory_and_the_record_of_changes_know_what_is_desired(node: Daemon) -> None:
    for entry in node.memory.values():
        assert (entry.desired, entry.applied, entry.reduced) == (GOLD, GOLD, Limits(total_iops_sec=750))
    assert node.recorded("after") == [('{"total_iops_sec": 1000}',)] * 2


def test_the_record_has_one_entry_a_pass_and_ceiling_with_the_limits_of_each_time(node: Daemon) -> None:
    expected = [(node.now, 750)]
    for rate in (750, 1000):
        node.period(g1_vda=rate, g2_vda=0 if rate == 750 else 500)
        expected.append((node.now, node.iops()[0]))
    record = Record(node.state.record)
    entries = record_query.entries(record, record_query.Selection(reason="ceiling"))
    assert [entry_line(each).partition("project_ceiling")[2].partition("   ")[0] for each in entries] == [
        ' of rule "team": reduced',
        ' of rule "team": reduced',
        ' of rule "team": not reduced any more',
        ' of rule "team": reduced',
    ]
    volume = node.seen(1, "vda").volume_id or ""
    for moment, iops in expected:
        (state,) = actual(record, moment + timedelta(seconds=1), volume, None)
        assert state.limits == Limits(total_iops_sec=iops)
    (line, *_) = actual_lines(actual(record, node.now, volume, None)[0])
    assert "750 IOPS" in line
    assert 'of 1000 IOPS, project_ceiling of rule "team"' in line


def test_explain_tells_what_is_used_of_the_ceiling_and_the_part_of_the_disk(node: Daemon) -> None:
    report = node.period(g1_vda=400, g2_vda=12)
    outcome, record = report.outcomes[0], Record(node.state.record)
    (text,) = [text for name, text in explain.rows(outcome, report.situation, record) if name == "ceiling"]
    assert text.partition(": ")[2] == '412 of 1500 IOPS on this node, its part 750 IOPS (rule "team"; 2 disks)'
    assert explain.data(outcome, report.situation, None, record)["ceilings"] == [
        {
            "whose": "project",
            "owner": outcome.disk.guest.project,
            "rule": "team",
            "ceiling": {"total_iops_sec": 1500},
            "disks": 2,
            "used": {"total_iops_sec": 412},
            "allowed": {"total_iops_sec": 1500},
            "part": {"total_iops_sec": 750},
        }
    ]


def test_a_list_says_why_a_disk_is_lower(node: Daemon) -> None:
    report = node.period()
    assert {state_reason(each) for each in report.outcomes} == {'project_ceiling of rule "team": reduced'}


def test_without_a_record_nothing_is_reduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Daemon(tmp_path, guest(1, a_volume(1)), guest(2, a_volume(2)), rules=Rules(default=GOLD))
    node.period()
    node.rules = rules()
    monkeypatch.setattr(Record, "note", lambda *_: (_ for _ in ()).throw(StateError("disk full")))
    assert kinds(node.period()) == ["failed"] * 2
    assert node.iops() == [1000, 1000]


def test_a_pass_that_is_killed_after_its_writes_is_no_external_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Daemon(tmp_path, guest(1, a_volume(1)), guest(2, a_volume(2)), rules=Rules(default=GOLD))
    node.period()
    node.rules = rules()
    with monkeypatch.context() as patch:
        for name in ("remember", "conclude"):
            patch.setattr(NodeStore, name, lambda *_: (_ for _ in ()).throw(StateError("killed")))
        node.period()
    assert node.iops() == [750, 750]
    assert kinds(node.period()) == ["in-sync"] * 2


def test_without_such_a_rule_no_limit_and_no_outcome_differs(tmp_path: Path) -> None:
    rng = random.Random(37)
    for number in range(6):
        disks = [a_volume(n, rng.choice([None, Limits(total_iops_sec=7), GOLD])) for n in range(4)]
        plain = Rules(default=rng.choice([None, GOLD, Limits()]), revision="1")
        results = []
        for split in Split:
            guests = [guest(n, *(copy(each) for each in disks[2 * n : 2 * n + 2])) for n in range(2)]
            node = Daemon(made(tmp_path / f"{number}-{split.value}"), *guests, rules=plain)
            node.split = split
            report = node.period()
            results.append((kinds(report), changes(report), [disk.actual for disk in node.disks()]))
            assert not node.state.load_ceilings()[0]
        assert all(each == results[0] for each in results)
