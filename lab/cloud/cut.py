"""A network that is cut: nothing goes from an address of this machine, or to it, and no connection is closed.

Or only between two addresses, or on the connections that some processes have.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from .command import LabError, run

_LOCK = Path("/run/plimsoll-lab-cut.lock")


def cut_off(address: str, other: str | None = None) -> AbstractContextManager[None]:
    """From all others, or from one."""
    if other is None:
        return _cut([(way, address) for way in ("from", "to")])
    return _cut([("from", source, "to", to) for source, to in ((address, other), (other, address))])


def cut_off_processes(pids: Iterable[int]) -> AbstractContextManager[None]:
    """Their established TCP connections; one that they open later is not cut."""
    owners, ways = {f"pid={pid}" for pid in pids}, []
    for line in run(["ss", "-Htnp", "state", "established"]).splitlines():
        _, _, near, far, *users = line.split()
        if owners & set(re.findall(r"pid=\d+", " ".join(users))):
            ways += [_way(near, far), _way(far, near)]
    return _cut(ways)


def _way(near: str, far: str) -> Sequence[str]:
    (source, port), (to, its) = (address.rsplit(":", 1) for address in (near, far))
    return "from", source, "to", to, "ipproto", "tcp", "sport", port, "dport", its


@contextmanager
def _cut(ways: Sequence[Sequence[str]]) -> Iterator[None]:
    """For one cloud at a time: the rules are the machine's."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The kernel asks its table of local addresses first, at preference 0, and a rule that is added there comes
        # after it: it moves one back.
        with suppress(LabError):  # where an earlier one was killed it is there
            _rule("add", "pref", "1", "lookup", "local")
        try:
            for way in ways:
                _rule("add", "pref", "0", *way, "blackhole")
            _rule("del", "pref", "0", "lookup", "local")
            yield
        finally:
            with suppress(LabError):
                _rule("add", "pref", "0", "lookup", "local")
            for way in ways:
                with suppress(LabError):
                    _rule("del", "pref", "0", *way, "blackhole")
            _rule("del", "pref", "1", "lookup", "local")


def _rule(*words: str) -> None:
    run(["ip", "rule", *words])
