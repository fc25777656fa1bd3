"""One disk: its actual and desired limits, how much of them it used, its guest's probes.

Needs detail = disk. Chosen by the guest's name, its uuid and the device, or by the volume. libvirt exporters have the
labels ``domain`` and ``target_device`` too, so that their series can be joined to these.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard

from plimsoll_agent.alerts.site import Site
from plimsoll_agent.dashboards import links, shared, steps
from plimsoll_agent.dashboards.board import Head, Row, board
from plimsoll_agent.dashboards.panels import (
    HALF,
    HEAT,
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
from plimsoll_agent.dashboards.promql import of_disk, of_guest, of_region, verdict_number
from plimsoll_agent.dashboards.variables import datasource, one_disk, region

STATES = ("in-sync", "changed", "planned", "deferred", "left-alone", "unknown", "failed")


class Disk:
    """The panels of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.its = of_disk(site)
        self.guest = of_guest(site)

    def newest(self, metric: str, by: str, *matchers: str) -> str:
        """A single series, even while two nodes report the disk of a migrating guest."""
        return f"max by ({by}) ({self.its(f'plimsoll_disk_{metric}', *matchers)})"

    def every_unit(self, metric: str) -> str:
        units = ("operations_per_second", "bytes_per_second", "seconds", "bytes")
        return " or ".join(self.newest(f"{metric}_{unit}", "parameter") for unit in units)

    # --- rows

    def which(self) -> Row:
        its, site = self.its, self.site
        by = its.node("domain", "target_device", "uuid", "volume", "volume_type", "pool")
        reverted = its("plimsoll_disk_external_changes_reverted_total", over="1d")
        return Row(
            "Disk",
            [
                listing(
                    "The disk",
                    "The disk and its node, by the newest pass; two rows while its guest migrates.",
                    ["server", "project_name", "domain", "target_device", "volume", "volume_type", "pool",
                     *site.region, site.instance, "uuid"],
                    [
                        Column("Seen", self.guest.named(f"max by {by} ({its('plimsoll_disk_info')})"),
                               words={"1": ("by its last pass", steps.PLAIN)}),
                    ],
                    worst="Node",
                    size=Size(18, 4),
                    links=links.of_node(site),
                ),
                figure(
                    "Unlimited",
                    "Whether it has no limit.",
                    self.newest("unlimited", "uuid"),
                    steps=steps.measure(site, "unlimited"),
                    words={"0": "no", "1": "yes"},
                    size=SMALL,
                ),
                figure(
                    "External changes reverted, last day",
                    "How often plimsoll reverted an external change of its limits.",
                    f"sum(increase({reverted}))",
                ).decimals(0),
            ],
        )  # fmt: skip

    def actual_and_desired(self, title: str, what: str, unit: Unit) -> timeseries.Panel:
        about = "Actual limits in QEMU; dashed: desired. Only parameters that are set."
        queries = [
            Query(self.newest(f"limit_actual_{what}_per_second", "parameter"), "{{parameter}}"),
            Query(self.newest(f"limit_desired_{what}_per_second", "parameter"), "desired {{parameter}}"),
        ]
        return dashed(graph(title, about, queries, unit, size=THIRD), "desired .*")

    def limits(self) -> Row:
        reverted = self.its("plimsoll_disk_external_changes_reverted_total", over="1h")
        state = "\nor\n".join(
            f"""{number} * {self.newest("state", "target_device", f'state="{state}"')}"""
            for number, state in enumerate(STATES)
        )
        held = f"max({self.its('plimsoll_disk_hold_end_timestamp_seconds')})"
        return Row(
            "Limits",
            [
                self.actual_and_desired("Limits on operations, actual and desired", "operations", Unit.OPERATIONS),
                self.actual_and_desired("Limits on bytes, actual and desired", "bytes", Unit.BYTES),
                listing(
                    "Every parameter",
                    "By libvirt's names. Burst lengths are in seconds, size_iops_sec in bytes, others per second.",
                    ["parameter"],
                    [
                        Column("Actual", self.every_unit("limit_actual"), Unit.AS_IT_IS),
                        Column("Desired", self.every_unit("limit_desired"), Unit.AS_IT_IS),
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
                    f"{held} - time()",
                    Unit.SECONDS,
                    size=Size(4, 8),
                    without="no hold",
                ),
                graph(
                    "External changes reverted in 1 h",
                    "How often plimsoll reverted an external change of its limits, in the hour before each point.",
                    [Query(f"sum(increase({reverted}))", "reverted")],
                    size=Size(8, 8),
                ),
            ],
        )

    def done_and_allowed(self, done: str, unit: Unit) -> timeseries.Panel:
        queries = [
            Query(self.newest(f"average_{done}_per_second", "direction"), "{{direction}}"),
            Query(self.newest(f"average_allowed_{done}_per_second", "parameter"), "allowed by {{parameter}}"),
        ]
        title = f"{done.capitalize()} and what limits allow {shared.BETWEEN_PASSES}"
        about = f"Dashed: what each limit allows, burst included. {shared.EVENLY}"
        return dashed(graph(title, about, queries, unit, size=THIRD), "allowed .*")

    def use(self) -> Row:
        return Row(
            "Use",
            [
                self.done_and_allowed("operations", Unit.OPERATIONS),
                self.done_and_allowed("bytes", Unit.BYTES),
                graph(
                    f"Share of each limit used {shared.BETWEEN_PASSES}",
                    "Without its burst: above 100 % the disk uses its burst, from 95 % it is at its limit. "
                    f"{shared.EVENLY}",
                    [Query(self.newest("average_limit_ratio", "parameter"), "{{parameter}}")],
                    Unit.SHARE,
                    ((None, steps.PLAIN), (0.95, steps.INFO)),
                    THIRD,
                ),
            ],
        )

    def percentiles(self) -> timeseries.Panel:
        buckets = self.guest("plimsoll_probe_latency_seconds_bucket", over="1d")
        summed = f"sum by (le) (increase({buckets}))"
        queries = [
            Query(f"histogram_quantile({quantile}, {summed}) >= 0", name)
            for name, quantile in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
        ]
        # The probed volume's type has the objective.
        types = f"max by {self.guest.region('volume_type')} ({self.guest('plimsoll_probe_info')})"
        bound = f"max by {self.guest.region('volume_type', 'objective')}"
        seconds = of_region(self.site)("plimsoll_probe_objective_seconds")
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

    def probes(self) -> Row:
        its = self.guest

        def by_probe(fold: str, what: str) -> str:
            return f"{fold} by (probe, directory) ({its(f'plimsoll_probe_{what}')})"

        legend = "{{probe}} {{directory}}"
        ages = [
            Query(f"time() - {by_probe('max', 'last_timestamp_seconds')}", legend),
            Query(f"max by (directory) ({its('plimsoll_probe_interval_seconds')})", "interval, {{directory}}"),
        ]
        about_ages = "Time since each of its probes ended; dashed: the interval in the rules."
        return Row(
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
                    [Query(by_probe("max", "operations_per_second"), legend)],
                    Unit.OPERATIONS,
                    size=THIRD,
                ),
                graph(
                    "Share of limits reached by newest probe",
                    "100 %: all that the limits allow. Well below: the cluster gave less than promised.",
                    [Query(by_probe("min", "allowed_ratio"), legend)],
                    Unit.SHARE,
                    size=THIRD,
                ),
                self.percentiles(),
                dashed(graph("Age of newest run", about_ages, ages, Unit.SECONDS, size=HALF), "interval.*"),
                heat("Latency of probe requests", HEAT, its),
            ],
        )


def make(site: Site) -> Dashboard:
    made = Disk(site)
    every = of_region(site)
    here = f"max by {site.node()} ({made.its('plimsoll_disk_info')})"
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
    return board(head, [row() for row in (made.which, made.limits, made.use, made.probes)])
