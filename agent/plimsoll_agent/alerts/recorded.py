"""Recording rules: what alerts, dashboards and ``plimsoll region`` read of many nodes or of days.

Counters that the node keeps for years (runs, requests, buckets) are read by increase(), never as
``x - x offset 1d``. Drawback: the first value of a new series is no increase, so the first run on a node and volume
type is not counted. Benefit: after a gap in Prometheus' data, or in a new Prometheus, a node's whole past does not
count as one day's work.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.alerts.definition import Record
from plimsoll_agent.alerts.site import Site

_LATENCY = "plimsoll_probe_latency_seconds"
_BUCKET = f"{_LATENCY}_bucket:increase_1h"
_CONCLUSIVE = 'verdict=~"kept|no-limit|short|over-limit|slow"'
"""Not by those that are none: nodes of other versions may have others."""
_RUNS = "instance_volume_type:plimsoll_probe_runs:increase_1d"


def of_disks(site: Site) -> Iterator[Record]:
    disks = site("plimsoll_disks")
    yield Record("volume_type:plimsoll_disks:sum", f"sum by {site.in_region('volume_type', 'state')} ({disks})")
    yield Record("instance:plimsoll_disks:sum", f"sum by {site.node('state')} ({disks})")
    place = site.node("domain", "target_device", "uuid")
    yield Record(
        "instance:plimsoll_disk_average_limit_ratio:top10",
        f"topk by {site.in_region()} (10, max by {place} ({site('plimsoll_disk_average_limit_ratio')}))",
        "The ten busiest disks of each region, by their most used limit. None with detail = aggregate.",
    )


def of_load(site: Site) -> Iterator[Record]:
    """What ``plimsoll region explain`` compares a disk with: the latency of its type, the busiest guests."""
    disk = ("domain", "target_device", "uuid")
    on = site.node(*disk)

    def of_each(values: str, *labels: str) -> str:
        """The values of disks with labels of ``plimsoll_disk_info``."""
        info = f"topk by {on} (1, max by {site.node(*disk, *labels)} ({site('plimsoll_disk_info')}))"
        return f"{values}\n  * on {on} group_left ({', '.join(labels)})\n  {info}"

    name, of_type = "plimsoll_disk_average_latency_seconds", site.in_region("volume_type")
    latency = of_each(f"max by {on} ({site(name)})", "volume_type")
    why = "The disks of each volume type that had requests, and their median. None of these with detail = aggregate."
    yield Record(f"volume_type:{name}:count", f"count by {of_type} (\n  {latency}\n)", why)
    yield Record(f"volume_type:{name}:median", f"quantile by {of_type} (0.5,\n  {latency}\n)")
    why = "The three busiest guests of each pool: one of them may slow the others."
    pool = [site.own(label) for label in ("cluster", "pool")]
    for unit in ("operations", "bytes"):
        name = f"plimsoll_disk_average_{unit}_per_second"
        rate = f"sum by {on} (max by {site.node(*disk, 'direction')} ({site(name)}))"
        of_guest = f"sum by {site.in_region('uuid', *pool)} (\n  {of_each(rate, *pool)}\n)"
        yield Record(f"uuid_pool:{name}:top3", f"topk by {site.in_region(*pool)} (3, {of_guest})", why)
        why = ""


TAKEN = {name: f"volume_type:plimsoll_pool_average_{name}_per_second:sum" for name in ("operations", "bytes")}
PROMISED = {name: f"volume_type:plimsoll_pool_promised_{name}_per_second:sum" for name in TAKEN}


def of_pools(site: Site) -> Iterator[Record]:
    observed = site("plimsoll_pass_observed_timestamp_seconds")
    why = (
        "Without nodes whose disks were not observed for an hour: their guests may be elsewhere. Each node once, also"
        " where two jobs scrape it."
    )
    sums = [f"{what}_{name}_per_second" for what in ("promised", "average") for name in TAKEN]
    pool = [site.own(label) for label in ("cluster", "pool")]
    for name in ("disks", "disks_unknown", "disks_unlimited", *sums):
        labels = (*pool, "volume_type", *(["unit"] if name == "disks_unlimited" else []))
        yield Record(
            f"pool_volume_type:plimsoll_pool_{name}:sum",
            f"sum by {site.in_region(*labels)} (\n"
            f"  max by {site.node(*labels)} ({site(f'plimsoll_pool_{name}')})\n"
            f"  and on {site.node()} time() - {observed} < 3600\n)",
            why,
        )
        why = ""
    for name in sums:
        of_type = site.in_region("volume_type")
        yield Record(
            f"volume_type:plimsoll_pool_{name}:sum", f"sum by {of_type} (pool_volume_type:plimsoll_pool_{name}:sum)"
        )
    why = "A month is read from these, a series each: sums at each moment of it would take a minute."
    for level, by in (("volume_type", site.in_region("volume_type")), ("pool", site.in_region(*pool))):
        for name in TAKEN:
            taken, promised = (
                f"sum by {by} (pool_volume_type:plimsoll_pool_{what}_{name}_per_second:sum)"
                for what in ("average", "promised")
            )
            if level == "pool":
                yield Record(f"pool:plimsoll_pool_average_{name}_per_second:sum", taken, why)
                why = ""
            yield Record(f"{level}:plimsoll_pool_used_{name}:ratio", f"{taken}\n/\n({promised} > 0)")


def of_probes(site: Site) -> Iterator[Record]:
    of_node, of_type = site.node("volume_type"), site.in_region("volume_type")
    for name in ("targets", "targets_broken_again"):
        labels = site.in_region("volume_type", *(["verdict"] if name == "targets" else []))
        written = site("plimsoll_probe_written_timestamp_seconds")
        yield Record(
            f"volume_type:plimsoll_probe_{name}:sum",
            f"sum by {labels} (\n  {site(f'plimsoll_probe_{name}')}\n"
            f"  and on {site.node()} time() - {written} < {site.seconds_of('probes_off')}\n)",
            "By the newest probe of each guest; a node that no longer probes does not count."
            if name == "targets"
            else "",
        )
    targets = "volume_type:plimsoll_probe_targets"
    broken = f'sum by {of_type} ({targets}:sum{{verdict=~"short|slow"}})'
    yield Record(
        f"{targets}_broken:sum", broken, "Guests that get less than promised, and their share of those with a result."
    )
    yield Record(
        f"{targets}_broken:ratio",
        f"{targets}_broken:sum\n/\n(sum by {of_type} ({targets}:sum{{{_CONCLUSIVE}}}) > 0)",
    )
    buckets = site(f"{_LATENCY}_bucket", over="1h")
    yield Record(f"instance_volume_type:{_BUCKET}", f"sum by {site.node('volume_type', 'le')} (increase({buckets}))")
    yield Record(
        f"volume_type:{_BUCKET}", f"sum by {site.in_region('volume_type', 'le')} (instance_volume_type:{_BUCKET})"
    )
    why = (
        "The hours of a day are summed. Each request counts 20 times, once an evaluation, which does not change a"
        " percentile. increase() over a day of every bucket gives the same and reads 24 times as much. `>= 0` drops"
        " NaN, where the day had no request. A request in fio's last bucket counts as 17.05 s, its lower edge."
    )
    for level, quantile, name in (
        ("instance_volume_type", 0.99, "p99"),
        ("volume_type", 0.5, "p50"),
        ("volume_type", 0.99, "p99"),
        ("volume_type", 0.999, "p999"),
    ):
        yield Record(
            f"{level}:{_LATENCY}:{name}_1d",
            f"histogram_quantile({quantile}, sum_over_time({level}:{_BUCKET}[1d])) >= 0",
            why,
        )
        why = ""
    yield Record(
        f"region:{_LATENCY}:p99_1d",
        f"histogram_quantile(0.99,\n  sum by {site.in_region('le')} (sum_over_time(volume_type:{_BUCKET}[1d]))\n) >="
        " 0",
    )
    counted = site(f"{_LATENCY}_count", over="1d")
    yield Record(
        "instance_volume_type:plimsoll_probe_requests:increase_1d", f"sum by {of_node} (increase({counted}))"
    )
    runs = site("plimsoll_probe_runs_total", over="1d")
    yield Record(_RUNS, f"sum by {site.node('volume_type', 'verdict')} (increase({runs}))")
    why = "The share of good runs among conclusive ones. `or 0 *`: where none was good there may be no series to add."
    for level, labels in (("instance_volume_type", of_node), ("volume_type", of_type), ("region", site.in_region())):
        yield Record(
            f"{level}:plimsoll_promise_kept:ratio_1d",
            f"""\
(
  sum by {labels} ({_RUNS}{{verdict=~"kept|no-limit"}})
  or
  0 * sum by {labels} ({_RUNS})
)
/
(sum by {labels} ({_RUNS}{{{_CONCLUSIVE}}}) > 0)""",
            why,
        )
        why = ""


def of_burn(site: Site) -> Iterator[Record]:
    labels = site.in_region("volume_type", "objective")
    prefix = "volume_type:plimsoll_probe_objective"
    budget = site("plimsoll_probe_objective_budget_ratio")
    yield Record(f"{prefix}_budget:ratio", f"max by {labels} ({budget}) > 0")
    for name in ("missed", "requests"):
        counter = site(f"plimsoll_probe_objective_{name}_total", over="1h")
        yield Record(f"{prefix}_{name}:increase_1h", f"sum by {labels} (increase({counter}))")
    missed, requests = f"{prefix}_missed:increase_1h", f"{prefix}_requests:increase_1h"
    yield Record(f"{prefix}_burn:ratio_1h", f"{missed}\n/\n({requests} * {prefix}_budget:ratio >= 10)")
    why = "The sum of the hours, as above: each request counts 20 times, so 10 are 200."
    for window in ("6h", "3d"):
        yield Record(
            f"{prefix}_burn:ratio_{window}",
            f"sum_over_time({missed}[{window}])\n/\n(sum_over_time({requests}[{window}]) * {prefix}_budget:ratio >="
            " 200)",
            why,
        )
        why = ""
