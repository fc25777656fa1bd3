"""Locks of a node: files that only their owner and root can open, so that nobody else can hold them.

A lock lies on a file that exists already, which a full or a read-only file system lets us take too.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from plimsoll_agent import files

LOG = logging.getLogger(__name__)

_MODE = 0o600
_BETWEEN = 0.1
"""Seconds between two tries."""


def take(path: Path, patience: float = 0) -> int:
    """A descriptor that holds the lock file until it is closed; the file is made where it is missing.

    ``patience`` is in seconds. Raises ``BlockingIOError`` while another process holds it, ``OSError``.
    """
    lock = _opened(path)
    try:
        lock_open(lock, patience)
        if not _is_still(lock, path):  # who goes by the name would lock another one
            raise OSError(errno.ESTALE, "was removed, or replaced by another, just now; try again", str(path))
    except BaseException:
        os.close(lock)
        raise
    return lock


def lock_open(descriptor: int, patience: float) -> None:
    """Lock what is open. Raises ``BlockingIOError`` when ``patience`` (seconds) is over, ``OSError``."""
    end = time.monotonic() + patience
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(_BETWEEN)


def take_former(directory: Path) -> int | None:
    """Take the lock of the releases before this one too, which was the directory itself; None where it cannot be.

    So no pass of theirs begins beside this one while both are on a node. It is not waited for: whoever may read the
    directory may hold it for ever.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        LOG.warning(
            "%s: is locked by a program that only reads there, or by an older plimsoll under way; this one goes on."
            " fuser -v %s tells which it is",
            directory,
            directory,
        )
        os.close(descriptor)
        return None
    return descriptor


def _opened(path: Path) -> int:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    except OSError as error:  # on a read-only file system this is no FileExistsError
        try:
            lock = files.open_regular(path, os.O_RDONLY)
        except FileNotFoundError:
            raise error from None
    with suppress(OSError):  # where nothing can be written it can be held all the same
        status = os.fstat(lock)
        if status.st_nlink != 1:  # it may be a file of root's, to which another user gave this name
            return lock
        if stat.S_IMODE(status.st_mode) & 0o077:  # of a release before, whose readers could hold it
            os.fchmod(lock, _MODE)
        if status.st_uid == 0:
            files.give_to_owner(lock, path.parent)
    return lock


def _is_still(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), path.lstat())
    except OSError:
        return False
