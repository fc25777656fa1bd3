"""Rows of panels become a dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from dashboards.steps import BAD
from dashboards.variables import REGION, SOURCE


@dataclass(frozen=True)
class Row:
    """Panels are set from left to right; a line is full at 24 columns."""

    title: str
    panels: Sequence[Builder[model.Panel]]


@dataclass(frozen=True)
class Head:
    """What stands above the rows. ``since`` as Grafana writes it (``now-24h``); ``others``: title → address."""

    uid: str
    title: str
    about: str
    since: str
    variables: Sequence[Builder[model.VariableModel]]
    others: Mapping[str, str]


def board(head: Head, rows: Sequence[Row]) -> model.Dashboard:
    made = build.Dashboard(head.title).uid(head.uid).description(head.about).tags(["plimsoll"])
    made.time(head.since, "now").refresh("1m").timezone("browser").editable()
    made.tooltip(model.DashboardCursorSync.CROSSHAIR)
    for variable in head.variables:
        made.with_variable(variable)
    for row in rows:
        made.with_row(build.Row(row.title))
        for panel in row.panels:
            made.with_panel(panel)
    made.annotation(_alerts()).links([_link(title, url) for title, url in head.others.items()])
    return _numbered(made.build())


def _numbered(dashboard: model.Dashboard) -> model.Dashboard:
    """Grafana numbers panels that have no number, but a link to one must not change from import to import."""
    for number, panel in enumerate(dashboard.panels or [], 1):
        panel.id_val = number
    return dashboard


def _link(title: str, url: str) -> build.DashboardLink:
    return build.DashboardLink(title).type(model.DashboardLinkType.LINK).url(url).icon("dashboard")


def _alerts() -> build.AnnotationQuery:
    """Those of etc/prometheus/plimsoll-alerts.yaml that fire, as marks in every graph."""
    firing = f'ALERTS{{alertname=~"Plimsoll.*",alertstate="firing",{REGION}}}'
    query = build.AnnotationQuery().name("Alerts").datasource(SOURCE).expr(firing)
    return query.enable(True).icon_color(BAD)
