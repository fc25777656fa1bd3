"""Columns of tables, with how they are shown to people, and how wide they get. Nothing here knows cliff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from plimsoll_agent.errors import UsageError
from plimsoll_agent.terminal.wrap import longest_word
from plimsoll_agent.util.text import meant, printable

GAP = 2
NOTHING = "-"
_SILENT = frozenset({NOTHING, "?", ""})
_ENOUGH = 0.75
_LEAST = 8
"""Cells of a cropped name that are shown in any case."""


class Column(str):
    """The name of a column, which programs know it by, and its traits in a table.

    ``right``: numbers. ``drop``: where the terminal is narrow, 1 is left out first, then 2; 0 never. ``wraps``: cells
    may take several lines. ``most``: longer names are cropped on a narrow terminal, to no less than ``least``; longer
    words of cells that wrap are broken.
    ``long``: shown to people with ``--wide`` or ``-c`` only. ``note``: the reason of the column before it, a footnote
    where it is long. ``apart``: it tells rows apart whose names in the column before it look alike, and where it is
    left out its end goes there.
    """

    head: str
    """What people know it by."""
    right: bool
    drop: int
    wraps: bool
    most: int | None
    least: int
    long: bool
    note: bool
    apart: bool

    def __new__(
        cls,
        name: str,
        *,
        head: str | None = None,
        right: bool = False,
        drop: int = 0,
        wraps: bool = False,
        most: int | None = None,
        least: int = _LEAST,
        long: bool = False,
        note: bool = False,
        apart: bool = False,
    ) -> Column:
        self = super().__new__(cls, name)
        self.head = head or name.replace("_", " ").upper()
        self.right, self.drop, self.wraps, self.long, self.note = right, drop, wraps, long, note
        self.most, self.least, self.apart = most, least, apart
        return self

    @property
    def label(self) -> str:
        """The head, as it stands in front of one value: ``size``, ``MiB/s``, ``IOPS``."""
        return self.head.lower() if self.head.isupper() and self.head != "IOPS" else self.head


def guest_column(drop: int = 0) -> Column:
    """Nova's own names, ``instance-00000412``, are never cropped: they differ at the end."""
    return Column("guest", most=36, least=17, drop=drop, apart=True)


GUEST = guest_column()


@dataclass(frozen=True)
class Fitted:
    """The columns that are shown, by their numbers, and the width of each."""

    shown: Sequence[int]
    widths: Sequence[int]


def fitted(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int | None, *, every: bool
) -> Fitted | None:
    """How the cells fit into so many terminal cells; None if they do not.

    Names are cropped first. Then columns are dropped until three rows of four are one line, and the other cells wrap;
    where that cannot be, so many that most rows are one. With ``every`` no column is dropped.
    """
    sizes = [[cell_len(column.head), *(cell_len(row[n]) for row in cells)] for n, column in enumerate(columns)]
    whole = list(map(max, sizes))
    everything = range(len(columns))
    if width is None or _sum(whole) <= width:
        return Fitted(everything, whole)
    least = [_least_width(column, [row[n] for row in cells], whole[n]) for n, column in enumerate(columns)]
    drops, silent = ([], 0) if every else _drops(columns, cells)
    fits: list[tuple[float, Fitted]] = []
    for number in range(len(drops) + 1):
        places = [n for n in everything if n not in drops[:number]]
        shares = {n: least[n] for n in places}
        if _sum(shares.values()) > width:
            continue
        _share_out(shares, columns, sizes, width)
        fit, lines = Fitted(places, list(shares.values())), _one_line(columns, shares, sizes)
        if lines == 1 or (lines >= _ENOUGH and number >= silent):
            return fit
        if number >= silent:
            fits.append((lines, fit))
    if fits:
        return max(fits, key=lambda pair: pair[0])[1]
    return _smallest(columns, [n for n in everything if n not in drops], least, width)


def _smallest(columns: Sequence[Column], places: Sequence[int], least: Sequence[int], width: int) -> Fitted | None:
    """The last resort: all that may be dropped is, and names are cropped further."""
    widths = _cropped([least[n] for n in places], [columns[n] for n in places], width)
    return Fitted(places, widths) if _sum(widths) <= width else None


def _least_width(column: Column, cells: Sequence[str], whole: int) -> int:
    """The width to which cells may wrap or be cropped before a column is dropped."""
    if column.wraps:
        return max(cell_len(column.head), min(column.most or whole, max(map(longest_word, cells), default=0)))
    return max(min(whole, column.most), cell_len(column.head)) if column.most else whole


def _drops(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> tuple[list[int], int]:
    """The columns that may be dropped, the first one first, and how many of them say nothing."""
    drops = [n for n, column in enumerate(columns) if column.drop]
    silent = {n for n in drops if _SILENT.issuperset(row[n] for row in cells)}
    return sorted(drops, key=lambda n: (n not in silent, columns[n].drop)), len(silent)


def _share_out(widths: dict[int, int], columns: Sequence[Column], sizes: Sequence[Sequence[int]], width: int) -> None:
    """Give the columns what is left of the width."""
    _widen(widths, {n: sizes[n] for n in widths if columns[n].wraps}, width - _sum(widths.values()))
    _widen(widths, {n: sizes[n] for n in widths if columns[n].most}, width - _sum(widths.values()))
    for n in sorted(widths, key=lambda n: (not columns[n].wraps, -n)):  # fewer lines for the longest cells
        widths[n] += min(width - _sum(widths.values()), max(sizes[n]) - widths[n])


def _one_line(columns: Sequence[Column], widths: Mapping[int, int], sizes: Sequence[Sequence[int]]) -> float:
    """The share of the rows that are one line."""
    wrapping = [[size <= room for size in sizes[n]] for n, room in widths.items() if columns[n].wraps]
    rows = list(map(all, zip(*wrapping, strict=True)))
    return sum(rows) / len(rows) if rows else 1.0


def _sum(widths: Collection[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widen(widths: dict[int, int], sizes: Mapping[int, Sequence[int]], room: int) -> None:
    """Give room to the columns of these cells: first where each terminal cell makes the most of them whole."""
    wider = {n: Counter(size for size in each if size > widths[n]) for n, each in sizes.items()}
    while steps := [
        (sum(number for size, number in each.items() if size <= to) / (to - widths[n]), n, to)
        for n, each in wider.items()
        for to in each
        if to - widths[n] <= room
    ]:
        _, n, to = max(steps)
        room -= to - widths[n]
        widths[n] = to
        wider[n] = Counter({size: number for size, number in wider[n].items() if size > to})


def _cropped(widths: Sequence[int], columns: Sequence[Column], width: int) -> list[int]:
    """The widest names are cropped until all fits, or nothing is left to crop."""
    sizes = list(widths)
    while _sum(sizes) > width:
        names = [n for n, column in enumerate(columns) if column.most and sizes[n] > column.least]
        if not names:
            break
        sizes[max(names, key=sizes.__getitem__)] -= 1
    return sizes


def number_of(name: str, columns: Sequence[str], option: str) -> int:
    """Which column is meant, by its name or its head; case does not matter. Raises ``UsageError``."""
    key = _plain(name.strip().replace("-", "_"))
    keys = [_plain(column) for column in columns]
    heads = [_plain(column.head) if isinstance(column, Column) else _plain(column) for column in columns]
    for names in (keys, heads):
        if key in names:
            return names.index(key)
    raise UsageError(f"{option}: no column {printable(name)}; {meant(key, keys)}")


def _plain(name: str) -> str:
    return str(name).lower().replace(" ", "_")
