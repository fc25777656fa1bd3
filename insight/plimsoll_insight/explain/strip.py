"""When disks were slow, as a row of characters for each: for a terminal of any width, with or without colour."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import Enum
from itertools import groupby

from rich.cells import cell_len

from plimsoll_agent.messages.tones import TONES, Tone
from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.terminal.cells import cut_middle
from plimsoll_agent.terminal.output import USUAL_WIDTH, Terminal
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.explain.diagnosis import Diagnosis
from plimsoll_insight.explain.evidence import Evidence

_LONGEST_NAME = 16
_LEAST, _FEW = 24, 30
"""Columns of a row: without room for so many the figures are left out; so many at most of few intervals."""
_LABEL = 7
"""Columns from one time on the scale to the next."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = (
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 14, 28)),
)


class StripMark(Enum):
    """How a disk was in a part of the time: the character, in ASCII too, the word, and the state with its colour."""

    USUAL = ("·", ".", "usual", "")
    UNKNOWN = ("?", "?", "unknown", "unknown")
    SLOW = ("█", "#", "slow", "slow")
    AT_LIMIT = ("▓", "=", "at limit", "at-limit")

    def __init__(self, block: str, plain: str, word: str, state: str) -> None:
        self.block = block
        self.plain = plain
        self.word = word
        self.tone: Tone | None = TONES.get(state)


@frozen
class StripPart:
    """An interval of a row."""

    begin: float
    end: float
    mark: StripMark


@frozen
class DiskStrip:
    """A disk, its intervals, and figures beside them."""

    name: str
    parts: tuple[StripPart, ...]
    figures: str = ""


def parts(evidence: Evidence, diagnosis: Diagnosis) -> tuple[StripPart, ...]:
    return tuple(
        StripPart(each.at - evidence.seconds, each.at, _mark(is_slow, each.share))
        for each, is_slow in zip(evidence.intervals, diagnosis.verdicts, strict=True)
    )


def _mark(is_slow: bool | None, share: float | None) -> StripMark:
    if not is_slow:
        return StripMark.UNKNOWN if is_slow is None else StripMark.USUAL
    return StripMark.AT_LIMIT if share is not None and share >= AT_LIMIT_RATIO else StripMark.SLOW


def lines(rows: Sequence[DiskStrip], terminal: Terminal, *, blocks: bool = True) -> Iterator[str]:
    """The scale in UTC, the rows, and what their characters mean; nothing where nothing was measured."""
    each = [part for row in rows for part in row.parts]
    if not each:
        return
    begin, end = min(part.begin for part in each), max(part.end for part in each)
    names = [cut_middle(row.name, _LONGEST_NAME) for row in rows]
    margin = max(map(cell_len, names)) + 2
    room = (terminal.width or USUAL_WIDTH) - margin
    figures = max(map(cell_len, (row.figures for row in rows))) + 2
    has_figures = room - figures >= _LEAST
    most = max(round((end - begin) / min(part.end - part.begin for part in each)), _FEW)
    width = max(min(room - figures * has_figures, most), 1)
    step = (end - begin) / width
    scale = _scale(begin, step, width)
    if scale.strip():
        yield terminal.toned(" " * margin + scale.rstrip(), Tone.FAINT)
    cells = [_cells(row.parts, begin, step, width) for row in rows]
    for name, row, marks in zip(names, rows, cells, strict=True):
        bar = "".join(_toned(mark, len([*run]), terminal, blocks=blocks) for mark, run in groupby(marks))
        beside = f"  {row.figures}" if has_figures and row.figures else ""
        yield f"{name}{' ' * (margin - cell_len(name))}{bar}{beside}".rstrip()
    marks_there = {mark for marks in cells for mark in marks}
    legend = (f"{_toned(mark, 1, terminal, blocks=blocks)} {mark.word}" for mark in StripMark if mark in marks_there)
    yield " " * margin + "  ".join(legend)


def _toned(mark: StripMark | None, number: int, terminal: Terminal, *, blocks: bool) -> str:
    if mark is None:
        return " " * number
    return terminal.toned((mark.block if blocks else mark.plain) * number, mark.tone)


def _cells(row: Sequence[StripPart], begin: float, step: float, width: int) -> list[StripMark | None]:
    """Of each cell the worst: a part is in the cells whose middle it covers, and in that of its own middle."""
    numbers: list[dict[StripMark, float]] = [{} for _ in range(width)]
    for part in row:
        first = math.ceil((part.begin - begin) / step - 0.5)
        last = math.ceil((part.end - begin) / step - 0.5) - 1
        middle = min(int(((part.begin + part.end) / 2 - begin) / step), width - 1)
        for cell in {middle, *range(max(first, 0), min(last, width - 1) + 1)}:
            numbers[cell][part.mark] = numbers[cell].get(part.mark, 0.0) + 1
    return [_worst(each) for each in numbers]


def _worst(numbers: dict[StripMark, float]) -> StripMark | None:
    slow = [mark for mark in (StripMark.SLOW, StripMark.AT_LIMIT) if mark in numbers]
    if slow:
        return max(slow, key=lambda mark: numbers[mark])
    return next((mark for mark in (StripMark.UNKNOWN, StripMark.USUAL) if mark in numbers), None)


def _scale(begin: float, step: float, width: int) -> str:
    """``18h     20h     22h     29 Nov``: each stands above the cell in which it is."""
    apart = next((each for each in _STEPS if each / step >= _LABEL), 0)
    text = ""
    if not apart:
        return text
    at = math.ceil(begin / apart) * apart
    while (cell := int((at - begin) / step)) < width:
        label = _label(at, apart)
        if cell + len(label) <= width:
            text = text.ljust(cell) + label
        at += apart
    return text


def _label(at: float, apart: int) -> str:
    time = datetime.fromtimestamp(at, UTC)
    if apart >= _DAY or (apart >= _HOUR and not time.hour):
        return f"{time.day} {time:%b}"
    return f"{time:%H:%M}" if apart < _HOUR else f"{time:%H}h"
