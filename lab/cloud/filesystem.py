"""A CephFS on the cloud's Ceph, with several active ranks, for as long as a test needs it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import preflight
from .ceph import Ceph
from .cephclient import DEBIANS_PYTHON
from .command import DIES_WITH_US, LabError
from .layout import Layout
from .namespace import Namespace, kill_and_wait
from .release import program

NAME = "cephfs"
_POOLS = {"metadata": f"{NAME}_metadata", "data": f"{NAME}_data"}
_CAPS = ["mon", "profile mds", "osd", "allow *", "mds", "allow *", "mgr", "profile mds"]
FASTER = {
    "mds_bal_interval": "2",
    "mds_decay_halflife": "2",
    "mds_bal_split_size": "500",
    "mds_cache_memory_limit": "300000000",
    "mds_log_max_segments": "30",
    "mds_bal_fragment_interval": "2",
}
"""As a file system of days does in minutes: the balancer decides each 2 s, and directories split at 500 entries."""


@dataclass(frozen=True)
class FileSystem:
    """``ranks`` is how many are active."""

    ceph: Ceph
    layout: Layout
    namespace: Namespace
    ranks: int

    def daemon(self, number: int) -> str:
        return f"mds.{'abcdefgh'[number]}"

    def map(self) -> dict[str, Any]:
        """As the monitors have it."""
        [dump] = json.loads(self.ceph.monitor("fs dump", format="json"))["filesystems"]
        found: dict[str, Any] = dump["mdsmap"]
        return found

    def active(self) -> dict[int, str]:
        """The daemons of active ranks."""
        return {info["rank"]: info["name"] for info in self.map()["info"].values() if info["state"] == "up:active"}

    def start(self, number: int) -> None:
        name = self.daemon(number)
        home = self.layout.root / f"ceph/{name}"
        home.mkdir(exist_ok=True)
        [ring] = self.ceph.batch([{"monitor": {"prefix": "auth get-or-create", "entity": name, "caps": _CAPS}}])
        (home / "keyring").write_text(ring)
        argv = ["/usr/bin/ceph-mds", "-f", "-i", name.partition(".")[2], "-c", str(self.ceph.conf)]
        argv += ["--keyring", str(home / "keyring")]
        self.namespace.spawn(name, program(argv, self.layout.cache_inside), self.layout.logs / f"ceph/{name}.out")

    def wait_active(self, timeout: float = 60) -> None:
        deadline = time.monotonic() + timeout
        while len(self.active()) < self.ranks:
            self.namespace.check_desired()
            if time.monotonic() > deadline:
                raise LabError(f"{len(self.active())} of {self.ranks} ranks are active after {timeout:g} s")
            time.sleep(0.2)

    @contextmanager
    def mounted(self, at: Path) -> Iterator[Path]:
        """The root, as ceph-fuse sees it: one of another release mounts it in a namespace of its own."""
        at.mkdir(exist_ok=True)
        words = ["/usr/bin/ceph-fuse", "-f", "-c", str(self.ceph.conf), "-n", "client.admin", str(at)]
        output = self.layout.logs / "ceph/ceph-fuse.out"
        argv = [*DIES_WITH_US, *program(words, self.layout.cache)]
        with output.open("w") as file, subprocess.Popen(argv, stdout=file, stderr=file) as process:
            try:
                root = Path(f"/proc/{process.pid}/root{at}")
                deadline = time.monotonic() + 60
                while not root.is_mount():
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise LabError(f"ceph-fuse has not mounted {at}: {output.read_text()[-500:]}")
                    time.sleep(0.1)
                yield root
            finally:
                process.terminate()

    @contextmanager
    def creating(
        self, directory: str, clients: int, seconds: float, *, rate: float = 200, period: float = 0
    ) -> Iterator[list[dict[str, Any]]]:
        """Clients at work; at the end of the block, which waits for theirs, the list has what each printed."""
        words = [DEBIANS_PYTHON, "-I", Path(__file__).with_name("creating.py"), self.ceph.conf, directory]
        with ExitStack() as stack:
            processes = []
            for number in range(clients):
                argv = program([*words, str(number), str(seconds), str(rate), str(period)], self.layout.cache)
                client = subprocess.Popen([*DIES_WITH_US, *argv], stdout=subprocess.PIPE, text=True)
                processes.append(stack.enter_context(client))
                stack.callback(client.kill)
            printed: list[dict[str, Any]] = []
            yield printed
            for client in processes:
                out, _ = client.communicate(timeout=seconds + 60)
                if client.returncode:
                    raise LabError(f"a client of {directory} ended with {client.returncode}")
                printed.append(json.loads(out))


def _set(ceph: Ceph, settings: Mapping[str, str]) -> None:
    ceph.batch(
        [{"monitor": {"prefix": "config set", "who": "mds", "name": name, "value": value}}
         for name, value in settings.items()]
    )  # fmt: skip


@contextmanager
def file_system(ceph: Ceph, layout: Layout, namespace: Namespace, ranks: int = 3) -> Iterator[FileSystem]:
    """With all its ranks active; it and its pools are gone afterwards."""
    preflight.check_these(preflight.FOR_CEPHFS)
    made = FileSystem(ceph, layout, namespace, ranks)
    steps: Sequence[dict[str, Any]] = [
        *({"prefix": "osd pool create", "pool": pool, "pg_num": 8, "pgp_num": 8} for pool in _POOLS.values()),
        {"prefix": "fs new", "fs_name": NAME, **_POOLS},
        {"prefix": "fs set", "fs_name": NAME, "var": "standby_count_wanted", "val": "0"},
    ]
    try:
        ceph.batch([{"monitor": step} for step in steps])
        _set(ceph, FASTER)
        for number in range(ranks):
            made.start(number)
        ceph.monitor("fs set", fs_name=NAME, var="max_mds", val=str(ranks))
        if "balance_automate" in made.map().get("flags_state", {}):
            ceph.monitor("fs set", fs_name=NAME, var="balance_automate", val="true")  # off from Reef on
        made.wait_active()
        yield made
    finally:
        _remove(made)


def _remove(made: FileSystem) -> None:
    daemons = made.namespace.daemons()
    names = [made.daemon(number) for number in range(made.ranks)]
    made.ceph.monitor("fs fail", fs_name=NAME)
    for name in names:
        if name in daemons:
            kill_and_wait(daemons[name])
    removing: Sequence[dict[str, Any]] = [
        {"prefix": "fs rm", "fs_name": NAME, "yes_i_really_mean_it": True},
        *(
            {"prefix": "osd pool rm", "pool": pool, "pool2": pool, "yes_i_really_really_mean_it": True}
            for pool in _POOLS.values()
        ),
        *({"prefix": "config rm", "who": "mds", "name": name} for name in FASTER),
        *({"prefix": "auth rm", "entity": name} for name in names),
    ]
    made.ceph.batch([{"monitor": step} for step in removing])
