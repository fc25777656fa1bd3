"""The tree of a host with another release of Debian: made once with debootstrap, then kept."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from . import debian, keep
from .command import LabError

SUITE = "trixie"
PACKAGES = ("dbus", "iproute2", "openssh-server", "python3", "python3-venv", "systemd-sysv")
BUILD_SPACE = 2 * 1024**3
# Not needed to run.
DROPPED = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man")


def cached(cache: Path) -> bool:
    return (cache / _name()).is_dir()


def tree(cache: Path) -> Path:
    """Raises LabError when it was not made yet."""
    if not cached(cache):
        raise LabError(f"there is no tree of Debian {SUITE}: script/setup all")
    return cache / _name()


def ensure(cache: Path, say: Callable[[str], None]) -> Path:
    def make(build: Path) -> Path:
        made = build / "tree"
        debian.make(made, SUITE, PACKAGES, build / "log")
        for name in DROPPED:
            shutil.rmtree(made / name)
            (made / name).mkdir()
        return made

    return keep.ensure(
        cache,
        _name(),
        make,
        outdated=lambda: cache.glob("release-*"),
        space=BUILD_SPACE,
        before=lambda: say(f"release: fetching Debian {SUITE} with debootstrap, once, in about a minute"),
    )


def _name() -> str:
    return f"release-{hashlib.sha256(repr((SUITE, PACKAGES, DROPPED)).encode()).hexdigest()[:16]}"
