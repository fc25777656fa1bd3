"""What a drill cost: figures of its phases, of each incident in it, and of the guests that stalled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.drill.phases import SERVED, DrillPhase, Phases, PhaseSpan, find
from plimsoll_insight.drill.recording import DrillDisk, Recording
from plimsoll_insight.drill.seconds import Seconds, by_second
from plimsoll_insight.drill.status import ClusterCounts
from plimsoll_probes.model.histogram import Histogram

FRACTIONS = (0.5, 0.95, 0.99)
STALL = 3
"""Seconds without a completed request from which a busy disk has stalled."""
_BUSY = 0.9
"""A disk is busy that completed requests in so many of its normal seconds."""
_LEAST_NORMAL = 5
_LATE = 3.0


@frozen(kw_only=True)
class PhaseFigures:
    """``latency``: seconds, by ``FRACTIONS``, of the means of each disk and reading, weighted by their requests."""

    span: PhaseSpan
    iops: float | None
    change: float | None
    """Against normal: -0.4 is 40 % less."""
    mean: float | None
    """Latency of a request."""
    latency: tuple[float | None, ...]
    slowest: float | None
    """The largest of these means."""
    probed: float | None
    """The p99 of probes of guests."""
    peering: float | None
    """PG·seconds."""
    degraded: float | None
    """Object·seconds: missing copies over time."""


@frozen(kw_only=True)
class Incident:
    """From the first sign of trouble until all is normal again. In seconds; None is unknown, or did not happen."""

    begin: int
    end: int | None
    """None where the recording ended before."""
    last: int
    """Where its last phase ends."""
    detect: float | None
    """Until the monitors take an OSD for down."""
    serve: float | None
    """Until guests are served again."""
    recover: float | None
    """From the return of the OSD until all is in sync."""
    peering: float | None
    """The impact score: PG·seconds of peering."""
    peering_range: tuple[float, float] | None
    """The least and the most that it can be: nothing is known of the time between two answers of the cluster."""
    inactive: float | None
    degraded: float | None
    """Object·seconds."""
    share: float | None
    """The most objects that lacked a copy, of all."""
    stale: int | None
    """Copies that were left to recover when placement groups were active again after the return, at most."""
    unknown: float
    """Seconds of it in which the cluster did not answer; they are not in the sums."""


@frozen(kw_only=True)
class DrillStall:
    disk: DrillDisk
    begin: int
    end: int | None
    """None where it lasted until the end of the recording."""
    until: int

    @property
    def seconds(self) -> int:
        return self.until - self.begin


@frozen(kw_only=True)
class Results:
    recording: Recording
    seconds: Seconds
    phases: Phases
    figures: tuple[PhaseFigures, ...]
    incidents: tuple[Incident, ...]
    stalls: tuple[DrillStall, ...]
    busy: int
    """Disks that could have stalled."""
    unknown: float
    """Seconds in which the cluster did not answer."""

    @property
    def sees_incidents(self) -> bool:
        """Whether an incident would be in it: the cluster answered, or what guests get in peace is known."""
        return bool(self.recording.statuses) or self.phases.normal is not None


def results(recording: Recording) -> Results:
    seconds = by_second(recording)
    phases = find(seconds.iops.tolist(), seconds.states, seconds.waited.tolist())
    busy, stalls = _stalls(recording, seconds, phases)
    return Results(
        recording=recording,
        seconds=seconds,
        phases=phases,
        figures=tuple(_figures(span, recording, seconds, phases.normal) for span in phases.spans),
        incidents=tuple(_incidents(recording, seconds, phases)),
        stalls=tuple(stalls),
        busy=busy,
        unknown=_integral(recording, 0, seconds.number, lambda _: 1.0)[1],
    )


def _figures(span: PhaseSpan, recording: Recording, seconds: Seconds, normal: float | None) -> PhaseFigures:
    rates = seconds.iops[span.begin : span.end]
    values = rates[~np.isnan(rates)]
    iops = float(values.mean()) if len(values) else None
    inside = (seconds.at >= span.begin) & (seconds.at < span.end)
    latencies = _percentiles(seconds.latency[inside], seconds.weight[inside])
    peering, _ = _integral(recording, span.begin, span.end, lambda state: state.peering)
    degradation, _ = _integral(recording, span.begin, span.end, lambda state: state.degraded)
    is_known = bool(_within(recording, span.begin, span.end))
    return PhaseFigures(
        span=span,
        iops=iops,
        change=None if iops is None or normal is None else iops / normal - 1,
        mean=float(np.average(seconds.latency[inside], weights=seconds.weight[inside])) / 1e6
        if inside.any()
        else None,
        latency=latencies,
        slowest=float(seconds.latency[inside].max()) / 1e6 if inside.any() else None,
        probed=_probe_latency(span, recording),
        peering=peering if is_known else None,
        degraded=degradation if is_known else None,
    )


def _probe_latency(span: PhaseSpan, recording: Recording) -> float | None:
    """A job belongs to the phase in which its middle is."""
    inside = (
        Histogram(job.latency) for job in recording.probed
        if span.begin <= (job.began + job.ended) / 2 - recording.began < span.end
    )  # fmt: skip
    quantile = Histogram.merged(inside).quantile(FRACTIONS[-1])
    return None if quantile is None else quantile.value / 1e9


def _percentiles(latency: object, weight: object) -> tuple[float | None, ...]:
    values, weights = np.asarray(latency, dtype=float), np.asarray(weight, dtype=float)
    if not len(values):
        return (None,) * len(FRACTIONS)
    order = np.argsort(values)
    rising = np.cumsum(weights[order])
    places = np.minimum(np.searchsorted(rising, np.array(FRACTIONS) * rising[-1]), len(order) - 1)
    return tuple(float(values[order][place]) / 1e6 for place in places)


def _integral(
    recording: Recording, begin: float, end: float, of: Callable[[ClusterCounts], float]
) -> tuple[float, float]:
    """Over these seconds: each status counts until the next one. And how long is unknown."""
    whole = seconds = 0.0
    for length, state, _ in _answers(recording, begin, end):
        seconds += length
        whole += length * of(state)
    return whole, max(end - begin - seconds, 0.0)


def _answers(
    recording: Recording, begin: float, end: float
) -> Iterator[tuple[float, ClusterCounts, ClusterCounts | None]]:
    """How many of these seconds each status is known for: until the next one, which comes with it, or for three
    intervals.
    """
    late = max(_LATE, _LATE * recording.interval)
    times = [time - recording.began for time, _ in recording.statuses]
    following = [*(state for _, state in recording.statuses[1:]), None][: len(times)]
    for number, (time, (_, state), after) in enumerate(zip(times, recording.statuses, following, strict=True)):
        until = min(times[number + 1] if after else end, time + late)
        # The first one is of the time before it, too.
        since = max(time if number else min(time, begin), begin)
        yield max(min(until, end) - since, 0.0), state, after


def _within(recording: Recording, begin: float, end: float) -> list[tuple[float, ClusterCounts]]:
    """The answers of these seconds, with their seconds. One of before knows nothing of these."""
    answers = [(time - recording.began, state) for time, state in recording.statuses]
    return [(second, state) for second, state in answers if begin <= second <= end]


def _peering_range(recording: Recording, begin: float, end: float) -> tuple[float, float]:
    """Between two answers as many placement groups were peering as in either; where an OSD went or came, or more fell
    out of sync, or no answer follows, perhaps all that are not in sync.
    """
    least = most = 0.0
    for length, state, after in _answers(recording, begin, end):
        either = (state, after) if after else (state,)
        unseen = after is None or state.up != after.up or state.unclean < after.unclean
        least += length * min(one.peering for one in either)
        most += length * max(max(one.peering, one.unclean if unseen else 0) for one in either)
    return least, most


def _incidents(recording: Recording, seconds: Seconds, phases: Phases) -> Iterator[Incident]:
    spans = list(phases.spans)
    number = 0
    while number < len(spans):
        of = []
        while number < len(spans) and spans[number].phase is not DrillPhase.NORMAL:
            of.append(spans[number])
            number += 1
        if of:
            yield _incident(of, number < len(spans), recording, seconds)
        number += 1


def _fell(recording: Recording, within: Sequence[tuple[float, ClusterCounts]]) -> float | None:
    """When the monitors first took an OSD for down."""
    before = max((state.up for _, state in recording.statuses[:1]), default=0)
    return next((time for time, state in within if state.up < before), None)


def _incident(spans: Sequence[PhaseSpan], has_ended: bool, recording: Recording, seconds: Seconds) -> Incident:
    begin, end = spans[0].begin, spans[-1].end
    peering, unknown = _integral(recording, begin, end, lambda state: state.peering)
    within = _within(recording, begin, end)
    is_known = bool(within)
    down = _fell(recording, within)
    outage = next((span for span in spans if span.phase is DrillPhase.OUTAGE), None)
    return_span = next((span for span in spans if span.phase is DrillPhase.RETURN), None)
    served_again = outage is not None and outage.end < seconds.number
    recovering = [state for time, state in within if return_span is not None and time >= return_span.end - 1]
    return Incident(
        begin=begin,
        end=end if has_ended else None,
        last=end,
        detect=None if down is None else max(down - begin, 0.0),
        serve=float(outage.end - begin) if outage is not None and served_again else None,
        recover=float(end - return_span.begin) if return_span is not None and has_ended else None,
        peering=peering if is_known else None,
        peering_range=_peering_range(recording, begin, end) if is_known else None,
        inactive=_integral(recording, begin, end, lambda state: state.inactive)[0] if is_known else None,
        degraded=_integral(recording, begin, end, lambda state: state.degraded)[0] if is_known else None,
        share=max((min(state.degraded / state.objects, 1.0) for _, state in within if state.objects), default=None),
        stale=max((state.degraded + state.misplaced for state in recovering), default=None),
        unknown=unknown,
    )


def _stalls(recording: Recording, seconds: Seconds, phases: Phases) -> tuple[int, list[DrillStall]]:
    """Of disks that were busy before the trouble: runs of known seconds without a completed request, while the others
    were not all idle either. Those with most seconds first.
    """
    first = phases.spans[0]
    if first.phase is not DrillPhase.NORMAL or first.end - first.begin < _LEAST_NORMAL:
        return 0, []
    busy = 0
    stalls: list[DrillStall] = []
    for number, disk in recording.disks.items():
        requests, is_known = seconds.done[number], seconds.known[number]
        usual = requests[first.begin : first.end][is_known[first.begin : first.end]]
        if len(usual) < _LEAST_NORMAL or (usual > 0).mean() < _BUSY:
            continue
        busy += 1
        without = np.flatnonzero(is_known & (requests < SERVED) & (np.arange(len(requests)) >= first.end))
        for run in np.split(without, np.flatnonzero(np.diff(without) > 1) + 1):
            if len(run) >= STALL:
                until = int(run[-1]) + 1
                stalls.append(
                    DrillStall(
                        disk=disk, begin=int(run[0]), end=None if until >= seconds.number else until, until=until
                    )
                )
    return busy, sorted(stalls, key=lambda each: (-each.seconds, each.begin))
