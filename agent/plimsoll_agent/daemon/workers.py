"""Threads that run passes: a fixed number for single guests, and one for full passes.

They are daemon threads. Each call that they make has its deadline, and tells that the pass makes progress.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum
from queue import SimpleQueue

from plimsoll_agent.daemon.schedule import PassResult
from plimsoll_agent.util.frozen import frozen


@frozen
class GuestPassEnded:
    uuid: str
    result: PassResult
    seconds: float


class FullPassResult(StrEnum):
    DONE = "done"
    BUSY = "busy"
    """Another one ran."""
    POSTPONED = "postponed"
    """The rules file was changed just now: it is no pass, and tried again soon."""
    FAILED = "failed"


@frozen
class FullPassEnded:
    result: FullPassResult


Ended = GuestPassEnded | FullPassEnded
Progress = Callable[[], None]


class _Running:
    """A pass."""

    def __init__(self) -> None:
        self.last = time.monotonic()
        """When it began, or made progress."""

    def progress(self) -> None:
        self.last = time.monotonic()


class Workers:
    def __init__(
        self,
        number: int,
        guest_pass: Callable[[str, Progress], PassResult],
        full_pass: Callable[[Progress], FullPassResult],
        tell: Callable[[Ended], None],
    ) -> None:
        self._number = number
        self._guest_pass = guest_pass
        self._full_pass = full_pass
        self._tell = tell
        self._guests: SimpleQueue[tuple[str, _Running]] = SimpleQueue()
        self._full: SimpleQueue[_Running] = SimpleQueue()
        self._running: dict[str, _Running] = {}
        """By the guest's uuid, "" for the full pass."""
        threads = [threading.Thread(target=self._run_full, name="full-pass", daemon=True)]
        threads += [
            threading.Thread(target=self._run_guests, name=f"guest-pass-{n}", daemon=True) for n in range(number)
        ]
        self._threads = threads
        for thread in threads:
            thread.start()

    @property
    def free(self) -> int:
        """How many more guests can be begun."""
        return self._number - len(self._running) + ("" in self._running)

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def begin(self, uuid: str) -> None:
        running = self._running[uuid] = _Running()
        self._guests.put((uuid, running))

    def begin_full(self) -> None:
        running = self._running[""] = _Running()
        self._full.put(running)

    def ended(self, what: Ended) -> None:
        """To be called when this was told, by the thread that begins passes."""
        del self._running[what.uuid if isinstance(what, GuestPassEnded) else ""]

    def stuck(self, seconds: float) -> bool:
        """Whether a thread has died, or a pass has made no progress for so long."""
        now = time.monotonic()
        longest = max((now - running.last for running in self._running.values()), default=0.0)
        return longest > seconds or not all(thread.is_alive() for thread in self._threads)

    def _run_guests(self) -> None:
        while True:
            uuid, running = self._guests.get()
            began = time.monotonic()
            result = self._guest_pass(uuid, running.progress)
            self._tell(GuestPassEnded(uuid, result, time.monotonic() - began))

    def _run_full(self) -> None:
        while True:
            running = self._full.get()
            self._tell(FullPassEnded(self._full_pass(running.progress)))
