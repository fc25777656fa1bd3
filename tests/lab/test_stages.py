"""Stages of approvals in two regions of nodes, with real guests, Prometheus and passes; Cinder is a stand-in.

The nodes share one libvirtd: each leaves the guests of the others alone.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest, release
from lab.cloud.prometheus import Prometheus
from lab.looking import actual, put
from lab.node import Node, Ran
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.catalogue.model import SKEW
from plimsoll_agent.catalogue.stages import position
from plimsoll_agent.model.limits import Limits
from tests import depth
from tests.circumstances import SHIFTED
from tests.functional import cloudserver
from tests.functional.webserver import key_pair

Guests = Callable[..., list[Guest]]

SOAK = depth.count(quick=0, landing=0, soak=1)
"""Stages that are judged by a minute before them and one of theirs."""
SOON = 30.0
WINDOW = 75
BETWEEN = 3
"""Seconds between passes."""
NAMES = [f"compute-{number}" for number in range(100)]
EARLY = next(name for name in NAMES if position(name) < 50)
LATE = next(name for name in NAMES if position(name) > 50)
BEFORE, AFTER = Limits(total_iops_sec=500), Limits(total_iops_sec=40)
AHEAD = 3500
"""Seconds of a clock that a pass still trusts: it agrees with the time since the boot within an hour."""
UNJUDGED = ("--without", "at-limit", "--without", "verdicts", "--without", "health")
FILE = "/mnt/volume/stages-test"


class Textfiles(BaseHTTPRequestHandler):
    """As node_exporters serve them: all of a directory, a path a node."""

    home = Path()

    def do_GET(self) -> None:
        texts = [file.read_bytes() for file in (self.home / self.path.strip("/")).glob("*.prom")]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(b"".join(texts))

    def log_message(self, format: str, *args: object) -> None:
        pass


class Region:
    """The machine that makes the region file, and two nodes with a guest each."""

    def __init__(
        self,
        home: Path,
        cloud: Cloud,
        cinder: cloudserver.Cloud,
        guests: Mapping[str, Guest],
        others: list[Guest],
        rules: str,
    ) -> None:
        home.mkdir()
        self.cinder, self.guests = cinder, guests
        self.hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=4)
        self.file, (self._key, public) = home / "region.json", key_pair(home)
        self._maker = _node(home / "maker", cloud)
        self._maker.environment["OS_REGION__FILE"] = str(self.file)
        login = cloudserver.credentials(home, f"{cinder.url}/identity/v3")
        self._maker.use_catalogue(source="none", credentials_file=login, nova=False, deadline=20)
        self.nodes = {name: _node(home / name, cloud) for name in guests}
        for name, node in self.nodes.items():
            uuids = ", ".join(guest.uuid for guest in (*guests.values(), *others) if guest is not guests[name])
            node.write_rules(f"rules:\n  - {{name: others, match: {{guest: [{uuids}]}}, manage: false}}\n{rules}")
            node.use_metrics(home / name)
            node.use_region_file(self.file, public, host=name, deadline=5)
        cinder.types = [{"id": f"t-{home.name}", "name": "gold", "qos_specs_id": f"s-{home.name}"}]
        cinder.volumes = [
            {"id": id, "volume_type": "gold", "volume_type_id": f"t-{home.name}", "size": 1}
            for guest in guests.values()
            for disk in self.hypervisor.look(guest.uuid).disks
            if (id := disk.volume_id)
        ]
        self.spec(BEFORE)

    def spec(self, limits: Limits) -> None:
        (type_,) = self.cinder.types
        keys = {"total_iops_sec": str(limits.total_iops_sec)}
        self.cinder.specs = [{"id": type_["qos_specs_id"], "name": "x", "consumer": "front-end", "specs": keys}]

    def ask(self, prometheus: Prometheus) -> None:
        self._maker.environment |= {"OS_PROMETHEUS__URL": prometheus.url, "OS_PROMETHEUS__DEADLINE": "10"}

    def make(self) -> Ran:
        return self._maker.run(*self._words)

    def kill_maker(self) -> None:
        """While it reads from Cinder."""
        self.cinder.faults = {"/types": [cloudserver.hang, ...]}
        self.cinder.asked.clear()
        process = self._maker.start(*self._words)
        end = time.monotonic() + SOON
        while not any("/types" in asked for asked in self.cinder.asked):
            assert time.monotonic() < end, "it reads nothing"
            time.sleep(0.05)
        process.kill()
        process.communicate()
        self.cinder.faults = {}

    @property
    def _words(self) -> tuple[str, ...]:
        return "catalogue", "refresh", "--region-file", str(self.file), "--signing-key", str(self._key)

    def order(self, *words: str) -> None:
        ran = self._maker.run("region", *words)
        assert ran.status == 0, ran.err

    def approve(self, limits: Limits, *words: str) -> str:
        """An edit that the region's brake stops, in stages; its digest."""
        self.spec(limits)
        ran = self.make()
        digest = re.search(r"plimsoll region approve ([0-9a-f]{16})", ran.err)
        assert digest, ran.err
        self.order("approve", digest[1], "--stages", "50%,100%", "--reason", "sale", *words)
        return digest[1]

    def follow(self) -> None:
        """Each node fetches the file, and has a pass."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._follow, self.nodes.values()))

    def _follow(self, node: Node) -> None:
        ran = node.run("catalogue", "refresh", "--now")
        assert ran.status == 0, ran.err
        self.passes(node)

    @staticmethod
    def passes(node: Node) -> None:
        ran = node.run("enforce")
        assert ran.status in (0, 3, 4), ran.out + ran.err

    def meet(self) -> None:
        """The volumes of the nodes."""
        assert self.make().status == 0
        self.follow()

    def begin(self) -> None:
        """The nodes limit their volumes, by what was read after they met them."""
        assert self.make().status == 0
        self.follow()
        told = [node.run("disk", "list", "--wide").out for node in self.nodes.values()]
        assert self.limits() == dict.fromkeys(self.nodes, BEFORE), told

    def limits(self) -> dict[str, Limits]:
        return {name: actual(self.hypervisor, guest.uuid, "vdb") for name, guest in self.guests.items()}

    def written(self) -> dict[str, list[str]]:
        """What libvirt has of limits, letter by letter."""
        return {
            name: re.findall(r"<iotune>.*?</iotune>", guest.domain().XMLDesc(), re.DOTALL)
            for name, guest in self.guests.items()
        }


def _node(home: Path, cloud: Cloud) -> Node:
    home.mkdir()
    return Node(home, cloud, braked=True)


@contextmanager
def scraped(home: Path, prometheus: Prometheus, regions: Mapping[str, Region]) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Ours", (Textfiles,), {"home": home}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    paths = {
        f"/{region}/{name}": {"region": region, "instance": name}
        for region, its in regions.items()
        for name in its.nodes
    }
    try:
        with prometheus.scraping(f"127.0.0.1:{server.server_address[1]}", paths):
            yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def make(tmp_path: Path, cloud: Cloud, prometheus: Prometheus) -> Iterator[Callable[..., dict[str, Region]]]:
    """Regions of guests, two each, all scraped."""
    with ExitStack() as stack:

        def regions(rules: str = "", **guests: list[Guest]) -> dict[str, Region]:
            every = [guest for pair in guests.values() for guest in pair]
            made = {
                name: Region(
                    tmp_path / name,
                    cloud,
                    stack.enter_context(cloudserver.cloud_server()),
                    dict(zip((EARLY, LATE), pair, strict=True)),
                    every,
                    rules,
                )
                for name, pair in guests.items()
            }
            for region in made.values():
                stack.callback(region.hypervisor.close)
                region.ask(prometheus)
                region.meet()
            time.sleep(SKEW.total_seconds())
            for region in made.values():
                region.begin()
            stack.enter_context(scraped(tmp_path, prometheus, made))
            return made

        yield regions
    prometheus.clear()


@pytest.mark.shared
def test_a_good_edit_arrives_in_one_region_and_in_the_other_it_is_as_before_to_the_byte_once_withdrawn(
    guests: Guests, make: Callable[..., dict[str, Region]], prometheus: Prometheus
) -> None:
    first, second, third, fourth = guests(4)
    regions = make(north=[first, second], south=[third, fourth])
    north, south = regions.values()
    before, digest = south.written(), ""
    for region in (north, south):
        digest = region.approve(AFTER, "--wait", "1s", *UNJUDGED)
        assert region.make().status == 0
        region.follow()
        assert region.limits() == {EARLY: AFTER, LATE: BEFORE}
    south.order("withdraw", digest, "--reason", "slow")
    assert south.make().status == 4, "Cinder still has what was withdrawn"
    prometheus.wait_for('plimsoll_stage_in_effect{region="north"}', len, SOON)
    deadline = time.monotonic() + SOON
    while (ran := north.make()).status == 3:  # its passes are not in Prometheus yet
        assert time.monotonic() < deadline, ran.err
    assert ran.status == 0, ran.err
    for region in (north, south):
        region.follow()
    assert north.limits() == dict.fromkeys((EARLY, LATE), AFTER)
    assert south.limits() == dict.fromkeys((EARLY, LATE), BEFORE)
    assert south.written() == before


@contextmanager
def an_osd_down(cloud: Cloud, prometheus: Prometheus) -> Iterator[None]:
    osd = cloud.ceph.daemon(cloud.ceph.busiest_osd("volumes"))
    osd.stop()
    try:
        prometheus.wait_for('ceph_health_detail{name="OSD_DOWN"} == 1', len, SOON)
        yield
    finally:
        osd.cont()
        cloud.ceph.wait_healthy()


@pytest.mark.hurt
@pytest.mark.skipif(not release.has_ceph_metrics(), reason="this release's Ceph has no metrics")
def test_an_edit_stays_in_its_first_stage_while_its_hosts_or_what_judges_them_are_unhealthy(
    cloud: Cloud,
    guests: Guests,
    make: Callable[..., dict[str, Region]],
    prometheus: Prometheus,
    hypervisor: Libvirt,
    tmp_path: Path,
) -> None:
    (region,) = make(north=guests(2)).values()
    early, stage_1 = region.nodes[EARLY], {EARLY: AFTER, LATE: BEFORE}

    def stopped(words: str) -> None:
        end = time.monotonic() + SOON
        while (ran := region.make()).status == 0:  # the wait of the stage is not over yet
            assert time.monotonic() < end, "the next stage has begun"
        assert ran.status == 3, ran.err
        assert f"does not begin: {words}" in ran.err

    with cloud.ceph.metrics() as address, prometheus.scraping(address):
        prometheus.wait_for("ceph_health_status == 0", len, SOON)
        region.approve(AFTER, "--wait", "1s", "--for", "30m", "--without", "at-limit", "--without", "verdicts")
        assert region.make().status == 0
        region.follow()
        assert region.limits() == stage_1
        prometheus.wait_for("plimsoll_stage_in_effect", len, SOON)

        before = region.file.read_bytes()
        region.kill_maker()
        assert region.file.read_bytes() == before
        prometheus.prometheus.stop()
        try:
            stopped("arrived, reverts, writes, health: unknown: ")
        finally:
            prometheus.prometheus.cont()
        with an_osd_down(cloud, prometheus):
            stopped("health: Ceph reports OSD_DOWN")

        # By a clock that is an hour ahead the approval has ended; a file that comes an hour too early is refused.
        early.environment |= {"LD_PRELOAD": str(shifting(tmp_path)), "SHIFTED_SECONDS": "-3600"}
        ran = early.run("catalogue", "refresh", "--now")
        assert (ran.status, "check the clocks" in ran.err) == (1, True), ran.err
        early.environment["SHIFTED_SECONDS"] = str(AHEAD)
        assert early.run("enforce").status in (0, 3)
        prometheus.wait_for("plimsoll_stage_in_effect", lambda found: not found, SOON)
        stopped("arrived: ")
        early.environment["SHIFTED_SECONDS"] = "0"
        region.passes(early)
        prometheus.wait_for("plimsoll_stage_in_effect", len, SOON)

        put(hypervisor, region.guests[EARLY].uuid, "vdb", Limits(total_iops_sec=20))
        with read_only(early.state.directory):  # without a record nothing is raised
            early.run("enforce")
            prometheus.wait_for('sum(plimsoll_disks{state="failed"}) > 0', len, SOON)
            stopped("writes: limits could not be set on ")
        region.passes(early)
        prometheus.wait_for("sum(plimsoll_external_changes_reverted_total) > 0", len, SOON)
        stopped("reverts: ")
        region.follow()
        assert region.limits() == stage_1


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    subprocess.run(["mount", "--bind", directory, directory], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", directory], check=True)
        yield
    finally:
        subprocess.run(["umount", directory], check=True)


def shifting(home: Path) -> Path:
    """What LD_PRELOAD is: it shifts the clock."""
    library = home / "shifted.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SHIFTED, "-ldl"], check=True)
    return library


def said(guest: Guest, words: str) -> None:
    done = guest.exec(["sh", "-c", words], timeout=300)
    assert done.exit_code == 0, done.err


@contextmanager
def loaded(guest: Guest, iops: int) -> Iterator[None]:
    """Reads of its volume, so many a second where its limit lets them through."""
    words = f"fio --name=load --filename={FILE} --size=8M --bs=4k --direct=1 --ioengine=libaio --iodepth=8"
    said(guest, f"{words} --rw=write")
    reads = f"{words} --rw=randread --rate_iops={iops} --time_based --runtime=3600"
    said(guest, f"{reads} >/dev/null 2>&1 & echo $! >/run/stages.pid")
    try:
        yield
    finally:
        said(guest, "kill $(cat /run/stages.pid); rm -f /run/stages.pid; true")


@pytest.mark.quiet
@pytest.mark.parametrize("_", range(SOAK))
def test_an_edit_that_keeps_disks_at_their_limits_stops_at_its_first_stage(
    _: int, booted: Guest, guests: Guests, make: Callable[..., dict[str, Region]], hypervisor: Libvirt
) -> None:
    """A steady load of 100 requests a second: a fifth of the limit before, more than the one after."""
    (late,) = guests(1)
    (region,) = make(north=[booted, late]).values()

    def run(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for node in region.nodes.values():
                region.passes(node)
            time.sleep(BETWEEN)

    try:
        with loaded(booted, 100):
            run(WINDOW)
            digest = region.approve(AFTER, "--wait", "60s", "--without", "verdicts", "--without", "health")
            assert region.make().status == 0
            region.follow()
            assert region.limits() == {EARLY: AFTER, LATE: BEFORE}
            run(WINDOW)
            ran = region.make()
            assert ran.status == 3, ran.err
            assert re.search(r"does not begin: at-limit: touched disks were at their limits \d\d\.\d %", ran.err)
            region.follow()
            assert region.limits() == {EARLY: AFTER, LATE: BEFORE}
        region.order("withdraw", digest)
        region.make()
        region.follow()
        assert region.limits() == dict.fromkeys((EARLY, LATE), BEFORE)
    finally:
        put(hypervisor, booted.uuid, "vdb", Limits())


@pytest.mark.quiet
@pytest.mark.parametrize("_", range(SOAK))
def test_an_edit_under_which_a_promise_is_broken_stops_at_its_first_stage(
    _: int,
    booted: Guest,
    guests: Guests,
    make: Callable[..., dict[str, Region]],
    prometheus: Prometheus,
    hypervisor: Libvirt,
) -> None:
    """At 40 requests a second 8 in flight take 200 ms each."""
    (late,) = guests(1)
    match = f"{{guest: {booted.uuid}, kind: volume}}"
    rule = f"{{name: canary, match: {match}, probe: {{every: 5m, jobs: read}}, objective: {{p50: 20ms}}}}"
    (region,) = make(f"  - {rule}\n", north=[booted, late]).values()
    early = region.nodes[EARLY]
    early.use_probes(seconds=5, file_size=2**24)
    try:
        region.approve(AFTER, "--wait", "1s", "--without", "at-limit", "--without", "health")
        assert region.make().status == 0
        region.follow()
        ran = early.run("probe", "run", "-f", "json", timeout=120)
        assert [one["verdict"] for one in ran.data()["results"]] == ["slow"], ran.out + ran.err
        prometheus.wait_for('sum(plimsoll_probe_runs_total{verdict="slow"}) > 0', len, SOON)
        ran = region.make()
        assert ran.status == 3, ran.err
        assert "does not begin: verdicts: " in ran.err
        region.follow()
        assert region.limits() == {EARLY: AFTER, LATE: BEFORE}
    finally:
        put(hypervisor, booted.uuid, "vdb", Limits())
