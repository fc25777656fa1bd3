"""Space on the node's disk, and errors where it is too little."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from plimsoll_installer.errors import InstallError

_MIB = 2**20
_NOTHING_LEFT = 2 * _MIB


def demand(near: Path, what: Path, needed: int) -> None:
    """Raises ``InstallError`` where the file system of ``near`` has fewer bytes free."""
    free = free_bytes(near)
    if free < needed:
        raise InstallError(
            f"{what}: no space: it needs about {mib(needed)} MiB, and {free // _MIB} MiB are free; make room and run"
            " it again; nothing was switched"
        )


def ran_out(what: Path, needed: int) -> InstallError:
    """The error where space ran out although there was enough at the start."""
    return InstallError(
        f"{what}: no space left: it needs about {mib(needed)} MiB, and inodes (df -i); make room and run it again;"
        " nothing was switched"
    )


def is_full(near: Path, error: Exception) -> bool:
    """Whether the reason is a full disk; of a program there is only the text of its error."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "No space left" in str(error) or free_bytes(near) < _NOTHING_LEFT


def free_bytes(path: Path) -> int:
    """Bytes that this process can use at the path or its nearest existing parent."""
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
    return f"{where}: {error.strerror or error}; correct that and run it again"
