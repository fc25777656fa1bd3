"""The kinds of panels, in one look."""

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

from dashboards.steps import NEUTRAL, Steps
from dashboards.variables import SOURCE


class Unit(StrEnum):
    """Grafana's names."""

    SECONDS = "s"
    SHARE = "percentunit"
    COUNT = "short"
    AS_IT_IS = "none"
    OPERATIONS = "iops"
    BYTES = "binBps"
    TEXT = "string"


@dataclass(frozen=True)
class Query:
    """PromQL with Grafana's variables, and what its series are called (``{{label}}`` stands for a label's value)."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Size:
    """In Grafana's grid of 24 columns."""

    width: int
    height: int


SMALL, THIRD, HALF, WHOLE = Size(3, 4), Size(8, 8), Size(12, 8), Size(24, 9)
TWO_THIRDS, BESIDE_IT = Size(16, 9), Size(8, 9)


def named_type(expr: str) -> str:
    """A disk without a volume type has an empty label, and its series no name in a legend."""
    return f'label_replace({expr}, "volume_type", "no type", "volume_type", "")'


def figure(title: str, about: str, expr: str, unit: Unit = Unit.COUNT, steps: Steps = NEUTRAL,
           size: Size = SMALL, legend: str = "", words: Mapping[str, str] | None = None) -> stat.Panel:  # fmt: skip
    """One figure as it is now. ``words``: value → what is shown in its place."""
    panel = _dressed(stat.Panel(), title, about, unit, size, steps)
    for target in _targets([Query(expr, legend)]):
        panel.with_target(target.instant())
    if words is not None:
        panel.mappings([_words({value: (word, None) for value, word in words.items()})])
    latest = build_common.ReduceDataOptions().calcs(["lastNotNull"])
    return panel.reduce_options(latest).graph_mode(common.BigValueGraphMode.NONE).no_value("not known")


def name(title: str, about: str, query: Query, size: Size = SMALL) -> stat.Panel:
    """The legend, large: for facts that are labels."""
    panel = figure(title, about, query.expr, Unit.TEXT, size=size, legend=query.legend)
    return panel.text_mode(common.BigValueTextMode.NAME)


def graph(title: str, about: str, queries: Sequence[Query], unit: Unit = Unit.COUNT, steps: Steps = NEUTRAL,
          size: Size = HALF, stacked: bool = False) -> timeseries.Panel:  # fmt: skip
    """Lines over time; thresholds are drawn in."""
    panel = _dressed(timeseries.Panel(), title, about, unit, size, steps)
    for target in _targets(queries):
        panel.with_target(target.range())
    if len(steps) > 1:
        # The SDK spells it so.
        drawn = build_common.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED)
        panel.thresholds_style(drawn)
    if stacked:
        panel.stacking(build_common.StackingConfig().mode(common.StackingMode.NORMAL)).fill_opacity(40)
    tooltip = build_common.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    panel.legend(_legend(shown=True)).tooltip(tooltip.sort(common.SortOrder.DESCENDING))
    return panel.min(0).line_width(1).show_points(common.VisibilityMode.NEVER)


def coloured(panel: timeseries.Panel, colours: Mapping[str, str]) -> timeseries.Panel:
    """Series of these names in these colours: a state looks the same on every dashboard."""
    for series, colour in colours.items():
        panel.override_by_name(series, [_property("color", {"mode": "fixed", "fixedColor": colour})])
    return panel


def dashed(panel: timeseries.Panel, pattern: str) -> timeseries.Panel:
    """Series whose names match are bounds."""
    style = _property("custom.lineStyle", {"fill": "dash", "dash": [8, 6]})
    return panel.override_by_regexp(pattern, [style, _property("custom.lineInterpolation", "stepAfter")])


def series_link(panel: timeseries.Panel, title: str, url: str) -> timeseries.Panel:
    return panel.data_links([build.DashboardLink(title).type(model.DashboardLinkType.LINK).url(url)])


def heat(title: str, about: str, selector: str, size: Size = WHOLE) -> heatmap.Panel:
    """How many requests took how long, from the buckets of the probes that ``selector`` chooses."""
    panel = _dressed(heatmap.Panel(), title, about, Unit.SECONDS, size, NEUTRAL)
    buckets = f"sum by (le) (increase(plimsoll_probe_latency_seconds_bucket{{{selector}}}[$__rate_interval]))"
    for target in _targets([Query(buckets, "{{le}}")]):
        panel.with_target(target.range().format(PromQueryFormat.HEATMAP))
    colour = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges")
    panel.color(colour.scale(HeatmapColorScale.EXPONENTIAL).exponent(0.5).steps(64))
    # Probes are minutes or hours apart: finer columns would be empty in between.
    panel.interval("10m").calculate(False).y_axis(heatmap.YAxisConfig().unit(Unit.SECONDS))
    panel.cell_gap(1).show_tooltip().show_legend()
    panel.scale_distribution(build_common.ScaleDistributionConfig().type(common.ScaleDistribution.LINEAR))
    return panel.filter_values(heatmap.FilterValueRange().le(1e-9))


@dataclass(frozen=True)
class Column:
    """A query of a table, whose values make a column. All of a table's have the same labels: the first columns."""

    heading: str
    expr: str
    unit: Unit = Unit.COUNT
    steps: Steps = NEUTRAL


def listing(title: str, about: str, columns: Sequence[Column], worst: str, size: Size = WHOLE,
            links: Mapping[str, str] | None = None, leave_out: Sequence[str] = ()) -> table.Panel:  # fmt: skip
    """A row per set of labels, the highest ``worst`` first. ``links``: label → where its cells lead to."""
    panel = _dressed(table.Panel(), title, about, Unit.COUNT, size, NEUTRAL)
    headings: dict[str, str] = {}
    for target, column in zip(_targets([Query(column.expr) for column in columns]), columns, strict=True):
        panel.with_target(target.instant().format(PromQueryFormat.TABLE))
        # Only where there are several does Grafana number the values.
        headings[f"Value #{target.build().ref_id}" if len(columns) > 1 else "Value"] = column.heading
        panel.override_by_name(column.heading, _cell(column))
    for label, url in (links or {}).items():
        panel.override_by_name(label, [_property("links", [{"title": "Look at it", "url": url}])])
    if len(columns) > 1:
        panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    left_out = dict.fromkeys(["Time", *leave_out], True)
    arranged = {"excludeByName": left_out, "indexByName": {}, "renameByName": headings}
    panel.with_transformation(model.DataTransformerConfig(id_val="organize", options=arranged))
    panel.sort_by([build_common.TableSortByFieldState().display_name(worst).desc(True)])
    return panel.footer(build_common.TableFooterOptions().show(False).reducer([]).enable_pagination(True))


def _cell(column: Column) -> list[model.DynamicConfigValue]:
    unit = _property("unit", column.unit.value)
    if len(column.steps) == 1:
        return [unit]
    steps = [{"value": value, "color": colour} for value, colour in column.steps]
    thresholds = _property("thresholds", {"mode": "absolute", "steps": steps})
    return [unit, thresholds, _property("custom.cellOptions", {"type": "color-text"})]


def states(title: str, about: str, query: Query, words: Mapping[str, tuple[str, str | None]],
           size: Size = HALF) -> statetimeline.Panel:  # fmt: skip
    """A bar over time for each series. ``words``: value → its word and colour."""
    panel = _dressed(statetimeline.Panel(), title, about, Unit.COUNT, size, NEUTRAL)
    for target in _targets([query]):
        panel.with_target(target.range())
    return panel.mappings([_words(words)]).legend(_legend(shown=False)).line_width(0).fill_opacity(70)


class _Panel(Protocol):
    """What every kind of panel of the SDK has; no base class of its own says so."""

    def title(self, title: str) -> Self: ...
    def description(self, description: str) -> Self: ...
    def datasource(self, datasource: model.DataSourceRef) -> Self: ...
    def height(self, h: int) -> Self: ...
    def span(self, w: int) -> Self: ...
    def unit(self, unit: str) -> Self: ...
    def thresholds(self, thresholds: Any) -> Self: ...


_Kind = TypeVar("_Kind", bound=_Panel)


def _dressed(panel: _Kind, title: str, about: str, unit: Unit, size: Size, steps: Steps) -> _Kind:
    made = [model.Threshold(value=value, color=colour) for value, colour in steps]
    panel.thresholds(build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(made))
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


def _property(key: str, value: object) -> model.DynamicConfigValue:
    return model.DynamicConfigValue(id_val=key, value=value)
