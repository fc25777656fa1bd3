"""What a pass came to, and what it adds up to with those before it: on passes over a whole fake node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.congestion.published import Factors
from plimsoll_agent.errors import NotFound, NotSent, Rejected
from plimsoll_agent.model.hypervisor import Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.monitor import pass_summary
from plimsoll_agent.monitor.pass_summary import TO_PROBE, LastCatalogue, LastDisk, LastPass, PassSetting
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind, Mode
from plimsoll_agent.rules.model import Match, Probing, Rule, Rules
from plimsoll_agent.store.refresh_state import Calls
from plimsoll_agent.util.frozen import replace
from tests.fakes import domain_xml, hangs, raising
from tests.unit.agent.congestion.values import a_factor_file
from tests.unit.clouds import a_catalogue
from tests.unit.lastpasses import a_last_disk
from tests.unit.node import DEFAULT, FSID, TIGHTER, UUIDS, Node, a_volume, guest, own_disk, set_by_hand, uuid_of

PAUSED = because(Code.PAUSED, file="/etc/plimsoll/paused", why="maintenance")
NO_CATALOGUE = Unknown(because(Code.NO_CATALOGUE, detail="?"))
FIVE_MINUTES = 300.0


class Watched:
    """A node whose passes are kept, five minutes after each other; ``last`` is what the newest came to."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.boot = "b1"
        self.uptime = 1000.0
        self.last: LastPass | None = None

    def passes(
        self, mode: Mode = Mode.ENFORCE, *, typed: str | None = None, complaint: str = "", **other: Any
    ) -> LastPass:
        """After one more; ``typed`` is the name of the type that all disks are said to have."""
        self.uptime += FIVE_MINUTES
        report = replace(self.node.run(mode, clock=lambda: self.uptime), complaint=complaint)
        if typed is not None:
            outcomes = [replace(each, disk=replace(each.disk, volume_type=typed)) for each in report.outcomes]
            report = replace(report, outcomes=tuple(outcomes))
        self.last = pass_summary.fold(self.last, report, self.setting(**other))
        return self.last

    def fails(self) -> LastPass:
        """After one that could not begin."""
        self.uptime += FIVE_MINUTES
        self.node.now += timedelta(minutes=5)
        self.last = pass_summary.failed(
            self.last, Mode.ENFORCE, "libvirt does not answer", "libvirt", self.node.now, self.setting()
        )
        return self.last

    def setting(self, **other: Any) -> PassSetting:
        ended = self.node.now + timedelta(seconds=2)
        return PassSetting(**{"version": "1.2.3", "boot": self.boot, "ended": ended} | other)

    def disk(self, number: int = 1, target: str = "vda") -> LastDisk:
        assert self.last is not None
        named = [each for each in self.last.disks if each.named.guest_uuid == uuid_of(number)]
        return next(each for each in named if each.named.target == target)

    def does(self, reads: int, read: int = 0, number: int = 1) -> None:
        self.node.disk(number).done = (reads, read, 0, 0)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(Node(tmp_path, guest(1, own_disk(1)), guest(2, a_volume(2))))


# --- disks


def test_a_disk_is_told_as_the_pass_left_it(watched: Watched) -> None:
    last = watched.passes()
    assert [(disk.kind, disk.actual, disk.desired) for disk in last.disks] == [(Kind.CHANGED, DEFAULT, DEFAULT)] * 2
    assert [disk.named.guest_uuid for disk in last.disks] == [UUIDS[1], UUIDS[2]]
    assert (last.guests, sum(disk.kind is Kind.CHANGED for disk in last.disks)) == (2, 2)


def test_what_was_only_planned_is_not_actual(watched: Watched) -> None:
    watched.passes(Mode.OBSERVE)
    assert (watched.disk().actual, watched.disk().desired) == (Limits(), DEFAULT)
    assert watched.disk().astray


def test_what_a_guest_does_not_tell_is_unknown_and_no_lack_of_limits(watched: Watched) -> None:
    watched.node.hypervisor.by_uuid[UUIDS[1]].trouble = hangs()
    watched.passes()
    disk = watched.disk()
    assert (disk.kind, disk.actual, disk.unlimited, disk.astray) == (Kind.UNKNOWN, None, None, False)


def test_after_a_write_without_an_answer_the_actual_limits_are_unknown(watched: Watched) -> None:
    first = watched.node.hypervisor.by_uuid[UUIDS[1]]
    watched.node.hypervisor.before["set_limits"] = lambda: setattr(first, "trouble", hangs())
    watched.passes()
    assert watched.disk().actual is None


def test_a_limit_that_was_refused_leaves_what_was_there(watched: Watched) -> None:
    watched.node.hypervisor.before["set_limits"] = raising(Rejected("no"))
    watched.passes()
    assert (watched.disk().kind, watched.disk().actual) == (Kind.FAILED, Limits())


def test_a_disk_without_a_limit_that_shall_have_none_is_not_astray() -> None:
    assert not a_last_disk(actual=Limits(), desired=Limits()).astray
    assert not a_last_disk(actual=Limits(), desired=None).astray


# --- what they did meanwhile


def test_averages_are_over_the_time_between_two_readings(watched: Watched) -> None:
    watched.does(1000, 4096)
    assert watched.passes().interval is None
    assert watched.disk().rates is None
    watched.does(1000 + 30_000, 4096 + 3_000_000)
    assert watched.passes().interval == FIVE_MINUTES
    rates = watched.disk().rates
    assert rates is not None
    assert (rates.read_iops, rates.read_bytes, rates.write_iops) == (100, 10_000, 0)
    assert watched.disk().shares["total_iops_sec"] == pytest.approx(100 / 250)


def test_requests_of_light_disks_add_up_over_passes_that_failed_too(watched: Watched) -> None:
    for reads in (0, 3000, 9000):
        watched.does(reads)
        last = watched.passes()
        watched.fails()
    assert [wait.requests for wait in last.totals.light.values()] == [pytest.approx(9000), 0]
    assert watched.last is not None
    assert watched.last.totals.light == last.totals.light


@pytest.mark.parametrize("lists_disks", [True, False])
def test_what_a_guest_does_while_it_is_not_read_is_in_the_averages_after_it(
    watched: Watched, lists_disks: bool
) -> None:
    """Two passes find it hung, or cannot even read which disks it has; the third reads it again."""
    watched.passes()
    there = watched.node.hypervisor.by_uuid[UUIDS[1]]
    xml = there.xml
    there.trouble, there.xml = (hangs(), xml) if lists_disks else (None, "<domain")
    for _ in range(2):
        last = watched.passes()
        assert [each.guest.uuid for each in last.unreachable] == [UUIDS[1]]
        assert last.hung_guests == ({UUIDS[1]} if lists_disks else set()), "nonsense is an answer"
    there.trouble, there.xml = None, xml
    watched.does(90_000)
    last = watched.passes()
    rates = watched.disk().rates
    assert rates is not None
    assert (rates.seconds, rates.read_iops, last.unread) == (3 * FIVE_MINUTES, 100, {})


@pytest.mark.parametrize(
    ("trouble", "hangs_"), [(hangs(), True), (NotSent("no call is free"), False), (NotFound("gone"), False)]
)
def test_a_guest_that_was_not_asked_or_is_gone_does_not_hang(
    watched: Watched, trouble: Exception, hangs_: bool
) -> None:
    watched.node.hypervisor.by_uuid[UUIDS[1]].trouble = trouble
    assert watched.passes().hung_guests == ({UUIDS[1]} if hangs_ else set())


def test_who_was_paused_is_told_as_the_last_pass_that_looked_found_it(watched: Watched) -> None:
    there = watched.node.hypervisor.by_uuid[UUIDS[1]]
    assert watched.passes().paused_guests == set()
    there.paused = True
    assert watched.passes().paused_guests == {UUIDS[1]}
    assert watched.fails().paused_guests == {UUIDS[1]}
    there.paused = False
    assert watched.passes().paused_guests == set()


def test_what_a_limit_allows_is_told_by_the_second(watched: Watched) -> None:
    watched.passes()
    watched.passes()
    # A tenth of a second's worth may be saved up: QEMU's bucket without a burst.
    assert watched.disk().allowed["total_iops_sec"] == pytest.approx((250 * 300 + 25) / 300)


def test_what_was_done_is_held_against_what_was_actual_during_it_not_against_the_new_limit(
    watched: Watched,
) -> None:
    watched.passes()
    watched.node.rules = Rules(default=TIGHTER)
    watched.does(250 * 300)
    watched.passes()
    disk = watched.disk()
    assert (disk.actual, disk.shares["total_iops_sec"], disk.at_limit) == (TIGHTER, 1.0, True)


def test_an_attachment_made_again_starts_from_nothing_though_the_volume_is_the_same(watched: Watched) -> None:
    watched.passes()
    again = replace(a_volume(2, DEFAULT), done=(10**6, 10**9, 0, 0))
    watched.node.hypervisor.attach(watched.node.hypervisor.by_uuid[UUIDS[2]], "vda", again)
    watched.passes()
    disk = watched.disk(2)
    assert disk.reading is not None
    assert (disk.rates, disk.shares, disk.allowed) == (None, {}, {})


def test_after_the_node_was_started_again_uptimes_of_before_are_no_readings(watched: Watched) -> None:
    watched.passes()
    watched.boot, watched.uptime = "b2", 2000.0
    watched.does(10**6)
    watched.passes()
    assert watched.disk().rates is None


def test_after_a_pass_that_failed_the_average_is_over_both_intervals(watched: Watched) -> None:
    watched.passes()
    watched.fails()
    watched.does(60_000)
    assert watched.passes().interval == 2 * FIVE_MINUTES
    rates = watched.disk().rates
    assert rates is not None
    assert rates.read_iops == 100


def test_what_one_guest_does_not_tell_is_missing_of_it_alone(watched: Watched) -> None:
    watched.passes()
    watched.node.hypervisor.by_uuid[UUIDS[1]].trouble = hangs()
    watched.passes()
    assert (watched.disk(1).shares, watched.disk(2).rates is None) == ({}, False)


# --- passes that failed


def test_a_failed_pass_keeps_what_was_known_of_disks_and_no_average(watched: Watched) -> None:
    watched.passes()
    good = watched.passes()
    assert good.disks[0].rates is not None
    last = watched.fails()
    assert (last.grade, last.trouble) == (Grade.FAILED, "libvirt does not answer")
    assert [disk.actual for disk in last.disks] == [DEFAULT] * 2
    assert [(disk.rates, disk.shares, disk.allowed) for disk in last.disks] == [(None, {}, {})] * 2
    assert (last.interval, last.phases) == (None, {})
    assert (last.looked, last.last_good) == (good.started, good.ended)
    assert last.sources["libvirt"] is False


def test_a_source_that_answers_again_is_up_again(watched: Watched) -> None:
    watched.fails()
    assert watched.passes().sources == dict.fromkeys(("libvirt", "rules", "record", "writes", "disks"), True)


def test_when_the_first_pass_of_all_fails_nothing_was_observed(watched: Watched) -> None:
    last = watched.fails()
    assert (last.looked, last.last_good, last.disks, last.grade) == (None, None, (), Grade.FAILED)
    assert last.totals.passes == {Grade.FAILED: 1}


# --- sums


def test_passes_and_outcomes_add_up(watched: Watched) -> None:
    watched.passes()
    watched.passes()
    watched.fails()
    totals = watched.passes().totals
    assert totals.passes == {Grade.GOOD: 3, Grade.FAILED: 1}
    assert totals.outcomes == {Kind.CHANGED: 2, Kind.IN_SYNC: 4}


def test_what_another_client_changed_and_plimsoll_reverted_is_counted_by_disk_and_by_type(watched: Watched) -> None:
    watched.passes(typed="gold")
    for _ in range(2):
        set_by_hand(watched.node.disk(1), Limits(total_iops_sec=9))
        watched.passes(typed="gold")
    last = watched.passes(typed="gold")
    assert (watched.disk(1).corrected, watched.disk(2).corrected) == (2, 0)
    assert last.totals.corrected == {"gold": 2}


def test_a_first_limit_and_a_new_wish_are_no_drift(watched: Watched) -> None:
    watched.passes()
    watched.node.rules = Rules(default=TIGHTER)
    assert watched.passes().totals.corrected == {}


def test_drift_that_was_only_seen_is_not_reverted(watched: Watched) -> None:
    watched.passes()
    set_by_hand(watched.node.disk(1), Limits(total_iops_sec=9))
    assert watched.passes(Mode.OBSERVE).totals.corrected == {}


def test_what_was_reverted_on_a_disk_that_left_stays_in_the_sum_of_its_type(watched: Watched) -> None:
    watched.passes(typed="gold")
    set_by_hand(watched.node.disk(1), Limits(total_iops_sec=9))
    watched.passes(typed="gold")
    del watched.node.hypervisor.by_uuid[UUIDS[1]]
    last = watched.passes(typed="gold")
    assert ([disk.named.guest_uuid for disk in last.disks], last.totals.corrected) == ([UUIDS[2]], {"gold": 1})


def test_what_was_reverted_is_not_forgotten_of_a_guest_that_two_passes_cannot_look_at(watched: Watched) -> None:
    """A counter that comes back with 0 has fallen."""
    watched.passes()
    set_by_hand(watched.node.disk(1), Limits(total_iops_sec=9))
    watched.passes()
    _hidden(watched.node)
    for _ in range(2):
        watched.passes()
    watched.node.hypervisor.by_uuid[UUIDS[1]].xml = None
    watched.passes()
    assert watched.disk(1).corrected == 1


def test_counts_survive_a_start_of_the_node(watched: Watched) -> None:
    watched.passes()
    set_by_hand(watched.node.disk(1), Limits(total_iops_sec=9))
    watched.passes()
    watched.boot = "b2"
    watched.passes()
    assert (watched.disk(1).corrected, watched.passes().totals.passes) == (1, {Grade.GOOD: 4})


# --- how good a pass was


def _hung(node: Node) -> None:
    node.hypervisor.by_uuid[UUIDS[1]].trouble = hangs()


def _hidden(node: Node) -> None:
    node.hypervisor.by_uuid[UUIDS[1]].xml = "<domain>"


def _paused(node: Node) -> None:
    node.paused = lambda: PAUSED


def _without_a_catalogue(node: Node) -> None:
    node.catalogue = NO_CATALOGUE


@pytest.mark.parametrize("trouble", [_hung, _hidden, _paused, _without_a_catalogue], ids=lambda each: each.__name__)
def test_a_pass_that_left_something_undone_is_not_a_good_one(
    watched: Watched, trouble: Callable[[Node], None]
) -> None:
    good = watched.passes().ended
    watched.node.rules = Rules(default=TIGHTER)
    trouble(watched.node)
    last = watched.passes()
    assert (last.grade, last.last_good) == (Grade.PARTIAL, good)


def test_rules_older_than_meant_make_no_good_pass_and_the_source_is_down(watched: Watched) -> None:
    last = watched.passes(complaint="rules.yaml:14: no")
    assert (last.grade, last.sources["rules"], last.trouble) == (Grade.PARTIAL, False, "rules.yaml:14: no")


def test_a_node_that_only_observes_has_good_passes_though_it_changes_nothing(watched: Watched) -> None:
    last = watched.passes(Mode.OBSERVE)
    assert (last.grade, last.enforcing, last.last_good) == (Grade.GOOD, False, last.ended)


def test_a_paused_node_that_only_observes_has_good_passes(watched: Watched) -> None:
    watched.node.paused = lambda: PAUSED
    last = watched.passes(Mode.OBSERVE)
    assert (last.grade, last.paused) == (Grade.GOOD, PAUSED)


def test_a_guest_that_went_away_in_mid_pass_is_nobodys_fault_and_not_silent(watched: Watched) -> None:
    watched.node.hypervisor.before["look"] = raising(NotFound("the guest is gone"))
    last = watched.passes()
    assert (last.grade, last.running_unreachable, last.guests) == (Grade.GOOD, (), 1)


def test_a_guest_that_cannot_be_looked_at_is_silent(watched: Watched) -> None:
    _hidden(watched.node)
    last = watched.passes()
    assert [each.guest.uuid for each in last.running_unreachable] == [UUIDS[1]]
    assert last.guests == 1


def test_a_record_that_cannot_be_written_is_a_source_that_is_down(watched: Watched) -> None:
    watched.node.state.record.mkdir()
    last = watched.passes()
    assert (last.sources["record"], last.grade) == (False, Grade.PARTIAL)


def test_the_brake_is_told_with_the_revision_to_approve(tmp_path: Path) -> None:
    watched = Watched(Node(tmp_path, *(guest(number, own_disk(number)) for number in range(9))))
    watched.node.rules = Rules(default=DEFAULT, revision="aaaaaa")
    watched.passes()
    watched.node.rules = Rules(default=Limits(total_iops_sec=3), revision="bbbbbb")
    last = watched.passes()
    assert (last.braked, last.braked_disks, last.grade) == ("bbbbbb", 9, Grade.PARTIAL)
    last = watched.passes(Mode.OBSERVE)
    assert (last.braked, last.braked_disks) == ("bbbbbb", 9)
    assert (last.grade, last.last_good) == (Grade.GOOD, last.ended), "it did all that it was asked"


# --- the node around it


def test_a_catalogue_is_a_source_only_where_one_is_configured(watched: Watched) -> None:
    assert "catalogue" not in watched.passes().sources
    watched.node.catalogue = NO_CATALOGUE
    last = watched.passes(stale_after=7200, calls=Calls(1, 2, {"cinder": 3}), busy=4)
    assert (last.sources["catalogue"], last.catalogue, last.busy) == (False, LastCatalogue(None, "", 7200), 4)
    assert last.calls.of_service == {"cinder": 3}


def test_the_parts_of_a_pass_are_told_each_by_its_name(watched: Watched) -> None:
    assert list(watched.passes().phases) == ["observe", "decide", "gate", "apply", "keep"]


def test_holds_that_stand_are_counted(watched: Watched) -> None:
    watched.passes()
    watched.node.hold(1, "vda", TIGHTER)
    assert watched.passes().holds == 1


# --- since when


def test_a_disk_has_been_in_a_state_since_the_first_pass_that_found_it_so(watched: Watched) -> None:
    first = watched.passes(Mode.OBSERVE)
    watched.node.now += timedelta(minutes=5)
    watched.passes(Mode.OBSERVE)
    assert watched.disk().since == first.started
    changed = watched.passes()
    assert (changed.disks[0].kind, watched.disk().since) == (Kind.CHANGED, watched.node.now)


def test_the_beginning_of_a_state_that_an_older_version_met_is_unknown(watched: Watched) -> None:
    last = watched.passes(Mode.OBSERVE)
    watched.last = replace(last, disks=tuple(replace(disk, since=None) for disk in last.disks))
    watched.passes(Mode.OBSERVE)
    assert watched.disk().since is None


def test_a_source_has_been_down_since_the_first_of_the_passes_that_found_it_down(watched: Watched) -> None:
    begun = watched.fails().started
    watched.fails()
    assert watched.last is not None
    assert watched.last.wrong_since == {"libvirt": begun}
    assert watched.passes().wrong_since == {}


def test_a_pause_and_an_unreachable_guest_have_a_beginning(watched: Watched) -> None:
    watched.node.paused = lambda: PAUSED
    _hidden(watched.node)
    begun = watched.passes().started
    watched.node.now += timedelta(minutes=5)
    assert watched.passes().wrong_since == {"paused": begun, UUIDS[1]: begun}


# --- no RBD disk is found, though there were some


@pytest.fixture
def lonely(tmp_path: Path) -> Watched:
    """A node with one guest of two disks."""
    return Watched(Node(tmp_path, guest(1)))


def described_in_another_way(node: Node, number: int) -> None:
    """As a libvirt that no longer calls the protocol by its name."""
    guest = node.hypervisor.by_uuid[uuid_of(number)]
    guest.xml = (
        domain_xml(guest).replace('protocol="rbd"', 'protocol="ceph"').replace("protocol='rbd'", "protocol='ceph'")
    )
    assert "ceph" in guest.xml


def test_disks_in_places_where_there_were_rbd_disks_are_missing_until_one_is_found(lonely: Watched) -> None:
    lonely.passes()
    described_in_another_way(lonely.node, 1)
    for _ in range(3):
        last = lonely.passes()
        assert [each.target for each in last.missing] == ["vda", "vdb"]
        assert (last.sources["disks"], last.grade) == (False, Grade.PARTIAL)
        assert last.notes == (because(Code.NO_DISK_FOUND, detail="instance-00000001 vda and 1 more"),)
    lonely.fails()
    assert lonely.passes().missing, "a failed pass finds nothing and forgets nothing"
    lonely.node.hypervisor.by_uuid[uuid_of(1)].xml = None
    last = lonely.passes()
    assert (last.missing, last.sources["disks"], last.notes) == ((), True, ())


def test_a_node_on_which_another_rbd_disk_is_found_misses_none(tmp_path: Path) -> None:
    watched = Watched(Node(tmp_path, guest(1), guest(2)))
    watched.passes()
    described_in_another_way(watched.node, 1)
    assert watched.passes().missing == ()
    described_in_another_way(watched.node, 2)
    assert {each.guest_uuid for each in watched.passes().missing} == {uuid_of(2)}


def test_a_volume_that_was_detached_leaves_nothing_in_its_place_and_is_not_missing(lonely: Watched) -> None:
    lonely.passes()
    there = lonely.node.hypervisor.by_uuid[uuid_of(1)]
    own = """<disk type="file" device="disk"><source file="/a"/><target dev="vdz" bus="virtio"/></disk></devices>"""
    there.disks.clear()
    there.xml = domain_xml(there).replace("</devices>", own)
    assert "vdz" in there.xml
    last = lonely.passes()
    assert (last.disks, last.missing) == ((), ())


def test_disks_that_the_kernel_maps_are_in_the_summary_and_make_no_pass_a_partial_one(lonely: Watched) -> None:
    there = lonely.node.hypervisor.by_uuid[uuid_of(1)]
    there.disks.clear()
    own = """<disk type="block" device="disk"><source dev="/dev/rbd0"/><target dev="vdz"/></disk></devices>"""
    there.xml = domain_xml(there).replace("</devices>", own)
    last = lonely.passes()
    assert (last.disks, last.kernel_mapped, last.grade) == ((), ("instance-00000001 vdz",), Grade.GOOD)
    assert lonely.fails().kernel_mapped == ("instance-00000001 vdz",)
    there.xml = None
    assert lonely.passes().kernel_mapped == ()


def test_disks_of_a_definition_without_any_disk_are_missing(lonely: Watched) -> None:
    lonely.passes()
    there = lonely.node.hypervisor.by_uuid[uuid_of(1)]
    there.xml = domain_xml(there).replace("<disk", "<drive").replace("</disk", "</drive")
    assert len(lonely.passes().missing) == 2


@pytest.mark.parametrize("gone", ["stopped", "unreachable", "migrating"])
def test_disks_of_guests_that_are_gone_or_were_not_read_are_not_missing(lonely: Watched, gone: str) -> None:
    lonely.passes()
    described_in_another_way(lonely.node, 1)
    there = lonely.node.hypervisor.by_uuid[uuid_of(1)]
    match gone:
        case "stopped":
            lonely.node.hypervisor.by_uuid.clear()
        case "unreachable":
            there.xml = "<domain"
        case _:
            there.movement = Movement.LEAVING
    assert lonely.passes().missing == ()


def test_a_pass_counts_the_guests_that_a_rule_chooses_for_probes_and_since_when(watched: Watched) -> None:
    assert watched.passes().guests_to_probe == 0
    probing = Probing(every=timedelta(minutes=5))
    canary = Rule(name="canary", match=Match(guest=(UUIDS[1],)), probe=probing)
    watched.node.rules = replace(watched.node.rules, rules=(canary,))
    first, second = watched.passes(), watched.passes()
    assert [each.guests_to_probe for each in (first, second)] == [1, 1]
    assert first.wrong_since[TO_PROBE] == second.wrong_since[TO_PROBE] == first.started
    watched.node.rules = replace(watched.node.rules, rules=(replace(canary, until=watched.node.now),))
    last = watched.passes()
    assert (last.guests_to_probe, TO_PROBE in last.wrong_since) == (0, False), "the rule has ended"


@pytest.mark.parametrize(("failures", "up"), [(0, True), (1, True), (2, False)])
def test_a_refresher_that_failed_twice_is_a_source_that_is_down_long_before_its_catalogue_is_stale(
    watched: Watched, failures: int, up: bool
) -> None:
    """Else an operator learns of it after hours, when volumes that were attached since are unknown."""
    watched.node.catalogue = a_catalogue(issued=watched.node.now)
    last = watched.passes(refreshes_failed=failures, refresh_trouble="Keystone: connection refused")
    assert (last.sources["catalogue"], last.sources["refresh"]) == (True, up)
    reasons = [note for note in last.notes if note.code is Code.REFRESH_FAILED]
    assert reasons == (
        [] if up else [because(Code.REFRESH_FAILED, refreshes=2, detail="Keystone: connection refused")]
    )


def test_factors_of_congestion_that_cannot_be_used_are_a_source_that_is_down(watched: Watched) -> None:
    """Else a node that does not fetch them is noticed once its disks are not reduced."""
    assert "congestion" not in watched.passes().sources, "switched off"
    watched.node.factors = Factors({FSID: a_factor_file()})
    assert watched.passes().sources["congestion"]
    watched.node.factors = Factors(fault="/x: expired")
    assert not watched.passes().sources["congestion"]
    watched.node.factors = Factors({FSID: a_factor_file()}, "/x: expired")
    assert watched.passes().sources["congestion"], "another machine publishes this cluster now"
    watched.node.factors = Factors({"c2": a_factor_file()}, "/x: expired")
    last = watched.passes()
    assert (last.sources["congestion"], last.grade) == (False, Grade.GOOD)
    assert because(Code.CONGESTION_UNKNOWN, detail="/x: expired") in last.notes
    assert last.wrong_since["congestion"] == last.started


def test_a_cluster_that_was_asked_and_lets_changes_through_is_remembered(tmp_path: Path) -> None:
    watched = Watched(Node(tmp_path, guest(1, a_volume(1)), rules=Rules(default=Limits(total_iops_sec=250))))
    assert watched.passes().healthy == set(), "a first limit is set without asking"
    watched.node.rules = Rules(default=Limits(total_iops_sec=300))
    watched.node.ceph.raised = ("SLOW_OPS",)
    assert watched.passes().healthy == set()
    watched.node.ceph.raised = ()
    assert watched.passes().healthy == {FSID}
    assert watched.fails().healthy == {FSID}, "as the disks, it is what the last good observation found"
    assert watched.passes().healthy == set(), "nothing is left to raise"
