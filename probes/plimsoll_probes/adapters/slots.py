"""Slots of a region: locks on etcd, through tooz, that bound how many of its nodes probe at the same time.

An outage means fewer probes, never more. A slot is a named lock on a lease. Nothing renews the lease in the
background: ``Slot.ensure`` renews it just before each job, and a job begins only where the lease outlasts the job.
So if etcd is lost during a job, ``timeout`` in the guest ends that job before another node can get the slot. The slot
of a killed process is free when its lease ends (etcd starts all leases again after it was down itself). Without an
answer from etcd no job begins.

If nodes are configured with different numbers of slots, the largest counts.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.errors import ConfigError, PlimsollError
from plimsoll_agent.util.distribution import needs
from plimsoll_probes.model.finding import Trouble, Why

# Of tooz's drivers only these are known to keep a lock for a time that its holder sets. ZooKeeper's ends with the
# session, a database's with the connection.
SCHEMES = ("etcd3+http", "etcd3+https")

DEADLINE = 10.0
"""Seconds that each of taking, renewing and releasing may take."""

MARGIN = 10.0
"""Seconds that a lease must last beyond the job: for the time from the renewal to the first request, for clock drift,
and for an election in etcd, during which a replaced leader may still answer."""

PREFIX = "plimsoll-probe-"

Answer = TypeVar("Answer")
Connect = Callable[[str, str, float], Any]
Clock = Callable[[], float]


def lease_for(seconds: float, deadline: float = DEADLINE, margin: float = MARGIN) -> int:
    """The ``ttl``, in whole seconds, with which ``ensure(seconds)`` succeeds."""
    return math.ceil(seconds + margin + deadline)


class Held(Trouble):
    """Another node has what was asked for by name."""


class Slot:
    """A slot, and the names that were taken with it. Without etcd there is nothing to renew."""

    def __init__(self, region: _Region | None = None) -> None:
        self._region = region

    def ensure(self, seconds: float) -> None:
        """Renew the lease. Call it just before any load on the cluster, with the longest that the load can last.

        Returns only if the lease now lasts for ``seconds`` and the margin. After ``Trouble`` the load must not begin.
        """
        if self._region is not None:
            self._region.ensure(seconds)


@contextmanager
def acquire(
    url: str,
    count: int,
    *,
    node: str,
    names: Sequence[str] = (),
    ttl: int,
    deadline: float = DEADLINE,
    margin: float = MARGIN,
    connect: Connect | None = None,
    clock: Clock = time.monotonic,
) -> Iterator[Slot]:
    """Hold one of ``count`` slots (none of 0), and all of ``names``, until the end of the block.

    It does not wait for a slot; the caller tries again later. Only one node of the region can hold a name, such as
    ``pool:FSID/POOL``. ``ttl`` (see ``lease_for``), ``deadline`` and ``margin`` are in seconds. Without ``url`` it
    imports nothing and always succeeds. Raises ``Trouble`` (``NO_SLOT``) where no slot or name is free, or where etcd
    does not answer in time; ``ConfigError`` where the settings are wrong.
    """
    if not url:
        yield Slot()
        return
    where = _where(url)
    region = _Region(where, (connect or _connect)(url, node, deadline), ttl, deadline, margin, clock)
    try:
        region.take(count, node, names)
        yield Slot(region)
    finally:
        region.close()


def _where(url: str) -> str:
    """Host and port, for messages: the rest of the URL may be secret. Raises ``ConfigError``."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in SCHEMES or not host:
        raise ConfigError(f"[probe] coordination: must be {SCHEMES[0]}://HOST:PORT or {SCHEMES[1]}://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        # The driver silently ignores them.
        raise ConfigError(
            "[probe] coordination: tooz gives etcd no user and no password; use a certificate:"
            f" {SCHEMES[1]}://HOST:PORT?ca_cert=FILE&cert_cert=FILE&cert_key=FILE"
        )
    return f"etcd at {f'[{host}]' if ':' in host else host}:{port or 2379}"


def _connect(url: str, node: str, deadline: float) -> Any:
    """tooz's coordinator. Nothing is sent yet, and it is never started: only groups need that, locks do not."""
    try:
        import etcd3gw  # noqa: F401  # tooz loads it by name; its error does not say what to install
        from tooz import coordination
    except ImportError as error:
        raise ConfigError(
            f"[probe] coordination is set, and tooz cannot be loaded ({error}): leave it empty, or {needs('region')}"
        ) from error
    try:
        return coordination.get_coordinator(url, node.encode(), timeout=max(1, int(deadline)))
    except Exception as error:  # the driver's, about the query part of the URL
        raise ConfigError(f"[probe] coordination: tooz cannot use this URL ({type(error).__name__})") from error


class _Region:
    """What one node holds on one etcd. Every request has a deadline."""

    def __init__(self, where: str, coordinator: Any, ttl: int, deadline: float, margin: float, clock: Clock) -> None:
        self._where = where
        self._coordinator = coordinator
        self._ttl = ttl
        self._margin = margin
        self._clock = clock
        self._calls = Deadlines(deadline, at_once=1)
        self._held: list[Any] = []

    def take(self, count: int, node: str, names: Sequence[str]) -> None:
        """Take a slot and all names. After a failure ``close`` releases those that were taken."""
        until = self._clock() + self._calls.seconds
        self._call(lambda: self._take(count, node, names, until))

    def ensure(self, seconds: float) -> None:
        start = self._clock()
        # etcd counts from when the request arrives: subtracting our whole wait is on the safe side.
        lasts = self._call(self._renew) - (self._clock() - start)
        if lasts < seconds + self._margin:
            raise Trouble(
                Why.NO_SLOT,
                detail=f"the lease of the slot lasts {lasts:.0f} s, and {seconds + self._margin:.0f} s are needed",
            )

    def close(self) -> None:
        with suppress(Trouble):  # the lock ends with its lease
            self._call(self._release)
        self._coordinator.client.session.close()

    def _take(self, count: int, node: str, names: Sequence[str], until: float) -> None:
        try:
            leases = self._leases()
            # In a fixed order, so that of two nodes that need the same names one gets them all.
            for name in sorted(set(names)):
                if not self._try(name, leases):
                    raise Held(Why.NO_SLOT, detail=f"another node of the region holds {name}")
            first = zlib.crc32(node.encode())
            if count and not any(self._try(f"slot-{(first + step) % count}", leases) for step in range(count)):
                all_of_them = f"all {count} slots of the region are" if count > 1 else "the one slot of the region is"
                raise Trouble(Why.NO_SLOT, detail=f"{all_of_them} taken")
        finally:
            if self._clock() > until:
                self._release()  # the caller has given up

    def _try(self, name: str, leases: dict[str, int]) -> bool:
        if name in leases:
            return False  # each failed try leaves a lease in etcd until it ends
        lock = self._coordinator.get_lock(f"{PREFIX}{name}".encode())
        # With a number of seconds for blocking the driver raises instead of returning False.
        if not lock.acquire(blocking=False, timeout=self._ttl):
            return False
        self._held.append(lock)
        return True

    def _renew(self) -> float:
        """Renew all leases; returns the seconds until the first of them ends."""
        # Not the lock's heartbeat(): it returns True for a lease that has ended.
        lasts: list[int] = [lock._lease.refresh() for lock in self._held]
        leases = self._leases()
        for lock in self._held:
            name = lock.name.decode().removeprefix(PREFIX)
            if leases.get(name) != lock._lease.id:
                raise Trouble(Why.NO_SLOT, detail=f"{name} was lost: its lease had ended")
        return min(lasts)

    def _leases(self) -> dict[str, int]:
        """The lease of each name that is taken in the region. etcd answers only with a majority of its members."""
        prefix = self._coordinator.get_lock(PREFIX.encode())._key
        answer = self._coordinator.client.get_prefix(prefix)
        # An operator may block a slot with a key that has no lease.
        return {one["key"][len(prefix) :].decode(errors="replace"): int(one.get("lease", 0)) for _, one in answer}

    def _release(self) -> None:
        for lock in self._held:
            lock.release()  # etcd compares the value, so a lock that another node has taken since stays

    def _call(self, function: Callable[[], Answer]) -> Answer:
        try:
            return self._calls.call(self._where, function)
        except Trouble:
            raise
        except PlimsollError as error:
            raise Trouble(Why.NO_SLOT, detail=str(error)) from error
        # tooz, its driver, etcd3gw and requests each raise their own errors, and a malformed answer raises any other.
        # After none of them may a probe begin.
        except Exception as error:
            raise Trouble(Why.NO_SLOT, detail=f"{self._where}: {_said(error)}") from error


def _said(error: BaseException) -> str:
    """The first cause, in one line: tooz's error wraps its driver's, which wraps the socket's."""
    while (below := error.__cause__ or error.__context__) is not None:
        error = below
    if isinstance(error, OSError):
        text = error.strerror or str(error)
    else:
        # str() of etcd3gw's errors lacks their text.
        text = f"{type(error).__name__}: {getattr(error, 'detail_text', None) or error}"
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))[:200]
