"""A scenario with congestion: what each arm sees at the end of each period, and the limits that it writes then."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from math import cos, exp, log, pi, sqrt

from plimsoll_agent.congestion.law import TUNING, ClassState, Signal
from plimsoll_agent.congestion.reduction import written
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_insight.simulate.arms import ARMS
from plimsoll_insight.simulate.disks import SimulatedDisk
from plimsoll_insight.simulate.engine import Period, run
from plimsoll_insight.simulate.results import SimulationResult
from plimsoll_insight.simulate.scenario import Congestion, Disks, Scenario
from plimsoll_insight.simulate.throttle import SECOND

NEAR = 1.25

Factors = Sequence[float]
"""x of each period."""


@frozen(kw_only=True)
class Arm:
    name: str
    result: SimulationResult
    factors: Factors
    above: int
    """Periods after the warm-up in which the mean latency of light disks was above ``NEAR`` times the objective."""
    unknown: int
    """Those in which no request of theirs ended."""
    periods: int
    """All after the warm-up."""


def arms(scenario: Scenario, congestion: Congestion) -> list[Arm]:
    """A run for each."""
    each = []
    for name in congestion.arms:
        controller = _Controller(name, scenario, congestion)
        result = run(scenario, controller)
        latencies = controller.latencies[round(scenario.warm_up / scenario.period) :]
        each.append(
            Arm(
                name=name,
                result=result,
                factors=controller.factors,
                above=sum(latency is not None and latency > NEAR * congestion.objective for latency in latencies),
                unknown=sum(latency is None for latency in latencies),
                periods=len(latencies),
            )
        )
    return each


class _Controller:
    def __init__(self, arm: str, scenario: Scenario, congestion: Congestion) -> None:
        self.step, self.weighs = ARMS[arm], arm != "half"
        self.period, self.congestion = scenario.period, congestion
        self.tuning = replace(TUNING, delay=congestion.delay)
        # A stream of its own: all arms meet the same load and lose the same signals.
        self.random = random.Random(f"{scenario.seed}/signal").random  # noqa: S311
        self.state = ClassState()
        self.light = _Counter(lambda disk: disk.alike.kind.light)
        self.heavy = _Counter(lambda disk: disk.alike.kind.floor is not None)
        self.signals: list[Signal | None] = []
        self.latencies: list[float | None] = []
        self.factors: list[float] = []

    def __call__(self, period: Period) -> Mapping[int, Limits]:
        self._look(period)
        before = self.state.x
        self.state = self.step(self.state, self._shown(period.end), self.congestion.objective, self.tuning)
        self.factors.append(self.state.x)
        if self.state.x == before:
            return {}
        return {disk.number: self._limits(disk.alike.kind) for disk in period.disks if disk.alike.kind.floor}

    def _look(self, period: Period) -> None:
        requests, latency = self.light.since(period.disks)
        rate = self.heavy.since(period.disks)[0] / self.period
        self.latencies.append(latency / requests / SECOND if latency else None)
        noise = exp(self.congestion.noise * self._normal())
        is_lost = self.random() < self.congestion.lost
        mean = self.latencies[-1]
        self.signals.append(None if is_lost or mean is None else Signal(latency=mean * noise, rate=rate))

    def _normal(self) -> float:
        """By Box and Muller, since ``random.gauss`` may differ between releases of Python."""
        return sqrt(-2 * log(1 - self.random())) * cos(2 * pi * self.random())

    def _shown(self, now: float) -> Signal | None:
        late = len(self.signals) - 1 - self.congestion.delay
        return self.signals[late] if late >= 0 and now < self.congestion.cut else None

    def _limits(self, kind: Disks) -> Limits:
        return written(kind.limits, self.state.x, kind.floor, kind.share if self.weighs else 1.0)


class _Counter:
    """How far the counters of some disks rose: requests, and nanoseconds of their latencies."""

    def __init__(self, counts: Callable[[SimulatedDisk], bool]) -> None:
        self.counts = counts
        self.requests = self.latency = 0

    def since(self, disks: Sequence[SimulatedDisk]) -> tuple[int, int]:
        those = [disk for disk in disks if self.counts(disk)]
        requests, latency = sum(disk.ended for disk in those), sum(disk.latency for disk in those)
        rise = requests - self.requests, latency - self.latency
        self.requests, self.latency = requests, latency
        return rise
