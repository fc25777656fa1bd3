"""A real guest whose storage stops says so on its console, and plimsoll finds it with its time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.node import Node
from plimsoll_agent.consoles import file
from plimsoll_agent.consoles.model import Consoles
from plimsoll_agent.consoles.patterns import StallKind

pytestmark = pytest.mark.hurt

OSDS = ("osd.0", "osd.1", "osd.2")
HUNG_AFTER = 5
"""Seconds after which the guest's kernel complains."""
PATIENCE = 120
# Errors of the kernel are not on a quiet console; a task is looked at as often as the time that it may hang.
LOUD = (
    "cd /proc/sys/kernel; echo 8 >printk; "
    f"echo {HUNG_AFTER} >hung_task_timeout_secs; echo -1 >hung_task_warnings; cat hung_task_timeout_secs"
)
QUIET = (
    "kill $(cat /run/stall.pid); rm -f /run/stall.pid /mnt/volume/stall; "
    "cd /proc/sys/kernel; echo 120 >hung_task_timeout_secs; echo 3 >printk"
)
WRITES = (
    "dd if=/dev/zero of=/mnt/volume/stall bs=64k count=100000 oflag=direct >/dev/null 2>&1 & echo $! >/run/stall.pid"
)


@pytest.fixture
def node(tmp_path: Path, cloud: Cloud) -> Node:
    node = Node(tmp_path, cloud, mode="observe")
    textfiles = tmp_path / "textfiles"
    textfiles.mkdir()
    node.use_metrics(textfiles)
    node.read_consoles()
    return node


@pytest.fixture(autouse=True)
def _whole_again(cloud: Cloud, booted: Guest) -> Iterator[None]:
    yield
    cloud.up(("ceph", "libvirt"))
    booted.wait_for_agent(60)
    said(booted, QUIET)


def said(guest: Guest, words: str) -> str:
    done = guest.exec(["sh", "-c", words])
    assert done.exit_code == 0, done.err
    return done.out


@contextmanager
def stopped(cloud: Cloud) -> Iterator[None]:
    for name in OSDS:
        cloud.ceph.daemon(name).stop()
    try:
        yield
    finally:
        for name in OSDS:
            cloud.ceph.daemon(name).cont()


def passed(node: Node) -> Consoles:
    ran = node.run("enforce")
    assert ran.status in (0, 3), ran.out + ran.err
    found = file.load(node.state)
    assert found is not None
    return found


def test_a_guest_whose_osds_stop_is_found_by_its_own_console_with_its_time(
    node: Node, cloud: Cloud, booted: Guest
) -> None:
    assert said(booted, LOUD).strip() == str(HUNG_AFTER)
    passed(node)
    said(booted, WRITES)
    time.sleep(2)
    healthy = passed(node).guests[booted.uuid]
    assert (healthy.state, dict(healthy.stalls)) == ("read", {})

    began = datetime.now(UTC)
    with stopped(cloud):
        end = time.monotonic() + PATIENCE
        while not (guest := passed(node).guests[booted.uuid]).stalls:
            assert time.monotonic() < end, "the guest's kernel does not complain"
            time.sleep(2)
    hung = guest.stalls[StallKind.HUNG_TASK]
    waited = (hung.last - began).total_seconds()
    print(f"found {waited:.1f} s after its OSDs were stopped, {hung.lines} lines")
    assert HUNG_AFTER - 1 <= waited <= PATIENCE
    text = (node.home / "textfiles/plimsoll-console.prom").read_text()
    own = f'domain="{booted.name}",kind="hung-task",uuid="{booted.uuid}"'
    assert f"plimsoll_guest_stall_lines_total{{{own}}} {float(hung.lines)!r}\n" in text
    shown = node.run("status").out
    assert f"stalled within a day: {booted.name}" in " ".join(shown.split()), shown
    for told in (text, shown, node.state.consoles.read_text()):
        assert "blocked for more" not in told
