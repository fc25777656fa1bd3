"""What a wheelhouse is built for: an operating system, a Python, a processor."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """For example ``debian12``, ``cp311``, ``x86_64``."""

    os: str
    python: str
    arch: str

    def __str__(self) -> str:
        return f"{self.os}-{self.python}-{self.arch}"


def here() -> Machine:
    """The machine that this runs on, with the Python that this runs on."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return Machine(system(release), "cp{}{}".format(*sys.version_info[:2]), platform.machine())


def system(release: Mapping[str, str]) -> str:
    """The operating system, from ``os-release``; RHEL and its rebuilds count as one."""
    rebuilt = release.get("PLATFORM_ID", "").removeprefix("platform:")
    if re.fullmatch(r"el\d+", rebuilt):
        return rebuilt
    return re.sub(r"[^a-z0-9.]", "", (release.get("ID", "linux") + release.get("VERSION_ID", "")).lower())
