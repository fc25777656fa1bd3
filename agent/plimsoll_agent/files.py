"""Whole files: read, replaced and set aside so that a crash, or another process, never meets half of one."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

# A process that was killed while it wrote leaves its temporary file; one that lives needs no hour.
_LEFT_BEHIND = 3600.0


def read_whole(path: Path, most: int | None = None) -> bytes:
    """The content of a regular file, or the first ``most`` bytes of it. Raises ``OSError``.

    What is no file (a pipe, a device) is refused: reading it could wait for ever.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(22, "is no regular file")
        return file.read() if most is None else file.read(most)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


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
    how = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, how | os.O_CREAT | os.O_EXCL, mode)
        new = True
    except FileExistsError:
        descriptor, new = os.open(path, how), False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(22, "is no regular file")
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
