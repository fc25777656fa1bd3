"""Random histories of two nodes, and that what they are held against would notice."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from plimsoll_agent import brake, ledger, passes
from plimsoll_agent.approvals import digest_of_change
from plimsoll_agent.gate import Gate
from plimsoll_agent.outcome import PassReport
from plimsoll_agent.passes import Caution, Mode
from plimsoll_agent.record import Record
from tests import depth
from tests.fakes import FakeGuest
from tests.unit import node
from tests.unit.histories import History, Trap, Word, iops, key_of

STEPS = 50
A_FEW = depth.count(quick=2, landing=12, soak=2500)
"""At soak depth that is more than 10^5 steps."""
BUDGET = 40
"""Within so many histories a planted bug is found; all of them are found within far fewer."""

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
        """What a planted bug needs to be met soon."""

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
        until = self.history.sides["a"].node.now + timedelta(minutes=minutes)
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
        deadline=None,
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


def _keeps_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gate, "keeps", lambda _gate, _changes: {})
    patch.setattr(Histories, "begins", lambda self: self.history.ceph(False))  # else many histories never meet it


def _ignores_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Histories, "begins", lambda self: self.history.pause("a", True))

    def ignoring(*words: Any, caution: Caution, **others: Any) -> PassReport:
        return passes.run_pass(*words, caution=replace(caution, paused=lambda: None), **others)

    patch.setattr(node, "run_pass", ignoring)


PLANTED: dict[str, tuple[int, Callable[[pytest.MonkeyPatch], None]]] = {
    "the gate keeps nothing": (1, _keeps_nothing),
    "the brake stops nothing": (1, lambda patch: patch.setattr(passes, "braked", lambda *_, **__: None)),
    "the brake forgets what was desired": (1, lambda patch: patch.setattr(brake, "_last", lambda *_: None)),
    "no intent is recorded": (
        2,
        lambda patch: patch.setattr(Record, "intend", lambda _record, changes, *_: [0] * len(changes)),
    ),
    "what was put is forgotten": (
        3,
        lambda patch: patch.setattr(ledger, "remembered_after", lambda _change, remembered, _now: remembered),
    ),
    "a pause is ignored": (4, _ignores_pause),
}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "plant"), PLANTED.values(), ids=list(PLANTED))
def test_what_always_holds_does_not_hold_with_this_bug(
    number: int, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Broken) as found:
        run_state_machine_as_test(Histories, settings=so_many(BUDGET, derandomize=True))
    assert str(number) in {line[0] for line in str(found.value).splitlines()}
