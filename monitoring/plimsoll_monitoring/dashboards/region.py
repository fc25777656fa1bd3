"""A region: what fires, promises kept, latency, the worst guests, nodes that differ.

It uses series per node and volume type, so it works with detail = aggregate too. The descriptions of panels that need
series per disk or guest mention that.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.metrics import Metric
from plimsoll_monitoring.alerts.cephfs import FORWARDED
from plimsoll_monitoring.alerts.congestion import recent
from plimsoll_monitoring.alerts.probes import overdue_for
from plimsoll_monitoring.alerts.region import STALLED_WITHIN
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
)
from plimsoll_monitoring.dashboards.series import SiteNames, name_type, of_region
from plimsoll_monitoring.dashboards.variables import datasource, region, volume_type
from plimsoll_monitoring.promql import CLOCKS_DIFFER, CONCLUSIVE, any_verdict, equal, once, quantile
from plimsoll_probes.model.finding import BROKEN, GOOD

WIDE = Size(12, 9)
_RATE = "$__rate_interval"
DETAILS = {
    "Alerts, critical": "Alerts that fire",
    "Alerts, warning": "Alerts that fire",
    "Promise kept": "Worst guests",
    "Nodes unreachable or behind": "Nodes unreachable or behind, one by one",
    "Disks unlimited": "Disks unlimited, one by one",
    "Probes overdue": "Probes by state",
    "Ceph's health": "Ceph's health over time",
    "PGs that accept I/O": "PGs that accept I/O, over time",
}
OUT_OF_SYNC = 'state=~"planned|deferred|unknown|failed"'


class RegionPanels:
    """The panels of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.its = of_region(site)
        self.typed = self.its.of_type

    # --- nodes

    @property
    def newest(self) -> tuple[str, str]:
        """The last pass and the last good one, a day back: a node without node_exporter stays visible."""
        last, good = (
            f"max by {self.its.node()} (last_over_time({self.its(metric, over='1d')}))"
            for metric in (metrics.PASS_LAST_TIMESTAMP_SECONDS, metrics.PASS_LAST_GOOD_TIMESTAMP_SECONDS)
        )
        return last, good

    @property
    def behind(self) -> str:
        """Nodes whose last pass, or last good pass, is too old, or that never had a good one, or a clock ahead."""
        last, good = self.newest
        late, partial = (steps.first(self.site, name) for name in ("pass_age", "good_pass_age"))
        ahead = f"time() - {last} < -{CLOCKS_DIFFER}"
        return f"(time() - {last} > {late:g} or {ahead} or time() - ({good} or 0 * {last}) > {partial:g})"

    def sum_of(self, metric: Metric, *matchers: str) -> str:
        return f"sum by {self.its.node()} ({once(self.its, metric, *matchers)})"

    # --- rows

    def overview(self) -> PanelRow:
        overdue = overdue_number(self.its)
        return PanelRow(
            "Overview",
            [
                shared.firing_number(self.its, "critical"),
                shared.firing_number(self.its, "warning"),
                figure(
                    "Promise kept",
                    "Probed guests that got what limits and objectives promise, by the newest probe of each: back at"
                    " 100 % with the first good probe after a fix.",
                    f"1 - sum({self.typed(metrics.TARGETS_BROKEN)}) / sum({self.typed(metrics.TARGETS, CONCLUSIVE)})",
                    Unit.SHARE,
                    steps.promise(self.site),
                    without="no probes, or no rules",
                ).decimals(1),
                figure(
                    "Nodes unreachable or behind",
                    "Nodes without a pass, or without a good one, for too long, also if not scraped now. Existing"
                    " limits stay, but new guests get none.",
                    f"count({self.behind}) or 0 * count({self.its(metrics.PASS_LAST_TIMESTAMP_SECONDS)})",
                    steps=steps.WARN_FROM_ONE,
                    without="no node",
                ),
                shared.unlimited_disks(self.typed),
                figure(
                    "Probes overdue",
                    f"Guests whose probe was due twice and did not run. {shared.ONLY_PER_DISK}",
                    overdue,
                    steps=steps.measure(self.site, "probe_late"),
                    without="no probes",
                ),
                *shared.ceph(self.its),
            ],
        )

    def firing(self) -> PanelRow:
        return PanelRow(
            "What is wrong",
            [
                shared.firing("Alerts that fire", self.its, WIDE),
                self.nodes_behind(WIDE),
            ],
        )

    def nodes_behind(self, size: Size) -> table.Panel:
        its, (last, good) = self.its, self.newest
        down = f"sum by {its.node()} (1 - {once(its, metrics.SOURCE_UP)})"
        out_of_sync = f"sum by {its.node()} (max by {its.node('state')} ({its(metrics.DISKS_OF_NODE, OUT_OF_SYNC)}))"
        columns = (
            ("Last pass", f"time() - {last}", Unit.SECONDS, "pass_age"),
            ("Last good pass", f"time() - {good}", Unit.SECONDS, "good_pass_age"),
            ("Sources down", down, Unit.COUNT, "sources_down"),
            ("Unreachable", self.sum_of(metrics.GUESTS, 'state="unreachable"'), Unit.COUNT, "unreachable_guests"),
            ("Out of sync", out_of_sync, Unit.COUNT, "behind"),
        )
        return listing(
            "Nodes unreachable or behind, one by one",
            "Only those: the last pass, or the last good one, is too long ago. A node of the last day that is not"
            " scraped now has only these ages. Out of sync: disks planned, deferred, unknown or failed.",
            [*self.site.region, self.site.instance],
            [
                QueryColumn(
                    heading, f"{expr}\nand on {its.node()} {self.behind}", unit, steps.measure(self.site, name)
                )
                for heading, expr, unit, name in columns
            ],
            worst="Last pass",
            size=size,
            links=links.of_node(self.site),
            without="none, or no data",
        )

    def promise(self) -> PanelRow:
        now = f"1 - {self.typed(metrics.TARGETS_BROKEN_RATIO)}"
        day = self.typed(metrics.TYPE_KEPT)
        legend = f"{self.site.legend} {{{{volume_type}}}}"
        panel = graph(
            "Promise kept, by volume type",
            "Of the probed guests, by the newest probe of each. Dashed: of all conclusive runs in the day before each"
            " point.",
            [Query(name_type(now), legend), Query(name_type(day), f"{legend}, runs of a day")],
            Unit.SHARE,
            steps.promise(self.site),
        ).max(1)
        return PanelRow("Promise", [dash(panel, ".*runs of a day"), shared.runs_by_verdict(self.typed)])

    def percentile(self, name: str, share: str, rule: str, quantile: str) -> timeseries.Panel:
        about = (
            f"{share} probe requests in the day before each point took no longer than this, over all nodes. Dashed:"
            " the strictest objective for this share."
        )
        legend = f"{self.site.legend} {{{{volume_type}}}}"
        labels = (*self.site.region, "volume_type")
        queries = [
            Query(name_type(self.typed(metrics.QUANTILES[rule])), legend),
            shared.objective(self.typed, quantile, *labels, legend=f"{legend}, objective"),
        ]
        return shared.latencies(f"{name} latency, by volume type", about, queries)

    def slowest_nodes(self) -> table.Panel:
        p99, on = self.typed(metrics.NODE_P99), self.its.node("volume_type")
        slowest = (
            f"topk(10, {p99} / on {self.its.region('volume_type')} group_left () {shared.median_node(self.typed)})"
        )
        return listing(
            "Slowest nodes for their volume type",
            "Ten pairs of node and volume type: p99 latency of the last day, divided by that of the region's median"
            " node on the same volume type. A node far above 1 has a local cause: network, CPUs, rack.",
            [*self.site.region, self.site.instance, "volume_type"],
            [
                QueryColumn(
                    "× median",
                    f"max by {on} ({slowest})",
                    Unit.AS_IT_IS,
                    ((None, steps.PLAIN), (3, steps.WARNING)),
                ),
                QueryColumn("p99", f"max by {on} ({p99}) and on {on} {slowest}", Unit.SECONDS),
            ],
            worst="× median",
            size=BESIDE_IT,
            links=links.of_node(self.site),
        )

    def budget(self) -> timeseries.Panel:
        worst = f"max by {self.its.region('volume_type')} ({self.typed(metrics.BURN['6h'])})"
        about = (
            "Over the 6 h before each point, by that objective of the volume type that burns most. At 1 as many"
            " requests are slow as it allows; at 10 the budget of a month lasts three days. Only volume types with an"
            " objective and enough requests."
        )
        query = Query(name_type(worst), f"{self.site.legend} {{{{volume_type}}}}")
        return graph("Latency budget burn rate", about, [query], steps=steps.BURN, size=Size(24, 7), log=True)

    def latency(self) -> PanelRow:
        return PanelRow(
            "Latency",
            [
                self.percentile("p50", "Half of the", "p50", "0.5"),
                self.percentile("p99", "99 of 100", "p99", "0.99"),
                self.percentile("p99.9", "999 of 1000", "p999", "0.999"),
                heat(
                    "Latency of probe requests",
                    f"{HEAT} A second band far above the first means that a part of the cluster "
                    "stalls, which a percentile hides. The top row is everything above 17 s, fio's last bucket.",
                    self.typed,
                    TWO_THIRDS,
                ),
                self.slowest_nodes(),
                self.budget(),
            ],
        )

    def probes(self) -> PanelRow:
        its = self.its
        buckets = self.typed(metrics.PROBE_LATENCY_SECONDS_BUCKET, 'uuid!=""', over="1d")
        p99 = quantile(0.99, its.node("domain", "uuid", "le"), f"increase({buckets})") + " >= 0"

        def by_guest(fold: str, expr: str) -> str:
            return its.with_names(f"{fold} by {its.guest} ({its.targets_of_type(expr)})")

        last = by_guest("max", its(metrics.PROBE_LAST_TIMESTAMP_SECONDS))
        share = by_guest("min", its(metrics.PROBE_ALLOWED_RATIO))
        breaches, runs = once(its, metrics.PROBE_VERDICT, any_verdict(*BROKEN)), once(its, metrics.PROBE_VERDICT)
        broken_promises = by_guest("sum", f"{breaches} or 0 * {runs}")
        return PanelRow(
            "Probed guests",
            [
                listing(
                    "Worst guests",
                    "Probed guests, most broken promises first: how many of the newest read, write and mixed runs "
                    f"ended short, over-limit or slow. {shared.ONLY_PER_DISK}",
                    [*self.site.region, self.site.instance, "server", "project_name", "domain", "uuid"],
                    [
                        QueryColumn("Broken", broken_promises, steps=steps.measure(self.site, "probe_broken")),
                        QueryColumn("Share of limits", share, Unit.SHARE),
                        QueryColumn("p99, last day", its.with_names(p99), Unit.SECONDS),
                        QueryColumn("Age of last run", f"time() - ({last})", Unit.SECONDS),
                    ],
                    worst="Broken",
                    size=TWO_THIRDS,
                    links=links.of_guest(self.site),
                ),
                self.by_state(),
            ],
        )

    def by_state(self) -> timeseries.Panel:
        about = (
            "Probes by the verdict of their newest run. overdue: guests whose probe was due twice and did not run. "
            f"postponed: for the cluster's health or another reason. {shared.ONLY_PER_DISK}"
        )
        its, every = self.its, f"count({self.its.targets_of_type(once(self.its, metrics.PROBE_VERDICT))})"

        def newest(*verdicts: str, matches: str = "=~") -> str:
            probes = its.targets_of_type(once(its, metrics.PROBE_VERDICT, any_verdict(*verdicts, matches=matches)))
            return f"count({probes}) or 0 * {every}"

        late = its.targets_of_type(once(its, metrics.PROBE_POSTPONED_TIMESTAMP_SECONDS))
        queries = [
            Query(newest(*GOOD), "good"),
            Query(newest(*BROKEN), "broken"),
            Query(newest(*GOOD, *BROKEN, matches="!~"), "no verdict"),
            Query(overdue_number(its), "overdue"),
            Query(f"count({late}) or 0 * count({its(metrics.PROBE_INTERVAL_SECONDS)})", "postponed"),
        ]
        colours = (steps.OF_STATE[each] for each in ("in-sync", "failed", "left-alone", "deferred", "planned"))
        panel = graph("Probes by state", about, queries, size=BESIDE_IT)
        return colour_by(panel, {query.legend: colour for query, colour in zip(queries, colours, strict=True)})

    def nodes(self) -> PanelRow:
        cluster = self.site.own("cluster")
        return PanelRow(
            "Nodes",
            [
                self.not_enforcing(),
                self.revisions(),
                graph(
                    "Nodes by version",
                    "Nodes by their version of plimsoll. Two for long: a rollout that was not finished.",
                    [Query(f"count by (version) ({once(self.its, metrics.BUILD_INFO)})", "{{version}}")],
                    size=THIRD,
                    stacked=True,
                ),
                graph(
                    "Nodes by revision of the rules",
                    "Nodes by the revision of the rules that their last pass used.",
                    [Query(f"count by (revision) ({once(self.its, metrics.RULES_INFO)})", "{{revision}}")],
                    size=THIRD,
                    stacked=True,
                ),
                graph(
                    "Nodes whose health gate is shut",
                    "Nodes that defer changes because this Ceph cluster is unhealthy or unreachable.",
                    [Query(f"sum by ({cluster}) ({once(self.its, metrics.HEALTH_GATE_SHUT)})", f"{{{{{cluster}}}}}")],
                    steps=steps.WARN_FROM_ONE,
                    size=THIRD,
                ),
                *self.without_plimsoll(),
            ],
        )

    def not_enforcing(self) -> table.Panel:
        its = self.its
        return listing(
            "Nodes braked, paused or observing",
            "Only those. Braked: disks whose change is deferred until plimsoll approve. Paused: no limit is written."
            " Observing: passes only plan.",
            [*self.site.region, self.site.instance],
            [
                QueryColumn("Disks braked", f"{self.sum_of(metrics.PASS_BRAKED_DISKS)} > 0",
                            steps=steps.measure(self.site, "braked")),
                QueryColumn("Paused", f"{self.sum_of(metrics.PASS_PAUSED)} > 0",
                            words={"1": ("paused", steps.WARNING)}),
                QueryColumn("Mode", f"max by {its.node()} ({its(metrics.PASS_ENFORCING)}) == 0",
                            words={"0": ("observing", steps.INFO)}),
            ],
            worst="Disks braked",
            size=HALF,
            links=links.of_node(self.site),
            without="none, or no data",
        )  # fmt: skip

    def revisions(self) -> table.Panel:
        its = self.its
        issue_time = its(metrics.CATALOGUE_ISSUED_TIMESTAMP_SECONDS)
        return listing(
            "Nodes: catalogue, version, revision",
            "The age of the catalogue from Cinder and Nova (none: no catalogue), plimsoll's version, and the revision"
            " of the rules of the last pass.",
            [*self.site.region, self.site.instance, "version", "revision"],
            [
                QueryColumn("Age of catalogue", f"time() - max by {its.node()} ({issue_time})", Unit.SECONDS,
                            steps.measure(self.site, "catalogue_age")),
                QueryColumn("Pass", f"max by {its.node('version')} ({its(metrics.BUILD_INFO)})",
                            hidden=True),
                QueryColumn("Rules", f"max by {its.node('revision')} ({its(metrics.RULES_INFO)})",
                            hidden=True),
            ],
            worst="Age of catalogue",
            size=HALF,
            links=links.of_node(self.site),
        )  # fmt: skip

    def without_plimsoll(self) -> list[table.Panel]:
        """Where the site says which targets are compute nodes."""
        if not self.site.compute_nodes:
            return []
        others = SiteNames(self.site, self.its.matchers)
        up = f"max by {others.node()} (up{{{', '.join((self.site.compute_nodes, *self.its.matchers))}}}) == 1"
        build_info = self.its(metrics.BUILD_INFO, over="1d")
        return [
            listing(
                "Compute nodes without plimsoll",
                "node_exporter is up there, and has had no metrics of plimsoll for a day.",
                [*self.site.region, self.site.instance],
                [
                    QueryColumn("node_exporter", f"{up} unless on {others.node()} max_over_time({build_info})",
                                words={"1": ("up", steps.PLAIN)}),
                ],
                worst="node_exporter",
                size=Size(24, 5),
                links=links.of_node(self.site),
                without="none, or no data",
            )
        ]  # fmt: skip

    def disks(self) -> PanelRow:
        states = f"max by {self.its.region('volume_type', 'state')} ({self.typed(metrics.DISKS_OF_TYPE)})"
        by_state = f"sum by (state) ({states})"
        busiest = self.its(metrics.BUSIEST_DISKS)
        return PanelRow(
            "Disks",
            [
                shared.list_unlimited(self.its, Size(24, 7)),
                shared.disks_by_state(by_state),
                shared.at_limit(self.typed),
                shared.reverts(self.typed),
                shared.throughput("operations", Unit.OPERATIONS, self.typed, HALF),
                shared.throughput("bytes", Unit.BYTES, self.typed, HALF),
                listing(
                    f"Busiest disks {shared.BETWEEN_PASSES}",
                    f"Ten of each region, of all volume types, by most used limit; above 100 %: burst."
                    f" {shared.ONLY_PER_DISK}",
                    [*self.site.region, self.site.instance, "server", "project_name", "domain", "target_device",
                     "uuid"],
                    [QueryColumn("Used of limit", self.its.with_names(f"max by {self.its.disk} ({busiest})"),
                                 Unit.SHARE)],
                    worst="Used of limit",
                    links=links.of_disk(self.site),
                ),
            ],
        )  # fmt: skip

    def oversubscription(self) -> PanelRow:
        series = self.typed
        most = f"max_over_time({series(metrics.TAKEN['volume_type']['operations'], over='7d')})"
        ratio = self.site.promised_ratio
        limit: steps.Steps = ((None, steps.PLAIN), (ratio, steps.WARNING)) if ratio else steps.NEUTRAL
        pool = series.region(series.own("cluster"), series.own("pool"), "volume_type")
        unlimited_disks = series(metrics.POOL_SUM[metrics.POOL_DISKS_UNLIMITED], 'unit="operations"')
        unlimited_disks = f"max by {pool} ({unlimited_disks})"
        return PanelRow(
            "Promised",
            [
                *(self.promises_and_usage(name, title, unit) for name, title, unit in (
                    ("operations", "IOPS", Unit.OPERATIONS), ("bytes", "Bytes per second", Unit.BYTES))),
                listing(
                    f"IOPS promised, and the most taken in a week {shared.BETWEEN_PASSES}",
                    "Promised: the sum of the limits in force, without bursts and without unlimited disks. Most: the"
                    " highest sum of averages between passes. `plimsoll region promised` has more.",
                    [*self.site.region, "volume_type"],
                    [
                        QueryColumn("Promised", name_type(series(metrics.PROMISED["operations"])), Unit.OPERATIONS),
                        QueryColumn("Most in a week", name_type(most), Unit.OPERATIONS),
                        QueryColumn("× the most",
                                    name_type(f"{series(metrics.PROMISED['operations'])} / ({most} > 0)"),
                                    Unit.AS_IT_IS, limit),
                        QueryColumn("Disks unlimited",
                                    name_type(f"sum by {self.its.region('volume_type')} ({unlimited_disks})")),
                    ],
                    worst="× the most",
                    size=Size(24, 7),
                ),
            ],
        )  # fmt: skip

    def promises_and_usage(self, name: str, title: str, unit: Unit) -> timeseries.Panel:
        legend = f"{self.site.legend} {{{{volume_type}}}}"
        queries = [
            Query(name_type(self.typed(metrics.TAKEN["volume_type"][name])), legend),
            Query(name_type(self.typed(metrics.PROMISED[name])), f"{legend}, promised"),
        ]
        about = (
            "What the disks of each volume type took together, on average between passes. Dashed: the sum of their"
            " limits in force, without bursts and without unlimited disks."
        )
        title = f"{title} taken and promised, by volume type {shared.BETWEEN_PASSES}"
        panel = graph(title, about, queries, unit, log=True)
        return dash(panel, ".*, promised")

    def stalls(self) -> PanelRow:
        """By consoles of guests, where the site has them read."""
        its, last = self.its, self.its(metrics.PROJECT_STALLED_TIMESTAMP_SECONDS)
        lines = once(its, metrics.GUEST_STALL_LINES_TOTAL, over="1d")
        age = f"min by {its.region('project')} (time() - {last}) < {STALLED_WITHIN}"
        read = f"0 * max by {its.region()} ({its(metrics.CONSOLE_READ_TIMESTAMP_SECONDS)})"
        projects = graph(
            "Projects with guests that stalled",
            "Projects of which a guest reported hung tasks, I/O errors or timeouts of disks on its console in the"
            " last 15 min. A tenant may write such lines without a stall, so one project alone says little.",
            [Query(f"count by {its.region()} ({age})\nor {read}", self.site.legend)],
            size=HALF,
        )
        guests = listing(
            "Guests that stalled within a day",
            f"Lines of their kernels about disks that do not answer. {shared.ONLY_PER_DISK}",
            [*self.site.region, self.site.instance, "server", "project_name", "domain", "uuid"],
            [QueryColumn("Lines", its.with_names(f"sum by {its.guest} ({lines}) > 0"))],
            worst="Lines",
            size=HALF,
            links=links.of_node(self.site),
            without="no stall, or no console is read",
        )
        return PanelRow("Guests that stalled", [projects.no_value("no console is read: [consoles] read"), guests])

    def congestion(self) -> PanelRow:
        """Of the machine that publishes it."""
        site, its = self.site, self.its
        cluster = site.own("cluster")
        legend = f"{site.legend} {{{{{cluster}}}}} {{{{device_class}}}}"

        def by_class(metric: str) -> str:
            return f"max by {its.region(cluster, 'device_class')} ({recent(its, metric)})"

        factor = graph(
            "Congestion: x of each device class",
            "The factor of the limits of its disks: 1 unless their cluster is congested. Where congestion is only"
            " observed, no limit is written for it.",
            [Query(by_class(metrics.CONGESTION_FACTOR), legend)],
            Unit.AS_IT_IS,
            size=THIRD,
        ).max(1)
        latency = graph(
            "Congestion: latency of light disks, and its target",
            "Over two minutes, of disks that used less than half of their limits. Dashed: the latency above which x"
            " is lowered, if the OSDs are slow too.",
            [
                Query(by_class(metrics.CONGESTION_LATENCY_SECONDS), legend),
                Query(by_class(metrics.CONGESTION_TARGET_SECONDS), f"{legend}, target"),
            ],
            Unit.SECONDS,
            size=THIRD,
            log=True,
        )
        number = f"sum by {its.region(cluster, 'device_class')} ({once(its, metrics.DISKS_REDUCED)})"
        disks = graph(
            "Congestion: disks reduced",
            "Disks with lower limits than desired, by the last pass of each node. None where congestion is only"
            " observed, and of disks to which no rule gives a floor.",
            [Query(number, legend)],
            size=THIRD,
            stacked=True,
        ).no_value("no disk is reduced")
        panels = (factor.min(0), dash(latency, ".*, target"))
        return PanelRow("Congestion", [*(each.no_value("nothing is published") for each in panels), disks])

    def stages(self) -> PanelRow:
        """By the machine that makes the region file, and by the nodes that have an approval."""
        its, by = self.its, self.its.region("approval")
        each = its.region("approval", "condition")
        unknown, failures = (
            f"max by {each} ({its(metrics.REGION_STAGE_STOPPED, equal('known', certainty))})"
            for certainty in ("false", "true")
        )
        entry = f"max by {by} ({its(metrics.REGION_STAGE_ENTERED_TIMESTAMP_SECONDS)})"
        nodes = f"max by {its.node('approval')} ({its(metrics.STAGE_IN_EFFECT)})"
        approvals = listing(
            "Approvals in stages",
            "QoS specs and types, or rules, that reach the nodes step by step. Nodes: how many used them in their"
            " last pass. Stopped: conditions of the next stage that are not met or unknown.",
            [*self.site.region, "approval"],
            [
                QueryColumn("Stage", f"max by {by} ({its(metrics.REGION_STAGE)})"),
                QueryColumn("Of", f"max by {by} ({its(metrics.REGION_STAGES)})"),
                QueryColumn("Nodes", f"count by {by} ({nodes})"),
                QueryColumn("Stopped", f"count by {by} ({unknown} or {failures})", steps=steps.WARN_FROM_ONE),
                QueryColumn("Since", f"time() - {entry}", Unit.SECONDS),
            ],
            worst="Since",
            size=HALF,
            without="none, or no data",
        )
        conditions = listing(
            "What stops the next stage",
            "plimsoll region approvals has the reasons. What is unknown stops it too.",
            [*self.site.region, "approval", "condition"],
            [
                QueryColumn(
                    "It is",
                    f"2 * {unknown}\nor\n{failures}",
                    words={"1": ("not met", steps.BAD), "2": ("unknown", steps.WARNING)},
                ),
            ],
            worst="It is",
            size=HALF,
            without="none, or no data",
        )
        return PanelRow("Stages of approvals", [approvals, conditions])

    def ceph(self) -> PanelRow:
        site = self.site
        panel = graph(
            "PGs that accept I/O, over time",
            "The share of placement groups that are active, by ceph_pg_active and ceph_pg_total of Ceph's mgr:"
            " requests to the others wait.",
            [Query(shared.availability(self.its), shared.ceph_legend(site))],
            Unit.SHARE,
            ((None, steps.BAD), (1, steps.GOOD)),
            size=HALF,
        ).max(1)
        health = graph(
            "Ceph's health over time",
            "0 is HEALTH_OK, 1 HEALTH_WARN, 2 HEALTH_ERR.",
            [Query(f"max by {site.in_region('cluster')} ({shared.ceph_series(self.its)('ceph_health_status')})",
                   shared.ceph_legend(site))],
            steps=((None, steps.GOOD), (1, steps.WARNING), (2, steps.BAD)),
            size=HALF,
        )  # fmt: skip
        return PanelRow("Ceph", [each.no_value(shared.NO_CEPH) for each in (panel, health)])

    def cephfs(self) -> PanelRow:
        """In the names of Ceph's mgr and of ``ceph-exporter``; each rank has a daemon."""
        site, its = self.site, shared.ceph_series(self.its)
        of_daemon, of_cluster = site.in_region("cluster", "ceph_daemon"), site.in_region("cluster")

        def each_daemon(what: str) -> Query:
            """Once, also where a pair of Prometheuses records it: of a sum it would be twice as much."""
            expr = f"max by {of_daemon} (rate({its(f'ceph_mds_{what}', over=_RATE)}))"
            return Query(expr, f"{{{{ceph_daemon}}}} {shared.ceph_legend(site)}")

        forwards, requests = (
            f"sum by {of_cluster} (rate({its(f'ceph_mds_{what}', over=_RATE)}))" for what in ("forward", "request")
        )
        panels = (
            graph(
                "CephFS: requests of each MDS",
                "Those that it forwarded count too. One rank with nearly all, while others idle, is for pins:"
                " plimsoll mds watch says so.",
                [each_daemon("request")],
                Unit.OPERATIONS,
                size=THIRD,
            ),
            graph(
                "CephFS: requests that ranks forward to each other",
                "The share of all requests. A tenth or more for long is a balancer that moves directories to and fro,"
                " or has left them in pieces: plimsoll mds watch names them.",
                [Query(f"{forwards}\n/\n{requests}", shared.ceph_legend(site))],
                Unit.SHARE,
                ((None, steps.GOOD), (FORWARDED, steps.WARNING)),
                size=THIRD,
            ),
            graph(
                "CephFS: inodes that each MDS exports",
                "A second, to other ranks. Directories that move once, when load begins, are as it should be.",
                [each_daemon("exported_inodes")],
                size=THIRD,
            ),
        )
        return PanelRow("CephFS", [each.no_value(shared.NO_COUNTERS) for each in panels])


def overdue_number(its: SiteNames) -> str:
    """Of guests and directories by the rule of PlimsollProbesLate; those for which another alert stands count too."""
    late = its.targets_of_type(f"{overdue_for(its)} > 0")
    return f"count({late}) or 0 * count({its.targets_of_type(once(its, metrics.PROBE_INTERVAL_SECONDS))})"


def make(site: Site) -> Dashboard:
    view = RegionPanels(site)
    head = Head(
        links.REGION,
        "Plimsoll / Region",
        "One region: are the limits in force, and do guests get what they were promised?",
        "now-2d",
        [datasource(), region(site), volume_type(view.its)],
        {"Node": links.to(links.NODE)},
        alerts=shared.alerts(view.its),
    )
    rows = (view.overview, view.firing, view.promise)
    more = (
        view.latency,
        view.probes,
        view.disks,
        view.oversubscription,
        view.stages,
        view.stalls,
        view.ceph,
        view.congestion,
        view.cephfs,
        view.nodes,
    )
    return board(head, [row() for row in rows], [row() for row in more], DETAILS)
