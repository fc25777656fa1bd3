"""What the daemon does next: tables, and a machine of events, passes and time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from plimsoll_agent.daemon import schedule as module
from plimsoll_agent.daemon.schedule import EventEffect, PassResult, Schedule
from plimsoll_agent.model.guest_events import EventKind, GuestEvent
from plimsoll_agent.util.frozen import replace
from tests import depth

A, B = "aaaaaaaa-0000-4000-8000-000000000000", "bbbbbbbb-0000-4000-8000-000000000000"
LIMITS = {"total_iops_sec": 250, "read_iops_sec": 0}


def an_event(kind: EventKind, uuid: str = A, **more: object) -> GuestEvent:
    return GuestEvent(uuid=uuid, name=f"instance-{uuid[:8]}", kind=kind, **more)  # type: ignore[arg-type]


def tuned(limits: Mapping[str, object], target: str = "vda") -> GuestEvent:
    return an_event(EventKind.TUNABLE, target=target, limits=limits)


@pytest.fixture
def schedule() -> Schedule:
    """Connected, with no full pass due for 300 s."""
    schedule = Schedule(300, connected=True)
    assert schedule.begin_full_pass(0)
    schedule.full_pass_ended(True, 0)
    return schedule


@pytest.mark.parametrize(
    ("kind", "begins"),
    [
        (EventKind.STARTED, True),
        (EventKind.ARRIVING, False),
        (EventKind.RESUMED, True),
        (EventKind.STOPPED, False),
        (EventKind.DEVICE_ADDED, True),
        (EventKind.DEVICE_REMOVED, False),
        (EventKind.TUNABLE, True),
        (EventKind.BLOCK_JOB, True),
        (EventKind.JOB_ENDED, True),
    ],
)
def test_which_events_lead_to_a_pass(schedule: Schedule, kind: EventKind, begins: bool) -> None:
    verdict = schedule.event(an_event(kind), 1)
    assert verdict is (EventEffect.PASS if begins else EventEffect.NONE)
    assert schedule.begin(1) == (A if begins else None)


def test_a_burst_of_events_leads_to_one_pass_and_one_more_for_those_that_came_during_it(schedule: Schedule) -> None:
    assert [schedule.event(an_event(EventKind.DEVICE_ADDED), 1) for _ in range(3)][1:] == [EventEffect.MERGED] * 2
    assert (schedule.begin(1), schedule.begin(1)) == (A, None)
    schedule.event(an_event(EventKind.DEVICE_ADDED), 2)
    schedule.event(an_event(EventKind.DEVICE_ADDED), 2)
    assert schedule.begin(2) is None, "one runs"
    assert (schedule.queue, schedule.wake_at()) == (0, 300), "until it ends there is nothing to wake for"
    schedule.ended(A, PassResult.CHANGED, 3)
    assert (schedule.begin(3), schedule.begin(3)) == (A, None)
    schedule.ended(A, PassResult.IN_SYNC, 4)
    assert schedule.begin(4) is None


def test_guests_are_served_in_the_order_of_their_first_event(schedule: Schedule) -> None:
    for uuid in (B, A, B):
        schedule.event(an_event(EventKind.STARTED, uuid), 1)
    assert [schedule.begin(1), schedule.begin(1)] == [B, A]


@pytest.mark.parametrize(
    ("event", "after", "verdict"),
    [
        (tuned(LIMITS), 1, EventEffect.ECHO),
        (tuned(LIMITS | {"group_name": "shared"}), 1, EventEffect.PASS),  # into a group, with the same limits
        (tuned(LIMITS), module.ECHO + 1, EventEffect.PASS),
        (tuned(LIMITS | {"total_iops_sec": 9}), 1, EventEffect.PASS),
        (tuned({"total_iops_sec": 250}), 1, EventEffect.PASS),  # part of the set: another client's
        (tuned(LIMITS, "vdb"), 1, EventEffect.PASS),
    ],
)
def test_the_echo_of_its_own_write_leads_to_no_pass(
    schedule: Schedule, event: GuestEvent, after: float, verdict: EventEffect
) -> None:
    schedule.wrote(A, "vda", LIMITS, 10)
    assert schedule.event(event, 10 + after) is verdict


@pytest.mark.parametrize(
    "between",
    [
        tuned(LIMITS | {"total_iops_sec": 100}),  # such as a hold's, in a process of its own
        an_event(EventKind.STOPPED),
        an_event(EventKind.STARTED),
        an_event(EventKind.ARRIVING),
        an_event(EventKind.DEVICE_REMOVED),
        an_event(EventKind.DEVICE_ADDED),
    ],
)
def test_what_changes_limits_or_disks_after_a_write_ends_its_echo(schedule: Schedule, between: GuestEvent) -> None:
    schedule.wrote(A, "vda", LIMITS, 10)
    schedule.wrote(A, "vdb", LIMITS, 10)
    schedule.wrote(B, "vda", LIMITS, 10)
    assert schedule.event(tuned(LIMITS), 11) is EventEffect.ECHO
    schedule.event(between, 12)
    assert schedule.event(tuned(LIMITS), 13) is not EventEffect.ECHO
    same_disk_only = between.kind is EventKind.TUNABLE
    assert (schedule.event(tuned(LIMITS, "vdb"), 13) is EventEffect.ECHO) is same_disk_only
    assert schedule.event(replace(tuned(LIMITS), uuid=B), 13) is EventEffect.ECHO


def test_an_external_change_after_a_write_is_none_of_its_echoes(schedule: Schedule) -> None:
    schedule.wrote(A, "vda", LIMITS, 10)
    schedule.wrote(A, "vda", LIMITS | {"total_iops_sec": 100}, 11)
    assert schedule.event(tuned(LIMITS), 12) is EventEffect.PASS, "the last write was another one"


def passes_of_a_flapping_guest(
    schedule: Schedule, until: float, kind: EventKind = EventKind.BLOCK_JOB
) -> list[float]:
    """When its passes begin, with an event each tenth of a second."""
    began, now = list[float](), 1.0
    while now < until:
        schedule.event(an_event(kind), now)
        if schedule.begin(now) is not None:
            began.append(now)
            schedule.ended(A, PassResult.IN_SYNC, now)
        now += 0.1
    return began


def test_passes_over_a_guest_that_flaps_are_spaced_out(schedule: Schedule) -> None:
    began = passes_of_a_flapping_guest(schedule, 120)
    gaps = [later - earlier for earlier, later in itertools.pairwise(began)]
    assert [round(gap) for gap in gaps[:12]] == [0, 0, 0, 0, 0, 1, 1, 1, 5, 5, 5, 30]
    assert [waiting.uuid for waiting in schedule.damped(120)] == [A]
    schedule.event(an_event(EventKind.STARTED, B), 120)
    assert schedule.begin(120) == B, "others are served at once"


@pytest.mark.parametrize("kind", [EventKind.STARTED, EventKind.DEVICE_ADDED])
def test_where_a_flapping_guest_may_have_a_disk_without_limits_its_pass_follows_within_a_second(
    schedule: Schedule, kind: EventKind
) -> None:
    began = passes_of_a_flapping_guest(schedule, 60, kind)
    assert [round(later - earlier) for earlier, later in itertools.pairwise(began)][6:] == [1] * (len(began) - 7)
    assert [waiting.uuid for waiting in schedule.damped(60)] == [A]


def test_a_guest_that_was_quiet_is_served_at_once_again(schedule: Schedule) -> None:
    last = passes_of_a_flapping_guest(schedule, 30)[-1]
    quiet = last + 31 + module.QUIET
    assert schedule.begin(quiet) == A
    schedule.ended(A, PassResult.IN_SYNC, quiet)
    assert schedule.damped(quiet) == ()
    schedule.event(an_event(EventKind.STARTED), quiet)
    assert schedule.begin(quiet) == A


def test_a_guest_that_does_not_answer_is_set_aside_for_longer_each_time(schedule: Schedule) -> None:
    schedule.event(an_event(EventKind.STARTED), 0)
    now, waits = 0.0, list[float]()
    for _ in range(9):
        assert schedule.begin(now) == A
        schedule.ended(A, PassResult.UNREACHABLE, now)
        (waiting,) = schedule.set_aside(now)
        assert schedule.begin(waiting.until - 0.1) is None
        waits.append(waiting.until - now)
        assert schedule.wake_at() <= waiting.until
        assert schedule.set_aside(waiting.until) == (), "it is due"
        now = waiting.until + 60  # no damping
    assert waits == [5, 10, 20, 40, 80, 160, 320, 600, 600]
    assert schedule.begin(now) == A
    schedule.ended(A, PassResult.IN_SYNC, now)
    assert (schedule.set_aside(now), schedule.queue) == ((), 0)


def test_a_guest_keeps_its_name_through_an_event_without_one(schedule: Schedule) -> None:
    schedule.event(an_event(EventKind.STARTED), 0)
    schedule.event(replace(an_event(EventKind.DEVICE_ADDED), name=""), 0)
    assert schedule.begin(0) == A
    schedule.ended(A, PassResult.UNREACHABLE, 0)
    assert [waiting.name for waiting in schedule.set_aside(0)] == ["instance-aaaaaaaa"]


@pytest.mark.parametrize("result", [PassResult.UNREACHABLE, PassResult.FAILED])
def test_a_guest_that_is_started_again_is_not_set_aside_any_more(schedule: Schedule, result: PassResult) -> None:
    schedule.event(an_event(EventKind.STARTED), 0)
    assert schedule.begin(0) == A
    schedule.ended(A, result, 0)
    schedule.event(an_event(EventKind.STARTED), 1)
    assert schedule.begin(1) == A


@pytest.mark.parametrize("during", [False, True])
@pytest.mark.parametrize(("result", "within"), [(PassResult.FAILED, 5), (PassResult.UNREACHABLE, 600)])
def test_a_guest_that_answers_is_not_set_aside_for_long_after_another_event(
    schedule: Schedule, result: PassResult, within: float, during: bool
) -> None:
    schedule.event(an_event(EventKind.STARTED), 0)
    now = 0.0
    for attempt in range(9):
        assert schedule.begin(now) == A
        if during and attempt == 8:
            schedule.event(an_event(EventKind.DEVICE_ADDED), now)
        schedule.ended(A, result, now)
        (waiting,) = schedule.set_aside(now)
        before, now = now, waiting.until + module.QUIET
    if not during:
        schedule.event(an_event(EventKind.DEVICE_ADDED), before)
        schedule.event(an_event(EventKind.RESUMED), before + 1)
    assert schedule.begin(before + within - 0.1) is None
    assert schedule.begin(before + within) == A


@pytest.mark.parametrize("result", [PassResult.UNREACHABLE, PassResult.BUSY, PassResult.POSTPONED])
def test_a_guest_that_stops_during_its_pass_is_not_tried_again(schedule: Schedule, result: PassResult) -> None:
    schedule.event(an_event(EventKind.STARTED), 0)
    assert schedule.begin(0) == A
    schedule.event(an_event(EventKind.STOPPED), 1)
    schedule.ended(A, result, 2)
    assert schedule.queue == 0


@pytest.mark.parametrize("result", [PassResult.UNREACHABLE, PassResult.BUSY])
def test_a_guest_that_is_started_during_its_pass_is_served_at_once(schedule: Schedule, result: PassResult) -> None:
    schedule.event(an_event(EventKind.STARTED), 0)
    assert schedule.begin(0) == A
    schedule.event(an_event(EventKind.STOPPED), 1)
    schedule.event(an_event(EventKind.STARTED), 2)
    schedule.ended(A, result, 3)
    assert schedule.begin(3) == A


def test_a_guest_that_has_stopped_waits_for_nothing(schedule: Schedule) -> None:
    schedule.event(an_event(EventKind.STARTED), 0)
    schedule.event(an_event(EventKind.STOPPED), 0)
    assert (schedule.begin(0), schedule.queue) == (None, 0)


def test_after_a_reconnect_no_guest_is_set_aside_and_a_full_pass_is_due(schedule: Schedule) -> None:
    schedule.event(an_event(EventKind.STARTED), 0)
    assert schedule.begin(0) == A
    schedule.connected = False
    schedule.ended(A, PassResult.UNREACHABLE, 0)
    assert schedule.set_aside(2) != ()
    schedule.reconnected(2)
    assert (schedule.set_aside(2), schedule.begin(2)) == ((), A)
    assert schedule.begin_full_pass(2)


def test_where_another_pass_works_on_the_guest_it_is_tried_again_soon(schedule: Schedule) -> None:
    schedule.event(an_event(EventKind.STARTED), 0)
    assert schedule.begin(0) == A
    schedule.ended(A, PassResult.BUSY, 0)
    assert schedule.set_aside(0) == (), "it has not failed"
    assert (schedule.begin(0), schedule.begin(module.BUSY_AGAIN)) == (None, A)


def test_guests_that_a_full_pass_kept_waiting_are_tried_again_when_it_ends(schedule: Schedule) -> None:
    schedule.full_pass_due(2)
    assert schedule.begin_full_pass(2)
    for uuid, result in ((A, PassResult.BUSY), (B, PassResult.FAILED)):
        schedule.event(an_event(EventKind.STARTED, uuid), 2)
        assert schedule.begin(2) == uuid
        schedule.ended(uuid, result, 2)
    assert schedule.begin(2.1) is None
    schedule.full_pass_ended(True, 2.2)
    assert schedule.wake_at() <= 2.2
    assert (schedule.begin(2.2), schedule.begin(2.2)) == (A, None), "what failed waits as before"


def test_a_pass_that_found_another_one_working_does_not_count_as_flapping(schedule: Schedule) -> None:
    schedule.event(an_event(EventKind.BLOCK_JOB), 0)
    for second in range(20):
        assert schedule.begin(second) == A, "each second"
        schedule.ended(A, PassResult.BUSY, second)
    assert schedule.damped(20) == ()
    schedule.event(an_event(EventKind.STOPPED), 20)
    schedule.event(an_event(EventKind.STARTED), 20)
    assert schedule.begin(20) == A


def test_a_start_whose_pass_found_another_one_working_is_still_a_start(schedule: Schedule) -> None:
    last = passes_of_a_flapping_guest(schedule, 60)[-1]
    schedule.event(an_event(EventKind.STARTED), last + 2)
    assert schedule.begin(last + 2) == A
    schedule.ended(A, PassResult.BUSY, last + 2)
    assert schedule.begin(last + 3) == A


def postponed(schedule: Schedule, now: float) -> list[float]:
    """Seconds between the passes of a guest that migrates, the first of which begins now."""
    began = list[float]()
    while schedule.begin(now) == A:
        began.append(now)
        schedule.ended(A, PassResult.POSTPONED, now)
        now = max(now, schedule.wake_at())
    return [later - earlier for earlier, later in itertools.pairwise(began)]


def test_a_guest_that_migrates_is_tried_again_a_few_times(schedule: Schedule) -> None:
    schedule.event(an_event(EventKind.RESUMED), 0)
    assert postponed(schedule, 0) == [1, 2, 4, 8, 16]
    assert (schedule.queue, schedule.set_aside(31)) == (0, ())
    schedule.event(an_event(EventKind.JOB_ENDED), 100)
    assert postponed(schedule, 100) == [1, 2, 4, 8, 16], "as at first"


@pytest.mark.parametrize("during", [False, True])
def test_an_event_of_a_guest_that_migrates_leads_to_a_pass_at_once(schedule: Schedule, during: bool) -> None:
    schedule.event(an_event(EventKind.CATALOGUE), 0)
    for now in (0, 1, 3, 7):
        assert schedule.begin(now) == A
        if during and now == 7:
            schedule.event(an_event(EventKind.RESUMED), 7)
        schedule.ended(A, PassResult.POSTPONED, now)
    if not during:
        schedule.event(an_event(EventKind.RESUMED), 7)
    assert schedule.begin(7) == A


def test_no_pass_over_a_guest_begins_without_a_connection(schedule: Schedule) -> None:
    schedule.connected = False
    schedule.event(an_event(EventKind.STARTED), 1)
    assert (schedule.begin(1), schedule.wake_at()) == (None, 300)
    schedule.connected = True
    assert schedule.begin(2) == A


def test_a_full_pass_is_due_at_the_start_and_at_the_interval() -> None:
    schedule = Schedule(300)
    assert schedule.wake_at() == 0
    assert schedule.begin_full_pass(0)
    assert not schedule.begin_full_pass(400), "one runs"
    schedule.full_pass_ended(True, 2)
    assert (schedule.begin_full_pass(299), schedule.begin_full_pass(300)) == (False, True)


@pytest.mark.parametrize("done", [True, False])
def test_a_full_pass_that_is_asked_for_during_another_follows_it(done: bool) -> None:
    schedule = Schedule(300)
    assert schedule.begin_full_pass(0)
    schedule.full_pass_due(1)
    schedule.full_pass_ended(done, 2)
    assert schedule.begin_full_pass(2)


def test_full_passes_are_a_second_apart_whatever_asks_for_them() -> None:
    schedule, began = Schedule(300), 0
    for tenth in range(100):
        schedule.full_pass_due(tenth / 10)
        if schedule.begin_full_pass(tenth / 10):
            began += 1
            schedule.full_pass_ended(True, tenth / 10)
    assert began == 10


def test_a_full_pass_that_failed_is_tried_again_later_each_time_but_never_after_the_interval() -> None:
    schedule, now, waits = Schedule(300), 0.0, list[float]()
    for _ in range(7):
        assert schedule.begin_full_pass(now)
        schedule.full_pass_ended(False, now)
        waits.append(schedule.wake_at() - now)
        now = schedule.wake_at()
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    schedule.full_pass_due(now)
    assert schedule.begin_full_pass(now)
    schedule.full_pass_ended(False, now)
    assert schedule.wake_at() == now + 10, "something has happened since"


def test_a_full_pass_for_which_the_rules_are_not_at_rest_is_tried_again_soon_and_is_no_failure() -> None:
    schedule, now = Schedule(300), 0.0
    for _ in range(5):
        assert schedule.begin_full_pass(now)
        schedule.full_pass_ended(False, now, postponed=True)
        assert schedule.wake_at() == now + 2
        now = schedule.wake_at()
    assert schedule.begin_full_pass(now)
    schedule.full_pass_ended(False, now)
    assert schedule.wake_at() == now + 10


def test_where_the_queue_is_full_a_full_pass_is_due(schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GUESTS", 1)
    assert schedule.event(an_event(EventKind.STARTED, A), 5) is EventEffect.PASS
    assert schedule.event(an_event(EventKind.STARTED, B), 5) is EventEffect.OVERFLOW
    assert schedule.begin_full_pass(5)


def test_guests_that_are_done_take_no_room(schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GUESTS", 1)
    schedule.event(an_event(EventKind.STARTED, A), 5)
    assert schedule.begin(5) == A
    schedule.ended(A, PassResult.CHANGED, 6)
    assert schedule.event(an_event(EventKind.STARTED, B), 6 + module.QUIET) is EventEffect.PASS


def test_remembered_writes_are_bounded(schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GUESTS", 1)
    schedule.wrote(A, "vda", LIMITS, 1)
    schedule.wrote(A, "vdb", LIMITS, 1)
    assert schedule.event(tuned(LIMITS, "vdb"), 2) is EventEffect.ECHO
    assert schedule.event(tuned(LIMITS, "vda"), 2) is EventEffect.PASS


UUIDS = st.sampled_from([A, B, "cccccccc-0000-4000-8000-000000000000"])


class Machine(RuleBasedStateMachine):
    """Whatever happens in whatever order: no guest twice at once, and each event is followed by a pass that began
    after it, unless the guest stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule(300)
        self.now = 0.0
        self.running: set[str] = set()
        self.full = False
        self.owed: dict[str, float] = {}
        """Since when a guest has an event without a pass that began after it."""

    @rule(uuid=UUIDS, kind=st.sampled_from(EventKind))
    def event(self, uuid: str, kind: EventKind) -> None:
        verdict = self.schedule.event(an_event(kind, uuid), self.now)
        if verdict in (EventEffect.PASS, EventEffect.MERGED):
            self.owed.setdefault(uuid, self.now)
        elif kind is EventKind.STOPPED:
            self.owed.pop(uuid, None)

    @rule(seconds=st.floats(0, 700))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(connected=st.booleans())
    def connection(self, connected: bool) -> None:
        self.schedule.connected = connected

    @rule()
    def begin(self) -> None:
        uuid = self.schedule.begin(self.now)
        if uuid is not None:
            assert self.schedule.connected
            assert uuid not in self.running
            self.running.add(uuid)
            self.owed.pop(uuid, None)

    @precondition(lambda self: self.running)
    @rule(result=st.sampled_from(PassResult), data=st.data())
    def ended(self, result: PassResult, data: st.DataObject) -> None:
        uuid = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(uuid)
        self.schedule.ended(uuid, result, self.now)

    @rule()
    def begin_full(self) -> None:
        if self.schedule.begin_full_pass(self.now):
            assert not self.full
            self.full = True

    @precondition(lambda self: self.full)
    @rule(done=st.booleans())
    def full_ended(self, done: bool) -> None:
        self.full = False
        self.schedule.full_pass_ended(done, self.now)

    @rule()
    def asked(self) -> None:
        self.schedule.full_pass_due(self.now)

    @invariant()
    def the_next_full_pass_is_never_later_than_the_interval(self) -> None:
        if not self.full:
            assert self.schedule.wake_at() <= self.now + 300

    @invariant()
    def whoever_waits_is_served_when_the_schedule_says_so(self) -> None:
        for uuid in self.owed.keys() - self.running:
            assert self.schedule.queue > 0
            known = self.schedule._guests[uuid]
            assert known.waits_since is not None
            assert self.schedule._when(known) <= self.now + max(module.ASIDE[1], module.SPACED)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=depth.examples(300))


@pytest.mark.parametrize("result", PassResult)
def test_only_what_a_pass_leaves_undone_brings_the_next_full_pass_forward(
    schedule: Schedule, result: PassResult
) -> None:
    passed(schedule, A, result, at=100)
    assert schedule.begin_full_pass(100) is (result is PassResult.INCOMPLETE)


def test_what_is_left_undone_is_told_once_for_each_guest_and_not_too_often(schedule: Schedule) -> None:
    for uuid, at, full in ((A, 100, True), (A, 101, False), (B, 102, False)):
        passed(schedule, uuid, PassResult.INCOMPLETE, at=at)
        assert schedule.begin_full_pass(at) is full
        if full:
            schedule.full_pass_ended(True, at)
    assert not schedule.begin_full_pass(109.9)
    assert schedule.begin_full_pass(110), "that of the other guest"
    schedule.full_pass_ended(True, 110)
    passed(schedule, A, PassResult.IN_SYNC, at=150)
    assert not schedule.begin_full_pass(150)
    passed(schedule, A, PassResult.INCOMPLETE, at=151)
    assert schedule.begin_full_pass(151)


def test_what_the_same_guest_leaves_undone_again_brings_no_full_pass_forward(schedule: Schedule) -> None:
    passed(schedule, A, PassResult.INCOMPLETE, at=100)
    assert schedule.begin_full_pass(100)
    schedule.full_pass_ended(True, 100)
    passed(schedule, A, PassResult.INCOMPLETE, at=101)
    assert not schedule.begin_full_pass(399)
    assert schedule.begin_full_pass(400)


def test_what_is_left_undone_delays_no_full_pass_that_was_asked_for(schedule: Schedule) -> None:
    schedule.full_pass_due(5)
    passed(schedule, A, PassResult.INCOMPLETE, at=6)
    assert schedule.begin_full_pass(6)


def passed(schedule: Schedule, uuid: str, result: PassResult, at: float) -> None:
    schedule.event(an_event(EventKind.RESUMED, uuid), at)
    assert schedule.begin(at) == uuid
    schedule.ended(uuid, result, at)
