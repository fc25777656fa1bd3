"""Threads that run passes: a fixed number for single guests, and one for full passes.

They are daemon threads, and each call that they make has its deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from plimsoll_agent.daemon.schedule import PassResult
from plimsoll_agent.util.frozen import frozen


@frozen
class GuestPassEnded:
    uuid: str
    result: PassResult
    seconds: float


@frozen
class FullPassEnded:
    """``done`` is false if there was none."""

    done: bool


Ended = GuestPassEnded | FullPassEnded


class Workers:
    def __init__(
        self,
        number: int,
        guest_pass: Callable[[str], PassResult],
        full_pass: Callable[[], bool],
        tell: Callable[[Ended], None],
    ) -> None:
        self._number = number
        self._guest_pass = guest_pass
        self._full_pass = full_pass
        self._tell = tell
        self._guests: SimpleQueue[str] = SimpleQueue()
        self._full: SimpleQueue[None] = SimpleQueue()
        self._began: dict[str, float] = {}
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
        return self._number - len(self._began) + ("" in self._began)

    @property
    def busy(self) -> bool:
        return bool(self._began)

    def begin(self, uuid: str) -> None:
        self._began[uuid] = time.monotonic()
        self._guests.put(uuid)

    def begin_full(self) -> None:
        self._began[""] = time.monotonic()
        self._full.put(None)

    def ended(self, what: Ended) -> None:
        """To be called when this was told, by the thread that begins passes."""
        del self._began[what.uuid if isinstance(what, GuestPassEnded) else ""]

    def stuck(self, seconds: float) -> bool:
        """Whether a thread has died, or a pass takes longer than that: none does, as each call has a deadline."""
        oldest = min(self._began.values(), default=float("inf"))
        return time.monotonic() - oldest > seconds or not all(thread.is_alive() for thread in self._threads)

    def _run_guests(self) -> None:
        while True:
            uuid = self._guests.get()
            began = time.monotonic()
            result = self._guest_pass(uuid)
            self._tell(GuestPassEnded(uuid, result, time.monotonic() - began))

    def _run_full(self) -> None:
        while True:
            self._full.get()
            self._tell(FullPassEnded(self._full_pass()))
