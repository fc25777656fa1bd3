"""The usual requests in lines of the cluster's log, by NumPy, which goes over all lines as a pattern goes over one.

In a storm they come by the million, and a line for itself takes five times as long. Only a form in which no part can
be taken for another is usual; ``events.event`` reads each other line, and would read the usual ones alike.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, pairwise, repeat
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.slow.events import OF_SHARDS, STARTED, LogClock, Operation, SlowRequest, state_of

_Numbers = NDArray[np.int64]
_Times = NDArray[np.float64]
_Words = NDArray[np.uint64]
"""Of eight bytes each, the first one lowest."""
_MONTH = re.compile(rb"20\d\d-\d\d-")
_ZONE = re.compile(rb"[+-]\d{4}")
_PING = b"[watch ping"
_TIME = len("2021-09-19T13:05:31.343245+0000")
_MOST_OSDS = 1 << 15
_LONGEST_WORD = 48
"""An id, an image or a state of more bytes is not usual; a multiple of eight, more than ``_LONGEST_RUN``."""
_LONGEST_OPERATION = 256
"""Bytes of what the client does with an object."""
_BEHIND = bytes(1024)
"""After the text, for lines that are not usual: more than all words of a usual one have together."""


def _each(byte: int) -> np.uint64:
    return np.uint64(byte * 0x0101_0101_0101_0101)


_ONES, _LOW, _HIGH, _ZERO = _each(0x01), _each(0x7F), _each(0x80), _each(ord("0"))
_FIRST_DIGITS, _LAST_DIGITS = np.uint64(0x000F_4240_0000_0064), np.uint64(0x0000_2710_0000_0001)
_PAIRS = np.uint64(0x0000_00FF_0000_00FF)
_MIDNIGHT, _COLONS = (np.uint64(int.from_bytes(each, "little")) for each in (b"00T00:00", b"\0\0\xff\0\0\xff\0\0"))
_POINTS = np.uint64(int.from_bytes(b":\0\0.", "little"))
_LONGEST_RUN = 32
"""Of digits; a multiple of eight."""
_BEGINS = (np.tri(_LONGEST_WORD + 1, _LONGEST_WORD, -1, np.uint8) * np.uint8(0xFF)).view("<u8")
"""Of a word, so many bytes."""


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


@frozen
class RequestColumns:
    """Slow requests of the cluster's log, each of an RBD image, as columns in the order of their lines. None waits
    for peers that its line names, and none is a replica's part.
    """

    names: Sequence[str]
    """Of states."""
    times: _Times
    osds: _Numbers
    states: _Numbers
    """Each a place in ``names``."""
    ages: _Times
    ids: NDArray[np.bytes_]
    pools: _Numbers
    images: NDArray[np.bytes_]
    image_pools: _Numbers
    are_erasure_coded: NDArray[np.bool_]

    @classmethod
    def together(cls, several: Sequence[RequestColumns]) -> RequestColumns:
        """At least one."""
        if len(several) == 1:
            return several[0]
        names: dict[str, int] = {}
        for name in chain.from_iterable(each.names for each in several):
            names.setdefault(name, len(names))
        states = [np.array([*map(names.__getitem__, each.names)])[each.states] for each in several]
        times, osds, _, *others = (np.concatenate(column) for column in zip(*map(_columns, several), strict=True))
        return cls(list(names), times, osds, np.concatenate(states), *others)

    def part(self, begin: int, end: int | None = None) -> RequestColumns:
        return self._of(slice(begin, end))

    def select(self, which: Sequence[bool]) -> RequestColumns:
        return self if all(which) else self._of(np.array(which, np.bool_))

    def _of(self, which: slice | NDArray[np.bool_]) -> RequestColumns:
        return RequestColumns(self.names, *(column[which] for column in _columns(self)))

    def split(self, time: float) -> tuple[RequestColumns, RequestColumns | None]:
        """The first one and all before that time, and the others, which begin with one that is not."""
        later = self.times[1:] >= time
        if not later.any():
            return self, None
        number = int(later.argmax()) + 1
        return self.part(0, number), self.part(number)

    def each(self) -> Iterator[SlowRequest]:
        for time, osd, state, age, id, pool, image, image_pool, has_shards in zip(
            *(column.tolist() for column in _columns(self)), strict=True
        ):
            one = Operation(
                id=id,
                is_replica=False,
                pool=pool,
                image=image.decode(),
                image_pool=image_pool,
                is_erasure_coded=has_shards,
            )
            yield SlowRequest(time, osd, self.names[state], age, (), one, False)

    def by_osd(self) -> Iterator[tuple[int, _Times, _Times]]:
        """Each OSD with the times and the ages of its own."""
        order = self.osds.astype(np.uint16).argsort(kind="stable")
        begins = np.flatnonzero(np.diff(self.osds[order], prepend=-1)).tolist()
        for begin, end in pairwise([*begins, len(order)]):
            own = order[begin:end]
            yield int(self.osds[own[0]]), self.times[own], self.ages[own]

    def over_time(self, width: float, states: Sequence[bool]) -> Iterator[tuple[float, int, int]]:
        """The number of each interval and OSD, with the interval's middle; only of these of ``names``."""
        which = np.array(states, np.bool_)[self.states]
        for interval, osd, number in numbers((self.times[which] // width).astype(np.int64), self.osds[which]):
            yield (interval + 0.5) * width, osd, number


_columns = attrgetter("times", "osds", "states", "ages", "ids", "pools", "images", "image_pools", "are_erasure_coded")


def numbers(one: _Numbers, other: _Numbers) -> Iterator[tuple[int, int, int]]:
    """Each pair of the two, none of which is negative, with the number of its places; the first one first."""
    base = int(other.max(initial=0)) + 1
    for pair, number in Counter((one * base + other).tolist()).items():
        yield *divmod(pair, base), number


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
        is_there = np.asarray(self.here(len(text)) == text)
        self.at = self.at + len(text) * is_there
        return is_there

    def run(self, marks: Callable[[_Words], _Words], least: int = 1) -> _Numbers:
        """Bytes of a kind: how many."""
        more = _before(marks(self._words(self.at)))
        at, on = self.at + more, np.flatnonzero(more == 8)
        for _ in range(8, _LONGEST_RUN, 8):
            if not len(on):
                break
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

    def time(self, clock: LogClock) -> _Times:
        """``2021-09-19T13:05:31.343245+0000``, in the month and the zone of the first line that is usual so far."""
        first = int(self.fits.argmax())
        month, day, second, rest = self.here(32).view("<u8").reshape(-1, 4).T
        zone = rest << np.uint64(8) >> np.uint64(24)
        digits = (second >> np.uint64(8) & np.uint64(0xFFFF)) | (second >> np.uint64(32) << np.uint64(16))
        digits |= rest << np.uint64(48)
        self.must((month == month[first]) & (zone == zone[first]))
        self.must((second & np.uint64(0xFF0000FF) == _POINTS) & (_no_digits(digits) == 0))
        self.at = self.at + _TIME
        begin, days = _month(month[first].tobytes(), int(zone[first]).to_bytes(5, "little"), clock)
        values = day ^ _MIDNIGHT
        self.must((values & _COLONS == 0) & (_no_digits(values ^ _ZERO) == 0))
        pairs = (values * np.uint64(10) + (values >> np.uint64(8))).view(np.int64)
        day_, hour, minute = pairs & 0xFF, pairs >> 24 & 0xFF, pairs >> 48 & 0xFF
        self.must((day_ > 0) & (day_ <= days) & (hour < 24) & (minute < 60))
        return np.asarray(begin + ((day_ * 24 + hour) * 60 + minute) * 60 + _number(digits ^ _ZERO) / 1e6)


def _month(text: bytes, zone: bytes, clock: LogClock) -> tuple[float, int]:
    """A day before the begin of ``2021-09-``, and its number of days; none where it is no month."""
    if _MONTH.fullmatch(text) and _ZONE.fullmatch(zone):
        with suppress(ValueError):
            begin = clock.zoned(text + b"01T00:00", b"0", zone)
            return begin - 86_400, monthrange(int(text[:4]), int(text[5:7]))[1]
    return 0.0, 0


def _plain(state: bytes) -> str | None:
    """None where more than a state may be in it, or it tells of others."""
    try:
        name, peers, blame = state_of(state)
    except ValueError:
        return None
    return None if b")" in state or peers or blame else name


class _Places(dict[bytes, int]):
    """Of different words, each in the order in which it is asked for first."""

    def __missing__(self, words: bytes) -> int:
        self[words] = place = len(self)
        return place


def requests(lines: Sequence[bytes], clock: LogClock) -> tuple[RequestColumns, list[tuple[int, bytes]]]:
    """The usual requests of lines, at least one, and the other lines, each with the number of requests before it."""
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)))
    return _requests(b"".join(lines), ends - np.diff(ends, prepend=0), ends, clock)


def of_block(
    block: bytes, places: Sequence[int], longest: int, clock: LogClock
) -> tuple[RequestColumns, list[tuple[int, bytes]]]:
    """The same of those lines of a block, each up to its ``longest`` bytes, that have one of these places."""
    newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    which = np.searchsorted(newlines, np.fromiter(places, np.int64, len(places)))
    which = which[np.diff(which, prepend=-1) > 0]
    starts, ends = np.append(0, newlines + 1)[which], newlines[which]
    return _requests(block, starts, np.minimum(ends, starts + longest), clock)


def _requests(
    lines: bytes, starts: _Numbers, ends: _Numbers, clock: LogClock
) -> tuple[RequestColumns, list[tuple[int, bytes]]]:
    text = lines + _BEHIND

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
    id_length = walk.at - id_begin
    walk.must(id_length <= _LONGEST_WORD)

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
    image_length = np.where(of_pool, second_length, first_length)
    walk.must(image_length >= 6)
    data = _Walk(text, first)
    image_pool = np.where(of_pool, data.number(), pool)
    walk.must(~of_pool | data.fits & (data.at + 1 == second))
    walk.text(b":head ")
    walk.must(walk.here(len(_PING)) != _PING)

    # What the client does with the object may be anything, but for brackets.
    closing = map(text.find, repeat(b")"), walk.at.tolist(), (walk.at + _LONGEST_OPERATION).tolist())
    walk.at = np.fromiter(closing, np.int64, len(starts))
    walk.text(b") initiated ")
    since = walk.time(clock)
    walk.text(b" currently ")
    state, state_length = walk.at, ends - walk.at
    walk.must((state_length > 0) & (state_length <= _LONGEST_WORD))
    walk.must(np.frombuffer(text, np.uint8)[ends - 1] != 0)  # NumPy drops it
    walk.at = starts
    time = walk.time(clock)

    which = np.flatnonzero(walk.fits)
    places = _Places()
    words = _cut(text, state[which], state_length[which])
    if of_shard.any():
        # Blanks around a state do not count, nor the end of a line that Windows has written.
        words = np.where(of_shard[which] & (np.char.strip(words) == STARTED.encode()), OF_SHARDS.encode(), words)
    states = np.fromiter(map(places.__getitem__, words.tolist()), np.int64, len(words))
    names = [_plain(each) for each in places]
    if None in names:
        is_plain = np.array([each is not None for each in names])[states]
        which, states = which[is_plain], states[is_plain]
    usual = RequestColumns(
        [each or "" for each in names],
        time[which],
        osd[which],
        states,
        np.maximum(time[which] - since[which], 0.0),
        _cut(text, id_begin[which], id_length[which]),
        pool[which],
        _cut(text, image_begin[which], image_length[which]),
        image_pool[which],
        of_shard[which],
    )
    others = np.delete(np.arange(len(starts)), which)
    before = others - np.arange(len(others))
    slices = zip(before.tolist(), starts[others].tolist(), ends[others].tolist(), strict=True)
    return usual, [(number, lines[start:end]) for number, start, end in slices]


def _cut(text: bytes, begins: _Numbers, lengths: _Numbers) -> NDArray[np.bytes_]:
    """So many bytes of each, none of them of more than ``_LONGEST_WORD``."""
    words = _Walk(text, begins).here(_LONGEST_WORD)
    words.view("<u8").reshape(-1, _LONGEST_WORD // 8)[:] &= _BEGINS[lengths]
    return words
