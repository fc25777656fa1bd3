"""What is decided for a whole region, in passes of its nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.app.context import Asked, pass_context, pause_actual
from plimsoll_agent.catalogue.model import NAME, save
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionHold, RegionPause
from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.messages.sentences import words
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.reconcile.brake import revision_of
from plimsoll_agent.reconcile.outcome import Mode
from plimsoll_agent.rules.model import Rules
from tests.unit.enforcing import KNOWN, settings
from tests.unit.node import DEFAULT, Node, a_volume, codes, guest, kinds, own_disk, uuid_of
from tests.unit.values import NOON

HELD = Limits(total_iops_sec=90)
DAY = timedelta(days=1)
VOLUME = a_volume(0).volume_id or ""
PAUSE = RegionPause(NOON, NOON + DAY, "root (ann)", "Ceph moves")


def a_hold(disk: str, limits: Limits | None = HELD, until: timedelta = DAY) -> RegionHold:
    return RegionHold(disk, limits, NOON, NOON + until, "root (ann)", "import")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Two guests, each with a disk of its own and a volume, which have the default."""
    node = Node(tmp_path, *(guest(n, own_disk(n), a_volume(n)) for n in range(2)))
    node.run()
    assert [disk.actual for disk in node.disks()] == [DEFAULT] * 4
    return node


def actual(node: Node) -> list[Limits]:
    return [disk.actual for disk in node.disks()]


def test_while_the_region_is_paused_nothing_is_written_and_its_end_is_by_the_nodes_clock(node: Node) -> None:
    node.orders = Orders(pause=PAUSE, holds=(a_hold(VOLUME),))
    report = node.run()
    assert actual(node) == [DEFAULT] * 4
    assert Code.PAUSED in codes(report)
    assert report.paused == PAUSE.reason
    node.now = NOON + DAY
    node.orders = replace(node.orders, holds=(a_hold(VOLUME, until=2 * DAY),))
    assert node.run().paused is None
    assert actual(node) == [DEFAULT, HELD, DEFAULT, DEFAULT]


def test_a_pause_that_the_file_no_longer_has_is_over(node: Node) -> None:
    node.orders = Orders(pause=replace(PAUSE, until=None))
    assert node.run().paused is not None
    node.orders = Orders()
    assert node.run().paused is None


def test_a_hold_of_the_region_holds_its_disk_and_no_other_and_ends_with_the_file(node: Node) -> None:
    node.orders = Orders(holds=(a_hold(f"{uuid_of(1)}/vms/{uuid_of(1)}_disk"),))
    report = node.run()
    assert actual(node) == [DEFAULT, DEFAULT, HELD, DEFAULT]
    assert kinds(report).count("changed") == 1
    assert report.braked is None
    assert node.state.load_memory().holds == {}, "it is the region's"
    node.orders = Orders()
    node.run()
    assert actual(node) == [DEFAULT] * 4


def test_a_hold_of_the_region_ends_at_its_end_though_the_nodes_file_is_old(node: Node) -> None:
    node.orders = Orders(holds=(a_hold(VOLUME),))
    node.run()
    assert actual(node)[1] == HELD
    node.now = NOON + DAY
    node.run()
    assert actual(node) == [DEFAULT] * 4


def test_a_hold_without_limits_leaves_the_disk_as_it_is(node: Node) -> None:
    node.orders = Orders(holds=(a_hold(VOLUME, None),))
    node.rules = replace(node.rules, default=Limits(total_iops_sec=200))
    node.run()
    assert actual(node)[1] == DEFAULT
    assert actual(node)[0] == Limits(total_iops_sec=200)


def test_a_hold_of_the_node_itself_comes_first(node: Node) -> None:
    mine = Limits(total_iops_sec=33)
    node.hold(0, "vdb", mine)
    node.orders = Orders(holds=(a_hold(VOLUME),))
    node.run()
    assert actual(node)[1] == mine
    node.now += timedelta(hours=2)
    node.run()
    assert actual(node)[1] == HELD


def test_a_plan_shows_both(node: Node) -> None:
    node.orders = Orders(pause=PAUSE, holds=(a_hold(VOLUME),))
    assert codes(node.run(Mode.PLAN)).count(Code.PAUSED) == 1


# --- where it comes from

STANDING = replace(KNOWN, orders=Orders(pause=replace(PAUSE, until=None)))


def a_place(directory: Path, **catalogue: object) -> Settings:
    """The settings of a node that goes by the region's file."""
    chosen = settings(directory, **{"source": "region-file"} | catalogue)
    whole = config.load([], [])
    return replace(whole, catalogue=chosen, state_dir=directory, pause_file=directory / "paused")


def test_what_was_decided_outlasts_a_catalogue_that_counts_no_more(tmp_path: Path) -> None:
    save(tmp_path, STANDING)
    assert pause_actual(a_place(tmp_path, keep_for=60), NOON + 1000 * DAY) == STANDING.orders.paused(NOON)
    save(tmp_path, replace(KNOWN, orders=Orders(pause=PAUSE)))
    assert pause_actual(a_place(tmp_path, keep_for=60), NOON + 1000 * DAY) is None


def test_only_the_regions_file_decides_for_the_region(tmp_path: Path) -> None:
    save(tmp_path, STANDING)
    assert pause_actual(a_place(tmp_path, source="openstack"), NOON) is None
    assert pause_actual(a_place(tmp_path, source="none"), NOON) is None


def test_before_the_first_file_nothing_is_decided_and_with_one_that_cannot_be_read_nothing_is_written(
    tmp_path: Path,
) -> None:
    assert pause_actual(a_place(tmp_path), NOON) is None
    (tmp_path / NAME).write_text("{")
    reason = pause_actual(a_place(tmp_path), NOON)
    assert reason is not None
    assert "so the region may be paused" in words(reason)
    assert pause_actual(a_place(tmp_path, source="openstack"), NOON) is None


def test_the_nodes_own_pause_is_told_first(tmp_path: Path) -> None:
    save(tmp_path, STANDING)
    chosen = a_place(tmp_path)
    chosen.pause_file.write_text("racks move\n")
    reason = pause_actual(chosen, NOON)
    assert reason is not None
    assert "racks move" in words(reason)
    chosen.pause_file.unlink()
    context = pass_context(chosen, read_only=True)
    assert context.situation.orders == STANDING.orders
    assert context.caution.paused() == STANDING.orders.paused(NOON)


def test_bounds_that_the_region_approved_of_raise_those_of_the_nodes_brake_until_their_end(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    approval = RegionApproval(Of.BOUNDS, "", now, now + DAY, "ann", "move", disks=40)
    for until, disks in ((now + DAY, 40), (now - DAY, 5)):
        save(tmp_path, replace(KNOWN, orders=Orders((replace(approval, until=until),))))
        brake = pass_context(a_place(tmp_path), read_only=True).caution.brake
        assert (brake.disks, brake.percent) == (disks, 20)
    assert pass_context(a_place(tmp_path), Asked(sure=True), read_only=True).caution.sure


# --- rules that the region approved of

SLIP = Limits(total_iops_sec=20)


def approved_rules(digest: str, *remove: str, until: timedelta = DAY) -> Orders:
    return Orders((RegionApproval(Of.RULES, digest, NOON, NOON + until, "ann", "meant", frozenset(remove)),))


@pytest.mark.parametrize("of", ["rules", "revision"])
def test_rules_that_the_region_approved_of_pass_the_brake_of_every_node_that_has_them(node: Node, of: str) -> None:
    node.rules = Rules(default=SLIP, revision="b" * 64)
    assert node.run().braked is not None
    digest = revision_of(Situation(node.now, node.rules)) if of == "revision" else node.rules.revision
    for other in (approved_rules("c" * 64), approved_rules(digest, until=timedelta()), Orders()):
        node.orders = other
        assert node.run().braked is not None
    assert actual(node) == [DEFAULT] * 4
    node.orders = approved_rules(digest)
    assert node.run().braked is None
    assert actual(node) == [SLIP] * 4


def test_rules_that_the_region_approved_of_remove_no_limits_of_disks_without_a_type_that_it_names(node: Node) -> None:
    node.rules = Rules(default=Limits(), revision="b" * 64)
    node.orders = approved_rules("b" * 64, "id-of-gold")
    assert node.run().braked is not None
    assert actual(node) == [DEFAULT] * 4
