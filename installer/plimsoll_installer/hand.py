"""The only place that changes the node. Each file is complete or absent, also after a kill, with any umask."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from plimsoll_installer.errors import InstallError


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, with its output."""

    status: int
    out: str
    err: str


Run = Callable[[Sequence[str]], Ended]


@dataclass(frozen=True, slots=True)
class Hand:
    """Makes atomic changes. Raises ``OSError``, and ``InstallError`` where a program failed."""

    run: Run
    as_root: bool
    """Whether root becomes the owner of what is made."""

    def directory(self, path: Path) -> None:
        """Make the directory and its missing parents."""
        missing = [parent for parent in (path, *path.parents) if not parent.exists()]
        for parent in reversed(missing):
            parent.mkdir(exist_ok=True)
            self._ours(parent, 0o755)

    def write(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        """Replace the file as a whole; it is on the disk when this returns."""
        self.stage(path, content, mode)
        self.commit(path)

    def stage(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        """Write the file to the disk under a temporary name: the part that fails where space is short."""
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
        """As ``stage``, for a link."""
        self._beside(path).symlink_to(target)

    def commit(self, path: Path) -> None:
        """Rename what was staged to its path."""
        self.rename(beside(path), path)

    def unstage(self, path: Path) -> None:
        """Remove what this run or a killed one staged for the path."""
        beside(path).unlink(missing_ok=True)

    def rename(self, old: Path, new: Path) -> None:
        """Rename in one step; it is on the disk when this returns."""
        old.replace(new)
        parent = os.open(new.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    def remove(self, path: Path) -> None:
        """Remove a file, a link or a directory with its content, and what a killed run staged for it."""
        for each in (beside(path), path):
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink(missing_ok=True)

    def copy(self, sources: Sequence[Path], directory: Path) -> None:
        """Replace the directory, in one step, by one with copies of these files."""
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
        """The program's output. Raises ``InstallError`` with the last error that it printed."""
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
    """The temporary name of a file; always the same, so that a new run overwrites what a killed one left."""
    return path.with_name(f".{path.name}.new")
