"""Calls with a deadline into a library that has none. The deadline does not cancel a call: its answer is ignored."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from plimsoll_agent.errors import DeadlineExceeded, NotSent

Answer = TypeVar("Answer")


class _Errand:
    """One call, until it is done or abandoned."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.finished = threading.Event()
        self.abandoned = False
        self.answer: object = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.answer = self._call()
        except BaseException as error:  # raised again in the thread that asked
            self.error = error


class Deadlines:
    """Runs calls in its own threads, at most ``at_once`` at a time, hung ones included."""

    def __init__(self, seconds: float, at_once: int) -> None:
        self.seconds = seconds
        self._at_once = at_once
        self._slots = threading.Semaphore(at_once)
        self._idle: SimpleQueue[SimpleQueue[_Errand | None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._hung = 0
        self._closed = False

    @property
    def hung(self) -> int:
        """How many calls have passed their deadline and not returned."""
        return self._hung

    def call(self, who: str, function: Callable[[], Answer]) -> Answer:
        """Returns or raises what the call does. Raises ``DeadlineExceeded``, or ``NotSent`` if it was not made."""
        if self._hung >= self._at_once or not self._slots.acquire(timeout=self.seconds):
            raise NotSent(f"not asked: {self._hung} calls to {who} hang already")
        errand = _Errand(function)
        try:
            self._inbox().put(errand)
        except RuntimeError as error:  # of Thread.start: the process may have no more
            self._slots.release()
            raise NotSent(f"{who} not asked: {error}") from error
        if not errand.finished.wait(self.seconds) and self._abandon(errand):
            raise DeadlineExceeded(f"no answer from {who} within {self.seconds:g} s")
        self._slots.release()
        if errand.error is not None:
            raise errand.error
        return errand.answer  # type: ignore[return-value]  # what function returned

    def _abandon(self, errand: _Errand) -> bool:
        """Its slot is free when it returns; False if it just did."""
        with self._lock:
            errand.abandoned = not errand.finished.is_set()
            self._hung += errand.abandoned
            return errand.abandoned

    def _finished(self, errand: _Errand) -> None:
        with self._lock:
            errand.finished.set()
            self._hung -= errand.abandoned
        if errand.abandoned:
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
