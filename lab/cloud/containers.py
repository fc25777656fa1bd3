"""Images of containers by podman; the layers below plimsoll's are made once, then kept.

No registry is reached: the base is a tree of Debian. On it the first stage of the Containerfile is built as for an
operator, and a later build finds its layers.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from . import debian, keep
from .command import run
from .layout import CHECKOUT

SUITE = "bookworm"
BASE = "localhost/debian:12"
CONTAINERFILE = CHECKOUT / "packaging/container/Containerfile"
BUILD_SPACE = 3 * 1024**3
# crun refuses the hybrid control groups of some machines, which also forbid to raise these limits.
CONTAINERS_CONF = """\
[engine]
runtime = "runc"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
keyring = false
pids_limit = 0
"""
GRAPH = "graph"


def storage_conf(home: Path | str, below: Sequence[Path | str]) -> str:
    """Images go to the directory ``graph`` in ``home``; those in ``below``, of others, can be used."""
    return (
        f'[storage]\ndriver = "overlay"\ngraphroot = "{home}/{GRAPH}"\nrunroot = "{home}/run"\n'
        f"[storage.options]\nadditionalimagestores = {json.dumps(list(map(str, below)))}\n"
    )


class Store:
    """All that podman keeps is in ``home``, and nothing stays mounted."""

    def __init__(self, home: Path, below: Sequence[Path] = ()) -> None:
        home.mkdir(parents=True, exist_ok=True)
        (home / "storage.conf").write_text(storage_conf(home, below))
        own = f'cgroup_manager = "cgroupfs"\nevents_logger = "none"\ntmp_dir = "{home}/tmp"\n'
        (home / "containers.conf").write_text(CONTAINERS_CONF.replace("[engine]\n", f"[engine]\n{own}"))
        settings = [f"CONTAINERS_STORAGE_CONF={home}/storage.conf", f"CONTAINERS_CONF={home}/containers.conf"]
        # In a mount namespace of its own: podman unmounts its directories only with the machine.
        self._words = ["unshare", "--mount", "env", *settings]

    def run(self, *argv: str | Path) -> str:
        """What it prints: podman, or what calls it. Raises LabError."""
        return run([*self._words, *argv], timeout=600)


def cached(cache: Path) -> bool:
    return (cache / name()).is_dir()


def ensure(cache: Path, say: Callable[[str], None]) -> Path:
    def make(build: Path) -> Path:
        tree = build / "tree"
        debian.make(tree, SUITE, (), build / "log")
        shutil.rmtree(tree / "var/lib/apt/lists")
        (tree / "var/lib/apt/lists").mkdir()
        packed, store = build / "base.tar", Store(build / "podman")
        run(["tar", "-C", tree, "-cf", packed, "."])
        store.run("podman", "import", packed, BASE)
        store.run(
            *("podman", "build", "--format=docker", "--timestamp=0", "--layers", "--network=host"),
            *("--file", CONTAINERFILE, "--build-arg", f"BASE={BASE}", "--target=system", tree / "opt"),
        )
        return build / "podman" / GRAPH

    return keep.ensure(
        cache,
        name(),
        make,
        outdated=lambda: cache.glob("container-*"),
        space=BUILD_SPACE,
        before=lambda: say("container: its base by debootstrap and its packages, once, in about two minutes"),
    )


def name() -> str:
    """Of the store with the layers, in the cache."""
    first = CONTAINERFILE.read_text().split("\nFROM ")[1]
    return f"container-{hashlib.sha256(repr((SUITE, first)).encode()).hexdigest()[:16]}"
