"""The daemons of another release of Debian than this machine's, by PLIMSOLL_LAB_RELEASE.

Its tree is made once and kept. A program of it runs with the tree's /usr in the place of this machine's, in a mount
namespace of its own: all else, and so each socket, device and file, is at the same path for it as for the tests.
"""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from . import debian, preflight, recipe
from .command import LabError
from .layout import CHECKOUT, Layout

VARIABLE = "PLIMSOLL_LAB_RELEASE"
# Libraries are found by the cache, and by links of alternatives.
_COVERED = ("usr", "etc/ld.so.cache", "etc/alternatives")
_COMMAND = " && ".join((*(f'mount --bind "$0/{name}" /{name}' for name in _COVERED), 'exec "$@"'))
_PACKAGES = (
    *preflight.PACKAGES,
    *preflight.FOR_PROMETHEUS,
    "ceph-fuse",
    "ceph-mds",
    "procps",  # Nova asks `uptime`, and its node is not there without an answer
    "python3-cephfs",
    "python3-rados",
    "python3-rbd",
    "qemu-utils",
    # What pip needs for the services of OpenStack, among them libvirt's bindings.
    *("gcc", "libc6-dev", "libvirt-dev", "pkg-config", "python3-dev", "python3-venv"),
)
RELEASES = {
    "bookworm": _PACKAGES,
    "trixie": (*_PACKAGES, "libvirt-daemon-driver-secret"),
    "sid": (*_PACKAGES, "libvirt-daemon-driver-secret"),
}
"""What the lab starts or asks, in the packages of each."""


def name() -> str:
    """The release of the cloud's daemons. Raises LabError for one that the lab does not know."""
    own = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    chosen = os.environ.get(VARIABLE) or own
    if chosen != own and chosen not in RELEASES:
        raise LabError(f"{VARIABLE}={chosen}: the lab knows {', '.join(RELEASES)}")
    return chosen


def of_guests() -> str:
    """The release of the guest with a system in it: what was asked for; else the same on every machine."""
    name()
    return os.environ.get(VARIABLE) or recipe.SUITE


def kept() -> debian.Kept | None:
    """The tree of that release; None where it is this machine's own."""
    chosen = name()
    if chosen == platform.freedesktop_os_release().get("VERSION_CODENAME", ""):
        return None
    return debian.Kept(
        f"{chosen}-lab",
        chosen,
        (),
        dropped=("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists"),
        added=RELEASES[chosen],
    )


def made(cache: Path) -> bool:
    """Whether the tree is there, or none is needed."""
    return tree(cache).is_dir()


def ensure(cache: Path, say: Callable[[str], None]) -> None:
    """Make the tree where it is needed and was not made yet. Raises LabError."""
    if which := kept():
        preflight.check_these(preflight.FOR_THE_IMAGE)
        which.ensure(cache, say)


def tree(cache: Path) -> Path:
    """What is the root of its programs."""
    which = kept()
    return which.tree(cache) if which else Path("/")


def prefix() -> str:
    """Of the names of what is kept for each release."""
    which = kept()
    return f"{which.suite}-" if which else ""


def write(layout: Layout) -> None:
    """What a cloud that begins is of; and its commands for PATH, where this machine's may be too old to ask it."""
    (layout.root / "release").write_text(name())
    layout.commands.mkdir()
    if kept():
        for path in (layout.root, layout.cache, CHECKOUT):
            if Path("/usr") in path.parents:
                raise LabError(f"{path}: the /usr of {name()} covers it; PLIMSOLL_LAB_DIR and a clone go elsewhere")
        interpreter = layout.commands / "interpreter/python3"
        interpreter.parent.mkdir()
        for command in ("osdmaptool", "rbd", "interpreter/python3"):
            file = layout.commands / command
            words = program([f"/usr/bin/{file.name}"], layout.cache)
            file.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            file.chmod(0o755)
        # In Python, as on the machines of its users: its interpreter has the release's librados.
        _, _, program_text = (tree(layout.cache) / "usr/bin/ceph").read_text().partition("\n")
        ceph = layout.commands / "ceph"
        ceph.write_text(f"#!{interpreter}\n{program_text}")
        ceph.chmod(0o755)


def check(layout: Layout) -> None:
    """Raises LabError where the cloud that is up is of another release."""
    try:
        up = (layout.root / "release").read_text()
    except FileNotFoundError:
        raise LabError(f"{layout.root}: an older checkout's cloud is up; python -m lab.cloud down ends it") from None
    if up != name():
        raise LabError(
            f"{layout.root}: a cloud of {up} is up; `python -m lab.cloud down` ends it, {VARIABLE}={up} uses it"
        )


def program(argv: Sequence[str | Path], cache: Path) -> list[str]:
    """How a program of the release is started, where its tree is kept in ``cache``; other paths in the namespace.

    The process is the program's own in the end: its pid, signals and exit status are.
    """
    words = [str(word) for word in argv]
    if kept() is None:
        return words
    return ["unshare", "--mount", "sh", "-c", _COMMAND, str(tree(cache)), *words]


def has_ceph_metrics() -> bool:
    """Whether the manager exports them: the module does not load in Debian 13's Ceph 18."""
    return name() != "trixie"
