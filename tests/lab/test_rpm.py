"""The rpm by dnf, from a signed repository in a folder, on a host with systemd.

The host is Debian: an rpm of this test stands for what EL's packages provide. So dnf, rpm, scripts, payload are real,
and names and versions of EL's packages are not tested.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import packages
from lab.cloud.fleet import Fleet
from plimsoll_agent.store import memory_file
from tests.depth import DEPTH, Depth
from tests.lab.packagehost import HOST, SETTINGS, Host

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not shutil.which("dnf"), reason="of 40 more packages of Debian"),
    pytest.mark.skipif(DEPTH is not Depth.SOAK, reason="takes two minutes"),
]

UNITS = "plimsoll-enforce.timer plimsoll-catalogue.timer plimsoll-probe.timer plimsoll-daemon.service"
# As EL has it: Debian's dnf leaves out a repository with a fault.
DNF = "dnf --assumeyes --setopt=skip_if_unavailable=False"
# As docs/guide/packages.rst has it, with a folder in place of a web server.
REPOSITORY = """\
[plimsoll]
name=plimsoll
baseurl=file:///srv/plimsoll/dnf/debian12/$basearch
gpgcheck=1
repo_gpgcheck=1
gpgkey=file:///srv/plimsoll/plimsoll.asc
"""


def stand_in(rpm: Path, home: Path) -> Path:
    """An rpm that provides what this one requires of the system."""
    asked = ["rpm", "--query", "--requires", "--package", str(rpm)]
    lines = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    provided = sorted(
        {line.replace(">=", "=") for line in lines if not line.startswith("rpmlib(") and "plimsoll" not in line}
    )
    text = "Name: stand-in\nVersion: 1\nRelease: 1\nSummary: EL\nLicense: none\nBuildArch: noarch\n"
    text += "".join(f"Provides: {need}\n" for need in provided) + "%description\nEL\n%files\n"
    (home / "stand-in.spec").write_text(text)
    subprocess.run(
        ["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {home}", str(home / "stand-in.spec")], check=True
    )
    return next(home.glob("RPMS/noarch/*.rpm"))


@pytest.fixture(scope="module")
def host(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    home = tmp_path_factory.mktemp("repository")
    made = [rpm for version in ("0.1.0", "0.1.1") for rpm in packages.rpms(version) if "region" not in rpm.name]
    made = [rpm for rpm in made if "openstack" not in rpm.name]
    packages.repository(home, made)
    shutil.copy(stand_in(made[0], tmp_path_factory.mktemp("stand-in")), home / "stand-in.rpm")
    fleet.reset([HOST])
    host = Host(fleet)
    host.receive(home)
    host.run(f"mkdir -p /etc/yum.repos.d && cat > /etc/yum.repos.d/plimsoll.repo <<'end'\n{REPOSITORY}end")
    host.run("rpm --install /srv/plimsoll/stand-in.rpm")
    yield host
    fleet.reset([HOST])


@pytest.fixture(scope="module")
def installed(host: Host) -> Host:
    host.run(f"{DNF} install plimsoll-0.1.0")
    return host


def test_dnf_installs_it_and_nothing_is_enabled(installed: Host) -> None:
    assert installed.version == "0.1.0"
    assert installed.run(f"systemctl is-enabled {UNITS}", check=False).split() == ["disabled"] * 4
    assert installed.run("rpm --verify plimsoll") == ""
    installed.run(f"echo '{SETTINGS}' > /etc/plimsoll/plimsoll.conf")
    installed.run("systemctl enable --now plimsoll-enforce.timer && systemctl start plimsoll-enforce.service")


@pytest.fixture(scope="module")
def upgraded(installed: Host) -> Host:
    installed.run(f"{DNF} upgrade plimsoll")
    return installed


def test_an_upgrade_keeps_settings_and_timers_and_leaves_one_version(upgraded: Host) -> None:
    assert upgraded.version == "0.1.1"
    assert upgraded.run("cat /etc/plimsoll/plimsoll.conf") == f"{SETTINGS}\n"
    assert upgraded.run("systemctl is-enabled plimsoll-enforce.timer").strip() == "enabled"
    assert upgraded.run("ls /opt/plimsoll").split() == ["0.1.1-1+debian12", "current"]


def test_a_downgrade_that_cannot_read_the_state_is_refused_and_dnfs_undo_makes_another_one(
    upgraded: Host,
) -> None:
    newer = json.dumps({"version": memory_file.VERSION + 1})
    upgraded.run(f"cp -p /var/lib/plimsoll/memory.json /root; echo '{newer}' > /var/lib/plimsoll/memory.json")
    assert f"has version {memory_file.VERSION + 1}" in upgraded.refused(f"{DNF} downgrade plimsoll-0.1.0")
    assert upgraded.version == "0.1.1"
    upgraded.run("cp -p /root/memory.json /var/lib/plimsoll/")
    upgraded.run(f"{DNF} downgrade plimsoll-0.1.0")
    assert upgraded.version == "0.1.0"
    upgraded.run(f"{DNF} history undo last")
    assert upgraded.version == "0.1.1"


def test_an_index_that_was_changed_is_refused(upgraded: Host) -> None:
    index = "/srv/plimsoll/dnf/debian12/x86_64/repodata/repomd.xml"
    upgraded.run(f"cp {index} /root && echo '<!-- -->' >> {index}")
    assert "GPG" in upgraded.refused(f"{DNF} --refresh reinstall plimsoll").upper()
    upgraded.run(f"cp /root/repomd.xml {index}")


def test_a_removal_stops_timers_lists_limits_and_keeps_settings_and_state(upgraded: Host) -> None:
    assert "these limits stay" in upgraded.run(f"{DNF} remove plimsoll 2>&1")
    assert upgraded.run("ls -d /opt/plimsoll /usr/bin/plimsoll 2> /dev/null", check=False) == ""
    assert upgraded.run("systemctl list-units --state=active --no-legend 'plimsoll*'") == ""
    assert upgraded.run("cat /etc/plimsoll/plimsoll.conf*") == f"{SETTINGS}\n"
    upgraded.run("ls /var/lib/plimsoll/memory.json /var/backups/plimsoll-limits-left.txt")
