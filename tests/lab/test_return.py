"""OSDs of the real Ceph return in waves; whatever happens to the command, its flags and settings are as before."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import osdhost
from lab.cloud import Cloud, release
from lab.cloud.layout import CHECKOUT
from lab.node import Node, Ran
from lab.waiting import until
from tests import depth
from tests.lab.playbook import Playbooks, Played, play

pytestmark = pytest.mark.hurt

DOWN = (1, 2)
LAST = 14
"""A return of these writes so many lines into its record: begin, 4 changes, 2 starts, 4 restorations, the end, and up
to two sentences."""
KILLS = depth.count(quick=1, landing=1, soak=LAST - 2)
FAULTS = depth.count(quick=0, landing=0, soak=1)
QUICK = ("--steady", "4s", "--interval", "2s")
# Since Quincy OSDs have mClock, which takes no notice of osd_max_backfills.
NAME, VALUE = (
    ("osd_max_backfills", "1") if release.name() == "bookworm" else ("osd_mclock_profile", "high_client_ops")
)
PATIENCE = 300.0
"""Seconds, on a machine with much else to do."""


@pytest.fixture
def node(cloud: Cloud, tmp_path: Path) -> Iterator[Node]:
    """With two of three OSDs down. The last one has no copy of some placement groups."""
    cloud.ceph.wait_healthy()
    for osd in DOWN:
        cloud.ceph.daemon(f"osd.{osd}").kill()
    until(lambda: cloud.ceph.status()["osdmap"]["num_up_osds"] == 1, PATIENCE)
    yield Node(tmp_path, cloud)
    cloud.ceph.monitor("osd unset", key="noout")
    cloud.ceph.monitor("config rm", who="osd", name=NAME)
    cloud.ceph.heal()


def words(*more: str) -> tuple[str, ...]:
    change = ("--flag", "noout", "--set", f"{NAME}={VALUE}")
    return ("return", "run", "--yes", "--id", "admin", "--at-once", "1", "--on-host", osdhost.words(), *change,
            *QUICK, *more)  # fmt: skip


def changes(cloud: Cloud) -> tuple[bool, list[str], list[str]]:
    """The flag, the setting, and the hosts whose OSDs systemd does not restart."""
    values = json.loads(cloud.ceph.monitor("config dump", format="json"))
    drop_ins = (cloud.layout.root / "osdhosts").rglob("*.conf")
    return (
        "noout" in json.loads(cloud.ceph.monitor("osd dump", format="json"))["flags"],
        [row["value"] for row in values if row["name"] == NAME],
        sorted(path.parent.name for path in drop_ins),
    )


NONE = (False, [], [])
ALL = (True, [VALUE], [f"ceph-osd@{osd}.service.d" for osd in DOWN])


def lines(node: Node) -> list[str]:
    path = node.state.directory / "return/return.jsonl"
    return [json.loads(line)["what"] for line in path.read_text().splitlines()] if path.exists() else []


def killed_after(node: Node, number: int) -> list[str]:
    """What is in its record then."""
    process = node.start(*words())
    try:
        until(lambda: len(lines(node)) >= number or process.poll() is not None, PATIENCE)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    return lines(node)


@pytest.mark.parametrize("number", [6, *(each for each in range(1, LAST) if each != 6)][:KILLS])
def test_a_killed_return_leaves_what_stop_restores_and_the_next_run_goes_on(
    number: int, cloud: Cloud, node: Node
) -> None:
    record = killed_after(node, number)
    if number == 6:  # all is changed, and the first wave was started
        assert (record[:6], changes(cloud)) == (["begin", *["change"] * 4, "start"], ALL)
        assert node.run("return", "status").status == 3
    stopped = node.run("return", "stop", "--id", "admin", timeout=PATIENCE)
    assert (stopped.status, stopped.err, changes(cloud)) == (0, "", NONE)
    ran = node.run(*words(), timeout=PATIENCE)
    assert (ran.status, changes(cloud)) == (0, NONE), ran
    cloud.ceph.wait_healthy()
    status = node.run("return", "status", "-f", "json").data()
    assert (status["state"], status["not_restored"]) in (("done", []), ("killed", []))
    if number == 6:
        report = node.run("drill", "report", status["recording"], "-f", "json").data()
        assert report["incidents"][0]["peering_pg_seconds"] is not None
        assert any("starts osd" in mark["text"] for mark in report["marks"])


def test_a_check_changes_nothing_and_writes_nothing(cloud: Cloud, node: Node) -> None:
    ran = node.run(*words("--check"), timeout=PATIENCE)
    assert (ran.status, changes(cloud), (node.state.directory / "return").exists()) == (2, NONE, False), ran
    assert "makes 9 placement groups active" in ran.out or "placement groups active" in ran.out
    assert cloud.ceph.status()["osdmap"]["num_up_osds"] == 1


@pytest.mark.parametrize("fault", ["an OSD that never comes up", "a monitor gone"][: 2 * FAULTS])
def test_a_fault_holds_with_its_sentence_and_all_is_restored(fault: str, cloud: Cloud, node: Node) -> None:
    data, monitor = cloud.layout.root / "ceph/osd.1", cloud.ceph.daemon("mon.a")
    aside = data.with_name("aside")
    if fault == "an OSD that never comes up":
        data.rename(aside)
    try:
        process = node.start(*words("--start-within", "10s", "--patience", "10s"))
        until(lambda: "start" in lines(node), PATIENCE)
        if fault == "a monitor gone":
            monitor.kill()
        ran = finished(process)
    finally:
        if aside.exists():
            aside.rename(data)
        if not monitor.running:
            monitor.start()
    assert ran.status == 3
    if fault == "a monitor gone":
        assert "holds: Ceph does not answer" in ran.out
        assert "could not be restored" in ran.err
        stopped = node.run("return", "stop", "--id", "admin", timeout=PATIENCE)
        assert (stopped.status, changes(cloud)) == (0, NONE), stopped
    else:
        assert "holds: osd.1 of lab-b (failed (signal)) did not come up within 10 s" in ran.out
        assert changes(cloud) == NONE


@pytest.mark.skipif(not FAULTS, reason="the same commands, by Ansible")
def test_the_playbook_shows_asks_and_starts(cloud: Cloud, node: Node, tmp_path: Path) -> None:
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": {"admin": here}}}))
    fsid = json.loads(cloud.ceph.monitor("status", format="json"))["fsid"]
    environment = Playbooks(tmp_path).environment | node.environment

    def played(*more: str, **variables: object) -> Played:
        usual = {"host": "admin", "plimsoll": node.command(), "client": ["--id", "admin"],
                 "on_host": osdhost.words().split(), "options": ["--flag", "noout", *QUICK]}  # fmt: skip
        own = json.dumps({f"plimsoll_return_{name}": value for name, value in (usual | variables).items()})
        playbook = CHECKOUT / "ansible/playbooks/return.yml"
        return play(["-i", tmp_path / "inventory.yml", *more, "-e", own, playbook],
                    environment, PATIENCE)  # fmt: skip

    assert played("--check", confirm=fsid).ok
    assert "nothing was started" in played(confirm="another").failures["admin"]
    assert cloud.ceph.status()["osdmap"]["num_up_osds"] == 1
    last = played(confirm=fsid)
    assert last.ok, (last.failures, last.said)
    assert (cloud.ceph.status()["osdmap"]["num_up_osds"], changes(cloud)) == (3, NONE)


def finished(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=PATIENCE)
    return Ran(process.returncode, out, err)
