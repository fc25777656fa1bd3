"""Passes that stand on what Cinder said last: disks follow it, and what nobody knows changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval
from plimsoll_agent.catalogue.planner import agenda
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.errors import Rejected
from plimsoll_agent.messages.sentences import state_reason, words
from plimsoll_agent.model.entries import Happening, RecordedEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.model.usage import Usage
from plimsoll_agent.monitor import pass_summary
from plimsoll_agent.monitor.pass_summary import PassSetting
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.reconcile.grade import Grade, grade
from plimsoll_agent.reconcile.outcome import Kind, Mode, PassReport, Scope
from plimsoll_agent.reconcile.run import save_attachments
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection, entries
from plimsoll_agent.store.state import Memory, State, StateError
from plimsoll_agent.top.rows import Planned, Wrong, rows
from plimsoll_agent.top.sampler import Sample
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import minute
from tests.fakes import FakeDisk, FakeGuest, hangs, raising
from tests.unit.clouds import a_catalogue, a_spec, a_type, orders_for
from tests.unit.node import Node, a_volume, codes, guest, kinds, notes, own_disk, set_by_hand, uuid_of
from tests.unit.values import NOON

GIB = 2**30
RICH, POOR, SLIP = Limits(total_iops_sec=3000), Limits(total_iops_sec=500), Limits(total_iops_sec=30)
GOLD, BRONZE = a_spec("gold", total_iops_sec="3000"), a_spec("bronze", total_iops_sec="500")
SIZED = a_spec("sized", total_iops_sec_per_gb="30")
LOST = Unknown(because(Code.CATALOGUE_UNREADABLE, detail="?"))
ANYWHERE = Match(pool=("*",))


class Cloud:
    """Cinder, and the refresher that asks it; the node knows of neither."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.specs = {spec.name: spec for spec in (GOLD, BRONZE, SIZED)}
        self.types: dict[str, str | None] = {name: name for name in self.specs}
        """By name: the spec's name, None where the type has none."""
        self.type_of: dict[str, str] = {}
        """By volume id: the type's name, gold where none is said."""

    def refresh(self) -> Catalogue:
        """What the refresher does: it asks for the volumes that the last pass met."""
        met = self.node.state.load_attachments()
        types = {name: a_type(name, spec and self.specs[spec]) for name, spec in self.types.items()}
        known = a_catalogue(
            *self.specs.values(),
            types=list(types.values()),
            volumes={id_: types[self.type_of.get(id_, "gold")] for id_ in met.marks_of_volumes()},
            met=met,
            issued=self.node.now,
        )
        self.node.catalogue = known
        return known

    def to_request(self) -> Sequence[str]:
        """The volumes whose type the refresher would request now."""
        known = self.node.catalogue
        assert isinstance(known, Catalogue)
        met = self.node.state.load_attachments()
        return agenda(known, met, self.node.now, interval=300, source=known.source).unknown

    def edit(self, spec: QosSpec) -> Catalogue:
        self.specs[spec.name] = spec
        return self.refresh()


def a_cloud(directory: Path, *guests: FakeGuest, rules: Rules | None = None) -> Cloud:
    """A node that is configured to know Cinder's word, before anybody has fetched it."""
    node = Node(directory, *guests, rules=rules or Rules(revision="a" * 64))
    node.catalogue = Unknown(because(Code.NO_CATALOGUE, detail="?"))
    return Cloud(node)


def settled(cloud: Cloud) -> Cloud:
    """After the passes that it takes: one meets the volumes, the refresher asks, the next one limits them."""
    cloud.node.run()
    cloud.refresh()
    cloud.node.run(yes=True)
    cloud.node.hypervisor.writes.clear()
    cloud.node.hypervisor.calls.clear()
    return cloud


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    """Two guests, each with a volume of type gold that is limited so."""
    return settled(a_cloud(tmp_path, *(guest(n, a_volume(n)) for n in (1, 2))))


@pytest.fixture
def node(cloud: Cloud) -> Node:
    return cloud.node


def actual(node: Node) -> list[Limits]:
    return [disk.actual for disk in node.disks()]


def id_of(disk: FakeDisk) -> str:
    assert disk.volume_id is not None
    return disk.volume_id


# --- the way there


def test_a_new_node_leaves_its_volumes_alone_until_cinder_was_asked(tmp_path: Path) -> None:
    cloud = a_cloud(tmp_path, guest(1, a_volume(1, RICH), a_volume(2)), rules=Rules(default=SLIP))
    first = cloud.node.run()
    assert (kinds(first), codes(first)) == (["unknown"] * 2, [Code.NO_CATALOGUE] * 2)
    assert cloud.node.hypervisor.writes == []
    cloud.refresh()
    assert kinds(cloud.node.run()) == ["in-sync", "changed"]
    assert actual(cloud.node) == [RICH] * 2


def test_a_volume_attached_later_is_left_alone_until_it_was_asked_for(cloud: Cloud, node: Node) -> None:
    node.hypervisor.attach(node.hypervisor.by_uuid[uuid_of(1)], "vdb", a_volume(7))
    report = node.run()
    assert codes(report).count(Code.VOLUME_NOT_FETCHED) == 1
    assert [outcome.disk.volume_type for outcome in report.outcomes] == ["gold", None, "gold"]
    assert node.hypervisor.writes == []
    cloud.refresh()
    assert kinds(node.run()) == ["in-sync", "changed", "in-sync"]


def test_attachments_are_not_published_while_no_service_is_to_be_asked(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1))
    node.run()
    assert not node.state.attachments.exists()


def test_a_plan_publishes_nothing_and_an_observing_node_does(tmp_path: Path) -> None:
    """What is observed is to be what enforcing would do: then Cinder has to be asked."""
    cloud = a_cloud(tmp_path, guest(1, a_volume(1)))
    cloud.node.run(Mode.PLAN)
    assert list(tmp_path.iterdir()) == []
    cloud.node.run(Mode.OBSERVE)
    cloud.refresh()
    assert kinds(cloud.node.run(Mode.PLAN)) == kinds(cloud.node.run(Mode.OBSERVE)) == ["planned"]


def test_what_is_attached_is_written_only_when_it_is_something_else(node: Node) -> None:
    before = node.state.attachments.stat().st_ino
    node.run()
    assert node.state.attachments.stat().st_ino == before
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(1)])
    node.run()
    assert node.state.attachments.stat().st_ino != before


def test_a_refresher_that_cannot_be_told_is_noted_and_costs_no_disk(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StateError("attachments.json: cannot be written: No space left on device")

    monkeypatch.setattr(State, "save_attachments", refuse)
    node.hypervisor.attach(node.hypervisor.by_uuid[uuid_of(1)], "vdb", a_volume(7))
    set_by_hand(node.disk(2), Limits())
    report = node.run()
    assert notes(report) == [Code.ATTACHMENTS_NOT_WRITTEN]
    assert kinds(report) == ["in-sync", "unknown", "changed"]
    assert node.memory[report.outcomes[0].disk.key].seen == node.now, "the memory is kept all the same"


# --- what Cinder says anew


def test_an_edited_spec_reaches_disks_that_were_attached_long_ago(cloud: Cloud, node: Node) -> None:
    cloud.edit(replace(GOLD, keys={"total_iops_sec": "2000"}))
    assert kinds(node.run()) == ["changed"] * 2
    assert actual(node) == [Limits(total_iops_sec=2000)] * 2
    assert node.recorded("json_extract(reason, '$.spec')")[-1] == ("gold",)


def test_a_type_that_is_associated_with_another_spec_takes_its_volumes_along(cloud: Cloud, node: Node) -> None:
    cloud.types["gold"] = "bronze"
    cloud.refresh()
    node.run()
    assert actual(node) == [POOR] * 2


def test_a_volume_of_another_type_gets_that_types_limits_and_no_other_volume_does(cloud: Cloud, node: Node) -> None:
    cloud.type_of[id_of(node.disk(1))] = "bronze"
    cloud.refresh()
    node.run()
    assert actual(node) == [POOR, RICH]


def test_a_spec_that_says_unlimited_removes_the_limit_once_that_is_approved(cloud: Cloud, node: Node) -> None:
    cloud.edit(replace(GOLD, keys={"total_iops_sec": "0"}))
    stop = node.run().braked
    assert stop is not None
    assert actual(node) == [RICH] * 2
    node.approve(stop.revision, remove=True)
    node.run()
    assert actual(node) == [Limits()] * 2


# --- sizes


@pytest.fixture
def sized(tmp_path: Path) -> Cloud:
    """A guest with a volume of 10 GiB that is limited by GiB, one with a gold volume, one with its own disk."""
    cloud = a_cloud(tmp_path, guest(1, own_disk(1), a_volume(1)), guest(2, a_volume(2)), guest(3, own_disk(3)))
    cloud.type_of[id_of(cloud.node.disk(1, "vdb"))] = "sized"
    return settled(cloud)


def test_an_extended_volume_is_right_in_the_next_pass_and_no_service_had_to_be_asked(sized: Cloud) -> None:
    node, disk = sized.node, sized.node.disk(1, "vdb")
    assert disk.actual == Limits(total_iops_sec=300)
    disk.size = 100 * GIB
    assert kinds(node.run()).count("changed") == 1
    assert disk.actual == RICH


def test_sizes_are_asked_only_of_guests_with_a_volume_that_counts_by_gib(sized: Cloud) -> None:
    """Each such question is one more call to a guest in every pass."""
    sized.node.run()
    assert sized.node.hypervisor.calls.count("sizes") == 1
    sized.type_of.clear()
    sized.refresh()
    sized.node.hypervisor.calls.clear()
    sized.node.run()
    assert sized.node.hypervisor.calls.count("sizes") == 0


def test_a_size_that_cannot_be_had_leaves_its_disk_as_it_is(sized: Cloud) -> None:
    sized.node.disk(1, "vdb").size = 100 * GIB
    sized.node.hypervisor.before["sizes"] = raising(Rejected("QEMU says no"))
    report = sized.node.run()
    assert codes(report).count(Code.SIZE_UNKNOWN) == 1
    assert sized.node.hypervisor.writes == []


# --- what nobody knows


@pytest.mark.parametrize("default", [None, SLIP])
def test_a_catalogue_that_is_lost_changes_no_limit(cloud: Cloud, node: Node, default: Limits | None) -> None:
    node.rules = Rules(default=default, revision="b" * 64)
    node.catalogue = LOST
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(2)], POOR)
    for _ in range(2):
        report = node.run()
        assert (kinds(report), codes(report)) == (["unknown"] * 2, [Code.CATALOGUE_UNREADABLE] * 2)
    assert actual(node) == [RICH, POOR]
    cloud.refresh()
    assert kinds(node.run()) == ["in-sync", "changed"], "and when it is back all goes on"


def test_a_volume_that_is_made_unlimited_while_no_catalogue_counts_is_known_to_miss_its_last_limits(
    node: Node,
) -> None:
    node.catalogue = LOST
    set_by_hand(node.disk(1), Limits())
    report = node.run()
    assert (kinds(report), actual(node)) == (["unknown"] * 2, [Limits(), RICH]), "nothing is written"
    first, other = report.outcomes
    assert (first.missed, other.missed) == (RICH, None)
    assert state_reason(first).startswith(
        "unlimited, 3000 IOPS desired last; the catalogue of Cinder and Nova cannot"
    )
    assert state_reason(other).startswith("the catalogue of Cinder and Nova cannot be read")
    sample = Sample(tuple(Usage(disk=each.disk) for each in report.outcomes), (), 2)
    row, second = rows(sample, Planned(outcomes={each.disk.key: each for each in report.outcomes}))
    assert (row.wrong, second.wrong) == (Wrong.UNLIMITED, Wrong.NOT)
    assert row.limits_words == "unlimited, 3000 IOPS desired last"
    summary = pass_summary.fold(None, report, PassSetting(version="1", boot="b1", ended=node.now))
    assert [disk.astray for disk in summary.disks] == [True, False]
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(1)], Limits())
    assert node.run().outcomes[0].missed is None, "another attachment may have another type"


def test_an_outage_that_ends_finds_the_marks_unchanged(cloud: Cloud, node: Node) -> None:
    """Else every volume of the region would be asked for again at once, just when the API is back."""
    known, before = node.catalogue, node.state.load_attachments()
    node.catalogue = LOST
    node.run()
    assert node.state.load_attachments() == before
    node.catalogue = known
    assert kinds(node.run()) == ["in-sync"] * 2


# --- attached anew


def test_a_volume_that_was_detached_given_another_type_and_attached_again_never_gets_the_old_types_limits(
    cloud: Cloud, node: Node
) -> None:
    host = node.hypervisor.by_uuid[uuid_of(1)]
    again = replace(node.disk(1), actual=POOR, defined=POOR)  # Nova brought the new type's limits
    cloud.type_of[id_of(again)] = "bronze"
    node.hypervisor.attach(host, "vda", again)
    for _ in range(2):
        assert codes(node.run())[0] is Code.VOLUME_NOT_FETCHED
    cloud.refresh()
    assert kinds(node.run()) == ["in-sync"] * 2
    assert node.hypervisor.writes == []


def test_a_hard_reboot_that_brings_old_limits_back_is_put_right_when_cinder_was_asked(
    cloud: Cloud, node: Node
) -> None:
    cloud.edit(replace(GOLD, keys={"total_iops_sec": "2000"}))
    node.run()
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(1)], RICH)
    assert codes(node.run())[0] is Code.VOLUME_NOT_FETCHED
    assert actual(node)[0] == RICH, "the type may be another by now"
    cloud.refresh()
    assert kinds(node.run()) == ["changed", "in-sync"]
    assert actual(node) == [Limits(total_iops_sec=2000)] * 2


def test_a_node_that_restarted_asks_for_all_of_its_volumes_again(cloud: Cloud, node: Node) -> None:
    node.state = replace(node.state, boot="the next one")
    assert codes(node.run()) == [Code.VOLUME_NOT_FETCHED] * 2
    cloud.refresh()
    assert kinds(node.run()) == ["in-sync"] * 2


@pytest.mark.parametrize("external", [Limits(), POOR, SLIP, replace(RICH, total_iops_sec=999_999)])
def test_an_external_change_is_reverted_at_once_to_the_last_desired_limits_and_the_type_is_requested(
    cloud: Cloud, node: Node, external: Limits
) -> None:
    """Else a volume that another client sets free stays so until Cinder answers: for hours while Keystone is down."""
    assert cloud.to_request() == ()
    set_by_hand(node.disk(1), external)
    assert kinds(node.run()) == ["changed", "in-sync"]
    assert actual(node) == [RICH] * 2
    assert cloud.to_request() == (id_of(node.disk(1)),)
    cloud.refresh()
    assert kinds(node.run()) == ["in-sync"] * 2
    set_by_hand(node.disk(1), external)
    assert kinds(node.run()) == ["changed", "in-sync"]
    assert cloud.to_request() == (), "the same change again is not worth another call"


def test_after_an_external_change_the_type_that_cinder_then_returns_counts(cloud: Cloud, node: Node) -> None:
    """Nova may have changed the limit for a volume that was retyped while it is attached."""
    set_by_hand(node.disk(1), POOR)
    cloud.type_of[id_of(node.disk(1))] = "bronze"
    assert kinds(node.run()) == ["changed", "in-sync"], "of which a node knows nothing yet"
    cloud.refresh()
    assert kinds(node.run()) == ["changed", "in-sync"]
    assert actual(node)[0] == POOR


def test_external_changes_of_a_volume_are_reverted_however_many_there_were_since_cinder_answered(
    cloud: Cloud, node: Node
) -> None:
    for rate in range(1, 4):
        set_by_hand(node.disk(1), Limits(total_iops_sec=rate))
        assert kinds(node.run()) == ["changed", "in-sync"]


def test_a_limit_that_came_with_the_attachment_is_watched_like_one_that_plimsoll_set(tmp_path: Path) -> None:
    """Nova's limit is right mostly, so that plimsoll has applied nothing; an external change is one all the same."""
    cloud = settled(a_cloud(tmp_path, guest(1, a_volume(1, RICH))))
    set_by_hand(cloud.node.disk(1), POOR)
    assert kinds(cloud.node.run()) == ["changed"]
    assert actual(cloud.node) == [RICH]


def test_an_unlimited_volume_that_was_never_fetched_counts_as_unknown_once_it_was_changed_externally(
    cloud: Cloud, node: Node
) -> None:
    """A volume that was just attached is no trouble; one that another client changes meanwhile is."""
    node.hypervisor.attach(node.hypervisor.by_uuid[uuid_of(1)], "vdb", a_volume(7, RICH))
    assert node.run().unknown == 0
    set_by_hand(node.disk(1, "vdb"), Limits())
    report = node.run()
    assert report.unknown == 1
    (reason,) = (each.result.reason for each in report.outcomes if each.result.kind is Kind.UNKNOWN)
    assert reason.facts["changed"] is True
    assert words(reason).startswith(f"limits changed externally at {minute(node.now)}, and volume not fetched")
    node.run()
    told = [each for each in entries(Record(node.state.record), Selection()) if isinstance(each, RecordedEvent)]
    (event,) = (each for each in told if each.what is Happening.CHANGED_EXTERNALLY)
    assert event.disk == node.seen(1, "vdb").named
    assert event.reason is not None
    assert words(event.reason) == "external change to no limit, with unknown desired limits"


# --- told before a pass (enforce --refresh)


def tell(node: Node) -> None:
    """What a pass does first when it lets Cinder be asked."""
    node_store = NodeStore(node.state, "tests")
    memory = node_store.recall(node.now, read_only=True)
    situation = Situation(
        now=node.now,
        rules=node.rules,
        memory=memory.disks,
        holds=memory.holds,
        catalogue=node.catalogue,
        attachments=node.state.load_attachments(),
    )
    save_attachments(situation, node.hypervisor, node_store, node.caution(node_store), at_once=1)


def test_to_a_refresh_what_a_killed_pass_wrote_is_no_external_change(cloud: Cloud, node: Node) -> None:
    cloud.edit(replace(GOLD, keys={"total_iops_sec": "2000"}))
    node.hypervisor.before["define_limits"] = raising(SystemExit())  # after the first write, before its result
    with pytest.raises(SystemExit):
        node.run()
    assert actual(node)[0] == Limits(total_iops_sec=2000)
    before = node.state.load_attachments()
    tell(node)
    assert node.state.load_attachments() == before


def test_a_refresh_before_the_pass_makes_every_disk_right_in_one(cloud: Cloud, node: Node) -> None:
    """A new volume, a reboot with old limits, and a hand on a limit."""
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(1)], POOR)
    node.hypervisor.attach(node.hypervisor.by_uuid[uuid_of(1)], "vdb", a_volume(7))
    set_by_hand(node.disk(2), SLIP)
    before = node.state.memory.read_bytes()
    tell(node)
    assert node.hypervisor.writes == []
    assert node.state.memory.read_bytes() == before, "a look is no pass: nothing was decided"
    cloud.refresh()
    assert kinds(node.run()) == ["changed"] * 3
    assert actual(node) == [RICH] * 3


def test_a_look_before_the_pass_asks_no_sizes_and_keeps_marks_of_guests_that_hide(sized: Cloud) -> None:
    node = sized.node
    before = node.state.load_attachments()
    node.hypervisor.by_uuid[uuid_of(2)].xml = "<domain>"
    tell(node)
    assert node.state.load_attachments() == before
    assert "sizes" not in node.hypervisor.calls


# --- guests that were not looked at


def test_a_pass_over_some_guests_keeps_the_marks_of_the_others(node: Node) -> None:
    before = node.state.load_attachments()
    node.run(scope=Scope(frozenset({uuid_of(1)})))
    assert node.state.load_attachments() == before


def test_a_pass_over_some_guests_keeps_marks_of_guests_that_the_memory_lost(node: Node) -> None:
    before, memory = node.state.load_attachments(), node.state.load_memory()
    assert memory is not None
    node.state.save_memory(Memory(brake=memory.brake))  # else it would look at all of them
    node.state.record.unlink()
    node.hypervisor.lose_marks()
    node.run(scope=Scope(frozenset({uuid_of(1)})))
    met = node.state.load_attachments()
    seen, unseen = before.volumes
    assert met.volumes[unseen] == before.volumes[unseen]
    assert met.volumes[seen].external_changes == 1, "whose hand set what it has now, nobody can tell any more"


def test_a_guest_that_hangs_keeps_its_marks(node: Node) -> None:
    before = node.state.load_attachments()
    node.hypervisor.by_uuid[uuid_of(1)].trouble = hangs()
    node.run()
    node.hypervisor.by_uuid[uuid_of(1)].trouble = None
    node.hypervisor.by_uuid[uuid_of(1)].xml = "<domain>"
    node.run()
    assert node.state.load_attachments() == before


# --- the brake


@pytest.fixture
def many(tmp_path: Path) -> Cloud:
    """20 volumes of type gold, limited so."""
    return settled(a_cloud(tmp_path, *(guest(n, a_volume(n)) for n in range(20))))


def slip(cloud: Cloud) -> Catalogue:
    """Somebody types 30 for 3000."""
    return cloud.edit(replace(GOLD, keys={"total_iops_sec": "30"}))


def stopped(report: PassReport) -> tuple[int, int] | None:
    return None if report.braked is None else (len(report.braked.keys), report.braked.of)


def present(node: Node) -> str:
    return Situation(now=NOON, rules=node.rules, catalogue=node.catalogue).revision


def test_a_slip_in_a_spec_is_braked_and_named_by_rules_and_catalogue(many: Cloud) -> None:
    known = slip(many)
    report = many.node.run()
    assert stopped(report) == (20, 20)
    assert report.braked is not None
    assert (report.braked.revision, report.braked.catalogue) == (present(many.node), known.revision)
    assert report.braked.lowered == 20
    assert set(actual(many.node)) == {RICH}


def test_an_approval_lets_just_this_catalogue_through(many: Cloud) -> None:
    slip(many)
    report = many.node.run()
    assert report.braked is not None
    many.node.approve(report.braked.revision)
    many.edit(replace(GOLD, keys={"total_iops_sec": "3"}))
    assert stopped(many.node.run()) == (20, 20), "somebody edited it again meanwhile"
    slip(many)
    again = many.node.run()
    assert stopped(again) == (20, 20), "and it went with the specs that it was given for"
    assert again.braked is not None
    many.node.approve(again.braked.revision)
    assert stopped(many.node.run()) is None
    assert set(actual(many.node)) == {SLIP}
    assert not many.node.state.load_approvals(), "it is used up"


def test_an_approval_of_rules_that_knew_no_catalogue_is_none_of_what_cinder_says(many: Cloud) -> None:
    many.node.approve("a" * 64)
    slip(many)
    assert stopped(many.node.run()) == (20, 20)


def test_a_type_that_lost_its_spec_releases_nothing_and_a_spec_that_says_0_is_braked(many: Cloud) -> None:
    many.edit(replace(GOLD, keys={"total_iops_sec": "0"}))
    stop = many.node.run().braked
    assert stop is not None
    assert stop.removed == 20
    many.edit(replace(GOLD, keys={}))
    assert codes(many.node.run()) == [Code.ORPHANED] * 20
    assert set(actual(many.node)) == {RICH}


def test_what_is_braked_is_kept_at_what_was_desired_before_when_guests_start_again(many: Cloud) -> None:
    slip(many)
    many.node.run()
    for each in many.node.hypervisor.by_uuid.values():
        many.node.hypervisor.restart(each)
    many.node.run()
    many.refresh()
    assert stopped(many.node.run()) == (20, 20)
    assert set(actual(many.node)) == {RICH}


# --- an approval that travels in the region's file


def approve_for_the_region(cloud: Cloud) -> None:
    cloud.node.orders = orders_for(cloud.refresh())


def test_what_the_region_approved_of_is_not_asked_again_on_every_node(many: Cloud) -> None:
    slip(many)
    approve_for_the_region(many)
    assert stopped(many.node.run()) is None
    assert set(actual(many.node)) == {SLIP}


def test_a_slip_that_touches_half_of_the_disks_is_braked_beside_what_the_region_approved_of(many: Cloud) -> None:
    many.edit(replace(GOLD, keys={"total_iops_sec": "40"}))
    approve_for_the_region(many)
    names = tuple(f"instance-{number:08}" for number in range(10))
    many.node.rules = Rules(
        rules=(Rule(name="slip", match=Match(guest=names), limits=SLIP, override=True),), revision="b" * 64
    )
    assert stopped(many.node.run()) == (10, 20)
    assert actual(many.node) == [RICH] * 10 + [Limits(total_iops_sec=40)] * 10


def test_a_rule_that_got_lost_during_a_hold_is_braked_when_the_hold_ends(tmp_path: Path) -> None:
    """What specs say during a hold does not count before its end: the rule's limits were desired last."""
    rule = Rule(name="noisy", match=ANYWHERE, limits=SLIP, override=True)
    cloud = settled(
        a_cloud(tmp_path, *(guest(n, a_volume(n)) for n in range(20)), rules=Rules(rules=(rule,), revision="a" * 64))
    )
    approve_for_the_region(cloud)
    held(cloud.node)
    cloud.node.rules = Rules(revision="b" * 64)
    cloud.node.run()
    cloud.node.now += timedelta(hours=3)
    assert stopped(cloud.node.run()) == (20, 20)


def test_what_the_region_approved_of_during_a_hold_is_not_asked_again_when_it_ends(many: Cloud) -> None:
    held(many.node)
    slip(many)
    approve_for_the_region(many)
    many.node.run()
    assert set(actual(many.node)) == {POOR}
    many.node.now += timedelta(hours=3)
    assert stopped(many.node.run()) is None
    assert set(actual(many.node)) == {SLIP}


def held(node: Node) -> None:
    """Every disk by an operator, for two hours."""
    for number in range(20):
        node.hold(number, "vda", POOR)
    node.run()


def test_what_the_region_approved_of_reaches_guests_that_started_again_with_other_limits(many: Cloud) -> None:
    """A node that restarted: Nova brings the limits of long ago, and each volume is to be asked for once more."""
    for each in many.node.hypervisor.by_uuid.values():
        many.node.hypervisor.restart(each, POOR)
    assert codes(many.node.run()) == [Code.VOLUME_NOT_FETCHED] * 20
    slip(many)
    approve_for_the_region(many)
    assert stopped(many.node.run()) is None
    assert set(actual(many.node)) == {SLIP}


def test_the_first_limits_of_volumes_that_were_just_met_are_no_change_of_what_is_desired(tmp_path: Path) -> None:
    """New guests are never held up, and every new volume is unknown in the pass that meets it first."""
    cloud = a_cloud(tmp_path, *(guest(n, a_volume(n)) for n in range(20)))
    cloud.node.run()
    cloud.refresh()
    assert stopped(cloud.node.run()) is None
    assert set(actual(cloud.node)) == {RICH}


# --- what is not known sets nothing free


@pytest.mark.parametrize("lost", ["the catalogue", "the volume"])
def test_a_hold_that_ends_while_cinders_limits_are_unknown_raises_nothing(
    cloud: Cloud, node: Node, lost: str
) -> None:
    """What was there before it is of old: Cinder may have cut it since."""
    node.hold(1, "vda", SLIP, timedelta(minutes=7))
    node.run()
    assert actual(node) == [SLIP, RICH]
    if lost == "the catalogue":
        node.catalogue = LOST
    else:
        node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(1)], SLIP)
    for _ in range(3):
        node.run()
    assert actual(node)[0] == SLIP
    cloud.refresh()
    node.run()
    assert actual(node) == [RICH] * 2, "and when it is known again, that"


def test_a_hold_that_ends_while_limits_are_unknown_may_lower(cloud: Cloud, node: Node) -> None:
    node.hold(1, "vda", Limits(total_iops_sec=9000), timedelta(minutes=7))
    node.run()
    node.catalogue = LOST
    node.run()
    node.run()
    assert actual(node) == [RICH] * 2


def test_a_disk_that_came_back_with_the_new_limits_is_not_raised_while_the_others_are_braked(many: Cloud) -> None:
    """Nova attaches with the spec as it is now, but for the lengths: the brake's guard must not take that away."""
    keys = {"total_iops_sec": "30", "total_iops_sec_max": "60", "total_iops_sec_max_length": "5"}
    many.edit(replace(GOLD, keys=keys))
    assert stopped(many.node.run()) == (20, 20)
    novas = Limits(total_iops_sec=30, total_iops_sec_max=60)
    many.node.hypervisor.restart(many.node.hypervisor.by_uuid[uuid_of(3)], novas)
    many.node.run()
    many.refresh()
    many.node.run()
    assert many.node.disk(3).actual == novas
    many.node.hypervisor.restart(many.node.hypervisor.by_uuid[uuid_of(4)], Limits())
    many.node.run()
    many.refresh()
    many.node.run()
    assert many.node.disk(4).actual == RICH, "one that came back without any is guarded"


@pytest.mark.parametrize(
    "contradict",
    [
        lambda known: replace(known, specs={}),
        lambda known: replace(known, types={}),
        lambda known: replace(known, volumes={id: replace(one, missing=True) for id, one in known.volumes.items()}),
    ],
    ids=["no specs", "no types", "no volumes"],
)
def test_disks_that_a_catalogue_no_longer_covers_are_unknown_and_make_the_pass_partial(
    cloud: Cloud, node: Node, contradict: Callable[[Catalogue], Catalogue]
) -> None:
    """Nothing is limited any more as anybody wants it, and all ends well: nobody would notice."""
    assert node.run().unknown == 0
    node.catalogue = contradict(cloud.refresh())
    report = node.run()
    assert (report.unknown, grade(report), actual(node)) == (2, Grade.PARTIAL, [RICH] * 2)


def test_a_volume_that_cinder_never_knew_is_unknown_and_one_attached_since_the_catalogue_is_new(
    tmp_path: Path,
) -> None:
    cloud = a_cloud(tmp_path, guest(1, a_volume(1)))
    cloud.node.run()
    known = cloud.refresh()
    missing = {id: replace(one, missing=True) for id, one in known.volumes.items()}
    cloud.node.catalogue = replace(known, volumes=missing)
    report = cloud.node.run()
    assert (codes(report), report.unknown, grade(report)) == ([Code.VOLUME_MISSING], 1, Grade.PARTIAL)

    cloud.refresh()
    cloud.node.hypervisor.attach(cloud.node.hypervisor.by_uuid[uuid_of(1)], "vdb", a_volume(7))
    report = cloud.node.run()
    assert (kinds(report).count("unknown"), report.unknown, grade(report)) == (1, 0, Grade.GOOD)
    known = cloud.node.catalogue
    cloud.node.catalogue = replace(known, issued=cloud.node.now + timedelta(minutes=1))
    report = cloud.node.run()
    assert (kinds(report).count("unknown"), report.unknown) == (1, 1), "it was to be in this one"


# --- rules that the region approved of


@pytest.mark.parametrize(("named", "goes"), [("id-of-gold", True), ("id-of-bronze", False)])
def test_rules_that_the_region_approved_of_remove_limits_of_the_types_that_it_names(
    tmp_path: Path, named: str, goes: bool
) -> None:
    cloud = settled(a_cloud(tmp_path, guest(1, a_volume(1))))
    free = Rule(name="free", match=ANYWHERE, limits=Limits(), override=True)
    cloud.node.rules = Rules(rules=(free,), revision="b" * 64)
    end = NOON + timedelta(days=7)
    approval = RegionApproval(
        of=Of.RULES, digest="b" * 64, since=NOON, until=end, by="ann", why="meant", remove=frozenset({named})
    )
    cloud.node.orders = Orders(approvals=(approval,))
    assert (cloud.node.run().braked is None) == goes
    assert actual(cloud.node) == [Limits() if goes else RICH]


@pytest.mark.parametrize("of", ["rules", "revision"])
def test_an_approval_of_rules_alone_is_none_of_a_spec_and_one_of_the_revision_is(many: Cloud, of: str) -> None:
    slip(many)
    digest = many.node.rules.revision if of == "rules" else present(many.node)
    approval = RegionApproval(
        of=Of.RULES, digest=digest, since=NOON, until=NOON + timedelta(days=7), by="ann", why="meant"
    )
    many.node.orders = Orders(approvals=(approval,))
    assert (many.node.run().braked is None) == (of == "revision")


@pytest.mark.parametrize(
    ("overrides", "known", "of", "goes"),
    [
        (False, True, "rules", False),
        (False, True, "revision", True),
        (False, False, "rules", False),
        (True, True, "rules", True),
    ],
)
def test_an_approval_of_rules_is_none_of_a_spec_that_is_gone_so_that_rules_answer_for_it(
    tmp_path: Path, overrides: bool, known: bool, of: str, goes: bool
) -> None:
    """``known`` is whether the node still knows what kind of source it was; one that came by migration does not."""
    cloud = settled(a_cloud(tmp_path, guest(1, a_volume(1))))
    node = cloud.node
    if not known:
        memory = node.state.load_memory()
        assert memory is not None
        disks = {key: replace(each, source=None) for key, each in memory.disks.items()}
        node.state.save_memory(replace(memory, disks=disks))
    rest = Rule(name="rest", match=ANYWHERE, limits=SLIP, override=overrides)
    node.rules = Rules(rules=(rest,), revision="b" * 64)
    if not overrides:
        cloud.types["gold"] = None
        cloud.refresh()
    digest = node.rules.revision if of == "rules" else present(node)
    node.orders = Orders(
        approvals=(
            RegionApproval(
                of=Of.RULES, digest=digest, since=NOON, until=NOON + timedelta(days=7), by="ann", why="meant"
            ),
        )
    )
    assert (node.run().braked is None) == goes
    assert actual(node) == [SLIP if goes else RICH]
