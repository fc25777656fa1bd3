"""Makes a dashboard from rows of panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from plimsoll_monitoring.dashboards.steps import WARNING
from plimsoll_monitoring.dashboards.variables import SOURCE


@dataclass(frozen=True)
class Row:
    """Panels from left to right; a line has 24 columns."""

    title: str
    panels: Sequence[Builder[model.Panel]]


@dataclass(frozen=True)
class Head:
    """What is above the rows. ``since`` as Grafana writes it (``now-24h``); ``others``: title → address."""

    uid: str
    title: str
    about: str
    since: str
    variables: Sequence[Builder[model.VariableModel]]
    others: Mapping[str, str]
    alerts: str
    """A query of the alerts that are marked in all graphs."""


def board(head: Head, rows: Sequence[Row]) -> model.Dashboard:
    builder = build.Dashboard(head.title).uid(head.uid).description(head.about).tags(["plimsoll"])
    builder.time(head.since, "now").refresh("1m").timezone("browser").editable()
    builder.tooltip(model.DashboardCursorSync.CROSSHAIR)
    for variable in head.variables:
        builder.with_variable(variable)
    for row in rows:
        builder.with_row(build.Row(row.title))
        for panel in row.panels:
            builder.with_panel(panel)
    builder.annotation(_alerts(head.alerts)).links([_link(title, url) for title, url in head.others.items()])
    return _number(builder.build())


def _number(dashboard: model.Dashboard) -> model.Dashboard:
    """Number the panels: the numbers that Grafana gives may change with each import, and break links to panels."""
    for number, panel in enumerate(dashboard.panels or [], 1):
        panel.id_val = number
    return dashboard


def _link(title: str, url: str) -> build.DashboardLink:
    return build.DashboardLink(title).type(model.DashboardLinkType.LINK).url(url).icon("dashboard")


def _alerts(firing: str) -> build.AnnotationQuery:
    return build.AnnotationQuery().name("Alerts").datasource(SOURCE).expr(firing).enable(True).icon_color(WARNING)
