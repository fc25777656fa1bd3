"""Recording rules: what alerts, dashboards and ``plimsoll region`` read of many nodes or of days.

Counters that the node keeps for years (runs, requests, buckets) are read by increase(), never as
``x - x offset 1d``. Drawback: the first value of a new series is no increase, so the first run on a node and volume
type is not counted. Benefit: after a gap in Prometheus' data, or in a new Prometheus, a node's whole past does not
count as one day's work.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.metrics import Metric
from plimsoll_monitoring.alerts.definition import RecordingRule
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.promql import BELOW, CONCLUSIVE, OBSERVED_LATE, any_verdict, once
from plimsoll_probes.model.finding import GOOD


def of_disks(site: Site) -> Iterator[RecordingRule]:
    disks = once(site, metrics.DISKS)
    yield RecordingRule(metrics.DISKS_OF_TYPE, f"sum by {site.in_region('volume_type', 'state')} ({disks})")
    yield RecordingRule(metrics.DISKS_OF_NODE, f"sum by {site.node('state')} ({disks})")
    place = site.node(*metrics.DISK)
    yield RecordingRule(
        metrics.BUSIEST_DISKS,
        f"topk by {site.in_region()} (10, max by {place} ({site(metrics.DISK_AVERAGE_LIMIT_RATIO)}))",
        "The ten busiest disks of each region, by their most used limit. None with detail = aggregate.",
    )


def of_alerts(site: Site) -> RecordingRule:
    """Where alerts are evaluated elsewhere than the other rules, as by a ruler of Thanos, it is where they are."""
    nodes = f"count by {site.node()} ({metrics.DISKS_OF_NODE})"
    why = "That alerts are evaluated: without it dashboards do not show that none fires."
    return RecordingRule(metrics.ALERTS_EVALUATED, f"count by {site.in_region()} ({nodes})", why)


def of_load(site: Site) -> Iterator[RecordingRule]:
    """What ``plimsoll region explain`` compares a disk with: the latency of its type, the busiest guests."""
    on = site.node(*metrics.DISK)
    is_observed = f"and on {site.node()} {_observed(site)}"

    def of_each(values: str, *labels: str) -> str:
        """The values of disks with labels of ``plimsoll_disk_info``."""
        each_info = f"max by {site.node(*metrics.DISK, *labels)} ({site(metrics.DISK_INFO)})"
        info = f"topk by {on} (1, {each_info} {is_observed})"
        return f"{values}\n  * on {on} group_left ({', '.join(labels)})\n  {info}"

    of_type = site.in_region("volume_type")
    latency = of_each(f"max by {on} ({site(metrics.DISK_AVERAGE_LATENCY_SECONDS)})", "volume_type")
    why = (
        "The disks of each volume type that had requests, and their median. None of these with detail = aggregate."
        " Without nodes whose disks were not observed for an hour, here and below: their guests may be elsewhere."
    )
    yield RecordingRule(metrics.LATENCY_COUNT, f"count by {of_type} (\n  {latency}\n)", why)
    yield RecordingRule(metrics.LATENCY_MEDIAN, f"quantile by {of_type} (0.5,\n  {latency}\n)")
    why = "The three busiest guests of each pool: one of them may slow the others."
    pool = [site.own(label) for label in ("cluster", "pool")]
    for unit, record in metrics.BUSIEST_GUESTS.items():
        rate = f"sum by {on} (max by {site.node(*metrics.DISK, 'direction')} ({site(metrics.DISK_AVERAGE[unit])}))"
        of_guest = f"sum by {site.in_region('uuid', *pool)} (\n  {of_each(rate, *pool)}\n)"
        yield RecordingRule(record, f"topk by {site.in_region(*pool)} (3, {of_guest})", why)
        why = ""


def of_pools(site: Site) -> Iterator[RecordingRule]:
    why = (
        "Without nodes whose disks were not observed for an hour: their guests may be elsewhere. Each node once, also"
        " where two jobs scrape it."
    )
    pool, of_type = [site.own(label) for label in ("cluster", "pool")], site.in_region("volume_type")
    for metric, record in metrics.POOL_SUM.items():
        labels = (*pool, "volume_type", *(["unit"] if metric == metrics.POOL_DISKS_UNLIMITED else []))
        yield RecordingRule(
            record,
            f"sum by {site.in_region(*labels)} (\n"
            f"  max by {site.node(*labels)} ({site(metric)})\n"
            f"  and on {site.node()} {_observed(site)}\n)",
            why,
        )
        why = ""
    usage, promises = (
        {unit: metrics.POOL_SUM[name] for unit, name in sums.items()}
        for sums in (metrics.POOL_AVERAGE, metrics.POOL_PROMISED)
    )
    for names, sums in ((metrics.PROMISED, promises), (metrics.TAKEN["volume_type"], usage)):
        for unit, record in names.items():
            yield RecordingRule(record, f"sum by {of_type} ({sums[unit]})")
    why = "A month is read from these, a series each: sums at each moment of it would take a minute."
    for level, by in (("volume_type", of_type), ("pool", site.in_region(*pool))):
        for unit, ratio in metrics.USED[level].items():
            of_level = f"sum by {by} ({usage[unit]})"
            if level == "pool":
                yield RecordingRule(metrics.TAKEN[level][unit], of_level, why)
                why = ""
            yield RecordingRule(ratio, f"{of_level}\n/\n(sum by {by} ({promises[unit]}) > 0)")


def _observed(site: Site) -> str:
    return f"time() - {site(metrics.PASS_OBSERVED_TIMESTAMP_SECONDS)} < {OBSERVED_LATE}"


def of_light(site: Site) -> Iterator[RecordingRule]:
    pool = site.in_region(site.own("cluster"), site.own("pool"))
    why = "What light disks waited: the usual latency of a week is made of these (plimsoll congestion publish)."
    for counter, record in metrics.LIGHT.items():
        of_node = once(site, counter, over="5m")
        yield RecordingRule(record, f"sum by {pool} ({of_node})", why)
        why = ""


def of_present(site: Site, metric: Metric, *matchers: str) -> str:
    """Series of nodes that probe."""
    of_writers = f"on {site.node()} time() - {site(metrics.PROBE_WRITTEN_TIMESTAMP_SECONDS)}"
    return f"{once(site, metric, *matchers)}\n  and {of_writers} < {site.seconds_of('probes_off')}"


def of_probes(site: Site) -> Iterator[RecordingRule]:
    of_node, of_type = site.node("volume_type"), site.in_region("volume_type")
    why = "By the newest probe of each guest; a node that no longer probes does not count."
    for record, metric, labels in (
        (metrics.TARGETS, metrics.PROBE_TARGETS, site.in_region("volume_type", "verdict")),
        (metrics.TARGETS_BROKEN_AGAIN, metrics.PROBE_TARGETS_BROKEN_AGAIN, of_type),
    ):
        yield RecordingRule(
            record,
            f"sum by {labels} (\n  {of_present(site, metric)}\n)",
            why,
        )
        why = ""
    yield RecordingRule(
        metrics.TARGETS_BROKEN,
        f"sum by {of_type} ({metrics.TARGETS}{{{BELOW}}})",
        "Guests that get less than promised, and their share of those with a result.",
    )
    yield RecordingRule(
        metrics.TARGETS_BROKEN_RATIO,
        f"{metrics.TARGETS_BROKEN}\n/\n(sum by {of_type} ({metrics.TARGETS}{{{CONCLUSIVE}}}) > 0)",
    )
    hour = once(site, metrics.PROBE_LATENCY_SECONDS_BUCKET, over="1h")
    yield RecordingRule(metrics.NODE_BUCKETS, f"sum by {site.node('volume_type', 'le')} ({hour})")
    by_bucket = site.in_region("volume_type", "le")
    yield RecordingRule(metrics.TYPE_BUCKETS, f"sum by {by_bucket} ({metrics.NODE_BUCKETS})")
    why = (
        "The hours of a day are summed. Each request counts 20 times, once an evaluation, which does not change a"
        " percentile. increase() over a day of every bucket gives the same and reads 24 times as much. `>= 0` drops"
        " NaN, where the day had no request. A request in fio's last bucket counts as 17.05 s, its lower edge."
    )
    for record, quantile, histogram in (
        (metrics.NODE_P99, 0.99, metrics.NODE_BUCKETS),
        (metrics.QUANTILES["p50"], 0.5, metrics.TYPE_BUCKETS),
        (metrics.QUANTILES["p99"], 0.99, metrics.TYPE_BUCKETS),
        (metrics.QUANTILES["p999"], 0.999, metrics.TYPE_BUCKETS),
    ):
        yield RecordingRule(record, f"histogram_quantile({quantile}, sum_over_time({histogram}[1d])) >= 0", why)
        why = ""
    yield RecordingRule(
        metrics.REGION_P99,
        "histogram_quantile(0.99,\n"
        f"  sum by {site.in_region('le')} (sum_over_time({metrics.TYPE_BUCKETS}[1d]))\n) >= 0",
    )
    requests, runs = (
        once(site, counter, over="1d") for counter in (metrics.PROBE_LATENCY_SECONDS_COUNT, metrics.PROBE_RUNS_TOTAL)
    )
    yield RecordingRule(metrics.NODE_REQUESTS, f"sum by {of_node} ({requests})")
    yield RecordingRule(metrics.NODE_RUNS, f"sum by {site.node('volume_type', 'verdict')} ({runs})")
    why = "The share of good runs among conclusive ones. `or 0 *`: where none was good there may be no series to add."
    for record, labels in (
        (metrics.NODE_KEPT, of_node),
        (metrics.TYPE_KEPT, of_type),
        (metrics.REGION_KEPT, site.in_region()),
    ):
        yield RecordingRule(
            record,
            f"""\
(
  sum by {labels} ({metrics.NODE_RUNS}{{{any_verdict(*GOOD)}}})
  or
  0 * sum by {labels} ({metrics.NODE_RUNS})
)
/
(sum by {labels} ({metrics.NODE_RUNS}{{{CONCLUSIVE}}}) > 0)""",
            why,
        )
        why = ""


def of_burn(site: Site) -> Iterator[RecordingRule]:
    labels = site.in_region("volume_type", "objective")
    yield RecordingRule(
        metrics.OBJECTIVE_BUDGET, f"max by {labels} ({site(metrics.PROBE_OBJECTIVE_BUDGET_RATIO)}) > 0"
    )
    misses, requests, budget = metrics.OBJECTIVE_MISSED, metrics.OBJECTIVE_REQUESTS, metrics.OBJECTIVE_BUDGET
    for record, counter in (
        (misses, metrics.PROBE_OBJECTIVE_MISSED_TOTAL),
        (requests, metrics.PROBE_OBJECTIVE_REQUESTS_TOTAL),
    ):
        hour = once(site, counter, over="1h")
        yield RecordingRule(record, f"sum by {labels} ({hour})")
    yield RecordingRule(metrics.BURN["1h"], f"{misses}\n/\n({requests} * {budget} >= 10)")
    why = "The sum of the hours, as above: each request counts 20 times, so 10 are 200."
    for window in ("6h", "3d"):
        yield RecordingRule(
            metrics.BURN[window],
            f"sum_over_time({misses}[{window}])\n/\n(sum_over_time({requests}[{window}]) * {budget} >= 200)",
            why,
        )
        why = ""
