"""Ceph in trouble: nothing is raised into it, tightening goes on, and what hangs is told truthfully."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.disk import volume
from lab.looking import actual
from lab.node import Node
from plimsoll_agent.adapters.ceph import Ceph, CephProgram
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.errors import DeadlineExceeded, Rejected
from plimsoll_agent.model import clusters
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.reconcile.health_gate import BlockingCheck, Gate
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.adapters.cluster import OF_MONITORS, LiveCluster, StandingCluster, librados_question

pytestmark = pytest.mark.hurt

Guests = Callable[..., list[Guest]]
OSDS = ("osd.0", "osd.1", "osd.2")
THRESHOLDS = {
    "OSD_DOWN > 1": (),
    "OSD_DOWN > 50%": (),
    "OSD_DOWN > 33%": ("OSD_DOWN (1 of 3 OSDs)",),
    "OSD_DOWN > 1%": ("OSD_DOWN (1 of 3 OSDs)",),
}
"""What keeps a change back while one OSD of three is down, by ``blocking_checks``."""


@pytest.fixture(autouse=True)
def _whole_again(cloud: Cloud) -> Iterator[None]:
    yield
    cloud.up(("ceph", "libvirt"))  # waits until Ceph is well, where it had to heal any of it


def rule_for(guest: Guest, target: str, limits: str) -> str:
    volume_id = guest.disks[target].volume_id
    return f"  - {{name: {target}, match: {{volume: {volume_id}}}, limits: {limits}}}\n"


@pytest.fixture
def pair(tmp_path: Path, cloud: Cloud, guests: Guests) -> tuple[Node, Guest, list[str]]:
    """A node that has limited two volumes of a guest to 500, and the words that mean just that guest."""
    (guest,) = guests(disks=[volume(2**30), volume(2**30)])
    node, scope = (
        Node(tmp_path, cloud, "default: {limits: {total_iops_sec: 500}}\n", deadline=2),
        ["--guest", guest.uuid],
    )
    assert node.run("enforce", *scope).status == 0
    node.write_rules(
        "rules:\n" + rule_for(guest, "vda", "{total_iops_sec: 900}") + rule_for(guest, "vdb", "{total_iops_sec: 400}")
    )
    return node, guest, scope


@contextmanager
def one_osd_killed(cloud: Cloud) -> Iterator[Callable[[], None]]:
    """The monitor knows of it; what is yielded kills the others."""

    def kill_the_others() -> None:
        for name in OSDS[1:]:
            cloud.ceph.daemon(name).kill()

    cloud.ceph.daemon(OSDS[0]).kill()
    try:
        # The monitor learns it from the others: with all gone at once it would believe for a quarter of an hour
        # that they are well.
        end = time.monotonic() + 60
        while "OSD_DOWN" not in cloud.ceph.status()["health"]["checks"]:
            assert time.monotonic() < end, "the monitor does not notice that the OSDs are down"
            time.sleep(0.5)
        yield kill_the_others
    finally:
        for daemon in map(cloud.ceph.daemon, OSDS):
            if not daemon.running:
                daemon.start()
        cloud.ceph.wait_healthy(120)


def shared(guest: Guest, iops: int) -> str:
    limits = f"{{total_iops_sec: {iops}, group_name: both}}"
    return f"  - {{name: shared, match: {{guest: {guest.uuid}}}, limits: {limits}}}\n"


def test_with_all_osds_down_a_raise_is_deferred_a_cut_goes_on_and_both_are_right_afterwards(
    pair: tuple[Node, Guest, list[str]], cloud: Cloud, hypervisor: Libvirt, guests: Guests
) -> None:
    """A volume that is attached into a group meanwhile raises none of the group's disks."""
    node, guest, scope = pair
    (grouped,) = guests(disks=[volume(2**30), volume(2**30)])
    scope = [*scope, "--guest", grouped.uuid]
    before, after = (Limits(total_iops_sec=iops, group_name="both") for iops in (100, 400))
    node.write_rules("rules:\n" + shared(grouped, 100))
    assert node.run("enforce", "--guest", grouped.uuid).status == 0
    with one_osd_killed(cloud) as kill_the_others:
        known = clusters.read([cloud.ceph.conf])
        ceph = shutil.which("ceph", path=node.environment["PATH"])
        assert ceph
        health = Ceph("plimsoll", 5, ceph).health(known.known[0])
        for entry, blocks in THRESHOLDS.items():
            gate = Gate(known, lambda _: health, [BlockingCheck.read(entry)])
            assert gate.blocks(health) == blocks, entry
        hold = ("--for", "1h", "--reason", "a restore", "--limits", "total_iops_sec=700", "--ignore-health")
        held = node.run("disk", "hold", "add", guest.uuid, "vda", *hold)
        assert held.status == 0, held.out + held.err
        assert node.run("disk", "hold", "end", guest.uuid, "vda").status == 0
        node.write_rules(
            "rules:\n"
            + rule_for(guest, "vda", "{total_iops_sec: 900}")
            + rule_for(guest, "vdb", "{total_iops_sec: 300}")
            + shared(grouped, 400)
        )
        assert grouped.attach(volume(2**30)) == "vdc"
        kill_the_others()
        enforced = node.run("enforce", *scope)
        assert enforced.status == 3, enforced.out + enforced.err
        assert "is healthy: OSD_DOWN" in enforced.out
        assert "Done: 1 " in enforced.out
        assert actual(hypervisor, guest.uuid, "vda") == Limits(total_iops_sec=700), "of the hold"
        assert actual(hypervisor, guest.uuid, "vdb") == Limits(total_iops_sec=300)
        assert of_all(hypervisor, grouped) == {"vda": before, "vdb": before, "vdc": Limits()}
    well_again = node.run("enforce", *scope)
    assert well_again.status == 0, well_again.out + well_again.err
    assert actual(hypervisor, guest.uuid, "vda") == Limits(total_iops_sec=900)
    assert of_all(hypervisor, grouped) == dict.fromkeys(("vda", "vdb", "vdc"), after)


def of_all(hypervisor: Libvirt, guest: Guest) -> dict[str, Limits]:
    return {target: actual(hypervisor, guest.uuid, target) for target in ("vda", "vdb", "vdc")}


def test_without_a_monitor_health_is_unknown_and_nothing_is_raised(
    pair: tuple[Node, Guest, list[str]], cloud: Cloud, hypervisor: Libvirt
) -> None:
    node, guest, scope = pair
    cloud.ceph.daemon("mon.a").kill()
    try:
        started = time.monotonic()
        enforced = node.run("enforce", *scope)
        took = time.monotonic() - started
    finally:
        cloud.ceph.daemon("mon.a").start()
    assert enforced.status == 3, enforced.out + enforced.err
    assert "deferred: health of Ceph cluster" in enforced.out
    assert took < 12, "Ceph's command has a deadline; librados by itself waits for five minutes"
    assert actual(hypervisor, guest.uuid, "vda") == Limits(total_iops_sec=500)
    assert actual(hypervisor, guest.uuid, "vdb") == Limits(total_iops_sec=400)
    cloud.ceph.wait_healthy(60)
    assert node.run("enforce", *scope).status == 0
    assert actual(hypervisor, guest.uuid, "vda") == Limits(total_iops_sec=900)


def test_librados_answers_as_the_ceph_command_does_and_again_after_a_monitor_was_gone(
    cloud: Cloud, tmp_path: Path
) -> None:
    """A question that another daemon answers, or a recording that stays blind after a monitor's restart."""
    command = shutil.which("ceph", path=Node(tmp_path, cloud).environment["PATH"])
    assert command
    live = LiveCluster(conf=cloud.ceph.conf, client="admin", deadline=15, command=command)
    assert CephProgram(conf=live.conf, client=live.client, deadline=1, command=command).librados_argv()
    for name in (
        *sorted(OF_MONITORS),
        "pg dump pgs_brief",
        "tell osd.1 dump_historic_slow_ops",
        "tell osd.1 perf dump",
    ):
        assert librados_question(name.split())
        words = name.split()
        answer, same = (json.loads(text) for text in (live.ask(*words), cloud.ceph.run(*words, "-f", "json")))
        assert type(answer) is type(same), name
        assert set(answer) == set(same) if isinstance(answer, dict) else len(answer) == len(same), name
    standing = StandingCluster(replace(live, deadline=5.0))
    assert standing.status().up == len(OSDS)
    cloud.ceph.daemon("mon.a").kill()
    try:
        with pytest.raises((DeadlineExceeded, Rejected)):
            standing.status()
    finally:
        cloud.ceph.daemon("mon.a").start()
    cloud.ceph.wait_healthy(60)
    assert standing.status().up == len(OSDS)
    lines = standing.log(1000)
    printed = json.loads(cloud.ceph.run("log", "last", "1000", "info", "cluster", "-f", "json"))
    assert 0 < len(lines) <= len(printed) < len(lines) + 10, "the start of a monitor, at least; some may be new"


def test_a_monitor_whose_name_has_no_address_is_unknown_health_at_once(
    pair: tuple[Node, Guest, list[str]], cloud: Cloud, tmp_path: Path, hypervisor: Libvirt
) -> None:
    """As without a name server; the name is reserved, so that no server knows it (RFC 6761)."""
    node, guest, scope = pair
    conf = re.sub(r"^mon host = .*$", "mon host = monitor.invalid", cloud.ceph.conf.read_text(), flags=re.MULTILINE)
    (tmp_path / "ceph.conf").write_text(conf)
    node.set_ceph_conf(tmp_path / "ceph.conf")
    enforced = node.run("enforce", *scope)
    assert enforced.status == 3, enforced.out + enforced.err
    assert "deferred: Ceph's health unknown" in enforced.out or "deferred: health of Ceph cluster" in enforced.out
    assert actual(hypervisor, guest.uuid, "vda") == Limits(total_iops_sec=500)
    assert actual(hypervisor, guest.uuid, "vdb") == Limits(total_iops_sec=400)


def test_a_disk_on_a_cluster_that_no_file_names_is_not_raised(
    pair: tuple[Node, Guest, list[str]], tmp_path: Path, hypervisor: Libvirt
) -> None:
    node, guest, scope = pair
    node.set_ceph_conf(tmp_path / "none.conf")
    enforced = node.run("enforce", *scope)
    assert enforced.status == 3, enforced.out + enforced.err
    assert "deferred: Ceph's health unknown: no ceph.conf with mon_host" in enforced.out
    assert actual(hypervisor, guest.uuid, "vda") == Limits(total_iops_sec=500)


def test_a_limit_that_is_removed_while_writes_hang_is_reported_truthfully_and_settled_later(
    tmp_path: Path, cloud: Cloud, booted: Guest, hypervisor: Libvirt
) -> None:
    """The worst moment: all OSDs stall, and the monitor has not noticed yet. QEMU drains the disk for a removal."""
    node, scope = Node(tmp_path, cloud, deadline=2), ["--guest", booted.uuid]
    assert node.run("enforce", "--total-iops-sec", "200", *scope).status == 0
    writer = "fio --name=w --filename=/mnt/volume/stall --size=16M --rw=randwrite --bs=4k --fdatasync=1"
    booted.exec(["sh", "-c", f"{writer} --direct=1 --time_based --runtime=90 >/dev/null 2>&1 & echo $! >/run/w.pid"])
    end = time.monotonic() + 60
    while writes_in(hypervisor, booted, 1) < 10:  # each is flushed: what librbd keeps in its cache waits for no OSD
        assert time.monotonic() < end, "the guest does not begin to write"
    approved = approval_of(node, "--total-iops-sec", "0", *scope)
    for name in OSDS:
        cloud.ceph.daemon(name).stop()
    try:
        time.sleep(2)
        removed = node.run("enforce", "--total-iops-sec", "0", *approved, *scope, timeout=60)
        lowered = node.run("enforce", "--total-iops-sec", "100", *scope, timeout=60)
    finally:
        for name in OSDS:
            cloud.ceph.daemon(name).cont()
    assert removed.status in (1, 3), removed.out + removed.err
    assert "unknown: no answer from QEMU within 2 s" in removed.out
    # QEMU answers nothing while it drains, so the guest cannot even be looked at.
    assert lowered.status == 1, lowered.out + lowered.err
    assert "no answer from QEMU within 2 s" in lowered.out
    assert "Done: nothing changed" in lowered.out
    cloud.ceph.wait_healthy(120)
    booted.exec(["sh", "-c", "kill $(cat /run/w.pid)"])
    settled = node.run("enforce", "--total-iops-sec", "100", *scope)
    assert settled.status == 0, settled.out + settled.err
    assert {actual(hypervisor, booted.uuid, t) for t in ("vda", "vdb")} == {Limits(total_iops_sec=100)}
    assert node.record.unsettled() == []
    removed = node.run("enforce", "--total-iops-sec", "0", *approved, *scope)
    assert removed.status == 0, "well again, it can be removed"


def approval_of(node: Node, *words: str) -> list[str]:
    """What lets a pass remove the limits that it is to remove by these words."""
    plan = node.run("plan", *words)
    (digest,) = re.findall(r"plimsoll enforce .*--approve ([0-9a-f]{16}) --remove", plan.out)[-1:]
    return ["--approve", digest, "--remove"]


def writes_in(hypervisor: Libvirt, guest: Guest, seconds: float) -> int:
    """How many writes to vdb come to their end in so many seconds."""
    before = hypervisor.block_stats(guest.uuid, ["vdb"])["vdb"].write_requests
    time.sleep(seconds)
    return hypervisor.block_stats(guest.uuid, ["vdb"])["vdb"].write_requests - before
