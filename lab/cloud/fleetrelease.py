"""The tree of a host with another release of Debian."""

from __future__ import annotations

from pathlib import Path

from . import debian
from .command import LabError

KEPT = debian.Kept(
    "release",
    "trixie",
    packages=("dbus", "iproute2", "openssh-server", "python3", "python3-venv", "systemd-sysv"),
    # Not needed to run.
    dropped=("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man"),
)


def cached(cache: Path) -> bool:
    return KEPT.tree(cache).is_dir()


def tree(cache: Path) -> Path:
    """Raises LabError when it was not made yet."""
    if not cached(cache):
        raise LabError(f"there is no tree of Debian {KEPT.suite}: script/setup all")
    return KEPT.tree(cache)
