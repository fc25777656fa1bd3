"""Scenarios: what is refused, with its line and the word that was meant."""

from __future__ import annotations

import pytest

from plimsoll_agent.errors import ConfigError
from plimsoll_insight.simulate import scenario

GOOD = """title: some
duration: 10m
cluster: {hosts: 3}
disks:
  - {name: light, guests: 10, iops: 5}
"""


def test_what_is_left_out_has_defaults() -> None:
    read = scenario.parse(GOOD, "f")
    assert (read.duration, read.period, read.cluster.groups, read.disks[0].size) == (600, 5, 12 * 32, 4096)


def test_numbers_have_units() -> None:
    text = GOOD.replace("iops: 5", "iops: 2k, size: 64KiB, writes: 30%, limits: {total_bytes_sec: 100MiB}")
    (disks,) = scenario.parse(text.replace("hosts: 3", "hosts: 3, read: 0.5ms, bytes_sec: 500MB"), "f").disks
    assert (disks.iops, disks.size, disks.writes) == (2000, 65536, 0.3)
    assert disks.limits.total_bytes_sec == 100 << 20


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        (
            "iops: 5", "iops: -5",
            "f:5: disks[0].iops: must be requests a second, such as 35, and above 0, not -5",
        ),
        (
            "iops: 5", "iops: '-5'",
            "f:5: disks[0].iops: must be requests a second, such as 35, and above 0, not '-5'",
        ),
        (
            "iops: 5", "iops: .nan",
            "f:5: disks[0].iops: must be requests a second, such as 35, and above 0, not nan",
        ),
        ("iops: 5", "iop: 5", "f:5: disks[0]: iop is not a key here; did you mean iops?"),
        ("iops: 5", "size: 1", "f:5: disks[0]: iops is missing, or queue for a closed loop"),
        (
            "iops: 5", "iops: 5, queue: 4",
            "f:5: disks[0]: queue and iops exclude each other: a closed loop sends as fast as it is served",
        ),
        (
            "iops: 5", "iops: 5, writes: 70",
            "f:5: disks[0].writes: must be per cent from 0% to 100%, such as 70%, not 70",
        ),
        ("iops: 5", "iops: 5, begins: 5, ends: 5", "f:5: disks[0]: ends must be after begins"),
        (
            "iops: 5", "iops: 5, limits: {total_iops_sec: 5, read_iops_sec: 5}",
            "f:5: disks[0].limits: total_iops_sec and read_iops_sec exclude each other; remove one",
        ),
        ("10m", "-10m", "f:2: duration: must be a time, such as 10ms, 5s or 2m, and above 0, not '-10m'"),
        (
            "10m", "10 years",
            "f:2: duration: must be seconds, such as 10, 0.5, 500ms, 10s or 1m, not '10 years'",
        ),
        ("10m", "10m\nperiod: 1ms", "f:3: period: 600000 periods are more than 2000; give a longer one"),
        ("10m", "10m\nwarm_up: 11m", "f:3: warm_up must be less than duration"),
        (
            "hosts: 3", "hosts: 2",
            "f:3: cluster: copies: 3 need so many of domain host, and there "
            "are 2; write another domain or fewer copies",
        ),
        (
            "hosts: 3", "hosts: 3, domain: hosts",
            "f:3: cluster.domain: must be osd, host or rack, not 'hosts'; did you mean host?",
        ),
        (
            "disks:", "events: [{at: 5, lose: host.3}]\ndisks:",
            "f:4: events[0].lose: there is no host.3: 3 of them, host.0 to host.2",
        ),
        ("hosts: 3", "hosts: 3, imbalance: 95%", "f:3: cluster: imbalance must be at most 90%"),
        ("disks:", "events: [{at: 5}]\ndisks:", "f:4: events[0]: must have one of lose, return, degrade and speed"),
        (
            "disks:", "events: [{at: 10m, lose: osd.1}]\ndisks:",
            "f:4: events[0]: at must be before the end, which duration sets",
        ),
        ("disks:", "events: [{at: 5, speed: 0%}]\ndisks:", "f:4: events[0].speed: must be at least 1%, not '0%'"),
        (
            "disks:", "congestion: {objective: 5ms}\ndisks:",
            "f:4: congestion needs disks with light: true, whose latency is its signal",
        ),
        (
            "disks:", "congestion: {objective: 5ms, arms: [ours]}\ndisks:",
            "f:4: congestion.arms[0]: must be nothing, half, aimd, parda or plimsoll, not 'ours'",
        ),
        (
            "iops: 5", "iops: 5, congestion: {share: 2}",
            "f:5: disks[0].congestion: floor is missing: without one a disk is never reduced",
        ),
        (
            "iops: 5", "iops: 5, congestion: {floor: {total_iops_sec: 5}, share: 0.5}",
            "f:5: disks[0].congestion.share: must be a number from 1 on, such as 2, and above 0, not 0.5",
        ),
        (
            GOOD, "just words",
            "f:1: must be a mapping with title, seed, duration, warm_up, period, nodes, cluster, disks, events,"
            " congestion",
        ),
    ],
)  # fmt: skip
def test_a_fault_is_one_line(right: str, wrong: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario.parse(GOOD.replace(right, wrong), "f")
    assert str(caught.value) == line


def test_two_kinds_of_disks_have_two_names() -> None:
    with pytest.raises(ConfigError, match=r"f:6: disks\[1\]: name light is there twice"):
        scenario.parse(GOOD + "  - {name: light, guests: 1, iops: 5}\n", "f")
