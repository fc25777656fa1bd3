"""Space on the node's disk, and the words for too little of it."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from plimsoll_installer.errors import InstallError

_MIB = 2**20
_NOTHING_LEFT = 2 * _MIB


def demand(near: Path, what: Path, needed: int) -> None:
    """Raises ``InstallError`` where the file system of ``near`` has not that many bytes left."""
    free = free_bytes(near)
    if free < needed:
        raise InstallError(
            f"{what}: no space: it needs about {mib(needed)} MiB, and {free // _MIB} MiB are free; make room and run"
            " it again; nothing was switched"
        )


def ran_out(what: Path, needed: int) -> InstallError:
    """For what had room when it was begun."""
    return InstallError(
        f"{what}: no space left: it needs about {mib(needed)} MiB, and inodes (df -i); make room and run it again;"
        " nothing was switched"
    )


def is_full(near: Path, error: Exception) -> bool:
    """Whether it failed for want of space; a program that we ran tells that in words only."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "No space left" in str(error) or free_bytes(near) < _NOTHING_LEFT


def free_bytes(path: Path) -> int:
    """For us, at this path or where it is going to be."""
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    return shutil.disk_usage(there).free


def mib(count: int) -> int:
    """Rounded up."""
    return -(-count // _MIB)


def explain(error: OSError) -> str:
    """An error of the system in one line."""
    where = error.filename2 or error.filename or "the node"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{where}: no space left; make room and run it again"
    return f"{where}: {error.strerror or error}; run it again when that is put right"
