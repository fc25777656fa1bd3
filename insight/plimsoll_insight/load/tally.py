"""What disks did: requests and bytes by direction, by volume, guest, project or type, with the sizes of requests.

Pure: readings of counters go in, sums come out. What is unknown is left out and counted, never taken for zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.usage import Rates, Reading, Usage
from plimsoll_agent.util.frozen import frozen

DIRECTIONS = ("read", "write")
_LARGEST = 40
"""Sizes are counted up to 2^40 bytes."""


@dataclass
class Did:
    """Of one disk, or of several: ``requests`` and ``bytes`` by direction, and how often their mean size was what."""

    requests: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    sizes: dict[str, Counter[int]] = field(default_factory=lambda: {each: Counter() for each in DIRECTIONS})
    """By direction: requests in intervals whose mean size rounds down to 2^key bytes."""

    def add(self, rates: Rates) -> None:
        """What was done between two readings of the counters."""
        for direction in DIRECTIONS:
            requests = round(getattr(rates, f"{direction}_iops") * rates.seconds)
            size = round(getattr(rates, f"{direction}_bytes") * rates.seconds)
            self.requests[direction] += requests
            self.bytes[direction] += size
            if requests:
                power = max((size // requests).bit_length() - 1, 0)
                self.sizes[direction][min(power, _LARGEST)] += requests

    def divided(self, parts: int) -> Iterator[Did]:
        """Evenly, in whole requests of the same sizes."""
        for part in range(parts):
            did = Did()
            for direction in DIRECTIONS:
                whole, size = self.requests[direction], self.bytes[direction]
                before, after = whole * part // parts, whole * (part + 1) // parts
                if after > before:
                    did.requests[direction] = after - before
                    did.bytes[direction] = size * after // whole - size * before // whole
                    did.sizes[direction] = Counter(dict.fromkeys(self.sizes[direction], after - before))
            yield did

    def merge(self, other: Did) -> None:
        self.requests.update(other.requests)
        self.bytes.update(other.bytes)
        for direction in DIRECTIONS:
            self.sizes[direction].update(other.sizes[direction])

    def mean_size(self, direction: str) -> float | None:
        requests = self.requests[direction]
        return self.bytes[direction] / requests if requests else None

    def usual_sizes(self, direction: str) -> list[tuple[int, float]]:
        """``(4096, 0.74)``: 74 % of the requests were in intervals with such a mean; the most frequent first."""
        whole = sum(self.sizes[direction].values())
        return [(1 << power, count / whole) for power, count in self.sizes[direction].most_common()]


@frozen
class Share:
    """One volume, guest, project or type, and what it did."""

    name: str
    disks: int
    did: Did


def share_of(did: Did, whole: Did, what: str, direction: str) -> float | None:
    """The share of all requests or bytes of a direction; None where there were none."""
    total = getattr(whole, what)[direction]
    return getattr(did, what)[direction] / total if total else None


class Intervals:
    """What all disks did in each interval; a reading that comes after several is divided among them."""

    def __init__(self, began: float, seconds: float) -> None:
        """``began``: when the first one does, by the clock of readings; ``seconds``: how long each is."""
        self.seconds = seconds
        self._began = began
        self._did: dict[int, Did] = {}

    def add(self, rates: Rates, at: float) -> None:
        """What a disk did until ``at``, in the intervals that have the most of that time."""
        end = round((at - self._began) / self.seconds)
        parts = max(round(rates.seconds / self.seconds), 1)
        did = Did()
        did.add(rates)
        for number, part in enumerate(did.divided(parts), end - parts):
            self._did.setdefault(max(number, 0), Did()).merge(part)

    def each(self) -> list[Did]:
        """One after the other, from the first on; those in which nothing was done too."""
        return [self._did.get(number, Did()) for number in range(max(self._did, default=-1) + 1)]


class LoadTally:
    """Disks and what each did, over any number of readings."""

    def __init__(self, intervals: Intervals | None = None) -> None:
        self.intervals = intervals
        self.disks: dict[str, Disk] = {}
        self.did: dict[str, Did] = {}
        self.seconds = 0.0
        """The longest time that a disk was watched."""
        self.unknown: set[str] = set()
        """Disks of which a reading failed, or whose guest was restarted: what they did then is missing."""
        self._watched: dict[str, float] = {}
        self._counted: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        """When each was first read, without rates."""

    def add(self, usages: Iterable[Usage]) -> None:
        for usage in usages:
            key = usage.disk.key
            self.disks[key] = usage.disk
            if usage.rates is not None and usage.reading is not None:
                # A guest that was not asked in a round still has the rates of the round before.
                if self._counted.get(key) == usage.reading.at:
                    continue
                self._counted[key] = usage.reading.at
                self.did.setdefault(key, Did()).add(usage.rates)
                if self.intervals is not None:
                    self.intervals.add(usage.rates, usage.reading.at)
                self._watched[key] = self._watched.get(key, 0.0) + usage.rates.seconds
                self.seconds = max(self.seconds, self._watched[key])
            elif usage.reason is not None or self._is_restarted(key, usage.reading):
                self.unknown.add(key)

    def _is_restarted(self, key: str, reading: Reading | None) -> bool:
        """Whether a reading that compares with none is not the disk's first: its guest was restarted."""
        return reading is not None and (key in self._counted or self._begun.setdefault(key, reading.at) != reading.at)

    def by(self, key: Callable[[Disk], str]) -> list[Share]:
        """The sums, those with most requests first."""
        sums: dict[str, Did] = {}
        number: Counter[str] = Counter()
        for disk_key, did in self.did.items():
            name = key(self.disks[disk_key])
            sums.setdefault(name, Did()).merge(did)
            number[name] += 1
        shares = [Share(name, number[name], did) for name, did in sums.items()]
        return sorted(shares, key=lambda each: (-sum(each.did.requests.values()), each.name))

    @property
    def whole(self) -> Did:
        whole = Did()
        for did in self.did.values():
            whole.merge(did)
        return whole


def key_of(what: str) -> Callable[[Disk], str]:
    """How a disk is named by ``what``: volume, guest, project or type."""
    keys: Mapping[str, Callable[[Disk], str]] = {
        "volume": lambda disk: disk.volume_id or disk.path,
        "guest": lambda disk: disk.guest.name,
        "project": lambda disk: disk.guest.project or "unknown",
        "type": lambda disk: disk.volume_type or "unknown",
    }
    return keys[what]


def heaviest(
    each: Iterable[Did], whole: Did, what: str, direction: str, least: float = 0.25
) -> tuple[int, float] | None:
    """The fewest that make a quarter of it, and what they make: ``(4, 0.26)``. None where these make less, or where
    nothing was done.
    """
    total = getattr(whole, what)[direction]
    if not total:
        return None
    part = 0
    for number, amount in enumerate(sorted((getattr(did, what)[direction] for did in each), reverse=True), 1):
        part += amount
        if part >= least * total:
            return number, min(part / total, 1.0)
    return None


def size_words(size: float) -> str:
    """``4 KiB``, ``1.5 KiB``, ``512 B``."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            value = size / factor
            return f"{value:.0f} {unit}" if value >= 9.95 or value == int(value) else f"{value:.1f} {unit}"
    return f"{size:.0f} B"
