"""Congestion as the region's Prometheus sees it: what light disks waited, what OSDs say of that, and the next factor.

The latency of light disks is the signal. It may lower a factor only if the OSDs' own latency is at least half of it:
else the time is lost elsewhere, where lower limits do not help. It may not while requests wait for what lower limits
do not mend, such as placement groups that do not serve any. What is unknown lowers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from plimsoll_agent.congestion import law
from plimsoll_agent.congestion.law import TUNING, ClassState, Signal
from plimsoll_agent.congestion.published import LASTS, ClassKey, Factor, FactorFile, Gap
from plimsoll_agent.congestion.signal import PoolKey
from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.site_labels import BETWEEN, REGION
from plimsoll_agent.rules.model import UUID
from plimsoll_agent.util.frozen import frozen
from plimsoll_monitoring.promql import SeriesSelection, any_of, braces, equal, increase, selector
from plimsoll_monitoring.region.answers import Answers, Series, TimeSeries, key_of, label, may_be_of
from plimsoll_monitoring.region.device_classes import ANY

WINDOW = "2m"
"""Over which the signal is averaged: two passes a minute apart are in it, and a scrape."""
LEAST = 100.0
"""So few requests of light disks in a window are no signal."""
_LEAST_SAMPLES = 2
"""An increase is between two."""
OF_OSDS = 0.5
"""The share of a latency that the OSDs' own must have."""
ENOUGH = 288
"""So many known values, five minutes apart, make a usual latency: a day of the last seven."""
STOPPED = frozenset({"PG_AVAILABILITY", "OSD_FULL", "POOL_FULL"})
"""Health checks with which requests wait for something else than load. Not PG_DEGRADED, nor SLOW_OPS."""

Pools = Mapping[PoolKey, tuple[str, ...]]
"""The single classes whose OSDs each pool uses."""


def elements(classes: Mapping[PoolKey, str]) -> Pools:
    """Of ``device_classes.classes_of``: a rule with two takes uses both, one for any device all of its cluster that a
    rule names.
    """
    names: dict[str, set[str]] = {}
    for (cluster, _), name in classes.items():
        names.setdefault(cluster, set()).update(name.split("+"))

    def single(cluster: str, parts: Sequence[str]) -> tuple[str, ...]:
        own = names[cluster] if ANY in parts else {*parts}
        return tuple(sorted(own - {ANY, ""})) or (ANY,)

    return {pool: single(pool[0], name.split("+")) for pool, name in classes.items()}


def keys(pools: Pools) -> list[ClassKey]:
    return sorted({(cluster, name) for (cluster, _), names in pools.items() for name in names})


def own_pools(key: ClassKey, pools: Pools) -> list[str]:
    """Those that use no other class: pools of several tell of none of them."""
    cluster, name = key
    return sorted(pool for (of, pool), names in pools.items() if of == cluster and names == (name,))


# --- questions


def questions(selection: SeriesSelection, osd_label: str) -> dict[str, str]:
    """What is going on now."""
    nodes, by_pool = selection.matchers(), "sum by (cluster, pool)"
    average = metrics.POOL_AVERAGE["operations"]
    each_once = f"max by (region, instance, cluster, pool, volume_type) ({average}{nodes})"
    return {
        "seconds": f"{by_pool} ({increase(metrics.LIGHT_LATENCY_SECONDS_TOTAL, nodes, WINDOW)})",
        "requests": f"{by_pool} ({increase(metrics.LIGHT_REQUESTS_TOTAL, nodes, WINDOW)})",
        "samples": f"max by (cluster, pool) (count_over_time({metrics.LIGHT_REQUESTS_TOTAL}{nodes}[{WINDOW}]))",
        "rate": f"{by_pool} ({each_once})",
        "types": f"group by (cluster, pool, volume_type) ({metrics.POOL_DISKS}{nodes})",
        "osd_seconds": _osds("sum", osd_label),
        "osd_requests": _osds("count", osd_label),
    }


def _osds(name: str, osd_label: str) -> str:
    """By the label, and where a cluster has none by its region: others may have OSDs of the same numbers."""

    def joined(matchers: str, place: str) -> str:
        classes = f"max by ({place}, ceph_daemon, device_class) (ceph_osd_metadata{matchers})"
        return (
            f"sum by ({place}, device_class) (rate(ceph_osd_op_latency_{name}{matchers}[{WINDOW}])"
            f" * on ({place}, ceph_daemon) group_left (device_class) {classes})"
        )

    if osd_label == REGION:
        return joined("", REGION)
    present, absent = braces(f'{osd_label}!=""'), braces(equal(osd_label, ""))
    return f"{joined(present, osd_label)} or {joined(absent, REGION)}"


def usual_questions(selection: SeriesSelection, cluster: str, pools: Sequence[str]) -> dict[str, str]:
    """The 10th percentile of a class's latency over seven days, and how many values it is of."""
    matchers = selection.matchers(equal("cluster", cluster), any_of("pool", sorted(pools)))
    seconds, requests = (selector(record) + matchers for record in metrics.LIGHT.values())
    latency = f"(sum({seconds}) / (sum({requests}) >= {LEAST:g}))[7d:5m]"
    return {"p10": f"quantile_over_time(0.1, {latency})", "values": f"count_over_time({latency})"}


def usual(answers: Answers) -> float | None:
    """Seconds; None is unknown: too few values."""
    values, p10 = (next((series.known for series in answers[name]), None) for name in ("values", "p10"))
    return p10 or None if values is not None and values >= ENOUGH else None


# --- a device class now


@frozen(kw_only=True)
class MeasuredClass:
    """A device class in the last window; None is unknown."""

    latency: float | None = None
    """Seconds that a request of light disks took."""
    rate: float | None = None
    """Requests per second of all disks."""
    osds: float | None = None
    """Seconds that an operation took by the OSDs themselves."""
    types: frozenset[str] = frozenset()
    """Volume types with disks there."""
    has_increase: bool = True
    """Not where no counter has two values in the window."""
    has_fsid: bool = True
    """Not where no counter is of its cluster, and some have no fsid: a label of the target took its place."""


def measured(
    answers: Answers, pools: Pools, osd_label: str, region: str | None = None
) -> dict[ClassKey, MeasuredClass]:
    """Each class of these pools; with a region, of its nodes."""
    own = {pool: classes[0] for pool, classes in pools.items() if len(classes) == 1}
    seconds, requests, rates = (_sums(answers[name], own) for name in ("seconds", "requests", "rate"))
    samples = {key: max(its) for key, its in _values(answers["samples"], own).items()}
    osds = _of_osds(answers, osd_label, {cluster for cluster, _ in pools}, region)
    names = {label(series, "cluster") for series in answers["samples"]} - {""}
    all_fsids = all(UUID.fullmatch(name) for name in names)
    types: dict[ClassKey, set[str]] = {}
    for series in answers["types"]:
        for name in pools.get(_pool(series), ()):
            types.setdefault((label(series, "cluster"), name), set()).add(label(series, "volume_type"))
    return {
        key: MeasuredClass(
            latency=seconds[key] / requests[key] if requests.get(key, 0.0) >= LEAST and key in seconds else None,
            rate=rates.get(key),
            osds=osds.get(key),
            types=frozenset(types.get(key, ())),
            has_increase=samples.get(key, _LEAST_SAMPLES) >= _LEAST_SAMPLES,
            has_fsid=all_fsids or key[0] in names,
        )
        for key in keys(pools)
    }


def _pool(series: Series) -> PoolKey:
    return label(series, "cluster"), label(series, "pool")


def _sums(answer: Iterable[Series], own: Mapping[PoolKey, str]) -> dict[ClassKey, float]:
    return {key: sum(its) for key, its in _values(answer, own).items()}


def _values(answer: Iterable[Series], own: Mapping[PoolKey, str]) -> dict[ClassKey, list[float]]:
    values: dict[ClassKey, list[float]] = {}
    for series in answer:
        pool = _pool(series)
        if pool in own and series.known is not None:
            values.setdefault((pool[0], own[pool]), []).append(series.known)
    return values


def _of_osds(answers: Answers, osd_label: str, clusters: set[str], region: str | None) -> dict[ClassKey, float]:
    seconds, requests = (
        _by_class(answers[name], osd_label, clusters, region) for name in ("osd_seconds", "osd_requests")
    )
    for each in (seconds, requests):
        for cluster in {key[0] for key in each}:
            each[cluster, ANY] = sum(value for key, value in each.items() if key[0] == cluster)
    return {key: its / requests[key] for key, its in seconds.items() if requests.get(key)}


def _by_class(
    answer: Sequence[Series], osd_label: str, clusters: set[str], region: str | None
) -> dict[ClassKey, float]:
    """Without a cluster's name OSDs are those of the only cluster, if one region alone may have them."""
    values: dict[ClassKey, float] = {}
    nameless: dict[str, dict[str, float]] = {}
    for series in answer:
        if series.known is None:
            continue
        name, place = label(series, osd_label), label(series, "region")
        device_class = label(series, "device_class")
        cluster = next((part for part in (name, *place.split(BETWEEN)) if part in clusters), None)
        if cluster is not None:
            values[cluster, device_class] = series.known
        elif (not name or osd_label == REGION) and _may_be_of(place, region):
            nameless.setdefault(place, {})[device_class] = series.known
    if not values and len(clusters) == 1:
        (only,) = clusters
        places = [region] if region in nameless else [*nameless]
        if len(places) == 1:
            values = {(only, device_class): value for device_class, value in nameless[places[0]].items()}
    return values


def _may_be_of(place: str, region: str | None) -> bool:
    """``region`` may name fewer labels than the site has."""
    return not region or may_be_of(place, [region], ()) or place.startswith(f"{region}{BETWEEN}")


def objective(now: MeasuredClass, targets: Mapping[str, float]) -> float | None:
    """Seconds: the lowest of its volume types."""
    return min((targets[name] for name in now.types if name in targets), default=None)


def gap(now: MeasuredClass | None, target: float | None, stop: Callable[[], Gap | None]) -> Gap | None:
    """Why there is no signal; ``now`` is None if Prometheus did not answer.

    ``stop`` asks the cluster, and only if its factor may be lowered.
    """
    if now is None:
        return Gap.NO_ANSWER
    if not now.has_fsid:
        return Gap.CLUSTER_UNKNOWN
    if not now.latency:
        return Gap.NO_REQUESTS if now.has_increase else Gap.TOO_SELDOM
    if target is None:
        return Gap.NO_TARGET
    if now.latency < target * TUNING.band:
        return None
    if now.osds is None:
        return Gap.OSDS_UNKNOWN
    return Gap.NOT_IN_OSDS if now.osds < OF_OSDS * now.latency else stop()


def next_state(before: ClassState, now: MeasuredClass | None, target: float | None, why: Gap | None) -> ClassState:
    """One period later. Without a signal, ``why`` says so."""
    signal = None if now is None or not now.latency or why else Signal(latency=now.latency, rate=now.rate)
    return law.step(before, signal, target)


def factor(
    key: ClassKey, state: ClassState, now: MeasuredClass | None, target: float | None, why: Gap | None
) -> Factor:
    cluster, name = key
    return Factor(
        cluster=cluster,
        device_class=name,
        x=state.x,
        action=state.action.value,
        latency=None if now is None else now.latency,
        target=target,
        why=why or "",
    )


# --- the file


def states(before: FactorFile | None, now: datetime) -> dict[ClassKey, ClassState]:
    """Where each class stands: nodes have returned by themselves since the last file expired."""
    if before is None:
        return {}
    age = now - before.issued
    if age < LASTS + timedelta(seconds=TUNING.period):
        return dict(before.states)
    return {factor.key: _at(_since(factor.x, age)) for factor in before.factors}


def _since(x: float, age: timedelta) -> float:
    """What nodes have of a factor that was published so long ago."""
    return law.returned(x, max(0, int((age - LASTS) / timedelta(seconds=TUNING.period))))


def _at(x: float) -> ClassState:
    return ClassState(x=x, fine=x)


def is_recent(before: FactorFile | None, now: datetime) -> bool:
    return before is not None and now <= before.valid_until


def _fresh(metric: str, nodes: str) -> str:
    """Of machines that published within the last two minutes: the file of another one stays as it was."""
    age = f"time() - {metrics.CONGESTION_PUBLISHED_TIMESTAMP_SECONDS}{nodes}"
    return f"{metric}{nodes} and on (region, instance) {age} < 120"


_MACHINE = ("region", "instance")
LAST = {
    "factors": f"last_over_time({metrics.CONGESTION_FACTOR}[10m])",
    "ages": f"time() - last_over_time({metrics.CONGESTION_PUBLISHED_TIMESTAMP_SECONDS}[10m])",
}
"""What machines published last: also one that is gone, whose series Prometheus has ended."""


def last_states(answers: Answers) -> dict[ClassKey, ClassState]:
    """Where the newest of them left each class, and nodes have it since."""
    ages = {tuple(label(series, name) for name in _MACHINE): series.known for series in answers["ages"]}
    newest: dict[ClassKey, tuple[float, float]] = {}
    for series in answers["factors"]:
        age = ages.get(tuple(label(series, name) for name in _MACHINE))
        if age is not None and 0 < series.value <= 1:
            key = label(series, "cluster"), label(series, "device_class")
            newest[key] = min(newest.get(key, (age, series.value)), (age, series.value))
    return {key: _at(_since(x, timedelta(seconds=age))) for key, (age, x) in newest.items()}


def next_file(
    before: FactorFile | None,
    factors: Sequence[Factor],
    states: Mapping[ClassKey, ClassState],
    pools: Pools,
    now: datetime,
) -> FactorFile:
    return FactorFile(
        generation=max(0 if before is None else before.generation + 1, int(now.timestamp())),
        issued=now,
        valid_until=now + LASTS,
        factors=tuple(factors),
        pools=pools,
        states=states,
    )


# --- plimsoll region congestion


@frozen(kw_only=True)
class CongestedClass:
    """What was published last about a device class."""

    region: str
    cluster: str
    device_class: str
    x: float | None
    """None if nothing was published lately."""
    latency: float | None
    target: float | None
    action: str
    why: str
    published: float
    """Seconds since 1970."""
    reduced: int | None = None
    """Disks whose limits are reduced; None where no node has any, or tells of them."""
    day: tuple[float | None, ...] = ()
    """The lowest x of each hour of the last day; None is unknown."""


_HOURS = 24
_CLASS = "region, instance, cluster, device_class"


def list_questions(selection: SeriesSelection) -> dict[str, str]:
    """What each machine published last, within a day."""
    nodes = selection.matchers()

    def last(metric: str, *labels: str) -> str:
        return f"max by ({', '.join((_CLASS, *labels))}) (last_over_time({metric}{nodes}[5m]))"

    return {
        "factor": last(metrics.CONGESTION_FACTOR),
        "latency": last(metrics.CONGESTION_LATENCY_SECONDS),
        "target": last(metrics.CONGESTION_TARGET_SECONDS),
        "state": f"max by ({_CLASS}, action, why) ({metrics.CONGESTION_STATE}{nodes})",
        "reduced": "sum by (cluster, device_class) ("
        f"max by (region, instance, cluster, device_class) ({metrics.DISKS_REDUCED}{nodes}))",
        "published": f"max by (region, instance) ({metrics.CONGESTION_PUBLISHED_TIMESTAMP_SECONDS}{nodes})",
    }


def day_question(selection: SeriesSelection) -> str:
    factor = _fresh(metrics.CONGESTION_FACTOR, selection.matchers())
    return f"min by (cluster, device_class) (min_over_time(({factor})[1h:1m]))"


def classes(answers: Answers, day: Iterable[TimeSeries], now: float) -> list[CongestedClass]:
    """Those that are reduced most come first. Of several machines the one that published last counts."""
    times = {key_of(series): series.value for series in answers["published"]}
    newest: dict[ClassKey, Series] = {}
    for series in sorted(answers["factor"], key=lambda one: times.get(key_of(one), 0.0)):
        newest[_class_of(series)] = series
    hours = {_class_of(line): line.values for line in day}
    rows = [
        _row(series, answers, times.get(key_of(series), 0.0), hours.get(key, {}), now)
        for key, series in newest.items()
    ]
    return sorted(rows, key=lambda row: (row.x is None, row.x, row.cluster, row.device_class))


def _class_of(series: Series | TimeSeries) -> ClassKey:
    return label(series, "cluster"), label(series, "device_class")


def _row(series: Series, answers: Answers, at: float, hours: Mapping[float, float], now: float) -> CongestedClass:
    def same(name: str) -> Series | None:
        matches = (
            one for one in answers[name] if (key_of(one), _class_of(one)) == (key_of(series), _class_of(series))
        )
        return next(matches, None)

    latency, target, state = same("latency"), same("target"), same("state")
    cluster, device_class = _class_of(series)
    numbers = (one.known for one in answers["reduced"] if _class_of(one) == _class_of(series))
    number = next(numbers, None)
    return CongestedClass(
        region=label(series, "region"),
        cluster=cluster,
        device_class=device_class,
        x=series.known if now - at <= LASTS.total_seconds() else None,
        latency=None if latency is None else latency.known,
        target=None if target is None else target.known,
        action="" if state is None else label(state, "action"),
        why="" if state is None else label(state, "why"),
        published=at,
        reduced=None if number is None else int(number),
        day=tuple(hours.get(float(int(now) - 3600 * back)) for back in reversed(range(_HOURS))),
    )


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Iterable[float | None]) -> str:
    """A character each, the highest at 1; ``·`` is unknown."""
    return "".join("·" if value is None else _BARS[min(7, max(0, int(value * 8) - (value < 1)))] for value in values)
