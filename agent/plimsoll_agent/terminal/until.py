"""Commands that a signal ends early, with what they have until then."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event


@contextmanager
def ended_early() -> Iterator[Event]:
    """Set by a signal that would have ended the process."""
    stop = Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # nohup
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
