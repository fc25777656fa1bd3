"""The brake over time: rules that end, holds, guests that come back, and an edit that stays stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.model.approvals import digest_of_change
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.reconcile.outcome import Kind, Scope
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.frozen import replace
from tests.unit.agent.passes.test_catalogue import LOST, a_cloud, present, settled
from tests.unit.agent.reconcile.test_brake import (
    AAA,
    BBB,
    BRONZE,
    BRONZE_DISKS,
    CCC,
    GOLD,
    SLIP,
    a_fresh_node,
    a_node,
    actual,
    bronze,
    moved,
    of_bronze,
    rules,
    stopped,
)
from tests.unit.clouds import a_catalogue, a_spec, orders_for
from tests.unit.node import Node, a_volume, guest, set_by_hand, uuid_of
from tests.unit.values import NOON

DDD = "d" * 64
FIFTH = Limits(total_iops_sec=600)


def iops(number: int) -> Limits:
    return Limits(total_iops_sec=number)


def until(minutes: int, number: int, name: str = "night", match: Match = BRONZE_DISKS) -> Rule:
    """So much till so long after noon; the passes come each five minutes, the first at 12:05."""
    end = NOON + timedelta(minutes=minutes)
    return Rule(name=name, match=match, limits=iops(number), override=True, until=end)


def edit(node: Node, revision: str, *its: Rule) -> None:
    node.rules = Rules(rules=its, default=GOLD, revision=revision)


# --- rules that end


def test_a_retype_while_a_rule_stands_is_no_edit_at_its_end(tmp_path: Path) -> None:
    silver = Rule(name="silver", match=Match(pool=("silver",)), limits=iops(250))
    night = until(17, 1500, match=Match(pool=("bronze", "silver")))
    node = a_node(tmp_path, 1, 20, start=Rules(rules=(of_bronze(3000), silver), default=GOLD, revision=AAA))
    edit(node, BBB, night, of_bronze(3000), silver)
    node.run()
    node.disk(0).pool = "silver"
    assert [stopped(node.run()) for _ in range(2)] == [None, None]
    assert node.disk(0).actual == iops(250)


@pytest.mark.parametrize(
    ("its", "steps"),
    [
        ([until(12, 125), until(6000, 250, "contract")], [125, 250, 250]),
        ([until(12, 1000, "till two"), until(17, 1400, "till six")], [1000, 1400, 3000]),
    ],
    ids=["one over another", "in steps"],
)
def test_rules_that_end_one_after_the_other_ask_nothing(tmp_path: Path, its: list[Rule], steps: list[int]) -> None:
    node = a_node(tmp_path, 20, 40)
    edit(node, BBB, *its, of_bronze(3000))
    node.approve(BBB)
    node.run()
    for step in steps:
        assert bronze(node) == {iops(step)}
        assert stopped(node.run()) is None


def test_a_rule_that_is_raised_under_another_one_is_weighed_at_once(tmp_path: Path) -> None:
    node = a_node(tmp_path, 20, 20)
    edit(node, BBB, until(27, 200), until(6000, 250, "contract"), of_bronze(3000))
    node.approve(BBB)
    node.run()
    edit(node, CCC, until(27, 200), until(6000, 2900, "contract"), of_bronze(3000))
    for _ in range(4):
        assert (stopped(node.run()), bronze(node)) == ((20, 20), {iops(200)})


def test_a_rule_that_is_taken_away_early_brings_back_what_was_to_come(tmp_path: Path) -> None:
    node = a_node(tmp_path, 20, 40)
    edit(node, BBB, until(60, 2000), of_bronze(3000))
    node.run()
    edit(node, CCC, of_bronze(3000))
    assert stopped(node.run()) is None
    assert bronze(node) == {BRONZE}


@pytest.mark.parametrize("deferred", [True, False])
def test_a_slip_beneath_a_rule_that_ends_with_it_or_after_it_is_stopped(tmp_path: Path, deferred: bool) -> None:
    node = a_node(tmp_path, 1, 3)
    edit(node, BBB, until(60, 2000), of_bronze(3000))
    node.run()
    if deferred:
        edit(node, CCC, until(60, 2000), of_bronze(250))
        assert stopped(node.run()) == (1, 3)
    edit(node, DDD, of_bronze(250))
    assert (stopped(node.run()), bronze(node)) == ((1, 3), {iops(2000)}), "250 of 2000 are more than a tenth"


def test_a_rule_that_gets_an_end_is_an_edit_of_what_comes_after_it(tmp_path: Path) -> None:
    start = Rules(rules=(of_bronze(3000),), default=SLIP, revision=AAA)
    node = a_node(tmp_path, 20, 40, start=start)
    node.rules = Rules(
        rules=(replace(start.rules[0], until=NOON + timedelta(minutes=12)),), default=SLIP, revision=BBB
    )
    for _ in range(3):
        assert (stopped(node.run()), bronze(node)) == ((20, 40), {BRONZE})


def attached_under_it(node: Node) -> None:
    node.hypervisor.by_uuid[uuid_of(7)] = guest(7, a_volume(7, BRONZE, pool="bronze"))


def managed_again(node: Node) -> None:
    edit(node, CCC, Rule(name="alone", match=BRONZE_DISKS, manage=False), *node.rules.rules)
    node.run()
    edit(node, BBB, *node.rules.rules[1:])


@pytest.mark.parametrize("happens", [attached_under_it, managed_again])
def test_a_slip_beneath_a_rule_is_stopped_for_disks_that_were_met_under_it(
    tmp_path: Path, happens: Callable[[Node], None]
) -> None:
    node = a_node(tmp_path, 1, 3)
    edit(node, BBB, until(47, 2000), of_bronze(3000))
    node.run()
    happens(node)
    node.run()
    assert bronze(node) == {iops(2000)}
    edit(node, DDD, until(47, 2000), of_bronze(30))
    while node.now < NOON + timedelta(minutes=60):
        node.run()
        assert bronze(node) == {iops(2000)}


class FullDisk(NodeStore):
    def remember(self, *_: object) -> None:
        raise StateError("no space left on device")


class Killed(NodeStore):
    def remember(self, *_: object) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("node_store", [FullDisk, Killed])
def test_a_slip_beneath_a_rule_is_stopped_though_its_first_pass_remembered_nothing(
    tmp_path: Path, node_store: type[NodeStore]
) -> None:
    node = a_node(tmp_path, 1, 3)
    edit(node, BBB, until(37, 2000), of_bronze(3000))
    with suppress(KeyboardInterrupt):
        node.run(node_store=node_store(node.state, "tests"))
    assert stopped(node.run()) is None
    assert bronze(node) == {iops(2000)}
    edit(node, CCC, until(37, 2000), of_bronze(30))
    while node.now < NOON + timedelta(minutes=50):
        node.run()
        assert bronze(node) == {iops(2000)}


def test_a_rule_with_another_name_is_the_same_to_disks_that_were_met_under_it(tmp_path: Path) -> None:
    start = Rules(rules=(until(22, 2000), of_bronze(3000)), default=GOLD, revision=AAA)
    node = a_fresh_node(tmp_path, 20, 40, start)
    node.run()
    edit(node, BBB, until(22, 1500, "night 2"), of_bronze(3000))
    assert [stopped(node.run()) for _ in range(4)] == [None] * 4
    assert bronze(node) == {BRONZE}


def test_the_end_of_a_rule_that_left_disks_alone_asks_nothing(tmp_path: Path) -> None:
    node = a_node(tmp_path, 10, 20)
    alone = Rule(name="bench", match=BRONZE_DISKS, manage=False, until=NOON + timedelta(minutes=17))
    edit(node, BBB, alone, *rules().rules)
    node.run()
    for number in range(10):
        set_by_hand(node.disk(number), iops(90000))
    assert [stopped(node.run()) for _ in range(2)] == [None, None]
    assert bronze(node) == {BRONZE}


def test_what_the_region_approved_of_a_spec_counts_at_the_end_of_a_rule_above_it(tmp_path: Path) -> None:
    cloud = settled(a_cloud(tmp_path, *(guest(n, a_volume(n)) for n in (1, 2))))
    node = cloud.node
    end = node.now + timedelta(minutes=17)
    night = Rule(name="night", match=Match(guest=(uuid_of(1),)), limits=iops(1000), override=True, until=end)
    node.rules = Rules(rules=(night,), revision=BBB)
    assert stopped(node.run()) is None
    node.orders = orders_for(cloud.edit(a_spec("gold", total_iops_sec="30")))
    assert [stopped(node.run()) for _ in range(3)] == [None] * 3
    assert {disk.actual for disk in node.disks()} == {SLIP}


# --- holds, and guests that were away


def test_an_edit_and_a_retype_during_a_hold_are_told_apart(tmp_path: Path) -> None:
    start = Rules(rules=(Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP),), default=GOLD, revision=AAA)
    node = a_node(tmp_path, 0, 20, start=start)
    node.hold(0, "vda", iops(4000), timedelta(minutes=18))
    node.run()
    node.rules = replace(start, revision=BBB)
    node.run()
    node.disk(0).pool = "bronze"
    assert [stopped(node.run()) for _ in range(2)] == [None, None]
    assert node.disk(0).actual == SLIP


def is_off(node: Node) -> Callable[[], None]:
    return node.hypervisor.suspend(node.hypervisor.by_uuid[uuid_of(0)])


def cannot_be_looked_at(node: Node) -> Callable[[], None]:
    its = node.hypervisor.by_uuid[uuid_of(0)]
    its.xml = "<domain>"
    return lambda: setattr(its, "xml", None)


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("away", [is_off, cannot_be_looked_at])
def test_an_approval_counts_for_a_guest_that_comes_back_later(
    tmp_path: Path, away: Callable[[Node], Callable[[], None]], approved: bool
) -> None:
    """What was approved of is used up for all others; what needed no approval is still to be judged."""
    node = a_node(tmp_path, 3 if approved else 1, 20)
    back = away(node)
    node.rules = rules(SLIP, of=BBB)
    if approved:
        node.approve(BBB)
    assert stopped(node.run()) is None
    back()
    assert stopped(node.run()) == (None if approved else (1, 20))


def judged(node: Node) -> str | None:
    memory = node.state.load_memory()
    return None if memory is None else memory.brake.judged


@pytest.mark.parametrize(
    ("unknown", "hidden", "of", "enough"), [(3, 3, 20, False), (2, 3, 20, True), (0, 6, 40, True)]
)
def test_a_revision_is_judged_by_a_pass_that_saw_all_but_a_few_disks(
    tmp_path: Path, unknown: int, hidden: int, of: int, enough: bool
) -> None:
    """Disks that are met later are new to it: no edit is weighed for them."""
    gold = Rule(name="gold", match=Match(pool=("gold",)), limits=GOLD, override=True)
    node = a_fresh_node(tmp_path, unknown, of, start=Rules(rules=(gold,), revision=AAA))
    node.catalogue = a_catalogue(issued=node.now)
    for number in range(unknown, unknown + hidden):
        node.hypervisor.by_uuid[uuid_of(number)].xml = "<domain>"
    report = node.run()
    assert (report.count(Kind.UNKNOWN), len(report.unreachable)) == (unknown, hidden)
    assert (judged(node) is not None) is enough


def test_a_pass_over_one_guest_judges_no_revision(tmp_path: Path) -> None:
    node = a_node(tmp_path, 5, 20)
    before = judged(node)
    node.rules = rules(FIFTH, of=BBB)
    assert stopped(node.run(scope=Scope(frozenset({uuid_of(9)})))) is None
    assert judged(node) == before is not None


def test_a_pass_on_an_event_leaves_an_edit_to_one_over_the_node_and_looks_at_no_other_guest(tmp_path: Path) -> None:
    node = a_node(tmp_path, 1, 20)
    node.rules = rules(FIFTH, of=BBB)
    node.hypervisor.calls.clear()
    assert stopped(node.run(scope=Scope(frozenset({uuid_of(0)})), on_event=True)) == (1, 20)
    assert (node.hypervisor.calls.count("look"), bronze(node)) == (1, {BRONZE})
    assert (stopped(node.run()), bronze(node)) == (None, {FIFTH})


def test_an_approval_of_a_revision_counts_for_no_later_one(tmp_path: Path) -> None:
    node = a_node(tmp_path, 6, 20)
    for revision, limits in ((BBB, FIFTH), (CCC, SLIP)):
        node.rules = rules(limits, of=revision)
        assert stopped(node.run()) == (6, 20)
        node.approve(revision)
        assert stopped(node.run()) is None
    memory = node.state.load_memory()
    assert memory is not None
    assert ([each.digest for each in memory.brake.let_through], memory.brake.stopped) == ([CCC], None)


def test_a_cut_of_limits_that_were_right_from_the_start_and_got_lost_is_no_first_limit(tmp_path: Path) -> None:
    right = replace(of_bronze(3000), override=True)
    node = Node(tmp_path, guest(1, a_volume(1, BRONZE, pool="bronze")), rules=Rules(rules=(right,), revision=AAA))
    node.run()
    assert [(each.enforced, each.applied) for each in node.memory.values()] == [(True, None)]
    set_by_hand(node.disk(1), Limits())
    node.rules = Rules(rules=(replace(right, limits=iops(300)),), revision=BBB)
    assert stopped(node.run()) == (1, 1)


# --- an edit that is stopped stays stopped


def one_leaves(node: Node) -> None:
    del node.hypervisor.by_uuid[uuid_of(0)]


def others_come(node: Node) -> None:
    for number in range(200, 240):
        node.hypervisor.by_uuid[uuid_of(number)] = guest(number, a_volume(number, pool="gold"))


def one_is_held(node: Node) -> None:
    node.hold(0, "vda", BRONZE)


def one_is_approved(node: Node) -> None:
    node.approve(digest_of_change(node.seen(0, "vda").key, FIFTH))


def nova_reboots_one(node: Node) -> None:
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(0)], FIFTH)


def one_is_retyped(node: Node) -> None:
    node.disk(0).pool = "gold"


@pytest.mark.parametrize(
    "happens", [one_leaves, others_come, one_is_held, one_is_approved, nova_reboots_one, one_is_retyped]
)
def test_an_edit_of_too_many_disks_stays_stopped_when_fewer_are_left(
    tmp_path: Path, happens: Callable[[Node], None]
) -> None:
    node = a_node(tmp_path, 6, 20)
    node.rules = rules(FIFTH, of=BBB)
    assert stopped(node.run()) == (6, 20)
    happens(node)
    for _ in range(2):
        assert stopped(node.run()) is not None
        assert {node.disk(number).actual for number in range(1, 6)} == {BRONZE}
    node.approve(BBB)
    assert stopped(node.run()) is None
    assert {node.disk(number).actual for number in range(1, 6)} == {FIFTH}


def test_so_many_retypes_that_they_are_stopped_stop_no_edit(tmp_path: Path) -> None:
    node = a_node(tmp_path, 1, 20)
    back = is_off(node)
    node.rules = rules(FIFTH, of=BBB)
    node.run()
    for number in range(1, 7):
        node.disk(number).pool = "bronze"
    assert stopped(node.run()) == (6, 19)
    for number in (1, 2):
        node.disk(number).pool = "gold"
    back()
    assert (stopped(node.run()), bronze(node)) == (None, {FIFTH}), "of the edit too, which nothing stopped"


def test_another_edit_is_judged_for_itself(tmp_path: Path) -> None:
    node = a_node(tmp_path, 6, 20)
    node.rules = rules(FIFTH, of=BBB)
    assert stopped(node.run()) == (6, 20)
    one_leaves(node)
    node.rules = rules(FIFTH, of=CCC)
    assert stopped(node.run()) is None


@pytest.mark.parametrize("how_many", [1, 6])
def test_a_removal_that_is_stopped_is_not_made_by_a_reboot(tmp_path: Path, how_many: int) -> None:
    node = a_node(tmp_path, 6, 20)
    node.rules = rules(Limits(), of=BBB)
    assert stopped(node.run()) == (6, 20)
    for number in range(how_many):
        node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(number)])
    for _ in range(2):
        assert stopped(node.run()) == (6, 20)
        assert bronze(node) == {BRONZE}


def test_pass_by_pass_the_last_hour_counts_too(tmp_path: Path) -> None:
    start = Rules(rules=(Rule(name="bronze", match=BRONZE_DISKS, limits=FIFTH),), default=GOLD, revision=AAA)
    node = a_node(tmp_path, 0, 25, start=start)

    def moved(*numbers: int) -> tuple[int, int] | None:
        for number in numbers:
            node.disk(number).pool = "bronze"
        return stopped(node.run())

    assert [moved(0, 1, 2), moved(3, 4), moved(5)] == [None, None, (1, 25)]
    node.now += timedelta(hours=1)
    assert stopped(node.run()) is None
    assert bronze(node) == {FIFTH}


def test_a_clock_that_is_set_back_forgets_nothing_of_the_last_hour(tmp_path: Path) -> None:
    start = Rules(rules=(Rule(name="bronze", match=BRONZE_DISKS, limits=FIFTH),), default=GOLD, revision=AAA)
    node = a_node(tmp_path, 0, 20, start=start)

    assert [moved(node, number) for number in range(5)] == [None] * 5
    node.now -= timedelta(hours=3)
    assert moved(node, 5) == (1, 20)
    node.now += timedelta(hours=1)
    assert moved(node, 6) is None, "nor for longer than an hour"


def test_a_pass_that_knows_no_catalogue_uses_no_approval_up(tmp_path: Path) -> None:
    cloud = settled(a_cloud(tmp_path, *(guest(n, a_volume(n)) for n in (1, 2))))
    node = cloud.node
    known = cloud.edit(a_spec("gold", total_iops_sec="30"))
    assert stopped(node.run()) == (2, 2)
    node.approve(present(node))
    node.catalogue = LOST
    node.run()
    node.catalogue = known
    assert stopped(node.run()) is None


def test_first_limits_are_no_cuts_though_disks_share_them(tmp_path: Path) -> None:
    node = a_node(tmp_path, 12, 12, start=Rules(rules=(of_bronze(None),), default=GOLD, revision=AAA))
    shared = Rule(name="bronze", match=BRONZE_DISKS, limits=replace(BRONZE, group_name="all"))
    edit(node, BBB, shared)
    stop = node.run().braked
    assert stop is not None
    assert (stop.added, stop.lowered, stop.alone) == (12, 0, {})
    node.approve(BBB)
    node.run()
    assert actual(node, "bronze") == {shared.limits}
