"""The figures of a report, as SVG. They contain no text of tenants: the page has the names.

They are as wide as a phone, so that their text is readable on one, and as dark as the page. Everything coloured also
differs in shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.model.histogram import LAST
from plimsoll_probes.output.messages import latency_words, quantile_name
from plimsoll_probes.output.report.drawing import (
    BEYOND,
    COLOURS,
    HEAT,
    SECOND,
    edge_of,
    heat_bar,
    instead,
    latency_axis,
    row_of,
    themed_svg,
)
from plimsoll_probes.output.report.gathered import FRACTIONS, Curve, Point
from plimsoll_probes.output.report.messages import scale
from plimsoll_probes.output.report.span import ReportPeriod

Axes = Any
_MARGINS = {"left": 0.12, "right": 0.93, "bottom": 0.06, "hspace": 0.3}
"""Shares of the width and height."""
_LINES = (("p50", "-"), ("p99", "--"), ("p999", "-."), ("slowest", ":"))
_MOST_SHARE = 2.0


@frozen
class Ranges:
    """What the axes of all figures of a page have in common, so that they can be compared."""

    shares: float
    latencies: tuple[float, float]
    """In seconds."""

    @classmethod
    def of(cls, curves: Sequence[Curve]) -> Ranges:
        points = [point for each in curves for point in each.points]
        most = max((point.shares[2] for point in points if point.shares), default=1.0)
        rows = [row_of(index) for point in points for index, _ in point.latency.buckets] or [row_of(1)]
        slowest = max((point.slowest for point in points), default=0) / SECOND
        beyond = 3 * BEYOND if max(rows) == row_of(LAST) else 0.0
        objectives = [each.objective for each in curves if each.objective is not None]
        targets = [seconds for each in objectives for _, seconds in each.quantiles]
        targets += [each.slowest for each in objectives if each.slowest is not None]
        top = max(1.3 * slowest, beyond, edge_of(max(rows) + 1) / SECOND, *(1.3 * each for each in targets))
        low = min(edge_of(min(rows)) / SECOND, *(each / 1.3 for each in targets), top / 20)
        return cls(min(_MOST_SHARE, max(1.3, 1.1 * most)), (low, top))


def type_svg(curve: Curve, span: ReportPeriod, ranges: Ranges) -> bytes:
    """For a volume type: IOPS compared with the limits, percentiles, and the distribution of latencies."""

    def draw(figure: Figure) -> None:
        shares, latency, heat, colours = figure.subplots(
            4, 1, height_ratios=(8, 14, 14, 0.7), gridspec_kw=_MARGINS | {"top": 0.96}
        )
        _shares(shares, curve.points, span, ranges)
        _percentiles(latency, curve, span, ranges)
        _heat(heat, colours, curve.points, span, ranges)
        _time((shares, latency, heat), span)

    return themed_svg(draw, height=6.0)


def guest_svg(curve: Curve, span: ReportPeriod, ranges: Ranges) -> bytes:
    """For a guest: IOPS compared with the limits, and percentiles."""

    def draw(figure: Figure) -> None:
        shares, latency = figure.subplots(2, 1, height_ratios=(8, 14), gridspec_kw=_MARGINS | {"top": 0.92})
        _shares(shares, curve.points, span, ranges)
        _percentiles(latency, curve, span, ranges)
        _time((shares, latency), span)

    return themed_svg(draw, height=3.6)


# --- panels


def _shares(axes: Axes, points: Sequence[Point], span: ReportPeriod, ranges: Ranges) -> None:
    axes.set_title("IOPS, of what the limits allow")
    rows = [(span.middle(point.column), *point.shares) for point in points if point.shares is not None]
    if not rows:
        instead(axes, "no limit, or limits unknown")
        return
    times, least, middle, most = zip(*rows, strict=True)
    axes.axhline(1, color=COLOURS["limit"], linestyle="--", linewidth=1)
    axes.vlines(times, least, [min(each, ranges.shares) for each in most], color=COLOURS["p50"], linewidth=2.5)
    axes.plot(times, middle, "o", color=COLOURS["ink"], markersize=3, clip_on=False)
    beyond = [time for time, each in zip(times, most, strict=True) if each > ranges.shares]
    axes.plot(beyond, [ranges.shares] * len(beyond), "^", color=COLOURS["limit"], markersize=5, clip_on=False)
    axes.set_ylim(0, ranges.shares)
    axes.set_yticks([0, 0.5, 1, 1.5, 2][: 1 + int(2 * ranges.shares)])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: "limit" if share == 1 else f"{100 * share:.0f} %"))


def _percentiles(axes: Axes, curve: Curve, span: ReportPeriod, ranges: Ranges) -> None:
    axes.set_title("Latency")
    points = curve.points
    if not any(point.slowest or point.latency.count for point in points):
        instead(axes, "no request was completed")
        return
    axes.set_yscale("log")
    for number, (name, style) in reversed(list(enumerate(_LINES))):
        seconds = [math.nan] * span.columns
        for point in points:
            seconds[point.column] = _seconds(point, number)
        label = quantile_name(FRACTIONS[number]) if number < len(FRACTIONS) else name
        axes.stairs(seconds, range(span.columns + 1), baseline=None, color=COLOURS[name], linestyle=style,
                    linewidth=1.4, label=label)  # fmt: skip
    if any(quantile and quantile.saturated for point in points for quantile in point.quantiles):
        axes.axhspan(BEYOND, ranges.latencies[1], color=COLOURS["beyond"], zorder=0)
        axes.annotate(
            f"percentiles here: > {latency_words(BEYOND * SECOND)}", (0.005, BEYOND),
            xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points", fontsize=8,
            bbox={"facecolor": COLOURS["paper"], "edgecolor": "none", "pad": 1},
        )  # fmt: skip
    latency_axis(axes, *ranges.latencies)
    if curve.objective is not None:
        _objectives(axes, curve.objective)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=4,
                columnspacing=0.9, handletextpad=0.4, handlelength=2.2, borderaxespad=0)  # fmt: skip


def _objectives(axes: Axes, objective: Objective) -> None:
    """Thin lines in the colours of the percentiles that they bound, named at the right."""
    bounds = [
        (FRACTIONS.index(fraction), seconds) for fraction, seconds in objective.quantiles if fraction in FRACTIONS
    ]
    bounds += [] if objective.slowest is None else [(len(FRACTIONS), objective.slowest)]
    for number, seconds in bounds:
        colour = COLOURS[_LINES[number][0]]
        label = "all" if number == len(FRACTIONS) else quantile_name(FRACTIONS[number])
        axes.axhline(seconds, color=colour, linewidth=0.7)
        axes.annotate(f"≤ {label}", (1, seconds), xycoords=("axes fraction", "data"), xytext=(2, 0),
                      textcoords="offset points", va="center", fontsize=7, color=colour)  # fmt: skip


def _seconds(point: Point, line: int) -> float:
    """A percentile that is saturated is at the edge of the last bucket; the slowest is exact."""
    if line == len(FRACTIONS):
        return point.slowest / SECOND if point.slowest else math.nan
    quantile = point.quantiles[line]
    if quantile is None:
        return math.nan
    return BEYOND if quantile.saturated else quantile.value / SECOND


def _heat(axes: Axes, colours: Axes, points: Sequence[Point], span: ReportPeriod, ranges: Ranges) -> None:
    """Two rows for each factor of two, with edges of fio's buckets, so that no bucket is in two rows.

    fio's last bucket, which has no upper edge, is a row of its own at the top.
    """
    axes.set_title("Latencies: the share of each column's requests")
    rows = [row_of(index) for point in points for index, _ in point.latency.buckets]
    if not rows:
        instead(axes, "no request was completed")
        colours.set_axis_off()
        return
    lowest, highest = min(rows), max(rows)
    shares = [[math.nan] * span.columns for _ in range(highest - lowest + 1)]
    for point in points:
        whole = point.latency.count
        for index, count in point.latency.buckets:
            row = shares[row_of(index) - lowest]
            part = 0.0 if math.isnan(row[point.column]) else row[point.column]
            row[point.column] = part + count / whole
    latencies = [edge_of(row) / SECOND for row in range(lowest, highest + 2)]
    mesh = axes.pcolormesh(
        range(span.columns + 1), latencies, shares, cmap=HEAT, norm=LogNorm(1e-4, 1), rasterized=True
    )
    axes.set_yscale("log")
    latency_axis(axes, *ranges.latencies)
    if highest == row_of(LAST):
        axes.annotate(f"> {latency_words(BEYOND * SECOND)}", (0, edge_of(highest) / SECOND),
                      xycoords=("axes fraction", "data"), xytext=(-7, 0), textcoords="offset points", ha="right",
                      va="bottom", fontsize=8)  # fmt: skip
    heat_bar(axes.figure, mesh, colours)


# --- axes


def _time(panels: Sequence[Axes], span: ReportPeriod) -> None:
    """One time axis for all panels, in columns, with its labels below the last panel."""
    places, texts = [place for place, _ in scale(span)], [text for _, text in scale(span)]
    for axes in panels:
        axes.set_xlim(span.begin, span.end)
        axes.set_xticks(places, labels=texts if axes is panels[-1] else [""] * len(texts))
