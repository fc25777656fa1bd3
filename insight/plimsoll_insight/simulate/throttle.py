"""QEMU's throttle as arithmetic: when a request of a disk may go.

Times are whole nanoseconds, as in QEMU. What each part does is stated with the place in QEMU's source (7.2 to 10.1 do
the same): ``util/throttle.c`` has the buckets, ``block/throttle-groups.c`` the queues and whose turn it is.

- One disk that is asked at known times: ``departures``.
- Several disks in a group, or disks in a simulation: ``Throttle``. It has no clock: whoever has one calls ``arrive``
  when a request comes and ``wake`` when the time of ``due`` has come.
- The buckets alone: ``LeakyBucket``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from plimsoll_agent.model.limits import SCOPES, Limits, Unit

SECOND = 10**9
NEVER = 1 << 62

T = TypeVar("T")


class LeakyBucket:
    """A leaky bucket; ``levels`` are in requests or bytes.

    ``LeakyBucket`` and ``throttle_compute_wait``: it has room for ``rate / 10``, or where there is a burst for
    ``max × length``. A burst that is longer than 1 s has a second bucket of ``max / 10`` that leaks at ``max``, which
    keeps requests to that rate while the first one fills.
    """

    __slots__ = ("_at", "burst_level", "burst_room", "level", "peak", "rate", "room")

    def __init__(self, rate: float, peak: float = 0, length: int = 1) -> None:
        self.rate = rate
        self.peak = peak if length > 1 else 0
        self.room = peak * max(1, length) if peak else rate / 10
        self.burst_room = peak / 10
        self.level = self.burst_level = 0.0
        self._at = 0

    def empty(self, now: int) -> None:
        """``throttle_config``: each write of limits does, also of the same ones."""
        self.level = self.burst_level = 0.0
        self._at = now

    def leak(self, now: int) -> None:
        """``throttle_leak_bucket``."""
        nanoseconds = now - self._at
        if nanoseconds > 0:
            self._at = now
            level = self.level - self.rate * nanoseconds / SECOND
            self.level = level if level > 0 else 0.0
            if self.peak:
                level = self.burst_level - self.peak * nanoseconds / SECOND
                self.burst_level = level if level > 0 else 0.0

    def wait(self) -> int:
        """``throttle_compute_wait``: of the next request, whatever its size: the bucket may overflow by it."""
        extra = self.level - self.room
        if extra > 0:
            return int(extra * SECOND / self.rate)
        if self.peak:
            extra = self.burst_level - self.burst_room
            if extra > 0:
                return int(extra * SECOND / self.peak)
        return 0

    def add(self, units: float) -> None:
        """``throttle_account``."""
        self.level += units
        if self.peak:
            self.burst_level += units


class Throttle(Generic[T]):
    """The buckets of a group, and the requests that wait, by disk and direction; ``T`` is a request of the caller.

    A disk without a group is a group of one. Reads and writes wait in queues of their own, each with a timer, and
    share the buckets of a total. When a timer fires, the first request goes without another look at the bucket
    (``timer_cb``), so a total may be exceeded by a request for a moment.
    """

    __slots__ = ("_buckets", "_disks", "_holder", "_size", "_timers", "_token", "_waiting", "limits")

    def __init__(self, limits: Limits, disks: int = 1, now: int = 0) -> None:
        self._disks = disks
        self._waiting: tuple[list[deque[tuple[int, T]]], ...] = tuple([deque() for _ in range(disks)] for _ in "rw")
        self._token = [0, 0]
        self._holder = [0, 0]
        self._timers = [NEVER, NEVER]
        self._set(limits, now)

    def _set(self, limits: Limits, now: int) -> None:
        self.limits = limits
        self._size = limits.size_iops_sec
        buckets = {}
        units: tuple[Unit, ...] = ("bytes", "iops")
        for unit in units:
            for scope in SCOPES:
                base = f"{scope}_{unit}_sec"
                if rate := getattr(limits, base):
                    bucket = LeakyBucket(rate, getattr(limits, f"{base}_max"), getattr(limits, f"{base}_max_length"))
                    bucket.empty(now)
                    buckets[scope, unit] = bucket
        self._buckets = tuple(
            tuple((bucket, unit == "bytes") for (scope, unit), bucket in buckets.items() if scope in ("total", own))
            for own in ("read", "write")
        )

    @property
    def due(self) -> int:
        """When to call ``wake``; ``NEVER`` where nothing waits."""
        return min(self._timers)

    def waiting(self, disk: int = 0) -> int:
        """How many requests of a disk wait."""
        return sum(len(direction[disk]) for direction in self._waiting)

    def arrive(self, now: int, size: int, write: bool, request: T, disk: int = 0) -> bool:
        """Whether it goes at once; else a ``wake`` returns it.

        ``throttle_group_co_io_limits_intercept``.
        """
        queue = self._waiting[write]
        if self._timers[write] == NEVER:
            wait = self._wait(now, write)
            if not wait and not queue[disk]:
                self._account(size, write)
                return True
            # Without a timer no request of this direction waits (schedule_next_request), so the turn is this disk's.
            self._arm(now + wait, write, disk)
        queue[disk].append((size, request))
        return False

    def wake(self, now: int) -> list[T]:
        """What goes now, in order."""
        departing: list[T] = []
        for write in (False, True):
            while self._timers[write] <= now:
                self._timers[write] = NEVER
                self._release(now, write, self._holder[write], departing)
        return departing

    def write(self, limits: Limits, now: int, disk: int = 0) -> list[T]:
        """Limits are written to a disk of the group: what it releases, in order.

        ``throttle_group_config``: the buckets are empty again, and ``throttle_group_restart_tgm`` lets the first
        request of the disk go in each direction, whether it was its turn or not.
        """
        self._set(limits, now)
        departing: list[T] = []
        for write in (False, True):
            if self._timers[write] != NEVER and self._holder[write] == disk:
                self._timers[write] = NEVER
            self._release(now, write, disk, departing)
        return departing

    def _wait(self, now: int, write: bool) -> int:
        """``throttle_compute_wait_for``: the longest of the buckets' waits."""
        longest = 0
        for bucket, _ in self._buckets[write]:
            bucket.leak(now)
            wait = bucket.wait()
            if wait > longest:
                longest = wait
        return longest

    def _account(self, size: int, write: bool) -> None:
        """A request that is larger than ``size_iops_sec`` counts as several, in fractions too."""
        requests = size / self._size if self._size and size > self._size else 1.0
        for bucket, is_bytes in self._buckets[write]:
            bucket.add(size if is_bytes else requests)

    def _arm(self, at: int, write: bool, disk: int) -> None:
        self._timers[write] = at
        self._token[write] = self._holder[write] = disk

    def _release(self, now: int, write: bool, disk: int, departing: list[T]) -> None:
        """``throttle_group_restart_queue`` and ``schedule_next_request``: the first of the disk's queue, and what the
        buckets have room for after it: first of the same disk, then of the one whose turn it is.
        """
        queue = self._waiting[write]
        while True:
            if queue[disk]:
                size, request = queue[disk].popleft()
                self._account(size, write)
                departing.append(request)
            following = self._next(write, disk)
            if following is None or self._timers[write] != NEVER:
                return
            wait = self._wait(now, write)
            if wait:
                self._arm(now + wait, write, following)
                return
            if not queue[disk]:
                disk = following
            self._token[write] = disk

    def _next(self, write: bool, disk: int) -> int | None:
        """``next_throttle_token``: the disk with something that waits whose turn comes after the last one's."""
        queue = self._waiting[write]
        if self._disks == 1:
            return disk if queue[disk] else None
        token = self._token[write]
        for step in range(1, self._disks + 1):
            # A disk joins at the head of the group's list: the turn goes from the newest to the oldest.
            following = (token - step) % self._disks
            if queue[following]:
                return following
        return None


def departures(limits: Limits, requests: Iterable[tuple[int, int, bool]]) -> list[int]:
    """When each request of one disk goes, by when it comes, its size and whether it writes; in the order of time."""
    throttle: Throttle[int] = Throttle(limits)
    times: list[int] = []
    for number, (at, size, write) in enumerate(requests):
        while throttle.due <= at:
            due = throttle.due
            for index in throttle.wake(due):
                times[index] = due
        times.append(at)
        throttle.arrive(at, size, write, number)
    while (due := throttle.due) != NEVER:
        for index in throttle.wake(due):
            times[index] = due
    return times
