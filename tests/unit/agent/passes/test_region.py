"""What is decided for a whole region, in passes of its nodes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.adapters.ed25519 import unsealed
from plimsoll_agent.app.context import Asked, pass_context
from plimsoll_agent.app.fetched import RegionOrders, load_catalogue, region_orders
from plimsoll_agent.app.node import pause_actual
from plimsoll_agent.catalogue import signed_file
from plimsoll_agent.catalogue.model import NAME, orders_data, save
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionHold, RegionPause
from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.messages.sentences import note_words, words
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.reconcile.outcome import Mode
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store.state import State
from plimsoll_agent.util.decoding import as_json
from plimsoll_agent.util.frozen import replace
from tests.unit.enforcing import KNOWN, settings
from tests.unit.node import DEFAULT, Node, a_volume, codes, guest, kinds, own_disk, uuid_of
from tests.unit.regionfile import a_key, keep_region_file
from tests.unit.values import NOON

HELD = Limits(total_iops_sec=90)
DAY = timedelta(days=1)
VOLUME = a_volume(0).volume_id or ""
PAUSE = RegionPause(since=NOON, until=NOON + DAY, by="root (ann)", why="Ceph moves")


def a_hold(disk: str, limits: Limits | None = HELD, until: timedelta = DAY) -> RegionHold:
    return RegionHold(disk=disk, limits=limits, since=NOON, until=NOON + until, by="root (ann)", why="import")


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


# --- while it is unknown

UNKNOWN = because(Code.ORDERS_UNKNOWN, detail="region-file.json: is gone")
MORE, LESS = (Limits(total_iops_sec=number, total_bytes_sec=104857600) for number in (300, 200))


@pytest.mark.parametrize(
    ("limits", "written"), [(LESS, True), (MORE, False), (Limits(), False)], ids=["lower", "raise", "remove"]
)
def test_while_orders_are_unknown_limits_are_lowered_and_not_raised_or_removed(
    node: Node, limits: Limits, written: bool
) -> None:
    node.orders_unknown = UNKNOWN
    node.rules = Rules(default=limits)
    node.orders = Orders(pause=PAUSE)
    assert set(codes(node.run(Mode.PLAN, yes=True))) == {Code.PAUSED}, "the first reason is told"
    node.orders = Orders()
    report = node.run(yes=True)
    assert actual(node) == [limits if written else DEFAULT] * 4
    assert set(codes(report)) == ({Code.NODE_DEFAULT} if written else {Code.ORDERS_UNKNOWN})
    node.orders_unknown = None
    node.run(yes=True)
    assert actual(node) == [limits] * 4


def test_while_orders_are_unknown_a_disk_without_limits_gets_its_first_ones(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(0))
    node.orders_unknown = UNKNOWN
    node.run()
    assert actual(node) == [DEFAULT] * 2


def test_while_orders_are_unknown_no_group_is_written_where_one_of_its_disks_would_be_raised(tmp_path: Path) -> None:
    group = replace(LESS, group_name="all")
    node = Node(tmp_path, guest(0, a_volume(0, replace(group, total_iops_sec=100)), a_volume(1)))
    node.rules = Rules(rules=(Rule(name="all", match=Match(pool=("*",)), limits=group, override=True),))
    node.orders_unknown = UNKNOWN
    assert codes(node.run(yes=True)) == [Code.ORDERS_UNKNOWN] * 2, "to join the group would raise the other one"
    assert node.hypervisor.writes == []


# --- where it comes from: a file that the refresher keeps, and a key that root has put there

TRUSTED, OTHER = a_key(1), a_key(2)
LASTING = replace(PAUSE, until=None)
APPROVAL = RegionApproval(
    of=Of.BOUNDS, digest="", since=NOON, until=NOON + 9999 * DAY, by="ann", why="move", disks=40
)
GIVEN = Orders(approvals=(APPROVAL,), pause=LASTING, holds=(a_hold(VOLUME),))


def a_place(directory: Path, **catalogue: object) -> Settings:
    """The settings of a node that goes by the region's file."""
    chosen = settings(directory, **{"source": "region-file", "region_key": directory / "region.pub"} | catalogue)
    whole = config.load([], [])
    return replace(whole, catalogue=chosen, state_dir=directory, pause_file=directory / "paused")


def found(directory: Path, *, keep: bool = True) -> RegionOrders:
    return region_orders(a_place(directory).catalogue, State(directory), keep=keep)


def why(directory: Path) -> str:
    unknown = found(directory).unknown
    assert unknown is not None
    return words(unknown)


def test_orders_are_those_of_the_signed_file_whatever_the_catalogue_has_and_however_old_it_is(tmp_path: Path) -> None:
    keep_region_file(tmp_path, GIVEN)
    save(tmp_path, KNOWN)
    forged = json.loads((tmp_path / NAME).read_text()) | orders_data(
        Orders(approvals=(replace(APPROVAL, disks=10**6),))
    )
    (tmp_path / NAME).write_text(as_json(forged))
    assert found(tmp_path) == RegionOrders(orders=GIVEN, begun=NOON)
    assert pause_actual(a_place(tmp_path, keep_for=60), NOON + 1000 * DAY) == LASTING.reason
    context = pass_context(a_place(tmp_path), read_only=True)
    assert context.situation.orders == GIVEN
    assert context.caution.paused() == LASTING.reason
    assert (context.caution.brake.disks, context.caution.brake.percent) == (40, 20)


def test_only_the_regions_file_decides_for_the_region(tmp_path: Path) -> None:
    keep_region_file(tmp_path, GIVEN)
    for source in ("openstack", "none"):
        assert pause_actual(a_place(tmp_path, source=source), NOON) is None
        context = pass_context(a_place(tmp_path, source=source), read_only=True)
        assert (context.situation.orders, context.situation.orders_unknown) == (Orders(), None)


def damage(directory: Path, how: str) -> str:
    """Damages the file that the refresher keeps; returns what is said of it."""
    file = directory / signed_file.NAME
    match how:
        case "gone":
            file.unlink()
            return "does not exist yet"
        case "empty":
            file.write_bytes(b"")
        case "edited":
            file.write_bytes(file.read_bytes().replace(b'"disks": 40', b'"disks": 99'))
        case "unsealed":
            file.write_bytes(unsealed(file.read_bytes())[0])
        case "another's":
            keep_region_file(
                directory, Orders(approvals=(replace(APPROVAL, disks=10**6),)), 9, key=OTHER, trusted=TRUSTED
            )
        case "a link":
            file.rename(directory / "elsewhere")
            file.symlink_to(directory / "elsewhere")
            return "is a link"
        case "older":
            keep_region_file(directory, Orders(), 4)
            return "is older (generation 4) than the last one (5)"
        case "of the same generation":
            keep_region_file(directory, Orders(), 5)
            return "but other content"
        case _:
            (directory / "region.pub").unlink()
            return "region.pub: cannot be read"
    return "the signature is not that of"


@pytest.mark.parametrize(
    "how",
    [
        "gone",
        "empty",
        "edited",
        "unsealed",
        "another's",
        "a link",
        "older",
        "of the same generation",
        "without a key",
    ],
)
def test_a_file_that_is_not_believed_leaves_the_pause_and_the_holds_that_were_known_and_no_approval(
    tmp_path: Path, how: str
) -> None:
    keep_region_file(tmp_path, GIVEN, 5)
    assert found(tmp_path).unknown is None
    said = damage(tmp_path, how)
    assert said in why(tmp_path)
    assert found(tmp_path).orders == replace(GIVEN, approvals=())
    assert pass_context(a_place(tmp_path), read_only=True).situation.orders_unknown == found(tmp_path).unknown
    assert pause_actual(a_place(tmp_path), NOON) == LASTING.reason
    # And the next good file is believed at once.
    keep_region_file(tmp_path, Orders(), 6)
    assert found(tmp_path) == RegionOrders(orders=Orders(), begun=NOON)
    assert pause_actual(a_place(tmp_path), NOON) is None


def test_before_the_first_file_orders_are_unknown_and_an_unsigned_pause_is_none(tmp_path: Path) -> None:
    """Catalogues of version 2 have one, and the refresher's user can write such a file."""
    assert found(tmp_path).orders == Orders()
    assert "does not exist yet; run plimsoll catalogue refresh" in why(tmp_path)
    data = Path(__file__).parents[2] / "data"
    (tmp_path / NAME).write_bytes((data / "catalogue_6c1ac21.json").read_bytes())
    assert load_catalogue(a_place(tmp_path).catalogue) is not None
    assert pause_actual(a_place(tmp_path), NOON) is None


def test_before_the_first_file_a_damaged_catalogue_leaves_orders_unknown(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{")
    assert found(tmp_path).orders == Orders()
    assert "does not exist yet" in why(tmp_path)


def test_a_key_may_be_a_link_as_where_a_mount_brings_it(tmp_path: Path) -> None:
    keep_region_file(tmp_path, GIVEN)
    (tmp_path / "region.pub").rename(tmp_path / "mounted")
    (tmp_path / "region.pub").symlink_to(tmp_path / "mounted")
    assert found(tmp_path) == RegionOrders(orders=GIVEN, begun=NOON)


def test_a_new_key_may_begin_with_an_earlier_generation(tmp_path: Path) -> None:
    keep_region_file(tmp_path, GIVEN, 10**15)
    assert found(tmp_path).unknown is None
    keep_region_file(tmp_path, Orders(), 5, key=OTHER)
    assert found(tmp_path) == RegionOrders(orders=Orders(), begun=NOON)


def test_a_command_that_only_shows_remembers_nothing_and_a_state_that_is_lost_costs_nothing(tmp_path: Path) -> None:
    keep_region_file(tmp_path, GIVEN)
    state = State(tmp_path)
    assert found(tmp_path, keep=False).unknown is None
    assert not state.orders.exists()
    assert found(tmp_path).unknown is None
    kept = state.load_orders()
    assert kept is not None
    assert kept.orders == GIVEN
    state.orders.write_text("{")
    assert found(tmp_path).unknown is None
    assert state.load_orders() == kept


def test_orders_of_a_newer_plimsoll_stay_and_are_unknown(tmp_path: Path) -> None:
    """Written over, an earlier file whose orders were withdrawn would count after the next upgrade."""
    keep_region_file(tmp_path, GIVEN)
    newer = json.dumps({"version": 99})
    State(tmp_path).orders.write_text(newer)
    assert found(tmp_path).unknown is not None
    assert State(tmp_path).orders.read_text() == newer


def test_orders_that_are_withheld_are_told_by_their_own_age(tmp_path: Path) -> None:
    """The time in the catalogue is written by whoever writes the catalogue."""
    keep_region_file(tmp_path, begun=datetime.now(UTC) - DAY)
    save(tmp_path, replace(KNOWN, issued=datetime.now(UTC)))
    (note,) = pass_context(a_place(tmp_path), read_only=True).notes
    assert note.code is Code.CATALOGUE_STALE
    assert "the region's orders are from" in note_words(note)


def test_the_nodes_own_pause_is_told_first(tmp_path: Path) -> None:
    keep_region_file(tmp_path, GIVEN)
    chosen = a_place(tmp_path)
    chosen.pause_file.write_text("racks move\n")
    reason = pause_actual(chosen, NOON)
    assert reason is not None
    assert "racks move" in words(reason)


def test_bounds_that_the_region_approved_of_raise_those_of_the_nodes_brake_until_their_end(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    for generation, (until, disks) in enumerate(((now + DAY, 40), (now - DAY, 5)), start=1):
        keep_region_file(tmp_path, Orders(approvals=(replace(APPROVAL, until=until),)), generation)
        brake = pass_context(a_place(tmp_path), read_only=True).caution.brake
        assert (brake.disks, brake.percent) == (disks, 20)
    assert pass_context(a_place(tmp_path), Asked(sure=True), read_only=True).caution.sure


# --- rules that the region approved of

SLIP = Limits(total_iops_sec=20)


def approved_rules(digest: str, *remove: str, until: timedelta = DAY) -> Orders:
    return Orders(
        approvals=(
            RegionApproval(
                of=Of.RULES,
                digest=digest,
                since=NOON,
                until=NOON + until,
                by="ann",
                why="meant",
                remove=frozenset(remove),
            ),
        )
    )


@pytest.mark.parametrize("of", ["rules", "revision"])
def test_rules_that_the_region_approved_of_pass_the_brake_of_every_node_that_has_them(node: Node, of: str) -> None:
    node.rules = Rules(default=SLIP, revision="b" * 64)
    assert node.run().braked is not None
    digest = Situation(now=node.now, rules=node.rules).revision if of == "revision" else node.rules.revision
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
