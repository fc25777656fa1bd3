"""Rows of fio's histogram logs: ``time_ms, direction, block size, count, count, …``, parsed in blocks.

Nearly all counts are ``0``, so only the others are looked at: where one stands tells its column, as each zero takes
three characters. A row of any other form is read number by number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.hist.scale import SCALES, Scale

Ints = NDArray[np.int64]
DIRECTIONS = ("read", "write", "trim")
BLOCK = 1 << 20
"""Bytes that are read at once."""
LONGEST = 1 << 20
"""Bytes of the longest line; a full row of large counts has 22 kB."""
_ZERO, _SPACE, _COMMA = ord("0"), ord(" "), ord(",")
_HEAD = re.compile(rb"(\d{1,14}), ([012]), (\d{1,16}), ")
_OF_ROWS = b"0123456789, \n"
_COUNT_MAX = 2**40
"""No fio completes more between two rows: what fio 3.6 to 3.16 had in memory may be more."""
_DIGITS = 12
"""Of a count that is below that for certain."""
_SHORTEST = len("0,0,0") + 2 * min(SCALES)
"""Bytes of the shortest row."""
LATEST_MS = 10**14
"""Times after the year 5138 are none."""


@dataclass(frozen=True, eq=False)
class Records:
    """Rows in the order of the file, and their counts that are not 0."""

    scale: Scale
    time_ms: Ints
    direction: Ints
    row: Ints
    """Of each count, its row,"""
    column: Ints
    """its column,"""
    count: Ints
    """and itself."""


@frozen
class Unread:
    """Lines that are no rows: how many, the number of the first, and whether the last line is incomplete."""

    lines: int = 0
    first: int = 0
    incomplete: bool = False


class RecordReader:
    """The records of one stream, and afterwards what was ``unread``."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._line = 0
        self._within = False
        """The line goes on that was too long, and is counted already."""
        self.unread = Unread()
        self.place = 0
        """Of the block that is being read: how many bytes are before it."""

    def __iter__(self) -> Iterator[Records]:
        rest = b""
        offset = 0
        while block := self._stream.read(BLOCK):
            offset += len(block)
            if self._within:
                _, newline, block = block.partition(b"\n")
                self._within = not newline
            whole, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                self.place = offset - len(rest) - len(whole) - len(newline)
                yield from self._records(whole + newline)
            if len(rest) > LONGEST:
                self._line += 1
                self._miss(self._line)
                self._within, rest = True, b""
        if rest.strip():
            self.unread = Unread(self.unread.lines, self.unread.first, incomplete=True)

    def _records(self, block: bytes) -> Iterator[Records]:
        rows = _Rows(block)
        if rows.short:
            self._miss(self._line + rows.first_short + 1, rows.short)
        for start, records in rows.runs():
            if records is None:
                self._miss(self._line + rows.number(start) + 1)
            else:
                yield records
        self._line += rows.lines + rows.short

    def _miss(self, line: int, lines: int = 1) -> None:
        old = self.unread
        first = min(old.first, line) if old.first else line
        self.unread = Unread(old.lines + lines, first, old.incomplete)


class _Rows:
    """The rows of one block, which ends with a newline. Lines are numbered from 0, without those too short."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        data = np.frombuffer(block, dtype=np.uint8)
        ends = np.flatnonzero(data == ord("\n"))
        starts = np.concatenate(([0], ends[:-1] + 1))
        self._long = np.flatnonzero(ends - starts >= _SHORTEST)
        self.short = len(ends) - len(self._long)
        """Lines that are too short for a row are only counted,"""
        self.first_short = int(np.argmax(ends - starts < _SHORTEST)) if self.short else 0
        """and the first of them is this one."""
        if self.short:
            starts, ends = starts[self._long], ends[self._long]
        self._starts, self._ends = starts, ends
        self.lines = len(ends)
        self._heads = [_head(block, start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        self._columns = np.empty(0, np.int64)
        if self.lines:
            self._fast(data)

    def number(self, line: int) -> int:
        """In the block, of a line that is not too short."""
        return int(self._long[line])

    def _fast(self, data: NDArray[np.uint8]) -> None:
        """The counts of rows that separate numbers by a comma and a space."""
        bins = self._starts + np.array([head[3] if head else 0 for head in self._heads], np.int64)
        space = data == _SPACE
        # 1 to 9 after a space: the unsigned difference of any other character is more than 8.
        begins = np.flatnonzero((data[1:] - np.uint8(_ZERO + 1) <= 8) & space[:-1]) + 1
        first, last = np.searchsorted(begins, bins), np.searchsorted(begins, self._ends)
        number = last - first
        row = np.repeat(np.arange(self.lines), number)
        if len(row) < len(begins):  # there are those of heads and of short lines too
            begins = begins[np.arange(len(row)) + (first - np.cumsum(number) + number)[row]]
        value, digits = _numbers(data, begins)
        # Where each number stood, were all of one digit: then column n begins at 3n.
        surplus = np.concatenate(([0], np.cumsum(digits - 1)))
        until = np.cumsum(number)
        before, after = surplus[until - number], surplus[until]
        place = begins - surplus[:-1] - (bins - before)[row]
        length = self._ends - bins - (after - before) + 2
        sound = (length % 3 == 0) & np.array([head is not None for head in self._heads])
        column = place // 3
        sound[row[(column * 3 != place) | (digits > _DIGITS)]] = False
        self._columns = self._certain(np.where(sound, length // 3, 0), data, space)
        self._row, self._column, self._value = row, column, value

    def _certain(self, columns: Ints, data: NDArray[np.uint8], space: NDArray[np.bool_]) -> Ints:
        """The columns of rows that have no other characters and as many separators as numbers; else 0."""
        separators = np.where(columns > 0, columns + 2, 0)
        comma = data == _COMMA
        plain = np.count_nonzero(comma) + np.count_nonzero(space) + np.count_nonzero(data - np.uint8(_ZERO) <= 9)
        if plain + self.lines + self.short == len(data) and (
            np.count_nonzero(comma[:-1] & space[1:]) == separators.sum()
        ):
            return columns
        lines = (self._block[start:end] for start, end in zip(self._starts, self._ends, strict=True))
        sound = [
            not line.translate(None, _OF_ROWS) and line.count(b", ") == number
            for line, number in zip(lines, separators, strict=True)
        ]
        return np.where(sound, columns, 0)

    def runs(self) -> Iterator[tuple[int, Records | None]]:
        """Consecutive rows of one scale, and None for each line that is none; with the line's number from 0."""
        borders = [0, *(np.flatnonzero(np.diff(self._columns)) + 1).tolist(), self.lines] if self.lines else [0]
        for start, stop in pairwise(borders):
            scale = SCALES.get(int(self._columns[start]))
            if scale is None:
                yield from ((line, self._slowly(line)) for line in range(start, stop))
            else:
                yield start, self._part(start, stop, scale)

    def _part(self, start: int, stop: int, scale: Scale) -> Records:
        low, high = np.searchsorted(self._row, (start, stop))
        heads = np.array([head[:2] for head in self._heads[start:stop] if head], dtype=np.int64)
        return Records(
            scale,
            heads[:, 0],
            heads[:, 1],
            self._row[low:high] - start,
            self._column[low:high],
            self._value[low:high],
        )

    def _slowly(self, number: int) -> Records | None:
        line = self._block[self._starts[number] : self._ends[number]]
        head = self._heads[number]
        if head is None or len(line) > LONGEST:
            return None
        try:
            counts = [int(text) for text in line[head[3] :].split(b",")] if line.isascii() else []
        except ValueError:
            return None
        scale = SCALES.get(len(counts))
        if scale is None or min(counts) < 0 or max(counts) > _COUNT_MAX:
            return None
        column = np.flatnonzero(counts)
        zeros = np.zeros(len(column), np.int64)
        at, direction = (np.array([each], np.int64) for each in head[:2])
        return Records(scale, at, direction, zeros, column, np.array(counts, np.int64)[column])


def _head(block: bytes, start: int, end: int) -> tuple[int, int, int, int] | None:
    """Time, direction, block size, and how far from its start the counts begin."""
    if (usual := _HEAD.match(block, start, end)) is not None:
        time, direction, size = map(int, usual.groups())
        return time, direction, size, usual.end() - start
    parts = block[start : min(end, start + 64)].split(b",", 3)
    if len(parts) < 4 or not all(part.strip().isdigit() and len(part) < 17 for part in parts[:3]):
        return None
    time, direction, size = (int(part) for part in parts[:3])
    if direction >= len(DIRECTIONS) or time > LATEST_MS:
        return None
    at = sum(len(part) + 1 for part in parts[:3])
    return time, direction, size, at + (parts[3][:1] == b" ")


def _numbers(data: NDArray[np.uint8], begins: Ints) -> tuple[Ints, Ints]:
    """The decimal numbers that begin at these places, and how many digits each has."""
    value = data[begins].astype(np.int64) - _ZERO
    digits = np.ones(len(begins), np.int64)
    open_ = np.arange(len(begins))
    for place in range(1, 17):
        digit = data[begins[open_] + place] - np.uint8(_ZERO)
        more = digit <= 9
        open_ = open_[more]
        if not len(open_):
            break
        value[open_] = value[open_] * 10 + digit[more]
        digits[open_] += 1
    return value, digits
