"""Limits whose source is gone: kept and reported, released by one approval, which stands until the type changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.catalogue.orders import Orders
from plimsoll_agent.messages.sentences import state_words
from plimsoll_agent.model.approvals import digest_of_change
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.policy.memory import releasing, remembered_after
from plimsoll_agent.reconcile.outcome import Mode, PassReport
from plimsoll_agent.rules.model import Rule, Rules
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.util.frozen import replace
from tests.unit import told
from tests.unit.agent.passes.test_catalogue import ANYWHERE, LOST, Cloud, a_cloud, actual, id_of, settled
from tests.unit.clouds import a_type, orders_for
from tests.unit.node import Node, a_volume, codes, guest, kinds, set_by_hand, uuid_of

RICH, POOR, OLD = Limits(total_iops_sec=3000), Limits(total_iops_sec=500), Limits(total_iops_sec=5000)
UNLIMITED = Limits()


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    """Two guests, each with a volume of type gold that plimsoll limits so."""
    return settled(a_cloud(tmp_path, *(guest(n, a_volume(n)) for n in (1, 2))))


@pytest.fixture
def node(cloud: Cloud) -> Node:
    return cloud.node


def disassociate(cloud: Cloud) -> None:
    cloud.types["gold"] = None
    cloud.refresh()


def delete(cloud: Cloud) -> None:
    """Cinder takes a spec that is deleted by force from its types too."""
    disassociate(cloud)
    del cloud.specs["gold"]
    cloud.refresh()


def release(node: Node) -> None:
    """``plimsoll approve --remove``, for all that is orphaned."""
    planned = node.run(Mode.PLAN)
    orphans = [outcome.disk for outcome in planned.outcomes if outcome.result.reason.code is Code.ORPHANED]
    assert orphans
    memory = NodeStore(node.state, "ann").recall(node.now, read_only=False)
    node.state.save_memory(replace(memory, disks={**memory.disks, **releasing(orphans, planned.situation.memory)}))


def freed(cloud: Cloud) -> Node:
    """A node whose disks were released, once their spec was gone."""
    disassociate(cloud)
    cloud.node.run()
    release(cloud.node)
    assert kinds(cloud.node.run()) == ["changed"] * 2
    cloud.node.hypervisor.writes.clear()
    return cloud.node


def rebooted(cloud: Cloud, limits: Limits, number: int = 1) -> None:
    """A hard reboot, after which Nova's limits are in force; the refresher has asked for the volume again."""
    cloud.node.hypervisor.restart(cloud.node.hypervisor.by_uuid[uuid_of(number)], limits)
    cloud.node.run()
    cloud.refresh()


def kept(node: Node) -> PassReport:
    """A pass that leaves what it finds."""
    before = actual(node)
    report = node.run()
    assert node.hypervisor.writes == []
    assert actual(node) == before
    return report


# --- what is orphaned


@pytest.mark.parametrize("how", [disassociate, delete])
def test_limits_of_a_spec_that_is_gone_are_kept_and_reported(
    cloud: Cloud, node: Node, how: Callable[[Cloud], None]
) -> None:
    how(cloud)
    report = kept(node)
    assert (kinds(report), codes(report)) == (["left-alone"] * 2, [Code.ORPHANED] * 2)
    origin = "orphaned limits: they came from volume type gold, which sets none now"
    assert told.planned(report) == [
        f"2 disks with {origin}; to remove them: plimsoll approve --remove --type gold --reason TEXT",
        "Plan: nothing to change, 2 left alone.",
    ]
    assert {state_words(outcome) for outcome in report.outcomes} == {origin}
    assert codes(kept(node)) == [Code.ORPHANED] * 2, "as long as nothing is decided"


@pytest.mark.parametrize(
    ("rules", "origin"),
    [
        (Rules(rules=(Rule(name="all", match=ANYWHERE, limits=POOR),), revision="b" * 64), 'rule "all"'),
        (Rules(default=POOR, revision="b" * 64), "the default"),
    ],
    ids=["rule", "default"],
)
@pytest.mark.parametrize("asked", [False, True], ids=["Cinder-is-not-asked", "volumes-without-a-spec"])
def test_limits_of_a_rule_or_default_that_was_taken_out_are_orphaned(
    tmp_path: Path, rules: Rules, origin: str, asked: bool
) -> None:
    cloud = a_cloud(tmp_path, guest(1, a_volume(1)), rules=rules)
    if asked:
        cloud.types["gold"] = None
        node = settled(cloud).node
    else:
        node, cloud.node.catalogue = cloud.node, None
        node.run(yes=True)
    assert actual(node) == [POOR]
    node.hypervisor.writes.clear()
    node.rules = Rules(revision="c" * 64)
    report = kept(node)
    assert codes(report) == [Code.ORPHANED]
    line = told.planned(report)[0]
    digest = digest_of_change(report.outcomes[0].disk.key, UNLIMITED)
    assert line == (
        f"1 disk with orphaned limits: they came from {origin}, which sets none now;"
        f" to remove them: plimsoll approve --remove {digest:.16} --reason TEXT"
    )


def test_orphaned_limits_of_one_type_have_one_line_whatever_they_came_from(cloud: Cloud, node: Node) -> None:
    """``approve --remove --type`` releases them together."""
    for number in (3, 4):
        node.hypervisor.by_uuid[uuid_of(number)] = guest(number, a_volume(number))
    settled(cloud)
    cloud.types["gold"] = None
    cloud.refresh()
    node.run()
    memory = node.state.load_memory()
    assert memory is not None
    by_rule = {
        key: replace(its, by_type=None, by_rules=("all",)) for key, its in memory.disks.items() if "004" in key
    }
    node.state.save_memory(replace(memory, disks={**memory.disks, **by_rule}))
    lines = [line for line in told.planned(kept(node)) if "orphaned" in line]
    assert lines == [
        "4 disks with orphaned limits: 3 came from volume type gold, which sets none now; 1 came from rule"
        ' "all", which sets none now; to remove them: plimsoll approve --remove --type gold --reason TEXT'
    ]


def test_a_volume_that_got_a_type_without_a_spec_keeps_the_limits_of_its_old_type(cloud: Cloud, node: Node) -> None:
    cloud.types["plain"] = None
    cloud.type_of[id_of(node.disk(1))] = "plain"
    cloud.refresh()
    report = kept(node)
    assert codes(report) == [Code.ORPHANED, Code.QOS_SPEC]
    assert report.outcomes[0].result.reason.facts["type"] == "gold"


@pytest.mark.parametrize(
    "forget",
    [
        lambda known: LOST,
        lambda known: replace(known, volumes={}),
        lambda known: replace(known, types={}),
        lambda known: None,
    ],
    ids=["catalogue", "volumes", "types", "not-asked"],
)
def test_what_is_merely_unknown_is_never_orphaned(
    cloud: Cloud, node: Node, forget: Callable[[Catalogue | Unknown | None], Catalogue | Unknown | None]
) -> None:
    node.catalogue = forget(node.catalogue)
    assert Code.ORPHANED not in codes(kept(node))
    disassociate(cloud)
    node.catalogue = forget(node.catalogue)
    assert Code.ORPHANED not in codes(kept(node))


def test_limits_that_came_with_the_attachment_are_left_alone_as_before(tmp_path: Path) -> None:
    cloud = a_cloud(tmp_path, guest(1, a_volume(1, RICH)))
    cloud.types["gold"] = None
    node = settled(cloud).node
    assert (codes(node.run()), actual(node)) == ([Code.NO_LIMIT], [RICH])
    node.catalogue = None
    assert (codes(node.run()), actual(node)) == ([Code.FOREIGN_LIMIT], [RICH])


def test_others_limits_on_a_disk_that_plimsoll_had_limited_are_not_orphaned(cloud: Cloud, node: Node) -> None:
    disassociate(cloud)
    rebooted(cloud, OLD)
    assert codes(node.run()) == [Code.NO_LIMIT, Code.ORPHANED]


# --- their release


def test_a_release_removes_them_and_stands_after_a_reboot_that_restores_old_limits(cloud: Cloud) -> None:
    node = freed(cloud)
    assert actual(node) == [UNLIMITED] * 2
    assert codes(node.run()) == [Code.RELEASED] * 2
    rebooted(cloud, OLD)
    report = node.run()
    assert (kinds(report), actual(node)) == (["changed", "in-sync"], [UNLIMITED] * 2)
    assert node.recorded("reason")[-1][0] == '{"code": "released", "type": "gold"}'


def test_a_release_ends_when_the_type_changes(cloud: Cloud) -> None:
    node = freed(cloud)
    cloud.types["plain"] = None
    cloud.type_of[id_of(node.disk(1))] = "plain"
    rebooted(cloud, OLD)
    for _ in range(2):
        assert (codes(node.run()), actual(node)) == ([Code.NO_LIMIT, Code.RELEASED], [OLD, UNLIMITED])
    cloud.type_of[id_of(node.disk(1))] = "gold"
    cloud.refresh()
    assert codes(node.run())[0] is Code.NO_LIMIT, "it does not begin again"


def test_a_release_ends_when_the_type_gets_a_spec_again(cloud: Cloud) -> None:
    node = freed(cloud)
    cloud.types["gold"] = "gold"
    cloud.refresh()
    assert (kinds(node.run()), actual(node)) == (["changed"] * 2, [RICH] * 2)
    disassociate(cloud)
    assert (codes(node.run()), actual(node)) == ([Code.ORPHANED] * 2, [RICH] * 2)


@pytest.mark.parametrize("reason", [Code.CLUSTER_UNHEALTHY, Code.PAUSED])
def test_a_release_waits_for_ceph_and_for_the_end_of_a_pause_and_stands_until_then(
    cloud: Cloud, node: Node, reason: Code
) -> None:
    disassociate(cloud)
    node.run()
    release(node)
    if reason is Code.PAUSED:
        node.paused = lambda: because(Code.PAUSED, file="paused", why="")
    else:
        node.ceph.raised = ("OSD_FULL",)
    for _ in range(2):
        assert codes(kept(node)) == [reason] * 2
    node.paused, node.ceph.raised = lambda: None, ()
    assert kinds(node.run()) == ["changed"] * 2


def test_a_release_outlasts_what_is_unknown_and_a_hold(cloud: Cloud) -> None:
    node, known = freed(cloud), cloud.node.catalogue
    node.catalogue = LOST
    node.run()
    node.catalogue = known
    node.hold(1, "vda", POOR, timedelta(minutes=7))
    assert (kinds(node.run()), actual(node)) == (["changed", "in-sync"], [POOR, UNLIMITED])
    assert (kinds(node.run()), actual(node)) == (["changed", "in-sync"], [UNLIMITED] * 2)


@pytest.mark.parametrize("marked", [True, False], ids=["marks", "record"])
def test_a_memory_that_is_lost_comes_back_with_the_release(cloud: Cloud, marked: bool) -> None:
    node = freed(cloud)
    node.state.memory.unlink()
    if not marked:
        node.hypervisor.lose_marks()
    rebooted(cloud, OLD)
    assert (kinds(node.run()), actual(node)) == (["changed", "in-sync"], [UNLIMITED] * 2)


def test_a_release_follows_a_live_migration_that_restores_old_limits(cloud: Cloud, tmp_path: Path) -> None:
    node, target = freed(cloud), Node(tmp_path / "target", rules=Rules(revision="a" * 64))
    target.state.prepare()
    moved = node.hypervisor.by_uuid[uuid_of(1)]
    node.hypervisor.migrate(moved, target.hypervisor, fresh={"vda": OLD})
    target.catalogue, there = LOST, Cloud(target)
    there.types["gold"] = None
    target.run()
    there.refresh()
    assert (kinds(target.run()), actual(target)) == (["changed"], [UNLIMITED])


def test_what_is_undone_is_released_no_more(cloud: Cloud) -> None:
    node = freed(cloud)
    change = Change(
        disk=node.seen(1, "vda"),
        before=UNLIMITED,
        after=RICH,
        direction=Direction.LOWER,
        reason=because(Code.UNDONE),
        cause=Code.DESIRED_CHANGED,
    )
    after = remembered_after(change, next(iter(node.memory.values())), node.now)
    assert (after.released, after.applied) == (None, RICH)


def test_the_region_releases_neither_limits_of_others_nor_those_of_a_rule(cloud: Cloud, node: Node) -> None:
    disassociate(cloud)
    set_by_hand(node.disk(1), OLD)
    memory = NodeStore(node.state, "tests").recall(node.now, read_only=False)
    by_rule = {
        key: replace(its, by_type=None, by_rules=("all",)) for key, its in memory.disks.items() if uuid_of(2) in key
    }
    node.state.save_memory(replace(memory, disks={**memory.disks, **by_rule}))
    assert isinstance(node.catalogue, Catalogue)
    node.orders = orders_for(node.catalogue, a_type("gold", None))
    assert codes(node.run()) == [Code.NO_LIMIT, Code.ORPHANED]
    assert actual(node) == [OLD, RICH]


def test_the_region_releases_what_it_approved_of_by_volume_type(cloud: Cloud, node: Node) -> None:
    disassociate(cloud)
    assert isinstance(node.catalogue, Catalogue)
    node.orders = orders_for(node.catalogue, a_type("silver", None))
    assert codes(kept(node)) == [Code.ORPHANED] * 2
    node.orders = orders_for(node.catalogue, a_type("gold", None))
    assert (kinds(node.run()), actual(node)) == (["changed"] * 2, [UNLIMITED] * 2)
    node.orders = Orders()
    rebooted(cloud, OLD)
    assert actual(node) == [OLD, UNLIMITED]
    assert kinds(node.run()) == ["changed", "in-sync"]
