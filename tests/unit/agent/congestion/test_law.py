"""x follows the latency: within its bounds, by its steps, and never without a reason."""

from __future__ import annotations

import json
from itertools import accumulate, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.congestion.law import TUNING, Action, ClassState, Signal, Tuning, returned, step
from plimsoll_agent.util.decoding import data_of, value_of
from plimsoll_agent.util.frozen import replace
from tests.unit.values import examples_of

OBJECTIVE = 0.006
SIGNALS = st.one_of(
    st.none(),
    st.builds(Signal, latency=st.floats(1e-6, 1e3), rate=st.none() | st.floats(0, 1e7)),
)


def run(*latencies: float | None, state: ClassState = ClassState(), tuning: Tuning = TUNING) -> list[ClassState]:  # noqa: B008  # frozen
    """The state after each; latencies are in objectives, None is no signal."""

    def following(state: ClassState, latency: float | None) -> ClassState:
        return step(state, latency and Signal(latency=latency * OBJECTIVE), OBJECTIVE, tuning)

    return list(accumulate(latencies, following, initial=state))[1:]


@given(st.lists(SIGNALS, max_size=60))
@examples_of(300)
def test_x_stays_within_its_bounds_and_steps_and_its_state_survives_json(signals: list[Signal | None]) -> None:
    state = ClassState()
    for signal in signals:
        after = step(state, signal, OBJECTIVE)
        assert TUNING.lowest <= after.x <= 1
        assert state.x * 0.64 - 1e-4 <= after.x <= max(state.x * 1.1, state.x + 0.1) + 1e-4
        assert (after.x == state.x) == (after.action not in (Action.LOWERED, Action.RAISED, Action.RETURNING)) or (
            after.action is Action.INEFFECTIVE
        )
        assert value_of(ClassState, json.loads(json.dumps(data_of(after)))) == after
        state = after


@pytest.mark.parametrize(
    ("latencies", "action"),
    [
        ([0.3, 1.1] * 50, Action.FULL),
        ([50.0], Action.NOTICED),
        ([50.0, 0.5] * 50, Action.FULL),
        ([1.14] * 500, Action.FULL),
        ([2.0], Action.NOTICED),
        ([2.0, 2.0], Action.LOWERED),
        ([1.5] * 3, Action.NOTICED),
        ([1.5] * 4, Action.LOWERED),
        ([50.0, None, 50.0], Action.NOTICED),
    ],
)
def test_a_reduction_begins_after_excess_for_long_enough_and_never_by_one_spike(
    latencies: list[float | None], action: Action
) -> None:
    states = run(*latencies)
    assert states[-1].action is action
    assert all(state.x == 1 for state in states[:-1])


def test_an_unknown_objective_reduces_nothing() -> None:
    assert step(ClassState(), Signal(latency=9.0), None).x == 1


@pytest.mark.parametrize(("latency", "factor", "wait"), [(9.0, 0.64, 3), (1.9, 1.9**-0.3, 4)])
def test_after_a_move_the_signal_is_not_judged_until_it_shows_it(latency: float, factor: float, wait: int) -> None:
    states = run(*[latency] * 12, tuning=replace(TUNING, delay=3))
    first = next(number for number, state in enumerate(states) if state.action is Action.LOWERED)
    assert states[first].x == pytest.approx(factor, abs=1e-4)
    assert [state.action for state in states[first + 1 : first + 1 + wait]] == [Action.WAITING] * wait
    assert states[first + 1 + wait].samples in (0, 1)


CONGESTED = ClassState(x=0.5, fine=0.5, action=Action.IN_BAND)
NO_WAIT = replace(TUNING, delay=-1)


def test_the_gain_halves_when_the_direction_changes_and_grows_after_three_moves_alike() -> None:
    states = run(0.4, 3.0, 0.4, 3.0, 3.0, 3.0, 3.0, 3.0, state=CONGESTED, tuning=replace(NO_WAIT, cliff=9.0))
    gains = [0.3, 0.15, 0.075, 0.0375, 0.0375, 0.0375, 0.04875, 0.063375]
    assert [state.gain for state in states] == pytest.approx(gains)


@pytest.mark.parametrize(("latency", "signals"), [(2.1, 1), (0.48, 1), (1.5, 2), (1.25, 4), (0.82, 4), (1.14, 99)])
def test_a_small_difference_needs_more_signals_than_a_large_one(latency: float, signals: int) -> None:
    states = run(*[latency] * 8, state=CONGESTED)
    fine = [state.fine for state in states]
    assert next((number for number, each in enumerate(fine, 1) if each != 0.5), 99) == signals


def test_a_raise_over_the_cliff_is_taken_back_and_the_next_ones_are_small_and_then_late() -> None:
    """Latency is a third of the objective up to 0.53, and ten times the objective above it."""
    state, course = CONGESTED, []
    for _ in range(300):
        state = step(state, Signal(latency=OBJECTIVE * (10 if state.x > 0.53 else 0.33)), OBJECTIVE, NO_WAIT)
        course.append(state.x)
    over = [number for number, x in enumerate(course) if x > 0.53]
    assert all(course[number + 1] < 0.53 for number in over)
    assert len(over) == 4
    assert over[1] < 12
    assert over[-1] - over[-2] > 120 > over[-2] - over[-3] > 60
    assert course[over[-1]] < 0.53 * 1.03
    assert course[-1] > 0.51
    assert run(*[0.1] * 60, state=state)[-1].x == 1, "the cluster has recovered"


def test_a_lost_signal_moves_nothing_and_a_signal_that_is_gone_returns_x_within_ten_minutes() -> None:
    low = ClassState(x=TUNING.lowest, fine=TUNING.lowest, action=Action.LOWERED)
    assert run(None, 1.0, None, None, 1.0, None, None, None, state=low)[-1].x == low.x
    states = run(*repeat(None, int(600 / TUNING.period)), state=low)
    assert states[-1].x == 1
    assert [state.action for state in states[:4]] == [*[Action.NO_SIGNAL] * 3, Action.RETURNING]
    assert returned(low.x, 3) == states[5].x


def test_a_reduction_that_does_not_lower_the_latency_ends_and_rests() -> None:
    states = run(*[4.0] * 60)
    last = next(number for number, state in enumerate(states) if state.action is Action.INEFFECTIVE)
    assert min(state.x for state in states) < 0.7
    assert states[last + 10].x == 1
    assert {state.action for state in states[last:]} == {Action.INEFFECTIVE}
    calm_then_not = run(1.0, 4.0, 4.0, state=states[-1])
    assert calm_then_not[-1].action is Action.LOWERED


def test_a_reduction_that_reaches_no_disk_yet_goes_on() -> None:
    """Limits far above what the cluster serves: the first steps change nothing, and are no reason to stop."""
    state = ClassState()
    for _ in range(60):
        rate = min(1000.0, 4000.0 * state.x)
        state = step(state, Signal(latency=4 * OBJECTIVE * rate / 1000, rate=rate), OBJECTIVE)
    assert state.x < 0.1
    assert state.action is not Action.INEFFECTIVE


@pytest.mark.parametrize(
    "change",
    [{"x": 0}, {"x": 1.5}, {"x": "1"}, {"gain": -1}, {"direction": 2}, {"direction": True}, {"wait": -1},
     {"action": "dance"}, {"level": float("nan")}, {"start": {"x": 1}}, {"rest": 1.5}],
)  # fmt: skip
def test_a_damaged_state_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, LookupError)):
        value_of(ClassState, data_of(ClassState()) | change)


@pytest.mark.parametrize("values", [{"latency": 0.0}, {"latency": float("nan")}, {"latency": 1.0, "rate": -1.0}])
def test_a_signal_that_cannot_be_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"none|no rate"):
        Signal(**values)
