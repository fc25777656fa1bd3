"""Leave to probe: a slot of the region, and the pools of the disks for oneself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from plimsoll_agent.disk import Disk
from plimsoll_probes.slots import Held

Acquire = Callable[[Sequence[str]], AbstractContextManager[Held]]
"""A slot of the region, and these names alone. Raises ``Trouble``."""


class Leave:
    """Gives leave to the probes of one process."""

    def __init__(self, acquire: Acquire, *, one_per_pool: bool) -> None:
        self._acquire = acquire
        self._one_per_pool = one_per_pool
        self._lock = threading.Lock()
        self._pools: dict[str, threading.Lock] = {}

    @contextmanager
    def turn(self, disks: Sequence[Disk]) -> Iterator[tuple[str, ...]]:
        """The turn, in this process, of a guest with these disks: which of them it will be is not known yet.

        Waits, for as long as that takes, for other probes on the same pools; gives the names to ask a slot with.
        """
        pools = sorted({_pool(disk) for disk in disks}) if self._one_per_pool else []
        with ExitStack() as stack:
            for pool in pools:  # in one order, so that no two wait for each other
                stack.enter_context(self._of(pool))
            yield tuple(f"pool:{pool}" for pool in pools)

    def slot(self, names: Sequence[str]) -> AbstractContextManager[Held]:
        """Waits for nobody. Raises ``Trouble``, and ``ConfigError``."""
        return self._acquire(names)

    def _of(self, pool: str) -> threading.Lock:
        with self._lock:
            return self._pools.setdefault(pool, threading.Lock())


def _pool(disk: Disk) -> str:
    """A name that the whole region has for it."""
    return f"{disk.cluster or ','.join(sorted(disk.monitors))}/{disk.pool}"
