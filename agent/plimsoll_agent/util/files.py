"""Whole files: read, replaced and set aside so that neither a crash nor another process sees a part of one."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from plimsoll_agent.errors import PlimsollError

# A process that is killed while it writes leaves its temporary file; a living one needs less than an hour.
_LEFT_BEHIND = 3600.0


def read_whole(path: Path, most: int | None = None, *, follow: bool = False) -> bytes:
    """The content of a regular file, or the first ``most`` bytes of it. Raises ``OSError``.

    A pipe or a device is refused: reading it could block for ever. So is a link unless ``follow``, for a path that
    the operator gave: in plimsoll's own directories another user may have made it.
    """
    with os.fdopen(open_regular(path, os.O_RDONLY, follow=follow), "rb") as file:
        return file.read() if most is None else file.read(most)


def read_bounded(
    path: Path,
    most: int,
    error: type[PlimsollError],
    advice: str = "move the file away",
    *,
    too_large: type[PlimsollError] | None = None,
    follow: bool = False,
) -> bytes | None:
    """``read_whole``; None if there is no file. Raises ``error``; for more bytes ``too_large``, with the advice."""
    try:
        content = read_whole(path, most + 1, follow=follow)
    except FileNotFoundError:
        return None
    except OSError as trouble:
        raise error(f"{path}: cannot be read: {reason(trouble)}") from trouble
    if len(content) > most:
        raise (too_large or error)(f"{path}: is larger than {most} bytes: {advice}")
    return content


def open_regular(path: Path, flags: int, *, follow: bool = False) -> int:
    """A descriptor of a regular file. Raises ``OSError``.

    Nothing else is opened, not even to check it: opening alone has an effect on some devices (a watchdog, a tape)
    and on the other end of a pipe. Nor does the owner of a file hold it up by a lease (fcntl(2)): that is
    ``BlockingIOError`` at once, and not after 45 seconds.
    """
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is a link" if stat.S_ISLNK(mode) else "is not a regular file", str(path))
        try:
            return os.open(f"/proc/self/fd/{handle}", flags | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(handle)


def exists(path: Path) -> bool:
    """Whether there is something at the path, links followed. Raises ``OSError`` where that cannot be found out.

    For ``Path.exists`` and its like nothing is there, from Python 3.14 on, where rights are missing or a disk fails.
    """
    return _mode_of(path) is not None


def is_directory(path: Path) -> bool:
    """As ``exists``, for a directory. Raises ``OSError``."""
    mode = _mode_of(path)
    return mode is not None and stat.S_ISDIR(mode)


def is_regular(path: Path) -> bool:
    """As ``exists``, for a regular file. Raises ``OSError``."""
    mode = _mode_of(path)
    return mode is not None and stat.S_ISREG(mode)


def regular_below(top: Path) -> list[Path]:
    """The regular files in the directory and below, sorted. Raises ``OSError``, also for a directory below."""

    def fail(error: OSError) -> NoReturn:
        raise error

    inside = [Path(folder, name) for folder, _, names in os.walk(top, onerror=fail) for name in names]
    return sorted(file for file in inside if is_regular(file))


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def reason(error: OSError) -> str:
    """What the system answered, and what to do where this user may not look: the group of plimsoll's files may."""
    answer = "no such file" if error.errno == errno.ENOENT else error.strerror or str(error)
    return f"{answer}; add this user to its group, or run this as root" if error.errno == errno.EACCES else answer


class Stamp(NamedTuple):
    """What tells two contents of a path apart."""

    inode: int
    size: int
    changed: int
    """Its time of modification in nanoseconds."""


def stamp_of(path: Path) -> Stamp | None:
    """None if there is no such file, or it cannot be found out."""
    try:
        return _stamp(path.lstat())
    except OSError:
        return None


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


def write_whole(path: Path, content: str | bytes, mode: int = 0o640, *, durable: bool = True) -> Stamp:
    """Replace the file. Raises ``OSError``, and keeps the old one then.

    Its time of modification is exact, so that no two writes have the same stamp. Without ``durable`` it does not wait
    for the disk, and the file may be empty after a power failure.
    """
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            give_to_owner(file.fileno(), path.parent)
            now = time.time_ns()
            os.utime(file.fileno(), ns=(now, now))
            if durable:
                os.fsync(file.fileno())
            stamp = _stamp(os.fstat(file.fileno()))
        Path(temporary).replace(path)
        temporary = None
        if durable:
            sync_directory(path.parent)
        return stamp
    finally:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()


def save(path: Path, content: str | bytes, error: type[PlimsollError], mode: int = 0o640) -> Stamp:
    """``write_whole``. Raises ``error``, which names the file."""
    try:
        return write_whole(path, content, mode)
    except OSError as trouble:
        raise error(f"{path}: cannot be written: {trouble.strerror}") from trouble


def prepare(directory: Path, mode: int, error: type[PlimsollError]) -> None:
    """Create a directory with that mode if it is missing. Raises ``error``."""
    try:
        if not is_directory(directory):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(mode)  # whatever the umask is
    except OSError as trouble:
        raise error(f"{directory}: cannot be created: {trouble.strerror}") from trouble


def append(path: Path, more: bytes, mode: int = 0o640, *, durable: bool = False) -> None:
    """Append to a regular file, which is created if it is missing. Raises ``OSError``.

    If it is to be ``durable``, it is on the disk when this returns.
    """
    how = os.O_WRONLY | os.O_APPEND
    try:
        # O_EXCL opens no existing file, and creates none through a dangling link.
        descriptor = os.open(path, how | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        new = True
    except FileExistsError:
        descriptor, new = open_regular(path, how), False
    try:
        if new:  # an older one may be a link to another user's file
            give_to_owner(descriptor, path.parent)
        while more:  # a disk that is nearly full takes a part, and refuses only the rest
            more = more[os.write(descriptor, more) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if durable:
        sync_directory(path.parent)


def give_to_owner(descriptor: int, like: Path) -> None:
    """Give what root wrote to the owner of ``like``, its directory or another file: that user runs the next pass."""
    if os.geteuid() == 0:
        owner = like.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def sync_directory(directory: Path) -> None:
    """Make renames and links there durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def name_aside(path: Path) -> Path:
    """The name for a corrupt file: ``x.corrupt``, or ``x.corrupt.2`` and so on if there is one already."""
    number = 1
    while True:
        aside = path.with_name(f"{path.name}.corrupt{'' if number == 1 else f'.{number}'}")
        # SQLite's journal is kept with its file.
        if not os.path.lexists(aside) and not os.path.lexists(f"{aside}-journal"):
            return aside
        number += 1


def set_aside(path: Path, error: type[PlimsollError]) -> Path:
    """Rename a corrupt file by ``name_aside``; returns its new name. Raises ``error``."""
    try:
        return path.rename(name_aside(path))
    except OSError as trouble:
        raise error(f"{path}: cannot be set aside: {trouble.strerror}") from trouble


def no_room(directory: Path) -> str:
    """Why nothing can be saved there: its file system is full or read-only. Empty if neither, or unknown."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return ""
    if status.f_flag & os.ST_RDONLY:
        return os.strerror(errno.EROFS)
    # Some file systems have no number of inodes.
    full = not status.f_bavail or (status.f_files and not status.f_favail)
    return os.strerror(errno.ENOSPC) if full else ""


def sweep(directory: Path, names: tuple[str, ...]) -> None:
    """Remove temporary files that killed processes left of these files."""
    starts = tuple(f".{name}." for name in names)
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(starts):
                with suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > _LEFT_BEHIND:
                        Path(entry.path).unlink()
