"""The usual requests in lines of the cluster's log, by NumPy, which goes over all lines as a pattern goes over one.

In a storm they come by the million, and a line for itself takes five times as long. Only a form in which no part can
be taken for another is usual; ``events.event`` reads each other line, and would read the usual ones alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plimsoll_insight.slow.events import Clock, Requests, state_of

_Numbers = NDArray[np.int64]
_Words = NDArray[np.uint64]
"""Of eight bytes each, the first one lowest."""
_MINUTE = re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d")
_ZONE = re.compile(rb"[+-]\d{4}")
_PING = b"[watch ping"
_TIME = len("2021-09-19T13:05:31.343245+0000")
_MOST_OSDS = 1 << 15
_BEHIND = bytes(512)
"""After the text, for lines that are not usual: more than all words of a usual one have together."""


def _each(byte: int) -> np.uint64:
    return np.uint64(byte * 0x0101_0101_0101_0101)


_ONES, _LOW, _HIGH, _ZERO = _each(0x01), _each(0x7F), _each(0x80), _each(ord("0"))
_FIRST_DIGITS, _LAST_DIGITS = np.uint64(0x000F_4240_0000_0064), np.uint64(0x0000_2710_0000_0001)
_PAIRS = np.uint64(0x0000_00FF_0000_00FF)
_POINTS = np.uint64(int.from_bytes(b":\0\0.", "little"))
_LONGEST_RUN = 32
"""Of digits; a multiple of eight."""


def _no_digits(words: _Words) -> _Words:
    """The highest bit of each byte that is no digit."""
    value = words ^ _ZERO
    return (((value & _LOW) + _each(0x80 - 10)) | value) & _HIGH


def _no_hex(words: _Words) -> _Words:
    """The highest bit of each byte that is none of ``0`` to ``9`` and ``a`` to ``f``."""
    value = words ^ _each(ord("a") - 1)
    low = value & _LOW
    no_letters = (low + _each(0x80 - 7)) | ~(low + _each(0x80 - 1)) | value
    return np.asarray(no_letters & _no_digits(words))


def _before(marks: _Words) -> _Numbers:
    """How many bytes are before the first one that is marked."""
    first = (marks & (~marks + np.uint64(1))) >> np.uint64(7)
    return (((first - np.uint64(1) & _ONES) * _ONES) >> np.uint64(56)).view(np.int64)


def _number(digits: _Words) -> _Numbers:
    """Of eight decimal digits, each the value of its byte."""
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    first, last = pairs & _PAIRS, (pairs >> np.uint64(16)) & _PAIRS
    return ((first * _FIRST_DIGITS + last * _LAST_DIGITS) >> np.uint64(32)).view(np.int64)


class _Walk:
    """Goes over many lines side by side. ``at`` is where it is in each, ``fits`` whether all was usual so far."""

    def __init__(self, text: bytes, at: _Numbers) -> None:
        self._text = text
        self.at = at
        self.fits = np.ones(len(at), np.bool_)

    def here(self, size: int) -> NDArray[np.bytes_]:
        """So many bytes of each line."""
        return self._bytes(self.at, size)

    def _bytes(self, at: _Numbers, size: int) -> NDArray[np.bytes_]:
        return np.ndarray((len(self._text) - size + 1,), f"S{size}", self._text, strides=(1,))[at]

    def _words(self, at: _Numbers) -> _Words:
        return self._bytes(at, 8).view("<u8")

    def must(self, fits: Any) -> None:
        self.fits &= fits

    def text(self, text: bytes) -> None:
        self.must(self.here(len(text)) == text)
        self.at = self.at + len(text)

    def maybe(self, text: bytes) -> NDArray[np.bool_]:
        """Whether it is there."""
        found = np.asarray(self.here(len(text)) == text)
        self.at = self.at + len(text) * found
        return found

    def run(self, marks: Callable[[_Words], _Words], least: int = 1) -> _Numbers:
        """Bytes of a kind: how many."""
        more = _before(marks(self._words(self.at)))
        at, on = self.at + more, np.flatnonzero(more == 8)
        for _ in range(8, _LONGEST_RUN, 8):
            more = _before(marks(self._words(at[on])))
            at[on] += more
            on = on[more == 8]
        length, self.at = at - self.at, at
        self.must((length >= least) & (length < _LONGEST_RUN))
        return length

    def number(self) -> _Numbers:
        """Of up to eight digits."""
        words = self._words(self.at)
        length = _before(_no_digits(words))
        self.must(length > 0)
        self.at = self.at + length
        return _number((words ^ _ZERO) << ((8 - length) * 8).view(np.uint64))

    def time(self, clock: Clock) -> NDArray[np.float64]:
        """``2021-09-19T13:05:31.343245+0000``, in the month and the zone of the first line that is usual so far."""
        first = int(self.fits.argmax())
        month, day, second, rest = self.here(32).view("<u8").reshape(-1, 4).T
        zone = rest << np.uint64(8) >> np.uint64(24)
        digits = (second >> np.uint64(8) & np.uint64(0xFFFF)) | (second >> np.uint64(32) << np.uint64(16))
        digits |= rest << np.uint64(48)
        self.must((month == month[first]) & (zone == zone[first]))
        self.must((second & np.uint64(0xFF0000FF) == _POINTS) & (_no_digits(digits) == 0))
        self.at = self.at + _TIME
        begin, end = month[first].tobytes(), int(zone[first]).to_bytes(5, "little")
        days, which = np.unique(day, return_inverse=True)
        minutes = np.array([_minute(begin + each.tobytes(), end, clock) for each in days])[which]
        self.must(~np.isnan(minutes))
        return np.asarray(minutes + _number(digits ^ _ZERO) / 1e6)


def _minute(text: bytes, zone: bytes, clock: Clock) -> float:
    if not _MINUTE.fullmatch(text) or not _ZONE.fullmatch(zone):
        return nan
    try:
        return clock.zoned(text, b"0", zone)
    except ValueError:
        return nan


def _plain(state: bytes) -> str | None:
    """None where more than a state may be in it, or it tells of others."""
    try:
        name, peers, blame = state_of(state)
    except ValueError:
        return None
    return None if b")" in state or peers or blame else name


def requests(lines: Sequence[bytes], clock: Clock) -> tuple[Requests, list[tuple[int, bytes]]]:
    """The usual requests of lines, at least one, and the other lines, each with the number of requests before it."""
    text = b"".join(lines) + _BEHIND
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)))
    starts = ends - np.diff(ends, prepend=0)

    walk = _Walk(text, starts + _TIME)
    walk.text(b" osd.")
    osd = walk.number()
    walk.must(osd < _MOST_OSDS)
    walk.text(b" (osd.")
    walk.run(_no_digits)
    walk.text(b") ")
    walk.run(_no_digits)
    walk.text(b" : cluster [WRN] slow request osd_op(")

    id_begin = walk.at
    walk.text(b"client.")
    walk.run(_no_digits)
    walk.text(b".")
    walk.run(_no_digits)
    walk.text(b":")
    walk.run(_no_digits)
    id_end = walk.at

    walk.text(b" ")
    pool = walk.number()
    walk.text(b".")
    walk.run(_no_hex)
    of_shard = walk.maybe(b"s")
    walk.must((walk.run(_no_digits, least=0) > 0) == of_shard)
    walk.text(b" ")
    walk.run(_no_digits)
    walk.text(b":")
    walk.run(_no_hex)

    # rbd_data.IMAGE.PART, or rbd_data.POOL.IMAGE.PART
    walk.text(b":::rbd_data.")
    first, first_length = walk.at, walk.run(_no_hex)
    walk.text(b".")
    second, second_length = walk.at, walk.run(_no_hex)
    of_pool = walk.maybe(b".")
    third_length = walk.run(_no_hex, least=0)
    walk.must(np.where(of_pool, third_length, second_length) == 16)
    image_begin = np.where(of_pool, second, first)
    image_end = image_begin + np.where(of_pool, second_length, first_length)
    walk.must(image_end - image_begin >= 6)
    data = _Walk(text, first)
    image_pool = np.where(of_pool, data.number(), pool)
    walk.must(~of_pool | data.fits & (data.at + 1 == second))
    walk.text(b":head ")
    walk.must(walk.here(len(_PING)) != _PING)

    # What the client does with the object may be anything, but for brackets.
    closing = np.append(np.flatnonzero(np.frombuffer(text, np.uint8) == ord(")")), ends[-1])
    walk.at = closing[np.searchsorted(closing[:-1], walk.at)]
    walk.text(b") initiated ")
    since = walk.time(clock)
    walk.text(b" currently ")
    state = walk.at
    walk.must(state < ends)
    walk.at = starts
    time = walk.time(clock)

    which = np.flatnonzero(walk.fits)
    words = _slices(text, state[which], ends[which])
    names = {each: _plain(each) for each in set(words)}
    states = [names[each] for each in words]
    if None in names.values():
        which = which[[each is not None for each in states]]
    others = np.delete(np.arange(len(starts)), which)
    found = Requests(
        time[which].tolist(),
        osd[which].tolist(),
        [each for each in states if each is not None],
        np.maximum(time[which] - since[which], 0.0).tolist(),
        _slices(text, id_begin[which], id_end[which]),
        pool[which].tolist(),
        _slices(text, image_begin[which], image_end[which]),
        image_pool[which].tolist(),
    )
    before = others - np.arange(len(others))
    return found, [(number, lines[place]) for number, place in zip(before.tolist(), others.tolist(), strict=True)]


def _slices(text: bytes, begins: _Numbers, ends: _Numbers) -> list[bytes]:
    return [text[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
