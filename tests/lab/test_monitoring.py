"""From what plimsoll does to what operators are told of it, by the very programs that tell them."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import subprocess
import time
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.nagios import Nagios
from lab.cloud.prometheus import Prometheus, hurried
from lab.interrupted import heeds_ctrl_c
from lab.looking import actual, put
from lab.node import Node
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.catalogue import attachments
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import Catalogue, Volume, VolumeType
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.store.refresh_state import RefreshDir, RefreshNotes
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output.metrics import LE
from plimsoll_probes.store.history import History
from tests.grafana import chosen, panels, queries
from tests.unit.results import a_finding, a_flow, a_measurement, a_probe, a_subject

Guests = Callable[..., list[Guest]]

LIMIT = Limits(total_iops_sec=250)
SOON = 20.0
"""Seconds for Prometheus and Alertmanager, of which five go by until a new target or Alertmanager is known."""
DEADLINE = 2.0
"""Of a node's calls into libvirt, in seconds."""
SILENT_AFTER = 8
"""Seconds, where etc/prometheus says 900."""
METRIC = re.compile(r"\b(?:[a-z_]+:)?plimsoll_\w+(?::\w+)?")
"""In PromQL."""


@pytest.fixture
def metrics(prometheus: Prometheus) -> Iterator[Prometheus]:
    """Nobody's metrics are there before and after, and the rules are those that are shipped."""
    prometheus.clear()
    prometheus.use_rules()
    yield prometheus
    prometheus.clear()


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud, metrics: Prometheus) -> Node:
    """Its rules are a test's own."""
    return node_of("node-1", tmp_path, cloud, metrics)


def node_of(name: str, home: Path, cloud: Cloud, metrics: Prometheus) -> Node:
    (home / name).mkdir()
    node = Node(home / name, cloud, deadline=DEADLINE)
    node.use_metrics(metrics.textfiles(name))
    return node


def limit(node: Node, *guests: Guest) -> None:
    """A rule that gives each disk of these guests ``LIMIT``, and leaves all others alone."""
    lines = (
        f"  - {{name: g{number}, match: {{guest: {guest.uuid}}}, limits: {{total_iops_sec: 250}}}}\n"
        for number, guest in enumerate(guests)
    )
    node.write_rules("rules:\n" + "".join(lines))


@pytest.mark.shared
def test_a_pass_is_seen_in_prometheus_and_rules_that_are_broken_then_at_the_webhook(
    node: Node, metrics: Prometheus, guests: Guests, hypervisor: Libvirt
) -> None:
    (guest,) = guests(1)
    limit(node, guest)
    ran = node.run("enforce")
    assert ran.status == 0, ran.out + ran.err
    assert actual(hypervisor, guest.uuid, "vdb") == LIMIT

    of_guest = f'uuid="{guest.uuid}",parameter="total_iops_sec"'
    shown = metrics.wait_for(
        f"plimsoll_disk_limit_actual_operations_per_second{{{of_guest}}}", lambda found: len(found) == 2, SOON
    )
    assert {(labels["region"], labels["instance"], labels["domain"]) for labels, _ in shown} == {
        ("lab", "node-1", guest.name)
    }
    assert {labels["target_device"]: value for labels, value in shown} == {"vda": 250, "vdb": 250}
    assert metrics.query('sum(plimsoll_disks{instance="node-1",state="changed"})') == [({}, 2)]
    assert metrics.query('plimsoll_source_up{instance="node-1"} == 0') == []

    mark = metrics.mark()
    node.write_rules("rules: [\n")
    assert node.run("enforce").status == 1
    told = metrics.wait_to_receive("PlimsollSourceDown", "firing", mark, SOON, instance="node-1", source="rules")
    assert "rules" in told.annotations["summary"]
    limit(node, guest)
    assert node.run("enforce").status == 0
    metrics.wait_to_receive("PlimsollSourceDown", "resolved", mark, SOON, instance="node-1", source="rules")


@contextmanager
def timer(node: Node) -> Iterator[subprocess.Popen[bytes]]:
    """A pass each second, until somebody kills it."""
    command = " ".join(node.command("enforce"))
    process = subprocess.Popen(
        ["sh", "-c", f"while :; do {command}; sleep 1; done"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=node.environment,
        start_new_session=True,
        preexec_fn=heeds_ctrl_c,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.shared
def test_a_timer_that_is_killed_is_reported_as_an_agent_that_is_silent(node: Node, metrics: Prometheus) -> None:
    def soon(rules: str) -> str:
        return hurried(rules).replace("(time() - plimsoll_pass_last_timestamp_seconds) > 900", _THEN)

    def is_silent() -> bool:
        return any(alert.name == "PlimsollPassOverdue" for alert in metrics.alerts())

    metrics.use_rules(soon)
    try:
        mark = metrics.mark()
        with timer(node) as passes:
            age = "time() - plimsoll_pass_last_timestamp_seconds"
            metrics.wait_for(age, len, SOON)
            end = time.monotonic() + SILENT_AFTER + 3
            while time.monotonic() < end:
                assert not is_silent(), metrics.query(age)
                time.sleep(0.5)
            os.killpg(passes.pid, signal.SIGKILL)
            told = metrics.wait_to_receive("PlimsollPassOverdue", "firing", mark, SOON, instance="node-1")
        assert "node-1" in told.annotations["summary"]
        with timer(node):
            metrics.wait_to_receive("PlimsollPassOverdue", "resolved", mark, SOON, instance="node-1")
    finally:
        metrics.use_rules()


_THEN = f"(time() - plimsoll_pass_last_timestamp_seconds) > {SILENT_AFTER}"


@pytest.mark.shared
def test_percentiles_over_two_nodes_in_prometheus_are_those_of_plimsolls_merged_histogram(
    tmp_path: Path, cloud: Cloud, metrics: Prometheus
) -> None:
    volume_type = f"type-{uuid.uuid4()}"
    chance = random.Random(6)
    # A node that is well, and one whose requests are slower, with a tail of seconds.
    typical = {"node-1": (0.004, 0.5), "node-2": (0.02, 1.4)}
    nodes = {name: node_of(name, tmp_path, cloud, metrics) for name in typical}
    merged = Histogram()
    for name, node in nodes.items():
        median, spread = typical[name]
        for _ in range(5):
            latencies = [round(10**9 * median * chance.lognormvariate(0, spread)) for _ in range(400)]
            probed(node, a_run(volume_type, latencies))
            merged = Histogram.merged((merged, Histogram.of(latencies)))
        assert node.run("probe", "run", "--due").status == 0

    buckets = f'plimsoll_probe_latency_seconds_bucket{{volume_type="{volume_type}"}}'
    total = f'sum(plimsoll_probe_latency_seconds_bucket{{volume_type="{volume_type}",le="+Inf"}})'
    metrics.wait_for(total, lambda found: [value for _, value in found] == [merged.count], SOON)
    for quantile in (0.1, 0.5, 0.9, 0.99, 0.999):
        ((_, seconds),) = metrics.query(f"histogram_quantile({quantile}, sum by (le) ({buckets}))")
        own = merged.quantile(quantile)
        assert own is not None
        assert bisect_left(LE, seconds * 10**9) == bisect_left(LE, own.value), (quantile, seconds, own)


def a_run(volume_type: str, latencies: list[int]) -> ProbeResult:
    """Which just ended, and took so many nanoseconds for each of its reads."""
    return a_probe(
        subject=a_subject(volume_type=volume_type, guest_uuid=str(uuid.uuid4())),
        started=datetime.now(UTC),
        measured=a_measurement(a_flow(latencies)),
    )


def probed(node: Node, result: ProbeResult) -> None:
    node.state.prepare()
    history = History(node.state.probes)
    history.add(result)
    history.show(datetime.now(UTC))


@pytest.fixture
def checks(nagios: Nagios) -> Iterator[Nagios]:
    """A node without plimsoll afterwards: its checks take no time of other tests."""
    yield nagios
    nagios.use_settings(None)


@pytest.mark.shared
def test_a_broken_promise_is_a_warning_in_nagios_over_nrpe_until_a_probe_finds_it_kept(
    checks: Nagios, cloud: Cloud, guests: Guests
) -> None:
    def looked(service: str, state: str) -> str:
        checks.check_now(f"plimsoll {service}")
        output = checks.wait_for(f"plimsoll {service}", state, SOON).output
        assert output.startswith(f"PLIMSOLL {service.upper()} {state} - ")
        return output

    (guest,) = guests(1)
    node = Node(checks.home_of("node-1"), cloud, deadline=DEADLINE)
    limit(node, guest)
    assert node.run("enforce").status == 0
    probed(node, a_run_in(guest))
    checks.use_settings(node.settings)
    for service in ("agent", "limits", "probe"):
        looked(service, "OK")

    probed(node, a_run_in(guest, short=True))
    told = looked("probe", "WARNING")
    assert guest.name in told, told
    assert "plimsoll probe show 2" in told, "what to do"

    probed(node, a_run_in(guest))
    looked("probe", "OK")


def a_run_in(guest: Guest, *, short: bool = False) -> ProbeResult:
    """Which just ended, and was to have 99 of 100 requests done within 50 ms."""
    shortage = a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, parameter="total_iops_sec", allowed=7500.0, done=2850)
    return a_probe(
        subject=a_subject(guest_uuid=guest.uuid, guest_name=guest.name, directory="/mnt/volume"),
        started=datetime.now(UTC) - timedelta(seconds=30),
        finding=shortage if short else a_finding(),
        iops=95 if short else 251,
        objective=Objective(((0.99, 0.05),)),
    )


@pytest.mark.shared
def test_every_query_of_the_dashboards_has_data_of_a_node_with_probes_and_drift(
    node: Node, metrics: Prometheus, guests: Guests, hypervisor: Libvirt
) -> None:
    metrics.forget(SOON)
    guest, put_off = guests(2)
    limits = Limits(
        total_iops_sec=250,
        total_iops_sec_max=9000,
        total_iops_sec_max_length=60,
        size_iops_sec=4096,
        total_bytes_sec=10**7,
    )
    node.write_rules(
        "rules:\n"
        f"  - {{name: probed, match: {{guest: [{guest.uuid}, {put_off.uuid}]}},"
        f" limits: {json.dumps(limits.in_effect())}, probe: {{every: 7d, directory: /mnt/volume}}}}\n"
    )
    node.use_probes(late=60)  # so that none of them is due now, but once in thousands
    refreshed(node)
    for turn in (1, 2):
        # The increase of a counter begins with the second value that Prometheus sees.
        probed(node, a_run_in(guest))
        probed(node, a_run_in(guest, short=True))
        postponed(node, put_off)
        assert node.run("probe", "run", "--due").status == 0
        assert node.run("enforce").status == 0
        assert {actual(hypervisor, guest.uuid, target) for target in guest.disks} == {limits}
        metrics.wait_for(f"sum(plimsoll_passes_total) == {turn + 1}", len, SOON)
        metrics.wait_for(f"sum(plimsoll_probe_runs_total) == {2 * turn}", len, SOON)
        put(hypervisor, guest.uuid, "vda", replace(limits, total_iops_sec=9000))

    panels = asked(metrics, guest)
    without = {promql for its in panels.values() for promql in its}
    deadline = time.monotonic() + SOON
    while without and time.monotonic() < deadline:
        time.sleep(0.5)
        without = {promql for promql in without if not has_data(metrics, promql)}
    assert {where: empty for where, its in panels.items() if (empty := without & {*its})} == {}
    # A sum of nothing but zeros is data too.
    (reverted,) = panels["plimsoll-disk", "External changes reverted, last day"]
    (kept,) = panels["plimsoll-node", "Promise kept, by volume type"]
    metrics.wait_for(reverted, lambda found: found[0][1] > 0, SOON)
    metrics.wait_for(kept, lambda found: found[0][1] == 0.5, SOON)


def refreshed(node: Node) -> None:
    """As a refresher leaves it that has asked Cinder twice, of the volumes that a pass has met."""
    now = datetime.now(UTC)
    node.use_catalogue(source="openstack", cloud="lab")
    assert node.run("enforce").status == 3, "nobody knows yet what Cinder says"
    met = attachments.load(node.state.attachments)
    assert met is not None
    volumes = {
        id: Volume(type="t1", marks=frozenset(marks), read=now) for id, marks in met.marks_of_volumes().items()
    }
    types = {"t1": VolumeType(id="t1", name="gold", qos_spec=None)}
    found = Catalogue(generation=1, issued=now, source="lab", types=types, volumes=volumes)
    catalogue.save(node.catalogue, found)
    RefreshDir(node.catalogue).save_notes(RefreshNotes().asked({"cinder": 2}).succeeded())


def postponed(node: Node, guest: Guest) -> None:
    History(node.state.probes).postpone(
        Postponed(
            at=datetime.now(UTC),
            node="node-1",
            guest_uuid=guest.uuid,
            guest_name=guest.name,
            directory="/mnt/volume",
            why=Why.PAUSED,
            facts={},
        )
    )


# Paused guests take nothing, so there is no ratio to it; functional tests have guests that do.
OF_WHAT_WAS_TAKEN = re.compile(
    r"/ \(max_over_time\(volume_type:plimsoll_pool_average_operations_per_second:sum\{.* > 0\)"
)
OTHER_OBJECTIVE = re.compile(r'objective_seconds{[^}]*objective="0\.(?!99")')


def may_be_empty(dashboard: dict[str, Any]) -> set[str]:
    """Panels that say what it means to be empty: no alert fires, no disk is unlimited, no data of Ceph."""
    return {
        panel["title"]
        for panel in panels(dashboard)
        if panel["fieldConfig"]["defaults"].get("noValue", "unknown") != "unknown"
    }


def asked(metrics: Prometheus, guest: Guest) -> dict[tuple[str, str], list[str]]:
    """What Prometheus is asked by each panel of each dashboard; that of a disk is of one of the guest's."""
    found: dict[tuple[str, str], list[str]] = {}
    for file in (Path(__file__).parents[2] / "etc/grafana").glob("*.json"):
        dashboard = json.loads(file.read_text())
        its_own = {"domain": guest.name, "uuid": guest.uuid} if file.stem == "plimsoll-disk" else {}
        for title, promql in queries(dashboard, chosen(dashboard, metrics.label_values, its_own)):
            if title in may_be_empty(dashboard) or OTHER_OBJECTIVE.search(promql):
                continue
            if not OF_WHAT_WAS_TAKEN.search(promql):
                found.setdefault((file.stem, title), []).append(promql)
    return found


def has_data(metrics: Prometheus, promql: str) -> bool:
    """Also each of the metrics in it by itself, since ``or 0 *`` makes data where there is none."""
    samples = metrics.query(promql)
    each = set(METRIC.findall(promql))
    return bool(samples) and not any(math.isnan(value) for _, value in samples) and all(map(metrics.query, each))


@pytest.mark.hurt
def test_a_pass_over_a_guest_whose_qemu_is_stopped_says_so_in_metrics_that_come_in_time(
    node: Node, metrics: Prometheus, guests: Guests
) -> None:
    whole, hung = guests(2)
    limit(node, whole, hung)
    mark = metrics.mark()
    os.kill(hung.qemu_pid, signal.SIGSTOP)
    try:
        began = time.time()
        assert node.run("enforce").status == 3
        written = (metrics.textfiles("node-1") / "plimsoll-pass.prom").stat().st_mtime
        assert 0 < written - began < 3 * DEADLINE + 3, "one deadline for the guest, and a pass"
        metrics.wait_for('plimsoll_disks{state="unknown"} == 2', len, SOON)
        assert metrics.query('plimsoll_guests{state="unreachable"} != 1') == []
        actual = 'plimsoll_disk_limit_actual_operations_per_second{parameter="total_iops_sec"}'
        # Unknown is not told as any; the series of before may end a scrape later. Others may be the booted guest's.
        own = {whole.uuid, hung.uuid}
        metrics.wait_for(
            actual, lambda samples: {labels["uuid"] for labels, _ in samples} & own == {whole.uuid}, SOON
        )
        metrics.wait_to_receive("PlimsollGuestsUnreachable", "firing", mark, SOON, instance="node-1")
    finally:
        os.kill(hung.qemu_pid, signal.SIGCONT)
    assert node.run("enforce").status == 0
    metrics.wait_to_receive("PlimsollGuestsUnreachable", "resolved", mark, SOON, instance="node-1")
