"""What all figures of latencies have in common: colours that follow the reader's theme, axes, rows of a heat map.

Figures are drawn in the colours of a light page, and these are named afterwards, so that a page can change them.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from plimsoll_probes.model.histogram import LAST, edges
from plimsoll_probes.output.messages import latency_words
from plimsoll_probes.output.report import palette

Axes = Any
SECOND = 10**9
BEYOND = edges(LAST)[0] / SECOND
"""Seconds at which fio's last bucket begins."""
COLOURS = {name: light for name, (light, _) in palette.LINES.items()}
WIDTH = 4.8
"""In inches; of a phone."""
HEAT = LinearSegmentedColormap.from_list("heat", [(palette.HEAT, 0.04), (palette.HEAT, 1.0)])
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": COLOURS["faint"],
    "axes.labelcolor": COLOURS["ink"],
    "text.color": COLOURS["ink"],
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.color": COLOURS["ink"],
    "ytick.color": COLOURS["ink"],
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "plimsoll",
    "figure.dpi": 72,
    "savefig.dpi": 150,
}


def themed_svg(draw: Callable[[Figure], None], height: float, width: float = WIDTH) -> bytes:
    """On no paper, and with the colours of the reader's theme."""
    image = _render(draw, (width, height), "svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = image.decode()
    for name, light in COLOURS.items():
        svg = svg.replace(light, f"var(--{name})")
    return svg.replace('<style type="text/css">', f'<style type="text/css">{palette.css()}', 1).encode()


def png(draw: Callable[[Figure], None], height: float, width: float = WIDTH) -> bytes:
    """On light paper."""
    return _render(draw, (width, height), "png", facecolor=COLOURS["paper"])


def _render(draw: Callable[[Figure], None], size: tuple[float, float], format: str, **options: Any) -> bytes:
    with mpl.rc_context():
        mpl.rcdefaults()  # ignores a matplotlibrc of this machine
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=size)
        draw(figure)
        out = io.BytesIO()
        figure.savefig(out, format=format, **options)
    return out.getvalue()


def row_of(index: int) -> int:
    if index == LAST:
        return row_of(LAST - 1) + 1
    lower = max(edges(index)[0], 1)
    octave = lower.bit_length() - 1
    return 2 * octave + (2 * lower >= 3 << octave)


def edge_of(row: int) -> float:
    """A row's lower edge, in nanoseconds."""
    octave, half = divmod(row, 2)
    return 2.0**octave * (1.5 if half else 1)


def latency_axis(axes: Axes, low: float, high: float) -> None:
    """A logarithmic axis of seconds."""
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if high < 1000 * low else (1.0,), numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: latency_words(seconds * SECOND)))
    axes.grid(axis="y", color=COLOURS["line"], linewidth=0.6)
    axes.set_axisbelow(True)


def instead(axes: Axes, sentence: str) -> None:
    axes.text(0.5, 0.5, sentence, transform=axes.transAxes, ha="center", va="center", color=COLOURS["faint"])
    axes.yaxis.set_major_locator(NullLocator())


def heat_bar(figure: Figure, mesh: Any, axes: Axes) -> None:
    """The key of a heat map of shares."""
    bar = figure.colorbar(mesh, cax=axes, orientation="horizontal")
    bar.set_ticks([1e-4, 1e-3, 1e-2, 0.1, 1], labels=["0.01 %", "0.1 %", "1 %", "10 %", "100 %"])
    bar.ax.tick_params(labelsize=8)
    bar.ax.xaxis.set_minor_locator(NullLocator())
    bar.outline.set_visible(False)
