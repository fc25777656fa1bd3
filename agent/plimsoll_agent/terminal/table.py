"""Tables for people. A pipe gets one line a row, uncut; a terminal what fits, wrapped by rich where it has to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from rich.cells import cell_len

from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.terminal.cells import cut_middle
from plimsoll_agent.terminal.columns import GAP, NOTHING, Column, Fitted, fitted
from plimsoll_agent.terminal.output import Terminal
from plimsoll_agent.terminal.wrap import GLUE, unglued, wrapped
from plimsoll_agent.util.frozen import replace

_LONG_REASON = 30
_OFTEN = 4
_AT_ONCE = 1000
_NARROWEST = 20
_END = 4
"""Of a guest's name: of Nova's, the last digits of its number."""
_SHORT = 10


@dataclass(frozen=True)
class Cell:
    """Printable text, and its tone."""

    text: str
    tone: Tone | None = None


Row = Sequence[Cell]


def lines(
    columns: Sequence[Column], rows: Sequence[Row], terminal: Terminal, *, asked: bool = False, remedy: str = " or -c"
) -> Iterator[str]:
    """``asked``: no column is dropped. ``remedy`` shows what was dropped."""
    notes: Sequence[Row] = ()
    fit = _fitted(columns, rows, terminal.width, asked)
    number = next((number for number, column in enumerate(columns) if column.note), 0)
    if number and terminal.width is not None and (not _is_whole(fit, columns, rows) or _repeats(rows, number)):
        columns, rows, notes = _footnotes(columns, rows, number)
        fit = _fitted(columns, rows, terminal.width, asked)
    if fit is not None and (apart := _told_apart(columns, rows, fit)) is not rows:
        rows, fit = apart, _fitted(columns, apart, terminal.width, asked)
    if fit is None:
        yield from records(columns, rows, terminal)
    else:
        yield from _grid(
            [columns[number] for number in fit.shown],
            [[Cell(column.head, Tone.HEADING) for column in columns], *rows],
            fit,
            terminal,
        )
        others = [column for number, column in enumerate(columns) if number not in fit.shown]
        if others:
            names = ", ".join(column.head for column in others)
            yield from paragraph(f"Hidden: {names}. A wider terminal{remedy} shows them.", terminal)
    yield from pairs(notes, terminal)


def piped(columns: Sequence[Column], rows: Iterable[Row], terminal: Terminal) -> Iterator[str]:
    """For a pipe: some rows at a time, so that many take no memory. A column never gets narrower."""
    rest = iter(rows)
    part: list[Row] = [[Cell(column.head, Tone.HEADING) for column in columns], *islice(rest, _AT_ONCE)]
    widths = [0] * len(columns)
    while part:
        widths = [max(width, *(cell_len(row[number].text) for row in part)) for number, width in enumerate(widths)]
        yield from _grid(columns, part, Fitted(range(len(columns)), widths), terminal)
        part = list(islice(rest, _AT_ONCE))


def records(columns: Sequence[Column], rows: Sequence[Row], terminal: Terminal) -> Iterator[str]:
    """A line a cell, and an empty line between rows."""
    for number, row in enumerate(rows):
        if number:
            yield ""
        names = (Cell(column.label) for column in columns)
        yield from pairs(list(zip(names, row, strict=True)), terminal)


def pairs(rows: Sequence[Row], terminal: Terminal) -> Iterator[str]:
    """Two columns, the second as wide as the terminal lets it be."""
    if not rows:
        return
    first, second = (max(cell_len(row[number].text) for row in rows) for number in (0, 1))
    if terminal.width is not None:
        second = min(second, max(terminal.width - first - GAP, _NARROWEST))
    yield from _grid((Column("name"), Column("value", wraps=True)), rows, Fitted((0, 1), (first, second)), terminal)


def paragraph(text: str, terminal: Terminal) -> Iterator[str]:
    """The text in lines that fit; it must be printable."""
    width = cell_len(text) if terminal.width is None else terminal.width
    yield from _grid((Column("text", wraps=True),), [[Cell(text)]], Fitted((0,), (width,)), terminal)


def _fitted(columns: Sequence[Column], rows: Sequence[Row], width: int | None, asked: bool) -> Fitted | None:
    texts = [[cell.text for cell in row] for row in rows]
    return fitted(columns, texts, width, every=asked)


def _is_whole(fit: Fitted | None, columns: Sequence[Column], rows: Sequence[Row]) -> bool:
    """Whether each row is one line with all its columns, and nothing is cropped."""
    if fit is None or len(fit.shown) < len(columns):
        return False
    return all(cell_len(cell.text) <= width for row in rows for cell, width in zip(row, fit.widths, strict=True))


def _repeats(rows: Sequence[Row], number: int) -> bool:
    often = Counter(row[number].text for row in rows).most_common(1)
    return any(count >= _OFTEN and cell_len(text) > _LONG_REASON for text, count in often)


def _told_apart(columns: Sequence[Column], rows: Sequence[Row], fit: Fitted) -> Sequence[Row]:
    """The rows, with the end of the name that tells them apart where its column is left out: ``web-1 …0412``."""
    number = next((number for number, column in enumerate(columns) if column.apart), 0)
    if not number or number in fit.shown or number - 1 not in fit.shown:
        return rows
    width = fit.widths[list(fit.shown).index(number - 1)]
    names: dict[str, set[str]] = {}
    for row in rows:
        names.setdefault(cut_middle(row[number - 1].text, width), set()).add(row[number].text)
    body = list[Row]()
    for row in rows:
        name, others = row[number - 1], names[cut_middle(row[number - 1].text, width)]
        if len(others) > 1:
            short = cut_middle(name.text, max(width - _END - 2, _SHORT))
            text = f"{short}{GLUE}…{row[number].text[-_END:]}"
            row = [*row[: number - 1], replace(name, text=text), *row[number:]]
        body.append(row)
    return body if body != list(rows) else rows


def _footnotes(
    columns: Sequence[Column], rows: Sequence[Row], number: int
) -> tuple[Sequence[Column], Sequence[Row], Sequence[Row]]:
    """The reasons, each once, and the table with their numbers in the column before."""
    numbers: dict[str, int] = {}
    body = []
    for row in rows:
        why, cells = row[number].text, list(row)
        if why and why != NOTHING:
            mark = numbers.setdefault(why, len(numbers) + 1)
            cells[number - 1] = replace(cells[number - 1], text=f"{cells[number - 1].text}{GLUE}[{mark}]")
        del cells[number]
        body.append(cells)
    heads = [column for each, column in enumerate(columns) if each != number]
    return heads, body, [(Cell(f"[{mark}]"), Cell(why)) for why, mark in numbers.items()]


def _grid(columns: Sequence[Column], rows: Sequence[Row], fit: Fitted, terminal: Terminal) -> Iterator[str]:
    """The rows, of which only the columns that are shown; ``columns`` are those already."""
    cache: dict[tuple[str, int], Sequence[str]] = {}

    def parts(cell: Cell, column: Column, width: int) -> Sequence[str]:
        if cell_len(cell.text) <= width:
            return (cell.text,)
        key = (cell.text, width)
        if key not in cache:
            cache[key] = wrapped(*key) if column.wraps else (cut_middle(*key),)
        return cache[key]

    for row in rows:
        cells = [row[number] for number in fit.shown]
        stacks = [parts(*each) for each in zip(cells, columns, fit.widths, strict=True)]
        for texts in zip_longest(*stacks, fillvalue=""):
            line = [Cell(text, cell.tone) for text, cell in zip(texts, cells, strict=True)]
            yield _joined(line, columns, fit.widths, terminal)


def _joined(row: Row, columns: Sequence[Column], widths: Sequence[int], terminal: Terminal) -> str:
    parts = []
    for cell, column, width in zip(row, columns, widths, strict=True):
        spaces = " " * (width - cell_len(cell.text))
        text = terminal.toned(cell.text, cell.tone) if cell.text else ""
        parts.append(f"{spaces}{text}" if column.right else f"{text}{spaces}")
    return unglued((" " * GAP).join(parts).rstrip())
