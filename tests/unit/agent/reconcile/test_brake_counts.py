"""What the brake counts besides cuts and removals: limits that are added or too low, raises, and disks left alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval
from plimsoll_agent.model.approvals import digest_of_change
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import BrakeMemory
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.model.usage import Used
from plimsoll_agent.policy.decide import Decision, Desired
from plimsoll_agent.reconcile.brake import Brake, LargeChange, braked, large_changes
from plimsoll_agent.reconcile.outcome import Counted, Earlier, Edit, Kind, Mode, PassReport, Scope
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeDisk
from tests.unit import told
from tests.unit.agent.reconcile.test_brake import (
    AAA,
    BBB,
    BRONZE,
    BRONZE_DISKS,
    BY_RULE,
    CCC,
    DESIRED,
    GOLD,
    a_fresh_node,
    a_node,
    actual,
    bronze,
    bronze_disks,
    of_bronze,
    rules,
    stopped,
)
from tests.unit.clouds import a_catalogue
from tests.unit.node import Node, a_volume, codes, guest, kinds, set_by_hand, uuid_of
from tests.unit.outcomes import planned
from tests.unit.values import NOON, a_disk, a_situation

MIB = 2**20
LOST_UNIT = replace(BRONZE, total_bytes_sec=100)
WITH_BYTES = replace(BRONZE, total_bytes_sec=100 * MIB)


def hows(report: PassReport) -> dict[str, int]:
    stop = report.braked
    words = ("removed", "lowered", "low", "added", "raised", "managed", "unmanaged")
    return {} if stop is None else {word: number for word in words if (number := getattr(stop, word))}


def key_of(node: Node, number: int) -> str:
    return node.seen(number, "vda").key


# --- limits lower than any that is meant


def test_a_limit_whose_unit_was_lost_stops_a_single_disk_until_it_is_approved(tmp_path: Path) -> None:
    node = a_node(tmp_path, 1, 3)
    node.rules = rules(LOST_UNIT, of=BBB)
    report = node.run()
    key, digest = key_of(node, 0), digest_of_change(key_of(node, 0), LOST_UNIT)
    why = because(Code.LARGE_CHANGE, digest=digest, percent=100.0, below={"bytes": MIB})
    assert report.braked is not None
    assert (report.braked.alone, hows(report), bronze(node)) == ({key: why}, {"low": 1}, {BRONZE})
    node.approve(digest[:16])
    assert stopped(node.run()) is None
    assert bronze(node) == {LOST_UNIT}


def test_a_plan_says_which_bound_a_limit_is_below(tmp_path: Path) -> None:
    node = a_node(tmp_path, 1, 3)
    node.rules = rules(LOST_UNIT, of=BBB)
    digest = digest_of_change(key_of(node, 0), LOST_UNIT)
    head, edit, disk, *_ = told.planned(node.run(Mode.PLAN))
    assert head == "BRAKE  1 of 3 disks deferred: 1 below the lowest limit"
    assert edit == '       rule "bronze": unlimited → 100 B/s (1 disk)'
    assert disk.endswith(f'rule "bronze"; limit below 1 MiB/s; alone: plimsoll approve {digest:.16} --reason TEXT')


@pytest.mark.parametrize(
    ("lowest", "alone"), [({}, True), ({"lowest_bytes": 101}, True), ({"lowest_bytes": 100}, False)]
)
def test_the_lowest_limits_are_settings(lowest: dict[str, int], alone: bool) -> None:
    disk = a_disk(actual=GOLD)
    outcome = planned(disk, replace(GOLD, total_bytes_sec=100), BY_RULE)
    (large,) = large_changes([outcome], a_situation(memory={disk.key: DESIRED}), Brake(**lowest))  # type: ignore[arg-type]
    assert (large.alone is not None) is alone


def test_a_first_limit_that_is_too_low_stops_each_disk_of_a_new_node(tmp_path: Path) -> None:
    node = a_fresh_node(tmp_path, 2, 5, rules(Limits(total_iops_sec=9)))
    report = node.run()
    assert (stopped(report), hows(report)) == ((2, 5), {"low": 2})
    assert (bronze(node), actual(node, "gold")) == ({Limits()}, {GOLD})


def test_a_cut_below_the_lowest_limit_counts_alone_though_it_is_none_to_a_tenth(tmp_path: Path) -> None:
    start = rules(Limits(total_iops_sec=40))
    node = a_node(tmp_path, 1, 3, start)
    node.rules = rules(Limits(total_iops_sec=9), of=BBB)
    report = node.run()
    assert report.braked is not None
    (why,) = report.braked.alone.values()
    assert (hows(report), why.facts["percent"], why.facts["below"]) == ({"lowered": 1}, 22.5, {"iops": 10})


@pytest.mark.parametrize("after", [9, 10])
def test_a_low_limit_that_stays_or_is_raised_is_no_edit(tmp_path: Path, after: int) -> None:
    """A rule from before an upgrade, or few GiB by a spec per GiB; also for disks that come later."""
    node = a_node(tmp_path, 1, 3, rules(Limits(total_iops_sec=9)))
    node.approve(AAA)
    node.run()
    assert bronze(node) == {Limits(total_iops_sec=9)}
    node.rules = rules(Limits(total_iops_sec=after), of=BBB)
    assert stopped(node.run()) is None
    node.hypervisor.by_uuid[uuid_of(7)] = guest(7, a_volume(7, pool="bronze"))
    node.run()
    assert bronze(node) == {Limits(total_iops_sec=after)}


def test_a_retype_to_a_low_limit_is_no_edit(tmp_path: Path) -> None:
    node = a_node(tmp_path, 1, 20, rules(Limits(total_iops_sec=9)))
    node.approve(AAA)
    node.run()
    node.disk(5).pool = "bronze"
    assert stopped(node.run()) is None


def test_retypes_to_a_limit_that_is_somewhat_lower_and_too_low_are_no_edit(tmp_path: Path) -> None:
    start = Rules(rules=(of_bronze(9),), default=Limits(total_iops_sec=15), revision=AAA)
    node = a_fresh_node(tmp_path, 0, 20, start)
    node.run()
    for number in range(10):
        node.disk(number).pool = "bronze"
    assert stopped(node.run()) is None


# --- limits that are added


def test_an_added_limit_counts_as_a_cut_does_where_use_is_unknown(tmp_path: Path) -> None:
    for number in (5, 6):
        directory = tmp_path / str(number)
        directory.mkdir()
        node = a_node(directory, number, 20)
        node.rules = rules(WITH_BYTES, of=BBB)
        report = node.run()
        assert hows(report) == ({"added": 6} if number == 6 else {})
        if report.braked is not None:
            assert report.braked.alone == {}
            assert report.braked.edits == (
                Edit(source="bronze", parameter="total_bytes_sec", before=0, after=100 * MIB, disks=6, origin="rule"),
            )


@pytest.mark.parametrize(("used", "counted"), [(100 * MIB, 0), (100 * MIB + 1, 6)])
def test_an_added_limit_counts_where_a_disk_used_more(tmp_path: Path, used: float, counted: int) -> None:
    node = a_node(tmp_path, 6, 20)
    node.used = {key_of(node, number): Used(9999, used) for number in range(6)}
    node.rules = rules(WITH_BYTES, of=BBB)
    report = node.run()
    assert hows(report) == ({"added": counted} if counted else {})
    assert bronze(node) == {BRONZE if counted else WITH_BYTES}


@pytest.mark.parametrize(("others", "counted"), [("gold", 6), ("bronze", 5), ("idle", 0)])
def test_a_disk_whose_use_is_unknown_counts_by_the_use_of_its_class(
    tmp_path: Path, others: str, counted: int
) -> None:
    """One disk of the class used more than the limit."""
    node = a_node(tmp_path, 6, 8)
    number = {"gold": 7, "bronze": 0, "idle": 0}[others]
    node.used = {key_of(node, number): Used(0, 0 if others == "idle" else 200 * MIB)}
    if others == "bronze":
        node.used[key_of(node, 1)] = Used(0, 0)
    node.rules = rules(WITH_BYTES, of=BBB)
    report = node.run()
    if others == "gold":  # nothing is known of the class
        assert hows(report) == {"added": counted}
    else:  # bronze: all but the one whose own use is known
        assert stopped(report) is None
        assert len(node.state.load_memory().brake.recent) == counted  # type: ignore[union-attr]


def test_first_rules_of_a_node_ask_only_where_they_are_below_what_disks_used(tmp_path: Path) -> None:
    for used in (None, 100, 6000):
        directory = tmp_path / str(used)
        directory.mkdir()
        node = a_fresh_node(directory, 0, 20, Rules(revision=AAA))
        assert codes(node.run()) == [Code.NO_LIMIT] * 20
        if used is not None:
            node.used = {key_of(node, number): Used(used, 0) for number in range(20)}
        node.rules = rules(of=BBB)
        assert hows(node.run()) == ({"added": 20} if used == 6000 else {})


def test_of_two_added_limits_one_below_what_a_disk_used_is_enough(tmp_path: Path) -> None:
    node = a_node(tmp_path, 1, 20, Rules(rules=(of_bronze(3000),), revision=AAA))
    node.used = {key_of(node, number): Used(1, 200 * MIB) for number in range(20)}
    node.rules = replace(node.rules, default=replace(GOLD, total_bytes_sec=100 * MIB), revision=BBB)
    assert hows(node.run()) == {"added": 19}


def test_first_limits_that_are_shared_are_no_raise(tmp_path: Path) -> None:
    node = a_node(tmp_path, 1, 20, Rules(rules=(of_bronze(3000),), revision=AAA))
    node.used = {key_of(node, number): Used(1, 0) for number in range(20)}
    node.rules = replace(node.rules, default=replace(GOLD, group_name="all"), revision=BBB)
    assert stopped(node.run()) is None


def test_first_limits_of_others_count_once_plimsoll_has_limited_a_disk(tmp_path: Path) -> None:
    start = Rules(rules=(of_bronze(3000),), revision=AAA)
    node = a_node(tmp_path, 1, 20, start)
    node.rules = replace(start, default=GOLD, revision=BBB)
    report = node.run()
    assert (stopped(report), hows(report)) == ((19, 20), {"added": 19})


def test_disks_that_came_with_an_edit_are_new(tmp_path: Path) -> None:
    """A drained host's guests, just when rules are edited."""
    node = a_node(tmp_path, 2, 4)
    for number in range(100, 130):
        node.hypervisor.by_uuid[uuid_of(number)] = guest(number, a_volume(number, pool="bronze"))
    node.rules = rules(Limits(total_iops_sec=2900), of=BBB)
    assert stopped(node.run()) is None
    assert bronze(node) == {Limits(total_iops_sec=2900)}


def test_a_disk_that_has_the_added_limit_already_does_not_count(tmp_path: Path) -> None:
    node = a_node(tmp_path, 6, 20)
    for disk in bronze_disks(node):
        set_by_hand(disk, WITH_BYTES)
    node.rules = rules(WITH_BYTES, of=BBB)
    assert stopped(node.run()) is None


def test_a_retype_that_adds_a_limit_is_no_edit(tmp_path: Path) -> None:
    node = a_node(tmp_path, 0, 20, Rules(rules=(of_bronze(3000),), default=replace(GOLD, total_iops_sec=3000)))
    start = Rules(rules=(Rule(name="bronze", match=BRONZE_DISKS, limits=WITH_BYTES),), default=BRONZE, revision=BBB)
    node.rules = start
    node.run()
    for number in range(10):
        node.disk(number).pool = "bronze"
    assert stopped(node.run()) is None


# --- raises


@pytest.mark.parametrize(
    ("after", "times"),
    [
        (Limits(total_iops_sec=29999), False),
        (Limits(total_iops_sec=30000), 10.0),
        (Limits(total_bytes_sec=100 * MIB), 68.27),  # 204800 requests of 512 bytes
        (Limits(read_iops_sec=3000), None),
    ],
)
def test_a_tenfold_raise_stops_a_single_disk_and_a_retype_does_not(
    tmp_path: Path, after: Limits, times: float | None
) -> None:
    node = a_node(tmp_path, 1, 3)
    node.rules = rules(after, of=BBB)
    report = node.run()
    assert bronze(node) == {after if times is False else BRONZE}
    if times is not False:
        assert report.braked is not None
        (why,) = report.braked.alone.values()
        facts = {"digest": digest_of_change(key_of(node, 0), after), "percent": 100.0, "times": times}
        assert (why, node.run().braked) == (because(Code.LARGE_CHANGE, **facts), report.braked)
        node.approve(BBB)
        node.run()
        assert bronze(node) == {after}
    node.disk(1).pool = "bronze"
    assert stopped(node.run()) is None


def test_of_a_raise_now_and_a_cut_to_come_the_one_that_stops_a_disk_alone_counts() -> None:
    disk, now, then = a_disk(actual=GOLD), Limits(total_iops_sec=50000), Limits(total_iops_sec=2000)
    decision = Decision(
        desired=Desired(now, BY_RULE), trail=(), ahead=((NOON + timedelta(hours=1), Desired(then, BY_RULE)),)
    )
    situation = a_situation(memory={disk.key: replace(DESIRED, later=())})
    (large,) = large_changes([planned(disk, now, BY_RULE, decision=decision)], situation, Brake())
    assert (large.after, large.alone is not None) == (now, True)


@pytest.mark.parametrize(("iops", "counts"), [(4500, False), (4501, True)])
def test_a_raise_by_half_is_not_counted(tmp_path: Path, iops: int, counts: bool) -> None:
    node = a_node(tmp_path, 6, 20)
    node.rules = rules(Limits(total_iops_sec=iops), of=BBB)
    assert hows(node.run()) == ({"raised": 6} if counts else {})


def test_edits_of_an_hour_that_count_too_are_named_with_their_times(tmp_path: Path) -> None:
    node = a_node(tmp_path, 8, 8)
    names = [f"instance-0000000{number}" for number in range(8)]
    for edit, revision in enumerate((BBB, CCC, "d" * 64)):
        of = Match(guest=tuple(names[: 2 * edit + 2]))
        cut = Rule(name="slow", match=of, limits=Limits(total_iops_sec=1000), override=True)
        node.rules = Rules(rules=(cut, *rules().rules), default=GOLD, revision=revision)
        report = node.run()
    stop = report.braked
    assert stop is not None
    times = [NOON + timedelta(minutes=minutes) for minutes in (10, 15)]
    assert stop.earlier == tuple(Earlier(at, 2, "slow") for at in times)
    assert len(stop.keys) == 2
    assert "       of the last hour count too: 2 disks at 2026-11-20 12:10 UTC (slow)," in told.enforced(report)[2]


@pytest.mark.parametrize("mode", [Mode.PLAN, Mode.ENFORCE])
def test_a_report_has_how_many_disks_count_also_where_none_is_stopped(tmp_path: Path, mode: Mode) -> None:
    node = a_node(tmp_path, 5, 20)
    node.rules = rules(Limits(total_iops_sec=1000), of=BBB)
    report = node.run(mode, scope=Scope(frozenset({uuid_of(0)})))
    assert (report.large, report.considered, stopped(report)) == (5, 20, None), "those of the whole node"
    assert node.run(Mode.PLAN).large == (5 if mode is Mode.PLAN else 4)


def test_earlier_changes_are_grouped_by_time_and_source_without_disks_that_count_again() -> None:
    early, late = NOON - timedelta(minutes=30), NOON - timedelta(minutes=5)
    of_rule, of_type = (
        replace(DESIRED, by_rules=("slow", "cap")),
        replace(DESIRED, by_type="gold", by_rules=("slow",)),
    )
    memory = {"a": of_rule, "b": of_rule, "c": of_type, "d": replace(DESIRED, source=Code.NODE_DEFAULT), "e": DESIRED}
    recent = dict.fromkeys("abc", late) | dict.fromkeys("def", early) | {"g": late}
    situation = replace(a_situation(memory=memory), brake=BrakeMemory(recent=recent))
    again = LargeChange(key="a", before=GOLD, after=BRONZE, how=Counted.LOWERED, left=0.4, alone=None, reason=BY_RULE)
    stop = braked([again], situation, Brake(), disks=7, whole=True)
    assert stop is not None
    assert stop.earlier == (
        Earlier(early, 2, None),
        Earlier(early, 1, "node-default"),
        Earlier(late, 1, None),
        Earlier(late, 1, "gold"),
        Earlier(late, 1, "slow"),
    )


# --- disks that a rule leaves alone


def left_alone(match: Match, of: str) -> Rules:
    return Rules(rules=(Rule(name="benchmarks", match=match, manage=False),), default=GOLD, revision=of)


MISSPELLED = Match(pool=("bronzo",))


def a_node_left_alone(directory: Path, number: int = 6) -> Node:
    """So many of 20 disks are unlimited, and a rule leaves them alone."""
    return a_node(directory, number, 20, left_alone(BRONZE_DISKS, AAA))


def test_disks_that_a_rule_no_longer_leaves_alone_count(tmp_path: Path) -> None:
    node = a_node_left_alone(tmp_path)
    node.used = {key_of(node, number): Used(1, 1) for number in range(6)}  # far below their first limits
    node.rules = left_alone(MISSPELLED, BBB)
    report = node.run()
    assert (stopped(report), hows(report), bronze(node)) == ((6, 20), {"managed": 6}, {Limits()})
    node.rules = left_alone(BRONZE_DISKS, AAA)
    assert stopped(node.run()) is None


def test_a_rule_that_would_leave_many_disks_alone_counts(tmp_path: Path) -> None:
    node = a_node(tmp_path, 6, 20)
    node.rules = left_alone(BRONZE_DISKS, BBB)
    for _ in range(2):
        report = node.run()
        assert (stopped(report), hows(report)) == ((6, 20), {"unmanaged": 6})
        assert kinds(report) == ["deferred"] * 6 + ["in-sync"] * 14
    stop = report.braked
    assert stop is not None
    assert stop.edits == (
        Edit(source="benchmarks", parameter="manage", before=None, after="false", disks=6, origin="rule-unmanages"),
    )
    assert told.enforced(report)[:2] == [
        "BRAKE  6 of 20 disks deferred: 6 no longer managed",
        '       rule "benchmarks": manage: false (6 disks)',
    ]
    node.rules = rules(Limits(total_iops_sec=30), of=CCC)
    assert hows(node.run()) == {"lowered": 6}, "what was desired before is remembered"
    node.rules = left_alone(BRONZE_DISKS, BBB)
    node.approve(BBB)
    assert stopped(node.run()) is None
    node.rules = left_alone(BRONZE_DISKS, CCC)
    assert stopped(node.run()) is None, "they are left alone already"


def test_disks_that_come_under_a_rule_that_leaves_them_alone_are_no_edit(tmp_path: Path) -> None:
    node = a_node(tmp_path, 0, 20, left_alone(BRONZE_DISKS, AAA))
    for number in range(10):
        node.disk(number).pool = "bronze"
    report = node.run()
    assert (stopped(report), kinds(report)[:10]) == (None, ["left-alone"] * 10)


def test_a_rule_that_leaves_disks_alone_until_an_end_counts_where_other_limits_come_then(tmp_path: Path) -> None:
    node = a_node(tmp_path, 6, 20)
    alone = Rule(name="bench", match=BRONZE_DISKS, manage=False, until=NOON + timedelta(hours=3))
    node.rules = Rules(rules=(alone, of_bronze(2500)), default=GOLD, revision=BBB)
    report = node.run()
    assert (stopped(report), hows(report)) == ((6, 20), {"unmanaged": 6})


@pytest.mark.parametrize(("days", "stop"), [(29, None), (31, (6, 20)), (365, (6, 20))])
def test_a_rule_that_leaves_disks_alone_for_more_than_a_month_counts(
    tmp_path: Path, days: int, stop: tuple[int, int] | None
) -> None:
    """The year of ``until`` is mistyped: nothing would be limited on the node, without a question."""
    node = a_node(tmp_path, 6, 20)
    alone = Rule(name="bench", match=BRONZE_DISKS, manage=False, until=NOON + timedelta(days=days))
    node.rules = replace(node.rules, rules=(alone, *node.rules.rules), revision=BBB)
    assert stopped(node.run()) == stop


def test_the_region_approves_of_rules_that_leave_disks_alone_also_beside_a_catalogue(tmp_path: Path) -> None:
    override = Rule(name="bronze", match=BRONZE_DISKS, limits=BRONZE, override=True)
    node = a_fresh_node(tmp_path, 6, 6, Rules(rules=(override,), revision=AAA))
    node.catalogue = a_catalogue()
    node.run()
    node.rules = left_alone(BRONZE_DISKS, BBB)
    assert hows(node.run()) == {"unmanaged": 6}
    until = node.now + timedelta(days=1)
    node.orders = Orders(
        approvals=(RegionApproval(of=Of.RULES, digest=BBB, since=node.now, until=until, by="ann", why="meant"),)
    )
    assert stopped(node.run()) is None


def test_a_rule_that_leaves_few_disks_alone_asks_nothing(tmp_path: Path) -> None:
    node = a_node(tmp_path, 5, 20)
    node.rules = left_alone(BRONZE_DISKS, BBB)
    report = node.run()
    assert (stopped(report), kinds(report)[:5]) == (None, ["left-alone"] * 5)


@pytest.mark.parametrize(("hours", "taken_back"), [(23, True), (24, False)])
def test_a_mended_rule_takes_back_the_first_limits_that_its_mistake_brought(
    tmp_path: Path, hours: int, taken_back: bool
) -> None:
    node = a_node_left_alone(tmp_path, 5)
    node.rules = left_alone(MISSPELLED, BBB)
    node.run()
    assert bronze(node) == {GOLD}
    since = node.now
    node.now += timedelta(hours=hours, minutes=-5)
    node.rules = left_alone(BRONZE_DISKS, CCC)
    report = node.run()
    assert stopped(report) is None
    if taken_back:
        why = because(Code.TAKEN_BACK, rule="benchmarks", since=since.isoformat())
        assert [outcome.result.kind for outcome in report.outcomes[:5]] == [Kind.CHANGED] * 5
        assert [o.change.reason for o in report.outcomes[:5] if o.change is not None] == [why] * 5
    assert bronze(node) == {Limits() if taken_back else GOLD}
    for disk in bronze_disks(node):
        set_by_hand(disk, GOLD)
    report = node.run()
    assert (codes(report)[:5], bronze(node)) == ([Code.RULE_UNMANAGES] * 5, {GOLD}), "those of others are not"


def test_limits_are_taken_back_once_the_cluster_is_healthy(tmp_path: Path) -> None:
    node = a_node_left_alone(tmp_path, 5)
    node.rules = left_alone(MISSPELLED, BBB)
    node.run()
    node.rules = left_alone(BRONZE_DISKS, CCC)
    node.ceph.raised = ("SLOW_OPS",)
    for _ in range(2):
        assert codes(node.run())[:5] == [Code.CLUSTER_UNHEALTHY] * 5
    node.ceph.raised = ()
    node.run()
    assert bronze(node) == {Limits()}


def changed_since(disk: FakeDisk) -> None:
    set_by_hand(disk, Limits(total_iops_sec=70))


def test_limits_that_others_changed_since_and_those_from_before_the_rule_are_not_taken_back(tmp_path: Path) -> None:
    node = a_node(tmp_path, 2, 20)
    node.rules = left_alone(BRONZE_DISKS, BBB)
    node.run()
    assert bronze(node) == {BRONZE}, "plimsoll had limited them before"
    node.rules = left_alone(MISSPELLED, CCC)
    node.run()
    assert bronze(node) == {GOLD}
    node.rules = left_alone(BRONZE_DISKS, BBB)
    assert (codes(node.run())[:2], bronze(node)) == ([Code.RULE_UNMANAGES] * 2, {GOLD})


def test_limits_that_others_changed_since_are_not_taken_back(tmp_path: Path) -> None:
    node = a_node_left_alone(tmp_path, 1)
    node.rules = left_alone(MISSPELLED, BBB)
    node.run()
    changed_since(node.disk(0))
    node.rules = left_alone(BRONZE_DISKS, CCC)
    node.run()
    assert bronze(node) == {Limits(total_iops_sec=70)}


def test_limits_are_not_taken_back_by_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """How long ago they were set is unknown then."""
    node = a_node_left_alone(tmp_path, 5)
    node.rules = left_alone(MISSPELLED, BBB)
    node.run()
    node.now -= timedelta(minutes=6)  # each pass is 5 later than the one before
    node.rules = left_alone(BRONZE_DISKS, CCC)
    assert (codes(node.run())[:5], bronze(node)) == ([Code.RULE_UNMANAGES] * 5, {GOLD})


def test_limits_that_were_left_alone_for_a_while_are_not_taken_back_later(tmp_path: Path) -> None:
    """What a disk has when a rule leaves it alone is its tenant's from then on, also if that rule is edited again."""
    node = a_node_left_alone(tmp_path, 5)
    node.rules = left_alone(MISSPELLED, BBB)
    node.run()
    for disk in bronze_disks(node):
        set_by_hand(disk, BRONZE)
    node.rules = left_alone(BRONZE_DISKS, CCC)
    node.run()
    for disk in bronze_disks(node):
        set_by_hand(disk, GOLD)
    assert (codes(node.run())[:5], bronze(node)) == ([Code.RULE_UNMANAGES] * 5, {GOLD})


def test_a_disk_that_had_its_limit_already_is_limited_by_plimsoll_too(tmp_path: Path) -> None:
    """It wrote nothing, but has seen it in force: the node's first limits were before."""
    override = Rule(name="bronze", match=BRONZE_DISKS, limits=BRONZE, override=True)
    node = a_fresh_node(tmp_path, 1, 20, Rules(rules=(override,), revision=AAA))
    for disk in bronze_disks(node):
        set_by_hand(disk, BRONZE)
    node.run()
    assert node.hypervisor.writes == []
    node.rules = replace(node.rules, default=GOLD, revision=BBB)
    assert hows(node.run()) == {"added": 19}


@pytest.mark.parametrize(
    ("idle", "disk", "counted"),
    [
        (("fast", "a"), ("fast", "b"), False),
        (("fast", "a"), ("slow", "a"), True),
        (("fast", "a"), (None, "a"), True),
        ((None, "a"), (None, "a"), False),
        ((None, "a"), (None, "b"), True),
    ],
)
def test_disks_are_alike_by_their_volume_type_or_where_it_is_unknown_by_their_pool(
    idle: tuple[str | None, str], disk: tuple[str | None, str], counted: bool
) -> None:
    """A limit that is added counts unless the use of a disk of the class says that it is enough."""
    disks = [
        a_disk(actual=BRONZE, volume_id=f"{name}0b0de-c647-4620-be6b-d427f6cb59cf", volume_type=type, pool=pool)
        for name, (type, pool) in (("e725", idle), ("aaaa", disk))
    ]
    outcomes = [planned(each, WITH_BYTES, BY_RULE) for each in disks]
    remembered = replace(DESIRED, desired=BRONZE, enforced=True)
    situation = a_situation(memory={each.key: remembered for each in disks})
    situation = replace(situation, used=lambda: {disks[0].key: Used(0, 0)})
    found = large_changes(outcomes, situation, Brake())
    assert [(each.key, each.how) for each in found] == ([(disks[1].key, Counted.ADDED)] if counted else [])
