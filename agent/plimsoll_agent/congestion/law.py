"""The law of congestion: one factor x for a cluster and device class, from the latency of its light disks.

Each period compares the latency with the objective and moves x by ``x · (objective / latency)^gain``, at most by
``most_down`` or ``most_up``. After a move it waits ``delay`` periods, until the signal shows its effect. The
gain halves when the direction changes, and grows after three moves of the same direction, so it finds what a cluster
of unknown sharpness bears. Within the band around the objective nothing moves.

Pure: ``step`` takes a state and returns the next. A state is plain numbers (``as_data``, ``read``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import exp, inf, isfinite, log

from plimsoll_agent.util import decoding
from plimsoll_agent.util.frozen import asdict, frozen, replace

_DIGITS = 4
"""x as published, recorded and computed again: the same on every node."""
_SMOOTHING = 0.3
"""How much a new latency counts in the smoothed one."""


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
    most_down: float = 0.2
    most_up: float = 0.1
    first_gain: float = 0.3
    least_gain: float = 0.015
    most_gain: float = 0.6
    growth: float = 1.3
    """Of the gain, after three moves of one direction."""
    delay: int = 1
    """So long after a move the signal does not show it yet."""
    patience: int = 3
    """So long x stays without a signal; then it returns."""
    back: float = 0.1
    """By this x returns in each period without a signal, or after an ineffective reduction."""
    futile_cut: float = 0.3
    futile_gain: float = 0.05
    """A reduction is ineffective if x fell by the cut, and the latency by less than the gain,"""
    futile_times: int = 4
    """so often in a row."""
    rest: int = 120
    """After an ineffective reduction x stays at 1 so long, unless the latency was within the band before."""


TUNING = Tuning()


class Action(StrEnum):
    """What a step did. Records, metrics and tests use these codes."""

    FULL = "full"
    """x is 1, and the latency gives no reason to change that."""
    NOTICED = "noticed"
    """x is 1; the latency is above the band, not for long enough yet."""
    IN_BAND = "in-band"
    WAITING = "waiting"
    """The signal does not show the last move yet."""
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

    x: float
    level: float
    rate: float | None


@frozen(kw_only=True)
class State:
    """Of one cluster and device class; the default is how each begins."""

    x: float = 1.0
    action: Action = Action.FULL
    gain: float | None = None
    """None: that of the tuning."""
    direction: int = 0
    """Of the last move: -1, 0 for none, 1."""
    alike: int = 0
    """Moves of that direction in a row."""
    wait: int = 0
    """Periods until the signal shows the last move."""
    missing: int = 0
    """Periods in a row without a signal."""
    evidence: float = 0.0
    """While x is 1: the excess of the latency, summed."""
    level: float | None = None
    """ln of the smoothed latency in seconds."""
    rate: float | None = None
    """Smoothed."""
    start: Start | None = None
    futile: int = 0
    """Judgements in a row by which the descent is ineffective."""
    rest: int = 0
    """Periods for which x stays at 1, or returns there, after an ineffective reduction."""


def step(state: State, signal: Signal | None, objective: float | None, tuning: Tuning = TUNING) -> State:
    """The state after one period; ``objective`` in seconds, None if it is unknown, which counts as no signal."""
    if signal is None or objective is None:
        return _without_signal(state, tuning)
    if not (isfinite(objective) and objective > 0):
        raise ValueError(f"an objective of {objective} s is none")
    state = _smoothed(replace(state, missing=0), signal)
    error = log(objective / signal.latency)
    if state.rest:
        return _resting(state, error, tuning)
    if state.x >= 1:
        return _at_full(state, error, tuning)
    if state.wait:
        return replace(state, wait=state.wait - 1, action=Action.WAITING)
    if abs(error) < log(tuning.band):
        return replace(state, action=Action.IN_BAND, futile=0)
    return _moved(state, error, tuning)


def returned(x: float, periods: int, tuning: Tuning = TUNING) -> float:
    """x after so many periods without a signal: what a node applies when the published one has expired."""
    return min(1.0, _rounded(x + tuning.back * periods))


def _without_signal(state: State, tuning: Tuning) -> State:
    missing = state.missing + 1
    if state.x >= 1:
        return replace(state, missing=missing, evidence=0.0, action=Action.NO_SIGNAL)
    if missing <= tuning.patience:
        return replace(state, missing=missing, action=Action.NO_SIGNAL)
    return State(x=returned(state.x, 1, tuning), missing=missing, rest=state.rest, action=Action.RETURNING)


def _smoothed(state: State, signal: Signal) -> State:
    return replace(
        state,
        level=_blend(state.level, log(signal.latency)),
        rate=None if signal.rate is None else _blend(state.rate, signal.rate),
    )


def _blend(before: float | None, new: float) -> float:
    return new if before is None else before + _SMOOTHING * (new - before)


def _resting(state: State, error: float, tuning: Tuning) -> State:
    calm = state.x >= 1 and error > -log(tuning.band)
    rest = 0 if calm else max(0, state.rest - (state.x >= 1))
    return replace(state, x=returned(state.x, 1, tuning), rest=rest, action=Action.INEFFECTIVE)


def _at_full(state: State, error: float, tuning: Tuning) -> State:
    """A sum that excess raises and its absence lowers, as of E. S. Page, Biometrika 41, 1954 (CUSUM)."""
    excess = min(-error - log(tuning.band), tuning.evidence / 2)
    evidence = max(0.0, state.evidence + excess)
    if evidence < tuning.evidence:
        return State(
            evidence=evidence,
            level=state.level,
            rate=state.rate,
            action=Action.NOTICED if evidence else Action.FULL,
        )
    return _moved(replace(state, evidence=0.0), min(error, -log(tuning.band)), tuning)


def _moved(state: State, error: float, tuning: Tuning) -> State:
    direction = 1 if error > 0 else -1
    state = _descent(state, direction)
    if _is_futile(state, tuning):
        state = replace(state, futile=state.futile + 1)
        if state.futile >= tuning.futile_times:
            return State(
                x=returned(state.x, 1, tuning), rest=tuning.rest, level=state.level, action=Action.INEFFECTIVE
            )
    else:
        state = replace(state, futile=0)
    state = _geared(state, direction, tuning)
    factor = min(max(exp((state.gain or 0.0) * error), 1 - tuning.most_down), 1 + tuning.most_up)
    x = min(1.0, max(tuning.lowest, _rounded(state.x * factor)))
    if x == state.x:
        return replace(state, action=Action.LOWEST if direction < 0 else Action.IN_BAND)
    return replace(state, x=x, wait=tuning.delay, action=Action.LOWERED if direction < 0 else Action.RAISED)


def _geared(state: State, direction: int, tuning: Tuning) -> State:
    gain = tuning.first_gain if state.gain is None else state.gain
    if direction == -state.direction:
        return replace(state, gain=max(tuning.least_gain, gain / 2), direction=direction, alike=1)
    alike = state.alike + 1
    if alike > 3:
        gain = min(tuning.most_gain, gain * tuning.growth)
    return replace(state, gain=gain, direction=direction, alike=alike)


def _descent(state: State, direction: int) -> State:
    """Where it began; a latency that rises on the way begins it again."""
    if direction > 0:
        return replace(state, start=None)
    level = inf if state.level is None else state.level
    if state.start is None or level > state.start.level:
        return replace(state, start=Start(x=state.x, level=level, rate=state.rate))
    return state


def _is_futile(state: State, tuning: Tuning) -> bool:
    """Whether x fell far, the disks that it reduces felt it, and the latency stayed."""
    start = state.start
    if start is None or state.level is None or state.x > start.x * (1 - tuning.futile_cut):
        return False
    bites = state.x <= tuning.lowest or start.rate is None or state.rate is None or state.rate < 0.9 * start.rate
    return bites and state.level > start.level + log(1 - tuning.futile_gain)


def _rounded(x: float) -> float:
    return round(x, _DIGITS)


# --- as JSON


def as_data(state: State) -> dict[str, object]:
    return asdict(state)


def read(data: Mapping[str, object]) -> State:
    """Raises ``ValueError`` or ``LookupError`` for what ``as_data`` did not write."""
    return State(
        x=_factor(data["x"]),
        action=Action(decoding.text(data["action"])),
        gain=decoding.maybe(decoding.number, data["gain"]),
        direction=_direction(data["direction"]),
        level=decoding.maybe(_finite, data["level"]),
        rate=decoding.maybe(decoding.number, data["rate"]),
        evidence=decoding.number(data["evidence"]),
        start=decoding.maybe(_start, data["start"]),
        **{name: decoding.count(data[name]) for name in _COUNTS},
    )


_COUNTS = ("alike", "wait", "missing", "futile", "rest")


def _start(data: Mapping[str, object]) -> Start:
    return Start(
        x=_factor(data["x"]), level=_finite(data["level"]), rate=decoding.maybe(decoding.number, data["rate"])
    )


def _factor(value: object) -> float:
    x = decoding.number(value)
    if not 0 < x <= 1:
        raise ValueError(f"{x} is not above 0 and at most 1")
    return x


def _direction(value: object) -> int:
    if value not in (-1, 0, 1) or type(value) is not int:
        raise ValueError(f"{value!r} is no direction")
    return value


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return float(value)
