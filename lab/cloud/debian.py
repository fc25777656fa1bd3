"""Trees of Debian, made with debootstrap."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from .command import run

MIRROR = "http://deb.debian.org/debian"


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
