"""The brake: a slip in one line reaches no node before a person has seen it, and nothing else is held up by it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from plimsoll_agent.approvals import digest_of_change
from plimsoll_agent.brake import Brake, Grave, braked, graves, revision
from plimsoll_agent.catalogue import Catalogue, VolumeType
from plimsoll_agent.changes import Change
from plimsoll_agent.clusters import Cluster, Clusters
from plimsoll_agent.decide import Answer, Decision, Remembered, Unmanaged, Wants
from plimsoll_agent.direction import Direction
from plimsoll_agent.errors import Rejected
from plimsoll_agent.ledger import Ledger
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Braked, Edit, Kind, Outcome, PassReport, Result, Scope
from plimsoll_agent.passes import Mode
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.regionorders import Of
from plimsoll_agent.rules import Match, Rule, Rules
from tests.fakes import FakeDisk, hangs
from tests.unit.clouds import a_catalogue, a_spec, a_type, orders_for
from tests.unit.node import FSID, Node, a_volume, changes, codes, guest, kinds, set_by_hand, uuid_of
from tests.unit.values import GUEST, NOON, a_disk, a_situation

AAA, BBB, CCC = "a" * 64, "b" * 64, "c" * 64
GOLD, BRONZE = Limits(total_iops_sec=5000), Limits(total_iops_sec=3000)
SLIP = Limits(total_iops_sec=30)
BRONZE_DISKS = Match(pool=("bronze",))


def rules(bronze: Limits = BRONZE, gold: Limits = GOLD, of: str = AAA) -> Rules:
    return Rules((Rule(name="bronze", match=BRONZE_DISKS, limits=bronze),), default=gold, edition=of)


def a_fresh_node(directory: Path, bronze: int, of: int, start: Rules | None = None) -> Node:
    """A node of so many disks, the first of which are bronze, before its first pass."""
    pools = ["bronze"] * bronze + ["gold"] * (of - bronze)
    return Node(
        directory, *(guest(n, a_volume(n, pool=pool)) for n, pool in enumerate(pools)), rules=start or rules()
    )


@cache
def _after_its_first_pass(directory: Path, bronze: int, of: int) -> Node:
    directory.mkdir()
    node = a_fresh_node(directory, bronze, of)
    node.run()
    return node


def a_node(directory: Path, bronze: int, of: int, start: Rules | None = None) -> Node:
    """The same after its first pass, which by the usual rules is made once for all tests."""
    node = a_fresh_node(directory, bronze, of, start)
    if start is not None:
        node.run()
        return node
    first = _after_its_first_pass(directory.parent / f"{bronze} of {of} are bronze", bronze, of)
    shutil.copytree(first.state.directory, directory, dirs_exist_ok=True)
    for disk, its_own in zip(first.disks(), node.disks(), strict=True):
        its_own.in_force, its_own.defined = disk.in_force, disk.defined
    node.hypervisor.writes.extend(first.hypervisor.writes)
    node.now = first.now
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
    node.rules = rules(SLIP, gently, of=BBB)
    report = node.run()
    assert (bronze(node), in_force(node, "gold")) == ({BRONZE}, {gently}), "what is not grave goes on"
    stop = report.braked
    assert stop is not None
    edits = (Edit("bronze", "total_iops_sec", 3000, 30, disks=30),)
    assert stop == Braked(BBB, None, stop.keys, of=100, released=0, loosened=0, cut=30, alone=stop.alone, edits=edits)
    assert codes(report).count(Code.BRAKED) == kinds(report).count("waits") == len(stop.keys) == 30
    waiting = next(outcome.result for outcome in report.outcomes if outcome.result.reason.code is Code.BRAKED)
    assert waiting.reason.facts == {"edition": BBB, "disks": 30, "of": 100}


def test_edits_are_named_by_where_an_operator_makes_them() -> None:
    reasons = {
        "gold-iops": because(Code.QOS_SPEC, spec="gold-iops", rule="a ceiling"),
        "night": because(Code.RULE, rule="night"),
        "m1.small": because(Code.FLAVOR, flavor="m1.small"),
        "default": because(Code.NODE_DEFAULT),
        "command line": because(Code.COMMAND_LINE),
        "wanted-before": because(Code.WANTED_BEFORE),
    }
    before, after = Limits(total_iops_sec=70), Limits(total_iops_sec=7, group_name="g")
    found = [Grave(name, before, after, Direction.TIGHTEN, True, reason) for name, reason in reasons.items()]
    stop = braked(found, a_situation(), Brake(), disks=len(found), whole=True)
    assert stop is not None
    assert stop.edits == tuple(
        edit
        for name in reasons
        for edit in (Edit(name, "total_iops_sec", 70, 7, disks=1), Edit(name, "group_name", None, "g", disks=1))
    )


def test_the_brake_holds_in_every_pass_until_a_person_has_spoken(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
    for _ in range(3):
        assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}
    assert SLIP not in {remembered.wanted for remembered in node.memory.values()}


def test_an_approval_lets_just_these_rules_through(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
    node.run()
    node.approve(BBB)
    assert stopped(node.run()) is None
    assert bronze(node) == {SLIP}

    node.rules = rules(Limits(total_iops_sec=3), of=CCC)
    assert stopped(node.run()) == (30, 100), "other rules need another approval"
    assert bronze(node) == {SLIP}


def test_an_approval_is_used_up_by_the_pass_that_goes_through_with_it(tmp_path: Path) -> None:
    """The same rules may want something else under other circumstances, which nobody has seen."""
    here = Rule(name="here", match=Match(cluster=(FSID,)), limits=GOLD)
    node = a_node(tmp_path, 0, 20, start=Rules((here,), default=SLIP, edition=AAA))
    node.approve(AAA)
    assert kinds(node.run()) == ["right"] * 20
    node.ceph.known = Clusters((Cluster(Path("ceph.conf"), GUEST, frozenset({"127.0.0.1"})),))
    assert stopped(node.run()) == (20, 20)
    assert in_force(node, "gold") == {GOLD}


@pytest.mark.parametrize(
    "other",
    [
        lambda node: node.run(Mode.PLAN),
        lambda node: node.run(Mode.OBSERVE),
        lambda node: node.run(scope=Scope(frozenset({uuid_of(99)}))),
        lambda node: node.run(yes=True),
    ],
    ids=["plan", "observe", "partial", "yes"],
)
def test_an_approval_outlives_a_pass_that_is_not_the_one_it_was_given_for(
    node: Node, other: Callable[[Node], object]
) -> None:
    node.rules = rules(SLIP, of=BBB)
    node.run()
    node.approve(BBB)
    other(node)
    assert node.state.load_approvals()
    node.run()
    assert bronze(node) == {SLIP}
    assert not node.state.load_approvals()


def test_an_approval_outlives_a_pass_that_was_interrupted(node: Node) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    node.rules = rules(SLIP, of=BBB)
    node.approve(BBB)
    node.hypervisor.before["set_limits"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        node.run()
    assert node.state.load_approvals()
    node.run()
    assert bronze(node) == {SLIP}


def test_an_approval_goes_with_the_rules_that_it_was_given_for(node: Node) -> None:
    """They were undone before a pass came; whoever makes the same slip again is to be asked again."""
    node.approve(BBB)
    node.run()
    assert not node.state.load_approvals()
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run()) == (30, 100)


def test_who_goes_back_to_the_rules_of_before_is_not_asked(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
    node.run()
    node.rules = rules()
    report = node.run()
    assert stopped(report) is None
    assert kinds(report) == ["right"] * 100


def test_a_person_who_says_yes_is_not_asked_again(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
    node.run(yes=True)
    assert bronze(node) == {SLIP}
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(1)])
    assert stopped(node.run()) is None, "what was said yes to is what is wanted now"


def test_limits_on_the_command_line_pass_the_same_brake(node: Node) -> None:
    node.rules = node.rules.with_command_line(SLIP)
    stop = node.run().braked
    assert stop is not None
    assert (len(stop.keys), stop.of, stop.edition) == (100, 100, revision(a_situation(node.rules)))
    assert bronze(node) == {BRONZE}
    node.approve(stop.edition)
    assert kinds(node.run()) == ["changed"] * 100

    node.rules = node.rules.with_command_line(Limits(total_iops_sec=3))
    assert stopped(node.run()) == (100, 100), "other limits need another approval"


def test_limits_on_the_command_line_for_some_guests_are_judged_by_these(node: Node) -> None:
    node.rules = node.rules.with_command_line(Limits(total_iops_sec=1000))  # a third, a fifth
    assert kinds(node.run(scope=Scope(frozenset({uuid_of(1), uuid_of(40)})))) == ["changed"] * 2


def test_rules_that_come_after_limits_by_hand_on_a_fresh_node_are_weighed_against_these(tmp_path: Path) -> None:
    """The day on which a node's limits come from rules is the day for slips in them."""
    node = a_node(tmp_path, 0, 20, start=Rules(edition=AAA).with_command_line(GOLD))
    assert in_force(node, "gold") == {GOLD}
    node.rules = Rules(default=Limits(total_iops_sec=2500), edition=BBB)
    assert kinds(node.run()) == ["changed"] * 20, "the half"
    node.rules = Rules(default=GOLD, edition=CCC).with_command_line(GOLD)
    node.run(yes=True)
    node.rules = Rules(default=SLIP, edition=CCC)
    assert stopped(node.run()) == (20, 20)


def test_the_rules_come_back_after_limits_by_hand_without_asking(node: Node) -> None:
    node.rules = rules().with_command_line(SLIP)
    node.run(yes=True)
    node.rules = rules()
    assert kinds(node.run()) == ["changed"] * 100
    assert bronze(node) == {BRONZE}


@pytest.mark.parametrize(
    ("bronze", "of", "stops"),
    [(5, 20, False), (6, 20, True), (20, 100, False), (21, 100, True), (2, 2, False)],
)
def test_up_to_5_disks_or_a_fifth_of_them_are_cut_to_less_than_half_without_asking(
    tmp_path: Path, bronze: int, of: int, stops: bool
) -> None:
    node = a_node(tmp_path, bronze, of)
    fifth = Limits(total_iops_sec=600)
    node.rules = rules(fifth, of=BBB)
    assert stopped(node.run()) == ((bronze, of) if stops else None)
    assert in_force(node, "bronze") == {BRONZE if stops else fifth}


@pytest.mark.parametrize(
    ("after", "percent"),
    [
        (Limits(total_iops_sec=301), 0),
        (Limits(total_iops_sec=300), 10),
        (Limits(total_iops_sec=3), 0.1),
        (Limits(), None),
    ],
)
def test_a_cut_to_a_tenth_or_a_removal_of_a_single_disk_needs_an_approval(
    tmp_path: Path, after: Limits, percent: float | None
) -> None:
    """A node of three disks has no number that is too many."""
    node = a_node(tmp_path, 1, 3)
    node.rules = rules(after, of=BBB)
    report = node.run()
    if percent == 0:
        assert (report.braked, bronze(node)) == (None, {after})
        return
    key = node.seen(0, "vda").key
    reason = because(Code.LARGE_CHANGE, digest=digest_of_change(key, after), percent=percent)
    assert report.outcomes[0].result == Result(Kind.WAITS, reason)
    assert report.braked is not None
    assert (report.braked.many, report.braked.alone) == (False, {key: reason})
    assert (bronze(node), {remembered.wanted for remembered in node.memory.values()}) == ({BRONZE}, {BRONZE, GOLD})


@pytest.mark.parametrize("of_revision", [True, False])
@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize("after", [SLIP, Limits()], ids=["cut", "removal"])
def test_an_approval_is_of_a_revision_or_of_one_disk_and_of_removals_only_where_it_says_so(
    tmp_path: Path, after: Limits, remove: bool, of_revision: bool
) -> None:
    node = a_node(tmp_path, 2, 4)
    node.rules = rules(after, of=BBB)
    one, other = (node.seen(number, "vda").key for number in range(2))
    assert stopped(node.run()) == (2, 4)
    node.approve((BBB if of_revision else digest_of_change(one, after))[:16], remove=remove)
    report = node.run()
    stays = {one, other} if after.unlimited and not remove else set() if of_revision else {other}
    assert (set() if report.braked is None else report.braked.keys) == stays
    assert [node.disk(number).in_force for number in range(2)] == [
        BRONZE if key in stays else after for key in (one, other)
    ]


def test_a_disk_that_is_retyped_or_extended_counts_for_the_number_only(tmp_path: Path) -> None:
    """Under the same rules it is no slip in a line; another pool stands for what a type or a size changes."""
    start = Rules((Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP),), default=GOLD, edition=AAA)
    node = a_node(tmp_path, 0, 20, start=start)

    def move(*numbers: int) -> None:
        for number in numbers:
            node.disk(number).pool = "bronze"

    move(0)
    assert stopped(node.run()) is None
    assert node.disk(0).in_force == SLIP, "to less than a hundredth"
    move(*range(1, 7))
    assert stopped(node.run()) == (6, 20), "so many at once"


def test_guest_by_guest_the_last_hour_counts_too(tmp_path: Path) -> None:
    start = Rules((Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP),), default=GOLD, edition=AAA)
    node = a_node(tmp_path, 0, 20, start=start)

    def moved(number: int) -> tuple[int, int] | None:
        node.disk(number).pool = "bronze"
        return stopped(node.run(scope=Scope(frozenset({uuid_of(number)}))))

    assert [moved(number) for number in range(5)] == [None] * 5
    assert moved(5) == (1, 20)
    node.now += timedelta(hours=1)
    assert moved(6) is None


def test_a_disk_that_is_new_under_rules_that_the_node_goes_by_is_not_asked_about(tmp_path: Path) -> None:
    """Nova attaches by the type, a rule for a noisy project holds it to a hundredth: that was asked about once."""
    node = a_node(tmp_path, 1, 3, start=rules(SLIP))
    assert node.state.load_memory().judged == AAA  # type: ignore[union-attr]
    attached = a_volume(200, BRONZE, pool="bronze")
    node.rules = replace(node.rules, rules=(replace(node.rules.rules[0], override=True),))
    node.hypervisor.by_uuid[uuid_of(200)] = guest(200, attached)
    assert stopped(node.run()) is None
    assert attached.in_force == SLIP


def test_a_disk_with_limits_that_is_met_under_new_rules_is_weighed_against_these(tmp_path: Path) -> None:
    override = Rules((Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP, override=True),), edition=AAA)
    node = Node(tmp_path, guest(1, a_volume(1, BRONZE, pool="bronze")), rules=override)
    for _ in range(2):
        assert stopped(node.run()) == (1, 1)
    assert bronze(node) == {BRONZE}


def test_a_disk_that_did_not_answer_before_anything_was_desired_is_weighed_when_it_does(tmp_path: Path) -> None:
    override = Rules((Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP, override=True),), edition=AAA)
    node = Node(tmp_path, guest(1, a_volume(1, BRONZE, pool="bronze")), rules=Rules(edition=CCC))
    node.run()
    node.rules = override
    node.hypervisor.by_uuid[uuid_of(1)].trouble = Rejected("busy")
    node.run()
    node.hypervisor.by_uuid[uuid_of(1)].trouble = None
    assert stopped(node.run()) == (1, 1)
    assert bronze(node) == {BRONZE}


@pytest.mark.parametrize(
    ("after", "released", "loosened", "cut"),
    [
        (Limits(), 30, 0, 0),
        (Limits(total_iops_sec=3001), 0, 30, 0),
        (Limits(total_iops_sec=3000, group_name="all"), 0, 30, 0),
        (Limits(total_iops_sec=1499), 0, 0, 30),
    ],
)
def test_what_is_released_loosened_or_cut_by_more_than_half_counts(
    node: Node, after: Limits, released: int, loosened: int, cut: int
) -> None:
    node.rules = rules(after, of=BBB)
    stop = node.run().braked
    assert stop is not None
    assert (stop.released, stop.loosened, stop.cut) == (released, loosened, cut)


@pytest.mark.parametrize(
    "after",
    [
        Limits(total_iops_sec=1500),
        # One more limit is a first one.
        Limits(total_iops_sec=3000, total_bytes_sec=10**9),
    ],
)
def test_a_cut_to_the_half_or_a_first_limit_is_none_that_counts(node: Node, after: Limits) -> None:
    node.rules = rules(after, of=BBB)
    assert stopped(node.run()) is None
    assert bronze(node) == {after}


def test_a_default_where_nothing_was_desired_is_a_first_limit(tmp_path: Path) -> None:
    node = a_node(tmp_path, 0, 20, start=Rules(edition=AAA))
    node.rules = Rules(default=SLIP, edition=BBB)
    assert kinds(node.run()) == ["changed"] * 20


@pytest.mark.parametrize("word", ["limits", "ceiling"])
def test_the_stated_end_of_a_rule_is_no_slip_unless_something_was_edited_with_it(tmp_path: Path, word: str) -> None:
    ends = NOON + timedelta(minutes=7)  # after the first pass
    sale = Rule(name="sale", match=Match(), until=ends, **{word: GOLD})  # type: ignore[arg-type]
    bound = Rule(name="all", match=Match(), limits=Limits(total_iops_sec=90000))
    start = Rules((sale, bound), edition=AAA)
    for edited in (True, False):
        directory = tmp_path / str(edited)
        directory.mkdir()
        node = a_node(directory, 0, 20, start=start)
        assert in_force(node, "gold") == {GOLD}
        if edited:
            node.rules = replace(start, rules=(sale, replace(bound, limits=SLIP)), edition=BBB)
        assert stopped(node.run()) == ((20, 20) if edited else None)


# --- what waits is guarded at what was wanted before


def reboot(node: Node) -> None:
    for each in node.hypervisor.by_uuid.values():
        node.hypervisor.restart(each)
    node.state = replace(node.state, boot="the next one")


def by_virsh(node: Node) -> None:
    for disk in bronze_disks(node):
        set_by_hand(disk, Limits())


def by_raw_qmp(node: Node) -> None:
    for disk in bronze_disks(node):
        disk.in_force = Limits()


def braked_node(directory: Path) -> Node:
    """30 bronze disks of 100 that wait for a person."""
    node = a_node(directory, 30, 100)
    node.rules = rules(SLIP, of=BBB)
    node.run()
    return node


@pytest.mark.parametrize("lift", [reboot, by_virsh, by_raw_qmp])
def test_what_waits_for_a_person_is_put_back_to_what_was_wanted_before(
    tmp_path: Path, lift: Callable[[Node], None]
) -> None:
    node = braked_node(tmp_path)
    lift(node)
    assert bronze(node) == {Limits()}
    planned, report = node.run(Mode.PLAN), node.run()
    assert bronze(node) == {BRONZE}
    assert stopped(planned) == stopped(report) == (30, 100), "the new wish waits all the same"
    assert codes(planned).count(Code.WANTED_BEFORE) == 30
    assert {c.after for c in changes(planned) if c.disk.pool == "bronze"} == {BRONZE}
    assert sum("wanted-before" in str(reason) for (reason,) in node.recorded("reason")) == 30
    assert {node.memory[node.seen(n, "vda").key].wanted for n in range(30)} == {BRONZE}

    writes = len(node.hypervisor.writes)
    report = node.run()
    assert (stopped(report), codes(report).count(Code.BRAKED)) == ((30, 100), 30)
    assert len(node.hypervisor.writes) == writes, "once"
    node.approve(BBB)
    assert stopped(node.run()) is None
    assert bronze(node) == {SLIP}


def test_an_unlimited_hold_that_ends_while_its_disk_is_braked_leaves_it_not_unlimited(tmp_path: Path) -> None:
    node = a_node(tmp_path, 30, 100)
    node.hold(0, "vda", Limits())
    node.run()
    assert node.disk(0).in_force == Limits()
    node.rules = rules(SLIP, of=BBB)
    node.run()
    node.now += timedelta(hours=2)
    assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}


def test_what_waits_is_guarded_and_never_loosened_nor_on_a_paused_node(tmp_path: Path) -> None:
    """What is tighter than it was may be what is wanted now: Nova hands out a new spec at every attach."""
    node = braked_node(tmp_path)
    tighter, lifted, *_ = bronze_disks(node)
    set_by_hand(tighter, Limits(total_iops_sec=9))
    set_by_hand(lifted, Limits())
    node.paused = lambda: because(Code.PAUSED, file="/etc/plimsoll/paused", why="")
    node.ceph.raised = ("OSD_DOWN",)
    report = node.run()
    assert (codes(report)[:3], stopped(report)) == ([Code.BRAKED, Code.PAUSED, Code.BRAKED], (30, 100))
    node.paused = lambda: None
    report = node.run()
    assert (codes(report)[:2], stopped(report)) == ([Code.BRAKED, Code.WANTED_BEFORE], (30, 100))
    assert (tighter.in_force, lifted.in_force) == (Limits(total_iops_sec=9), BRONZE)
    node.ceph.raised = ()
    node.run()
    assert bronze(node) == {BRONZE, Limits(total_iops_sec=9)}


def test_a_disk_that_does_not_answer_stays_not_known_while_it_is_braked(tmp_path: Path) -> None:
    node = braked_node(tmp_path)
    by_virsh(node)
    node.hypervisor.by_uuid[uuid_of(0)].trouble = Rejected("busy")
    report = node.run()
    assert (kinds(report)[:2], stopped(report)) == (["not-known", "changed"], (30, 100))
    assert node.disk(0).in_force == Limits(), "nobody knows what is there"
    node.hypervisor.by_uuid[uuid_of(0)].trouble = None
    node.run()
    assert bronze(node) == {BRONZE}


def test_what_was_wanted_before_is_left_to_somebody_elses_hand_after_the_rounds(tmp_path: Path) -> None:
    node = braked_node(tmp_path)
    one = node.disk(0)
    for _ in range(node.rounds):
        set_by_hand(one, GOLD)
        node.run()
        assert one.in_force == BRONZE
    set_by_hand(one, GOLD)
    assert codes(node.run())[0] is Code.ANOTHERS_HAND
    assert one.in_force == GOLD


def test_who_only_observes_puts_nothing_back(tmp_path: Path) -> None:
    node = braked_node(tmp_path)
    by_virsh(node)
    assert stopped(node.run(Mode.OBSERVE)) == (30, 100)
    assert bronze(node) == {Limits()}


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
    node.rules = rules(after, of=BBB)
    assert stopped(node.run()) == ((30, 100) if stops else None)
    assert bronze(node) == {BRONZE if stops else after}


def test_new_guests_are_never_held_up(tmp_path: Path) -> None:
    node = a_node(tmp_path, 0, 2)
    for number in range(10, 40):
        node.hypervisor.by_uuid[uuid_of(number)] = guest(number, a_volume(number, pool="bronze"))
    assert kinds(node.run()) == ["right"] * 2 + ["changed"] * 30


def test_new_guests_are_limited_while_others_are_braked(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
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
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run()) == (29, 100)
    node.now += timedelta(hours=2)
    assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}, "of that disk too: the hold is over"


def test_what_others_limited_does_not_count_however_their_limits_change(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n, GOLD)) for n in range(20)), rules=rules())
    node.run()
    node.rules = rules(SLIP, SLIP, of=BBB)
    report = node.run()
    assert stopped(report) is None
    assert codes(report) == [Code.FOREIGN_LIMIT] * 20


# --- disks that cannot be changed now


def test_disks_that_do_not_answer_count_and_are_braked_when_they_do(tmp_path: Path) -> None:
    node = a_node(tmp_path, 6, 20)
    for number in range(6):
        node.hypervisor.by_uuid[uuid_of(number)].trouble = Rejected("busy")
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run()) == (6, 20)
    for number in range(6):
        node.hypervisor.by_uuid[uuid_of(number)].trouble = None
    assert stopped(node.run()) == (6, 20), "nothing of it was taken for wanted meanwhile"
    assert bronze(node) == {BRONZE}


def test_one_that_hangs_takes_the_number_over_the_edge(tmp_path: Path) -> None:
    node = a_node(tmp_path, 6, 20)
    node.hypervisor.by_uuid[uuid_of(3)].trouble = hangs()
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run()) == (6, 20)
    assert bronze(node) == {BRONZE}


def test_a_pause_does_not_wear_the_brake_out(node: Node) -> None:
    node.paused = lambda: because(Code.PAUSED, file="/etc/plimsoll/paused", why="")
    node.rules = rules(SLIP, of=BBB)
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

    fifth = Limits(total_iops_sec=600)
    node.rules = rules(fifth, Limits(total_iops_sec=4000), of=BBB)
    killed(10)
    assert stopped(node.run()) == (30, 100)
    node.approve(BBB)
    killed(10)
    assert len([disk for disk in node.disks() if disk.in_force == fifth]) == 10
    node.state.approval.unlink()
    assert stopped(node.run()) is None, "the 20 that are left are few enough"
    assert bronze(node) == {fifth}


# --- observing, planning, looking at a part


def test_observing_records_what_is_wanted_so_that_enforcing_does_what_the_plan_said(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n, pool="bronze")) for n in range(20)), rules=rules())
    node.run(Mode.OBSERVE)
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(Mode.OBSERVE)) is None
    planned = [(change.disk.key, change.before, change.after) for change in changes(node.run(Mode.PLAN))]
    assert len(planned) == 20
    report = node.run()
    assert kinds(report) == ["changed"] * 20
    assert [(change.disk.key, change.before, change.after) for change in changes(report)] == planned


def test_observing_does_not_wear_the_brake_out_for_disks_that_were_limited_before(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(Mode.OBSERVE)) == (30, 100)
    assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}


@pytest.mark.parametrize("loses", [reboot, by_virsh, lambda node: node.state.memory.unlink()])
def test_observing_wears_the_brake_out_neither_after_a_reboot_nor_without_a_memory(
    node: Node, loses: Callable[[Node], None]
) -> None:
    node.rules = rules(SLIP, of=BBB)
    node.run(Mode.OBSERVE)
    loses(node)
    for _ in range(2):
        assert stopped(node.run(Mode.OBSERVE)) == (30, 100)
    assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}


def test_limits_that_were_right_already_when_plimsoll_came_are_guarded_by_the_brake(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n, pool="bronze")) for n in range(20)), rules=rules())
    for disk in node.disks():
        disk.in_force = BRONZE
    assert kinds(node.run()) == ["right"] * 20
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(Mode.OBSERVE)) == (20, 20)
    assert stopped(node.run()) == (20, 20)
    assert node.hypervisor.writes == []


def test_limits_of_a_pass_that_was_killed_are_guarded_by_the_brake(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n, pool="bronze")) for n in range(20)), rules=rules())
    node.run(Mode.OBSERVE)
    before = node.state.memory.read_bytes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Ledger, "conclude", lambda *_: None)
        node.run()
    node.state.memory.write_bytes(before)  # it came to tell neither the record nor the memory
    assert bronze(node) == {BRONZE}
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(Mode.OBSERVE)) == (20, 20)
    assert stopped(node.run()) == (20, 20)


def test_limits_that_were_only_observed_are_no_limits_of_the_guests(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n)) for n in range(20)), rules=Rules(default=GOLD, edition=AAA))
    node.run(Mode.OBSERVE)
    node.rules = Rules(default=SLIP, edition=BBB)
    assert kinds(node.run()) == ["changed"] * 20, "these guests were unlimited until now"


def test_observing_with_a_yes_does_not_wear_the_brake_out(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(Mode.OBSERVE, yes=True)) == (30, 100)
    assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}


def test_a_plan_tells_of_the_brake_as_the_pass_does(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
    before = node.state.memory.read_bytes()
    planned, enforced = node.run(Mode.PLAN), node.run()
    assert planned.braked == enforced.braked is not None
    assert codes(planned) == codes(enforced)
    node.state.memory.write_bytes(before)
    node.run(Mode.PLAN)
    assert node.state.memory.read_bytes() == before


def test_a_pass_over_some_guests_counts_all_and_leaves_the_memory_of_others(tmp_path: Path) -> None:
    disks = [a_volume(n, pool="bronze") for n in range(6)]
    node = Node(tmp_path, guest(1, *disks), guest(2, a_volume(20, pool="bronze")), rules=rules())
    node.run()
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(scope=Scope(frozenset({uuid_of(1)})))) == (7, 7), "new rules are judged on the whole node"
    assert {remembered.wanted for remembered in node.memory.values()} == {BRONZE}
    assert stopped(node.run()) == (7, 7)
    assert {disk.in_force for disk in disks} == {BRONZE}


def test_guest_by_guest_no_slip_comes_through_without_asking(tmp_path: Path) -> None:
    node = a_node(tmp_path, 2, 2)
    first = Scope(frozenset({uuid_of(0)}))
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(scope=first)) == (2, 2)
    assert node.disk(0).in_force == BRONZE
    assert kinds(node.run(scope=first, yes=True)) == ["changed"]
    assert [disk.in_force for disk in node.disks()] == [SLIP, BRONZE]


def test_guest_by_guest_what_is_no_slip_is_not_held_up(tmp_path: Path) -> None:
    node = a_node(tmp_path, 2, 2)
    node.hypervisor.by_uuid[uuid_of(5)] = guest(5, a_volume(5, pool="bronze"))
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(0)])
    for number in (0, 5):
        assert kinds(node.run(scope=Scope(frozenset({uuid_of(number)})))) == ["changed"]
    node.rules = rules(Limits(total_iops_sec=1500), of=BBB)
    assert kinds(node.run(scope=Scope(frozenset({uuid_of(1)})))) == ["changed"], "a cut to the half"


def test_a_disk_that_is_right_already_does_not_count(node: Node) -> None:
    fifth = Limits(total_iops_sec=600)
    for disk in bronze_disks(node)[:10]:
        set_by_hand(disk, fifth)
    node.rules = rules(fifth, of=BBB)
    assert stopped(node.run()) is None, "20 are left"


def bronze_disks(node: Node) -> list[FakeDisk]:
    return [disk for disk in node.disks() if disk.pool == "bronze"]


# --- one disk, in values

UNLIMITED, CUT_A_LITTLE, MORE = Limits(), Limits(total_iops_sec=3000), Limits(total_iops_sec=9000)
HANGS = Unknown(because(Code.UNANSWERED))
WANTED = Remembered(GOLD, NOON, NOON, GOLD, None, kept=True)
OBSERVED = replace(WANTED, put=None, kept=False)
BY_RULE = because(Code.RULE, rule="all")


def braked_for(
    remembered: Remembered | None,
    wanted: Answer,
    in_force: Limits | Unknown = GOLD,
    *,
    changes: bool = True,
    catalogue: Catalogue | Unknown | None = None,
    **situation: object,
) -> str | None:
    """What the brake stops where it stops all that is grave, None where the change of the disk is not."""
    disk = a_disk(in_force=in_force)
    change = Change(disk, GOLD, SLIP, Direction.TIGHTEN, BY_RULE, Code.WANTED_CHANGED) if changes else None
    outcome = Outcome(disk, Decision(wanted, ()), change, Result(Kind.PLANNED, BY_RULE))  # type: ignore[arg-type]
    memory = {disk.key: remembered} if remembered else {}
    present = replace(a_situation(memory=memory), catalogue=catalogue, **situation)
    brake = Brake(disks=0, percent=0)
    stop = braked(graves([outcome], present, brake), present, brake, disks=1, whole=True)
    if stop is None:
        return None
    assert (stop.keys, stop.of) == ({disk.key}, 1)
    assert stop.edition == revision(present)
    assert stop.catalogue == (catalogue.edition if isinstance(catalogue, Catalogue) else None)
    (word,) = (word for word in ("released", "loosened", "cut") if getattr(stop, word))
    return word


@pytest.mark.parametrize(
    ("remembered", "wanted", "in_force", "stopped"),
    [
        (WANTED, UNLIMITED, GOLD, "released"),
        (WANTED, MORE, GOLD, "loosened"),
        (WANTED, SLIP, GOLD, "cut"),
        (WANTED, CUT_A_LITTLE, GOLD, None),
        (WANTED, GOLD, SLIP, None),
        # met for the first time: against what is in force
        (None, SLIP, GOLD, "cut"),
        (None, SLIP, UNLIMITED, None),
        (None, SLIP, HANGS, None),
        # against what was desired, not against what a reboot left, nor against what is in force while observing
        (WANTED, CUT_A_LITTLE, UNLIMITED, None),
        (OBSERVED, CUT_A_LITTLE, MORE, None),
        (OBSERVED, MORE, BRONZE, "loosened"),
        (OBSERVED, SLIP, UNLIMITED, None),
        # against what is in force where nothing was desired, and against what was there before a hold
        (replace(OBSERVED, wanted=None), SLIP, UNLIMITED, None),
        (replace(OBSERVED, wanted=None), BRONZE, MORE, "cut"),
        (replace(WANTED, wanted=None, kept=False), SLIP, GOLD, "cut"),
        (replace(WANTED, wanted=None, returns=GOLD), SLIP, SLIP, "cut"),
        (replace(WANTED, wanted=None, returns=UNLIMITED), SLIP, GOLD, None),
        # a disk that does not answer
        (WANTED, SLIP, HANGS, "cut"),
        (OBSERVED, SLIP, HANGS, "cut"),
        (OBSERVED, CUT_A_LITTLE, HANGS, None),
        (replace(OBSERVED, wanted=None), SLIP, HANGS, None),
    ],
)
def test_a_change_is_grave_by_what_was_desired_or_is_in_force(
    remembered: Remembered | None, wanted: Limits, in_force: Limits | Unknown, stopped: str | None
) -> None:
    assert braked_for(remembered, Wants(wanted, BY_RULE), in_force) == stopped


def test_only_a_revision_that_was_judged_lets_a_disk_be_new() -> None:
    slip = Wants(SLIP, BY_RULE)
    assert braked_for(None, slip, judged=revision(a_situation())) is None
    assert braked_for(None, slip, judged=AAA) == "cut"
    assert braked_for(WANTED, slip, judged=revision(a_situation())) == "cut"


def test_a_disk_that_needs_no_change_counts_only_where_it_does_not_answer() -> None:
    slip = Wants(SLIP, BY_RULE)
    assert braked_for(WANTED, slip, SLIP, changes=False) is None
    assert braked_for(WANTED, slip, HANGS, changes=False) == "cut"


@pytest.mark.parametrize(
    "wanted",
    [Unmanaged(BY_RULE), HANGS, *(Wants(SLIP, because(code)) for code in (Code.HOLD, Code.HOLD_ENDED, Code.UNDONE))],
    ids=repr,
)
def test_what_a_person_decided_or_nothing_wants_is_never_grave(wanted: Answer) -> None:
    assert braked_for(WANTED, wanted) is None


SLOW = because(Code.QOS_SPEC, spec="slow", type="slow")
OF_SLOW = replace(WANTED, by_type="slow")
APPROVED = orders_for(a_catalogue())


@pytest.mark.parametrize(
    ("remembered", "reason", "catalogue", "stopped"),
    [
        (OF_SLOW, SLOW, a_catalogue(orders=APPROVED), None),
        (OF_SLOW, SLOW, a_catalogue(orders=orders_for(a_catalogue(a_spec("gold")))), "cut"),
        (OF_SLOW, SLOW, a_catalogue(orders=orders_for(a_catalogue(), of=Of.RULES)), "cut"),
        (OF_SLOW, SLOW, a_catalogue(orders=orders_for(a_catalogue(), until=NOON)), "cut"),
        (OF_SLOW, SLOW, a_catalogue(), "cut"),
        (OF_SLOW, SLOW, HANGS, "cut"),
        (OF_SLOW, SLOW, None, "cut"),
        (replace(WANTED, by_type="fast"), SLOW, a_catalogue(orders=APPROVED), "cut"),
        (WANTED, SLOW, a_catalogue(orders=APPROVED), "cut"),
        (OF_SLOW, BY_RULE, a_catalogue(orders=APPROVED), "cut"),
        (WANTED, BY_RULE, a_catalogue(orders=APPROVED), "cut"),
    ],
)
def test_a_regions_approval_is_for_the_spec_of_the_same_type_in_this_very_catalogue_and_has_an_end(
    remembered: Remembered, reason: Reason, catalogue: Catalogue | Unknown | None, stopped: str | None
) -> None:
    assert braked_for(remembered, Wants(SLIP, reason), catalogue=catalogue) == stopped


def test_a_regions_approval_lets_limits_go_only_of_the_types_that_it_names() -> None:
    slow = a_type("slow", None)
    for orders, stopped in (
        (orders_for(known := a_catalogue(types=[slow])), "released"),
        (orders_for(known, slow), None),
    ):
        catalogue = replace(known, orders=orders)
        assert braked_for(OF_SLOW, Wants(Limits(), SLOW), catalogue=catalogue) == stopped


@pytest.mark.parametrize(
    ("grave", "of", "stops"), [(5, 5, False), (6, 6, True), (20, 100, False), (21, 100, True), (6, 29, True)]
)
def test_more_than_5_disks_and_more_than_a_fifth_of_them_are_too_many(grave: int, of: int, stops: bool) -> None:
    assert Brake().stops(grave, of) is stops


def test_a_revision_is_that_of_the_rules_or_a_whole_digest_of_all_that_counts() -> None:
    situation = a_situation(rules())
    assert revision(situation) == AAA
    others = {
        revision(other)
        for other in (
            replace(situation, catalogue=a_catalogue()),
            replace(situation, catalogue=a_catalogue(types=[VolumeType("1", "gold", None)])),
            a_situation(rules().with_command_line(GOLD)),
            a_situation(rules().with_command_line(SLIP)),
        )
    }
    assert len(others) == 4
    assert all(re.fullmatch("[0-9a-f]{64}", other) for other in others)
