"""A site: its inventory, its wheelhouses, the collection as it is installed, and the playbooks run from there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests import wheelhouses
from tests.lab.cloud.command import run
from tests.lab.cloud.fleet import Fleet
from tests.lab.cloud.layout import CHECKOUT
from tests.lab.playbook import Played, environment, play

BIN = Path(sys.executable).parent
# A rollout to four fresh hosts takes a minute here.
TIMEOUT = 600
# The timer of a node adds at most 30 s, the same for all of its life.
LATEST = 60


class Site:
    """Nothing of it is the checkout's: the collection was built and installed, as an operator does it."""

    def __init__(self, home: Path, fleet: Fleet, say: Callable[[str], None]) -> None:
        self.fleet = fleet
        self.inventory = home / "inventory/hosts.yml"
        self.limits = home / "limits"
        self._home = home
        self._say = say
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

    def make_wheelhouses(self, later: dict[str, dict[str, bytes | None]]) -> None:
        """Of this tree, and of the versions ``later``, which differ from it by those files."""
        home = self.inventory.parent / "wheelhouses"
        home.mkdir(parents=True)
        this = wheelhouses.built()
        # With no extra, as none is asked for: what is left out is three quarters of what each host is brought.
        for version, changes in {wheelhouses.VERSION: {}, **later}.items():
            wheelhouses.another(this, version, home, changes, extras=())

    def describe(self, hosts: Sequence[str], real: Mapping[str, object] | None = None, **variables: object) -> None:
        """What the inventory holds from now on; ``real`` is of the host with the real libvirtd."""
        self.fleet.write_inventory(
            self.inventory, hosts, {"rollout_limit_directory": str(self.limits), **variables}, real
        )

    def play(self, playbook: str, *words: str, phase: str, **variables: object) -> Played:
        """One of the collection's, by its name there; says how long it took."""
        argv = ["-i", self.inventory, *words, "-e", json.dumps(variables), f"plimsoll.cloud.{playbook}"]
        started = time.monotonic()
        played = play(argv, self.environment, TIMEOUT, cwd=self._home)
        self._say(f"rollout: {phase} in {time.monotonic() - started:.0f} s")
        return played

    # --- how the hosts are

    def versions(self, hosts: Sequence[str]) -> dict[str, str]:
        """What is in force on each; "none" where nothing is."""
        ask = "basename $(readlink /opt/plimsoll/current || echo none)"
        return {host: self.fleet.run(host, ask).strip() for host in hosts}


def changes_of(played: Played) -> dict[str, int]:
    """How much Ansible says to have changed on each host."""
    return {host: stats["changed"] for host, stats in played.report["stats"].items() if host != "localhost"}


def text_of(played: Played) -> str:
    """All that a person is told, in one line."""
    return re.sub(r"\s+", " ", " ".join([*map(str, played.said), *map(str, played.failures.values())]))
