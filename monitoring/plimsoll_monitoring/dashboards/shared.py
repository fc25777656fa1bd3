"""Panels that more than one dashboard shows, over the series that are chosen."""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, statetimeline, table, timeseries

from plimsoll_agent.monitor import metrics
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.dashboards import links, steps
from plimsoll_monitoring.dashboards.panels import (
    HALF,
    SMALL,
    THIRD,
    Query,
    QueryColumn,
    Size,
    Unit,
    colour_by,
    dash,
    figure,
    graph,
    listing,
    states,
)
from plimsoll_monitoring.dashboards.series import SiteNames, name_type
from plimsoll_monitoring.promql import once

ONLY_PER_DISK = "Needs [metrics] detail = disk; empty with detail = aggregate."
BETWEEN_PASSES = "(average between passes)"
EVENLY = "Averages between two passes: peaks in between are higher."
AT_LIMIT = "Disks that used 95 % or more of a limit, on average between two passes."
GIVEN = "The share of conclusive probe runs in which the guest got what its limits promise."
NO_CEPH = "no data from Ceph's mgr"
NO_COUNTERS = "no data from ceph-exporter, or from Ceph's mgr before Reef"
_ALERT = ("volume_type", "source", "domain", "cluster", "uuid")


# --- alerts


def _firing(series: SiteNames, *matchers: str) -> str:
    return series("ALERTS", 'component="plimsoll"', 'alertstate="firing"', *matchers)


def firing_number(series: SiteNames, severity: str) -> stat.Panel:
    """How many alerts of this severity fire."""
    grade = {"critical": steps.CRITICAL_FROM_ONE, "warning": steps.WARN_FROM_ONE}[severity]
    matcher = f'severity="{severity}"'
    # Only where alerts are evaluated, and know of disks, no alert is that none fires.
    expr = f"count({_firing(series, matcher)}) or 0 * count({series(metrics.ALERTS_EVALUATED)})"
    about = f"Alerts of plimsoll that fire, of severity {severity}."
    return figure(f"Alerts, {severity}", about, expr, steps=grade, without="not evaluated here")


def firing(title: str, series: SiteNames, size: Size) -> table.Panel:
    """``series`` are the alerts' own labels."""
    labels = [series.site.own(label) for label in _ALERT]
    by = series.node("alertname", *labels)
    grades = {"critical": 3, "warning": 2, "info": 1}
    severity = "\nor\n".join(
        f"""{number} * max by {by} ({_firing(series, f'severity="{name}"')})""" for name, number in grades.items()
    )
    since = series("ALERTS_FOR_STATE", 'component="plimsoll"')
    duration = f"time() - min by {by} ({since})\nand max by {by} ({_firing(series)})"
    return listing(
        title,
        "Alerts of plimsoll that fire, the worst first, and for how long their condition has held. Alerts on a region"
        " or a volume type have no node.",
        ["alertname", series.site.instance, *series.site.region, *labels],
        [
            QueryColumn("Severity", severity, words=steps.SEVERITY_WORDS),
            QueryColumn("For", duration, Unit.SECONDS),
        ],
        worst="Severity",
        size=size,
        links=links.of_guest(series.site) | {"alertname": f"{series.site.docs_url}reference/alerts.html"},
        without="no alert fires, or they are not evaluated here",
        values_first=True,
    )


def alerts(series: SiteNames) -> str:
    """Marks in graphs."""
    return _firing(series)


# --- disks


def unlimited_disks(series: SiteNames) -> stat.Panel:
    about = "Disks without a limit although one is desired."
    expr = f"sum({once(series, metrics.DISKS_UNLIMITED)})"
    return figure("Disks unlimited", about, expr, steps=steps.measure(series.site, "unlimited"))


def list_unlimited(series: SiteNames, size: Size) -> table.Panel:
    """``series`` without a volume type."""
    by, labels = series.disk, metrics.DISK
    on = series.node("target_device", "uuid")
    operations, size_ = (
        f"max by {by} ({series(metrics.DISK_LIMIT_DESIRED[f'{unit}_per_second'])})"
        for unit in ("operations", "bytes")
    )
    astray = f"(max by {by} ({series(metrics.DISK_UNLIMITED)}) == 1 and ({operations} or {size_}))"
    info = f"max by {series.node('target_device', 'uuid', 'volume_type')} ({series(metrics.DISK_INFO)})"
    state = f"max by {series.node('target_device', 'uuid', 'state', 'reason')} ({series(metrics.DISK_STATE)})"
    details = f"{astray}\n* on {on} group_left (volume_type) {info}\n* on {on} group_left (state, reason) {state}"

    def column(expr: str) -> str:
        return series.with_names(series.disks_of_type(expr))

    return listing(
        "Disks unlimited, one by one",
        "Disks without a limit although one is desired, with the state and the reason from the last pass;"
        f" plimsoll disk explain on the node has more. {ONLY_PER_DISK}",
        [
            *series.site.region,
            series.site.instance,
            "server",
            "project_name",
            *labels,
            "volume_type",
            "state",
            "reason",
        ],
        [
            QueryColumn("Unlimited", column(details), words={"1": ("unlimited", steps.BAD)}),
            QueryColumn("Desired operations", column(f"{operations}\nand {astray}"), Unit.OPERATIONS),
            QueryColumn("Desired bytes", column(f"{size_}\nand {astray}"), Unit.BYTES),
        ],
        worst="Unlimited",
        size=size,
        links=links.of_disk(series.site),
        without="none, or detail = aggregate",
    )


def disks_by_state(expr: str, size: Size = THIRD) -> timeseries.Panel:
    about = (
        "in-sync: as desired. changed: by the newest pass. planned: mode is observe. deferred: until approval or a "
        "retry. left-alone: nothing is desired. unknown: actual limits unknown. failed: the change was refused."
    )
    panel = graph("Disks by state", about, [Query(expr, "{{state}}")], size=size, stacked=True)
    return colour_by(panel, steps.OF_STATE)


def at_limit(series: SiteNames, size: Size = THIRD) -> timeseries.Panel:
    expr = name_type(f"sum by (volume_type) ({once(series, metrics.DISKS_AT_LIMIT)})")
    title = "Disks at limit, by volume type"
    return graph(title, AT_LIMIT, [Query(expr, "{{volume_type}}")], size=size, stacked=True)


def reverts(series: SiteNames) -> timeseries.Panel:
    about = (
        "External changes to limits that plimsoll reverted, in the hour before each point. A steady count means that "
        "another program writes limits."
    )
    drift = once(series, metrics.EXTERNAL_CHANGES_REVERTED_TOTAL, over="1h")
    expr = name_type(f"sum by (volume_type) ({drift})")
    title = "External changes reverted in 1 h, by volume type"
    return graph(title, about, [Query(expr, "{{volume_type}}")], size=THIRD)


def throughput(what: str, unit: Unit, series: SiteNames, size: Size) -> timeseries.Panel:
    """``what``: operations or bytes."""
    expr = name_type(f"sum by (volume_type, direction) ({once(series, metrics.AVERAGE[what])})")
    title = f"{what.capitalize()} per second, by volume type {BETWEEN_PASSES}"
    return graph(title, EVENLY, [Query(expr, "{{volume_type}} {{direction}}")], unit, size=size)


# --- probes


def runs_by_verdict(series: SiteNames, size: Size = HALF) -> timeseries.Panel:
    about = (
        "kept: as promised. short: the cluster gave less. over-limit: the limit did not hold. slow: the latency "
        "objective was missed. reduced: the limits are reduced for now. inconclusive and failed: no verdict."
    )
    expr = f"sum by (verdict) ({once(series, metrics.PROBE_RUNS_TOTAL, over='1d')})"
    panel = graph("Probe runs in 24 h, by verdict", about, [Query(expr, "{{verdict}}")], size=size, stacked=True)
    return colour_by(panel, steps.OF_VERDICT)


def verdicts(title: str, about: str, expr: str, legend: str, size: Size) -> statetimeline.Panel:
    """``expr`` as ``chosen.verdict_number`` makes it."""
    return states(title, about, Query(expr, legend), steps.VERDICT_WORDS, size)


def objective(series: SiteNames, quantile: str, *labels: str, legend: str) -> Query:
    """The strictest latency objective."""
    metric = series(metrics.PROBE_OBJECTIVE_SECONDS, f'objective="{quantile}"')
    return Query(name_type(f"min by ({', '.join(labels)}) ({metric})"), legend)


def median_node(series: SiteNames) -> str:
    """p99 of the median node of each region and volume type."""
    return f"quantile by {series.region('volume_type')} (0.5, {series(metrics.NODE_P99)})"


def latencies(title: str, about: str, queries: list[Query], size: Size = THIRD) -> timeseries.Panel:
    """Objectives are dashed lines."""
    return dash(graph(title, about, queries, Unit.SECONDS, size=size, log=True), ".*objective.*")


# --- Ceph


def ceph(series: SiteNames) -> list[stat.Panel]:
    """As Ceph's mgr tells Prometheus, where the site scrapes it."""
    site, its = series.site, ceph_series(series)
    by = site.in_region("cluster")
    panels = [
        figure(
            "Ceph's health",
            f"HEALTH_OK, HEALTH_WARN or HEALTH_ERR, by ceph_health_status of Ceph's mgr{_link_hint(series)}.",
            f"max by {by} ({its('ceph_health_status')})",
            steps=((None, steps.GOOD), (1, steps.WARNING), (2, steps.BAD)),
            legend="{{cluster}}",
            words={"0": "OK", "1": "WARN", "2": "ERR"},
            without=NO_CEPH,
            size=SMALL,
        ),
        figure(
            "PGs that accept I/O",
            "The share of placement groups that are active: requests to the others wait.",
            availability(series),
            Unit.SHARE,
            ((None, steps.BAD), (1, steps.GOOD)),
            legend="{{cluster}}",
            without=NO_CEPH,
            size=SMALL,
        ).decimals(2),
    ]
    if site.ceph_url:
        for panel in panels:
            panel.links([links.outward("Ceph's dashboard", site.ceph_url)])
    return panels


def _link_hint(series: SiteNames) -> str:
    return "; click for Ceph's dashboard" if series.site.ceph_url else ""


def ceph_series(series: SiteNames) -> SiteNames:
    """Ceph's targets are others, and need not have the label of a region."""
    return replace(series.or_without_region, site=replace(series.site, selector=series.site.ceph))


def ceph_legend(site: Site) -> str:
    return site.legend if "cluster" in site.region else f"{site.legend} {{{{cluster}}}}"


def availability(series: SiteNames) -> str:
    its, by = ceph_series(series), series.site.in_region("cluster")
    return f"sum by {by} ({its('ceph_pg_active')})\n/\nsum by {by} ({its('ceph_pg_total')})"
