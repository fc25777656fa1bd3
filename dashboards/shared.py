"""Panels that more than one dashboard shows, over the series that a selector chooses."""

from __future__ import annotations

from grafana_foundation_sdk.builders import stat, timeseries

from dashboards import steps
from dashboards.panels import HALF, THIRD, Query, Size, Unit, coloured, figure, graph, named_type

ONLY_PER_DISK = "Needs [metrics] detail = disk; with detail = aggregate it stays empty."
BETWEEN_PASSES = "(average between passes)"
EVENLY = "What is done between two passes is spread evenly over that time: peaks within it are higher."
AT_THE_WALL = "Disks that used 95 % or more of a limit, on average between two passes: their guests wait for it."
GIVEN = "Of the probe runs that prove something, the part in which the guest got what its limits promise."


def unlimited(selector: str) -> stat.Panel:
    about = "Disks that have no limit in force although one is wanted."
    expr = f"sum(plimsoll_disks_unlimited{{{selector}}})"
    return figure("Disks unlimited", about, expr, steps=steps.shipped("unlimited"))


def disks_by_state(expr: str, size: Size = THIRD) -> timeseries.Panel:
    about = (
        "right: what is wanted is in force. changed: by the newest pass. planned: plimsoll only observes. waits: for "
        "an approval or another try. left-alone: nothing is wanted. not-known: nobody knows what is in force."
    )
    panel = graph("Disks by state", about, [Query(expr, "{{state}}")], size=size, stacked=True)
    return coloured(panel, steps.OF_STATE)


def runs_by_verdict(selector: str, size: Size = HALF) -> timeseries.Panel:
    about = (
        "kept: as promised. short: the cluster gave less. over-limit: the limit did not hold. slow: the latency "
        "objective was missed. discarded and failed prove nothing."
    )
    expr = f"sum by (verdict) (increase(plimsoll_probe_runs_total{{{selector}}}[1d]))"
    panel = graph("Probe runs of a day, by verdict", about, [Query(expr, "{{verdict}}")], size=size, stacked=True)
    return coloured(panel, steps.OF_VERDICT)


def at_the_wall(selector: str, size: Size = THIRD) -> timeseries.Panel:
    expr = named_type(f"sum by (volume_type) (plimsoll_disks_at_wall{{{selector}}})")
    title = "Disks at the wall, by volume type"
    return graph(title, AT_THE_WALL, [Query(expr, "{{volume_type}}")], size=size, stacked=True)


def drift(selector: str) -> timeseries.Panel:
    about = (
        "Limits that somebody else had changed and plimsoll put back, in the hour before each point. What keeps "
        "coming back is another program that writes limits."
    )
    expr = named_type(f"sum by (volume_type) (increase(plimsoll_drift_corrected_total{{{selector}}}[1h]))")
    title = "Drift put back in an hour, by volume type"
    return graph(title, about, [Query(expr, "{{volume_type}}")], steps=steps.NONE_EXPECTED, size=THIRD)


def done(what: str, unit: Unit, selector: str, size: Size) -> timeseries.Panel:
    """``what``: operations or bytes."""
    metric = f"plimsoll_average_{what}_per_second{{{selector}}}"
    expr = named_type(f"sum by (volume_type, direction) ({metric})")
    title = f"{what.capitalize()} done, by volume type {BETWEEN_PASSES}"
    return graph(title, EVENLY, [Query(expr, "{{volume_type}} {{direction}}")], unit, size=size)
