"""A network that is cut: nothing goes from an address of this machine, or to it, and no connection is closed.

Or only between two addresses.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .command import LabError, run

_LOCK = Path("/run/plimsoll-lab-cut.lock")


@contextmanager
def cut_off(address: str, other: str | None = None) -> Iterator[None]:
    """From all others, or from one. For one cloud at a time: the rules are the machine's."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The kernel asks its table of local addresses first, at preference 0, and a rule that is added there comes
        # after it: it moves one back.
        with suppress(LabError):  # where an earlier one was killed it is there
            _rule("add", "pref", "1", "lookup", "local")
        ways = [("pref", "0", way, address, "blackhole") for way in ("from", "to")]
        if other is not None:
            pairs = ((address, other), (other, address))
            ways = [("pref", "0", "from", source, "to", to, "blackhole") for source, to in pairs]
        try:
            for way in ways:
                _rule("add", *way)
            _rule("del", "pref", "0", "lookup", "local")
            yield
        finally:
            with suppress(LabError):
                _rule("add", "pref", "0", "lookup", "local")
            for way in ways:
                with suppress(LabError):
                    _rule("del", *way)
            _rule("del", "pref", "1", "lookup", "local")


def _rule(*words: str) -> None:
    run(["ip", "rule", *words])
