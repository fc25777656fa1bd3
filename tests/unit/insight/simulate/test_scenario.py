"""Scenarios: what is refused, with its line and the word that was meant."""

from __future__ import annotations

import pytest

from plimsoll_agent.errors import ConfigError
from plimsoll_insight.simulate import scenario
from tests import golden

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


def fault(right: str, wrong: str) -> str:
    with pytest.raises(ConfigError) as caught:
        scenario.parse(f"{wrong}\n" if right == "all" else GOOD.replace(right, wrong), "f")
    return str(caught.value)


def test_each_fault_is_the_line_of_the_golden_file() -> None:
    golden.transcript("scenario_faults.txt", fault)
