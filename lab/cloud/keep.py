"""What is made once and kept in the cache, under a name made of its recipe."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .command import LabError


def ensure(
    cache: Path,
    name: str,
    make: Callable[[Path], Path],
    *,
    outdated: Callable[[], Iterable[Path]],
    space: int,
    before: Callable[[], object],
) -> Path:
    """The directory ``name`` of the cache, made first if there is none; others' making of it is waited for.

    ``make`` gets an empty directory and returns the one below it that is to be kept. ``before`` is called where
    it will take its time. What ``outdated`` names is removed once the new one is made. ``space`` is in bytes.
    Things of different names may be made side by side.
    """
    (cache / "locks").mkdir(parents=True, exist_ok=True)
    home = cache / name
    with (cache / "locks" / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tidy(cache)
        if home.is_dir():
            return home
        if shutil.disk_usage(cache).free < space:
            raise LabError(f"{cache}: making {name} needs {-(-space >> 20)} MiB free")
        before()
        with _building(cache) as build:
            made = make(build)
            for old in outdated():
                shutil.rmtree(old)
            # The rename is the moment from which it counts.
            made.rename(home)
    return home


def tidy(cache: Path) -> None:
    """Remove what killed makers left."""
    if not cache.is_dir():
        return
    with _all(cache):
        for left in cache.glob("build-*"):
            # FileNotFoundError: its maker has just removed it.
            with suppress(FileNotFoundError), _open(left) as descriptor:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue  # its maker is at work
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _building(cache: Path) -> Iterator[Path]:
    """A directory to make something in, which is locked as long as its maker lives."""
    with _all(cache):
        build = Path(tempfile.mkdtemp(prefix="build-", dir=cache))
        descriptor = os.open(build, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield build
    finally:
        shutil.rmtree(build, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def _all(cache: Path) -> Iterator[None]:
    """Held for a moment: between the making of a directory and its lock it would look abandoned."""
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _open(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
