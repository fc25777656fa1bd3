"""What the probes of this node found, as families of series for Prometheus; whichever way they leave.

Budget: ``PER_PROBE`` series at the most of a job in a directory of a guest, with both directions, ``PER_TARGET`` more
of each directory, and one of the node. That makes 171 of a guest with the three jobs. With ``aggregate`` it is
``PER_TYPE`` of each volume type and three of each quantile of its objectives, however many guests there are.

Latencies are cumulative counts below ``LE``, which are edges of fio's own buckets: of 1856 buckets 30 are left, and
what those tell is exact, but for a latency that is an edge to the nanosecond: it counts above it. What lies in fio's
last bucket, 17.046 s or anything above, counts in ``+Inf`` alone. fio's own sum is not kept: ``_sum`` is of the
buckets' middles, off by at most 0.8 % (and of the last bucket, its middle).

Each guest has counters of its own with ``disk``. When it leaves, its series end: no other takes them over, since to
``increase()`` a series that rises by what another had counted is as if all of that happened just then. With
``aggregate`` a type's series have all of its guests in them, also those that are gone, and never fall.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from prometheus_client.core import HistogramMetricFamily, Metric

from plimsoll_agent.series import counter, gauge, label, number
from plimsoll_probes.chosen import ChosenTarget
from plimsoll_probes.finding import Verdict
from plimsoll_probes.histogram import LAST, Histogram, bucket_of, edges, midpoint
from plimsoll_probes.job import Direction, JobName
from plimsoll_probes.result import Measured, Postponed, ProbeResult
from plimsoll_probes.tally import Promised, Sums, Tally

SHOWN_FOR = timedelta(days=7)
"""So long after its last run a guest is shown that is no longer chosen: it was probed by hand, or it left."""
LE = tuple(sorted((*(2**k for k in range(16, 34)), *(3 * 2 ** (k - 1) for k in range(20, 30)), edges(LAST)[0])))
"""In nanoseconds: 66 µs to 8.6 s in powers of two, from 1 ms to 1 s in steps half as wide, and where fio's end."""

_DIRECTIONS: tuple[Direction, ...] = ("read", "write")
_HISTOGRAM = len(LE) + 3  # +Inf, sum and count
PER_PROBE = 6 + len(Verdict) + len(_DIRECTIONS) * _HISTOGRAM
PER_TARGET = 4
PER_TYPE = len(JobName) * len(Verdict) + 4 * _HISTOGRAM  # read, write, and both of the mixed job

_NANOSECONDS = 10**9
_TARGET = ("domain", "uuid", "directory")
_ABOVE = tuple(map(bucket_of, LE))
"""The first of fio's buckets that is above each of ``LE``."""
_LE_LABELS = (*(repr(edge / _NANOSECONDS) for edge in LE), "+Inf")

_Key = tuple[str, str]
"""The guest's uuid, and the directory."""


def families(
    latest: Iterable[ProbeResult],
    postponed: Iterable[Postponed],
    chosen: Iterable[ChosenTarget],
    tallies: Iterable[Tally],
    last_good: Mapping[tuple[str, str, JobName], datetime],
    *,
    detail: str,
    now: datetime,
) -> Iterator[Metric]:
    """Those that have a series. The first five are what the ``History`` gives under these names; ``detail`` is
    ``disk``, or ``aggregate``: without a series of any single guest.
    """
    shown = _Shown(tuple(latest), {each.key: each for each in chosen}, tuple(tallies), now)
    every: list[Metric] = []
    if detail == "disk":
        every += _of_results(shown, last_good)
        every += _of_targets(shown, postponed)
        every += _of_runs(_grouped(shown.tallies, shown.guest_of), ("volume_type", "probe", "domain", "uuid"))
    else:
        every += _of_runs(_grouped(shown.every_tally, lambda _: ()), ("volume_type", "probe"))
    every += _of_objectives(shown.every_tally)
    every.append(
        gauge(
            "plimsoll_probe_written_timestamp_seconds",
            "When these metrics of probes were written",
            (),
            [((), now.timestamp())],
        )
    )
    yield from (family for family in every if family.samples)


class _Shown:
    """Which results, targets and guests have series of their own, and the name that each guest goes by."""

    def __init__(
        self,
        latest: Sequence[ProbeResult],
        chosen: Mapping[_Key, ChosenTarget],
        tallies: Sequence[Tally],
        now: datetime,
    ) -> None:
        self.chosen = chosen
        self.every_tally = tallies
        self.results = [each for each in latest if now - each.ended <= SHOWN_FOR or _is_chosen(each, chosen)]
        guests = {uuid for uuid, _ in chosen} | {each.subject.guest_uuid for each in self.results}
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
        self._names |= {each.guest_uuid: each.guest_name for each in chosen.values()}

    def target(self, key: _Key) -> tuple[str, str, str]:
        uuid, directory = key
        return self._names[uuid], uuid, directory

    def guest_of(self, tally: Tally) -> tuple[str, str]:
        return self._names[tally.guest_uuid], tally.guest_uuid


def _key(result: ProbeResult) -> _Key:
    return result.subject.guest_uuid, result.subject.directory


def _is_chosen(result: ProbeResult, chosen: Mapping[_Key, ChosenTarget]) -> bool:
    target = chosen.get(_key(result))
    return target is not None and result.job.name in target.jobs


# --- single guests


def _of_targets(shown: _Shown, postponed: Iterable[Postponed]) -> Iterator[Metric]:
    yield gauge(
        "plimsoll_probe_info",
        "What is probed: always 1",
        (*_TARGET, "project", "volume", "volume_type", "pool"),
        [((*shown.target(key), *_described(result)), 1) for key, result in shown.newest.items()],
    )
    yield gauge(
        "plimsoll_probe_every_seconds",
        "How often the rules want it probed",
        _TARGET,
        [(shown.target(key), each.every.total_seconds()) for key, each in shown.chosen.items()],
    )
    yield gauge(
        "plimsoll_probe_chosen_timestamp_seconds",
        "Since when the rules have chosen it without interruption",
        _TARGET,
        [(shown.target(key), each.since.timestamp()) for key, each in shown.chosen.items()],
    )
    yield gauge(
        "plimsoll_probe_postponed_timestamp_seconds",
        "When it was last postponed, and why; only while it was not begun since",
        (*_TARGET, "why"),
        [
            ((*shown.target(key), each.why.value), each.at.timestamp())
            for key, each in _still_postponed(shown, postponed)
        ],
    )


def _described(result: ProbeResult) -> Sequence[str | None]:
    subject = result.subject
    return subject.project, subject.volume_id, subject.volume_type, subject.pool


def _still_postponed(shown: _Shown, postponed: Iterable[Postponed]) -> Iterator[tuple[_Key, Postponed]]:
    for each in postponed:
        key = each.guest_uuid, each.directory
        begun = shown.begun.get(key)
        if (key in shown.chosen or key in shown.newest) and (begun is None or begun < each.at):
            yield key, each


def _of_results(shown: _Shown, last_good: Mapping[tuple[str, str, JobName], datetime]) -> Iterator[Metric]:
    probes = [((*shown.target(_key(each)), each.job.name.value), each) for each in shown.results]
    labels = (*_TARGET, "probe")
    sound = [
        (values, each.measured, each.finding.facts)
        for values, each in probes
        if each.measured is not None and each.finding.verdict is not Verdict.FAILED
    ]
    good = [(values, last_good.get((*_key(each), each.job.name))) for values, each in probes]
    yield gauge(
        "plimsoll_probe_verdict",
        "What became of the newest run: always 1",
        (*labels, "verdict"),
        [((*values, each.finding.verdict.value), 1) for values, each in probes],
    )
    yield gauge(
        "plimsoll_probe_iops",
        "Requests per second in the newest run",
        labels,
        [(values, _per_second(measured.operations, measured)) for values, measured, _ in sound],
    )
    yield gauge(
        "plimsoll_probe_bytes_per_second",
        "Bytes per second in the newest run",
        labels,
        [(values, _per_second(measured.bytes, measured)) for values, measured, _ in sound],
    )
    yield gauge(
        "plimsoll_probe_allowed_ratio",
        "What the newest run did of what its limits allowed",
        labels,
        [(values, ratio) for values, _, facts in sound if (ratio := _allowed_ratio(facts)) is not None],
    )
    yield gauge(
        "plimsoll_probe_last_timestamp_seconds",
        "When the newest run ended",
        labels,
        [(values, each.ended.timestamp()) for values, each in probes],
    )
    yield gauge(
        "plimsoll_probe_last_good_timestamp_seconds",
        "When the newest run ended that kept its promise, or had no limit",
        labels,
        [(values, ended.timestamp()) for values, ended in good if ended is not None],
    )


def _per_second(count: int, measured: Measured) -> float:
    return number(count) / measured.seconds


def _allowed_ratio(facts: Mapping[str, object]) -> float | None:
    done, allowed = facts.get("done"), facts.get("allowed")
    if not isinstance(done, int | float) or not isinstance(allowed, int | float):
        return None
    ratio = number(done) / number(allowed) if allowed else math.nan
    return ratio if math.isfinite(ratio) else None


# --- counters

_Sums = dict[tuple[str, ...], Sums]
"""By volume type, job, and whose they are."""


def _grouped(tallies: Iterable[Tally], whose: Callable[[Tally], Sequence[str]]) -> _Sums:
    groups: dict[tuple[str, ...], list[Sums]] = {}
    for tally in tallies:
        key = tuple(map(label, (tally.volume_type, tally.job.value, *whose(tally))))
        groups.setdefault(key, []).append(tally.sums)
    return {key: Sums.together(several) for key, several in groups.items()}


def _of_runs(groups: _Sums, labels: Sequence[str]) -> Iterator[Metric]:
    """Every verdict, so that the first run with another one than usual is a rise and not a new series."""
    yield counter(
        "plimsoll_probe_runs_total",
        "Runs that ended, by verdict",
        (*labels, "verdict"),
        [((*key, verdict.value), sums.runs.get(verdict, 0)) for key, sums in groups.items() for verdict in Verdict],
    )
    latency = HistogramMetricFamily(
        "plimsoll_probe_latency_seconds",
        "How long the requests of probes took; the sum is of the middles of fio's buckets",
        labels=(*labels, "direction"),
    )
    for key, sums in groups.items():
        for direction in _DIRECTIONS:
            if direction in sums.latency:
                histogram = sums.latency[direction]
                latency.add_metric((*key, direction), _cumulative(histogram), _seconds(histogram))
    yield latency


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    """How many are below each of ``LE``, and how many there are."""
    below, counted = [0] * len(LE), 0
    buckets = iter((*histogram.buckets, (LAST + 1, 0)))
    index, count = next(buckets)
    for position, above in enumerate(_ABOVE):
        while index < above:
            counted += count
            index, count = next(buckets)
        below[position] = counted
    return list(zip(_LE_LABELS, map(number, (*below, histogram.count)), strict=True))


def _seconds(histogram: Histogram) -> float:
    return number(sum(count * midpoint(index) for index, count in histogram.buckets)) / _NANOSECONDS


def _of_objectives(tallies: Iterable[Tally]) -> Iterator[Metric]:
    rows: dict[tuple[str, float], Promised] = {}
    for tally in tallies:
        for quantile, promised in tally.sums.promised.items():
            key = label(tally.volume_type), quantile
            rows[key] = rows.get(key, Promised()).plus(promised)
    ordered: list[tuple[tuple[str, str], float, Promised]] = [
        ((volume_type, repr(quantile)), quantile, promised)
        for (volume_type, quantile), promised in sorted(rows.items())
    ]
    labels = ("volume_type", "objective")  # not "quantile": promtool keeps that for summaries
    yield counter(
        "plimsoll_probe_objective_requests_total",
        "Requests of runs that had an objective for this part of them",
        labels,
        [(key, promised.requests) for key, _, promised in ordered],
    )
    yield counter(
        "plimsoll_probe_objective_missed_total",
        "Those of them that may have taken longer than the objective allows",
        labels,
        [(key, promised.missed) for key, _, promised in ordered],
    )
    yield gauge(
        "plimsoll_probe_objective_budget_ratio",
        "The part of the requests that may take longer",
        labels,
        [(key, float(1 - Fraction(str(quantile)))) for key, quantile, _ in ordered],
    )
