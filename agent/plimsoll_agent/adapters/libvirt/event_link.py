"""libvirt's events of guests, on a connection of their own that makes no other calls.

libvirt's client (until 9.10) sometimes loses the wake-up of a second thread on a connection: an event loop on a
connection with calls would delay both.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import libvirt

from plimsoll_agent.model.guest_events import Connected, Disconnected, EventKind, GuestEvent, LinkEvent

LOG = logging.getLogger(__name__)

KEEPALIVE = (5, 3)
"""Seconds between two keepalives, and how many may stay unanswered."""
LONGEST_WAIT = 60.0
"""Seconds between two attempts to connect; the first are sooner."""
_CHECK = 5.0
"""Seconds between two checks of the connection: a close may come without a callback."""

_ENDED_BLOCK_JOB = (
    libvirt.VIR_DOMAIN_BLOCK_JOB_COMPLETED,
    libvirt.VIR_DOMAIN_BLOCK_JOB_FAILED,
    libvirt.VIR_DOMAIN_BLOCK_JOB_CANCELED,
)
_TUNE = "blkdeviotune."

Tell = Callable[[LinkEvent], None]


class _EventLoop:
    """libvirt's default event loop, once a process: there is no way to unregister it."""

    _lock = threading.Lock()
    thread: threading.Thread | None = None

    @classmethod
    def started(cls) -> threading.Thread:
        with cls._lock:
            if cls.thread is None:
                libvirt.virEventRegisterDefaultImpl()
                cls.thread = threading.Thread(target=cls._run, name="libvirt-events", daemon=True)
                cls.thread.start()
            return cls.thread

    @staticmethod
    def _run() -> None:
        while True:
            with suppress(libvirt.libvirtError):
                libvirt.virEventRunDefaultImpl()


class EventLink:
    """Connects in a thread of its own, for ever, and tells of events and of the connection.

    ``tell`` is called in libvirt's event loop: it must return at once. A connect that hangs hangs in that thread
    alone, and there is never a second one beside it.
    """

    def __init__(self, uri: str, tell: Tell) -> None:
        self._uri = uri
        self._tell = tell
        self._ended = threading.Event()
        self._closed = threading.Event()
        self._loop = _EventLoop.started()
        threading.Thread(target=self._run, name="event-link", daemon=True).start()

    @property
    def alive(self) -> bool:
        """False if the event loop has died: then events never come again."""
        return self._loop.is_alive()

    def close(self) -> None:
        self._ended.set()
        self._closed.set()

    def _run(self) -> None:
        failures = 0
        while not self._ended.is_set():
            try:
                with self._connected() as connection:
                    failures = 0
                    self._say(Connected())
                    self._wait_for_close(connection)
                why = f"the connection to libvirt at {self._uri} was lost"
            except libvirt.libvirtError as error:
                why = f"libvirt at {self._uri} cannot be reached: {' '.join(str(error).split())}"
            except Exception as error:  # the thread must go on, else events would never come again
                LOG.error("this is a bug in plimsoll, please report it", exc_info=error)
                why = f"no events of libvirt: {error}"
            self._say(Disconnected(why))
            self._ended.wait(wait_after(failures, random.random()))  # noqa: S311  # no secret
            failures += 1

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        self._closed.clear()
        connection = libvirt.open(self._uri)
        callbacks: list[int] = []
        try:
            with suppress(libvirt.libvirtError):  # the test driver has none
                connection.setKeepAlive(*KEEPALIVE)
            connection.registerCloseCallback(lambda *_: self._closed.set(), None)
            callbacks.extend(self._subscribed(connection))
            yield connection
        finally:
            # Of a lost connection too, although libvirt then reports an error for each: one callback that is left
            # keeps the connection, with a descriptor, for ever.
            for callback in callbacks:
                with suppress(libvirt.libvirtError):
                    connection.domainEventDeregisterAny(callback)
            with suppress(libvirt.libvirtError):
                connection.unregisterCloseCallback()
            with suppress(libvirt.libvirtError):
                connection.close()

    def _subscribed(self, connection: Any) -> Iterator[int]:
        for event, callback in {
            libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE: self._lifecycle,
            libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED: self._device_added,
            libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED: self._device_removed,
            libvirt.VIR_DOMAIN_EVENT_ID_TUNABLE: self._tunable,
            libvirt.VIR_DOMAIN_EVENT_ID_BLOCK_JOB_2: self._block_job,
            libvirt.VIR_DOMAIN_EVENT_ID_JOB_COMPLETED: self._job,
        }.items():
            yield connection.domainEventRegisterAny(None, event, callback, None)

    def _wait_for_close(self, connection: Any) -> None:
        while not self._closed.wait(_CHECK) and connection.isAlive():
            pass

    def _say(self, event: LinkEvent) -> None:
        if not self._ended.is_set():
            self._tell(event)

    def _guest(self, domain: Any, kind: EventKind, **more: Any) -> None:
        self._say(GuestEvent(uuid=domain.UUIDString(), name=domain.name(), kind=kind, **more))

    def _lifecycle(self, _: Any, domain: Any, event: int, detail: int, __: object) -> None:
        if (kind := _kind(event, detail)) is not None:
            self._guest(domain, kind)

    def _device_added(self, _: Any, domain: Any, *__: object) -> None:
        self._guest(domain, EventKind.DEVICE_ADDED)

    def _device_removed(self, _: Any, domain: Any, *__: object) -> None:
        self._guest(domain, EventKind.DEVICE_REMOVED)

    def _tunable(self, _: Any, domain: Any, parameters: dict[str, object], __: object) -> None:
        limits = {name.removeprefix(_TUNE): value for name, value in parameters.items() if name.startswith(_TUNE)}
        if limits:  # else it is about CPUs
            self._guest(domain, EventKind.TUNABLE, target=str(limits.pop("disk", "")), limits=limits)

    def _block_job(self, _: Any, domain: Any, __: str, ___: int, status: int, ____: object) -> None:
        if status in _ENDED_BLOCK_JOB:
            self._guest(domain, EventKind.BLOCK_JOB)

    def _job(self, _: Any, domain: Any, *__: object) -> None:
        self._guest(domain, EventKind.JOB_ENDED)


def wait_after(failures: int, share: float) -> float:
    """Seconds before the next attempt: exponential backoff, ``share`` (0 to 1) of it, but never less than a tenth."""
    most = min(LONGEST_WAIT, 2.0 ** min(failures, 10))
    return max(share * most, most / 10)


def _kind(event: int, detail: int) -> EventKind | None:
    """None for what changes no limit: a guest that is defined, suspended, or shuts down.

    Nor for a crash of its kernel: the same QEMU may live on. If it ends, that is an event of its own.
    """
    if event == libvirt.VIR_DOMAIN_EVENT_STARTED:
        incoming = detail == libvirt.VIR_DOMAIN_EVENT_STARTED_MIGRATED
        return EventKind.ARRIVING if incoming else EventKind.STARTED
    return {
        libvirt.VIR_DOMAIN_EVENT_RESUMED: EventKind.RESUMED,
        libvirt.VIR_DOMAIN_EVENT_STOPPED: EventKind.STOPPED,
    }.get(event)
