"""A site: its inventory, its repository, the collection as it is installed, and the playbooks run from there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab import ansiblecore, packages, wheelhouses
from lab.cloud import ports
from lab.cloud.command import run
from lab.cloud.fleet import Fleet
from lab.cloud.layout import CHECKOUT
from tests.lab.playbook import Played, environment, play

BIN = Path(sys.executable).parent
# A rollout to four fresh hosts takes a minute here.
TIMEOUT = 600
# The timer of a node adds at most 30 s, the same for all of its life.
LATEST = 60
# A version with which each pass ends in an error, while its files, units and state are in order. With libvirt's test
# driver, too, there are always disks to decide about.
BROKEN: wheelhouses.Changes = {
    "plimsoll_agent/policy/decide.py": (CHECKOUT / "agent/plimsoll_agent/policy/decide.py").read_bytes()
    + b"\n\ndef decide(*_: object) -> Decision:\n    raise RuntimeError('this version cannot decide')\n"
}


class Site:
    """Nothing of it is the checkout's: the collection was built and installed, as an operator does it."""

    def __init__(self, home: Path, fleet: Fleet, say: Callable[[str], None]) -> None:
        self.fleet = fleet
        self.inventory = home / "inventory/hosts.yml"
        self.limits = home / "limits"
        self._home = home
        self._say = say
        self._repository: Mapping[str, object] = {}
        self.limits.mkdir(parents=True)
        self.environment = environment(home)
        self._install_collection()

    def _install_collection(self) -> None:
        galaxy = BIN / "ansible-galaxy"
        run([galaxy, "collection", "build", CHECKOUT / "ansible", "--output-path", self._home])
        (built,) = self._home.glob("plimsoll-cloud-*.tar.gz")
        where = ["-p", self._home / "collections", "--offline", "--no-deps"]
        subprocess.run(
            [galaxy, "collection", "install", built, *where], env=self.environment, check=True, capture_output=True
        )

    @contextmanager
    def repository(self, later: Mapping[str, wheelhouses.Changes], more: Sequence[Path] = ()) -> Iterator[None]:
        """Of this tree, and of the versions ``later``, which differ from it by those files; hosts have the URL.

        ``more`` are packages for other systems.
        """
        home = self._home / "repository"
        versions: Mapping[str, wheelhouses.Changes] = {wheelhouses.VERSION: {}, **later}
        made = [package for version, changes in versions.items() for package in packages.debs(version, changes)]
        key = packages.repository(home, [*made, *more])
        with packages.served(home, f"{ports.FLEET_NETWORK}.1") as url:
            self._repository = {"plimsoll_repository": url, "plimsoll_repository_key": key}
            yield

    def describe(self, hosts: Sequence[str], real: Mapping[str, object] | None = None, **variables: object) -> None:
        """What the inventory holds from now on; ``real`` is of the host with the real libvirtd."""
        self.fleet.write_inventory(
            self.inventory,
            hosts,
            {"plimsoll_rollout_limit_directory": str(self.limits), **self._repository, **variables},
            real,
        )

    def play(self, playbook: str, *words: str, phase: str, oldest: bool = False, **variables: object) -> Played:
        """One of the collection's, by its name there; says how long it took."""
        environment = self.environment | (ansiblecore.environment() if oldest else {})
        argv = ["-i", self.inventory, *words, "-e", json.dumps(variables), f"plimsoll.cloud.{playbook}"]
        started = time.monotonic()
        played = play(argv, environment, TIMEOUT, cwd=self._home)
        self._say(f"rollout: {phase} in {time.monotonic() - started:.0f} s")
        return played

    # --- how the hosts are

    def versions(self, hosts: Sequence[str]) -> dict[str, str]:
        """What is installed on each, without its build; "none" where nothing is."""
        ask = "basename $(readlink /opt/plimsoll/current || echo none)"
        return {host: self.fleet.run(host, ask).strip().partition("-")[0] for host in hosts}


@contextmanager
def fresh_site(
    home: Path, fleet: Fleet, say: Callable[[str], None], host: str, later: Mapping[str, wheelhouses.Changes]
) -> Iterator[Site]:
    """Of one host, which is fresh before and after it; ``later`` as for its repository."""
    site = Site(home, fleet, say)
    fleet.reset([host])
    with site.repository(later):
        site.describe([host])
        yield site
    fleet.reset([host])


def changes_of(played: Played) -> dict[str, int]:
    """How much Ansible says to have changed on each host."""
    return {host: stats["changed"] for host, stats in played.report["stats"].items() if host != "localhost"}


def text_of(played: Played) -> str:
    """All that a person is told, in one line."""
    return re.sub(r"\s+", " ", " ".join([*map(str, played.said), *map(str, played.failures.values())]))
