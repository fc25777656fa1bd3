"""The fleet's hosts: what a rollout's tests take for granted of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest, ports
from lab.cloud.command import run
from lab.cloud.fleet import Fleet, cgroup
from lab.cloud.fleetboot import CGROUPS
from lab.cloud.fleethost import CLOCK_BEHIND_SECONDS, GOOD, HOSTS, REAL
from lab.cloud.layout import CHECKOUT, Layout
from lab.cloud.libvirtd import SOCKET_GROUP

pytestmark = pytest.mark.hosts


@pytest.mark.parametrize("host", GOOD, ids=lambda host: host.name)
def test_each_host_runs_a_systemd_that_is_content(fleet: Fleet, host):
    state = fleet.run(host, "cat /proc/1/comm; systemctl is-system-running --wait; hostname", check=False).split()
    failed = fleet.run(host, "systemctl --failed --plain --no-legend; journalctl -p err -n 20", check=False)
    assert state == ["systemd", "running", host.name], failed


def test_a_host_has_nothing_of_this_machines_and_no_plimsoll(fleet: Fleet):
    places = [str(CHECKOUT), sys.prefix, "/opt/plimsoll", "/etc/plimsoll", "/usr/local/bin/*", "/opt/*", "/home/*"]
    assert fleet.run("r1-c2", f"ls -d {' '.join(places)} 2>/dev/null", check=False) == ""
    assert fleet.run("r1-c2", "getent passwd plimsoll", check=False) == ""


def test_units_of_this_machines_packages_do_not_run_in_hosts(fleet: Fleet):
    """Else a daemon that happens to be installed here would make hosts differ from machine to machine."""
    running = fleet.run("r1-c2", "systemctl list-units --type=service --state=running --plain --no-legend")
    assert {line.split()[0] for line in running.splitlines()} == {
        "dbus.service",
        "ssh.service",
        "systemd-journald.service",
    }


def test_ip_address_deny_is_enforced(fleet: Fleet):
    """Hardening that the kernel ignores would be proven by nothing."""
    connect = f"timeout 3 bash -c ': > /dev/tcp/{HOSTS['r1-c3'].address}/22'"
    within = "systemd-run --quiet --wait"
    assert fleet.run("r1-c2", f"{within} {connect} && echo reached").split() == ["reached"]
    assert fleet.run("r1-c2", f"{within} -p IPAddressDeny=any {connect} || echo denied").split() == ["denied"]


def test_a_unit_with_a_proc_of_its_own_sees_the_hosts_boot(fleet: Fleet) -> None:
    """By it plimsoll knows whether the node was started since; a person who runs it must see the same."""
    read = "cat /proc/sys/kernel/random/boot_id"
    ids = fleet.run("r1-c2", f"{read}; systemd-run --quiet --pipe --wait -p ProtectProc=invisible {read}").split()
    assert len(ids) == 2
    assert ids[0] == ids[1]


def test_the_first_host_has_the_clouds_libvirtd_behind_a_group_without_a_name(
    fleet: Fleet, cloud: Cloud, booted: Guest
):
    assert booted.name in fleet.run(REAL, "virsh -c qemu:///system list --name").split()
    assert fleet.run(REAL, "stat -c '%g %G %a' /run/libvirt/libvirt-sock").split() == [
        str(SOCKET_GROUP),
        "UNKNOWN",
        "770",
    ]


def test_a_service_of_the_first_host_is_let_into_libvirt_by_that_group(fleet: Fleet, booted: Guest):
    """As a user that nobody but the host knows."""
    # systemd knows groups by name alone.
    fleet.run(REAL, f"systemd-sysusers --inline 'u lab-service -' 'g lab-libvirt {SOCKET_GROUP}'")
    service = "systemd-run --quiet --pipe --wait -p User=lab-service -p SupplementaryGroups="
    ask = "virsh -c qemu:///system list --name"
    assert booted.name in fleet.run(REAL, f"{service}lab-libvirt {ask}").split()
    assert "Permission denied" in fleet.run(REAL, f"{service} {ask}", check=False)
    fleet.run(REAL, "userdel lab-service && groupdel lab-libvirt")


def test_the_first_host_reaches_the_clouds_monitor(fleet: Fleet, cloud: Cloud):
    key = cloud.ceph.key("client.plimsoll")
    said = fleet.run(REAL, f"ceph --name client.plimsoll --key {key} fsid")
    assert said.strip() == cloud.ceph.status()["fsid"]


def test_other_hosts_have_a_guest_of_libvirts_test_driver(fleet: Fleet):
    for host in GOOD[1:]:
        disks = fleet.run(host, f"virsh -c '{host.libvirt_uri}' domblklist --domain 1")
        assert re.search(r"vda +volumes/volume-", disks)


def test_ansible_reaches_all_of_the_inventory(fleet: Fleet):
    ping = [Path(sys.prefix, "bin/ansible"), "-i", fleet.inventory_file, "-f", "8", "-m", "ping", "plimsoll"]
    done = subprocess.run(ping, capture_output=True, text=True, timeout=60, check=True)
    assert sorted(re.findall(r"^(\S+) \| SUCCESS", done.stdout, re.MULTILINE)) == [host.name for host in GOOD]


def test_a_reset_host_is_fresh(fleet: Fleet):
    fleet.run("r2-c3", "touch /etc/touched && ls /etc/touched")
    fleet.reset(["r2-c3"])
    assert fleet.run("r2-c3", "ls /etc/touched", check=False).strip().endswith("No such file or directory")


def test_hosts_in_trouble_are_in_the_trouble_that_they_are_named_after(fleet: Fleet):
    here = fleet.run("r1-c1", "date +%s")
    fleet.start(["r2-down", "r2-full", "r2-clock", "r2-release"])
    assert "No space left" in fleet.run("r2-full", "echo word > /opt/word", check=False)
    assert int(fleet.run("r2-clock", "date +%s")) == pytest.approx(int(here) - CLOCK_BEHIND_SECONDS, abs=60)
    assert 'VERSION_ID="13"' in fleet.run("r2-release", "cat /etc/os-release; systemctl is-system-running --wait")
    with pytest.raises(Exception, match="r2-down"):
        fleet.run("r2-down", "true", timeout=20)


def test_nothing_is_left_of_a_fleet_whose_maker_was_killed(fleet: Fleet, cloud: Cloud):
    """A second fleet, in a directory and with an offset of its own, whose maker is killed while its hosts boot."""
    root = Path(f"{cloud.layout.root}-second")
    environment = os.environ | {
        "PLIMSOLL_LAB_DIR": str(root),
        "PLIMSOLL_LAB_PORT_OFFSET": str(ports.OFFSET + 1),
        "PLIMSOLL_LAB_CACHE": str(cloud.layout.cache),
    }
    making = subprocess.Popen([sys.executable, "-c", MAKE_HOSTS], env=environment, cwd=CHECKOUT)
    try:
        wait_until(lambda: any(HOST_PROCESSES in line for line in left_of(root)), 30)
    finally:
        making.kill()
        making.wait()
        during = left_of(root)
        down = [sys.executable, "-m", "lab.cloud", "down"]
        subprocess.run(down, env=environment, cwd=CHECKOUT, check=True, timeout=60)
    assert {line.split()[0] for line in during} == {"process", "group", "device", "directory"}
    wait_until(lambda: not left_of(root), 30)  # the kernel removes a link some time after its namespace


MAKE_HOSTS = """
from lab.cloud import Cloud
cloud = Cloud()
with cloud.layout.locked(print):
    cloud.namespace.start()
    (cloud.layout.root / "run/libvirt").mkdir(parents=True)
    cloud.fleet.make()
"""
HOST_PROCESSES = "systemd-nspawn"


def left_of(root: Path) -> list[str]:
    """What there is of the fleet below that directory, wherever on the machine."""
    words = [f"process {line}" for line in run(["ps", "-eo", "args"]).splitlines() if str(root) in line]
    words += [f"group {path}" for path in CGROUPS.glob(f"*/{cgroup(Layout(root, root))}/*")]
    words += [f"mount {line}" for line in Path("/proc/mounts").read_text().splitlines() if str(root) in line]
    words += [f"device {path}" for path in Path("/sys/class/net").glob(f"plimsoll{ports.OFFSET + 1}")]
    return words + ([f"directory {root}"] if root.exists() else [])


def wait_until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.05)
