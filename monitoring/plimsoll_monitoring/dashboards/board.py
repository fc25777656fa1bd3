"""Makes a dashboard from rows of panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from plimsoll_monitoring.dashboards import links
from plimsoll_monitoring.dashboards.steps import WARNING
from plimsoll_monitoring.dashboards.variables import SOURCE


@dataclass(frozen=True)
class PanelRow:
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


def board(
    head: Head, rows: Sequence[PanelRow], more: Sequence[PanelRow], details: Mapping[str, str]
) -> model.Dashboard:
    """``more`` follow, folded: only their titles are shown, and none of their queries run, until they are opened.
    ``details``: title of a panel → title of the panel that a click on it opens.
    """
    builder = build.Dashboard(head.title).uid(head.uid).description(head.about).tags(["plimsoll"])
    builder.time(head.since, "now").refresh("1m").timezone("browser").editable()
    builder.tooltip(model.DashboardCursorSync.CROSSHAIR)
    for variable in head.variables:
        builder.with_variable(variable)
    for row in rows:
        builder.with_row(build.Row(row.title))
        for panel in row.panels:
            builder.with_panel(panel)
    for row in more:
        title = build.Row(row.title)
        for panel in row.panels:
            title.with_panel(panel)
        builder.with_row(title)
    builder.annotation(_alerts(head.alerts)).links([_link(title, url) for title, url in head.others.items()])
    dashboard = builder.build()
    _number(dashboard)
    _link_details(dashboard, details)
    return dashboard


def _number(dashboard: model.Dashboard) -> None:
    """Number the panels: the numbers that Grafana gives may change with each import, and break links to panels."""
    for number, panel in enumerate(_panels(dashboard), 1):
        panel.id_val = number


def _link_details(dashboard: model.Dashboard, details: Mapping[str, str]) -> None:
    panels = {panel.title: panel for panel in _panels(dashboard) if isinstance(panel, model.Panel)}
    for title, detail in details.items():
        url = links.panel(dashboard.uid or "", panels[detail].id_val)
        panels[title].links = [
            *(panels[title].links or []),
            build.DashboardLink(detail).type(model.DashboardLinkType.LINK).url(url).build(),
        ]


def _panels(dashboard: model.Dashboard) -> Iterator[model.Panel | model.RowPanel]:
    """All of them, each row before its own."""
    for panel in dashboard.panels or []:
        yield panel
        if isinstance(panel, model.RowPanel):
            yield from panel.panels


def _link(title: str, url: str) -> build.DashboardLink:
    return build.DashboardLink(title).type(model.DashboardLinkType.LINK).url(url).icon("dashboard")


def _alerts(firing: str) -> build.AnnotationQuery:
    return build.AnnotationQuery().name("Alerts").datasource(SOURCE).expr(firing).enable(True).icon_color(WARNING)
