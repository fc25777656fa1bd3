"""Calls with a deadline into a library that has none. The deadline does not cancel a call: its answer is ignored."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from plimsoll_agent.errors import DeadlineExceeded, NotSent

Answer = TypeVar("Answer")


class StillHangs(DeadlineExceeded):
    """An earlier call about the same thing hangs, so this one was not made."""


class SharedCalls:
    """The calls of several ``Deadlines`` to one service: at most so many, hung ones included."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._slots = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._hung: Counter[str] = Counter()
        """By what they are about."""

    @property
    def hung(self) -> int:
        with self._lock:
            return self._hung.total()

    def hangs(self, about: str) -> bool:
        return about in self._hung

    def begin(self, seconds: float) -> bool:
        """False if no other call returns in so many seconds, or all hang."""
        return self.hung < self._most and self._slots.acquire(timeout=max(0.0, seconds))

    def hang(self, about: str) -> None:
        with self._lock:
            self._hung[about] += 1

    def returned(self, about: str, *, hung: bool) -> None:
        with self._lock:
            if hung:
                self._hung[about] -= 1
                self._hung = +self._hung
        self._slots.release()


class _Errand:
    """One call, until it is done or abandoned."""

    def __init__(self, call: Callable[[], object], about: str) -> None:
        self._call = call
        self.about = about
        self.finished = threading.Event()
        self.abandoned = False
        self.answer: object = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.answer = self._call()
        except BaseException as error:  # raised again in the thread that asked
            self.error = error
            # An error leads to its frames, and this one to the error: such a circle would keep what the call used
            # (a lost connection, with its descriptor) until Python next looks for circles.
            del self


class Deadlines:
    """Runs calls in its own threads, at most ``at_once`` at a time, hung ones included.

    With ``shared_calls`` the hung ones count there alone, so that they do not keep others from their calls.
    """

    def __init__(self, seconds: float, at_once: int, shared_calls: SharedCalls | None = None) -> None:
        self.seconds = seconds
        self._at_once = at_once
        self._shared_calls = shared_calls
        self._slots = threading.Semaphore(at_once)
        self._idle: SimpleQueue[SimpleQueue[_Errand | None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._hung = 0
        self._closed = False

    @property
    def hung(self) -> int:
        """How many calls have passed their deadline and not returned."""
        return self._hung

    def call(self, who: str, function: Callable[[], Answer], about: str = "", within: float | None = None) -> Answer:
        """Returns or raises what the call does. Raises ``DeadlineExceeded``, or ``NotSent`` if it was not made.

        ``within``: seconds for this call, if not those for all.

        With ``shared_calls``, ``StillHangs`` while an earlier call hangs that is ``about`` the same.
        """
        if self._shared_calls is not None and about and self._shared_calls.hangs(about):
            raise StillHangs(f"no answer from {who} to an earlier call")
        self._begin(who)
        errand = _Errand(function, about)
        try:
            self._inbox().put(errand)
        except RuntimeError as error:  # of Thread.start: the process may have no more
            self._slots.release()
            if self._shared_calls is not None:
                self._shared_calls.returned(about, hung=False)
            raise NotSent(f"{who} not asked: {error}") from error
        seconds = self.seconds if within is None else within
        if not errand.finished.wait(seconds) and self._abandon(errand):
            raise DeadlineExceeded(f"no answer from {who} within {seconds:g} s")
        self._slots.release()
        try:
            if errand.error is not None:
                raise errand.error
            return errand.answer  # type: ignore[return-value]  # what function returned
        finally:
            del errand  # as in its ``run``

    def _begin(self, who: str) -> None:
        """Take a slot. Raises ``NotSent``."""
        end, hung = time.monotonic() + self.seconds, self._hung
        if (self._shared_calls is None and hung >= self._at_once) or not self._slots.acquire(timeout=self.seconds):
            raise NotSent(f"not asked: {hung} calls to {who} hang already")
        if self._shared_calls is not None and not self._shared_calls.begin(end - time.monotonic()):
            self._slots.release()
            raise NotSent(f"not asked: {self._shared_calls.hung} calls hang already")

    def _abandon(self, errand: _Errand) -> bool:
        """Its slot is free when it returns, or if it is shared now; False if it just did."""
        with self._lock:
            errand.abandoned = not errand.finished.is_set()
            self._hung += errand.abandoned
            if errand.abandoned and self._shared_calls is not None:
                self._shared_calls.hang(errand.about)
                self._slots.release()
            return errand.abandoned

    def _finished(self, errand: _Errand) -> None:
        with self._lock:
            errand.finished.set()
            self._hung -= errand.abandoned
        if self._shared_calls is not None:
            self._shared_calls.returned(errand.about, hung=errand.abandoned)
        elif errand.abandoned:
            self._slots.release()

    def close(self) -> None:
        """End the threads: idle ones now, and one that hangs when its call returns. No call may follow."""
        self._closed = True
        with suppress(Empty):
            while True:
                self._idle.get_nowait().put(None)

    def _inbox(self) -> SimpleQueue[_Errand | None]:
        """The inbox of an idle thread."""
        try:
            return self._idle.get_nowait()
        except Empty:
            inbox: SimpleQueue[_Errand | None] = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="caller", daemon=True).start()
            return inbox

    def _serve(self, inbox: SimpleQueue[_Errand | None]) -> None:
        while (errand := inbox.get()) is not None:
            errand.run()
            self._finished(errand)
            del errand  # else an idle thread keeps the answer of its last call
            self._idle.put(inbox)
            if self._closed:  # perhaps nobody takes it from the idle ones
                self.close()
