"""Locks: one installer at a time on a node, and none during a pass."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from plimsoll_installer.errors import InstallError

OF_PASSES = "pass.lock"
"""The lock file of passes, in the state directory."""

_held: list[int] = []


def held() -> list[int]:
    """The locks, to be inherited by programs: they stay locked while one of them runs, even if we were killed."""
    return list(_held)


@contextmanager
def locked(
    path: Path,
    patience: float,
    say: Callable[[str], None],
    *,
    who: str = "another install, rollback or remove",
    left: str = "this one changed nothing",
    make: Callable[[Path], None] | None = None,
) -> Iterator[None]:
    """Lock a directory or a lock file; without ``make``, a missing one is not locked.

    Raises ``InstallError`` after ``patience`` seconds, with ``who`` may hold it and what is ``left`` unchanged.
    """
    end, said = time.monotonic() + patience, False
    while True:
        try:
            lock = _opened(path)
        except FileNotFoundError:
            if make is None:
                yield
                return
            make(path)
            continue
        if _takes(lock) and _is_still(lock, path):
            break
        os.close(lock)
        if time.monotonic() >= end:
            raise InstallError(f"{path}: {who} is under way; {left}")
        if not said:
            say(f"{who} is under way on this node: waiting for it")
            said = True
        time.sleep(0.2)
    _held.append(lock)
    try:
        yield
    finally:
        _held.remove(lock)
        os.close(lock)


def _opened(path: Path) -> int:
    """Raises ``OSError``. It does not open a device, which another user may have placed there."""
    known = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        mode = os.fstat(known).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise InstallError(f"{path}: is not a lock file; move it away")
        return os.open(f"/proc/self/fd/{known}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(known)


def _takes(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(lock: int, path: Path) -> bool:
    """Whether the path still names the locked file: the other run may have removed it."""
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except OSError:
        return False
