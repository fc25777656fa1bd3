"""One disk: its actual and desired limits, how much of them it used, its guest's probes.

Needs detail = disk. Chosen by the guest's name, its uuid and the device, or by the volume. libvirt exporters have the
labels ``domain`` and ``target_device`` too, so that their series can be joined to these.
"""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard

from plimsoll_agent.monitor import metrics
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.dashboards import links, shared, steps
from plimsoll_monitoring.dashboards.board import Head, PanelRow, board
from plimsoll_monitoring.dashboards.panels import (
    HALF,
    HEAT,
    SMALL,
    THIRD,
    Query,
    QueryColumn,
    Size,
    Unit,
    dash,
    figure,
    graph,
    heat,
    listing,
    states,
)
from plimsoll_monitoring.dashboards.series import of_disk, of_guest, of_region, verdict_number
from plimsoll_monitoring.dashboards.variables import datasource, one_disk, region
from plimsoll_monitoring.promql import once, quantile

STATES = ("in-sync", "changed", "planned", "deferred", "left-alone", "unknown", "failed")


class DiskPanels:
    """The panels of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.its = of_disk(site)
        self.guest = of_guest(site)

    def newest(self, metric: str, by: str, *matchers: str) -> str:
        """A single series, even while two nodes report the disk of a migrating guest."""
        return f"max by ({by}) ({self.its(metric, *matchers)})"

    def every_unit(self, limit: Mapping[str, str]) -> str:
        return " or ".join(self.newest(metric, "parameter") for metric in limit.values())

    # --- rows

    def which(self) -> PanelRow:
        its, site = self.its, self.site
        by = its.node(*metrics.DISK, "volume", "volume_type", "pool")
        reverts = once(its, metrics.DISK_EXTERNAL_CHANGES_REVERTED_TOTAL, over="1d")
        return PanelRow(
            "Disk",
            [
                listing(
                    "The disk",
                    "The disk and its node, by the newest pass; two rows while its guest migrates.",
                    ["server", "project_name", "domain", "target_device", "volume", "volume_type", "pool",
                     *site.region, site.instance, "uuid"],
                    [
                        QueryColumn("Seen", self.guest.with_names(f"max by {by} ({its(metrics.DISK_INFO)})"),
                                    words={"1": ("by its last pass", steps.PLAIN)}),
                    ],
                    worst="Node",
                    size=Size(18, 4),
                    links=links.of_node(site),
                ),
                figure(
                    "Unlimited",
                    "Whether it has no limit.",
                    self.newest(metrics.DISK_UNLIMITED, "uuid"),
                    steps=steps.measure(site, "unlimited"),
                    words={"0": "no", "1": "yes"},
                    size=SMALL,
                ),
                figure(
                    "External changes reverted, last day",
                    "How often plimsoll reverted an external change of its limits.",
                    f"sum({reverts})",
                ).decimals(0),
            ],
        )  # fmt: skip

    def actual_and_desired(self, title: str, what: str, unit: Unit) -> timeseries.Panel:
        about = "Actual limits in QEMU; dashed: desired. Only parameters that are set."
        actual, desired = (of[f"{what}_per_second"] for of in (metrics.DISK_LIMIT_ACTUAL, metrics.DISK_LIMIT_DESIRED))
        queries = [
            Query(self.newest(actual, "parameter"), "{{parameter}}"),
            Query(self.newest(desired, "parameter"), "desired {{parameter}}"),
        ]
        return dash(graph(title, about, queries, unit, size=THIRD), "desired .*")

    def limits(self) -> PanelRow:
        reverts = once(self.its, metrics.DISK_EXTERNAL_CHANGES_REVERTED_TOTAL, over="1h")
        state = "\nor\n".join(
            f"""{number} * {self.newest(metrics.DISK_STATE, "target_device", f'state="{state}"')}"""
            for number, state in enumerate(STATES)
        )
        hold_end = f"max({self.its(metrics.DISK_HOLD_END_TIMESTAMP_SECONDS)})"
        return PanelRow(
            "Limits",
            [
                self.actual_and_desired("Limits on operations, actual and desired", "operations", Unit.OPERATIONS),
                self.actual_and_desired("Limits on bytes, actual and desired", "bytes", Unit.BYTES),
                listing(
                    "Every parameter",
                    "By libvirt's names. Burst lengths are in seconds, size_iops_sec in bytes, others per second.",
                    ["parameter"],
                    [
                        QueryColumn("Actual", self.every_unit(metrics.DISK_LIMIT_ACTUAL), Unit.AS_IT_IS),
                        QueryColumn("Desired", self.every_unit(metrics.DISK_LIMIT_DESIRED), Unit.AS_IT_IS),
                    ],
                    worst="Actual",
                    size=THIRD,
                ),
                states(
                    "State",
                    "The outcome of each pass for this disk.",
                    Query(state, "{{target_device}}"),
                    {str(number): (state, steps.OF_STATE[state]) for number, state in enumerate(STATES)},
                ),
                figure(
                    "Hold ends in",
                    "The end of an operator's hold on the disk (plimsoll disk hold).",
                    f"{hold_end} - time()",
                    Unit.SECONDS,
                    size=Size(4, 8),
                    without="none, or no data",
                ),
                graph(
                    "External changes reverted in 1 h",
                    "How often plimsoll reverted an external change of its limits, in the hour before each point.",
                    [Query(f"sum({reverts})", "reverted")],
                    size=Size(8, 8),
                ),
            ],
        )

    def use_and_allowance(self, what: str, unit: Unit) -> timeseries.Panel:
        queries = [
            Query(self.newest(metrics.DISK_AVERAGE[what], "direction"), "{{direction}}"),
            Query(self.newest(metrics.DISK_AVERAGE_ALLOWED[what], "parameter"), "allowed by {{parameter}}"),
        ]
        title = f"{what.capitalize()} and what limits allow {shared.BETWEEN_PASSES}"
        about = f"Dashed: what each limit allows, burst included. {shared.EVENLY}"
        return dash(graph(title, about, queries, unit, size=THIRD), "allowed .*")

    def use(self) -> PanelRow:
        return PanelRow(
            "Use",
            [
                self.use_and_allowance("operations", Unit.OPERATIONS),
                self.use_and_allowance("bytes", Unit.BYTES),
                graph(
                    f"Share of each limit used {shared.BETWEEN_PASSES}",
                    "Without its burst: above 100 % the disk uses its burst, from 95 % it is at its limit. "
                    f"{shared.EVENLY}",
                    [Query(self.newest(metrics.DISK_AVERAGE_LIMIT_RATIO, "parameter"), "{{parameter}}")],
                    Unit.SHARE,
                    ((None, steps.PLAIN), (0.95, steps.INFO)),
                    THIRD,
                ),
                graph(
                    "Saved of each burst",
                    "The share of a burst, or of credits, that is left. At 0 the disk has its limit alone. Empty for"
                    " a disk without a burst.",
                    [Query(self.newest(metrics.DISK_BURST_SAVED_RATIO, "parameter"), "{{parameter}}")],
                    Unit.SHARE,
                    size=Size(24, 6),
                ).max(1),
            ],
        )

    def percentiles(self) -> timeseries.Panel:
        buckets = self.guest(metrics.PROBE_LATENCY_SECONDS_BUCKET, over="1d")
        queries = [
            Query(quantile(share, "(le)", f"increase({buckets})") + " >= 0", name)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
        ]
        # The probed volume's type has the objective.
        types = f"max by {self.guest.region('volume_type')} ({self.guest(metrics.PROBE_INFO)})"
        bound = f"max by {self.guest.region('volume_type', 'objective')}"
        seconds = of_region(self.site)(metrics.PROBE_OBJECTIVE_SECONDS)
        queries.append(
            Query(
                f"min by (objective) ({bound} ({seconds}) and on {self.guest.region('volume_type')} {types})",
                "objective p{{objective}}",
            )
        )
        about = (
            "This share of its probe requests in the day before each point took no longer. Dashed: the objectives of"
            " its volume type."
        )
        return shared.latencies("Latency percentiles", about, queries, HALF)

    def probes(self) -> PanelRow:
        its = self.guest

        def by_probe(fold: str, metric: str) -> str:
            return f"{fold} by (probe, directory) ({its(metric)})"

        legend = "{{probe}} {{directory}}"
        ages = [
            Query(f"time() - {by_probe('max', metrics.PROBE_LAST_TIMESTAMP_SECONDS)}", legend),
            Query(f"max by (directory) ({its(metrics.PROBE_INTERVAL_SECONDS)})", "interval, {{directory}}"),
        ]
        about_ages = "Time since each of its probes ended; dashed: the interval in the rules."
        return PanelRow(
            "Probes of the guest",
            [
                shared.verdicts(
                    "Verdicts of probes",
                    "A row for each job: the verdict of its newest run. Empty if the guest is not probed.",
                    verdict_number(its, "probe", "directory"),
                    legend,
                    THIRD,
                ),
                graph(
                    "IOPS of newest probe",
                    "Measured by fio in the guest, over the whole run.",
                    [Query(by_probe("max", metrics.PROBE_RATE["operations"]), legend)],
                    Unit.OPERATIONS,
                    size=THIRD,
                ),
                graph(
                    "Share of limits reached by newest probe",
                    "100 %: all that the limits allow. Well below: the cluster gave less than promised.",
                    [Query(by_probe("min", metrics.PROBE_ALLOWED_RATIO), legend)],
                    Unit.SHARE,
                    size=THIRD,
                ),
                self.percentiles(),
                dash(graph("Age of newest run", about_ages, ages, Unit.SECONDS, size=HALF), "interval.*"),
                heat("Latency of probe requests", HEAT, its),
            ],
        )


def make(site: Site) -> Dashboard:
    view = DiskPanels(site)
    every = of_region(site)
    here = f"max by {site.node()} ({view.its(metrics.DISK_INFO)})"
    no_guest = every.and_('uuid=""')
    alerts = [  # of its guest, of the region, of its node
        shared.alerts(every.and_('uuid="$uuid"')),
        shared.alerts(no_guest.and_(f'{site.instance}=""')),
        f"{shared.alerts(no_guest)} and on {site.node()} {here}",
    ]
    head = Head(
        links.DISK,
        "Plimsoll / Disk",
        "One disk: its limits, its use of them, and its guest's probes. Needs [metrics] detail = disk.",
        "now-24h",
        [datasource(), region(site), *one_disk(site)],
        {"Region": links.to(links.REGION), "Node": links.to(links.NODE)},
        alerts="\nor ".join(alerts),
    )
    rows = (view.which, view.limits, view.use, view.probes)
    return board(
        head, [row() for row in rows], [], {"External changes reverted, last day": "External changes reverted in 1 h"}
    )
