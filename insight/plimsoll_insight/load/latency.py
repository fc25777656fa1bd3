"""Latency histograms that QEMU itself keeps of some disks, as long as ``plimsoll load --latency`` watches them.

The intervals are four to each power of two, at edges of fio's buckets: with all of fio's (1,855 boundaries) a reading
of the counters of two disks took 85 ms instead of 7. No other program's histograms look like these: only such are
ever removed. The guests are in a file before the first is set, so that a later command finds what a killed one left.
QEMU counts a request from when it takes it from the guest to its end, with what it waited at its limit; flushes too.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, Protocol

from plimsoll_agent.errors import NotFound, PlimsollError, Rejected
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.store.state import HISTOGRAMS, MOST_BYTES, CorruptState, State, StateError
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import count, several, text
from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.model.histogram import Quantile

MOST_DISKS = 20
"""Each adds 3 KB to QEMU's answer to every program that asks for its counters."""
BOUNDARIES = tuple((4 + quarter) << power for power in range(13, 32) for quarter in range(4))
"""In nanoseconds, from 33 µs to 15 s: QEMU counts from one up to the next, without it."""
DIRECTIONS: Mapping[str, str] = {
    "read": "rd_latency_histogram",
    "write": "wr_latency_histogram",
    "flush": "flush_latency_histogram",
}
_QUERY, _SET = "query-blockstats", "block-latency-histogram-set"


@frozen
class LatencyHistogram:
    """How many requests took how long: a count below the first boundary, between each two, and from the last on."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDARIES) + 1)

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def saturated(self) -> int:
        """How many took as long as the last boundary or longer."""
        return self.counts[-1]

    @property
    def intervals(self) -> list[tuple[int, int | None, int]]:
        """Those that are not empty: from, up to (None for the last), and the count."""
        edges = zip((0, *BOUNDARIES), (*BOUNDARIES, None), self.counts, strict=True)
        return [(lower, upper, number) for lower, upper, number in edges if number]

    def quantile(self, fraction: float) -> Quantile | None:
        """As ``plimsoll_probes.model.histogram`` has it; above the first interval off by an eighth at most."""
        rank = ceil(Fraction(str(fraction)) * self.count)
        rising = 0
        for lower, upper, number in self.intervals:
            rising += number
            if rising >= rank:
                return Quantile(lower, upper, lower if upper is None else (lower + upper) // 2)
        return None

    @classmethod
    def merged(cls, each: Iterable[LatencyHistogram]) -> LatencyHistogram:
        """The exact histogram of all their requests together."""
        return cls(tuple(map(sum, zip(cls().counts, *(one.counts for one in each), strict=True))))


Latencies = Mapping[str, LatencyHistogram]
"""By direction."""


class Monitor(Protocol):
    """Has QEMU's own protocol. Raises ``PlimsollError``."""

    def monitor(self, uuid: str, command: str, arguments: Mapping[str, object] | None = None) -> Any: ...


@frozen
class Device:
    """A device of a guest in QEMU."""

    path: str
    latencies: Latencies | None
    """None unless it has histograms with these boundaries."""
    others: bool
    """It has histograms that another program has set."""


def devices(answer: Any) -> list[Device]:
    """From QEMU's answer to ``query-blockstats``. Raises ``Rejected``."""
    try:
        return [_device(entry) for entry in answer if entry.get("qdev")]
    except decoding.UNREADABLE as error:
        raise Rejected(f"QEMU's answer to {_QUERY} is not understood: {decoding.complaint(error)}") from error


def _device(entry: Mapping[str, Any]) -> Device:
    histograms = {way: entry["stats"][name] for way, name in DIRECTIONS.items() if name in entry["stats"]}
    ours = len(histograms) == len(DIRECTIONS) and all(
        tuple(one["boundaries"]) == BOUNDARIES for one in histograms.values()
    )
    latencies = {way: _histogram(one["bins"]) for way, one in histograms.items()} if ours else None
    return Device(text(entry["qdev"]), latencies, bool(histograms) and not ours)


def _histogram(bins: Sequence[int]) -> LatencyHistogram:
    if len(bins) != len(BOUNDARIES) + 1:
        raise ValueError(f"{len(bins)} bins for {len(BOUNDARIES)} boundaries")
    return LatencyHistogram(tuple(map(count, bins)))


def device_of(disk: Disk, candidates: Iterable[Device]) -> Device | None:
    """QEMU names a device by its path, ``/machine/peripheral/ALIAS``, with ``/virtio-backend`` for virtio."""
    return next((each for each in candidates if disk.alias and disk.alias in each.path.split("/")), None)


def merge(each: Iterable[Latencies]) -> Latencies:
    """The exact histograms of all of them together."""
    every = list(each)
    return {way: LatencyHistogram.merged(latencies[way] for latencies in every) for way in DIRECTIONS}


@frozen
class HistogramGuest:
    """A guest whose QEMU has histograms, and the libvirt that it is on."""

    uri: str
    uuid: str


def load(state: State) -> list[HistogramGuest]:
    """The guests that have histograms. Raises ``CorruptState``, ``StateError``."""

    def of(value: Any) -> list[HistogramGuest]:
        if count(value["version"]) != HISTOGRAMS.version:
            raise StateError(f"{state.histograms}: written by another version; use that one's plimsoll load")
        return list(several(lambda one: HistogramGuest(text(one["uri"]), text(one["uuid"])), value["guests"]))

    return decoding.load(state.histograms, MOST_BYTES, of, StateError, corrupt=CorruptState) or []


def save(state: State, guests: Iterable[HistogramGuest]) -> None:
    """Raises ``StateError``."""
    entries = [{"uri": guest.uri, "uuid": guest.uuid} for guest in dict.fromkeys(guests)]
    if entries:
        files.save(
            state.histograms, json.dumps({"version": HISTOGRAMS.version, "guests": entries}) + "\n", StateError
        )
        return
    try:
        state.histograms.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"{state.histograms}: cannot be removed: {error.strerror}") from error


class Histograms:
    """Those of one libvirt. The caller holds ``histograms.lock``."""

    def __init__(self, qemu: Monitor, state: State, uri: str) -> None:
        self.complaints: list[str] = []
        """What was not done, and why."""
        self._qemu, self._state, self._uri = qemu, state, uri
        self._set: dict[str, list[Disk]] = defaultdict(list)
        """By guest."""
        self._untouched: set[HistogramGuest] = set()
        """Those in whose QEMU nothing was set after all."""

    def set(self, disks: Iterable[Disk]) -> None:
        """A histogram that is there from before begins at zero. Raises ``StateError``, with none set then."""
        by_guest: dict[str, list[Disk]] = defaultdict(list)
        for disk in disks:
            by_guest[disk.guest.uuid].append(disk)
        self._state.prepare()
        try:
            before = load(self._state)
        except CorruptState:
            before = []
        save(self._state, [*before, *(HistogramGuest(self._uri, uuid) for uuid in by_guest)])
        for uuid, of_guest in by_guest.items():
            if HistogramGuest(self._uri, uuid) not in before:
                self._untouched.add(HistogramGuest(self._uri, uuid))
            try:
                current = devices(self._qemu.monitor(uuid, _QUERY))
                for disk in of_guest:
                    self._set_one(disk, device_of(disk, current))
            except PlimsollError as error:
                self.complaints.append(f"{of_guest[0].guest.name}: latencies not measured: {error}")

    def _set_one(self, disk: Disk, device: Device | None) -> None:
        name = f"{disk.guest.name} {disk.target}"
        if device is None:
            self.complaints.append(f"{name}: latencies not measured: QEMU has no device of this name")
        elif device.others:
            self.complaints.append(f"{name}: latencies not measured: another program has set histograms, which stay")
        else:
            self._untouched.discard(HistogramGuest(self._uri, disk.guest.uuid))
            self._qemu.monitor(disk.guest.uuid, _SET, {"id": device.path, "boundaries": list(BOUNDARIES)})
            self._set[disk.guest.uuid].append(disk)

    def read(self) -> dict[str, Latencies]:
        """What QEMU counted since, by the key of the disk."""
        latencies: dict[str, Latencies] = {}
        for uuid, disks in self._set.items():
            try:
                current = devices(self._qemu.monitor(uuid, _QUERY))
            except PlimsollError as error:
                self.complaints.append(f"{disks[0].guest.name}: latencies unknown: {error}")
                continue
            for disk in disks:
                device = device_of(disk, current)
                if device is None or device.latencies is None:
                    self.complaints.append(
                        f"{disk.guest.name} {disk.target}: latencies unknown: its histograms are gone"
                    )
                else:
                    latencies[disk.key] = device.latencies
        return latencies

    def remove(self) -> list[str]:
        """Remove those of every guest in the file; returns the guests that had some. Raises ``StateError``."""
        rest, had = [], []
        for guest in load(self._state):
            if guest.uri != self._uri:
                rest.append(guest)
                continue
            if guest in self._untouched:
                continue
            try:
                for device in devices(self._qemu.monitor(guest.uuid, _QUERY)):
                    if device.latencies is not None:
                        self._qemu.monitor(guest.uuid, _SET, {"id": device.path})
                        had.append(guest.uuid)
            except NotFound:  # it has stopped or moved, and a QEMU that starts has none
                continue
            except PlimsollError as error:
                self.complaints.append(
                    f"{guest.uuid}: latency histograms not removed: {error}; the next plimsoll load tries again"
                )
                rest.append(guest)
        save(self._state, rest)
        return list(dict.fromkeys(had))
