"""Trees of Debian, made with debootstrap."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from . import keep
from .command import run

MIRROR = "http://deb.debian.org/debian"
BUILD_SPACE = 2 * 1024**3


def make(tree: Path, suite: str, packages: Collection[str], log: Path) -> None:
    # A tree that is cut off is thrown away, so dpkg need not wait for the disk with each file.
    hasty = tree / "etc/dpkg/dpkg.cfg.d/hasty"
    hasty.parent.mkdir(parents=True)
    hasty.write_text("force-unsafe-io\n")
    mirror = os.environ.get("PLIMSOLL_LAB_MIRROR", MIRROR)
    include = [f"--include={','.join(packages)}"] if packages else []
    run(
        ["debootstrap", "--variant=minbase", *include, suite, tree, mirror],
        timeout=1200,
        boxed=True,
        log=log,
    )
    hasty.unlink()


@dataclass(frozen=True)
class Kept:
    """A tree that is made once, and kept under a name made of what it is."""

    name: str
    suite: str
    packages: tuple[str, ...]
    dropped: tuple[str, ...]
    """Directories that are empty in it."""

    def tree(self, cache: Path) -> Path:
        """There once it was made."""
        digest = hashlib.sha256(repr((self.suite, self.packages, self.dropped)).encode()).hexdigest()[:16]
        return cache / f"{self.name}-{digest}"

    def ensure(self, cache: Path, say: Callable[[str], None]) -> Path:
        def build(directory: Path) -> Path:
            tree = directory / "tree"
            make(tree, self.suite, self.packages, directory / "log")
            for name in self.dropped:
                shutil.rmtree(tree / name)
                (tree / name).mkdir()
            return tree

        return keep.ensure(
            cache,
            self.tree(cache).name,
            build,
            outdated=lambda: cache.glob(f"{self.name}-*"),
            space=BUILD_SPACE,
            before=lambda: say(
                f"{self.name}: fetching Debian {self.suite} with debootstrap, once, in about a minute"
            ),
        )
