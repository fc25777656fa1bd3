"""Percentiles over time and a heat map of latencies, as PNG, SVG, or a page that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from matplotlib.colors import LogNorm
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import FuncFormatter, MaxNLocator

from plimsoll_agent.errors import UsageError
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import plural
from plimsoll_insight.figures.page import FigureTable, page
from plimsoll_insight.hist.heat import Heat
from plimsoll_insight.hist.percentiles import Latency, PercentileInterval, name_of
from plimsoll_insight.hist.records import DIRECTIONS
from plimsoll_insight.hist.study import ALL, IntervalRow, Study, seconds_of, stalls
from plimsoll_probes.output.report.drawing import (
    BEYOND,
    COLOURS,
    HEAT,
    SECOND,
    Axes,
    edge_of,
    heat_bar,
    instead,
    latency_axis,
    png,
    themed_svg,
)

MOST_INTERVALS = 2000
_STYLES = (("p50", "-"), ("p99", "--"), ("p999", "-."), ("slowest", ":"))
_HEIGHT, _WIDTH = 4.4, 4.8
_MARGINS = {"left": 0.13, "right": 0.95, "top": 0.94, "bottom": 0.09, "hspace": 0.35}


@frozen
class Chart:
    """What is drawn of one direction."""

    direction: str
    intervals: Sequence[PercentileInterval]
    counts: Sequence[Sequence[float]]
    """Of each interval, the requests of each row of the heat map."""


def render(
    kind: str,
    study: Study,
    rows: Iterable[IntervalRow],
    heat: Heat,
    sentences: Sequence[str],
    tables: Sequence[FigureTable] = (),
) -> bytes:
    """The file. Raises ``UsageError`` for more intervals than a screen has columns."""
    if study.clock.number > MOST_INTERVALS:
        raise UsageError(
            f"--plot: {study.clock.number} intervals are more than a screen can show, at most {MOST_INTERVALS};"
            " give a longer --interval"
        )
    charts = list(_charts(rows, heat))
    latencies = _range(charts)
    if kind == ".html":
        return _page(study, charts, latencies, sentences, tables)

    def draw(figure: Figure) -> None:
        parts = figure.subfigures(len(charts), 1, squeeze=False)[:, 0]
        for part, chart in zip(parts, charts, strict=True):
            _draw(part, chart, study, latencies)

    height = 1.5 * _HEIGHT * len(charts)
    return png(draw, height, 1.6 * _WIDTH) if kind == ".png" else themed_svg(draw, height, 1.6 * _WIDTH)


def _charts(rows: Iterable[IntervalRow], heat: Heat) -> Iterable[Chart]:
    intervals = [row.interval for row in rows if row.whose == ALL]
    counts = heat.counts
    for number, direction in enumerate(DIRECTIONS):
        mine = [interval for interval in intervals if interval.direction == direction]
        if mine:
            yield Chart(direction, mine, counts[number].tolist())


def _page(
    study: Study,
    charts: Sequence[Chart],
    latencies: tuple[float, float],
    sentences: Sequence[str],
    tables: Sequence[FigureTable],
) -> bytes:
    def svg(chart: Chart) -> bytes:
        return themed_svg(lambda figure: _draw(figure, chart, study, latencies), 1.4 * _HEIGHT, _WIDTH)

    return page(f"Latency over time, {plural(len(study.parts), 'log')}", sentences, [
        (f"Percentiles of {chart.direction} latency and IOPS over time, and a heat map", svg(chart))
        for chart in charts
    ], tables)  # fmt: skip


def _draw(figure: FigureBase, chart: Chart, study: Study, latencies: tuple[float, float]) -> None:
    percentiles, rates, heat, colours = figure.subplots(4, 1, height_ratios=(14, 7, 14, 0.7), gridspec_kw=_MARGINS)
    _percentiles(percentiles, chart, study, latencies)
    _rates(rates, chart, study)
    _heat(heat, colours, chart, latencies)
    _time((percentiles, rates, heat), study)


def _percentiles(axes: Axes, chart: Chart, study: Study, latencies: tuple[float, float]) -> None:
    axes.set_title(f"{chart.direction}: percentiles")
    edges = range(len(chart.intervals) + 1)
    axes.set_yscale("log")
    for number, fraction in reversed(list(enumerate(study.fractions[: len(_STYLES)]))):
        colour, style = _STYLES[number]
        seconds = [_seconds(interval.percentiles[number]) for interval in chart.intervals]
        axes.stairs(seconds, edges, baseline=None, color=COLOURS[colour], linestyle=style, linewidth=1.3,
                    label=name_of(fraction))  # fmt: skip
    _stalls(axes, chart)
    latency_axis(axes, *latencies)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=4,
                columnspacing=0.9, handletextpad=0.4, handlelength=2.2, borderaxespad=0)  # fmt: skip


def _rates(axes: Axes, chart: Chart, study: Study) -> None:
    """Requests that ended, a second, so that a stall is seen as one."""
    axes.set_title(f"IOPS{'; grey: stalled' if _stalls(axes, chart) else ''}")
    span = study.spans(None)[None]
    rates = [interval.completed / seconds_of(interval, span) for interval in chart.intervals]
    axes.stairs(rates, range(len(rates) + 1), baseline=None, color=COLOURS["p50"], linewidth=1.1)
    axes.set_ylim(0, 1.08 * max(*rates, 1.0))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.grid(axis="y", color=COLOURS["line"], linewidth=0.6)
    axes.set_axisbelow(True)


def _stalls(axes: Axes, chart: Chart) -> bool:
    """Shade the stalls; False without any."""
    runs = list(stalls([IntervalRow(ALL, interval) for interval in chart.intervals]))
    for run in runs:
        first = chart.intervals.index(run[0])
        axes.axvspan(first, first + len(run), color=COLOURS["beyond"], zorder=0)
    return bool(runs)


def _heat(axes: Axes, colours: Axes, chart: Chart, latencies: tuple[float, float]) -> None:
    axes.set_title("share of each interval's requests")
    rows = _rows(chart)
    if not rows:
        instead(axes, "no request was completed")
        colours.set_axis_off()
        return
    lowest, highest = rows[0], rows[-1]
    shares = [
        [each[row] / sum(each) if each[row] else math.nan for each in chart.counts]
        for row in range(lowest, highest + 1)
    ]
    edges = [edge_of(row) / SECOND for row in range(lowest, highest + 2)]
    mesh = axes.pcolormesh(
        range(len(chart.counts) + 1), edges, shares, cmap=HEAT, norm=LogNorm(1e-4, 1), rasterized=True
    )
    axes.set_yscale("log")
    latency_axis(axes, *latencies)
    heat_bar(axes.figure, mesh, colours)


def _rows(chart: Chart) -> list[int]:
    """The rows of the heat map in which there is anything."""
    return [number for number in range(len(chart.counts[0])) if any(each[number] for each in chart.counts)]


def _range(charts: Sequence[Chart]) -> tuple[float, float]:
    """In seconds; one for all charts, so that they can be compared."""
    rows = [row for chart in charts for row in _rows(chart)] or [1]
    low, high = edge_of(min(rows)) / SECOND, edge_of(max(rows) + 1) / SECOND
    return low, max(high, 20 * low)


def _seconds(latency: Latency | None) -> float:
    if latency is None:
        return math.nan
    return BEYOND if latency.upper is None else latency.middle / SECOND


def _time(panels: Sequence[Axes], study: Study) -> None:
    for axes in panels:
        axes.set_xlim(0, study.clock.number)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(_label(study) if axes is panels[-1] else lambda *_: ""))


def _label(study: Study) -> Callable[[float, object], str]:
    def label(place: float, _: object) -> str:
        milliseconds = study.clock.begin_ms + place * study.clock.width_ms
        if study.is_of_epoch:
            return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%H:%M:%S}"
        return f"{milliseconds / 1000:g} s"

    return label
