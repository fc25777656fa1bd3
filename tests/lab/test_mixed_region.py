"""A region while its nodes move from Debian 12 to 13: one rollout for both, and two versions side by side.

Packages for Debian 13 are built on a bare one, as the README has it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import wheelhouses
from lab.cloud import Cloud, fleetrelease
from lab.cloud.fleet import Fleet
from lab.cloud.layout import CHECKOUT
from tests.depth import DEPTH, Depth
from tests.lab.playbook import Played
from tests.lab.rollout import Site, text_of
from tests.lab.test_newcomer import commands, ended_well, machine
from tests.lab.test_rollout import SETTINGS

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(DEPTH is not Depth.SOAK, reason="takes ten minutes, most of them to build for Debian 13"),
]

CANARY, OLD, NEW = "r2-c1", "r2-c2", "r2-release"
NAMES = [CANARY, OLD, NEW]
OTHER = "0.1.1"
# Batches: the canary, then the others.
IN_TWO = {"plimsoll_rollout_fraction": 100}
# Of Debian: the package for nodes depends on the first, the roles ask for the second, and Ansible for the last.
NEEDED = "libvirt0 acl python3-apt"


def build(cache: Path, packages: Path, needed: Path) -> None:
    """Debs for Debian 13 of this tree's version and the other one, and of Debian what its host lacks."""
    install, *_ = commands((CHECKOUT / "README.md").read_text(), "Install it on a node")
    with machine("builder", "trixie") as builder:
        shutil.copyfile(fleetrelease.tree(cache) / "var/lib/dpkg/status", builder.root / "root/status")
        at_host = "-o Dir::State::status=/root/status -o Dir::Cache::archives=/srv/needed"
        package = "script/package deb --extras '' --output /srv/packages"
        ended_well(
            builder,
            "mkdir -p /srv/needed/partial",
            "apt-get update",
            f"apt-get install --no-install-recommends --download-only {at_host} {NEEDED}",
            install,
            "script/wheelhouse",
            f"{package} dist/*.tar.gz",
        )
        (tarball,) = (builder.clone / "dist").glob("*.tar.gz")
        house = wheelhouses.revise(wheelhouses.unpack(tarball, builder.root / "srv/houses"), OTHER, None, ())
        ended_well(builder, f"{package} /srv/houses/{house.name}")
        shutil.copytree(builder.root / "srv/packages", packages)
        shutil.copytree(builder.root / "srv/needed", needed)


@pytest.fixture(scope="module")
def site(fleet: Fleet, cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("mixed")
    packages, needed = home / "packages", home / "needed"
    build(cloud.layout.cache, packages, needed)
    fleet.reset(NAMES)
    with subprocess.Popen(["tar", "-C", str(needed), "-cf", "-", "."], stdout=subprocess.PIPE) as packed:
        words = [*fleet.ssh(NEW), "mkdir /srv/needed && tar -C /srv/needed -xf -"]
        subprocess.run(words, stdin=packed.stdout, check=True, timeout=60)
    fleet.run(NEW, "DEBIAN_FRONTEND=noninteractive dpkg --install /srv/needed/*.deb", timeout=300)
    site = Site(home, fleet, cloud.say)
    with site.repository({OTHER: {}}, sorted(packages.glob("*.deb"))):
        site.describe(NAMES, **SETTINGS)
        yield site
    fleet.reset(NAMES)


def told(site: Site, played: Played) -> dict[str, str]:
    """Which version each host has; of a play that ended well."""
    assert played.ok, text_of(played)
    return site.versions(NAMES)


@pytest.fixture(scope="module")
def rolled_out(site: Site) -> dict[str, str]:
    return told(site, site.play("rollout", phase="rollout to Debian 12 and 13", **IN_TWO))


def test_a_rollout_brings_each_host_the_package_of_its_system(rolled_out: dict[str, str], fleet: Fleet) -> None:
    assert rolled_out == dict.fromkeys(NAMES, "0.1.0")
    has = {name: fleet.run(name, "dpkg-query --show --showformat '${Version}' plimsoll") for name in NAMES}
    assert {name: version.partition("+")[2] for name, version in has.items()} == {
        CANARY: "debian12",
        OLD: "debian12",
        NEW: "debian13",
    }


@pytest.fixture(scope="module")
def begun(rolled_out: dict[str, str], site: Site) -> dict[str, str]:
    """An upgrade that has come no further than its canary."""
    site.describe(NAMES, **SETTINGS, plimsoll_version=OTHER)
    return told(site, site.play("rollout", f"--limit={CANARY}", phase="upgrade of a canary"))


def test_hosts_with_two_versions_are_well_side_by_side(begun: dict[str, str], site: Site) -> None:
    assert begun == dict.fromkeys(NAMES, "0.1.0") | {CANARY: OTHER}
    played = site.play("status", phase="status of both versions")
    assert played.ok, text_of(played)
    for name, version in begun.items():
        (line,) = [line for line in played.said if line.startswith(f"{name}: ")]
        assert re.match(rf"{name}: (OK|WARNING) .* by plimsoll {re.escape(version)}, mode enforce", line), line


def test_an_upgrade_reaches_hosts_of_both_systems(begun: dict[str, str], site: Site) -> None:
    assert told(site, site.play("rollout", phase="upgrade of all", **IN_TWO)) == dict.fromkeys(NAMES, OTHER)
