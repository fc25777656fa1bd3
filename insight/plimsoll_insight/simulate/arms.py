"""What a simulated cluster may do against congestion, side by side: each moves the same x from the same signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from plimsoll_agent.congestion import law
from plimsoll_agent.congestion.law import Signal, State, Tuning
from plimsoll_agent.util.frozen import replace

Arm = Callable[[State, Signal | None, float, Tuning], State]


def _nothing(state: State, _signal: Signal | None, _objective: float, _tuning: Tuning) -> State:
    return state


def _half(_state: State, _signal: Signal | None, _objective: float, _tuning: Tuning) -> State:
    """All limits are half of what is desired, always."""
    return State(x=0.5)


def _aimd(state: State, signal: Signal | None, objective: float, tuning: Tuning) -> State:
    """Additive increase, multiplicative decrease, as TCP does."""
    if signal is None:
        return state
    x = state.x / 2 if signal.latency > objective else state.x + 0.05
    return replace(state, x=min(1.0, max(tuning.lowest, x)))


def _parda(state: State, signal: Signal | None, objective: float, tuning: Tuning) -> State:
    """w ← (1 - γ) w + γ (objective / latency · w + β), on rates in place of queue lengths (Gulati, FAST '09)."""
    if signal is None:
        return state
    x = 0.5 * state.x + 0.5 * (objective / signal.latency * state.x + 0.01)
    return replace(state, x=min(1.0, max(tuning.lowest, x)))


ARMS: Mapping[str, Arm] = {
    "nothing": _nothing,
    "half": _half,
    "aimd": _aimd,
    "parda": _parda,
    "plimsoll": law.step,
}
