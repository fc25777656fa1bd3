"""Congestion from a real Prometheus to a node: ``congestion publish``, ``fetch``, what a pass reads, and the list.

In the last ten minutes requests of light disks took 9 ms on ssd, where 2 ms were usual for a tenth of the last seven
days, and 20 ms on hdd. Pool mixed is on both, and took a second; on nvme there were ten requests in half a minute.
Another machine published hdd at 0.6 until now, and for a second cluster 0.5 in the last two of ten hours.
"""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import etcd3gw
import pytest
from cryptography.hazmat.primitives import serialization
from etcd3gw.lease import Lease
from requests import RequestException, get

from plimsoll_agent.app.congestion_fetch import Fetcher
from plimsoll_agent.app.congestion_file import CongestionFile
from plimsoll_agent.app.fetched import congestion_actual
from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.congestion.law import Action
from plimsoll_agent.congestion.published import Factor, FactorFile, Gap
from plimsoll_agent.monitor import textfile
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.cli.congestion import CongestionPublish, RegionCongestion
from plimsoll_monitoring.cli.congestion_publisher import CongestionPublisher
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region import congestion
from tests import schemas
from tests.functional.webserver import Web, web_server
from tests.simulated_region import Served, prometheus_of
from tests.unit.node import FSID
from tests.unit.person import Person, Ran
from tests.unit.regionfile import a_key, keep_public

END = int(datetime(2026, 11, 20, 12, 7, 13, tzinfo=UTC).timestamp())
OTHER = "0" * 8 + FSID[8:]
PERIOD = timedelta(seconds=30)
OSDS = {
    "fsid": FSID,
    "pools": [
        {"pool_name": name, "crush_rule": rule} for rule, name in enumerate(("volumes", "cold", "mixed", "idle"))
    ],
}
CRUSH = {
    "buckets": [],
    "rules": [
        {"rule_id": rule, "steps": [{"op": "take", "item_name": f"default~{name}"} for name in names]}
        for rule, names in enumerate((["ssd"], ["hdd"], ["ssd", "hdd"], ["nvme"]))
    ],
}
LIGHT = {"volumes": (3000, 0.009), "cold": (300, 0.020), "mixed": (3000, 1.0), "idle": (10, 0.001)}
"""Of each node in half a minute: requests, and the seconds of each."""


def lines() -> dict[str, list[str]]:
    output: dict[str, list[str]] = {}

    def series(name: str, value: Callable[[int], float], step: int, seconds: int, **labels: str) -> None:
        its = ",".join(f'{label}="{of}"' for label, of in labels.items())
        times = range(END - seconds, END + 1, step)
        output.setdefault(name, []).extend(f"{name}{{{its}}} {value(at)!r} {at}" for at in times)

    for instance, jobs in (("n1", ("node",)), ("n2", ("node", "again"))):
        for job in jobs:
            node = {"job": job, "region": "r1", "instance": instance}
            for pool, (requests, latency) in LIGHT.items():
                where = {**node, "cluster": FSID, "pool": pool}
                count = lambda at, each=requests: each * (at - END + 600) / 30  # noqa: E731
                series("plimsoll_light_requests_total", count, 30, 600, **where)
                total = lambda at, count=count, latency=latency: latency * count(at)  # noqa: E731
                series("plimsoll_light_latency_seconds_total", total, 30, 600, **where)
                kind = {"volume_type": "archive" if pool == "cold" else "gold"}
                series("plimsoll_pool_disks", lambda _: 3, 30, 600, **where, **kind)
                series("plimsoll_pool_average_operations_per_second", lambda _: 500, 30, 600, **where, **kind)
    slow, fast = (("ssd", 0.008), ("hdd", 0.015)), (("hdd", 0.0001), ("ssd", 0.0001))
    for place, osds in (({"cluster": FSID}, slow), ({"region": "r1"}, slow), ({"region": "r2"}, fast)):
        for osd, (device_class, latency) in enumerate(osds):
            its = {"job": "ceph", **place, "ceph_daemon": f"osd.{osd}"}
            series("ceph_osd_metadata", lambda _: 1, 30, 600, **its, device_class=device_class)
            # Of Reef and later: from another target.
            its["job"] = "ceph-exporter"
            series("ceph_osd_op_latency_count", lambda at: 100.0 * (at - END + 600), 30, 600, **its)
            each = lambda at, latency=latency: latency * 100 * (at - END + 600)  # noqa: E731
            series("ceph_osd_op_latency_sum", each, 30, 600, **its)
    week, pool = 7 * 86400, {"region": "r1", "cluster": FSID, "pool": "volumes"}
    usual = lambda at: 0.002 if (END - at) // 300 % 5 == 0 else 0.004  # noqa: E731
    series("pool:plimsoll_light_latency_seconds:increase_5m", lambda at: 30000 * usual(at), 300, week, **pool)
    series("pool:plimsoll_light_requests:increase_5m", lambda _: 30000, 300, week, **pool)
    publisher = {"job": "node", "region": "r1", "instance": "p1"}
    series("plimsoll_congestion_published_timestamp_seconds", float, 30, 36000, **publisher)
    for cluster, name, low in ((FSID, "hdd", 0.6), (OTHER, "ssd", 0.5)):
        where = {**publisher, "cluster": cluster, "device_class": name}
        factor = lambda at, low=low: low if END - at < 7200 else 1.0  # noqa: E731
        series("plimsoll_congestion_factor", factor, 30, 36000, **where)
        series("plimsoll_congestion_latency_seconds", lambda _: 0.0091, 30, 600, **where)
        series("plimsoll_congestion_state", lambda _: 1, 30, 600, **where, action="in-band", why="")
    return output


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with prometheus_of(lines(), tmp_path_factory.mktemp("prometheus")) as there:
        yield there


class Site:
    """A publisher, and a node, on one machine, with a script in place of ``ceph``."""

    def __init__(self, path: Path, url: str) -> None:
        self.path, self.url, self.out = path, url, path / "congestion.json"
        self.asked_at = END
        self.warnings: tuple[str, ...] = ()
        pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (path / "congestion.key").write_bytes(a_key().key.private_bytes(*pem))
        (path / "congestion.key").chmod(0o600)
        keep_public(path / "congestion.pub", a_key())
        (path / "ceph.conf").write_text(f"[global]\nfsid = {FSID}\nmon_host = 10.0.0.1\n")
        for name, content in (("osd dump", OSDS), ("osd crush dump", CRUSH)):
            (path / name).write_text(json.dumps(content))
        self.health()
        (path / "ceph").write_text(f'#!/bin/sh\nshift 8\nexec cat "{path}/$*"\n')
        (path / "ceph").chmod(0o755)
        (path / "plimsoll.conf").write_text(
            f"[ceph]\nconf_files = {path}/ceph.conf\n[prometheus]\nurl = {url}\n[metrics]\ntextfile_dir = {path}\n"
            f"[catalogue]\ndirectory = {path}\n[congestion]\nfiles = {self.out}\nkey = {path}/congestion.pub\n"
            "targets = archive:30ms\n"
        )

    def health(self, *checks: str) -> None:
        content = {"fsid": FSID, "health": {"checks": {check: {} for check in checks}}}
        (self.path / "status").write_text(json.dumps(content))

    @property
    def settings(self) -> Settings:
        return config.load([self.path / "plimsoll.conf"], [])

    def publisher(self, settings: Settings | None = None) -> CongestionPublisher:
        file = CongestionFile(self.out, self.path / "congestion.key")
        return CongestionPublisher(settings or self.settings, file, SeriesSelection(region="r1"), self._connect)

    def _connect(self) -> Prometheus:
        there = connect(self.url, self.asked_at)
        there.warnings = self.warnings
        return there

    def periods(self, number: int, settings: Settings | None = None) -> dict[str, Factor]:
        publisher = self.publisher(settings)
        start = datetime.fromtimestamp(END, UTC)
        files = [publisher.period(start + PERIOD * index, 30.0 * index) for index in range(number)]
        return by_class(files[-1])

    def fetcher(self, web: Web) -> Fetcher:
        """Of a node that fetches what is published from there."""
        self.out = web.files / "congestion.json"
        address = f"{web.url}/congestion.json"
        settings = self.settings
        return Fetcher(replace(settings, congestion=replace(settings.congestion, files=(address,))))


def connect(url: str, at: float = END) -> Prometheus:
    there = Prometheus(url, token_file=None, ca_file=None, deadline=60)
    there.as_of(at)
    return there


def by_class(file: FactorFile | None) -> dict[str, Factor]:
    assert file is not None
    return {factor.device_class: factor for factor in file.factors}


@pytest.fixture
def site(prometheus: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return Site(tmp_path, prometheus.url)


def test_a_congested_class_is_lowered_once_the_evidence_lasts_and_a_node_reads_it(site: Site) -> None:
    first = site.periods(1)
    assert first["ssd"].latency == pytest.approx(0.009)
    assert first["ssd"].target == pytest.approx(3 * 0.002), "the default multiple of the usual latency"
    assert (first["ssd"].x, first["ssd"].action) == (1, Action.NOTICED)
    later = site.periods(5)  # it goes on from the file of before
    assert 0.6 < later["ssd"].x < 0.9
    now = datetime.fromtimestamp(END, UTC) + 5 * PERIOD
    assert Fetcher(site.settings).fetch(now) == []
    factors = congestion_actual(site.settings.congestion, site.path, now)
    assert factors is not None
    assert factors.clusters[FSID].of((FSID, "volumes")) == later["ssd"]
    assert factors.clusters[FSID].of((FSID, "mixed")) == min(later["ssd"], later["hdd"], key=lambda each: each.x)


def test_another_machines_factor_is_gone_on_from_and_its_own_objective_raises_it(site: Site) -> None:
    hdd = site.periods(1)["hdd"]
    assert (hdd.latency, hdd.target, hdd.x) == (pytest.approx(0.020), 0.030, 0.6)
    assert 0.6 < site.periods(6)["hdd"].x < 1


@pytest.mark.parametrize(("later", "x"), [(60, 0.6), (160, 0.8)])
def test_a_machine_that_is_gone_is_gone_on_from_as_nodes_have_it_by_then(site: Site, later: int, x: float) -> None:
    """Its series have ended. Nodes keep a factor for 90 seconds, and return by a tenth each half a minute."""
    site.asked_at = END + later
    assert site.periods(1)["hdd"].x == pytest.approx(x)


def test_where_another_machine_left_factors_is_unknown_none_is_published(site: Site) -> None:
    url, site.url = site.url, "http://127.0.0.1:1"
    assert site.periods(2) == {}
    assert Fetcher(site.settings).fetch(datetime.fromtimestamp(END, UTC) + PERIOD) == []
    site.url = url
    assert site.periods(1)["hdd"].x == 0.6


def test_too_few_requests_are_no_signal_and_no_lower_factor(site: Site) -> None:
    nvme = site.periods(5)["nvme"]
    assert (nvme.x, nvme.latency, nvme.why) == (1, None, Gap.NO_REQUESTS)


@pytest.mark.parametrize(
    ("why", "damage"),
    [
        (Gap.UNHEALTHY, lambda site: site.health("PG_AVAILABILITY", "PG_DEGRADED")),
        (Gap.HEALTH_UNKNOWN, lambda site: (site.path / "status").unlink()),
        (Gap.NO_ANSWER, lambda site: setattr(site, "url", "http://127.0.0.1:1")),
        (Gap.NO_ANSWER, lambda site: setattr(site, "warnings", ("the answer is incomplete: store gone",))),
    ],
)
def test_what_may_not_be_congestion_or_is_unknown_lowers_nothing(
    site: Site, why: Gap, damage: Callable[[Site], None]
) -> None:
    site.periods(1)
    damage(site)
    ssd = site.periods(6)["ssd"]
    assert (ssd.x, ssd.why) == (1, why)


def test_a_usual_latency_by_a_partial_answer_is_not_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, start = site.publisher(), datetime.fromtimestamp(END, UTC)
    site.warnings = ("the answer is incomplete: store gone",)
    with monkeypatch.context() as patch:
        patch.setattr(congestion, "usual", lambda _: 1.0)
        publisher.period(start, 0.0)
    site.warnings = ()
    assert by_class(publisher.period(start + PERIOD, 30.0))["ssd"].target == pytest.approx(3 * 0.002)


def test_metrics_of_osds_that_name_no_cluster_are_those_of_the_only_one(site: Site) -> None:
    settings = replace(site.settings, congestion=replace(site.settings.congestion, osd_label="fsid"))
    assert site.periods(6, settings)["ssd"].x < 1


def test_degraded_alone_neither_lowers_nor_keeps_from_lowering(site: Site) -> None:
    site.health("PG_DEGRADED", "OSD_DOWN")
    assert site.periods(6)["ssd"].x < 1


# --- over TLS


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    with web_server(tmp_path) as web:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(web.ca))
        yield web


def test_a_file_over_https_is_fetched_once_and_told_when_it_has_expired_though_it_is_the_same(
    site: Site, web: Web
) -> None:
    """A web server goes on with the last file of a publisher that is dead, and says that nothing has changed."""
    fetcher, start = site.fetcher(web), datetime.fromtimestamp(END, UTC)
    site.periods(1)
    assert [fetcher.fetch(start + seconds * PERIOD) for seconds in (1, 2)] == [[], []]
    kept = site.path / "congestion-0.json"
    assert kept.read_bytes() == site.out.read_bytes()
    for periods in (4, 5):
        (fault,) = fetcher.fetch(start + periods * PERIOD)
        assert fault.startswith(f"{web.url}/congestion.json: expired at ")
    site.periods(1)
    assert fetcher.fetch(start + PERIOD) == []
    kept.unlink()
    assert fetcher.fetch(start + PERIOD) == []
    assert kept.is_file(), "it is asked for again, whatever the server says of the lost one"
    assert [status for _, status in web.answered] == [200, 304, 304, 200, 200, 200]


# --- several machines


class Etcd:
    """A real one; its locks outlive a kill."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with socket.socket() as clients, socket.socket() as peers:
            for each in (clients, peers):
                each.bind(("127.0.0.1", 0))
            self._client, peer = (f"127.0.0.1:{each.getsockname()[1]}" for each in (clients, peers))
        self._command = [
            *("etcd", "--name=e", f"--data-dir={directory}/data", "--log-level=warn", "--logger=zap"),
            *(f"--{what}-client-urls=http://{self._client}" for what in ("listen", "advertise")),
            *(f"--{what}-peer-urls=http://{peer}" for what in ("listen", "initial-advertise")),
            f"--initial-cluster=e=http://{peer}",
        ]

    @property
    def url(self) -> str:
        """As ``coordination`` in ``[probe]`` has it."""
        return f"etcd3+http://{self._client}"

    def start(self) -> None:
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while not self._serves():
            assert time.monotonic() < until, (self._directory / "log").read_text()[-2000:]
            time.sleep(0.1)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end_leases(self) -> None:
        """As they end where a machine is killed, or sleeps."""
        host, _, port = self._client.partition(":")
        client = etcd3gw.client(host, int(port))
        for lease in client.post(client.get_url("/lease/leases"), json={})["leases"]:
            Lease(int(lease["ID"]), client).revoke()

    def _serves(self) -> bool:
        try:
            return get(f"http://{self._client}/health", timeout=5).json() == {"health": "true"}
        except RequestException:
            return False


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    etcd = Etcd(tmp_path)
    etcd.start()
    yield etcd
    etcd.kill()


def test_of_two_machines_one_publishes_and_the_other_goes_on_once_its_lock_has_ended(
    site: Site, etcd: Etcd, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = replace(site.settings, probe=replace(site.settings.probe, coordination=etcd.url))
    first, second = site.publisher(settings), site.publisher(settings)
    moments = (datetime.fromtimestamp(END, UTC) + PERIOD * number for number in range(10))

    def publishes(publisher: CongestionPublisher) -> bool:
        return publisher.period(next(moments), 0.0) is not None

    assert [publishes(each) for each in (first, second, first, second)] == [True, False, True, False]
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("INFO", f"cluster {FSID} is not published here: another node of the region holds congestion:{FSID}")
    ]
    etcd.kill()
    assert not publishes(first)
    etcd.start()
    assert publishes(first), "its lock is not kept from itself"
    etcd.end_leases()
    assert [publishes(each) for each in (second, first, second)] == [True, False, True]


@pytest.mark.parametrize("fault", ["no Ceph", "another cluster's", "no file"])
def test_a_machine_that_cannot_publish_leaves_it_to_one_that_can(
    site: Site, etcd: Etcd, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    settings = replace(site.settings, probe=replace(site.settings.probe, coordination=etcd.url))
    faulty, well = site.publisher(settings), site.publisher(settings)
    answer = (site.path / "osd dump").read_text()
    if fault == "no Ceph":
        (site.path / "osd dump").write_text("")
    elif fault == "no file":
        faulty._file = CongestionFile(site.path / "nowhere/congestion.json", site.path / "congestion.key")
    else:
        (site.path / "osd dump").write_text(answer.replace(FSID, OTHER))
    start = datetime.fromtimestamp(END, UTC)
    assert faulty.period(start, 0.0) is None
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    (site.path / "osd dump").write_text(answer)
    assert well.period(start, 0.0) is not None
    assert faulty.period(start + PERIOD, 30.0) is None
    assert well.period(start + PERIOD, 30.0) is not None


def test_where_etcd_does_not_answer_nothing_is_published(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    settings = replace(site.settings, probe=replace(site.settings.probe, coordination="etcd3+http://127.0.0.1:1"))
    assert site.publisher(settings).period(datetime.fromtimestamp(END, UTC), 0.0) is None
    assert not site.out.exists()
    assert f"cluster {FSID} is not published here: etcd at 127.0.0.1:1" in caplog.text


def ran(site: Site, command: type, *words: str) -> Ran:
    def connected(self: Any, *_: object) -> Prometheus:
        self._name = site.url
        return connect(site.url)

    person = Person()
    return Ran(person.types(command, *words, settings=site.settings, connect=connected), person.out, person.err)


def test_a_published_period_is_told_in_a_line_a_class_and_as_metrics(site: Site) -> None:
    done = ran(
        site, CongestionPublish, "--once", "--out", str(site.out), "--signing-key", f"{site.path}/congestion.key"
    )
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[2] == (
        f"ssd of cluster {FSID[:8]}: x 1.00, above target, not for long (9 ms, target 6 ms)"
    )
    metrics = textfile.path(site.path, "congestion").read_text()
    assert f'plimsoll_congestion_factor{{cluster="{FSID}",device_class="ssd"}} 1.0' in metrics
    (site.path / "osd dump").write_text("{}")
    site.out.unlink()
    done = ran(
        site, CongestionPublish, "--once", "--out", str(site.out), "--signing-key", f"{site.path}/congestion.key"
    )
    assert (done.status, site.out.is_file()) == (1, False)


def test_the_list_has_the_day_of_each_class_with_the_lowest_first(site: Site) -> None:
    done = ran(site, RegionCongestion, "-f", "json")
    assert (done.status, done.err) == (0, "")
    first, second = json.loads(done.out)
    schemas.hold("region congestion", done.out, "json")
    assert (first["cluster"], first["class"], first["x"], first["action"]) == (OTHER, "ssd", 0.5, "in-band")
    assert (first["latency"], first["target"], second["x"]) == (0.0091, None, 0.6)
    assert first["day"] == [None] * 14 + [1.0] * 8 + [0.5] * 2


def test_without_a_publisher_the_list_says_what_to_run(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    assert ran(site, RegionCongestion, "--region", "r9").status == 1
    assert "run plimsoll congestion publish" in caplog.text
