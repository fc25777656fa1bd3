"""A region under congestion as a fluid: rates and means in place of requests, so that 5,000 nodes take a second.

Within a period the cluster is in balance: OSDs are M/M/c queues with the same traffic, more or less by the imbalance,
a write ends with the slowest of three; a backlogged disk gets its limit, or its queue divided by the latency where
that is less. Which disks are busy, and when each node writes, is random. Recovery occupies a part of all OSDs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from plimsoll_agent.congestion.law import TUNING, Action, ClassState, Signal, Tuning
from plimsoll_agent.congestion.reduction import written
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.simulate.arms import ARMS

_Numbers = NDArray[np.float64]

SERVICE = 0.001
WRITES = 0.7
DISKS_PER_NODE = 27
HEALTHY = 0.7
"""Utilisation with desired limits, all heavy disks busy, without recovery."""
NIGHT = 0.3
"""Utilisation of which the objective is three times the latency."""
QUEUE = 32
FLOOR = 50
LIGHT_IOPS = 2.0
_PHASES = 10
_BUSY = 20.0
"""Periods for which a disk that is not always busy is, and is not."""


@frozen(kw_only=True)
class Kind:
    """Heavy disks that are alike."""

    desired: int
    share: float


KINDS = tuple(Kind(desired=desired, share=share) for desired in (300, 500, 1000) for share in (1.0, 2.0, 4.0))
_OFTEN = [often / 3 for _ in range(3) for often in (0.7, 0.2, 0.1)]


@frozen(kw_only=True)
class Region:
    servers: int = 4
    imbalance: float = 0.1
    nodes: int = 750
    heavy: float = 0.06
    """Share of the disks."""
    delay: int = 1
    """Periods by which the signal is late."""
    window: int = 1
    """Periods of which it is the mean."""
    noise: float = 0.2
    lost: float = 0.05
    """Share of the periods without a signal."""
    recovery: float = 0.45
    """What it takes of all OSDs, from ``begins`` to ``ends``."""
    begins: int = 40
    ends: int = 220
    periods: int = 300
    cut: int = -1
    """The period from which there is no signal any more."""
    restless: float = 0.0
    """Share of the heavy disks that are busy half of the time, ten minutes each time."""
    seed: int = 1


@frozen(kw_only=True)
class Course:
    """By period; latencies as multiples of the objective."""

    x: _Numbers
    latency: _Numbers
    throughput: _Numbers
    """Of all disks, requests a second."""
    jain: _Numbers
    """Of rate over share, among backlogged disks between floor and desired; nan where there are none."""
    writes: float
    """Of limits, a disk and hour with x below 1."""
    actions: Sequence[Action]
    outside: int
    """Limits that were not between floor and desired."""


# --- latency


@cache
def curve(servers: int, imbalance: float) -> tuple[_Numbers, _Numbers]:
    """Utilisation of the cluster, and the mean latency in seconds."""
    most = 1 / (1 + imbalance)
    loads = most * (1 - np.geomspace(1, 1e-7, 240))
    return loads, np.array([_latency(servers, imbalance, load) for load in loads])


def _latency(servers: int, imbalance: float, load: float) -> float:
    """Reads by one OSD, writes by the slowest of three: ∫ 1 - F(t)^n dt."""
    loads = load * (1 + imbalance * np.linspace(-1, 1, 41 if imbalance else 1))
    longest = 60 / (1 - loads[-1]) / servers + 30
    times = np.concatenate([[0.0], np.geomspace(1e-3, longest, 1500)])
    survival = np.mean([_survival(servers, each, times) for each in loads], axis=0)
    read = np.trapezoid(survival, times) if hasattr(np, "trapezoid") else np.trapz(survival, times)
    slowest = 1 - (1 - survival) ** 3
    write = np.trapezoid(slowest, times) if hasattr(np, "trapezoid") else np.trapz(slowest, times)
    return float(SERVICE * ((1 - WRITES) * read + WRITES * write))


def _survival(servers: int, load: float, times: _Numbers) -> _Numbers:
    """Of the sojourn in M/M/c, in units of the service: e^-t (1 + C (1 - e^-kt) / k), k = c - 1 - cρ."""
    rest = servers - 1 - servers * load
    if abs(rest) < 1e-9:
        rest = 1e-9
    waits = _erlang_c(servers, servers * load)
    # Both exponents in one, else one overflows.
    return np.asarray(np.exp(-times) + waits * (np.exp(-times) - np.exp(-times * (1 + rest))) / rest)


def _erlang_c(servers: int, load: float) -> float:
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**number / math.factorial(number) for number in range(servers)) + last)


# --- a course


def run(region: Region, arm: str, tuning: Tuning = TUNING) -> Course:
    return _Run(region, arm, tuning).run()


class _Run:
    def __init__(self, region: Region, arm: str, tuning: Tuning) -> None:
        self.region, self.arm, self.tuning = region, ARMS[arm], tuning
        self.weighs = arm != "half"
        # Its stream is the same in every release of NumPy (NEP 19).
        self.random = np.random.RandomState(region.seed)
        number = region.nodes * DISKS_PER_NODE
        heavy = max(1, round(number * region.heavy))
        self.place = self.random.choice(len(KINDS), size=heavy, p=_OFTEN) * _PHASES + self.random.randint(
            _PHASES, size=heavy
        )
        self.always = self.random.random_sample(heavy) >= region.restless
        self.busy = self.always | (self.random.random_sample(heavy) < 0.5)
        self.desired = np.repeat([float(kind.desired) for kind in KINDS], _PHASES)
        self.shares = self.desired * np.repeat([kind.share for kind in KINDS], _PHASES)
        self.light = LIGHT_IOPS * (number - heavy)
        self.capacity = (self.light + (1 - region.restless / 2) * self.desired[self.place].sum()) / HEALTHY
        self.loads, self.latencies = curve(region.servers, region.imbalance)
        self.objective = 3 * float(np.interp(NIGHT, self.loads, self.latencies))
        self.in_force = [1.0] * _PHASES
        """x as each phase of nodes wrote it last."""
        self.settled, self.settled_at = np.empty(0), math.nan
        """Limits of the last period, and the x that all nodes had in it."""
        self.writes = self.reduced = self.outside = 0

    def run(self) -> Course:
        region, state = self.region, ClassState()
        x, latencies, throughput, jain, actions = [], [], [], [], []
        heavy_rates: list[float] = []
        for number in range(region.periods):
            state = self.arm(state, self._signal(number, latencies, heavy_rates), self.objective, self.tuning)
            rates, latency, counts = self._balance(number, self._limits(state.x))
            total = float(counts @ rates)
            x.append(state.x)
            actions.append(state.action)
            latencies.append(latency)
            heavy_rates.append(total)
            throughput.append(self.light + total)
            jain.append(self._jain(rates, counts))
            self.reduced += state.x < 1
        return Course(
            x=np.array(x),
            latency=np.array(latencies) / self.objective,
            throughput=np.array(throughput),
            jain=np.array(jain),
            writes=self.writes / _PHASES / max(1, self.reduced) * 3600 / self.tuning.period,
            actions=actions,
            outside=self.outside,
        )

    def _signal(self, number: int, latencies: Sequence[float], rates: Sequence[float]) -> Signal | None:
        region = self.region
        noise, is_lost = math.exp(region.noise * self.random.normal()), self.random.random_sample() < region.lost
        place = number - 1 - region.delay
        if is_lost or place < 0 or 0 <= region.cut <= number:
            return None
        first = max(0, place + 1 - region.window)
        return Signal(latency=float(np.mean(latencies[first : place + 1])) * noise, rate=rates[place])

    def _limits(self, x: float) -> _Numbers:
        """The mean of each kind and phase: a node writes somewhere within the period."""
        if self.settled_at == x:
            return self.settled
        limits = np.empty((len(KINDS), _PHASES))
        is_settled = all(each == x for each in self.in_force)
        for phase in range(_PHASES):
            before = self.in_force[phase]
            if x != before:
                self.in_force[phase] = x
                self.writes += 1
            part = (phase + 0.5) / _PHASES
            for row, kind in enumerate(KINDS):
                limits[row, phase] = part * self._limit(kind, before) + (1 - part) * self._limit(
                    kind, self.in_force[phase]
                )
        self.settled, self.settled_at = limits.ravel(), x if is_settled else math.nan
        return self.settled

    def _limit(self, kind: Kind, x: float) -> int:
        limit = _limit(kind.desired, x, kind.share if self.weighs else 1.0)
        self.outside += not FLOOR <= limit <= kind.desired
        return limit

    def _balance(self, number: int, limits: _Numbers) -> tuple[_Numbers, float, _Numbers]:
        """Rates of a disk of each kind and phase, the latency, and how many of them are busy."""
        region = self.region
        if region.restless:
            changes = self.random.random_sample(len(self.busy)) < 1 / _BUSY
            self.busy = self.always | (self.busy ^ changes)
        counts = np.bincount(self.place[self.busy], minlength=len(limits)).astype(float)
        recovery = region.recovery if region.begins <= number < region.ends else 0.0
        low, high = 0.0, self.loads[-1]
        for _ in range(27):
            load = (low + high) / 2
            rates = np.minimum(limits, QUEUE / float(np.interp(load, self.loads, self.latencies)))
            if (self.light + float(counts @ rates)) / self.capacity + recovery > load:
                low = load
            else:
                high = load
        return rates, float(np.interp(high, self.loads, self.latencies)), counts

    def _jain(self, rates: _Numbers, counts: _Numbers) -> float:
        between = (rates > FLOOR) & (rates < self.desired) & (counts > 0)
        if not between.any():
            return math.nan
        parts, weights = (rates / self.shares)[between], counts[between]
        return float((parts @ weights) ** 2 / (weights.sum() * (parts**2 @ weights)))


@lru_cache(10_000)
def _limit(desired: int, x: float, share: float) -> int:
    return written(Limits(total_iops_sec=desired), x, Limits(total_iops_sec=FLOOR), share).total_iops_sec
