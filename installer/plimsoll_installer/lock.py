"""One at a time on a node."""

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
"""What passes hold, in the state directory."""

_held: list[int] = []


def held() -> list[int]:
    """The lock, for programs that we start: while one of them lives it stays locked, though we were killed."""
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
    """Hold the directory, or the lock file; where it is missing, and not to be made, there is nothing to hold.

    ``who`` else may hold it, and what is ``left`` when that takes longer than ``patience``, are words of the
    ``InstallError`` that is raised then.
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
            raise InstallError(f"{path}: {who} is under way here; {left}")
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
    """Raises ``OSError``. What others may have put there, a device say, is not opened to find out that it is one."""
    known = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        mode = os.fstat(known).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise InstallError(f"{path}: is no lock file; move it away")
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
    """Whether it still bears the name: the other one may have been a remove."""
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except OSError:
        return False
