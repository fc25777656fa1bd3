"""The ``plimsoll`` command on the lab's libvirtd, with settings, rules and state of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.cloud import Cloud, Guest
from lab.command import PLIMSOLL, Forked, Installed
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import State


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str

    def data(self) -> Any:
        return json.loads(self.out)


class Node:
    """A compute node as its operator has it."""

    def __init__(
        self,
        home: Path,
        cloud: Cloud,
        rules: str = "{}\n",
        mode: str = "enforce",
        deadline: float = 5,
        *,
        braked: bool = False,
    ) -> None:
        """``braked`` is with the brake as it is shipped: elsewhere it must not stand in the way of what is tested."""
        self.home = home
        self.state = State(home / "state")
        self.catalogue = home / "catalogue"
        self.environment = os.environ | {"COLUMNS": "200", "PATH": f"{cloud.layout.commands}:{os.environ['PATH']}"}
        self.settings = home / "plimsoll.conf"
        self.settings.write_text(
            f"[DEFAULT]\nmode = {mode}\nrules_file = {home}/rules.yaml\nstate_dir = {home}/state\n"
            f"pause_file = {home}/paused\n[libvirt]\nuri = {cloud.libvirt_uri}\ndeadline = {deadline}\n"
            f"[ceph]\nconf_files = {cloud.ceph.conf}\ndeadline = 5\n"
            + ("" if braked else "[brake]\npercent = 100\nfactor = 1000000\nlowest_iops = 0\nlowest_bytes = 0\n")
        )
        self.write_rules(rules)

    def use_cinder(self, cloud: Cloud, **settings: object) -> None:
        """Let it ask the lab's Cinder itself, as its administrator unless ``cloud`` names another login."""
        clouds = self.home / "clouds.yaml"
        if not clouds.exists():
            cloud.openstack.clouds_yaml(clouds)
        self.environment["OS_CLIENT_CONFIG_FILE"] = str(clouds)
        self.use_catalogue(**{"source": "openstack", "cloud": "lab", "nova": False} | settings)

    def use_region_file(self, file: Path | str, key: Path, **settings: object) -> None:
        self.use_catalogue(**{"source": "region-file", "region_file": file, "region_key": key} | settings)

    def use_catalogue(self, **settings: object) -> None:
        self.catalogue.mkdir(exist_ok=True)
        self._set_section("catalogue", {"directory": self.catalogue, "interval": 60} | settings)

    def use_probes(self, **settings: object) -> None:
        """How guests are probed, in the place of what was said before: short runs on a small file of the volume."""
        short = {"directory": "/mnt/volume", "seconds": 6, "file_size": 2**26, "keep_free": 2**20, "grace": 10}
        self._set_section("probe", short | settings)

    def use_metrics(self, directory: Path, detail: str = "disk") -> None:
        """Written there by every pass and probe, for a node_exporter."""
        self._set_section("metrics", {"textfile_dir": directory, "detail": detail})

    def use_congestion(self, **settings: object) -> None:
        self._set_section("congestion", settings)

    def read_consoles(self) -> None:
        """After every pass over the whole node."""
        self._set_section("consoles", {"read": "true"})

    def _set_section(self, name: str, settings: dict[str, object]) -> None:
        lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
        text = re.sub(rf"^\[{name}\]\n(?:[^\[\n].*\n)*", "", self.settings.read_text(), flags=re.MULTILINE)
        self.settings.write_text(f"{text}[{name}]\n{lines}")

    def set_mode(self, mode: str) -> None:
        """Instead of the one that the node was made with."""
        text = self.settings.read_text()
        self.settings.write_text(re.sub(r"^mode = \w+$", f"mode = {mode}", text, flags=re.MULTILINE))

    def set_ceph_conf(self, file: Path) -> None:
        text = self.settings.read_text()
        self.settings.write_text(re.sub(r"^conf_files = .*$", f"conf_files = {file}", text, flags=re.MULTILINE))

    @property
    def record(self) -> Record:
        return Record(self.state.record)

    def write_rules(self, text: str) -> None:
        (self.home / "rules.yaml").write_text(text)

    def command(self, *words: str) -> list[str]:
        """``plimsoll`` with these words, on this node."""
        return [str(PLIMSOLL), "--config-file", str(self.settings), *words]

    def start(self, *words: str, installed: bool = False) -> subprocess.Popen[str]:
        """Forked from what has it imported already, unless it is to be the installed program itself."""
        start = Installed if installed else Forked
        pipe = subprocess.PIPE
        return start("--config-file", self.settings, *words, stdout=pipe, stderr=pipe, env=self.environment)

    def run(self, *words: str, timeout: float = 60, installed: bool = False) -> Ran:
        process = self.start(*words, installed=installed)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Ran(process.returncode, out, err)


def only(*guests: Guest) -> list[str]:
    """The words that limit a command to these guests."""
    return [word for guest in guests for word in ("--guest", guest.uuid)]
