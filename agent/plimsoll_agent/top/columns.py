"""The columns of ``plimsoll top``, those that fit a terminal, and the table of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from plimsoll_agent.messages.limits import rate_words
from plimsoll_agent.messages.tones import rich_style
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.terminal.cells import bar, cut_middle, cut_words, fit, iops, mib, percent, steady
from plimsoll_agent.top.rows import DiskRow, Wrong, why
from plimsoll_agent.util.frozen import frozen, replace

GAP = "  "
_PERCENT = 5
"""Cells of a share, so that they stand below each other."""


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
        return sum(max(cell_len(column.title), column.least) + len(GAP) for column in self.columns) - len(GAP)


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
        widths[_SHARE] += max(min(brief, _SAID) - sum(use) - len(GAP) * (len(use) - 1), 0)
        spare = width - sum(widths.values()) - len(GAP) * (len(widths) - 1)
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


def styled(text: str, style: str) -> Text:
    line = Text(text)
    line.stylize(style)
    return line


# --- the table


def table(
    matches: Sequence[DiskRow], width: int, first: int, lines: int, cursor: int | None = None
) -> Iterator[Text]:
    """The titles, and ``lines`` rows from ``first`` on."""
    columns = _fitted(matches, width)
    yield styled(fit(GAP.join(column.title for column in columns), width), "bold")
    for number, row in enumerate(matches[first : first + lines], start=first):
        line = Text(GAP).join(_cells(row, columns, width))
        line.append(" " * (width - cell_len(line.plain)))
        if number == cursor:
            line.stylize("reverse")
        yield line


def _cells(row: DiskRow, columns: Sequence[FittedColumn], width: int) -> Iterator[Text]:
    """The cells of a row; a sentence takes the place of those that have nothing to say."""
    names = sum(place.column in _NAMES for place in columns)
    if row.usage is None or (row.rates is None and row.wrong is Wrong.NOT):
        yield from _each(row, columns[:names])
        room = sum(place.width + len(GAP) for place in columns[:names])
        yield _sentence(_unknown(row), rich_style("unknown"), width - room)
        return
    use = [number for number, place in enumerate(columns) if place.column.of_use]
    if row.wrong is Wrong.NOT and not row.limit_unknown:
        yield from _each(row, columns)
        return
    room = sum(columns[number].width + len(GAP) for number in use) - len(GAP)
    yield from _each(row, columns[: use[0]])
    text = row.limits_words
    if cell_len(text) > room and row.wrong:
        text = row.limits_brief
    yield _sentence(text, rich_style(row.wrong.code), room)
    yield from _each(row, columns[use[-1] + 1 :])


def _each(row: DiskRow, columns: Iterable[FittedColumn]) -> Iterator[Text]:
    for place in columns:
        text, style = place.cell(row)
        yield styled(text, style)


def _sentence(text: str, style: str, width: int) -> Text:
    return styled(fit(cut_words(text, width), width), style)


def _unknown(row: DiskRow) -> str:
    if row.usage is None:
        return f"disks unknown: {why(row.reason)}" if row.reason else "disks unknown"
    return f"unknown: {why(row.reason)}" if row.reason else "unknown until the second reading"
