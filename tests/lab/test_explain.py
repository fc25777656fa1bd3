"""A guest that is slow by its limit, by a neighbour, by a stopped OSD, or not at all: the cause is found each time.

In a stall it is never "not slow", then or afterwards, and what ``status`` tells of the guest meanwhile agrees.

The region's Prometheus scrapes the node and Ceph's manager each second, and passes follow one another, so what takes
an hour in a region takes some seconds here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from lab.cloud import Cloud, Guest, release
from lab.cloud.cut import cut_off_processes
from lab.cloud.disk import volume
from lab.cloud.prometheus import Prometheus
from lab.looking import put
from lab.node import Node
from lab.others import others_writes
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.explain import cause, messages, questions
from plimsoll_insight.explain.diagnosis import Cause, Diagnosis
from plimsoll_insight.explain.guests import ExplainedDisk, StepSpan
from plimsoll_monitoring.adapters.prometheus import Prometheus as Client
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region.answers import TimeSeries
from tests import depth

pytestmark = [
    pytest.mark.hurt,
    pytest.mark.skipif(not release.has_ceph_metrics(), reason="this release's Ceph has no metrics"),
]

RUNS = depth.count(quick=1, landing=1, soak=20)
IS_SOAK = depth.DEPTH is depth.Depth.SOAK
STEP, PAUSE = 2, 3.0
"""Seconds from interval to interval, and between two passes: an interval has the averages of the last pass, so none
may be missed, although it is scraped up to a second late."""
CALM, TROUBLE = 12, 18
"""Seconds before what is wrong, and of it."""
AFTER = 8
"""Seconds after which what it was is asked again."""
CALMED = 240.0
"""Seconds in which a machine must have a calm time."""
SOON = 30.0
ROUND = 30.0
"""Seconds within which a pass whose guests do not answer is followed by the next one's metrics."""
RATE = 20
"""Of a light guest. Each request costs it three thousandths of a core, and its flush as much."""
FIO = "fio --name=w --filename=/mnt/volume/explain --size=64M --direct=1 --ioengine=libaio --rw=randwrite"
# Each write is flushed: what librbd keeps in its cache waits for no OSD.
LIGHT = f"{FIO} --time_based --runtime=36000 --bs=4k --rate_iops={RATE} --fdatasync=1"
HEAVY = f"{FIO} --time_based --runtime=36000 --bs=256k --iodepth=64"
FLUSHES = 40
END = "kill $(cat /run/explain.pid); rm -f /run/explain.pid; true"
RULE = "rules:\n  - {{name: slow, match: {{guest: {}}}, limits: {{total_iops_sec: {}}}}}\n"
TIGHT, WIDE = 20, 20000


@dataclass(frozen=True)
class Plant:
    """A cloud, a guest whose disk is explained, and another one beside it."""

    node: Node
    cloud: Cloud
    prometheus: Prometheus
    guest: Guest
    other: Guest
    told: list[dict[str, Any]] = field(default_factory=list)
    """What ``status`` told after each pass."""

    def told_since(self, began: float) -> list[dict[str, Any]]:
        """Of passes that began after this time."""
        return [one for one in self.told if _seconds(one["pass"]["started"]) >= began]


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def said(guest: Guest, words: str) -> None:
    done = guest.exec(["sh", "-c", words], timeout=120)
    assert done.exit_code == 0, done.err


@contextmanager
def loaded(guest: Guest, words: str) -> Iterator[None]:
    said(guest, f"{words} >/dev/null 2>&1 & echo $! >/run/explain.pid")
    try:
        yield
    finally:
        said(guest, END)


@contextmanager
def passes(node: Node, told: list[dict[str, Any]]) -> Iterator[list[int]]:
    """One after another; their exit statuses. ``told`` gets what ``status`` tells after each."""
    over, statuses = threading.Event(), list[int]()

    def go_on() -> None:
        while not over.wait(PAUSE):
            statuses.append(node.run("enforce").status)
            told.append(node.run("status", "-f", "json").data())

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield statuses
    finally:
        over.set()
        thread.join()


def explained(prometheus: Prometheus, guest: Guest, seconds: int) -> tuple[ExplainedDisk, Diagnosis]:
    """The guest's volume, as ``plimsoll region explain`` has it, in shorter intervals."""
    client, span = Client(prometheus.url, token_file=None, ca_file=None, deadline=10), StepSpan(seconds, STEP)

    def over(promql: str) -> Sequence[TimeSeries]:
        return client.over(promql, span.seconds, span.step)

    (found,) = questions.guests(client.query, SeriesSelection(), guest.uuid, span.seconds)
    disks, _ = questions.disks(client.query, over, SeriesSelection(), found, None, client.now(), span)
    (vdb,) = (disk for disk in disks if disk.disk == "vdb")
    return vdb, cause.find(vdb.evidence)


@pytest.fixture(scope="module")
def plant(
    tmp_path_factory: pytest.TempPathFactory, cloud: Cloud, prometheus: Prometheus, booted: Guest, other: Guest
) -> Iterator[Plant]:
    """With passes, and a light load on the volume of the guest that is explained."""
    node = Node(tmp_path_factory.mktemp("explain"), cloud)
    prometheus.forget(SOON)
    prometheus.use_rules()
    node.use_metrics(prometheus.textfiles("node-1"))
    told = list[dict[str, Any]]()
    said(other, f"{HEAVY} --create_only=1")
    with (
        cloud.ceph.metrics() as address,
        prometheus.scraping(address),
        loaded(booted, LIGHT),
        passes(node, told) as statuses,
    ):
        prometheus.wait_for("ceph_health_status", len, SOON)
        usual = "volume_type:plimsoll_disk_average_latency_seconds:median"
        prometheus.wait_for(f"count_over_time({usual}[1m]) >= {CALM}", len, 60 + SOON)
        yield Plant(node, cloud, prometheus, booted, other, told)
        assert set(statuses) <= ({0, 1, 3} if IS_SOAK else {0, 3}), statuses  # 1 while libvirtd hangs
    hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=4)
    for disk in ("vda", "vdb"):
        put(hypervisor, booted.uuid, disk, Limits())
    hypervisor.close()
    prometheus.clear()


@pytest.fixture(params=range(RUNS))
def since(cloud: Cloud, plant: Plant) -> float:
    """When some time began in which nothing was wrong, by the steady clock: a busy machine is slow by itself."""
    cloud.ceph.wait_healthy(120)
    end = time.monotonic() + CALMED
    while True:
        began = time.monotonic()
        time.sleep(CALM)
        _, diagnosis = explained(plant.prometheus, plant.guest, CALM)
        if not diagnosis.all_slow:
            return began
        assert began < end, "this machine is slow by itself"


@contextmanager
def nothing(plant: Plant) -> Iterator[None]:
    yield


@contextmanager
def its_limit(plant: Plant) -> Iterator[None]:
    plant.node.write_rules(RULE.format(plant.guest.uuid, TIGHT))
    of_it = f'plimsoll_disk_limit_actual_operations_per_second{{uuid="{plant.guest.uuid}",target_device="vdb"}}'
    plant.prometheus.wait_for(f"{of_it} == {TIGHT}", len, SOON)
    yield
    plant.node.write_rules(RULE.format(plant.guest.uuid, WIDE))


@contextmanager
def a_neighbour(plant: Plant) -> Iterator[None]:
    with loaded(plant.other, HEAVY):
        rates = f'plimsoll_disk_average_operations_per_second{{uuid="{plant.other.uuid}",target_device="vdb"}}'
        plant.prometheus.wait_for(f"sum({rates}) > {RATE}", len, SOON)
        yield


@contextmanager
def a_stopped_osd(plant: Plant) -> Iterator[None]:
    osd = plant.cloud.ceph.daemon(plant.cloud.ceph.busiest_osd("volumes"))
    osd.stop()
    try:
        yield
    finally:
        osd.cont()


@contextmanager
def a_frozen_osd(plant: Plant) -> Iterator[None]:
    """It is never taken for down, so that what is sent to it waits for as long as it is frozen.

    A client beside the guest sends a few: where the guest's own are all for that OSD, none can tell that they wait.
    """
    ceph = plant.cloud.ceph
    with others_writes(plant.cloud, "--rbd-qos-write-iops-limit=50", "--io-threads", "16", "--io-pattern", "rand"):
        ceph.run("osd", "set", "nodown")
        try:
            with a_stopped_osd(plant):
                yield
        finally:
            ceph.run("osd", "unset", "nodown")


@contextmanager
def all_osds_gone(plant: Plant) -> Iterator[None]:
    ceph = plant.cloud.ceph
    osds = [name for name in ceph.daemon_names if name.startswith("osd.")]
    for name in osds:
        ceph.daemon(name).stop()
    ceph.run("osd", "down", *osds)  # as the monitor finds after some minutes, where none is left to tell
    try:
        yield
    finally:
        for name in osds:
            ceph.daemon(name).cont()


@contextmanager
def a_person_who_pauses_it(plant: Plant) -> Iterator[None]:
    plant.guest.domain().suspend()
    try:
        yield
    finally:
        plant.guest.domain().resume()


@contextmanager
def a_cut_network(plant: Plant) -> Iterator[None]:
    """That of one host of OSDs: they run, hear nothing and are not heard."""
    ceph = plant.cloud.ceph
    with ceph.cut_off(int(ceph.busiest_osd("volumes").partition(".")[2])):
        yield


@contextmanager
def a_node_cut_off(plant: Plant) -> Iterator[None]:
    """From a cluster that is well: no guest on it has requests any more that end, and each had some before."""
    target = plant.other.attach(volume())
    disks = ":".join(f"/dev/{disk}" for disk in ("vda", "vdb", target))
    reads = f"fio --name=r --filename={disks} --readonly --direct=1 --ioengine=libaio --rw=randread --iodepth=3"
    try:
        with loaded(
            plant.other, f"{reads} --file_service_type=roundrobin --time_based --runtime=3600 --rate_iops=60"
        ):
            time.sleep(CALM)
            with cut_off_processes(guest.qemu_pid for guest in (plant.guest, plant.other)):
                yield
    finally:
        plant.other.detach(target)


@contextmanager
def a_hung_libvirtd(plant: Plant) -> Iterator[None]:
    """While the guest stalls: nothing of it can be read."""
    libvirtd = plant.cloud.libvirt.daemon
    with a_frozen_osd(plant):
        time.sleep(PAUSE)
        libvirtd.stop()
        try:
            yield
        finally:
            libvirtd.cont()


@contextmanager
def a_pause_while_others_wait(plant: Plant) -> Iterator[None]:
    """Requests of another client wait, and none of the guest that a person has paused."""
    with a_person_who_pauses_it(plant), a_frozen_osd(plant):
        raised = 'ceph_health_detail{name="SLOW_OPS"} == 1'
        plant.prometheus.wait_for(raised, len, SOON)
        yield
        assert plant.prometheus.query(raised)


def _told(plant: Plant, since: float) -> tuple[ExplainedDisk, Diagnosis]:
    disk, diagnosis = explained(plant.prometheus, plant.guest, int(time.monotonic() - since))
    print(f"load of this machine: {os.getloadavg()[0]:.1f}")
    print("\n".join(messages.disk_lines(disk, diagnosis, {}, {})))
    for one in disk.evidence.intervals:
        print(replace(one, neighbours=()), *one.neighbours, sep="\n  ")
    return disk, diagnosis


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (nothing, Cause.NOT_SLOW),
        (its_limit, Cause.LIMIT),
        (a_neighbour, Cause.NEIGHBOUR),
        (a_stopped_osd, Cause.CLUSTER),
    ],
)
def test_the_cause_is_found(
    plant: Plant, since: float, trouble: Callable[[Plant], AbstractContextManager[None]], expected: Cause
) -> None:
    with trouble(plant):
        time.sleep(TROUBLE)
        _, diagnosis = _told(plant, since)
    assert diagnosis.cause is expected
    if expected is Cause.NEIGHBOUR:
        assert diagnosis.neighbour
        assert diagnosis.neighbour.uuid == plant.other.uuid


STALLS: Sequence[tuple[Callable[[Plant], AbstractContextManager[None]], Cause, set[Cause]]] = [
    # Until Ceph raises a check nothing tells the stall from a rest.
    (a_frozen_osd, Cause.CLUSTER, {Cause.CLUSTER, Cause.UNKNOWN}),
    (all_osds_gone, Cause.CLUSTER, {Cause.CLUSTER}),
    (a_cut_network, Cause.CLUSTER, {Cause.CLUSTER}),
    # Its cluster has no check then: that it is not the guests themselves cannot be told.
    (a_node_cut_off, Cause.UNKNOWN, {Cause.UNKNOWN}),
    # What its requests do is unknown then; the next reading tells.
    (a_hung_libvirtd, Cause.CLUSTER, {Cause.CLUSTER, Cause.UNKNOWN}),
    (a_person_who_pauses_it, Cause.NOT_SLOW, {Cause.NOT_SLOW}),
    (a_pause_while_others_wait, Cause.NOT_SLOW, {Cause.NOT_SLOW}),
]


@pytest.mark.parametrize(("trouble", "afterwards", "meanwhile"), STALLS if IS_SOAK else STALLS[:1])
def test_a_stall_is_never_explained_away(
    plant: Plant,
    since: float,
    trouble: Callable[[Plant], AbstractContextManager[None]],
    afterwards: Cause,
    meanwhile: set[Cause],
) -> None:
    began = time.time()
    with trouble(plant):
        time.sleep(TROUBLE)
        _, then = _told(plant, since)
    time.sleep(AFTER)
    disk, diagnosis = _told(plant, since)
    assert (then.cause in meanwhile, diagnosis.cause) == (True, afterwards)
    told = plant.told_since(began)
    assert told
    _agree(told, disk, plant.guest.uuid)
    of_node = _told_by_the_node(plant, since)
    print(of_node["cause"], of_node["unexplained"])
    _agree_on_each_pass(told, of_node["intervals"], plant.guest.uuid)
    assert (of_node["cause"] == Cause.NOT_SLOW) == (afterwards is Cause.NOT_SLOW)
    assert any(one["paused"] for one in of_node["intervals"]) == (afterwards is Cause.NOT_SLOW)


def _agree(told: Sequence[dict[str, Any]], disk: ExplainedDisk, guest: str) -> None:
    """Where ``explain`` has it that the guest did not answer, ``status`` named it after a pass of then."""
    named = [_seconds(one["pass"]["looked"]) for one in told if _names(one, guest)]
    silent = [one for one in disk.evidence.intervals if one.unanswered]
    print(f"status named it after {len(named)} of {len(told)} passes, explain has {len(silent)} intervals")
    assert bool(named) == bool(silent)
    # A pass takes as long as its deadlines, its metrics stay until the next one ends, and a scrape is a second late.
    for one in silent:
        assert min(abs(one.at - looked) for looked in named) < ROUND, (one.at, named)


def _names(told: dict[str, Any], guest: str) -> bool:
    """Whether this ``status`` has it that the guest did not answer."""
    return any(
        each["guest_uuid"] == guest and each["reason"]["code"] == Code.TIMED_OUT
        for each in told["guests"]["unreachable"]
    )


def _agree_on_each_pass(told: Sequence[dict[str, Any]], intervals: Sequence[dict[str, Any]], guest: str) -> None:
    """``disk explain`` has of a pass what ``status`` said after it, and no reading where one failed by that."""
    has = {round(_seconds(one["at"]), 3): one for one in intervals}
    for each in told:
        interval = has.get(round(_seconds(each["pass"]["looked"]), 3))
        at_limit = next(one["value"] for one in each["findings"] if one["name"] == "at_limit")
        print(each["pass"]["looked"], each["level"], each["pass"]["result"], at_limit, each["problems"], interval)
        assert (_names(each, guest), not at_limit) == (bool(interval and interval["unanswered"]), True)
    failed = any(each["pass"]["result"] == "failed" for each in told)
    assert not failed or any(one["operations_per_second"] is None for one in intervals)


def _told_by_the_node(plant: Plant, since: float) -> dict[str, Any]:
    """What ``disk explain`` knows of the same time, by the passes of the node."""
    seconds = int(time.monotonic() - since)
    ran = plant.node.run("disk", "explain", plant.guest.uuid, "vdb", "--since", f"{seconds}s", "-f", "json")
    found: dict[str, Any] = ran.data()["past"]["disk"]
    return found


def test_a_flush_is_time_that_a_guest_waited(booted: Guest, hypervisor: Libvirt) -> None:
    """A write into librbd's cache takes no time; the flush after it does."""

    def told() -> int:
        stats = booted.domain().blockStatsFlags("vdb", 0)
        return sum(stats[f"{kind}_total_times"] for kind in ("rd", "wr", "flush"))

    def counted() -> tuple[int, BlockStats, int]:
        """What QEMU tells before and after it; the guest's file system writes when it likes."""
        return told(), hypervisor.block_stats(booted.uuid, ["vdb"])["vdb"], told()

    lowest, before, at_first = counted()
    said(booted, f"{FIO} --bs=4k --fdatasync=1 --number_ios={FLUSHES} >/dev/null")
    at_last, after, highest = counted()
    done = after.since(before)
    assert booted.domain().blockStatsFlags("vdb", 0)["flush_operations"] >= FLUSHES
    assert done is not None
    assert at_last - at_first <= done.nanoseconds <= highest - lowest
