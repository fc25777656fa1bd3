"""What was read from a file, until the file is another one: for a process that reads the same files many times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from plimsoll_agent.util.files import Stamp, stamp_of

Value = TypeVar("Value")

_SETTLED = 50_000_000
"""Nanoseconds after which another write leaves another time: the clock of files has ticks of milliseconds."""
_MOST = 16
"""The most values; a node has one of each kind."""


class Cached(Generic[Value]):
    """Values of one kind, by file; each must be one that nothing changes."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Stamp, Value]] = {}
        self._reading = threading.Lock()

    def get(self, path: Path, read: Callable[[], Value], *also: object) -> Value:
        """The value of the file, by ``read`` if it has changed. ``also`` is what else it depends on.

        Threads that find the file changed wait for the one that reads it, and get the same value.
        """
        with self._reading:
            stamp = stamp_of(path)  # before it is read: if it is replaced just then, it is read again
            entry = self._known.get((path, *also))
            if stamp is not None and entry is not None and entry[0] == stamp:
                return entry[1]
            value = read()
            if stamp is not None and time.time_ns() - stamp.changed > _SETTLED:
                self.put(path, stamp, value, *also)
            return value

    def put(self, path: Path, stamp: Stamp, value: Value, *also: object) -> None:
        """What this process has written to the file."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[path, *also] = stamp, value
