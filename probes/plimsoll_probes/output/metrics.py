"""The probes of this node as families of series for Prometheus.

Budget: at most ``PER_PROBE`` series for each job in a directory of a guest, with both directions, ``PER_TARGET`` more
for each directory, and one for the node. That is 174 for a guest with the three jobs. With ``aggregate`` it is
``PER_TYPE`` for each volume type and four for each quantile of its objectives, for any number of guests.

Latencies are cumulative counts below ``LE``, 30 of the 1856 edges of fio's buckets. The counts are exact, but a
latency of exactly an edge counts above it. Latencies in fio's last bucket, 17.046 s or any time above, count in
``+Inf`` only. ``_sum`` uses the buckets' middles, off by at most 0.8 % (any amount in the last bucket).

With ``disk`` each guest has counters of its own, which end when it leaves. No other series takes them over, since
``increase()`` would count all of them as new. With ``aggregate`` the counters of a type include all its guests, also
those that are gone, and never fall.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.prometheus_text import Family, counter, gauge, histogram, label, number, single
from plimsoll_probes.model.finding import LACKING, WORST_FIRST, Verdict
from plimsoll_probes.model.histogram import LAST, Histogram, bucket_of, edges, midpoint
from plimsoll_probes.model.job import Direction, JobName
from plimsoll_probes.model.result import Measured, Postponed, ProbeResult
from plimsoll_probes.schedule.targets import ChosenTarget
from plimsoll_probes.store.tally import Promise, Sums, Tally

SHOWN_FOR = timedelta(days=7)
"""How long after its last run a guest is shown that is no longer chosen."""
COUNTED_FOR = timedelta(days=1)
"""So long the newest verdict on such a guest counts among those of its volume type."""
LE = tuple(sorted((*(2**k for k in range(16, 34)), *(3 * 2 ** (k - 1) for k in range(20, 30)), edges(LAST)[0])))
"""In nanoseconds: 66 µs to 8.6 s in powers of two, 1 ms to 1 s in steps half as wide, and the last bucket's edge."""

_DIRECTIONS: tuple[Direction, ...] = ("read", "write")
_HISTOGRAM = len(LE) + 3  # +Inf, sum and count
PER_PROBE = 6 + len(Verdict) + len(_DIRECTIONS) * _HISTOGRAM
PER_TARGET = 4
PER_VERDICTS = len(Verdict) + 1
PER_TYPE = len(JobName) * len(Verdict) + 4 * _HISTOGRAM + PER_VERDICTS  # read, write, and both of the mixed job

_NANOSECONDS = 10**9
_ABOVE = tuple(map(bucket_of, LE))
"""The first of fio's buckets above each of ``LE``."""
_LE_LABELS = (*(repr(edge / _NANOSECONDS) for edge in LE), "+Inf")

_Key = tuple[str, str]
"""The guest's uuid, and the directory."""


def families(
    latest: Iterable[ProbeResult],
    postponements: Iterable[Postponed],
    targets: Iterable[ChosenTarget],
    tallies: Iterable[Tally],
    last_good: Mapping[tuple[str, str, JobName], datetime],
    *,
    detail: str,
    now: datetime,
    by_timetable: bool,
    since: Callable[[ProbeResult], datetime | None] = lambda _: None,
) -> Iterator[Family]:
    """The families that have a series. The first five arguments are what ``latest``, ``postponed``,
    ``chosen_targets``, ``tallies`` and ``last_good`` of ``History`` return. With ``detail`` ``aggregate`` no single
    guest has a series; the other value is ``disk``. ``by_timetable`` tells a run of the timetable from one by hand;
    ``since`` is when the trouble that a result is in began.
    """
    targets = tuple(targets)
    view = _View(tuple(latest), {each.key: each for each in targets}, tuple(tallies), now)
    every: list[Family] = []
    if detail == "disk":
        every += _of_results(view, last_good)
        every += _of_targets(view, postponements)
        every += _of_runs(_sums(view.tallies, view.guest_of), ("volume_type", "probe", "domain", "uuid"))
    else:
        every += _of_runs(_sums(view.every_tally, lambda _: ()), ("volume_type", "probe"))
    every += _of_objectives(view.every_tally, view.results)
    every += _of_verdicts(view, now, since)
    # A run by hand is no promise that the timetable will be run again.
    rounds = [now] if by_timetable and targets else [each.seen for each in targets]
    every.append(single(metrics.PROBE_ROUND_TIMESTAMP_SECONDS, max(rounds, default=None)))
    every.append(single(metrics.PROBE_WRITTEN_TIMESTAMP_SECONDS, now))
    yield from (family for family in every if family.samples)


def _of_verdicts(view: _View, now: datetime, since: Callable[[ProbeResult], datetime | None]) -> Iterator[Family]:
    """A probed guest and directory counts once, by the worst of its jobs, however many runs a probe has."""
    by_target: dict[_Key, list[ProbeResult]] = {}
    for result in view.results:
        if _is_chosen(result, view.chosen) or now - result.ended <= COUNTED_FOR:
            by_target.setdefault(_key(result), []).append(result)
    counts: dict[str, dict[Verdict, int]] = {}
    again: dict[str, int] = {}
    for results in by_target.values():
        worst = min(results, key=lambda each: WORST_FIRST.index(each.finding.verdict))
        volume_type = label(worst.subject.volume_type)
        of_type = counts.setdefault(volume_type, dict.fromkeys(Verdict, 0))
        of_type[worst.finding.verdict] += 1
        lacking = [each for each in results if each.finding.verdict in LACKING]
        began = [(each.started, since(each)) for each in lacking]
        again[volume_type] = again.get(volume_type, 0) + any(then and then < start for start, then in began)
    yield gauge(
        metrics.PROBE_TARGETS,
        [((name, verdict.value), number) for name, each in counts.items() for verdict, number in each.items()],
    )
    yield gauge(metrics.PROBE_TARGETS_BROKEN_AGAIN, [((name,), number) for name, number in again.items()])


class _View:
    """Which results, targets and guests have series of their own, and the name of each guest."""

    def __init__(
        self,
        latest: Sequence[ProbeResult],
        targets: Mapping[_Key, ChosenTarget],
        tallies: Sequence[Tally],
        now: datetime,
    ) -> None:
        self.chosen = targets
        self.every_tally = tallies
        self.results = [each for each in latest if now - each.ended <= SHOWN_FOR or _is_chosen(each, targets)]
        guests = {uuid for uuid, _ in targets} | {each.subject.guest_uuid for each in self.results}
        guests |= {each.guest_uuid for each in tallies if now - each.last <= SHOWN_FOR}
        self.tallies = [each for each in tallies if each.guest_uuid and each.guest_uuid in guests]
        self.begun: dict[_Key, datetime] = {}
        self.newest: dict[_Key, ProbeResult] = {}
        self._names = {each.guest_uuid: each.guest_name for each in sorted(self.tallies, key=lambda each: each.last)}
        for result in sorted(latest, key=lambda each: each.started):
            self.begun[_key(result)] = result.started
        for result in sorted(self.results, key=lambda each: each.started):
            self.newest[_key(result)] = result
            self._names[result.subject.guest_uuid] = result.subject.guest_name
        self._names |= {each.guest_uuid: each.guest_name for each in targets.values()}

    def target(self, key: _Key) -> tuple[str, str, str]:
        uuid, directory = key
        return self._names[uuid], uuid, directory

    def guest_of(self, tally: Tally) -> tuple[str, str]:
        return self._names[tally.guest_uuid], tally.guest_uuid


def _key(result: ProbeResult) -> _Key:
    return result.subject.guest_uuid, result.subject.directory


def _is_chosen(result: ProbeResult, targets: Mapping[_Key, ChosenTarget]) -> bool:
    target = targets.get(_key(result))
    return target is not None and result.job.name in target.jobs


# --- single guests


def _of_targets(view: _View, postponements: Iterable[Postponed]) -> Iterator[Family]:
    yield gauge(
        metrics.PROBE_INFO, [((*view.target(key), *_labels(result)), 1) for key, result in view.newest.items()]
    )
    yield gauge(
        metrics.PROBE_INTERVAL_SECONDS,
        [(view.target(key), each.every.total_seconds()) for key, each in view.chosen.items()],
    )
    yield gauge(
        metrics.PROBE_CHOSEN_TIMESTAMP_SECONDS,
        [(view.target(key), each.since.timestamp()) for key, each in view.chosen.items()],
    )
    yield gauge(
        metrics.PROBE_POSTPONED_TIMESTAMP_SECONDS,
        [
            ((*view.target(key), each.why.value), each.at.timestamp())
            for key, each in _still_postponed(view, postponements)
        ],
    )


def _labels(result: ProbeResult) -> Sequence[str | None]:
    subject = result.subject
    return subject.project, subject.volume_id, subject.volume_type, subject.pool


def _still_postponed(view: _View, postponements: Iterable[Postponed]) -> Iterator[tuple[_Key, Postponed]]:
    for each in postponements:
        key = each.guest_uuid, each.directory
        begin = view.begun.get(key)
        if (key in view.chosen or key in view.newest) and (begin is None or begin < each.at):
            yield key, each


def _of_results(view: _View, last_good: Mapping[tuple[str, str, JobName], datetime]) -> Iterator[Family]:
    probes = [((*view.target(_key(each)), each.job.name.value), each) for each in view.results]
    sound = [
        (values, each.measured, each.finding.facts)
        for values, each in probes
        if each.measured is not None and each.finding.verdict is not Verdict.FAILED
    ]
    good = [(values, last_good.get((*_key(each), each.job.name))) for values, each in probes]
    yield gauge(metrics.PROBE_VERDICT, [((*values, each.finding.verdict.value), 1) for values, each in probes])
    yield gauge(
        metrics.PROBE_RATE["operations"],
        [(values, _per_second(measurement.operations, measurement)) for values, measurement, _ in sound],
    )
    yield gauge(
        metrics.PROBE_RATE["bytes"],
        [(values, _per_second(measurement.bytes, measurement)) for values, measurement, _ in sound],
    )
    yield gauge(
        metrics.PROBE_ALLOWED_RATIO,
        [(values, ratio) for values, _, facts in sound if (ratio := _allowed_ratio(facts)) is not None],
    )
    yield gauge(metrics.PROBE_LAST_TIMESTAMP_SECONDS, [(values, each.ended.timestamp()) for values, each in probes])
    yield gauge(
        metrics.PROBE_LAST_GOOD_TIMESTAMP_SECONDS,
        [(values, end.timestamp()) for values, end in good if end is not None],
    )


def _per_second(count: int, measurement: Measured) -> float:
    return number(count) / measurement.seconds


def _allowed_ratio(facts: Mapping[str, object]) -> float | None:
    rate, limit = facts.get("done"), facts.get("allowed")
    if not isinstance(rate, int | float) or not isinstance(limit, int | float):
        return None
    ratio = number(rate) / number(limit) if limit else math.nan
    return ratio if math.isfinite(ratio) else None


# --- counters

_Sums = dict[tuple[str, ...], Sums]
"""By volume type, job, and the labels of the guest, if any."""


def _sums(tallies: Iterable[Tally], whose: Callable[[Tally], Sequence[str]]) -> _Sums:
    groups: dict[tuple[str, ...], list[Sums]] = {}
    for tally in tallies:
        key = tuple(map(label, (tally.volume_type, tally.job.value, *whose(tally))))
        groups.setdefault(key, []).append(tally.sums)
    return {key: Sums.together(several) for key, several in groups.items()}


def _of_runs(groups: _Sums, labels: Sequence[str]) -> Iterator[Family]:
    """A series for each verdict, so that the first run with a new verdict is an increase and not a new series."""
    yield counter(
        metrics.PROBE_RUNS_TOTAL.by(*labels, "verdict"),
        [((*key, verdict.value), sums.runs.get(verdict, 0)) for key, sums in groups.items() for verdict in Verdict],
    )
    yield histogram(
        metrics.PROBE_LATENCY_SECONDS.by(*labels, "direction"),
        [
            ((*key, direction), _cumulative(latency), _seconds(latency))
            for key, sums in groups.items()
            for direction in _DIRECTIONS
            if (latency := sums.latency.get(direction)) is not None
        ],
    )


def _cumulative(latency: Histogram) -> dict[str, float]:
    """How many latencies are below each of ``LE``, and their number."""
    below, rising = [0] * len(LE), 0
    buckets = iter((*latency.buckets, (LAST + 1, 0)))
    index, count = next(buckets)
    for position, above in enumerate(_ABOVE):
        while index < above:
            rising += count
            index, count = next(buckets)
        below[position] = rising
    return dict(zip(_LE_LABELS, map(number, (*below, latency.count)), strict=True))


def _seconds(latency: Histogram) -> float:
    return number(sum(count * midpoint(index) for index, count in latency.buckets)) / _NANOSECONDS


def _of_objectives(tallies: Iterable[Tally], results: Iterable[ProbeResult]) -> Iterator[Family]:
    strictest: dict[tuple[str, str], float] = {}
    for result in results:
        for quantile, seconds in () if result.objective is None else result.objective.quantiles:
            of_type = label(result.subject.volume_type), repr(quantile)
            strictest[of_type] = min(seconds, strictest.get(of_type, seconds))
    rows: dict[tuple[str, float], Promise] = {}
    for tally in tallies:
        for quantile, promise in tally.sums.promised.items():
            key = label(tally.volume_type), quantile
            rows[key] = rows.get(key, Promise()).plus(promise)
    series: list[tuple[tuple[str, str], float, Promise]] = [
        ((volume_type, repr(quantile)), quantile, promise)
        for (volume_type, quantile), promise in sorted(rows.items())
    ]
    yield counter(metrics.PROBE_OBJECTIVE_REQUESTS_TOTAL, [(key, promise.requests) for key, _, promise in series])
    yield counter(metrics.PROBE_OBJECTIVE_MISSED_TOTAL, [(key, promise.missed) for key, _, promise in series])
    yield gauge(
        metrics.PROBE_OBJECTIVE_BUDGET_RATIO,
        [(key, float(1 - Fraction(str(quantile)))) for key, quantile, _ in series],
    )
    yield gauge(metrics.PROBE_OBJECTIVE_SECONDS, sorted(strictest.items()))
