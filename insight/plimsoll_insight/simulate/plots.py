"""A simulated scenario over time: latency, IOPS and limits, as PNG, SVG, or a page that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import FuncFormatter, MaxNLocator

from plimsoll_agent.util.text import printable
from plimsoll_insight.figures.page import FigureTable, page
from plimsoll_insight.simulate.results import SimulatedOutcome, SimulationResult
from plimsoll_insight.simulate.scenario import Scenario
from plimsoll_probes.output.messages import iops_words
from plimsoll_probes.output.report.drawing import COLOURS, WIDTH, Axes, instead, latency_axis, png, themed_svg

_HEIGHT = 4.4
_MARGINS = {"left": 0.14, "right": 0.97, "top": 0.93, "bottom": 0.09, "hspace": 0.3}
_EDGE = 0.04
"""The part of the width in which a label of a tick has no room."""
_PERCENTILES = (("p50", "p50", "-"), ("p95", "p999", "-."), ("p99", "p99", "--"))
"""The name, whose colour, and the line."""
_OF = {"degrade": "of all objects", "speed": "of all OSDs"}


def render(kind: str, scenario: Scenario, result: SimulationResult, sentences: Sequence[str]) -> bytes:
    """The file."""
    if kind == ".html":
        drawings = [
            (
                f"{outcome.disks.name}: latency above, IOPS and limit below, over time",
                themed_svg(partial(_draw, scenario, outcome), _HEIGHT),
            )
            for outcome in result.outcomes
        ]
        return page(scenario.title, sentences, drawings, _tables(scenario))

    def draw(figure: Figure) -> None:
        parts = figure.subfigures(len(result.outcomes), 1, squeeze=False)[:, 0]
        for part, outcome in zip(parts, result.outcomes, strict=True):
            _draw(scenario, outcome, part)

    height, width = _HEIGHT * len(result.outcomes), 1.6 * WIDTH
    return png(draw, height, width) if kind == ".png" else themed_svg(draw, height, width)


def _tables(scenario: Scenario) -> list[FigureTable]:
    rows = [
        (
            disks.name,
            str(disks.number),
            f"queue of {disks.queue}" if disks.queue else f"{iops_words(disks.iops)} IOPS, {disks.arrivals}",
            ", ".join(f"{name}={value}" for name, value in disks.limits.in_effect().items()) or "unlimited",
        )
        for disks in scenario.disks
    ]
    events = [
        (f"{event.at:g} s", f"{event.act} {event.place or f'{100 * event.share:g} % {_OF[event.act]}'}")
        for event in scenario.events
    ]
    return [
        FigureTable("Disks", ("DISKS", "NUMBER", "LOAD OF EACH", "LIMITS OF EACH"), rows),
        FigureTable("Events", ("AT", "EVENT"), events),
    ]


def _draw(scenario: Scenario, outcome: SimulatedOutcome, figure: FigureBase) -> None:
    above, below = figure.subplots(2, 1, gridspec_kw=_MARGINS)
    edges = [0.0, *(each.end for each in outcome.slices)]
    _latencies(above, edges, outcome)
    _rates(below, edges, outcome)

    def label(at: float, _: object) -> str:
        """None where it would be cut off at the right edge."""
        return f"{at:g} s" if at < (1 - _EDGE) * scenario.duration else ""

    for axes in (above, below):
        axes.set_xlim(0, scenario.duration)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(FuncFormatter(label if axes is below else lambda *_: ""))
        for event in scenario.events:
            axes.axvline(event.at, color=COLOURS["ink"], linewidth=0.9)
        if scenario.warm_up:
            axes.axvspan(0, scenario.warm_up, color=COLOURS["beyond"], zorder=0)


def _latencies(axes: Axes, edges: Sequence[float], outcome: SimulatedOutcome) -> None:
    axes.set_title(f"{printable(outcome.disks.name)}: latency", pad=4)
    lines = {name: [getattr(each, name) for each in outcome.slices] for name, _, _ in _PERCENTILES}
    values = [value for line in lines.values() for value in line if value]
    if not values:
        instead(axes, "no request was completed")
        return
    axes.set_yscale("log")
    for name, colour, style in _PERCENTILES:
        line = [math.nan if value is None else value for value in lines[name]]
        axes.stairs(line, edges, baseline=None, color=COLOURS[colour], linestyle=style, linewidth=1.2, label=name)
    latency_axis(axes, min(values) / 1.5, max(1.5 * max(values), 20 * min(values)))
    _legend(axes)


def _rates(axes: Axes, edges: Sequence[float], outcome: SimulatedOutcome) -> None:
    axes.set_title("IOPS of all of them", pad=4)
    number = outcome.disks.number
    limits = [math.nan if each.limit is None else each.limit * number for each in outcome.slices]
    rates = [each.iops for each in outcome.slices]
    axes.stairs(rates, edges, baseline=None, color=COLOURS["p50"], linewidth=1.2, label="served")
    most = max(rates)
    if not all(map(math.isnan, limits)):
        axes.stairs(limits, edges, baseline=None, color=COLOURS["limit"], linewidth=1.2, label="limit")
        most = max(most, min(max(limits), 4 * most))
    axes.set_ylim(0, 1.08 * max(most, 1.0))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: iops_words(value)))
    axes.grid(axis="y", color=COLOURS["line"], linewidth=0.6)
    axes.set_axisbelow(True)
    _legend(axes)


def _legend(axes: Axes) -> None:
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=4, columnspacing=0.9, handletextpad=0.4,
                handlelength=2.2, borderaxespad=0)  # fmt: skip
