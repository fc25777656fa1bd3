"""Containers by podman, with a store of the test's own; the layers below plimsoll's are made once, then kept.

No registry is reached: the base is a tree of Debian. On it the first stage of the Containerfile is built as for an
operator, and a later build finds its layers.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from . import debian, keep, preflight
from .command import LabError
from .layout import CHECKOUT

SUITE = "bookworm"
BASE = "localhost/debian:12"
CONTAINERFILE = CHECKOUT / "packaging/container/Containerfile"
BUILD_SPACE = 3 * 1024**3
# crun refuses the hybrid control groups of some machines, and some forbid to raise these limits.
_CONTAINERS = """\
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{home}/tmp"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
log_driver = "k8s-file"
"""
_STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{home}/graph"
runroot = "{home}/run"
[storage.options]
additionalimagestores = {below}
"""


class Podman:
    """``home`` has all that it keeps; ``below`` has images that it may use, and stays as it is."""

    def __init__(self, home: Path, below: Path | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        stores = [str(below)] if below else []
        (home / "storage.conf").write_text(_STORAGE.format(home=home, below=json.dumps(stores)))
        (home / "containers.conf").write_text(_CONTAINERS.format(home=home))
        self.environment = os.environ | {
            "CONTAINERS_STORAGE_CONF": f"{home}/storage.conf",
            "CONTAINERS_CONF": f"{home}/containers.conf",
        }

    def try_(self, *words: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """With both outputs in ``stdout``."""
        return subprocess.run(
            ["podman", *map(str, words)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )

    def __call__(self, *words: str | Path, timeout: float = 60) -> str:
        """Raises LabError when it fails."""
        done = self.try_(*words, timeout=timeout)
        if done.returncode:
            raise LabError(f"podman {' '.join(map(str, words[:2]))}: {done.stdout.strip()[-1000:]}")
        return done.stdout

    def end(self) -> None:
        """All containers, and what is mounted of them."""
        self("rm", "--all", "--force", "--time", "0")
        self("system", "reset", "--force")


def cached(cache: Path) -> bool:
    return (cache / _name()).is_dir()


def below(cache: Path) -> Path:
    """The store with the layers. Raises LabError when it was not made yet."""
    if not cached(cache):
        raise LabError("there is no base of the container: script/setup all")
    return cache / _name()


def ensure(cache: Path, say: Callable[[str], None]) -> Path:
    def make(build: Path) -> Path:
        tree = build / "tree"
        debian.make(tree, SUITE, (), build / "log")
        shutil.rmtree(tree / "var/lib/apt/lists")
        podman = Podman(build / "podman")
        packed = build / "base.tar"
        subprocess.run(["tar", "-C", str(tree), "-cf", str(packed), "."], check=True)
        podman("import", packed, BASE, timeout=300)
        podman(
            *("build", "--format=docker", "--layers", "--network=host"),
            *("--file", CONTAINERFILE, "--build-arg", f"BASE={BASE}", "--target=system", build / "podman"),
            timeout=1200,
        )
        return build / "podman/graph"

    return keep.ensure(
        cache,
        _name(),
        make,
        outdated=lambda: cache.glob("container-*"),
        space=BUILD_SPACE,
        before=lambda: say("container: its base with debootstrap and its packages, once, in about two minutes"),
    )


def _name() -> str:
    first = CONTAINERFILE.read_text().split("\nFROM ")[1]
    return f"container-{hashlib.sha256(repr((SUITE, first)).encode()).hexdigest()[:16]}"


def check_packages() -> None:
    preflight.check_these(preflight.FOR_CONTAINERS)
