"""Guests, clusters and programs that break before and under a probe: the right word in time, and no trace."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.command import LabError
from lab.looking import put
from lab.node import Node, Ran
from lab.waiting import until
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from plimsoll_probes.output.serialize import result_data
from plimsoll_probes.store.history import History
from tests.lab.test_probes import left_in

pytestmark = pytest.mark.hurt

OSDS = ("osd.0", "osd.1", "osd.2")
AGENT = "qemu-guest-agent"
SECONDS, GRACE = 6, 10
LONG = 20
"""Of a run that something is to happen in: on a busy machine a guest begins, or does it, seconds later."""
# Beside a run's time: to begin and to end in an emulated guest on a shared machine.
SLACK = 60
# Two emulated guests boot for half a minute alone on the machine, for a minute and more beside other tests.
BOOTED = 120


@pytest.fixture(autouse=True)
def _whole_again(cloud: Cloud, booted: Guest) -> Iterator[None]:
    yield
    cloud.up(("ceph", "libvirt"))  # waits until Ceph is well, if it had to heal any of it
    booted.wait_for_agent(60)
    mount(booted)
    hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=1)  # the test's own may know a libvirtd that is gone
    put(hypervisor, booted.uuid, "vdb", Limits())
    hypervisor.close()
    assert left_in(booted) == ""


@dataclass
class Probes:
    """``probe run`` on a node that is to probe these guests, which are held to 100 requests a second."""

    node: Node
    hypervisor: Libvirt
    begun: list[subprocess.Popen[str]] = field(default_factory=list)

    def of(self, *guests: Guest, **settings: object) -> None:
        uuids = ", ".join(guest.uuid for guest in guests)
        self.node.write_rules(
            f"rules:\n  - name: canaries\n    match: {{guest: [{uuids}], kind: volume}}\n"
            "    limits: {total_iops_sec: 100}\n    probe: {every: 5m, jobs: read}\n"
        )
        settings = {"seconds": SECONDS, "grace": GRACE, "file_size": 2**24, "at_once": 2} | settings
        self.node.use_probes(**settings)
        enforced = self.node.run("enforce", *(word for guest in guests for word in ("--guest", guest.uuid)))
        assert enforced.status == 0, enforced.out + enforced.err

    def begin(self, *words: str) -> subprocess.Popen[str]:
        process = self.node.start("probe", "run", "-f", "json", *words)
        self.begun.append(process)
        return process

    def begin_reading(self, *guests: Guest) -> subprocess.Popen[str]:
        """Returns in mid-probe: when fio reads in each of these guests."""
        counts = [(guest, self._reads(guest)) for guest in guests]
        process = self.begin()
        end = time.monotonic() + 60
        while any(self._reads(guest) < count + 50 for guest, count in counts):
            assert process.poll() is None, "".join(process.communicate())
            assert time.monotonic() < end, "no probe begins to read"
            time.sleep(0.2)
        return process

    def _reads(self, guest: Guest) -> int:
        while (told := self.hypervisor.block_stats(guest.uuid, ["vdb"]).get("vdb")) is None:
            time.sleep(0.05)  # busy with another's question
        return told.read_requests

    def run(self, *words: str) -> Ran:
        return ended(self.begin(*words))

    @property
    def history(self) -> History:
        return History(self.node.state.probes)


@pytest.fixture
def probes(tmp_path: Path, cloud: Cloud, hypervisor: Libvirt, _whole_again: None) -> Iterator[Probes]:
    probes = Probes(Node(tmp_path, cloud), hypervisor)
    yield probes
    for process in probes.begun:  # of a test that failed
        if process.poll() is None:
            process.terminate()
            process.communicate()


def ended(process: subprocess.Popen[str], seconds: float = SECONDS + GRACE + SLACK) -> Ran:
    """Within its deadline, or the test fails."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert "Traceback" not in err, err
    return Ran(process.returncode, out, err)


def results_of(ran: Ran, *guests: Guest) -> list[dict[str, Any]]:
    """The one result of each guest."""
    told = ran.data()
    assert told["postponed"] == [], ran.out + ran.err
    found = {result["guest_uuid"]: result for result in told["results"]}
    assert len(found) == len(told["results"]) == len(guests), ran.out + ran.err
    return [found[guest.uuid] for guest in guests]


def verdict(result: dict[str, Any]) -> tuple[str, str]:
    return result["verdict"], result["why"]


KEPT = ("kept", "within")


# --- before it begins


@contextmanager
def no_fio(guest: Guest) -> Iterator[None]:
    assert guest.exec(["mv", "/usr/bin/fio", "/usr/bin/away"]).exit_code == 0
    yield
    assert guest.exec(["mv", "/usr/bin/away", "/usr/bin/fio"]).exit_code == 0


def instead_of_the_agent(guest: Guest, command: str) -> Callable[[], None]:
    """Stop it, do this, and start it again after all; returns what waits for that."""
    script = f"sleep 0.3; systemctl stop {AGENT}; {command}; systemctl start {AGENT}"
    assert guest.exec(["systemd-run", "--collect", "sh", "-c", script]).exit_code == 0
    return lambda: until(lambda: runs_programs(guest))


def runs_programs(guest: Guest) -> bool | None:
    """Whether its agent does; None where no agent answers."""
    try:
        commands = guest.agent("guest-info", timeout=1)["supported_commands"]
    except LabError:
        return None
    return any(each["name"] == "guest-exec" and each["enabled"] for each in commands)


@contextmanager
def no_agent(guest: Guest) -> Iterator[None]:
    wait = instead_of_the_agent(guest, "sleep 6")
    until(lambda: runs_programs(guest) is None)
    yield
    wait()


@contextmanager
def guest_exec_forbidden(guest: Guest) -> Iterator[None]:
    """By another agent, until that writes a file."""
    agent = "timeout 300 qemu-ga --block-rpcs=guest-exec & until test -e /run/over; do sleep 0.2; done; rm /run/over"
    wait = instead_of_the_agent(guest, f"{agent}; kill $!; wait")
    until(lambda: runs_programs(guest) is False)
    yield
    guest.agent("guest-file-close", {"handle": guest.agent("guest-file-open", {"path": "/run/over", "mode": "w"})})
    wait()


@contextmanager
def frozen(guest: Guest) -> Iterator[None]:
    assert guest.agent("guest-fsfreeze-freeze-list", {"mountpoints": ["/mnt/volume"]}) == 1
    try:
        yield
    finally:
        guest.agent("guest-fsfreeze-thaw")


@contextmanager
def full(guest: Guest) -> Iterator[None]:
    fill = "cd /mnt/volume && fallocate -l $(($(stat -f -c '%a * %S' .) - 8388608)) big"
    done = guest.exec(["sh", "-c", fill])
    assert done.exit_code == 0, done.err
    yield
    guest.exec(["rm", "/mnt/volume/big"])


@pytest.mark.parametrize(
    ("hurt", "found", "status"),
    [
        (no_fio, ("failed", "no-fio"), 1),
        (no_agent, ("failed", "agent-timed-out"), 1),
        (guest_exec_forbidden, ("failed", "exec-forbidden"), 1),
        (full, ("failed", "no-space"), 1),
        (frozen, ("inconclusive", "frozen"), 3),
    ],
)
def test_a_guest_that_cannot_be_probed_is_told_why(
    probes: Probes, booted: Guest, hurt: Callable[[Guest], Any], found: tuple[str, str], status: int
) -> None:
    probes.of(booted)
    with hurt(booted):
        ran = ended(probes.begin(), 12)
    (result,) = results_of(ran, booted)
    assert verdict(result) == found
    assert ran.status == status
    assert result["measured"] is None
    assert [result_data(kept) for kept in probes.history.runs()] == [result]


# --- in mid-probe


def test_a_guest_that_is_frozen_in_mid_probe_is_discarded_and_another_is_undisturbed(
    probes: Probes, booted: Guest, other: Guest
) -> None:
    probes.of(booted, other)
    process = probes.begin_reading(booted, other)
    with frozen(other):
        time.sleep(2)
    ran = ended(process)
    ours, frozen_one = results_of(ran, booted, other)
    assert verdict(frozen_one) == ("inconclusive", "frozen")
    assert frozen_one["circumstances"]["frozen"] is True
    assert verdict(ours) == KEPT, ours
    assert ran.status == 3
    assert left_in(other) == ""


def test_guests_that_are_reset_and_rebooted_in_mid_probe_are_told_so_and_swept_by_the_next(
    probes: Probes, booted: Guest, other: Guest
) -> None:
    probes.of(booted, other, grace=BOOTED, seconds=LONG)
    process = probes.begin_reading(booted, other)
    other.domain().reset(0)
    with suppress(LabError):  # whether it is done at once or not yet, the agent may not live to tell
        booted.exec(["systemctl", "--no-block", "reboot"])
    ran = ended(process, LONG + BOOTED + SLACK)
    for result in results_of(ran, booted, other):
        assert verdict(result) == ("failed", "rebooted"), result
        assert result["measured"] is None
    assert ran.status == 1
    for guest in (booted, other):
        guest.wait_for_agent(120)
        mount(guest)
    assert ".plimsoll-probe-" in left_in(other), "there was nobody who could have removed it"
    probes.of(booted, other, grace=BOOTED)
    for result in results_of(probes.run(), booted, other):
        assert verdict(result) == KEPT, result
    assert left_in(other) == ""


def mount(guest: Guest) -> None:
    if guest.exec(["mountpoint", "-q", "/mnt/volume"]).exit_code:
        done = guest.exec(["mount", "-o", "noatime", "/dev/vdb", "/mnt/volume"])
        assert done.exit_code == 0, done.err


def test_a_guest_that_is_destroyed_in_mid_probe_has_vanished_and_another_is_undisturbed(
    probes: Probes, booted: Guest, other: Guest
) -> None:
    probes.of(booted, other, seconds=LONG)
    process = probes.begin_reading(booted, other)
    other.domain().destroy()
    ran = ended(process, LONG + GRACE + SLACK)
    ours, destroyed = results_of(ran, booted, other)
    assert verdict(destroyed) == ("failed", "not-found")
    assert verdict(ours) == KEPT, ours
    assert ran.status == 3


# --- the cluster


@contextmanager
def stopped(cloud: Cloud, *names: str) -> Iterator[None]:
    for name in names:
        cloud.ceph.daemon(name).stop()
    try:
        yield
    finally:
        for name in names:
            cloud.ceph.daemon(name).cont()
        cloud.ceph.wait_healthy(120)


def test_an_osd_that_stops_is_counted_and_nothing_more_is_probed_until_it_is_back(
    probes: Probes, booted: Guest, cloud: Cloud, tmp_path: Path
) -> None:
    (tmp_path / "fresh").mkdir()
    fresh = Probes(Node(tmp_path / "fresh", cloud), probes.hypervisor)
    # 16 objects: a file of 4 may have none for which one OSD is the primary.
    probes.of(booted, file_size=2**26)
    process = probes.begin_reading(booted)
    with stopped(cloud, cloud.ceph.busiest_osd("volumes")):
        ran = ended(process)
        (result,) = results_of(ran, booted)
        assert result["verdict"] in ("short", "slow"), result
        assert result["measured"]["read"]["latency"]["max"] > 2, "the stall"
        assert ran.status == 3

        while "OSD_DOWN" not in cloud.ceph.status()["health"]["checks"]:
            time.sleep(0.5)
        fresh.of(booted)
        for each, words in ((probes, []), (fresh, ["--due"])):  # the one was probed just now, and is not due
            waits = each.run(*words)
            told = waits.data()
            assert (waits.status, told["results"]) == (3, []), words
            assert [one["why"] for one in told["postponed"]] == ["unhealthy"]
            assert "OSD_DOWN" in told["postponed"][0]["facts"]["detail"]
            assert [one.why for one in each.history.postponed()] == ["unhealthy"]
        (anyway,) = results_of(probes.run("--ignore-health"), booted)
        assert "OSD_DOWN" in anyway["circumstances"]["health_before"]["raised"]


def test_requests_that_never_end_are_counted_and_nothing_hangs_with_them(
    probes: Probes, booted: Guest, cloud: Cloud
) -> None:
    probes.of(booted, grace=5)
    process = probes.begin_reading(booted)
    with stopped(cloud, *OSDS):
        ran = ended(process)
    (result,) = results_of(ran, booted)
    assert verdict(result) == ("failed", "unfinished")
    assert result["facts"]["unfinished"] > 0
    assert ran.status == 1
    # What hung removes itself once it does not hang any more.
    end = time.monotonic() + 60
    while left_in(booted):
        assert time.monotonic() < end
        time.sleep(1)


# --- plimsoll and libvirt


def test_what_a_killed_plimsoll_left_is_ended_and_removed_by_the_next(probes: Probes, booted: Guest) -> None:
    probes.of(booted, seconds=30)
    process = probes.begin_reading(booted)
    process.kill()
    process.communicate()
    left = left_in(booted)
    assert ".plimsoll-probe-" in left
    assert "fio" in left.splitlines()
    assert probes.history.runs() == []
    probes.of(booted)
    ran = probes.run()
    (result,) = results_of(ran, booted)
    assert verdict(result) == KEPT, result


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_end_it_cleans_at_once_and_keeps_nothing(
    probes: Probes, booted: Guest, number: signal.Signals
) -> None:
    probes.of(booted, seconds=30)
    process = probes.begin_reading(booted)
    began = time.monotonic()
    second = probes.run()
    assert (second.status, second.out) == (75, "")
    assert "another plimsoll probe run is active on this node" in second.err
    enforced = probes.node.run("enforce", "--guest", booted.uuid, timeout=20)
    assert enforced.status == 0, enforced.out + enforced.err
    assert time.monotonic() - began < 10, "neither waits for the probe"
    os.kill(process.pid, number)
    ran = ended(process, 10)
    assert ran.status == 1
    assert ran.data() == {"results": [], "postponed": [], "nothing": None}
    assert f"{number.name}: stopping the running probes and removing their files" in ran.err
    assert left_in(booted) == ""
    assert probes.history.runs() == []


def test_a_libvirtd_that_is_started_again_costs_no_probe(probes: Probes, booted: Guest, cloud: Cloud) -> None:
    probes.of(booted)
    process = probes.begin_reading(booted)
    cloud.libvirtd.kill()
    cloud.libvirtd.start()
    (result,) = results_of(ended(process), booted)
    assert verdict(result) == KEPT, result
