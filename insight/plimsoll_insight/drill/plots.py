"""A drill as it went: phases, latency and IOPS on one axis, events marked; the cluster; and each disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable
from plimsoll_insight.drill.phases import DrillPhase
from plimsoll_insight.drill.results import FRACTIONS, Results
from plimsoll_insight.drill.seconds import Floats
from plimsoll_insight.drill.status import ClusterCounts
from plimsoll_insight.figures.page import FigureTable, page
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.output.report.drawing import (
    COLOURS,
    HEAT,
    WIDTH,
    Axes,
    instead,
    latency_axis,
    png,
    themed_svg,
)

_DAY = 86_400
_STEPS = (1, 2, 5, 10, 15, 30, *(60 * each for each in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)), _DAY)
_MOST_TICKS = 5
_EDGE = 0.04
"""The part of the width in which a label of a tick has no room."""
_MOST_COLUMNS = 600
_NAMED_ROWS = 40
_HIGHEST = 6.0
_SHADES = {
    DrillPhase.OUTAGE: (COLOURS["limit"], 0.30),
    DrillPhase.DEGRADED: (COLOURS["p50"], 0.13),
    DrillPhase.RETURN: (COLOURS["p999"], 0.30),
    DrillPhase.RECOVERY: (COLOURS["p99"], 0.15),
}
_LINES = (("p50", "-"), ("p99", "--"), ("slowest", ":"))
_HAPPENED = (" failed (", " boot", "marked itself d", "marked down", " out ")
"""What is marked of the cluster's log."""
_HEIGHT, _ROW, _ABOVE, _BELOW, _STRIP = 4.4, 0.16, 0.5, 0.3, 0.7
"""In inches: of a figure with two panels, of a row of disks, of what is above and below the panels, of the phases
and the space below them."""
_STRIP_SHARE = 0.16
"""The height of the phases, of that of a panel."""
_NAMED_SHARE = 0.08
"""Of the width, from which on a phase has room for its name."""


@frozen
class _Part:
    words: str
    height: float
    draw: Callable[[Figure], None]


def render(kind: str, results: Results, title: str, sentences: Sequence[str], tables: Sequence[FigureTable]) -> bytes:
    """The file."""
    parts = list(_parts(results))
    if kind == ".html":
        svgs = [(part.words, themed_svg(part.draw, part.height)) for part in parts]
        return page(title, sentences, svgs, tables)

    def draw(figure: Figure) -> None:
        heights = [part.height for part in parts]
        for part, inside in zip(parts, figure.subfigures(len(parts), 1, height_ratios=heights, squeeze=False)[:, 0],
                                strict=True):  # fmt: skip
            part.draw(inside)

    height, width = sum(part.height for part in parts), 1.6 * WIDTH
    return png(draw, height, width) if kind == ".png" else themed_svg(draw, height, width)


def _parts(results: Results) -> Iterator[_Part]:
    words, height = "Latency above, IOPS below, over time", _HEIGHT
    if _has_phases(results):
        words, height = f"{_phase_words(results)}. {words}", _HEIGHT + _STRIP
    yield _Part(words, height, partial(_service, results, height))
    if results.recording.statuses:
        yield _Part("The cluster: placement groups and degraded copies", _HEIGHT, partial(_cluster, results))
    rows = len(results.recording.disks)
    if rows > 1:
        height = min(_ABOVE + _BELOW + _ROW * max(rows, 4), _HIGHEST)
        yield _Part("Requests of each disk", height, partial(_disks, results, height))


def _has_phases(results: Results) -> bool:
    return any(span.phase in _SHADES for span in results.phases.spans)


def _service(results: Results, height: float, figure: Figure) -> None:
    if _has_phases(results):
        ratios = (_STRIP_SHARE, 1, 1)
        strip, above, below = figure.subplots(3, 1, height_ratios=ratios, gridspec_kw=_margins(height))
        _strip(results, strip)
        _key(results, figure)
    else:
        above, below = figure.subplots(2, 1, gridspec_kw=_margins(height))
    seconds = results.seconds
    _shade(results, (above, below))
    times = _times(results)
    above.set_title("latency", pad=4)
    lines = [
        (name, {"color": COLOURS[colour], "linestyle": style, "linewidth": 1.1}, line)
        for (colour, style), name, line in zip(_LINES, ("p50", "p99", "slowest"), _percentiles(results), strict=False)
    ]
    if results.recording.probed:
        lines.append(("probes, p99", {"color": COLOURS["limit"], "linewidth": 1.6}, _probe_line(results)))
    values = np.concatenate([line[~np.isnan(line)] for _, _, line in lines] or [np.zeros(0)])
    if not len(values):
        instead(above, "unknown: no request was timed")
    else:
        above.set_yscale("log")
        for name, style, line in lines:
            _steps(above, times, line, label=name, **style)
        latency_axis(above, float(values.min()) / 1.5, max(float(values.max()) * 1.5, float(values.min()) * 20))
        _legend(above)
    below.set_title("IOPS", pad=4)
    if not seconds.watches or np.isnan(seconds.iops).all():
        instead(below, "unknown: no guest was recorded")
    else:
        _steps(below, times, seconds.iops, color=COLOURS["p50"], linewidth=1.1)
        below.set_ylim(0, 1.08 * max(float(np.nanmax(seconds.iops)), 1.0))
        _grid(below)
        if results.phases.normal is not None:
            below.axhline(results.phases.normal, color=COLOURS["faint"], linewidth=0.8, linestyle="--")
    _mark(results, (above, below))
    _time_axes(results, (above, below))


def _cluster(results: Results, figure: Figure) -> None:
    above, below = figure.subplots(2, 1, gridspec_kw=_margins(_HEIGHT))
    _shade(results, (above, below))
    times = _times(results)
    states = results.seconds.states
    counts: tuple[tuple[Axes, str, Sequence[tuple[str, str, str, Callable[[ClusterCounts], float]]]], ...] = (
        (above, "placement groups", (("p50", "-", "not in sync", lambda state: state.unclean),
                                     ("limit", "-", "peering", lambda state: state.peering))),
        (below, "copies to recover", (("p50", "-", "degraded", lambda state: state.degraded),
                                      ("limit", "--", "misplaced", lambda state: state.misplaced))),
    )  # fmt: skip
    for axes, title, lines in counts:
        axes.set_title(title, pad=4)
        for colour, style, label, of in lines:
            line = np.array([np.nan if state is None else of(state) for state in states], dtype=float)
            _steps(axes, times, line, color=COLOURS[colour], linestyle=style, linewidth=1.1, label=label)
        axes.set_ylim(bottom=0)
        _grid(axes)
        _legend(axes)
    _mark(results, (above, below))
    _time_axes(results, (above, below))


def _disks(results: Results, height: float, figure: Figure) -> None:
    """Of each disk, what it did against the most that it did in a column; those that did nothing stay blank."""
    axes = figure.subplots(gridspec_kw=_margins(height, 0.26 if _names(results) else 0.06))
    axes.set_title("requests of each disk, against its most", pad=4)
    seconds = results.seconds
    width = -(-seconds.number // _MOST_COLUMNS)
    edges = np.arange(0, seconds.number, width)
    sums = np.add.reduceat(seconds.done, edges, axis=1)
    most = sums.max(axis=1, keepdims=True)
    parts = np.divide(sums, most, out=np.full(sums.shape, np.nan), where=most > 0)
    parts[parts <= 0] = np.nan
    mesh = axes.pcolormesh(
        _times(results)[[*edges, seconds.number]], range(len(parts) + 1), parts, cmap=HEAT, norm=LogNorm(0.02, 1),
        rasterized=True,
    )  # fmt: skip
    mesh.set_edgecolor("none")
    axes.invert_yaxis()
    if _names(results):
        names = [printable(results.recording.disks[number].words) for number in sorted(results.recording.disks)]
        axes.set_yticks([number + 0.5 for number in range(len(names))], labels=[name[-22:] for name in names])
        axes.tick_params(axis="y", labelsize=7, length=0)
    else:
        axes.set_yticks([])
    _time_axes(results, (axes,))


def _names(results: Results) -> bool:
    return len(results.recording.disks) <= _NAMED_ROWS


def _margins(height: float, margin: float = 0.14) -> dict[str, float]:
    """Around panels, in parts of a figure so high, with a key above them."""
    return {"left": margin, "right": 0.97, "top": 1 - _ABOVE / height, "bottom": _BELOW / height, "hspace": 0.3}


def _steps(axes: Axes, times: Floats, values: Floats, **style: Any) -> None:
    """Axes.stairs takes a second for an hour of seconds, since it looks for the limits of each edge."""
    axes.step(times, [*values, values[-1]], where="post", **style)


def _grid(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y", color=COLOURS["line"], linewidth=0.6)
    axes.set_axisbelow(True)


def _legend(axes: Axes) -> None:
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=4, columnspacing=0.9, handletextpad=0.4,
                handlelength=2.0, borderaxespad=0)  # fmt: skip


def _times(results: Results) -> Floats:
    """Edges of seconds, in seconds of the day in which the recording began: so ticks are at round times."""
    return results.recording.began % _DAY + np.arange(results.seconds.number + 1, dtype=np.float64)


def _percentiles(results: Results) -> Floats:
    """p50, p99 and the slowest of each second, in seconds."""
    seconds = results.seconds
    if not len(seconds.at):
        return np.zeros((0, seconds.number))
    second = np.clip(seconds.at, 0, seconds.number - 1).astype(int)
    order = np.lexsort((seconds.latency, second))
    second, latency, weight = second[order], seconds.latency[order] / 1e6, seconds.weight[order]
    lines = np.full((len(_LINES), seconds.number), np.nan)
    rising = np.concatenate([[0.0], np.cumsum(weight)])
    each, first = np.unique(second, return_index=True)
    last = np.append(first[1:], len(second))
    for row, fraction in enumerate((FRACTIONS[0], FRACTIONS[-1])):
        ranks = rising[first] + fraction * (rising[last] - rising[first])
        lines[row, each] = latency[np.clip(np.searchsorted(rising, ranks) - 1, first, last - 1)]
    lines[-1, each] = latency[last - 1]
    return lines


def _probe_line(results: Results) -> Floats:
    """The p99 of the probe that waited longest, in seconds, for each second of its job."""
    recording = results.recording
    line = np.full(results.seconds.number, np.nan)
    for job in recording.probed:
        quantile = Histogram(job.latency).quantile(FRACTIONS[-1], job.slowest)
        if quantile is not None:
            begin, end = max(int(job.began - recording.began), 0), ceil(job.ended - recording.began)
            line[begin:end] = np.fmax(line[begin:end], quantile.value / 1e9)
    return line


def _shade(results: Results, panels: Sequence[Axes]) -> None:
    times = _times(results)
    for span in results.phases.spans:
        if span.phase in _SHADES:
            colour, alpha = _SHADES[span.phase]
            for axes in panels:
                axes.axvspan(times[span.begin], times[span.end], color=colour, alpha=alpha, linewidth=0, zorder=0)


def _mark(results: Results, panels: Sequence[Axes]) -> None:
    """What operators did as full lines, what the cluster did as dotted ones."""
    recording = results.recording
    begin = recording.began % _DAY - recording.began
    times = [line.time for line in recording.events if any(word in line.text for word in _HAPPENED)]
    for axes in panels:
        for time in times:
            axes.axvline(begin + time, color=COLOURS["faint"], linewidth=0.7, linestyle=":")
        for note in (*recording.marks, *recording.changes):
            axes.axvline(begin + note.time, color=COLOURS["ink"], linewidth=0.9)
    for number, note in enumerate(recording.marks, 1):
        panels[0].annotate(str(number), (begin + note.time, 1), xycoords=("data", "axes fraction"), fontsize=7,
                           xytext=(1, -8), textcoords="offset points", annotation_clip=True)  # fmt: skip


def _time_axes(results: Results, panels: Sequence[Axes]) -> None:
    times = _times(results)
    whole = times[-1] - times[0]
    step = next((each for each in _STEPS if whole <= each * _MOST_TICKS), _DAY)
    form = "%H:%M:%S" if step < 60 else "%H:%M"

    def label(time: float, _: object) -> str:
        """None where it would be cut off at the right edge."""
        return f"{datetime.fromtimestamp(time, UTC):{form}}" if time < times[-1] - _EDGE * whole else ""

    for axes in panels:
        axes.set_xlim(times[0], times[-1])
        axes.xaxis.set_major_locator(MultipleLocator(step))
        axes.xaxis.set_major_formatter(FuncFormatter(label if axes is panels[-1] else lambda *_: ""))


def _phase_words(results: Results) -> str:
    """``The phases: normal 40 s, outage 12 s, …``."""
    spans = (f"{span.phase.value} {span.end - span.begin} s" for span in results.phases.spans)
    return f"The phases: {', '.join(spans)}"


def _strip(results: Results, axes: Axes) -> None:
    """One bar over the time of the panels below, with a name in each phase that has room."""
    _shade(results, (axes,))
    times = _times(results)
    for span in results.phases.spans:
        if span.end - span.begin >= _NAMED_SHARE * results.seconds.number:
            middle = (times[span.begin] + times[span.end]) / 2
            axes.text(middle, 0.5, span.phase.value, ha="center", va="center", fontsize=7, color=COLOURS["ink"])
    axes.set_xlim(times[0], times[-1])
    axes.set_ylim(0, 1)
    axes.set_xticks([])
    axes.set_yticks([])


def _key(results: Results, figure: Figure) -> None:
    phases = [phase for phase in _SHADES if any(span.phase is phase for span in results.phases.spans)]
    patches = [Patch(color=_SHADES[phase][0], alpha=_SHADES[phase][1], label=phase.value, linewidth=0)
               for phase in phases]  # fmt: skip
    if patches:
        figure.legend(handles=patches, loc="upper left", ncols=4, bbox_to_anchor=(0.01, 1.0), columnspacing=1.0,
                      handlelength=1.2, handletextpad=0.4, borderaxespad=0.2)  # fmt: skip
