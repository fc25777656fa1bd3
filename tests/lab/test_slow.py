"""Real slow requests: the OSD at fault is named, live and from the logs, and none where none is at fault.

Everything is faster than in production, by the same factor: a request is slow after 0.8 s, an interval takes seconds.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lab.cloud import Cloud, Guest, adminsocket
from lab.node import Node
from lab.others import others_writes
from tests import depth

pytestmark = pytest.mark.hurt

OSDS = (0, 1, 2)
SETTINGS = {
    "osd_op_complaint_time": "0.8",
    "osd_op_history_slow_op_threshold": "1",  # whole seconds
    "osd_op_history_slow_op_size": "3000",
}
FAULTS = depth.count(quick=1, landing=1, soak=6)
HEALTHY = depth.count(quick=1, landing=2, soak=20)
LEAST_INTERVALS = 8
"""Of three OSDs chance names one in fewer."""
STOPPED, RUNNING = 1.2, 0.8
DELAY = {"osd_debug_inject_dispatch_delay_duration": "1.0", "osd_debug_inject_dispatch_delay_probability": "0.02"}
"""Two of a hundred messages to the OSD wait for a second, and those behind them."""
DELAYED = 18.0
BLAMED = depth.count(quick=0, landing=0, soak=10)
LATE_DISK = 900
"""Milliseconds that each flush of it takes more."""
BLAME_DELAYED = 15.0
SHIM = Path(__file__).with_name("latedisk.c")
IOPS = 500
PATIENCE = 60
_turn = count()


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    return Node(tmp_path, cloud, mode="observe")


def configure(cloud: Cloud, osds: Iterable[int], settings: Mapping[str, str]) -> None:
    for osd in osds:
        for name, value in settings.items():
            adminsocket.ask(socket_of(cloud, osd), "config set", var=name, val=[value])


def forget(cloud: Cloud, osds: Iterable[int], settings: Iterable[str]) -> None:
    for osd in osds:
        for name in settings:
            adminsocket.ask(socket_of(cloud, osd), "config unset", var=name)


def socket_of(cloud: Cloud, osd: int) -> Path:
    return cloud.layout.root / f"run/ceph/osd.{osd}.asok"


@pytest.fixture(scope="module")
def loaded(cloud: Cloud) -> Iterator[Guest]:
    """A guest whose volume is written to, by a client of its own, with many requests at once.

    Not as many in a second as there could be: that would be all that the machine can do, and each OSD's answer late.
    """
    options = f"--rbd-qos-write-iops-limit={IOPS} --io-threads 48 --io-pattern rand".split()
    with others_writes(cloud, *options) as guest:
        yield guest


@pytest.fixture(autouse=True)
def _whole_again(cloud: Cloud, loaded: Guest) -> Iterator[None]:
    configure(cloud, OSDS, SETTINGS)
    yield
    cloud.up(("ceph", "libvirt"))
    forget(cloud, OSDS, [*SETTINGS, *DELAY])
    cloud.ceph.wait_healthy(steady=1)


def logging(cloud: Cloud, to: Path) -> Callable[[], list[str]]:
    """Gives what the cluster and its OSDs have logged since, as files."""
    home = cloud.layout.root / "var/log/ceph"
    logs = [home / "cluster.log", *(home / f"osd.{osd}.log" for osd in OSDS)]
    sizes = {log: log.stat().st_size for log in logs}

    def logged() -> list[str]:
        for log, size in sizes.items():
            with log.open("rb") as stream:
                stream.seek(size)
                (to / log.name).write_bytes(stream.read())
        return [str(to / log.name) for log in logs]

    return logged


def rows_of(node: Node, *words: str) -> list[dict[str, Any]]:
    """None also where it cannot be told, as of logs without a new line."""
    return [row for row in node.run("slow", *words, "-f", "json").data() if "name" in row]


def named(node: Node, *words: str) -> list[str]:
    """Who stands out."""
    rows = rows_of(node, *words)
    print(*(f"{row['name']}: {row['slow_primary']} + {row['slow_subop']} {row['verdict']}" for row in rows), sep="\n")
    return [row["name"] for row in rows if row["verdict"]]


def failed_in(node: Node, *words: str) -> list[str]:
    rows = rows_of(node, *words)
    return [row["name"] for row in rows if row["type"] == "osd" and row["failed"]]


def asked(cloud: Cloud, began: datetime) -> list[str]:
    return ["--live", "--ceph-conf", str(cloud.ceph.conf), "--id", "admin", "--since", began.isoformat()]


@pytest.fixture
def tree(cloud: Cloud, tmp_path: Path) -> list[str]:
    (tmp_path / "tree").write_text(cloud.ceph.run("osd", "tree"))
    return ["--tree", str(tmp_path / "tree")]


def path_of(osd: int) -> str:
    return f"default/lab-{'abc'[osd]}/osd.{osd}"


@pytest.mark.parametrize("time_", range(FAULTS))
def test_an_osd_that_stops_again_and_again_is_named_live_and_a_long_stop_is_in_the_logs(
    time_: int, node: Node, cloud: Cloud, loaded: Guest, tmp_path: Path, tree: list[str]
) -> None:
    guilty, began, logged = next(_turn) % len(OSDS), datetime.now(UTC), logging(cloud, tmp_path)
    daemon = cloud.ceph.daemon(f"osd.{guilty}")
    found: list[str] = []
    for stops in range(3 * LEAST_INTERVALS):
        # On a busy machine it blames those whose answers it reads late, in an interval or two: more are needed then.
        if stops > LEAST_INTERVALS and (found := named(node, *asked(cloud, began), "--interval", "2s")):
            break
        daemon.stop()
        time.sleep(STOPPED)
        daemon.cont()
        time.sleep(RUNNING)
    assert found == [path_of(guilty)]
    daemon.stop()
    end = time.monotonic() + PATIENCE
    while cloud.ceph.status()["osdmap"]["num_up_osds"] == len(OSDS):
        assert time.monotonic() < end, "the monitor takes it for alive"
        time.sleep(0.2)
    daemon.cont()
    while not (failed := failed_in(node, *logged(), *tree)):  # the monitor writes its log later than its map
        assert time.monotonic() < end, "none failed"
    assert failed == [path_of(guilty)]
    assert named(node, *logged(), *tree, "--interval", "2s") in ([], [path_of(guilty)])


@pytest.mark.parametrize("time_", range(FAULTS))
def test_an_osd_that_answers_late_is_named_live_and_from_the_logs(
    time_: int, node: Node, cloud: Cloud, loaded: Guest, tmp_path: Path, tree: list[str]
) -> None:
    guilty, began, logged = next(_turn) % len(OSDS), datetime.now(UTC), logging(cloud, tmp_path)
    configure(cloud, [guilty], DELAY)
    time.sleep(DELAYED)
    end = time.monotonic() + PATIENCE
    while not (found := named(node, *logged(), *tree, "--interval", "2s")):
        assert time.monotonic() < end, "none is named"
    assert found == [path_of(guilty)]
    live = asked(cloud, began)
    assert named(node, *live, "--interval", "2s") == [path_of(guilty)]

    node.run("enforce")
    # A guest that is booted writes now and then, and so may have some too.
    row, *others = node.run("slow", *live, "--by", "image", "-f", "json").data()
    print(row, *others, sep="\n")
    image = loaded.disks["vda"]
    of_guest = {"name": f"{image.pool}/{image.image}", "volume": image.volume_id, "guest": loaded.name}
    assert row | of_guest | {"guest_uuid": loaded.uuid} == row


def test_none_is_named_where_none_is_at_fault(
    node: Node, cloud: Cloud, loaded: Guest, tmp_path: Path, tree: list[str]
) -> None:
    for _ in range(HEALTHY):
        began, logged = datetime.now(UTC), logging(cloud, tmp_path)
        time.sleep(LEAST_INTERVALS + 1)
        assert named(node, *asked(cloud, began), "--interval", "1s") == []
        assert named(node, *logged(), *tree, "--interval", "1s") == []


# --- the OSD that a request waits for is named, or none is


@dataclass(frozen=True)
class Disks:
    """Of OSDs that run with a shim, so that each flush of one may be late."""

    home: Path

    def _file(self, osd: int) -> Path:
        return self.home / f"late-{osd}"

    @contextmanager
    def late(self, osd: int) -> Iterator[None]:
        self._file(osd).write_text(str(LATE_DISK))
        try:
            yield
        finally:
            self._file(osd).write_text("0")

    def environment(self, osd: int) -> dict[str, str]:
        self._file(osd).write_text("0")
        return {"LD_PRELOAD": str(self.home / "latedisk.so"), "LATE_DISK": str(self._file(osd))}


@pytest.fixture(scope="module")
def disks(cloud: Cloud) -> Iterator[Disks]:
    home = cloud.layout.root / "late"
    home.mkdir(exist_ok=True)
    disks = Disks(home)
    shim = home / "latedisk.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", shim, SHIM, "-ldl"], check=True, timeout=60)

    def restart(environment: Callable[[int], dict[str, str] | None]) -> None:
        for osd in OSDS:
            cloud.ceph.daemon(f"osd.{osd}").kill()
            cloud.ceph.daemon(f"osd.{osd}", environment(osd)).start()
            cloud.ceph.wait_healthy()

    restart(disks.environment)
    yield disks
    restart(lambda _: None)


Fault = Callable[[Cloud, Disks, int], AbstractContextManager[set[int]]]
"""Of the OSD with this number; gives those that may be named."""


@contextmanager
def a_late_disk(cloud: Cloud, disks: Disks, osd: int) -> Iterator[set[int]]:
    with disks.late(osd):
        yield {osd}


@contextmanager
def a_late_replica(cloud: Cloud, disks: Disks, osd: int) -> Iterator[set[int]]:
    """Others ask it only to write what they write."""
    cloud.ceph.run("osd", "primary-affinity", f"osd.{osd}", "0")
    cloud.ceph.wait_healthy(steady=1)
    try:
        with disks.late(osd):
            yield {osd}
    finally:
        cloud.ceph.run("osd", "primary-affinity", f"osd.{osd}", "1")


@contextmanager
def a_cut_between_two(cloud: Cloud, disks: Disks, osd: int) -> Iterator[set[int]]:
    """Both are well, and the third one hears both."""
    other = (osd + 1) % len(OSDS)
    cloud.ceph.run("osd", "set", "nodown")
    try:
        with cloud.ceph.cut_off(osd, other):
            yield {osd, other}
    finally:
        cloud.ceph.run("osd", "unset", "nodown")


@contextmanager
def a_lock_that_is_held(cloud: Cloud, disks: Disks, osd: int) -> Iterator[set[int]]:
    """Reads of an image that is one object wait for its writes, and these for a replica."""
    name = f"one-object-{osd}"
    cloud.ceph.create_image("volumes", name, 2**22)
    options = ["--io-type", "readwrite", "--io-threads", "16", "--io-pattern", "rand"]
    try:
        with a_late_replica(cloud, disks, osd), cloud.ceph.loading(f"volumes/{name}", *options):
            yield {osd}
    finally:
        cloud.ceph.rbd("rm", "--no-progress", f"volumes/{name}")


BLAME: tuple[Fault, ...] = (a_late_disk, a_late_replica, a_cut_between_two, a_lock_that_is_held)


@pytest.mark.parametrize("fault", BLAME)
@pytest.mark.parametrize("time_", range(BLAMED))
def test_who_is_waited_for_is_named_or_none_and_never_an_innocent_one(
    time_: int, fault: Fault, node: Node, cloud: Cloud, loaded: Guest, disks: Disks, tmp_path: Path, tree: list[str]
) -> None:
    guilty, began, logged = next(_turn) % len(OSDS), datetime.now(UTC), logging(cloud, tmp_path)
    with fault(cloud, disks, guilty) as may_be_named:
        time.sleep(BLAME_DELAYED)
        live = named(node, *asked(cloud, began), "--interval", "2s")
    logs = logged()
    of_logs = named(node, *logs, *tree, "--interval", "2s")
    print(fault.__name__, f"osd.{guilty}", "live:", live, "logs:", of_logs)
    assert {*live, *of_logs} <= {path_of(osd) for osd in may_be_named}
