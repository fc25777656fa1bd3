"""The cause that was planted is the one that is found: 20 of 20 in each of many random situations."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.explain.cause import Cause, Unexplained, find
from plimsoll_insight.explain.evidence import Evidence, Interval, Neighbour, SharedPlace, idle

RUNS = range(20)
NEVER_CLEARED = "OSD_DOWN"
Disturb = Callable[[Interval, random.Random, float], Interval]


def calm(chance: random.Random, at: float, usual: float, most_share: float, chronic: Sequence[str]) -> Interval:
    """An interval in which nothing is wrong: noise, some busy neighbours, and checks that are never cleared."""
    rate = chance.uniform(20, 400)
    return Interval(
        at=at,
        node="n1",
        operations=rate,
        bytes=rate * 8192,
        share=chance.uniform(0.01, most_share),
        limit="total_iops_sec",
        allowed=500.0,
        latency=usual * chance.lognormvariate(0, 0.25),
        of_type=usual * chance.lognormvariate(0, 0.1),
        of_type_disks=chance.randint(5, 900),
        of_node=usual * chance.lognormvariate(0, 0.15),
        of_node_disks=chance.randint(3, 40),
        neighbours=(
            Neighbour("u2", SharedPlace.NODE, "operations", chance.uniform(300, 500), chance.uniform(0.1, 0.45)),
            Neighbour("u3", SharedPlace.POOL, "bytes", chance.uniform(3e6, 5e6), chance.uniform(0.01, 0.45)),
        ),
        raised=tuple(chronic),
    )


def at_limit(one: Interval, chance: random.Random, usual: float) -> Interval:
    latency = chance.uniform(0.5, 40) * usual
    return replace(one, share=chance.uniform(0.95, 1.3), latency=chance.choice([latency, latency, None]))


def cluster_raised(one: Interval, chance: random.Random, usual: float) -> Interval:
    checks = chance.sample(["SLOW_OPS", "PG_AVAILABILITY", "PG_BACKFILL_FULL"], chance.randint(1, 3))
    slow = chance.uniform(4, 400) * max(usual, 0.004)
    if chance.random() < 0.3:  # nothing ends
        stuck = (*(one.raised or ()), *{"SLOW_OPS", *checks})
        return replace(one, operations=0.0, bytes=0.0, share=0.0, latency=None, raised=stuck)
    of_type = chance.choice([usual, slow, None])
    return replace(one, latency=slow, of_type=of_type, raised=(*(one.raised or ()), *checks))


def cluster_without_checks(one: Interval, chance: random.Random, usual: float) -> Interval:
    slow = chance.uniform(4, 400) * max(usual, 0.004)
    return replace(one, latency=slow, of_type=slow * chance.uniform(0.9, 1.2), of_node=slow, raised=None)


def neighbour(one: Interval, chance: random.Random, usual: float) -> Interval:
    slow = chance.uniform(4, 100) * max(usual, 0.004)
    place, unit = chance.choice(list(SharedPlace)), chance.choice(["operations", "bytes"])
    rate = chance.uniform(2000, 50000) if unit == "operations" else chance.uniform(5e7, 2e9)
    loud = Neighbour("u9", place, unit, rate, chance.uniform(0.5, 0.99))
    of_type = slow if place is SharedPlace.POOL and chance.random() < 0.5 else one.of_type
    return replace(one, latency=slow, of_type=of_type, of_node=slow, neighbours=(*one.neighbours, loud))


def unknown_around(one: Interval, chance: random.Random, usual: float) -> Interval:
    """It is slow, and of all else nothing is known."""
    return Interval(one.at, one.node, latency=chance.uniform(4, 100) * max(usual, 0.004))


def one_slow_osd(one: Interval, chance: random.Random, usual: float) -> Interval:
    """Before Ceph raises a check: its disks use as much of their limits as before."""
    return replace(one, share=chance.uniform(0.5, 0.74), latency=chance.uniform(4, 100) * max(usual, 0.004))


def its_node(one: Interval, chance: random.Random, usual: float) -> Interval:
    slow = chance.uniform(4, 100) * max(usual, 0.004)
    return replace(one, latency=slow, of_node=slow * chance.uniform(0.9, 1.1))


def situation(seed: object, disturb: Disturb | None) -> Evidence:
    """Between an hour and a day, with a disturbance of ten minutes to all of it."""
    chance = random.Random(repr(seed))
    usual, number = chance.uniform(0.0005, 0.02), chance.randint(12, 288)
    length = chance.randint(2, number) if disturb else 0
    # Only the time without the disturbance shows that a check is never cleared.
    chronic = [NEVER_CLEARED] * (length < number * 0.6 and chance.randint(0, 1))
    begun = chance.randint(0, number - length)
    intervals, stuck = list[Interval](), 0
    for n in range(number):
        one = calm(chance, 300.0 * n, usual, 0.9, chronic)
        if disturb and begun <= n < begun + length:
            one = disturb(one, chance, usual)
        elif stuck:
            pass  # what waited ends
        elif chance.random() < 0.05:
            one = Interval(one.at)  # no metrics then
        elif chance.random() < 0.05:
            one = replace(one, operations=0.0, bytes=0.0, latency=None)  # no requests then
        if stuck and one.operations:  # one of its requests has waited all the time
            one = replace(one, latency=(one.latency or 0.0) + 4 * max(usual, 0.004) + stuck / one.operations)
        stuck = stuck + 1 if disturb and begun <= n < begun + length and one.operations == 0 else 0
        intervals.append(one)
    return Evidence(300.0, tuple(intervals), usual)


PLANTED: dict[str, tuple[Disturb | None, Cause, Unexplained | None]] = {
    "its limit": (at_limit, Cause.LIMIT, None),
    "the cluster, by its checks": (cluster_raised, Cause.CLUSTER, None),
    "the cluster, by all disks of the type": (cluster_without_checks, Cause.CLUSTER, None),
    "a neighbour": (neighbour, Cause.NEIGHBOUR, None),
    "not slow": (None, Cause.NOT_SLOW, None),
    "its node": (its_node, Cause.UNKNOWN, Unexplained.NODE),
    "one slow OSD at half use": (one_slow_osd, Cause.UNKNOWN, Unexplained.BURSTS),
    "unknown": (unknown_around, Cause.UNKNOWN, Unexplained.ALONE),
}


@pytest.mark.parametrize("situation_of", range(25))
@pytest.mark.parametrize("planted", PLANTED)
def test_the_planted_cause_is_found_20_of_20_times(planted: str, situation_of: int) -> None:
    disturb, cause, unexplained = PLANTED[planted]
    for run in RUNS:
        found = find(situation((planted, situation_of, run), disturb))
        assert (found.cause, found.unexplained) == (cause, unexplained), (planted, situation_of, run)


# --- what is unknown is not zero


CALM = Interval(
    0, "n1", operations=100.0, bytes=1e6, share=0.2, latency=0.004, of_type=0.004, of_type_disks=9, raised=()
)


def of(*intervals: Interval, usual: float | None = 0.004) -> Evidence:
    return Evidence(300.0, tuple(replace(one, at=300.0 * number) for number, one in enumerate(intervals)), usual)


NOTHING = Interval(0)
IDLE = replace(CALM, operations=0.0, bytes=0.0, share=0.0, latency=None)


def each_two_seconds(*intervals: Interval) -> Evidence:
    return Evidence(2.0, tuple(replace(one, at=2.0 * number) for number, one in enumerate(intervals)), 0.004)


@pytest.mark.parametrize(
    ("evidence", "why"),
    [
        (of(), Unexplained.TOO_LITTLE),
        (of(*[NOTHING] * 288), Unexplained.TOO_LITTLE),
        (of(*[CALM] * 100, *[NOTHING] * 101), Unexplained.TOO_LITTLE),
        (of(CALM, CALM), Unexplained.FEW_PASSES),
        (of(*[CALM] * 288, usual=None), Unexplained.NO_USUAL),
    ],
)
def test_what_is_unknown_is_not_called_not_slow(evidence: Evidence, why: Unexplained) -> None:
    found = find(evidence)
    assert (found.cause, found.unexplained) == (Cause.UNKNOWN, why)


def test_its_limit_is_found_without_any_latency() -> None:
    held = replace(CALM, share=1.0, latency=None)
    assert find(of(*[CALM] * 9, held, held, usual=None)).cause is Cause.LIMIT


def test_a_disk_without_requests_is_not_slow_but_for_requests_that_do_not_end() -> None:
    stopped = replace(IDLE, raised=("SLOW_OPS",))
    assert find(of(*[IDLE] * 50)).cause is Cause.NOT_SLOW
    assert find(of(*[IDLE] * 50, *[stopped] * 50)).cause is Cause.NOT_SLOW, "it wanted nothing"
    assert find(of(*[CALM] * 50, *[stopped] * 50)).cause is Cause.CLUSTER
    assert find(of(*[IDLE] * 50, raised_unknown := replace(IDLE, raised=None), raised_unknown)).known == 50


@pytest.mark.parametrize(("quiet", "slow"), [(2, 4), (120, 63), (122, 0)])
def test_requests_that_stop_some_time_before_ceph_raises_a_check_wait_for_the_cluster(quiet: int, slow: int) -> None:
    """Ceph takes an OSD that hangs for a healthy one at first."""
    stopped = replace(IDLE, raised=("OSD_DOWN",))
    late = replace(CALM, latency=(quiet + 8) / 400)  # of 200 writes and 200 flushes
    found = find(each_two_seconds(*[CALM] * 50, *[IDLE] * (quiet // 2 - 1), *[stopped] * 4, late, *[CALM] * 90))
    assert (found.cause, len(found.slow)) == (Cause.CLUSTER if slow else Cause.NOT_SLOW, slow)


def test_requests_that_go_on_when_a_check_is_raised_have_waited_for_the_cluster() -> None:
    again = replace(CALM, raised=("OSD_DOWN",))
    late = replace(again, latency=0.1)  # the mean of 200 of which one waited for 8 s, and those behind it
    found = find(each_two_seconds(*[CALM] * 50, *[IDLE] * 4, late, *[again] * 9))
    assert (found.cause, len(found.slow), found.raised) == (Cause.CLUSTER, 5, ("OSD_DOWN",))
    assert find(each_two_seconds(*[CALM] * 50, *[IDLE] * 4, *[again] * 9)).cause is Cause.NOT_SLOW, "none waited"
    assert find(each_two_seconds(*[CALM] * 50, *[IDLE] * 4, *[CALM] * 9)).cause is Cause.NOT_SLOW, "it wanted nothing"


def test_requests_that_waited_show_among_many_quick_ones() -> None:
    """A guest makes up for the stall, so that its requests take 9 ms on average."""
    stopped = replace(IDLE, raised=("OSD_DOWN",))
    late = replace(CALM, operations=800.0, latency=0.009)  # 5 ms more than usual, 3,200 times: 16 s of 8
    found = find(each_two_seconds(*[CALM] * 50, *[stopped] * 3, late, *[CALM] * 90))
    assert (found.cause, len(found.slow)) == (Cause.CLUSTER, 3)
    busy = replace(CALM, operations=9000.0, latency=0.006)  # added up it is long, too
    assert find(each_two_seconds(*[CALM] * 50, *[stopped] * 3, busy, *[busy] * 90)).known == 141


def test_requests_that_make_up_for_a_stall_may_take_less_than_usual() -> None:
    """One waited for 6 s, and 1,199 that follow one another took 3 ms, 1 ms less than usual."""
    stopped = replace(IDLE, raised=("OSD_DOWN",))
    late = replace(CALM, operations=300.0, latency=0.008)
    found = find(each_two_seconds(*[CALM] * 50, *[stopped] * 3, late, *[CALM] * 90))
    assert (found.cause, len(found.slow)) == (Cause.CLUSTER, 3)


@pytest.mark.parametrize("raised", [(), ("OSD_DOWN",)])
def test_hardly_any_requests_are_as_none_where_others_waited(raised: tuple[str, ...]) -> None:
    """One ended before the OSD stopped, after the last pass."""
    hardly = replace(CALM, operations=0.3, latency=0.004, raised=raised)
    late = replace(CALM, latency=0.1, raised=("OSD_DOWN",))
    found = find(each_two_seconds(*[CALM] * 50, hardly, late, *[CALM] * 90))
    assert (found.cause, len(found.slow), found.raised) == (Cause.CLUSTER, 2, ("OSD_DOWN",))
    calm = replace(CALM, raised=("OSD_DOWN",))
    found = find(each_two_seconds(*[CALM] * 50, hardly, hardly, calm, *[CALM] * 90))
    assert (found.cause, found.all_slow, found.known) == (Cause.NOT_SLOW, 0, 143), "it wanted hardly anything"


def test_a_few_requests_that_took_long_are_those_that_waited() -> None:
    """All that waited end in one pass, and the guest goes on in the next one."""
    stopped = replace(IDLE, raised=("OSD_DOWN",))
    late = replace(CALM, operations=1.5, latency=1.0, raised=("OSD_DOWN",))
    found = find(each_two_seconds(*[CALM] * 50, stopped, late, *[CALM] * 90))
    assert (found.cause, len(found.slow)) == (Cause.CLUSTER, 2)


def test_where_hardly_any_ended_at_first_those_that_waited_end_in_the_next_readings() -> None:
    """In the lab an OSD was frozen for 24 s, and a few requests to others ended just before those to it."""
    stopped = replace(IDLE, raised=("SLOW_OPS",))
    few = replace(CALM, operations=1.8, latency=0.02, raised=("SLOW_OPS",))
    late = replace(CALM, operations=20.0, latency=0.3)
    found = find(each_two_seconds(*[CALM] * 50, *[stopped] * 9, few, late, *[CALM] * 50))
    assert (found.cause, len(found.slow), found.all_slow) == (Cause.CLUSTER, 10, 11)
    soon = replace(late, latency=0.02)  # too little for all of that time
    found = find(each_two_seconds(*[CALM] * 50, *[stopped] * 9, few, soon, *[CALM] * 50))
    assert found.all_slow == 2


def test_a_stall_that_begins_within_an_interval_is_held_against_the_requests_of_those_before() -> None:
    """In the lab: 12 of 50 in the interval in which all OSDs went, and 1.5 in that in which they came back."""
    usual = replace(CALM, operations=50.0)
    fewer = replace(usual, operations=12.0)
    stopped = replace(IDLE, raised=("PG_AVAILABILITY",))
    back, late = replace(usual, operations=1.5, latency=0.0115), replace(usual, operations=37.0, latency=0.3)
    found = find(each_two_seconds(*[usual] * 50, fewer, *[stopped] * 9, back, late))
    assert (found.cause, len(found.slow), found.all_slow) == (Cause.CLUSTER, 9, 10)
    slow_back = replace(back, operations=3.0, latency=0.02)
    found = find(each_two_seconds(*[usual] * 50, fewer, *[stopped] * 9, slow_back, late))
    assert (found.cause, len(found.slow), found.all_slow) == (Cause.CLUSTER, 9, 11)
    first, just = replace(usual, operations=3.0, latency=0.009), replace(usual, operations=20.0, latency=0.25)
    found = find(each_two_seconds(*[usual] * 50, first, *[stopped] * 9, just))  # 20 s, of 18 s without any
    assert (found.cause, len(found.slow)) == (Cause.CLUSTER, 9 + 1)
    few = replace(usual, operations=0.9, latency=0.011, raised=("SLOW_OPS",))
    found = find(
        each_two_seconds(*[usual] * 50, replace(usual, operations=6.0), few, replace(IDLE, raised=("SLOW_OPS",)))
    )
    assert (found.cause, len(found.slow)) == (Cause.CLUSTER, 2)


def test_while_only_the_last_pass_shows_that_no_requests_end_a_disk_is_not_called_not_slow() -> None:
    stopped = replace(IDLE, raised=("SLOW_OPS",))
    found = find(each_two_seconds(*[CALM] * 50, stopped))
    assert (found.unexplained, found.all_slow) == (Unexplained.STANDS_STILL, 1)
    assert find(each_two_seconds(*[CALM] * 50, stopped, stopped)).cause is Cause.CLUSTER
    assert find(each_two_seconds(*[CALM] * 50, stopped, CALM)).cause is Cause.NOT_SLOW
    assert find(each_two_seconds(*[CALM] * 50, replace(CALM, latency=0.9))).cause is Cause.NOT_SLOW


AMONG_OTHERS = replace(
    CALM, of_node=0.004, of_node_disks=3, neighbours=(Neighbour("u2", SharedPlace.NODE, "operations", 90.0, 0.4),)
)
CUT_OFF = replace(IDLE, of_node_disks=0, neighbours=(idle(SharedPlace.NODE, "operations"),))


@pytest.mark.parametrize("last", [[CUT_OFF], [CUT_OFF] * 5, [CUT_OFF, NOTHING]])
def test_while_no_guest_on_the_node_has_requests_any_more_a_disk_is_not_called_not_slow(last: list[Interval]) -> None:
    """The node may be cut off from a cluster whose checks tell nothing of it."""
    found = find(of(*[AMONG_OTHERS] * 50, *last))
    assert (found.cause, found.unexplained, found.known) == (Cause.UNKNOWN, Unexplained.NODE_STANDS_STILL, 50)
    raised = replace(CUT_OFF, raised=("SLOW_OPS",))
    assert find(of(*[AMONG_OTHERS] * 50, raised, raised)).cause is Cause.CLUSTER


@pytest.mark.parametrize(
    "intervals",
    [
        pytest.param([AMONG_OTHERS, IDLE], id="others have some"),
        pytest.param([AMONG_OTHERS, replace(CUT_OFF, operations=100.0, latency=0.004)], id="it alone has some"),
        pytest.param([AMONG_OTHERS, NOTHING], id="only metrics are missing"),
        pytest.param([replace(AMONG_OTHERS, of_node_disks=2), CUT_OFF], id="a node of few guests may rest"),
        pytest.param([CUT_OFF, AMONG_OTHERS, CUT_OFF], id="it has rested before"),
        pytest.param([CUT_OFF, AMONG_OTHERS], id="it has some again"),
        pytest.param([replace(AMONG_OTHERS, operations=0.0, latency=None), CUT_OFF], id="the disk had none before"),
        pytest.param([AMONG_OTHERS, replace(CUT_OFF, paused=True)], id="a person paused the guest"),
    ],
)
def test_a_disk_that_rests_with_others_is_not_slow(intervals: list[Interval]) -> None:
    assert find(of(*[AMONG_OTHERS] * 50, *intervals)).cause is Cause.NOT_SLOW


def test_a_disk_that_the_last_pass_could_not_read_is_not_called_not_slow_then() -> None:
    """In the lab a guest hung in the middle of a pass: its counters did not come, and no check was raised yet."""
    looked = [replace(CALM, observed=300.0 * number) for number in range(50)]
    unread = replace(NOTHING, raised=(), observed=300.0 * 50)
    assert find(of(*looked, unread)).unexplained is Unexplained.NOT_READ
    assert find(of(*looked, unread, replace(CALM, observed=300.0 * 51))).cause is Cause.NOT_SLOW


def test_a_disk_that_does_less_from_now_on_is_judged_by_that() -> None:
    """It was busy, and has had few requests for hours when some of them wait."""
    less = replace(CALM, operations=5.0)
    late = replace(less, latency=0.9)
    stopped = replace(IDLE, raised=("SLOW_OPS",))
    found = find(each_two_seconds(*[CALM] * 50, *[less] * 90, *[stopped] * 4, late, *[less] * 50))
    assert (found.cause, len(found.slow), found.all_slow) == (Cause.CLUSTER, 4, 5)


def test_a_few_requests_that_end_while_a_check_is_raised_still_do_not_show_that_none_waits() -> None:
    """In the lab: all OSDs were gone, and the first of them had just answered."""
    stopped, few = replace(IDLE, raised=("OSD_DOWN", "PG_AVAILABILITY")), replace(CALM, operations=2.0, latency=0.06)
    found = find(each_two_seconds(*[CALM] * 50, *[stopped] * 9, replace(few, raised=("OSD_DOWN",))))
    assert (found.cause, found.all_slow) == (Cause.CLUSTER, 10)
    ends = find(each_two_seconds(*[CALM] * 50, *[stopped] * 9, *[replace(few, latency=0.004, raised=())] * 70))
    assert ends.cause is Cause.NOT_SLOW, "minutes later hardly any have come"


def test_a_request_that_took_longer_than_its_reading_is_long_waited_before_it() -> None:
    """In the lab: 20 s of the 25 since the reading before all OSDs were gone."""
    stopped, before = replace(IDLE, raised=("OSD_DOWN", "PG_AVAILABILITY")), replace(CALM, operations=9.0)
    late = replace(CALM, operations=0.25, latency=20.0)
    found = find(each_two_seconds(*[before] * 50, *[stopped] * 12, late))
    assert (found.cause, len(found.slow)) == (Cause.CLUSTER, 12)
    less = find(each_two_seconds(*[before] * 50, *[stopped] * 12, replace(late, latency=9.0)))
    assert less.all_slow == 1, "less than half of the time"


def test_one_reading_tells_of_no_check_that_it_is_raised_always() -> None:
    """In the lab: a busy machine was slow but for one reading, and that was from just before the cluster was gone."""
    slow, stopped = replace(CALM, latency=0.1), replace(IDLE, raised=("OSD_DOWN",))
    quick = replace(CALM, operations=40.0, raised=("OSD_DOWN",))
    found = find(each_two_seconds(*[slow] * 4, quick, *[stopped] * 9, replace(slow, operations=9.0, latency=2.0)))
    assert found.cause is Cause.CLUSTER


DOWN = ("OSD_DOWN",)


@pytest.mark.parametrize("idle", [1, 4])
def test_a_disk_that_rests_while_a_check_is_raised_is_not_slow(idle: int) -> None:
    """One OSD is down for a day, and most disks have nothing to do for most of it."""
    quiet, busy = replace(IDLE, raised=DOWN), replace(CALM, raised=DOWN)
    found = find(of(*[CALM, IDLE] * 20, *[busy, *[quiet] * idle] * 20, busy))
    assert (found.cause, found.all_slow, found.known) == (Cause.NOT_SLOW, 0, found.total)


def test_where_requests_may_have_waited_it_is_unknown_whether_they_did() -> None:
    quiet = replace(IDLE, raised=DOWN)
    rests = find(of(*[CALM] * 40, *[quiet] * 19))
    assert (rests.cause, rests.all_slow, rests.known) == (Cause.NOT_SLOW, 0, 40)
    many = replace(CALM, operations=9000.0)  # one that waited for five minutes is lost among them
    assert find(of(*[CALM] * 40, *[quiet] * 5, *[many] * 9)).known == 49
    few = replace(CALM, operations=2 / 300, latency=400.0)
    assert find(of(*[CALM] * 40, quiet, few)).known == 40
    held = replace(CALM, share=1.0, latency=9.0)
    assert find(of(*[CALM] * 40, *[quiet, held] * 9)).cause is Cause.LIMIT


def test_a_disk_that_rests_when_the_cluster_is_well_again_did_not_wait() -> None:
    stopped = replace(IDLE, raised=("SLOW_OPS",))
    found = find(of(*[CALM] * 40, *[stopped] * 9, *[IDLE] * 9))
    assert (found.cause, found.all_slow, found.known) == (Cause.NOT_SLOW, 0, 58)


def test_one_pass_in_several_intervals_is_one() -> None:
    held = replace(CALM, share=1.0)
    once = [replace(one, observed=number // 5) for number, one in enumerate([*[CALM] * 20, *[held] * 5])]
    assert find(of(*once)).cause is Cause.NOT_SLOW
    assert find(of(*[replace(CALM, observed=1.0)] * 20)).unexplained is Unexplained.FEW_PASSES
    twice = [replace(one, observed=number // 5) for number, one in enumerate([*[CALM] * 20, *[held] * 10])]
    assert (find(of(*twice)).cause, find(of(*twice)).all_slow) == (Cause.LIMIT, 10)


# --- a stall is never explained away


ILL = replace(NOTHING, raised=("SLOW_OPS",))
HUNG = replace(ILL, unanswered=True)
LATE = replace(CALM, latency=0.9)
LATE_IN_STALL = replace(LATE, raised=("SLOW_OPS",))


@pytest.mark.parametrize(
    ("stall", "cause", "slow"),
    [
        ([HUNG], Cause.CLUSTER, 1),
        ([HUNG, ILL, ILL], Cause.CLUSTER, 3),  # the last two were not asked
        (
            [replace(CALM, unanswered=True, raised=("SLOW_OPS",))],
            Cause.CLUSTER,
            1,
        ),  # and answered in the same interval
        ([replace(IDLE, raised=("SLOW_OPS",)), HUNG, HUNG], Cause.CLUSTER, 3),
        ([ILL, LATE], Cause.CLUSTER, 1),  # what happened in the gap is in the sum after it
        ([ILL], Unexplained.NOT_READ, 0),
        ([ILL, replace(LATE, share=1.0)], Unexplained.NOT_READ, 0),  # that waited for its limit
        ([NOTHING, LATE], Unexplained.NOT_READ, 0),  # without Ceph's health
        ([replace(NOTHING, unanswered=True)], Unexplained.NOT_READ, 0),
        ([NOTHING], Cause.NOT_SLOW, 0),
        ([replace(NOTHING, raised=()), LATE], Cause.NOT_SLOW, 0),  # nothing was wrong with the cluster
        ([replace(NOTHING, raised=(), unanswered=True)], Unexplained.NOT_READ, 0),  # all OSDs may be gone at once
        ([replace(IDLE, raised=())] * 9, Cause.NOT_SLOW, 0),  # a person paused it
        ([replace(IDLE, raised=("OSD_DOWN",))] * 9, Cause.NOT_SLOW, 0),  # and resumed it: no request has waited
    ],
)
def test_a_guest_that_was_not_read_while_a_check_was_raised_is_never_called_not_slow(
    stall: list[Interval], cause: Cause | Unexplained, slow: int
) -> None:
    found = find(of(*[CALM] * 90, *stall, *[CALM] * 90))
    assert (found.unexplained or found.cause) is cause
    assert (len(found.slow), bool(found.unread)) == (slow, cause is Unexplained.NOT_READ)
    if cause is Cause.CLUSTER:
        assert found.raised == ("SLOW_OPS",)


# --- a pause by a person is not the cluster's


PAUSED = replace(IDLE, raised=("SLOW_OPS",), paused=True)
STOPPED = replace(IDLE, raised=("SLOW_OPS",))


@pytest.mark.parametrize(
    ("then", "cause", "slow"),
    [
        ([PAUSED] * 9, Cause.NOT_SLOW, 0),
        ([replace(PAUSED, operations=3.0, latency=0.004)] + [PAUSED] * 9, Cause.NOT_SLOW, 0),  # some, and the pause
        # Requests that wait end before the pause begins, and none ended: it had none.
        ([STOPPED, STOPPED, *[PAUSED] * 9], Cause.NOT_SLOW, 0),
        # They took long, and then it was paused.
        ([LATE_IN_STALL, LATE_IN_STALL, *[PAUSED] * 9], Cause.CLUSTER, 2),
        ([STOPPED, replace(LATE_IN_STALL, paused=True), *[PAUSED] * 9], Cause.CLUSTER, 2),
        ([HUNG, HUNG, *[PAUSED] * 9], Cause.CLUSTER, 2),
        ([replace(HUNG, paused=True)] * 2, Cause.CLUSTER, 2),  # QEMU waits for requests before it is paused
        # It was resumed before the cluster was well, and its requests wait.
        ([*[PAUSED] * 9, STOPPED, STOPPED], Cause.CLUSTER, 2),
        ([*[PAUSED] * 9, STOPPED, STOPPED, LATE_IN_STALL], Cause.CLUSTER, 3),
        # It was resumed, and has nothing to do at first.
        ([*[PAUSED] * 9, STOPPED, CALM], Cause.NOT_SLOW, 0),
    ],
)
def test_what_a_person_paused_is_not_charged_to_the_cluster_and_a_stall_beside_it_is(
    then: list[Interval], cause: Cause, slow: int
) -> None:
    found = find(each_two_seconds(*[CALM] * 50, *then))
    assert (found.cause, len(found.slow)) == (cause, slow)


def test_a_pause_in_which_no_request_ends_shows_that_none_waited_before_it() -> None:
    found = find(each_two_seconds(*[CALM] * 50, STOPPED, STOPPED, *[PAUSED] * 9))
    assert (found.cause, found.known) == (Cause.NOT_SLOW, found.total)
    flushed = replace(PAUSED, latency=9.0)  # a flush may have waited all the time
    found = find(each_two_seconds(*[CALM] * 50, STOPPED, STOPPED, flushed, *[PAUSED] * 9))
    assert (found.cause, found.known) == (Cause.NOT_SLOW, found.total - 2)


def test_a_guest_that_had_nothing_to_do_before_its_pause_waits_for_nothing_after_it() -> None:
    found = find(each_two_seconds(*[CALM] * 50, *[IDLE] * 50, *[PAUSED] * 9, STOPPED, STOPPED))
    assert (found.cause, found.all_slow) == (Cause.NOT_SLOW, 0)


# --- a stall without a check


STILL = replace(IDLE, raised=())


@pytest.mark.parametrize("raised", [(), None])
def test_a_disk_that_never_rests_and_stood_still_waited_if_the_next_requests_took_as_long(
    raised: tuple[str, ...] | None,
) -> None:
    usual, still = replace(CALM, raised=raised), replace(STILL, raised=raised)
    late = replace(usual, operations=1.5, latency=1.2)
    found = find(each_two_seconds(*[usual] * 50, *[still] * 3, late, *[usual] * 50))
    assert (found.cause, found.unexplained, len(found.slow)) == (Cause.UNKNOWN, Unexplained.ALONE, 4)
    around = replace(late, of_type=0.9, of_type_disks=9)
    of_type = [replace(still, of_type=0.9, of_type_disks=9)] * 3
    assert find(each_two_seconds(*[usual] * 50, *of_type, around, *[usual] * 50)).cause is Cause.CLUSTER


def test_quick_requests_after_a_stall_without_a_check_do_not_hide_that_others_waited() -> None:
    """As on a node, of which the cluster's health is unknown."""
    usual, still = replace(CALM, latency=0.002, raised=None), replace(STILL, raised=None)
    late = replace(usual, operations=300.0, latency=0.0098)  # 7.8 ms more than usual, 1,200 times: 9 s of 6
    told = replace(each_two_seconds(*[usual] * 50, *[still] * 3, late, *[usual] * 50), usual=0.002)
    found = find(told)
    assert (found.cause, found.unexplained, len(found.slow)) == (Cause.UNKNOWN, Unexplained.ALONE, 3)


@pytest.mark.parametrize(
    "rest",
    [
        [STILL, STILL, CALM],  # and what came then took as long as ever
        [STILL, STILL, replace(CALM, operations=1.5, latency=0.05)],  # too little for all of the time
        [STILL, STILL, replace(CALM, latency=0.9, share=1.0)],  # and waited for its limit
        [STILL, CALM, STILL, STILL, replace(CALM, latency=0.9)],  # it rests now and then
        [replace(STILL, paused=True), replace(CALM, latency=0.9)],
    ],
)
def test_a_rest_that_one_slow_reading_follows_is_no_stall_unless_all_shows_it(rest: list[Interval]) -> None:
    found = find(each_two_seconds(*[CALM] * 50, *rest, *[CALM] * 50))
    assert (found.cause, found.all_slow <= 1) == (Cause.NOT_SLOW, True)


@pytest.mark.parametrize(
    ("then", "cause", "slow"),
    [
        ([replace(CALM, operations=50.0, latency=0.06)], Cause.CLUSTER, 6),  # as long as the gap, all together
        ([replace(CALM, operations=50.0, latency=0.002)], Unexplained.NOT_READ, 0),  # they may have rested
        ([IDLE], Unexplained.NOT_READ, 0),
    ],
)
def test_what_follows_a_gap_without_requests_tells_whether_they_waited(
    then: list[Interval], cause: Cause | Unexplained, slow: int
) -> None:
    """In the lab libvirtd hung in a stall: the first reading after it had a few requests of before."""
    hardly = replace(CALM, operations=0.2, latency=0.009, raised=("SLOW_OPS",))
    found = find(each_two_seconds(*[CALM] * 50, *[ILL] * 4, hardly, *then, *[CALM] * 90))
    assert (found.unexplained or found.cause) is cause
    assert found.all_slow == slow


def test_a_gap_that_begins_before_ceph_raises_its_check_has_it_too() -> None:
    found = find(each_two_seconds(*[CALM] * 50, *[replace(NOTHING, raised=())] * 9, HUNG, *[CALM] * 90))
    assert (found.cause, len(found.slow), found.raised) == (Cause.CLUSTER, 10, ("SLOW_OPS",))


def test_a_check_that_is_raised_all_the_time_makes_no_gap_suspicious() -> None:
    always = replace(CALM, raised=("SLOW_OPS",))
    assert find(of(*[always] * 50, ILL, *[always] * 50)).cause is Cause.NOT_SLOW


def test_the_last_reading_before_passes_stop_tells_nothing_of_a_check_that_is_raised_later() -> None:
    """Its metrics stay until the next pass."""
    passes = [replace(CALM, observed=300.0 * number) for number in range(50)]
    silent = [replace(passes[-1], raised=("SLOW_OPS",))] * 8
    assert find(of(*passes, *silent)).unexplained is Unexplained.NOT_READ
    assert find(of(*passes, *[passes[-1]] * 8)).cause is Cause.NOT_SLOW


@pytest.mark.parametrize(
    ("around", "cause"),
    [
        ({"share": 0.75}, Cause.LIMIT),
        ({"share": 0.75, "burst": True}, Unexplained.ALONE),
        ({}, Unexplained.BURSTS),
        ({"share": 0.49}, Unexplained.ALONE),
        ({"of_node": 0.05, "of_node_disks": 3}, Unexplained.NODE),
        ({"raised": ("SLOW_OPS",)}, Cause.CLUSTER),
    ],
)
def test_a_disk_that_waits_in_bursts_at_its_limit_is_below_it_on_average(
    around: dict[str, object], cause: Cause | Unexplained
) -> None:
    bursts = replace(replace(CALM, share=0.5, latency=0.05), **around)  # type: ignore[arg-type]
    found = find(of(*[CALM] * 50, *[bursts] * 9))
    assert (found.unexplained or found.cause) is cause


def test_a_few_requests_do_not_show_that_a_disk_is_slow() -> None:
    """The first read in hours waits for more than one disk."""
    few = replace(CALM, operations=9 / 300, latency=0.9)
    found = find(of(*[CALM] * 50, *[few] * 9))
    assert (found.cause, found.known) == (Cause.NOT_SLOW, 50)
    assert find(of(*[CALM] * 50, *[replace(few, operations=11 / 300)] * 9)).unexplained is Unexplained.ALONE


def test_a_check_that_is_raised_all_the_time_explains_nothing() -> None:
    always = replace(CALM, raised=("OSD_DOWN",))
    slow = replace(always, latency=0.9)
    found = find(of(*[always] * 50, *[slow] * 9))
    assert (found.cause, found.unexplained) == (Cause.UNKNOWN, Unexplained.ALONE)


def test_a_type_of_few_disks_is_no_witness_for_the_cluster() -> None:
    """The median of one disk is itself."""
    slow = replace(CALM, latency=0.9, of_type=0.9, of_type_disks=1)
    assert find(of(*[CALM] * 50, *[slow] * 9)).unexplained is Unexplained.ALONE


def test_a_guest_that_is_always_the_busiest_is_not_the_neighbour_behind_it() -> None:
    loud = Neighbour("u9", SharedPlace.NODE, "operations", 5000, 0.9)
    always = replace(CALM, neighbours=(loud,))
    slow = replace(always, latency=0.9)
    assert find(of(*[always] * 50, *[slow] * 9)).unexplained is Unexplained.ALONE
    louder = replace(slow, neighbours=(replace(loud, rate=10000),))
    found = find(of(*[always] * 50, *[louder] * 9))
    assert (found.cause, found.neighbour and found.neighbour.uuid) == (Cause.NEIGHBOUR, "u9")


def test_a_guest_that_did_nothing_before_is_the_neighbour_also_if_it_was_busy_before_others_were_slow() -> None:
    """In the lab: of the calm intervals in which it did anything, half were of its load."""
    loud = Neighbour("u9", SharedPlace.NODE, "bytes", 1e8, 0.97)
    rested, early = (replace(CALM, neighbours=(one,)) for one in (idle(SharedPlace.NODE, "bytes"), loud))
    slow = replace(early, latency=0.03)
    found = find(of(*[rested] * 8, *[early] * 4, *[slow] * 5))
    assert (found.cause, found.neighbour and found.neighbour.uuid) == (Cause.NEIGHBOUR, "u9")


def test_a_disk_that_makes_the_load_itself_has_no_neighbour_to_blame() -> None:
    loud = Neighbour("u9", SharedPlace.NODE, "operations", 5000, 0.5)
    slow = replace(CALM, latency=0.9, operations=5000.0, neighbours=(loud,))
    assert find(of(*[CALM] * 50, *[slow] * 9)).unexplained is Unexplained.ALONE


def test_the_cause_of_most_slow_intervals_is_that_of_the_whole() -> None:
    held = replace(CALM, share=1.0)
    ill = replace(CALM, latency=0.9, raised=("SLOW_OPS",))
    found = find(of(*[CALM] * 50, *[held] * 4, *[ill] * 5))
    assert (found.cause, len(found.slow), found.all_slow, found.raised) == (Cause.CLUSTER, 5, 9, ("SLOW_OPS",))
