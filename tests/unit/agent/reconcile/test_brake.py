"""The brake: a slip in one line reaches no node before a person has seen it, and nothing else is held up by it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.model import Catalogue, VolumeType
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval
from plimsoll_agent.errors import Rejected
from plimsoll_agent.model.approvals import Approval, digest_of_change
from plimsoll_agent.model.clusters import Cluster, Clusters
from plimsoll_agent.model.later import Later
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import BrakeMemory, Remembered
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.policy.decide import Answer, Decision, Desired, Unmanaged
from plimsoll_agent.policy.diff import change_between
from plimsoll_agent.reconcile.brake import Brake, LargeChange, braked, large_changes, still_recent
from plimsoll_agent.reconcile.outcome import Braked, Counted, Edit, Kind, Mode, Outcome, PassReport, Result, Scope
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.state import Given, StateError
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeDisk, FakeGuest, hangs, raising
from tests.unit import told
from tests.unit.clouds import a_catalogue, a_spec, a_type, orders_for
from tests.unit.node import FSID, Node, a_volume, changes, codes, guest, kinds, set_by_hand, uuid_of
from tests.unit.outcomes import planned
from tests.unit.values import GUEST, NOON, a_disk, a_situation

AAA, BBB, CCC = "a" * 64, "b" * 64, "c" * 64
GOLD, BRONZE = Limits(total_iops_sec=5000), Limits(total_iops_sec=3000)
SLIP = Limits(total_iops_sec=30)
BRONZE_DISKS = Match(pool=("bronze",))


def rules(bronze: Limits = BRONZE, gold: Limits = GOLD, of: str = AAA) -> Rules:
    return Rules(rules=(Rule(name="bronze", match=BRONZE_DISKS, limits=bronze),), default=gold, revision=of)


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
        its_own.actual, its_own.defined = disk.actual, disk.defined
    node.hypervisor.writes.extend(first.hypervisor.writes)
    node.now = first.now
    return node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """100 disks, 30 of them bronze, with their limits in force."""
    return a_node(tmp_path, 30, 100)


def bronze(node: Node) -> set[Limits]:
    return actual(node, "bronze")


def actual(node: Node, pool: str) -> set[Limits]:
    return {disk.actual for disk in node.disks() if disk.pool == pool}


def stopped(report: PassReport) -> tuple[int, int] | None:
    return None if report.braked is None else (len(report.braked.keys), report.braked.of)


def moved(node: Node, number: int) -> tuple[int, int] | None:
    """What the brake stops in a pass over one guest alone, whose disk is bronze from now on."""
    node.disk(number).pool = "bronze"
    return stopped(node.run(scope=Scope(frozenset({uuid_of(number)}))))


# --- a slip


def test_a_rule_that_cuts_30_of_100_disks_to_a_hundredth_changes_none_of_them(node: Node) -> None:
    gently = Limits(total_iops_sec=4000)
    node.rules = rules(SLIP, gently, of=BBB)
    report = node.run()
    assert (bronze(node), actual(node, "gold")) == ({BRONZE}, {gently}), "what is not large goes on"
    stop = report.braked
    assert stop is not None
    edits = (Edit(source="bronze", parameter="total_iops_sec", before=3000, after=30, disks=30, origin="rule"),)
    told = {"alone": stop.alone, "edits": edits, "left": (0.01,)}
    assert stop == Braked(
        revision=BBB, catalogue=None, keys=stop.keys, of=100, removed=0, raised=0, lowered=30, **told
    )
    assert codes(report).count(Code.BRAKED) == kinds(report).count("deferred") == len(stop.keys) == 30
    waiting = next(outcome.result for outcome in report.outcomes if outcome.result.reason.code is Code.BRAKED)
    assert waiting.reason.facts == {"revision": BBB, "disks": 30, "of": 100}


def test_edits_are_named_by_where_an_operator_makes_them() -> None:
    reasons = {
        "gold-iops": because(Code.QOS_SPEC, spec="gold-iops", rule="a ceiling"),
        "night": because(Code.RULE, rule="night"),
        "m1.small": because(Code.FLAVOR, flavor="m1.small"),
        "default": because(Code.NODE_DEFAULT),
        "command line": because(Code.COMMAND_LINE),
        "desired-before": because(Code.DESIRED_BEFORE),
    }
    before, after = Limits(total_iops_sec=70), Limits(total_iops_sec=7, group_name="g")
    found = [
        LargeChange(key=name, before=before, after=after, how=Counted.LOWERED, left=0.1, alone=reason, reason=reason)
        for name, reason in reasons.items()
    ]
    stop = braked(found, a_situation(), Brake(), disks=len(found), whole=True)
    assert stop is not None
    assert stop.edits == tuple(
        edit
        for name, why in reasons.items()
        for edit in (
            Edit(source=name, parameter="total_iops_sec", before=70, after=7, disks=1, origin=why.code),
            Edit(source=name, parameter="group_name", before=None, after="g", disks=1, origin=why.code),
        )
    )


def test_the_brake_holds_in_every_pass_until_a_person_has_spoken(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
    for _ in range(3):
        assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}
    assert SLIP not in {remembered.desired for remembered in node.memory.values()}


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
    node = a_node(tmp_path, 0, 20, start=Rules(rules=(here,), default=SLIP, revision=AAA))
    node.approve(AAA)
    assert kinds(node.run()) == ["in-sync"] * 20
    node.ceph.known = Clusters((Cluster(Path("ceph.conf"), GUEST, frozenset({"127.0.0.1"})),))
    assert stopped(node.run()) == (20, 20)
    assert actual(node, "gold") == {GOLD}


class OfAFullDisk(NodeStore):
    def remember(self, memory: object, now: object) -> None:
        raise StateError("memory.json: cannot be written: No space left on device")


@pytest.mark.parametrize(
    "other",
    [
        lambda node: node.run(Mode.PLAN),
        lambda node: node.run(node_store=OfAFullDisk(node.state, "tests")),
        lambda node: node.run(Mode.OBSERVE),
        lambda node: node.run(scope=Scope(frozenset({uuid_of(99)}))),
        lambda node: node.run(yes=True),
    ],
    ids=["plan", "not remembered", "observe", "partial", "yes"],
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
    node.rules = rules(SLIP, of=BBB)
    node.approve(BBB)
    node.hypervisor.before["set_limits"] = raising(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        node.run()
    assert node.state.load_approvals()
    node.run()
    assert bronze(node) == {SLIP}


def test_an_approval_that_is_given_while_a_pass_runs_is_kept_for_the_next(node: Node) -> None:
    """Of those that the pass knew none is left, used up or not."""

    def approves() -> None:
        kept = node.state.load_approvals()
        node.state.save_approvals([*kept, Given(Approval(CCC), "ann", node.now)])

    node.rules = rules(SLIP, of=BBB)
    node.approve(BBB)
    node.hypervisor.before["set_limits"] = approves
    node.run()
    assert bronze(node) == {SLIP}
    assert [given.approval.digest for given in node.state.load_approvals()] == [CCC]
    node.run()
    assert not node.state.load_approvals()


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
    assert kinds(report) == ["in-sync"] * 100


def test_a_person_who_says_yes_is_not_asked_again(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
    node.run(yes=True)
    assert bronze(node) == {SLIP}
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(1)])
    assert stopped(node.run()) is None, "what was said yes to is what is desired now"


def test_limits_on_the_command_line_pass_the_same_brake(node: Node) -> None:
    node.rules = node.rules.with_command_line(SLIP)
    stop = node.run().braked
    assert stop is not None
    assert (len(stop.keys), stop.of, stop.revision) == (100, 100, a_situation(node.rules).revision)
    assert bronze(node) == {BRONZE}
    node.approve(stop.revision)
    assert kinds(node.run()) == ["changed"] * 100

    node.rules = node.rules.with_command_line(Limits(total_iops_sec=3))
    assert stopped(node.run()) == (100, 100), "other limits need another approval"


def test_limits_on_the_command_line_for_some_guests_are_judged_by_these(node: Node) -> None:
    node.rules = node.rules.with_command_line(Limits(total_iops_sec=1000))  # a third, a fifth
    assert kinds(node.run(scope=Scope(frozenset({uuid_of(1), uuid_of(40)})))) == ["changed"] * 2


def test_rules_that_come_after_limits_by_hand_on_a_fresh_node_are_weighed_against_these(tmp_path: Path) -> None:
    """The day on which a node's limits come from rules is the day for slips in them."""
    node = a_node(tmp_path, 0, 20, start=Rules(revision=AAA).with_command_line(GOLD))
    assert actual(node, "gold") == {GOLD}
    node.rules = Rules(default=Limits(total_iops_sec=2500), revision=BBB)
    assert kinds(node.run()) == ["changed"] * 20, "the half"
    node.rules = Rules(default=GOLD, revision=CCC).with_command_line(GOLD)
    node.run(yes=True)
    node.rules = Rules(default=SLIP, revision=CCC)
    assert stopped(node.run()) == (20, 20)


def test_the_rules_come_back_after_limits_by_hand_without_asking(node: Node) -> None:
    node.rules = rules().with_command_line(SLIP)
    node.run(yes=True)
    node.rules = rules()
    assert kinds(node.run()) == ["changed"] * 100
    assert bronze(node) == {BRONZE}


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
    assert report.outcomes[0].result == Result(Kind.DEFERRED, reason)
    assert report.braked is not None
    assert (report.braked.many, report.braked.alone) == (False, {key: reason})
    assert (bronze(node), {remembered.desired for remembered in node.memory.values()}) == ({BRONZE}, {BRONZE, GOLD})


@pytest.mark.parametrize("actual", [70, 40, 3000])
def test_the_first_line_tells_the_cut_from_what_was_desired_last_whatever_the_disk_has(
    tmp_path: Path, actual: int
) -> None:
    node = a_node(tmp_path, 2, 4)
    for number in range(2):
        set_by_hand(node.disk(number), Limits(total_iops_sec=actual))
    node.rules = rules(SLIP, of=BBB)
    assert told.planned(node.run(mode=Mode.PLAN))[0] == (
        "BRAKE  2 of 4 disks deferred: 2 cut by more than half (to 1 %)"
    )


def test_the_brakes_disks_add_up_and_one_that_is_raised_is_not_told_as_a_cut(tmp_path: Path) -> None:
    """Besides those that wait: one that was made unlimited, one below the new limit, one with a hold."""
    node = a_node(tmp_path, 8, 20)
    node.hold(2, "vda", BRONZE)
    node.run()
    set_by_hand(node.disk(0), Limits())
    set_by_hand(node.disk(1), Limits(total_iops_sec=5))
    node.rules = rules(SLIP, of=BBB)
    head, hows, *lines = told.planned(node.run(mode=Mode.PLAN))
    assert (
        head == "BRAKE  8 of 20 disks: 6 deferred, 1 gets its previous limit (external change), 1 held or unreachable"
    )
    assert hows == "       8 cut by more than half (to 1 %); 1 of these is a raise now, after an external change"
    (raised,) = (line for line in lines if line.startswith("~ instance-00000001"))
    assert "5 → 30 IOPS" in raised
    assert raised.partition(";")[2].startswith(" desired before: 3000 IOPS")
    assert "6 deferred" in lines[-1]


def test_each_disk_that_is_deferred_for_itself_has_its_line_also_where_it_is_in_no_guest_of_the_pass(
    tmp_path: Path,
) -> None:
    node = a_node(tmp_path, 2, 4)
    node.rules = rules(SLIP, of=BBB)
    digests = [digest_of_change(node.seen(number, "vda").key, SLIP)[:16] for number in range(2)]
    alone = [f"alone: plimsoll approve {digest} --reason TEXT" for digest in digests]
    needs = [f"deferred: a cut to 1 % needs plimsoll approve {digest}" for digest in digests]
    head, edit, *whole = told.enforced(node.run())
    assert head == "BRAKE  2 of 4 disks deferred: 2 cut by more than half (to 1 %)"
    assert edit == '       rule "bronze": 3000 → 30 IOPS (2 disks)'
    assert whole[:2] == [
        f'~ instance-0000000{n} web vda  3000 → 30 IOPS (to 1 %)  rule "bronze"; {alone[n]}' for n in range(2)
    ]
    for scope in (Scope(frozenset({uuid_of(3)})), Scope(frozenset({uuid_of(1)}))):
        head, _, *met = told.enforced(node.run(scope=scope))
        of_the_pass = [whole[1]] if uuid_of(1) in scope.guests else []
        of_others = [f"! instance-0000000{n} vda  {needs[n]}" for n in range(2 - len(of_the_pass))]
        assert met[:2] == of_the_pass + of_others
        assert head.startswith("BRAKE  2 of 4 disks deferred: 2 cut by more than half")


def test_where_one_approval_is_for_all_its_digest_is_the_only_one(tmp_path: Path) -> None:
    """Also beside a disk that does not answer, and of guests that are not in the pass."""
    node = a_node(tmp_path, 8, 20)
    node.run()
    node.rules = rules(SLIP, of=BBB)
    node.hypervisor.by_uuid[uuid_of(1)].trouble = hangs()
    for scope, lines in (
        (Scope(), ["BRAKE  8 of 20 disks: 7 deferred, 1 held or unreachable"]),
        (
            Scope(frozenset({uuid_of(0)})),
            ["BRAKE  8 of 20 disks deferred: 8 cut", "  … 7 more disks of guests that are not in this pass"],
        ),
    ):
        told_now = told.planned(node.run(scope=scope, mode=Mode.PLAN))
        assert told_now[0].startswith(lines[0])
        assert [line for line in told_now if "not in this pass" in line] == lines[1:]
        assert [line for line in told_now if "approve" in line] == [
            f"If it is meant: plimsoll approve {BBB[:16]} --reason TEXT"
        ]


def test_a_disk_that_does_not_answer_and_is_deferred_has_its_line(tmp_path: Path) -> None:
    node = a_node(tmp_path, 2, 4)
    digest = digest_of_change(node.seen(1, "vda").key, SLIP)[:16]
    node.rules = rules(SLIP, of=BBB)
    node.hypervisor.by_uuid[uuid_of(1)].trouble = hangs()
    lines = told.enforced(node.run())
    assert f"! instance-00000001 vda  deferred: a cut to 1 % needs plimsoll approve {digest}" in lines


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
    assert [node.disk(number).actual for number in range(2)] == [
        BRONZE if key in stays else after for key in (one, other)
    ]


def test_a_disk_that_is_retyped_or_extended_counts_for_the_number_only(tmp_path: Path) -> None:
    """Under the same rules it is no slip in a line; another pool stands for what a type or a size changes."""
    start = Rules(rules=(Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP),), default=GOLD, revision=AAA)
    node = a_node(tmp_path, 0, 20, start=start)

    def move(*numbers: int) -> None:
        for number in numbers:
            node.disk(number).pool = "bronze"

    move(0)
    assert stopped(node.run()) is None
    assert node.disk(0).actual == SLIP, "to less than a hundredth"
    move(*range(1, 7))
    assert stopped(node.run()) == (6, 20), "so many at once"


def test_guest_by_guest_the_last_hour_counts_too(tmp_path: Path) -> None:
    start = Rules(rules=(Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP),), default=GOLD, revision=AAA)
    node = a_node(tmp_path, 0, 20, start=start)

    assert [moved(node, number) for number in range(5)] == [None] * 5
    assert moved(node, 5) == (1, 20)
    node.now += timedelta(hours=1)
    assert moved(node, 6) is None


def test_a_plan_counts_none_of_the_disks_that_have_left(tmp_path: Path) -> None:
    """It forgets nothing, so the memory still has them."""
    node = a_node(tmp_path, 10, 60)
    for number in range(10, 60):
        del node.hypervisor.by_uuid[uuid_of(number)]
    node.rules = rules(Limits(total_iops_sec=1200), of=BBB)
    assert stopped(node.run(Mode.PLAN)) == (10, 10)


def test_a_disk_that_is_new_under_rules_that_the_node_uses_is_not_asked_about(tmp_path: Path) -> None:
    """Nova attaches by the type, a rule for a noisy project holds it to a hundredth: that was asked about once."""
    node = a_node(tmp_path, 1, 3, start=rules(SLIP))
    assert node.state.load_memory().brake.judged == AAA  # type: ignore[union-attr]
    attached = a_volume(200, BRONZE, pool="bronze")
    node.rules = replace(node.rules, rules=(replace(node.rules.rules[0], override=True),))
    node.hypervisor.by_uuid[uuid_of(200)] = guest(200, attached)
    assert stopped(node.run()) is None
    assert attached.actual == SLIP


def test_a_disk_with_limits_that_is_met_under_new_rules_is_weighed_against_these(tmp_path: Path) -> None:
    override = Rules(rules=(Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP, override=True),), revision=AAA)
    node = Node(tmp_path, guest(1, a_volume(1, BRONZE, pool="bronze")), rules=override)
    for _ in range(2):
        assert stopped(node.run()) == (1, 1)
    assert bronze(node) == {BRONZE}


def test_a_disk_that_did_not_answer_before_anything_was_desired_is_weighed_when_it_does(tmp_path: Path) -> None:
    override = Rules(rules=(Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP, override=True),), revision=AAA)
    node = Node(tmp_path, guest(1, a_volume(1, BRONZE, pool="bronze")), rules=Rules(revision=CCC))
    node.run()
    node.rules = override
    node.hypervisor.by_uuid[uuid_of(1)].trouble = Rejected("busy")
    node.run()
    node.hypervisor.by_uuid[uuid_of(1)].trouble = None
    assert stopped(node.run()) == (1, 1)
    assert bronze(node) == {BRONZE}


@pytest.mark.parametrize("word", ["limits", "ceiling"])
def test_the_stated_end_of_a_rule_is_no_slip_unless_something_was_edited_with_it(tmp_path: Path, word: str) -> None:
    ends = NOON + timedelta(minutes=7)  # after the first pass
    sale = Rule(name="sale", match=Match(), until=ends, **{word: GOLD})  # type: ignore[arg-type]
    bound = Rule(name="all", match=Match(), limits=Limits(total_iops_sec=90000))
    start = Rules(rules=(sale, bound), revision=AAA)
    for edited in (True, False):
        directory = tmp_path / str(edited)
        directory.mkdir()
        node = a_node(directory, 0, 20, start=start)
        assert actual(node, "gold") == {GOLD}
        if edited:
            node.rules = replace(start, rules=(sale, replace(bound, limits=SLIP)), revision=BBB)
        assert stopped(node.run()) == ((20, 20) if edited else None)


def at_night(until: timedelta, *others: Rule) -> Rules:
    """Bronze disks have less until then (the first pass is at 12:05)."""
    rule = Rule(
        name="night", match=BRONZE_DISKS, limits=Limits(total_iops_sec=2000), override=True, until=NOON + until
    )
    return Rules(rules=(rule, *others), default=GOLD, revision=BBB)


def of_bronze(number: int | None) -> Rule:
    return Rule(
        name="bronze", match=BRONZE_DISKS, limits=Limits() if number is None else Limits(total_iops_sec=number)
    )


@pytest.mark.parametrize(("slip", "percent"), [(250, 8.33), (None, None)])
def test_a_slip_beneath_a_rule_that_has_an_end_is_stopped_before_that_end(
    tmp_path: Path, slip: int | None, percent: float | None
) -> None:
    """It is weighed against what was desired without that rule, not against what the rule leaves: 12.5 %."""
    node = a_node(tmp_path, 1, 3)
    node.rules = at_night(timedelta(minutes=22), of_bronze(3000))
    assert stopped(node.run()) is None
    node.rules = replace(at_night(timedelta(minutes=22), of_bronze(slip)), revision=CCC)
    while node.now < NOON + timedelta(minutes=30):
        report = node.run()
        assert (stopped(report), bronze(node)) == ((1, 3), {Limits(total_iops_sec=2000)})
        assert report.braked is not None
        comes = None if node.now >= (end := NOON + timedelta(minutes=22)) else end.isoformat()
        (why,) = report.braked.alone.values()
        assert (why.facts["percent"], why.facts.get("from")) == (percent, comes)
    node.rules = Rules(rules=(of_bronze(slip),), default=GOLD, revision="d" * 64)
    assert stopped(node.run()) == (1, 3), "whoever clears away the rule that has ended does not approve of the slip"
    node.approve("d" * 64, remove=True)
    node.run()
    assert bronze(node) == {of_bronze(slip).limits}


def test_the_end_of_a_rule_brings_back_what_was_before_it_whatever_was_edited_since(tmp_path: Path) -> None:
    node = a_node(tmp_path, 20, 40)
    for revision in (BBB, CCC):
        another = Rule(name=revision, match=Match(pool=("none",)), limits=SLIP)
        node.rules = replace(at_night(timedelta(minutes=17), of_bronze(3000), another), revision=revision)
        assert stopped(node.run()) is None
    assert bronze(node) == {Limits(total_iops_sec=2000)}
    node.rules = replace(node.rules, revision=AAA)
    assert stopped(node.run()) is None
    assert bronze(node) == {BRONZE}


def test_a_rule_in_the_place_of_another_with_an_end_does_not_hide_what_was_before_both(tmp_path: Path) -> None:
    node = a_node(tmp_path, 1, 3)
    node.rules = at_night(timedelta(minutes=60), of_bronze(3000))
    node.run()
    later = replace(
        node.rules.rules[0], name="later", limits=Limits(total_iops_sec=1500), until=NOON + timedelta(minutes=17)
    )
    node.rules = Rules(rules=(later, of_bronze(200)), default=GOLD, revision=CCC)
    for _ in range(3):
        assert (stopped(node.run()), bronze(node)) == ((1, 3), {Limits(total_iops_sec=2000)}), "200 of 3000"


def test_a_disk_that_a_rule_left_alone_is_weighed_against_what_it_has_now(tmp_path: Path) -> None:
    """What was desired before that is of old; others may have given it more meanwhile."""
    node = a_node(tmp_path, 1, 3)
    alone = Rule(name="alone", match=BRONZE_DISKS, manage=False)
    node.rules = Rules(rules=(alone, *rules().rules), default=GOLD, revision=BBB)
    node.run()
    (disk,) = bronze_disks(node)
    set_by_hand(disk, Limits(total_iops_sec=90000))
    node.rules = rules()
    assert stopped(node.run()) == (1, 3)
    node.approve(AAA)
    node.run()
    assert bronze(node) == {BRONZE}


def test_what_the_gate_defers_counts_for_the_last_hour_too(tmp_path: Path) -> None:
    """It is what is desired from then on: the next pass takes it for no change."""
    node = a_node(tmp_path, 0, 20, start=Rules(rules=(of_bronze(9000),), default=GOLD, revision=AAA))
    node.ceph.raised = ("SLOW_OPS",)

    assert [moved(node, number) for number in range(6)] == [None] * 5 + [(1, 20)]


def test_guests_that_left_are_no_part_of_the_node(tmp_path: Path) -> None:
    start = Rules(rules=(Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP),), default=GOLD, revision=AAA)
    node = a_node(tmp_path, 0, 60, start=start)
    for number in range(20, 60):
        del node.hypervisor.by_uuid[uuid_of(number)]
    node.run()

    assert [moved(node, number) for number in range(6)] == [None] * 5 + [(1, 20)]


def test_a_pass_that_could_not_look_at_all_guests_counts_the_last_hour(tmp_path: Path) -> None:
    """Else a few guests at a time come through, whenever they let themselves be looked at."""
    node = a_node(tmp_path, 10, 20)
    node.rules = rules(Limits(total_iops_sec=600), of=BBB)
    guests = list(node.hypervisor.by_uuid.values())
    for each in guests[5:10]:
        each.xml = "<domain>"
    assert stopped(node.run()) is None
    for each in guests[5:10]:
        each.xml = None
    guests[19].xml = "<domain>"
    assert stopped(node.run()) == (5, 20)


@pytest.mark.parametrize(("unknown", "stops"), [(5, None), (6, (6, 20))])
def test_a_revision_is_not_judged_by_a_pass_that_could_not_weigh_most_of_the_disks(
    tmp_path: Path, unknown: int, stops: tuple[int, int] | None
) -> None:
    """Else all of them would be new to the next pass."""
    override = Rule(name="bronze", match=BRONZE_DISKS, limits=SLIP, override=True)
    node = a_fresh_node(tmp_path, unknown, 20, Rules(rules=(override,), default=GOLD, revision=AAA))
    for disk in bronze_disks(node):
        set_by_hand(disk, BRONZE)
    guests = [node.hypervisor.by_uuid[uuid_of(number)] for number in range(unknown)]
    for each in guests:
        each.xml = "<domain>"
    assert stopped(node.run()) is None
    for each in guests:
        each.xml = None
    assert stopped(node.run()) == stops


def test_a_group_for_disks_that_had_limits_each_cuts_them_all(tmp_path: Path) -> None:
    """Ten disks that share what each of them had are cut to a tenth; nine to a ninth, which only counts."""
    for number, percent in ((10, 10.0), (9, None)):
        directory = tmp_path / str(number)
        directory.mkdir()
        volumes = [a_volume(each, pool="bronze") for each in range(number)]
        crowded = FakeGuest("crowded", uuid_of(0), {f"vd{'abcdefghij'[n]}": disk for n, disk in enumerate(volumes)})
        node = Node(directory, crowded, *(guest(n, a_volume(n)) for n in range(100, 150)), rules=rules())
        node.run()
        node.rules = rules(replace(BRONZE, group_name="all"), of=BBB)
        report = node.run()
        alone = {reason.facts["percent"] for reason in report.braked.alone.values()} if report.braked else {None}
        assert alone == {percent}


# --- what waits is guarded at what was desired before


def reboot(node: Node) -> None:
    for each in node.hypervisor.by_uuid.values():
        node.hypervisor.restart(each)
    node.state = replace(node.state, boot="the next one")


def by_virsh(node: Node) -> None:
    for disk in bronze_disks(node):
        set_by_hand(disk, Limits())


def by_raw_qmp(node: Node) -> None:
    for disk in bronze_disks(node):
        disk.actual = Limits()


def braked_node(directory: Path) -> Node:
    """30 bronze disks of 100 that wait for a person."""
    node = a_node(directory, 30, 100)
    node.rules = rules(SLIP, of=BBB)
    node.run()
    return node


@pytest.mark.parametrize("remove", [reboot, by_virsh, by_raw_qmp])
def test_what_waits_for_an_operator_is_reverted_to_what_was_desired_before(
    tmp_path: Path, remove: Callable[[Node], None]
) -> None:
    node = braked_node(tmp_path)
    remove(node)
    assert bronze(node) == {Limits()}
    planned, report = node.run(Mode.PLAN), node.run()
    assert bronze(node) == {BRONZE}
    assert stopped(planned) == stopped(report) == (30, 100), "the new wish waits all the same"
    assert codes(planned).count(Code.DESIRED_BEFORE) == 30
    assert {c.after for c in changes(planned) if c.disk.pool == "bronze"} == {BRONZE}
    assert sum("desired-before" in str(reason) for (reason,) in node.recorded("reason")) == 30
    assert {node.memory[node.seen(n, "vda").key].desired for n in range(30)} == {BRONZE}

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
    assert node.disk(0).actual == Limits()
    node.rules = rules(SLIP, of=BBB)
    node.run()
    node.now += timedelta(hours=2)
    assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}


def test_what_waits_is_guarded_and_never_raised_nor_on_a_paused_node(tmp_path: Path) -> None:
    """What is tighter than it was may be what is desired now: Nova hands out a new spec at every attach."""
    node = braked_node(tmp_path)
    tighter, removed, *_ = bronze_disks(node)
    set_by_hand(tighter, Limits(total_iops_sec=9))
    set_by_hand(removed, Limits())
    node.paused = lambda: because(Code.PAUSED, file="/etc/plimsoll/paused", why="")
    node.ceph.raised = ("OSD_DOWN",)
    report = node.run()
    assert (codes(report)[:3], stopped(report)) == ([Code.BRAKED, Code.PAUSED, Code.BRAKED], (30, 100))
    node.paused = lambda: None
    report = node.run()
    assert (codes(report)[:2], stopped(report)) == ([Code.BRAKED, Code.DESIRED_BEFORE], (30, 100))
    assert (tighter.actual, removed.actual) == (Limits(total_iops_sec=9), BRONZE)
    node.ceph.raised = ()
    node.run()
    assert bronze(node) == {BRONZE, Limits(total_iops_sec=9)}


def test_a_disk_that_does_not_answer_stays_unknown_while_it_is_braked(tmp_path: Path) -> None:
    node = braked_node(tmp_path)
    by_virsh(node)
    node.hypervisor.by_uuid[uuid_of(0)].trouble = Rejected("busy")
    report = node.run()
    assert (kinds(report)[:2], stopped(report)) == (["unknown", "changed"], (30, 100))
    assert node.disk(0).actual == Limits(), "nobody knows what is there"
    node.hypervisor.by_uuid[uuid_of(0)].trouble = None
    node.run()
    assert bronze(node) == {BRONZE}


def test_what_was_desired_before_is_left_to_external_changes_after_the_rounds(tmp_path: Path) -> None:
    node = braked_node(tmp_path)
    one = node.disk(0)
    for _ in range(node.rounds):
        set_by_hand(one, GOLD)
        node.run()
        assert one.actual == BRONZE
    set_by_hand(one, GOLD)
    assert codes(node.run())[0] is Code.REVERTED_TOO_OFTEN
    assert one.actual == GOLD


def test_who_only_observes_puts_nothing_back(tmp_path: Path) -> None:
    node = braked_node(tmp_path)
    by_virsh(node)
    assert stopped(node.run(Mode.OBSERVE)) == (30, 100)
    assert bronze(node) == {Limits()}


# --- what is no slip


@pytest.mark.parametrize("loses", [reboot, lambda node: [set_by_hand(disk, Limits()) for disk in node.disks()]])
def test_limits_that_a_reboot_or_another_client_removed_are_put_right_without_asking(
    node: Node, loses: Callable[[Node], None]
) -> None:
    loses(node)
    report = node.run()
    assert stopped(report) is None
    assert kinds(report) == ["changed"] * 100


@pytest.mark.parametrize(("after", "stops"), [(Limits(total_iops_sec=2000), False), (SLIP, True)])
def test_new_desired_limits_are_weighed_against_what_was_desired_and_not_against_what_a_reboot_left(
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
    assert kinds(node.run()) == ["in-sync"] * 2 + ["changed"] * 30


def test_new_guests_are_limited_while_others_are_braked(node: Node) -> None:
    node.rules = rules(SLIP, of=BBB)
    node.run()
    node.hypervisor.by_uuid[uuid_of(200)] = guest(200, a_volume(200, pool="bronze"))
    assert stopped(node.run()) == (30, 101)
    assert node.disk(200).actual == SLIP


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
    assert (stopped(node.run()), node.disk(0).actual) == ((30, 100), GOLD), "of that disk too, though it is held"
    node.now += timedelta(hours=2)
    assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}, "of that disk too: the hold is over"


def test_what_was_approved_during_a_hold_is_not_asked_about_when_it_ends(node: Node) -> None:
    node.hold(0, "vda", GOLD)
    node.run()
    node.rules = rules(SLIP, of=BBB)
    node.approve(BBB)
    assert stopped(node.run()) is None
    assert node.disk(0).actual == GOLD
    node.now += timedelta(hours=2)
    assert stopped(node.run()) is None
    assert bronze(node) == {SLIP}


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
    assert stopped(node.run()) == (6, 20), "nothing of it was taken for desired meanwhile"
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

    def killed(write: int) -> None:
        """kill -9 at a write of the next pass: neither results nor memory are saved."""
        saved = node.state.memory.read_bytes()
        at: Callable[[], None] = raising(Killed)
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
    assert len([disk for disk in node.disks() if disk.actual == fifth]) == 10
    node.state.approval.unlink()
    for _ in range(2):
        assert stopped(node.run()) == (20, 100), "those that are left are few enough, but of an edit that is stopped"
    assert bronze(node) == {fifth, BRONZE}
    node.approve(BBB)
    assert stopped(node.run()) is None
    assert bronze(node) == {fifth}


# --- observing, planning, looking at a part


def test_observing_records_what_is_desired_so_that_enforcing_does_what_the_plan_said(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n, pool="bronze")) for n in range(20)), rules=rules())
    node.run(Mode.OBSERVE)
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(Mode.OBSERVE)) is None
    planned = [(change.disk.key, change.before, change.after) for change in changes(node.run(Mode.PLAN))]
    assert len(planned) == 20
    report = node.run()
    assert kinds(report) == ["changed"] * 20
    assert [(change.disk.key, change.before, change.after) for change in changes(report)] == planned


@pytest.mark.parametrize("yes", [False, True])
@pytest.mark.parametrize("loses", [lambda _: None, reboot, by_virsh, lambda node: node.state.memory.unlink()])
def test_observing_wears_the_brake_out_neither_by_a_yes_nor_after_a_reboot_nor_without_a_memory(
    node: Node, loses: Callable[[Node], None], yes: bool
) -> None:
    node.rules = rules(SLIP, of=BBB)
    node.run(Mode.OBSERVE)
    loses(node)
    for _ in range(2):
        assert stopped(node.run(Mode.OBSERVE, yes=yes)) == (30, 100)
    assert stopped(node.run()) == (30, 100)
    assert bronze(node) == {BRONZE}


def test_limits_that_were_right_already_when_plimsoll_came_are_guarded_by_the_brake(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n, pool="bronze")) for n in range(20)), rules=rules())
    for disk in node.disks():
        disk.actual = BRONZE
    assert kinds(node.run()) == ["in-sync"] * 20
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(Mode.OBSERVE)) == (20, 20)
    assert stopped(node.run()) == (20, 20)
    assert node.hypervisor.writes == []


def test_limits_of_a_pass_that_was_killed_are_guarded_by_the_brake(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n, pool="bronze")) for n in range(20)), rules=rules())
    node.run(Mode.OBSERVE)
    before = node.state.memory.read_bytes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(NodeStore, "conclude", lambda *_: None)
        node.run()
    node.state.memory.write_bytes(before)  # it came to tell neither the record nor the memory
    assert bronze(node) == {BRONZE}
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(Mode.OBSERVE)) == (20, 20)
    assert stopped(node.run()) == (20, 20)


def test_limits_that_were_only_observed_are_no_limits_of_the_guests(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n)) for n in range(20)), rules=Rules(default=GOLD, revision=AAA))
    node.run(Mode.OBSERVE)
    node.rules = Rules(default=SLIP, revision=BBB)
    assert kinds(node.run()) == ["changed"] * 20, "these guests were unlimited until now"


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
    assert {remembered.desired for remembered in node.memory.values()} == {BRONZE}
    assert stopped(node.run()) == (7, 7)
    assert {disk.actual for disk in disks} == {BRONZE}


def test_guest_by_guest_no_slip_comes_through_without_asking(tmp_path: Path) -> None:
    node = a_node(tmp_path, 2, 2)
    first = Scope(frozenset({uuid_of(0)}))
    node.rules = rules(SLIP, of=BBB)
    assert stopped(node.run(scope=first)) == (2, 2)
    assert node.disk(0).actual == BRONZE
    assert kinds(node.run(scope=first, yes=True)) == ["changed"]
    assert [disk.actual for disk in node.disks()] == [SLIP, BRONZE]


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
HANGS = Unknown(because(Code.TIMED_OUT))
DESIRED = Remembered(desired=GOLD, since=NOON, seen=NOON, applied=GOLD, attachment=None, enforced=True)
OBSERVED = replace(DESIRED, applied=None, enforced=False)
BY_RULE = because(Code.RULE, rule="all")


def own(iops: int) -> Limits:
    return Limits(total_iops_sec=iops)


def shared(iops: int, group: str = "g") -> Limits:
    return Limits(total_iops_sec=iops, group_name=group)


def braked_for(
    remembered: Remembered | None,
    desired: Answer,
    actual: Limits | Unknown = GOLD,
    *,
    changes: bool = True,
    catalogue: Catalogue | Unknown | None = None,
    **situation: object,
) -> str | None:
    """What the brake stops where it stops all that is large, None where the change of the disk is not."""
    disk = a_disk(actual=actual)
    change = change_between(disk, GOLD, SLIP, BY_RULE) if changes else None
    outcome = Outcome(
        disk=disk, decision=Decision(desired=desired, trail=()), change=change, result=Result(Kind.PLANNED, BY_RULE)
    )  # type: ignore[arg-type]
    memory = {disk.key: remembered} if remembered else {}
    present = replace(a_situation(memory=memory), catalogue=catalogue, **situation)
    brake = Brake(disks=0, percent=0)
    stop = braked(large_changes([outcome], present, brake), present, brake, disks=1, whole=True)
    if stop is None:
        return None
    assert (stop.keys, stop.of) == ({disk.key}, 1)
    assert stop.revision == present.revision
    assert stop.catalogue == (catalogue.revision if isinstance(catalogue, Catalogue) else None)
    (word,) = (word.value for word in Counted if getattr(stop, word))
    return word


@pytest.mark.parametrize(
    ("remembered", "desired", "actual", "stopped"),
    [
        (DESIRED, UNLIMITED, GOLD, "removed"),
        (DESIRED, MORE, GOLD, "raised"),
        (DESIRED, SLIP, GOLD, "lowered"),
        (DESIRED, Limits(total_iops_sec=5000, group_name="all"), GOLD, "raised"),
        (DESIRED, Limits(total_iops_sec=2499), GOLD, "lowered"),
        (DESIRED, Limits(total_iops_sec=2500), GOLD, None),
        (DESIRED, Limits(total_iops_sec=5000, total_bytes_sec=10**9), GOLD, "added"),
        (DESIRED, GOLD, SLIP, None),
        # met for the first time: against what is in force
        (None, SLIP, GOLD, "lowered"),
        (None, SLIP, UNLIMITED, None),
        (None, SLIP, HANGS, None),
        # against what was desired, not against what a reboot left, nor against what is in force while observing
        (DESIRED, CUT_A_LITTLE, UNLIMITED, None),
        (OBSERVED, CUT_A_LITTLE, MORE, None),
        (OBSERVED, MORE, BRONZE, "raised"),
        (OBSERVED, SLIP, UNLIMITED, None),
        (OBSERVED, UNLIMITED, UNLIMITED, None),
        # against what is in force where nothing was desired, and against what was there before a hold
        (replace(OBSERVED, desired=None), SLIP, UNLIMITED, None),
        (replace(OBSERVED, desired=None), BRONZE, MORE, "lowered"),
        (replace(DESIRED, desired=None, enforced=False), SLIP, GOLD, "lowered"),
        (replace(DESIRED, desired=None, restore_to=GOLD), SLIP, SLIP, "lowered"),
        (replace(DESIRED, desired=None, restore_to=UNLIMITED), SLIP, GOLD, "added"),
        # a disk that does not answer
        (DESIRED, SLIP, HANGS, "lowered"),
        (OBSERVED, SLIP, HANGS, "lowered"),
        (OBSERVED, CUT_A_LITTLE, HANGS, None),
        (replace(OBSERVED, desired=None), SLIP, HANGS, None),
    ],
)
def test_a_change_is_large_by_what_was_desired_or_is_actual(
    remembered: Remembered | None, desired: Limits, actual: Limits | Unknown, stopped: str | None
) -> None:
    assert braked_for(remembered, Desired(desired, BY_RULE), actual) == stopped


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        # 3000 for one; half of it for two
        ([own(3000), own(3000)], [shared(1500), shared(1500)], [0.25, 0.25]),
        # a group of two that another disk joins
        ([shared(3000), shared(3000), own(3000)], [shared(3000, "h")] * 3, [2 / 3, 2 / 3, 1 / 3]),
        # that fewer share it makes good for no cut
        ([shared(4000)] * 4, [shared(1000, "h")] * 2 + [shared(4000)] * 2, [0.25, 0.25]),
        ([shared(4000)] * 2, [shared(1000)] * 2, [0.25, 0.25]),
        ([shared(4000)] * 2, [own(4000), shared(4000)], [1]),
        # those of no group share nothing
        ([own(3000)] * 2, [own(1800)] * 2, []),
    ],
)
def test_each_disk_of_a_throttle_group_is_weighed_by_its_part(
    before: list[Limits], after: list[Limits], left: list[float]
) -> None:
    disks = [a_disk(volume_id=f"v{number}", actual=limits) for number, limits in enumerate(before)]
    outcomes = [
        Outcome(
            disk=disk,
            decision=Decision(desired=Desired(limits, BY_RULE), trail=()),
            change=None if was == limits else change_between(disk, was, limits, BY_RULE, Code.RULE),
            result=Result(Kind.PLANNED, BY_RULE),
        )
        for disk, was, limits in zip(disks, before, after, strict=True)
    ]
    memory = {disk.key: replace(DESIRED, desired=limits) for disk, limits in zip(disks, before, strict=True)}
    assert [large.left for large in large_changes(outcomes, a_situation(memory=memory), Brake())] == pytest.approx(
        left
    )


@pytest.mark.parametrize(("minutes", "how"), [(59, None), (60, None), (61, "lowered")])
def test_what_was_to_come_for_a_disk_within_an_hour_anyway_is_no_change(minutes: int, how: str | None) -> None:
    to_come = replace(DESIRED, later=(Later(at=NOON + timedelta(minutes=minutes), limits=SLIP),))
    assert braked_for(to_come, Desired(SLIP, BY_RULE)) == how
    assert braked_for(to_come, Desired(replace(SLIP, total_iops_sec=31), BY_RULE)) == "lowered"


@pytest.mark.parametrize(("limits", "how"), [(SLIP, "lowered"), (Limits(), "removed")])
def test_the_end_of_a_rule_in_a_year_lets_nothing_through_today(limits: Limits, how: str) -> None:
    """The year of ``until`` is mistyped, or the rule's pool."""
    in_a_year = replace(DESIRED, later=(Later(at=NOON + timedelta(days=365), limits=limits),))
    assert braked_for(in_a_year, Desired(limits, BY_RULE)) == how


def test_the_end_of_a_rule_that_is_brought_nearer_is_weighed_and_one_that_is_put_off_is_not(tmp_path: Path) -> None:
    """``until`` of a contract in a year, edited to another year or month."""
    contract = Rule(name="c", match=BRONZE_DISKS, limits=BRONZE, override=True, until=NOON + timedelta(days=365))
    under = Rules(rules=(contract, of_bronze(250)), default=GOLD, revision=AAA)
    node = a_node(tmp_path, 8, 20, start=under)
    assert bronze(node) == {BRONZE}
    for days in (364.99, 400):
        node.rules = replace(under, rules=(replace(contract, until=NOON + timedelta(days=days)), under.rules[1]))
        assert stopped(node.run()) is None
    soon = NOON + timedelta(minutes=30)
    node.rules = replace(under, rules=(replace(contract, until=soon), under.rules[1]), revision=BBB)
    while node.now < soon + timedelta(minutes=10):
        assert (stopped(node.run()), bronze(node)) == ((8, 20), {BRONZE})


@pytest.mark.parametrize(("now", "later"), [(60, 50), (50, 60)])
def test_of_several_changes_of_a_disk_the_largest_counts(now: int, later: int) -> None:
    disk = a_disk(actual=GOLD)
    wants, ahead = Desired(own(now), BY_RULE), Desired(own(later), BY_RULE)
    decision = Decision(desired=wants, trail=(), ahead=((NOON + timedelta(hours=1), ahead),))
    situation = a_situation(memory={disk.key: replace(DESIRED, later=())})
    (large,) = large_changes([planned(disk, wants.limits, BY_RULE, decision=decision)], situation, Brake())
    assert large.after == own(50)


def test_only_a_revision_that_was_judged_lets_a_disk_be_new() -> None:
    slip = Desired(SLIP, BY_RULE)
    assert braked_for(None, slip, brake=BrakeMemory(judged=a_situation().revision)) is None
    assert braked_for(None, slip, brake=BrakeMemory(judged=AAA)) == "lowered"
    assert braked_for(DESIRED, slip, brake=BrakeMemory(judged=a_situation().revision)) == "lowered"


def test_a_disk_that_needs_no_change_counts_only_where_it_does_not_answer() -> None:
    slip = Desired(SLIP, BY_RULE)
    assert braked_for(DESIRED, slip, SLIP, changes=False) is None
    assert braked_for(DESIRED, slip, HANGS, changes=False) == "lowered"


def test_what_is_written_for_now_is_no_change_of_what_is_desired() -> None:
    disk = a_disk(actual=GOLD)
    outcome = planned(
        disk,
        SLIP,
        BY_RULE,
        decision=Decision(desired=Desired(GOLD, BY_RULE), trail=(), instead=Desired(SLIP, BY_RULE)),
    )
    assert large_changes([outcome], a_situation(memory={disk.key: DESIRED}), Brake()) == ()


def test_an_approval_counts_beside_those_of_before() -> None:
    """Of a revision that was judged, for a disk that was away then."""
    disk = a_disk(actual=GOLD)
    outcome = planned(disk, SLIP, BY_RULE)
    present = a_situation(memory={disk.key: replace(DESIRED, revision=AAA)})
    this, other = Approval(present.revision), Approval(BBB)
    for given, before, counts in ((this, other, False), (other, this, False), (other, other, True)):
        situation = replace(present, brake=BrakeMemory(judged=present.revision, let_through=(before,)))
        assert bool(large_changes([outcome], situation, Brake(approvals=(given,)))) is counts


@pytest.mark.parametrize(
    "desired",
    [
        Unmanaged(BY_RULE),
        HANGS,
        *(Desired(SLIP, because(code)) for code in (Code.HOLD, Code.HOLD_ENDED, Code.UNDONE, Code.RELEASED)),
    ],
    ids=repr,
)
def test_what_a_person_decided_or_nothing_wants_is_never_large(desired: Answer) -> None:
    assert braked_for(DESIRED, desired) is None


SLOW = because(Code.QOS_SPEC, spec="slow", type="slow")
OF_SLOW = replace(DESIRED, by_type="slow")
KNOWN = a_catalogue()
APPROVED = orders_for(KNOWN)


@pytest.mark.parametrize(
    ("remembered", "reason", "catalogue", "orders", "stopped"),
    [
        (OF_SLOW, SLOW, KNOWN, APPROVED, None),
        (OF_SLOW, SLOW, KNOWN, orders_for(a_catalogue(a_spec("gold"))), "lowered"),
        (OF_SLOW, SLOW, KNOWN, orders_for(KNOWN, of=Of.RULES), "lowered"),
        (OF_SLOW, SLOW, KNOWN, orders_for(KNOWN, until=NOON), "lowered"),
        (OF_SLOW, SLOW, KNOWN, Orders(), "lowered"),
        (OF_SLOW, SLOW, HANGS, APPROVED, "lowered"),
        (OF_SLOW, SLOW, None, APPROVED, "lowered"),
        (replace(DESIRED, by_type="fast"), SLOW, KNOWN, APPROVED, "lowered"),
        (DESIRED, SLOW, KNOWN, APPROVED, "lowered"),
        (OF_SLOW, BY_RULE, KNOWN, APPROVED, "lowered"),
        (OF_SLOW, because(Code.QOS_SPEC, **SLOW.facts, ceiling="night"), KNOWN, APPROVED, "lowered"),
        (DESIRED, BY_RULE, KNOWN, APPROVED, "lowered"),
    ],
)
def test_a_regions_approval_is_for_the_spec_of_the_same_type_in_this_very_catalogue_and_has_an_end(
    remembered: Remembered,
    reason: Reason,
    catalogue: Catalogue | Unknown | None,
    orders: Orders,
    stopped: str | None,
) -> None:
    assert braked_for(remembered, Desired(SLIP, reason), catalogue=catalogue, orders=orders) == stopped


def test_a_regions_approval_lets_limits_go_only_of_the_types_that_it_names() -> None:
    slow = a_type("slow", None)
    known = a_catalogue(types=[slow])
    for orders, stopped in ((orders_for(known), "removed"), (orders_for(known, slow), None)):
        assert braked_for(OF_SLOW, Desired(Limits(), SLOW), catalogue=known, orders=orders) == stopped


OF_RULES = Orders(
    approvals=(
        RegionApproval(of=Of.RULES, digest=AAA, since=NOON, until=NOON + timedelta(hours=1), by="ann", why="meant"),
    )
)


@pytest.mark.parametrize(
    ("remembered", "reason", "stopped"),
    [
        (None, BY_RULE, None),
        (replace(DESIRED, source=Code.RULE), BY_RULE, None),
        (replace(DESIRED, source=Code.RULE, by_type="slow"), BY_RULE, None),
        (replace(DESIRED, source=Code.NODE_DEFAULT), BY_RULE, None),
        (replace(DESIRED, source=Code.RULE), because(Code.NODE_DEFAULT), None),
        (replace(DESIRED, source=Code.RULE), because(Code.FLAVOR, flavor="m1"), "lowered"),
        (replace(DESIRED, source=Code.QOS_SPEC), BY_RULE, "lowered"),
        (replace(DESIRED, source=Code.FLAVOR), BY_RULE, "lowered"),
        # who remembers no source knows the type at least, where it was a spec's word
        (replace(DESIRED, source=None), BY_RULE, None),
        (OF_SLOW, BY_RULE, "lowered"),
        # an overriding rule does not wait for a spec to say nothing
        (replace(DESIRED, source=Code.QOS_SPEC), because(Code.RULE, rule="over"), None),
    ],
)
def test_a_regions_approval_of_rules_is_for_what_rules_said_before_too(
    remembered: Remembered | None, reason: Reason, stopped: str | None
) -> None:
    over = Rule(name="over", match=Match(), limits=SLIP, override=True)
    found = braked_for(
        remembered,
        Desired(SLIP, reason),
        catalogue=a_catalogue(),
        rules=Rules(rules=(over,), revision=AAA),
        orders=OF_RULES,
    )
    assert found == stopped


def test_a_change_counts_for_an_hour_from_the_moment_that_it_was_made() -> None:
    ages = {"soon": -1, "now": 0, "within": 3599, "over": 3600}
    changed = {key: NOON - timedelta(seconds=age) for key, age in ages.items()}
    assert still_recent(changed, NOON) == {"soon": NOON, "now": NOON, "within": changed["within"]}


@pytest.mark.parametrize(
    ("number", "of", "stops"), [(5, 5, False), (6, 6, True), (20, 100, False), (21, 100, True), (6, 29, True)]
)
def test_more_than_5_disks_and_more_than_a_fifth_of_them_are_too_many(number: int, of: int, stops: bool) -> None:
    assert Brake().stops(number, of) is stops


def test_a_revision_is_that_of_the_rules_or_a_whole_digest_of_all_that_counts() -> None:
    situation = a_situation(rules())
    assert situation.revision == AAA
    others = {
        other.revision
        for other in (
            replace(situation, catalogue=a_catalogue()),
            replace(situation, catalogue=a_catalogue(types=[VolumeType(id="1", name="gold", qos_spec=None)])),
            a_situation(rules().with_command_line(GOLD)),
            a_situation(rules().with_command_line(SLIP)),
        )
    }
    assert len(others) == 4
    assert all(re.fullmatch("[0-9a-f]{64}", other) for other in others)
