"""The cloud's Ceph: one monitor, one manager, three OSDs on three CRUSH hosts."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from . import adminsocket, cephconf, ports
from .cephclient import CephClient
from .command import DIES_WITH_US, LabError, run
from .cut import cut_off
from .daemon import Daemon
from .layout import Layout
from .namespace import Namespace
from .release import program

# What to ask a daemon's admin socket, and the answer that it gives when it serves.
READY: dict[str, tuple[str, str, object]] = {
    "mon": ("mon_status", "state", "leader"),
    "mgr": ("mgr_status", "initialized", True),
    "osd": ("status", "state", "active"),
}


class Ceph:
    def __init__(self, layout: Layout, namespace: Namespace) -> None:
        self.conf = layout.ceph_conf
        self._layout = layout
        self._namespace = namespace
        self._client = CephClient(layout)

    # --- what a test does with it

    def run(self, *words: str, timeout: float = 60) -> str:
        """`ceph WORDS` as client.admin."""
        return self._run("ceph", "-c", self.conf, "--connect-timeout", "15", *words, timeout=timeout)

    def rbd(self, *words: str | Path, timeout: float = 120) -> str:
        return self._run("rbd", "-c", self.conf, *words, timeout=timeout)

    def _run(self, *words: str | Path, timeout: float = 60, boxed: bool = False) -> str:
        return run(program(words, self._layout.cache), timeout=timeout, boxed=boxed)

    def batch(self, steps: Sequence[dict[str, Any]], timeout: float = 120) -> list[str]:
        """Many steps without a process for each; see bindings.py for what a step is. Each has a second more."""
        return self._client.ask(steps, timeout + len(steps))

    def monitor(self, prefix: str, **words: object) -> str:
        """The monitor's answer, for a three-hundredth of what `run` costs: what is asked again and again, say."""
        return self.batch([{"monitor": {"prefix": prefix, **words}}], 60)[0]

    def create_image(self, pool: str, name: str, size_bytes: int) -> None:
        self.batch([{"create": [pool, name, size_bytes]}])

    def key(self, entity: str) -> str:
        """The cephx secret of, say, `client.cinder`."""
        for line in (self.conf.parent / f"ceph.{entity}.keyring").read_text().splitlines():
            if line.strip().startswith("key ="):
                return line.split("=", 1)[1].strip()
        raise LabError(f"there is no key of {entity}")

    def daemon(self, name: str, environment: Mapping[str, str] | None = None, group: Path | None = None) -> Daemon:
        """`mon.a`, `mgr.a`, `osd.0`, `osd.1` or `osd.2`; the environment is added to when it is started.

        It is started in that memory cgroup.
        """
        kind, _, number = name.partition(".")
        if name not in self.daemon_names:
            raise LabError(f"no daemon {name}: there are {', '.join(self.daemon_names)}")
        argv = [f"/usr/bin/ceph-{kind}", "-f", "-i", number, "-c", str(self.conf)]
        if variables := {**(cephconf.ENVIRONMENT if kind == "osd" else {}), **(environment or {})}:
            argv = ["/usr/bin/env", *(f"{key}={value}" for key, value in variables.items()), *argv]
        if group is not None:
            argv = ["/bin/sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', str(group), *argv]
        log = self._layout.logs / f"ceph/{name}.out"
        return Daemon(
            self._namespace, name, program(argv, self._layout.cache_inside), log, lambda: self._serves(name)
        )

    def _serves(self, name: str) -> bool:
        """Asked of the daemon itself: after a crash the monitor takes it for alive for some seconds more."""
        command, field, serving = READY[name.partition(".")[0]]
        try:
            answer = adminsocket.ask(self._layout.root / f"run/ceph/{name}.asok", command)
        except (OSError, ValueError):
            return False
        return bool(answer.get(field) == serving)

    daemon_names = ("mon.a", "mgr.a", *(f"osd.{n}" for n in cephconf.OSDS))

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.monitor("status", format="json"))
        return answer

    def busiest_osd(self, pool: str) -> str:
        """`osd.N` that most placement groups of the pool read from: what is spread over the pool needs it."""
        told = json.loads(self.run("pg", "ls-by-pool", pool, "-f", "json"))
        primaries = Counter(group["acting_primary"] for group in told["pg_stats"])
        return f"osd.{primaries.most_common(1)[0][0]}"

    @contextmanager
    def loading(self, image: str, *options: str) -> Iterator[None]:
        """Requests to this image (pool/name) without end, with ``options`` of ``rbd bench``.

        Its OSDs must answer when it ends, as it closes the image then: else that has a watcher for another 30 s.
        """
        words = ["rbd", "-c", str(self.conf), "--rbd-cache=false", *options]
        words += ["bench", "--io-size", "4K", "--io-total", "1T", image]
        argv = [*DIES_WITH_US, *program(words, self._layout.cache)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            rest = threading.Thread(target=deque, args=(client.stdout, 0))  # a full pipe would stop it
            try:
                # Its figures of each second in which a request ended: while these wait it leaves seconds out.
                if not any(re.match(r" *([2-9]|\d\d+) ", line) for line in client.stdout):
                    raise LabError("rbd bench ended")
                rest.start()
                yield
                client.terminate()
                client.wait(timeout=60)
            finally:
                client.kill()
                if rest.ident:
                    rest.join()

    def cut_off(self, osd: int, other: int | None = None) -> AbstractContextManager[None]:
        """The network of `osd.N`: it runs, and neither hears the others nor is heard; or between it and one other."""
        return cut_off(cephconf.address(osd), None if other is None else cephconf.address(other))

    @contextmanager
    def two_on_one_host(self) -> Iterator[tuple[int, int]]:
        """These two OSDs, moved into one failure domain meanwhile; the third has a copy of all that is on them."""
        kept, moved = 0, 1
        weight = json.loads(self.run("osd", "df", "-f", "json"))["nodes"][moved]["crush_weight"]
        place = ("osd", "crush", "create-or-move", f"osd.{moved}", str(weight), "root=default")
        # Else it would move back when it starts.
        self.run("config", "set", "osd", "osd_crush_update_on_start", "false")
        try:
            self.run(*place, "host=lab-a")
            self.wait_healthy()
            yield kept, moved
        finally:
            self.run(*place, "host=lab-b")
            self.run("config", "rm", "osd", "osd_crush_update_on_start")
            self.wait_healthy()

    @contextmanager
    def metrics(self) -> Iterator[str]:
        """The address at which its manager has them meanwhile, no older than a second."""
        for option, value in (
            ("server_addr", "127.0.0.1"),
            ("server_port", ports.CEPH_METRICS),
            ("scrape_interval", 1),
        ):
            self.run("config", "set", "mgr", f"mgr/prometheus/{option}", str(value), "--force")
        self.run("mgr", "module", "enable", "prometheus")
        try:
            yield f"127.0.0.1:{ports.CEPH_METRICS}"
        finally:
            self.run("mgr", "module", "disable", "prometheus")

    def wait_healthy(self, timeout: float = 120, steady: float = 3) -> None:
        """Until all OSDs are up and in, every placement group is active+clean, and no check is raised.

        And stays so for `steady` seconds: just after a fault the monitor still tells of the time before it.
        """
        deadline = time.monotonic() + timeout
        healthy_since: float | None = None
        missing = "not asked"
        while time.monotonic() < deadline:
            self._namespace.check_desired()
            try:
                missing = _missing(self.status())
            except LabError as error:
                missing = str(error)
            if missing:
                healthy_since = None
            else:
                healthy_since = healthy_since or time.monotonic()
                if time.monotonic() - healthy_since >= steady:
                    return
            time.sleep(0.1)
        raise LabError(f"Ceph is not healthy after {timeout:g} s: {missing}")

    # --- making it

    def make(self) -> None:
        """From nothing to pools; the data directories must not exist yet."""
        fsid = str(uuid.uuid4())
        # "ceph version 16.2.15 (…) pacific (stable)"
        release = int(self._run("ceph-mon", "--version").split()[2].partition(".")[0])
        keys = {name: cephconf.new_key(release) for name in cephconf.CAPABILITIES}
        self._write_files(fsid, keys, release)
        osd_ids = {number: str(uuid.uuid4()) for number in cephconf.OSDS}
        with ThreadPoolExecutor() as pool:
            made = [pool.submit(self._make_osd, number, osd_ids[number]) for number in cephconf.OSDS]
            self._make_monitor(fsid)
            self.daemon("mon.a").start()
            self._introduce(osd_ids)
            self.daemon("mgr.a").start(wait=False)
            for future in made:
                future.result()
        for number in cephconf.OSDS:
            self.daemon(f"osd.{number}").start(wait=False)
        self.batch(
            [
                *(
                    {"monitor": {"prefix": "osd pool create", "pool": pool, "pg_num": 8, "pgp_num": 8}}
                    for pool in cephconf.POOLS
                ),
                *(
                    {"monitor": {"prefix": "osd pool application enable", "pool": pool, "app": "rbd"}}
                    for pool in cephconf.POOLS
                ),
            ]
        )

    def heal(self) -> None:
        healed = [name for name in self.daemon_names if self.daemon(name).heal()]
        if healed:
            self.wait_healthy()

    def _write_files(self, fsid: str, keys: dict[str, str], release: int) -> None:
        home = self.conf.parent
        for directory in ("run/ceph", "var/log/ceph", "var/lib/ceph/crash", "ceph/mon.a", "ceph/mgr.a"):
            (self._layout.root / directory).mkdir(parents=True, exist_ok=True)
        self.conf.write_text(cephconf.conf(self._layout.root, fsid, release))
        rings = {
            home / "ceph.client.admin.keyring": ("client.admin",),
            home / "ceph.client.cinder.keyring": ("client.cinder",),
            home / "ceph.client.plimsoll.keyring": ("client.plimsoll",),
            self._layout.root / "ceph/all.keyring": tuple(keys),
            self._layout.root / "ceph/mgr.a/keyring": ("mgr.a",),
        }
        for number in cephconf.OSDS:
            data = self._layout.root / f"ceph/osd.{number}"
            data.mkdir(parents=True)
            rings[data / "keyring"] = (f"osd.{number}",)
        for path, names in rings.items():
            path.touch(mode=0o600)
            path.write_text(cephconf.keyring(keys, names))

    def _make_monitor(self, fsid: str) -> None:
        monmap = self._layout.root / "ceph/monmap"
        address = f"[v2:127.0.0.1:{ports.MONITOR_V2},v1:127.0.0.1:{ports.MONITOR_V1}]"
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", address, monmap)
        keyring = self._layout.root / "ceph/all.keyring"
        words = ["--mkfs", "-i", "a", "--monmap", str(monmap), "--keyring", str(keyring)]
        self._run("ceph-mon", "-c", self.conf, *words, boxed=True)

    def _make_osd(self, number: int, osd_id: str) -> None:
        words = ["--mkfs", "-i", str(number), "--osd-uuid", osd_id, "--no-mon-config"]
        self._run("ceph-osd", "-c", self.conf, *words, timeout=120, boxed=True)

    def _introduce(self, osd_ids: dict[int, str]) -> None:
        """Tell the monitor which OSDs will come."""
        self.batch(
            [
                # Its own pool would be one more that no OpenStack has.
                {
                    "monitor": {
                        "prefix": "config set",
                        "who": "mgr",
                        "name": "mgr/devicehealth/enable_monitoring",
                        "value": "false",
                        "force": True,  # the monitor learns a module's options from the manager, later
                    }
                },
                *(
                    {"monitor": {"prefix": "osd new", "uuid": osd_id, "id": number}}
                    for number, osd_id in osd_ids.items()
                ),
            ]
        )


# In Debian 13's Ceph 18 modules that import cryptography, prometheus among them, do not load.
ALWAYS_RAISED = ("MGR_MODULE_DEPENDENCY",)


def _missing(status: dict[str, Any]) -> str:
    """What keeps the cluster from being healthy, in words; empty when nothing does."""
    osds = status["osdmap"]
    up = (osds["num_up_osds"], osds["num_in_osds"])
    if up != (len(cephconf.OSDS), len(cephconf.OSDS)):
        return f"{up[0]} OSDs up, {up[1]} in"
    states = {state["state_name"]: state["count"] for state in status["pgmap"].get("pgs_by_state", [])}
    if set(states) != {"active+clean"}:
        return f"placement groups: {states or 'none'}"
    return ", ".join(name for name in status["health"]["checks"] if name not in ALWAYS_RAISED)
