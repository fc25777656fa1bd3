"""The law of congestion: one factor x for a cluster and device class, from the latency of its light disks.

A latency above the objective for long enough begins a reduction. From then on x moves by ``x · (objective /
latency)^gain``, at most by ``most_down`` or ``most_up``. The latency is the mean since the last move shows, and a
small difference needs more signals than a large one. The gain halves when the direction changes, and grows after
three moves of the same direction, so it finds what a cluster of unknown sharpness bears. Within the band around the
objective nothing moves.

With many servers to an OSD latency has a cliff: a little more load, and it is ten times as long. No x then has the
objective. A raise that leads over the cliff is taken back, half of it is tried, and so on; then x stays below the
cliff for a long time.

Pure: ``step`` takes a state and returns the next. A state is plain numbers.
"""

from __future__ import annotations

from enum import StrEnum
from math import exp, isfinite, log, sqrt
from typing import Literal

from plimsoll_agent.util.decoding import Amount, Count, Finite, Ratio
from plimsoll_agent.util.frozen import frozen, replace

_DIGITS = 4
"""x as published, recorded and computed again: the same on every node."""
_SMOOTHING = 0.25
"""How much a new latency counts at least in the mean of those since the last move."""
_SURE = 6
"""Signals of which the mean is sure enough."""
_DROP = 0.75
_RISE = 0.5
_FAR = log(2)


@frozen(kw_only=True)
class Tuning:
    """Periods, not seconds, but for ``period``."""

    period: float = 30.0
    """Seconds from one step to the next."""
    band: float = 1.15
    """A latency between the objective divided and multiplied by this moves nothing."""
    evidence: float = 1.0
    """How much excess (ln of latency / objective, above the band), summed over periods, begins a reduction. A period
    counts for half of it at most: twice the objective two times in a row, less for longer, never one spike."""
    lowest: float = 0.05
    """x goes no lower."""
    quantum: float = 0.03
    """x is published when it has changed by so much: each change costs a write of limits to every disk."""
    most_down: float = 0.2
    most_plunge: float = 0.36
    """In place of ``most_down`` until the first raise, while the latency is above twice the objective."""
    most_up: float = 0.1
    first_gain: float = 0.3
    least_gain: float = 0.015
    most_gain: float = 0.6
    growth: float = 1.3
    """Of the gain, after three moves of one direction."""
    cliff: float = 1.5
    """A raise that brings the latency above so many times the objective is taken back."""
    short_pause: int = 6
    """So long no raise follows a large one that was taken back;"""
    pause: int = 60
    """so long a small one, or until the latency falls without a move."""
    longest_pause: int = 120
    """The pause doubles each time, up to this."""
    delay: int = 4
    """So long the signal does not show a move whole: it is late, and the mean of two minutes. With too short a delay
    x swings where OSDs have many servers."""
    patience: int = 3
    """So long x stays without a signal; then it returns."""
    back: float = 0.1
    """By this x returns in each period without a signal, or after an ineffective reduction."""
    futile_cut: float = 0.3
    futile_gain: float = 0.05
    """A reduction is ineffective if x fell by the cut, and the latency by less than the gain,"""
    futile_times: int = 6
    """by the mean of so many signals."""
    rest: int = 120
    """So long x stays at 1 after an ineffective reduction, or until the latency is within the band."""


TUNING = Tuning()


class Action(StrEnum):
    """What a step did. Records, metrics and tests use these codes."""

    FULL = "full"
    """x is 1, and the latency gives no reason to change that."""
    NOTICED = "noticed"
    """x is 1; the latency is above the band, not for long enough yet."""
    IN_BAND = "in-band"
    WAITING = "waiting"
    """The signal does not show the last move yet, or not clearly."""
    PAUSED = "paused"
    """The latency is below the band; a raise was over the cliff, and the next one comes later."""
    LOWERED = "lowered"
    RAISED = "raised"
    LOWEST = "lowest"
    """The latency is above the band, and x is as low as it goes."""
    NO_SIGNAL = "no-signal"
    """x stays, for a few periods."""
    RETURNING = "returning"
    """x grows: there was no signal for longer."""
    INEFFECTIVE = "ineffective"
    """x grows, or stays at 1: it had been lowered, and the latency did not fall."""


@frozen(kw_only=True)
class Signal:
    """What was measured in a period, of one cluster and device class."""

    latency: float
    """Seconds: mean of the light disks' requests."""
    rate: float | None = None
    """Requests a second of all disks that may be reduced; None if unknown. It tells whether a reduction bites: one
    that leaves the rate as it was cannot have lowered the latency yet."""

    def __post_init__(self) -> None:
        if not (isfinite(self.latency) and self.latency > 0):
            raise ValueError(f"a latency of {self.latency} s is none")
        if self.rate is not None and not (isfinite(self.rate) and self.rate >= 0):
            raise ValueError(f"{self.rate} requests a second are no rate")


@frozen(kw_only=True)
class Start:
    """Where the present descent began: x, the smoothed latency (ln of seconds), and the smoothed rate."""

    x: Ratio
    level: Finite
    rate: Amount | None


@frozen(kw_only=True)
class ClassState:
    """Of one cluster and device class; the default is how each begins."""

    x: Ratio = 1.0
    action: Action = Action.FULL
    fine: Ratio = 1.0
    """x before it is published in steps."""
    gain: Amount | None = None
    """None: that of the tuning."""
    direction: Literal[-1, 0, 1] = 0
    """Of the last move: -1, 0 for none, 1."""
    alike: Count = 0
    """Moves of that direction in a row."""
    wait: Count = 0
    """Periods until the signal shows the last move."""
    missing: Count = 0
    """Periods in a row without a signal."""
    evidence: Amount = 0.0
    """While x is 1: the excess of the latency, summed."""
    samples: Count = 0
    """Signals since the last move shows."""
    before: Ratio | None = None
    """x before the last raise, if that was the last move."""
    knee: Ratio | None = None
    """An x that was over the cliff: near it x grows in small steps."""
    pause: Count = 0
    """Periods until x may come there again."""
    pauses: Count = 0
    plateau: Finite | None = None
    """Mean of ``level`` in the pause."""
    level: Finite | None = None
    """Mean of the ln of the latency in seconds, since the last move shows."""
    rate: Amount | None = None
    """Smoothed."""
    start: Start | None = None
    after: Finite | None = None
    """Mean of the ln of the latency since x is far below the start,"""
    afters: Count = 0
    """of so many signals."""
    rest: Count = 0
    """Periods for which x stays at 1, or returns there, after an ineffective reduction."""


def step(state: ClassState, signal: Signal | None, objective: float | None, tuning: Tuning = TUNING) -> ClassState:
    """The state after one period; ``objective`` in seconds, None if it is unknown, which counts as no signal."""
    if signal is None or objective is None:
        return _without_signal(state, tuning)
    if not (isfinite(objective) and objective > 0):
        raise ValueError(f"an objective of {objective} s is none")
    state = replace(state, missing=0, pause=max(0, state.pause - 1))
    if state.wait:
        return replace(state, wait=state.wait - 1, samples=0, action=Action.WAITING)
    state = _smoothed(state, signal)
    if state.rest:
        return _resting(state, log(objective / signal.latency), tuning)
    if state.x >= 1:
        return _at_full(state, log(objective / signal.latency), tuning)
    state = _followed(state, log(signal.latency), tuning)
    if _is_futile(state, tuning):
        x = returned(state.x, 1, tuning)
        return ClassState(x=x, fine=x, rest=tuning.rest, level=state.level, action=Action.INEFFECTIVE)
    return _judged(state, log(objective) - (state.level or 0.0), tuning)


def returned(x: float, periods: int, tuning: Tuning = TUNING) -> float:
    """x after so many periods without a signal: what a node applies when the published one has expired."""
    return min(1.0, _rounded(x + tuning.back * periods))


def _without_signal(state: ClassState, tuning: Tuning) -> ClassState:
    missing = state.missing + 1
    if state.x >= 1:
        return replace(state, missing=missing, evidence=0.0, action=Action.NO_SIGNAL)
    if missing <= tuning.patience:
        return replace(state, missing=missing, wait=max(0, state.wait - 1), action=Action.NO_SIGNAL)
    x = returned(state.x, 1, tuning)
    return ClassState(x=x, fine=x, missing=missing, rest=state.rest, action=Action.RETURNING)


def _smoothed(state: ClassState, signal: Signal) -> ClassState:
    samples = state.samples + 1
    part = max(1 / samples, _SMOOTHING)
    return replace(
        state,
        samples=samples,
        level=_blend(state.level, log(signal.latency), part),
        rate=None if signal.rate is None else _blend(state.rate, signal.rate, part),
    )


def _blend(before: float | None, new: float, part: float) -> float:
    return new if before is None else before + part * (new - before)


def _resting(state: ClassState, error: float, tuning: Tuning) -> ClassState:
    calm = state.x >= 1 and error > -log(tuning.band)
    rest = 0 if calm else max(0, state.rest - (state.x >= 1))
    x = returned(state.x, 1, tuning)
    return replace(state, x=x, fine=x, rest=rest, action=Action.INEFFECTIVE)


def _at_full(state: ClassState, error: float, tuning: Tuning) -> ClassState:
    """A sum that excess raises and its absence lowers, as of E. S. Page, Biometrika 41, 1954 (CUSUM)."""
    excess = min(-error - log(tuning.band), tuning.evidence / 2)
    evidence = max(0.0, state.evidence + excess)
    if evidence < tuning.evidence:
        return ClassState(
            evidence=evidence,
            samples=state.samples if evidence else 0,
            level=state.level,
            rate=state.rate,
            action=Action.NOTICED if evidence else Action.FULL,
        )
    return _moved(replace(state, evidence=0.0), min(error, -log(tuning.band)), tuning)


def _judged(state: ClassState, error: float, tuning: Tuning) -> ClassState:
    if state.pause:
        state = _paused(state)
    if abs(error) < log(tuning.band):
        return replace(state, action=Action.IN_BAND, start=None)
    if error > 0 and state.pause:
        return replace(state, action=Action.PAUSED)
    if state.samples * abs(error) < _FAR:
        return replace(state, action=Action.WAITING)
    return _moved(state, error, tuning)


def _paused(state: ClassState) -> ClassState:
    """The load fell, or the cluster recovered, if the latency did without a move."""
    level, plateau = state.level or 0.0, state.plateau
    if plateau is not None and state.samples > _SURE and level < plateau + log(_DROP):
        return replace(state, pause=0, pauses=0, plateau=None)
    return replace(state, plateau=_blend(plateau, level, 1 / state.samples))


def _moved(state: ClassState, error: float, tuning: Tuning) -> ClassState:
    direction = 1 if error > 0 else -1
    state = _descent(state, direction, tuning)
    state = _geared(state, direction, tuning)
    return _raised(state, error, tuning) if direction > 0 else _lowered(state, error, tuning)


def _lowered(state: ClassState, error: float, tuning: Tuning) -> ClassState:
    plunges = state.gain == tuning.first_gain and error < -_FAR
    least = 1 - (tuning.most_plunge if plunges else tuning.most_down)
    fine = state.fine * max(exp((state.gain or 0.0) * error), least)
    before = state.before
    if before is not None and error < -log(tuning.cliff):
        state, fine = _over_the_cliff(state, before, tuning), min(fine, before)
    # Nodes have x for a part of the first period only: its latency is between the two.
    wait = tuning.delay if plunges else tuning.delay + 1
    return _published(state, max(tuning.lowest, fine), wait, tuning)


def _over_the_cliff(state: ClassState, before: float, tuning: Tuning) -> ClassState:
    """A short pause only, if the raise was large: then the cliff is somewhere in it."""
    is_near = state.x < before * (1 + 2 * tuning.quantum)
    long = min(tuning.longest_pause, tuning.pause * 2**state.pauses)
    return replace(
        state,
        knee=state.x,
        before=None,
        plateau=None,
        pause=long if is_near else tuning.short_pause,
        pauses=state.pauses + is_near,
    )


def _raised(state: ClassState, error: float, tuning: Tuning) -> ClassState:
    fine = state.fine * min(exp((state.gain or 0.0) * error), 1 + tuning.most_up)
    if state.knee is not None:
        fine = min(fine, max(state.fine * (1 + tuning.quantum), sqrt(state.fine * state.knee)))
    return _published(state, min(1.0, fine), tuning.delay + 1, tuning)


def _published(state: ClassState, fine: float, wait: int, tuning: Tuning) -> ClassState:
    state = replace(state, fine=fine, samples=0)
    x = _rounded(fine)
    if x == state.x or (abs(x - state.x) < tuning.quantum * state.x and tuning.lowest < x < 1):
        lowest = state.direction < 0 and x == state.x
        return replace(state, action=Action.LOWEST if lowest else Action.IN_BAND)
    lowers = x < state.x
    return replace(
        state,
        x=x,
        before=None if lowers else state.x,
        knee=None if state.knee is not None and x > state.knee else state.knee,
        wait=wait,
        action=Action.LOWERED if lowers else Action.RAISED,
    )


def _geared(state: ClassState, direction: int, tuning: Tuning) -> ClassState:
    gain = tuning.first_gain if state.gain is None else state.gain
    if direction == -state.direction:
        return replace(state, gain=max(tuning.least_gain, gain / 2), direction=direction, alike=1)
    alike = state.alike + 1
    if alike > 3:
        gain = min(tuning.most_gain, gain * tuning.growth)
    return replace(state, gain=gain, direction=direction, alike=alike)


def _descent(state: ClassState, direction: int, tuning: Tuning) -> ClassState:
    """Where it began; a latency that rises far on the way, as when a failure grows, begins it again."""
    start, level = state.start, state.level
    if direction > 0 or level is None:
        return replace(state, start=None)
    rises = start is not None and state.x > tuning.lowest and state.samples > 1 and level > start.level + _RISE
    if start is None or rises:
        return replace(state, start=Start(x=state.x, level=level, rate=state.rate), after=None, afters=0)
    return state


def _followed(state: ClassState, level: float, tuning: Tuning) -> ClassState:
    """The latency since x is far below the start of the descent."""
    start = state.start
    if start is None or not (state.x <= start.x * (1 - tuning.futile_cut) or state.x <= tuning.lowest):
        return replace(state, after=None, afters=0)
    afters = state.afters + 1
    return replace(state, afters=afters, after=_blend(state.after, level, 1 / afters))


def _is_futile(state: ClassState, tuning: Tuning) -> bool:
    """Whether x fell far, the disks that it reduces felt it, and the latency stayed."""
    start, after = state.start, state.after
    if start is None or after is None or state.afters < tuning.futile_times:
        return False
    bites = state.x <= tuning.lowest or start.rate is None or state.rate is None or state.rate < 0.9 * start.rate
    return bites and after > start.level + log(1 - tuning.futile_gain)


def _rounded(x: float) -> float:
    return round(x, _DIGITS)
