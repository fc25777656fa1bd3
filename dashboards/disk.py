"""One disk: what is in force and wanted, what it did and what its limits would have allowed, its guest's probes.

Needs detail = disk. Chosen by the guest's name, its uuid and the device, or by the volume. ``domain`` and
``target_device`` are the labels of the libvirt exporters too, so that their series can be set beside these.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import links, shared, steps
from dashboards.board import Head, Row, board
from dashboards.panels import (
    HALF,
    SMALL,
    THIRD,
    Column,
    Query,
    Size,
    Unit,
    dashed,
    figure,
    graph,
    heat,
    listing,
    states,
)
from dashboards.variables import DISK, GUEST, datasource, one_disk, region

SO_IT_WAS = {"1": (" ", "blue")}


def newest(metric: str, by: str, *matchers: str) -> str:
    """While a guest moves, two nodes speak of its disk: one series all the same."""
    return f"max by ({by}) (plimsoll_disk_{metric}{{{','.join([DISK, *matchers])}}})"


def rates(what: str, burst: bool = False) -> str:
    """The matcher for libvirt's limits on ``iops`` or ``bytes``, without those on how long a burst may last."""
    return f'parameter=~"(total|read|write)_{what}_sec{"(_max)?" if burst else ""}"'


def which() -> Row:
    return Row(
        "Which disk",
        [
            listing(
                "The disk",
                "What it is and on which node, as the newest pass saw it; two rows while its guest moves.",
                [Column("Seen", f"plimsoll_disk_info{{{DISK}}}")],
                worst="instance",
                size=Size(18, 4),
                links={"instance": links.to(links.NODE, instance="${__value.raw:percentencode}")},
                leave_out=["__name__", "job", "Value"],
            ),
            figure(
                "Unlimited",
                "Whether it has no limit in force although one is wanted.",
                newest("unlimited", "uuid"),
                steps=steps.shipped("unlimited"),
                words={"0": "no", "1": "yes"},
                size=SMALL,
            ),
            figure(
                "Drift put back, last day",
                "How often somebody else had changed its limits and plimsoll put them back.",
                f"sum(increase(plimsoll_disk_drift_corrected_total{{{DISK}}}[1d]))",
                steps=steps.NONE_EXPECTED,
            ).decimals(0),
        ],
    )


def in_force_and_wanted(title: str, what: str, unit: Unit) -> timeseries.Panel:
    about = "What QEMU says is in force, and dashed what is wanted. Only parameters that are set."
    queries = [
        Query(newest("limit_in_force", "parameter", rates(what, burst=True)), "{{parameter}}"),
        Query(newest("limit_wanted", "parameter", rates(what, burst=True)), "wanted {{parameter}}"),
    ]
    return dashed(graph(title, about, queries, unit, size=THIRD), "wanted .*")


def limits() -> Row:
    put_back = f"sum(increase(plimsoll_disk_drift_corrected_total{{{DISK}}}[1h]))"
    return Row(
        "Limits",
        [
            in_force_and_wanted("Limits on operations, in force and wanted", "iops", Unit.OPERATIONS),
            in_force_and_wanted("Limits on bytes, in force and wanted", "bytes", Unit.BYTES),
            listing(
                "Every parameter",
                "By libvirt's names. Lengths of bursts are in seconds, size_iops_sec in bytes, others per second.",
                [
                    Column("In force", newest("limit_in_force", "parameter"), Unit.AS_IT_IS),
                    Column("Wanted", newest("limit_wanted", "parameter"), Unit.AS_IT_IS),
                ],
                worst="In force",
                size=THIRD,
            ),
            states(
                "State",
                "What the newest pass at each time came to for this disk.",
                Query(newest("state", "state"), "{{state}}"),
                SO_IT_WAS,
            ),
            graph(
                "Drift put back in an hour",
                "How often somebody else had changed its limits and plimsoll put them back, in the hour before.",
                [Query(put_back, "put back")],
                steps=steps.NONE_EXPECTED,
            ),
        ],
    )


def done_and_allowed(done: str, what: str, unit: Unit) -> timeseries.Panel:
    queries = [
        Query(newest(f"average_{done}_per_second", "direction"), "{{direction}}"),
        Query(newest("average_allowed_per_second", "parameter", rates(what)), "allowed by {{parameter}}"),
    ]
    title = f"{done.capitalize()} done and allowed {shared.BETWEEN_PASSES}"
    about = f"Dashed: what each limit, burst included, would have let pass. {shared.EVENLY}"
    return dashed(graph(title, about, queries, unit, size=THIRD), "allowed .*")


def use() -> Row:
    return Row(
        "What it does",
        [
            done_and_allowed("operations", "iops", Unit.OPERATIONS),
            done_and_allowed("bytes", "bytes", Unit.BYTES),
            graph(
                f"Share of each limit used {shared.BETWEEN_PASSES}",
                "Of the limit without its burst: above 100 % it is on its burst, from 95 % on at the wall. "
                f"{shared.EVENLY}",
                [Query(newest("average_limit_ratio", "parameter"), "{{parameter}}")],
                Unit.SHARE,
                steps.WALL,
                THIRD,
            ),
        ],
    )


def percentiles() -> timeseries.Panel:
    buckets = f"sum by (le) (increase(plimsoll_probe_latency_seconds_bucket{{{GUEST}}}[1d]))"
    queries = [
        Query(f"histogram_quantile({quantile}, {buckets}) >= 0", name)
        for name, quantile in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    ]
    about = "That part of the requests of its probes in the day before each point took no longer than this."
    return graph("Percentiles of requests", about, queries, Unit.SECONDS)


def probes() -> Row:
    def by_probe(fold: str, what: str) -> str:
        return f"{fold} by (probe, directory) (plimsoll_probe_{what}{{{GUEST}}})"

    legend = "{{probe}} {{directory}}"
    every = f"max by (directory) (plimsoll_probe_every_seconds{{{GUEST}}})"
    ages = [
        Query(f"time() - {by_probe('max', 'last_timestamp_seconds')}", legend),
        Query(every, "wanted every, {{directory}}"),
    ]
    about_ages = "Since each of its probes last ended, and dashed how often the rules want them."
    return Row(
        "Probes of its guest",
        [
            states(
                "Newest verdict of each probe",
                "A bar for each probe and the verdict that it had at the time. Empty where the guest is not probed.",
                Query(f"max by (probe, verdict) (plimsoll_probe_verdict{{{GUEST}}})", "{{probe}} {{verdict}}"),
                SO_IT_WAS,
                THIRD,
            ),
            graph(
                "Operations of the newest probe",
                "What fio reached in the guest, over the whole run.",
                [Query(by_probe("max", "iops"), legend)],
                Unit.OPERATIONS,
                size=THIRD,
            ),
            graph(
                "Share of what limits allow, in the newest probe",
                "100 % is all that was allowed; well below it, the cluster gave less than was promised.",
                [Query(by_probe("min", "allowed_ratio"), legend)],
                Unit.SHARE,
                steps.PROMISE,
                THIRD,
            ),
            percentiles(),
            dashed(graph("Age of the newest run", about_ages, ages, Unit.SECONDS, size=HALF), "wanted .*"),
            heat("Requests of its probes, by how long they took", "The darker, the more requests.", GUEST),
        ],
    )


def make() -> Dashboard:
    head = Head(
        links.DISK,
        "Plimsoll / Disk",
        "One disk: its limits, what it does, and how its guest's probes fare. Needs [metrics] detail = disk.",
        "now-24h",
        [datasource(), region(), *one_disk()],
        {"Region": links.to(links.REGION), "Node": links.to(links.NODE)},
    )
    return board(head, [which(), limits(), use(), probes()])
