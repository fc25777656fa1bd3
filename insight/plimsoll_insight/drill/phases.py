"""The phases of a failure, by change points. The rules stand in ``docs/guide/failures.rst`` too. Pure.

A second is *served* if guests reach half of what they get in all but 5 % of normal seconds, and a tenth of the median
of these; or, where no guests are known, if no placement group is inactive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from math import isnan
from statistics import median

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.drill.status import ClusterCounts

SERVED = 0.5
"""The share of what guests get in all but 5 % of normal seconds, from which they are served: where the load comes and
goes, less is no sign of trouble."""
_RARE = 0.05
LOST, BACK, SETTLED = 2, 2, 3
"""Seconds in a row: without service, until an outage begins; with service, until it ends; in sync, until a cluster is
normal again, and from the return of an OSD on, as the manager's counts are up to two seconds old."""
REBUILT = 10
"""Seconds in sync until a cluster is normal again although an OSD is away: all copies were made elsewhere."""
BRIEF = 5
"""Seconds of service after an outage that are a part of what follows."""
UNSEEN = 60
"""Seconds in which the monitors would have found an OSD that fails: osd_heartbeat_grace is 20."""
NOTHING = 0.1
"""The share of normal IOPS that are as good as none."""
_LEAST_NORMAL = 5
"""Seconds before there is a median."""


class DrillPhase(StrEnum):
    NORMAL = "normal"
    OUTAGE = "outage"
    DEGRADED = "degraded"
    RETURN = "return"
    RECOVERY = "recovery"


@frozen
class PhaseSpan:
    """From second ``begin`` until ``end``, without it."""

    phase: DrillPhase
    begin: int
    end: int


@frozen
class Phases:
    spans: tuple[PhaseSpan, ...]
    normal: float | None
    """IOPS before the trouble; None is unknown."""


@frozen(kw_only=True)
class _Signs:
    """Of trouble, in a status."""

    up: int
    is_down: bool
    is_unclean: bool
    is_inactive: bool
    is_slow: bool


def find(iops: Sequence[float], states: Sequence[ClusterCounts | None], waits: Sequence[float]) -> Phases:
    """By second; unknown are NaN and None. ``waits``: how long the requests that ended in it took, all added."""
    signs = list(_signs(states))
    normal, least = _normal(iops, signs)
    machine = _Machine(iops, signs, normal, least)
    phases = machine.settle([machine.next(second) for second in range(len(iops))])
    spans = _join([_judge(span, signs, waits) for span in _spans(phases)])
    return Phases(tuple(_spans([span.phase for span in spans for _ in range(span.begin, span.end)])), normal)


def _signs(states: Sequence[ClusterCounts | None]) -> Iterator[_Signs | None]:
    """Against the first status: an OSD that is down and out then, as with a disk that awaits its replacement, is no
    sign, nor are placement groups that are moved then with all their copies, as by the balancer, until they are done.
    """
    first = next((state for state in states if state is not None), None)
    if first is None:
        yield from (None for _ in states)
        return
    osds = max(first.up, first.within)
    moves = first.unclean if first.up == osds and not first.inactive and not first.degraded else 0
    for state in states:
        if state is None:
            yield None
            continue
        moves = min(moves, state.unclean)
        yield _Signs(
            up=state.up,
            is_down=state.up < osds,
            is_unclean=state.unclean > moves,
            is_inactive=state.inactive > 0,
            is_slow=state.slow != 0,
        )


def _join(spans: Sequence[PhaseSpan]) -> list[PhaseSpan]:
    """Guests may be served again some seconds before the cluster tells of the OSD that is down: one incident."""
    whole = list(spans)
    for number in range(1, len(whole) - 1):
        before, span, after = whole[number - 1 : number + 2]
        if span.phase is DrillPhase.NORMAL and before.phase is DrillPhase.OUTAGE and span.end - span.begin < BRIEF:
            whole[number] = PhaseSpan(after.phase, span.begin, span.end)
    return whole


def _spans(phases: Sequence[DrillPhase]) -> list[PhaseSpan]:
    spans: list[PhaseSpan] = []
    for second, phase in enumerate(phases):
        if spans and spans[-1].phase is phase:
            spans[-1] = PhaseSpan(phase, spans[-1].begin, second + 1)
        else:
            spans.append(PhaseSpan(phase, second, second + 1))
    return spans


def _judge(span: PhaseSpan, states: Sequence[_Signs | None], waits: Sequence[float]) -> PhaseSpan:
    """Guests that had nothing to do are no outage: the cluster has no trouble, and no request waited so long. Where
    none ended until the end of the recording, the cluster had a minute to find trouble, and answered after it.
    """
    if span.phase is not DrillPhase.OUTAGE:
        return span
    answers = [state for state in states[span.begin : span.end + SETTLED] if state is not None]
    if any(state.is_down or state.is_unclean or state.is_slow for state in answers):
        return span
    if span.end == len(states) and not any(states[span.begin + UNSEEN :]):
        return span
    if sum(waits[span.end - 1 : span.end + BACK]) >= (span.end - span.begin) / 2:
        return span
    return PhaseSpan(DrillPhase.NORMAL, span.begin, span.end)


def _normal(iops: Sequence[float], states: Sequence[_Signs | None]) -> tuple[float | None, float]:
    """IOPS in peace, and from which on guests are served. Peace ends when the cluster tells of trouble, or tells no
    more; the seconds just before that may be an outage that it has not seen yet.
    """
    answers = [second for second, state in enumerate(states) if state]
    end = next(
        (second for second, state in enumerate(states) if state and (state.is_down or state.is_unclean)),
        answers[-1] + 1 if answers else len(iops),
    )
    before = [rate for rate in iops[:end] if not isnan(rate)]
    if len(before) < _LEAST_NORMAL or not (usual := median(before)):
        return None, 0.0
    while end < len(iops) and before and before[-1] < SERVED * usual:
        before.pop()
    if len(before) < _LEAST_NORMAL:
        return None, 0.0
    usual = median(before)
    return usual, max(SERVED * sorted(before)[int(_RARE * len(before))], NOTHING * usual)


class _Machine:
    """One second after another. A change that is seen only after some seconds is dated back by them."""

    def __init__(
        self, iops: Sequence[float], states: Sequence[_Signs | None], normal: float | None, least: float
    ) -> None:
        self._iops, self._states, self._normal, self._least = iops, states, normal, least
        self._phase = DrillPhase.NORMAL
        self._up: int | None = None
        self._returned = self._fell = 0
        self._back: list[tuple[int, int, DrillPhase]] = []

    def next(self, second: int) -> DrillPhase:
        state = self._states[second]
        before = self._up
        if state is not None:
            self._up = state.up
        rises = state is not None and before is not None and state.up > before
        falls = state is not None and before is not None and state.up < before
        became = self._of(second, state, rises=rises, falls=falls)
        if became is not None and became[0] is not self._phase:
            self._phase, since = became
            self._back.append((since, second, self._phase))
        return self._phase

    def settle(self, phases: list[DrillPhase]) -> list[DrillPhase]:
        for since, until, phase in self._back:
            phases[since:until] = [phase] * (until - since)
        return phases

    def _of(self, second: int, state: _Signs | None, *, rises: bool, falls: bool) -> tuple[DrillPhase, int] | None:
        """The phase that begins, and since which second; None where the present one goes on."""
        if falls:
            self._fell = second
        if rises:
            self._returned = second
            return DrillPhase.RETURN, second
        match self._phase:
            case DrillPhase.OUTAGE:
                if self._for(second, BACK, self._is_served):
                    return self._served_as(second - BACK + 1, state)
            case DrillPhase.RETURN:
                if second - self._returned >= SETTLED and state is not None and not state.is_inactive:
                    if state.is_unclean:
                        return DrillPhase.RECOVERY, second
                    if self._for(second, SETTLED, self._is_clean):
                        return DrillPhase.NORMAL, second - SETTLED + 1
            case DrillPhase.RECOVERY if not falls:
                if self._for(second, SETTLED, self._is_clean):
                    return DrillPhase.NORMAL, second - SETTLED + 1
            case DrillPhase.DEGRADED if not falls:
                # Before the OSD fell all were in sync as well.
                if second - self._fell >= REBUILT and self._for(second, REBUILT, self._is_clean):
                    return DrillPhase.NORMAL, second - REBUILT + 1
                if self._for(second, SETTLED, self._is_lost):
                    return DrillPhase.OUTAGE, second - SETTLED + 1
            case _:  # normal, or one more OSD is down
                return self._of_trouble(second, state, falls=falls)
        return None

    def _of_trouble(self, second: int, state: _Signs | None, *, falls: bool) -> tuple[DrillPhase, int] | None:
        """The phase that begins with the first, or one more, sign of it."""
        if self._for(second, LOST, self._is_lost):
            return DrillPhase.OUTAGE, self._nothing_since(second - LOST + 1)
        if falls or (state is not None and self._phase is DrillPhase.NORMAL and state.is_unclean):
            is_down = state is not None and (falls or state.is_down)
            if self._normal is None and state is not None and state.is_inactive:
                return DrillPhase.OUTAGE, second
            return (DrillPhase.DEGRADED if is_down else DrillPhase.RECOVERY), second
        return None

    def _served_as(self, second: int, state: _Signs | None) -> tuple[DrillPhase, int]:
        if state is None or state.is_down:
            return (DrillPhase.DEGRADED if state is not None else DrillPhase.NORMAL), second
        return (DrillPhase.RECOVERY if state.is_unclean else DrillPhase.NORMAL), second

    def _for(self, second: int, length: int, holds: Callable[[int], bool]) -> bool:
        return second + 1 >= length and all(map(holds, range(second - length + 1, second + 1)))

    def _nothing_since(self, second: int) -> int:
        """In a recovery guests may get little for long: an outage is dated back over seconds with nothing."""
        while second and self._normal and self._iops[second - 1] < NOTHING * self._normal:
            second -= 1
        return second

    def _is_lost(self, second: int) -> bool:
        return self._is_well(second) is False

    def _is_served(self, second: int) -> bool:
        return self._is_well(second) is True

    def _is_well(self, second: int) -> bool | None:
        rate, state = self._iops[second], self._states[second]
        if self._normal is not None:
            return None if isnan(rate) else rate >= self._least
        return None if state is None else not state.is_inactive

    def _is_clean(self, second: int) -> bool:
        state = self._states[second]
        return state is not None and not state.is_unclean and not state.is_inactive
