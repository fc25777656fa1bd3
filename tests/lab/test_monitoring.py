"""From what plimsoll does to what operators are told of it, by the very programs that tell them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import uuid
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.limits import Limits
from plimsoll_probes.histogram import Histogram
from plimsoll_probes.history import History
from plimsoll_probes.metrics import LE
from plimsoll_probes.result import ProbeResult
from tests.interrupted import heeds_ctrl_c
from tests.lab.cloud import Cloud, Guest
from tests.lab.cloud.prometheus import Prometheus, hurried
from tests.lab.node import Node
from tests.looking import in_force
from tests.unit.probes import a_flow, a_measurement, a_probe, a_subject

Guests = Callable[..., list[Guest]]

LIMIT = Limits(total_iops_sec=250)
SOON = 20.0
"""Seconds for Prometheus and Alertmanager, of which five go by until a new target or Alertmanager is known."""
DEADLINE = 2.0
"""Of a node's calls into libvirt, in seconds."""
SILENT_AFTER = 8
"""Seconds, where etc/prometheus says 900."""


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
    assert in_force(hypervisor, guest.uuid, "vdb") == LIMIT

    of_guest = f'uuid="{guest.uuid}",parameter="total_iops_sec"'
    shown = metrics.wait_for(f"plimsoll_disk_limit_in_force{{{of_guest}}}", lambda found: len(found) == 2, SOON)
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
def test_a_timer_that_is_killed_is_told_of_as_an_agent_that_is_silent(node: Node, metrics: Prometheus) -> None:
    def soon(rules: str) -> str:
        return hurried(rules).replace("(time() - plimsoll_pass_last_timestamp_seconds) > 900", _THEN)

    def is_silent() -> bool:
        return any(alert.name == "PlimsollAgentSilent" for alert in metrics.alerts())

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
            told = metrics.wait_to_receive("PlimsollAgentSilent", "firing", mark, SOON, instance="node-1")
        assert "node-1" in told.annotations["summary"]
        with timer(node):
            metrics.wait_to_receive("PlimsollAgentSilent", "resolved", mark, SOON, instance="node-1")
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
    History(node.state.probes).add(result)


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
        metrics.wait_for('plimsoll_disks{state="not-known"} == 2', len, SOON)
        assert metrics.query('plimsoll_guests{state="silent"} != 1') == []
        in_force = 'plimsoll_disk_limit_in_force{parameter="total_iops_sec"}'
        assert {labels["uuid"] for labels, _ in metrics.query(in_force)} == {whole.uuid}, "unknown is not told as any"
        metrics.wait_to_receive("PlimsollGuestsSilent", "firing", mark, SOON, instance="node-1")
    finally:
        os.kill(hung.qemu_pid, signal.SIGCONT)
    assert node.run("enforce").status == 0
    metrics.wait_to_receive("PlimsollGuestsSilent", "resolved", mark, SOON, instance="node-1")
