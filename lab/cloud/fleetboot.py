"""Boots one host of the fleet: run by file, isolated from the package, in a mount namespace of its own.

Its argument is a file of JSON: {"name", "lower", "root": a directory of ours, "cgroup", "hidden": [...],
"emptied": [...], "files": {PATH: [MODE, TEXT]}, "links": {PATH: TARGET}, "nspawn": [...]}. It lays a tmpfs over the
tree ``lower``, so that the host can change all of it and nothing is left, and becomes systemd-nspawn.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

# Of those that this machine has, a host gets a group of its own in each: systemd in the host must not meddle with
# this machine's, and what it counts and filters is bound to them.
HIERARCHIES = ("systemd", "unified", "memory", "pids")
CGROUPS = Path("/sys/fs/cgroup")
SIZE = "4G"


def main(spec: dict[str, Any]) -> None:
    home = Path(spec["root"])
    home.mkdir(parents=True, exist_ok=True)
    _run("mount", "--make-rprivate", "/")
    _run("mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0755", "tmpfs", home)
    upper, work, merged = (home / name for name in ("upper", "work", "merged"))
    for directory in (upper, work, merged):
        directory.mkdir()
    lower = Path(spec["lower"])
    for path in spec["emptied"]:
        _empty(lower, upper, path)
    for path in spec["hidden"]:
        _hide(lower, upper, path)
    _run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", merged)
    # From here on through the overlay, which does the copying of directories' owners and modes.
    for path, (mode, text) in spec["files"].items():
        file = merged / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(text)
        file.chmod(mode)
    for path, target in spec["links"].items():
        link = merged / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    # The kernel takes its time with that of a host of this name that was killed.
    subprocess.run(["ip", "link", "delete", f"vb-{spec['name']}"], stderr=subprocess.DEVNULL)
    _enter_cgroups(f"{spec['cgroup']}/{spec['name']}")
    environment = {"PATH": os.defpath, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
    os.execve("/usr/bin/systemd-nspawn", ["systemd-nspawn", f"--directory={merged}", *spec["nspawn"]], environment)


def _empty(lower: Path, upper: Path, path: str) -> None:
    """The directory is there, with the mode and owner that it has, and nothing in it."""
    _parents(lower, upper, path)
    new = upper / path
    new.mkdir(exist_ok=True)
    if (lower / path).is_dir():
        known = (lower / path).stat()
        new.chmod(stat.S_IMODE(known.st_mode))
        os.chown(new, known.st_uid, known.st_gid)
    os.setxattr(new, "trusted.overlay.opaque", b"y")


def _hide(lower: Path, upper: Path, path: str) -> None:
    _parents(lower, upper, path)
    os.mknod(upper / path, stat.S_IFCHR, os.makedev(0, 0))  # what an overlay takes for "removed"


def _parents(lower: Path, upper: Path, path: str) -> None:
    for parent in reversed(Path(path).parents):
        new = upper / parent
        if not new.exists():
            new.mkdir()
            if (lower / parent).is_dir():
                new.chmod(stat.S_IMODE((lower / parent).stat().st_mode))


def _enter_cgroups(group: str) -> None:
    for hierarchy in HIERARCHIES:
        if (CGROUPS / hierarchy / "cgroup.procs").exists():
            own = CGROUPS / hierarchy / group
            own.mkdir(parents=True, exist_ok=True)
            (own / "cgroup.procs").write_text(str(os.getpid()))


def _run(*argv: str | Path) -> None:
    subprocess.run(argv, check=True)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
