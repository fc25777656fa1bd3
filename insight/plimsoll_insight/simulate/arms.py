"""What a simulated cluster may do against congestion, side by side: each moves the same x from the same signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from plimsoll_agent.congestion import law
from plimsoll_agent.congestion.law import ClassState, Signal, Tuning
from plimsoll_agent.util.frozen import replace

Arm = Callable[[ClassState, Signal | None, float, Tuning], ClassState]


def _nothing(state: ClassState, _signal: Signal | None, _objective: float, _tuning: Tuning) -> ClassState:
    return state


def _half(_state: ClassState, _signal: Signal | None, _objective: float, _tuning: Tuning) -> ClassState:
    """All limits are half of what is desired, always."""
    return ClassState(x=0.5)


def _aimd(state: ClassState, signal: Signal | None, objective: float, tuning: Tuning) -> ClassState:
    """Additive increase, multiplicative decrease, as TCP does."""
    if signal is None:
        return state
    x = state.x / 2 if signal.latency > objective else state.x + 0.05
    return replace(state, x=min(1.0, max(tuning.lowest, x)))


def _parda(state: ClassState, signal: Signal | None, objective: float, tuning: Tuning) -> ClassState:
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
