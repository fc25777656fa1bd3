"""Random histories of two nodes, and that what they are held against would notice."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from plimsoll_agent.catalogue.orders import Orders
from plimsoll_agent.model.approvals import digest_of_change
from plimsoll_agent.policy import adoption, memory
from plimsoll_agent.reconcile import apply, brake
from plimsoll_agent.reconcile import run as passes
from plimsoll_agent.reconcile.caution import Caution
from plimsoll_agent.reconcile.health_gate import Gate
from plimsoll_agent.reconcile.outcome import Mode, PassReport
from plimsoll_agent.store import clock, node_store
from plimsoll_agent.store.record import Record
from plimsoll_agent.util.frozen import replace
from tests import depth
from tests.fakes import FakeGuest
from tests.unit import node
from tests.unit.histories import History, Trap, Word, iops, key_of

STEPS = 50
A_FEW = depth.count(quick=2, landing=24, soak=2500)
"""At soak depth that is more than 10^5 steps."""

sides = st.sampled_from(["a", "b"])
numbers = st.sampled_from([20, 250, 600, 1000, 3000])
maybe = st.none() | numbers
guests = st.integers(0, 3)
picks = st.integers(0, 2)
somewhere = st.sampled_from(["set_limits", "set_limits", "intend", "remember", "conclude"])
WRITES = ["intend", "remember", "conclude", "note_moves", "use_up_approvals"]


class Broken(AssertionError):
    """Something that always holds did not."""


class Histories(RuleBasedStateMachine):
    """What may happen to two nodes. A history ends at rest."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.history = History(Path(self.directory.name))
        self.begins()

    def begins(self) -> None:
        """Where a planted bug is met soon."""

    def teardown(self) -> None:
        try:
            if not self.history.broken:
                self.history.rest()
            self.holds()
        finally:
            self.directory.cleanup()

    @invariant()
    def holds(self) -> None:
        if self.history.broken:
            raise Broken("\n".join(self.history.broken))

    def one(self, number: int, pick: int) -> tuple[FakeGuest, str]:
        guest = self.history.guests[number]
        return guest, sorted(guest.disks)[pick % len(guest.disks)]

    # --- passes

    @rule(side=sides)
    def passes(self, side: str) -> None:
        self.history.run(side)

    @rule(side=sides, mode=st.sampled_from(Mode), guest=st.none() | guests, yes=st.sampled_from([False, False, True]))
    def another_pass(self, side: str, mode: Mode, guest: int | None, yes: bool) -> None:
        self.history.run(side, mode, None if guest is None else self.history.guests[guest], yes=yes)

    @rule(side=sides, call=somewhere, nth=st.integers(1, 3), after=st.booleans(), hard=st.booleans())
    def a_pass_is_killed(self, side: str, call: str, nth: int, after: bool, hard: bool) -> None:
        self.history.run(side, trap=Trap(call, nth if call == "set_limits" else 1, after, hard))

    @rule(side=sides, full=st.sets(st.sampled_from(WRITES), min_size=1))
    def the_disk_is_full(self, side: str, full: set[str]) -> None:
        self.history.run(side, full=full)

    # --- edits

    @rule(default=maybe)
    def default(self, default: int | None) -> None:
        self.history.edit(default=default)

    @rule(group=maybe)
    def group(self, group: int | None) -> None:
        self.history.edit(group=group)

    @rule(own=maybe, unmanaged=st.booleans())
    def other_rules(self, own: int | None, unmanaged: bool) -> None:
        self.history.edit(own=own, unmanaged=unmanaged)

    @rule(limits=maybe, minutes=st.sampled_from([12, 300]))
    def night(self, limits: int | None, minutes: int) -> None:
        until = self.history.world.now + timedelta(minutes=minutes)
        self.history.edit(night=None if limits is None else (limits, until))

    @rule(type=st.sampled_from(["gold", "bronze"]), number=maybe)
    def spec(self, type: str, number: int | None) -> None:
        self.history.spec(type, number)
        for side in "ab":
            self.history.refresh(side)

    @rule(guest=guests, type=st.sampled_from(["gold", "bronze", None]))
    def retype(self, guest: int, type: str | None) -> None:
        volumes = [disk.volume_id for disk in self.history.guests[guest].disks.values() if disk.volume_id]
        for volume in volumes[:1]:
            self.history.retype(volume, type)

    @rule(side=sides)
    def refresh(self, side: str) -> None:
        self.history.refresh(side)

    # --- people

    @rule(guest=guests, pick=picks, limits=maybe, ignore=st.booleans(), minutes=st.sampled_from([12, 300]))
    def hold(self, guest: int, pick: int, limits: int | None, ignore: bool, minutes: int) -> None:
        owner, target = self.one(guest, pick)
        side = self.history.side_of(owner)
        value = None if limits is None else iops(limits)
        self.history.hold(side, owner, target, value, span=timedelta(minutes=minutes), ignore_health=ignore)

    @precondition(lambda self: self.history.held)
    @rule(side=sides, pick=st.integers(0, 9))
    def end_hold(self, side: str, pick: int) -> None:
        self.history.end_hold(side, sorted(self.history.held)[pick % len(self.history.held)])

    @rule(side=sides, remove=st.booleans())
    def approve(self, side: str, remove: bool) -> None:
        self.history.approve(side, self.history.revision(side), remove=remove)

    @rule(guest=guests, pick=picks, remove=st.booleans())
    def approve_one(self, guest: int, pick: int, remove: bool) -> None:
        owner, target = self.one(guest, pick)
        side, key = self.history.side_of(owner), key_of(owner, owner.disks[target])
        word, _ = self.history.word(side, key)
        if not isinstance(word, Word):
            self.history.approve(side, digest_of_change(key, word), remove=remove)

    @rule(guest=guests, pick=picks, limits=maybe, anywhere=st.booleans(), minutes=st.sampled_from([12, 300]))
    def region_hold(self, guest: int, pick: int, limits: int | None, anywhere: bool, minutes: int) -> None:
        owner, target = self.one(guest, pick)
        disk = owner.disks[target]
        named = disk.volume_id if anywhere and disk.volume_id else key_of(owner, disk)
        self.history.region_hold(named, None if limits is None else iops(limits), timedelta(minutes=minutes))

    @rule(side=sides, minutes=st.sampled_from([12, 300]))
    def region_approval(self, side: str, minutes: int) -> None:
        self.history.region_approval(self.history.revision(side), timedelta(minutes=minutes))

    @rule(minutes=st.none() | st.just(12))
    def region_pause(self, minutes: int | None) -> None:
        self.history.region_pause(None if minutes is None else timedelta(minutes=minutes))

    @precondition(lambda self: self.history.orders != Orders())
    @rule()
    def nothing_is_decided_for_the_region(self) -> None:
        self.history.decide_for_region(approvals=(), pause=None, holds=())

    @rule(side=sides, paused=st.booleans())
    def pause(self, side: str, paused: bool) -> None:
        self.history.pause(side, paused)

    # --- the world

    @rule(well=st.booleans())
    def ceph(self, well: bool) -> None:
        self.history.ceph(well)

    @rule(guest=guests, pick=picks, limits=maybe, behind=st.booleans())
    def by_hand(self, guest: int, pick: int, limits: int | None, behind: bool) -> None:
        owner, target = self.one(guest, pick)
        self.history.by_hand(owner, owner.disks[target], iops(limits), behind_libvirt=behind)

    @rule(guest=guests, defined=maybe)
    def reboot(self, guest: int, defined: int | None) -> None:
        owner = self.history.guests[guest]
        self.history.reboot(self.history.side_of(owner), owner, iops(defined))

    @rule(guest=guests)
    def detach(self, guest: int) -> None:
        owner = self.history.guests[guest]
        if len(owner.disks) > 1:
            self.history.detach(owner, max(owner.disks))

    @precondition(lambda self: self.history.detached)
    @rule(limits=maybe)
    def attach(self, limits: int | None) -> None:
        owner = self.history.detached[0][0]
        self.history.attach(self.history.side_of(owner), iops(limits))

    @rule(guest=guests)
    def migrate(self, guest: int) -> None:
        owner = self.history.guests[guest]
        self.history.migrate(self.history.side_of(owner), owner)

    @rule(side=sides, days=st.sampled_from([-400, -2, 0, 2, 400]))
    def the_clock_jumps(self, side: str, days: int) -> None:
        self.history.set_clock(side, timedelta(days=days))

    @rule(side=sides, corrupt=st.booleans())
    def the_memory_is_lost(self, side: str, corrupt: bool) -> None:
        self.history.lose_memory(side, corrupt=corrupt)

    @rule(minutes=st.sampled_from([10, 60, 1500]))
    def time_goes_by(self, minutes: int) -> None:
        self.history.wait(timedelta(minutes=minutes))

    @precondition(lambda self: not self.history.broken)
    @rule()
    def rests(self) -> None:
        self.history.rest()


def so_many(examples: int, **other: Any) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        # No shrinking: that takes minutes. The steps of the history are printed as they were.
        phases=(Phase.generate,),
        **other,
    )


@pytest.fixture(autouse=True)
def _nodes_do_not_lose_power(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that is killed here is a process, so nothing has to reach the disk."""
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)


def test_what_always_holds() -> None:
    # At soak depth other histories each time; before a change lands, always the same.
    run_state_machine_as_test(Histories, settings=so_many(A_FEW, derandomize=depth.DEPTH is not depth.Depth.SOAK))


# --- the checks bite


@dataclass(frozen=True)
class Bug:
    """``breaks`` is the number of the invariant; histories begin where the bug is met soon."""

    breaks: int
    plant: Callable[[pytest.MonkeyPatch], None]
    begins: Callable[[History], object] = lambda _: None


def _planting(*where: object, name: str, does: object) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for each in where:
            patch.setattr(each, name, does)

    return plant


def _ignoring_pause(*words: Any, caution: Caution, **others: Any) -> PassReport:
    return passes.run_pass(*words, caution=replace(caution, paused=lambda: None), **others)


def _does_not_know_marks(patch: pytest.MonkeyPatch) -> None:
    """Nor does a lost memory learn from the record: marks and record stand in for each other."""
    patch.setattr(node_store, "_from_record", lambda _record, _now: {})
    patch.setattr(adoption, "_is_newer", lambda *_: False)


def _limited(history: History) -> None:
    history.run("a")


def _is_to_be_raised_while_ceph_is_unwell(history: History) -> None:
    _limited(history)
    history.ceph(False)
    history.hold("a", history.guests[0], "vda", iops(3000))
    history.run("a")


def _is_cut_by_a_slip(history: History) -> None:
    _limited(history)
    history.edit(own=20)


def _died_after_a_write(history: History) -> None:
    history.run("a", trap=Trap("set_limits", after=True))


def _lowered_on_a_full_disk(history: History) -> None:
    history.edit(default=None)
    _limited(history)
    history.edit(default=250)
    history.run("a", full=["intend", "remember"])


def _lost_its_memory(history: History) -> None:
    _limited(history)
    history.lose_memory("a", corrupt=False)
    history.edit(default=200)


def _is_held(history: History) -> None:
    history.hold("a", history.guests[0], "vda", iops(20), span=timedelta(days=1))
    history.run("a")
    history.set_clock("a", timedelta(days=400))


def _is_held_for_the_region(history: History) -> None:
    owner = history.guests[0]
    history.region_hold(key_of(owner, owner.disks["vda"]), iops(20), timedelta(days=1))
    history.run("a")


def _is_paused(history: History) -> None:
    history.pause("a", True)
    history.run("a")


def _is_paused_with_its_region(history: History) -> None:
    history.region_pause(None)
    history.run("a")


def _a_member_of_a_group_is_held(history: History) -> None:
    history.edit(group=250)
    _limited(history)
    history.hold("a", history.guests[1], "vdc", None, span=timedelta(days=1))
    history.edit(group=200)


PLANTED = {
    "the gate keeps nothing": Bug(
        1, _planting(Gate, name="keeps", does=lambda *_: {}), _is_to_be_raised_while_ceph_is_unwell
    ),
    "the brake stops nothing": Bug(
        1, _planting(passes, name="braked", does=lambda *_, **__: None), _is_cut_by_a_slip
    ),
    "the brake forgets what was desired": Bug(
        1, _planting(brake, name="_last", does=lambda *_: None), _is_cut_by_a_slip
    ),
    "groups.withheld does nothing": Bug(
        1,
        _planting(passes, apply, name="withheld", does=lambda outcomes: list(outcomes)),
        _a_member_of_a_group_is_held,
    ),
    "using the system clock": Bug(1, _planting(clock, name="_STEP", does=timedelta(days=9999)), _is_held),
    "holds of the region are ignored": Bug(
        1, _planting(Orders, name="hold", does=lambda *_: None), _is_held_for_the_region
    ),
    "the region approves of anything": Bug(
        1, _planting(Orders, name="approve", does=lambda *_, **__: True), _is_cut_by_a_slip
    ),
    "no intent is recorded": Bug(
        2, _planting(Record, name="intend", does=lambda _record, changes, *_: [0] * len(changes))
    ),
    "nothing is settled": Bug(
        2, _planting(node_store, name="settled", does=lambda *_, **__: ([], {})), _died_after_a_write
    ),
    "what was put is forgotten": Bug(
        3, _planting(memory, name="remembered_after", does=lambda _change, remembered, _now: remembered)
    ),
    "what was put on a full disk is forgotten": Bug(
        3,
        _planting(adoption, name="_is_newer", does=lambda _mark, known, _disk: known is None),
        _lowered_on_a_full_disk,
    ),
    "what was put is forgotten with the memory": Bug(3, _does_not_know_marks, _lost_its_memory),
    "a pause is ignored": Bug(4, _planting(node, name="run_pass", does=_ignoring_pause), _is_paused),
    "a pause of the region is ignored": Bug(
        4, _planting(Orders, name="paused", does=lambda *_: None), _is_paused_with_its_region
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED.values(), ids=list(PLANTED))
def test_what_always_holds_does_not_hold_with_this_bug(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    monkeypatch.setattr(Histories, "begins", lambda self: bug.begins(self.history))
    with pytest.raises(Broken) as found:
        run_state_machine_as_test(Histories, settings=so_many(A_FEW, derandomize=True))
    assert str(bug.breaks) in {line[0] for line in str(found.value).splitlines()}
