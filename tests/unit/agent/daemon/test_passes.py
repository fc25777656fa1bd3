"""How a pass of the daemon over one guest ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.daemon.connections import Connections
from plimsoll_agent.daemon.passes import Between, full_pass, guest_pass
from plimsoll_agent.daemon.rules_watch import RulesWatch
from plimsoll_agent.daemon.schedule import PassResult
from plimsoll_agent.daemon.workers import FullPassResult
from plimsoll_agent.errors import DeadlineExceeded, NotSent, PlimsollError, Rejected
from plimsoll_agent.model.hypervisor import Movement, Sighting, Versions
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.rules.loader import Read
from plimsoll_agent.store.state import State
from plimsoll_agent.util import schema
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeGuest, FakeHypervisor
from tests.unit.node import a_volume, guest, uuid_of
from tests.unit.places import NO_CLUSTER, settings_in


class Connected(FakeHypervisor):
    def __init__(self, *guests: FakeGuest) -> None:
        super().__init__(*guests)
        self.looked: set[str] = set()
        self.asked_versions = 0

    def versions(self) -> Versions:
        self.asked_versions += 1
        return super().versions()

    def look(self, uuid: str) -> Sighting:
        self.looked.add(uuid)
        return super().look(uuid)

    def close(self) -> None: ...


class Passes:
    def __init__(self, directory: Path) -> None:
        self.rules = directory / "rules.yaml"
        self.rules.write_text("default: {limits: {total_iops_sec: 250}}")
        self.settings = settings_in(directory, ceph=NO_CLUSTER)
        self.hypervisor = Connected(guest(1), guest(2))
        self.guest = self.hypervisor.by_uuid[uuid_of(1)]
        self.connections = Connections(lambda: self.hypervisor)
        self.between = Between()
        self.told = 0
        self.read: Read = schema.read

    def over(self, uuid: str = uuid_of(1)) -> PassResult:
        return guest_pass(self.settings, self.connections, self.between, uuid, self.progress, read=self.read)

    def over_the_node(self) -> FullPassResult:
        return full_pass(self.settings, self.connections, self.between, self.progress, read=self.read)

    def rules_at_rest(self, text: str) -> None:
        """Those that the daemon believes; the file has others by now."""
        self.read = lambda _: text

    @property
    def changed(self) -> int:
        """Disks, by what the last pass over the node has published."""
        last = pass_summary_file.load(State(self.settings.state_dir))
        assert last is not None
        return last.totals.outcomes.get(Kind.CHANGED, 0)

    def progress(self) -> None:
        self.told += 1


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    return Passes(tmp_path)


def test_a_pass_changes_what_differs_and_the_next_finds_it_in_sync(passes: Passes) -> None:
    assert [passes.over(), passes.over()] == [PassResult.CHANGED, PassResult.IN_SYNC]


def test_a_pass_over_the_node_asks_for_versions_though_nothing_is_to_be_changed(passes: Passes) -> None:
    """Libvirtd's first answer takes a second, which the first guest that starts would have to wait."""
    passes.hypervisor.by_uuid.clear()
    assert passes.over_the_node() is FullPassResult.DONE
    assert passes.hypervisor.asked_versions == 1


@pytest.mark.parametrize("movement", [Movement.LEAVING, Movement.ARRIVING])
def test_a_guest_that_migrates_has_its_pass_postponed(passes: Passes, movement: Movement) -> None:
    passes.guest.movement = movement
    assert passes.over() is PassResult.POSTPONED
    passes.guest.movement = Movement.STAYS
    assert passes.over() is PassResult.CHANGED


@pytest.mark.parametrize(
    ("trouble", "result"),
    [
        (NotSent("not asked: the guest is busy"), PassResult.POSTPONED),
        (DeadlineExceeded("no answer from QEMU within 5 s"), PassResult.UNREACHABLE),
        (Rejected("libvirt: no"), PassResult.INCOMPLETE),
    ],
)
def test_what_is_known_of_a_guest_whose_limits_are_unknown(
    passes: Passes, trouble: PlimsollError, result: PassResult
) -> None:
    passes.guest.trouble = trouble
    assert passes.over() is result


def test_a_guest_that_is_gone_costs_no_look_at_the_others(passes: Passes) -> None:
    assert passes.over(uuid_of(7)) is PassResult.GONE
    assert passes.hypervisor.calls == ["guests"]


def test_guests_that_hang_do_not_stop_the_pass_over_another_one(passes: Passes) -> None:
    """A pass over the node judges rules; until then a pass over one guest asks no other guest."""
    for number in (2, 3, 4):
        passes.hypervisor.by_uuid[uuid_of(number)] = replace(guest(number), trouble=DeadlineExceeded("no answer"))
    assert passes.over() is PassResult.CHANGED
    assert passes.hypervisor.looked == {uuid_of(1)}


def test_a_large_change_by_rules_that_no_pass_over_the_node_has_judged_waits_for_one(passes: Passes) -> None:
    assert passes.over_the_node() is FullPassResult.DONE
    passes.rules.write_text("default: {limits: {total_iops_sec: 100}}")
    assert passes.over() is PassResult.INCOMPLETE
    assert passes.guest.disks["vda"].actual == Limits(total_iops_sec=250)
    passes.hypervisor.attach(passes.guest, "vdz", a_volume(9))
    assert passes.over() is PassResult.CHANGED
    assert passes.guest.disks["vdz"].actual == Limits(total_iops_sec=100), "first limits are no large change"
    assert passes.over_the_node() is FullPassResult.DONE
    assert passes.guest.disks["vda"].actual == Limits(total_iops_sec=100), "the brake allows a few disks"
    assert passes.over() is PassResult.IN_SYNC


def test_a_guest_started_while_rules_wait_for_a_judgement_has_its_limits_from_before(passes: Passes) -> None:
    assert passes.over() is PassResult.CHANGED
    passes.rules.write_text("default: {limits: {total_iops_sec: 100}}")
    passes.hypervisor.restart(passes.guest)
    assert passes.over() is PassResult.CHANGED
    assert passes.guest.disks["vda"].actual == Limits(total_iops_sec=250)


def test_passes_use_the_rules_that_the_daemon_read_whatever_the_file_has_now(passes: Passes) -> None:
    passes.rules_at_rest("default: {limits: {total_iops_sec: 240}}")
    assert passes.over() is PassResult.CHANGED
    assert passes.guest.disks["vda"].actual == Limits(total_iops_sec=240)
    passes.rules_at_rest("default: {limits: {total_iops_sec: 230}}")
    assert passes.over_the_node() is FullPassResult.DONE
    assert passes.guest.disks["vda"].actual == Limits(total_iops_sec=230)


def test_rules_that_are_being_written_are_no_failed_pass_and_no_other_pass_that_runs(passes: Passes) -> None:
    state, watch = State(passes.settings.state_dir), RulesWatch(passes.rules)
    passes.read = watch.text
    assert passes.over_the_node() is FullPassResult.DONE
    before = pass_summary_file.load(state)
    passes.rules.write_text("default: {limits: {total_iops_sec: 240}}")
    assert passes.over_the_node() is FullPassResult.POSTPONED
    assert pass_summary_file.load(state) == before
    assert state.busy == 0
    with state.locked():
        assert passes.over_the_node() is FullPassResult.BUSY
    assert state.busy == 1
    watch.read(passes.rules)
    assert passes.over_the_node() is FullPassResult.DONE


def test_what_passes_over_guests_change_is_counted_by_the_next_pass_over_the_node_once(passes: Passes) -> None:
    assert passes.over() is PassResult.CHANGED
    assert [(passes.over_the_node(), passes.changed) for _ in range(2)] == [
        (FullPassResult.DONE, 4),
        (FullPassResult.DONE, 4),
    ]


def test_each_guest_that_a_pass_looks_at_or_changes_is_progress(passes: Passes) -> None:
    def calls() -> int:
        """At least: a list, a survey of each guest, and what the disks were set to."""
        known = passes.hypervisor
        return 1 + len(known.looked) + len(known.writes)

    assert passes.over() is PassResult.CHANGED
    assert passes.told >= calls() == 4
    passes.hypervisor.looked.clear()
    passes.hypervisor.writes.clear()
    passes.told = 0
    assert passes.over_the_node() is FullPassResult.DONE
    assert passes.told >= calls() == 5
