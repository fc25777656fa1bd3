"""Slots of a region: no more than so many of its nodes probe at the same time, kept by an etcd through tooz.

*An outage means fewer probes, never more.* A slot is a named lock on a lease. Nothing renews the lease in the
background: ``Held.ensure`` does, just before each job, and a job begins only where the lease then lasts for longer
than the job can. So when the service or the way to it is lost during a job, that job is over (the guest's own
``timeout`` sees to it) before the slot can go to anybody else; a holder that was killed frees it when the lease ends
(an etcd that was down itself gives each lease its whole time again); and who gets no answer does not begin.

Two nodes that were told of different numbers of slots keep to the larger one.
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
from plimsoll_probes.finding import Trouble, Why

# Of tooz's services these alone are known to keep a lock for a time that the holder sets, whatever becomes of it:
# with ZooKeeper it ends with the session, with a database with the connection.
SCHEMES = ("etcd3+http", "etcd3+https")

DEADLINE = 10.0
"""Seconds that taking, renewing and giving back may take, each."""

MARGIN = 10.0
"""Seconds that a lease must last beyond the job: what passes between the renewal and the first request, clocks that
go at different speeds, and a leader of etcd that was voted out and does not know it yet (an election's timeout)."""

PREFIX = "plimsoll-probe-"

Answer = TypeVar("Answer")
Connect = Callable[[str, str, float], Any]
Clock = Callable[[], float]


def lease_for(seconds: float, deadline: float = DEADLINE, margin: float = MARGIN) -> int:
    """The ``ttl``, in whole seconds, on which ``ensure`` can vouch for as long as ``seconds``."""
    return math.ceil(seconds + margin + deadline)


class Held:
    """A slot, and the names that were taken with it. Without a coordination service there is nothing to lose."""

    def __init__(self, region: _Region | None = None) -> None:
        self._region = region

    def ensure(self, seconds: float) -> None:
        """Call it just before whatever puts load on the cluster, with the longest that this can take.

        Returns only if the lease was renewed just now and will last for ``seconds`` and the margin. Raises
        ``Trouble``: whatever it was for must not begin.
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
) -> Iterator[Held]:
    """Hold one of ``count`` slots, and every one of ``names`` alone, until the end of the block.

    Waits for nobody: what is taken is taken, and the caller tries again later. ``names`` are what nobody else of the
    region may hold at the same time, ``pool:FSID/POOL`` for one. ``ttl`` is the seconds of the lease, see
    ``lease_for``; ``deadline`` and ``margin`` are in seconds. Without ``url`` all are held at once and nothing is
    imported. Raises ``Trouble`` (``NO_SLOT``) where no slot or name is free, or where the service does not answer in
    time; ``ConfigError`` where it never can.
    """
    if not url:
        yield Held()
        return
    where = _where(url)
    region = _Region(where, (connect or _connect)(url, node, deadline), ttl, deadline, margin, clock)
    try:
        region.take(count, node, names)
        yield Held(region)
    finally:
        region.close()


def _where(url: str) -> str:
    """Host and port, for messages: the rest may be secret. Raises ``ConfigError``."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in SCHEMES or not host:
        raise ConfigError(f"[probe] coordination: must be {SCHEMES[0]}://HOST:PORT or {SCHEMES[1]}://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        # The driver drops them unsaid, and etcd then refuses or, worse, does not.
        raise ConfigError(
            "[probe] coordination: tooz gives etcd no user and no password; use a certificate:"
            f" {SCHEMES[1]}://HOST:PORT?ca_cert=FILE&cert_cert=FILE&cert_key=FILE"
        )
    return f"etcd at {f'[{host}]' if ':' in host else host}:{port or 2379}"


def _connect(url: str, node: str, deadline: float) -> Any:
    """tooz's coordinator, without a word sent. It is never started: only groups need that, locks do not."""
    try:
        import etcd3gw  # noqa: F401  # tooz loads it by name, and what is raised then tells nobody what to do
        from tooz import coordination
    except ImportError as error:
        raise ConfigError(
            f"[probe] coordination is set, and tooz cannot be loaded ({error}): install plimsoll-agent[region], or"
            " leave the setting empty"
        ) from error
    try:
        return coordination.get_coordinator(url, node.encode(), timeout=max(1, int(deadline)))
    except Exception as error:  # the driver's, of what stands behind the question mark
        raise ConfigError(f"[probe] coordination: tooz cannot use this URL ({type(error).__name__})") from error


class _Region:
    """What one node holds on one etcd. Every word to it has a deadline."""

    def __init__(self, where: str, coordinator: Any, ttl: int, deadline: float, margin: float, clock: Clock) -> None:
        self._where = where
        self._coordinator = coordinator
        self._ttl = ttl
        self._margin = margin
        self._clock = clock
        self._calls = Deadlines(deadline, at_once=1)
        self._held: list[Any] = []

    def take(self, count: int, node: str, names: Sequence[str]) -> None:
        """All or nothing; what was taken before the failure goes with ``close``."""
        until = self._clock() + self._calls.seconds
        self._call(lambda: self._take(count, node, names, until))

    def ensure(self, seconds: float) -> None:
        asked = self._clock()
        # etcd counts from when it was asked, which is no sooner than we asked.
        lasts = self._call(self._renew) - (self._clock() - asked)
        if lasts < seconds + self._margin:
            raise Trouble(
                Why.NO_SLOT,
                detail=f"the lease of the slot lasts {lasts:.0f} s, and {seconds + self._margin:.0f} s are needed",
            )

    def close(self) -> None:
        with suppress(Trouble):  # it goes when its lease ends
            self._call(self._release)
        self._coordinator.client.session.close()

    def _take(self, count: int, node: str, names: Sequence[str], until: float) -> None:
        try:
            taken = self._leases()
            # In one order, so that of two who want the same names one gets them all.
            for name in sorted(set(names)):
                if not self._try(name, taken):
                    raise Trouble(Why.NO_SLOT, detail=f"another node of the region holds {name}")
            first = zlib.crc32(node.encode())
            if not any(self._try(f"slot-{(first + step) % count}", taken) for step in range(count)):
                all_of_them = f"all {count} slots of the region are" if count > 1 else "the one slot of the region is"
                raise Trouble(Why.NO_SLOT, detail=f"{all_of_them} taken")
        finally:
            if self._clock() > until:
                self._release()  # nobody waits for us any more

    def _try(self, name: str, taken: dict[str, int]) -> bool:
        if name in taken:
            return False  # not even tried: every try that fails leaves a lease behind in etcd for its time
        lock = self._coordinator.get_lock(f"{PREFIX}{name}".encode())
        # Never with a number of seconds for blocking: then the driver raises instead of returning False.
        if not lock.acquire(blocking=False, timeout=self._ttl):
            return False
        self._held.append(lock)
        return True

    def _renew(self) -> float:
        """Seconds that the lease to end first lasts, counted from the renewal."""
        # Not the lock's own heartbeat: it says True of a lease that is over, and the lock goes on to say "acquired".
        lasts: list[int] = [lock._lease.refresh() for lock in self._held]
        leases = self._leases()
        for lock in self._held:
            name = lock.name.decode().removeprefix(PREFIX)
            if leases.get(name) != lock._lease.id:
                raise Trouble(Why.NO_SLOT, detail=f"{name} was lost: its lease had ended")
        return min(lasts)

    def _leases(self) -> dict[str, int]:
        """What is taken in the region, and on which lease. etcd answers this only with a majority of its members."""
        prefix = self._coordinator.get_lock(PREFIX.encode())._key
        found = self._coordinator.client.get_prefix(prefix)
        # A person may take a slot away for good with a key that is on no lease.
        return {one["key"][len(prefix) :].decode(errors="replace"): int(one.get("lease", 0)) for _, one in found}

    def _release(self) -> None:
        for lock in self._held:
            lock.release()  # leaves alone what somebody else has got since: etcd compares the value

    def _call(self, function: Callable[[], Answer]) -> Answer:
        try:
            return self._calls.call(self._where, function)
        except Trouble:
            raise
        except PlimsollError as error:
            raise Trouble(Why.NO_SLOT, detail=str(error)) from error
        # tooz, its driver, its driver's client and requests each raise errors of their own. And what none of them
        # expects, an answer without a field, say, must not end in a probe either.
        except Exception as error:
            raise Trouble(Why.NO_SLOT, detail=f"{self._where}: {_said(error)}") from error


def _said(error: BaseException) -> str:
    """In one line, what lies at the bottom: tooz's error is about its driver's, and so on down to the socket's."""
    while (below := error.__cause__ or error.__context__) is not None:
        error = below
    if isinstance(error, OSError):
        text = error.strerror or str(error)
    else:
        # etcd3gw's errors keep the text where str() does not look.
        text = f"{type(error).__name__}: {getattr(error, 'detail_text', None) or error}"
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))[:200]
