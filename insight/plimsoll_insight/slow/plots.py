"""Slow requests over time, all and by host and OSD, as PNG, SVG, or a page that needs nothing else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable
from plimsoll_insight.figures.page import page
from plimsoll_insight.slow.events import osd_name
from plimsoll_insight.slow.over_time import OverTime, width_words
from plimsoll_insight.slow.tree import Tree
from plimsoll_probes.output.report.drawing import COLOURS, HEAT, WIDTH, Axes, instead, png, themed_svg

_Name = TypeVar("_Name", str, int)
_MOST_COLUMNS = 480
_MOST_ROWS = 40
_LONGEST_NAME, _HEAD, _TAIL = 16, 5, 10
_FAINTEST = 0.2
"""Requests that would be as faint as the paper: 1 is to be seen."""
_STEPS = (1, 2, 5, 10, 15, 30, *(60 * each for each in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)))
_DAY = 86_400
_MOST_TICKS = 5
_ROW, _AROUND, _LINES = 0.19, 1.0, 2.2
"""Heights in inches: of a row of a heat map, of what is around it, of the panel with lines."""


@frozen(kw_only=True)
class SlowChart:
    """What is drawn, by interval of ``width`` seconds since ``begin``: all requests, and those by host and by OSD.
    ``is_part``: of more hosts or OSDs, those with most.
    """

    begin: float
    width: float
    requests: Sequence[int]
    hosts: Sequence[tuple[str, Sequence[int]]]
    osds: Sequence[tuple[str, Sequence[int]]]
    is_part: frozenset[str] = frozenset()


@frozen
class _Part:
    words: str
    height: float
    draw: Callable[[Axes], None]


def render(kind: str, over: OverTime, tree: Tree | None, sentences: Sequence[str]) -> bytes:
    """The file. The first sentence is the answer."""
    parts = list(_parts(chart_of(over, tree)))
    if kind == ".html":
        svgs = [(part.words, themed_svg(partial(_figure, [part]), part.height)) for part in parts]
        return page("Slow requests over time", sentences, svgs)
    height, width = sum(part.height for part in parts), 1.6 * WIDTH
    draw = partial(_figure, parts)
    return png(draw, height, width) if kind == ".png" else themed_svg(draw, height, width)


def chart_of(over: OverTime, tree: Tree | None) -> SlowChart:
    """In at most 480 intervals, also where none was slow; of the hosts and OSDs the 40 with most."""
    first, last = (over.intervals[at].begin if over.intervals else 0.0 for at in (0, -1))
    longer, number = 1, round((last - first) / over.width) + 1
    while number > longer * _MOST_COLUMNS:
        longer *= 2
    columns = -(-number // longer)
    requests = [0] * columns
    hosts: dict[str, list[int]] = {}
    osds: dict[int, list[int]] = {}
    for each in over.intervals:
        at = round((each.begin - first) / over.width) // longer
        requests[at] += each.requests
        for host, count in each.hosts.items():
            hosts.setdefault(host, [0] * columns)[at] += count
        for osd, count in each.osds.items():
            osds.setdefault(osd, [0] * columns)[at] += count
    place = {osd: number for number, osd in enumerate(tree.osds)} if tree else {}
    of_host = {osd: bucket.host for osd, bucket in tree.bucket_of.items()} if tree else {}
    short = _short(dict.fromkeys(of_host.values()))
    order = sorted(_most(osds), key=lambda osd: (place.get(osd, len(place)), osd))
    several = 1 < len(hosts) < len(osds)
    most = _most(hosts) if several else set()
    return SlowChart(
        begin=first,
        width=over.width * longer,
        requests=requests,
        hosts=[(words, hosts[host]) for host, words in short.items() if host in most],
        osds=[(f"{short[of_host[osd]] if osd in of_host else ''} {osd_name(osd)}", osds[osd]) for osd in order],
        is_part=frozenset(what for what, rows in (("host", hosts), ("OSD", osds)) if len(rows) > _MOST_ROWS),
    )


def _most(rows: dict[_Name, list[int]]) -> set[_Name]:
    sums = Counter({name: sum(numbers) for name, numbers in rows.items()})
    return {name for name, _ in sums.most_common(_MOST_ROWS)}


def _short(names: Collection[str]) -> dict[str, str]:
    """Where one is too long: without domains, unless hosts differ in these only, and then without their middle."""
    words = {name: printable(name) for name in names}
    if all(len(each) <= _LONGEST_NAME for each in words.values()):
        return words
    hosts = {name: each.partition(".")[0] for name, each in words.items()}
    if len(set(hosts.values())) == len(hosts):
        words = hosts
    return {
        name: each if len(each) <= _LONGEST_NAME else f"{each[:_HEAD]}…{each[-_TAIL:]}"
        for name, each in words.items()
    }


def _parts(chart: SlowChart) -> Iterable[_Part]:
    yield _Part("Slow requests over time", _LINES, partial(_lines, chart=chart))
    for what, rows in (("host", chart.hosts), ("OSD", chart.osds)):
        if rows:
            title = f"slow requests that each {what} may have caused"
            if what in chart.is_part:
                title = f"the {len(rows)} {what}s that may have caused most"
            yield _Part(
                f"{title[0].upper()}{title[1:]}", _AROUND + _ROW * len(rows), partial(_heat, chart, rows, title)
            )


def _figure(parts: Sequence[_Part], figure: Figure) -> None:
    figure.set_layout_engine("constrained")
    panels = figure.subplots(len(parts), 1, squeeze=False, height_ratios=[part.height for part in parts])
    for part, (axes,) in zip(parts, panels, strict=True):
        part.draw(axes)


def _lines(axes: Axes, chart: SlowChart) -> None:
    axes.set_title(f"slow requests in {width_words(chart.width)}")
    if not any(chart.requests):
        instead(axes, "no request was slow")
        return
    edges = range(len(chart.requests) + 1)
    axes.stairs(chart.requests, edges, color=COLOURS["p50"], fill=True)
    axes.set_ylim(0, 1.05 * max(chart.requests))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y", color=COLOURS["line"], linewidth=0.6)
    axes.set_axisbelow(True)
    _time(axes, chart)


def _heat(chart: SlowChart, rows: Sequence[tuple[str, Sequence[int]]], title: str, axes: Axes) -> None:
    axes.set_title(title)
    most = max(*(max(numbers) for _, numbers in rows), 10)
    cells = [[number or math.nan for number in numbers] for _, numbers in rows]
    mesh = axes.pcolormesh(
        range(len(chart.requests) + 1), range(len(rows) + 1), cells, cmap=HEAT, norm=LogNorm(_FAINTEST, most),
        rasterized=True,
    )  # fmt: skip
    axes.set_yticks([number + 0.5 for number in range(len(rows))], labels=[name.strip() for name, _ in rows])
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.invert_yaxis()
    _time(axes, chart)
    bar = axes.figure.colorbar(mesh, ax=axes, location="bottom", aspect=60, pad=0.02)
    bar.ax.set_xlim(1, most)
    bar.ax.xaxis.set_major_locator(LogLocator(10))
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:.0f}"))
    bar.ax.xaxis.set_minor_locator(NullLocator())
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)


def _time(axes: Axes, chart: SlowChart) -> None:
    axes.set_xlim(0, len(chart.requests))
    whole = chart.width * len(chart.requests)
    step = next(
        (each for each in _STEPS if whole <= each * _MOST_TICKS), _DAY * math.ceil(whole / _DAY / _MOST_TICKS)
    )
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < _DAY // 2 else "%d %b %H:%M"
    begin = math.ceil(chart.begin / step)
    times = [number * step for number in range(begin, math.floor((chart.begin + whole) / step) + 1)]
    axes.set_xticks(
        [(time - chart.begin) / chart.width for time in times],
        labels=[f"{datetime.fromtimestamp(time, UTC):{form}}" for time in times],
    )
