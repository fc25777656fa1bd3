"""The daemon's connections to libvirt for passes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, cast

from plimsoll_agent.model.hypervisor import Hypervisor

MOST_CALLS = 12
"""Calls under way, hung ones included: of libvirtd's 20 workers the others are Nova's."""


class Connection(Hypervisor, Protocol):
    def close(self) -> None: ...


class Connections:
    """Gives the one in use."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._current: Connection | None = None

    def get(self, progress: Callable[[], None]) -> Hypervisor:
        """For one pass; ``progress`` is called after each of its calls. Raises ``Unreachable``."""
        return cast("Hypervisor", _Watched(self._current or self._made(), progress))

    def _made(self) -> Connection:
        connection = self._connect()  # without the lock: it takes a deadline while libvirt hangs
        with self._lock:
            if self._current is None:
                self._current = connection
                return connection
            current = self._current
        connection.close()  # another thread was first
        return current

    def renew(self) -> None:
        """The next one is new: libvirt was restarted, or has another address."""
        with self._lock:
            former, self._current = self._current, None
        if former is not None:
            # In a thread: closing is a call too. A process that may have no more threads ends soon.
            with suppress(RuntimeError):
                threading.Thread(target=former.close, name="close-connections", daemon=True).start()


class _Watched:
    """A ``Hypervisor``."""

    def __init__(self, connection: Connection, progress: Callable[[], None]) -> None:
        self._connection = connection
        self._progress = progress

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._connection, name)

        def watched(*args: Any, **more: Any) -> Any:
            try:
                return call(*args, **more)
            finally:
                self._progress()

        return watched
