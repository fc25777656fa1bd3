"""A clock that only goes on while the program waits: however slow the machine, the program does as much."""

from __future__ import annotations

from threading import Event


class WaitingClock(Event):
    """In place of a module's ``time`` and of the event by which a person ends its command."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        return self.is_set()
