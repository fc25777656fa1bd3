"""The brake: a slip in one line reaches no node before a person has seen it, and nothing else is held up by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.brake import edition
from plimsoll_agent.errors import Rejected
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Braked, PassReport, Scope
from plimsoll_agent.passes import Mode
from plimsoll_agent.reason import Code, because
from plimsoll_agent.rules import Match, Rule, Rules
from tests.fakes import FakeDisk, hangs
from tests.unit.node import Node, a_volume, changes, codes, guest, kinds, set_by_hand, uuid_of
from tests.unit.values import NOON, a_situation

GOLD, BRONZE = Limits(total_iops_sec=5000), Limits(total_iops_sec=3000)
SLIP = Limits(total_iops_sec=30)
BRONZE_DISKS = Match(pool=("bronze",))


def rules(bronze: Limits = BRONZE, gold: Limits = GOLD, of: str = "aaaaaa") -> Rules:
    return Rules((Rule(name="bronze", match=BRONZE_DISKS, limits=bronze),), default=gold, edition=of)


def a_node(directory: Path, bronze: int, of: int, start: Rules | None = None) -> Node:
    """A node of so many disks, the first of which are bronze, after its first pass."""
    pools = ["bronze"] * bronze + ["gold"] * (of - bronze)
    node = Node(
        directory, *(guest(n, a_volume(n, pool=pool)) for n, pool in enumerate(pools)), rules=start or rules()
    )
    node.run()
    return node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """100 disks, 30 of them bronze, with their limits in force."""
    return a_node(tmp_path, 30, 100)


def bronze(node: Node) -> set[Limits]:
    return in_force(node, "bronze")


def in_force(node: Node, pool: str) -> set[Limits]:
    return {disk.in_force for disk in node.disks() if disk.pool == pool}


def stopped(report: PassReport) -> tuple[int, int] | None:
    return None if report.braked is None else (len(report.braked.keys), report.braked.of)


# --- a slip


def test_a_rule_that_cuts_30_of_100_disks_to_a_hundredth_changes_none_of_them(node: Node) -> None:
    gently = Limits(total_iops_sec=4000)
    node.rules = rules(SLIP, gently, of="bbbbbb")
    report = node.run()
    assert (bronze(node), in_force(node, "gold")) == ({BRONZE}, {gently}), "what is not grave goes on"
    stop = report.braked
    assert stop is not None
    assert stop == Braked("bbbbbb", stop.keys, of=100, released=0, loosened=0, cut=30)
    assert codes(report).count(Code.BRAKED) == kinds(report).count("waits") == len(stop.keys) == 30
    waiting = next(outcome.result for outcome in report.outcomes if outcome.result.reason.code is Code.BRAKED)
    assert waiting.reason.facts == {"edition": "bbbbbb", "disks": 30, "of": 100}


def test_the_brake_holds_in_every_pass_until_a_person_has_spoken(node: Node) -> None:
    node.rules = rules(SLIP, of="bbbbbb")
    for _ in range(3):
        assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}
    assert SLIP not in {remembered.wanted for remembered in node.memory.values()}


def test_an_approval_lets_just_these_rules_through(node: Node) -> None:
    node.rules = rules(SLIP, of="bbbbbb")
    node.run()
    node.approve("bbbbbb")
    assert stopped(node.run()) is None
    assert bronze(node) == {SLIP}

    node.rules = rules(Limits(total_iops_sec=3), of="cccccc")
    assert stopped(node.run()) == (30, 100), "other rules need another approval"
    assert bronze(node) == {SLIP}


def test_who_goes_back_to_the_rules_of_before_is_not_asked(node: Node) -> None:
    node.rules = rules(SLIP, of="bbbbbb")
    node.run()
    node.rules = rules()
    report = node.run()
    assert stopped(report) is None
    assert kinds(report) == ["right"] * 100


def test_a_person_who_says_yes_is_not_asked_again(node: Node) -> None:
    node.rules = rules(SLIP, of="bbbbbb")
    node.run(yes=True)
    assert bronze(node) == {SLIP}
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(1)])
    assert stopped(node.run()) is None, "what was said yes to is what is wanted now"


def test_limits_by_hand_are_a_persons_word(node: Node) -> None:
    node.rules = node.rules.with_command_line(SLIP)
    assert kinds(node.run()) == ["changed"] * 100


def test_the_rules_come_back_after_limits_by_hand_without_asking(node: Node) -> None:
    node.rules = rules().with_command_line(SLIP)
    node.run()
    node.rules = rules()
    assert kinds(node.run()) == ["changed"] * 100
    assert bronze(node) == {BRONZE}


@pytest.mark.parametrize(
    ("bronze", "of", "stops"),
    [(5, 20, False), (6, 20, True), (20, 100, False), (21, 100, True), (2, 2, False)],
)
def test_up_to_5_disks_or_a_fifth_of_them_are_changed_without_asking(
    tmp_path: Path, bronze: int, of: int, stops: bool
) -> None:
    node = a_node(tmp_path, bronze, of)
    node.rules = rules(SLIP, of="bbbbbb")
    assert stopped(node.run()) == ((bronze, of) if stops else None)
    assert in_force(node, "bronze") == {BRONZE if stops else SLIP}


@pytest.mark.parametrize(
    ("after", "released", "loosened", "cut"),
    [
        (Limits(), 30, 0, 0),
        (Limits(total_iops_sec=3001), 0, 30, 0),
        (Limits(total_iops_sec=3000, group_name="all"), 0, 30, 0),
        (Limits(total_iops_sec=1499), 0, 0, 30),
        # Without a byte limit a guest could do anything.
        (Limits(total_iops_sec=3000, total_bytes_sec=10**9), 0, 0, 30),
    ],
)
def test_what_is_released_loosened_or_cut_by_more_than_half_counts(
    node: Node, after: Limits, released: int, loosened: int, cut: int
) -> None:
    node.rules = rules(after, of="bbbbbb")
    stop = node.run().braked
    assert stop is not None
    assert (stop.released, stop.loosened, stop.cut) == (released, loosened, cut)


def test_a_cut_to_the_half_is_none_that_counts(node: Node) -> None:
    node.rules = rules(Limits(total_iops_sec=1500), of="bbbbbb")
    assert stopped(node.run()) is None


def test_a_default_where_nothing_was_wanted_counts_as_a_cut_from_unlimited(tmp_path: Path) -> None:
    node = a_node(tmp_path, 0, 20, start=Rules(edition="aaaaaa"))
    node.rules = Rules(default=GOLD, edition="bbbbbb")
    stop = node.run().braked
    assert stop is not None
    assert stop.cut == 20


def test_a_rule_that_ends_makes_other_rules_of_the_same_text(tmp_path: Path) -> None:
    ends = NOON + timedelta(minutes=12)  # after two passes
    start = Rules(
        (Rule(name="sale", match=Match(), limits=GOLD, until=ends),),
        default=Limits(total_iops_sec=9),
        edition="aaaaaa",
    )
    node = a_node(tmp_path, 0, 20, start=start)
    node.approve("aaaaaa")
    assert stopped(node.run()) is None
    stop = node.run().braked
    assert stop is not None, "nobody approved of what comes after the sale"
    assert stop.edition == edition(replace(a_situation(start), now=ends)) != edition(a_situation(start)) == "aaaaaa"
    node.approve(stop.edition)
    assert stopped(node.run()) is None
    assert in_force(node, "gold") == {Limits(total_iops_sec=9)}


# --- what is no slip


def test_a_reboot_that_loses_all_limits_is_put_right_without_asking(node: Node) -> None:
    for each in node.hypervisor.by_uuid.values():
        node.hypervisor.restart(each)
    node.state = replace(node.state, boot="the next one")
    report = node.run()
    assert stopped(report) is None
    assert kinds(report) == ["changed"] * 100


@pytest.mark.parametrize(("after", "stops"), [(Limits(total_iops_sec=2000), False), (SLIP, True)])
def test_what_is_wanted_anew_is_weighed_against_what_was_wanted_and_not_against_what_a_reboot_left(
    node: Node, after: Limits, stops: bool
) -> None:
    for each in node.hypervisor.by_uuid.values():
        node.hypervisor.restart(each)
    node.rules = rules(after, of="bbbbbb")
    assert stopped(node.run()) == ((30, 100) if stops else None)
    assert bronze(node) == {Limits() if stops else after}


def test_new_guests_are_never_held_up(tmp_path: Path) -> None:
    node = a_node(tmp_path, 0, 2)
    for number in range(10, 40):
        node.hypervisor.by_uuid[uuid_of(number)] = guest(number, a_volume(number, pool="bronze"))
    assert kinds(node.run()) == ["right"] * 2 + ["changed"] * 30


def test_new_guests_are_limited_while_others_are_braked(node: Node) -> None:
    node.rules = rules(SLIP, of="bbbbbb")
    node.run()
    node.hypervisor.by_uuid[uuid_of(200)] = guest(200, a_volume(200, pool="bronze"))
    assert stopped(node.run()) == (30, 101)
    assert node.disk(200).in_force == SLIP


def test_what_somebody_else_changed_is_put_back_on_all_disks(node: Node) -> None:
    for disk in node.disks():
        set_by_hand(disk, Limits())
    report = node.run()
    assert stopped(report) is None
    assert kinds(report) == ["changed"] * 100


def test_holds_that_begin_and_end_are_not_counted(tmp_path: Path) -> None:
    node = a_node(tmp_path, 10, 10)
    for number in range(10):
        node.hold(number, "vda", SLIP)
    assert kinds(node.run()) == ["changed"] * 10
    node.now += timedelta(hours=2)
    report = node.run()
    assert stopped(report) is None
    assert bronze(node) == {BRONZE}


def test_a_slip_during_a_hold_is_braked_when_the_hold_ends(node: Node) -> None:
    node.hold(0, "vda", GOLD)
    node.run()
    node.rules = rules(SLIP, of="bbbbbb")
    assert stopped(node.run()) == (29, 100)
    node.now += timedelta(hours=2)
    assert stopped(node.run()) == (30, 100)
    assert node.disk(0).in_force == GOLD, "it waits at what the hold left"


def test_what_others_limited_does_not_count_however_their_limits_change(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n, GOLD)) for n in range(20)), rules=rules())
    node.run()
    node.rules = rules(SLIP, SLIP, of="bbbbbb")
    report = node.run()
    assert stopped(report) is None
    assert codes(report) == [Code.FOREIGN_LIMIT] * 20


# --- disks that cannot be changed now


def test_disks_that_do_not_answer_count_and_are_braked_when_they_do(tmp_path: Path) -> None:
    node = a_node(tmp_path, 6, 20)
    for number in range(6):
        node.hypervisor.by_uuid[uuid_of(number)].trouble = Rejected("busy")
    node.rules = rules(SLIP, of="bbbbbb")
    assert stopped(node.run()) == (6, 20)
    for number in range(6):
        node.hypervisor.by_uuid[uuid_of(number)].trouble = None
    assert stopped(node.run()) == (6, 20), "nothing of it was taken for wanted meanwhile"
    assert bronze(node) == {BRONZE}


def test_one_that_hangs_takes_the_number_over_the_edge(tmp_path: Path) -> None:
    node = a_node(tmp_path, 6, 20)
    node.hypervisor.by_uuid[uuid_of(3)].trouble = hangs()
    node.rules = rules(SLIP, of="bbbbbb")
    assert stopped(node.run()) == (6, 20)
    assert bronze(node) == {BRONZE}


def test_a_pause_does_not_wear_the_brake_out(node: Node) -> None:
    node.paused = lambda: because(Code.PAUSED, file="/etc/plimsoll/paused", why="")
    node.rules = rules(SLIP, of="bbbbbb")
    assert stopped(node.run()) == (30, 100)
    node.paused = lambda: None
    assert stopped(node.run()) == (30, 100)


def test_a_killed_pass_in_between_neither_releases_the_brake_nor_puts_it_on(node: Node) -> None:
    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    def killed(write: int) -> None:
        """kill -9 at a write of the next pass: neither results nor memory are saved."""
        saved = node.state.memory.read_bytes()
        at: Callable[[], None] = kill
        for _ in range(write):
            at = (lambda after: lambda: node.hypervisor.before.update(set_limits=after))(at)
        node.hypervisor.before["set_limits"] = at
        with pytest.raises(Killed):
            node.run()
        node.state.memory.write_bytes(saved)

    node.rules = rules(SLIP, Limits(total_iops_sec=4000), of="bbbbbb")
    killed(10)
    assert stopped(node.run()) == (30, 100)
    node.approve("bbbbbb")
    killed(10)
    assert len([disk for disk in node.disks() if disk.in_force == SLIP]) == 10
    node.state.approval.unlink()
    assert stopped(node.run()) is None, "the 20 that are left are few enough"
    assert bronze(node) == {SLIP}


# --- observing, planning, looking at a part


def test_observing_records_what_is_wanted_so_that_enforcing_does_what_the_plan_said(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n, pool="bronze")) for n in range(20)), rules=rules())
    node.run(Mode.OBSERVE)
    node.rules = rules(SLIP, of="bbbbbb")
    assert stopped(node.run(Mode.OBSERVE)) is None
    planned = [(change.disk.key, change.before, change.after) for change in changes(node.run(Mode.PLAN))]
    assert len(planned) == 20
    report = node.run()
    assert kinds(report) == ["changed"] * 20
    assert [(change.disk.key, change.before, change.after) for change in changes(report)] == planned


def test_observing_does_not_wear_the_brake_out_for_disks_that_were_limited_before(node: Node) -> None:
    node.rules = rules(SLIP, of="bbbbbb")
    assert stopped(node.run(Mode.OBSERVE)) == (30, 100)
    assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}


def test_a_plan_tells_of_the_brake_as_the_pass_does(node: Node) -> None:
    node.rules = rules(SLIP, of="bbbbbb")
    before = node.state.memory.read_bytes()
    planned, enforced = node.run(Mode.PLAN), node.run()
    assert planned.braked == enforced.braked is not None
    assert codes(planned) == codes(enforced)
    node.state.memory.write_bytes(before)
    node.run(Mode.PLAN)
    assert node.state.memory.read_bytes() == before


def test_a_pass_over_some_guests_counts_theirs_and_leaves_the_memory_of_others(tmp_path: Path) -> None:
    disks = [a_volume(n, pool="bronze") for n in range(6)]
    node = Node(tmp_path, guest(1, *disks), guest(2, a_volume(20, pool="bronze")), rules=rules())
    node.run()
    node.rules = rules(SLIP, of="bbbbbb")
    assert stopped(node.run(scope=Scope(frozenset({uuid_of(1)})))) == (6, 6)
    assert {remembered.wanted for remembered in node.memory.values()} == {BRONZE}
    assert stopped(node.run()) == (7, 7)
    assert {disk.in_force for disk in disks} == {BRONZE}


def test_a_disk_that_is_right_already_does_not_count(node: Node) -> None:
    for disk in bronze_disks(node)[:10]:
        set_by_hand(disk, SLIP)
    node.rules = rules(SLIP, of="bbbbbb")
    assert stopped(node.run()) is None, "20 are left"


def bronze_disks(node: Node) -> list[FakeDisk]:
    return [disk for disk in node.disks() if disk.pool == "bronze"]
