"""Where things lie below the cloud's one root directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .command import LabError

# Private directories of the cloud's own namespace: what lies on the left appears on the right there.
# /run, /var/lib and so on are covered as a whole, because a machine that has never run libvirtd lacks
# the directories below them, and the lab leaves none behind. It also hides the machine's D-Bus.
COVERED = {
    "etc/ceph": "/etc/ceph",
    "etc/libvirt": "/etc/libvirt",
    "run": "/run",
    "var/lib": "/var/lib",
    "var/log": "/var/log",
    "var/cache": "/var/cache",
}
COVERED_FILES = ("/etc/passwd", "/etc/group")
CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Layout:
    root: Path
    cache: Path

    @classmethod
    def from_environment(cls, root: Path | str | None = None) -> Layout:
        chosen = Path(root or os.environ.get("PLIMSOLL_LAB_DIR") or "/var/tmp/plimsoll-lab")
        cache = Path(os.environ.get("PLIMSOLL_LAB_CACHE") or "/var/cache/plimsoll-lab")
        return cls(chosen.absolute(), cache.absolute())

    def check(self) -> None:
        for hidden in map(Path, COVERED.values()):
            if self.root == hidden or hidden in self.root.parents:
                raise LabError(f"{self.root}: the cloud's directory cannot lie below {hidden}")
        # A unix socket's path has 108 bytes; QEMU's longest below run/ needs about 70 of them, but only
        # inside the namespace, where it starts at /run.
        if len(str(self.libvirt_socket)) > 100:
            raise LabError(f"{self.root}: this path is too long for sockets")
        if self.root.is_dir() and not self.lock.exists() and any(self.root.iterdir()):
            raise LabError(f"{self.root}: not empty and not a cloud's directory, so it is left alone")

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def alive(self) -> Path:
        """Locked as long as the supervisor, or the one who is starting it, lives."""
        return self.root / "alive"

    @property
    def supervisor_socket(self) -> Path:
        return self.root / "supervisor.sock"

    @property
    def libvirt_socket(self) -> Path:
        return self.root / "run/libvirt/libvirt-sock"

    @property
    def ceph_conf(self) -> Path:
        return self.root / "etc/ceph/ceph.conf"

    @property
    def cache_inside(self) -> Path:
        """Where the cache is seen, read-only, in the namespace; outside this is an empty directory."""
        return self.root / "cache"

    @property
    def checkout_inside(self) -> Path:
        """Where the checkout is seen in the namespace, likewise: user nagios has no way into /root, say."""
        return self.root / "checkout"

    @property
    def python_inside(self) -> Path:
        """The environment of this very Python, likewise."""
        return self.root / "python"

    @property
    def commands(self) -> Path:
        """For PATH: what asks the cloud's Ceph, where this machine's own does not."""
        return self.root / "bin"

    @property
    def logs(self) -> Path:
        return self.root / "var/log"

    def part(self, name: str) -> Path:
        """There when that part was brought up to the end; holds its facts."""
        return self.root / "parts" / name

    @contextmanager
    def locked(self, say: Callable[[str], None], shared: bool = False) -> Iterator[None]:
        """Hold the root's lock: alone for what begins or ends the cloud, ``shared`` to bring up parts of it."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        while True:
            self.root.mkdir(parents=True, exist_ok=True)
            with self.lock.open("w") as file:
                try:
                    fcntl.flock(file, kind | fcntl.LOCK_NB)
                except BlockingIOError:
                    say(f"waiting for another up or down of {self.root}")
                    fcntl.flock(file, kind)
                # The holder before us may have been a `down`, which removes the file that we opened.
                if self._is_current(file.fileno()):
                    yield
                    return

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self.lock.stat())
        except FileNotFoundError:
            return False
