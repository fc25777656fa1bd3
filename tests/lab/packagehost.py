"""A host with systemd that has a repository of packages on its disk, for package managers."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.cloud.fleet import Fleet
from lab.cloud.fleethost import NODE_XML

HOST = "r2-c3"
SETTINGS = f"[libvirt]\nuri = test://{NODE_XML}"
# These hosts have no group libvirt.
SITE = "/etc/systemd/system/plimsoll-enforce.service.d/site.conf"


@dataclass(frozen=True)
class Host:
    fleet: Fleet

    def run(self, command: str, check: bool = True) -> str:
        return self.fleet.run(HOST, command, timeout=120, check=check)

    def refused(self, command: str) -> str:
        """What a command says that must fail."""
        return self.run(f"if {command}; then echo 'it did not fail'; exit 1; fi 2>&1")

    def receive(self, repository: Path) -> None:
        """Put it into /srv/plimsoll; and the setting of the site without which no unit would start."""
        with subprocess.Popen(["tar", "-C", str(repository), "-cf", "-", "."], stdout=subprocess.PIPE) as packed:
            unpack = [
                *self.fleet.ssh(HOST),
                "mkdir /srv/plimsoll && tar -C /srv/plimsoll -xf - && chmod 755 /srv/plimsoll",
            ]
            subprocess.run(unpack, stdin=packed.stdout, check=True, timeout=60)
        self.run(f"mkdir {SITE.rpartition('/')[0]}; printf '[Service]\\nSupplementaryGroups=\\n' > {SITE}")

    @property
    def version(self) -> str:
        return self.run("plimsoll --version").split()[1]
