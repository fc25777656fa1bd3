"""Two regions of twenty nodes for thirty hours, with faults, in the metrics that plimsoll itself writes.

A step is half an hour; a real Prometheus answers queries. What is wrong where:

========  ==========================================================================================================
node1     the brake holds the change of both disks
node2     paused all the time; it published the factors of congestion until two hours ago
node3     observes; a disk is planned
node4     an older version; it publishes the factors of congestion
node5     its catalogue is five hours old
node6     its disk of type gold is unlimited, since QEMU refuses the limit
node7     its disk without a type is unlimited, likewise; its guest, of type gold, got less than promised twice
node8     its guest, of type standard, is slow; its disks and those of node 13 are reduced
node9     node_exporter, and no plimsoll
node10    no pass for two hours
node11    down for three and a half hours
node12    two guests do not answer
node13    other rules; its guest is slower than others of type gold, though within the objective
node14    a change is deferred since the cluster is unhealthy
node15    another program changes a limit every hour; the disk is held for six hours more
node16    a disk at its limit; the guest's probe is overdue, and postponed; its console tells of three hung tasks
          at the last step
node17    nothing; its guest's console is read too; like node8 it has a disk of type standard instead of gold
========  ==========================================================================================================

The machine that makes the region file of the north is in it too: for ten hours an approval is in the first of three
stages, which the nodes 1 and 2 have; at the last step two conditions stop the next one, one of them unknown.

The first sixteen are in the north, the others, which have no faults, in the south. Each has a guest with two disks,
vdb of type gold and vda without a type. That of node 7 has spent three quarters of its burst. Guests of the nodes 7,
8, 13, 16 and 17 are probed every six hours, by reads and by writes. Ceph's mgr tells that one placement group in
twenty does not accept I/O.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import requests
import yaml

from plimsoll_agent.catalogue.orders import Of, RegionApproval
from plimsoll_agent.catalogue.stages import ConditionFinding, StageCheck, Stages
from plimsoll_agent.consoles.model import Consoles, GuestConsole, Stalls
from plimsoll_agent.consoles.patterns import StallKind
from plimsoll_agent.consoles.position import ConsolePosition
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import congestion_metrics, console_metrics, pass_metrics, prometheus_text
from plimsoll_agent.monitor.metrics import STAGE_IN_EFFECT
from plimsoll_agent.monitor.pass_summary import LastCatalogue, LastDisk, Totals
from plimsoll_agent.monitor.prometheus_text import Family
from plimsoll_agent.monitor.site_labels import SiteLabels
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind, UnreachableGuest
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.store.refresh_state import Calls
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output import metrics as probe_metrics
from plimsoll_probes.schedule.targets import ChosenTarget
from plimsoll_probes.store.tally import Tally
from tests.unit.agent.congestion.values import a_factor, a_factor_file
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name
from tests.unit.node import uuid_of
from tests.unit.results import MS, a_finding, a_probe, a_subject
from tests.unit.values import PROJECT
from tests.week import Value, answer, encoded

STEP, LAST = 1800, 60
NODES = range(1, 21)
PROBED = (7, 8, 13, 16, 17)
TWICE = (1, 7, 8)
"""Nodes that another job scrapes too, whose targets have one label more."""
STANDARD = (8, 17)
PROBE_EVERY = 12
"""Steps."""
JOBS = (JobName.READ, JobName.WRITE)
DIRECTORY = "/mnt/volume"
FAST, SLOW = (Limits(total_iops_sec=iops, total_bytes_sec=iops * 40_000) for iops in (500, 250))
OBJECTIVES = {
    "gold": Objective(((0.5, 0.1), (0.99, 0.25), (0.999, 0.5))),
    "standard": Objective(((0.5, 0.045), (0.99, 0.05), (0.999, 0.06))),
}
OLD_GOOD = 40
"""The step of the last good pass on nodes where each leaves something undone."""
OF_THE_QUERY = ("__name__", "series")
REFUSED = because(Code.REJECTED, detail="no")


def at(step: int, seconds: float = 0) -> datetime:
    """So long before a step."""
    return datetime.fromtimestamp(step * STEP - seconds, UTC)


STAGED = RegionApproval(
    of=Of.SPECS,
    digest="c" * 64,
    since=at(LAST - 21),
    until=at(LAST + 48),
    by="ann",
    why="ticket 4711",
    stages=Stages(percent=(1, 10, 100), wait=timedelta(minutes=30), entered=at(LAST - 20)),
)
STOPS = (ConditionFinding(StageCheck.AT_LIMIT, False, "?"), ConditionFinding(StageCheck.VERDICTS, None, "?"))


def region_of(node: int) -> str:
    return "north" if node <= 16 else "south"


def instance(node: int) -> str:
    return f"node{node}:9100"


def guest(node: int) -> str:
    return f"instance-{node:08}"


# --- passes


def _disks(node: int, step: int) -> Iterator[LastDisk]:
    volume_type = "standard" if node in STANDARD else "gold"
    for target, its_type, limits, share in (
        ("vdb", volume_type, FAST, 0.3 + node / 1000),
        ("vda", None, SLOW, 0.1 + node / 1000),
    ):
        gold = target == "vdb"
        given: dict[str, Any] = {
            "volume_type": its_type,
            "server": f"web-{node}",
            "project_name": "shop",
            "actual": limits,
            "desired": limits,
            "rates": Rates(read_iops=100, write_iops=50, read_bytes=1e6, write_bytes=5e5, seconds=300),
            "shares": {"total_iops_sec": 0.98 if node == 16 and gold else share},
            "allowed": {"total_iops_sec": 600.0, "total_bytes_sec": 2e7},
        }
        if node == 1:
            given |= {"kind": Kind.DEFERRED, "reason": because(Code.BRAKED), "desired": Limits(total_iops_sec=5)}
        if node == 3 and gold:
            given |= {"kind": Kind.PLANNED, "desired": SLOW}
        if (node, gold) in ((6, True), (7, False)):
            given |= {"kind": Kind.FAILED, "reason": REFUSED, "actual": Limits()}
        if node == 14 and gold:
            given |= {"kind": Kind.DEFERRED, "reason": because(Code.CLUSTER_UNHEALTHY), "desired": SLOW}
        if node in (8, 13):
            given |= {"unreduced": limits, "device_class": "ssd"}
        if node == 7 and gold:
            given["saved"] = {"total_iops_sec": 0.25}
        if node == 15 and gold:
            given |= {"corrected": step // 2, "held_until": at(LAST) + timedelta(hours=6)}
        yield a_last_disk(a_name(node, target), **given)


def _passed(node: int, step: int) -> Iterator[Family]:
    if node == 9 or (node == 11 and step > 53):
        return
    ended = at(min(step, 56) if node == 10 else step, 120)
    partial = node in (1, 6, 7, 12, 14)
    given: dict[str, Any] = {
        "version": "1.1.0" if node == 4 else "1.2.3",
        "ended": ended,
        "looked": ended,
        "last_good": at(OLD_GOOD, 120) if partial else ended,
        "grade": Grade.PARTIAL if partial else Grade.GOOD,
        "enforcing": node != 3,
        "revision": ("b" if node == 13 else "a") * 32,
        "interval": 300.0,
        "sources": {"libvirt": True, "rules": True, "record": True, "catalogue": True},
        "catalogue": LastCatalogue(at(step, 18000 if node == 5 else 700), "openstack", 7200),
        "totals": Totals(
            passes={Grade.PARTIAL if partial else Grade.GOOD: 6 * step}, outcomes={}, corrected=_reverted(node, step)
        ),
    }
    if node == 1:
        given |= {"braked": "c" * 32, "braked_disks": 2}
    if node == 2:
        given["paused"] = because(Code.PAUSED, file="/etc/plimsoll/paused", why="maintenance")
    if node == 7:
        given["calls"] = Calls(2 * step, 0, {"cinder": 20 * step})
    if node == 12:
        given["unreachable"] = tuple(
            UnreachableGuest(GuestRef(uuid_of(number), guest(number)), because(Code.TIMED_OUT, detail="none"))
            for number in (112, 113)
        )
    if node == 15:
        given["holds"] = 1
    yield from pass_metrics.families(a_last_pass(*_disks(node, step), **given), detail="disk")


def _reverted(node: int, step: int) -> dict[str, int]:
    return {"gold": step // 2} if node == 15 else {}


# --- probes


def _run(node: int, step: int, job: JobName) -> ProbeResult:
    """It ended a minute before the step."""
    finding, latency = a_finding(), 40 * MS
    if node == 7 and job is JobName.WRITE and step >= 48:
        finding = a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, parameter="total_iops_sec", allowed=7500, done=2850)
    if node == 8:
        finding, latency = a_finding(Verdict.SLOW, Why.OBJECTIVE_MISSED, quantile=0.99), 400 * MS
    if node == 13:
        latency = 200 * MS
    volume_type = "standard" if node in STANDARD else "gold"
    return a_probe(
        job=job,
        started=at(step, 90),
        latency=latency,
        finding=finding,
        objective=OBJECTIVES[volume_type],
        subject=a_subject(
            guest_uuid=uuid_of(node), guest_name=guest(node), volume_type=volume_type, directory=DIRECTORY
        ),
    )


class _Probes:
    """The probes of a node, step by step."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.latest: dict[JobName, ProbeResult] = {}
        self.tallies: dict[JobName, Tally] = {}
        self.counted: list[Family] = []

    def families(self, step: int) -> Iterator[Family]:
        if step % PROBE_EVERY == 0 and not (self.node == 16 and step > 24):
            for job in JOBS:
                self.latest[job] = _run(self.node, step, job)
                tally = Tally.of(self.latest[job])
                self.tallies[job] = tally.after(self.tallies[job]) if job in self.tallies else tally
        target = ChosenTarget(
            guest_uuid=uuid_of(self.node), guest_name=guest(self.node), directory=DIRECTORY, rule="canaries",
            jobs=JOBS, every=timedelta(hours=6), since=at(-1), seen=at(step),
        )  # fmt: skip
        late = Postponed(
            at=at(59),
            node="node",
            guest_uuid=uuid_of(16),
            guest_name=guest(16),
            directory=DIRECTORY,
            why=Why.UNHEALTHY,
            facts={},
        )
        yield from probe_metrics.families(
            self.latest.values(),
            [late] if self.node == 16 and step >= 59 else [],
            [target],
            self.tallies.values(),
            {},
            detail="disk",
            now=at(step),
            by_timetable=True,
            since=lambda result: at(48, 90) if self.node == 7 else at(0) if self.node == 8 else None,
        )


# --- consoles


def _consoles(node: int, step: int) -> Iterator[Family]:
    if node in (16, 17):
        position = ConsolePosition(device=1, inode=node, offset=4096, tail="0123456789abcdef")
        hung = {StallKind.HUNG_TASK: Stalls(3, at(step, 300))} if node == 16 and step == LAST else {}
        console = GuestConsole(
            name=guest(node),
            server=None,
            project=PROJECT,
            tried=at(step),
            stalls=hung,
            files={"console.log": position},
        )
        yield from console_metrics.families(Consoles(at(step), {uuid_of(node): console}), detail="disk")


# --- congestion


def _published(node: int, step: int) -> Iterator[Family]:
    """By node 2 until two hours ago, by node 4 since."""
    if node in (2, 4):
        moment = step if node == 4 else min(step, LAST - 4)
        factors = (
            a_factor(1.0 if node == 2 else 0.73),
            a_factor(1.0, "hdd", latency=None, target=None, why="no-requests"),
        )
        if node == 2 or step >= LAST - 4:
            yield from congestion_metrics.families(a_factor_file(*factors, issued=at(moment, 15)))


# --- series


def series_lines(families: Iterable[Family]) -> list[str]:
    """Prometheus' text of all that are no comments."""
    return [line for line in prometheus_text.text(families).splitlines() if not line.startswith("#")]


@cache
def series(names: SiteLabels = SiteLabels()) -> dict[str, list[Value]]:  # noqa: B008  # a value
    """By name and labels, the values at all steps."""
    found: dict[str, list[Value]] = {}

    def put(step: int, labels: Mapping[str, str], lines: Iterable[str]) -> None:
        own = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
        for line in lines:
            named, _, value = line.rstrip("\n").rpartition(" ")
            name, _, rest = named.partition("{")
            rest = rest if names == SiteLabels() else scraped(rest, names)
            key = f"{name}{{{own},{rest}" if rest else f"{name}{{{own}}}"
            found.setdefault(key, [None] * (LAST + 1))[step] = float(value)

    for node in NODES:
        labels = {"job": "node", names.region[0]: region_of(node), names.instance: instance(node)}
        probes = _Probes(node) if node in PROBED else None
        for step in range(LAST + 1):
            up = node != 11 or step <= 53
            put(step, labels, [f"up {int(up)}"])
            put(step, labels, [f"node_{name} 0" for name in ("textfile_scrape_error", "boot_time_seconds") if up])
            its = (*_passed(node, step), *_consoles(node, step), *_published(node, step))
            for family in (*its, *(probes.families(step) if probes else ())):
                put(step, labels, series_lines([family]))
                if node in TWICE:
                    put(step, labels | {"job": "compute", "rack": "r1"}, series_lines([family]))
    for step in range(LAST + 1):
        ceph = ["ceph_health_status 1"]
        ceph += [f'ceph_pg_{what}{{pool_id="{pool}"}} {number}' for what, pool, number in (
            ("active", 1, 90), ("total", 1, 100), ("active", 2, 100), ("total", 2, 100))]  # fmt: skip
        for daemon, rates in (("mds.a", (100, 30, 5)), ("mds.b", (50, 0, 0))):
            for what, rate in zip(("request", "forward", "exported_inodes"), rates, strict=True):
                ceph.append(f'ceph_mds_{what}{{ceph_daemon="{daemon}"}} {step * STEP * rate}')
        for job in ("ceph", "ceph-again"):
            put(step, {"job": job}, ceph)
    maker = {"job": "node", names.region[0]: "north", names.instance: "maker:9100"}
    for step in range(LAST - 20, LAST + 1):
        stops = STOPS if step == LAST else ()
        put(step, maker, series_lines(pass_metrics.of_stages([STAGED], stops)))
        for node in (1, 2):
            its = {"job": "node", names.region[0]: "north", names.instance: instance(node)}
            put(step, its, [f'{STAGE_IN_EFFECT}{{approval="{STAGED.digest[:16]}"}} 1'])
    return found


def scraped(labels: str, names: SiteLabels) -> str:
    """The labels of a line as Prometheus has them, which renames those that its targets have too."""
    return re.sub(r'(?<![^,{])(\w+)(?==")', lambda found: names.own(found[1]), labels)


Answer = list[tuple[dict[str, str], float]]


def recorded(
    rules: str, alerts: str, directory: Path, names: SiteLabels
) -> Iterator[tuple[int, dict[str, str], float]]:
    """What the rules record and which alerts are raised: step, labels with the name as ``series``, value.

    promtool evaluates them at each step; a Prometheus would at the real time only.
    """
    groups = [*yaml.safe_load(rules)["groups"], *yaml.safe_load(alerts)["groups"]]
    for group in groups:
        for rule in group["rules"]:
            rule.pop("annotations", None)  # the simulated week has them
    (directory / "rules.yaml").write_text(json.dumps({"groups": groups}), encoding="utf-8")
    made = '{{__name__=~".+:.+|ALERTS|ALERTS_FOR_STATE", step!="{}"}}'
    exprs = [f'label_replace({made.format(step)}, "series", "$1", "__name__", "(.+)")' for step in range(LAST + 1)]
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": f"{STEP}s",
        "group_eval_order": [group["name"] for group in groups],
        "tests": [
            {
                "interval": f"{STEP}s",
                "input_series": [{"series": key, "values": encoded(values)} for key, values in series(names).items()],
                "promql_expr_test": [
                    {"expr": expr, "eval_time": f"{step * STEP}s", "exp_samples": [{"labels": "none", "value": 0}]}
                    for step, expr in enumerate(exprs)
                ],
            }
        ],
    }
    (directory / "test.yaml").write_text(json.dumps(test), encoding="utf-8")
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yaml"],
        cwd=directory, env={**os.environ, "GOGC": "1000"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert "err: " not in told, told[:4000]
    for step, expr in enumerate(exprs):
        yield from ((step, labels, value) for labels, value in answer(told, expr))


@dataclass(frozen=True)
class Served:
    """A real Prometheus that has all series of the regions, and those that rules make of them."""

    url: str

    def at_the_end(self, expr: str) -> Answer:
        return [(each["metric"], float(each["value"][1])) for each in self._ask("query", expr, time=LAST * STEP)]

    def over_a_day(self, expr: str) -> Answer:
        """As a graph asks for it; the values at its end."""
        end = LAST * STEP
        found = self._ask("query_range", expr, start=end - 86400, end=end, step=STEP)
        return [(each["metric"], float(value)) for each in found for at, value in each["values"] if at == end]

    def _ask(self, what: str, expr: str, **times: int) -> list[dict[str, Any]]:
        answered = requests.post(f"{self.url}/api/v1/{what}", {"query": expr, **times}, timeout=30).json()
        assert answered["status"] == "success", (expr, answered)
        found: list[dict[str, Any]] = answered["data"]["result"]
        return found


@contextmanager
def served(
    rules: str,
    alerts: str,
    directory: Path,
    names: SiteLabels = SiteLabels(),  # noqa: B008  # a value
) -> Iterator[Served]:
    lines: dict[str, list[str]] = {}
    for key, values in series(names).items():
        told = [f"{key} {value!r} {step * STEP}" for step, value in enumerate(values) if value is not None]
        lines.setdefault(key.partition("{")[0], []).extend(told)
    for step, labels, value in recorded(rules, alerts, directory, names):
        name = labels["series"]
        others = ",".join(f"{label}={json.dumps(of)}" for label, of in labels.items() if label not in OF_THE_QUERY)
        lines.setdefault(name, []).append(f"{name}{{{others}}} {value!r} {step * STEP}")
    with prometheus_of(lines, directory) as there:
        yield there


@contextmanager
def prometheus_of(lines: Mapping[str, list[str]], directory: Path) -> Iterator[Served]:
    """With these lines of OpenMetrics, by the name of the metric."""
    text = "\n".join([*(line for name in sorted(lines) for line in lines[name]), "# EOF\n"])
    (directory / "series.txt").write_text(text, encoding="utf-8")
    blocks = [
        "promtool",
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--max-block-duration=48h",
        "series.txt",
        "data",
    ]
    subprocess.run(blocks, cwd=directory, check=True, capture_output=True, timeout=280)
    (directory / "prometheus.yaml").write_text("{}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", "--config.file=prometheus.yaml", "--storage.tsdb.path=data",
             "--storage.tsdb.retention.time=200y", f"--web.listen-address={address}"],
            cwd=directory, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        url = f"http://{address}"
        until = time.monotonic() + 60
        while not _ready(url):
            assert time.monotonic() < until, (directory / "log").read_text()[-2000:]
            time.sleep(0.1)
        yield Served(url)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=5).ok
    except requests.RequestException:
        return False
