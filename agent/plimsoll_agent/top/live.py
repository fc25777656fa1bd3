"""The screen of ``plimsoll top``: a sample and a view as lines of a terminal of some size. Pure."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from datetime import datetime, timedelta

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from plimsoll_agent.messages.tones import rich_style
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.terminal.cells import cut, fit, steady
from plimsoll_agent.top.columns import GAP, styled, table
from plimsoll_agent.top.keys import HELP, About, Explained, Pane, Shape, View, settled
from plimsoll_agent.top.rewind import Rewound, change_words
from plimsoll_agent.top.rows import DiskRow, Planned, Wrong, rows
from plimsoll_agent.top.sampler import Sample
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import plural, printable

_WRONGS = (Wrong.UNLIMITED, Wrong.FAR)
_LEAST_ROWS = 3
"""Rows of disks above an open pane."""


@frozen(kw_only=True)
class Contents:
    """A sample with its time and node, what a pass would decide on it, and what is wrong with the sampling."""

    sample: Sample
    at: datetime
    node: str
    interval: float
    planned: Planned = field(default_factory=Planned)
    late: float | None = None
    """Seconds that a round takes, where it is longer than the interval."""
    trouble: str | None = None
    past: Rewound | None = None
    """Of a screen that shows a pass before now."""


@frozen
class Frame:
    """All lines of the terminal, and the view that they show: settled on the rows that there are now."""

    lines: Sequence[Text]
    view: View
    shape: Shape


def screen(contents: Contents, view: View, width: int, height: int) -> Frame:
    every = rows(contents.sample, contents.planned, view.sort, reverse=view.reverse)
    matches = [row for row in every if row.means(view.needle)]
    top = list(_head(contents, every, view, width))
    room = max(height - len(top) - 2, 1)  # for rows and pane; besides there are the titles and the foot
    if view.pane is not None and view.pane.about is About.HOLD and view.pane.explained is None:
        row = next((row for row in every if row.key == view.pane.key), None)
        view = replace(view, pane=replace(view.pane, explained=hold_command(row)))
    pane = [] if view.pane is None else list(_pane_lines(view.pane, width))
    pane_page = min(len(pane), max(room - 1 - _LEAST_ROWS, 1))
    page = max(room - (pane_page + 1 if view.pane is not None else 0), 1)
    shape = Shape(rows=[row.key for row in matches], page=page, pane_page=pane_page, pane_lines=len(pane))
    view = settled(view, shape)
    if view.help:
        lines = [*top, Text(""), *map(Text, HELP.splitlines())]
    else:
        body = list(table(matches, width, view.first, page, cursor=view.at))
        if not matches and not contents.trouble:
            body.append(Text("no disk matches the filter" if view.needle else "no RBD disk on any running guest"))
        body += [Text("")] * (page + 1 - len(body))
        if view.pane is not None:
            body += _pane(view.pane, pane, pane_page, width)
        lines = [*top, *body, _foot(view, page, len(matches), width)]
    for line in lines:
        line.truncate(width)
    return Frame(lines[:height], view, shape)


# --- the head: what is wrong, in few words


def _head(contents: Contents, every: Sequence[DiskRow], view: View, width: int) -> Iterator[Text]:
    """A line about the node, and one about errors, if any."""
    sample = contents.sample
    wrongs = [row.wrong for row in every]
    at_limit = sum((usage.share or 0) >= AT_LIMIT_RATIO for usage in sample.usages)
    parts = [(f"{steady(contents.node)} {_time(contents)}", "", 0)]
    parts += [(f"{n} {wrong.words}", rich_style(wrong.code), 0) for wrong in _WRONGS if (n := wrongs.count(wrong))]
    if unknown := sum(row.unknown for row in every):
        parts.append((f"{unknown} unknown", rich_style("unknown"), 0))
    parts.append((f"{at_limit} at limit", "", 1))
    if mode := contents.planned.mode:
        parts.insert(1, (mode, "" if mode == "enforce" else "bold", 2 if mode == "enforce" else 0))
    parts.append((f"{plural(len(sample.usages), 'disk')} on {plural(sample.guests, 'guest')}", "", 2))
    if contents.past is not None:
        parts.append((_back_words(contents.past), "bold", 0))
    else:
        parts.append(("PAUSED", "bold", 0) if view.paused else (f"every {contents.interval:g} s", "", 3))
    line = Text()
    for number, (text, style, _) in enumerate(_fitting(parts, width)):
        line.append("   " if number else "").append(text, style)
    line.append(" " * (width - cell_len(line.plain)))
    line.stylize("reverse")
    yield line
    if contents.past is not None:
        yield Text(fit(_past_words(contents.past, sample, width), width))
    wrong = list(_wrong(contents, width))
    if wrong:
        text = fit("; ".join(wrong), width)
        yield styled(text, "bold")


def _time(contents: Contents) -> str:
    """With the date where Prometheus has it: it may be days ago."""
    from_prometheus = contents.past is not None and contents.past.moment.of.step is not None
    return f"{contents.at:%Y-%m-%d %H:%M}Z" if from_prometheus else f"{contents.at:%H:%M:%S}Z"


def _back_words(past: Rewound) -> str:
    """How far back it is, and where its figures come from."""
    step = past.moment.of.step
    if step is None:
        return f"PAST: {plural(past.back, 'pass', 'passes')} back, > forward"
    return f"PAST: {past.back} back, Prometheus, mean of {durations.words(timedelta(seconds=step))}"


def _past_words(past: Rewound, sample: Sample, width: int) -> str:
    """The passes that are known as a strip, and what was changed before the one that is shown."""
    first, last = past.moments[0].of.at, past.moments[-1].of.at
    date = "%Y-%m-%d " if last - first >= timedelta(hours=23) else ""
    strip = f"{first:{date}%H:%M}Z {past.strip(width // 3)} {last:%H:%M}Z"
    changes = change_words(past.moment, sample)
    losses = f"; {plural(past.gone, 'disk')} of then not here now" if past.gone else ""
    return f"{strip}   {f'changed: {steady(changes)}' if changes else 'no limit changed'}{losses}"


def _fitting(parts: Sequence[tuple[str, str, int]], width: int) -> Sequence[tuple[str, str, int]]:
    """The parts that fit into a line: those with the highest number are left out first, those with 0 never."""
    parts = list(parts)
    while sum(cell_len(text) + 3 for text, *_ in parts) - 3 > width and any(drop for *_, drop in parts):
        parts.remove(max(parts, key=lambda part: part[2]))
    return parts


def _wrong(contents: Contents, width: int) -> Iterator[str]:
    if contents.late is not None:
        yield f"a reading takes {contents.late:.1f} s, longer than the interval"
    if contents.trouble:
        yield printable(contents.trouble)
    elif contents.sample.unreachable:
        names = [cut(steady(unreachable.guest.name), 30) for unreachable in contents.sample.unreachable]
        number = max(1, min(len(names), (width - 30) // 20))
        more = f" and {len(names) - number} more" if number < len(names) else ""
        yield f"unreachable: {', '.join(names[:number])}{more}"
    if contents.planned.complaint:
        yield printable(" ".join(contents.planned.complaint.splitlines()))


def _foot(view: View, page: int, number: int, width: int) -> Text:
    position = f"{min(view.first + 1, number)}-{min(view.first + page, number)} of {number}"
    needle = cut(steady(view.needle), 20)
    if view.typing:
        parts = [(f"filter: {needle}_", "", 0), ("Enter keep", "", 1), ("Esc all", "", 2), (position, "", 0)]
    else:
        parts = [
            ("q quit", "", 0),
            ("? help", "", 1),
            ("< past", "", 5),
            (f"/ filter: {needle}" if view.needle else "/ filter", "", 0 if view.needle else 4),
            (f"sort: {view.sort}{' reversed' if view.reverse else ''}", "", 3),
            ("Esc close" if view.pane else "Enter explain", "", 2),
            (position, "", 0),
        ]
    return styled(fit("   ".join(text for text, *_ in _fitting(parts, width)), width), "reverse")


# --- the pane: why a disk has its limits


def _pane_lines(pane: Pane, width: int) -> Iterator[Text]:
    """All lines of an explanation, of which some are shown."""
    if pane.explained is None:
        yield Text("reading …")
        return
    for line in pane.explained.head:
        yield from _wrapped(line, width)
    first = min(max((cell_len(steady(source)) for source, _ in pane.explained.rows), default=0), 30)
    for source, answer in pane.explained.rows:
        for number, part in enumerate(_wrapped(answer, max(width - first - len(GAP), 10))):
            yield Text(fit(steady(source) if number == 0 else "", first) + GAP).append_text(part)


def hold_command(row: DiskRow | None) -> Explained:
    """What holds the disk, to type or to paste: its closest limit stands in it, to be changed."""
    disk = None if row is None else row.disk
    if row is None or disk is None:
        return Explained(title="plimsoll disk hold add", head=("the disk is no longer here",), rows=())
    limits = disk.actual if isinstance(disk.actual, Limits) else Limits()
    shares = row.usage.shares if row.usage is not None else {}
    base = max(shares, key=lambda each: shares[each], default="total_iops_sec")
    value = getattr(limits, base) or "NUMBER"
    name = f"{shlex.quote(steady(disk.guest.name))} {shlex.quote(steady(disk.target))}"
    command = f"plimsoll disk hold add {name} --for 2h --set {base}={value} --reason TEXT"
    return Explained(
        title="hold this disk",
        head=(command,),
        rows=(("--set", "changes this limit and keeps the others; 0 removes it"),),
    )


def _wrapped(text: str, width: int) -> Iterable[Text]:
    # Wrapping asks the console for its tabs, of which there are none.
    return Text(steady(text)).wrap(Console(file=io.StringIO()), width)


def _pane(pane: Pane, lines: Sequence[Text], page: int, width: int) -> Iterator[Text]:
    title = pane.explained.title if pane.explained else "plimsoll disk explain"
    first = max(0, min(pane.first, len(lines) - page))
    position = f"{first + 1}-{first + page} of {len(lines)}" if len(lines) > page else ""
    yield styled(f"{fit(steady(title), max(width - cell_len(position) - 1, 0))} {position}", "reverse")
    yield from lines[first : first + page]
