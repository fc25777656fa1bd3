"""The screen of ``plimsoll top``: a sample and a view as lines of a terminal of some size. Pure."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from datetime import datetime, timedelta

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from plimsoll_agent.messages.limits import rate_words
from plimsoll_agent.messages.tones import rich_style
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.terminal.cells import bar, cut, cut_middle, cut_words, fit, iops, mib, percent, steady
from plimsoll_agent.top.keys import HELP, About, Explained, Pane, Shape, View, settled
from plimsoll_agent.top.rewind import Rewound, change_words
from plimsoll_agent.top.rows import DiskRow, Planned, Wrong, rows, why
from plimsoll_agent.top.sampler import Sample
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import plural, printable

_GAP = "  "
_WRONGS = (Wrong.UNLIMITED, Wrong.FAR)
_LEAST_ROWS = 3
"""Rows of disks above an open pane."""
_PERCENT = 5
"""Cells of a share, so that they stand below each other."""


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
        yield _styled(text, "bold")


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
    return _styled(fit("   ".join(text for text, *_ in _fitting(parts, width)), width), "reverse")


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
        for number, part in enumerate(_wrapped(answer, max(width - first - len(_GAP), 10))):
            yield Text(fit(steady(source) if number == 0 else "", first) + _GAP).append_text(part)


def hold_command(row: DiskRow | None) -> Explained:
    """What holds the disk, to type or to paste: its closest limit stands in it, to be changed."""
    disk = None if row is None else row.disk
    if row is None or disk is None:
        return Explained("plimsoll disk hold add", ("the disk is no longer here",), ())
    limits = disk.actual if isinstance(disk.actual, Limits) else Limits()
    shares = row.usage.shares if row.usage is not None else {}
    base = max(shares, key=lambda each: shares[each], default="total_iops_sec")
    value = getattr(limits, base) or "NUMBER"
    name = f"{shlex.quote(steady(disk.guest.name))} {shlex.quote(steady(disk.target))}"
    command = f"plimsoll disk hold add {name} --for 2h --set {base}={value} --reason TEXT"
    return Explained(
        "hold this disk", (command,), (("--set", "changes this limit and keeps the others; 0 removes it"),)
    )


def _wrapped(text: str, width: int) -> Iterable[Text]:
    # Wrapping asks the console for its tabs, of which there are none.
    return Text(steady(text)).wrap(Console(file=io.StringIO()), width)


def _pane(pane: Pane, lines: Sequence[Text], page: int, width: int) -> Iterator[Text]:
    title = pane.explained.title if pane.explained else "plimsoll disk explain"
    first = max(0, min(pane.first, len(lines) - page))
    position = f"{first + 1}-{first + page} of {len(lines)}" if len(lines) > page else ""
    yield _styled(f"{fit(steady(title), max(width - cell_len(position) - 1, 0))} {position}", "reverse")
    yield from lines[first : first + page]


def _styled(text: str, style: str) -> Text:
    line = Text(text)
    line.stylize(style)
    return line


# --- columns


@frozen(kw_only=True)
class LiveColumn:
    """A column, and what its cell shows: text and style. The text alone has the whole meaning."""

    title: str
    cell: Callable[[DiskRow], tuple[str, str]]
    least: int = 0
    """Numbers have room to grow, so that columns do not move."""
    most: int | None = None
    """Cells of a longer text; None for numbers, which are never cut."""
    right: bool = False
    cut: Callable[[str, int], str] = cut_middle
    of_use: bool = False
    """It is about use and limits: a sentence may take its place."""


@frozen
class FittedColumn:
    """A column with its width."""

    column: LiveColumn
    width: int

    def cell(self, row: DiskRow) -> tuple[str, str]:
        text, style = self.column.cell(row)
        return fit(self.column.cut(text, self.width), self.width, right=self.column.right), style

    @property
    def title(self) -> str:
        return fit(self.column.title, self.width, right=self.column.right)


def _plain(show: Callable[[DiskRow], str]) -> Callable[[DiskRow], tuple[str, str]]:
    return lambda row: (show(row), "")


def _rate(words: Callable[[float], str], *bases: str) -> Callable[[DiskRow], tuple[str, str]]:
    def cell(row: DiskRow) -> tuple[str, str]:
        return ("?" if row.rates is None else " + ".join(words(row.rates.of(base)) for base in bases)), ""

    return cell


def _colour(share: float | None) -> str:
    return rich_style("at-limit") if share is not None and share >= AT_LIMIT_RATIO else ""


def _share(row: DiskRow) -> tuple[str, str]:
    """``99 % of 500 IOPS``: of the limit that the disk is closest to."""
    usage = row.usage
    if usage is None or not usage.shares:
        no_limit = isinstance(row.actual, Limits) and row.actual.unlimited
        return f"{'-' if no_limit else '?':>{_PERCENT}}", ""
    base = max(usage.shares, key=lambda each: (usage.shares[each], "_iops_" in each))
    mark = "*" if usage.sharing > 1 else ""
    limit = getattr(usage.disk.in_force, base, None)
    side = "" if base.startswith("total") else f"{base.partition('_')[0]} "
    of = f" of {side}{rate_words(limit, 'bytes' if '_bytes_' in base else 'iops')}" if limit else ""
    return f"{percent(usage.shares[base]):>{_PERCENT}}{mark}{of}", _colour(usage.shares[base])


def _bar(width: int) -> Callable[[DiskRow], tuple[str, str]]:
    def cell(row: DiskRow) -> tuple[str, str]:
        share = row.usage.share if row.usage else None
        return ("", "") if share is None else (bar(share, width), _colour(share))

    return cell


def _at_limit(row: DiskRow) -> tuple[str, str]:
    at_limit = row.usage.at_limit if row.usage else None
    if at_limit is None:
        return "-", ""
    return percent(at_limit.share) if at_limit.share else "", _colour(at_limit.share)


def _saved(row: DiskRow) -> tuple[str, str]:
    return (percent(min(row.saved.values())) if row.saved else ""), ""


def _limits(row: DiskRow) -> tuple[str, str]:
    return ("" if row.wrong or row.limit_unknown else row.limits_words), ""  # else a sentence stands there


_SERVER = LiveColumn(title="SERVER", cell=_plain(lambda row: steady(row.server or "-")), most=30)
_GUEST = LiveColumn(title="GUEST", cell=_plain(lambda row: steady(row.guest_name)), most=24)
_DISK = LiveColumn(title="DISK", cell=_plain(lambda row: steady(row.disk.target) if row.disk else ""), most=12)
_IOPS = LiveColumn(title="IOPS", cell=_rate(iops, "total_iops_sec"), least=5, right=True)
_MIB = LiveColumn(title="MiB/s", cell=_rate(mib, "total_bytes_sec"), least=5, right=True)
_SHARE = LiveColumn(title="OF LIMIT", cell=_share, least=18, of_use=True)
_BARS = [LiveColumn(title="", cell=_bar(width), least=width, of_use=True) for width in (10, 6)]
_AT_LIMIT = LiveColumn(title="AT LIMIT", cell=_at_limit, right=True, of_use=True)
_SAVED = LiveColumn(title="SAVED", cell=_saved, least=5, right=True, of_use=True)
"""Of the burst of which least is left; only where a disk has one."""
_LIMIT = LiveColumn(title="LIMIT", cell=_limits, least=18, most=40, cut=cut_words, of_use=True)
_TYPE = LiveColumn(title="TYPE", cell=_plain(lambda row: steady(row.type or "-")), most=16)
_READS = LiveColumn(title="READ + WRITE", cell=_rate(iops, "read_iops_sec", "write_iops_sec"), least=12, right=True)
_BYTES = LiveColumn(title="READ + WRITE", cell=_rate(mib, "read_bytes_sec", "write_bytes_sec"), least=12, right=True)
_VOLUME = LiveColumn(
    title="VOLUME", cell=_plain(lambda row: (row.disk.volume_id or "(own disk)") if row.disk else ""), most=36
)
_PROJECT = LiveColumn(title="PROJECT", cell=_plain(lambda row: steady(_project(row) or "-")), most=24)


def _project(row: DiskRow) -> str | None:
    return (row.disk.guest.project_name or row.disk.guest.project) if row.disk else None


# Columns by the width of the terminal: the first line that fits, see ``_fitted``. A disk comes after the names that
# tenants choose: a terminal that reorders right-to-left text moves figures after it too (Unicode's bidi algorithm, W2
# to N2), and the Latin letters of the disk stop that. So a project, which has none after it, ends the line.
_NAMES = (_SERVER, _GUEST, _DISK)


_SAID = 30
"""Room for ``unlimited, desired 250 IOPS…``, if a row needs it."""


@frozen
class _Layout:
    columns: Sequence[LiveColumn]
    server: int = 17
    guest: int = 17
    """Where there is no room for whole names, this much of them is shown."""

    def without(self, *columns: LiveColumn) -> _Layout:
        return replace(self, columns=[column for column in self.columns if column not in columns])

    @property
    def least(self) -> int:
        """No terminal below this width has room for it, whatever the rows."""
        return sum(max(cell_len(column.title), column.least) + len(_GAP) for column in self.columns) - len(_GAP)


_LAYOUTS = (
    _Layout(
        (*_NAMES, _IOPS, _READS, _MIB, _BYTES, _BARS[0], _SHARE, _AT_LIMIT, _SAVED, _LIMIT, _TYPE, _VOLUME, _PROJECT)
    ),
    _Layout((*_NAMES, _IOPS, _READS, _MIB, _BYTES, _BARS[0], _SHARE, _AT_LIMIT, _SAVED, _LIMIT, _TYPE, _VOLUME)),
    _Layout((*_NAMES, _IOPS, _READS, _MIB, _BYTES, _BARS[0], _SHARE, _AT_LIMIT, _SAVED, _LIMIT, _TYPE)),
    _Layout((*_NAMES, _IOPS, _MIB, _BARS[0], _SHARE, _AT_LIMIT, _SAVED, _LIMIT, _TYPE)),
    _Layout((*_NAMES, _IOPS, _MIB, _BARS[0], _SHARE, _AT_LIMIT, _SAVED, _LIMIT)),
    _Layout((*_NAMES, _IOPS, _MIB, _BARS[0], _SHARE, _AT_LIMIT, _SAVED)),
    _Layout((*_NAMES, _IOPS, _MIB, _BARS[1], _SHARE, _AT_LIMIT, _SAVED), server=8),
    _Layout((*_NAMES, _IOPS, _MIB, _SHARE, _AT_LIMIT, _SAVED), server=8, guest=8),
    _Layout((*_NAMES, _IOPS, _MIB, _SHARE), server=8, guest=8),
    _Layout((_GUEST, _DISK, _IOPS, _MIB, _SHARE), guest=8),
)
_WITHOUT_BURSTS = [layout.without(_SAVED) for layout in _LAYOUTS]


def _fitted(matches: Sequence[DiskRow], width: int) -> list[FittedColumn]:
    """The columns for a terminal, from all rows, so that nothing moves when the list is scrolled."""
    natural: dict[LiveColumn, int] = {}
    brief = max((cell_len(row.limits_brief) for row in matches if row.wrong), default=0)
    layouts = _LAYOUTS if any(row.saved for row in matches) else _WITHOUT_BURSTS
    for layout in layouts:
        if layout is not layouts[-1] and layout.least > width:
            continue
        for column in layout.columns:
            if column not in natural:
                natural[column] = _natural(column, matches)
        widths = {column: natural[column] for column in layout.columns}
        use = [wide for column, wide in widths.items() if column.of_use]
        widths[_SHARE] += max(min(brief, _SAID) - sum(use) - len(_GAP) * (len(use) - 1), 0)
        spare = width - sum(widths.values()) - len(_GAP) * (len(widths) - 1)
        for column, least in ((_SERVER, layout.server), (_GUEST, layout.guest), (_LIMIT, _LIMIT.least)):
            if spare < 0 and column in widths:
                gives = max(0, min(-spare, widths[column] - least))
                widths[column] -= gives
                spare += gives
        if spare >= 0:
            break
    return [FittedColumn(column, wide) for column, wide in widths.items()]


def _natural(column: LiveColumn, matches: Sequence[DiskRow]) -> int:
    cells = max((cell_len(column.cell(row)[0]) for row in matches), default=0)
    most = cells if column.most is None else min(cells, column.most)
    return max(most, cell_len(column.title), column.least)


# --- the table


def table(
    matches: Sequence[DiskRow], width: int, first: int, lines: int, cursor: int | None = None
) -> Iterator[Text]:
    """The titles, and ``lines`` rows from ``first`` on."""
    columns = _fitted(matches, width)
    yield _styled(fit(_GAP.join(column.title for column in columns), width), "bold")
    for number, row in enumerate(matches[first : first + lines], start=first):
        line = Text(_GAP).join(_cells(row, columns, width))
        line.append(" " * (width - cell_len(line.plain)))
        if number == cursor:
            line.stylize("reverse")
        yield line


def _cells(row: DiskRow, columns: Sequence[FittedColumn], width: int) -> Iterator[Text]:
    """The cells of a row; a sentence takes the place of those that have nothing to say."""
    names = sum(place.column in _NAMES for place in columns)
    if row.usage is None or (row.rates is None and row.wrong is Wrong.NOT):
        yield from _each(row, columns[:names])
        room = sum(place.width + len(_GAP) for place in columns[:names])
        yield _sentence(_unknown(row), rich_style("unknown"), width - room)
        return
    use = [number for number, place in enumerate(columns) if place.column.of_use]
    if row.wrong is Wrong.NOT and not row.limit_unknown:
        yield from _each(row, columns)
        return
    room = sum(columns[number].width + len(_GAP) for number in use) - len(_GAP)
    yield from _each(row, columns[: use[0]])
    text = row.limits_words
    if cell_len(text) > room and row.wrong:
        text = row.limits_brief
    yield _sentence(text, rich_style(row.wrong.code), room)
    yield from _each(row, columns[use[-1] + 1 :])


def _each(row: DiskRow, columns: Iterable[FittedColumn]) -> Iterator[Text]:
    for place in columns:
        text, style = place.cell(row)
        yield _styled(text, style)


def _sentence(text: str, style: str, width: int) -> Text:
    return _styled(fit(cut_words(text, width), width), style)


def _unknown(row: DiskRow) -> str:
    if row.usage is None:
        return f"disks unknown: {why(row.reason)}" if row.reason else "disks unknown"
    return f"unknown: {why(row.reason)}" if row.reason else "unknown until the second reading"
