"""Admission of a probe: a slot of the region, and no other probe on the pools of its disks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from plimsoll_agent.model.disk import Disk
from plimsoll_probes.adapters.slots import Slot

Acquire = Callable[[Sequence[str]], AbstractContextManager[Slot]]
"""Takes a slot of the region and these names. Raises ``Trouble``."""


class Admission:
    """Admits the probes of one process."""

    def __init__(self, acquire: Acquire, *, one_per_pool: bool) -> None:
        self._acquire = acquire
        self._one_per_pool = one_per_pool
        self._lock = threading.Lock()
        self._pools: dict[str, threading.Lock] = {}

    @contextmanager
    def turn(self, disks: Sequence[Disk]) -> Iterator[tuple[str, ...]]:
        """Wait until no other probe of this process uses the pools of these disks; returns the names for ``slot``.

        The guest's file will be on one of these disks; which one is unknown before it is written.
        """
        pools = sorted({_pool(disk) for disk in disks}) if self._one_per_pool else []
        with ExitStack() as stack:
            for pool in pools:  # in a fixed order, so that no two wait for each other
                stack.enter_context(self._of(pool))
            yield tuple(f"pool:{pool}" for pool in pools)

    def slot(self, names: Sequence[str]) -> AbstractContextManager[Slot]:
        """Take a slot without waiting. Raises ``Trouble``, ``ConfigError``."""
        return self._acquire(names)

    def _of(self, pool: str) -> threading.Lock:
        with self._lock:
            return self._pools.setdefault(pool, threading.Lock())


def _pool(disk: Disk) -> str:
    """The pool's name, the same on all nodes of the region."""
    return f"{disk.cluster or ','.join(sorted(disk.monitors))}/{disk.pool}"
