"""The figures of a report, as SVG. No text that somebody else chose is in them: the page says whose they are.

They are as wide as a telephone, so that their letters can be read on one. What has a colour has a shape too.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from plimsoll_probes.histogram import LAST, Quantile, edges
from plimsoll_probes.job import JobName
from plimsoll_probes.report.gathered import BROKEN, FRACTIONS, Curve, Point, Run
from plimsoll_probes.report.span import Span
from plimsoll_probes.report.words import scale
from plimsoll_probes.words import latency_words, quantile_name

Axes = Any
_SECOND = 10**9
_BEYOND = edges(LAST)[0] / _SECOND
"""Seconds from which on fio tells nothing but that it took longer."""
_WIDTH = 4.8
_MARGINS = {"left": 0.12, "right": 0.95, "bottom": 0.06, "hspace": 0.3}
"""Parts of the width and height."""
_INK, _FAINT, _BAD = "#1a1a1a", "#767676", "#b3400e"
# Okabe and Ito's colours, which the colour-blind tell apart.
_LINES = (("#0072b2", "o", "-"), ("#d55e00", "s", "--"), ("#7d3c98", "^", "-."))
_SLOWEST = ("#4d4d4d", "x", ":")
_JOBS = {JobName.READ: ("#0072b2", "o"), JobName.WRITE: ("#d55e00", "s"), JobName.MIXED: ("#009e73", "^")}
_MOST_SHARE = 2.0
_MOST_VECTORS = 400
"""More marks than these are drawn as a picture: the page stays small."""
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "plimsoll",
    "figure.dpi": 72,
    "savefig.dpi": 150,
}


def type_svg(curve: Curve, span: Span) -> bytes:
    """Of a volume type: IOPS beside what the limits allow, percentiles, and where the requests lie."""

    def draw(figure: Figure) -> None:
        shares, latency, heat, colours = figure.subplots(
            4, 1, height_ratios=(10, 16, 15, 0.7), gridspec_kw=_MARGINS | {"top": 0.96}
        )
        _shares(shares, curve.points)
        _percentiles(latency, curve.points)
        _heat(heat, colours, curve.points, span)
        _time((shares, latency, heat), span)

    return _svg(draw, height=6.6)


def guest_svg(runs: Sequence[Run], curve: Curve, span: Span) -> bytes:
    """Of a guest: IOPS of each run with the limit drawn in, and percentiles."""

    def draw(figure: Figure) -> None:
        iops, latency = figure.subplots(2, 1, height_ratios=(12, 14), gridspec_kw=_MARGINS | {"top": 0.91})
        _iops(iops, runs, span)
        _percentiles(latency, curve.points)
        _time((iops, latency), span)

    return _svg(draw, height=4.2)


def _svg(draw: Callable[[Figure], None], height: float) -> bytes:
    with mpl.rc_context():
        mpl.rcdefaults()  # whatever a matplotlibrc of this machine says
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(_WIDTH, height))
        draw(figure)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        return out.getvalue()


# --- panels


def _shares(axes: Axes, points: Sequence[Point]) -> None:
    axes.set_title("IOPS, of what the limits allow")
    told = [(_place(point), *point.shares) for point in points if point.shares is not None]
    if not told:
        _instead(axes, "no limit is in force, or none is known")
        return
    times, least, middle, most = zip(*told, strict=True)
    top = min(_MOST_SHARE, max(1.3, 1.1 * max(most)))
    axes.vlines(times, least, [min(each, top) for each in most], color="#56b4e9", linewidth=2.5)
    axes.plot(times, middle, "o", color=_INK, markersize=3, label="median run")
    beyond = [time for time, each in zip(times, most, strict=True) if each > top]
    axes.plot(beyond, [top] * len(beyond), "^", color=_BAD, markersize=5, clip_on=False)
    axes.axhline(1, color=_BAD, linestyle="--", linewidth=1)
    axes.annotate("the limit", (0.005, 1), xycoords=("axes fraction", "data"), xytext=(0, 3),
                  textcoords="offset points", color=_BAD, fontsize=8)  # fmt: skip
    axes.set_ylim(0, top)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))


def _percentiles(axes: Axes, points: Sequence[Point]) -> None:
    axes.set_title("Latency of requests")
    axes.set_yscale("log")
    lines = [
        (
            quantile_name(fraction),
            [(point, _seconds(quantile)) for point in points if (quantile := point.quantiles[number])],
            _LINES[number],
        )
        for number, fraction in enumerate(FRACTIONS)
    ]
    lines.append(("slowest", [(point, point.slowest / _SECOND) for point in points if point.slowest], _SLOWEST))
    for name, line, (colour, marker, style) in reversed(lines):
        times, seconds = _with_gaps(line)
        axes.plot(
            times, seconds, marker=marker, linestyle=style, color=colour, markersize=3, linewidth=1.2, label=name
        )
    if any(quantile and quantile.saturated for point in points for quantile in point.quantiles):
        axes.axhspan(_BEYOND, 10 * _BEYOND, color="#eeeeee", zorder=0)
        axes.axhline(_BEYOND, color=_FAINT, linewidth=0.8)
        axes.annotate(
            f"percentiles here: > {latency_words(_BEYOND * _SECOND)}, nobody knows how far", (0.005, _BEYOND),
            xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points", fontsize=8,
        )  # fmt: skip
        highest = max(point.slowest / _SECOND for point in points)
        axes.set_ylim(top=max(3 * _BEYOND, 1.5 * highest))
    if not any(line for _, line, _ in lines):
        _instead(axes, "no request was completed")
        return
    _latency_axis(axes)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=4,
                columnspacing=0.9, handletextpad=0.4, handlelength=2.2, borderaxespad=0)  # fmt: skip


def _seconds(quantile: Quantile) -> float:
    """A saturated one stands at the edge from which on nothing is known."""
    return _BEYOND if quantile.saturated else quantile.value / _SECOND


def _heat(axes: Axes, colours: Axes, points: Sequence[Point], span: Span) -> None:
    """Two rows an octave: a row's edges are fio's own, so that no bucket lies in two.

    fio's last bucket, of which nobody knows how far it reaches, is a row of its own at the top.
    """
    axes.set_title("Where the requests lie: dark is where most of a column are")
    rows = [_row(index) for point in points for index, _ in point.latency.buckets]
    if not rows:
        _instead(axes, "no request was completed")
        colours.set_axis_off()
        return
    lowest, highest = min(rows), max(rows)
    shares = [[math.nan] * span.columns for _ in range(highest - lowest + 1)]
    for point in points:
        whole = point.latency.count
        for index, count in point.latency.buckets:
            row = shares[_row(index) - lowest]
            part = 0.0 if math.isnan(row[point.column]) else row[point.column]
            row[point.column] = part + count / whole
    latencies = [_edge(row) / _SECOND for row in range(lowest, highest + 2)]
    mesh = axes.pcolormesh(
        range(span.columns + 1), latencies, shares, cmap="cividis_r", norm=LogNorm(1e-4, 1), rasterized=True
    )
    axes.set_yscale("log")
    _latency_axis(axes)
    if highest == _row(LAST):
        axes.annotate(f"> {latency_words(_BEYOND * _SECOND)}", (0, _edge(highest) / _SECOND),
                      xycoords=("axes fraction", "data"), xytext=(-7, 0), textcoords="offset points", ha="right",
                      va="bottom", fontsize=8)  # fmt: skip
    bar = axes.figure.colorbar(mesh, cax=colours, orientation="horizontal")
    bar.set_ticks([1e-4, 1e-3, 1e-2, 0.1, 1], labels=["0.01 %", "0.1 %", "1 %", "10 %", "100 %"])
    bar.ax.tick_params(labelsize=8)
    bar.ax.xaxis.set_minor_locator(NullLocator())
    bar.outline.set_visible(False)


def _row(index: int) -> int:
    if index == LAST:
        return _row(LAST - 1) + 1
    lower = max(edges(index)[0], 1)
    octave = lower.bit_length() - 1
    return 2 * octave + (2 * lower >= 3 << octave)


def _edge(row: int) -> float:
    """Its lower one, in nanoseconds."""
    octave, half = divmod(row, 2)
    return 2.0**octave * (1.5 if half else 1)


def _iops(axes: Axes, runs: Sequence[Run], span: Span) -> None:
    axes.set_title("IOPS")
    told = [(span.place_of(run.result.started), run.iops, run) for run in runs if run.iops is not None]
    if not told:
        _instead(axes, "no run has a result")
        return
    many = len(told) > _MOST_VECTORS
    for job, (colour, marker) in _JOBS.items():
        its = [each for each in told if each[2].result.job.name is job]
        if not its:
            continue
        times, iops, _ = zip(*its, strict=True)
        axes.plot(times, iops, marker, color=colour, markersize=3.5, label=job.value, rasterized=many)
        allowed = sorted((time, math.nan if run.allowed is None else run.allowed) for time, _, run in its)
        axes.step(*zip(*allowed, strict=True), where="post", color=_BAD, linestyle="--", linewidth=1)
    broken = [(time, iops) for time, iops, run in told if run.verdict in BROKEN]
    if broken:
        axes.plot(*zip(*broken, strict=True), "o", markerfacecolor="none", markeredgecolor=_INK, markersize=7,
                  markeredgewidth=0.7, label="not kept", rasterized=many)  # fmt: skip
    if any(run.allowed is not None for _, _, run in told):
        axes.plot([], [], color=_BAD, linestyle="--", linewidth=1, label="the limit")
    highest = max(max(iops, run.allowed or 0) for _, iops, run in told)
    axes.set_ylim(0, 1.15 * highest or 1)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=5, columnspacing=0.9, handletextpad=0.2,
                handlelength=1.4, borderaxespad=0)  # fmt: skip


# --- axes


def _time(panels: Sequence[Axes], span: Span) -> None:
    """The same times below each other, counted in columns, and written below the last one."""
    places, texts = [place for place, _ in scale(span)], [text for _, text in scale(span)]
    for axes in panels:
        axes.set_xlim(0, span.columns)
        axes.set_xticks(places, labels=texts if axes is panels[-1] else [""] * len(texts))


def _place(point: Point) -> float:
    return point.column + 0.5


def _latency_axis(axes: Axes) -> None:
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0,), numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: latency_words(seconds * _SECOND)))
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _instead(axes: Axes, sentence: str) -> None:
    axes.text(0.5, 0.5, sentence, transform=axes.transAxes, ha="center", va="center", color=_FAINT)
    axes.yaxis.set_major_locator(NullLocator())


def _with_gaps(line: Sequence[tuple[Point, float]]) -> tuple[list[float], list[float]]:
    """No line is drawn over a gap thrice as long as is usual."""
    gaps = [later.column - earlier.column for (earlier, _), (later, _) in pairwise(line)]
    times: list[float] = []
    values: list[float] = []
    for gap, (point, value) in zip([0, *gaps], line, strict=False):
        if gap and gap > 3 * median(gaps):
            times.append(_place(point))
            values.append(math.nan)
        times.append(_place(point))
        values.append(value)
    return times, values
