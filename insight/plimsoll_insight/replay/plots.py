"""A replay in pictures: how many disks would fare how, and the time at limit before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from plimsoll_agent.util.text import printable
from plimsoll_insight.figures.page import FigureTable, page
from plimsoll_insight.replay.messages import VERDICTS
from plimsoll_insight.replay.summary import Row
from plimsoll_insight.replay.values import ReplayVerdict
from plimsoll_probes.output.report.drawing import COLOURS, Axes, instead, png, themed_svg

_Draw = Callable[[Figure, Sequence[tuple[str, Row]], float], None]
_MOST = 20
_ROW, _MARGIN = 0.24, 1.1
"""Inches."""
_CHARACTERS = 22
_SHOWN: Mapping[ReplayVerdict, tuple[str, float]] = {
    ReplayVerdict.WORSE: ("limit", 1.0),
    ReplayVerdict.MAYBE_WORSE: ("limit", 0.4),
    ReplayVerdict.UNKNOWN: ("faint", 0.4),
    ReplayVerdict.SAME: ("p50", 0.35),
    ReplayVerdict.BETTER: ("p50", 1.0),
}
"""Untouched disks would hide the others."""


def render(
    kind: str, title: str, sentences: Sequence[str], rows: Sequence[tuple[str, Row]], table: FigureTable
) -> bytes:
    """The file; the answer is the first of ``sentences``, and ``rows`` are named, the worst first."""
    rows = rows[:_MOST]
    height = _MARGIN + _ROW * max(len(rows), 3)
    if kind == ".html":
        svgs = [(words, themed_svg(_one(draw, rows, height), height)) for words, draw in _FIGURES.items()]
        return page(title, sentences, svgs, [table])

    def both(figure: Figure) -> None:
        for draw, part in zip(_FIGURES.values(), figure.subfigures(2, 1, squeeze=False)[:, 0], strict=True):
            draw(part, rows, height)

    return (png if kind == ".png" else themed_svg)(both, 2 * height)


def _one(draw: _Draw, rows: Sequence[tuple[str, Row]], height: float) -> Callable[[Figure], None]:
    return lambda figure: draw(figure, rows, height)


def _verdicts(figure: Figure, rows: Sequence[tuple[str, Row]], height: float) -> None:
    axes = _axes(figure, "disks", [name for name, _ in rows], height)
    begins = [0] * len(rows)
    for verdict, (colour, alpha) in _SHOWN.items():
        counts = [row.verdicts.get(verdict, 0) for _, row in rows]
        if any(counts):
            axes.barh(range(len(rows)), counts, left=begins, height=0.7, color=COLOURS[colour], alpha=alpha,
                      linewidth=0, label=VERDICTS[verdict])  # fmt: skip
        begins = [one + more for one, more in zip(begins, counts, strict=True)]
    if not any(begins):
        instead(axes, "no disk would get other limits")
        return
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    figure.legend(loc="lower center", ncols=3, handlelength=1.0, columnspacing=1.0)


def _at_limit(figure: Figure, rows: Sequence[tuple[str, Row]], height: float) -> None:
    axes = _axes(figure, "share of the time at limit", [name for name, _ in rows], height)
    if not any(row.at_limit for _, row in rows):
        instead(axes, "unknown, or no disk would get other limits")
        return
    for place, (_, row) in enumerate(rows):
        if row.at_limit is not None:
            high = 1.0 if row.at_limit.high is None else row.at_limit.high
            width = max(high - row.at_limit.low, 0.004)
            axes.barh(place, width, left=row.at_limit.low, height=0.5, color=COLOURS["limit"], alpha=0.6, linewidth=0,
                      label=None if place else "after, from … to")  # fmt: skip
            axes.plot([row.at_limit_before or 0.0], [place], "o", markersize=4, color=COLOURS["p50"],
                      label=None if place else "before")  # fmt: skip
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g} %"))
    figure.legend(loc="lower center", ncols=2)


def _axes(figure: Figure, title: str, names: Sequence[str], height: float) -> Axes:
    axes = figure.subplots(
        gridspec_kw={"left": 0.34, "right": 0.96, "top": 1 - 0.25 / height, "bottom": 0.75 / height}
    )
    axes.set_title(title, pad=4)
    axes.set_yticks(range(len(names)), [_cropped(name) for name in names])
    axes.set_ylim(max(len(names), 3) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.grid(axis="x", color=COLOURS["line"], linewidth=0.6)
    axes.set_axisbelow(True)
    return axes


def _cropped(name: str) -> str:
    text = printable(name)
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"


_FIGURES: Mapping[str, _Draw] = {
    "Disks by how they would fare, untouched ones left out": _verdicts,
    "Share of the time at limit: before, and the range after": _at_limit,
}
