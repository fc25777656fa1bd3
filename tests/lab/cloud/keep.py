"""What is made once and kept in the cache, under a name made of its recipe."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterable
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
    """The directory ``name`` of the cache, made first if there is none; others' making is waited for.

    ``make`` gets an empty directory and returns the one below it that is to be kept. ``before`` is called where
    it will take its time. What ``outdated`` names is removed once the new one is made. ``space`` is in bytes.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _drop_abandoned(cache)
        home = cache / name
        if home.is_dir():
            return home
        if shutil.disk_usage(cache).free < space:
            raise LabError(f"{cache}: making {name} needs {space >> 30} GiB free")
        before()
        build = Path(tempfile.mkdtemp(prefix="build-", dir=cache))
        try:
            made = make(build)
            for old in outdated():
                shutil.rmtree(old)
            # The rename is the moment from which it counts.
            made.rename(home)
        finally:
            shutil.rmtree(build, ignore_errors=True)
    return home


def tidy(cache: Path) -> None:
    """Remove what killed makers left, unless one is at work."""
    if not cache.is_dir():
        return
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        _drop_abandoned(cache)


def _drop_abandoned(cache: Path) -> None:
    for left in cache.glob("build-*"):
        shutil.rmtree(left, ignore_errors=True)
