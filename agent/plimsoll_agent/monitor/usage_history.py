"""What each pass measured of disks, for ``disk explain --since`` and ``plan``: a line of JSON a pass, in two files.

When the first is full it takes the place of the second, so there is always some time to look back on. A line that
cannot be read is left out: a crash may cut the last one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from plimsoll_agent.model.usage import Rates, Used
from plimsoll_agent.monitor.pass_summary import LastDisk, LastPass
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import Amount, Count
from plimsoll_agent.util.frozen import astuple, frozen, replace

# A disk takes some 150 bytes a pass: with 200 disks and a pass every five minutes each file has a day.
MOST_BYTES = 8 * 2**20


@frozen(kw_only=True, array_like=True)
class PastDisk:
    """The averages of a disk; None is unknown."""

    operations: Amount
    """Per second, as ``bytes``."""
    bytes: Amount
    latency: Amount | None
    """Seconds a request; None also without requests."""
    limit: str | None
    """Of which it used the largest share, under libvirt's name; None without a limit, or if it is unknown."""
    share: Amount | None
    allowed: Count | None
    """The limit's value."""
    rates: Rates | None = None
    """By direction; None in lines of versions before 0.2."""


@frozen(kw_only=True)
class PastPass:
    """The disks by ``Disk.key``; those without averages are not there."""

    at: datetime
    disks: Mapping[str, PastDisk] = field(hash=False)
    unanswered: frozenset[str] = frozenset()
    """The UUIDs of guests that were asked and did not answer."""
    paused: frozenset[str] = frozenset()
    """The UUIDs of guests that a person had paused."""
    step: int | None = None
    """Seconds that the averages are of, where Prometheus has them; None for a pass of this node."""


def append(state: State, last: LastPass) -> None:
    """Add the averages of a pass, the guests that did not answer, and those that were paused; without averages, and
    if all answered, there is nothing to add. Raises ``StateError``.
    """
    disks = {disk.named.key: _row(disk, disk.rates) for disk in last.disks if disk.rates is not None}
    if not (disks or last.hung_guests) or last.looked is None:
        return
    guests = {"unanswered": sorted(last.hung_guests), "paused": sorted(last.paused_guests)}
    row = {"at": last.looked.timestamp(), "disks": disks} | {name: uuids for name, uuids in guests.items() if uuids}
    if disks:  # beside the disks and in their order, since a version before this one reads those
        row["rates"] = [_by_direction(disk.rates) for disk in last.disks if disk.rates is not None]
    line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
    try:
        with suppress(FileNotFoundError):
            if state.usage.stat().st_size + len(line) > MOST_BYTES:
                state.usage.replace(state.usage_before)
        files.append(state.usage, line)
    except OSError as error:
        raise StateError(f"{state.usage}: cannot be written: {error.strerror}") from error


def passes(state: State) -> Iterator[PastPass]:
    """In order of time. Raises ``StateError``."""
    for path in (state.usage_before, state.usage):
        yield from _of(path)


def recent(state: State, since: datetime) -> list[PastPass]:
    """The passes since then, in order of time; older lines are not parsed. Raises ``StateError``."""
    newest_first: list[PastPass] = []
    for path in (state.usage, state.usage_before):
        for line in reversed(_lines(path)):
            with suppress(*decoding.UNREADABLE):
                past = _past(line)
                if past.at < since:
                    return newest_first[::-1]
                newest_first.append(past)
    return newest_first[::-1]


def most_used(state: State) -> dict[str, Used]:
    """The most that each disk used in the average of a pass, by ``Disk.key``. Raises ``StateError``."""
    most: dict[str, Used] = {}
    for past in passes(state):
        for key, disk in past.disks.items():
            use = Used(disk.operations, disk.bytes)
            most[key] = most[key].or_more(use) if key in most else use
    return most


def averages(state: State, keys: Collection[str]) -> dict[str, list[Rates]]:
    """By ``Disk.key`` the averages of these disks that are known, the oldest first. Raises ``StateError``."""
    histories: dict[str, list[Rates]] = {key: [] for key in keys}
    for path in (state.usage_before, state.usage):
        for line in _lines(path):
            try:
                past = _AVERAGES.decode(line)  # in a tenth of the time that each value by itself takes
            except msgspec.MsgspecError:
                continue
            if len(past.rates) != len(past.disks):
                continue
            for key, rates in zip(past.disks, past.rates, strict=True):
                if key in histories:
                    histories[key].append(rates)
    return histories


class _Line(msgspec.Struct):
    at: Amount
    """Seconds since the epoch."""
    disks: dict[str, PastDisk]
    rates: list[Rates] = []
    """Of the disks, in their order."""
    unanswered: frozenset[str] = frozenset()
    paused: frozenset[str] = frozenset()


class _Averages(msgspec.Struct):
    """Of a line only the disks' keys and their rates."""

    disks: dict[str, msgspec.Raw]
    rates: list[Rates] = []


_LINE = msgspec.json.Decoder(_Line)
_AVERAGES = msgspec.json.Decoder(_Averages)


def _of(path: Path) -> Iterator[PastPass]:
    for line in _lines(path):
        with suppress(*decoding.UNREADABLE):
            yield _past(line)


def _lines(path: Path) -> list[bytes]:
    """Raises ``StateError``."""
    try:
        return files.read_whole(path, MOST_BYTES).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error


def _past(line: bytes) -> PastPass:
    value = _LINE.decode(line)
    disks = value.disks
    if len(value.rates) == len(disks):
        disks = {key: replace(disk, rates=its) for (key, disk), its in zip(disks.items(), value.rates, strict=True)}
    at = datetime.fromtimestamp(value.at, UTC)
    return PastPass(at=at, disks=disks, unanswered=value.unanswered, paused=value.paused)


def _by_direction(rates: Rates) -> list[float]:
    """All but the latency, in the order of the fields."""
    return [_short(each) for each in astuple(rates)[:5]]


def _row(disk: LastDisk, rates: Rates) -> list[object]:
    limit = max(disk.shares, key=lambda name: disk.shares[name], default=None)
    return [
        _short(rates.of("total_iops_sec")),
        _short(rates.of("total_bytes_sec")),
        None if rates.latency is None else _short(rates.latency),
        limit,
        None if limit is None else _short(disk.shares[limit]),
        None if limit is None or disk.actual is None else getattr(disk.actual, limit) or None,
    ]


def _short(value: float) -> float:
    """More digits would be noise, and half of the file."""
    return float(f"{value:.4g}")
