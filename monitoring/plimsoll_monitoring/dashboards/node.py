"""One node: what fires, its disks and probes, what the disks use of their limits, its passes and their sources.

Works with detail = aggregate, except for the panels that say so.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard

from plimsoll_agent.monitor import metrics
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.dashboards import links, shared, steps
from plimsoll_monitoring.dashboards.board import Head, PanelRow, board
from plimsoll_monitoring.dashboards.panels import (
    BESIDE_IT,
    HALF,
    HEAT,
    THIRD,
    TWO_THIRDS,
    Query,
    QueryColumn,
    Size,
    Unit,
    colour_by,
    dash,
    figure,
    graph,
    heat,
    listing,
    name,
    states,
)
from plimsoll_monitoring.dashboards.series import name_type, of_node, of_region, verdict_number
from plimsoll_monitoring.dashboards.variables import datasource, instance, region, volume_type
from plimsoll_monitoring.promql import once

DETAILS = {
    "Age of last pass": "Age of last pass over time",
    "Age of last good pass": "Passes in 1 h, by result",
    "Disks braked": "Disks by state",
    "Disks unlimited": "Disks unlimited, one by one",
    "Age of catalogue": "Age of catalogue over time",
}
MODES = {"0": "observing", "1": "enforcing", "2": "paused", "3": "paused"}


class NodePanels:
    """The panels of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.its = of_node(site)
        self.typed = self.its.of_type

    def largest(self, metric: str, *matchers: str) -> str:
        """Of each region: with all of them chosen, nodes of two may have this name."""
        return f"max by {self.its.region()} ({self.its(metric, *matchers)})"

    def ago(self, metric: str) -> str:
        return f"time() - {self.largest(metric)}"

    # --- rows

    def overview(self) -> PanelRow:
        site, info = self.site, once(self.its, metrics.BUILD_INFO)
        catalogue = figure(
            "Age of catalogue",
            "Time since the data came from Cinder and Nova.",
            self.ago(metrics.CATALOGUE_ISSUED_TIMESTAMP_SECONDS),
            Unit.SECONDS,
            steps.measure(site, "catalogue_age"),
            without="none, or no data",
        )
        return PanelRow(
            "Overview",
            [
                figure(
                    "Age of last pass",
                    "Time since the last pass ended, good or not.",
                    self.ago(metrics.PASS_LAST_TIMESTAMP_SECONDS),
                    Unit.SECONDS,
                    steps.measure(site, "pass_age"),
                ),
                figure(
                    "Age of last good pass",
                    "Time since the last pass that left nothing undone.",
                    self.ago(metrics.PASS_LAST_GOOD_TIMESTAMP_SECONDS),
                    Unit.SECONDS,
                    steps.measure(site, "good_pass_age"),
                ),
                figure(
                    "Mode",
                    "observing: passes only plan. enforcing: passes write limits. paused: a pause file stops all"
                    " writes.",
                    f"{self.largest(metrics.PASS_ENFORCING)} + 2 * {self.largest(metrics.PASS_PAUSED)}",
                    steps=((None, steps.INFO), (1, steps.GOOD), (2, steps.WARNING)),
                    words=MODES,
                ),
                figure(
                    "Disks braked",
                    "Disks whose change is deferred until plimsoll approve, because too many would change at once.",
                    self.largest(metrics.PASS_BRAKED_DISKS),
                    steps=steps.measure(site, "braked"),
                ),
                shared.unlimited_disks(self.typed),
                figure(
                    "Guests unreachable",
                    "Guests whose QEMU did not answer in time: the actual limits of their disks are unknown.",
                    self.largest(metrics.GUESTS, 'state="unreachable"'),
                    steps=steps.measure(site, "unreachable_guests"),
                ),
                catalogue,
                name("Version", "Version of plimsoll on this node.", Query(info, "{{version}}")),
            ],
        )

    def firing(self) -> PanelRow:
        rules = once(self.its, metrics.RULES_INFO)
        return PanelRow(
            "What is wrong",
            [
                shared.firing("Alerts that fire on this node", self.its, Size(16, 5)),
                name(
                    "Revision of the rules",
                    "The rules that the last pass used.",
                    Query(rules, "{{revision}}"),
                    Size(5, 5),
                ),
                figure(
                    "Holds",
                    "Exceptions made by operators; plimsoll disk hold list prints them.",
                    self.largest(metrics.HOLDS),
                    size=Size(3, 5),
                ),
            ],
        )

    def passes(self) -> PanelRow:
        refreshes = once(self.its, metrics.CATALOGUE_REFRESHES_TOTAL, over="1h")
        calls = once(self.its, metrics.CATALOGUE_CALLS_TOTAL, over="1h")
        phases = self.its(metrics.PASS_DURATION_SECONDS)
        return PanelRow(
            "Passes",
            [
                graph(
                    "Duration of a pass, by phase",
                    "The newest pass at each point. observe asks libvirt, apply writes to QEMU.",
                    [Query(f"max by (phase) ({phases})", "{{phase}}")],
                    Unit.SECONDS,
                    steps.measure(self.site, "pass_seconds"),
                    THIRD,
                    stacked=True,
                ),
                graph(
                    "Age of last pass over time",
                    "Drops at each pass; a line that keeps rising means that passes have stopped.",
                    [
                        Query(self.ago(metrics.PASS_LAST_TIMESTAMP_SECONDS), "any pass"),
                        Query(self.ago(metrics.PASS_LAST_GOOD_TIMESTAMP_SECONDS), "good pass"),
                    ],
                    Unit.SECONDS,
                    steps.measure(self.site, "pass_age"),
                    THIRD,
                ),
                self.results(),
                states(
                    "Sources",
                    "What a pass reads. While a source is down, its last known data is used.",
                    Query(f"min by (source) ({self.its(metrics.SOURCE_UP)})", "{{source}}"),
                    {"0": ("down", steps.WARNING), "1": ("up", steps.GOOD)},
                    THIRD,
                ),
                self.catalogue(),
                graph(
                    "Catalogue refreshes in 1 h",
                    "By result, with their API calls. Only on a node that refreshes the catalogue.",
                    [
                        Query(f"sum by (result) ({refreshes})", "{{result}}"),
                        Query(f"sum by (service) ({calls})", "calls to {{service}}"),
                    ],
                    size=THIRD,
                ),
            ],
        )

    def results(self) -> timeseries.Panel:
        passes, busy = (
            once(self.its, counter, over="1h") for counter in (metrics.PASSES_TOTAL, metrics.PASS_LOCK_BUSY_TOTAL)
        )
        queries = [
            Query(f"sum by (result) ({passes})", "{{result}}"),
            Query(f"sum({busy})", "lock busy"),
        ]
        about = (
            "good: nothing was left undone. partial: a disk was, or a source was down. failed: no pass. lock busy: "
            "another pass was running."
        )
        alike = {"good": "in-sync", "partial": "deferred", "failed": "failed", "lock busy": "unknown"}
        panel = graph("Passes in 1 h, by result", about, queries, size=THIRD, stacked=True)
        return colour_by(panel, {result: steps.OF_STATE[state] for result, state in alike.items()})

    def catalogue(self) -> timeseries.Panel:
        queries = [
            Query(self.ago(metrics.CATALOGUE_ISSUED_TIMESTAMP_SECONDS), "age"),
            Query(self.largest(metrics.CATALOGUE_STALE_AFTER_SECONDS), "stale from here"),
        ]
        about = "Time since the data came from Cinder, and the age from which it is stale. Empty without a catalogue."
        panel = graph("Age of catalogue over time", about, queries, Unit.SECONDS, size=THIRD)
        return dash(panel, "stale from here")

    def use(self) -> PanelRow:
        its = self.its
        share = its.disks_of_type(f"max by {its.disk} ({its(metrics.DISK_AVERAGE_LIMIT_RATIO)})")
        operations, size = (
            its.disks_of_type(f"sum by {its.disk} ({once(its, metrics.DISK_AVERAGE[what])})")
            for what in ("operations", "bytes")
        )
        # The ten are chosen once for the whole graph, not anew at each point.
        most = f"max by {its.disk} (max_over_time({its(metrics.DISK_AVERAGE_LIMIT_RATIO, over='$__range')} @ end()))"
        busiest = f"{share}\nand topk(10, {its.disks_of_type(most)})"
        return PanelRow(
            "Use of limits",
            [
                listing(
                    f"Disks by use of their limits {shared.BETWEEN_PASSES}",
                    "By the most used limit. Above 100 % a disk uses its burst; from 95 % it is at its limit. "
                    f"{shared.ONLY_PER_DISK}",
                    ["server", "project_name", "domain", "target_device", "uuid", *self.site.region,
                     self.site.instance],
                    [
                        QueryColumn("Used of limit", its.with_names(share), Unit.SHARE),
                        QueryColumn("Operations", its.with_names(operations), Unit.OPERATIONS),
                        QueryColumn("Bytes", its.with_names(size), Unit.BYTES),
                    ],
                    worst="Used of limit",
                    links=links.of_disk(self.site),
                    size=TWO_THIRDS,
                ),
                shared.at_limit(self.typed, BESIDE_IT),
                graph(
                    f"Ten busiest disks {shared.BETWEEN_PASSES}",
                    "Share of the most used limit, of the ten disks that once used the most in the time shown."
                    f" {shared.ONLY_PER_DISK}",
                    [Query(its.with_names(busiest), "{{server}} {{domain}} {{target_device}}")],
                    Unit.SHARE,
                    size=THIRD,
                ),
                shared.throughput("operations", Unit.OPERATIONS, self.typed, THIRD),
                shared.throughput("bytes", Unit.BYTES, self.typed, THIRD),
            ],
        )  # fmt: skip

    def disks(self) -> PanelRow:
        return PanelRow(
            "Disks",
            [
                shared.list_unlimited(self.its, Size(24, 7)),
                shared.disks_by_state(f"sum by (state) ({once(self.typed, metrics.DISKS)})"),
                shared.reverts(self.typed),
            ],
        )

    def slowness(self) -> timeseries.Panel:
        here = self.typed(metrics.NODE_P99)
        median = shared.median_node(of_region(self.site).of_type)
        queries = [
            Query(name_type(here), "here, {{volume_type}}"),
            Query(name_type(f"{median}\nand on {self.its.region('volume_type')} {here}"), "median, {{volume_type}}"),
            shared.objective(self.typed, "0.99", "volume_type", legend="objective, {{volume_type}}"),
        ]
        about = (
            "Over the day before each point, here and on the median node of the region with the same volume type;"
            " dashed: the objective. A node far above the median has a local cause: network, CPUs, rack."
        )
        return shared.latencies("p99 latency, this node and the median node", about, queries)

    def probes(self) -> PanelRow:
        its = self.its
        verdict = verdict_number(its, *self.site.region, self.site.instance, *metrics.PROBE)
        share = name_type(self.typed(metrics.NODE_KEPT))
        return PanelRow(
            "Probes on this node",
            [
                shared.verdicts(
                    "Verdicts of probes",
                    f"A row for each job of each probed guest: the verdict of its newest run. {shared.ONLY_PER_DISK}",
                    its.with_names(its.targets_of_type(verdict)),
                    "{{server}} {{domain}} {{directory}} {{probe}}",
                    HALF,
                ),
                shared.runs_by_verdict(self.typed),
                self.slowness(),
                graph(
                    "Promise kept, by volume type",
                    f"{shared.GIVEN} Over the day before each point.",
                    [Query(share, "{{volume_type}}")],
                    Unit.SHARE,
                    steps.promise(self.site),
                    THIRD,
                ).max(1),
                graph(
                    "Age of probe metrics",
                    "Time since probe run last wrote its metrics, whether or not a probe was due.",
                    [Query(self.ago(metrics.PROBE_WRITTEN_TIMESTAMP_SECONDS), "written")],
                    Unit.SECONDS,
                    size=THIRD,
                ),
                heat("Latency of probe requests", HEAT, self.typed),
            ],
        )


def make(site: Site) -> Dashboard:
    view = NodePanels(site)
    head = Head(
        links.NODE,
        "Plimsoll / Node",
        "One node: are its disks limited as desired, and do its guests get what they were promised?",
        "now-24h",
        [datasource(), region(site), instance(site), volume_type(view.its)],
        {"Region": links.to(links.REGION), "Disk": links.to(links.DISK)},
        # Those on a region have no node.
        # No regular expression: an address of IPv6 is none, and Grafana escapes only what several may be chosen of.
        alerts=" or ".join(
            shared.alerts(of_region(site).and_(f'{site.instance}="{node}"')) for node in ("", "$instance")
        ),
    )
    rows = (view.overview, view.firing, view.disks, view.probes, view.use)
    return board(head, [row() for row in rows], [view.passes()], DETAILS)
