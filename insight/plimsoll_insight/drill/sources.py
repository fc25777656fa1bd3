"""Sources that are asked again and again, each in a thread of its own: one that hangs is a gap of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_insight.drill.recording import RecordingError, RecordingWriter

Line = tuple[float, Mapping[str, Any]]
Source = Callable[[], Iterable[Line]]
"""Asks once, and gives what is to be written, with its time. Raises ``PlimsollError``."""


class Sources:
    """Daemon threads: none is waited for at the end, since a call may hang."""

    def __init__(
        self, writer: RecordingWriter, each: Mapping[str, Source], interval: float, clock: Callable[[], float]
    ) -> None:
        self._writer, self._interval, self._clock = writer, interval, clock
        self._over = threading.Event()
        self.silent = dict.fromkeys(each, "has not answered yet")
        """Why a source gave nothing last; empty where it answered."""
        self.answered: set[str] = set()
        """Those that ever did."""
        self.failure: RecordingError | None = None
        """The file cannot be written any more."""
        self._threads = [
            threading.Thread(target=self._run, args=(name, source), name=f"drill-{name}", daemon=True)
            for name, source in each.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()

    def _run(self, name: str, source: Source) -> None:
        due = self._clock()
        while not self._over.is_set() and self.failure is None:
            begin = self._clock()
            try:
                self._ask(name, source, begin)
            except RecordingError as error:
                self.failure = error
                return
            # One that took longer is asked at the next whole interval, as often as there is time.
            due += self._interval * (1 + max(0, (self._clock() - due) // self._interval))
            self._over.wait(max(due - self._clock(), 0))

    def _ask(self, name: str, source: Source, begin: float) -> None:
        """Raises ``RecordingError``."""
        try:
            lines = list(source())
        except PlimsollError as error:
            why = str(error)
        except Exception as error:  # others than this source must not end with it
            why = f"{type(error).__name__}: {error}"
        else:
            if self._over.is_set():
                return
            for time, line in lines:
                self._writer.write(time, line)
            self.answered.add(name)
            self.silent.pop(name, None)
            return
        if not self._over.is_set():
            self._writer.write(self._clock(), {"gap": name, "since": round(begin, 3), "why": why[:300]})
            self.silent[name] = why
