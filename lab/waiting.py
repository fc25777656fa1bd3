"""To wait for what comes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENT = 60.0


def until(true: Callable[[], object], within: float = PATIENT, tell: Callable[[], object] = lambda: "") -> float:
    """Wait until it is true, at most so many seconds; ``tell`` says why it is not.

    The time at which it was seen, between the question and its answer.
    """
    end = time.monotonic() + within
    while True:
        asked = time.time()
        if true():
            return (asked + time.time()) / 2
        assert time.monotonic() < end, tell()
        time.sleep(0.05)
