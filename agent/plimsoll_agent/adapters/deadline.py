"""Calls with a deadline into a library that knows none. A deadline does not cancel: the call goes on unheeded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

from plimsoll_agent.errors import NotSent, Unanswered

Answer = TypeVar("Answer")


class _Errand:
    """One call on its way: done or abandoned, whichever comes first."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.finished = threading.Event()
        self.answer: object = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.answer = self._call()
        except BaseException as error:  # raised again in the thread that asked
            self.error = error
        self.finished.set()


class Deadlines:
    """Runs calls in threads of its own, ``at_once`` in flight at most, hung ones counted among them."""

    def __init__(self, seconds: float, at_once: int) -> None:
        self.seconds = seconds
        self._at_once = at_once
        self._slots = threading.Semaphore(at_once)
        self._idle: SimpleQueue[SimpleQueue[_Errand]] = SimpleQueue()
        self._lock = threading.Lock()
        self._hung = 0

    @property
    def hung(self) -> int:
        """Calls whose deadline has passed and that have not come back."""
        return self._hung

    def call(self, who: str, function: Callable[[], Answer]) -> Answer:
        """The call's answer, or what it raised. Raises ``Unanswered`` after the deadline, ``NotSent`` unasked."""
        if self._hung >= self._at_once or not self._slots.acquire(timeout=self.seconds):
            raise NotSent(f"not asked: {self._hung} calls to {who} hang already")
        errand = _Errand(function)
        self._inbox().put(errand)
        if errand.finished.wait(self.seconds):
            self._slots.release()
        else:
            self._abandon(errand)
            raise Unanswered(f"no answer from {who} within {self.seconds:g} s")
        if errand.error is not None:
            raise errand.error
        return errand.answer  # type: ignore[return-value]  # what function returned

    def _abandon(self, errand: _Errand) -> None:
        with self._lock:
            self._hung += 1

        def wait() -> None:
            errand.finished.wait()
            with self._lock:
                self._hung -= 1
            self._slots.release()

        threading.Thread(target=wait, name="waits-for-hung-call", daemon=True).start()

    def _inbox(self) -> SimpleQueue[_Errand]:
        """The inbox of a thread that has nothing to do."""
        try:
            return self._idle.get_nowait()
        except Empty:
            inbox: SimpleQueue[_Errand] = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="caller", daemon=True).start()
            return inbox

    def _serve(self, inbox: SimpleQueue[_Errand]) -> None:
        while True:
            inbox.get().run()
            self._idle.put(inbox)
