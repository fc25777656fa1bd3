"""The playbook of a rehearsal, on the lab's Ceph: one goes as planned, one exceeds its bound, one is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.ceph import ALWAYS_RAISED
from lab.cloud.layout import CHECKOUT
from lab.cloud.release import program
from lab.node import Node
from lab.waiting import until
from plimsoll_insight.drill.recording import read
from tests.depth import DEPTH, Depth
from tests.lab.playbook import Playbooks, Played, play
from tests.lab.test_drill import PATIENCE, loaded, osds_up

__all__ = ["loaded"]
pytestmark = [pytest.mark.hurt, pytest.mark.timeout(600)]

PLAYBOOK = CHECKOUT / "ansible/playbooks/rehearsal.yml"
LONGEST = 500
HOST = "lab-a"
"""As it is called in the CRUSH tree."""
RULES = "rules: [{{name: canary, match: {{guest: {guest}, kind: volume}}, probe: {{every: 1d}}}}]\n"
# The lab's OSDs are no units: these are its commands for what systemctl does elsewhere.
OSDS = """
import sys
sys.path.insert(0, {checkout!r})
from lab.cloud import Cloud
cloud = Cloud(say=lambda _: None)
for name in sys.argv[2:]:
    osd = cloud.ceph.daemon(name)
    osd.stop() if sys.argv[1] == "stop" else osd.heal()
"""


@pytest.fixture
def argv(cloud: Cloud, loaded: Guest, tmp_path: Path) -> Callable[..., list[str | Path]]:
    """Of ansible-playbook, with words and variables of a test's own."""
    cloud.ceph.wait_healthy(PATIENCE)
    node = Node(tmp_path, cloud, RULES.format(guest=loaded.uuid), mode="observe")
    node.use_probes()
    assert node.run("enforce").status == 0  # its gate wants a pass
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = tmp_path / "inventory.yml"
    nodes = {"node-1": here, "node-2": here}
    inventory.write_text(json.dumps({"plimsoll": {"hosts": nodes}, "osds": {"hosts": {HOST: here}}}))
    (tmp_path / "osds.py").write_text(OSDS.format(checkout=str(CHECKOUT)))
    osds = [sys.executable, str(tmp_path / "osds.py")]
    usual = {
        "host": HOST, "confirm": HOST, "unit": "osd.{osd}", "stop": [*osds, "stop"], "start": [*osds, "start"],
        "ceph": program(["ceph", "-c", cloud.ceph.conf], cloud.layout.cache),
        "client": ["--ceph-conf", str(cloud.ceph.conf), "--id", "admin"],
        "guests": [loaded.uuid], "plimsoll": node.command(), "report": node.command(),
        "tolerated": [*ALWAYS_RAISED], "calm": 10, "directory": str(tmp_path),
    }  # fmt: skip

    def made(*words: str, **variables: object) -> list[str | Path]:
        told = {f"plimsoll_rehearsal_{name}": value for name, value in (usual | variables).items()}
        return ["-i", inventory, *words, "-e", json.dumps(told), PLAYBOOK]

    return made


@pytest.fixture
def rehearse(cloud: Cloud, argv: Callable[..., list[str | Path]], tmp_path: Path) -> Callable[..., Played]:
    its_environment = Playbooks(tmp_path).environment

    def rehearsed(*words: str, **variables: object) -> Played:
        try:
            return play(argv(*words, **variables), its_environment, LONGEST)
        finally:
            cloud.ceph.heal()

    return rehearsed


def kept(home: Path) -> Path:
    [found] = home.glob("rehearsal-*")
    return found


def flags(cloud: Cloud) -> str:
    return str(json.loads(cloud.ceph.run("osd", "dump", "-f", "json"))["flags"])


@pytest.mark.skipif(DEPTH is not Depth.SOAK, reason="takes three minutes; the next one goes the same way")
def test_a_rehearsal_stops_the_osds_brings_them_back_and_reports(
    rehearse: Callable[..., Played], cloud: Cloud, loaded: Guest, tmp_path: Path
) -> None:
    played = rehearse("--limit=node-1", away=12, probes=[loaded.uuid])
    assert played.ok, (played.failures, played.said)
    assert any(line.startswith(HOST) for line in played.said), "the forecast was shown"
    phases = [line.split()[0] for line in played.said if " s  " in line and line[0].islower()]
    assert {"normal", "return"} <= set(phases)
    assert "noout" not in flags(cloud)
    files = {each.name for each in kept(tmp_path).iterdir()}
    assert files == {"node-1-1.drill", "report.html", "forecast.json"}
    probed = read(kept(tmp_path) / "node-1-1.drill").probed
    assert len(probed) > 3
    assert max(job.slowest for job in probed) > 1e9, "a request waited in the outage"
    assert loaded.exec(["sh", "-c", "ls -A /mnt/volume | grep plimsoll-probe"], timeout=PATIENCE).exit_code == 1
    marks = [line for line in (kept(tmp_path) / "node-1-1.drill").read_text().splitlines() if '"mark"' in line]
    assert [json.loads(line)["mark"].split()[0] for line in marks] == ["stop", "start"]


def test_a_rehearsal_that_stalls_guests_for_too_long_ends_by_itself(
    rehearse: Callable[..., Played], cloud: Cloud, tmp_path: Path
) -> None:
    """Without two of three OSDs placement groups are inactive: no guest would ever be served again."""
    played = rehearse(osds=[0, 1], away=200, stalled=15)
    failure = played.failures["node-1"]
    assert "vdb has completed no request for" in failure
    assert "The OSDs were started, and noout is unset" in failure
    assert "noout" not in flags(cloud)
    assert "peering that takes" in " ".join(" ".join(played.said).split()), "the forecast has what OSDs counted"
    looks = sum(task == "Let hosts know that it goes on" for task, _, _ in played.results)
    assert looks < 200 / 5, "it did not wait until its time was over"
    # The return is recorded, too.
    recordings = {f"{node}-{part}.drill" for node in ("node-1", "node-2") for part in (1, 2)}
    assert {each.name for each in kept(tmp_path).glob("*.drill")} == recordings
    assert any(line.startswith("recovered") and "after the return" in line for line in played.said), played.said


@pytest.mark.skipif(DEPTH is not Depth.SOAK, reason="takes two minutes, one of them until hosts miss the playbook")
def test_a_rehearsal_whose_playbook_is_killed_is_undone_by_the_hosts(
    cloud: Cloud, argv: Callable[..., list[str | Path]], tmp_path: Path
) -> None:
    words = [Path(sys.executable).with_name("ansible-playbook"), *argv("--limit=node-1", away=400, stalled=300)]
    its_environment = Playbooks(tmp_path).environment | {"TMPDIR": str(tmp_path)}
    with (tmp_path / "said").open("wb") as said:
        playbook = subprocess.Popen(words, env=its_environment, stdout=said, stderr=said, start_new_session=True)
    try:
        until(lambda: playbook.poll() is not None or osds_up(cloud) < 3, 2 * PATIENCE)
        assert playbook.poll() is None, (tmp_path / "said").read_text()
        assert "noout" in flags(cloud)
        os.killpg(playbook.pid, signal.SIGKILL)
        until(lambda: osds_up(cloud) == 3 and "noout" not in flags(cloud), PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(playbook.pid, signal.SIGKILL)
        playbook.wait()
        for file in tmp_path.glob("*.rehearsal/*.pid"):  # a recording goes on for its time
            os.kill(int(file.read_text()), signal.SIGINT)
        cloud.ceph.heal()


def test_a_rehearsal_of_a_cluster_in_trouble_does_not_begin(rehearse: Callable[..., Played], cloud: Cloud) -> None:
    cloud.ceph.run("osd", "set", "noscrub")
    try:
        played = rehearse("--check", "--limit=node-1")
    finally:
        cloud.ceph.run("osd", "unset", "noscrub")
    [failure] = played.failures.values()
    assert failure.startswith("the cluster must be well first: OSDMAP_FLAGS;")
    assert not any(task == "Stop the OSDs" for task, _, _ in played.results)
