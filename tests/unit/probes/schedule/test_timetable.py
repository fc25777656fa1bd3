"""When a target is due: at its own times, once a period at the most, whatever clock, timer and history do."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.rules.model import Probing
from plimsoll_probes.schedule.targets import PlannedTarget
from plimsoll_probes.schedule.timetable import due, following, previous, table
from tests.unit.values import NOON, a_guest, examples

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
LATE = 900.0
Begun = dict[tuple[str, str], datetime]


def a_target(number: int = 1, *, every: timedelta = 6 * HOUR, node: str = "n1", **other: object) -> PlannedTarget:
    guest = a_guest(uuid=f"{number:08x}-0d31-4367-8c90-06e18daa66f9")
    values = {"guest": guest, "directory": "/var/tmp", "rule": "canaries", "node": node} | other
    return PlannedTarget(probing=Probing(every), **values)  # type: ignore[arg-type]


# --- the times of a target


@given(
    number=st.integers(0, 2**32 - 1),
    every=st.integers(300, 366 * 86400).map(lambda seconds: timedelta(seconds=seconds)),
    now=st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
)
@examples
def test_now_lies_between_two_times_that_are_a_period_apart(number: int, every: timedelta, now: datetime) -> None:
    target = a_target(number, every=every)
    before, after = previous(target, now), following(target, now)
    assert before <= now < after == before + every
    assert previous(target, before) == before
    assert previous(target, after) == after


def test_a_targets_times_depend_on_nothing_but_node_guest_directory_and_period() -> None:
    at = previous(a_target(), NOON)
    assert previous(a_target(rule="another", until=NOON), NOON) == at
    assert previous(a_target(guest=a_guest(uuid=a_target().guest.uuid, name="renamed", run="9")), NOON) == at
    others = [a_target(2), a_target(node="n2"), a_target(directory="/srv")]
    assert at not in [previous(other, NOON) for other in others]


@pytest.mark.parametrize("guests", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_the_nodes_of_a_region_are_spread_evenly_over_the_period(guests: int) -> None:
    nodes = 750
    targets = [a_target(node * guests + n, node=f"compute-{node:04}") for node in range(nodes) for n in range(guests)]
    parts = Counter((previous(target, NOON).timestamp() % (6 * 3600)) // 1800 for target in targets)
    mean = len(targets) / 12
    # Six standard deviations of a count that is binomial.
    assert all(abs(parts[part] - mean) < 6 * mean**0.5 for part in range(12))


def test_one_guest_on_all_nodes_is_spread_by_the_nodes_alone() -> None:
    parts = Counter(previous(a_target(node=f"n{n}"), NOON).timestamp() % (6 * 3600) // 1800 for n in range(600))
    assert len(parts) == 12
    assert max(parts.values()) < 100


def test_days_that_summer_time_makes_shorter_or_longer_have_as_many_probes_as_others() -> None:
    begin = datetime(2026, 10, 25, tzinfo=ZoneInfo("Europe/Berlin"))
    told = table([a_target(every=HOUR)], begin, begin.astimezone(UTC) + 25 * HOUR)
    assert len(told) == 25
    assert {later.at - earlier.at for earlier, later in pairwise(told)} == {HOUR}


# --- what is due


def test_a_target_is_due_from_its_time_on_until_it_is_too_late() -> None:
    target = a_target()
    at = following(target, NOON)
    assert due([target], {}, at - SECOND, LATE) == ()
    for now in (at, at + timedelta(seconds=LATE)):
        (only,) = due([target], {}, now, LATE)
        assert (only.target, only.at) == (target, at)
    assert due([target], {}, at + timedelta(seconds=LATE) + SECOND, LATE) == ()


def test_a_time_is_used_once_a_probe_began_after_it_and_not_by_one_just_before() -> None:
    target = a_target()
    at = following(target, NOON)
    now = at + 5 * MINUTE
    assert due([target], {target.key: at - SECOND}, now, LATE), "a person's run for themselves"
    assert not due([target], {target.key: at}, now, LATE)
    assert not due([target], {target.key: now}, now, LATE)
    assert due([target], {(target.guest.uuid, "/srv"): at}, now, LATE), "another directory's probe"


def test_those_that_wait_longest_come_first() -> None:
    targets = [a_target(number, every=10 * MINUTE) for number in range(30)]
    told = [item.at for item in due(targets, {}, NOON, LATE)]
    assert len(told) == 30
    assert told == sorted(told)


@pytest.mark.parametrize("ahead", [MINUTE, 3 * HOUR, timedelta(days=4000)], ids=str)
def test_a_history_from_the_future_neither_stops_a_target_nor_makes_it_run_twice(ahead: timedelta) -> None:
    target = a_target(every=HOUR)
    at = following(target, NOON)
    begun = [at + ahead + LATE * SECOND]
    runs = []
    for tick in range(3 * 60):
        now = at + tick * MINUTE
        if due([target], {target.key: max((time for time in begun if time <= now), default=at - HOUR)}, now, LATE):
            runs.append(now)
            begun.append(now)
    # The probe that the clock had not come to yet may stand for one.
    assert len(runs) in (2, 3)
    assert max(Counter(previous(target, run) for run in runs).values()) == 1
    # Nor where all that is known is the one in the future.
    assert due([target], {target.key: at + timedelta(days=4000)}, at, LATE)


def test_a_clock_that_is_set_back_an_hour_does_not_repeat_a_time_that_was_used() -> None:
    target = a_target(every=HOUR)
    at = following(target, NOON)
    used, later = at + MINUTE, at + HOUR + MINUTE
    now = at + 2 * MINUTE  # it was later once
    assert due([target], {target.key: used}, now, LATE) == ()
    assert due([target], {target.key: later}, at + HOUR + 2 * MINUTE, LATE) == ()


class Node:
    """A node whose timer asks every five minutes, and which can probe one guest at a time."""

    def __init__(self, targets: list[PlannedTarget], *, seconds: int = 130) -> None:
        self.targets, self.seconds = targets, seconds
        self.begun: Begun = {}
        self.runs: list[tuple[PlannedTarget, datetime]] = []

    def tick(self, now: datetime) -> datetime:
        """When it is ready again."""
        for item in due(self.targets, self.begun, now, LATE):
            if now - item.at > LATE * SECOND:
                continue
            self.begun[item.target.key] = now
            self.runs.append((item.target, now))
            now += self.seconds * SECOND
        return now


@given(
    seed=st.integers(0, 2**32),
    every=st.sampled_from([HOUR, 6 * HOUR, 24 * HOUR]),
    skipped=st.sampled_from([0.0, 0.3, 0.9]),
)
@examples
def test_no_target_runs_twice_in_a_period_whatever_the_timer_leaves_out(
    seed: int, every: timedelta, skipped: float
) -> None:
    chance = random.Random(seed)
    node = Node([a_target(chance.randrange(2**32), every=every) for _ in range(4)])
    now = end = NOON
    end += timedelta(days=4)
    while now < end:
        ready = node.tick(now) if chance.random() >= skipped else now
        now = max(ready, now + 5 * MINUTE + chance.uniform(-60, 60) * SECOND)
    slots = Counter((target.key, previous(target, at)) for target, at in node.runs)
    assert set(slots.values()) <= {1}
    if not skipped:
        # Those whose first or last time is just at an edge of the days may lack one.
        desired = timedelta(days=4) // every
        assert all(
            desired - 1 <= sum(run[0] is target for run in node.runs) <= desired + 1 for target in node.targets
        )


def test_two_days_of_outage_are_not_made_up_for() -> None:
    node = Node([a_target(number, every=HOUR) for number in range(10)])
    now = NOON + timedelta(days=2)
    node.begun = dict.fromkeys((target.key for target in node.targets), NOON)
    ready = node.tick(now)
    # Only those whose time is in the last quarter of an hour.
    recent = [target for target in node.targets if now - previous(target, now) <= LATE * SECOND]
    assert [target for target, _ in node.runs] == sorted(recent, key=lambda target: previous(target, now))
    assert 0 < len(recent) < 10
    while now < NOON + timedelta(days=2, hours=1):
        now = max(ready, now + 5 * MINUTE)
        ready = node.tick(now)
    assert set(Counter(target.key for target, _ in node.runs).values()) <= {1, 2}


# --- the table


def test_the_table_is_what_would_become_due_in_order() -> None:
    targets = [a_target(number, every=HOUR * (number % 3 + 1)) for number in range(6)]
    end = NOON + 12 * HOUR
    told = table(targets, NOON, end)
    seen, now = set(), NOON
    while now < end:
        now += MINUTE
        seen |= {(item.target.key, item.at) for item in due(targets, {}, now, 59) if item.at > NOON}
    assert {(item.target.key, item.at) for item in told} == seen
    assert [item.at for item in told] == sorted(item.at for item in told)


def test_a_rule_that_ends_has_no_times_after_its_end() -> None:
    at = following(a_target(every=HOUR), NOON)
    ending = a_target(every=HOUR, until=at + HOUR)
    assert [item.at for item in table([ending], NOON, NOON + 10 * HOUR)] == [at]
