"""Trees of Debian, made with debootstrap."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from . import keep
from .command import LabError, run

MIRROR = "http://deb.debian.org/debian"
BUILD_SPACE = 2 * 1024**3
LONGEST = 3600
"""Seconds for a program that makes a tree: with a load of 40, apt was not done after 20 minutes."""

# What the administrator of this machine has set so that it reaches its mirrors.
SET_BY_ADMINISTRATORS = ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")


def make(tree: Path, suite: str, packages: Collection[str], log: Path) -> None:
    # A tree that is cut off is thrown away, so dpkg need not wait for the disk with each file.
    hasty = tree / "etc/dpkg/dpkg.cfg.d/hasty"
    hasty.parent.mkdir(parents=True)
    hasty.write_text("force-unsafe-io\n")
    mirror = os.environ.get("PLIMSOLL_LAB_MIRROR", MIRROR)
    include = [f"--include={','.join(packages)}"] if packages else []
    run(
        ["debootstrap", "--variant=minbase", *include, suite, tree, mirror],
        timeout=LONGEST,
        boxed=True,
        log=log,
    )
    hasty.unlink()


def reach_mirrors(tree: Path) -> None:
    """As this machine does."""
    for name in SET_BY_ADMINISTRATORS:
        if Path("/", name).exists() and (tree / name).parent.is_dir():
            shutil.copyfile(Path("/", name), tree / name)
    proxies = [line for line in run(["apt-config", "dump"]).splitlines() if "::proxy" in line.lower()]
    (tree / "etc/apt/apt.conf.d/proxies").write_text("".join(f"{line}\n" for line in proxies))


def add(tree: Path, packages: Collection[str], log: Path) -> None:
    """With apt, which knows alternatives and what is provided by others, as debootstrap does not."""
    reach_mirrors(tree)
    policy = tree / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")  # no daemon is started there
    policy.chmod(0o755)
    # A mirror may be a week behind, and debootstrap does not ask how old it is either.
    (tree / "etc/apt/apt.conf.d/lab").write_text(
        'Acquire::Check-Valid-Until "false";\nDPkg::Options {"--force-unsafe-io";};\n'
    )
    enter = 'mount -t proc proc "$0/proc" && DEBIAN_FRONTEND=noninteractive exec chroot "$0" apt-get -qq -y "$@"'
    for words in (["update"], ["install", "--no-install-recommends", *packages]):
        run(["sh", "-c", enter, tree, *words], timeout=LONGEST, boxed=True, log=log)


@dataclass(frozen=True)
class Kept:
    """A tree that is made once, and kept under a name made of what it is."""

    name: str
    suite: str
    packages: tuple[str, ...]
    dropped: tuple[str, ...]
    """Directories that are empty in it."""
    added: tuple[str, ...] = ()
    """Packages with many of others below them."""

    def tree(self, cache: Path) -> Path:
        """There once it was made."""
        digest = hashlib.sha256(repr((self.suite, self.packages, self.dropped, *self.added)).encode()).hexdigest()[
            :16
        ]
        return cache / f"{self.name}-{digest}"

    def ensure(self, cache: Path, say: Callable[[str], None]) -> Path:
        def build(directory: Path) -> Path:
            tree = directory / "tree"
            try:
                make(tree, self.suite, self.packages, directory / "log")
                if self.added:
                    add(tree, self.added, directory / "log")
            except LabError as error:
                raise LabError(f"Debian {self.suite} is not kept here and cannot be made: {error}") from None
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
            before=lambda: say(f"{self.name}: fetching Debian {self.suite} with debootstrap, once, in some minutes"),
        )
