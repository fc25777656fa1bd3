"""Rules that the region approved in stages, and withdrew: a node that had them restores the limits of before."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, Withdrawal
from plimsoll_agent.catalogue.stages import Stages
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.reconcile.brake import stage_in_effect
from plimsoll_agent.reconcile.outcome import Mode
from plimsoll_agent.rules.model import Rule, Rules
from plimsoll_agent.util.frozen import replace
from tests.unit.agent.passes.test_bursts import BURST, Bursting
from tests.unit.agent.passes.test_catalogue import a_cloud, settled
from tests.unit.agent.reconcile.test_brake import (
    AAA,
    BBB,
    BRONZE,
    BRONZE_DISKS,
    CCC,
    SLIP,
    a_fresh_node,
    a_node,
    bronze,
    bronze_disks,
    rules,
    stopped,
)
from tests.unit.clouds import a_catalogue, a_spec, orders_for
from tests.unit.node import Node, a_volume, changes, codes, guest, set_by_hand
from tests.unit.sql import do
from tests.unit.values import NOON

DAY = timedelta(days=1)
STAGES = Stages(percent=(10.0, 100.0), wait=timedelta(minutes=30), entered=NOON)
APPROVAL = RegionApproval(of=Of.RULES, digest=BBB, since=NOON, until=NOON + DAY, by="ann", why="sale", stages=STAGES)
BACK = Withdrawal(
    of=Of.RULES, digest=BBB, before="", began=NOON, since=NOON + DAY, until=NOON + 30 * DAY, by="ann", why="slow"
)
WITHDRAWN = Orders(withdrawals=(BACK,))


def a_node_of_the_stage(directory: Path, position: float = 5.0) -> Node:
    """30 bronze disks of 100 that the approval cut to a hundredth."""
    node = a_node(directory, 30, 100)
    node.now = NOON + timedelta(hours=1)
    node.rules = rules(SLIP, of=BBB)
    node.orders = Orders(staged=(APPROVAL,)).on_node(position)
    node.run()
    return node


def approve(node: Node, new: Rules | None = None, of: str = BBB) -> None:
    """A pass of a node of the stage, after it got these rules; without, it has them already."""
    if new is None and node.rules.revision != BBB:
        new = rules(SLIP, of=BBB)
    node.rules = new or node.rules
    node.orders = Orders(staged=(replace(APPROVAL, digest=of, until=node.now + DAY),)).on_node(5.0)
    node.run()


def withdraw(node: Node, of: str = BBB) -> None:
    node.orders = Orders(withdrawals=(replace(BACK, digest=of),))
    node.run()


def test_a_node_whose_clock_is_some_minutes_behind_restores_what_it_changed_at_once(tmp_path: Path) -> None:
    """By its clock it did so before the approval was made."""
    node = a_node_of_the_stage(tmp_path)
    node.orders = Orders(withdrawals=(replace(BACK, began=node.now + timedelta(minutes=4)),))
    node.run()
    assert bronze(node) == {BRONZE}


def reasons(node: Node) -> list[tuple[str, ...]]:
    every = [json.loads(text) for (text,) in node.recorded("reason")]
    return [tuple(each.get(name) for name in ("approval", "by", "why")) for each in every]


def test_only_a_node_of_the_stage_is_let_through(tmp_path: Path) -> None:
    assert bronze(a_node_of_the_stage(tmp_path / "first")) == {SLIP}
    other = a_node_of_the_stage(tmp_path / "other", 50.0)
    assert bronze(other) == {BRONZE}
    assert stopped(other.run()) == (30, 100)


def test_of_several_approvals_with_stages_the_one_of_the_rules_in_use_is_in_effect(tmp_path: Path) -> None:
    node = a_node_of_the_stage(tmp_path)
    whole, others = replace(APPROVAL, stages=None), (replace(APPROVAL, of=Of.SPECS), replace(APPROVAL, digest=CCC))
    node.orders = Orders(approvals=(whole,), staged=(*others, APPROVAL)).on_node(5.0)
    assert stage_in_effect(node.run().situation) == APPROVAL


def test_a_node_whose_clock_has_passed_the_end_of_the_approval_defers_and_does_not_count_as_one_that_has_it(
    tmp_path: Path,
) -> None:
    node = a_node_of_the_stage(tmp_path / "right")
    assert stage_in_effect(node.run().situation) == APPROVAL
    ahead = a_node(tmp_path / "ahead", 30, 100)
    ahead.now, ahead.rules, ahead.orders = APPROVAL.until, node.rules, node.orders
    report = ahead.run()
    assert (bronze(ahead), stopped(report), stage_in_effect(report.situation)) == ({BRONZE}, (30, 100), None)


def test_what_was_withdrawn_is_restored_once_and_the_rules_wait_again(tmp_path: Path) -> None:
    node = a_node_of_the_stage(tmp_path)
    writes = len(node.hypervisor.writes)
    node.orders = WITHDRAWN
    planned, report = node.run(Mode.PLAN), node.run()
    assert bronze(node) == {BRONZE}
    assert codes(planned).count(Code.DESIRED_BEFORE) == codes(report).count(Code.DESIRED_BEFORE) == 30
    assert reasons(node).count((BBB, "ann", "slow")) == 30
    assert len(node.hypervisor.writes) == writes + 30
    for _ in range(2):
        assert stopped(node.run()) == (30, 100)
    node.orders = Orders()  # the withdrawal has ended
    assert stopped(node.run()) == (30, 100)
    assert (bronze(node), len(node.hypervisor.writes)) == ({BRONZE}, writes + 30)
    node.orders = Orders(
        approvals=(replace(APPROVAL, since=NOON + 2 * DAY, until=node.now + DAY),), withdrawals=(BACK,)
    )
    assert stopped(node.run()) is None, "approved again"
    assert bronze(node) == {SLIP}


def test_withdrawn_rules_wait_also_on_a_node_where_they_are_too_few_to_be_stopped(tmp_path: Path) -> None:
    node = a_node(tmp_path, 2, 100)
    node.now = NOON + timedelta(hours=1)
    approve(node, rules(Limits(total_iops_sec=1000), of=BBB))
    assert bronze(node) == {Limits(total_iops_sec=1000)}
    withdraw(node)
    for orders in (WITHDRAWN, Orders()):
        node.orders = orders
        node.now += timedelta(hours=2)
        node.run()
        assert bronze(node) == {BRONZE}


def test_each_limit_is_as_before_to_the_byte_also_where_it_was_none_of_the_rules(tmp_path: Path) -> None:
    """Other rules set them after the approval was made, and before this node had those that were approved."""
    node = a_node(tmp_path, 30, 100)
    burst = Limits(total_iops_sec=3000, total_iops_sec_max=9000, total_iops_sec_max_length=3)
    node.rules = rules(burst, of=CCC)
    node.run()
    before = [disk.actual for disk in node.disks()]
    assert bronze(node) == {burst}
    node.now = NOON + timedelta(hours=1)
    node.rules, node.orders = rules(SLIP, of=BBB), Orders(staged=(APPROVAL,)).on_node(5)
    node.run()
    assert bronze(node) == {SLIP}
    node.orders = WITHDRAWN
    node.run()
    assert [disk.actual for disk in node.disks()] == before


def test_limits_with_a_burst_are_restored_also_where_only_a_part_of_it_was_saved(tmp_path: Path) -> None:
    """What was written before and after the approval are shorter bursts than were desired."""
    bursting = Bursting(tmp_path)
    node = bursting.node
    for _ in range(2):
        bursting.run()
    bursting.spend(30_000)
    set_by_hand(bursting.disk, Limits(total_iops_sec=777))
    bursting.run()
    assert bursting.length() == 30
    cut = replace(BURST, total_iops_sec=10)
    node.rules = Rules(default=cut, revision=BBB)
    node.orders = Orders(approvals=(replace(APPROVAL, stages=None, until=node.now + DAY),))
    assert bursting.run().braked is None
    assert bursting.length() < 60
    bursting.spend(0, 1000)
    assert changes(bursting.run())[0].cause is Code.BURST_SAVED
    node.orders = Orders(withdrawals=(replace(BACK, began=NOON),))
    bursting.run()
    assert bursting.disk.actual.shortens(BURST)
    assert next(iter(node.memory.values())).desired == BURST


@pytest.mark.parametrize("before_the_approval", [True, False])
@pytest.mark.parametrize("limits", [Limits(total_iops_sec=777), None])
def test_a_disk_that_an_operator_holds_has_the_limits_of_before_at_the_end_of_the_hold(
    tmp_path: Path, before_the_approval: bool, limits: Limits | None
) -> None:
    """Nothing is recorded of what the approval let through while the disk is held."""
    node = a_node(tmp_path, 6, 20)
    held = bronze_disks(node)[0]
    if before_the_approval:
        node.hold(0, "vda", limits)
        node.run()
    node.now = NOON + timedelta(hours=1)
    approve(node)
    if not before_the_approval:
        node.hold(0, "vda", limits)
        node.run()
    during = held.actual
    withdraw(node)
    assert bronze(node) == {BRONZE, during}
    node.now += DAY
    for _ in range(2):
        node.run()
        assert bronze(node) == {BRONZE}


def test_what_an_unhealthy_cluster_deferred_until_after_the_withdrawal_is_not_set_then(tmp_path: Path) -> None:
    node = a_node(tmp_path, 6, 20)
    node.now = NOON + timedelta(hours=1)
    node.ceph.raised = ("SLOW_OPS",)
    approve(node, rules(Limits(total_iops_sec=300_000), of=BBB))
    assert bronze(node) == {BRONZE}
    withdraw(node)
    node.ceph.raised = ()
    for _ in range(2):
        assert stopped(node.run()) == (6, 20)
        assert bronze(node) == {BRONZE}


def test_limits_from_a_spec_that_are_pending_are_none_of_the_rules(tmp_path: Path) -> None:
    """The disk's own type gives what is pending, under the rules that were withdrawn."""
    cloud = settled(a_cloud(tmp_path, guest(1, a_volume(1)), rules=Rules(revision=BBB)))
    node = cloud.node
    node.hold(1, "vda", None)
    node.orders = orders_for(cloud.edit(a_spec("gold", total_iops_sec="30")))
    node.run()
    withdraw(node)
    node.now += DAY
    node.run()
    assert node.disk(1).actual == SLIP


def with_a_catalogue(directory: Path) -> Node:
    """Six disks that the approval cut to a hundredth, of the rules alone or of their revision."""
    override = Rule(name="bronze", match=BRONZE_DISKS, limits=BRONZE, override=True)
    node = a_fresh_node(directory, 6, 6, Rules(rules=(override,), revision=AAA))
    node.catalogue = a_catalogue()
    node.run()
    node.rules = Rules(rules=(replace(override, limits=SLIP),), revision=BBB)
    return node


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("edited", [True, False])
def test_withdrawn_rules_are_restored_also_after_an_edit_of_specs(tmp_path: Path, whole: bool, edited: bool) -> None:
    """That gives the node another revision."""
    node = with_a_catalogue(tmp_path)
    stop = node.run().braked
    assert stop is not None
    digest = stop.revision if whole else BBB
    approve(node, of=digest)
    assert bronze(node) == {SLIP}
    if edited:
        node.catalogue = a_catalogue(a_spec("other", total_iops_sec="500"))
        node.run()
    withdraw(node, of=digest)
    assert bronze(node) == {BRONZE}
    assert stopped(node.run()) == (6, 6)


def test_what_another_revision_of_the_same_rules_let_through_stays(tmp_path: Path) -> None:
    node = with_a_catalogue(tmp_path)
    node.catalogue = a_catalogue(a_spec("other", total_iops_sec="500"))
    approve(node, of=BBB)
    withdraw(node, of=CCC)
    assert bronze(node) == {SLIP}


@pytest.mark.parametrize(("edited", "after"), [(False, BRONZE), (True, SLIP)])
def test_a_row_of_an_earlier_version_counts_under_the_present_catalogue(
    tmp_path: Path, edited: bool, after: Limits
) -> None:
    """It has no digest of the rules alone."""
    node = with_a_catalogue(tmp_path)
    approve(node)
    do(node.state.record, "UPDATE change SET rules = NULL")
    if edited:
        node.catalogue = a_catalogue(a_spec("other", total_iops_sec="500"))
    withdraw(node)
    assert bronze(node) == {after}


def test_a_disk_whose_change_was_by_a_spec_stays_and_the_others_are_restored(tmp_path: Path) -> None:
    node = with_a_catalogue(tmp_path)
    approve(node)
    other, *rest = bronze_disks(node)
    with closing(sqlite3.connect(node.state.record)) as database, database:
        words = "UPDATE change SET reason = json_set(reason, '$.code', ?) WHERE disk = ?"
        assert database.execute(words, (Code.QOS_SPEC.value, node.seen(0, "vda").key)).rowcount == 2
    withdraw(node)
    assert other.actual == SLIP
    assert {disk.actual for disk in rest} == {BRONZE}


def test_limits_of_before_are_restored_also_where_the_record_has_nothing_older(tmp_path: Path) -> None:
    node = with_a_catalogue(tmp_path)
    do(node.state.record, "DELETE FROM change")
    approve(node)
    withdraw(node)
    assert bronze(node) == {BRONZE}


def test_rules_that_an_operator_of_the_node_approved_stay_also_after_an_edit_of_specs(tmp_path: Path) -> None:
    node = with_a_catalogue(tmp_path)
    stop = node.run().braked
    assert stop is not None
    node.approve(stop.revision)
    node.run()
    for name in ("one", "another"):
        node.catalogue = a_catalogue(a_spec(name, total_iops_sec="500"))
        node.run()
        withdraw(node)
        assert bronze(node) == {SLIP}


def test_rules_that_an_operator_of_the_node_approved_under_an_earlier_version_stay(tmp_path: Path) -> None:
    """Its memory has the approval, and not of which rules it was."""
    node = a_node(tmp_path, 30, 100)
    node.rules = rules(SLIP, of=BBB)
    stop = node.run().braked
    assert stop is not None
    node.approve(stop.revision)
    node.run()
    memory = json.loads(node.state.memory.read_bytes())
    assert memory["approved_rules"] == BBB
    node.state.memory.write_text(json.dumps(memory | {"approved_rules": None}))
    approve(node)
    withdraw(node)
    assert bronze(node) == {SLIP}


def killed(node: Node) -> None:
    """After it wrote, before it remembered."""
    memory = node.state.memory.read_bytes()
    node.run()
    node.state.memory.write_bytes(memory)


def in_two_passes(node: Node) -> None:
    node.ceph.raised = ("SLOW_OPS",)
    report = node.run()
    assert bronze(node) == {SLIP}
    assert codes(report).count(Code.CLUSTER_UNHEALTHY) == 30
    node.ceph.raised = ()


@pytest.mark.parametrize("first", [killed, in_two_passes])
def test_a_pass_that_was_killed_or_a_cluster_that_is_unhealthy_only_delays_it(
    tmp_path: Path, first: Callable[[Node], None]
) -> None:
    node = a_node_of_the_stage(tmp_path)
    node.orders = WITHDRAWN
    first(node)
    for _ in range(2):
        node.run()
        assert bronze(node) == {BRONZE}
    assert stopped(node.run()) == (30, 100)


def test_what_the_approval_did_not_let_through_stays(tmp_path: Path) -> None:
    """Cut before the approval; lowered by hand while the rules wait; approved on the node itself."""
    node = a_node(tmp_path / "before", 30, 100)
    node.hold(0, "vda", None)
    node.rules = rules(SLIP, of=BBB)
    node.orders = Orders(approvals=(replace(APPROVAL, stages=None, since=NOON - DAY, until=node.now + DAY),))
    node.run()
    node.orders = Orders(withdrawals=(replace(BACK, began=node.now + DAY),))
    node.run()
    assert bronze(node) == {BRONZE, SLIP}
    node.now += timedelta(hours=3)
    node.run()
    assert bronze(node) == {SLIP}

    node = a_node(tmp_path / "by hand", 30, 100)
    node.rules, node.orders = rules(SLIP, of=BBB), WITHDRAWN
    node.run()
    tighter = bronze_disks(node)[0]
    set_by_hand(tighter, Limits(total_iops_sec=9))
    node.run()
    assert tighter.actual == Limits(total_iops_sec=9)

    node = a_node(tmp_path / "here", 30, 100)
    node.rules, node.orders = rules(SLIP, of=BBB), WITHDRAWN
    node.run()
    node.approve(BBB)
    for _ in range(2):
        node.run()
        assert bronze(node) == {SLIP}


def test_other_rules_are_not_concerned(tmp_path: Path) -> None:
    node = a_node_of_the_stage(tmp_path)
    node.rules = rules(Limits(total_iops_sec=40), of=CCC)
    node.orders = WITHDRAWN
    node.run()
    assert bronze(node) == {Limits(total_iops_sec=40)}
