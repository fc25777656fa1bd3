from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.ordered_return import messages
from plimsoll_insight.ordered_return.cluster import ReturnGroup
from plimsoll_insight.ordered_return.control import (
    Act,
    HostView,
    OsdStart,
    ReturnObservation,
    ReturnPace,
    ReturnProgress,
    ReturnStep,
    StepReason,
    after,
    begin,
    next_step,
    wait,
)
from tests.unit.insight.ordered_return.seen import (
    BOUNDS,
    HOSTS,
    MIB,
    PEAK,
    WHOLE,
    counts,
    groups,
    host,
    planned,
    view,
)

DOWN = (0, 1)
UP = frozenset(HOSTS) - set(DOWN)
PLAN = planned(DOWN)


def took(progress: ReturnProgress, seen: ReturnObservation, **bounds: Any) -> tuple[ReturnProgress, ReturnStep]:
    progress, step = next_step(progress, seen, PLAN, WHOLE, replace(BOUNDS, **bounds))
    return after(progress, step, seen.now), step


def begun() -> ReturnProgress:
    """The first wave, of osd.1 or osd.0, was started at 0."""
    progress, step = took(begin(PLAN, UP), view(0, UP))
    assert (step.act, step.osds) == (Act.START, PLAN.waves[0].osds)
    return progress


FIRST = PLAN.waves[0].osds[0]
SECOND = PLAN.waves[1].osds[0]


def test_a_wave_is_over_when_it_is_up_has_peered_and_its_memory_has_peaked() -> None:
    progress = begun()
    on = UP | {FIRST}
    peers = {
        id: ReturnGroup("peering", on_) if FIRST in on_ else ReturnGroup("active+clean", on_)
        for id, on_ in WHOLE.items()
    }
    sizes = {"a": host(resident={FIRST: 300 * MIB})}
    for seen, why in (
        (view(5, UP), StepReason.BOOTING),
        (view(10, on, groups=peers), StepReason.PEERING),
        (view(13, on), StepReason.GROWING),
        (view(14, on, hosts=sizes), StepReason.GROWING),
        (view(18, on, hosts=sizes), StepReason.GROWING),
        (view(19, on, hosts=sizes), None),
    ):
        progress, step = took(progress, seen)
        assert step.why is why
    assert (step.act, step.osds) == (Act.START, (SECOND,))


def test_a_group_that_waits_for_another_osd_holds_no_wave() -> None:
    states = groups(UP | {FIRST}) | {
        id: ReturnGroup("down+peering", ()) for id, osds in WHOLE.items() if FIRST in osds
    }
    progress, _ = took(begun(), view(5, UP | {FIRST}))
    assert took(progress, view(20, UP | {FIRST}, groups=states))[1].act is Act.START


HELD: Mapping[StepReason, Mapping[str, Any]] = {
    StepReason.CHECK: {"unexpected": ("MON_DOWN (1/3 mons down)",)},
    StepReason.FLAG: {"blocking_flags": ("noup",)},
    StepReason.SLOW: {"counts": counts(11)},
    StepReason.MEMORY_UNKNOWN: {"hosts": {"a": HostView(None, {}, "a: ssh ended with 255")}},
    StepReason.MEMORY_LOW: {"hosts": {"a": host(199 * MIB, {FIRST: MIB})}},
}


@pytest.mark.parametrize("why", HELD)
def test_nothing_is_started_while_something_is_wrong(why: StepReason) -> None:
    progress, _ = took(begun(), view(5, UP | {FIRST}))
    after_it, step = took(progress, view(50, UP | {FIRST}, **HELD[why]))
    assert (step.act, step.why, step.is_hold) == (Act.WAIT, why, True)
    assert after_it.waves == progress.waves
    assert took(after_it, view(55, UP | {FIRST}))[1].act is Act.START


def test_slow_requests_hold_no_start_that_brings_groups_to_service_on_which_they_wait() -> None:
    """With osd.0 and osd.2 down too, 1.0 serves nothing: what it is asked is slow until one of them is started."""
    plan = planned((0, 2))
    states, seen = groups(HOSTS.keys() - {0, 2}), counts(5000)
    progress = begin(plan, HOSTS.keys() - {0, 2})
    seen_at = view(0, HOSTS.keys() - {0, 2}, counts=seen, groups=states)
    assert next_step(progress, seen_at, plan, WHOLE, BOUNDS)[1].act is Act.START
    assert next_step(replace(progress, waves=((5,),)), seen_at, plan, WHOLE, BOUNDS)[1].why is StepReason.SLOW


def test_an_osd_that_came_up_by_itself_is_not_started_but_waited_for() -> None:
    """It would else be started again, and room be made for what it has already."""
    progress, step = took(begun(), view(5, UP | {FIRST, SECOND}))
    assert (progress.waves, [one.osd for one in progress.current], step.why) == (
        (),
        [FIRST, SECOND],
        StepReason.GROWING,
    )
    assert took(progress, view(20, UP | {FIRST}))[1].why is StepReason.LOST
    assert took(progress, view(20, HOSTS))[1].act is Act.DONE


def test_a_group_counts_also_where_it_is_and_not_where_it_was_to_be() -> None:
    states = {id: ReturnGroup("active+clean", on) for id, on in WHOLE.items()} | {
        "9.f": ReturnGroup("peering", (FIRST,))
    }
    progress, _ = took(begun(), view(5, UP | {FIRST}))
    assert took(progress, view(50, UP | {FIRST}, groups=states))[1].why is StepReason.PEERING


def test_a_group_that_lacks_an_osd_of_no_wave_is_not_waited_for_until_it_is_clean() -> None:
    """With osd.5 left out, and noout, 1.4 stays undersized."""
    up = HOSTS.keys() - {5}
    done = replace(begin(PLAN, up), waves=())
    assert took(done, view(0, up))[1].act is Act.DONE
    states = groups(up) | {"1.4": ReturnGroup("active+undersized+degraded+remapped+backfill_wait", (3,))}
    assert took(done, view(0, up, groups=states))[1].why is StepReason.RECOVERING


def test_an_unknown_number_of_slow_requests_is_not_zero() -> None:
    assert took(begin(PLAN, UP), view(0, UP, counts=counts(None)))[1].why is StepReason.SLOW


def test_a_silent_cluster_starts_nothing_and_forgets_nothing() -> None:
    progress = begun()
    later, step = took(progress, ReturnObservation(now=50, trouble="no answer"))
    assert (step.why, later) == (StepReason.SILENT, progress)


def test_an_osd_that_goes_down_holds_whether_it_was_well_before_or_has_returned() -> None:
    progress, _ = took(begun(), view(5, UP | {FIRST}))
    for gone in (4, FIRST):
        step = took(progress, view(50, (UP | {FIRST}) - {gone}))[1]
        assert (step.why, step.osds) == (StepReason.LOST, (gone,))


def test_an_osd_that_never_comes_up_holds_by_its_name() -> None:
    progress = begun()
    assert took(progress, view(60, UP))[1].why is StepReason.BOOTING
    assert took(progress, view(61, UP))[1] == ReturnStep(
        act=Act.WAIT, osds=(FIRST,), why=StepReason.NEVER_UP, facts=("60",)
    )


def ready(sizes: Mapping[int, int], free: int, **bounds: Any) -> ReturnStep:
    """The first wave is over, of which all was as forecast; what comes next on a host with so much left."""
    on = UP | {FIRST}
    progress, _ = took(begun(), view(5, on, hosts={"a": host(free, {FIRST: PEAK})}), **bounds)
    return took(progress, view(50, on, hosts={"a": host(free, sizes)}), **bounds)[1]


def test_the_next_is_started_only_where_its_forecast_and_the_reserve_fit() -> None:
    assert ready({}, 200 * MIB + PEAK).act is Act.START
    step = ready({}, 200 * MIB + PEAK - 1)
    assert (step.act, step.why, step.facts[0]) == (Act.WAIT, StepReason.NO_ROOM, "a")


def test_a_peak_above_its_forecast_raises_that_of_the_next() -> None:
    """Twice of what was forecast."""
    on = UP | {FIRST}
    sizes = {"a": host(200 * MIB + PEAK, {FIRST: 2 * PEAK})}
    progress, _ = took(begun(), view(5, on, hosts=sizes))
    assert took(progress, view(50, on, hosts=sizes))[1].why is StepReason.NO_ROOM


@pytest.mark.parametrize(("free", "act"), [(0.6 * PEAK, Act.START), (0.6 * PEAK - 1, Act.WAIT)])
def test_peaks_below_their_forecasts_lower_that_of_the_next_but_for_a_margin(free: float, act: Act) -> None:
    """The forecast of small OSDs may be twice of what they take: the second would wait without an end."""
    sizes = {"a": host(200 * MIB + int(free), {FIRST: PEAK // 2})}
    progress, _ = took(begun(), view(5, UP | {FIRST}, hosts=sizes))
    progress, step = took(progress, view(50, UP | {FIRST}, hosts=sizes))
    assert step.act is act
    assert [one.learned for one in progress.current] == [0.6] * (act is Act.START)


def test_the_peak_of_an_osd_that_was_restarted_is_told_with_what_was_forecast_of_it() -> None:
    """What it took after that, with nothing to catch up, was told as its peak."""
    progress = replace(
        begin(PLAN, UP), waves=(), finished=(OsdStart(osd=FIRST, at=0, peak=180 * MIB, grown=9, learned=1.5),)
    )
    progress = after(progress, ReturnStep(act=Act.RESTART, osds=(FIRST,)), 50)
    seen = view(55, UP | {FIRST}, hosts={"a": host(resident={FIRST: 60 * MIB})})
    progress, step = took(progress, seen)
    assert (step.why, progress.current[0].peak) == (StepReason.GROWING, 60 * MIB)
    assert next(messages.memory_lines(progress, PLAN)) == (
        f"osd.{FIRST}: 180 MiB at most; forecast 100 MiB to 300 MiB, -40 %"
    )


def test_what_holds_most_is_restarted_once_and_only_if_that_is_allowed() -> None:
    sizes, free = {FIRST: 180 * MIB}, 210 * MIB
    assert ready(sizes, free).act is Act.WAIT
    step = ready(sizes, free, restarts=True)
    assert (step.act, step.osds, step.is_hold) == (Act.RESTART, (FIRST,), False)
    assert ready({FIRST: 110 * MIB}, free, restarts=True).act is Act.WAIT  # no more than in peace
    progress = after(replace(begin(PLAN, UP | {FIRST}), waves=((SECOND,),)), step, 50)
    assert FIRST not in progress.expected  # it is away for a moment, and that is no loss
    for at in (55, 90):
        progress, step = took(progress, view(at, UP | {FIRST}, hosts={"a": host(free, sizes)}), restarts=True)
    assert (step.act, step.why) == (Act.WAIT, StepReason.NO_ROOM)


@pytest.mark.parametrize(("until_clean", "act"), [(True, Act.WAIT), (False, Act.DONE)])
def test_it_ends_when_all_is_clean_or_when_all_serve_as_told(until_clean: bool, act: Act) -> None:
    states = {id: ReturnGroup("active+recovering+degraded", on) for id, on in WHOLE.items()}
    done = replace(begin(PLAN, HOSTS), waves=())
    assert took(done, view(0, HOSTS, groups=states), until_clean=until_clean)[1].act is act
    assert took(done, view(0, HOSTS))[1].act is Act.DONE


def moving(*ids: str, state: str = "peering") -> dict[str, ReturnGroup]:
    return groups(UP | {FIRST}) | {id: ReturnGroup(state, WHOLE[id]) for id in ids}


OF_FIRST = sorted(id for id, osds in WHOLE.items() if FIRST in osds)


def test_groups_that_peer_and_never_end_hold_by_their_names_after_the_stated_time() -> None:
    on, two = UP | {FIRST}, OF_FIRST[:2]
    progress, _ = took(begun(), view(10, on, groups=moving(*two)))
    for at, ids in ((209, two), (210, two), (211, two[:1])):  # one less
        progress, step = took(progress, view(at, on, groups=moving(*ids)))
        assert (step.why, step.osds, step.facts) == (StepReason.PEERING, (FIRST,), (str(len(ids)),))
    progress, step = took(progress, view(411, on, groups=moving(*two)))
    assert step.why is StepReason.PEERING
    progress, step = took(progress, view(412, on, groups=moving(*two)))
    names = f"{two[0]} (peering), {two[1]} (peering)"
    assert (step.why, step.is_hold, step.facts) == (StepReason.STUCK, True, ("2", names, "200", two[0]))
    assert messages.step_words(step, PLAN) == (
        f"holds: 2 placement groups have not moved on for 200 s: {names}. ceph pg {two[0]} query says why"
    )
    assert took(progress, view(413, on))[1].act is not Act.WAIT, "and goes on once they do"


def test_each_wave_has_the_whole_time_for_its_groups() -> None:
    progress = replace(begun(), pace=ReturnPace(wait(StepReason.PEERING, osds=(SECOND,)), (1,), 0))
    assert took(progress, view(300, UP | {FIRST}, groups=moving(OF_FIRST[0])))[1].why is StepReason.PEERING


def test_recovery_that_copies_is_not_stuck_and_one_that_does_not_holds() -> None:
    state = "active+recovery_unfound+degraded"
    states = {id: ReturnGroup(state, on) for id, on in WHOLE.items()}
    progress = replace(begin(PLAN, HOSTS), waves=())
    for at, copies in ((0, 90), (190, 80), (380, 80), (390, 90)):
        progress, step = took(progress, view(at, HOSTS, groups=states, counts=counts(degraded=copies)))
        assert (step.why, step.facts) == (StepReason.RECOVERING, ("6",))
    step = took(progress, view(391, HOSTS, groups=states, counts=counts(degraded=80)))[1]
    assert (step.why, step.facts[1]) == (StepReason.STUCK, f"1.0 ({state}), 1.1 ({state}), 1.2 ({state}), 3 more")


def test_an_osd_without_a_process_on_its_host_holds_instead_of_being_waited_for() -> None:
    """Its memory has then not peaked, ever."""
    on, unseen = UP | {FIRST}, {"a": host()}
    progress = begun()
    assert took(progress, view(60, on, hosts=unseen))[1].why is StepReason.GROWING
    step = took(progress, view(61, on, hosts=unseen))[1]
    assert (step.why, step.facts[0]) == (StepReason.MEMORY_UNKNOWN, f"osd.{FIRST}")
