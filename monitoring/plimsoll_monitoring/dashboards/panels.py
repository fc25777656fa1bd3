"""The kinds of panels, in one style."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self, TypeVar

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode, HeatmapColorScale
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from plimsoll_agent.monitor import metrics
from plimsoll_monitoring.dashboards.series import SiteNames
from plimsoll_monitoring.dashboards.steps import NEUTRAL, PLAIN, Steps
from plimsoll_monitoring.dashboards.variables import SOURCE
from plimsoll_monitoring.promql import once


class Unit(StrEnum):
    """Units by Grafana's names."""

    SECONDS = "s"
    SHARE = "percentunit"
    COUNT = "short"
    AS_IT_IS = "none"
    OPERATIONS = "iops"
    BYTES = "binBps"
    TEXT = "string"


@dataclass(frozen=True)
class Query:
    """PromQL with Grafana's variables, and the legend of its series (``{{label}}`` is a label's value)."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Size:
    """A size in Grafana's grid of 24 columns."""

    width: int
    height: int


SMALL, THIRD, HALF, WHOLE = Size(3, 4), Size(8, 8), Size(12, 8), Size(24, 9)
TWO_THIRDS, BESIDE_IT = Size(16, 9), Size(8, 9)


def figure(title: str, about: str, expr: str, unit: Unit = Unit.COUNT, steps: Steps = NEUTRAL,
           size: Size = SMALL, legend: str = "", words: Mapping[str, str] | None = None,
           without: str = "unknown") -> stat.Panel:  # fmt: skip
    """One current figure. ``words``: value → text that is shown instead; ``without``: the text without a value."""
    panel = _dress(stat.Panel(), title, about, unit, size, steps)
    for target in _targets([Query(expr, legend)]):
        panel.with_target(target.instant())
    mappings = [_words({value: (word, None) for value, word in words.items()})] if words is not None else []
    panel.mappings([*mappings, _absence(without)])
    latest = build_common.ReduceDataOptions().calcs(["lastNotNull"])
    return panel.reduce_options(latest).graph_mode(common.BigValueGraphMode.NONE).no_value(without)


def name(title: str, about: str, query: Query, size: Size = SMALL) -> stat.Panel:
    """A label's value in large type."""
    panel = figure(title, about, query.expr, Unit.TEXT, size=size, legend=query.legend)
    return panel.text_mode(common.BigValueTextMode.NAME)


def graph(title: str, about: str, queries: Sequence[Query], unit: Unit = Unit.COUNT, steps: Steps = NEUTRAL,
          size: Size = HALF, stacked: bool = False, log: bool = False) -> timeseries.Panel:  # fmt: skip
    """Lines over time, with thresholds; ``log`` for values of several magnitudes."""
    panel = _dress(timeseries.Panel(), title, about, unit, size, steps)
    for target in _targets(queries):
        panel.with_target(target.range())
    if len(steps) > 1:
        # The misspelling is the SDK's.
        style = build_common.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED)
        panel.thresholds_style(style)
    if stacked:
        panel.stacking(build_common.StackingConfig().mode(common.StackingMode.NORMAL)).fill_opacity(40)
    tooltip = build_common.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    panel.legend(_legend(shown=True)).tooltip(tooltip.sort(common.SortOrder.DESCENDING))
    if log:
        scale = build_common.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(10)
        panel.scale_distribution(scale)
    else:
        panel.min(0)
    return panel.line_width(1).show_points(common.VisibilityMode.NEVER)


def colour_by(panel: timeseries.Panel, colours: Mapping[str, str]) -> timeseries.Panel:
    """Give series fixed colours by name, so that a state has the same colour on all dashboards."""
    for series, colour in colours.items():
        panel.override_by_name(series, [_property("color", {"mode": "fixed", "fixedColor": colour})])
    return panel


def dash(panel: timeseries.Panel, pattern: str) -> timeseries.Panel:
    """Draw series whose names match as dashed lines: they are bounds."""
    style = _property("custom.lineStyle", {"fill": "dash", "dash": [8, 6]})
    return panel.override_by_regexp(pattern, [style, _property("custom.lineInterpolation", "stepAfter")])


HEAT = "The stronger the colour, the more requests."


def heat(title: str, about: str, series: SiteNames, size: Size = WHOLE) -> heatmap.Panel:
    """A heat map of latencies, from the buckets of the probes that are chosen."""
    panel = _dress(heatmap.Panel(), title, about, Unit.SECONDS, size, NEUTRAL)
    buckets = f"sum by (le) ({once(series, metrics.PROBE_LATENCY_SECONDS_BUCKET, over='$__rate_interval')})"
    for target in _targets([Query(buckets, "{{le}}")]):
        panel.with_target(target.range().format(PromQueryFormat.HEATMAP))
    # It fades into the page of the light theme and of the dark one; a scheme of hues does in one of them.
    colour = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.OPACITY).fill("dark-orange")
    panel.color(colour.scale(HeatmapColorScale.EXPONENTIAL).exponent(0.5).steps(64))
    # Probes are minutes or hours apart: narrower columns would be empty between them.
    panel.interval("10m").calculate(False).y_axis(heatmap.YAxisConfig().unit(Unit.SECONDS))
    panel.cell_gap(1).show_tooltip().show_legend()
    panel.scale_distribution(build_common.ScaleDistributionConfig().type(common.ScaleDistribution.LINEAR))
    return panel.filter_values(heatmap.FilterValueRange().le(1e-9))


@dataclass(frozen=True)
class QueryColumn:
    """A query whose values are a column of a table. Its labels, equal in all queries, are the first columns."""

    heading: str
    expr: str
    unit: Unit = Unit.COUNT
    steps: Steps = NEUTRAL
    words: Mapping[str, tuple[str, str]] | None = None
    """Value → text and colour that are shown instead."""
    hidden: bool = False
    """Only its labels are shown."""


HEADINGS = {
    "alertname": "Alert",
    "approval": "Approval",
    "cluster": "Cluster",
    "condition": "Condition",
    "directory": "Directory",
    "domain": "Guest",
    "exported_cluster": "Ceph cluster",
    "instance": "Node",
    "parameter": "Parameter",
    "pool": "Pool",
    "project_name": "Project",
    "reason": "Reason",
    "region": "Region",
    "revision": "Revision",
    "server": "Server",
    "source": "Source",
    "state": "State",
    "target_device": "Disk",
    "version": "Version",
    "volume": "Volume",
    "volume_type": "Volume type",
}
HIDDEN = ("uuid",)
"""Labels that only links need."""


def listing(title: str, about: str, labels: Sequence[str], columns: Sequence[QueryColumn], worst: str,
            size: Size = WHOLE, links: Mapping[str, str] | None = None, without: str = "",
            values_first: bool = False) -> table.Panel:  # fmt: skip
    """A row per set of labels, in this order; the highest ``worst`` first. ``links``: label → the target of its
    cells' links; ``without``: the text without rows.
    """
    panel = _dress(table.Panel(), title, about, Unit.COUNT, size, NEUTRAL)
    headings: dict[str, str] = {}
    for target, column in zip(_targets([Query(column.expr) for column in columns]), columns, strict=True):
        panel.with_target(target.instant().format(PromQueryFormat.TABLE))
        # Grafana numbers the values only where there are several queries.
        headings[f"Value #{target.build().ref_id}" if len(columns) > 1 else "Value"] = column.heading
        panel.override_by_name(column.heading, _cell(column))
    for label in labels:
        panel.override_by_name(label, _label_cell(label, (links or {}).get(label)))
    if len(columns) > 1:
        panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    names = (*headings, *labels) if values_first else (*labels, *headings)
    order = {name: place for place, name in enumerate(names)}
    options = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": headings}
    panel.with_transformation(model.DataTransformerConfig(id_val="organize", options=options))
    panel.sort_by([build_common.TableSortByFieldState().display_name(worst).desc(True)])
    if without:
        panel.no_value(without)
    return panel.footer(build_common.TableFooterOptions().show(False).reducer([]).enable_pagination(True))


def _cell(column: QueryColumn) -> list[model.DynamicConfigValue]:
    properties = [_property("unit", column.unit.value)]
    if column.hidden:
        return [_property("custom.hidden", True)]
    if column.words is not None:
        properties.append(_property("mappings", [_words(column.words).to_json()]))
    elif len(column.steps) > 1:
        steps = [{"value": value, "color": colour} for value, colour in column.steps]
        properties.append(_property("thresholds", {"mode": "absolute", "steps": steps}))
    else:
        return properties
    return [*properties, _property("custom.cellOptions", {"type": "color-text"})]


def _label_cell(label: str, link: str | None) -> list[model.DynamicConfigValue]:
    properties = [_property("displayName", HEADINGS.get(label, label.capitalize()))]
    if label in HIDDEN:
        properties.append(_property("custom.hidden", True))
    if link is not None:
        properties.append(_property("links", [{"title": "Open", "url": link}]))
    return properties


def states(title: str, about: str, query: Query, words: Mapping[str, tuple[str, str | None]],
           size: Size = HALF) -> statetimeline.Panel:  # fmt: skip
    """A bar over time for each series. ``words``: value → its text and colour."""
    panel = _dress(statetimeline.Panel(), title, about, Unit.COUNT, size, NEUTRAL)
    for target in _targets([query]):
        panel.with_target(target.range())
    return panel.mappings([_words(words)]).legend(_legend(shown=False)).line_width(0).fill_opacity(70)


class _Panel(Protocol):
    """The methods that all kinds of panels of the SDK share; the SDK has no base class for them."""

    def title(self, title: str) -> Self: ...
    def description(self, description: str) -> Self: ...
    def datasource(self, datasource: model.DataSourceRef) -> Self: ...
    def height(self, h: int) -> Self: ...
    def span(self, w: int) -> Self: ...
    def unit(self, unit: str) -> Self: ...
    def thresholds(self, thresholds: Any) -> Self: ...


_Kind = TypeVar("_Kind", bound=_Panel)


def _dress(panel: _Kind, title: str, about: str, unit: Unit, size: Size, steps: Steps) -> _Kind:
    thresholds = [model.Threshold(value=value, color=colour) for value, colour in steps]
    panel.thresholds(build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(thresholds))
    panel.title(title).description(about).unit(unit.value).datasource(SOURCE)
    return panel.span(size.width).height(size.height)


def _targets(queries: Sequence[Query]) -> Iterator[prometheus.Dataquery]:
    for position, query in enumerate(queries):
        target = prometheus.Dataquery().ref_id(chr(ord("A") + position)).datasource(SOURCE)
        yield target.expr(query.expr).legend_format(query.legend or "__auto")


def _legend(shown: bool) -> build_common.VizLegendOptions:
    mode = common.LegendDisplayMode.LIST if shown else common.LegendDisplayMode.HIDDEN
    legend = build_common.VizLegendOptions().display_mode(mode).show_legend(shown)
    return legend.placement(common.LegendPlacement.BOTTOM).calcs([])


def _words(words: Mapping[str, tuple[str, str | None]]) -> model.ValueMap:
    results = {value: model.ValueMappingResult(text=word, color=colour) for value, (word, colour) in words.items()}
    return model.ValueMap(options=results)


def _absence(text: str) -> model.SpecialValueMap:
    """No value has no colour: without this it would have that of the lowest threshold."""
    result = model.ValueMappingResult(text=text, color=PLAIN)
    return model.SpecialValueMap(model.DashboardSpecialValueMapOptions(model.SpecialValueMatch.NULL_AND_NAN, result))


def _property(key: str, value: object) -> model.DynamicConfigValue:
    return model.DynamicConfigValue(id_val=key, value=value)
