"""The only place that changes the node. A file is there whole or not at all, whatever the umask, whenever we die."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from plimsoll_installer.errors import InstallError


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, and what it said."""

    status: int
    out: str
    err: str


Run = Callable[[Sequence[str]], Ended]


@dataclass(frozen=True, slots=True)
class Hand:
    """Changes, each of them complete in itself. Raises ``OSError``, and ``InstallError`` where a program failed."""

    run: Run
    as_root: bool
    """Whether what is made is given to root."""

    def directory(self, path: Path) -> None:
        """Make it, and what is missing above it."""
        missing = [parent for parent in (path, *path.parents) if not parent.exists()]
        for parent in reversed(missing):
            parent.mkdir(exist_ok=True)
            self._ours(parent, 0o755)

    def write(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        """Replace the file as a whole; it is on the disk when this returns."""
        self.stage(path, content, mode)
        self.commit(path)

    def stage(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        """Have all of the file on the disk, under a name that nobody reads: what may fail for want of space."""
        new = self._beside(path)
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(file)
        self._ours(new, mode)

    def link(self, path: Path, target: str) -> None:
        """Replace the link in one step."""
        self.stage_link(path, target)
        self.commit(path)

    def stage_link(self, path: Path, target: str) -> None:
        """As ``stage``."""
        self._beside(path).symlink_to(target)

    def commit(self, path: Path) -> None:
        """Put what was staged in its place, in one step."""
        self.rename(beside(path), path)

    def unstage(self, path: Path) -> None:
        """Forget what was staged, and what a killed run had staged."""
        beside(path).unlink(missing_ok=True)

    def rename(self, old: Path, new: Path) -> None:
        """In one step, and on the disk when this returns."""
        old.replace(new)
        parent = os.open(new.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    def remove(self, path: Path) -> None:
        """A file, a link or a whole directory, and what a killed run left beside it."""
        for each in (beside(path), path):
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink(missing_ok=True)

    def copy(self, sources: Sequence[Path], directory: Path) -> None:
        """A directory with copies of these files in it, in one step; what was there before is gone."""
        self.directory(directory.parent)
        new = beside(directory)
        self.remove(directory)
        self.directory(new)
        for source in sources:
            copied = new / source.name
            shutil.copyfile(source, copied)
            self._ours(copied, 0o755 if source.name == "install" else 0o644)
        self.rename(new, directory)

    def call(self, argv: Sequence[str], what: str) -> str:
        """What the program printed. Raises ``InstallError`` with the last thing that it complained of."""
        ended = self.run(argv)
        if ended.status:
            lines = [line.strip() for line in (ended.err or ended.out).splitlines() if line.strip()]
            complaints = [line for line in lines if "error" in line.lower()] or lines
            raise InstallError(f"{what}: {complaints[-1] if complaints else f'exit status {ended.status}'}")
        return ended.out

    def _beside(self, path: Path) -> Path:
        self.directory(path.parent)
        self.unstage(path)
        return beside(path)

    def _ours(self, path: Path, mode: int) -> None:
        if self.as_root:
            os.chown(path, 0, 0)
        path.chmod(mode)


def beside(path: Path) -> Path:
    """The one name that a thing has until it is whole; what a killed run left there is written over."""
    return path.with_name(f".{path.name}.new")
