"""Columns of tables, with how they are shown to people, and how wide they get. Nothing here knows cliff."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from plimsoll_agent.errors import UsageError
from plimsoll_agent.util.text import meant, printable

GAP = 2
GLUE = "\ue000"
"""In place of a space at which no line ends. It is not printable, so it is in no cell."""
NOTHING = "-"
_UNIT = re.compile(r"(?<![^\s(])(\d(?:[\d.,]*\d)?) (?=[^\W\d]|%)")
_NAMED = re.compile(r"(\w_\w+|\bread|\bwrite) (?=\d)")
_LEAST = 8
"""Cells of a cropped name that are shown in any case."""


class Column(str):
    """The name of a column, which programs know it by, and its traits in a table.

    ``right``: numbers. ``drop``: where the terminal is narrow, 1 is left out first, then 2; 0 never. ``wraps``: cells
    may take several lines. ``most``: longer names are cropped where the terminal is narrow. ``long``: shown to people
    with ``--long`` or ``-c`` only. ``note``: the reason of the column before it, a footnote where it is long.
    """

    head: str
    """What people know it by."""
    right: bool
    drop: int
    wraps: bool
    most: int | None
    long: bool
    note: bool

    def __new__(
        cls,
        name: str,
        *,
        head: str | None = None,
        right: bool = False,
        drop: int = 0,
        wraps: bool = False,
        most: int | None = None,
        long: bool = False,
        note: bool = False,
    ) -> Column:
        self = super().__new__(cls, name)
        self.head = (head or name).replace("_", " ").upper()
        self.right, self.drop, self.wraps, self.most, self.long, self.note = right, drop, wraps, most, long, note
        return self


@dataclass(frozen=True)
class Fitted:
    """The columns that are shown, by their numbers, and the width of each."""

    shown: Sequence[int]
    widths: Sequence[int]


def fitted(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int | None, *, all: bool
) -> Fitted | None:
    """How the cells fit into so many terminal cells; None if they do not.

    One line a row comes first: names are cropped, then columns dropped. Then cells wrap. With ``all`` no column is
    dropped.
    """
    whole = [
        max([cell_len(column.head), *(cell_len(row[number]) for row in cells)])
        for number, column in enumerate(columns)
    ]
    everything = range(len(columns))
    if width is None or _sum(whole) <= width:
        return Fitted(everything, whole)
    capped = [
        max(min(natural, column.most), cell_len(column.head)) if column.most else natural
        for natural, column in zip(whole, columns, strict=True)
    ]
    least = [
        max([cell_len(column.head), *(_longest_word(row[number]) for row in cells)])
        if column.wraps
        else capped[number]
        for number, column in enumerate(columns)
    ]
    drops = [n for n in everything if columns[n].drop and not all]
    drops.sort(
        key=lambda n: (any(row[n] != NOTHING for row in cells), columns[n].drop)
    )  # what says nothing goes first
    for widths in (capped, least):
        for dropped in range(len(drops) + 1):
            kept = [number for number in everything if number not in drops[:dropped]]
            room = width - _sum([widths[number] for number in kept])
            if room >= 0:
                return Fitted(kept, list(_widened([widths[n] for n in kept], [capped[n] for n in kept], room)))
    kept = [number for number in everything if number not in drops]
    widths = _cropped([least[n] for n in kept], [columns[n] for n in kept], width)
    return Fitted(kept, widths) if _sum(widths) <= width else None


def glued(text: str) -> str:
    """The text with ``GLUE`` between numbers and their units, and between names and their numbers."""
    return _NAMED.sub(rf"\1{GLUE}", _UNIT.sub(rf"\1{GLUE}", text))


def _longest_word(text: str) -> int:
    return max(map(cell_len, glued(text).split()), default=0)


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widened(widths: Sequence[int], wanted: Sequence[int], room: int) -> Iterator[int]:
    """Columns get what they want from the left while there is room; the last that wraps gets the rest."""
    last = max((n for n, width in enumerate(widths) if width < wanted[n]), default=-1)
    for number, width in enumerate(widths):
        more = wanted[number] - width
        if number == last:
            more = min(more, room)
        elif more > room:
            more = 0
        room -= more
        yield width + more


def _cropped(widths: Sequence[int], columns: Sequence[Column], width: int) -> list[int]:
    """The widest names are cropped until all fits, or nothing is left to crop."""
    cropped = list(widths)
    while _sum(cropped) > width:
        names = [n for n, column in enumerate(columns) if column.most and cropped[n] > _LEAST]
        if not names:
            break
        cropped[max(names, key=cropped.__getitem__)] -= 1
    return cropped


def number_of(name: str, columns: Sequence[str], option: str) -> int:
    """Which column is meant, by its name or its head; case does not matter. Raises ``UsageError``."""
    wanted = _plain(name.strip().replace("-", "_"))
    known = [_plain(column) for column in columns]
    heads = [_plain(column.head) if isinstance(column, Column) else _plain(column) for column in columns]
    for names in (known, heads):
        if wanted in names:
            return names.index(wanted)
    raise UsageError(f"{option}: no column {printable(name)}; {meant(wanted, known)}")


def _plain(name: str) -> str:
    return str(name).lower().replace(" ", "_")
