"""What this process takes: threads, descriptors, memory; and whether it may have another thread."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from plimsoll_agent.util.frozen import frozen


@frozen
class Vitals:
    threads: int
    descriptors: int
    memory: int
    """Resident bytes."""


def vitals() -> Vitals:
    """0 where it cannot be read."""
    try:
        descriptors = len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208  # the count only; one is for the list
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return Vitals(threading.active_count(), 0, 0)
    return Vitals(threading.active_count(), descriptors, pages * os.sysconf("SC_PAGE_SIZE"))


def may_have_another_thread() -> bool:
    thread = threading.Thread(name="may-start", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # as with TasksMax= of the unit, or the container's --pids-limit
        return False
    thread.join()
    return True
