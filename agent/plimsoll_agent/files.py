"""Whole files: read, replaced and set aside so that a crash, or another process, never meets half of one."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

# A process that was killed while it wrote leaves its temporary file; one that lives needs no hour.
_LEFT_BEHIND = 3600.0


def read_whole(path: Path, most: int | None = None, *, follow: bool = False) -> bytes:
    """The content of a regular file, or the first ``most`` bytes of it. Raises ``OSError``.

    What is no file (a pipe, a device) is refused: reading it could wait for ever. So is a link, unless the path is
    the operator's word (``follow``): in directories of plimsoll a link leads where another user wants.
    """
    with os.fdopen(open_regular(path, os.O_RDONLY, follow=follow), "rb") as file:
        return file.read() if most is None else file.read(most)


def open_regular(path: Path, flags: int, *, follow: bool = False) -> int:
    """A descriptor of a regular file. Raises ``OSError``.

    Nothing else is opened, not even for a look: opening is what some devices (a watchdog, a tape) and the other end
    of a pipe act upon.
    """
    known = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        mode = os.fstat(known).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is a link" if stat.S_ISLNK(mode) else "is no regular file", str(path))
        try:
            return os.open(f"/proc/self/fd/{known}", flags | os.O_CLOEXEC)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(known)


def write_whole(path: Path, text: str, mode: int = 0o640) -> None:
    """Replace the file, durably. Raises ``OSError``, and leaves the old one then."""
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            give_to_owner(file.fileno(), path.parent)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        temporary = None
        sync_directory(path.parent)
    finally:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()


def append(path: Path, more: bytes, mode: int = 0o640) -> None:
    """Add to the end of a regular file, which is made where it is missing. Raises ``OSError``."""
    how = os.O_WRONLY | os.O_APPEND
    try:
        # This makes a file, or opens none: through a link to nothing it makes none either.
        descriptor = os.open(path, how | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        new = True
    except FileExistsError:
        descriptor, new = open_regular(path, how), False
    try:
        if new:  # an older one may be a link to somebody else's
            give_to_owner(descriptor, path.parent)
        os.write(descriptor, more)
    finally:
        os.close(descriptor)


def give_to_owner(descriptor: int, like: Path) -> None:
    """What root writes belongs to the owner of the directory, who runs the next pass and has to read it.

    Or to that of a file, where several users write in the directory.
    """
    if os.geteuid() == 0:
        owner = like.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def sync_directory(directory: Path) -> None:
    """Make what was renamed or linked there last a crash."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def name_aside(path: Path) -> Path:
    """The name under which a corrupt file is kept: ``x.corrupt``, never that of an earlier one."""
    number = 1
    while True:
        aside = path.with_name(f"{path.name}.corrupt{'' if number == 1 else f'.{number}'}")
        # SQLite's journal goes with its file.
        if not os.path.lexists(aside) and not os.path.lexists(f"{aside}-journal"):
            return aside
        number += 1


def sweep(directory: Path, names: tuple[str, ...]) -> None:
    """Remove temporary files of processes that were killed while they wrote one of these files."""
    for name in names:
        for left in directory.glob(f".{name}.*"):
            with suppress(OSError):
                if time.time() - left.lstat().st_mtime > _LEFT_BEHIND:
                    left.unlink()
