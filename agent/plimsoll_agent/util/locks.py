"""Locks of a node: files that only their owner and root can open, so that no other user can hold them.

An existing lock file can be locked on a full or read-only file system too.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util import files

LOG = logging.getLogger(__name__)

_MODE = 0o600
_BETWEEN = (0.002, 0.1)
"""Seconds between two tries: at first, and at most."""
_OF_READERS = 0.1
"""Seconds to wait for those who only look whether a lock is held."""
_LONGEST_CHANGE = 30.0
"""Seconds to wait for other commands that change the same file."""


def take(path: Path, patience: float = 0) -> int:
    """A descriptor that holds the lock file until it is closed; the file is created if it is missing.

    ``patience`` is in seconds. Raises ``BlockingIOError`` while another process holds it, ``OSError``.
    """
    lock = _opened(path)
    try:
        lock_open(lock, patience)
        if not _is_still(lock, path):  # others would lock the new file of that name
            raise OSError(errno.ESTALE, "was removed or replaced just now; try again", str(path))
    except BaseException:
        os.close(lock)
        raise
    return lock


@contextmanager
def held(
    path: Path,
    busy: PlimsollError,
    error: type[PlimsollError],
    remark: str = "",
    *,
    patience: float = 0,
    former: bool = False,
) -> Iterator[None]:
    """Hold the lock file. Raises ``busy`` while another process has it, ``error`` if it cannot be locked.

    ``remark`` is added to the text of ``error``: what was not done. ``former`` locks as earlier releases do too.
    """
    lock = _taken(path, busy, error, remark, patience)
    directory = _take_former(path.parent) if former else None
    try:
        yield
    finally:
        if directory is not None:
            os.close(directory)
        os.close(lock)


def _taken(path: Path, busy: PlimsollError, error: type[PlimsollError], remark: str, patience: float) -> int:
    try:
        return take(path, patience)
    except BlockingIOError as trouble:
        raise busy from trouble
    except OSError as trouble:
        raise error(f"{path}: cannot be locked: {trouble.strerror}{remark}") from trouble


class LongLock:
    """A lock file that is held for long. Raises as ``held`` does."""

    def __init__(self, path: Path, busy: PlimsollError, error: type[PlimsollError]) -> None:
        self._take = partial(_taken, path, busy, error, "", _OF_READERS)
        self._path = path
        self._lock = self._take()

    def keep(self) -> None:
        """Lock the file again if it was removed or replaced: others would lock the new one."""
        if not _is_still(self._lock, self._path):
            former, self._lock = self._lock, self._take()
            os.close(former)

    def __enter__(self) -> LongLock:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)


def for_a_change(path: Path, of: str, error: type[PlimsollError]) -> AbstractContextManager[None]:
    """Hold the lock file of something (``of``) that commands change; each takes milliseconds, so this one waits.

    Raises ``error``.
    """
    busy = error(f"{path}: another command is changing {of}; try again")
    return held(path, busy, error, patience=_LONGEST_CHANGE)


def is_free(path: Path) -> bool:
    """Whether no process holds the lock file; False too where that is unknown, as for other users."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def is_open_in(pid: int, path: Path) -> bool:
    """Whether this process has the lock file open, as one that holds it: another process may have its number since.

    Raises ``PermissionError`` where that may not be seen.
    """
    try:
        status = path.stat()
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed since
                if os.path.samestat(link.stat(), status):
                    return True
    except (FileNotFoundError, ProcessLookupError):
        return False
    return False


def lock_open(descriptor: int, patience: float) -> None:
    """Lock an open file. Raises ``BlockingIOError`` after ``patience`` seconds, ``OSError``."""
    _try(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB), time.monotonic() + patience)


def _try(lock: Callable[[], object], end: float) -> None:
    """Call it until it succeeds. Raises ``BlockingIOError`` after ``end``."""
    between, longest = _BETWEEN
    while True:
        try:
            lock()
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(min(between, max(0.0, end - time.monotonic())))
        between = min(2 * between, longest)


class ByteLocks:
    """Locks of any number of names in one file, a byte for each.

    They belong to this object's open file (``F_OFD_SETLK``, fcntl(2)), so that they work between the threads of a
    process as between processes, and a process that is killed leaves none. The file stays empty.

    A byte can be locked only in a file that is open for writing. On a read-only file system the first name locks the
    whole file (``flock``), so that one pass at a time still lowers limits there.
    """

    def __init__(self, path: Path, error: type[PlimsollError]) -> None:
        """``error`` is raised if the file cannot be locked."""
        self._path = path
        self._error = error
        self._file: int | None = None
        self._whole = False
        self._held: set[str] = set()

    @property
    def held(self) -> frozenset[str]:
        return frozenset(self._held)

    def take(self, names: Iterable[str], patience: float = 0) -> frozenset[str]:
        """Lock what is free, or becomes free within ``patience`` seconds; returns which of the names are locked.

        Raises the error of this object.
        """
        request, end = frozenset(names), time.monotonic() + patience
        try:
            for name in sorted(request - self._held):  # in the same order everywhere: no two wait for each other
                self._take(name, end)
        except OSError as trouble:
            raise self._error(f"{self._path}: cannot be locked: {trouble.strerror}") from trouble
        return request & self._held

    def _take(self, name: str, end: float) -> None:
        if self._file is None:
            self._file, self._whole = _opened_for_bytes(self._path)
        with suppress(BlockingIOError):
            if self._whole:
                lock_open(self._file, end - time.monotonic())
            else:
                _try(partial(_set_byte, self._file, fcntl.F_WRLCK, name), end)
            if not _is_still(self._file, self._path):  # others would lock the new file of that name
                raise OSError(errno.ESTALE, "was removed or replaced just now; try again", str(self._path))
            self._held.add(name)

    @contextmanager
    def for_now(self) -> Iterator[None]:
        """Release in the end what is taken from now on."""
        before = self.held
        try:
            yield
        finally:
            for name in self._held - before:
                if self._file is not None:
                    _set_byte(self._file, fcntl.F_UNLCK, name)
            self._held &= before
            if not self._held:
                self.close()

    def close(self) -> None:
        """Release all."""
        self._held.clear()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> ByteLocks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened_for_bytes(path: Path) -> tuple[int, bool]:
    """The open file, and whether it can be locked only as a whole. Raises ``OSError``."""
    try:
        return _opened(path, os.O_RDWR), False
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
    return _opened(path), True


def _set_byte(descriptor: int, kind: int, name: str) -> None:
    """Raises ``BlockingIOError`` while another open file has the byte of this name, ``OSError``."""
    byte = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 2
    flock = struct.pack("hhqqi0q", kind, os.SEEK_SET, byte, 1, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, flock)


def _take_former(directory: Path) -> int | None:
    """Take the lock of earlier releases, which was the directory itself, so that none of their passes begins now.

    It does not wait: any user who may read the directory could hold the lock for ever.
    """
    descriptor = None
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = "%s: is locked by another program or by an older plimsoll; this pass goes on. fuser -v %s shows which"
        LOG.warning(text, directory, directory)
    except OSError as error:
        LOG.warning(
            "%s: cannot be locked against an older plimsoll: %s; this pass goes on", directory, error.strerror
        )
    return descriptor


def _opened(path: Path, how: int = os.O_RDONLY) -> int:
    try:
        lock = os.open(path, how | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    except OSError as error:  # on a read-only file system it is not FileExistsError
        try:
            lock = files.open_regular(path, how)
        except FileNotFoundError:
            raise error from None
    with suppress(OSError):  # on a read-only file system it can still be held
        status = os.fstat(lock)
        if status.st_nlink != 1:  # another user may have linked one of root's files to this name
            return lock
        if stat.S_IMODE(status.st_mode) & 0o077:  # of an earlier release, where readers could hold it
            os.fchmod(lock, _MODE)
        if status.st_uid == 0:
            files.give_to_owner(lock, path.parent)
    return lock


def _is_still(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), path.lstat())
    except OSError:
        return False
