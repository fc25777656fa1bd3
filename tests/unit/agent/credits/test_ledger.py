"""The ledger against QEMU's own arithmetic: what it lets through is what was earned, whatever happens to it."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

import pytest

from plimsoll_agent.credits.ledger import (
    MOST_DEBT,
    Account,
    Member,
    account_key,
    affordable,
    brought_forward,
    newest,
    to_write,
    whole,
    written,
)
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.model.usage import Reading
from plimsoll_agent.store import accounts_file
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.simulate.throttle import NEVER, SECOND, Throttle
from tests.depth import count

BURST = Limits(total_iops_sec=20, total_iops_sec_max=100, total_iops_sec_max_length=60)
CAPACITY = 6000
BASE = "total_iops_sec"
KEY = "guest/disk"


@dataclass
class World:
    """A disk in QEMU with one request after the other while it is busy, and a node whose passes keep its account."""

    limits: Limits = BURST
    now: int = 0
    done: int = 0
    boot: str = "a"
    runs: int = 1
    file: str | None = None
    applied: Limits | None = BURST
    writes: int = 0
    throttle: Throttle[int] = field(default_factory=lambda: Throttle(BURST))

    def spend(self, seconds: float) -> int:
        """It is busy for so long; returns what went through. A request takes a millisecond."""
        before, end = self.done, self.now + int(seconds * SECOND)
        while self.now < end:
            if self.throttle.due != NEVER or not self.throttle.arrive(self.now, 4096, False, 0):
                self.now = max(self.now, min(self.throttle.due, end))
                self.done += len(self.throttle.wake(self.now))
            else:
                self.done += 1
                self.now += SECOND // 1000
        return self.done - before

    def idle(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        self.done += len(self.throttle.wake(self.now)) if self.throttle.due <= self.now else 0

    def write(self, limits: Limits) -> None:
        self.done += len(self.throttle.write(limits, self.now))
        self.applied = limits
        self.writes += 1

    def restart(self) -> None:
        """A hard reboot: Nova's definition has the burst of the QoS spec, or none for credits of rules."""
        self.throttle, self.done, self.runs = Throttle(Limits(total_iops_sec=20), now=self.now), 0, self.runs + 1
        self.applied = None

    def account(self) -> Account | None:
        return accounts_file.decoded(json.loads(self.file), self.boot).get(KEY) if self.file else None

    def run(self, *, always: bool = False, killed: bool = False) -> None:
        """A pass, from what is on the disk; it writes ``always`` in a storm, and saves nothing if it is killed."""
        reading = Reading(
            self.now / SECOND, BlockStats(read_requests=self.done, read_bytes=0, write_requests=0, write_bytes=0)
        )
        actual = self.throttle.limits
        member = Member(
            key=KEY,
            attachment=str(self.runs),
            actual=actual,
            applied=self.applied,
            desired=self.limits,
            reading=reading,
        )
        account = brought_forward(self.account(), self.limits, [member])
        assert account is not None
        target = affordable(self.limits, account) if always else to_write(self.limits, account, [member])
        if always or target != actual:
            self.write(target)
            account = written(account, target)
        if not killed:
            self.file = accounts_file.encoded({KEY: account}, self.boot)


def test_a_storm_of_writes_and_kills_lets_through_what_was_earned_and_little_less() -> None:
    """Without the ledger, each write gives the whole burst: the disk would have its burst rate for ever."""
    chance = random.Random(37)
    for _ in range(count(quick=3, landing=8, soak=100)):
        world, through = World(), 0
        world.run()
        while world.now < 1500 * SECOND:
            step = chance.uniform(0.5, 15)
            if chance.random() < 0.2:
                world.idle(step)
            else:
                through += world.spend(step)
            world.run(always=chance.random() < 0.5, killed=chance.random() < 0.1)
        while world.now < 2500 * SECOND:  # until nothing is left
            through += world.spend(10)
            world.run()
        ratio = through / (CAPACITY + 20 * world.now / SECOND)
        assert 0.94 <= ratio <= 1.0, ratio


def test_an_idle_hour_is_spent_at_the_burst_rate_and_not_longer() -> None:
    world = World(limits=Limits(total_iops_sec=20, total_iops_sec_max=100, total_iops_sec_max_length=1800))
    world.run()
    while world.throttle.limits.total_iops_sec_max:  # writes of limits while it is busy leave it without any
        world.spend(100)
        world.run(always=True)
    for _ in range(12):
        world.idle(300)
        world.run()
    room = 20 * 3600
    assert 0.95 * room <= world.throttle.limits.total_iops_sec_max_length * 100 <= room
    assert world.spend(room / 80) == pytest.approx(room / 80 * 100, rel=0.05)
    world.spend(60)
    assert world.spend(60) == pytest.approx(20 * 60, rel=0.02)


def test_what_is_saved_beyond_what_qemu_holds_takes_few_writes() -> None:
    world = World()
    world.run()
    world.spend(120)
    world.run(always=True)
    before = world.writes
    for _ in range(600):  # ten minutes in which all of the burst is earned back
        world.idle(1)
        world.run()
    assert world.throttle.limits == BURST
    assert world.writes - before < 20


def test_a_disk_whose_bucket_nothing_has_touched_is_not_written() -> None:
    world = World()
    for _ in range(20):
        world.spend(20)
        world.run()
        world.idle(40)
        world.run()
    assert world.writes == 0


def test_a_restart_of_the_guest_gives_no_burst_again() -> None:
    world = World()
    world.run()
    world.spend(120)
    world.run()
    world.restart()
    world.run()
    assert world.throttle.limits.total_iops_sec_max_length <= 1
    assert world.account() is not None


def test_a_reboot_of_the_node_forgets_no_debit_and_its_clock_begins_again() -> None:
    world = World()
    world.run()
    world.spend(60)
    world.run()
    spent = world.account().buckets[BASE].spent  # type: ignore[union-attr]
    world.boot, world.now = "b", 5 * SECOND
    world.restart()
    world.run()
    assert world.account().buckets[BASE].spent == spent  # type: ignore[union-attr]


@pytest.mark.parametrize(("requests", "debit"), [(100, 0), (1000, 800)])
def test_what_a_guest_uses_after_its_restart_is_counted_and_its_time_off_earns_nothing(
    requests: int, debit: int
) -> None:
    world = World()
    world.run()
    world.spend(60)
    world.run()
    spent = world.account().buckets[BASE].spent  # type: ignore[union-attr]
    world.restart()
    world.now += 10 * SECOND
    world.done = requests
    world.run()
    assert world.account().buckets[BASE].spent == spent + debit  # type: ignore[union-attr]


def test_a_debt_is_no_more_than_a_minute() -> None:
    """Requests that QEMU merges are one to its bucket, and several in its counters."""
    world = World()
    world.run()
    world.done += 10**6
    world.run()
    assert world.account().balance(BURST, BASE) == -20 * MOST_DEBT  # type: ignore[union-attr]


def member(reading: Reading | None, key: str = KEY, actual: Limits = BURST, applied: Limits | None = BURST) -> Member:
    return Member(key=key, attachment="1", actual=actual, applied=applied, desired=BURST, reading=reading)


def at(seconds: float, requests: int = 0) -> Reading:
    return Reading(seconds, BlockStats(read_requests=requests, read_bytes=0, write_requests=0, write_bytes=0))


def test_a_disk_that_was_not_read_is_settled_by_its_next_reading() -> None:
    account = brought_forward(None, BURST, [member(at(0))])
    assert brought_forward(account, BURST, [member(None)]) == account
    late = brought_forward(account, BURST, [member(at(100, 5000))])
    assert late is not None
    assert late.balance(BURST, BASE) == CAPACITY - 5000 + 100 * 20
    assert brought_forward(late, BURST, [member(at(50, 9999))]) == late


@pytest.mark.parametrize(
    ("in_force", "spent"),
    [(BURST, 2000), (Limits(total_iops_sec=40), 0), (Limits(total_iops_sec=35), 500), (Limits(), 0)],
)
def test_limits_above_those_desired_cost_nothing_of_the_burst(in_force: Limits, spent: int) -> None:
    """Such as those of a hold, or those that the brake keeps when a rule has 20 for 40 by mistake."""
    account = brought_forward(None, BURST, [member(at(0), KEY, in_force)])
    after = brought_forward(account, BURST, [member(at(100, 4000), KEY, in_force)])
    assert after is not None
    assert after.balance(BURST, BASE) == CAPACITY - spent


def test_after_a_reboot_the_counters_began_again_also_where_they_are_higher_now() -> None:
    """libvirt numbers the guests from 1 then, so the attachment looks the same."""
    account = brought_forward(None, BURST, [member(at(500, 100))])
    saved = accounts_file.encoded({KEY: account}, "a")  # type: ignore[dict-item]
    before = accounts_file.decoded(json.loads(saved), "b")[KEY]
    after = brought_forward(before, BURST, [member(at(10, 1200))])
    assert after is not None
    assert after.balance(BURST, BASE) == CAPACITY - (1200 - 10 * 20)


def test_a_group_has_one_account_for_what_all_its_members_do() -> None:
    limits = Limits(**{**BURST.in_effect(), "group_name": "both"})  # type: ignore[arg-type]
    assert account_key("guest/a", limits) == account_key("guest/b", limits) != account_key("other/a", limits)
    pair = [member(at(0), "guest/a", limits), member(at(0), "guest/b", limits)]
    account = brought_forward(None, limits, pair)
    after = brought_forward(
        account, limits, [member(at(10, 1000), "guest/a", limits), member(at(10, 2000), "guest/b", limits)]
    )
    assert after is not None
    assert after.balance(limits, BASE) == CAPACITY - 3000 + 10 * 20


def test_a_disk_that_joins_a_group_brings_nothing_that_it_used_before() -> None:
    """A disk whose limits were unknown for a while, or that had a hold, comes back to its group."""
    limits = Limits(**{**BURST.in_effect(), "group_name": "both"})  # type: ignore[arg-type]
    account = brought_forward(None, limits, [member(at(0), "guest/a", limits)])
    for seconds, requests in ((10, 10**6), (20, 10**6 + 700)):
        pair = [member(at(seconds), "guest/a", limits), member(at(seconds, requests), "guest/b", limits)]
        account = brought_forward(account, limits, pair)
    assert account is not None
    assert account.balance(limits, BASE) == CAPACITY - 700 + 10 * 20


SHORT = Limits(total_iops_sec=20, total_iops_sec_max=100, total_iops_sec_max_length=12)


@pytest.mark.parametrize(
    ("actual", "applied", "left"),
    [
        (SHORT, SHORT, 1200),  # a live migration brings what plimsoll wrote on the node before
        (SHORT, None, CAPACITY),  # a QoS spec that had a shorter burst at the attach
        (Limits(total_iops_sec=20), None, CAPACITY),
    ],
)
def test_a_burst_without_an_account_is_whole_but_where_plimsoll_has_shortened_it(
    actual: Limits, applied: Limits | None, left: int
) -> None:
    account = brought_forward(None, BURST, [member(at(0), KEY, actual, applied)])
    assert account is not None
    assert account.balance(BURST, BASE) == left


def test_a_burst_that_is_desired_only_now_is_whole() -> None:
    """Whether or not counters were read before: it was not shortened by plimsoll."""
    plain = Limits(total_iops_sec=20)
    new = replace(member(at(0), KEY, plain, plain), desired=plain)
    for account in (None, brought_forward(None, BURST, [new])):
        assert to_write(BURST, account, [new]) == BURST


def balance_of(spent: int, limits: Limits = BURST) -> Limits:
    account = brought_forward(None, limits, [member(at(0))])
    return affordable(limits, brought_forward(account, limits, [member(at(0, spent))]))


def test_what_is_written_is_the_burst_as_long_as_its_balance() -> None:
    assert balance_of(0) == BURST
    assert balance_of(1) == Limits(total_iops_sec=20, total_iops_sec_max=100, total_iops_sec_max_length=59)
    assert balance_of(5850) == Limits(total_iops_sec=20, total_iops_sec_max=100, total_iops_sec_max_length=1)
    assert balance_of(5901) == Limits(total_iops_sec=20)
    second = Limits(total_iops_sec=20, total_iops_sec_max=100)
    assert balance_of(40, second) == Limits(total_iops_sec=20, total_iops_sec_max=60)
    assert balance_of(80, second) == Limits(total_iops_sec=20)


def test_limits_that_something_else_has_shortened_are_written_again() -> None:
    account = brought_forward(None, BURST, [member(at(0))])
    assert to_write(BURST, account, [member(None, KEY, SHORT, BURST)]) == BURST


def test_of_two_passes_side_by_side_the_later_reading_counts() -> None:
    early, late = (Account(at=time) for time in (1.0, 2.0))
    assert newest(late, early) == newest(early, late) == late
    assert newest(Account(at=None), early) == early


@pytest.mark.parametrize("full", [{"total_iops_sec_max": "many"}, {"no_limit": 3}, {"total_iops_sec_max": 1}, "all"])
def test_what_an_edited_record_calls_whole_is_not_taken_for_limits(full: object) -> None:
    assert whole(SHORT, because(Code.RULE, full=full)) == SHORT
