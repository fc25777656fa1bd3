"""The daemon's connections to libvirt for passes, which outlive calls that hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from plimsoll_agent.model.hypervisor import Hypervisor

MOST_RETIRED = 2
"""Sets of connections with calls that hang, beside the one in use. Each has at most ``calls_at_once`` of these."""


class Connection(Hypervisor, Protocol):
    @property
    def hung(self) -> bool:
        """Whether a call has not returned by its deadline."""
        ...

    def close(self) -> None: ...


class Connections:
    """Gives the one in use. One on which calls hang is replaced, so that they do not keep others from theirs."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._current: Connection | None = None
        self._retired: list[Connection] = []

    def get(self) -> Connection:
        """Raises ``Unreachable``."""
        with self._lock:
            self._retired = [each for each in self._retired if each.hung]
            current = self._current
            if current is not None and current.hung and len(self._retired) < MOST_RETIRED:
                self._retire(current)
                current = None
        if current is not None:
            return current
        made = self._connect()  # without the lock: it takes a deadline while libvirt hangs
        with self._lock:
            if self._current is None:
                self._current = made
                return made
            current = self._current
        made.close()  # another thread was first
        return current

    def renew(self) -> None:
        """The next one is new: libvirt was restarted, or has another address."""
        with self._lock:
            if self._current is not None:
                self._retire(self._current)

    def _retire(self, current: Connection) -> None:
        self._current = None
        self._retired.append(current)
        # In a thread: closing is a call too.
        threading.Thread(target=current.close, name="close-connections", daemon=True).start()
