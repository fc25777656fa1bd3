"""Packages on a host with systemd and no network: from a repository in a folder, by apt and dpkg; what they leave.

Each chapter is a fixture that goes on from the one before; the tests say what must be true after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import packages
from lab.cloud.fleet import Fleet
from plimsoll_agent.store import memory_file
from tests import depth
from tests.lab.packagehost import HOST, SETTINGS, SITE, Host
from tests.lab.rollout import BROKEN

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(1200)]

TIMERS = "plimsoll-enforce.timer plimsoll-catalogue.timer plimsoll-catalogue.path plimsoll-probe.timer"
# As docs/guide/packages.rst has it, with a folder in place of a web server.
SOURCES = """\
Types: deb
URIs: file:/srv/plimsoll/apt
Suites: debian12
Components: main
Signed-By: /srv/plimsoll/plimsoll.asc
"""
UPDATE = "apt-get update -o Dir::Etc::sourcelist=sources.list.d/plimsoll.sources -o Dir::Etc::sourceparts=-"
INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get install --yes --allow-downgrades"
# What a wheelhouse's installer has left: the environment, its units, links and its list of these.
OLD = """\
mkdir -p /opt/plimsoll/versions /opt/plimsoll/wheelhouses/plimsoll-0.1.0-debian12-cp311-x86_64
mkdir -p /usr/local/share/man/man1 /etc/sysusers.d /etc/tmpfiles.d
cd /tmp && dpkg-deb -x /srv/plimsoll/apt/pool/debian12/plimsoll_0.1.0-1+debian12_amd64.deb old
cp old/lib/systemd/system/plimsoll-* old/usr/lib/systemd/system/plimsoll-* /etc/systemd/system/ 2> /dev/null
cp old/usr/lib/sysusers.d/plimsoll.conf /etc/sysusers.d/
cp old/usr/lib/tmpfiles.d/plimsoll.conf /etc/tmpfiles.d/
mv old/opt/plimsoll/0.1.0-1+debian12 /opt/plimsoll/versions/0.1.0
sed -i 1s,0.1.0-1+debian12,versions/0.1.0, /opt/plimsoll/versions/0.1.0/bin/plimsoll
ln -s versions/0.1.0 /opt/plimsoll/current
touch /opt/plimsoll/install /opt/plimsoll/versions/0.1.0.json
ln -s /opt/plimsoll/current/bin/plimsoll /usr/local/bin/plimsoll
ln -s /opt/plimsoll/current/share/man/man1/plimsoll.1 /usr/local/share/man/man1/plimsoll.1
(echo '['; for path in /etc/systemd/system/plimsoll-*.{service,timer,path} /etc/sysusers.d/plimsoll.conf \
    /etc/tmpfiles.d/plimsoll.conf /opt/plimsoll/install /usr/local/bin/plimsoll; do echo " \\"$path\\","; done
echo ' "/usr/local/share/man/man1/plimsoll.1"'; echo ']') > /opt/plimsoll/placed.json
systemd-sysusers && systemd-tmpfiles --create --prefix=/var/lib/plimsoll --prefix=/var/lib/plimsoll-catalogue
systemctl daemon-reload && systemctl enable --now plimsoll-enforce.timer
"""


class AptHost(Host):
    """By apt and dpkg."""

    def install(self, version: str) -> str:
        return self.run(f"{INSTALL} plimsoll={version}-1+debian12")

    @property
    def package(self) -> list[str]:
        """Its state and version, as dpkg has them."""
        return self.run("dpkg-query -W -f '${db:Status-Status} ${Version}' plimsoll").split()

    @property
    def timers(self) -> str:
        return self.run(f"systemctl is-enabled {TIMERS}; systemctl is-active {TIMERS}", check=False)


@pytest.fixture(scope="module")
def host(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AptHost]:
    """With the repository on its disk, and its only source of packages."""
    home = tmp_path_factory.mktemp("repository")
    made = [*packages.debs(), *packages.debs("0.1.1"), *packages.debs("0.1.2", BROKEN)]
    packages.repository(home, made)
    fleet.reset([HOST])
    host = AptHost(fleet)
    host.receive(home)
    host.run("rm -f /etc/apt/sources.list; find /etc/apt/sources.list.d -type f -delete")
    host.run(f"cat > /etc/apt/sources.list.d/plimsoll.sources <<'end'\n{SOURCES}end\n{UPDATE}")
    yield host
    fleet.reset([HOST])


# --- from the installer of before


@pytest.fixture(scope="module")
def replaced(host: AptHost) -> AptHost:
    host.run(f"bash <<'end'\n{OLD}end")
    assert host.run("/usr/local/bin/plimsoll --version").split() == ["plimsoll", "0.1.0"]
    host.run(f"mkdir /etc/plimsoll; echo '{SETTINGS}' > /etc/plimsoll/plimsoll.conf")
    host.run(f"{INSTALL} -o Dpkg::Options::=--force-confold plimsoll=0.1.0-1+debian12")
    return host


def test_a_package_replaces_what_the_installer_of_before_has_left(replaced: AptHost) -> None:
    assert replaced.run("ls /opt/plimsoll").split() == ["0.1.0-1+debian12", "current"]
    left = replaced.run("find /etc/*.d /etc/systemd/system /usr/local/share -name '*plimsoll*' ! -type d").split()
    assert left == ["/etc/systemd/system/timers.target.wants/plimsoll-enforce.timer"]
    assert replaced.run(f"cat {SITE}"), "it is the site's"
    assert replaced.run("/usr/local/bin/plimsoll --version").split() == ["plimsoll", "0.1.0"], "NRPE names it"
    assert replaced.run("cat /etc/plimsoll/plimsoll.conf") == f"{SETTINGS}\n"


def test_a_timer_that_was_enabled_is_enabled_still_with_the_unit_of_the_package(replaced: AptHost) -> None:
    assert replaced.timers.split() == ["enabled", *["disabled"] * 3, "active", *["inactive"] * 3]
    shown = replaced.run("systemctl show -p FragmentPath,NeedDaemonReload plimsoll-enforce.timer").split()
    assert shown == ["FragmentPath=/lib/systemd/system/plimsoll-enforce.timer", "NeedDaemonReload=no"]
    replaced.run("systemctl start plimsoll-enforce.service")


# --- remove, purge, install


@pytest.fixture(scope="module")
def removed(replaced: AptHost) -> str:
    """What apt says while it removes the package."""
    return replaced.run("apt-get remove --yes plimsoll 2>&1")


def test_a_removed_package_stops_its_timers_and_keeps_settings_and_state(removed: str, replaced: AptHost) -> None:
    assert "these limits stay until each guest is restarted" in removed
    assert replaced.run("ls -d /opt/plimsoll /usr/bin/plimsoll /usr/local/bin/plimsoll 2> /dev/null; true") == ""
    assert replaced.run("systemctl list-units --state=active --no-legend 'plimsoll*'") == ""
    assert replaced.run(
        "ls /etc/plimsoll/plimsoll.conf /var/lib/plimsoll/pass.json /var/backups/plimsoll-limits-left.txt"
    )


@pytest.fixture(scope="module")
def installed(removed: str, replaced: AptHost) -> AptHost:
    replaced.run("apt-get purge --yes plimsoll")
    gone = replaced.run(
        "ls -d /etc/plimsoll /var/lib/plimsoll* 2> /dev/null; find /etc/systemd -name 'plimsoll*' -type l"
    )
    assert gone == ""
    assert replaced.run(f"cat {SITE}; cat /var/backups/plimsoll-limits-left.txt")
    replaced.install("0.1.0")
    replaced.run(f"echo '{SETTINGS}' > /etc/plimsoll/plimsoll.conf")
    return replaced


def test_a_fresh_installation_enables_and_starts_nothing(installed: AptHost) -> None:
    assert installed.version == "0.1.0"
    assert installed.timers.split() == ["disabled"] * 4 + ["inactive"] * 4
    assert installed.run("stat -c %U /var/lib/plimsoll").strip() == "plimsoll"


# --- upgrade, downgrade


@pytest.fixture(scope="module")
def upgraded(installed: AptHost) -> AptHost:
    installed.run(
        "systemctl enable --now plimsoll-probe.timer; echo '# a line of ours' >> /etc/plimsoll/plimsoll.conf"
    )
    installed.run("systemctl start plimsoll-enforce.service; md5sum /var/lib/plimsoll/*.json > /root/state")
    installed.install("0.1.1")
    return installed


def test_an_upgrade_keeps_timers_settings_and_state_and_leaves_one_version(upgraded: AptHost) -> None:
    assert upgraded.version == "0.1.1"
    assert upgraded.timers.split()[3::4] == ["enabled", "active"]
    assert "# a line of ours" in upgraded.run("cat /etc/plimsoll/plimsoll.conf")
    upgraded.run("md5sum --quiet -c /root/state")
    assert upgraded.run("ls /opt/plimsoll").split() == ["0.1.1-1+debian12", "current"]


def test_a_downgrade_that_cannot_read_the_state_is_refused_and_another_one_is_made(upgraded: AptHost) -> None:
    newer = json.dumps({"version": memory_file.VERSION + 1})
    upgraded.run(f"cp -p /var/lib/plimsoll/memory.json /root; echo '{newer}' > /var/lib/plimsoll/memory.json")
    said = upgraded.refused(f"{INSTALL} plimsoll=0.1.0-1+debian12")
    assert f"memory.json: has version {memory_file.VERSION + 1}" in said
    assert upgraded.package == ["installed", "0.1.1-1+debian12"]
    assert upgraded.version == "0.1.1"
    upgraded.run("cp -p /root/memory.json /var/lib/plimsoll/")
    upgraded.install("0.1.0")
    assert upgraded.version == "0.1.0"
    upgraded.run("md5sum --quiet -c /root/state")


# --- a kill, a full disk


def test_an_upgrade_killed_at_any_moment_leaves_a_version_that_runs_and_the_next_one_completes_it(
    upgraded: AptHost,
) -> None:
    upgraded.install("0.1.0")
    kills = depth.count(quick=1, landing=3, soak=28)
    for number in range(kills):
        after = 0.2 + 2.5 * number / kills
        there, other = ("0.1.0", "0.1.1") if number % 2 == 0 else ("0.1.1", "0.1.0")
        package = f"/srv/plimsoll/apt/pool/debian12/plimsoll_{other}-1+debian12_amd64.deb"
        # In a process group of its own, with all that it starts.
        killed = f"setsid dpkg -i {package} > /dev/null 2>&1 & sleep {after:.2f}; kill -KILL -- -$!"
        upgraded.run(f"{killed}; wait", check=False)
        assert upgraded.version in (there, other), after
        upgraded.run(f"dpkg --configure -a; {INSTALL} plimsoll={other}-1+debian12")
        assert upgraded.package == ["installed", f"{other}-1+debian12"]
        assert upgraded.run("ls /opt/plimsoll").split() == [f"{other}-1+debian12", "current"]


def test_a_full_disk_stops_an_upgrade_and_the_version_before_runs_on(upgraded: AptHost) -> None:
    upgraded.install("0.1.0")
    upgraded.run(
        "mkdir /root/opt && cp -a /opt/plimsoll /root/opt/ && mount -t tmpfs -o mode=755,size=130m tmpfs /opt"
        " && cp -a /root/opt/plimsoll /opt/"
    )
    assert "No space left on device" in upgraded.refused(f"{INSTALL} plimsoll=0.1.2-1+debian12")
    assert upgraded.version == "0.1.0"
    upgraded.run("systemctl start plimsoll-enforce.service")
    upgraded.run("mount -o remount,size=300m /opt")
    upgraded.install("0.1.2")
    assert upgraded.version == "0.1.2"
    assert upgraded.run("ls /opt/plimsoll").split() == ["0.1.2-1+debian12", "current"]


def test_a_package_that_was_changed_in_the_repository_is_refused(upgraded: AptHost, tmp_path: Path) -> None:
    pool = "/srv/plimsoll/apt/pool/debian12"
    upgraded.run(f"cd {pool} && cp plimsoll_0.1.1-1+debian12_amd64.deb plimsoll_0.1.0-1+debian12_amd64.deb")
    upgraded.run("apt-get clean")
    assert upgraded.refused(f"{INSTALL} plimsoll=0.1.0-1+debian12")
    assert upgraded.version == "0.1.2"
